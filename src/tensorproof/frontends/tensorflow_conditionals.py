"""Conditions of TensorFlow 1 as If.

A Switch sends its value to one of two branches; nodes of a branch that read nothing wait for a node of it (the pivot); a
Merge passes on the value of the branch that ran. Each node therefore has a state: the decisions (predicate, way) under which
it runs. A Merge of states that differ in the way of one predicate ends a condition. The nodes of its two branches, with all
that they need, become the functions of an If; Merges of one predicate share an If unless one of them needs another. A node
that several Ifs need (the values of a branch that its gradient reads again) is in each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tensorproof.frontends.tensorflow_control_flow import (
    BOOL,
    INT32,
    MERGES,
    SWITCHES,
    Library,
    free_name,
    identity,
    result_type,
    type_attribute,
)
from tensorproof.frontends.tensorflow_decisions import ALWAYS, Decision, Decisions, Group, State
from tensorproof.frontends.tensorflow_nodes import sorted_nodes
from tensorproof.frontends.tensorflow_records import DataType, FunctionName, Reference, TensorflowFunction, TensorflowNode

#: Operators that do nothing by themselves: where no result needs them, they are left out.
_PLUMBING = frozenset({"Identity", "Const", "NoOp", "Switch", "RefSwitch", "ControlTrigger"})

#: How often decisions that must hold are looked for; each may show others behind it.
_ASSUMED = 8


def with_conditionals(
    nodes: list[TensorflowNode], arguments: Mapping[str, DataType], results: Iterable[Reference], library: Library
) -> list[TensorflowNode]:
    """The nodes of the graph itself with their conditions as If nodes; `results` are read from outside."""
    if not any(node.op in SWITCHES for node in nodes):
        return nodes
    return _Scope(sorted_nodes(nodes), arguments, frozenset(results), library).raised()


def function_with_conditionals(function: TensorflowFunction, library: Library) -> TensorflowFunction:
    """A function with its conditions as If nodes.

    What it returns is there whenever it is called. A decision under which a result is there therefore holds: the gradient of
    a loop inside a branch asks again, in its body, whether that branch was taken.
    """
    outputs, nodes = function.outputs, function.nodes
    given = dict(zip(function.inputs, function.input_types))
    for _ in range(_ASSUMED):
        if not any(node.op in SWITCHES for node in nodes):
            break
        scope = _Scope(sorted_nodes(nodes), given, frozenset(outputs), library)
        holds = scope.needed_decisions()
        if not holds:
            nodes = scope.raised()
            break
        ways = dict(holds)
        decided = [(node, predicate) for node in nodes if (predicate := scope.decision(node)) in ways]
        passed = {
            Reference(node.name, int(ways[predicate])): node.inputs[0] for node, predicate in decided if predicate is not None
        }
        nodes = [replace(node, inputs=tuple([_followed(operand, passed) for operand in node.inputs])) for node in nodes]
        outputs = tuple([_followed(output, passed) for output in outputs])
    return replace(function, nodes=nodes, outputs=outputs)


def _followed(reference: Reference, passed: Mapping[Reference, Reference]) -> Reference:
    """A value, by the way past Switches whose decision is known."""
    while reference in passed:
        reference = passed[reference]
    return reference


class _Branch:
    """The nodes of one branch while they are collected."""

    def __init__(self) -> None:
        self.nodes: dict[str, TensorflowNode] = {}
        self.controls: list[str] = []


class _Scope(Decisions):
    """The nodes of a graph or function while its conditions become Ifs."""

    def __init__(
        self, nodes: list[TensorflowNode], arguments: Mapping[str, DataType], results: frozenset[Reference], library: Library
    ) -> None:
        super().__init__(nodes, results)
        self.arguments = arguments
        self.library = library
        #: An operand that is a predicate, by the predicate and the state in which it is there.
        self.spellings: dict[Reference, dict[State, Reference]] = {}
        #: Nodes that are inside an If, with the If.
        self.placed: dict[str, str] = {}
        self.read = {operand for node in nodes for operand in node.inputs if operand.output == 1} | results

    def raised(self) -> list[TensorflowNode]:
        deepest = max((len(state) for state in self.states.values()), default=0)
        for depth in range(deepest, 0, -1):
            order = sorted_nodes(list(self.current.values()))
            for group in self.groups(order, depth - 1, self._unwanted(order, depth)):
                self._raise(group)
        return self._remaining()

    def _unwanted(self, order: Sequence[TensorflowNode], depth: int) -> dict[str, Decision]:
        """Nodes of branches that no Merge needs, with the innermost decision that they wait for: they may fail all the same."""
        kept = self._strange_parts()
        wanted: set[str] = set()
        found: dict[str, Decision] = {}
        for node in reversed(order):
            state = self.states.get(node.name, ALWAYS)
            ends = node.op in MERGES and node.name in self.ends and len(state) == depth - 1
            if ends:
                wanted |= {operand.node for operand in node.inputs}
            elif len(state) == depth and node.name in wanted:
                wanted |= {*[operand.node for operand in node.inputs], *node.controls}
            elif len(state) == depth and node.op not in _PLUMBING and node.name not in self.placed and node.name not in kept:
                # The innermost decision is the one whose predicate is there under most of the others.
                found[node.name] = max(state, key=lambda decision: (len(self._known_in(decision[0], state)), str(decision)))
        return found

    def _raise(self, group: Group) -> None:
        """Make an If; the Merges that it ends pass its results on."""
        predicate, state, merges = group.predicate, group.state, group.merges
        place = merges[0] if merges else self.current[(group.effects[True] or group.effects[False])[0]]
        arguments: dict[Reference, tuple[str, DataType]] = {}
        branches: dict[bool, _Branch] = {}
        returned: dict[bool, list[Reference]] = {}
        indexed = [merge for merge in merges if Reference(merge.name, 1) in self.read]
        for way in (True, False):
            branch = branches[way] = _Branch()
            starts = [self._side(merge, predicate, way) for merge in merges]
            self._collect(branch, (predicate, way), state, starts, group.effects[way], arguments)
            returned[way] = [self._inside(start, predicate, state, branch, arguments) for start in starts]
            for merge in indexed:
                # Which operand of the Merge was there.
                position = next(i for i, operand in enumerate(merge.inputs) if (predicate, way) in self.state_of(operand))
                name = free_name(f"{merge.name}/value_index", self.current)
                branch.nodes[name] = _constant(merge, name, position)
                returned[way].append(Reference(name))
        given = [self._predicate(predicate, state), *arguments]
        base = place.name.rpartition("/")[0]
        name = free_name(f"{base}/If" if base else "If", self.current)
        kinds = [type_attribute(merge) for merge in merges] + [INT32] * len(indexed)
        functions = {
            way: self.library.add(
                f"{name}/{'then' if way else 'else'}",
                arguments.values(),
                self._finished(branch, predicate, state, arguments),
                returned[way],
            )
            for way, branch in branches.items()
        }
        made = TensorflowNode(
            name,
            "If",
            tuple(given),
            {
                "Tcond": BOOL,
                "Tin": [kind for _, kind in arguments.values()],
                "Tout": kinds,
                "then_branch": FunctionName(functions[True]),
                "else_branch": FunctionName(functions[False]),
            },
            tuple(dict.fromkeys([*branches[True].controls, *branches[False].controls])),
            place.function,
            place.original,
        )
        for branch in branches.values():
            for each in branch.nodes:
                self.placed.setdefault(each, name)
        self._add(made, state)
        for index, merge in enumerate(merges):
            operand = Reference(name, index)
            if merge in indexed:
                both = (operand, Reference(name, len(merges) + indexed.index(merge)))
                stand_in = replace(merge, op="IdentityN", inputs=both, attributes={"T": [type_attribute(merge), INT32]})
            else:
                stand_in = identity(merge, operand, type_attribute(merge))
            self._add(stand_in, state)

    def _add(self, node: TensorflowNode, state: State) -> None:
        self.current[node.name] = node
        self.states[node.name] = state

    def _side(self, merge: TensorflowNode, predicate: Reference, way: bool) -> Reference:
        return next(operand for operand in merge.inputs if (predicate, way) in self.state_of(operand))

    def _predicate(self, predicate: Reference, state: State) -> Reference:
        """The predicate as it is there in a state: what came through the Switches of outer conditions, if there is one."""
        if predicate not in self.spellings:
            by_state = self.spellings[predicate] = dict[State, Reference]()
            for given in sorted(self.predicates.get(predicate, ())):
                by_state.setdefault(self.state_of(given), given)
        found = [(len(known), given) for known, given in self.spellings[predicate].items() if known <= state]
        return max(found, default=(0, predicate))[1]

    def _is_gate(self, node: TensorflowNode, predicate: Reference, state: State) -> bool:
        """Whether a Switch lets a value into the branches of a condition."""
        return node.op in SWITCHES and self.decision(node) == predicate and self.states.get(node.name, ALWAYS) <= state

    def _is_pivot(self, node: TensorflowNode, predicate: Reference) -> bool:
        """Whether a node only says that a branch was taken: it passes the predicate itself on."""
        while node.op == "Identity" and node.inputs:
            source = self.current.get(node.inputs[0].node)
            if source is None:
                return False
            if source.op in SWITCHES:
                return self.decision(source) == predicate == self.root(source.inputs[0])
            node = source
        return False

    def _collect(
        self,
        branch: _Branch,
        decision: Decision,
        state: State,
        starts: Sequence[Reference],
        effects: Sequence[str],
        arguments: dict[Reference, tuple[str, DataType]],
    ) -> None:
        """All nodes that a branch needs; what comes from outside becomes an argument."""
        predicate, _ = decision
        waiting: list[Reference] = [*starts, *[Reference(name) for name in effects]]
        while waiting:
            reference = waiting.pop()
            node = self.current.get(reference.node)
            if reference.node in branch.nodes:
                continue
            if node is not None and self._is_gate(node, predicate, state):
                arguments.setdefault(node.inputs[0], (node.name, type_attribute(node)))
            elif node is None or decision not in self.state_of(reference):
                if node is not None and node.op == "Const" and not node.inputs:
                    branch.nodes[node.name] = replace(node, controls=())
                elif reference not in arguments:
                    name = reference.node
                    if reference.output:
                        name = free_name(f"{name}_{reference.output}", self.current)
                    known = self.arguments.get(reference.node) if node is None else None
                    arguments[reference] = name, known or result_type(node, reference.output)
            else:
                controls: list[str] = []
                for control in node.controls:
                    other = self.current.get(control)
                    if other is None or self._is_pivot(other, predicate):
                        continue
                    if decision in self.states.get(control, ALWAYS):
                        controls.append(control)
                        waiting.append(Reference(control))
                    elif other.op not in SWITCHES:
                        branch.controls.append(control)
                branch.nodes[node.name] = replace(node, controls=tuple(controls))
                waiting += node.inputs

    def _inside(
        self,
        reference: Reference,
        predicate: Reference,
        state: State,
        branch: _Branch,
        arguments: dict[Reference, tuple[str, DataType]],
    ) -> Reference:
        """A value as it is called inside a branch."""
        if reference.node in branch.nodes:
            return reference
        node = self.current.get(reference.node)
        outside = node.inputs[0] if node is not None and self._is_gate(node, predicate, state) else reference
        return Reference(arguments[outside][0])

    def _finished(
        self, branch: _Branch, predicate: Reference, state: State, arguments: dict[Reference, tuple[str, DataType]]
    ) -> list[TensorflowNode]:
        return sorted_nodes(
            [
                replace(
                    node,
                    inputs=tuple([self._inside(operand, predicate, state, branch, arguments) for operand in node.inputs]),
                    controls=tuple([control for control in node.controls if control in branch.nodes]),
                )
                for node in branch.nodes.values()
            ]
        )

    def _strange_parts(self) -> set[str]:
        """The nodes between Switches and the Merges that are not understood, which stay as they are."""
        kept: set[str] = set()
        waiting = list(self.strange)
        while waiting:
            name = waiting.pop()
            node = self.current.get(name)
            if name in kept or node is None or not (self.states.get(name) or node.op in SWITCHES or node.op in MERGES):
                continue
            kept.add(name)
            waiting += [*[operand.node for operand in node.inputs], *node.controls]
        return kept

    def _known_in(self, predicate: Reference, state: State) -> State:
        found = self.state_of(self._predicate(predicate, state - {(predicate, True), (predicate, False)}))
        return found & state

    def _remaining(self) -> list[TensorflowNode]:
        """The nodes that are in no branch."""
        kept = self._strange_parts()
        found = {
            name: node
            for name, node in self.current.items()
            if name in kept or (not self.states.get(name) and self.decision(node) is None)
        }
        # What is left as it is may still read a Switch.
        waiting = [operand.node for node in found.values() for operand in node.inputs]
        waiting += [result.node for result in self.results]
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.current:
                found[name] = self.current[name]
                waiting += [operand.node for operand in self.current[name].inputs]
        return sorted_nodes(
            [
                replace(node, controls=controls)
                if (controls := tuple(dict.fromkeys(self._moved(node.name, found, node.controls)))) != node.controls
                else node
                for node in found.values()
            ]
        )

    def _moved(self, name: str, found: dict[str, TensorflowNode], controls: Sequence[str]) -> list[str]:
        """Controls, with the If in the place of a node that is inside it now."""
        there = [control if control in found else self.placed.get(control, "") for control in controls]
        return [control for control in there if control in found and control != name]


def _constant(place: TensorflowNode, name: str, value: int) -> TensorflowNode:
    return TensorflowNode(
        name, "Const", (), {"dtype": INT32, "value": np.array(value, np.int32)}, (), place.function, place.original
    )
