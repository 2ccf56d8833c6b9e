"""Loops of TensorFlow 1 as While.

Each variable of a loop goes Enter -> Merge -> Switch; the Switch, ruled by the LoopCond of the frame, leads to Exit or into
the body, whose result goes back to the Merge through NextIteration. What does not change comes in through a constant Enter.
Values that enter become operands of a While; the Merge of a variable and the Enter of a constant give their names to the
arguments of its two functions (tensorflow/core/graph/control_flow.h; white paper "Implementation of Control Flow in
TensorFlow", 2017).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorproof.frontends.tensorflow_control_flow import (
    BOOL,
    ENTERS,
    EXITS,
    MERGES,
    SWITCHES,
    Library,
    free_name,
    identity,
    type_attribute,
)
from tensorproof.frontends.tensorflow_nodes import NEXT_ITERATION, sorted_nodes
from tensorproof.frontends.tensorflow_records import FunctionName, Reference, TensorflowNode

#: The names of the frames that a node is in, from the outermost.
_Path = tuple[str, ...]

_PARALLEL = "parallel_iterations"


def with_loops(nodes: list[TensorflowNode], library: Library) -> tuple[list[TensorflowNode], list[str]]:
    """The nodes with their loops as While nodes, and the names of the functions that were made."""
    if not any(node.op in ENTERS for node in nodes):
        return nodes, []
    paths = _paths(nodes)
    members: dict[_Path, list[TensorflowNode]] = defaultdict(list)
    for node in nodes:
        # The Exit of a frame is handled with it, though its result is outside.
        path = paths.get(node.name)
        if path is not None and node.op in EXITS and node.inputs:
            path = paths.get(node.inputs[0].node)
        if path:
            members[path].append(node)
    names = {node.name for node in nodes}
    gone: set[str] = set()
    made: dict[_Path, list[TensorflowNode]] = defaultdict(list)
    functions: list[str] = []
    left: set[_Path] = set()
    readers: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        for name in (*[operand.node for operand in node.inputs], *node.controls):
            readers[name].add(node.name)
    for path in sorted(members, key=lambda path: (-len(path), path)):
        fresh = made.pop(path, [])
        inside = sorted_nodes([node for node in members[path] if node.name not in gone] + fresh)
        frame = None if path in left else _recognised(inside)
        here = {node.name for node in inside}
        read = {reader for node in inside if node.op not in EXITS for reader in readers[node.name]}
        if frame is None or any(reader not in here and reader not in gone for reader in read):
            # It stays as it is, and so do the frames around it.
            left |= {path[:length] for length in range(1, len(path))}
            made[()] += fresh
            continue
        loop, exits, pair = frame.raised(path[-1], names, library)
        names.add(loop.name)
        functions += pair
        gone |= {node.name for node in inside}
        made[path[:-1]] += [loop, *exits]
    kept = [node for node in nodes if node.name not in gone]
    return sorted_nodes(kept + [node for group in made.values() for node in group]), functions


def _paths(nodes: Iterable[TensorflowNode]) -> dict[str, _Path]:
    """The frames of each node; a node whose operands are in frames that do not nest has none."""
    paths: dict[str, _Path] = {}
    for node in sorted_nodes(list(nodes)):
        path: _Path | None = ()
        for name in (*[operand.node for operand in node.inputs], *node.controls):
            other = paths.get(name, ())
            if path is not None and len(other) > len(path):
                path = other if other[: len(path)] == path else None
            elif path is not None and path[: len(other)] != other:
                path = None
        if path is None:
            continue
        if node.op in ENTERS:
            frame = node.attributes.get("frame_name", b"")
            path = (*path, frame.decode("utf-8", "replace") if isinstance(frame, bytes) else "")
        elif node.op in EXITS:
            path = path[:-1]
        paths[node.name] = path
    return paths


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable of a loop: what enters, where it comes together with the next round's value, and that value."""

    enter: TensorflowNode
    merge: TensorflowNode
    next: TensorflowNode


@dataclass(frozen=True, slots=True)
class _Frame:
    """The parts of a loop."""

    variables: list[_Variable]
    constants: list[TensorflowNode]
    condition: TensorflowNode
    #: The variable by the name of its Switch.
    switches: Mapping[str, int]
    exits: list[TensorflowNode]
    #: All nodes that compute, in order.
    inner: list[TensorflowNode]

    def raised(self, name: str, taken: set[str], library: Library) -> tuple[TensorflowNode, list[TensorflowNode], list[str]]:
        """The While node, what stands for the Exits, and the names of its two functions."""
        in_body = self.in_body()
        by_name = {node.name: node for node in self.inner}
        body_needs = _slice([each.next for each in self.variables] + [by_name[each] for each in in_body], by_name)
        condition_needs = _slice([self.condition], by_name)
        # What neither needs runs as often as the condition does.
        in_condition = [n for n in self.inner if n.name not in in_body and (n.name in condition_needs or n.name not in body_needs)]
        arguments = [(each.merge.name, type_attribute(each.enter)) for each in self.variables]
        arguments += [(each.name, type_attribute(each)) for each in self.constants]
        condition = library.add(
            f"{name}/cond",
            arguments,
            self._copied([*in_condition, identity(self.condition, self.condition.inputs[0], BOOL)]),
            [Reference(self.condition.name)],
        )
        following = [identity(each.next, each.next.inputs[0], type_attribute(each.enter)) for each in self.variables]
        body = library.add(
            f"{name}/body",
            arguments,
            self._copied([*[n for n in self.inner if n.name in in_body or n.name in body_needs], *following]),
            [*[Reference(each.next.name) for each in self.variables], *[Reference(each.name) for each in self.constants]],
        )
        enters = [*[each.enter for each in self.variables], *self.constants]
        loop = TensorflowNode(
            free_name(name, taken),
            "While",
            tuple([enter.inputs[0] for enter in enters]),
            {
                "T": [kind for _, kind in arguments],
                "cond": FunctionName(condition),
                "body": FunctionName(body),
                _PARALLEL: enters[0].attributes.get(_PARALLEL, 10),
            },
            tuple(dict.fromkeys(control for enter in enters for control in enter.controls)),
            self.condition.function,
            self.condition.original,
        )
        # What an Exit waits for is inside the loop.
        exits = [
            replace(identity(node, Reference(loop.name, self.switches[node.inputs[0].node]), type_attribute(node)), controls=())
            for node in self.exits
        ]
        return loop, exits, [condition, body]

    def in_body(self) -> set[str]:
        """The nodes that wait for the decision to go round once more."""
        found: set[str] = set()
        for node in self.inner:
            if any(operand.node in self.switches or operand.node in found for operand in node.inputs) or any(
                control in found for control in node.controls
            ):
                found.add(node.name)
        return found

    def _copied(self, nodes: Sequence[TensorflowNode]) -> list[TensorflowNode]:
        """Nodes for a function: what they read of a Switch is the argument of its variable."""
        names = {node.name for node in nodes}
        return sorted_nodes(
            [
                replace(
                    node,
                    inputs=tuple(
                        [
                            Reference(self.variables[self.switches[operand.node]].merge.name)
                            if operand.node in self.switches
                            else operand
                            for operand in node.inputs
                        ]
                    ),
                    controls=tuple([control for control in node.controls if control in names]),
                )
                for node in nodes
            ]
        )


def _slice(roots: Iterable[TensorflowNode], by_name: Mapping[str, TensorflowNode]) -> set[str]:
    """The nodes that some nodes need, among those given."""
    found: set[str] = set()
    waiting = [name for root in roots for name in (*[operand.node for operand in root.inputs], *root.controls)]
    while waiting:
        name = waiting.pop()
        if name in found or name not in by_name:
            continue
        found.add(name)
        node = by_name[name]
        waiting += [*[operand.node for operand in node.inputs], *node.controls]
    return found


def _recognised(nodes: Sequence[TensorflowNode]) -> _Frame | None:
    """The parts of a frame; None if it does not have the form of a loop."""
    by_name = {node.name: node for node in nodes}
    conditions = [node for node in nodes if node.op == "LoopCond"]
    if len(conditions) != 1 or not conditions[0].inputs:
        return None
    variables: list[_Variable] = []
    for merge in nodes:
        if merge.op in MERGES and len(merge.inputs) == 2:
            enter, following = (by_name.get(operand.node) for operand in merge.inputs)
            if enter is not None and following is not None and enter.op in ENTERS and following.op in NEXT_ITERATION:
                if not enter.inputs or not following.inputs:
                    return None
                variables.append(_Variable(enter, merge, following))
    indices = {variable.merge.name: index for index, variable in enumerate(variables)}
    condition = conditions[0]
    switches: dict[str, int] = {}
    for node in nodes:
        if node.op in SWITCHES and len(node.inputs) == 2 and node.inputs[1].node == condition.name:
            if node.inputs[0].node not in indices:
                return None
            switches[node.name] = indices[node.inputs[0].node]
    constants = [node for node in nodes if node.op in ENTERS and bool(node.attributes.get("is_constant", False)) and node.inputs]
    exits = [node for node in nodes if node.op in EXITS]
    structure = {condition.name, *switches, *[node.name for node in (*constants, *exits)]}
    for variable in variables:
        structure |= {variable.enter.name, variable.merge.name, variable.next.name}
    inner = [node for node in nodes if node.name not in structure]
    if not variables or any(node.op in ENTERS or node.op in EXITS or node.op in NEXT_ITERATION for node in inner):
        return None
    frame = _Frame(variables, constants, condition, switches, exits, inner)
    return frame if _is_closed(frame) else None


def _is_closed(frame: _Frame) -> bool:
    """Whether all nodes read each other and the loop's variables in the ways that the two functions can express."""
    known = (
        {node.name for node in frame.inner}
        | {each.merge.name for each in frame.variables}
        | {each.name for each in frame.constants}
    )
    body = frame.in_body()
    if any(not node.inputs or node.inputs[0].node not in frame.switches or node.inputs[0].output != 0 for node in frame.exits):
        return False
    readers = [*frame.inner, *[each.next for each in frame.variables], frame.condition]
    merges = {each.merge.name for each in frame.variables}
    for node in readers:
        for operand in node.inputs:
            if operand.node in frame.switches:
                if operand.output != 1:
                    return False
            elif operand.output != 0 if operand.node in merges else operand.node not in known:
                return False
    by_name = {node.name: node for node in frame.inner}
    return frame.condition.inputs[0].node not in frame.switches and not (_slice([frame.condition], by_name) & body)
