"""Idioms: what they prove holds in real runs, what they need is there, and near misses stay defects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.numpy_helper
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator

from tensorproof.assumptions import Declarations, domain_from_json, resolve
from tensorproof.checking import ConstantRanges, input_values
from tensorproof.execute.instrument import instrumented
from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, Format
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted
from tensorproof.idioms.claims import all_idioms, claims_of
from tensorproof.ranges.abstraction import FIRST_PASS, PRECISE, Abstraction
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.ranges.records import RangedGraph
from tensorproof.targets import find_target
from tests.models import model
from tests.safe_models import SAFE, Case
from tests.soundness.containment import violation

pytestmark = pytest.mark.area("idioms")

PASSES = {"precise": PRECISE, "first": FIRST_PASS}
#: Cases whose tensors are too large to be run many times.
LARGE = {name for name in SAFE if "mask" in name and any(size in name for size in ("512", "-1e9", "Where", "Not and a sum"))}
SMALL = [name for name in SAFE if name not in LARGE]


def ranged(proto: onnx.ModelProto, ranges: Mapping[str, Any], abstraction: Abstraction, target: str) -> RangedGraph:
    graph = from_proto(proto)
    declared = Declarations({name: domain_from_json(value, name) for name, value in ranges.items()}, {})
    (assumptions, *_), _ = resolve(graph, declared)
    return propagate(
        graph,
        input_values(graph, assumptions),
        find_target(target),
        constants=ConstantRanges(graph, assumptions),
        keep_ranges=True,
        strict=True,
        abstraction=abstraction,
    )


def alarms(result: RangedGraph) -> set[tuple[str, str]]:
    return {
        (hazard.rule.code, record.node.name)
        for record in result.records.values()
        for hazard in (*record.hazards, *record.consequences)
    } | {("not analysed", record.node.name) for record in result.records.values() if record.not_analysed}


@pytest.mark.parametrize("name", SAFE)
@pytest.mark.parametrize("precision", PASSES)
def test_the_safe_form_is_proven(name: str, precision: str) -> None:
    case = SAFE[name]
    assert alarms(ranged(case.safe, case.ranges, PASSES[precision], "onnxruntime-cpu")) == set()


@pytest.mark.parametrize("name", SAFE)
@pytest.mark.parametrize("precision", PASSES)
def test_the_near_miss_stays_a_defect(name: str, precision: str) -> None:
    case = SAFE[name]
    found = alarms(ranged(case.near_miss, case.ranges_of_near_miss, PASSES[precision], "onnxruntime-cpu"))
    assert case.rule in {code for code, _ in found}


@pytest.mark.parametrize("name", SMALL)
def test_the_near_miss_fails_in_a_real_run(name: str) -> None:
    case = SAFE[name]
    result = ranged(case.near_miss, case.ranges_of_near_miss, FIRST_PASS, "onnxruntime-cpu")
    run = in_onnx_runtime(case.near_miss, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    flagged = sorted({node for code, node in alarms(result) if code == case.rule})
    rounds = (point for seed in range(8) for point in points(case.near_miss, result, seed))
    assert any(not np.isfinite(value).all() for point in rounds for value in run(flagged, point))


@pytest.mark.parametrize("name", [name for name, case in SAFE.items() if case.idiom is not None])
def test_the_idiom_is_what_proves_it(name: str) -> None:
    case = SAFE[name]
    graph = from_proto(case.safe)
    assert case.idiom in {claim.idiom for found in claims_of(graph).values() for claim in found}
    assert alarms(ranged(case.safe, case.ranges, replace(FIRST_PASS, idioms=False), "onnxruntime-cpu"))


def test_every_idiom_has_a_case() -> None:
    # Normalisations and what exporters regroup have tests of their own.
    elsewhere = {f"tensorproof.idioms.{name}" for name in ("normalisation", "regrouped", "dot_products")}
    names = {entry.name for entry in all_idioms() if entry.recognise.__module__ not in elsewhere}
    assert names == {case.idiom for case in SAFE.values() if case.idiom is not None}


def test_every_idiom_has_a_proof() -> None:
    assert all(len(entry.recognise.__doc__ or "") > 60 for entry in all_idioms())


# -- what must not be taken for an idiom -------------------------------------------------------------------------------

#: Graphs that look like an idiom: signature, body, ranges, and the node about which an idiom of that name says nothing.
TRAPS: dict[str, tuple[str, str, dict[str, Any], str, str]] = {
    "integers wrap around": (
        "(int32[4] x) => (int32[4] y)",
        "m = ReduceMax(x)\n y = Sub(x, m)",
        {"x": (-(2**31), 2**31 - 1)},
        "y",
        "ordered-difference",
    ),
    "a maximum of three is not one of them": (
        "(float[4] x, float[4] z) => (float[4] y)",
        "a = Max(x, z, x)\n y = Sub(a, x)\n w = Sub(z, a)\n t = Sub(x, z)\n u = Max(x, z, t)\n v = Sub(u, z)",
        {"x": (-3.0, 3.0), "z": (-3.0, 3.0)},
        "t",
        "ordered-difference",
    ),
    "reduced axes that were transposed": (
        "(float[4,4] x) => (float y)",
        "a = Constant<value_ints=[1]>()\n m = ReduceMax<keepdims=0>(x, a)\n y = Sub(x, m)",
        {"x": (-3.0, 3.0)},
        "y",
        "ordered-difference",
    ),
    "nothing is reduced": (
        "(float[4,4] x) => (float y)",
        "m = ReduceMax<noop_with_empty_axes=1>(x)\n d = Sub(x, m)\n e = Exp(d)\n y = ReduceSum<noop_with_empty_axes=1>(e)",
        {"x": (-3.0, 3.0)},
        "y",
        "sum-of-shifted-exponentials",
    ),
    "a quotient of negative numbers": (
        "(float[4] x) => (float y)",
        "o = Constant<value = float {1.0}>()\n b = Add(x, o)\n y = Div(x, b)",
        {"x": (-1e4, 1e4)},
        "y",
        "ordered-quotient",
    ),
    "a maximum of dropped elements": (
        "(float[64] x) => (float y)",
        """
        half = Constant<value = float {0.5}>()
        yes = Constant<value = bool {1}>()
        d = Dropout<seed=1>(x, half, yes)
        m = ReduceMax(d)
        y = Sub(x, m)
        """,
        {"x": (-3.0, 3.0)},
        "y",
        "ordered-difference",
    ),
    "two random tensors": (
        "(float[64] x) => (float y)",
        "a = RandomUniformLike(x)\n b = RandomUniformLike(x)\n p = Mul(x, a)\n q = Mul(x, b)\n m = ReduceMax(p)\n y = Sub(q, m)",
        {"x": (-3.0, 3.0)},
        "y",
        "ordered-difference",
    ),
}


@pytest.mark.parametrize("name", TRAPS)
def test_traps_are_seen(name: str) -> None:
    signature, body, ranges, node, idiom = TRAPS[name]
    proto = model(signature, body)
    result = ranged(proto, ranges, PRECISE, "onnxruntime-cpu")
    number = result.model.find_value(node)
    assert number is not None
    free = ranged(proto, ranges, replace(PRECISE, idioms=False), "onnxruntime-cpu")
    mine, other = result.summaries[number], free.summaries[number]
    told = {claim.idiom for found in claims_of(result.model).values() for claim in found}
    assert idiom not in told or (mine.low, mine.high) == (other.low, other.high)
    assert outside(proto, result, in_onnx_runtime(proto, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)) == []


@pytest.mark.parametrize("target", ["ieee", "torch-cpu", "tensorflow-cpu"])
@pytest.mark.parametrize("name", [name for name, case in SAFE.items() if case.idiom not in (None, "function-of-one-tensor")])
def test_idioms_prove_the_same_for_other_targets(name: str, target: str) -> None:
    case = SAFE[name]
    assert alarms(ranged(case.safe, case.ranges, FIRST_PASS, target)) == set()


# -- masks -------------------------------------------------------------------------------------------------------------

#: How masks `p` and `q` (true: keep) of 90 x 90 elements become -inf, and which elements are then kept.
MASKINGS: dict[str, tuple[str, Any]] = {
    "both, by And": ("c = And(p, q)\n a = Where(c, x, infinite)\n y = Softmax<axis=-1>(a)", lambda p, q: p & q),
    "either, by Or": ("c = Or(p, q)\n a = Where(c, x, infinite)\n y = Softmax<axis=-1>(a)", lambda p, q: p | q),
    "one without the other": (
        "n = Not(q)\n c = And(n, p)\n a = Where(c, x, infinite)\n y = LogSoftmax<axis=-1>(a)",
        lambda p, q: p & ~q,
    ),
    "two sums": (
        "f = Where(p, zero, infinite)\n g = Where(q, zero, infinite)\n a = Add(x, f)\n b = Add(g, a)\n y = Softmax<axis=-1>(b)",
        lambda p, q: p & q,
    ),
    "transposed": (
        "t = Transpose<perm=[1,0]>(p)\n u = Unsqueeze(t, first)\n f = Where(u, zero, infinite)\n a = Add(f, x)\n y = Softmax<axis=-1>(a)",
        lambda p, q: p.T,
    ),
    "along the first axis": ("a = Where(p, x, infinite)\n y = Softmax<axis=1>(a)", lambda p, q: p.T),
    "one by another": ("f = Where(p, x, infinite)\n a = Where(q, f, x)\n y = Softmax<axis=-1>(a)", lambda p, q: p | ~q),
    "moved and cut": (
        "t = Tile(p, twice)\n c = Slice(t, from, to)\n f = Where(c, zero, infinite)\n a = Add(f, x)\n y = Softmax<axis=-1>(a)",
        lambda p, q: np.roll(p, -30, 0),
    ),
}


@pytest.mark.parametrize("name", MASKINGS)
@pytest.mark.parametrize("density", [0.02, 0.08, 0.5])
def test_masks_are_flagged_exactly_where_a_row_keeps_nothing(name: str, density: float) -> None:
    body, kept = MASKINGS[name]
    random = np.random.default_rng(int(density * 100))
    for _ in range(3):
        p, q = random.random((90, 90)) < density, random.random((90, 90)) < 0.5 + density / 2
        constants = {
            "p": p,
            "q": q,
            "infinite": np.array(-np.inf, np.float32),
            "zero": np.array(0.0, np.float32),
            "first": np.array([0], np.int64),
            "twice": np.array([2, 1], np.int64),
            "from": np.array([30], np.int64),
            "to": np.array([120], np.int64),
        }
        proto = model("(float[2,90,90] x) => (float y)", body)
        proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, key) for key, array in constants.items())
        found = alarms(ranged(proto, {"x": (-10.0, 10.0)}, FIRST_PASS, "onnxruntime-cpu"))
        defect = not kept(p, q).any(axis=1).all()
        assert ("NUM108" in {code for code, _ in found}) == defect


# -- containment -------------------------------------------------------------------------------------------------------


def inputs(shape: tuple[int, ...], low: float, high: float, random: np.random.Generator) -> Iterator[npt.NDArray[np.float64]]:
    """Points of a box where rounding shows, as matrices: ends, ties, one element far from all others, tiny and subnormal numbers."""
    middle = min(max(0.0, low), high)
    shape = shape if len(shape) > 1 else (1, *shape)
    yield np.full(shape, low)
    yield np.full(shape, high)
    yield np.full(shape, middle)
    for far, near in ((high, low), (low, high), (high, middle), (low, middle)):
        lonely = np.full(shape, near)
        lonely.reshape(-1)[:: max(shape[-1], 1)] = far
        yield lonely
        rows = np.full(shape, near)
        rows[..., :1, :] = far
        yield rows
    yield random.choice([low, high, middle], shape)
    for _ in range(3):
        yield random.uniform(low, high, shape)
    for exponents in ((-45.0, -30.0), (-12.0, 0.0), (-4.0, 38.0)):
        magnitude = 10.0 ** random.uniform(*exponents, shape)
        yield np.clip(random.choice([-1.0, 1.0], shape) * magnitude, low, high)
    near_one = np.clip(1.0 + random.choice([-1.0, 0.0, 1.0], shape) * 2.0**-24, low, high)
    yield near_one


def points(proto: onnx.ModelProto, result: RangedGraph, seed: int = 0) -> Iterator[dict[str, Any]]:
    """The same kind of point for all inputs at once, and mixed ones."""
    random = np.random.default_rng(seed)
    names = [entry.name for entry in proto.graph.input]
    values: dict[str, list[npt.NDArray[Any]]] = {}
    for name in names:
        number = result.model.find_value(name)
        assert number is not None
        x = result.ranges[number].clean
        assert isinstance(x, Range)
        low, high = x.hull()
        values[name] = [np.clip(p, low, high).astype(x.format.dtype).reshape(x.sizes) for p in inputs(x.sizes, low, high, random)]
    count = len(next(iter(values.values())))
    for index in range(count):
        yield {name: values[name][index] for name in names}
    for _ in range(count if len(names) > 1 else 0):
        yield {name: values[name][int(random.integers(count))] for name in names}


def outside(proto: onnx.ModelProto, result: RangedGraph, run: Any) -> list[str]:
    """Computed values that are not in their range."""
    observed = [name for node in proto.graph.node for name in node.output if name]
    flows = {result.model.name_of(number): flow for number, flow in result.ranges.items()}
    found: list[str] = []
    for point in points(proto, result):
        for name, computed in zip(observed, run(observed, point)):
            why = violation(flows[name].actual, computed)
            if why is not None:
                found.append(f"{name}: {why}")
    return found


def in_onnx_runtime(proto: onnx.ModelProto, level: Any) -> Any:
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    names = [name for node in proto.graph.node for name in node.output if name]
    session = ort.InferenceSession(instrumented(proto, names).SerializeToString(), options)
    wanted = {entry.name for entry in session.get_inputs()}
    return lambda observed, point: session.run(observed, {n: v for n, v in point.items() if n in wanted})


def in_reference(proto: onnx.ModelProto) -> Any:
    names = [name for node in proto.graph.node for name in node.output if name]
    evaluator = ReferenceEvaluator(instrumented(proto, names))

    def run(observed: list[str], point: dict[str, Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return list(evaluator.run(observed, point))  # type: ignore[arg-type]

    return run


def both(case: Case) -> list[tuple[onnx.ModelProto, Mapping[str, Any]]]:
    return [(case.safe, case.ranges), (case.near_miss, case.ranges_of_near_miss)]


@pytest.mark.parametrize("name", SMALL)
def test_float32_runs_stay_in_their_ranges(name: str) -> None:
    for proto, ranges in both(SAFE[name]):
        result = ranged(proto, ranges, FIRST_PASS, "onnxruntime-cpu")
        assert outside(proto, result, in_onnx_runtime(proto, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)) == []


def narrowed(proto: onnx.ModelProto, ranges: Mapping[str, Any], format: Format) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """The same model and box in a narrower format; what the format cannot hold is cut off."""
    narrow, _ = converted(proto, format)
    largest = float(format.high)
    return narrow, {name: (max(low, -largest), min(high, largest)) for name, (low, high) in ranges.items()}


@pytest.mark.parametrize("name", SMALL)
def test_float16_runs_stay_in_their_ranges(name: str) -> None:
    for proto, ranges in both(SAFE[name]):
        narrow, box = narrowed(proto, ranges, FLOAT16)
        result = ranged(narrow, box, PRECISE, "onnxruntime-cpu")
        assert outside(narrow, result, in_onnx_runtime(narrow, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)) == []


#: The reference takes the logarithm of the softmax, which LogSoftmax is there to avoid.
STABLE = [name for name in SMALL if "LogSoftmax" not in SAFE[name].body + SAFE[name].near_body]
#: Its convolution makes float32 numbers of bfloat16 ones, which its products refuse.
REFERENCE = [
    pytest.param(name, format, id=f"{format}-{name}")
    for format in (FLOAT32, FLOAT16, BFLOAT16)
    for name in STABLE
    if format is not BFLOAT16 or "Conv<" not in SAFE[name].body
]


@pytest.mark.parametrize(("name", "format"), REFERENCE)
def test_runs_of_the_reference_stay_in_their_ranges(name: str, format: Format) -> None:
    for proto, ranges in both(SAFE[name]):
        narrow, box = (proto, dict(ranges)) if format is FLOAT32 else narrowed(proto, ranges, format)
        result = ranged(narrow, box, PRECISE, "ieee")
        assert outside(narrow, result, in_reference(narrow)) == []
