"""Branches, loops and scans: findings at the nodes of their bodies, all exits, bounds that stay bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import helper

from tensorproof.formats import FLOAT32, INT64
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.graph import Node
from tensorproof.ranges.containers import SequenceOf
from tensorproof.ranges.grid import Span
from tensorproof.ranges.iteration import MANY, Iteration
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import NAN, POSITIVE_INFINITY, Range
from tensorproof.ranges.records import RangedGraph
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU
from tests.models import found, model, static

pytestmark = pytest.mark.area("control flow")

Bounds = tuple[float, float]


def analysed(proto: onnx.ModelProto, inputs: Mapping[str, Bounds], *, keep_ranges: bool = False, target=IEEE) -> RangedGraph:
    """The propagation, each input one interval."""
    graph = from_proto(proto)
    ranges: dict[int, Range] = {}
    for number in graph.graph.inputs:
        value = graph.values[number]
        assert value.format is not None and value.shape is not None
        shape = tuple(size if isinstance(size, int) else 2 for size in value.shape)
        low, high = inputs[value.name]
        ranges[number] = Range.uniform(shape, value.format, low, high)
    return propagate(graph, ranges, target, keep_ranges=keep_ranges)


def output(result: RangedGraph, index: int = 0) -> Range:
    """The clean range of an output."""
    value = result.outputs[result.model.graph.outputs[index]].clean
    assert isinstance(value, Range)
    return value


def node_named(result: RangedGraph, name: str) -> Node:
    return next(node for node in result.model.graph.walk() if node.name == name)


def looped(body: str, *, count: str = "m", state: str = "float[2]", before: str = "", after: str = "") -> onnx.ModelProto:
    """A loop over one state `s`, whose body gives `k` and `out`; the trip count is the input `m`."""
    return model(
        f"({state} x, int64 m) => ({state} y)",
        f"""
        t = Constant<value = bool {{1}}>()
        {before}
        y = Loop({count}, t, x) <body = step (int64 i, bool c, {state} s) => (bool k, {state} out) {{
            {body}
        }}>
        {after}
        """,
    )


def counted(count: int) -> str:
    return f"n = Constant<value = int64 {{{count}}}>()"


KEEP = "k = Identity(c)"


# -- loops -----------------------------------------------------------------------------------------------------------


def test_an_overflow_after_some_iterations_is_found_at_the_node_of_the_body() -> None:
    proto = looped(f"{KEEP} out = Mul(s, s)", count="n", before=counted(6))
    assert found(static(proto, ranges={"x": (0, 10)})) == {("NUM202", "out")}
    # 3 squared six times is 3^64 = 3.4e30: still a number.
    report = static(proto, ranges={"x": (0, 3)})
    assert not report.findings and "out" in report.proven_safe


def test_a_hazard_of_the_last_iteration_alone_is_found() -> None:
    body = f"{KEEP} one = Constant<value_float=1.0>() out = Sub(s, one) l = Log(s)"
    assert not static(looped(body, count="n", before=counted(4)), ranges={"x": (4.5, 5)}).findings
    assert found(static(looped(body, count="n", before=counted(6)), ranges={"x": (4.5, 5)})) == {("NUM101", "l")}


@pytest.mark.parametrize("count", [6, MANY, 100_000])
def test_hazards_of_many_iterations_are_one(count: int) -> None:
    proto = looped(f"{KEEP} l = Log(s) out = Add(s, s)", count="n", before=counted(count))
    result = analysed(proto, {"x": (0.0, 1.0), "m": (0.0, 0.0)})
    record = result.records[node_named(result, "l").number]
    assert [(h.rule.code, h.low) for h in record.hazards] == [("NUM101", 0.0)]
    assert record.hazards[0].high >= 32.0


@pytest.mark.parametrize("bounds", [(0.0, 3.0), (100_000.0, 100_000.0), (0.0, 2.0**60)])
@pytest.mark.parametrize(
    "body, low, high",
    [
        ("a = Mul(s, s) b = Add(a, s) out = Tanh(b)", -1.0, 5.0),
        ("l = Constant<value_float=-2.0>() h = Constant<value_float=7.0>() a = Mul(s, h) out = Clip(a, l, h)", -2.0, 7.0),
        ("h = Constant<value_float=0.5>() a = Mul(s, h) out = Add(a, h)", 0.0, 5.0),
    ],
)
def test_a_loop_that_is_bounded_is_proven_bounded(body: str, low: float, high: float, bounds: Bounds) -> None:
    result = analysed(looped(f"{KEEP} {body}"), {"x": (0.0, 5.0), "m": bounds})
    reached = output(result).hull()
    assert low - 1e-6 <= reached[0] and reached[1] <= high + 1e-6
    assert not any(record.hazards or record.not_analysed for record in result.records.values())


def test_zero_iterations_leave_the_initial_state() -> None:
    body = f"{KEEP} h = Constant<value_float=100.0>() out = Add(s, h)"
    result = analysed(looped(body), {"x": (0.0, 1.0), "m": (0.0, 1.0)})
    assert output(result).hull() == (0.0, 101.0)
    result = analysed(looped(body), {"x": (0.0, 1.0), "m": (1.0, 1.0)})
    assert output(result).hull() == (100.0, 101.0)
    assert not static(looped(f"{KEEP} out = Log(s)", count="n", before=counted(0)), ranges={"x": (-1, 1)}).findings


def test_a_body_that_never_runs_is_not_checked() -> None:
    result = analysed(looped(f"{KEEP} out = Log(s)"), {"x": (-1.0, 1.0), "m": (-5.0, 0.0)})
    assert output(result).hull() == (-1.0, 1.0)
    assert node_named(result, "out").number not in result.records


def test_every_possible_exit_counts_not_the_first_one() -> None:
    """The state doubles while it is below a limit from 2 to 100: it may stop after one doubling, or after seven."""
    proto = model(
        "(float x, float limit) => (float y, float[N] all)",
        """
        m = Constant<value = int64 {50}>()
        t = Constant<value = bool {1}>()
        y, all = Loop(m, t, x) <body = step (int64 i, bool c, float s) => (bool k, float out, float o) {
            out = Add(s, s)
            k = Less(out, limit)
            o = Identity(s)
        }>
        """,
    )
    result = analysed(proto, {"x": (1.0, 1.0), "limit": (2.0, 100.0)})
    assert output(result).hull() == (2.0, 128.0)
    scanned = output(result, 1)
    assert scanned.shape == (Span(1, 7),) and scanned.hull() == (1.0, 64.0)


def test_a_condition_that_is_known_is_followed_exactly() -> None:
    proto = model(
        "(float[2] x) => (float[2] y, float[N] all)",
        """
        t = Constant<value = bool {1}>()
        zero = Constant<value = int64 {0}>()
        j, y, all = Loop("", t, zero, x) <body = step (int64 i, bool c, int64 j, float[2] s)
                => (bool k, int64 next, float[2] out, float o) {
            one = Constant<value = int64 {1}>()
            forty = Constant<value = int64 {40}>()
            next = Add(j, one)
            k = Less(next, forty)
            f = CastLike(j, s)
            out = Add(s, f)
            o = Identity(f)
        }>
        """,
    )
    result = analysed(proto, {"x": (0.0, 1.0)})
    assert output(result).hull() == (780.0, 781.0)
    rows = output(result, 1)
    np.testing.assert_array_equal(rows.expanded()[0], np.arange(40))


def test_a_sum_over_a_long_loop_grows_with_its_length_only() -> None:
    proto = looped(f"{KEEP} out = Add(s, s0)", count="n", before=f"{counted(10_000)} s0 = Tanh(x)")
    low, high = output(analysed(proto, {"x": (0.0, 1.0), "m": (0.0, 0.0)})).hull()
    exact = 10_000 * math.tanh(1.0) + 1.0
    assert low == 0.0 and exact <= high <= 1.01 * exact


def test_a_long_sum_that_overflows_is_infinite_behind_its_root() -> None:
    proto = looped(f"{KEEP} out = Add(s, x)", count="n", before=counted(10_000))
    result = analysed(proto, {"x": (0.0, 1e36), "m": (0.0, 0.0)})
    root = node_named(result, "out").number
    assert [h.rule.code for h in result.records[root].hazards] == ["NUM202"]
    flow = result.outputs[result.model.graph.outputs[0]]
    assert isinstance(flow.actual, Range) and flow.actual.any_special & POSITIVE_INFINITY and flow.roots == {root}


def test_a_counter_stays_a_counter() -> None:
    proto = looped(
        f"{KEEP} one = Constant<value = int64 {{1}}>() out = Add(s, one)", count="n", before=counted(10_000), state="int64"
    )
    result = analysed(proto, {"x": (0.0, 0.0), "m": (0.0, 0.0)})
    assert output(result).hull()[1] <= 10_000.0


@pytest.mark.parametrize("count", [3, 20_000])
def test_shapes_that_grow_come_to_an_end(count: int) -> None:
    proto = model(
        "(float[2] x) => (float[N] y)",
        f"""
        {counted(count)}
        t = Constant<value = bool {{1}}>()
        y = Loop(n, t, x) <body = step (int64 i, bool c, float[K] s) => (bool k, float[L] out) {{
            {KEEP}
            e = Tanh(x)
            out = Concat<axis=0>(s, e)
        }}>
        """,
    )
    result = output(analysed(proto, {"x": (0.0, 2.0)}))
    assert result.hull() == (0.0, 2.0)
    assert result.shape is not None
    (size,) = result.shape
    assert size == 8 if count == 3 else isinstance(size, Span) and size.high is None


def test_a_sequence_that_grows_in_a_long_loop() -> None:
    proto = model(
        "(float[2] x, int64 m) => (float[2] y, int64 l)",
        f"""
        t = Constant<value = bool {{1}}>()
        e = SequenceConstruct(x)
        q = Loop(m, t, e) <body = step (int64 i, bool c, seq(float[2]) s) => (bool k, seq(float[2]) out) {{
            {KEEP}
            zero = Constant<value = int64 {{0}}>()
            f = SequenceAt(s, zero)
            g = Neg(f)
            out = SequenceInsert(s, g)
        }}>
        l = SequenceLength(q)
        z = Constant<value = int64 {{-1}}>()
        y = SequenceAt(q, z)
        """,
    )
    result = analysed(proto, {"x": (1.0, 2.0), "m": (0.0, 1e6)})
    assert output(result).hull() == (-2.0, 2.0)
    assert output(result, 1).hull()[0] == 1.0


def test_loops_inside_loops() -> None:
    proto = model(
        "(float[2] x) => (float[2] y)",
        f"""
        {counted(3)}
        t = Constant<value = bool {{1}}>()
        two = Constant<value_float=2.0>()
        y = Loop(n, t, x) <body = outer (int64 i, bool c, float[2] s) => (bool k, float[2] out) {{
            {KEEP}
            h = Mul(s, two)
            out = Loop(n, c, h) <body = inner (int64 j, bool d, float[2] p) => (bool e, float[2] q) {{
                e = Identity(d)
                q = Add(p, h)
            }}>
        }}>
        """,
    )
    # One outer iteration multiplies by 8: h = 2 s, then h is added three times.
    result = analysed(proto, {"x": (0.0, 1.0)})
    assert output(result).hull() == (0.0, 512.0)
    assert found(static(proto, ranges={"x": (0, 1e36)})) == {("NUM202", "q")}


def test_nested_long_loops_are_affordable() -> None:
    proto = model(
        "(float[2] x) => (float[2] y)",
        f"""
        {counted(100_000)}
        t = Constant<value = bool {{1}}>()
        y = Loop(n, t, x) <body = outer (int64 i, bool c, float[2] s) => (bool k, float[2] out) {{
            {KEEP}
            out = Loop(n, c, s) <body = inner (int64 j, bool d, float[2] p) => (bool e, float[2] q) {{
                e = Identity(d)
                w = Mul(p, x)
                q = Tanh(w)
            }}>
        }}>
        """,
    )
    result = analysed(proto, {"x": (-3.0, 3.0)})
    low, high = output(result).hull()
    assert -1.0 <= low < -0.99 and 0.99 < high <= 1.0


def test_a_loop_without_a_fixpoint_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensorproof.ranges.iteration.LAST", 1)
    result = analysed(looped(f"{KEEP} l = Log(s) out = Add(s, s)"), {"x": (0.5, 1.0), "m": (0.0, 1e6)})
    reasons = {record.node.name: record.not_analysed for record in result.records.values()}
    assert reasons["y"] == "the ranges of the loop do not come to rest"
    assert reasons["l"] == f"Loop around it: {reasons['y']}" and reasons["out"] is not None


def test_an_unknown_operator_in_a_body_hides_nothing() -> None:
    proto = looped(f"{KEEP} a = Log(s) out = acme.Twist(a)", count="n", before=counted(3))
    proto.opset_import.append(helper.make_opsetid("acme", 1))
    result = analysed(proto, {"x": (1.0, 2.0), "m": (0.0, 0.0)})
    twist = node_named(result, "out")
    assert result.records[twist.number].not_analysed is not None
    # From the second iteration on, Log's operand is whatever Twist returned.
    assert [h.rule.code for h in result.records[node_named(result, "a").number].hazards] == ["NUM101"]


# -- scopes ----------------------------------------------------------------------------------------------------------


def test_values_of_outer_scopes_live_as_long_as_a_body_may_read_them() -> None:
    """`w` is read by no node: it is an output of a branch inside a body, in every iteration."""
    proto = model(
        "(float[2] x, bool b) => (float[2] y)",
        f"""
        {counted(3)}
        t = Constant<value = bool {{1}}>()
        w = Exp(x)
        v = Neg(x)
        y = Loop(n, t, x) <body = step (int64 i, bool c, float[2] s) => (bool k, float[2] out) {{
            {KEEP}
            u = Neg(s)
            out = If(b) <then_branch = p () => (float[2] w) {{ }}, else_branch = q () => (float[2] z) {{ z = Add(u, v) }}>
        }}>
        """,
    )
    result = analysed(proto, {"x": (0.0, 1.0), "b": (0.0, 1.0)})
    low, high = output(result).hull()
    assert low <= -1.0 - math.e and high >= math.e


def test_constants_and_initialisers_of_bodies() -> None:
    proto = looped(f"{KEEP} out = Mul(s, g)", count="n", before=counted(3))
    body = next(node for node in proto.graph.node if node.op_type == "Loop").attribute[0].g
    body.initializer.append(onnx.numpy_helper.from_array(np.array([2.0, 3.0], np.float32), "g"))
    result = output(analysed(proto, {"x": (1.0, 1.0), "m": (0.0, 0.0)}))
    np.testing.assert_array_equal(result.expanded()[0], [8.0, 27.0])


def test_kept_ranges_of_a_body_hold_over_all_iterations() -> None:
    proto = looped(f"{KEEP} h = Constant<value_float=1.0>() out = Add(s, h)", count="n", before=counted(5))
    result = analysed(proto, {"x": (0.0, 0.0), "m": (0.0, 0.0)}, keep_ranges=True)
    kept = result.ranges[node_named(result, "out").outputs[0]].clean
    assert isinstance(kept, Range) and kept.hull() == (1.0, 5.0)
    assert result.summaries[node_named(result, "out").outputs[0]].high == 5.0


# -- branches --------------------------------------------------------------------------------------------------------

BRANCHES = """
y = If(c) <then_branch = a () => (float[2] left) { left = Log(x) }, else_branch = b () => (float[2] right) { right = Sqrt(x) }>
"""


def test_a_condition_that_may_be_either_checks_both_branches() -> None:
    proto = model("(float[2] x, bool c) => (float[2] y)", BRANCHES)
    assert found(static(proto, ranges={"x": (-1, 1)})) == {("NUM101", "left"), ("NUM102", "right")}
    assert found(static(proto, ranges={"x": (0, 1)})) == {("NUM101", "left")}


def test_a_condition_that_is_known_checks_one_branch() -> None:
    proto = model("(float[2] x) => (float[2] y)", f"c = Constant<value = bool {{0}}>()\n{BRANCHES}")
    report = static(proto, ranges={"x": (-1, 1)})
    assert found(report) == {("NUM102", "right")}
    assert "left" not in report.proven_safe


def test_branches_join_shapes_sequences_and_optionals() -> None:
    proto = model(
        "(float[2] x, bool c) => (float[N] y, seq(float[2]) q, optional(float[2]) o)",
        """
        y, q, o = If(c) <
            then_branch = a () => (float[4] p, seq(float[2]) r, optional(float[2]) g) {
                p = Concat<axis=0>(x, x)
                r = SequenceConstruct(x, x)
                g = Optional(x)
            },
            else_branch = b () => (float[2] l, seq(float[2]) m, optional(float[2]) h) {
                l = Neg(x)
                m = SequenceEmpty<dtype=1>()
                h = Optional<type = float[2]>()
            }>
        """,
        opset=18,
    )
    graph = from_proto(proto)
    x, c = graph.graph.inputs
    inputs = {x: Range.uniform((2,), FLOAT32, 1.0, 2.0), c: Range.uniform((), graph.values[c].format, 0.0, 1.0)}
    y, q, o = (flow.clean for flow in propagate(graph, inputs, IEEE).outputs.values())
    assert isinstance(y, Range) and y.shape == (Span(2, 4),) and y.hull() == (-2.0, 2.0)
    assert isinstance(q, SequenceOf) and q.length == Span(0, 2) and q.element is not None
    assert o.may_be_absent and o.value.hull() == (1.0, 2.0)


# -- roots before a condition ----------------------------------------------------------------------------------------

#: Less(log(x), 0) holds for every number x below 1; for x < 0 the logarithm is NaN, and comparing it gives false.
GUARD = """
l = Log(x)
zero = Constant<value_float=0.0>()
below = Less(l, zero)
above = Not(below)
"""


def test_a_branch_that_only_a_root_can_reach_holds_consequences() -> None:
    proto = model(
        "(float x) => (float y)",
        GUARD
        + """
        y = If(above) <then_branch = a () => (float p) { m = Constant<value_float=-1.0>() p = Sqrt(m) },
                       else_branch = b () => (float q) { q = Neg(x) }>
        """,
    )
    report = static(proto, ranges={"x": (-0.5, 0.5)})
    assert found(report) == {("NUM101", "l")}
    consequences = {(f.node, f.consequence_of) for f in report.findings if f.consequence_of}
    assert ("p", ("l",)) in consequences
    result = analysed(proto, {"x": (-0.5, 0.5)})
    flow = result.outputs[result.model.graph.outputs[0]]
    assert isinstance(flow.actual, Range) and flow.actual.any_special & NAN and flow.roots
    assert isinstance(flow.clean, Range) and flow.clean.hull() == (-0.5, 0.5)


def test_a_loop_that_only_a_root_keeps_running() -> None:
    """With numbers, the loop ends after one iteration; NaN in the condition lets it go on and overflow."""
    proto = model(
        "(float x) => (float y)",
        f"""
        {GUARD}
        {counted(10)}
        t = Constant<value = bool {{1}}>()
        big = Constant<value_float=1e9>()
        y = Loop(n, t, big) <body = step (int64 i, bool c, float s) => (bool k, float out) {{
            k = Identity(above)
            out = Mul(s, big)
        }}>
        """,
    )
    report = static(proto, ranges={"x": (-0.5, 0.5)})
    assert found(report) == {("NUM101", "l")}
    assert ("out", ("l",)) in {(f.node, f.consequence_of) for f in report.findings if f.consequence_of}
    result = analysed(proto, {"x": (-0.5, 0.5)})
    flow = result.outputs[result.model.graph.outputs[0]]
    assert isinstance(flow.clean, Range) and flow.clean.hull()[1] == pytest.approx(1e18)
    assert isinstance(flow.actual, Range) and flow.actual.any_special


def test_a_root_inside_a_body_is_one_root() -> None:
    proto = looped(f"{KEEP} l = Log(s) e = Exp(l) out = Neg(e)", count="n", before=counted(3), after="")
    report = static(proto, ranges={"x": (0, 1)})
    assert found(report) == {("NUM101", "l")}
    assert report.proven_safe_if.get("e") == ("l",)


@pytest.mark.parametrize("count", [3, 100_000])
def test_what_follows_a_loop_is_proven_only_behind_the_roots_of_its_body(count: int) -> None:
    """log(1000 - s) fails once s has counted to 1000: long after the iterations that are taken one by one."""
    proto = model(
        "(float[2] x) => (float[2] y, float[2] z)",
        f"""
        {counted(count)}
        t = Constant<value = bool {{1}}>()
        one = Constant<value_float=1.0>()
        zero = Constant<value_float=0.0>()
        most = Constant<value_float=1000.0>()
        y = Loop(n, t, x) <body = step (int64 i, bool c, float[2] s) => (bool k, float[2] out) {{
            {KEEP}
            d = Sub(most, s)
            l = Log(d)
            a = Mul(l, zero)
            b = Add(s, one)
            out = Add(a, b)
        }}>
        w = Abs(y)
        z = Sqrt(w)
        """,
    )
    report = static(proto, ranges={"x": (0, 1)})
    if count == 3:
        assert not report.findings and "z" in report.proven_safe
    else:
        assert ("NUM101", "l") in found(report)
        assert "z" not in report.proven_safe and "l" in report.proven_safe_if.get("z", ())


# -- scans -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [5, 5000])
def test_a_cell_with_tanh_stays_between_minus_one_and_one(steps: int) -> None:
    proto = model(
        f"(float[{steps},3] x, float[4] h) => (float[4] last, float[{steps},4] all)",
        """
        w = Constant<value = float[3,4] {1.0,-2.0,0.5,3.0,1.0,1.0,1.0,-1.0,0.1,0.2,0.3,0.4}>()
        last, all = Scan<num_scan_inputs=1, body = cell (float[4] s, float[3] e) => (float[4] n, float[4] o) {
            p = MatMul(e, w)
            q = Add(p, s)
            n = Tanh(q)
            o = Identity(n)
        }>(h, x)
        """,
    )
    result = analysed(proto, {"x": (-100.0, 100.0), "h": (0.0, 0.0)})
    last, rows = output(result), output(result, 1)
    assert last.hull() == (-1.0, 1.0) and rows.shape == (steps, 4) and rows.hull() == (-1.0, 1.0)
    assert not any(record.hazards for record in result.records.values())


def test_a_scan_ends_where_its_state_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand equal slices cost as many iterations as the state takes to settle, and nothing is lost."""
    evaluated: list[int] = []
    step = Iteration._run

    def counting(self: Iteration, first: int, last: float, *rest: object) -> object:
        evaluated.append(first)
        return step(self, first, last, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Iteration, "_run", counting)
    proto = model(
        "(float[1000,2] x, float[2] h) => (float[2] last, float[1000,2] all)",
        """
        last, all = Scan<num_scan_inputs=1, body = cell (float[2] s, float[2] e) => (float[2] n, float[2] o) {
            n = Max(s, e)
            o = Sub(n, e)
        }>(h, x)
        """,
    )
    result = analysed(proto, {"x": (1.0, 2.0), "h": (0.0, 0.0)})
    assert output(result).hull() == (1.0, 2.0) and output(result, 1).shape == (1000, 2)
    assert evaluated == [0, 1]


# -- long loops -----------------------------------------------------------------------------------------------------


def test_an_iteration_number_is_a_range_in_a_long_loop() -> None:
    proto = looped(f"{KEEP} f = CastLike(i, s) z = Constant<value_float=0.0>() a = Mul(f, z) out = Max(a, s)")
    result = analysed(proto, {"x": (0.0, 1.0), "m": (0.0, 1e6)}, keep_ranges=True)
    number = node_named(result, "y").attributes["body"].inputs[0]
    kept = result.ranges[number].clean
    assert isinstance(kept, Range) and kept.format is INT64 and kept.hull() == (0.0, 999_999.0)


def test_a_16_bit_loop_that_overflows_comes_to_rest_where_chains_are_kept_wide() -> None:
    """ONNX Runtime may keep the product in float32: behind the overflow, values lie beyond float16."""
    proto = model(
        "(float16[2] x, int64 m) => (float16[2] y)",
        f"""
        t = Constant<value = bool {{1}}>()
        y = Loop(m, t, x) <body = step (int64 i, bool c, float16[2] s) => (bool k, float16[2] out) {{
            {KEEP}
            out = Mul(s, s)
        }}>
        """,
    )
    result = analysed(proto, {"x": (0.0, 3.0), "m": (0.0, 1e6)}, target=ONNXRUNTIME_CPU)
    assert not any(record.not_analysed for record in result.records.values())
    record = result.records[node_named(result, "out").number]
    assert [h.rule.code for h in record.hazards] == ["NUM202"]
