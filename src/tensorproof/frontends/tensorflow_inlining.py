"""Functions that a TensorFlow graph calls, in place: every node of `call` becomes one of the graph under the name `call/node`.

Branches and loops keep their functions; calls inside those are put in place there. What is analysed and what is run are the same
records, so that a node inside a function can be fetched by its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensorproof.errors import ModelError
from tensorproof.frontends.tensorflow_records import (
    FunctionName,
    Reference,
    TensorflowFunction,
    TensorflowGraph,
    TensorflowNode,
)

#: Operators that call the function of their attribute `f`.
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall", "TPUPartitionedCall", "RemoteCall"})

#: Functions that call one another deeper than this call themselves.
_DEEPEST = 100

#: A graph may not grow beyond this number of nodes.
_MOST_NODES = 5_000_000


def called_function(node: TensorflowNode, functions: Mapping[str, TensorflowFunction]) -> TensorflowFunction | None:
    """The function that a node calls, if it does nothing else and the library has it."""
    if node.op in _CALLS:
        name: Any = node.attributes.get("f")
        return functions.get(name.name) if isinstance(name, FunctionName) else None
    return functions.get(node.op)


def inlined(graph: TensorflowGraph) -> TensorflowGraph:
    """The graph without calls, in its main part and in the functions of branches and loops."""
    functions = {name: _inlined_function(function, graph.functions) for name, function in graph.functions.items()}
    nodes, moved = _flat(graph.nodes, graph.functions, {})
    signatures = {
        name: replace(
            signature,
            inputs={key: _final(reference, moved) for key, reference in signature.inputs.items()},
            outputs={key: _final(reference, moved) for key, reference in signature.outputs.items()},
        )
        for name, signature in graph.signatures.items()
    }
    return replace(graph, nodes=nodes, functions=functions, signatures=signatures)


def _inlined_function(function: TensorflowFunction, functions: Mapping[str, TensorflowFunction]) -> TensorflowFunction:
    if not any(called_function(node, functions) is not None for node in function.nodes):
        return function
    nodes, moved = _flat(function.nodes, functions, {})
    return replace(function, nodes=nodes, outputs=tuple(_final(reference, moved) for reference in function.outputs))


def _flat(
    nodes: Iterable[TensorflowNode], functions: Mapping[str, TensorflowFunction], moved: dict[Reference, Reference]
) -> tuple[list[TensorflowNode], dict[Reference, Reference]]:
    """The nodes with calls in place, and where results of calls come from now."""
    flat: list[TensorflowNode] = []
    pending: list[tuple[TensorflowNode, int]] = [(node, 0) for node in reversed(list(nodes))]
    while pending:
        node, depth = pending.pop()
        function = called_function(node, functions)
        if function is None or len(function.inputs) != len(node.inputs):
            flat.append(node)
            continue
        if depth >= _DEEPEST:
            raise ModelError(f"function {function.name!r} calls itself, or calls are more than {_DEEPEST} deep")
        if len(flat) + len(pending) + len(function.nodes) > _MOST_NODES:
            raise ModelError(f"its functions have more than {_MOST_NODES} nodes when they are put in place")
        given = dict(zip(function.inputs, node.inputs))
        for index, output in enumerate(function.outputs):
            moved[Reference(node.name, index)] = _renamed(output, node.name, given)
        inner = [_placed(item, node, given) for item in function.nodes]
        pending.extend((item, depth + 1) for item in reversed(inner))
    if moved:
        flat = [replace(node, inputs=_finals(node.inputs, moved)) for node in flat]
    return flat, moved


def _placed(node: TensorflowNode, call: TensorflowNode, given: Mapping[str, Reference]) -> TensorflowNode:
    controls = tuple(f"{call.name}/{name}" for name in node.controls if name not in given)
    inputs = tuple([_renamed(reference, call.name, given) for reference in node.inputs])
    return TensorflowNode(
        f"{call.name}/{node.name}",
        node.op,
        inputs,
        node.attributes,
        controls,
        node.function,
        node.original or node.name,
        node.is_gradient or call.is_gradient,
    )


def _renamed(reference: Reference, call: str, given: Mapping[str, Reference]) -> Reference:
    return given[reference.node] if reference.node in given else Reference(f"{call}/{reference.node}", reference.output)


def _finals(references: Sequence[Reference], moved: Mapping[Reference, Reference]) -> tuple[Reference, ...]:
    return tuple([_final(reference, moved) for reference in references])


def _final(reference: Reference, moved: Mapping[Reference, Reference]) -> Reference:
    """Where a value comes from when all calls are in place; a function may hand on what it is given."""
    while reference in moved:
        reference = moved[reference]
    return reference
