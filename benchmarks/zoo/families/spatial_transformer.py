"""A spatial transformer on cluttered digits: a small network chooses an affine map, through which the image is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.zoo.builder import Builder, Tensor
from benchmarks.zoo.entry import Entry, Optimiser, Repair
from benchmarks.zoo.families.parts import (
    DIGITS,
    NAIVE,
    PIXELS,
    Change,
    cross_entropy,
    dense,
    dropout,
    fused_log_softmax,
    keep_probability,
    softmax_bug,
)
from benchmarks.zoo.initial import constant, normal, zeros

FAMILY = "spatial transformer"

_BATCH = 101
_SIZE = 40
_AREA = _SIZE * _SIZE


def entries() -> Iterator[Entry]:
    naive = partial(_describe, mean=False, logarithm=NAIVE)
    fused = partial(_describe, mean=True, logarithm=fused_log_softmax)
    repair = Repair("the fused cross-entropy of the logits, averaged over the batch", fused)
    optimiser = Optimiser("Adam", 0.001)
    yield Entry("1", 1, "GitHub-IPS-1", "tensorflow", FAMILY, naive, optimiser, (softmax_bug("1"),), repair)


def _describe(b: Builder, *, mean: bool, logarithm: Change) -> None:
    """All matrices start at zero; only biases are drawn."""
    bias = normal(0.01)
    x = b.input("x", [_BATCH, _AREA], PIXELS)
    y = b.input("y", [_BATCH, DIGITS], "one-hot", "label")
    keep = keep_probability(b, 0.8, 1.0)
    with b.scope("localisation"):
        t = b.tanh(dense(b, x, "loc1", 20, zeros(), bias))
    t = dropout(b, t, keep, "localisation_dropout")
    with b.scope("localisation"):
        affine = b.tanh(dense(b, t, "loc2", 6, zeros(), constant(1.0, 0.0, 0.0, 0.0, 1.0, 0.0)))
    with b.scope("sampling"):
        image = _sampled(b, x, b.reshape(affine, [_BATCH, 2, 3]))
    for name in ("conv1", "conv2"):
        kernel = b.weight(f"W_{name}", [16, image.shape[1], 3, 3], zeros())
        image = b.relu(b.conv2d(image, kernel, stride=2) + b.weight(f"b_{name}", [16, 1, 1], bias))
    h = dropout(b, b.relu(dense(b, b.flatten(image), "fc1", 1024, zeros(), bias)), keep)
    cross_entropy(b, dense(b, h, "fc2", DIGITS, zeros(), bias), y, mean=mean, logarithm=logarithm)


def _sampled(b: Builder, images: Tensor, maps: Tensor) -> Tensor:
    """The images at the mapped points of a regular grid over [-1, 1] x [-1, 1], interpolated between four pixels.

    Corners are clipped into the image, and the weights are their distances after clipping.
    """
    steps = np.linspace(-1.0, 1.0, _SIZE)
    columns, rows = np.meshgrid(steps, steps)
    grid = np.stack([columns.reshape(-1), rows.reshape(-1), np.ones(_AREA)])
    points = maps @ b.tile(b.constant(grid[None]), [_BATCH, 1, 1])
    u, v = (b.reshape((b.slice(points, 1, axis, axis + 1) + 1.0) * _SIZE / 2.0, [_BATCH * _AREA]) for axis in (0, 1))
    left, right = _neighbours(b, u)
    upper, lower = _neighbours(b, v)
    first_pixels = b.constant(np.repeat(np.arange(_BATCH) * _AREA, _AREA))
    pixels = b.reshape(images, [_BATCH * _AREA])

    def at(row: Tensor, column: Tensor) -> Tensor:
        return b.gather(pixels, b.to_index(first_pixels + row * float(_SIZE) + column), 0)

    above = (right - u) * (lower - v) * at(upper, left) + (u - left) * (lower - v) * at(upper, right)
    below = (right - u) * (v - upper) * at(lower, left) + (u - left) * (v - upper) * at(lower, right)
    return b.reshape(above + below, [_BATCH, 1, _SIZE, _SIZE])


def _neighbours(b: Builder, coordinate: Tensor) -> tuple[Tensor, Tensor]:
    """The pixels on either side of a coordinate, within the image; whole numbers that are not yet integers."""
    whole = b.floor(coordinate)
    return b.clip(whole, 0.0, _SIZE - 1.0), b.clip(whole + 1.0, 0.0, _SIZE - 1.0)
