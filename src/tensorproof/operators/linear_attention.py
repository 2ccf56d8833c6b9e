"""Linear attention: a matrix of memory per head, written and read at every position (ONNX LinearAttention-27).

The recurrence is followed position by position in float32, as the standard's text has it. Each step is bounded in several
forms that are equal in exact arithmetic, because in each of them other operands occur only once; the narrowest ends count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, Array
from tensorproof.operators.attention import for_heads, heads_apart, heads_joined, merge_heads, split_heads
from tensorproof.operators.softmax import FUNCTION_ERROR
from tensorproof.operators.table import CORRECT, RESULT, Call, operator
from tensorproof.ranges.grid import Cuts, cell_sizes, fine, union
from tensorproof.ranges.moving import affordable
from tensorproof.ranges.range import CELL_BUDGET, SPECIALS, Range
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

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
    """One position: key (..., size), value (..., features), and the rate at which the memory is corrected, if it is.

    Cells along the size of a key stand for `counts` elements each.
    """

    key: Box
    value: Box
    rate: Box | None
    counts: Array

    def total(self, terms: Box) -> Box:
        """The sum over the size of a key, which is the last axis but one."""
        return Box(self.counts @ terms.low, self.counts @ terms.high)

    def written(self, memory: Box) -> tuple[Box, Box, Array]:
        """The memory after the step and what was written, both in exact arithmetic, and the rounding error of the memory."""
        k = self.key.at(..., None)
        if self.rate is None:
            v, drift = self.value, np.zeros_like(self.value.low)
            exact = memory + k * v.at(..., None, slice(None))
        else:
            terms = memory * k
            retrieved = self.total(terms)
            reach = self.counts @ (memory.size * k.size)
            v = self.rate * (self.value - retrieved)
            count = self.counts.sum()
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
        result = self.total(q * new)
        reach = self.counts @ (q.size * new.size)
        k = self.key.at(slice(None), slice(None), None)
        match = self.total((query * k).at(..., None))
        slack = self.counts @ (q.size * error[:, :, None]) + 2.0**-48 * reach
        value = self.value.at(slice(None), slice(None), None)
        result = result.meet((self.total(q * old) + match * written.at(slice(None), slice(None), None)).padded(slack))
        if self.rate is not None:
            # The old memory once: sum(memory (q - rate (q k) k)) + rate (q k) value.
            weight = self.rate.at(slice(None), slice(None), None) * match
            once = self.total(old * (query - weight * k).at(..., None)) + weight * value
            result = result.meet(once.padded(slack))
        count = self.counts.sum()
        return result.padded((count + 2) * _U * reach + count * _ETA)


def _box(x: Range) -> Box:
    empty = x.low > x.high
    return Box(np.where(empty, 0.0, x.low), np.where(empty, 0.0, x.high))


def _united(operands: dict[str, Range], axes: dict[str, int]) -> dict[str, Range]:
    """Operands with the same cells along one axis that they share."""
    cuts: Cuts = None
    for name, axis in axes.items():
        if name in operands:
            cuts = union(cuts, operands[name].grid[axis])
    return {name: x.refine(axes[name], cuts) if name in axes else x for name, x in operands.items()}


def _on_common_cells(operands: dict[str, Range]) -> dict[str, Range]:
    """Operands with the same cells along samples, heads, the size of a key and the features of a value."""
    result = _united(operands, dict.fromkeys(operands, 0))
    along_keys = {"query": 3, "key": 3, "past": 2}
    if "decay" in operands and operands["decay"].sizes[3] == operands["key"].sizes[3]:
        # Else it is one number per head.
        along_keys["decay"] = 3
    result = _united(result, along_keys)
    result = _united(result, {"value": 3, "past": 3})
    if any(x.cells[1] > 1 for x in operands.values()):
        result = {name: x.refine_fully(1) for name, x in result.items()}
    heads = max(x.cells[1] for x in result.values())
    cells = result["key"].cells[0] * heads * result["key"].cells[3] * result["value"].cells[3]
    if cells <= 4 * CELL_BUDGET:
        return result
    is_split = any(x.cells[0] > 1 for x in operands.values())
    return _on_common_cells({name: x.smash((0,) if is_split else None) for name, x in operands.items()})


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
    operands = _on_common_cells(operands)
    boxes = {name: _box(x) for name, x in operands.items()}
    k, v = operands["key"], operands["value"]
    samples, groups = k.cells[0], (1 if k.cells[1] == 1 else heads)
    counts = cell_sizes(k.grid, k.shape or (), 3).astype(np.float64)
    nothing = np.zeros((samples, groups, k.cells[3], v.cells[3]))
    memory = boxes.get("past", Box(nothing, nothing))
    # (samples, heads, group, positions, size)
    shape = samples, groups, -1, *operands["query"].cells[2:]
    queries = Box(boxes["query"].low.reshape(shape), boxes["query"].high.reshape(shape))
    cell = {name: _cell_of_position(x, length) for name, x in operands.items() if name != "past"}
    scale = op.attribute("scale", 0.0) or 1.0 / np.sqrt(size)
    outputs: list[Box] = []
    is_finite = True
    for position in range(length):

        def at(name: str) -> Box:
            return boxes[name].at(slice(None), slice(None), cell[name][position])  # noqa: B023

        if "decay" in boxes:
            memory = memory * _exponential(at("decay")).at(..., None)
            memory = memory.padded(_U * memory.size + _ETA)
        step = Step(at("key"), at("value"), at("beta") if "beta" in boxes else None, counts)
        query_t = queries.at(slice(None), slice(None), slice(None), cell["query"][position])
        exact, written, error = step.written(memory)
        read = step.read(query_t, memory, exact, written, error)
        memory = exact.padded(error)
        scaled = read * Box(np.asarray(scale), np.asarray(scale))
        outputs.append(scaled.padded(2 * _U * scaled.size + _ETA))
        is_finite = is_finite and all(bool((x.size <= FLOAT32.high).all()) for x in (memory, written, read))
    flags = SPECIALS if any(x.has_special for x in operands.values()) else 0
    # (samples, heads, group, positions, features) as (samples, query heads, positions, features).
    low, high = np.stack([y.low for y in outputs], axis=3), np.stack([y.high for y in outputs], axis=3)
    low, high = (end.reshape(samples, -1, length, v.cells[3]) for end in (low, high))
    special = np.full(low.shape, flags, np.uint8)
    by_reader, by_position = fine((readers,))[0] if low.shape[1] > 1 else None, fine((length,))[0]
    grid = (k.grid[0], by_reader, by_position, v.grid[3])
    output = Range(query.format, (batch, readers, length, features), grid, low, high, special)
    grid = (k.grid[0], fine((heads,))[0] if groups > 1 else None, k.grid[3], v.grid[3])
    special = np.full(memory.low.shape, flags, np.uint8)
    format = query.format if past is None else past.format
    present = Range(format, (batch, heads, size, features), grid, memory.low, memory.high, special)
    if not is_finite:
        op.report(ACCUMULATION_OVERFLOW, RESULT, present, True, gives=SPECIALS)
    return merge_heads(output), present


def _cell_of_position(x: Range, length: int) -> npt.NDArray[np.intp]:
    """The cell that each position of a sequence lies in."""
    cuts = x.grid[2]
    return np.zeros(length, np.intp) if cuts is None else np.searchsorted(cuts, np.arange(length), side="right") - 1


@linear_attention.meaning
def _(
    run: Run,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    readers, heads = int(run.attribute("q_num_heads")), int(run.attribute("kv_num_heads"))
    dtype = run.dtype(FLOAT32)
    q = heads_apart(query, readers).to(dtype)
    k, v = (heads_apart(x, heads).to(dtype) for x in (key, value))
    batch, _, length, size = q.shape
    memory = run.torch.zeros(batch, heads, size, v.shape[3], dtype=dtype) if past is None else past.to(dtype)
    rates = None if decay is None else run.torch.exp(heads_apart(decay, heads).to(dtype))
    # One rate of correction for all heads, or one per head.
    corrections = None if beta is None else heads_apart(beta, min(heads, beta.shape[2])).to(dtype)
    read: list[Tensor] = []
    for position in range(length):
        if rates is not None:
            memory = memory * rates[:, :, position, :, None]
        k_t, v_t = k[:, :, position, :, None], v[:, :, position, None]
        if corrections is not None:
            v_t = corrections[:, :, position, None] * (v_t - k_t.transpose(2, 3) @ memory)
        memory = memory + k_t * v_t
        read.append(q[:, :, position, None] @ for_heads(memory, readers))
    scale = run.attribute("scale", 0.0) or size**-0.5
    output = heads_joined(scale * run.torch.cat(read, 2)).to(query.dtype)
    return output, memory.to(query.dtype if past is None else past.dtype)
