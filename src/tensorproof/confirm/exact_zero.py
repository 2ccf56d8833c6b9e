"""Points on which an operand is exactly zero: descent comes near, but only some of the numbers of a format cancel.

Near the zero of a smooth operand v, the objective log|v| has the gradient g = v' / v, and Newton's step to the zero of v is
-g / |g|^2; twice that lands on the other side. Between the two sides the runtime's own arithmetic is bisected, on a way that
moves one element after the other, so that the operand changes in steps as small as they can be. Numbers of few digits
cancel more often than others; and around the last point, steps of single units of the last place of some elements try the
values that rounding gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tensorproof.confirm.observer import Observing
from tensorproof.confirm.sampling import Point
from tensorproof.formats import Array, of_dtype

Boxes = Mapping[str, tuple[Array, Array]]
Within = Callable[[Mapping[str, Array], Point], Point]

BISECTIONS, NEIGHBOURS = 48, 48
#: Newton's step is taken so many times: where the operand is a staircase, its derivative is a guess.
OVERSHOOTS = (2.0, 8.0, 32.0, 128.0, 1024.0)
_DECIMALS, _FRACTIONS = (0, 1, 2, 3), (0, 2, 4, 8)


def exact_zeros(
    observer: Observing, point: Point, gradients: Mapping[str, Array], boxes: Boxes, within: Within, seed: int
) -> Iterator[Point]:
    """Candidates around a point; each is run by the caller before the next one is asked for."""
    numbers = {name: point[name].astype(np.float64) for name in boxes if name in point}
    for digits in _DECIMALS:
        yield within({name: np.round(array, digits) for name, array in numbers.items()}, point)
    for digits in _FRACTIONS:
        yield within({name: np.ldexp(np.rint(np.ldexp(array, digits)), -digits) for name, array in numbers.items()}, point)
    yield from _bisection(observer, point, numbers, gradients, within)
    last = {name: observer.values[name].astype(np.float64) for name in numbers if name in observer.values}
    yield from _neighbours(last or numbers, point, within, seed)


def _bisection(
    observer: Observing, point: Point, numbers: Mapping[str, Array], gradients: Mapping[str, Array], within: Within
) -> Iterator[Point]:
    square = sum(float((slope * slope).sum()) for slope in gradients.values())
    if not 0.0 < square < np.inf:
        return
    yield point
    before = observer.operand()
    if before is None or not before.size:
        return
    place = int(np.argmin(np.where(np.isfinite(before), np.abs(before), np.inf)))
    sign = np.sign(before.flat[place])
    for factor in OVERSHOOTS:
        far = within({name: numbers[name] - factor * slope / square for name, slope in gradients.items()}, point)
        yield far
        after = observer.operand()
        if after is None or after.shape != before.shape:
            return
        if sign * after.flat[place] < 0.0:
            break
    else:
        return
    other = {name: far[name].astype(np.float64) for name in gradients}
    least, most = 0.0, float(sum(array.size for array in other.values()))
    for _ in range(BISECTIONS):
        middle = 0.5 * least + 0.5 * most
        yield within(_staircase(numbers, other, middle), point)
        now = observer.operand()
        if now is None or now.shape != before.shape:
            return
        if sign * now.flat[place] > 0.0:
            least = middle
        else:
            most = middle


def _staircase(near: Mapping[str, Array], other: Mapping[str, Array], position: float) -> dict[str, Array]:
    """A point on the way from one side to the other that moves one element after the other."""
    moved: dict[str, Array] = {}
    for name, target in other.items():
        share = np.clip(position - np.arange(target.size).reshape(target.shape), 0.0, 1.0)
        moved[name] = near[name] * (1.0 - share) + target * share
        position -= target.size
    return moved


def _neighbours(numbers: Mapping[str, Array], point: Point, within: Within, seed: int) -> Iterator[Point]:
    for number in range(NEIGHBOURS):
        rng = np.random.default_rng([seed, number])
        moved: dict[str, Array] = {}
        for name, array in numbers.items():
            unit = of_dtype(point[name].dtype).quantum(array)
            moved[name] = array + np.where(rng.random(array.shape) < 0.3, rng.integers(-4, 5, array.shape), 0) * unit
        yield within(moved, point)
