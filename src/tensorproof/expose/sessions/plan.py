"""`Plan`: what one call of a TensorFlow session executes, read off the graph once for each set of fetches and feeds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tensorproof.expose.search.board import Suspect
from tensorproof.expose.search.vulnerable import Weakness, weaknesses
from tensorproof.expose.sessions.extending import OWN
from tensorproof.expose.sessions.place import decisive
from tensorproof.frontends.tensorflow_lines import user_frame
from tensorproof.frontends.tensorflow_parts import is_backward, is_step, partner_of
from tensorproof.frontends.tensorflow_variables import VARIABLES
from tensorproof.graph import SourceLine

#: Operators that take the next data out of something that holds them.
_DATA = re.compile(r"^(\w*IteratorGetNext\w*|\w*Dequeue\w*)$")
#: Operators that draw numbers, other ones in each run; those that are functions of a seed are computed again as they were.
RANDOM = frozenset(
    {"RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "ParameterizedTruncatedNormal", "RandomGamma",
     "RandomPoisson", "RandomPoissonV2", "RandomShuffle", "Multinomial", "StatefulUniform", "StatefulStandardNormalV2"}
)  # fmt: skip
_ASSIGNMENTS = re.compile(r"^(Assign\w*|Scatter(Update|Add|Sub|Mul|Div|Nd\w+)|ResourceScatter\w+)$")
#: Names that the table gives weaknesses to and that TensorFlow computes without failing where those are.
_SOUND = frozenset({"Softplus"})


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A variable: what reads it, and the assignment that its value can be fed to (None if there is none)."""

    name: str
    operator: Any
    read: Any
    assignment: Any

    @property
    def initial(self) -> Any:
        """The value that the assignment takes."""
        return self.assignment.inputs[1]


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A suspect in the graph: the operator, and the way in which it fails."""

    operator: Any
    weakness: Weakness
    suspect: Suspect

    @property
    def decisive(self) -> Any:
        return decisive(self.weakness, self.operator)


@dataclass(slots=True, eq=False)
class Plan:
    """What a call executes.

    `operators` come operands first. `data` are all results of operators that take the next batch out of a dataset or a queue,
    `drawn` the random numbers. `variables` are those that the program computes with, `slots` those that optimisers keep for
    themselves. `is_training` says that the call changes variables in the light of data.
    """

    graph: Any
    targets: Sequence[Any]
    fetches: Sequence[Any]
    fed: frozenset[str]
    operators: Sequence[Any]
    data: Sequence[Any]
    drawn: Sequence[Any]
    variables: Sequence[Variable]
    slots: Sequence[Variable]
    #: Steps of optimisers, and assignments of what depends on variables.
    updates: Sequence[Any]
    changes_variables: bool
    is_training: bool
    is_initial: bool
    sites: Sequence[Site] = ()
    partners: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_observed(self) -> bool:
        """Whether the call computes anything that the program was written for."""
        return not self.is_initial and (self.is_training or any(is_floating(tensor) for tensor in self.fetches))

    def _is_source(self, tensor: Any) -> bool:
        return (
            tensor.name in self.fed or tensor.op.type in VARIABLES or tensor.op.type in RANDOM or bool(_DATA.match(tensor.op.type))
        )

    def reached(self) -> set[str]:
        """The floating results that depend on what comes from outside, by floating numbers."""
        found = {tensor.name for op in self.operators for tensor in op.inputs if self._is_source(tensor) and _flows(tensor)}
        for op in self.operators:
            if any(operand.name in found for operand in op.inputs):
                found.update(tensor.name for tensor in op.outputs if _flows(tensor))
        return found

    def sources(self, tensor: Any) -> frozenset[str]:
        """The names of what a tensor depends on by floating numbers: fed tensors, data, drawn numbers and variables."""
        found: set[str] = set()
        pending, seen = [tensor], {tensor.name}
        while pending:
            current = pending.pop()
            if self._is_source(current):
                found.add(current.op.name if current.op.type in VARIABLES else current.name)
                continue
            for operand in current.op.inputs:
                if operand.name not in seen and _flows(operand):
                    seen.add(operand.name)
                    pending.append(operand)
        return frozenset(found)


def is_floating(tensor: Any) -> bool:
    """Whether a tensor, or what a reference refers to, is of a floating format."""
    return bool(tensor.dtype.base_dtype.is_floating)


def _flows(tensor: Any) -> bool:
    """Whether floating numbers pass along: as they are, or as a variable that holds them."""
    return is_floating(tensor) or tensor.dtype.name == "resource"


def plan_of(graph: Any, targets: Sequence[Any], fetches: Sequence[Any], fed: Sequence[Any], numbers: Numbers) -> Plan:
    """Read the plan of a call. `fed` are the tensors that get a value from outside."""
    names = frozenset(tensor.name for tensor in fed)
    operators = list(ordered(targets, fetches, names))
    data = [tensor for op in operators if _DATA.match(op.type) for tensor in op.outputs if is_array(tensor)]
    drawn = [
        tensor for op in operators if op.type in RANDOM and is_outside(op) for tensor in op.outputs if tensor.name not in names
    ]
    updates = _updates_of(operators, names)
    has_steps = any(is_step(op.type) for op in updates)
    has_data = bool(data) or any(is_floating(tensor) and tensor.shape.rank != 0 for tensor in fed)
    changes = [op for op in operators if is_step(op.type) or _ASSIGNMENTS.match(op.type)]
    plan = Plan(
        graph,
        tuple(targets),
        tuple(fetches),
        names,
        operators,
        data,
        drawn,
        *_variables(operators),
        updates,
        bool(changes),
        has_steps or bool(updates and has_data),
        bool(changes) and not updates and not any(map(is_floating, fetches)),
    )
    plan.partners = _partners(operators)
    plan.sites = tuple(numbers.sites(plan))
    return plan


def ordered(targets: Iterable[Any], fetches: Iterable[Any], fed: frozenset[str]) -> Iterator[Any]:
    """The operators that a call executes, operands first; what makes a value that is fed is not executed for it."""
    done: set[str] = set()
    roots = [*targets, *(tensor.op for tensor in fetches if tensor.name not in fed)]
    for root in roots:
        pending: list[tuple[Any, bool]] = [(root, False)]
        while pending:
            op, is_ready = pending.pop()
            if is_ready:
                yield op
                continue
            if op.name in done:
                continue
            done.add(op.name)
            pending.append((op, True))
            pending.extend((operand, False) for operand in op.control_inputs if operand.name not in done)
            pending.extend((operand.op, False) for operand in op.inputs if operand.name not in fed and operand.op.name not in done)


def is_array(tensor: Any) -> bool:
    """Whether a tensor can be fetched, and fed again."""
    return tensor.dtype.base_dtype.name not in ("resource", "variant") and tensor.graph.is_feedable(tensor)


def is_outside(op: Any) -> bool:
    """Whether an operator is not part of a loop or a branch, whose values cannot be fetched."""
    from tensorflow.python.ops import control_flow_util

    return control_flow_util.GetOutputContext(op) is None


def _updates_of(operators: Sequence[Any], fed: frozenset[str]) -> list[Any]:
    """The operators that change a variable by what it was, or by other variables.

    What is assigned and depends on no variable is a first value, or one that is restored. First values may depend on others, too.
    """
    live: set[str] = set()
    given: set[str] = set()
    found: list[Any] = []
    for op in operators:
        makers = [operand.op.name for operand in op.inputs if operand.name not in fed]
        if op.type in VARIABLES or any(maker in live for maker in makers):
            live.add(op.name)
        if len(makers) < len(op.inputs) or _DATA.match(op.type) or any(maker in given for maker in makers):
            given.add(op.name)
        if is_step(op.type):
            found.append(op)
        elif _ASSIGNMENTS.match(op.type) and op.name != f"{op.inputs[0].op.name}/Assign":
            adds = not op.type.startswith("Assign") or op.type.startswith(("AssignAdd", "AssignSub"))
            if any(maker in live or (adds and maker in given) for maker in makers[1:]):
                found.append(op)
    return found


def _variables(operators: Sequence[Any]) -> tuple[list[Variable], list[Variable]]:
    """The variables of the program, and those of its optimisers."""
    slots = _of_optimisers(operators)
    found = [variable for op in operators if op.type in VARIABLES and (variable := variable_of(op)) is not None]
    return [v for v in found if v.name not in slots], [v for v in found if v.name in slots]


def _of_optimisers(operators: Sequence[Any]) -> set[str]:
    """The variables that steps of optimisers alone use: momenta, second moments."""
    kept: set[str] = set()
    used: set[str] = set()
    for op in operators:
        for index, operand in enumerate(op.inputs):
            name = operand.op.name
            if operand.op.type in VARIABLES:
                (kept if is_step(op.type) and index else used).add(name)
    return kept - used


def variable_of(op: Any) -> Variable | None:
    """The variable that an operator holds; None if nothing reads it without doing anything else."""
    consumers = [consumer for consumer in op.outputs[0].consumers() if not consumer.control_inputs]
    assigned = [c for c in consumers if c.type in ("Assign", "AssignVariableOp")]
    first = [c for c in assigned if c.name == f"{op.name}/Assign"]
    assignment = next(iter(first or assigned), None)
    if op.type != "VarHandleOp":
        return Variable(op.name, op, op.outputs[0], assignment)
    reads = [consumer for consumer in consumers if consumer.type == "ReadVariableOp"]
    return Variable(op.name, op, reads[0].outputs[0], assignment) if reads else None


def _partners(operators: Iterable[Any]) -> dict[str, Any]:
    """The operator whose derivative each operator of the gradients is part of."""
    found: dict[str, Any] = {}
    for op in operators:
        if is_backward(op.name):
            partner = differentiated_by(op)
            if partner is not None:
                found[op.name] = partner
    return found


def differentiated_by(op: Any) -> Any:
    """The operator that an operator of the gradients differentiates, by TensorFlow's own notes or by its name."""
    if op._original_op is not None:
        return op._original_op
    named = partner_of(op.name)
    while named:
        try:
            return op.graph.get_operation_by_name(named)
        except KeyError:
            # Gradients in a scope of their own: `train/gradients/Log_grad` differentiates `Log`.
            named = named.partition("/")[2]
    return None


@cache
def _vulnerable() -> Mapping[str, tuple[Weakness, ...]]:
    """The ways in which TensorFlow's operators fail. Those of gradients are sought at the operators that they belong to."""
    known = weaknesses("tensorflow")
    return {name: ways for name, ways in known.items() if name not in _SOUND and not name.endswith("Grad")}


class Numbers:
    """Names of suspects in one graph: the line, and which of the operators of that kind at the line."""

    def __init__(self) -> None:
        self._seen = 0
        self._counts: dict[tuple[str, int, str], int] = {}
        self._places: dict[str, tuple[SourceLine | None, int]] = {}

    def _update(self, graph: Any) -> None:
        """Look at the operators that were added since the last time; the order in which a program makes them is its own."""
        operators = graph.get_operations()
        for op in operators[self._seen :]:
            if op.type not in _vulnerable() or op.name.startswith(OWN) or is_backward(op.name):
                continue
            line = line_of(op)
            key = ("", 0, op.type) if line is None else (line.file, line.line, op.type)
            number = self._counts[key] = self._counts.get(key, -1) + 1
            self._places[op.name] = line, number
        self._seen = len(operators)

    def sites(self, plan: Plan) -> Iterator[Site]:
        """The operators of a plan that can fail, and that anything from outside leads to."""
        self._update(plan.graph)
        differentiated = {op.name for op in plan.partners.values()}
        reached = plan.reached()
        for op in plan.operators:
            if op.name not in self._places or not is_outside(op):
                continue
            line, number = self._places[op.name]
            for weakness in _vulnerable()[op.type]:
                tensor = decisive(weakness, op)
                is_sought = weakness.phase == "forward" or op.name in differentiated
                if is_sought and is_floating(tensor) and tensor.name in reached:
                    yield Site(op, weakness, _suspect(op, weakness, line, number))


def _suspect(op: Any, weakness: Weakness, line: SourceLine | None, number: int) -> Suspect:
    file = None if line is None else line.file
    at = None if line is None else line.line
    name = f"{Path(file or '').name}:{at}:{op.type}:{number}:{weakness.key}"
    return Suspect(name, weakness, op.type, file, at)


def line_of(op: Any) -> SourceLine | None:
    """The user's line that made an operator."""
    return user_frame(SourceLine(frame.filename, frame.lineno, frame.name) for frame in op.traceback or ())
