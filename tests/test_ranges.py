"""The abstract domain: grids, join, meet, widening, refinement, special values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorproof.errors import UnknownShape
from tensorproof.formats import FLOAT32, INT64
from tensorproof.ranges.elementwise import binary, increasing, piecewise
from tensorproof.ranges.grid import Span, broadcast_shapes, union
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Range, align
from tests.soundness.containment import violation
from tests.soundness.trials import random_range, sample

pytestmark = pytest.mark.area("ranges")

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
seeds = st.integers(0, 2**32 - 1)


def ranges_of(seed: int, shape: tuple[int, ...]) -> tuple[np.random.Generator, Range]:
    rng = np.random.default_rng(seed)
    return rng, random_range(rng, rng.standard_normal(shape).astype(np.float32), FLOAT32, "around")


@given(seeds, shapes)
def test_a_join_holds_both_and_a_meet_what_both_hold(seed: int, shape: tuple[int, ...]) -> None:
    rng, a = ranges_of(seed, shape)
    _, b = ranges_of(seed + 1, shape)
    joined, met = a.join(b), a.meet(b)
    point = sample(rng, a)
    assert violation(joined, point) is None
    assert joined.includes(a) and joined.includes(b)
    if violation(b, point) is None:
        assert violation(met, point) is None


@given(seeds, shapes)
def test_refining_changes_nothing_and_smashing_only_widens(seed: int, shape: tuple[int, ...]) -> None:
    _rng, a = ranges_of(seed, shape)
    fine = a.expand()
    np.testing.assert_array_equal(fine.low, a.expanded()[0])
    assert a.smash().includes(a)
    assert a.limit(2).includes(a) or a.size == 0
    for axis in range(len(shape)):
        refined = a.refine_fully(axis)
        np.testing.assert_array_equal(refined.expanded()[1], a.expanded()[1])


@given(seeds, shapes)
@settings(max_examples=50)
def test_widening_ends(seed: int, shape: tuple[int, ...]) -> None:
    _, state = ranges_of(seed, shape)
    steps = 0
    for _ in range(20):
        grown = state.replace(state.low - 1.0, state.high * 2.0 + 1.0, None).clamp(FLOAT32.low, FLOAT32.high)
        widened = state.widen(grown)
        assert widened.includes(grown)
        if state.includes(widened):
            break
        state = widened
        steps += 1
    assert steps < 10


def test_join_of_different_shapes_is_a_span() -> None:
    joined = Range.uniform((2, 3), FLOAT32, 0, 1).join(Range.uniform((4, 3), FLOAT32, 2, 3))
    assert joined.shape == (Span(2, 4), 3)
    assert joined.hull() == (0.0, 3.0)
    with pytest.raises(UnknownShape):
        _ = joined.sizes
    assert Range.uniform((2,), FLOAT32, 0, 1).join(Range.uniform((2, 3), FLOAT32, 2, 3)).shape is None


def test_constants_keep_their_array_and_specials() -> None:
    array = np.array([1.0, -np.inf, np.nan], np.float32)
    x = Range.constant(array)
    assert x.special.tolist() == [0, NEGATIVE_INFINITY, NAN]
    assert x.hull() == (1.0, 1.0)
    assert Range.constant(np.array([2**63 - 1, 1], np.int64)).hull()[1] >= 2**63 - 1
    exact = Range.constant(np.arange(6).reshape(2, 3))
    assert exact.format is INT64
    values = exact.integers()
    assert values is not None and values.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_special_values_travel() -> None:
    mask = Range.constant(np.array([0.0, -np.inf], np.float32))
    scores = Range.uniform((2,), FLOAT32, -1, 1)
    summed = binary(mask, scores, increasing(np.add), np.add)
    assert summed.special.tolist() == [0, NEGATIVE_INFINITY]
    image = piecewise(summed, np.exp, ())
    assert not image.has_special
    assert image.low.tolist() == [np.exp(-1.0), 0.0]
    opposite = binary(mask, Range.constant(np.array([0.0, np.inf], np.float32)), increasing(np.add), np.add)
    assert opposite.special.tolist() == [0, NAN]
    assert (Range.top((2,), FLOAT32).any_special & POSITIVE_INFINITY) != 0


def test_alignment_is_the_union_of_boundaries() -> None:
    a = Range.uniform((6,), FLOAT32, 0, 1).refine(0, np.array([0, 2, 6]))
    b = Range.uniform((2, 6), FLOAT32, 0, 1).refine(1, np.array([0, 3, 6]))
    aligned = align(a, b)
    cuts = aligned.grid[1]
    assert cuts is not None and cuts.tolist() == [0, 2, 3, 6]
    assert union(None, None) is None
    assert broadcast_shapes((Span(0, 3), 1), (2,)) == (Span(0, 3), 2)
    with pytest.raises(UnknownShape):
        broadcast_shapes((2,), (3,))
