"""Rows of a training example: what each adds to a step, examples of the best ones alone, and ways from one example to another.

The loss of a batch is a sum over its rows, and linear in their labels: a row adds to the step what the slope of its label
says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tensorproof.confirm.observer import Observing
from tensorproof.confirm.sampling import Point
from tensorproof.confirm.system_objective import TRAINING
from tensorproof.formats import Array

Order = npt.NDArray[np.int64]

#: Shares of the rows that are kept.
SHARES = (0.95, 0.75, 0.5, 0.25, 0.1, 0.0)


def best_rows(point: Point, slopes: Mapping[str, Array], labels: Sequence[str]) -> Iterator[Point]:
    """The example with its worst rows replaced by its best: an eighth of them, half of them, ..., all by the best row alone."""
    rows = row_count(point)
    known = [name for name in labels if name.startswith(TRAINING) and name in slopes and len(point[name]) == rows]
    if rows < 2 or not known:
        return
    credit = sum((slopes[name] * point[name]).reshape(rows, -1).sum(axis=1) for name in known)
    order = np.argsort(credit, kind="stable")
    for share in SHARES:
        kept = max(1, int(share * rows))
        chosen = np.resize(order[:kept], rows)
        yield _with_rows(point, lambda array, chosen=chosen: array[chosen])


def row_count(point: Point) -> int:
    """How many rows the example has; 0 if its inputs do not agree about that."""
    sizes = {len(array) for name, array in point.items() if name.startswith(TRAINING) and array.ndim}
    return sizes.pop() if len(sizes) == 1 else 0


def nearest_to_zero(observer: Observing, one: Point, other: Point, place: int, order: Order) -> Iterator[Point]:
    """Rows of one example replaced by those of another, in an order, until an element of the operand is of the other sign.

    Each point is run by the caller before the next one is asked for; the last two differ in one row.
    """
    yield one
    start = _element(observer, place)
    least, most = 0, len(order)
    while most - least > 1:
        middle = (least + most) // 2
        replaced = np.zeros(len(order), np.bool_)
        replaced[order[:middle]] = True
        yield _mixed(one, other, replaced)
        if _element(observer, place) * start > 0.0:
            least = middle
        else:
            most = middle


def _element(observer: Observing, place: int) -> float:
    operand = observer.operand()
    return 0.0 if operand is None or place >= operand.size else float(operand.flat[place])


def _mixed(one: Point, other: Point, replaced: npt.NDArray[np.bool_]) -> Point:
    return {
        name: np.where(replaced.reshape(-1, *[1] * (array.ndim - 1)), other[name], array) if _is_batch(name, array) else other[name]
        for name, array in one.items()
    }


def _with_rows(point: Point, change: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> Point:
    return {name: change(array) if _is_batch(name, array) else array for name, array in point.items()}


def _is_batch(name: str, array: npt.NDArray[np.float64]) -> bool:
    return name.startswith(TRAINING) and array.ndim > 0
