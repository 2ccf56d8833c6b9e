"""Recurrent cells that TensorFlow computes in one operator, taken apart into the products and gates that they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Format
from tensorproof.operators.arranging import sizes_of
from tensorproof.operators.recurrent import gru, lstm

if TYPE_CHECKING:
    from tensorproof.frontends.tensorflow_call import TensorflowCall

#: Sequences up to this length are unrolled.
_LONGEST = 64


@dataclass(frozen=True, slots=True)
class _Steps:
    """The means of a cell: operators on values of one format."""

    call: TensorflowCall
    format: Format

    def computed(self, op: str, *operands: int) -> int:
        return self.call.emit(op, *operands, formats=(self.format,))

    def gates(self, x: int, h: int, weights: int, bias: int, count: int) -> Sequence[int]:
        """The sums of so many gates: [x, h] W + b, cut into equal parts."""
        both = self.call.emit("Concat", x, h, axis=1, formats=(self.format,))
        sums = self.computed("Add", self.computed("MatMul", both, weights), bias)
        return self.call.emit("Split", sums, axis=1, num_outputs=count, outputs=count, formats=[self.format] * count)


@dataclass(frozen=True, slots=True)
class _LongShortTerm:
    """A cell with its parameters: peepholes are None where it has none; `order` are the places of i, c, f and o among the gates."""

    steps: _Steps
    weights: int
    peepholes: tuple[int, int, int] | None
    bias: int
    forget_bias: float
    clip: float
    order: tuple[int, int, int, int]

    def step(self, x: int, memory: int, hidden: int) -> tuple[int, ...]:
        """i, cs, f, o, ci, co and h."""
        computed, value = self.steps.computed, self.steps.call.value
        sums = self.steps.gates(x, hidden, self.weights, self.bias, 4)
        gain, fresh, keep, output = (sums[place] for place in self.order)
        if self.peepholes is not None:
            gain = computed("Add", gain, computed("Mul", self.peepholes[0], memory))
            keep = computed("Add", keep, computed("Mul", self.peepholes[1], memory))
        if self.forget_bias:
            keep = computed("Add", keep, value(self.forget_bias, self.steps.format))
        gain, keep, fresh = computed("Sigmoid", gain), computed("Sigmoid", keep), computed("Tanh", fresh)
        updated = computed("Add", computed("Mul", fresh, gain), computed("Mul", memory, keep))
        if self.clip > 0:
            updated = computed("Clip", updated, *(value(end, self.steps.format) for end in (-self.clip, self.clip)))
        if self.peepholes is not None:
            output = computed("Add", output, computed("Mul", self.peepholes[2], updated))
        output, shown = computed("Sigmoid", output), computed("Tanh", updated)
        return gain, updated, keep, output, fresh, shown, computed("Mul", shown, output)


def _cell(call: TensorflowCall, first: int, default_clip: float, order: tuple[int, int, int, int]) -> _LongShortTerm:
    """A cell whose weights, peepholes and bias are operands from `first` on."""
    has_peepholes = bool(call.attribute("use_peephole", False))
    return _LongShortTerm(
        _Steps(call, call.format()),
        call.operand(first),
        (call.operand(first + 1), call.operand(first + 2), call.operand(first + 3)) if has_peepholes else None,
        call.operand(first + 4),
        float(call.attribute("forget_bias", 0.0 if call.name.endswith("V2") else 1.0)),
        float(call.attribute("cell_clip", default_clip)),
        order,
    )


@lstm.tensorflow("LSTMBlockCell")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """Operands are x, the memory and the hidden state before; gates stand in the order i, c, f, o."""
    return _cell(call, 3, 3.0, (0, 1, 2, 3)).step(call.operand(0), call.operand(1), call.operand(2))


@lstm.tensorflow("BlockLSTM", "BlockLSTMV2")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """A whole sequence (time, batch, features), step by step; the newer one has its gates in the order i, f, c, o."""
    is_new = call.name.endswith("V2")
    shape = call.shape(1)
    (length,) = sizes_of(None if shape is None else shape[:1], "a sequence")
    if length > _LONGEST:
        raise NotAnalysed(f"{call.name} over {length} steps is not modelled")
    if int(call.known(0).reshape(-1)[0]) < length:
        raise NotAnalysed(f"{call.name} over a part of a sequence is not modelled")
    cell = _cell(call, 4, 0.0 if is_new else 3.0, (0, 2, 1, 3) if is_new else (0, 1, 2, 3))
    memory, hidden = call.operand(2), call.operand(3)
    made: list[tuple[int, ...]] = []
    for index in range(length):
        x = call.moved("Gather", call.operand(1), call.constant(np.array(index, np.int64)), axis=0)
        made.append(cell.step(x, memory, hidden))
        memory, hidden = made[-1][1], made[-1][6]
    axis = call.integers([0])
    results: list[int] = []
    for parts in zip(*made, strict=True):
        apart = [call.moved("Unsqueeze", part, axis) for part in parts]
        results.append(call.emit("Concat", *apart, axis=0, formats=(call.format(),)))
    return tuple(results)


@gru.tensorflow("GRUBlockCell")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """r, u, c and h = (1 - u) c + u h', from x, h' and the weights and biases of (r, u) and of c."""
    steps = _Steps(call, call.format())
    x, hidden = call.operand(0), call.operand(1)
    reset, update = steps.gates(x, hidden, call.operand(2), call.operand(4), 2)
    reset, update = steps.computed("Sigmoid", reset), steps.computed("Sigmoid", update)
    both = call.emit("Concat", x, steps.computed("Mul", hidden, reset), axis=1, formats=(call.format(),))
    sums = steps.computed("Add", steps.computed("MatMul", both, call.operand(3)), call.operand(5))
    fresh = steps.computed("Tanh", sums)
    mixed = call.own("Lerp", fresh, hidden, update, formats=(call.format(),))
    return reset, update, fresh, mixed


@lstm.tensorflow(
    "CudnnRNN",
    "CudnnRNNV2",
    "CudnnRNNV3",
    "CudnnRNNBackprop",
    "CudnnRNNBackpropV2",
    "CudnnRNNBackpropV3",
    "LSTMBlockCellGrad",
    "BlockLSTMGrad",
    "BlockLSTMGradV2",
    "GRUBlockCellGrad",
)
def _(call: TensorflowCall) -> int:
    raise NotAnalysed(f"{call.name} is not modelled")
