"""Affine forms: what they prove that intervals cannot, what they must not prove, and that every computed value is inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tensorproof.formats import FLOAT16, FLOAT32, FLOAT64, Format, of_dtype
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.operators.table import all_operators
from tensorproof.ranges.abstraction import Abstraction, Values
from tensorproof.ranges.fields import added, multiplied, reciprocal
from tensorproof.ranges.propagate import Flow, propagate
from tensorproof.ranges.range import Range
from tensorproof.ranges.relations import form_of
from tensorproof.ranges.views import Reshaped, Sliced, Taken, Transposed, followed, positions
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU, TENSORFLOW_CPU, Target
from tests.affine_graphs import RandomGraph
from tests.models import found, model, static
from tests.soundness.containment import violation

pytestmark = pytest.mark.area("affine")

Ends = tuple[float, float]


def analysed(
    signature: str, body: str, ranges: Mapping[str, Ends], values: Values = "affine", target: Target = IEEE
) -> tuple[dict[str, Range], set[str]]:
    """The ranges of all values by name, and the operators that can fail, without what idioms prove."""
    graph = from_proto(model(signature, body))
    inputs: dict[int, Any] = {}
    for number in graph.graph.inputs:
        value = graph.values[number]
        assert value.shape is not None and value.format is not None
        shape = tuple(size for size in value.shape if isinstance(size, int))
        inputs[number] = Range.uniform(shape, value.format, *ranges[graph.name_of(number)])
    abstraction = Abstraction(values=values, idioms=False, norms=False)
    ranged = propagate(graph, inputs, target, keep_ranges=True, strict=True, abstraction=abstraction)
    found: dict[str, Range] = {}
    for number, flow in ranged.ranges.items():
        if isinstance(flow.clean, Range):
            found[graph.name_of(number)] = flow.clean
    return found, {record.node.op for record in ranged.records.values() if record.hazards}


# -- what is proven ----------------------------------------------------------------------------------------------------

#: Name, signature, statements, ranges of the inputs: safe, and flagged by intervals alone.
SAFE: dict[str, tuple[str, str, dict[str, Ends]]] = {
    "exp of h - relu(h)": (
        "(float[4] h) => (float[4] y)",
        "r = Relu(h)\nd = Sub(h, r)\ny = Exp(d)",
        {"h": (-1000.0, 1000.0)},
    ),
    "root of relu(h) - h": (
        "(float[4] h) => (float[4] y)",
        "r = Relu(h)\nd = Sub(r, h)\ny = Sqrt(d)",
        {"h": (-10.0, 10.0)},
    ),
    "root of |h| - h": (
        "(float[4] h) => (float[4] y)",
        "a = Abs(h)\nd = Sub(a, h)\ny = Sqrt(d)",
        {"h": (-10.0, 10.0)},
    ),
    "root of |h| + h": (
        "(float[4] h) => (float[4] y)",
        "a = Abs(h)\nd = Add(a, h)\ny = Sqrt(d)",
        {"h": (-10.0, 10.0)},
    ),
    "root of max(a, b) - a": (
        "(float[4] a, float[4] b) => (float[4] y)",
        "m = Max(a, b)\nd = Sub(m, a)\ny = Sqrt(d)",
        {"a": (-10.0, 10.0), "b": (-5.0, 20.0)},
    ),
    "root of b - min(a, b)": (
        "(float[4] a, float[4] b) => (float[4] y)",
        "m = Min(a, b)\nd = Sub(b, m)\ny = Sqrt(d)",
        {"a": (-10.0, 10.0), "b": (-5.0, 20.0)},
    ),
    "root of max(a, b) - min(a, b)": (
        "(float[4] a, float[4] b) => (float[4] y)",
        "m = Max(a, b)\nn = Min(b, a)\nd = Sub(m, n)\ny = Sqrt(d)",
        {"a": (-10.0, 10.0), "b": (-5.0, 20.0)},
    ),
    "logarithm of a clipped excess": (
        "(float[4] h) => (float[4] y)",
        """
        low = Constant<value_float=0.0>()
        high = Constant<value_float=6.0>()
        one = Constant<value_float=1.0>()
        c = Clip(h, low, high)
        d = Sub(h, c)
        a = Neg(d)
        r = Relu(a)
        s = Add(d, r)
        t = Add(s, one)
        y = Log(t)
        """,
        {"h": (-100.0, 100.0)},
    ),
    "hinge loss plus margin": (
        "(float[4] h) => (float[4] y)",
        """
        one = Constant<value_float=1.0>()
        m = Sub(one, h)
        r = Relu(m)
        s = Add(r, h)
        y = Log(s)
        """,
        {"h": (-100.0, 100.0)},
    ),
    "width of a rectangle": (
        "(float[4] left, float[4] w) => (float[4] y)",
        "right = Add(left, w)\nwidth = Sub(right, left)\ny = Log(width)\nz = Reciprocal(width)",
        {"left": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "width of rectangles in one tensor": (
        "(float[8,2] corner, float[8,2] extent) => (float[8,1] y)",
        """
        other = Add(corner, extent)
        boxes = Concat<axis=1>(corner, other)
        x1, y1, x2, y2 = Split<axis=1, num_outputs=4>(boxes)
        w = Sub(x2, x1)
        h = Sub(y2, y1)
        area = Mul(w, h)
        y = Log(area)
        """,
        {"corner": (-100.0, 100.0), "extent": (1.0, 2.0)},
    ),
    "stacked and taken apart": (
        "(float[8] a, float[8] w) => (float[8] y)",
        """
        b = Add(a, w)
        axis = Constant<value_ints=[0]>()
        ua = Unsqueeze(a, axis)
        ub = Unsqueeze(b, axis)
        s = Concat<axis=0>(ua, ub)
        zero = Constant<value_int=0>()
        one = Constant<value_int=1>()
        first = Gather<axis=0>(s, zero)
        second = Gather<axis=0>(s, one)
        d = Sub(second, first)
        y = Log(d)
        """,
        {"a": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "difference by a matrix": (
        "(float[8,1] a, float[8,1] w) => (float[8,1] y)",
        """
        b = Add(a, w)
        s = Concat<axis=1>(a, b)
        m = Constant<value = float[2,1] {-1.0, 1.0}>()
        d = MatMul(s, m)
        y = Log(d)
        """,
        {"a": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "same movement of both": (
        "(float[2,3,4] x, float[2,3,4] w) => (float y)",
        """
        shape = Constant<value_ints=[4,6]>()
        z = Add(x, w)
        tx = Transpose<perm=[2,0,1]>(x)
        tz = Transpose<perm=[2,0,1]>(z)
        rx = Reshape(tx, shape)
        rz = Reshape(tz, shape)
        d = Sub(rz, rx)
        y = Log(d)
        """,
        {"x": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "broadcast operand": (
        "(float[3,1] x, float[3,4] w) => (float[3,4] y)",
        """
        shape = Constant<value_ints=[3,4]>()
        z = Add(x, w)
        e = Expand(x, shape)
        d = Sub(z, e)
        y = Log(d)
        """,
        {"x": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "multiples that cancel": (
        "(float[4] x, float[4] w) => (float[4] y)",
        """
        two = Constant<value_float=2.0>()
        half = Constant<value_float=0.5>()
        a = Mul(x, two)
        b = Add(a, w)
        c = Mul(b, half)
        d = Sub(c, x)
        y = Log(d)
        """,
        {"x": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "sum of parts less one part": (
        "(float[3,8] x, float[3,8] w) => (float[3] y)",
        """
        axis = Constant<value_ints=[1]>()
        z = Add(x, w)
        sz = ReduceSum(z, axis)
        sx = ReduceSum(x, axis)
        d = Sub(sz, sx)
        y = Log(d)
        """,
        {"x": (-10.0, 10.0), "w": (1.0, 2.0)},
    ),
    "mean of a sum": (
        "(float[4] x, float[4] w) => (float[4] y)",
        "m = Mean(x, x, w, w)\ns = Add(m, m)\nd = Sub(s, x)\ny = Log(d)",
        {"x": (-10.0, 10.0), "w": (1.0, 2.0)},
    ),
    "chosen by a mask": (
        "(float[2] x, float[2] w) => (float[2] y)",
        """
        mask = Constant<value = bool[2] {1, 0}>()
        a = Add(x, w)
        b = Sub(x, w)
        p = Where(mask, a, b)
        q = Where(mask, x, b)
        d = Sub(p, q)
        s = Add(d, w)
        y = Log(s)
        """,
        {"x": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "leaky rectifier": (
        "(float[4] x) => (float[4] y)",
        "one = Constant<value_float=1.0>()\nr = LeakyRelu<alpha=0.2>(x)\nd = Sub(r, x)\ns = Add(d, one)\ny = Log(s)",
        {"x": (-10.0, 10.0)},
    ),
    "wider format": (
        "(float16[4] x, float16[4] w) => (float[4] y)",
        "a = Cast<to=1>(x)\nb = Cast<to=1>(w)\nc = Add(a, b)\nz = Cast<to=1>(x)\nd = Sub(c, z)\ny = Log(d)",
        {"x": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
}


@pytest.mark.parametrize("name", SAFE)
def test_forms_prove_what_intervals_cannot(name: str) -> None:
    signature, body, ranges = SAFE[name]
    assert analysed(signature, body, ranges)[1] == set()
    assert analysed(signature, body, ranges, "interval")[1] != set()


#: The same with one thing changed: a real defect, or a relation that does not hold.
UNSAFE: dict[str, tuple[str, str, dict[str, Ends]]] = {
    "width that may be zero": (*SAFE["width of a rectangle"][:2], {"left": (-100.0, 100.0), "w": (0.0, 2.0)}),
    "width that rounding swallows": (*SAFE["width of a rectangle"][:2], {"left": (-1e8, 1e8), "w": (1.0, 2.0)}),
    "exp of relu(h) - h": (
        "(float[4] h) => (float[4] y)",
        "r = Relu(h)\nd = Sub(r, h)\ny = Exp(d)",
        {"h": (-1000.0, 1000.0)},
    ),
    "root of h - max(h, b)": (
        "(float[4] h, float[4] b) => (float[4] y)",
        "m = Max(h, b)\nd = Sub(h, m)\ny = Sqrt(d)",
        {"h": (-10.0, 10.0), "b": (-5.0, 20.0)},
    ),
    "another tensor of the same range": (
        "(float[4] h, float[4] g) => (float[4] y)",
        "r = Relu(h)\nd = Sub(r, g)\ny = Sqrt(d)",
        {"h": (-10.0, 10.0), "g": (-10.0, 10.0)},
    ),
    "another order of the elements": (
        "(float[4] x, float[4] w) => (float[4] y)",
        """
        index = Constant<value_ints=[1,0,3,2]>()
        z = Add(x, w)
        g = Gather<axis=0>(x, index)
        d = Sub(z, g)
        y = Log(d)
        """,
        {"x": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "reversed": (
        "(float[4] x, float[4] w) => (float[4] y)",
        """
        start = Constant<value_ints=[-1]>()
        end = Constant<value_ints=[-5]>()
        axis = Constant<value_ints=[0]>()
        z = Add(x, w)
        g = Slice(x, start, end, axis, start)
        d = Sub(z, g)
        y = Log(d)
        """,
        {"x": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "reversed sequences": (
        "(float[4,2] x, float[4,2] w) => (float[4,2] y)",
        """
        lengths = Constant<value_ints=[4,4]>()
        z = Add(x, w)
        g = ReverseSequence<batch_axis=1, time_axis=0>(x, lengths)
        d = Sub(z, g)
        y = Log(d)
        """,
        {"x": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "transposed square": (
        "(float[4,4] x, float[4,4] w) => (float[4,4] y)",
        "z = Add(x, w)\nt = Transpose(x)\nd = Sub(z, t)\ny = Log(d)",
        {"x": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "reshape of a transposed tensor": (
        "(float[2,3] x, float[2,3] w) => (float[2,3] y)",
        """
        shape = Constant<value_ints=[2,3]>()
        z = Add(x, w)
        t = Transpose(x)
        r = Reshape(t, shape)
        d = Sub(z, r)
        y = Log(d)
        """,
        {"x": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "neighbouring slices": (
        "(float[4] x, float[2] w) => (float[2] y)",
        "a, b = Split<axis=0, num_outputs=2>(x)\nz = Add(a, w)\nd = Sub(z, b)\ny = Log(d)",
        {"x": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "two draws of one distribution": (
        "(float[4] w) => (float[4] y)",
        "a = RandomUniform<shape=[4]>()\nb = RandomUniform<shape=[4]>()\nz = Add(a, w)\nd = Sub(z, b)\ny = Log(d)",
        {"w": (0.5, 1.0)},
    ),
    "elements of a sequence": (
        "(float[4] x, float[4] w) => (float[2] y)",
        """
        s = SplitToSequence<axis=0>(x)
        zero = Constant<value_int=0>()
        one = Constant<value_int=1>()
        a = SequenceAt(s, zero)
        b = SequenceAt(s, one)
        z = Add(a, w)
        d = Sub(z, b)
        y = Log(d)
        """,
        {"x": (-100.0, 100.0), "w": (1.0, 2.0)},
    ),
    "narrower format": (
        "(float[4] x, float[4] w) => (float[4] y)",
        "z = Add(x, w)\nh = Cast<to=10>(z)\nf = Cast<to=1>(h)\nd = Sub(f, x)\ny = Log(d)",
        {"x": (-4000.0, 4000.0), "w": (1.0, 2.0)},
    ),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_near_misses_stay_flagged(name: str) -> None:
    signature, body, ranges = UNSAFE[name]
    assert analysed(signature, body, ranges)[1] != set()


@pytest.mark.parametrize("reach, flagged", [(1e6, False), (1e8, True)])
def test_an_addition_is_undone_up_to_its_rounding(reach: float, flagged: bool) -> None:
    body = "one = Constant<value_float=1.0>()\na = Add(h, one)\nd = Sub(a, h)\ny = Reciprocal(d)"
    ranges, failing = analysed("(float[4] h) => (float[4] y)", body, {"h": (-reach, reach)})
    assert failing == ({"Reciprocal"} if flagged else set())
    low, high = ranges["d"].hull()
    h = np.linspace(-reach, reach, 100_001, dtype=np.float32)
    d = (h + np.float32(1)) - h
    assert low <= d.min() and d.max() <= high
    if not flagged:
        # At 2^20 neighbours are 1/8 apart: the rounding of h + 1 is at most 1/16, and the bound may be twice that.
        assert low > 0.87 and high < 1.13


def test_a_tensor_less_itself_is_zero_after_any_number_of_roundings() -> None:
    body = "a = Add(x, w)\nb = Add(a, w)\nc = Add(b, x)\ni = Identity(c)\nd = Sub(c, i)"
    ranges, _ = analysed("(float[4] x, float[4] w) => (float[4] d)", body, {"x": (-1e30, 1e30), "w": (-1.0, 1.0)})
    assert ranges["d"].hull() == (0.0, 0.0)


# -- control flow and shared ranges ------------------------------------------------------------------------------------


def test_two_inputs_with_one_range_are_two_tensors() -> None:
    graph = from_proto(model("(float[4] a, float[4] b) => (float[4] y)", "d = Sub(a, b)\ny = Sqrt(d)"))
    same = Range.uniform((4,), FLOAT32, -1.0, 1.0)
    inputs = dict.fromkeys(graph.graph.inputs, same)
    ranged = propagate(graph, inputs, IEEE, abstraction=Abstraction(values="affine"), strict=True)
    assert [record.node.op for record in ranged.records.values() if record.hazards] == ["Sqrt"]


def test_two_constants_with_one_range_are_two_tensors() -> None:
    body = "a = Constant<value = float[2] {1.0, 2.0}>()\nb = Constant<value = float[2] {2.0, 1.0}>()\nd = Sub(a, b)\ny = Add(x, d)"
    graph = from_proto(model("(float[2] x) => (float[2] y)", body))
    same = Flow.of(Range.uniform((2,), FLOAT32, 1.0, 2.0))
    inputs = {number: Range.uniform((2,), FLOAT32, 0.0, 0.0) for number in graph.graph.inputs}
    ranged = propagate(graph, inputs, IEEE, constants=lambda _: same, abstraction=Abstraction(values="affine"), strict=True)
    result = ranged.outputs[graph.graph.outputs[0]].clean
    assert isinstance(result, Range) and result.hull() == (-1.0, 1.0)


LOOP = """
    n = Constant<value_int={trips}>()
    t = Constant<value = bool {{1}}>()
    last, change = Loop(n, t, x) <body = step (int64 i, bool c, float[2] s) => (bool k, float[2] out, float[2] diff) {{
        k = Identity(c)
        out = {body}
        diff = Sub(out, s)
    }}>
    y = Sqrt(change)
    d = Sub(last, x)
    z = Sqrt(d)
"""


@pytest.mark.parametrize("trips", [3, 5000])
def test_states_of_different_iterations_are_different_tensors(trips: int) -> None:
    for body, grows in (("Relu(s)", True), ("Neg(s)", False)):
        _, failing = analysed("(float[2] x) => (float[2] z)", LOOP.format(trips=trips, body=body), {"x": (-1.0, 1.0)})
        # Within one iteration relu(s) - s >= 0 is known; between the first state and the last nothing is.
        assert failing == {"Sqrt"}
        ranges, _ = analysed("(float[2] x) => (float[2] z)", LOOP.format(trips=trips, body=body), {"x": (-1.0, 1.0)})
        assert (ranges["change"].hull()[0] >= 0.0) == grows
        assert ranges["d"].hull()[0] < 0.0


def test_branches_keep_relations_inside_and_lose_them_at_the_join() -> None:
    body = """
        y = If(c) <then_branch = a () => (float[2] left) { r = Relu(x)
                                                           left = Sub(r, x) },
                   else_branch = b () => (float[2] right) { right = Abs(x) }>
        z = Sqrt(y)
        d = Sub(y, x)
        e = Sqrt(d)
    """
    graph = from_proto(model("(float[2] x, bool c) => (float[2] z)", body))
    x, c = graph.graph.inputs
    inputs = {x: Range.uniform((2,), FLOAT32, -1.0, 1.0), c: Range.uniform((), graph.values[c].format or FLOAT32, 0.0, 1.0)}
    ranged = propagate(graph, inputs, IEEE, abstraction=Abstraction(values="affine", idioms=False), strict=True)
    flagged = {record.node.name for record in ranged.records.values() if record.hazards}
    assert flagged == {"e"}


def test_intervals_alone_leave_no_form_behind() -> None:
    signature, body, ranges = SAFE["width of a rectangle"]
    found, _ = analysed(signature, body, ranges, "interval")
    assert all(x.form is None for x in found.values())


# -- soundness ---------------------------------------------------------------------------------------------------------


def bounds_of_values(graph: RandomGraph, target: Target, values: Values = "affine") -> dict[str, Flow]:
    """The flow of every value of a random graph."""
    read = from_proto(graph.proto())
    inputs: dict[int, Any] = {}
    for number in read.graph.inputs:
        low, high = (end.astype(np.float64) for end in graph.inputs[read.name_of(number)])
        inputs[number] = Range.elements(of_dtype(np.dtype(graph.dtype)), low, high)
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


def test_a_check_comes_back_with_forms_for_what_alarms() -> None:
    signature, body, ranges = SAFE["width of rectangles in one tensor"]
    proto = model(signature, body)
    assert found(static(proto, ranges=ranges, effort=1)) == set()
    zero = {**ranges, "extent": (0.0, 2.0)}
    assert {code for code, _ in found(static(proto, ranges=zero, effort=1))} == {"NUM101"}


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
