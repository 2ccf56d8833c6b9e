"""Affine forms: what they prove that intervals cannot, what they must not prove, and that every computed value is inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tensorproof.formats import FLOAT32, Array
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.ranges import fields
from tensorproof.ranges.abstraction import Abstraction, Values
from tensorproof.ranges.fields import Field
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.grid import Grid, Shape
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.targets import IEEE, TENSORFLOW_CPU, Target
from tests.models import found, model, static

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
    "union of two intervals": (
        "(float[4] a, float[4] b, float[4] u, float[4] v) => (float[4] y)",
        """
        a_end = Add(a, u)
        b_end = Add(b, v)
        first_end = Min(a_end, b_end)
        last_start = Max(a, b)
        overlap = Sub(first_end, last_start)
        common = Relu(overlap)
        a_length = Sub(a_end, a)
        b_length = Sub(b_end, b)
        lengths = Add(a_length, b_length)
        union = Sub(lengths, common)
        y = Log(union)
        """,
        {"a": (-100.0, 100.0), "b": (-100.0, 100.0), "u": (1.0, 2.0), "v": (1.0, 2.0)},
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
    "union of two intervals that may be empty": (
        *SAFE["union of two intervals"][:2],
        {"a": (-100.0, 100.0), "b": (-100.0, 100.0), "u": (0.0, 2.0), "v": (0.0, 2.0)},
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


def test_what_holds_inside_a_guarded_branch_does_not_leave_it() -> None:
    body = """
        zero = Constant<value_float=0.0>()
        s = Add(x, x)
        positive = Greater(x, zero)
        y = If(positive) <then_branch = a () => (float left) { left = Relu(x) },
                          else_branch = b () => (float right) { right = Abs(x) }>
        r = Relu(x)
        d = Sub(x, r)
        e = Sub(d, zero)
        z = Sqrt(e)
    """
    ranges, failing = analysed("(float x) => (float z)", body, {"x": (-1.0, 1.0)})
    assert ranges["d"].hull() == (-1.0, 0.0) and failing == {"Sqrt"}


def test_intervals_alone_leave_no_form_behind() -> None:
    signature, body, ranges = SAFE["width of a rectangle"]
    found, _ = analysed(signature, body, ranges, "interval")
    assert all(x.form is None for x in found.values())


def test_a_check_comes_back_with_forms_for_what_alarms() -> None:
    signature, body, ranges = SAFE["width of rectangles in one tensor"]
    proto = model(signature, body)
    assert found(static(proto, ranges=ranges, effort=1)) == set()
    zero = {**ranges, "extent": (0.0, 2.0)}
    assert {code for code, _ in found(static(proto, ranges=zero, effort=1))} == {"NUM101"}


# -- what it costs -----------------------------------------------------------------------------------------------------

#: Places in an image that two coordinates point at, as spatial transformers compute them: a large constant beside clipped numbers.
PLACES = """
    low = Constant<value_float=0.0>()
    high = Constant<value_float=39.0>()
    width = Constant<value_float=40.0>()
    one = Constant<value_float=1.0>()
    count = Constant<value_float=20000.0>()
    base = Range(low, count, one)
    row = Clip(x, low, high)
    column = Clip(y, low, high)
    rows = Mul(row, width)
    start = Add(rows, base)
    place = Add(start, column)
"""


@pytest.mark.parametrize("target", [IEEE, TENSORFLOW_CPU], ids=lambda target: target.name)
def test_the_cells_of_a_large_constant_are_gone_through_few_times(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    make = fields.field

    def counted(shape: Shape, grid: Grid, low: Array, high: Array) -> Field:
        made.append(low.size)
        return make(shape, grid, low, high)

    monkeypatch.setattr(fields, "field", counted)
    signature = "(float[20000] x, float[20000] y) => (float[20000] place)"
    ranges, _ = analysed(signature, PLACES, {"x": (-50.0, 50.0), "y": (-50.0, 50.0)}, target=target)
    first = np.arange(20000.0)
    low, high, _ = ranges["place"].expanded()
    assert (np.abs(low - first) <= 0.01).all() and (np.abs(high - first - 1599.0) <= 0.01).all()
    assert sum(made) <= 8 * first.size
