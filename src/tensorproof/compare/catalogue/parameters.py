"""`Parameter`: what may stand for one argument of a layer, and what may not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

from tensorproof.compare.spec import Json


@dataclass(frozen=True)
class Parameter:
    """An argument of a layer's constructor, or an attribute of an operator.

    `legal` are values that matter, the default first; `illegal` are values that must be refused while all other parameters have
    their default. `accepts` decides about any value by itself; how it goes with the others and with the inputs is the layer's
    shape rule's to say. A `required` parameter has to be given: its `default` is the value of choice, not the framework's.
    """

    default: Json
    legal: tuple[Json, ...]
    illegal: tuple[Json, ...] = ()
    accepts: Callable[[Json], bool] = lambda _: True
    required: bool = False


def is_count(value: Json, least: int = 1) -> TypeGuard[int]:
    """A whole number, not a truth value."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: Json) -> TypeGuard[float]:
    """A number, not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_list(value: Json, length: int | None = None) -> TypeGuard[Sequence[Any]]:
    """A list, of a certain length if one is given."""
    return isinstance(value, list | tuple) and (length is None or len(cast("Sequence[Any]", value)) == length)


def count(*legal: int | None, required: bool = False, illegal: tuple[Json, ...] = (), least: int = 1) -> Parameter:
    """A whole number that is at least `least`; the first is the default. None only where it is among the legal ones."""
    optional = None in legal
    wrong: tuple[Json, ...] = (0,) if least > 0 else ()
    wrong += (-1, 2.5, "three", [2, 2]) + (() if optional else (None,))

    def accepts(value: Json) -> bool:
        return (value is None and optional) or is_count(value, least)

    return Parameter(legal[0], legal, wrong + illegal, accepts, required)


def sizes(rank: int, *legal: Json, required: bool = False, illegal: tuple[Json, ...] = (), least: int = 1) -> Parameter:
    """One whole number for all spatial axes, or a list with one for each."""
    optional = None in legal
    wrong: tuple[Json, ...] = (0, [0] * rank) if least > 0 else ()
    wrong += (-1, 1.5, "two", [2] * (rank + 1)) + (() if optional else (None,))

    def accepts(value: Json) -> bool:
        if is_list(value, rank):
            return all(is_count(part, least) for part in value)
        return (value is None and optional) or is_count(value, least)

    return Parameter(legal[0], legal, wrong + illegal, accepts, required)


def choice(*legal: Json, required: bool = False, illegal: tuple[Json, ...] = ()) -> Parameter:
    """One of a list of words."""
    words = set(legal)
    wrong: tuple[Json, ...] = ("unknown", 3) + (() if None in words else (None,))
    return Parameter(
        legal[0], legal, wrong + illegal, lambda value: isinstance(value, str | int | None) and value in words, required
    )


def flag(default: bool) -> Parameter:
    """Yes or no. Frameworks take anything for a truth value, so nothing is illegal."""
    return Parameter(default, (default, not default), (), lambda value: isinstance(value, bool))


def number(
    *legal: float | None,
    illegal: tuple[Json, ...] = ("much",),
    low: float = float("-inf"),
    high: float = float("inf"),
    required: bool = False,
) -> Parameter:
    """A number within bounds, which belong to it."""
    optional = None in legal

    def accepts(value: Json) -> bool:
        return (value is None and optional) or (is_number(value) and low <= value <= high)

    return Parameter(legal[0], legal, illegal, accepts, required)


def listed(*legal: Json, illegal: tuple[Json, ...] = (), required: bool = False) -> Parameter:
    """Values whose form the shape rule checks."""
    return Parameter(legal[0], legal, illegal, lambda _: True, required)


def spread(value: Json, rank: int) -> tuple[int, ...]:
    """A size for each of `rank` axes from one number or a list."""
    return tuple(value) if is_list(value) else (int(value),) * rank


#: Words for activations that have their own code in every backend.
activation = choice(None, "relu", "gelu", "tanh", "softmax")
channels_order = choice(None, "channels_last", "channels_first")
