"""Sizes with symbols: arithmetic and comparison agree with integers in place of the symbols."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorproof.shapes.shape import ANY_SHAPE, Shape, meet, same_shape
from tensorproof.shapes.sizes import (
    Polynomial,
    Size,
    bounds,
    divide_exactly,
    largest,
    less,
    quotient,
    remainder,
    same,
    smallest,
    substitute,
    symbol,
    symbols,
)

pytestmark = pytest.mark.area("shapes")

N, H, B = symbol("N"), symbol("H"), symbol("B", "batch", 1, 32)
SYMBOLS = [next(iter(symbols(size))) for size in (N, H, B)]


@st.composite
def sizes(draw: st.DrawFn, depth: int = 3) -> Size:
    """Expressions as programs write them: sums, products and quotients of symbols and small numbers."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([N, H, B])) if draw(st.booleans()) else draw(st.integers(1, 12))
    left, right = draw(sizes(depth - 1)), draw(sizes(depth - 1))
    kind = draw(st.sampled_from(["+", "-", "*", "//", "%", "min", "max"]))
    if kind in ("//", "%"):
        divisor = draw(st.integers(1, 6))
        return quotient(left, divisor) if kind == "//" else remainder(left, divisor)
    if kind in ("min", "max"):
        return smallest([left, right]) if kind == "min" else largest([left, right])
    return left + right if kind == "+" else left - right if kind == "-" else left * right


assignments = st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 32))


def at(size: Size, values: tuple[int, int, int]) -> int:
    found = substitute(size, dict(zip(SYMBOLS, values, strict=True)))
    assert isinstance(found, int)
    return found


@given(sizes(), sizes(), assignments)
@settings(max_examples=300, deadline=None)
def test_arithmetic_is_that_of_integers(left: Size, right: Size, values: tuple[int, int, int]) -> None:
    a, b = at(left, values), at(right, values)
    assert at(left + right, values) == a + b
    assert at(left - right, values) == a - b
    assert at(left * right, values) == a * b
    assert at(quotient(left, 3), values) == a // 3
    assert at(remainder(left, 3), values) == a % 3
    assert at(smallest([left, right]), values) == min(a, b)
    assert at(largest([left, right]), values) == max(a, b)


@given(sizes(), sizes(), assignments)
@settings(max_examples=500, deadline=None)
def test_what_is_claimed_of_all_values_holds_for_each(left: Size, right: Size, values: tuple[int, int, int]) -> None:
    a, b = at(left, values), at(right, values)
    assert same(left, right) in (None, a == b)
    assert less(left, right) in (None, a < b)
    low, high = bounds(left)
    assert low <= a <= high


@given(sizes(), st.one_of(st.integers(1, 8), st.just(N), st.just(N * 4)), assignments)
@settings(max_examples=300, deadline=None)
def test_exact_quotients_multiply_back(left: Size, right: Size, values: tuple[int, int, int]) -> None:
    found = divide_exactly(left * right, right)
    if isinstance(found, Polynomial):
        assert at(found, values) == at(left, values)
    elif found is not None:
        assert found == at(left, values)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (4 * N, N, False),
        (N, H, None),
        (2 * N, 7, False),
        (N + 1, N, False),
        (N * 16 * 49 // 784, N, True),
        (B, 32, None),
        (B, 33, False),
    ],
)
def test_comparison_has_three_answers(left: Size, right: Size, expected: bool | None) -> None:
    assert same(left, right) is expected


def test_convolution_arithmetic_stays_readable() -> None:
    assert str((H + 2 - 3) // 2 + 1) == "(H+1)//2".join(("(", ")"))
    assert str(16 * N - 4) == "16*N-4"


def test_partial_shapes_meet_and_contradict() -> None:
    open_end = Shape((), (120,))
    assert same_shape(open_end, Shape((8, 84))) is False
    assert same_shape(open_end, Shape((8, 120))) is None
    assert meet(open_end, Shape((N, 120))) == Shape((N, 120))
    assert meet(Shape((3, 4)), Shape((3, 5))) is None
    assert meet(ANY_SHAPE, Shape((2, 3))) == Shape((2, 3))
    assert same_shape(Shape((N, 3)), Shape((N, 3))) is True
