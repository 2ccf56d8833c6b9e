"""Windows: an alarming node with the nearest nodes behind it, evaluated again and again under restrictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tensorproof.graph import ABSENT, Node
from tensorproof.idioms.claims import Claim, claims_of
from tensorproof.operators.table import Bound, find_operator, within
from tensorproof.ranges.abstraction import Abstraction
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.range import Range
from tensorproof.ranges.records import Known
from tensorproof.refine.alarms import Alarms, Budget, elements, open_hazards
from tensorproof.refine.cases import FEW_ELEMENTS
from tensorproof.refine.cone import Part, reads

#: A whole cone that costs at most this many evaluations is a window; of larger ones, the element-wise nodes nearest to the alarm.
SMALL_CONE = 160
#: Nodes of a window at most.
MOST_NODES = 96

#: Restrictions of single values, as bounds of the same shape.
Box = Mapping[int, Range]


def is_elementwise(node: Node) -> bool:
    """Whether each element of a node's result depends on one element of each operand."""
    entry = find_operator(node.domain, node.op)
    return entry is not None and entry.elementwise


def window_part(alarms: Alarms, number: int) -> Part:
    """The nodes of the window behind a node that alarms: its whole cone where that is small, else what is element-wise."""
    structure = alarms.structure
    top = structure.at_top(number)
    cone = structure.behind([top], MOST_NODES)
    if alarms.cost(cone.nodes) <= SMALL_CONE:
        return cone
    return elementwise_region(alarms, top)


def elementwise_region(alarms: Alarms, top: Node) -> Part:
    """A node and the element-wise nodes behind it, up to the first ones that are not."""
    structure = alarms.structure
    chosen = {structure.position[top.number]}
    waiting = [top]
    while waiting and len(chosen) < MOST_NODES:
        for value in sorted(reads(waiting.pop())):
            maker = structure.producer(value)
            if maker is not None and is_elementwise(maker) and structure.position[maker.number] not in chosen:
                chosen.add(structure.position[maker.number])
                waiting.append(maker)
    return structure.part(chosen)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one evaluation of a window shows: whether the alarm is gone, and the ranges of the values in it.

    `reporting` are the nodes with hazards: the ranges of their results may not stand as bounds.
    """

    safe: bool
    reporting: frozenset[int]
    ranges: Mapping[int, Range]


@dataclass(slots=True)
class Window:
    """One alarm and the nodes behind it. `users` are the nodes that read each value, one entry for each operand."""

    alarms: Alarms
    number: int
    part: Part
    entering: dict[int, Abstract]
    abstraction: Abstraction
    step: str
    claims: Mapping[int, list[Claim]]
    cost: int
    users: dict[int, list[Node]] = field(default_factory=dict[int, list[Node]])
    #: Values of which each element of the alarming node's operands depends on one element alone.
    single: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        alarms: Alarms,
        number: int,
        part: Part,
        abstraction: Abstraction,
        step: str,
        ranges: Mapping[int, Range] | None = None,
    ) -> Window | None:
        """The window of an alarm; None where the range of a value that enters is not known (`ranges`, or kept)."""
        entering: dict[int, Abstract] = {}
        for value in part.entering:
            known = ranges.get(value) if ranges is not None and value in ranges else alarms.kept.get(value)
            known = alarms.inputs.get(value) if known is None else known
            if known is None:
                return None
            bound = alarms.ranges.get(value)
            entering[value] = _unrelated(within(known, bound) if bound is not None and isinstance(known, Range) else known)
        window = cls(alarms, number, part, entering, abstraction, step, claims_of(part.model), alarms.cost(part.nodes))
        for node in part.nodes:
            for value in node.inputs:
                if value != ABSENT:
                    window.users.setdefault(value, []).append(node)
            for value in sorted(reads(node) - set(node.inputs)):
                # A body may read it any number of times.
                window.users.setdefault(value, []).extend((node, node))
        window.single = window._single()
        return window

    def _single(self) -> frozenset[int]:
        """Values that reach the alarm through element-wise operators alone.

        By NumPy's broadcasting every element of what such operators make of a value depends on one element of it, the
        same one along all paths: its index, without the axes that were added in front and along which it has one element.
        """
        top = self.alarms.structure.at_top(self.number)
        if self.alarms.structure.is_inside(self.number):
            return frozenset()
        found: set[int] = set()
        for node in reversed(self.part.nodes):
            for value in node.inputs:
                users = self.users.get(value, ())
                if value != ABSENT and all(
                    is_elementwise(user) and (user is top or all(out in found for out in user.outputs if out != ABSENT))
                    for user in users
                ):
                    found.add(value)
        return frozenset(found)

    def shared(self) -> list[int]:
        """The values that more than one operand is made from: only there is something to gain by telling cases apart."""
        constants = self.alarms.model.constants
        return [value for value, users in self.users.items() if len(users) > 1 and value not in constants]

    def promising(self) -> bool:
        """Whether some value may be cut at all, as far as shapes tell."""
        summaries = self.alarms.summaries
        return any(
            value in self.single or (value in summaries and elements(summaries[value].shape) <= FEW_ELEMENTS)
            for value in self.shared()
        )

    def evaluate(self, box: Box, budget: Budget) -> Outcome | None:
        """Evaluate the window where values are restricted; None if the budget is spent."""
        if not budget.take(self.cost):
            return None
        known = self.alarms.known
        if box:
            ranges: dict[int, Bound] = dict(known.ranges)
            for value, bound in box.items():
                if value not in self.entering:
                    ranges[value] = _both(ranges.get(value), bound)
            known = Known(ranges, known.impossible)
        entering = {value: _restricted(x, box.get(value)) for value, x in self.entering.items()}
        top = self.alarms.structure.at_top(self.number)
        run = self.alarms.run(
            self.part,
            entering,
            self.abstraction,
            known=known,
            keep={*self.users, *top.outputs},
            claims=self.claims,
            step=self.step,
        )
        # Bodies are evaluated more than once.
        budget.left = max(budget.left - max(run.evaluations - self.cost, 0), 0)
        record = run.records.get(self.number)
        safe = record is not None and record.not_analysed is None and not open_hazards(record)
        if safe and record is not None and record.consequences:
            safe = not self.alarms.structure.is_inside(self.number)
        kept = {value: flow.clean for value, flow in run.kept.items() if isinstance(flow.clean, Range)}
        reporting = frozenset(n for n, record in run.records.items() if record.hazards or record.not_analysed is not None)
        return Outcome(safe, reporting, kept)


def _unrelated(value: Abstract) -> Abstract:
    """Without affine forms, whose symbols mean nothing in another pass; norms hold on."""
    if not isinstance(value, Range) or value.form is None:
        return value
    copy = value.bare()
    copy.norm = value.norm
    return copy


def _restricted(x: Abstract, bound: Range | None) -> Abstract:
    return within(x, bound) if bound is not None and isinstance(x, Range) else x


def _both(a: Bound | None, b: Range) -> Bound:
    return b if a is None else within(b, a)
