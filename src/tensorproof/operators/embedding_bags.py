"""EmbeddingBag: rows of a table, summed, averaged or maximised in bags of neighbouring indices, which ONNX does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Array
from tensorproof.frontends.calls import OWN
from tensorproof.graph import ABSENT
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.elementwise import corners, product
from tensorproof.ranges.grid import every
from tensorproof.ranges.range import SPECIALS, Range
from tensorproof.ranges.sums import keep_sign, report_partial_overflow, summation_error
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall

_MODES = ("sum", "mean", "max")


@operator("EmbeddingBag", domain=OWN, error=CORRECT, overflow=ACCUMULATION_OVERFLOW, steered_by=(2,))
def embedding_bag(op: Call, table: Range, indices: Range, offsets: Range, factors: Range | None = None) -> Range:
    """Between the rows that the indices can name, as many as a bag holds; an empty bag is zero."""
    rows, width = table.sizes
    first, last = (int(np.clip(end, 0, rows - 1)) for end in indices.hull())
    named = table.refine_fully(0).select(lambda array: array[first : last + 1]) if rows * width <= op.cells else table
    columns = named.smash((0,))
    low, high = (np.broadcast_to(end, (1, columns.cells[1])) for end in (columns.low, columns.high))
    fewest, most = _counts(op, indices.size, offsets)
    if factors is not None:
        low, high = corners(product)(low, high, *(np.full((1, 1), end) for end in factors.hull()))
    magnitude = np.maximum(np.abs(low), np.abs(high))
    if op.attribute("mode") == "sum":
        error = summation_error(op, magnitude * most, most, table.format, products=factors is not None)
        nonnegative, nonpositive = low >= 0.0, high <= 0.0
        low, high = np.minimum(low * fewest, low * most) - error, np.maximum(high * fewest, high * most) + error
        low, high = keep_sign(low, high, nonnegative, nonpositive)
    else:
        if op.attribute("mode") == "mean":
            error = summation_error(op, magnitude, most + 2, table.format, products=False)
            low, high = keep_sign(low - error, high + error, low >= 0.0, high <= 0.0)
        low, high = np.where(fewest == 0, np.minimum(low, 0.0), low), np.where(fewest == 0, np.maximum(high, 0.0), high)
        low, high = np.where(most == 0, 0.0, low), np.where(most == 0, 0.0, high)
    special = np.full(low.shape, SPECIALS, np.uint8) if columns.has_special else None
    result = Range(table.format, (len(most), width), (every(len(most)), columns.grid[1]), low, high, special)
    if op.attribute("mode") != "max":
        partial = np.broadcast_to(magnitude * most, low.shape)
        report_partial_overflow(op, result, -partial, partial)
    return result


def _counts(op: Call, total: int, offsets: Range) -> tuple[Array, Array]:
    """The smallest and the largest number of indices in each bag, one row for each."""
    bags = offsets.size - int(op.attribute("include_last_offset", 0))
    starts = offsets.integers()
    if starts is None:
        return np.zeros((bags, 1)), np.full((bags, 1), float(total))
    ends = np.append(starts.reshape(-1), total)[: bags + 1]
    counts = np.maximum(np.diff(ends), 0).astype(np.float64)[:, None]
    # Any index may be the one that counts as none.
    return counts if op.attribute("padding_idx") is None else np.zeros_like(counts), counts


@embedding_bag.meaning
def _(run: Run, table: Tensor, indices: Tensor, offsets: Tensor, factors: Tensor | None = None) -> Tensor:
    return run.torch.nn.functional.embedding_bag(
        run.whole(indices),
        table,
        run.whole(offsets),
        mode=run.attribute("mode"),
        per_sample_weights=factors,
        include_last_offset=bool(run.attribute("include_last_offset", 0)),
        padding_idx=run.attribute("padding_idx"),
    )


@embedding_bag.aten("embedding_bag", "embedding_bag.padding_idx", "_embedding_bag", "_embedding_bag_forward_only")
def _(call: AtenCall) -> tuple[int, ...]:
    """The bags; which bag an index is in, how large bags are and where maxima stand only the backward pass reads."""
    format = call.result.format
    if call.rank("indices") != 1:
        raise NotAnalysed("bags are given by offsets into a row of indices")
    # The private overloads write -1 for no padding.
    padding = call.get("padding_idx", -1)
    bags = call.own(
        "EmbeddingBag",
        call.tensor("weight", format),
        call.tensor("indices"),
        call.tensor("offsets"),
        call.tensor("per_sample_weights", format),
        mode=_MODES[int(call["mode"])],
        include_last_offset=int(bool(call.get("include_last_offset", False))),
        padding_idx=None if padding == -1 else int(padding),
        formats=(format,),
    )
    return bags, ABSENT, ABSENT, ABSENT
