"""A U-Net that finds discs in noise; its softmax over two channels is written out, unstabilised."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from benchmarks.zoo.builder import Builder, Tensor
from benchmarks.zoo.entry import Bug, Entry, Optimiser, Repair
from benchmarks.zoo.families.parts import PIXELS, less_the_largest
from benchmarks.zoo.initial import constant, truncated_normal

FAMILY = "U-Net"

_LEVELS = 3
_CHANNELS = 16
_SIZE = 572
_OUTPUT = 532


def entries() -> Iterator[Entry]:
    bug = Bug("17", "Exp", "softmax/exp", "exp overflows above 88.7, and inf / inf is NaN")
    optimiser = Optimiser("momentum", 0.2, "the rate falls by steps", {"momentum": 0.2, "decay": 0.95, "decay_steps": 32})
    repair = Repair("the larger of the two channels is subtracted first", partial(_describe, stable=True))
    notes = ("dropout is left out: while the program is evaluated and searched, it keeps everything",)
    yield Entry("17", 17, "TF_Unet", "tensorflow", FAMILY, _describe, optimiser, (bug,), repair, notes=notes)


def _describe(b: Builder, stable: bool = False) -> None:
    """Two convolutions at each level down and up; the loss is the dice coefficient."""
    x = b.transpose(b.input("x", [1, _SIZE, _SIZE, 1], PIXELS), [0, 3, 1, 2])
    y = b.transpose(b.input("y", [1, _OUTPUT, _OUTPUT, 2], "one-hot", "label"), [0, 3, 1, 2])
    seen: list[Tensor] = []
    for level in range(_LEVELS):
        x = _two_convolutions(b, x if level == 0 else b.max_pool(x), f"down_{level}", _CHANNELS << level)
        seen.append(x)
    for level in reversed(range(_LEVELS - 1)):
        channels = _CHANNELS << level
        deviation = math.sqrt(2.0 / (9 * 2 * channels))
        kernel = b.weight(f"deconvolution_{level}", [2 * channels, channels, 2, 2], truncated_normal(deviation))
        spread = b.conv2d_transpose(x, kernel, 2) + b.weight(f"deconvolution_{level}_bias", [channels, 1, 1], constant(0.1))
        joined = b.concat([_cropped(b, seen[level], spread.shape[2]), b.relu(spread)], 1)
        x = _two_convolutions(b, joined, f"up_{level}", channels, deviation)
    kernel = b.weight("out", [2, _CHANNELS, 1, 1], truncated_normal(math.sqrt(2.0 / (9 * 2 * _CHANNELS))))
    a = b.relu(b.conv2d(x, kernel) + b.weight("out_bias", [2, 1, 1], constant(0.1)))
    with b.scope("softmax"):
        exponentials = b.exp(less_the_largest(b, a, 1) if stable else a, name="exp")
        p = b.divide(exponentials, b.tile(b.sum(exponentials, [1], keep=True), [1, 2, 1, 1]), name="quotient")
    with b.scope("loss"):
        b.output("loss", -(2.0 * b.sum(p * y) / (1e-5 + b.sum(p) + b.sum(y))))


def _two_convolutions(b: Builder, x: Tensor, name: str, channels: int, deviation: float | None = None) -> Tensor:
    initial = truncated_normal(math.sqrt(2.0 / (9 * channels)) if deviation is None else deviation)
    for index in (1, 2):
        kernel = b.weight(f"{name}_w{index}", [channels, x.shape[1], 3, 3], initial)
        bias = b.weight(f"{name}_b{index}", [channels, 1, 1], constant(0.1))
        x = b.relu(b.conv2d(x, kernel, padding="valid") + bias)
    return x


def _cropped(b: Builder, x: Tensor, size: int) -> Tensor:
    """The middle of a square image."""
    first = (x.shape[2] - size) // 2
    for axis in (2, 3):
        x = b.slice(x, axis, first, first + size)
    return x
