"""`Space`: the arrays that a search may change, the box that they stay in, and random changes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tensorproof.compare.drawing import Array, Arrays, generator

#: What is changed: the input, the weights, or both.
Level = Literal["input", "weight", "both"]

#: Trained weights may grow to so many times the largest weight of their array.
WEIGHT_GROWTH = 4.0


@dataclass(frozen=True)
class Space:
    """Points are arrays by name: inputs by their own, weights as `LAYER/INDEX`; `fixed` ones are the same at every point.

    `boxes` are the ends between which each array that varies may lie.
    """

    start: Arrays
    boxes: Mapping[str, tuple[float, float]]
    fixed: Arrays

    @classmethod
    def of(cls, level: Level, inputs: Arrays, weights: Arrays, input_box: tuple[float, float]) -> Space:
        """The space of a level around an input and trained weights. Arrays that are not floating stay as they are."""
        varies = {name for name in (*inputs, *weights) if level == "both" or (level == "weight") == ("/" in name)}
        arrays = {**inputs, **weights}
        start = {name: array for name, array in arrays.items() if name in varies and _is_floating(array)}
        boxes = {name: _weight_box(array) if "/" in name else input_box for name, array in start.items()}
        return cls(start, boxes, {name: array for name, array in arrays.items() if name not in start})

    def point(self, arrays: Arrays) -> dict[str, Array]:
        """Everything that a run is given."""
        return {**self.fixed, **arrays}

    def clipped(self, arrays: Arrays) -> dict[str, Array]:
        """The arrays inside their boxes."""
        return {name: np.clip(array, *self.boxes[name]).astype(array.dtype) for name, array in arrays.items()}


def _is_floating(array: Array) -> bool:
    # The formats of ml_dtypes are of kind "V".
    return array.dtype.kind in "fV"


def _weight_box(weights: Array) -> tuple[float, float]:
    most = float(np.abs(weights.astype(np.float64)).max(initial=0.0)) or 1.0
    return -WEIGHT_GROWTH * most, WEIGHT_GROWTH * most


def cauchy_noise(space: Space, arrays: Arrays, random: np.random.Generator, rate: float, scale: float) -> dict[str, Array]:
    """Each element moved with probability `rate` by Cauchy noise of `scale` times its box: small steps, now and then a leap."""
    changed: dict[str, Array] = {}
    for name, array in arrays.items():
        low, high = space.boxes[name]
        moves = random.random(array.shape) < rate
        noise = random.standard_cauchy(array.shape) * scale * (high - low)
        changed[name] = (array + np.where(moves, noise, 0.0)).astype(array.dtype)
    return space.clipped(changed)


def crossed(left: Arrays, right: Arrays, random: np.random.Generator) -> dict[str, Array]:
    """A child of two points: each element is one parent's."""
    return {name: np.where(random.random(array.shape) < 0.5, array, right[name]) for name, array in left.items()}


def random_point(space: Space, seed: int, number: int) -> dict[str, Array]:
    """A point anywhere in the box."""
    random = generator("point", seed, number)
    return {name: random.uniform(*space.boxes[name], array.shape).astype(array.dtype) for name, array in space.start.items()}
