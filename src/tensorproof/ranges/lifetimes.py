"""What the graph says about values before any of them is computed: which are followed element by element, and until when."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from tensorproof.graph import ABSENT, Graph, Node
from tensorproof.idioms.claims import Claim
from tensorproof.operators.table import find_operator
from tensorproof.ranges.guards import Guards


def fine_values(graph: Graph, claims: Mapping[int, Sequence[Claim]]) -> frozenset[int]:
    """The values that decide shapes, indices, iterations and masks, and all that they are made from."""
    fine = {value for found in claims.values() for claim in found for value in claim.fine}
    _label_fine(graph, fine)
    return frozenset(fine)


def _label_fine(graph: Graph, fine: set[int]) -> None:
    for node in reversed(graph.nodes):
        entry = find_operator(node.domain, node.op)
        if entry is not None:
            fine.update(node.inputs[i] for i in entry.steered_by if i < len(node.inputs))
        for sub in node.subgraphs():
            _label_fine(sub, fine)
        if not fine.isdisjoint(node.outputs):
            fine.update(node.inputs)
    fine.discard(ABSENT)


def last_uses(graph: Graph, claims: Mapping[int, Sequence[Claim]], guards: Guards | None) -> dict[int, list[int]]:
    """For each position, the values that no later node of the graph reads (sub-graphs of later nodes included)."""
    last: dict[int, int] = {}

    def reads(node: Node, position: int) -> None:
        for number in node.inputs:
            last[number] = position
        for claim in claims.get(node.number, ()):
            for number in claim.reads:
                last[number] = position
        if guards is not None:
            last.update(dict.fromkeys(guards.read_by(node), position))

    for position, node in enumerate(graph.nodes):
        reads(node, position)
        for sub in _subgraphs(node):
            for inner in sub.nodes:
                reads(inner, position)
            for number in sub.outputs:
                last[number] = position
        for number in node.outputs:
            last.setdefault(number, position)
    keep = {*graph.outputs, *graph.inputs, *(() if guards is None else guards.kept_by(graph))}
    produced = {number for node in graph.nodes for number in node.outputs}
    result: dict[int, list[int]] = {}
    for number, position in last.items():
        # Only values made here are freed: those of an outer scope may be read again by the next iteration of a loop.
        if number not in keep and number in produced:
            result.setdefault(position, []).append(number)
    return result


def _subgraphs(node: Node) -> Generator[Graph]:
    """The sub-graphs of a node and, in turn, of their nodes."""
    for graph in node.subgraphs():
        yield graph
        for inner in graph.nodes:
            yield from _subgraphs(inner)
