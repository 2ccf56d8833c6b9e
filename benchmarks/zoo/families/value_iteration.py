"""A value iteration network on grid worlds: ten tied convolutions plan, a softmax over actions decides."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.zoo.builder import Builder, Tensor
from benchmarks.zoo.entry import Entry, Optimiser
from benchmarks.zoo.families.parts import NAIVE, Change, fused, softmax_bug
from benchmarks.zoo.initial import normal

FAMILY = "value iteration network"

_WORLDS = 12
_SIZE = 8
_QUERIES = 10
_HIDDEN = 150
_CHANNELS = 10
_ACTIONS = 8
_ROUNDS = 10


def entries() -> Iterator[Entry]:
    optimiser = Optimiser("RMSProp", 0.001, "centred", {"epsilon": 1e-6})
    project = "Tensorflow_Value_Iteration_Networks_V1"
    yield Entry("15", 15, project, "tensorflow", FAMILY, _describe, optimiser, (softmax_bug("15"),), fused(_describe))


def _describe(b: Builder, logarithm: Change = NAIVE) -> None:
    """Obstacles and rewards of the worlds are two channels; for each, the action at some positions is asked for."""
    start = normal(0.01)
    world = b.input("X", [_WORLDS, _SIZE, _SIZE, 2], {"channels": [[0, 1], [0, 10]], "axis": 3})
    row, column = (b.input(name, [_WORLDS, _QUERIES], (1, 6), integer=True) for name in ("S1", "S2"))
    action = b.input("y", [_WORLDS * _QUERIES], (0, _ACTIONS - 1), "label", integer=True)

    hidden_kernel = _reversed(b, b.weight("w0", [_HIDDEN, 2, 3, 3], start))
    hidden = b.conv2d(b.transpose(world, [0, 3, 1, 2]), hidden_kernel) + b.weight("bias", [1, _HIDDEN, 1, 1], start)
    reward = b.conv2d(hidden, _reversed(b, b.weight("w1", [1, _HIDDEN, 1, 1], start)))
    from_reward = b.weight("w", [_CHANNELS, 1, 3, 3], start)
    from_both = _reversed(b, b.concat([from_reward, b.weight("w_fb", [_CHANNELS, 1, 3, 3], start)], 1))
    q = b.conv2d(reward, _reversed(b, from_reward))
    for _ in range(_ROUNDS):
        q = b.conv2d(b.concat([reward, b.maximum(q, [1], keep=True)], 1), from_both)

    chosen = _at_positions(b, q, row, column)
    logits = chosen @ b.weight("w_o", [_CHANNELS, _ACTIONS], start)
    with b.scope("loss"):
        b.output("loss", -b.mean(b.pick(logarithm(b, logits), b.reshape(action, [_WORLDS * _QUERIES, 1]), 1)))


def _reversed(b: Builder, kernel: Tensor) -> Tensor:
    """A kernel with its rows and columns in reverse: the convolution of mathematics, not of neural networks."""
    return b.reverse(b.reverse(kernel, 2), 3)


def _at_positions(b: Builder, q: Tensor, row: Tensor, column: Tensor) -> Tensor:
    """The channels of each world at its positions, one row for each position."""
    first_cells = b.constant(np.arange(_WORLDS)[:, None] * _SIZE * _SIZE, integer=True)
    cell = first_cells + row * b.constant(_SIZE, integer=True) + column
    cells = b.reshape(b.transpose(q, [0, 2, 3, 1]), [_WORLDS * _SIZE * _SIZE, _CHANNELS])
    return b.gather(cells, b.reshape(cell, [_WORLDS * _QUERIES]), 0)
