"""Failing values that no output sees, and that spoil the gradient all the same (rule NUM404).

`where(x > 0, sqrt(x), x)` computes the square root of negative numbers and drops it. Going back, the square root gets the gradient
0 there, and 0 times its derivative NaN is NaN. A value that fails is proven to be dropped if on every way to an output it meets

- an operator whose result has no special value, whatever fails before (a clamp, a divisor, a sigmoid), or
- Where, on a branch that is selected only where the value does not fail. The condition must be made of comparisons (behind
  And, Or and Not), and everything between the values that it compares, the failing node and Where must be element-wise: an
  element of the result is then selected by the very elements that the failing element is made of.

What is not proven stays a finding of the forward pass, and so do failures inside the bodies of control flow, and all but the
first failing nodes (`MOST_FOLLOWED`) of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tensorproof.graph import ABSENT, Graph, Model, Node
from tensorproof.operators.table import Bound, Call, Hazard, Operator, find_operator
from tensorproof.ranges.differentiable import Paths
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.guards import hands_back
from tensorproof.ranges.narrowing import narrowed
from tensorproof.ranges.propagate import Propagation
from tensorproof.ranges.range import Range
from tensorproof.ranges.records import Known, RangedGraph, Record
from tensorproof.rules.unselected_branch import UNSELECTED_BRANCH

Constants = Callable[[int], Flow]

#: Failing nodes that are followed: each takes the time of a look at all nodes after it.
MOST_FOLLOWED = 256

#: Operators that multiply a gradient with nothing that depends on their own operands.
_ADDITIVE = frozenset(
    {"Add", "Sub", "Neg", "Sum", "Mean", "Identity", "Cast", "Where", "Clip", "Max", "Min", "Relu", "ReduceSum", "ReduceMean"}
    | {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Concat", "Slice", "Split", "Gather", "Pad", "Tile"}
)
#: Operators that multiply a gradient with their other operand.
_BILINEAR = frozenset({"Mul", "Div", "MatMul", "Gemm", "Conv"})


def report_unselected(ranged: RangedGraph, again: Callable[[Collection[int]], RangedGraph], constants: Constants) -> None:
    """Replace hazards whose values are dropped by NUM404, where they turn a gradient of zero into NaN.

    `again` repeats the pass that `ranged` comes from, and keeps the ranges of the values that it is given.
    """
    failing = [record for record in ranged.records.values() if record.node.number in ranged.paths and _fails(record)]
    if not failing:
        return
    layout = Layout(ranged.model)
    failing = [record for record in failing if record.node.number in layout.position][:MOST_FOLLOWED]
    wanted = {value for record in failing for value in layout.wanted(record.node)}
    if not wanted:
        return
    ranges = again(wanted).ranges
    search = _Search(ranged, layout, ranges, constants)
    for record in failing:
        hazards: list[Hazard] = []
        for hazard in record.hazards:
            followed = search.follow(record.node, hazard) if hazard.gives else None
            if followed is None or not (followed.spoils or search.spoils_zero(record.node, hazard)):
                hazards.append(hazard)
            else:
                hazards += [replace(hazard, rule=UNSELECTED_BRANCH, gives=0), *followed.selected]
        record.hazards = hazards


def _fails(record: Record) -> bool:
    return record.not_analysed is None and any(hazard.gives and hazard.rule.severity == "error" for hazard in record.hazards)


class Layout:
    """The order of the nodes at the top level of a model, and which of them makes each value."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.position: dict[int, int] = {}
        self.producer: dict[int, Node] = {}
        #: Values that bodies of control flow read.
        self.captured: set[int] = set()
        for index, node in enumerate(model.graph.nodes):
            self.position[node.number] = index
            self.producer.update((number, node) for number in node.outputs if number != ABSENT)
            for body in node.subgraphs():
                self.captured.update(body.outputs)
                self.captured.update(number for inner in body.walk() for number in inner.inputs)

    def after(self, node: Node) -> Iterator[Node]:
        """The nodes that a node's results flow into, in the order of the graph.

        Where gradients stand in the graph themselves they read values, too: that is what the rule is about, no way to an output.
        """
        reached = set(node.outputs)
        for later in self.model.graph.nodes[self.position[node.number] + 1 :]:
            if later.phase == "backward" and node.phase == "forward":
                continue
            if not reached.isdisjoint(later.inputs):
                reached.update(later.outputs)
                yield later

    def elementwise_behind(self, value: int) -> tuple[set[int], set[int]]:
        """The element-wise nodes (their positions) that a value is made by, and all values that these read or make."""
        positions: set[int] = set()
        values = {value}
        waiting = [value]
        while waiting:
            node = self.producer.get(waiting.pop())
            if node is None or self.position[node.number] in positions or not _is_elementwise(node):
                continue
            positions.add(self.position[node.number])
            read = [number for number in node.inputs if number != ABSENT]
            values.update((*read, *node.outputs))
            waiting.extend(read)
        return positions, values

    def wanted(self, node: Node) -> set[int]:
        """The values whose ranges have to be known to follow what fails at a node."""
        found = {*node.inputs, *node.outputs}
        for later in self.after(node):
            found.update(later.outputs)
            if later.op == "Where" and not later.domain:
                found.update(self.elementwise_behind(later.outputs[0])[1])
        found.discard(ABSENT)
        return found


def _is_elementwise(node: Node) -> bool:
    entry = find_operator(node.domain, node.op)
    return entry is not None and entry.elementwise


@dataclass(slots=True)
class Followed:
    """What was met between a failing node and where its values are dropped.

    `spoils` says that an operator there turns a gradient of zero into NaN itself. `selected` are other hazards of the failing
    node, which it has where it is selected: a quotient by numbers above zero may overflow.
    """

    spoils: bool = False
    selected: list[Hazard] = field(default_factory=list[Hazard])


class _Search:
    def __init__(self, ranged: RangedGraph, layout: Layout, ranges: Mapping[int, Flow], constants: Constants) -> None:
        self.model = ranged.model
        self.target = ranged.target
        self.paths: Paths = ranged.paths
        self.layout = layout
        self.ranges = ranges
        self.constants = constants
        self.run = Propagation(ranged.model, ranged.target, constants, claims=ranged.claims)
        self.run.values.update(ranges)

    def follow(self, node: Node, hazard: Hazard) -> Followed | None:
        """What happens to the special values that a hazard gives until they are dropped; None where they may reach an output."""
        followed = Followed()
        reached = {number for number in node.outputs if number != ABSENT}
        for reader in (node, *self.layout.after(node)):
            if reader is not node:
                entering = [index for index, number in enumerate(reader.inputs) if number in reached]
                if not entering or not self._lets_pass(node, hazard, followed, reader, entering):
                    continue
                followed.spoils = followed.spoils or self._multiplies(reader, entering)
                reached.update(number for number in reader.outputs if self._may_be_special(number))
            if any(number in self.model.graph.outputs or number in self.layout.captured for number in reached):
                return None
        return followed

    def _may_be_special(self, number: int) -> bool:
        if number == ABSENT:
            return False
        flow = self.ranges.get(number)
        return flow is None or not isinstance(flow.actual, Range) or bool(flow.actual.any_special)

    def _lets_pass(self, node: Node, hazard: Hazard, followed: Followed, reader: Node, entering: Sequence[int]) -> bool:
        """Whether special values that a hazard gives may come out of a node that reads them."""
        if not any(self._may_be_special(number) for number in reader.outputs):
            return False
        if reader.op != "Where" or reader.domain or 0 in entering:
            return True
        for index in entering:
            selected = self._selected_hazards(node, reader, index)
            if selected is None or any(other.rule == hazard.rule for other in selected):
                return True
            followed.selected += selected
        return False

    def _multiplies(self, reader: Node, entering: Sequence[int]) -> bool:
        """Whether a node multiplies the gradient 0 that it gets with the special values that it reads."""
        flowing = self.paths.get(reader.number)
        if flowing is None or (reader.op in _ADDITIVE and not reader.domain):
            return False
        if reader.op in _BILINEAR and not reader.domain:
            return not flowing.operands <= set(entering) or len(entering) > 1
        return True

    def spoils_zero(self, node: Node, hazard: Hazard) -> bool:
        """Whether a failing node turns a gradient of zero into NaN."""
        entry = _operator_of(node)
        if entry.spoils is None:
            return not hazard.rule.linear
        operands = [None if number == ABSENT else self._flow(number).clean for number in node.inputs]
        with np.errstate(all="ignore"):
            mask = entry.spoils(Call(entry, node.attributes, version=node.version, target=self.target), *operands)
        return bool(np.any(mask))

    def _flow(self, number: int) -> Flow:
        return self.ranges[number] if number in self.ranges else self.constants(number)

    # -- Where -------------------------------------------------------------------------------------------------------

    def _selected_hazards(self, node: Node, where: Node, branch: int) -> list[Hazard] | None:
        """How a node can fail for elements of a branch that Where takes; None where nothing is known of them."""
        condition, value = where.inputs[0], where.inputs[branch]
        between, _ = self.layout.elementwise_behind(value)
        if not self.run.guards.is_elementwise(condition):
            return None
        with np.errstate(all="ignore"):
            changed = narrowed(self.run, condition, branch == 1)
        if not changed or any(self._is_mixed(number, changed) for number in changed):
            return None
        chosen = changed.get(value)
        if chosen is not None and isinstance(chosen.actual, Range) and not chosen.actual.any_special:
            return []
        return self._hazards_with(node, changed) if self.layout.position[node.number] in between else None

    def _is_mixed(self, number: int, changed: Mapping[int, Flow]) -> bool:
        """Whether a value is known by one that mixes its elements: what holds for the one selected holds not for all."""
        node = self.layout.producer.get(number)
        return node is not None and hands_back(node) and not _is_elementwise(node) and node.inputs[0] in changed

    def _hazards_with(self, node: Node, changed: Mapping[int, Flow]) -> list[Hazard] | None:
        """How a node can fail where the values behind it are narrower, evaluated from them; None if it cannot be evaluated."""
        positions, _ = self.layout.elementwise_behind(node.outputs[0])
        nodes = [self.model.graph.nodes[index] for index in sorted(positions)]
        made = {number for inner in nodes for number in inner.outputs}
        entering = {number: None for inner in nodes for number in inner.inputs if number not in (ABSENT, *made)}
        inputs = [number for number in entering if number not in self.model.constants]
        bounds: dict[int, Bound] = {}
        for number, flow in changed.items():
            if number in made and isinstance(flow.clean, Range):
                bounds[number] = flow.clean
        part = replace(self.model, graph=Graph(self.model.graph.name, nodes, tuple(inputs), ()))
        run = Propagation(part, self.target, self.constants, known=Known(bounds))
        with np.errstate(all="ignore"):
            run.run(part.graph, [Flow.of((changed.get(number) or self._flow(number)).clean) for number in inputs])
        record = run.records.get(node.number)
        if record is None or record.not_analysed is not None:
            return None
        return [hazard for hazard in record.hazards if hazard.gives]


def _operator_of(node: Node) -> Operator:
    entry = find_operator(node.domain, node.op)
    assert entry is not None
    return entry
