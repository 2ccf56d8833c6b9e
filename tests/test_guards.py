"""What conditions prove: guarded branches, loops that go on while a comparison holds, loops whose values stay bounded.

Each model that is proven has a near miss beside it, which must stay flagged.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import pytest

from tensorproof.frontends.onnx_file import from_proto
from tensorproof.ranges.abstraction import FIRST_PASS, PRECISE, Abstraction
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import NAN, Range
from tensorproof.ranges.records import RangedGraph
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU, Target
from tests.models import model

pytestmark = pytest.mark.area("control flow")

Bounds = tuple[float, float]


def analysed(
    proto: onnx.ModelProto, inputs: Mapping[str, Bounds], *, abstraction: Abstraction = PRECISE, target: Target = IEEE
) -> RangedGraph:
    """The propagation, each input one interval."""
    graph = from_proto(proto)
    ranges: dict[int, Range] = {}
    for number in graph.graph.inputs:
        value = graph.values[number]
        assert value.format is not None and value.shape is not None
        shape = tuple(size for size in value.shape if isinstance(size, int))
        ranges[number] = Range.uniform(shape, value.format, *inputs[value.name])
    return propagate(graph, ranges, target, abstraction=abstraction, strict=True)


def flagged(result: RangedGraph) -> set[tuple[str, str]]:
    assert not any(record.not_analysed for record in result.records.values())
    return {(h.rule.code, record.node.name) for record in result.records.values() for h in record.hazards}


def output(result: RangedGraph, index: int = 0) -> Range:
    value = result.outputs[result.model.graph.outputs[index]].clean
    assert isinstance(value, Range)
    return value


def number(name: str, value: float) -> str:
    return f"{name} = Constant<value_float={value}>()"


# -- branches --------------------------------------------------------------------------------------------------------


def guarded(
    condition: str, then: str, *, otherwise: str = "b = Neg(x)", shape: str = "[1]", kind: str = "float"
) -> onnx.ModelProto:
    return model(
        f"({kind}{shape} x) => ({kind}{shape} y)",
        f"""
        {number("half", 0.5)} {number("zero", 0.0)} {number("two", 2.0)} {number("one", 1.0)}
        {condition}
        y = If(c) <then_branch = yes () => ({kind}{shape} a) {{ {then} }}, else_branch = no () => ({kind}{shape} b) {{ {otherwise} }}>
        """,
    )


CONDITIONS = [
    ("c = Greater(x, half)", True),
    ("d = Less(x, half) c = Not(d)", True),
    ("c = Less(half, x)", True),
    ("d = LessOrEqual(x, half) e = Cast<to=6>(d) f = Cast<to=9>(e) c = Not(f)", True),
    ("p = Greater(x, half) q = Less(x, two) c = And(p, q)", True),
    ("p = Less(x, half) q = Greater(x, two) d = Or(p, q) c = Not(d)", True),
    ("s = Squeeze(x) c = GreaterOrEqual(s, half)", True),
    ("a0 = Neg(x) h = Neg(half) c = Less(a0, h)", True),
    ("a0 = Neg(x) h = Neg(half) c = Greater(h, a0)", True),
    ("a0 = Neg(x) h = Neg(half) c = GreaterOrEqual(h, a0)", True),
    ("c = LessOrEqual(half, x)", True),
    ("d = Cast<to=11>(x) h = Cast<to=11>(half) c = Less(h, d)", True),
    ("m = ReduceMin<keepdims=0>(x) c = Greater(m, half)", True),
    ("g = Greater(x, half) i = Cast<to=1>(g) m = ReduceMin<keepdims=0>(i) c = Cast<to=9>(m)", True),
    # Near misses: zero, or a negative number, gets through.
    ("c = Less(x, half)", False),
    ("h = Neg(half) c = Greater(x, h)", False),
    ("p = Greater(x, half) q = Less(x, two) c = Or(p, q)", False),
    ("d = Greater(x, half) c = Not(d)", False),
    ("m = ReduceMax<keepdims=0>(x) c = Greater(m, half)", False),
    ("g = Greater(x, half) i = Cast<to=1>(g) m = ReduceMax<keepdims=0>(i) c = Cast<to=9>(m)", False),
    ("q = Mul(x, x) c = Greater(q, half)", False),
]


@pytest.mark.parametrize("abstraction", [FIRST_PASS, PRECISE], ids=["first", "precise"])
@pytest.mark.parametrize("condition, proves", CONDITIONS)
def test_a_guard_protects_the_branch_behind_it(condition: str, proves: bool, abstraction: Abstraction) -> None:
    shape = "[3]" if "Reduce" in condition else "[1]"
    for then, code in (("a = Reciprocal(x)", "NUM103"), ("a = Log(x)", "NUM101")):
        result = analysed(guarded(condition, then, shape=shape), {"x": (-4.0, 4.0)}, abstraction=abstraction)
        assert flagged(result) == (set() if proves else {(code, "a")})


def test_a_branch_sees_the_narrowed_value_and_the_rest_of_the_graph_does_not() -> None:
    result = analysed(guarded("c = Greater(x, half)", "a = Identity(x)", otherwise="b = Neg(x)"), {"x": (-4.0, 4.0)})
    low, high = output(result).hull()
    # else: x <= 0.5, so that -x lies in [-0.5, 4].
    assert low == -0.5 and high == 4.0
    proto = guarded("c = Greater(x, half)", "a = Log(x)")
    proto.graph.node.append(onnx.helper.make_node("Log", ["x"], ["after"], name="after"))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("after", onnx.TensorProto.FLOAT, [1]))
    assert flagged(analysed(proto, {"x": (-4.0, 4.0)})) == {("NUM101", "after")}


@pytest.mark.parametrize("limit, proves", [(0.5, True), (-1.0, False)])
def test_what_was_made_from_a_guarded_value_is_narrowed_with_it(limit: float, proves: bool) -> None:
    """A mean over a mask: the count is compared as it is, and divided by as a float that was made before the branch."""
    proto = model(
        "(float[5] x, bool[5] mask) => (float y)",
        f"""
        {number("zero", limit)}
        w = Cast<to=1>(mask)
        p = Mul(x, w)
        s = ReduceSum<keepdims=0>(p)
        n = ReduceSum<keepdims=0>(w)
        c = Greater(n, zero)
        l = Neg(n)
        y = If(c) <then_branch = yes () => (float a) {{ m = Div(s, n) a = Div(m, l) }}, else_branch = no () => (float b) {{ b = Neg(s) }}>
        """,
    )
    result = analysed(proto, {"x": (-4.0, 4.0), "mask": (0.0, 1.0)})
    assert flagged(result) == (set() if proves else {("NUM103", "m"), ("NUM103", "a")})


def test_both_sides_of_a_comparison_are_narrowed() -> None:
    proto = model(
        "(float x, float z) => (float y)",
        """
        c = Less(z, x)
        y = If(c) <then_branch = yes () => (float a) { d = Sub(x, z) a = Log(x) }, else_branch = no () => (float b) { b = Exp(z) }>
        """,
    )
    assert flagged(analysed(proto, {"x": (-1.0, 100.0), "z": (1.0, 200.0)})) == {("NUM201", "b")}
    assert flagged(analysed(proto, {"x": (-1.0, 50.0), "z": (0.0, 60.0)})) == set()
    assert flagged(analysed(proto, {"x": (-1.0, 50.0), "z": (-2.0, 60.0)})) == {("NUM101", "a")}


def test_not_equal_moves_an_end_of_an_integer_range() -> None:
    proto = model(
        "(int64 x) => (int64 y)",
        """
        zero = Constant<value_int=0>() seven = Constant<value_int=7>()
        c = Equal(x, zero)
        y = If(c) <then_branch = yes () => (int64 a) { a = Identity(x) }, else_branch = no () => (int64 b) { b = Div(seven, x) }>
        """,
    )
    assert flagged(analysed(proto, {"x": (0.0, 9.0)})) == set()
    assert flagged(analysed(proto, {"x": (-1.0, 9.0)})) == {("NUM107", "b")}


def test_a_strict_bound_is_not_strict_where_16_bit_chains_are_kept_in_float32() -> None:
    """2^-30 is above zero when it is compared, and zero when it is stored."""
    proto = guarded("z = CastLike(zero, x) c = Greater(x, z)", "a = Sqrt(x) d = Log(x)", kind="float16")
    assert flagged(analysed(proto, {"x": (-1.0, 1.0)})) == set()
    assert flagged(analysed(proto, {"x": (-1.0, 1.0)}, target=ONNXRUNTIME_CPU)) == {("NUM101", "d")}


def test_a_comparison_that_failed_may_have_seen_nan() -> None:
    """Behind log(x) of a negative x, "not greater" is true of NaN: the actual range keeps it, the clean one is narrowed."""
    proto = model(
        "(float x) => (float y)",
        f"""
        {number("zero", 0.0)}
        l = Log(x)
        c = Greater(l, zero)
        y = If(c) <then_branch = yes () => (float a) {{ a = Identity(l) }}, else_branch = no () => (float b) {{ b = Identity(l) }}>
        """,
    )
    result = analysed(proto, {"x": (-1.0, 8.0)})
    flow = result.outputs[result.model.graph.outputs[0]]
    assert isinstance(flow.actual, Range) and flow.actual.any_special & NAN
    graph = result.model.graph.nodes[-1].attributes["then_branch"]
    assert result.summaries[graph.outputs[0]].low > 0.0


def test_a_nan_check_clears_the_branch_behind_it() -> None:
    proto = model(
        "(float x) => (float y)",
        """
        l = Log(x)
        c = IsNaN(l)
        y = If(c) <then_branch = yes () => (float a) { a = Abs(x) }, else_branch = no () => (float b) { b = Identity(l) }>
        """,
    )
    flow = analysed(proto, {"x": (-1.0, 8.0)}).outputs
    (value,) = flow.values()
    assert isinstance(value.actual, Range) and not value.actual.any_special & NAN


# -- loops -----------------------------------------------------------------------------------------------------------


def looped(
    body: str, *, count: str = "m", condition: str = "t", states: str = "x", kinds: str = "float", before: str = ""
) -> onnx.ModelProto:
    """A loop over states s0, s1, ...; the body gives `k` and out0, out1, ..."""
    names, types = states.split(), kinds.split()
    inputs = ", ".join(f"{kind} s{i}" for i, kind in enumerate(types))
    outputs = ", ".join(f"{kind} out{i}" for i, kind in enumerate(types))
    results = ", ".join(f"y{i}" for i in range(len(types)))
    declared = ", ".join(f"{kind} y{i}" for i, kind in enumerate(types))
    return model(
        f"(float x, int64 m, float z) => ({declared})",
        f"""
        t = Constant<value = bool {{1}}>()
        {number("one", 1.0)} {number("half", 0.5)} {number("zero", 0.0)} {number("two", 2.0)}
        i0 = Constant<value_int=0>() i1 = Constant<value_int=1>()
        {before}
        {results} = Loop({count}, {condition}, {", ".join(names)}) <body = step (int64 i, bool c, {inputs}) => (bool k, {outputs}) {{
            {body}
        }}>
        """,
    )


KEEP = "k = Identity(c)"
INPUTS = {"x": (-3.0, 3.0), "m": (0.0, 1e6), "z": (-5.0, 5.0)}
BOUNDED = [
    # x = 0.5 x + clip(z): the limit is twice the clipped value.
    (f"{KEEP} a = Mul(s0, half) b = Clip(z, zero, one) out0 = Add(a, b) e = Exp(out0)", True),
    (f"{KEEP} a = Mul(s0, two) b = Clip(z, zero, one) out0 = Add(a, b) e = Exp(out0)", False),
    # Newton's iteration for the square root of z, kept away from zero.
    (f"{KEEP} q = Div(z, s0) a = Add(s0, q) b = Mul(a, half) out0 = Clip(b, half, two)", True),
    (f"{KEEP} q = Div(z, s0) a = Add(s0, q) b = Mul(a, half) out0 = Clip(b, zero, two)", False),
]


@pytest.mark.parametrize("abstraction", [FIRST_PASS, PRECISE], ids=["first", "precise"])
@pytest.mark.parametrize("body, proves", BOUNDED)
def test_a_value_that_stays_bounded(body: str, proves: bool, abstraction: Abstraction) -> None:
    ranges = INPUTS if "Exp" in body else {**INPUTS, "x": (1.0, 2.0)}
    result = analysed(looped(body), ranges, abstraction=abstraction)
    assert bool(flagged(result)) != proves


def test_a_contraction_is_bounded_by_its_limit() -> None:
    body = f"{KEEP} h = Constant<value_float=0.99>() a = Mul(s0, h) b = Clip(z, zero, one) out0 = Add(a, b)"
    low, high = output(analysed(looped(body), {"x": (0.0, 0.0), "m": (0.0, 1e6), "z": (-5.0, 5.0)})).hull()
    # The limit is 1 / (1 - 0.99) = 100.
    assert low >= -1e-3 and 99.0 <= high <= 110.0


COUNTED = [
    # Division by a counter that has counted once, and by one that has not.
    ("out1 = Add(s1, i1) f = CastLike(out1, s0) r = Div(z, f) out0 = Add(s0, r)", set[tuple[str, str]]()),
    ("f = CastLike(s1, s0) r = Div(z, f) out0 = Add(s0, r) out1 = Add(s1, i1)", {("NUM103", "r")}),
    ("j = Add(i, i1) f = CastLike(j, s0) r = Div(z, f) out0 = Add(s0, r) out1 = Identity(s1)", set[tuple[str, str]]()),
    ("f = CastLike(i, s0) r = Div(z, f) out0 = Add(s0, r) out1 = Identity(s1)", {("NUM103", "r")}),
]


@pytest.mark.parametrize("most", [10.0, 1e6])
@pytest.mark.parametrize("body, expected", COUNTED)
def test_a_mean_over_an_unknown_number_of_steps(body: str, expected: set[tuple[str, str]], most: float) -> None:
    proto = looped(f"{KEEP} {body}", states="x i0", kinds="float int64")
    assert flagged(analysed(proto, {**INPUTS, "m": (1.0, most)})) == expected


@pytest.mark.parametrize("limit", [5.0, 1000.0, 1e6])
@pytest.mark.parametrize("target", [IEEE, ONNXRUNTIME_CPU], ids=["ieee", "ort"])
def test_a_loop_that_counts_to_a_limit_ends_there(limit: float, target: Target) -> None:
    """No trip count: the counter's own comparison bounds the number of iterations, and with it the sum."""
    body = "out1 = Add(s1, i1) k = Less(out1, m) b = Clip(z, zero, one) out0 = Add(s0, b)"
    proto = looped(body, count='""', states="x i0", kinds="float int64")
    result = analysed(proto, {**INPUTS, "m": (1.0, limit)}, target=target)
    assert flagged(result) == set()
    assert output(result, 1).hull() == (1.0, limit)
    assert output(result).hull()[1] <= 1.2 * limit + 3.1


def test_counting_down_and_late_comparisons() -> None:
    down = "out1 = Sub(s1, i1) k = Greater(out1, i0) out0 = Add(s0, one)"
    proto = looped(down, count='""', states="x m", kinds="float int64")
    result = analysed(proto, {**INPUTS, "m": (1.0, 5000.0)})
    assert output(result, 1).hull() == (0.0, 0.0) and output(result).hull()[1] <= 5010.0
    late = "k = LessOrEqual(s1, m) out1 = Add(s1, i1) out0 = Add(s0, one)"
    proto = looped(late, count='""', states="x i0", kinds="float int64")
    result = analysed(proto, {**INPUTS, "m": (5000.0, 5000.0)})
    # The values 0 to 5000 are all compared and found good, 5001 is not: 5002 iterations.
    assert output(result).hull()[1] >= 5005.0 and output(result).hull()[1] <= 5030.0


def test_a_float_state_that_a_condition_keeps_small() -> None:
    body = "out0 = Add(s0, one) h = Constant<value_float=80.0>() k = Less(out0, h) e = Exp(s0)"
    assert flagged(analysed(looped(body, count='""'), INPUTS)) == set()
    unguarded = "out0 = Add(s0, one) h = Constant<value_float=80.0>() k = Less(z, h) e = Exp(s0)"
    assert ("NUM201", "e") in flagged(analysed(looped(unguarded, count='""'), INPUTS))


@pytest.mark.parametrize("factor, flags", [(0.9, False), (1.0001, False), (1.01, True)])
def test_a_product_over_a_long_loop(factor: float, flags: bool) -> None:
    """1.0001^100,000 is 22,000; 1.01^100,000 is beyond the format."""
    body = f"{KEEP} f = Constant<value_float={factor}>() out0 = Mul(s0, f)"
    result = analysed(looped(body), {**INPUTS, "m": (100_000.0, 100_000.0)})
    assert flagged(result) == ({("NUM202", "out0")} if flags else set())
    if not flags:
        assert output(result).hull()[1] <= 3.0 * max(1.0, 1.1 * factor**100_000)


def test_an_if_inside_a_loop_and_a_loop_inside_an_if() -> None:
    inner = f"""{KEEP} g = Greater(s0, half)
        out0 = If(g) <then_branch = yes () => (float a) {{ a = Log(s0) }}, else_branch = no () => (float b) {{ b = Abs(s0) }}>"""
    assert flagged(analysed(looped(inner), {**INPUTS, "m": (0.0, 20.0)})) == set()
    proto = model(
        "(float x, int64 m) => (float y)",
        f"""
        t = Constant<value = bool {{1}}>() {number("half", 0.5)}
        g = Greater(x, half)
        y = If(g) <
            then_branch = yes () => (float a) {{
                a = Loop(m, t, half) <body = step (int64 i, bool c, float s) => (bool k, float out) {{
                    {KEEP} r = Div(half, x) l = Log(x) out = Clip(r, half, x)
                }}>
            }},
            else_branch = no () => (float b) {{ b = Abs(x) }}>
        """,
    )
    assert flagged(analysed(proto, {"x": (-3.0, 3.0), "m": (0.0, 1e6)})) == set()
    assert flagged(analysed(proto, {"x": (-3.0, 3.0), "m": (1.0, 4.0)})) == set()


def test_a_mask_of_minus_infinity_in_a_loop() -> None:
    """Scores of masked places are -inf; their exponentials are 0, and the sum counts at least one place that is not."""

    def masked(floor: str) -> onnx.ModelProto:
        return model(
            "(float[4] x, int64 m) => (float[4] y)",
            f"""
            t = Constant<value = bool {{1}}>()
            mask = Constant<value = bool[4] {{1, 0, 1, 0}}>()
            least = Constant<value_float=-inf>() {number("one", 1.0)} {number("zero", 0.0)}
            y = Loop(m, t, x) <body = step (int64 i, bool c, float[4] s) => (bool k, float[4] out) {{
                {KEEP} a = Where(mask, s, least) e = Exp(a) n = ReduceSum<keepdims=1>(e) d = {floor} out = Div(e, d)
            }}>
            """,
        )

    ranges = {"x": (-3.0, 3.0), "m": (0.0, 1e6)}
    assert flagged(analysed(masked("Max(n, one)"), ranges)) == set()
    assert flagged(analysed(masked("Sub(n, one)"), ranges)) != set()
