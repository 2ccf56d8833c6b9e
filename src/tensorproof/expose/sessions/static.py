"""The static analysis of what one call of a TensorFlow session computes, so that suspects which cannot fail are not driven.

The part of the graph that leads to suspects is read as `tensorproof check` reads graph files, constants gathered as TensorFlow
gathers them. What is fed, and data, are inputs: in their legal ranges where they are moved (in a range that holds it, so that it
stays the same while data come in), else any finite number. Variables are any finite number, whatever they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tensorproof.errors import TensorproofError
from tensorproof.expose.events import Pipe
from tensorproof.expose.search.board import Board
from tensorproof.expose.search.moves import Legal
from tensorproof.expose.search.static_rank import MOST_NODES, Asked, Ledger, Standing, Subject, outward, standings
from tensorproof.expose.sessions.external import Call, Externals
from tensorproof.expose.sessions.plan import Plan
from tensorproof.expose.settings import Settings
from tensorproof.frontends.tensorflow_files import graph_from_proto
from tensorproof.frontends.tensorflow_graph import translated
from tensorproof.frontends.tensorflow_program import prepared
from tensorproof.frontends.tensorflow_reassociation import EITHER_OF, reassociated
from tensorproof.frontends.tensorflow_records import Reference, TensorflowGraph
from tensorproof.graph import Model
from tensorproof.targets import find_target

#: How often calls of one program are looked at; forms that come later are not proven.
_MOST_SCANS = 8


@dataclass(frozen=True, slots=True)
class _Input:
    """A tensor that comes from outside: its shape (None if it is not known), and the range that its numbers lie in."""

    name: str
    shape: tuple[int, ...] | None
    legal: Legal
    #: Where its numbers lie at the moment.
    now: Legal = field(default_factory=Legal, compare=False)


class TensorflowStatics:
    """What scans say about the suspects of one run."""

    def __init__(self, settings: Settings, board: Board, pipe: Pipe, externals: Externals) -> None:
        self._settings = settings
        self._externals = externals
        self._pipe = pipe
        self.ledger = Ledger(board, pipe)
        self._forms: set[Any] = set()

    def look(self, call: Call) -> None:
        """A call is about to be made: scan it, unless one like it was."""
        inputs = self._inputs(call)
        form = id(call.plan), tuple(inputs)
        if form in self._forms:
            return
        self._forms.add(form)
        asked = {site.suspect.name: Asked(site.operator.name, site.weakness) for site in call.plan.sites}
        asked = {name: suspect for name, suspect in asked.items() if name not in self.ledger.doubted}
        found: Mapping[str, Standing] = {}
        if asked and self.ledger.scans < _MOST_SCANS:
            try:
                found = scanned(call.plan, inputs, asked)
            except TensorproofError as error:
                self._pipe.send("note", text=f"suspects were not looked at by the static analysis: {error}")
        if asked:
            self.ledger.note(found, asked)

    def _inputs(self, call: Call) -> list[_Input]:
        """What the call takes from outside."""
        ranges = {name: legal if self._is_declared(name) else outward(legal) for name, legal in self._externals.ranges()}
        found: list[_Input] = []
        for name in sorted({*call.plan.fed, *(tensor.name for tensor in call.plan.data)}):
            array = call.fresh.get(name)
            now = Legal.of(array) if array is not None and array.dtype.kind == "f" else Legal()
            found.append(_Input(name, None if array is None else array.shape, ranges.get(name, Legal()), now))
        # Draws lie where their generator reaches, unless they are moved to where the user says.
        drawn = [tensor for tensor in call.plan.drawn if self._is_declared(tensor.name)]
        return [*found, *(_Input(tensor.name, _shape(tensor), Legal()) for tensor in drawn)]

    def _is_declared(self, name: str) -> bool:
        return any(key in self._settings.ranges for key in (name, name.partition(":")[0], "*"))


def _shape(tensor: Any) -> tuple[int, ...] | None:
    return tuple(tensor.shape.as_list()) if tensor.shape.is_fully_defined() else None


def scanned(plan: Plan, inputs: Sequence[_Input], asked: Mapping[str, Asked]) -> dict[str, Standing]:
    """What is known of suspects of a call."""
    operators = {site.operator.name: site.operator for site in plan.sites if site.suspect.name in asked}
    needed = _ancestors(list(operators.values()), {item.name for item in inputs})
    if len(needed) > MOST_NODES:
        return {}
    names = {item.name: f"tensorproof_input_{number}" for number, item in enumerate(inputs)}
    records = prepared(_records(plan.graph, needed, names, inputs))
    found = translated(records, name="call", roots=[Reference(name) for name in operators])
    model = _gathered(found.model, {node.name: node.op for node in records.nodes}, found.origins)
    values = {model.name_of(number): number for number in model.graph.inputs}
    used = [item for item in inputs if names[item.name] in values]
    ranges = {values[names[item.name]]: item.legal for item in used if item.legal.is_bounded}
    likely = {values[names[item.name]]: item.now for item in used if item.now.is_bounded}
    for name, domain in found.domains.items():
        # The default of a placeholder that is not fed.
        if name in values:
            ranges[values[name]] = Legal(domain.low, domain.high)
    shapes = {number: _fixed(model.values[number].shape) for number in model.graph.inputs}
    subject = Subject(model, find_target("tensorflow-cpu"), _nodes(model, found.origins), ranges, shapes, likely)
    return standings(subject, asked)


def _ancestors(operators: Sequence[Any], cut: set[str]) -> list[Any]:
    """All operators that some depend on by values; what makes an input is none of them."""
    found = {op.name: op for op in operators}
    pending = list(operators)
    while pending and len(found) <= MOST_NODES:
        for operand in pending.pop().inputs:
            if operand.name not in cut and operand.op.name not in found:
                found[operand.op.name] = operand.op
                pending.append(operand.op)
    return list(found.values())


def _records(graph: Any, operators: Sequence[Any], names: Mapping[str, str], inputs: Sequence[_Input]) -> TensorflowGraph:
    """Operators as the front end reads them; inputs are placeholders."""
    import tensorflow as tf

    definition: Any = tf.compat.v1.GraphDef()
    definition.versions.CopyFrom(graph.graph_def_versions)
    for item in inputs:
        node = definition.node.add(name=names[item.name], op="Placeholder")
        node.attr["dtype"].type = graph.get_tensor_by_name(item.name).dtype.base_dtype.as_datatype_enum
        node.attr["shape"].shape.unknown_rank = item.shape is None
        for size in item.shape or ():
            node.attr["shape"].shape.dim.add(size=size)
    has_functions = False
    for operator in operators:
        node = definition.node.add()
        node.CopyFrom(operator.node_def)
        del node.input[:]
        node.input.extend(names.get(operand.name, operand.name) for operand in operator.inputs)
        has_functions |= any(value.WhichOneof("value") == "func" for value in node.attr.values())
    if has_functions:
        definition.library.CopyFrom(graph.as_graph_def().library)
    return graph_from_proto(definition, name="the program's graph")


def _gathered(model: Model, operators: Mapping[str, str], origins: Mapping[str, str]) -> Model:
    """The model with all ways in which TensorFlow may compute it; nobody else counts as a reader of what suspects make."""
    outputs = model.graph.outputs
    known = {name: operators[origin] for name, origin in origins.items() if origin in operators}
    open = replace(model, graph=replace(model.graph, outputs=()))
    found = reassociated(open, known)
    return replace(found, graph=replace(found.graph, outputs=outputs))


def _nodes(model: Model, origins: Mapping[str, str]) -> dict[str, list[int]]:
    """The nodes of each operator of the program."""
    found: dict[str, list[int]] = {}
    for node in model.graph.nodes:
        origin = origins.get(node.name.removesuffix(f"/{EITHER_OF}"))
        if origin is not None:
            found.setdefault(origin, []).append(node.number)
    return found


def _fixed(shape: Sequence[object] | None) -> tuple[int, ...] | None:
    sizes = [size for size in shape or () if isinstance(size, int)]
    return None if shape is None or len(sizes) < len(shape) else tuple(sizes)
