"""Reshapes that multiply the number of rows: marked where they happen, and blamed where the rows meet those of the batch."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from tensorproof.rules.shapes.batch_changing_reshape import BATCH_CHANGING_RESHAPE
from tensorproof.shapes.problems import Related
from tensorproof.shapes.sizes import Polynomial, Size, divide_exactly, is_unknown, same
from tensorproof.shapes.values import History, Tensor

if TYPE_CHECKING:
    from tensorproof.shapes.rule_table import Call


def _factor(before: Size, after: Size) -> Size | None:
    """By what number the rows are multiplied; None if they are not, or that is not known."""
    if is_unknown(before) or is_unknown(after) or before == 0:
        return None
    factor = divide_exactly(after, before)
    if isinstance(factor, Fraction):
        return Polynomial({(): factor})
    return factor if isinstance(factor, int) and factor > 1 else None


def marked(call: Call, source: Tensor, result: Tensor) -> Tensor:
    """The result of a reshape that gives other rows than its source has; the mark goes when a later reshape restores them."""
    if not source.shape.head or not result.shape.head:
        return result
    before, after = source.shape.head[0], result.shape.head[0]
    if source.batch_factor is not None:
        factor, step = source.batch_factor
        original = divide_exactly(before, factor)
        restored = isinstance(original, int | Polynomial) and same(original, after)
        return replace(result, batch_factor=None if restored else (factor, step))
    factor = _factor(before, after)
    if factor is None:
        return result
    step = History(call.place, f"{call.name} of {source.shape} gives {result.shape}", source.history)
    return replace(result, batch_factor=(factor, step))


def meeting(call: Call, left: Tensor, right: Tensor) -> bool:
    """Whether two tensors disagree because a reshape multiplied the rows of one of them: then the reshape is reported.

    A rule asks before it reports that the sizes of two operands differ; if the answer is yes it reports nothing itself.
    """
    for one, other in ((left, right), (right, left)):
        if one.batch_factor is None or not one.shape.head or not other.shape.head:
            continue
        factor, step = one.batch_factor
        if other.batch_factor is None and same(one.shape.head[0], factor * other.shape.head[0]):
            rows = other.shape.head[0]
            call.run.report(
                BATCH_CHANGING_RESHAPE,
                step.place,
                f"{step.message}: {factor} rows for each sample; {one.shape} meets {other.shape} with {rows} rows later",
                certain=False,
                related=(Related(call.place, f"{one.shape} meets {other.shape} here"),),
                tensors=(one,),
                operation=call.name,
            )
            return True
    return False
