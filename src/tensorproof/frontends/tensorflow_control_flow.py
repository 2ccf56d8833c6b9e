"""What the raising of loops and of conditions has in common: operators of control flow, new functions, types of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tensorproof.frontends.tensorflow_protos import DATA_TYPES
from tensorproof.frontends.tensorflow_records import DataType, Reference, TensorflowFunction, TensorflowNode

SWITCHES = frozenset({"Switch", "RefSwitch"})
MERGES = frozenset({"Merge", "RefMerge"})
ENTERS = frozenset({"Enter", "RefEnter"})
EXITS = frozenset({"Exit", "RefExit"})
CONTROL_FLOW = SWITCHES | MERGES | ENTERS

BOOL = DataType(DATA_TYPES["BOOL"])
INT32 = DataType(DATA_TYPES["INT32"])
_UNKNOWN = DataType(0)

#: Operators with a result of another type than their attribute `T`.
_PREDICATES = frozenset(
    {
        *("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "ApproximateEqual", "LogicalAnd", "LogicalOr"),
        *("LogicalNot", "All", "Any", "IsNan", "IsInf", "IsFinite", "IsVariableInitialized", "VarIsInitializedOp", "InTopK"),
        *("InTopKV2", "LoopCond"),
    }
)
_OTHER_TYPES = {
    "Cast": "DstT",
    "Bitcast": "type",
    "Shape": "out_type",
    "Size": "out_type",
    "ArgMax": "output_type",
    "ArgMin": "output_type",
    "StackPopV2": "elem_type",
}
#: Operators whose result is a handle of something that keeps its state.
_HANDLES = frozenset({"StackV2", "VarHandleOp", "TensorArrayV3", "TensorArrayGradV3", "HashTableV2", "MutexV2"})


class Library:
    """The functions of a graph while new ones are made: names that are free, of functions and of nodes."""

    def __init__(self, functions: Mapping[str, TensorflowFunction]) -> None:
        self.functions = dict(functions)

    def add(
        self, name: str, inputs: Iterable[tuple[str, DataType]], nodes: list[TensorflowNode], outputs: Iterable[Reference]
    ) -> str:
        """A new function; the name that it got."""
        given = tuple(inputs)
        unique = free_name(name, self.functions)
        self.functions[unique] = TensorflowFunction(
            unique, tuple([each for each, _ in given]), tuple([each for _, each in given]), nodes, tuple(outputs)
        )
        return unique


def free_name(wanted: str, taken: Iterable[str] | Mapping[str, Any]) -> str:
    """A name that is not taken yet, as TensorFlow would make it."""
    names = taken if isinstance(taken, (set, frozenset, dict, Mapping)) else set(taken)
    name, number = wanted, 0
    while name in names:
        number += 1
        name = f"{wanted}_{number}"
    return name


def identity(node: TensorflowNode, operand: Reference, kind: DataType) -> TensorflowNode:
    """A node that passes a value on, in the place and under the name of another."""
    return replace(node, op="Identity", inputs=(operand,), attributes={"T": kind})


def type_attribute(node: TensorflowNode) -> DataType:
    """The type that a node of control flow handles."""
    kind = node.attributes.get("T")
    return kind if isinstance(kind, DataType) else _UNKNOWN


def result_type(node: TensorflowNode | None, output: int) -> DataType:
    """The type of a node's result as far as its attributes tell it; a type of number 0 where they do not."""
    if node is None:
        return _UNKNOWN
    if node.op in _PREDICATES:
        return BOOL
    if node.op in _HANDLES and output == 0:
        return DataType(DATA_TYPES["RESOURCE"])
    if node.op in ("If", "While", "StatelessIf", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall"):
        kinds = node.attributes.get("Tout", node.attributes.get("T"))
        return kinds[output] if isinstance(kinds, list) and output < len(kinds) else _UNKNOWN
    names = (_OTHER_TYPES[node.op],) if node.op in _OTHER_TYPES else ("dtype", "T")
    for name in names:
        kind = node.attributes.get(name)
        if isinstance(kind, DataType):
            return kind
    return INT32 if node.op in ("Shape", "Size", "Rank") else _UNKNOWN
