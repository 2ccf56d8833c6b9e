"""A pair of models: one with a defect, and the same one with the usual repair; and what a check has to say about them.

A pair is a function `build(safe)` that builds either twin. The line of the defect, where a file keeps lines, is the one that ends
with `# BUG`. The functions name TensorFlow through `Deferred`: the test process reads the pairs, a child builds the models.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tensorproof.findings import Finding

#: How a model is written: graphs of version 1 (`frozen`: variables as constants; `checkpoint`: .meta beside the values), or later.
Kind = Literal["pb", "pbtxt", "meta", "checkpoint", "frozen", "saved_v1", "saved_v2", "keras"]

MARKER = "# BUG"


class Deferred:
    """A module that is imported at its first use."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


@dataclass(frozen=True)
class Expected:
    """One finding: its rule, and patterns for the operator as the report names it and for the name of the node."""

    rule: str
    op: str
    node: str
    phase: Literal["forward", "backward"] = "forward"

    def describes(self, rule: str, op: str, node: str, phase: str) -> bool:
        matches = re.fullmatch(self.op, op) is not None and re.fullmatch(self.node, node) is not None
        return matches and (rule, phase) == (self.rule, self.phase)


@dataclass(frozen=True)
class Pair:
    """Two models and how they are checked.

    `ranges` are those of the check; `point` is a point within them, and within what the initialisers of the variables give,
    where the defective twin fails and the safe one does not: a value for each input and variable that matters, spread over its
    shape. `phase` is that of the check.
    """

    name: str
    build: Callable[[bool], Any]
    kind: Kind
    ranges: Mapping[str, Any]
    point: Mapping[str, Any]
    expected: tuple[Expected, ...]
    phase: Literal["inference", "training"] = "training"
    variables: Literal["reference", "resource"] = "reference"
    control_flow: Literal["v1", "v2"] = "v1"
    #: Whether a check that runs the model has to confirm the findings.
    confirmed: bool = False
    #: What the defective twin is told beside the defect: bounds after it that are as wide as a value next to the defect makes them.
    also: tuple[Expected, ...] = ()
    #: Gradients of loops keep their values on stacks and in lists, which are not followed: the report says so.
    has_gradient_of_loop: bool = False

    def expects(self, finding: Finding) -> bool:
        """Whether a finding is the defect of the pair."""
        return any(one.describes(finding.rule.code, finding.op, finding.node, finding.phase) for one in self.expected)

    def line(self) -> int | None:
        """The line of the defect in the file of the pair."""
        lines, first = inspect.getsourcelines(self.build)
        marked = [first + index for index, line in enumerate(lines) if line.rstrip().endswith(MARKER)]
        return marked[0] if len(marked) == 1 else None

    def stem(self, safe: bool) -> str:
        return f"{self.name}_safe" if safe else self.name

    def path(self, safe: bool) -> str:
        """Where the model lies in the folder of all models."""
        stem = self.stem(safe)
        suffix = {"pb": ".pb", "frozen": ".pb", "pbtxt": ".pbtxt", "meta": ".meta", "checkpoint": ".meta", "keras": ".keras"}
        return stem + suffix.get(self.kind, "")


PAIRS: dict[str, Pair] = {}


def pair(kind: Kind, *expected: Expected, **stated: Any) -> Callable[[Callable[[bool], Any]], Callable[[bool], Any]]:
    """Enter a pair under the name of the function that builds it."""

    def enter(build: Callable[[bool], Any]) -> Callable[[bool], Any]:
        name = build.__name__
        assert name not in PAIRS, f"{name}: two pairs of one name"
        PAIRS[name] = Pair(name, build, kind, expected=expected, **stated)
        return build

    return enter
