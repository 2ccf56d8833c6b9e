"""An architecture as TensorFlow builds it, and the truth about each of its operations that can fail.

An architecture is a function `build(fixed)` that builds a training graph of version 1 and returns what it computes (its losses and
predictions). Where it has a defect, `fixed` asks for the repaired twin. Facts say of every operation of the kinds that DEBAR counts
whether it can fail: that it does is a point of the box at which it was seen to, that it does not is an argument in one line. None
comes from an analysis: `running` replays the points in TensorFlow, and tries to refute the arguments.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

#: The operations that DEBAR looks at, by TensorFlow's names.
UNSAFE_KINDS = frozenset({"Log", "Exp", "RealDiv", "Div", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Pow", "Log1p", "Expm1"})

Form = Literal["defective", "fixed", "only"]
#: A value for each input, variable or random operation that matters, spread over its shape; others are as near to 0 as they may be.
Point = Mapping[str, Any]


class Deferred:
    """A module that is imported at its first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is seen of an operation in a loop, from outside: tensors that stack its operands and its results, one row per step."""

    operands: tuple[str, ...]
    result: str


@dataclass(frozen=True, slots=True)
class Fact:
    """The truth about the operations whose names match a pattern, in one form of an architecture or in both.

    An operation fails where its operands are finite, its result is not, and nothing before it failed. It can fail within a box if
    one of `points` lies there.
    """

    node: str
    why: str
    points: tuple[Point, ...] = ()
    form: Form | None = None
    seen: Seen | None = None

    def is_about(self, operation: str) -> bool:
        return re.fullmatch(self.node, operation) is not None


def fails(node: str, why: str, *at: Point, fixed: str = "", seen: Seen | None = None) -> tuple[Fact, ...]:
    """Operations that fail at a point; `fixed` says why those of the same names do not in the repaired twin, if it has them.

    Of several points one is enough: where rounding decides, it may be another on another processor.
    """
    found = (Fact(node, why, at, "defective", seen),)
    return (*found, Fact(node, fixed, (), "fixed", seen)) if fixed else found


def holds(
    node: str, why: str, *, form: Form | None = None, wider: Point | None = None, seen: Seen | None = None
) -> tuple[Fact, ...]:
    """Operations that do not fail; at `wider`, a point outside the box of the initialisers and within a wider one, they do."""
    return (Fact(node, why, () if wider is None else (wider,), form, seen),)


@dataclass(frozen=True, slots=True)
class Architecture:
    """A description: what builds it, what its inputs may be, and the facts."""

    name: str
    family: str
    build: Callable[[bool], Any]
    ranges: Mapping[str, Any]
    all_facts: tuple[Fact, ...]
    has_twin: bool
    #: Whether variables are resources, and loops functions, as in later graphs of version 1.
    resources: bool = False

    @property
    def title(self) -> str:
        """What the architecture is: the first sentence of its docstring."""
        return (self.build.__doc__ or "").strip().partition("\n")[0].rstrip(".")

    @property
    def forms(self) -> tuple[Form, ...]:
        return ("defective", "fixed") if self.has_twin else ("only",)

    def facts(self, form: Form) -> tuple[Fact, ...]:
        """The facts about one form."""
        return tuple(fact for fact in self.all_facts if fact.form in (None, form))


@dataclass(slots=True)
class Family:
    """Architectures of one kind; as a decorator it enters the function that builds one."""

    name: str
    entries: dict[str, Architecture] = field(default_factory=dict[str, Architecture])

    def __call__(self, *facts: tuple[Fact, ...], ranges: Mapping[str, Any], resources: bool = False) -> Callable[[Any], Any]:
        def enter(build: Callable[[bool], Any]) -> Callable[[bool], Any]:
            stated = tuple(fact for some in facts for fact in some)
            has_twin = any(fact.form is not None for fact in stated)
            name = build.__name__
            assert name not in self.entries, f"{name}: two architectures of one name"
            self.entries[name] = Architecture(name, self.name, build, ranges, stated, has_twin, resources)
            return build

        return enter
