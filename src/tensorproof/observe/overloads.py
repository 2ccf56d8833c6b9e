"""What the observation has to know of an ATen operator, read off its schema: whether it computes, and what it writes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Their result is memory as it was found.
_UNINITIALISED = {
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "set_",
}
#: They hand on what is there, or make a tensor out of a Python value.
_HANDS_ON = {"lift_fresh", "lift_fresh_copy", "lift", "alias", "detach_"}
#: What their first argument held before does not enter the result.
_OVERWRITES = {
    "copy_",
    "fill_",
    "zero_",
    "normal_",
    "uniform_",
    "random_",
    "bernoulli_",
    "exponential_",
    "log_normal_",
    "cauchy_",
    "geometric_",
}


@dataclass(frozen=True, slots=True)
class Overload:
    """One ATen overload.

    `computes` is false for views and for memory that is not initialised: these cannot fail. `updates` are the positions of
    arguments that are read and written, `writes` those that are written, read or not.
    """

    name: str
    computes: bool
    is_uninitialised: bool
    updates: tuple[int, ...]
    writes: tuple[int, ...]
    arguments: tuple[str, ...]

    @classmethod
    def of(cls, function: Any) -> Overload:
        schema = function._schema
        base = str(schema.name).rpartition("::")[2]
        writes: list[int] = []
        updates: list[int] = []
        for position, argument in enumerate(schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            writes.append(position)
            if base not in _OVERWRITES and not argument.is_out:
                updates.append(position)
        returned = [item.alias_info for item in schema.returns]
        is_view = not writes and any(info is not None for info in returned)
        is_uninitialised = base in _UNINITIALISED
        computes = not is_view and not is_uninitialised and base not in _HANDS_ON
        names = tuple(str(argument.name) for argument in schema.arguments)
        return cls(base, computes and bool(returned or writes), is_uninitialised, tuple(updates), tuple(writes), names)
