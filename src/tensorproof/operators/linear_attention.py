"""Linear attention: a matrix of memory per head, written and read at every position (ONNX LinearAttention-27).

The recurrence is followed position by position in float32, as the standard's text has it; chunked evaluations sum the same
products in another order. Each step bounds its products one by one: that a key is used twice, and a value by all features of the
memory, is not used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.operators.attention import merge_heads, split_heads
from tensorproof.operators.softmax import FUNCTION_ERROR
from tensorproof.operators.table import CORRECT, RESULT, Call, operator
from tensorproof.ranges.grid import Cuts, Grid, Shape, fine, union
from tensorproof.ranges.moving import affordable
from tensorproof.ranges.range import CELL_BUDGET, SPECIALS, Range
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

#: Positions that are followed one by one.
_LONGEST = 1 << 14


class _Box(NamedTuple):
    """Lower and upper ends."""

    low: Array
    high: Array

    def size(self) -> Array:
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def at(self, position: int) -> _Box:
        return _Box(self.low[:, :, position], self.high[:, :, position])

    def reshaped(self, *index: None | slice) -> _Box:
        return _Box(self.low[(..., *index)], self.high[(..., *index)])

    def padded(self, error: Array) -> _Box:
        return _Box(self.low - error, self.high + error)


def _times(a: _Box, b: _Box) -> _Box:
    corners = a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high
    return _Box(np.minimum.reduce(corners), np.maximum.reduce(corners))


def _plus(a: _Box, b: _Box) -> _Box:
    return _Box(a.low + b.low, a.high + b.high)


class _Arithmetic:
    """Interval arithmetic with the rounding errors of a format."""

    def __init__(self, format: Format) -> None:
        self.u = format.unit_roundoff * 1.01
        self.eta = format.smallest_subnormal

    def product(self, a: _Box, b: _Box) -> _Box:
        result = _times(a, b)
        return result.padded(self.u * result.size() + self.eta)

    def sum(self, a: _Box, b: _Box) -> _Box:
        result = _plus(a, b)
        return result.padded(self.u * result.size())

    def dot(self, a: _Box, b: _Box, axis: int) -> _Box:
        """The sum of products along an axis."""
        terms = _times(a, b)
        error = (terms.low.shape[axis] + 1) * (self.u * terms.size().sum(axis=axis) + self.eta)
        return _Box(terms.low.sum(axis=axis), terms.high.sum(axis=axis)).padded(error)

    def exponential(self, x: _Box) -> _Box:
        slack = FUNCTION_ERROR * self.u
        return _Box(np.exp(x.low) * (1.0 - slack), np.exp(x.high) * (1.0 + slack) + self.eta)


def _box(x: Range, cuts: Cuts) -> _Box:
    """(batch cells, heads, positions, features) with one entry per element of the last three axes."""
    x = x.refine(0, cuts)
    for axis in (1, 2, 3):
        x = x.refine_fully(axis)
    empty = x.low > x.high
    return _Box(np.where(empty, 0.0, x.low), np.where(empty, 0.0, x.high))


@operator(
    "LinearAttention",
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    coarse="the memory is a box: that its elements come from the same keys and values is not used",
)
def linear_attention(
    op: Call,
    query: Range,
    key: Range,
    value: Range,
    past: Range | None = None,
    decay: Range | None = None,
    beta: Range | None = None,
) -> tuple[Range, ...]:
    """Each position writes key times value into a memory, decayed or corrected before, and reads it with the query."""
    q_heads, heads = int(op.attribute("q_num_heads")), int(op.attribute("kv_num_heads"))
    rule = op.attribute("update_rule", "gated_delta")
    batch, length, width = query.sizes
    d_k, d_v = width // q_heads, value.sizes[2] // heads
    state_format = query.format if past is None else past.format
    if 0 in (batch, length):
        raise NotAnalysed("no position at all")
    if length > _LONGEST:
        raise NotAnalysed(f"more than {_LONGEST} positions")
    operands = [split_heads(affordable(x), n) for x, n in ((query, q_heads), (key, heads), (value, heads))]
    if past is not None:
        operands.append(affordable(past))
    if decay is not None:
        operands.append(split_heads(affordable(decay), heads))
    if beta is not None:
        # One rate for all heads, or one per head.
        operands.append(split_heads(affordable(beta), min(heads, beta.sizes[2])))
    cuts: Cuts = None
    for x in operands:
        cuts = union(cuts, x.grid[0])
    if cuts is not None and (len(cuts) - 1) * q_heads * max(length, d_k) * max(d_k, d_v) > 4 * CELL_BUDGET:
        cuts, operands = None, [x.smash((0,)) for x in operands]
    boxes = iter([_box(x, cuts) for x in operands])
    q, k, v = next(boxes), next(boxes), next(boxes)
    samples, group = k.low.shape[0], q_heads // heads
    q = _Box(*(end.reshape(samples, heads, group, length, d_k) for end in q))
    state = _Box(np.zeros((samples, heads, d_k, d_v)), np.zeros((samples, heads, d_k, d_v))) if past is None else next(boxes)
    gates = next(boxes) if decay is not None else None
    rates = next(boxes) if beta is not None else None
    scale = op.attribute("scale", 0.0) or 1.0 / np.sqrt(d_k)
    exact = _Arithmetic(FLOAT32)
    outputs: list[_Box] = []
    is_finite = True
    for position in range(length):
        k_t, v_t = k.at(position), v.at(position)
        q_t = _Box(q.low[:, :, :, position], q.high[:, :, :, position])
        if gates is not None and rule in ("gated", "gated_delta"):
            state = exact.product(state, exact.exponential(gates.at(position)).reshaped(None))
        if rates is not None and rule in ("delta", "gated_delta"):
            retrieved = exact.dot(state, k_t.reshaped(None), 2)
            v_t = exact.product(rates.at(position), exact.sum(v_t, _Box(-retrieved.high, -retrieved.low)))
        state = exact.sum(state, exact.product(k_t.reshaped(None), v_t.reshaped(None, slice(None))))
        # Every head of the memory is read by its group of queries.
        read = exact.dot(q_t.reshaped(None), _Box(state.low[:, :, None], state.high[:, :, None]), 3)
        outputs.append(exact.product(read, _Box(np.asarray(scale), np.asarray(scale))))
        is_finite = is_finite and bool((state.size() <= FLOAT32.high).all()) and bool((read.size() <= FLOAT32.high).all())
    flags = 0
    for x in (query, key, value, past, decay, beta):
        flags |= SPECIALS if x is not None and x.has_special else 0
    special = np.full((), flags, np.uint8)
    low, high = np.stack([y.low for y in outputs], axis=3), np.stack([y.high for y in outputs], axis=3)
    # (samples, heads, group, positions, features) as (samples, query heads, positions, features).
    low, high = (part.reshape(samples, q_heads, length, d_v) for part in (low, high))
    grid: Grid = (cuts, *fine((q_heads, length, d_v)))
    shape: Shape = (batch, q_heads, length, d_v)
    output = Range(query.format, shape, grid, low, high, np.broadcast_to(special, low.shape))
    present = Range(
        state_format,
        (batch, heads, d_k, d_v),
        (cuts, *fine((heads, d_k, d_v))),
        state.low,
        state.high,
        np.broadcast_to(special, state.low.shape),
    )
    if not is_finite:
        op.report(ACCUMULATION_OVERFLOW, RESULT, present, True, gives=SPECIALS)
    return merge_heads(output), present

