"""What a propagation needs of a model that does not depend on ranges: found once per model, best right after it was read.

It is kept with the model (`Model.memory`), so that further passes, and passes under other assumptions, find it there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorproof.graph import ABSENT, Graph, Model, Node
from tensorproof.idioms.claims import Claim, claims_of
from tensorproof.operators.table import EXACT, Call, evaluate, find_operator
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.guards import Guards
from tensorproof.ranges.lifetimes import fine_values, last_uses
from tensorproof.ranges.range import CELL_BUDGET, Range
from tensorproof.ranges.silence import silence
from tensorproof.ranges.weights import LARGE

#: First passes over models of more nodes leave out what costs much more than the nodes themselves; refinements do not.
_LARGE_MODEL = 20_000


def prepare(model: Model) -> None:
    """Find out now what passes over a model will ask for, its weights aside."""
    outline = outline_of(model, idioms=True, costly=is_moderate(model))
    outline.last_uses(model.graph)
    if "folds" not in model.memory:
        model.memory["folds"] = _folds(model, outline)


def is_moderate(model: Model) -> bool:
    """Whether a model is so small that its first pass asks costly idioms, too."""
    return len(model.graph.nodes) <= _LARGE_MODEL


# -- structure --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Outline:
    """The claims of idioms about a model, and what they and its graph say about values before any of them is computed.

    `fine` are the values that are followed element by element.
    """

    model: Model
    claims: Mapping[int, Sequence[Claim]]
    fine: frozenset[int] = field(init=False)
    _last_uses: dict[int, dict[int, list[int]]] = field(default_factory=dict[int, dict[int, list[int]]])
    _guards: Guards | None = None

    def __post_init__(self) -> None:
        self.fine = fine_values(self.model.graph, self.claims)

    @property
    def guards(self) -> Guards:
        """The facts behind the conditions of branches and loops, read off the graph on first use."""
        if self._guards is None:
            self._guards = Guards(self.model)
        return self._guards

    def last_uses(self, graph: Graph) -> dict[int, list[int]]:
        """For each position of a graph of the model, the values that no later node of it reads."""
        found = self._last_uses.get(id(graph))
        if found is None:
            # A graph without sub-graphs has no guards.
            guarded = graph is not self.model.graph or any(True for node in graph.nodes for _ in node.subgraphs())
            found = self._last_uses[id(graph)] = last_uses(graph, self.claims, self.guards if guarded else None)
        return found


def outline_of(model: Model, *, idioms: bool, costly: bool) -> Outline:
    """The outline of a model without idioms, with those that cost little, or with all."""
    name = f"outline, {'no' if not idioms else 'all' if costly else 'cheap'} idioms"
    found: Outline | None = model.memory.get(name)
    if found is None:
        found = model.memory[name] = Outline(model, claims_of(model, costly=costly) if idioms else {})
    return found


def outline_with(model: Model, claims: Mapping[int, Sequence[Claim]]) -> Outline:
    """The outline of a model about which these claims are made."""
    for found in model.memory.values():
        if isinstance(found, Outline) and found.claims is claims:
            return found
    return Outline(model, claims)


# -- constants --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fold:
    """The results of a node on operands that are constants of the file, or results of other folds.

    They stand for every evaluation on these very operands: nothing is rounded and no hazard fires, whatever the target.
    `is_exact` says that they are constants themselves; else they are one cell each, of which a pass may want to know more
    than its ends. `is_checkable` says that the node counts among those that can fail on other operands.
    """

    operands: tuple[Flow | None, ...]
    results: tuple[Flow, ...]
    is_exact: bool
    is_checkable: bool


def exact_constant(model: Model, number: int) -> Flow:
    """A constant of the file as it is; one object for all passes."""
    flows: dict[int, Flow] = model.memory.setdefault("constants", {})
    flow = flows.get(number)
    if flow is None:
        flow = flows[number] = Flow.of(Range.constant(model.constants[number], model.values[number].format))
    return flow


def is_known(model: Model, number: int) -> bool:
    """Whether a constant was asked for already."""
    return number in model.memory.get("constants", ())


def folds_of(model: Model) -> Mapping[int, Fold]:
    """The nodes whose results are constants, by their numbers: none before the model is prepared."""
    return model.memory.get("folds", {})


def _folds(model: Model, outline: Outline) -> dict[int, Fold]:
    """Nodes that only move or make constants, in the order of the graph; a node that fails is left to the pass."""
    folds: dict[int, Fold] = {}
    flows: dict[int, Flow] = {}
    with silence():
        for node in model.graph.nodes:
            if not all(number in flows or number == ABSENT or _is_small(model, number) for number in node.inputs):
                continue
            operands = tuple(
                None if number == ABSENT else flows[number] if number in flows else exact_constant(model, number)
                for number in node.inputs
            )
            fold = None if node.number in outline.claims else _folded(model, node, operands)
            if fold is not None:
                folds[node.number] = fold
                flows.update((number, flow) for number, flow in zip(node.outputs, fold.results) if number != ABSENT)
    return folds


def _is_small(model: Model, number: int) -> bool:
    """Whether a value is a constant of the file of so few elements that a look at it costs next to nothing."""
    array = model.constants.get(number)
    return array is not None and array.size <= LARGE


def touches_floats(model: Model, node: Node, operands: Sequence[Flow | None]) -> bool:
    """Whether a node reads or, by what the file declares, makes a floating tensor."""
    for flow in operands:
        if flow is not None and isinstance(flow.clean, Range) and flow.clean.format.is_float:
            return True
    declared = [model.values[number].format for number in node.outputs if number != ABSENT]
    return any(format is not None and format.is_float for format in declared)


def _folded(model: Model, node: Node, operands: tuple[Flow | None, ...]) -> Fold | None:
    """The results of a node that are the same in every pass, else None."""
    entry = find_operator(node.domain, node.op)
    if entry is None or entry.is_control or entry.error is not EXACT or entry.top is not None:
        return None
    formats = [None if number == ABSENT else model.values[number].format for number in node.outputs]
    call = Call(entry, node.attributes, version=node.version, outputs=len(node.outputs), output_formats=formats)
    try:
        result = evaluate(call, [None if flow is None else flow.clean for flow in operands])
    except Exception:  # not analysed, or not what the operator's schema says: the pass reports it
        return None
    results: Sequence[Any] = result if isinstance(result, tuple) else (result,)
    if call.hazards or not all(isinstance(part, Range) and _stays(part) for part in results):
        return None
    is_exact = all(part.array is not None for part in results)
    is_checkable = entry.is_checkable and touches_floats(model, node, operands)
    return Fold(operands, tuple([Flow.of(part) for part in results]), is_exact, is_checkable)


def _stays(x: Range) -> bool:
    """Whether a result is the same at every precision, and small enough to be kept."""
    if x.has_special or not x.has_known_shape:
        return False
    return x.array.size <= CELL_BUDGET if x.array is not None else x.low.size == 1
