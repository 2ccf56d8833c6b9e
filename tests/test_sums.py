"""Interval products and summation errors: against brute force, with signs kept and integers exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT64, Format
from tensorproof.operators.table import Call, evaluate, find_operator
from tensorproof.ranges import sums
from tensorproof.ranges.range import Range
from tensorproof.ranges.sums import dot_product, interval_product, summation_error
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU, TENSORFLOW_CPU, Target

pytestmark = pytest.mark.area("sums")


def call(name: str = "MatMul", target: Target = IEEE, **attributes: object) -> Call:
    entry = find_operator("", name)
    assert entry is not None
    return Call(entry, dict(attributes), version=21, target=target)


def boxes(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> tuple[np.ndarray, np.ndarray]:
    low = rng.integers(-4, 5, shape).astype(np.float64)
    high = low + rng.integers(0, 4, shape)
    if kind == "point":
        return low, low
    if kind == "positive":
        return np.abs(low), np.abs(low) + (high - low)
    if kind == "straddling":
        return -np.abs(low) - 1.0, np.abs(high) + 1.0
    return low, high


def brute_force(low_a, high_a, low_b, high_b):
    """The hull of a @ b over all corners, element by element of the result."""
    rows, terms, columns = low_a.shape[0], low_a.shape[1], low_b.shape[1]
    low, high = np.full((rows, columns), np.inf), np.full((rows, columns), -np.inf)
    for i, j in itertools.product(range(rows), range(columns)):
        ends = [(low_a[i, k], high_a[i, k]) for k in range(terms)] + [(low_b[k, j], high_b[k, j]) for k in range(terms)]
        for corner in itertools.product(*ends):
            value = float(np.dot(corner[:terms], corner[terms:]))
            low[i, j], high[i, j] = min(low[i, j], value), max(high[i, j], value)
    return low, high


KINDS = ("point", "positive", "straddling", "any")


@pytest.mark.parametrize("kinds", list(itertools.product(KINDS, KINDS)), ids="-".join)
def test_small_products_are_the_hull_of_all_corners(kinds):
    rng = np.random.default_rng(KINDS.index(kinds[0]) * 4 + KINDS.index(kinds[1]))
    for _ in range(5):
        a, b = boxes(rng, (2, 3), kinds[0]), boxes(rng, (3, 2), kinds[1])
        low, high, magnitude = interval_product(*a, *b)
        expected = brute_force(*a, *b)
        np.testing.assert_array_equal(low, expected[0])
        np.testing.assert_array_equal(high, expected[1])
        assert (magnitude >= np.maximum(np.abs(low), np.abs(high))).all()


@pytest.mark.parametrize("shapes", [((1, 1000), (1000, 1)), ((3, 7), (7, 2)), ((2, 1, 3, 7), (5, 7, 2)), ((3, 0), (0, 2))], ids=str)
def test_a_product_is_the_same_however_many_slices_are_summed_at_a_time(shapes, monkeypatch):
    rng = np.random.default_rng(9)
    a, b = boxes(rng, shapes[0], "straddling"), boxes(rng, shapes[1], "any")
    found = []
    for terms in (1, 24, 1 << 14):
        monkeypatch.setattr(sums, "_SLICE", terms)
        found.append(interval_product(*a, *b))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


@pytest.mark.parametrize("kinds", list(itertools.product(KINDS, KINDS)), ids="-".join)
def test_large_products_hold_the_hull_and_are_at_most_twice_as_wide(kinds, monkeypatch):
    rng = np.random.default_rng(7)
    a, b = boxes(rng, (2, 3), kinds[0]), boxes(rng, (3, 2), kinds[1])
    exact = interval_product(*a, *b)
    monkeypatch.setattr(sums, "_SLICED_TERMS", 0)
    monkeypatch.setattr(sums, "_CHUNK", 2)
    low, high, magnitude = interval_product(*a, *b)
    assert (low <= exact[0]).all() and (exact[1] <= high).all()
    assert (high - low <= 2.0 * (exact[1] - exact[0])).all()
    np.testing.assert_array_equal(magnitude, exact[2])
    if "point" in kinds or "positive" in kinds:
        np.testing.assert_array_equal((low, high), exact[:2])


def test_centre_and_radius_hold_intervals_whose_centre_rounds(monkeypatch):
    monkeypatch.setattr(sums, "_SLICED_TERMS", 0)
    rng = np.random.default_rng(3)
    low = rng.standard_normal((4, 50)) * 10.0 ** rng.integers(-300, 0, (4, 50))
    high = np.nextafter(low, np.inf, where=rng.random((4, 50)) < 0.5, out=low.copy())
    point = rng.standard_normal((50, 3)).astype(np.float32)
    result_low, result_high, magnitude = interval_product(low, high, point, point)
    error = summation_error(call(), magnitude, 50, FLOAT64)
    positive, negative = np.maximum(point.astype(float), 0.0), np.minimum(point.astype(float), 0.0)
    assert (result_low - error <= low @ positive + high @ negative).all()
    assert (high @ positive + low @ negative <= result_high + error).all()


@pytest.mark.parametrize("limit", [0, 1 << 22], ids=["large", "small"])
def test_signs_are_kept(limit, monkeypatch):
    monkeypatch.setattr(sums, "_SLICED_TERMS", limit)
    rng = np.random.default_rng(5)
    high = rng.random((3, 40))
    weights = rng.random((40, 4))
    zero = np.zeros_like(high)
    op = call()
    for factors, lower in (((zero, high), True), ((-high, zero), False)):
        for b in ((weights, weights), (np.zeros_like(weights), weights)):
            low, top = dot_product(op, *factors, *b, FLOAT16).rounded(op, 40, FLOAT16)
            assert (low >= 0.0).all() if lower else (top <= 0.0).all()


def test_integers_are_exact():
    rng = np.random.default_rng(6)
    a, b = rng.integers(-(2**20), 2**20, (3, 8)), rng.integers(-(2**20), 2**20, (8, 2))
    result = evaluate(call(), (Range.constant(a), Range.constant(b)))
    np.testing.assert_array_equal(result.integers(), a @ b)


def test_integers_that_float64_cannot_hold_are_enclosed():
    a = np.array([[2**31 + 1, 2**31 + 3]])
    b = np.array([[2**30 + 7], [2**30 + 9]])
    result = evaluate(call(), (Range.constant(a), Range.constant(b)))
    exact = int(a[0, 0]) * int(b[0, 0]) + int(a[0, 1]) * int(b[1, 0])
    assert result.format is INT64
    assert result.low.item() <= exact <= result.high.item()


@pytest.mark.parametrize("format", [FLOAT16, BFLOAT16, FLOAT32], ids=str)
def test_error_covers_sums_rounded_at_every_step(format: Format):
    rng = np.random.default_rng(8)
    op = call()
    for terms in (2, 7, 300, 5000):
        values = into(rng.standard_normal(terms), format)
        total = 0.0
        for value in values:
            total = float(format.round_nearest(np.array(total + value)))
        error = summation_error(op, np.abs(values).sum(keepdims=True), terms, format, products=False)
        assert abs(total - values.sum()) <= error[0]


def test_error_covers_sums_that_stop_growing():
    """A float16 sum of ones stops at 2048."""
    error = summation_error(call(), np.array([5000.0]), 5000, FLOAT16, products=False)
    assert 5000.0 - error[0] <= 2048.0


def test_wide_accumulation_is_tighter_and_flushing_is_looser():
    magnitude = np.array([1.0])
    narrow, wide = (summation_error(call(target=t), magnitude, 100, FLOAT16)[0] for t in (IEEE, ONNXRUNTIME_CPU))
    assert wide < narrow / 1000
    kept, flushed = (summation_error(call(target=t), np.array([1e-40]), 10, FLOAT32)[0] for t in (IEEE, TENSORFLOW_CPU))
    assert flushed >= 10 * FLOAT32.smallest_normal > kept


def test_one_term_is_exact_and_zeros_stay_zero():
    assert summation_error(call(), np.array([3.0]), 1, FLOAT16, products=False)[0] == 0.0
    assert summation_error(call(), np.array([0.0]), 1000, FLOAT16)[0] == 0.0


def test_partial_sums_that_overflow_are_reported_even_if_the_sum_comes_back():
    x = Range.constant(np.array([60000, 60000, -60000, -60000], np.float16))
    op = call("ReduceSum", keepdims=0)
    evaluate(op, (x,))
    assert [hazard.rule.code for hazard in op.hazards] == ["NUM203"]
    wide = call("ReduceSum", ONNXRUNTIME_CPU, keepdims=0)
    assert evaluate(wide, (x,)).contains(0.0).all()
    assert not wide.hazards


def test_squares_overflow_before_the_norm_does():
    op = call("ReduceL2", keepdims=0)
    result = evaluate(op, (Range.constant(np.full(2, 1e30, np.float32)),))
    assert [hazard.rule.code for hazard in op.hazards] == ["NUM203"]
    assert result.contains(np.sqrt(2.0) * float(np.float32(1e30))).all()


def test_a_cell_counts_with_its_elements_and_is_never_expanded():
    x = Range.uniform((1000, 1000, 1000), FLOAT64, 0.0, 1.0)
    total = evaluate(call("ReduceSum", keepdims=0), (x,))
    assert total.low.item() == 0.0 and 1e9 <= total.high.item() <= 1e9 * (1 + 1e-6)
    product = evaluate(call(), (x, x))
    assert product.cells == (1, 1, 1) and 1000.0 <= product.high.item() <= 1000.0 * (1 + 1e-9)


def test_products_of_factors_are_the_hull_of_all_corners():
    rng = np.random.default_rng(9)
    for _ in range(40):
        low, high = boxes(rng, (3,), "any")
        cuts = np.array([0, 2, 3, 5], np.int64)
        x = Range(FLOAT64, (5,), (cuts,), low, high)
        ends = [(low[c], high[c]) for c in (0, 0, 1, 2, 2)]
        corners = [np.cumprod(corner) for corner in itertools.product(*ends)]
        result = evaluate(call("ReduceProd", keepdims=0), (x,))
        running = evaluate(call("CumProd"), (x, Range.constant(np.array(0))))
        expected = np.min(corners, axis=0), np.max(corners, axis=0)
        np.testing.assert_allclose(running.expanded()[:2], expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose((result.low, result.high), [e[-1] for e in expected], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("target", [IEEE, TENSORFLOW_CPU], ids=lambda target: target.name)
def test_products_of_positive_factors_stay_away_from_zero(target: Target):
    x = Range.uniform((24,), FLOAT32, 0.5, 2.0)
    running = evaluate(call("CumProd", target), (x, Range.constant(np.array(0))))
    whole = evaluate(call("ReduceProd", target, keepdims=0), (x,))
    least = 0.5**24
    assert least * (1 - 1e-5) <= running.low.min() <= least and least * (1 - 1e-5) <= whole.low.item() <= least
    drawn = np.random.default_rng(3).choice(np.array([0.5, 0.7, 1.9, 2.0], np.float32), (200, 24))
    assert running.contains(np.cumprod(drawn, axis=1)).all() and whole.contains(drawn.prod(axis=1)).all()


def into(values: np.ndarray, format: Format) -> np.ndarray:
    return values.astype(format.dtype).astype(np.float64)
