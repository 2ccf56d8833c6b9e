"""Every entry of the zoo against the facts on the program that it rebuilds, which were written down apart from it."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarks import zoo
from benchmarks.zoo import Entry, programs
from benchmarks.zoo.builder import Input, Recording, Step
from benchmarks.zoo.channels_last import arrangement
from benchmarks.zoo.reported import reported

pytestmark = pytest.mark.area("zoo")

FACTS: list[dict[str, Any]] = json.loads((Path(zoo.__file__).parent / "facts.json").read_text("utf-8"))
ENTRIES = {tuple(bug.letter for bug in entry.bugs): entry for entry in programs()}

each_graph = pytest.mark.parametrize("facts", FACTS, ids=lambda facts: "-".join(_letters(facts)))

#: Inputs of programs that our form does not have.
LEFT_OUT = {
    ("13", "index"): "the groups are fixed: they are a constant",
    ("17", "keep_prob"): "the program is searched with dropout that keeps everything",
    ("31", "keep_prob"): "the program has one value for it: 0.3 is a number of ours",
    ("48a", "keep_prob"): "the program has one value for it: 0.75 is a number of ours",
    ("61", "keep_prob"): "the program keeps everything",
}


def _letters(facts: dict[str, Any]) -> tuple[str, ...]:
    return tuple(bug["letter"] for bug in facts["bugs"])


def entry_of(facts: dict[str, Any]) -> Entry:
    (found,) = [entry for letters, entry in ENTRIES.items() if sorted(letters) == sorted(_letters(facts))]
    return found


def test_every_entry_has_its_facts() -> None:
    """The forms that GRIST does not run have none."""
    described = {entry_of(facts).id for facts in FACTS}
    assert len(described) == len(FACTS)
    assert {entry.id for entry in programs()} - described == {"4-exp", "5-log", "13-exp"}
    assert sum(len(facts["bugs"]) for facts in FACTS) == 79


def test_what_grist_reports_of_the_bugs_comes_to_its_totals() -> None:
    known = reported()
    assert {bug for facts in FACTS for bug in _letters(facts)} == known.keys()
    assert sum(one.search.found for one in known.values()) == 766
    assert sum(one.is_flagged_by_debar for one in known.values()) == 48
    for one in known.values():
        assert all((runs.seconds is None) == (runs.found == 0) for runs in (one.plain, one.search))


@each_graph
def test_programs(facts: dict[str, Any]) -> None:
    entry = entry_of(facts)
    assert (entry.program, entry.project, entry.framework) == (facts["program"], facts["project"], facts["framework"])
    optimiser = entry.optimiser
    stated = None if optimiser is None else {"method": optimiser.method, "rate": optimiser.rate, **optimiser.options}
    assert stated == facts["optimiser"]


@each_graph
def test_inputs(facts: dict[str, Any]) -> None:
    """What a program draws at random inside its graph (masks, uniform numbers, noise) is an input in our form alone."""
    entry = entry_of(facts)
    stated = {name: given for name, given in facts["inputs"].items() if (entry.id, name) not in LEFT_OUT}
    inputs = entry.inputs
    assert stated.keys() == {name for name, given in inputs.items() if name in stated or given.role != "random"}
    for name, given in stated.items():
        assert list(inputs[name].shape) == given["shape"]
        assert inputs[name].integer == given.get("integer", False)
        assert _values(inputs[name]) == given["values"], name


@pytest.mark.parametrize(("name", "kept"), [("31", 0.3), ("48a", 0.75)])
def test_a_fixed_dropout_is_a_number(name: str, kept: float) -> None:
    (entry,) = [entry for entry in programs() if entry.id == name]
    assert any(array.ndim == 0 and array == pytest.approx(kept) for array in entry.recording().constants.values())


@each_graph
def test_weights(facts: dict[str, Any]) -> None:
    """Shapes in the layout of the framework, and initial values; the names are ours."""
    entry = entry_of(facts)
    recording = entry.recording()
    places = arrangement(recording)
    own: Counter[Any] = Counter()
    for name, weight in recording.weights.items():
        shape = places.shape(name, weight.shape) if entry.framework == "tensorflow" else weight.shape
        own[shape, weight.initial.law, _rounded(weight.initial.numbers)] += 1
    stated: Counter[Any] = Counter()
    for _, shape, (law, *numbers) in facts["weights"]:
        stated[(tuple(shape), *_initial(law, numbers))] += 1
    assert own == stated


@each_graph
def test_losses(facts: dict[str, Any]) -> None:
    entry = entry_of(facts)
    if facts["loss"] is None:
        assert entry.loss is None
        return
    recording = entry.recording()
    operators = [step.operator for step in _upstream(recording, recording.outputs["loss"])]
    assert ("ReduceMean" in operators) == (facts["loss"] == "mean")
    last = recording.step(recording.outputs["loss"])
    if facts["loss"] == "dice":
        assert last.operator == "Neg" and recording.step(last.operands[0]).operator == "Div"


@each_graph
def test_bugs(facts: dict[str, Any]) -> None:
    """The operator of each bug and the value that it is applied to; and the same of further nodes with its defect."""
    entry = entry_of(facts)
    recording = entry.recording()
    for bug in entry.bugs:
        (stated,) = [one for one in facts["bugs"] if one["letter"] == bug.letter]
        assert (bug.operator, bug.error) == (stated["operator"], stated["error"])
        assert described(recording, recording.step(bug.node).operands[-1]) == stated["operand"]
        also = [(recording.step(node).operator, described(recording, recording.step(node).operands[-1])) for node in bug.also]
        assert also == [tuple(pair) for pair in stated.get("also", [])]


# -- our form in the words of the facts --------------------------------------------------------------------------------


#: Values that are named whatever they are made of. A gather is met where sums within groups are given back to their elements.
_PLAIN = {
    "Softmax": "softmax",
    "Sigmoid": "sigmoid",
    "MatMul": "matrix product",
    "Conv": "convolution",
    "Gather": "sum within groups",
}


def described(recording: Recording, name: str) -> str:
    """What a value is, by the steps that make it."""
    if name in recording.inputs:
        return "input"
    if name in recording.weights:
        return "gain" if name.startswith("G_") else "weights"
    if name in recording.constants:
        return f"{float(recording.constants[name]):.4g}"
    step = recording.step(name)
    if step.operator in _PLAIN:
        return _PLAIN[step.operator]
    operands = [described(recording, operand) for operand in step.operands]
    first, last = operands[0], operands[-1]
    match step.operator:
        case "Tile":
            return first
        case "Sub":
            return f"{first} - {last}"
        case "Add" if first == "matrix product":
            return "linear layer"
        case "Add" if first == "convolution":
            return first
        case "Add":
            both = f"{first} + {last}"
            return f"({both})" if both == "1e-10 + 1" else both
        case "Relu":
            return f"relu of a {first}"
        case "Abs":
            return f"magnitude of a {first}" if first != "weights" else "magnitudes of weights"
        case "Clip":
            return f"value clipped to [{', '.join(operands[1:])}]"
        case "Exp":
            return f"exponential of a {first}" if first.startswith("value clipped to [-100") else "exponentials"
        case "ReduceSum":
            return f"sum of {first}"
        case "Div" if last == "sum of exponentials":
            return "quotient of exponentials"
        case _:
            return step.operator


def _values(given: Input) -> Any:
    domain = given.domain
    match domain.kind:
        case "one-hot":
            return "one-hot"
        case "channels":
            return {"channels": [list(ends) for ends in domain.channels]}
        case "values":
            assert sorted(domain.values) == [0.0, 1.0]
            return "0 or 1"
        case _:
            names = {(-100.0, 100.0): "free", (-7.0, 7.0): "normal"}
            return names.get((domain.low, domain.high), [domain.low, pytest.approx(domain.high)])


def _initial(law: str, numbers: list[float]) -> tuple[str, tuple[float, ...]]:
    """Initialisers that have a name of their own are uniform distributions."""
    bounds = {"xavier": lambda: math.sqrt(6.0 / sum(numbers)), "linear layer": lambda: 1.0 / math.sqrt(numbers[0])}
    if law in bounds:
        bound = bounds[law]()
        return "uniform", _rounded((-bound, bound))
    return law, _rounded(tuple(numbers))


def _rounded(numbers: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(round(number, 9) for number in numbers)


def _upstream(recording: Recording, name: str) -> list[Step]:
    steps = {step.name: step for step in recording.steps}
    found: dict[str, Step] = {}
    pending = [name]
    while pending:
        step = steps.get(pending.pop())
        if step is not None and step.name not in found:
            found[step.name] = step
            pending.extend(step.operands)
    return list(found.values())
