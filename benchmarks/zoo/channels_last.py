"""Where TensorFlow keeps the axes of a program's values: channels come last, kernels are [row, column, in, out].

A description has images [batch, channel, row, column]. TensorFlow's form of the same program holds the same numbers in
another order, which follows from the steps that a value comes from and, for weights, from the first step that uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.zoo.builder import Recording, Shape, Step

#: Axes of a description, in TensorFlow's order.
Order = tuple[int, ...]
IMAGE: Order = (0, 2, 3, 1)
KERNEL: Order = (2, 3, 1, 0)
#: A bias for each channel, [channel, 1, 1] in a description, is a vector in TensorFlow.
CHANNEL_BIAS: Order = (1, 2, 0)

_REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The orders of values by name; and, for matrices that flat images are multiplied by, their [channel, row, column]."""

    orders: dict[str, Order] = field(default_factory=dict[str, Order])
    flattened: dict[str, Shape] = field(default_factory=dict[str, Shape])

    def axis(self, value: str, axis: int) -> int:
        """The place of an axis of a value."""
        return self.orders[value].index(axis % len(self.orders[value]))

    def moved(self, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The numbers of a value as TensorFlow holds them."""
        if name in self.flattened:
            image = array.reshape(*self.flattened[name], -1)
            return image.transpose(1, 2, 0, 3).reshape(array.shape)
        order = self.orders.get(name, tuple(range(array.ndim)))
        moved = array.transpose(order)
        return moved.reshape(-1) if order == CHANNEL_BIAS else moved

    def shape(self, name: str, shape: Shape) -> Shape:
        return self.moved(name, np.broadcast_to(np.float32(0.0), shape)).shape


def arrangement(recording: Recording) -> Arrangement:
    """The orders of all values of a program."""
    found, flat = Arrangement(), dict[str, Shape]()
    for step in recording.steps:
        for operand in step.operands:
            if operand not in found.orders:
                found.orders[operand] = _order_of_source(recording, operand, step, found.orders)
        if step.operator == "Reshape" and found.orders[step.operands[0]] == IMAGE:
            flat[step.name] = recording.shapes[step.operands[0]][1:]
        if step.operator == "MatMul" and step.operands[0] in flat:
            found.flattened[step.operands[1]] = flat[step.operands[0]]
        found.orders[step.name] = _order_of_result(recording, step, found.orders)
    return found


def _order_of_source(recording: Recording, name: str, step: Step, orders: Mapping[str, Order]) -> Order:
    """The order of an input, a constant or a weight, from the first step that uses it."""
    rank = len(recording.shapes[name])
    if name not in recording.weights or rank < 3:
        return _plain(rank)
    if rank == 3:
        return CHANNEL_BIAS
    is_added = not step.operator.startswith("Conv") and any(orders.get(other) == IMAGE for other in step.operands)
    return IMAGE if is_added else KERNEL


def _order_of_result(recording: Recording, step: Step, orders: Mapping[str, Order]) -> Order:
    shape = recording.shapes[step.name]
    order = orders[step.operands[0]]
    match step.operator:
        case "Conv" | "ConvTranspose" | "MaxPool":
            return IMAGE
        case "Reshape":
            # An image of one channel is the same row of numbers in either order.
            return IMAGE if len(shape) == 4 and shape[1] == 1 else _plain(len(shape))
        case "Transpose" if len(shape) == 4:
            return tuple(step.attributes["order"].index(axis) for axis in order)
        case operator if operator in _REDUCTIONS and not step.attributes["keep"]:
            left = [axis for axis in order if axis not in step.attributes["axes"]]
            return tuple(sorted(left).index(axis) for axis in left)
        case "MatMul" | "Gather" | "GatherElements" | "Transpose":
            return _plain(len(shape))
        case _:
            full = {orders[operand] for operand in step.operands if len(orders[operand]) == len(shape)}
            (order,) = full or {_plain(len(shape))}
            return order


def _plain(rank: int) -> Order:
    return tuple(range(rank))
