"""Masks added to scores before a softmax, with numbers that leave the room that the format has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensorproof.formats import Format
from tensorproof.graph import Node
from tensorproof.repair.editing import Editor
from tensorproof.repair.matching import MOVES, behind_moves, result, uniform_number, users
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.rewrites import rewrite

#: A constant with more elements is clipped where it is read, not written out anew.
_SMALL = 1024

#: A constant of a mask is at least this part of the format's lowest number.
_PART = 0.1

#: Between a mask and its softmax stand at most so many nodes.
_REACH = 12

#: What may stand between a mask and its softmax.
_PASSING = MOVES | {"Add", "Sub", "Where"}


@dataclass(frozen=True, slots=True)
class _Fill:
    """An operand that holds the number of a mask: of a product with a mask, of a choice, or of the sum itself.

    `sign` is -1 where the operand is subtracted. `path` are the nodes from the reader on to the softmax.
    """

    reader: Node
    operand: int
    sign: int
    path: tuple[Node, ...]


@rewrite("Softmax", "LogSoftmax")
def masks(case: Case, node: Node) -> Proposal:
    """A score that is masked needs an exponential of 0, not a score of -inf: a fraction of the format's lowest number is enough.

    A number below the format's lowest is -inf once it is converted, 0 * -inf is NaN, and a row of -inf has no softmax. Each of
    n masks gets a fraction of the lowest number, by a power of 2 above n, so that the sum with the scores stays finite. Rows that
    are masked as a whole become a softmax of their scores where masks are added, and uniform where they are chosen.
    """
    format = case.format(node.inputs[0])
    if format is None or not format.is_float:
        raise Declined("the format of the scores is not known")
    fills = [fill for fill in _fills(case, node.inputs[0], 1, (node,)) if _lowest(case, fill) < format.low * _PART]
    if not fills:
        raise Declined("no constant of a mask is added to the scores")
    bound = format.low / 2 ** len(fills).bit_length()
    low = [fill for fill in fills if _lowest(case, fill) < bound]
    if not low:
        raise Declined(f"the constants of the masks are not below {bound:.6g}")
    if not all(_leads_to_softmax_only(case, fill.reader) for fill in low):
        raise Declined("the masked scores, or the mask, are read by something else than a softmax, too")
    is_safe = node.op == "Softmax" and _outweighs_scores(case, node, low, bound, format)

    def edit(editor: Editor) -> None:
        for fill in low:
            _lift(case, editor, fill, bound, format)

    names = [made.name for fill in low for made in (*_behind(case, fill), *fill.path)]
    return Proposal(
        "rewrite",
        "masks",
        case.finding,
        f"the mask's constant becomes {bound:.6g}",
        f"the exponential of {bound:.6g} is 0, and the sum with the scores stays finite",
        is_safe,
        tuple(dict.fromkeys(names)),
        edit,
    )


def _fills(case: Case, value: int, sign: int, path: tuple[Node, ...]) -> Iterator[_Fill]:
    """The constants of masks that a sum is made of, behind moves."""
    value, moves = behind_moves(case, value)
    path = (*moves, *path)
    node = case.structure.producer(value, "Add", "Sub", "Where", "Mul")
    if node is None or len(path) > _REACH:
        return
    if node.op == "Add" or node.op == "Sub":
        for index, operand in enumerate(node.inputs):
            term = -sign if node.op == "Sub" and index == 1 else sign
            if _is_constant(case, operand):
                yield _Fill(node, index, term, (node, *path))
            else:
                yield from _fills(case, operand, term, (node, *path))
    else:
        chosen = (1, 2) if node.op == "Where" else (0, 1)
        yield from (_Fill(node, index, sign, (node, *path)) for index in chosen if _is_constant(case, node.inputs[index]))
        if node.op == "Where":
            for operand in node.inputs[1:]:
                yield from _fills(case, operand, sign, (node, *path))


def _is_constant(case: Case, value: int) -> bool:
    return case.number(behind_moves(case, value)[0]) is not None


def _lowest(case: Case, fill: _Fill) -> float:
    """The lowest number that the constant adds to the scores."""
    array = case.number(behind_moves(case, fill.reader.inputs[fill.operand])[0])
    return math.inf if array is None or array.size == 0 else float((fill.sign * array).min())


def _leads_to_softmax_only(case: Case, node: Node, reach: int = _REACH) -> bool:
    """Whether all that reads a result adds to it, chooses or moves it, and takes a softmax."""
    readers = users(case, result(node))
    if reach == 0 or not readers or result(node) in case.model.graph.outputs:
        return False
    onwards = [reader for reader in readers if reader.op not in ("Softmax", "LogSoftmax")]
    return all(reader.op in _PASSING and _leads_to_softmax_only(case, reader, reach - 1) for reader in onwards)


def _outweighs_scores(case: Case, node: Node, fills: list[_Fill], bound: float, format: Format) -> bool:
    """Whether a masked score's exponential is 0 next to the largest, whatever the scores: they span less than the constant."""
    spans: list[float] = []
    for fill in fills:
        for value in (value for made in fill.path if made.op in ("Add", "Sub", "Where") for value in made.inputs):
            summary = case.summary(value)
            if summary is None or not summary.format.is_float or _holds_fill(case, value, fills):
                continue
            spans.append(summary.high - summary.low)
    # exp underflows to 0 below the logarithm of half the smallest number.
    vanishing = -math.log(format.smallest_subnormal / 2.0)
    return all(span + vanishing < -bound for span in spans)


def _holds_fill(case: Case, value: int, fills: list[_Fill]) -> bool:
    made = case.structure.producer(behind_moves(case, value)[0])
    return any(value == fill.reader.inputs[fill.operand] or (made is not None and made in fill.path) for fill in fills)


def _behind(case: Case, fill: _Fill) -> tuple[Node, ...]:
    """The moves that make a constant what its reader reads, if only that reads it."""
    moves = behind_moves(case, fill.reader.inputs[fill.operand])[1]
    return tuple(move for move in moves if len(users(case, result(move))) == 1)


def _lift(case: Case, editor: Editor, fill: _Fill, bound: float, format: Format) -> None:
    """Let the constant be no lower than the bound."""
    spot = editor.before(fill.reader, "mask")
    old = fill.reader.inputs[fill.operand]
    shape = case.shape(old)
    if uniform_number(case, old) is not None and shape is not None and math.prod(shape) <= _SMALL:
        new = spot.constant(np.full(shape, fill.sign * bound), format.dtype)
    elif fill.sign > 0:
        new = spot.clip(spot.name(old), bound, None, format.dtype)
    else:
        new = spot.clip(spot.name(old), None, -bound, format.dtype)
    editor.rewire(fill.reader, fill.operand, new)
