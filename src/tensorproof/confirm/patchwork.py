"""Training examples of flat patches whose labels follow them: what carries several steps of training far.

Where the loss of a batch is a mean, one step moves little, and it moves less and less as the labels are met. Labels that go
with the pattern of an input are met slowly, for all patches pull at the same weights in different directions; steps with a
large learning rate overshoot then, first to one side and then to the other, by more each time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tensorproof.confirm.observing import Domains
from tensorproof.confirm.sampling import Point, into_format, sample
from tensorproof.confirm.search import box_of
from tensorproof.formats import Array

Pattern = npt.NDArray[np.bool_]

#: The edges of patches, in elements, and the shares of them that are high.
EDGES, SHARES = (3, 8), (0.3, 0.5, 0.7)


def patchworks(seed: int, domains: Domains, count: int) -> Iterator[Point]:
    """Examples of the domains; none where no input is a box that can be patched, or no label is one-hot."""
    boxes = {name: box for name, where in domains.items() if len(where[1]) > 1 and (box := box_of(*where)) is not None}
    labels = [name for name, (domain, shape, _) in domains.items() if domain.kind == "one-hot" and len(shape) > 1]
    if not boxes or not labels:
        return
    leading = max(boxes, key=lambda name: math.prod(domains[name][1]))
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        edge, share = int(rng.integers(*EDGES)), float(rng.choice(SHARES))
        point: Point = {}
        patches: dict[tuple[int, ...], Pattern] = {}
        for name, (domain, shape, format) in domains.items():
            if name in boxes:
                high = patches.setdefault(shape, _patches(rng, shape, edge, share))
                point[name] = np.asarray(into_format(np.where(high, boxes[name][1], boxes[name][0]), domain, format))
            else:
                point[name] = sample(rng, domain, shape, format, "uniform")
        for name in labels:
            domain, shape, format = domains[name]
            classes = rng.permutation(shape[domain.axis])[:2]
            point[name] = _labels(patches[domains[leading][1]], shape, domain.axis % len(shape), classes).astype(format.dtype)
        yield point


def _patches(rng: np.random.Generator, shape: tuple[int, ...], edge: int, share: float) -> Pattern:
    """Which elements are high: each patch as a whole. No patch is of two samples of a batch."""
    edges = [1 if axis == 0 else min(edge, size) for axis, size in enumerate(shape)]
    high = rng.random([-(-size // step) for size, step in zip(shape, edges)]) < share
    for axis, step in enumerate(edges):
        high = high.repeat(step, axis)
    return high[tuple(slice(size) for size in shape)]


def _labels(high: Pattern, shape: tuple[int, ...], axis: int, classes: npt.NDArray[np.int64]) -> Array:
    """The first class where the input is mostly high, the second elsewhere; in the middle of the input where that is larger."""
    places = [size for other, size in enumerate(shape) if other != axis]
    seen = high.astype(np.float64)
    for other, size in enumerate(places[: seen.ndim]):
        spare = seen.shape[other] - size
        chosen = np.arange(size) + spare // 2 if spare >= 0 else np.arange(size) * seen.shape[other] // size
        seen = seen.take(chosen, other)
    rest = tuple(range(len(places), seen.ndim))
    seen = seen.mean(axis=rest) if rest else seen.reshape(*seen.shape, *[1] * (len(places) - seen.ndim))
    index = np.where(np.broadcast_to(seen, places) > seen.mean(), classes[0], classes[-1])
    numbers = np.zeros(shape)
    np.put_along_axis(numbers, np.expand_dims(index, axis), 1.0, axis)
    return numbers
