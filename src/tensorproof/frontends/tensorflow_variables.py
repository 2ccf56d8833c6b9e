"""Which tensor of a checkpoint is the value of which variable.

A graph that can be saved says so itself: its RestoreV2 reads named tensors that are assigned to variables, its SaveV2 writes
variables under names. SavedModels of TensorFlow 2 do it in functions that get the variables as arguments. Variables that
neither mentions are looked for under their own name, and in the graph of objects that the checkpoint holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorproof.errors import ModelError
from tensorproof.frontends.tensorflow_checkpoint import Checkpoint
from tensorproof.frontends.tensorflow_protos import message_class
from tensorproof.frontends.tensorflow_records import FunctionName, Reference, TensorflowGraph, TensorflowNode, TensorShape

#: Operators that are or hold a variable.
VARIABLES = frozenset({"VarHandleOp", "VariableV2", "Variable", "AutoReloadVariable"})
_SAME_VALUE = frozenset({"Identity", "ReadVariableOp", "StopGradient", "Snapshot", "DisableCopyOnRead"})
_ASSIGNMENTS = frozenset({"Assign", "AssignVariableOp"})
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_DEEPEST_CALL = 4
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


def read_values(graph: TensorflowGraph, checkpoint: Checkpoint) -> None:
    """Add the values of the variables that a checkpoint has; what could not be read is noted."""
    variables = [node for node in graph.nodes if node.op in VARIABLES]
    keys = variable_keys(graph)
    by_object = _object_keys(checkpoint)
    sliced: list[str] = []
    unfit: list[str] = []
    for node in variables:
        shared = node.attributes.get("shared_name", b"")
        name = shared.decode("utf-8", "replace") if isinstance(shared, bytes) and shared else node.name
        candidates = (keys.get(node.name, ""), by_object.get(name, ""), name, node.name)
        key = next((candidate for candidate in candidates if candidate and candidate in checkpoint), None)
        if key is None:
            continue
        if checkpoint.is_sliced(key):
            sliced.append(node.name)
            continue
        value = checkpoint.value(key)
        declared = node.attributes.get("shape")
        if isinstance(declared, TensorShape) and not _fits(value.shape, declared):
            unfit.append(node.name)
            continue
        graph.values[node.name] = value
    for names, what in ((sliced, "are kept in slices, which are not read"), (unfit, "do not have the shape in the checkpoint")):
        if names:
            rest = "" if len(names) <= 3 else f" and {len(names) - 3} others"
            graph.notes.append(f"values of variables {what}: {', '.join(names[:3])}{rest}")


def variable_keys(graph: TensorflowGraph) -> dict[str, str]:
    """The key in a checkpoint by the name of the variable's node, as the graph's own saving and restoring say."""
    found: dict[str, str] = {}
    _search(graph, graph.nodes, {}, found, 0)
    return found


def _search(
    graph: TensorflowGraph, nodes: Sequence[TensorflowNode], arguments: Mapping[str, str], found: dict[str, str], depth: int
) -> None:
    """Follow the saving and restoring in some nodes; `arguments` are variables by the argument that they are given as."""
    by_name = {node.name: node for node in nodes}

    def source(reference: Reference) -> Reference:
        for _ in range(len(by_name)):
            node = by_name.get(reference.node)
            if node is None or node.op not in _SAME_VALUE or not node.inputs:
                break
            reference = node.inputs[0]
        return reference

    def variable(reference: Reference) -> str | None:
        name = source(reference).node
        node = by_name.get(name)
        return arguments.get(name) if node is None else name if node.op in VARIABLES else None

    for node in nodes:
        if node.op in _ASSIGNMENTS and len(node.inputs) == 2:
            origin = source(node.inputs[1])
            restore = by_name.get(origin.node)
            if restore is not None and restore.op == "RestoreV2":
                names = _constant(by_name, restore, 1)
                holder = variable(node.inputs[0])
                if holder is not None and origin.output < len(names):
                    found.setdefault(holder, names[origin.output])
        elif node.op == "SaveV2":
            for name, operand in zip(_constant(by_name, node, 1), node.inputs[3:]):
                holder = variable(operand)
                if holder is not None:
                    found.setdefault(holder, name)
        elif node.op in _CALLS and depth < _DEEPEST_CALL:
            called = node.attributes.get("f")
            function = graph.functions.get(called.name) if isinstance(called, FunctionName) else None
            if function is not None and any(inner.op in ("RestoreV2", "SaveV2") or inner.op in _CALLS for inner in function.nodes):
                given = {name: holder for name, operand in zip(function.inputs, node.inputs) if (holder := variable(operand))}
                if given:
                    _search(graph, function.nodes, given, found, depth + 1)


def _constant(by_name: Mapping[str, TensorflowNode], node: TensorflowNode, position: int) -> list[str]:
    """The strings of an operand that is a constant."""
    operand = by_name.get(node.inputs[position].node) if position < len(node.inputs) else None
    value: Any = operand.attributes.get("value") if operand is not None and operand.op == "Const" else None
    if not isinstance(value, np.ndarray) or value.dtype != np.object_:
        return []
    return [text.decode("utf-8", "replace") for text in value.ravel() if isinstance(text, bytes)]


def _object_keys(checkpoint: Checkpoint) -> dict[str, str]:
    """Keys by the full name of a variable, where only one has that name."""
    from google.protobuf.message import DecodeError

    if _OBJECTS not in checkpoint:
        return {}
    value = checkpoint.value(_OBJECTS)
    try:
        objects = message_class("TrackableObjectGraph").FromString(value.item() if value.size == 1 else b"")
    except (DecodeError, TypeError):
        raise ModelError(f"{checkpoint.prefix}.index: the checkpoint's list of objects is damaged") from None
    keys: dict[str, set[str]] = {}
    for node in objects.nodes:
        for attribute in node.attributes:
            keys.setdefault(attribute.full_name, set()).add(attribute.checkpoint_key)
    return {name: next(iter(found)) for name, found in keys.items() if len(found) == 1}


def _fits(shape: tuple[int, ...], declared: TensorShape) -> bool:
    sizes = declared.sizes
    return sizes is None or (len(sizes) == len(shape) and all(size in (-1, known) for size, known in zip(sizes, shape)))
