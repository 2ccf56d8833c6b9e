"""Where boxes may be put: plain centres first, then those that steps of a gradient lead to, away from failing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.confirm.objective import Measured, Objective
from tensorproof.confirm.observing import Domains
from tensorproof.confirm.sampling import Point, into_format, points
from tensorproof.confirm.search import box_of
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import Array
from tensorproof.repair.preconditions.sites import Box, Interval, Site, SiteKind

#: Shares of the way from the lower to the upper end.
SHARES = (0.5, 0.75, 0.25, 1.0, 0.0)
#: Plain numbers, moved into the interval.
NUMBERS = (0.0, 1.0, -1.0)
#: Steps of a gradient, of the first size in widths of the whole box, each so much smaller than the one before it.
STEPS, STEP, DECAY = 24, 0.15, 0.9


def plain_centres(sites: Sequence[Site]) -> Iterator[Box]:
    """Inner boxes, all different: inputs in one way, weights in one way, results of nodes in one way, the likeliest first.

    The values that weights have in the file come first: a box around them leaves these weights as they are. Where there are
    several kinds of sites, one of them may be left as wide as it is.
    """
    kinds: list[SiteKind] = list(dict.fromkeys(site.kind for site in sites))
    ways = {kind: _ways(kind, alone=len(kinds) == 1) for kind in kinds}
    seen: set[bytes] = set()
    ranks = sorted(np.ndindex(*(len(ways[kind]) for kind in kinds)), key=lambda rank: (sum(rank), rank))
    for rank in ranks:
        chosen = {kind: ways[kind][place] for kind, place in zip(kinds, rank, strict=True)}
        box = tuple(_inner(site, chosen[site.kind]) for site in sites)
        key = b"".join(end.tobytes() for interval in box for end in interval)
        if key not in seen:
            seen.add(key)
            yield box


def _ways(kind: SiteKind, *, alone: bool) -> list[tuple[str, float]]:
    """How the sites of a kind are put: the name of a way, and its number."""
    plain = [("number", 0.0), *(("share", share) for share in SHARES), *(("number", number) for number in NUMBERS[1:])]
    first = [("kept", 0.0)] if kind == "weight" else []
    return [*first, *plain] if alone else [*first, ("whole", 0.0), *plain]


def _inner(site: Site, way: tuple[str, float]) -> Interval:
    kind, number = way
    low, high = site.whole
    if kind == "whole":
        return site.whole
    if kind == "kept" and site.kept is not None:
        return site.inside(*site.kept)
    centre = low * (1.0 - number) + high * number if kind == "share" else np.clip(number, low, high)
    return site.inside(centre, centre)


def middle_of(sites: Sequence[Site], box: Box) -> Box:
    """The middle of a box."""
    middles = ((site, low / 2 + high / 2) for site, (low, high) in zip(sites, box, strict=True))
    return tuple(site.inside(middle, middle) for site, middle in middles)


def as_point(sites: Sequence[Site], centre: Box) -> Point:
    """The tensors of a centre, by name: each element is the lower end of its interval. Results of nodes have none."""
    return {
        site.name: np.broadcast_to(low, site.shape).astype(site.format.dtype)
        for site, (low, _) in zip(sites, centre, strict=True)
        if site.shape is not None
    }


def climbing_centres(
    objective: Objective, sites: Sequence[Site], domains: Domains, start: Box, seed: int, *, signs: bool
) -> Iterator[Box]:
    """Centres that lie farther and farther from failing, by steps of the gradient, or of its signs (RANUM, ICSE 2023).

    All other variables move the opposite way, to the corner of the box that comes closest to failing: the centre has to hold
    against them. Where nothing has a slope, steps are random.
    """
    centre = start
    (others,) = points(seed, domains, 1)
    rng = np.random.default_rng(seed)
    size = STEP
    for _ in range(STEPS):
        point = {**others, **as_point(sites, centre)}
        try:
            measured = objective.measure(point)
        except (RuntimeError, IndexError, ValueError) as error:
            # A meaning that does not hold for this use: the same as none at all.
            raise NotExecutable(str(error).splitlines()[0][:200] if str(error) else type(error).__name__) from None
        others = _opposed(others, measured, sites, domains)
        centre = tuple(
            site.inside(*_moved(site, low, measured.gradients.get(site.name), size, signs, rng))
            for site, (low, _) in zip(sites, centre, strict=True)
        )
        size *= DECAY
        yield centre


def _moved(
    site: Site, centre: Array, slope: Array | None, size: float, signs: bool, rng: np.random.Generator
) -> tuple[Array, Array]:
    low, high = site.whole
    width = high / 2 - low / 2
    if slope is None or not slope.any():
        step = rng.uniform(-1.0, 1.0, centre.shape)
    else:
        # The slope of an interval's centre is the sum of those of all elements in it.
        shape = (1,) * (slope.ndim - centre.ndim) + centre.shape
        axes = tuple(axis for axis, length in enumerate(shape) if length == 1)
        together = slope.sum(axis=axes, keepdims=True).reshape(centre.shape)
        largest = np.abs(together).max()
        step = np.sign(together) if signs else together / (largest if largest > 0 else 1.0)
    moved = centre + 2.0 * size * width * step
    return moved, moved


def _opposed(others: Mapping[str, npt.NDArray[Any]], measured: Measured, sites: Sequence[Site], domains: Domains) -> Point:
    """All variables that are no sites at the corner that their gradient leads to."""
    names = {site.name for site in sites}
    moved = dict(others)
    for name, slope in measured.gradients.items():
        box = box_of(*domains[name])
        if name in names or box is None:
            continue
        low, high = box
        corner = np.where(slope < 0, high, np.where(slope > 0, low, others[name].astype(np.float64)))
        moved[name] = into_format(corner, domains[name][0], domains[name][2])
    return moved
