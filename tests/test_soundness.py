"""Soundness and tightness over the operator table: every operator, every floating format that it admits, random grids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest

from tensorproof.errors import ModelError
from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.operators.table import Operator, all_operators, find_operator
from tensorproof.ranges.abstraction import PRECISE, Abstraction
from tensorproof.ranges.range import Range
from tensorproof.rules.invalid_operation_on_infinity import INVALID_ON_INFINITY
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU
from tests.soundness.node_cases import node_cases
from tests.soundness.seeds import all_seeds
from tests.soundness.seeds.seed import Seed
from tests.soundness.suite import run_node_case, seeds_of, small, stable_seed
from tests.soundness.tightness import Measurement, measure
from tests.soundness.trials import Workbench, abstract_point, admits, analyse, unanalysed

pytestmark = pytest.mark.area("soundness")

FORMATS = (FLOAT32, FLOAT16, FLOAT64, BFLOAT16)
#: Trials per operator and format; `make test-long` multiplies them.
TRIALS = 10
LONG = 20

#: Operators whose results are drawn at random: a point in gives a range out.
RANDOM = ("Random", "Bernoulli", "Multinomial")

#: The oracles here are those of ONNX: operators of the own domain are held to torch (`test_own_operators.py`).
OPERATORS = [entry.label for entry in all_operators() if entry.domain != "tensorproof"]
#: Blocks that say that nothing is known. The list may shrink.
MOST_TOP = 15


@cache
def seeds() -> dict[str, list[Seed]]:
    return seeds_of([*node_cases(), *all_seeds()])


def entry_of(label: str) -> Operator:
    domain, _, name = label.rpartition("::")
    found = find_operator(domain, name)
    assert found is not None
    return found


def test_every_standard_operator_has_a_block() -> None:
    missing = [
        schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == "" and find_operator("", schema.name) is None
    ]
    assert missing == []


def test_every_operator_has_a_seed() -> None:
    assert [label for label in OPERATORS if not seeds().get(label)] == []


def test_few_operators_know_nothing() -> None:
    top = [entry.label for entry in all_operators() if entry.top is not None]
    assert len(top) <= MOST_TOP, top


def test_the_node_cases_of_onnx() -> None:
    tally: Counter[str] = Counter()
    unsound: list[str] = []
    for case in node_cases():
        verdict, detail = run_node_case(case)
        tally[verdict] += 1
        if verdict == "unsound":
            unsound.append(f"{case.name}: {detail}")
    print(f"{tally['passed']} passed, {tally['unsound']} unsound, {tally['unsupported']} unsupported")
    assert unsound == []
    assert tally["passed"] >= 1800


def run_trials(
    label: str, count: int, *, format: Format, first: int = 0, abstraction: Abstraction = PRECISE
) -> tuple[list[str], int]:
    """Violations over some trials of one operator in one format, and how many sample points were compared."""
    usable = small([s for s in seeds()[label] if admits(s, format)])
    found: list[str] = []
    samples = 0
    benches: dict[str, Workbench | None] = {}
    for number in range(first, first + count if usable else first):
        seed = usable[number % len(usable)]
        if seed.name not in benches:
            try:
                benches[seed.name] = Workbench(seed, format, abstraction=abstraction)
            except Exception:  # the oracle does not know the operator in this format
                benches[seed.name] = None
        bench = benches[seed.name]
        if bench is None:
            continue
        outcome = bench.trial(np.random.default_rng([number, stable_seed(seed.name)]))
        samples += outcome.samples
        found.extend(f"{label} {format} {seed.name}: {text}" for text in outcome.violations)
    return found, samples


@pytest.mark.parametrize("label", OPERATORS)
def test_results_lie_inside_their_range(label: str) -> None:
    total = 0
    for format in FORMATS:
        found, samples = run_trials(label, TRIALS, format=format)
        assert found == []
        total += samples
    if entry_of(label).top is None:
        assert total > 0 or not any(bench_varies(s) for s in seeds()[label])


#: A pass that asks the rules for operands of one interval; tensors of tests are small, and so is what is merged.
PLAIN = replace(PRECISE, weights="channel", norms=False, cells=4)


@pytest.mark.parametrize("label", [entry.label for entry in all_operators() if entry.interval_rule is not None])
def test_results_lie_inside_the_range_of_a_plain_pass(label: str) -> None:
    for format in FORMATS:
        found, _ = run_trials(label, 2 * TRIALS, format=format, abstraction=PLAIN)
        assert found == []


def bench_varies(seed: Seed) -> bool:
    return any(isinstance(x, np.ndarray) and x.dtype == np.float32 for x in seed.inputs)


@pytest.mark.long
@pytest.mark.parametrize("label", OPERATORS)
def test_results_lie_inside_their_range_long(label: str) -> None:
    for format in FORMATS:
        found, _ = run_trials(label, TRIALS * LONG, format=format, first=TRIALS)
        assert found == []


RUNTIME_FUNCTIONS = ["Sigmoid", "Tanh", "Erf", "Exp", "Log", "Softmax", "LayerNormalization", "Gelu", "MatMul", "Conv", "Gemm"]


@pytest.mark.parametrize("label", RUNTIME_FUNCTIONS)
def test_results_of_onnx_runtime_lie_inside_the_range_of_its_target(label: str) -> None:
    compared = 0
    for number, seed in enumerate(seeds()[label][:6]):
        for format in (FLOAT32, FLOAT16):
            runtime_seed = Seed(seed.name, seed.operator, seed.domain, seed.model, seed.inputs, seed.outputs, seed.vary, "runtime")
            try:
                bench = Workbench(runtime_seed, format, ONNXRUNTIME_CPU)
            except Exception:  # the runtime has no kernel for this opset or format
                continue
            for trial in range(8):
                outcome = bench.trial(np.random.default_rng([number, trial, stable_seed(seed.name)]))
                assert outcome.violations == []
                compared += outcome.samples
    assert compared > 50


@cache
def tightness(label: str) -> Measurement:
    return measure(label, small(seeds()[label]), count=12)


#: Blocks whose ranges are wider than twice what a search reaches, with the reason. The list may shrink.
LOOSE = {
    "Tan": "a cell across a pole is as wide as the format, and no search reaches its ends",
    "Loop": "states of different iterations are taken as independent",
    "GRU": "gates and state share operands and are taken as independent",
    "LSTM": "gates and state share operands and are taken as independent",
    "TopK": "with sorted=0 the order of the results is undefined: each may be any of the largest",
    "MaxUnpool": "with output_shape it is not settled what indices count in, and both readings are kept",
    "RoiAlign": "the samples of an inexact region move together and are taken as independent",
    "Dropout": "which elements are dropped is random: the reference always draws the same",
    "com.microsoft::GroupQueryAttention": "padded rows and tails of a shared buffer may hold anything",
    "com.microsoft::Attention": "queries, keys and values come from one input and are taken as independent",
}


@pytest.mark.parametrize("label", OPERATORS)
def test_ranges_are_tight(label: str, record_property: Callable[[str, object], None]) -> None:
    """At most 1.05 times the hull that a search reaches; twice where the block says coarse, with its reason."""
    entry = entry_of(label)
    if entry.top is not None:
        record_property("grade", f"top {label}")
        return
    grade = tightness(label).grade
    record_property("grade", f"{grade} {label}")
    allowed = {"exact", "tight", "unmeasured"}
    if entry.coarse is not None:
        allowed |= {"coarse", "loose"} if label in LOOSE else {"coarse"}
    assert grade in allowed, str(tightness(label))


#: Operators whose rounding error is larger: a variance E[x^2] - E[x]^2 cancels, and a 16-bit sum feeds a float32 result.
WIDER: dict[str, float] = {
    "GroupNormalization": 1e-3,
    "MeanVarianceNormalization": 1e-3,
    "com.microsoft::SkipSimplifiedLayerNormalization": 1e-3,
}


def point_width(seed: Seed) -> float | None:
    """The widest floating result of a call on points, relative to the largest number that takes part; None if it fails."""
    if any(isinstance(x, np.ndarray) and x.dtype.kind == "f" and not np.isfinite(x).all() for x in seed.inputs):
        return None
    try:
        graph = from_proto(seed.model)
    except ModelError:
        return None
    target = ONNXRUNTIME_CPU if seed.domain == "com.microsoft" else IEEE
    analysis = analyse(graph, [abstract_point(x, None) for x in seed.inputs], target)
    if unanalysed(analysis) or any(h.gives for r in analysis.records.values() for h in r.hazards):
        return None
    sizes = [float(np.abs(x).max(initial=1.0)) for x in seed.inputs if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    widest = 0.0
    for flow in analysis.outputs.values():
        value = flow.clean
        if isinstance(value, Range) and value.format is FLOAT32 and value.low.size and not value.has_special:
            scale = max([1.0, float(value.magnitude().max()), *sizes])
            widest = max(widest, float((value.high - value.low).max()) / scale)
    return widest


@pytest.mark.parametrize("label", [label for label in OPERATORS if entry_of(label).coarse is None and not label.startswith(RANDOM)])
def test_points_give_points_up_to_rounding(label: str) -> None:
    """In float32, with a thousand terms at most, rounding stays below 1e-4 of the largest number."""
    for seed in small(seeds()[label])[:8]:
        width = point_width(seed)
        assert width is None or width <= WIDER.get(label, 1e-4), seed.name


def test_reported_hazards_are_declared() -> None:
    """A call never reports a rule that its operator's block does not declare: the documentation is read off the block."""
    for label in OPERATORS:
        entry = entry_of(label)
        declared = {rule.code for rule in entry.rules()} | {INVALID_ON_INFINITY.code}
        for seed in seeds()[label][:4]:
            try:
                bench = Workbench(seed)
            except Exception:  # the oracle does not know the operator
                continue
            for number in range(4):
                ranges = bench.ranges(np.random.default_rng([number, stable_seed(seed.name)]))
                for record in analyse(bench.model, ranges).records.values():
                    if record.node.op == entry.name and record.node.domain == entry.domain:
                        reported = {hazard.rule.code for hazard in (*record.hazards, *record.consequences)}
                        assert reported <= declared, label


# -- does the suite notice a broken rule? ----------------------------------------------------------------------------


def shrunk(result: Any) -> Any:
    """The upper half of every cell forgotten."""
    if isinstance(result, tuple):
        return tuple(shrunk(part) for part in result)
    if not isinstance(result, Range) or not result.format.is_float:
        return result
    middle = result.low + (result.high - result.low) / 2
    return result.replace(result.low, np.where(np.isfinite(middle), middle, result.low), result.special)


def shifted(result: Any) -> Any:
    """Bounds moved by a thousandth: the mistake of a constant."""
    if isinstance(result, tuple):
        return tuple(shifted(part) for part in result)
    if not isinstance(result, Range) or not result.format.is_float:
        return result
    return result.replace(result.low * 1.001 + 1e-3, result.high * 1.001 + 1e-3, result.special)


MUTATIONS: list[tuple[str, Callable[[Any], Any]]] = [
    ("Mul", shrunk),
    ("Exp", shifted),
    ("Pow", shrunk),
    ("Gelu", shifted),
    ("MatMul", shrunk),
    ("Conv", shifted),
    ("ReduceMean", shifted),
    ("Softmax", shrunk),
    ("LayerNormalization", shrunk),
    ("Gather", shrunk),
    ("LSTM", shrunk),
    ("AveragePool", shifted),
]


@pytest.mark.parametrize("label, change", MUTATIONS, ids=[m[0] for m in MUTATIONS])
def test_a_broken_rule_turns_the_suite_red(label: str, change: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_of(label)
    block = entry.block
    monkeypatch.setattr(entry, "block", lambda *operands: change(block(*operands)))
    found = [text for format in FORMATS for text in run_trials(label, TRIALS, format=format)[0]]
    assert found, f"{label} can be broken without a test that fails"


@pytest.mark.parametrize("label, rule", [("Log", "NUM101"), ("Div", "NUM103"), ("Sqrt", "NUM102"), ("Acos", "NUM105")])
def test_a_forgotten_hazard_turns_the_suite_red(label: str, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_of(label)
    monkeypatch.setattr(entry, "hazards", [h for h in entry.hazards if h.rule.code != rule])
    found = [text for format in FORMATS for text in run_trials(label, 3 * TRIALS, format=format)[0]]
    assert found
