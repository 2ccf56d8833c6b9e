"""How weights start, and how far training may carry them.

The range of a weight follows RANUM: weights that start at zero may be anything in [-10, 10], others may leave the span of
their initial values by the width of that span on either side. A weight that starts at another constant, whose span has no
width, may move by one. The span is that of the distribution, not of one draw, so a program has one set of ranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tensorproof.assumptions import weight_formula

Floats = npt.NDArray[np.float32]
Law = Literal["constant", "uniform", "normal", "truncated normal"]

#: A normal variable is taken to start within this many deviations.
_DEVIATIONS = 4.0


@dataclass(frozen=True, slots=True)
class Initial:
    """A distribution of initial values: its law with the law's numbers, the span of its values, and how they are drawn.

    The numbers are the values of a constant, the ends of a uniform distribution, or a deviation.
    """

    law: Law
    numbers: tuple[float, ...]
    low: float
    high: float
    draw: Callable[[np.random.Generator, tuple[int, ...]], npt.NDArray[np.float64]]

    def range(self) -> tuple[float, float]:
        formula = weight_formula("init" if self.low == self.high != 0.0 else "ranum")
        assert formula is not None
        return formula(self.low, self.high)

    def values(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return self.draw(generator, shape).astype(np.float32)


def constant(*values: float) -> Initial:
    """The same value everywhere, or one value for each element of a vector."""
    content = np.array(values)
    return Initial("constant", values, min(values), max(values), lambda generator, shape: np.broadcast_to(content, shape))


def zeros() -> Initial:
    return constant(0.0)


def uniform(low: float, high: float) -> Initial:
    return Initial("uniform", (low, high), low, high, lambda generator, shape: generator.uniform(low, high, shape))


def normal(deviation: float) -> Initial:
    reach = _DEVIATIONS * deviation
    return Initial("normal", (deviation,), -reach, reach, lambda generator, shape: generator.normal(0.0, deviation, shape))


def truncated_normal(deviation: float) -> Initial:
    """A normal variable; what lies beyond two deviations is drawn again."""

    def draw(generator: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        values = generator.normal(0.0, 1.0, shape)
        while (outside := np.abs(values) > 2.0).any():
            values[outside] = generator.normal(0.0, 1.0, int(outside.sum()))
        return deviation * values

    return Initial("truncated normal", (deviation,), -2.0 * deviation, 2.0 * deviation, draw)


def linear_layer(fan_in: int) -> Initial:
    """What PyTorch's Linear starts with, weights and biases alike: uniform within 1/sqrt(fan_in)."""
    bound = 1.0 / math.sqrt(fan_in)
    return uniform(-bound, bound)


def xavier(fan_in: int, fan_out: int) -> Initial:
    """Glorot and Bengio's uniform start, within sqrt(6 / (fan_in + fan_out))."""
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    return uniform(-bound, bound)
