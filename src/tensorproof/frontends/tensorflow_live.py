"""A graph that a running program holds (of a tf.function, a Keras model, or of version 1) as records, with the user's lines.

What the function captured from Python becomes part of the graph: tensors are constants, variables are nodes that hold them, with
their values of the moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tensorproof.frontends.tensorflow_files import graph_from_proto
from tensorproof.frontends.tensorflow_lines import user_frame
from tensorproof.frontends.tensorflow_records import DataType, TensorflowGraph, TensorflowNode, TensorShape
from tensorproof.graph import SourceLine

_OWN = str(Path(__file__).parents[1]) + os.sep
#: Calls of Keras' layers go through here.
_BETWEEN_LAYERS = str(Path(__file__).with_name("keras_layers.py"))
#: Where TensorFlow differentiates: for a tape, and for tf.gradients and the backward passes of functions.
_DIFFERENTIATING = ("tensorflow/python/eager/imperative_grad.py", "tensorflow/python/ops/gradients_util.py")


def live_graph(
    graph: Any,
    name: str,
    layers: Callable[[Any], Mapping[str, str]] | None = None,
    names: Mapping[int, str] | None = None,
) -> TensorflowGraph:
    """The records of a `tf.Graph` or of the graph of a function.

    `layers` gives the layers of a graph's operators by name, `names` those of variables by their identity.
    """
    records = graph_from_proto(graph.as_graph_def(), name=name)
    captured = _captured(graph, names or {})
    if captured:
        records.nodes = [captured[node.name][0] if node.name in captured else node for node in records.nodes]
        records.values |= {node.name: value for node, value in captured.values() if node.op == "VarHandleOp"}
    _add_places(records, records.nodes, graph, "")
    if layers is not None:
        records.modules.update((("", operator), path) for operator, path in layers(graph).items())
    for function, definition in records.functions.items():
        body = _function_graph(graph, function)
        if body is not None:
            _add_places(records, definition.nodes, body, function)
            if layers is not None:
                records.modules.update(((function, operator), path) for operator, path in layers(body).items())
    return records


def _captured(graph: Any, names: Mapping[int, str]) -> dict[str, tuple[TensorflowNode, Any]]:
    """The placeholders of what a function captured, as constants and variables with their values."""
    variables = {id(variable.handle): variable for variable in getattr(graph, "variables", ())}
    found: dict[str, tuple[TensorflowNode, Any]] = {}
    taken: dict[str, int] = {}
    for outside, inside in getattr(graph, "captures", ()):
        node = inside.op.name
        variable = variables.get(id(outside))
        if variable is not None:
            label = names.get(id(variable)) or str(getattr(variable, "path", None) or variable.name.partition(":")[0])
            count = taken[label] = taken.get(label, 0) + 1
            label = label if count == 1 else f"{label}_{count}"
            array = np.asarray(variable.numpy())
            attributes = {
                "dtype": DataType(variable.dtype.as_datatype_enum % 100),
                "shape": TensorShape(tuple(array.shape)),
                "shared_name": label.encode(),
            }
            found[node] = TensorflowNode(node, "VarHandleOp", (), attributes), array
        elif hasattr(outside, "numpy") and outside.dtype.name not in ("resource", "variant"):
            array = np.asarray(outside.numpy())
            attributes = {"dtype": DataType(outside.dtype.as_datatype_enum), "value": array}
            found[node] = TensorflowNode(node, "Const", (), attributes), array
    return found


def _function_graph(graph: Any, function: str) -> Any:
    """The live graph of a function of the library; None where TensorFlow keeps none."""
    try:
        return getattr(graph._get_function(function), "graph", None)
    except (AttributeError, ValueError):
        return None


def _add_places(records: TensorflowGraph, nodes: Iterable[TensorflowNode], graph: Any, function: str) -> None:
    """The user's lines of the operators of a graph, and which of them TensorFlow made while it differentiated."""
    gradients: set[str] = set()
    for operation in graph.get_operations():
        frames = [SourceLine(frame.filename, frame.lineno, frame.name) for frame in operation.traceback or ()]
        line = user_frame(_inside(frames))
        if line is not None:
            records.lines[function, operation.name] = line
        if _is_differentiating(frames):
            gradients.add(operation.name)
    for node in nodes:
        node.is_gradient = node.name in gradients


def _is_differentiating(frames: list[SourceLine]) -> bool:
    """Whether TensorFlow writes a derivative there, as opposed to a rule of the user's own."""
    inner = [index for index, frame in enumerate(frames) if frame.file.replace("\\", "/").endswith(_DIFFERENTIATING)]
    return bool(inner) and user_frame(frames[inner[-1] + 1 :]) is None


def _inside(frames: list[SourceLine]) -> list[SourceLine]:
    """The frames inside of what this project called: those further out are of who called the project."""
    own = [index for index, frame in enumerate(frames) if frame.file.startswith(_OWN) and frame.file != _BETWEEN_LAYERS]
    inside = frames[own[-1] + 1 :] if own else frames
    return [frame for frame in inside if not frame.file.startswith(_OWN)]
