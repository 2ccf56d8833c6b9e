"""Backward cones: the part of a model that a node depends on, as a model of its own."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from tensorproof.graph import ABSENT, Graph, Model, Node


def reads(node: Node) -> set[int]:
    """All values that a node reads, those that its sub-graphs take from outside included (and some that they make)."""
    found = set(node.inputs)
    for sub in node.subgraphs():
        found.update(sub.outputs)
        for inner in sub.walk():
            found.update(inner.inputs)
            for deeper in inner.subgraphs():
                found.update(deeper.outputs)
    found.discard(ABSENT)
    return found


@dataclass(frozen=True, slots=True)
class Part:
    """Some nodes of a model in their order, with the values that enter from outside (constants apart)."""

    model: Model
    entering: tuple[int, ...]

    @property
    def nodes(self) -> Sequence[Node]:
        return self.model.graph.nodes


class Structure:
    """Who makes and who reads each value at the top level of a model.

    Nodes inside of bodies stand for the control-flow node around them.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.position: dict[int, int] = {}
        #: All nodes by their numbers, those inside of bodies included.
        self.nodes: dict[int, Node] = {}
        self._producer: dict[int, int] = {}
        self._around: dict[int, int] = {}
        for index, node in enumerate(model.graph.nodes):
            self.position[node.number] = index
            self.nodes[node.number] = node
            for number in node.outputs:
                if number != ABSENT:
                    self._producer[number] = index
            for sub in node.subgraphs():
                for inner in sub.walk():
                    self._around[inner.number] = index
                    self.nodes[inner.number] = inner

    def at_top(self, number: int) -> Node:
        """The node with that number, or the control-flow node of the top level around it."""
        index = self.position[number] if number in self.position else self._around[number]
        return self.model.graph.nodes[index]

    def is_inside(self, number: int) -> bool:
        """Whether a node is part of a body."""
        return number not in self.position

    def producer(self, value: int) -> Node | None:
        index = self._producer.get(value)
        return None if index is None else self.model.graph.nodes[index]

    def behind(self, nodes: Iterable[Node], most: int | None = None) -> Part:
        """These nodes and what they depend on; with `most`, only so many nodes, the latest.

        Taking the latest first leaves no path that leaves the part and comes back: whatever lies on a path between two
        nodes comes later than the first of them.
        """
        waiting = [-self.position[node.number] for node in nodes]
        heapq.heapify(waiting)
        chosen: dict[int, None] = {}
        while waiting and (most is None or len(chosen) < most):
            index = -heapq.heappop(waiting)
            if index in chosen:
                continue
            chosen[index] = None
            for number in reads(self.model.graph.nodes[index]):
                made = self._producer.get(number)
                if made is not None and made not in chosen:
                    heapq.heappush(waiting, -made)
        return self.part(chosen)

    def part(self, indices: Collection[int]) -> Part:
        """The nodes at these positions as a model; what enters are values of other nodes, and inputs of the model."""
        nodes = [self.model.graph.nodes[index] for index in sorted(indices)]
        made = {number for node in nodes for number in node.outputs}
        inputs = set(self.model.graph.inputs)
        entering = dict.fromkeys(
            number
            for node in nodes
            for number in sorted(reads(node))
            if number not in made and (number in inputs or number in self._producer)
        )
        graph = Graph(self.model.graph.name, nodes, tuple(entering), ())
        return Part(replace(self.model, graph=graph), tuple(entering))
