"""Short cuts of the engine against the general way: one interval in plain numbers, few cells, small products."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from benchmarks.scale import graph
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorproof import checking
from tensorproof.assumptions import Declarations, parse_domain, resolve
from tensorproof.collector import patient_collector
from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, Array, Format
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.idioms.claims import all_idioms, claims_of
from tensorproof.operators import linear, normalisation
from tensorproof.operators.table import Call, evaluate, find_operator
from tensorproof.ranges import norms
from tensorproof.ranges.abstraction import FIRST_PASS, PRECISE
from tensorproof.ranges.costs import collecting
from tensorproof.ranges.flow import NO_ROOTS, united
from tensorproof.ranges.grid import fine
from tensorproof.ranges.norms import Norm
from tensorproof.ranges.range import Range, align
from tensorproof.ranges.rounding import Rounding
from tensorproof.ranges.silence import is_silent, silence
from tensorproof.ranges.standardise import standardised, variance_bounds
from tensorproof.report.statistics import statistics_text
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU, TARGETS, TENSORFLOW_CPU
from tests.models import model, static

pytestmark = pytest.mark.area("engine")

FLOATS = [f for f in FORMATS if f.is_float]
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1e6, 1e6) | st.sampled_from((np.inf, -np.inf, 0.0))


def by_quantum(format: Format, values: Array, step: np.ufunc) -> Array:
    """Rounding as it is defined: to multiples of the distance of neighbours."""
    if format is FLOAT64:
        return values
    with np.errstate(all="ignore"):
        quantum = format.quantum(values)
        return step(values / quantum) * quantum


@pytest.mark.parametrize("format", FLOATS, ids=str)
@settings(deadline=None)
@given(values=st.lists(NUMBERS, min_size=2, max_size=6))
def test_numbers_and_arrays_round_alike(format: Format, values: list[float]) -> None:
    array = np.array(values)
    with silence():
        for step, whole, single in (
            (np.rint, format.round_nearest, format.nearest),
            (np.floor, format.round_down, format.below),
            (np.ceil, format.round_up, format.above),
        ):
            expected = by_quantum(format, array, step)
            assert np.array_equal(whole(array), expected)
            assert np.array_equal([single(value) for value in values], expected)
            assert np.array_equal(whole(array[:1]), expected[:1])


@pytest.mark.parametrize("format", [FLOAT32, FLOAT16, BFLOAT16, FLOAT64], ids=str)
@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
@settings(deadline=None)
@given(ends=st.lists(st.tuples(NUMBERS, NUMBERS).map(sorted), min_size=2, max_size=5), error=st.sampled_from((0.0, 0.5, 4.0)))
def test_one_interval_rounds_like_a_cell(format: Format, target: object, ends: list[list[float]], error: float) -> None:
    assert target in TARGETS.values()
    for codomain in (None, (-1.0, 1.0)):
        rounding = Rounding("Tanh", error, 0.0, codomain, format, next(t for t in TARGETS.values() if t is target))
        low, high = np.array(ends).T
        hull = float(low.min()), float(high.max())
        with silence():
            lows, highs = rounding.cells(low, high, hull)
            assert [rounding.interval(*pair) for pair in ends] == list(zip(lows.tolist(), highs.tolist()))
            # The hull of what is rounded is the hull, rounded.
            assert rounding.interval(*hull) == (lows.min(), highs.max())


def test_nothing_is_known_where_a_bound_is_no_number() -> None:
    rounding = Rounding("Add", 0.5, 0.0, None, FLOAT32, IEEE)
    assert rounding.interval(np.nan, np.nan) == (-np.inf, np.inf)
    low, high = rounding.cells(np.array([np.nan, 1.0]), np.array([2.0, np.nan]), (np.nan, np.nan))
    assert low.tolist() == [-np.inf, 1.0] and high.tolist() == [2.0, np.inf]


def test_special_values_are_aligned_when_they_are_asked_for() -> None:
    a = Range.elements(FLOAT32, np.zeros(3), np.ones(3), np.array([0, 1, 0], np.uint8))
    b = Range.uniform((3,), FLOAT32, 0.0, 1.0, 2)
    assert [flags.tolist() for flags in align(a, b).specials] == [[0, 1, 0], [2]]
    assert [flags.tolist() for flags in align(a, a).specials] == [[0, 1, 0]] * 2


def test_hulls_are_remembered_and_never_stale() -> None:
    x = Range.elements(FLOAT32, np.array([1.0, 2.0]), np.array([3.0, 5.0]))
    assert x.hull() == (1.0, 5.0) == x.bare().hull()
    assert x.replace(x.low - 1.0, x.high, None).hull() == (0.0, 5.0)
    assert x.clamp(high=4.0).hull() == (1.0, 4.0)


def test_equal_cells_become_one_in_the_first_pass_only() -> None:
    relu = find_operator("", "Relu")
    assert relu is not None
    x = Range(FLOAT32, (4,), (np.array([0, 1, 4]),), np.array([-1.0, -2.0]), np.array([3.0, 3.0]))
    assert evaluate(Call(relu, {}, abstraction=FIRST_PASS), [x]).cells == (1,)
    assert evaluate(Call(relu, {}, abstraction=PRECISE), [x]).cells == (2,)


# -- products and normalisation ---------------------------------------------------------------------------------------


def products(a: Range, b: Range, monkeypatch: pytest.MonkeyPatch, target: object) -> list[Range]:
    """The product by the short cut, which has to apply, and by the general way; both report the same."""
    matmul = find_operator("", "MatMul")
    assert matmul is not None
    chosen = next(t for t in TARGETS.values() if t is target)
    found: list[Range] = []
    hazards: list[object] = []
    for short in (True, False):
        call = Call(matmul, {}, target=chosen, abstraction=FIRST_PASS)
        with monkeypatch.context() as patch, silence():
            if short:
                assert linear.product_of_intervals(Call(matmul, {}, target=chosen, abstraction=FIRST_PASS), a, b) is not None
            else:
                patch.setattr(linear, "product_of_intervals", lambda *_: None)
            found.append(evaluate(call, [a, b]))
        hazards.append(call.hazards)
    assert hazards[0] == hazards[1]
    return found


def assert_close(short: Range, general: Range) -> None:
    assert short.shape == general.shape
    (low, high), (least, most) = short.hull(), general.hull()
    size = max(abs(least), abs(most))
    assert abs(low - least) <= 1e-5 * size and abs(high - most) <= 1e-5 * size
    assert (low >= 0.0) == (least >= 0.0) and (high <= 0.0) == (most <= 0.0)


@pytest.mark.parametrize("target", [IEEE, ONNXRUNTIME_CPU, TENSORFLOW_CPU], ids=lambda target: target.name)
@pytest.mark.parametrize("ends", [(-1.0, 2.0), (0.0, 3.0), (-3.0, -1.0), (2.0, 2.0), (-1e30, 1e-30)])
def test_products_of_intervals(ends: tuple[float, float], target: object, monkeypatch: pytest.MonkeyPatch) -> None:
    a = Range.uniform((2, 5, 40), FLOAT32, *ends)
    short, general = products(a, Range.uniform((40, 30), FLOAT32, -0.5, 0.25), monkeypatch, target)
    assert_close(short, general)
    assert short.norm is not None and general.norm is not None
    assert short.norm.bound == pytest.approx(general.norm.bound, rel=1e-5)


def test_rows_of_a_softmax_average(monkeypatch: pytest.MonkeyPatch) -> None:
    a = Range.uniform((3, 50, 50), FLOAT32, 0.0, 1.0)
    a.norm = Norm(2, 1.0001, 1.0001)
    short, general = products(a, Range.uniform((3, 50, 64), FLOAT32, -2.0, 7.0), monkeypatch, IEEE)
    assert_close(short, general)
    assert short.hull()[1] < 7.01


@pytest.mark.parametrize("shift", [0.0, 5.0, -5.0])
@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.5, 3.0), (-3.0, -0.1)])
def test_products_with_summaries_of_weights(ends: tuple[float, float], shift: float, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = (np.random.default_rng(0).normal(size=(160, 128)) + shift).astype(np.float32)
    short, general = products(Range.uniform((4, 160), FLOAT32, *ends), Range.constant(weights), monkeypatch, ONNXRUNTIME_CPU)
    assert_close(short, general)
    x = np.random.default_rng(1).uniform(*ends, (2000, 160)) @ weights.astype(np.float64)
    assert short.hull()[0] <= x.min() and x.max() <= short.hull()[1]


@pytest.mark.parametrize("format", [FLOAT32, FLOAT16, FLOAT64], ids=str)
def test_products_with_small_matrices(format: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for sign in (0.0, 2.0, -4.0):
        low = rng.normal(size=(1, 6)) + sign
        a = Range(format, (3, 6), (None, fine((6,))[0]), low, low + rng.uniform(size=(1, 6)))
        weights = rng.normal(size=(6, 5))
        weights[:, 0], weights[:, 1] = abs(weights[:, 0]), -abs(weights[:, 1])
        for operand in (a, a.smash()):
            short, general = products(operand, Range.constant(weights.astype(format.dtype)), monkeypatch, IEEE)
            assert np.allclose(short.low, general.low, rtol=1e-3) and np.allclose(short.high, general.high, rtol=1e-3)
            assert ((short.low >= 0.0) == (general.low >= 0.0)).all() and ((short.high <= 0.0) == (general.high <= 0.0)).all()


def test_one_interval_is_standardised_exactly() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 8):
        rows = rng.uniform(-1.0, 2.0, (20_000, n))
        rows[:n] = np.where(np.eye(n) > 0, 2.0, -1.0)
        rows[n : 2 * n] = np.where(np.arange(n) % 2, 2.0, -1.0)
        low, high, counts = np.array([[-1.0]]), np.array([[2.0]]), np.array([float(n)])
        for epsilon in (0.0, 1e-5, 0.3):
            with np.errstate(all="ignore"):
                result = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + epsilon)
            least, most = standardised(low, high, counts, epsilon)
            assert np.nanmax(result) == pytest.approx(most.item(), rel=1e-9) and most.item() >= np.nanmax(result) * (1 - 1e-12)
            assert least.item() == -most.item()
        smallest, largest = variance_bounds(low, high, counts)
        assert smallest.item() == 0.0 and rows.var(1).max() <= largest.item() <= 2.25 * (1 + 1e-9)


def test_a_point_has_no_width_to_standardise() -> None:
    point, counts = np.array([[3.0]]), np.array([7.0])
    assert standardised(point, point, counts, 0.0)[1].item() == 0.0
    assert standardised(np.array([[-np.inf]]), np.array([[np.inf]]), counts, 0.0)[1].item() == np.sqrt(6.0)


@pytest.mark.parametrize("merged", [(), (0,), (1,), (0, 1)])
def test_norms_of_few_cells(merged: tuple[int, ...]) -> None:
    for scale in (1.0, 1e-200, 1e200):
        low = np.random.default_rng(0).normal(size=(3, 5)) * scale
        x = Range.elements(FLOAT64, low, low + scale).smash(merged)
        for axis in (0, 1):
            assert norms.along(x, axis) == pytest.approx(float(norms.cell_norms(x, axis).max()), rel=1e-8)


# -- many nodes -------------------------------------------------------------------------------------------------------


def analysed(count: int) -> checking.Analysis:
    scaled = from_proto(graph(count))
    (assumptions, *_), _ = resolve(scaled, Declarations({"*": parse_domain("-1:1", "test")}))
    return checking.analyse(scaled, assumptions, ONNXRUNTIME_CPU)


def test_the_benchmark_s_graph_is_proven() -> None:
    analysis = analysed(600)
    assert analysis.costs is None
    assert len(analysis.proven_safe) == analysis.coverage.checkable == 500 and analysis.coverage.complete


def test_costs_are_collected_on_demand() -> None:
    with collecting() as costs:
        analysis = analysed(240)
    assert analysis.costs is costs
    assert [entry.nodes for entry in costs.passes] == [240]
    assert {label: cost.calls for label, cost in costs.operators.items()}["Mul"] == 40
    text = statistics_text(costs)
    assert "1 pass, " in text and "MatMul" in text and "summaries of weights, 64 cells" in text


def test_time_inside_of_control_flow_counts_once() -> None:
    body = "(bool c, float[2] x) => (float[2] y)"
    branches = "y = If<then_branch = t () => (float[2] a) { a = Exp(x) }, else_branch = e () => (float[2] b) { b = Abs(x) }>(c)"
    proto = from_proto(model(body, branches))
    (assumptions, *_), _ = resolve(proto, Declarations({"x": parse_domain("-1:1", "test")}))
    with collecting() as costs:
        checking.analyse(proto, assumptions, IEEE)
    assert {"If", "Exp", "Abs"} == set(costs.operators)
    assert sum(cost.seconds for cost in costs.operators.values()) <= costs.passes[0].seconds


def test_large_models_leave_out_costly_idioms() -> None:
    assert any(entry.costly for entry in all_idioms())
    proto = from_proto(model("(float[4] x) => (float[4] y)", "s = Sigmoid(x)\ny = Mul(x, s)"))
    told = {claim.idiom for claims in claims_of(proto).values() for claim in claims}
    cheap = {claim.idiom for claims in claims_of(proto, costly=False).values() for claim in claims}
    assert "function-of-one-tensor" in told - cheap


def test_roots_are_shared() -> None:
    few, many = frozenset({1}), frozenset({1, 2})
    assert united(few, many) is many is united(many, few)
    assert united(NO_ROOTS, few) is few is united(few, NO_ROOTS)
    assert united(few, frozenset({3})) == {1, 3}


def test_settings_of_the_program_come_back() -> None:
    before = gc.get_threshold()
    with patient_collector():
        assert gc.get_threshold()[0] > before[0]
        with patient_collector():
            pass
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before
    assert not is_silent()
    with silence():
        assert is_silent() and np.geterr()["over"] == "ignore"
    assert not is_silent() and np.geterr()["over"] == "warn"


def test_a_batch_normalisation_of_constants_has_the_bounds_of_the_general_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    entry = find_operator("", "BatchNormalization")
    assert entry is not None
    for format in (FLOAT32, FLOAT16):
        for trial in range(60):
            size = int(rng.integers(1, 6))
            parameters = [
                Range.constant((rng.normal(size=size) * 10.0 ** rng.integers(-3, 3)).astype(format.dtype)) for _ in range(3)
            ]
            variance = Range.constant(np.abs(rng.normal(size=size) * 10.0 ** rng.integers(-6, 3)).astype(format.dtype))
            low = rng.normal(size=(1, size if trial % 2 else 1, 1, 1)) * 10
            high = low + np.abs(rng.normal(size=low.shape)) * 10
            cuts = np.arange(size + 1, dtype=np.int64) if trial % 2 and size > 1 else None
            x = Range(format, (1, size, 4, 4), (None, cuts, None, None), low, high)
            assert normalisation._is_plain(Call(entry, {}), x, *parameters, variance)
            found = evaluate(Call(entry, {}), (x, *parameters, variance))
            with monkeypatch.context() as patch:
                patch.setattr(normalisation, "_is_plain", lambda *_: False)
                expected = evaluate(Call(entry, {}), (x, *parameters, variance))
            slack = 1e-6 * np.maximum(np.abs(expected.low), np.abs(expected.high))
            assert (np.abs(found.low - expected.low) <= slack).all()
            assert (np.abs(found.high - expected.high) <= slack).all()


def test_a_pool_whose_padding_would_be_negative_is_not_analysed() -> None:
    """Kernel 1, stride 3, size 6: ONNX Runtime's AveragePool reads elements 1 and 4, other pools 0 and 3."""
    proto = model(
        "(float[1,1,6] x) => (float[1,1,2] y)", 'y = AveragePool <auto_pad = "SAME_UPPER", kernel_shape = [1], strides = [3]> (x)'
    )
    report = static(proto, ranges={"x": (0, 1)})
    assert [entry.node for entry in report.coverage.not_analysed] == ["y"]
    assert "negative padding" in report.coverage.not_analysed[0].reason
