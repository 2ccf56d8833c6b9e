"""Linear attention: a matrix of memory per head, written and read at every position (ONNX LinearAttention-27).

The recurrence is followed position by position in float32, as the standard's text has it. Each step is bounded in several
forms that are equal in exact arithmetic, because in each of them other operands occur only once; the narrowest ends count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, Array
from tensorproof.operators.attention import merge_heads, split_heads
from tensorproof.operators.softmax import FUNCTION_ERROR
from tensorproof.operators.table import CORRECT, RESULT, Call, operator
from tensorproof.ranges.grid import Cuts, fine, union
from tensorproof.ranges.moving import affordable
from tensorproof.ranges.range import CELL_BUDGET, SPECIALS, Range
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

#: Positions that are followed one by one.
LONGEST = 1 << 14

_U = 1.01 * FLOAT32.unit_roundoff
_ETA = FLOAT32.smallest_subnormal


@dataclass(frozen=True, slots=True)
class Box:
    """Lower and upper ends of arrays, and their arithmetic without rounding."""

    low: Array
    high: Array

    @property
    def size(self) -> Array:
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def at(self, *index: Any) -> Box:
        return Box(self.low[index], self.high[index])

    def sum(self, axis: int) -> Box:
        return Box(self.low.sum(axis=axis), self.high.sum(axis=axis))

    def padded(self, error: Array) -> Box:
        return Box(self.low - error, self.high + error)

    def meet(self, other: Box) -> Box:
        return Box(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def __add__(self, other: Box) -> Box:
        return Box(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Box) -> Box:
        return Box(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Box) -> Box:
        corners = self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high
        return Box(np.minimum.reduce(corners), np.maximum.reduce(corners))


def _square(x: Box) -> Box:
    nearest = np.where(x.low > 0, x.low, np.where(x.high < 0, -x.high, 0.0))
    return Box(nearest**2, x.size**2)


def _exponential(x: Box) -> Box:
    slack = FUNCTION_ERROR * _U
    return Box(np.exp(x.low) * (1.0 - slack), np.exp(x.high) * (1.0 + slack) + _ETA)


@dataclass(frozen=True, slots=True)
class Step:
    """One position: key (..., size), value (..., features), and the rate at which the memory is corrected, if it is."""

    key: Box
    value: Box
    rate: Box | None

    def written(self, memory: Box) -> tuple[Box, Box, Array]:
        """The memory after the step and what was written, both in exact arithmetic, and the rounding error of the memory."""
        k = self.key.at(..., None)
        if self.rate is None:
            v, drift = self.value, np.zeros_like(self.value.low)
            exact = memory + k * v.at(..., None, slice(None))
        else:
            terms = memory * k
            retrieved = terms.sum(-2)
            reach = (memory.size * k.size).sum(axis=-2)
            v = self.rate * (self.value - retrieved)
            count = k.low.shape[-2]
            drift = self.rate.size * (((count + 3) * _U) * (reach + self.value.size) + count * _ETA) + _ETA
            exact = memory + k * v.at(..., None, slice(None))
            # memory (1 - rate k^2) + rate k (value - what all other keys retrieve): the own memory occurs once.
            rate = self.rate.at(..., None)
            others = Box(retrieved.low[..., None, :] - terms.low, retrieved.high[..., None, :] - terms.high)
            slack = 2.0**-48 * reach[..., None, :]
            rest = self.value.at(..., None, slice(None)) - others.padded(slack)
            one = Box(np.ones(()), np.ones(()))
            exact = exact.meet(memory * (one - rate * _square(k)) + (rate * k) * rest)
        product = k.size * v.size[..., None, :]
        error = k.size * drift[..., None, :] + _U * (product + exact.size + k.size * drift[..., None, :]) + _ETA
        return exact, v, error

    def read(self, query: Box, before: Box, after: Box, written: Box, error: Array) -> Box:
        """query @ memory after the step; the query has a group of rows per memory."""
        q, old = query.at(..., None), before.at(slice(None), slice(None), None)
        new = after.padded(error).at(slice(None), slice(None), None)
        result = (q * new).sum(-2)
        reach = (q.size * new.size).sum(axis=-2)
        k = self.key.at(slice(None), slice(None), None)
        match = (query * k).sum(-1).at(..., None)
        slack = (q.size * error[:, :, None]).sum(axis=-2) + 2.0**-48 * reach
        value = self.value.at(slice(None), slice(None), None)
        result = result.meet(((q * old).sum(-2) + match * written.at(slice(None), slice(None), None)).padded(slack))
        if self.rate is not None:
            # The old memory once: sum(memory (q - rate (q k) k)) + rate (q k) value.
            weight = self.rate.at(slice(None), slice(None), None) * match
            once = (old * (query - weight * k).at(..., None)).sum(-2) + weight * value
            result = result.meet(once.padded(slack))
        count = q.low.shape[-2]
        return result.padded((count + 2) * _U * reach + count * _ETA)


def _box(x: Range, cuts: Cuts) -> Box:
    """(samples, heads, positions, features) with one entry per element of the last three axes."""
    x = x.refine(0, cuts)
    for axis in (1, 2, 3):
        x = x.refine_fully(axis)
    empty = x.low > x.high
    return Box(np.where(empty, 0.0, x.low), np.where(empty, 0.0, x.high))


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
    readers, heads = int(op.attribute("q_num_heads")), int(op.attribute("kv_num_heads"))
    batch, length, width = query.sizes
    size, features = width // readers, value.sizes[2] // heads
    if 0 in (batch, length):
        raise NotAnalysed("no position at all")
    if length > LONGEST:
        raise NotAnalysed(f"more than {LONGEST} positions")
    operands = {
        "query": split_heads(affordable(query), readers),
        "key": split_heads(affordable(key), heads),
        "value": split_heads(affordable(value), heads),
    }
    if past is not None:
        operands["past"] = affordable(past)
    if decay is not None:
        operands["decay"] = split_heads(affordable(decay), heads)
    if beta is not None:
        # One rate for all heads, or one per head.
        operands["beta"] = split_heads(affordable(beta), min(heads, beta.sizes[2]))
    cuts: Cuts = None
    for x in operands.values():
        cuts = union(cuts, x.grid[0])
    if cuts is not None and (len(cuts) - 1) * readers * max(length, size) * max(size, features) > 4 * CELL_BUDGET:
        cuts, operands = None, {name: x.smash((0,)) for name, x in operands.items()}
    boxes = {name: _box(x, cuts) for name, x in operands.items()}
    samples = len(boxes["key"].low)
    nothing = np.zeros((samples, heads, size, features))
    memory = boxes.get("past", Box(nothing, nothing))
    queries = Box(*(end.reshape(samples, heads, -1, length, size) for end in (boxes["query"].low, boxes["query"].high)))
    scale = op.attribute("scale", 0.0) or 1.0 / np.sqrt(size)
    outputs: list[Box] = []
    is_finite = True
    for position in range(length):
        here = slice(None), slice(None), position
        if "decay" in boxes:
            memory = memory * _exponential(boxes["decay"].at(*here)).at(..., None)
            memory = memory.padded(_U * memory.size + _ETA)
        rate = boxes["beta"].at(*here) if "beta" in boxes else None
        step = Step(boxes["key"].at(*here), boxes["value"].at(*here), rate)
        exact, written, error = step.written(memory)
        read = step.read(queries.at(slice(None), slice(None), slice(None), position), memory, exact, written, error)
        memory = exact.padded(error)
        scaled = read * Box(np.asarray(scale), np.asarray(scale))
        outputs.append(scaled.padded(2 * _U * scaled.size + _ETA))
        is_finite = is_finite and all(bool((x.size <= FLOAT32.high).all()) for x in (memory, written, read))
    flags = SPECIALS if any(x.has_special for x in operands.values()) else 0
    # (samples, heads, group, positions, features) as (samples, query heads, positions, features).
    low, high = np.stack([y.low for y in outputs], axis=3), np.stack([y.high for y in outputs], axis=3)
    low, high = (end.reshape(samples, readers, length, features) for end in (low, high))
    special = np.full(low.shape, flags, np.uint8)
    grid = (cuts, *fine((readers, length, features)))
    output = Range(query.format, (batch, readers, length, features), grid, low, high, special)
    grid = (cuts, *fine((heads, size, features)))
    special = np.full(memory.low.shape, flags, np.uint8)
    format = query.format if past is None else past.format
    present = Range(format, (batch, heads, size, features), grid, memory.low, memory.high, special)
    if not is_finite:
        op.report(ACCUMULATION_OVERFLOW, RESULT, present, True, gives=SPECIALS)
    return merge_heads(output), present
