"""Which nodes of a JAX function are needed, and which of a differentiated one compute values, which gradients.

JAX marks equations that a transposition made: they belong to gradients. Equations under `jvp` alone are either the function itself
or derivatives of its steps (`0.5 / sqrt(x)`) that wait for the transposition; JAX does not tell them apart. Here those are values
that an output without any gradient in it, such as the loss, depends on. A function that gives gradients alone has no such output:
then all of them count as values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set

from tensorproof.frontends.jax_lines import Differentiation
from tensorproof.graph import ABSENT, Graph, Node


def mark_phases(graph: Graph, marks: Mapping[int, Differentiation]) -> None:
    """Set the phase of every node; `marks` says by number what differentiation did to it."""
    if "transpose" not in marks.values():
        return
    transposed = _reached(graph, {node.number for node in graph.walk() if marks.get(node.number) == "transpose"})
    linearised = _reached(graph, {node.number for node in graph.walk() if marks.get(node.number) == "jvp"})
    values = [number for number in graph.outputs if number not in transposed and number in linearised]
    needed = _needed(graph, values)
    for node in graph.walk():
        mark = marks.get(node.number, "")
        if mark == "transpose" or (mark == "jvp" and values and node.number not in needed):
            node.phase = "backward"


def needed_nodes(nodes: Sequence[Node], wanted: Collection[int]) -> list[Node]:
    """The nodes that the wanted values are made by, in their order."""
    values, kept = set(wanted), list[Node]()
    for node in reversed(nodes):
        if not values.isdisjoint(node.outputs):
            kept.append(node)
            values |= _reads(node)
            # What a body returns may be a value around it.
            values.update(number for body in node.subgraphs() for number in body.outputs)
    return kept[::-1]


def _reached(graph: Graph, start: Set[int]) -> set[int]:
    """The values that nodes, by number, make, and all that is made of those."""
    found: set[int] = set()
    for node in graph.nodes:
        if any(inner.number in start for inner in _all(node)) or not found.isdisjoint(_reads(node)):
            found.update(node.outputs)
    return found


def _needed(graph: Graph, wanted: Collection[int]) -> set[int]:
    """The numbers of the nodes that make the wanted values or what they are made of, those in bodies included."""
    values, nodes = set(wanted), set[int]()
    for node in reversed(graph.nodes):
        if values.isdisjoint(node.outputs):
            continue
        nodes.add(node.number)
        values.update(number for number in _reads(node) if number != ABSENT)
        for body in node.subgraphs():
            nodes |= _needed(body, _wanted_of(body, node, values))
    return nodes


def _wanted_of(body: Graph, node: Node, values: Set[int]) -> list[int]:
    """The results of a body that are wanted where its node's are; a state that is handed on always is."""
    states = len(node.inputs) - int(node.attributes.get("num_scan_inputs", 0)) if node.op == "Scan" else 0
    if node.op not in ("Scan", "If"):
        return list(body.outputs)
    return [number for index, number in enumerate(body.outputs) if index < states or node.outputs[index] in values]


def _all(node: Node) -> list[Node]:
    return [node, *(inner for body in node.subgraphs() for inner in body.walk())]


def _reads(node: Node) -> set[int]:
    return {number for inner in _all(node) for number in inner.inputs}
