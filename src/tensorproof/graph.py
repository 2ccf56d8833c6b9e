"""The computation graph that all front ends produce and all analyses read.

Small on purpose: values are integers, so that 200,000 nodes load in seconds. Sub-graphs (the bodies of If, Loop and Scan)
share the value numbers of their model, so that a value of an outer scope is read by its number alone. This module imports
no framework.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy.typing as npt

from tensorproof.formats import Format

#: A dimension: a number, the name of a symbolic dimension, or unknown.
Dimension = int | str | None

#: The attribute of a node that a front end could not say in the table's operators: the reason.
NOT_ANALYSED = "not analysed"

#: Stands for an optional input or output that a node leaves out.
ABSENT = -1


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where in the user's program a node was written. The path is a claim of the model file, not a path to open blindly."""

    file: str
    line: int
    function: str = ""
    column: int | None = None


@dataclass(slots=True)
class Value:
    """A tensor (or sequence, or optional) that flows along an edge.

    `format` and `shape` are what the file declares; None where it declares nothing.
    """

    name: str
    format: Format | None = None
    shape: tuple[Dimension, ...] | None = None
    container: str = "tensor"


@dataclass(slots=True)
class Node:
    """One application of an operator.

    `inputs` and `outputs` are value numbers, ABSENT for one left out. `name` is the name in the file, or one derived from
    the first output where the file has none. Sub-graphs stand among the attributes.
    """

    number: int
    op: str
    domain: str
    version: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    source: SourceLine | None = None
    module: str = ""
    #: Whether the node computes values or, in the graph of a training step, gradients; then its line is that of the value.
    phase: Literal["forward", "backward"] = "forward"

    def subgraphs(self) -> Iterator[Graph]:
        for attribute in self.attributes.values():
            if isinstance(attribute, Graph):
                yield attribute

    @property
    def label(self) -> str:
        """Operator with its domain, as shown to the user."""
        return f"{self.domain}::{self.op}" if self.domain else self.op


@dataclass(slots=True)
class Graph:
    """Nodes in topological order, with the values that enter and leave."""

    name: str
    nodes: list[Node]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def walk(self) -> Iterator[Node]:
        """All nodes, those of sub-graphs included, each before the nodes of its sub-graphs."""
        for node in self.nodes:
            yield node
            for attribute in node.attributes.values():
                if isinstance(attribute, Graph):
                    yield from attribute.walk()


@dataclass(slots=True)
class Model:
    """A graph with its values and constants.

    `constants` maps value numbers to arrays: initialisers of the graph and of its sub-graphs. `weights` are those
    constants that are parameters of the model (initialisers), as opposed to constants of the program (Constant nodes).
    `conversions` names what a conversion of the model to another format did to a constant: `overflow` or `vanished`.
    """

    name: str
    graph: Graph
    values: list[Value]
    constants: dict[int, npt.NDArray[Any]]
    weights: frozenset[int]
    opsets: Mapping[str, int]
    producer: str = ""
    path: str | None = None
    conversions: dict[int, str] = field(default_factory=dict[int, str])
    #: Sizes of symbolic dimensions where nothing else is declared, by name: those that the program was traced with.
    default_sizes: dict[str, int] = field(default_factory=dict[str, int])
    #: What weights may be when the model is built, by number, where its initialisation is known.
    initial_ranges: dict[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    #: Weights that the file gives no value: they are ranges, and their arrays only state a shape.
    unvalued: frozenset[int] = frozenset()
    #: What analyses found out about the model alone, by their own names. A model is not changed once it is analysed.
    memory: dict[str, Any] = field(default_factory=dict[str, Any], init=False, repr=False, compare=False)

    def find_value(self, name: str) -> int | None:
        """The number of the first value with that name (names are unique within a scope)."""
        for number, value in enumerate(self.values):
            if value.name == name:
                return number
        return None

    def name_of(self, number: int) -> str:
        return self.values[number].name
