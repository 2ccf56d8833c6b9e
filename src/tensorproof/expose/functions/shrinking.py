"""Plainer values that fail in the same way: the same small numbers wherever the failure does not need others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tensorproof.expose.events import Failure
from tensorproof.expose.functions.argument import Argument
from tensorproof.formats import Array

#: Calls that making one failure plainer may take.
MOST_CALLS = 150
#: Numbers that say least, and digits of a number that a reader takes in.
_PLAIN = (1.0, 0.5, 0.0)
_DIGITS = (1, 2, 3)


def simplified(
    arguments: Mapping[str, Argument],
    values: Mapping[str, Array],
    failure: Failure,
    run: Callable[[Mapping[str, Array]], Failure | None],
) -> tuple[dict[str, Array], Failure]:
    """Values that fail at the same place, and how they do."""
    kept, shown, left = dict(values), failure, MOST_CALLS
    for name, argument in arguments.items():
        for alternatives in _ways(argument):
            for make in alternatives:
                array = argument.legal(make(kept[name]))
                if np.array_equal(array, kept[name]):
                    break
                if left <= 0:
                    return kept, shown
                left -= 1
                seen = run({**kept, name: array})
                if seen is not None and _is_same(seen, failure):
                    kept[name], shown = array, seen
                    break
    return kept, shown


def _is_same(seen: Failure, failure: Failure) -> bool:
    return (seen.file, seen.line, seen.column, seen.operator, seen.phase, seen.rule) == (
        failure.file, failure.line, failure.column, failure.operator, failure.phase, failure.rule,
    )  # fmt: skip


def _ways(argument: Argument) -> Iterator[list[Callable[[Array], Array]]]:
    """Ways to make an array plainer, alternatives in order: a plain number everywhere, in ever smaller parts, then fewer digits."""
    size = int(np.prod(argument.shape, dtype=np.int64))
    part = size
    while part:
        for first in range(0, size, part):
            yield [_filled(first, part, plain) for plain in _PLAIN]
        part = (part + 1) // 2 if part > 1 else 0
    if argument.format.is_float:
        yield [_to_digits(digits) for digits in _DIGITS]


def _filled(first: int, count: int, value: float) -> Callable[[Array], Array]:
    def fill(array: Array) -> Array:
        flat = array.reshape(-1).copy()
        flat[first : first + count] = value
        return flat.reshape(array.shape)

    return fill


def _to_digits(digits: int) -> Callable[[Array], Array]:
    def rounded(array: Array) -> Array:
        return np.array([float(f"{value:.{digits - 1}e}") for value in array.reshape(-1)]).reshape(array.shape)

    return rounded
