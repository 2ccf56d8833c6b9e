"""Affine forms hold for what is computed: random graphs in several formats and targets, and the parts that forms are made of."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tensorproof.formats import FLOAT16, FLOAT32, FLOAT64, Format, of_dtype
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.operators.table import all_operators
from tensorproof.ranges.abstraction import Abstraction, Values
from tensorproof.ranges.affine import Form, Key
from tensorproof.ranges.fields import ZERO, added, condensed, multiplied, reciprocal
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.ranges.relations import form_of
from tensorproof.ranges.views import Reshaped, Sliced, Taken, Transposed, followed, positions
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU, TENSORFLOW_CPU, Target
from tests.affine_graphs import RandomGraph
from tests.soundness.containment import violation
from tests.test_affine import analysed

pytestmark = pytest.mark.area("affine")


def bounds_of_values(graph: RandomGraph, target: Target, values: Values = "affine") -> dict[str, Flow]:
    """The flow of every value of a random graph."""
    read = from_proto(graph.proto())
    inputs: dict[int, Any] = {}
    for number in read.graph.inputs:
        low, high = (end.astype(np.float64) for end in graph.inputs[read.name_of(number)])
        fine = Range.elements(of_dtype(np.dtype(graph.dtype)), low, high)
        # One cell per element, one for all, or one per row.
        inputs[number] = (fine, fine.smash(), fine.smash((low.ndim - 1,)))[zlib.crc32(low.tobytes()) % 3]
    abstraction = Abstraction(values=values, idioms=False, norms=False)
    ranged = propagate(read, inputs, target, keep_ranges=True, strict=True, abstraction=abstraction)
    return {read.name_of(number): flow for number, flow in ranged.ranges.items()}


def first_violation(flows: Mapping[str, Flow], computed: Mapping[str, np.ndarray[Any, Any]], format: Format) -> str | None:
    for name, flow in flows.items():
        if name in computed and isinstance(flow.actual, Range):
            value = flow.actual if computed[name].dtype.kind != "f" else flow.actual.with_format(format)
            why = violation(value, computed[name])
            if why is not None:
                return f"{name}: {why}"
    return None


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64], ids=lambda d: d.__name__)
def test_random_graphs_stay_inside(dtype: Any) -> None:
    tighter = 0
    for seed in range(120):
        graph = RandomGraph.of(seed, dtype, 10)
        flows = bounds_of_values(graph, IEEE)
        rng = np.random.default_rng(seed)
        for _ in range(10):
            computed = graph.values(graph.point(rng))
            assert first_violation(flows, computed, of_dtype(np.dtype(dtype))) is None, f"seed {seed}"
        if seed % 10 == 0:
            plain = bounds_of_values(graph, IEEE, "interval")
            tighter += sum(flow.clean.hull() != plain[name].clean.hull() for name, flow in flows.items())  # type: ignore[union-attr]
    # The graphs are such that relations matter: else this test would test nothing.
    assert tighter >= 4


def flushed(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Subnormal numbers as zero."""
    return np.where(np.abs(x) < np.finfo(x.dtype).smallest_normal, x.dtype.type(0), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda d: d.__name__)
def test_random_graphs_stay_inside_where_subnormals_are_flushed(dtype: Any) -> None:
    for seed in range(1000, 1060):
        graph = RandomGraph.of(seed, dtype, 10)
        flows = bounds_of_values(graph, TENSORFLOW_CPU)
        rng = np.random.default_rng(seed)

        def sometimes(x: np.ndarray[Any, Any], rng: np.random.Generator = rng) -> np.ndarray[Any, Any]:
            return flushed(x) if rng.random() < 0.5 else x

        for read in (flushed, sometimes) * 4:
            computed = graph.values(graph.point(rng), read, flushed)
            written = {name: computed[name] for name in graph.written}
            assert first_violation(flows, written, of_dtype(np.dtype(dtype))) is None, f"seed {seed}"


def test_random_graphs_stay_inside_where_chains_are_kept_in_float32() -> None:
    for seed in range(2000, 2080):
        graph = RandomGraph.of(seed, np.float16, 10)
        flows = bounds_of_values(graph, ONNXRUNTIME_CPU)
        rng = np.random.default_rng(seed)

        def read(x: np.ndarray[Any, Any], rng: np.random.Generator = rng) -> np.ndarray[Any, Any]:
            return (x.astype(np.float16) if rng.random() < 0.5 else x).astype(np.float32)

        for _ in range(8):
            computed = graph.values(graph.point(rng), read, lambda x: x.astype(np.float32))
            assert first_violation(flows, {n: computed[n] for n in graph.written}, FLOAT32) is None, f"seed {seed}"


@pytest.mark.parametrize("dtype", [np.float16, np.float32], ids=lambda d: d.__name__)
def test_sums_that_cancel_keep_the_error_of_their_summation(dtype: Any) -> None:
    name = "float16" if dtype is np.float16 else "float"
    body = """
        axes = Constant<value_ints=[0]>()
        z = Add(x, w)
        a = ReduceSum<keepdims=0>(z, axes)
        b = ReduceSum<keepdims=0>(x, axes)
        c = ReduceSum<keepdims=0>(w, axes)
        ab = Sub(a, b)
        d = Sub(ab, c)
        m = ReduceMean<keepdims=0>(z)
        n = ReduceMean<keepdims=0>(x)
        e = Sub(m, n)
    """
    ranges, _ = analysed(f"({name}[50] x, {name}[50] w) => ({name} d)", body, {"x": (0.0, 8.0), "w": (0.0, 1.0)})
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(200):
        x, w = rng.uniform(0, 8, 50).astype(dtype), rng.uniform(0, 1, 50).astype(dtype)
        a, b, c = (np.add.accumulate(v)[-1] for v in (x + w, x, w))
        d, e = (a - b) - c, a / dtype(50) - b / dtype(50)
        assert violation(ranges["d"], d) is None and violation(ranges["e"], e) is None
        largest = max(largest, abs(float(d)))
    # Rounding is there, and the bound is far below what the intervals of three independent sums would give.
    low, high = ranges["d"].hull()
    assert 0.0 < largest <= high and (high - low < 20.0 or dtype is np.float16)
    assert (
        analysed(f"({name}[50] x, {name}[50] w) => ({name} d)", body, {"x": (0.0, 8.0), "w": (0.0, 1.0)}, "interval")[0][
            "d"
        ].hull()[1]
        > 300.0
    )


def test_terms_that_maxima_say_nothing_about_may_stand_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds with them added once are those with them in every way to write the form, up to the rounding of sums in float64."""
    parted = Form._parted
    aside = 0

    def counted(form: Form, maxima: Sequence[Key]) -> tuple[Form, Form]:
        nonlocal aside
        related, others = parted(form, maxima)
        aside += len(others.terms)
        return related, others

    for seed in range(3000, 3025):
        graph = RandomGraph.of(seed, np.float64, 14)
        monkeypatch.setattr(Form, "_parted", counted)
        found = bounds_of_values(graph, IEEE)
        monkeypatch.setattr(Form, "_parted", lambda form, maxima: (form, Form(form.shape, ZERO, {})))
        for name, flow in bounds_of_values(graph, IEEE).items():
            assert isinstance(flow.clean, Range)
            low, high = flow.clean.hull()
            np.testing.assert_allclose(
                found[name].clean.hull(), (low, high), 0.0, 1e-12 * max(-low, high), err_msg=f"{seed} {name}"
            )  # type: ignore[union-attr]
    assert aside >= 20


# -- parts -------------------------------------------------------------------------------------------------------------


def test_fields_round_outward_and_only_where_they_must() -> None:
    assert added((1.0, 1.0), (2.0, 2.0)) == (3.0, 3.0)
    low, high = added((1.0, 1.0), (1e-20, 1e-20))  # type: ignore[misc]
    assert low == 1.0 < high
    assert multiplied((3.0, 3.0), (0.5, 7.0)) == (1.5, 21.0)
    low, high = multiplied((0.1, 0.1), (0.1, 0.1))  # type: ignore[misc]
    assert low < 0.1 * 0.1 < high
    assert reciprocal((4.0, 4.0)) == (0.25, 0.25)
    low, high = reciprocal((3.0, 3.0))  # type: ignore[misc]
    assert low < high and low <= 1 / 3 <= high
    assert reciprocal((-1.0, 1.0)) is None
    assert multiplied((0.0, 0.0), (-np.inf, np.inf)) == (0.0, 0.0)


def test_equal_neighbours_are_one_cell() -> None:
    low = np.repeat(np.array([[3.0, 5.0, 5.0], [3.0, 5.0, 4.0]]), (2, 1), axis=0)
    x = Range.elements(FLOAT32, low, low + np.array([[0.0, 1.0, 1.0]]))
    found = condensed(x)
    assert found.cells == (2, 3)
    assert condensed(Range.elements(FLOAT32, low[:2], low[:2] + 1.0)).cells == (1, 2)
    assert condensed(Range.constant(np.full((4, 5), 7.0))).cells == (1, 1)
    for one, other in zip(found.expanded()[:2], x.expanded()[:2]):
        np.testing.assert_array_equal(one, other)


def test_views_that_undo_each_other_cancel() -> None:
    shape = (2, 3, 4)
    turned = followed(shape, (), Transposed((4, 2, 3), (2, 0, 1)))
    assert followed(shape, turned, Transposed(shape, (1, 2, 0))) == ()
    flat = followed(shape, (), Reshaped((24,)))
    assert followed(shape, flat, Reshaped(shape)) == ()
    assert followed(shape, flat, Reshaped((6, 4))) == (Reshaped((6, 4)),)
    cut = Sliced((2, 2, 4), 1, 1, 1)
    assert followed(shape, (cut,), Sliced((2, 1, 4), 1, 1, 1)) == (Sliced((2, 1, 4), 1, 2, 1),)
    assert followed(shape, (), Sliced(shape, 1, 0, 1)) == ()


def test_slices_of_views_are_the_same_elements() -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    x = Range.constant(array)
    views = [
        ((Transposed((4, 2, 3), (2, 0, 1)), Sliced((2, 2, 3), 0, 3, -2)), array.transpose(2, 0, 1)[3::-2]),
        ((Sliced((2, 3, 2), 2, 1, 2), Sliced((2, 1, 2), 1, 2, 1)), array[:, 2:3, 1::2]),
        ((Taken((2, 2, 4), 1, (2, 0)), Transposed((4, 2, 2), (2, 1, 0))), array[:, [2, 0]].transpose(2, 1, 0)),
    ]
    for steps, expected in views:
        view = ()
        for step in steps:
            view = followed(array.shape, view, step)
        result = x
        for step in view:
            result = step(result)
        assert result.array is not None and (result.array == expected).all()


def test_evenly_spaced_positions_are_slices() -> None:
    assert positions((6,), 0, [1, 3, 5]) == Sliced((3,), 0, 1, 2)
    assert positions((6,), 0, [4]) == Sliced((1,), 0, 4, 1)
    assert positions((6,), 0, [1, 1]) == Taken((2,), 0, (1, 1))
    assert positions((6,), 0, [0, 2, 1]) == Taken((3,), 0, (0, 2, 1))


def test_integers_and_special_values_have_no_form() -> None:
    assert form_of(Range.uniform((2,), FLOAT64, 0.0, 1.0)) is not None
    assert form_of(Range.uniform((2,), FLOAT16, 0.0, 1.0, special=1)) is None
    assert form_of(Range.uniform((2,), of_dtype(np.dtype(np.int32)), 0.0, 1.0)) is None
    assert form_of(Range.uniform((0,), FLOAT32, 0.0, 1.0)) is None


def test_operators_with_a_rule_are_in_the_table() -> None:
    names = {entry.name for entry in all_operators() if entry.form_rule is not None}
    assert {"Add", "Sub", "Sum", "Mul", "Relu", "Abs", "Max", "Min", "Clip", "Concat", "Slice", "MatMul", "Where"} <= names


def test_bounds_do_not_depend_on_where_things_lie_in_memory() -> None:
    """Maxima of two tensors are ordered by when their forms were made: the same graph has the same bounds however full the heap is."""
    found: set[str] = set()
    for ballast in range(6):
        kept = [Form((), ZERO, {}) for _ in range(1000 * ballast + 7)]
        # Holes of the size of a form, in which the next ones come to lie in another order.
        del kept[:: ballast + 2]
        bounds = bounds_of_values(RandomGraph.of(3006, np.float64, 14), IEEE)
        found.add(repr([(name, flow.clean.hull()) for name, flow in bounds.items() if isinstance(flow.clean, Range)]))
    assert len(found) == 1
