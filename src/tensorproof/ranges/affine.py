"""Affine forms: elements of a tensor as sums of multiples of symbols that other tensors share."""

from __future__ import annotations

from dataclasses import dataclass

from tensorproof.ranges.range import Range


@dataclass(frozen=True, slots=True)
class Form:
    """An affine form per cell."""

    def tighten(self, x: Range) -> Range:
        """The range where no element lies outside of the bounds of its form; it keeps the form."""
        return x

    def rounded(self, x: Range, relative: float, absolute: float) -> Form | None:
        """The form of x after each element was rounded: an error of relative * |element| + absolute, a fresh symbol."""
        return None
