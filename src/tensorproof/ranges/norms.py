"""Bounds on Euclidean norms, beside the interval of each element."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tensorproof.ranges.grid import largest
from tensorproof.ranges.range import Range


@dataclass(frozen=True, slots=True)
class Norm:
    """Along `axis` (counted from 0), every vector of the tensor has a Euclidean norm of at most `bound`."""

    axis: int
    bound: float

    def tighten(self, x: Range) -> Range:
        """The same range where no element is larger than the norm; the range keeps its norm."""
        if not self.bound < np.inf:
            return x
        low, high = x.low, x.high
        if (high > self.bound).any() or (low < -self.bound).any():
            empty = low > high
            low, high = np.clip(low, -self.bound, self.bound), np.clip(high, -self.bound, self.bound)
            if empty.any():
                low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
            x = x.replace(low, high, x.special if x.has_special else None)
            x.norm = self
        return x

    def rounded(self, x: Range, relative: float, absolute: float) -> Norm | None:
        """The norm of x after each element was rounded: an error of relative * |element| + absolute."""
        assert x.shape is not None
        length = largest(x.shape[self.axis])
        if length is None:
            return None
        return Norm(self.axis, (self.bound * (1.0 + relative) + math.sqrt(length) * absolute) * (1.0 + 2.0**-50))
