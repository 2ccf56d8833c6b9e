"""Control flow of TensorFlow 1 in the form of TensorFlow 2: loops as While and conditions as If, with functions.

In a graph of TensorFlow 1 a loop is a frame of nodes between Enter and Exit (`tensorflow_loops`), a condition the nodes
between Switch and Merge (`tensorflow_conditionals`). Nodes keep their names inside the functions, so that findings name what
the user wrote. A frame or a condition that does not have the form that TensorFlow's own Python writes stays as it is: the
operators of control flow that are left are not analysed, and say so.
"""

from __future__ import annotations

from dataclasses import replace

from tensorproof.collector import patient_collector
from tensorproof.frontends.tensorflow_conditionals import function_with_conditionals, with_conditionals
from tensorproof.frontends.tensorflow_control_flow import CONTROL_FLOW, Library
from tensorproof.frontends.tensorflow_loops import with_loops
from tensorproof.frontends.tensorflow_nodes import Circle
from tensorproof.frontends.tensorflow_records import TensorflowFunction, TensorflowGraph, TensorflowNode


@patient_collector()
def raised(graph: TensorflowGraph) -> TensorflowGraph:
    """The graph with the loops and conditions of TensorFlow 1 as While and If."""
    library = Library(graph.functions)
    notes = list(graph.notes)
    nodes = graph.nodes
    for name, function in graph.functions.items():
        if _has_control_flow(function.nodes):
            before = dict(library.functions)
            try:
                library.functions[name] = _raised_function(function, library)
            except Circle:
                library.functions = before
                notes.append(f"control flow of function {name!r} is of no known form and stays as it is")
    if _has_control_flow(nodes):
        before = dict(library.functions)
        fetched = {reference for signature in graph.signatures.values() for reference in signature.outputs.values()}
        try:
            nodes = with_conditionals(_with_raised_loops(nodes, library), {}, fetched, library)
        except Circle:
            library.functions = before
            notes.append("control flow of the graph is of no known form and stays as it is")
    elif notes == graph.notes and all(library.functions[name] is function for name, function in graph.functions.items()):
        return graph
    return replace(graph, nodes=nodes, functions=library.functions, notes=notes)


def _has_control_flow(nodes: list[TensorflowNode]) -> bool:
    return any(node.op in CONTROL_FLOW for node in nodes)


def _raised_function(function: TensorflowFunction, library: Library) -> TensorflowFunction:
    flat = replace(function, nodes=_with_raised_loops(function.nodes, library))
    return function_with_conditionals(flat, library)


def _with_raised_loops(nodes: list[TensorflowNode], library: Library) -> list[TensorflowNode]:
    """The nodes with their loops raised, and the conditions inside those as well."""
    flat, made = with_loops(nodes, library)
    for name in made:
        library.functions[name] = function_with_conditionals(library.functions[name], library)
    return flat
