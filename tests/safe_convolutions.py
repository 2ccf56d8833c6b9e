"""Convolutions whose channels are scaled to where they were: as safe as the vectors that they are given."""

from __future__ import annotations

import numpy as np

from tests.safe_case import Case

CHANNELS = 64
_SIGNATURE = f"(float[1,{CHANNELS},2,2] x) => (float[1,1,2,2] y)"
#: Every other channel is large, and the others are small; `back` undoes it, `again` does it once more.
_SIZES = np.where(np.arange(CHANNELS) % 2 == 0, 1e3, 1e-3).astype(np.float32)
_CONSTANTS = {
    "spread": _SIZES.reshape(CHANNELS, 1, 1, 1),
    "back": (1.0 / _SIZES).reshape(CHANNELS, 1, 1),
    "again": _SIZES.reshape(CHANNELS, 1, 1),
    "scale": 1.0 / _SIZES,
    "large": _SIZES,
    "ones": np.ones(CHANNELS, np.float32),
    "zeros": np.zeros(CHANNELS, np.float32),
    # A vector of length 60: a unit vector in its direction gives 60, elements of which only the size is known twice as much.
    "sum": np.full((1, CHANNELS, 1, 1), 60.0 / np.sqrt(CHANNELS), np.float32),
}
_RANGES = {"x": (1.0, 2.0)}


def _body(*steps: str) -> str:
    first = f"n = LpNormalization<axis=1>(x)\nc = Conv<group={CHANNELS}>(n, spread)\n"
    return first + "\n".join(steps) + "\nz = Conv(m, sum)\ny = Exp(z)"


CONVOLUTIONS: dict[str, Case] = {
    "channels scaled back": Case(
        _SIGNATURE,
        _body("m = Mul(c, back)"),
        _body("m = Mul(c, again)"),
        "NUM201",
        ranges=_RANGES,
        idiom="convolution-times-numbers-of-channels",
        constants=_CONSTANTS,
    ),
    "channels scaled back, turned and shifted": Case(
        _SIGNATURE,
        _body("t = Transpose<perm=[0,2,3,1]>(c)", "b = Add(t, zeros)", "k = Mul(scale, b)", "m = Transpose<perm=[0,3,1,2]>(k)"),
        _body("t = Transpose<perm=[0,2,3,1]>(c)", "b = Add(t, zeros)", "k = Mul(large, b)", "m = Transpose<perm=[0,3,1,2]>(k)"),
        "NUM201",
        ranges=_RANGES,
        idiom="convolution-times-numbers-of-channels",
        constants=_CONSTANTS,
    ),
    "channels normalised back": Case(
        _SIGNATURE,
        _body("m = BatchNormalization(c, scale, zeros, zeros, ones)"),
        _body("m = BatchNormalization(c, large, zeros, zeros, ones)"),
        "NUM201",
        ranges=_RANGES,
        idiom="convolution-normalised-by-channels",
        constants=_CONSTANTS,
    ),
}
