"""A TensorFlow graph as the analysis reads it: nodes with resolved operands, functions, and what names the user's lines.

These records stand between the files of TensorFlow (`tensorflow_files`) and our own graph (`tensorflow_graph`). They keep
TensorFlow's names and operators; attributes are Python values instead of protobuf messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy.typing as npt

from tensorproof.graph import SourceLine


class Reference(NamedTuple):
    """A result of a node: `node:output` in TensorFlow's spelling. The inputs of a function are nodes of their own names."""

    node: str
    output: int = 0

    def __str__(self) -> str:
        return f"{self.node}:{self.output}"


@dataclass(frozen=True, slots=True)
class FunctionName:
    """An attribute that names a function of the library."""

    name: str


@dataclass(frozen=True, slots=True)
class DataType:
    """An attribute that is a type of tensors: TensorFlow's number for it (`types.proto`), references (100 + n) as plain types."""

    code: int


@dataclass(frozen=True, slots=True)
class TensorShape:
    """An attribute that is a shape: None for an unknown rank, -1 for an unknown size."""

    sizes: tuple[int, ...] | None


@dataclass(slots=True)
class TensorflowNode:
    """One node. `inputs` are data operands; control edges are kept aside, since they carry no values.

    Attributes are int, float, bool, bytes, DataType, TensorShape, numpy arrays (tensors; string tensors are arrays of bytes
    objects), FunctionName, and lists of them. `function` is the function of the library that the node was written in ("" for
    the graph itself) and `original` its name there: what debug information goes by. `is_gradient` says that TensorFlow made it
    while it differentiated, where that is known: names do not always tell.
    """

    name: str
    op: str
    inputs: tuple[Reference, ...]
    attributes: Mapping[str, Any]
    controls: tuple[str, ...] = ()
    function: str = ""
    original: str = ""
    is_gradient: bool = False


@dataclass(slots=True)
class TensorflowFunction:
    """A function of the library: named inputs, nodes, and the results that it returns in order."""

    name: str
    inputs: tuple[str, ...]
    input_types: tuple[DataType, ...]
    nodes: list[TensorflowNode]
    outputs: tuple[Reference, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class Signature:
    """What a SavedModel offers to its users: inputs and outputs by the names that users see."""

    name: str
    inputs: dict[str, Reference]
    outputs: dict[str, Reference]


@dataclass(slots=True)
class TensorflowGraph:
    """A graph with its functions.

    `values` are values of variables by the name of the node that is (VariableV2) or holds (VarHandleOp) the variable, where a
    checkpoint has them. `lines` maps (function, node) to the user's line. `signatures` are those of a SavedModel, or of a .meta
    file; a bare graph has none. `collections` are names of nodes by the collection of a .meta file that they are in.
    """

    nodes: list[TensorflowNode]
    functions: dict[str, TensorflowFunction] = field(default_factory=dict[str, TensorflowFunction])
    values: dict[str, npt.NDArray[Any]] = field(default_factory=dict[str, npt.NDArray[Any]])
    lines: dict[tuple[str, str], SourceLine] = field(default_factory=dict[tuple[str, str], SourceLine])
    #: The layers that nodes belong to, by the same key, where a framework above TensorFlow knows them.
    modules: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    signatures: dict[str, Signature] = field(default_factory=dict[str, Signature])
    collections: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    producer: str = ""
    #: What could not be read, in words for the report (a checkpoint that is missing, debug information that is damaged).
    notes: list[str] = field(default_factory=list[str])
