"""How often a loop runs whose condition compares a counter: j = j + g goes on while j < n at most (n - j0) / g times."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorproof.graph import ABSENT, Graph, Node
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.guards import Fact
from tensorproof.ranges.propagate import Propagation
from tensorproof.ranges.range import Range

#: Positions of the first state among the inputs and among the outputs of the body of a Loop.
_INPUTS, _OUTPUTS = 2, 1


def most_trips(run: Propagation, body: Graph, initial: Sequence[Flow]) -> tuple[float, float]:
    """The most iterations that the condition at the end of a body allows, with clean and with actual values."""
    inside = {number for node in body.nodes for number in node.outputs} | set(body.inputs)
    clean = actual = math.inf
    for fact in run.guards.facts(body.outputs[0], True):
        for left, relation, right in _sides(fact):
            if right in inside:
                continue
            bounds = _bounds(run, body, inside, initial, left, relation, right)
            clean, actual = min(clean, bounds[0]), min(actual, bounds[1])
    return clean, actual


def _sides(fact: Fact) -> list[tuple[int, str, int]]:
    turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    if fact.relation not in turned or fact.right == ABSENT:
        return []
    return [(fact.left, fact.relation, fact.right), (fact.right, turned[fact.relation], fact.left)]


def _bounds(
    run: Propagation, body: Graph, inside: set[int], initial: Sequence[Flow], value: int, relation: str, limit: int
) -> tuple[float, float]:
    """What one comparison of a value of the body with one from outside allows."""
    origins = run.guards.origins(value)
    for index, start in enumerate(initial):
        number = body.inputs[_INPUTS + index]
        node = run.guards.producer(run.guards.origins(body.outputs[_OUTPUTS + index])[-1])
        if node is None:
            continue
        if not (node.outputs[0] in origins or number in origins):
            continue
        step = _step(run, node, number)
        if step is None or step in inside:
            continue
        change, end = run.read(step), run.read(limit)
        falls = node.op == "Sub"
        # The value before the step is compared: one iteration more.
        late = 0.0 if node.outputs[0] in origins else 1.0
        clean = _count(start.clean, change.clean, end.clean, relation, falls) + late
        return clean, _count(start.actual, change.actual, end.actual, relation, falls) + late
    return math.inf, math.inf


def _step(run: Propagation, node: Node, state: int) -> int | None:
    """What is added to a state, or subtracted from it."""
    if node.domain or node.op not in ("Add", "Sub"):
        return None
    first, second = node.inputs
    if state in run.guards.origins(first):
        return second
    return first if node.op == "Add" and state in run.guards.origins(second) else None


def _count(start: object, change: object, end: object, relation: str, falls: bool) -> float:
    if not (isinstance(start, Range) and isinstance(change, Range) and isinstance(end, Range)):
        return math.inf
    if not all(x.format.is_integer and x.format.low < 0.0 and x.low.size for x in (start, change, end)):
        return math.inf
    (low, high), (least, most), (near, far) = start.hull(), change.hull(), end.hull()
    if falls:
        least, most = -most, -least
    if relation in (">", ">="):
        # Counting down: the mirror image.
        low, high, least, most, near, far = -high, -low, -most, -least, -far, -near
    if least < 1.0 or far + most >= min(start.format.high, 2.0**53) or low < -(2.0**53):
        return math.inf
    steps = (far - low) / least
    count = math.floor(steps) + 1.0 if relation in ("<=", ">=") else math.ceil(steps)
    return max(1.0, count)
