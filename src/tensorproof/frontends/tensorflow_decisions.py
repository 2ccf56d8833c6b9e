"""Under which decisions the nodes of a graph of TensorFlow 1 run, and which of its Merges end one condition.

The state of a node is the set of decisions (predicate, way) that it waits for: those of the nodes that it reads or is
controlled by, and the way of each Switch that it reads. A Merge of states that differ in the way of one predicate runs under
what they have in common.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tensorproof.frontends.tensorflow_control_flow import ENTERS, MERGES, SWITCHES
from tensorproof.frontends.tensorflow_nodes import NEXT_ITERATION
from tensorproof.frontends.tensorflow_records import Reference, TensorflowNode

#: A predicate, and whether it holds.
Decision = tuple[Reference, bool]
State = frozenset[Decision]
ALWAYS: State = frozenset()

#: Ifs of one predicate that a Merge may join; a Merge that fits none of the latest gets its own.
_CANDIDATES = 8


@dataclass(slots=True)
class Group:
    """What one If is for: Merges that it ends, and nodes that run in it for their own sake.

    `needs` are all groups that it depends on, as bits at their positions.
    """

    predicate: Reference
    state: State
    merges: list[TensorflowNode] = field(default_factory=list[TensorflowNode])
    #: Nodes that no Merge needs, by the way that they wait for.
    effects: dict[bool, list[str]] = field(default_factory=lambda: {True: list[str](), False: list[str]()})
    needs: int = 0


class Decisions:
    """The states of the nodes of one scope, given in order; `results` are read from outside."""

    def __init__(self, nodes: list[TensorflowNode], results: frozenset[Reference]) -> None:
        self.nodes = nodes
        self.current = {node.name: node for node in nodes}
        self.results = results
        self.states: dict[str, State] = {}
        #: The predicates of the conditions that Merges end.
        self.ends: dict[str, Reference] = {}
        #: Merges that end no condition that is understood.
        self.strange: list[str] = []
        self._roots: dict[Reference, Reference] = {}
        self._ways: dict[tuple[Reference, Reference, int], Reference] = {}
        #: The operands that are one predicate, each through other nodes that pass it on.
        self.predicates: dict[Reference, set[Reference]] = defaultdict(set)
        for node in nodes:
            # In order, so that the values before a Switch are known when its own are asked for.
            for operand in node.inputs:
                self.root(operand)
            predicate = self.decision(node)
            if predicate is not None:
                self.predicates[predicate].add(node.inputs[1])
        self.find_states()

    def root(self, reference: Reference) -> Reference:
        """Where a value comes from, through nodes that only pass it on.

        Switches that let the same value the same way are one. The value behind them is not that before them: a condition may
        ask again, inside its branch, what it decided.
        """
        trail: list[Reference] = []
        while reference not in self._roots:
            node = self.current.get(reference.node)
            trail.append(reference)
            if node is not None and node.op == "Identity" and node.inputs:
                reference = node.inputs[0]
            elif node is not None and node.op in SWITCHES and len(node.inputs) == 2:
                way = self.root(node.inputs[0]), self.root(node.inputs[1]), reference.output
                self._roots[reference] = self._ways.setdefault(way, reference)
            else:
                self._roots[reference] = reference
        found = self._roots[reference]
        for each in trail:
            self._roots[each] = found
        return found

    def decision(self, node: TensorflowNode) -> Reference | None:
        """The predicate of a Switch that belongs to a condition (and not to a loop that was left as it is)."""
        if node.op not in SWITCHES or len(node.inputs) != 2:
            return None
        predicate = self.root(node.inputs[1])
        source = self.current.get(predicate.node)
        return None if source is not None and source.op == "LoopCond" else predicate

    def state_of(self, reference: Reference) -> State:
        """The decisions under which a value is there."""
        state = self.states.get(reference.node, ALWAYS)
        node = self.current.get(reference.node)
        predicate = None if node is None else self.decision(node)
        return state if predicate is None else state | {(predicate, reference.output == 1)}

    def find_states(self) -> None:
        """The state of each node, and the conditions that Merges end."""
        for node in self.nodes:
            state = ALWAYS
            # These run when what controls them is done, whether it ran or not.
            for control in () if node.op == "ControlTrigger" or node.op in MERGES else node.controls:
                state |= self.states.get(control, ALWAYS)
            if node.op in MERGES:
                ended = self._ended(node)
                if ended is None:
                    self.strange.append(node.name)
                    ways = [self.state_of(operand) for operand in node.inputs]
                    state |= frozenset.intersection(*ways) if ways else ALWAYS
                else:
                    state |= ended[1]
                    self.ends[node.name] = ended[0]
            else:
                for operand in node.inputs:
                    state |= self.state_of(operand)
            if state:
                self.states[node.name] = state

    def groups(self, order: Sequence[TensorflowNode], depth: int, unwanted: Mapping[str, Decision]) -> list[Group]:
        """The Ifs of the conditions inside `depth` others.

        `order` are all nodes as they are now. Nodes that no Merge needs are given with the decision that they wait for; they
        go into the If of a Merge where there is one.
        """
        groups: list[Group] = []
        by_key: dict[tuple[Reference, State], list[int]] = defaultdict(list)
        needs: dict[str, int] = {}
        for node in order:
            needed = 0
            for operand in node.inputs:
                needed |= needs.get(operand.node, 0)
            for control in node.controls:
                needed |= needs.get(control, 0)
            state = self.states.get(node.name, ALWAYS)
            if node.op in MERGES and node.name in self.ends and len(state) == depth:
                key = self.ends[node.name], state
                index = self._joined(groups, by_key[key], needed, key)
                groups[index].merges.append(node)
                needed = 1 << index
            elif node.name in unwanted:
                predicate, way = unwanted[node.name]
                key = predicate, state - {(predicate, way)}
                groups[self._joined(groups, by_key[key], needed, key)].effects[way].append(node.name)
            if needed:
                needs[node.name] = needed
        return groups

    def _ended(self, merge: TensorflowNode) -> tuple[Reference, State] | None:
        """The predicate of the condition that a Merge ends, and the state around it."""
        sources = [self.current.get(operand.node) for operand in merge.inputs]
        if len(sources) != 2 or any(node is not None and (node.op in ENTERS or node.op in NEXT_ITERATION) for node in sources):
            return None
        first, second = (self.state_of(operand) for operand in merge.inputs)
        own, other = first - second, second - first
        if len(own) != 1 or len(other) != 1:
            return None
        ((predicate, way),) = own
        return (predicate, first & second) if (predicate, not way) in other else None

    @staticmethod
    def _joined(groups: list[Group], candidates: list[int], needed: int, ended: tuple[Reference, State]) -> int:
        """The If of a Merge that needs others: the latest of the candidates that it does not depend on, or a new one."""
        reached, rest = needed, needed
        while rest:
            lowest = rest & -rest
            reached |= groups[lowest.bit_length() - 1].needs
            rest ^= lowest
        for index in reversed(candidates[-_CANDIDATES:]):
            if not reached >> index & 1:
                if reached & ~groups[index].needs:
                    for position, group in enumerate(groups):
                        if position == index or group.needs >> index & 1:
                            group.needs |= reached
                return index
        groups.append(Group(*ended, needs=reached))
        candidates.append(len(groups) - 1)
        return len(groups) - 1

    def needed_decisions(self) -> State:
        """The decisions that all results depend on being taken; none if they contradict each other."""
        needed: set[Decision] = set()
        for result in self.results:
            needed |= self.state_of(result)
        return ALWAYS if any((predicate, not way) in needed for predicate, way in needed) else frozenset(needed)
