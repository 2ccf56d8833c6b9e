"""`search`: an input on which two models part, where samples show none. Gradient-free, so that any two runtimes can be searched.

Random points of the ranges first; then a genetic algorithm over the best of them: children take each element from one of two
parents, and are moved by Cauchy noise (AUDEE's mutation), by a step of equal size and random sign, or to an end of the range. What
is made large is the difference of the outputs in units of their precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tensorproof.compare.diffing.inputs import InputSpace
from tensorproof.compare.drawing import Array, generator
from tensorproof.confirm.sampling import Point, into_format, sample

#: The difference at a point, and whether it is what is sought.
Evaluate: TypeAlias = "Callable[[Point], tuple[float, bool]]"

POPULATION = 8
#: The part of the evaluations that goes to random points.
RANDOM_SHARE = 0.4
#: The first points are those that samples were drawn from already.
_FIRST = 1 << 16


@dataclass(frozen=True)
class SearchResult:
    """The point that was found, or None; `largest` is the largest difference that was met."""

    point: Point | None
    evaluations: int
    largest: float


def search(space: InputSpace, evaluate: Evaluate, *, seed: int, evaluations: int) -> SearchResult:
    """Look for a point until one is found or the evaluations are spent. The same seed looks at the same points."""
    population: list[tuple[float, Point]] = []
    largest = 0.0
    random = generator("search", seed)
    first = int(evaluations * RANDOM_SHARE)
    drawn = space.draw(seed, max(first, min(evaluations, POPULATION)), first=_FIRST)
    for number in range(evaluations):
        point = next(drawn, None)
        if point is None:
            point = _child(random, space, population)
        score, is_found = evaluate(point)
        score = score if math.isfinite(score) else 0.0
        largest = max(largest, score)
        if is_found:
            return SearchResult(point, number + 1, largest)
        population.append((score, point))
        population.sort(key=lambda entry: -entry[0])
        del population[POPULATION:]
    return SearchResult(None, evaluations, largest)


def _child(random: np.random.Generator, space: InputSpace, population: list[tuple[float, Point]]) -> Point:
    one, other = (population[int(index)][1] for index in random.integers(len(population), size=2))
    point: Point = {}
    for name, (domain, shape, format) in space.domains.items():
        if domain.kind not in ("box", "channels") or not format.is_float:
            point[name] = one[name] if random.random() < 0.7 else sample(random, domain, shape, format, "uniform")
            continue
        if one[name].shape != other[name].shape:
            mixed = one[name].astype(np.float64)
        else:
            mixed = np.where(random.random(one[name].shape) < 0.5, one[name].astype(np.float64), other[name].astype(np.float64))
        point[name] = np.asarray(into_format(_mutated(random, mixed, *domain.ends(mixed.shape, format)), domain, format))
    return point


def _mutated(random: np.random.Generator, numbers: Array, low: Array, high: Array) -> Array:
    """Some elements, or all, moved by noise, by equal steps, or to an end of the range."""
    with np.errstate(over="ignore"):
        width = np.minimum(high - low, 1e30)
    part = random.random(numbers.shape) < random.choice([0.05, 0.3, 1.0])
    match int(random.integers(3)):
        case 0:
            moves = numbers + random.standard_cauchy(numbers.shape) * width * 10.0 ** random.uniform(-4.0, -1.0)
        case 1:
            moves = numbers + random.choice([-1.0, 1.0], numbers.shape) * width * 10.0 ** random.uniform(-3.0, 0.0)
        case _:
            moves = np.where(random.random(numbers.shape) < 0.5, low, high)
    return np.where(part, moves, numbers)
