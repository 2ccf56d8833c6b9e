"""If, Loop, Scan and SequenceMap: exits, trip counts, scopes, growing shapes, long sequences, old opsets.

onnx.reference stacks scan outputs of a Loop wrongly unless they have one axis, runs no iteration where the condition is left
out, fails on scan outputs of zero iterations, and scans forward along axis 0 only: ONNX Runtime judges those.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser

from tests.soundness.seeds.seed import Seed

_RNG = np.random.default_rng(11)


def model(
    operator: str,
    name: str,
    text: str,
    *inputs: Any,
    opset: int = 21,
    oracle: str = "reference",
    vary: tuple[str, ...] | None = None,
) -> Seed:
    """A seed from ONNX's textual syntax."""
    header = f'<ir_version: {8 if opset < 18 else 10}, opset_import: ["" : {opset}]>\n'
    proto = onnx.parser.parse_model(header + text)
    return Seed(f"{name}-{opset}", operator, "", proto, inputs, vary=vary, oracle=oracle)


def numbers(*shape: int) -> np.ndarray:
    return _RNG.normal(size=shape).astype(np.float32)


def integer(value: int) -> np.ndarray:
    return np.array(value, np.int64)


IFS = [
    model(
        "If",
        "if-by-sum",
        """g (float[3] x) => (float[3] y) <float[1] zero = {0.0}> {
          s = ReduceSum(x)
          c = Greater(s, zero)
          y = If (c) <then_branch = t () => (float[3] a) { a = Exp(x) }, else_branch = e () => (float[3] b) { b = Neg(x) }>
        }""",
        numbers(3),
        opset=opset,
    )
    for opset in (9, 13, 21)
] + [
    model(
        "If",
        "if-condition-varies",
        """g (float[3] x, bool c) => (float[3] y, float[3] z) {
          y, z = If (c) <
            then_branch = t () => (float[3] a, float[3] b) { a = Tanh(x) b = Identity(x) },
            else_branch = e () => (float[3] p, float[3] q) { p = Mul(x, x) q = Abs(p) }>
        }""",
        numbers(3),
        np.array(True),
        vary=("x", "c"),
    ),
    model(
        "If",
        "if-shapes-differ",
        """g (float[2,2] x, bool c) => (float[N,2] y) {
          y = If (c) <
            then_branch = t () => (float[4,2] a) { a = Concat <axis = 0> (x, x) },
            else_branch = e () => (float[2,2] b) { b = Neg(x) }>
        }""",
        numbers(2, 2),
        np.array(False),
        vary=("x", "c"),
    ),
    model(
        "If",
        "if-nested",
        """g (float[2] x, bool c, bool d) => (float[2] y) {
          w = Add(x, x)
          y = If (c) <
            then_branch = t () => (float[2] a) {
              v = Mul(w, x)
              a = If (d) <
                then_branch = tt () => (float[2] aa) { aa = Sub(v, w) },
                else_branch = te () => (float[2] ab) { ab = Identity(w) }>
            },
            else_branch = e () => (float[2] b) { b = Identity(x) }>
        }""",
        numbers(2),
        np.array(True),
        np.array(False),
        vary=("x", "c", "d"),
    ),
    model(
        "If",
        "if-sequences",
        """g (float[2] x, bool c) => (float[2] y, int64 n) {
          s = If (c) <
            then_branch = t () => (seq(float[2]) a) { u = Neg(x) a = SequenceConstruct(x, u) },
            else_branch = e () => (seq(float[2]) b) { b = SequenceConstruct(x) }>
          zero = Constant <value = int64 {0}> ()
          y = SequenceAt(s, zero)
          n = SequenceLength(s)
        }""",
        numbers(2),
        np.array(False),
        vary=("x", "c"),
    ),
    *(
        model(
            "If",
            f"if-guarded-{name}",
            f"""g (float[1] x, float[1] z) => (float[1] y) {{
              {condition}
              y = If (c) <
                then_branch = t () => (float[1] a) {{ l = Log(x) r = Div(z, x) a = Add(l, r) }},
                else_branch = e () => (float[1] b) {{ b = Sub(x, z) }}>
            }}""",
            np.array([0.7], np.float32),
            numbers(1),
        )
        for name, condition in (
            ("greater", "h0 = Constant <value = float[1] {0.5}> () h = CastLike(h0, x) c = Greater(x, h)"),
            ("not-less", "h0 = Constant <value = float[1] {0.5}> () h = CastLike(h0, x) d = Less(x, h) c = Not(d)"),
            ("both", "h0 = Constant <value = float[1] {0.5}> () h = CastLike(h0, x) d = Less(h, x) e0 = Less(z, x) c = And(d, e0)"),
            ("absolute", "h0 = Constant <value = float[1] {0.5}> () h = CastLike(h0, x) d = Abs(z) c = Less(d, h)"),
        )
    ),
    model(
        "If",
        "if-guarded-all",
        """g (float[3] x) => (float[3] y) {
          n = ReduceMin <keepdims = 0> (x)
          h0 = Constant <value = float {0.25}> ()
          h = CastLike(h0, x)
          c = Greater(n, h)
          q = Neg(x)
          y = If (c) <then_branch = t () => (float[3] a) { a = Div(x, q) }, else_branch = e () => (float[3] b) { b = Abs(q) }>
        }""",
        np.array([0.5, 0.4, 2.0], np.float32),
    ),
]

_LOOP = """g (float[2] x, float[2] a, int64 m{extra}) => (float[2] y, float[N,2] s) {{
  t = Constant <value = bool {{1}}> ()
  {before}
  y, s = Loop ({count}, {condition}, x) <body = body (int64 i, bool ci, float[2] v) => (bool co, float[2] w, float[2] o) {{
    {body}
  }}>
}}"""


def loop(name: str, body: str, *inputs: Any, **options: Any) -> Seed:
    """A loop over one vector with one scan output."""
    text = _LOOP.format(
        extra=options.pop("extra", ""),
        before=options.pop("before", ""),
        count=options.pop("count", "m"),
        condition=options.pop("condition", "t"),
        body=body,
    )
    return model("Loop", f"loop-{name}", text, *inputs, **options)


_X, _A = numbers(2), numbers(2)
_LIMITED = "least = Constant <value = int64 {0}> () most = Constant <value = int64 {5}> () k = Clip(m, least, most)"
LOOPS = [
    *(
        loop("exact", "co = Identity(ci) p = Mul(v, a) w = Add(p, x) o = Identity(v)", _X, _A, integer(4), opset=opset)
        for opset in (7, 11, 13, 16, 21, 25)
    ),
    loop("squares", "co = Identity(ci) w = Mul(v, v) o = Add(v, a)", _X, _A, integer(6)),
    loop("reciprocal", "co = Identity(ci) w = Reciprocal(v) o = Sqrt(v)", _X, _A, integer(2)),
    loop(
        "trip-count-varies",
        "co = Identity(ci) w = Add(v, a) o = Mul(v, v)",
        _X,
        _A,
        integer(3),
        before=_LIMITED,
        count="k",
        vary=("x", "a", "m"),
        oracle="runtime",
    ),
    loop("no-trip", "co = Identity(ci) w = Add(v, a) o = Exp(v)", _X, _A, integer(0), oracle="runtime"),
    loop(
        "while",
        "w = Add(v, v) n = ReduceMax <keepdims = 0> (w) h = ReduceMax <keepdims = 0> (a) co = Less(n, h) o = Sub(w, a)",
        np.array([0.3, 0.1], np.float32),
        np.array([8.0, 1.0], np.float32),
        integer(12),
    ),
    loop(
        "condition-given",
        "co = Identity(ci) w = Mul(v, a) o = Identity(w)",
        _X,
        _A,
        integer(3),
        np.array(False),
        extra=", bool c",
        condition="c",
        vary=("x", "a", "c"),
        oracle="runtime",
    ),
    loop(
        "for-without-condition",
        "co = Identity(ci) w = Mul(v, a) o = Add(v, a)",
        _X,
        _A,
        integer(3),
        condition='""',
        oracle="runtime",
    ),
    loop(
        "until-counted",
        "four = Constant <value = int64 {4}> () co = Less(i, four) w = Sub(v, a) o = Neg(v)",
        _X,
        _A,
        integer(0),
        count='""',
    ),
    loop("iteration-number", "co = Identity(ci) f = CastLike(i, v) w = Add(v, f) o = Mul(f, a)", _X, _A, integer(5)),
    loop(
        "long-clip",
        "co = Identity(ci) z = Sub(a, a) l = Min(a, z) h = Max(a, z) p = Sub(v, x) q = Max(p, l) w = Min(q, h) o = Mul(w, w)",
        _X,
        _A,
        integer(600),
    ),
    loop("long-tanh", "co = Identity(ci) p = Mul(v, a) w = Tanh(p) o = Add(w, a)", _X, _A, integer(600)),
    loop("long-drift", "co = Identity(ci) w = Add(v, a) o = Identity(v)", _X, _A, integer(600)),
    loop("outer-output", "co = Identity(ci) w = Add(v, a) o = Identity(x)", _X, _A, integer(3)),
    model(
        "Loop",
        "loop-nested",
        """g (float[2] x, float[2] a, int64 m) => (float[2] y) {
          t = Constant <value = bool {1}> ()
          y = Loop (m, t, x) <body = outer (int64 i, bool ci, float[2] v) => (bool co, float[2] w) {
            co = Identity(ci)
            u = Mul(v, a)
            w = Loop (m, ci, u) <body = inner (int64 j, bool di, float[2] p) => (bool do, float[2] q) {
              do = Identity(di)
              r = Sub(p, u)
              q = Add(r, x)
            }>
          }>
        }""",
        _X,
        _A,
        integer(3),
    ),
    *(
        model(
            "Loop",
            f"loop-growing-{m}",
            """g (float[2] x, float[2] a, int64 m) => (float[N] y) {
              t = Constant <value = bool {1}> ()
              y = Loop (m, t, x) <body = b (int64 i, bool ci, float[K] v) => (bool co, float[L] w) {
                co = Identity(ci)
                w = Concat <axis = 0> (v, a)
              }>
            }""",
            _X,
            _A,
            integer(m),
        )
        for m in (3, 600)
    ),
    model(
        "Loop",
        "loop-sequence",
        """g (float[2] x, float[2] a, int64 m) => (float[K,2] y, int64 n) {
          t = Constant <value = bool {1}> ()
          first = SequenceConstruct(x)
          s = Loop (m, t, first) <body = b (int64 i, bool ci, seq(float[2]) v) => (bool co, seq(float[2]) w) {
            co = Identity(ci)
            zero = Constant <value = int64 {0}> ()
            e = SequenceAt(v, zero)
            f = Add(e, a)
            w = SequenceInsert(v, f)
          }>
          y = ConcatFromSequence <axis = 0, new_axis = 1> (s)
          n = SequenceLength(s)
        }""",
        _X,
        _A,
        integer(3),
    ),
    model(
        "Loop",
        "loop-branch-inside",
        """g (float[2] x, float[2] a, int64 m) => (float[2] y) {
          t = Constant <value = bool {1}> ()
          y = Loop (m, t, x) <body = b (int64 i, bool ci, float[2] v) => (bool co, float[2] w) {
            co = Identity(ci)
            e = ReduceMax <keepdims = 0> (v)
            z = Sub(e, e)
            c = Greater(e, z)
            w = If (c) <then_branch = p () => (float[2] p1) { p1 = Sub(v, a) }, else_branch = q () => (float[2] q1) { q1 = Add(v, x) }>
          }>
        }""",
        _X,
        _A,
        integer(4),
    ),
    *(
        model(
            "Loop",
            f"loop-counted-{name}",
            f"""g (float[2] x, float[2] a, int64 m) => (float[2] y, int64 n) {{
              t = Constant <value = bool {{1}}> ()
              first = Constant <value = int64 {{{first}}}> ()
              least = Constant <value = int64 {{1}}> () most = Constant <value = int64 {{{limit}}}> () k = Clip(m, least, most)
              y, n = Loop ("", t, x, first) <body = b (int64 i, bool ci, float[2] v, int64 j) => (bool co, float[2] w, int64 l) {{
                step = Constant <value = int64 {{{step}}}> ()
                l = Add(j, step)
                {body}
              }}>
            }}""",
            _X,
            _A,
            integer(7),
            vary=("x", "a", "m"),
        )
        for name, first, step, limit, body in (
            ("sum", 0, 1, 9, "co = Less(l, k) w = Add(v, a)"),
            ("long-sum", 0, 2, 700, "co = Less(l, k) w = Add(v, a)"),
            ("late", 0, 3, 40, "co = LessOrEqual(j, k) f = CastLike(l, v) p = Div(a, f) w = Add(v, p)"),
            (
                "down",
                30,
                -1,
                9,
                "co = Greater(l, k) h0 = Constant <value = float {0.75}> () h = CastLike(h0, v) p = Mul(v, h) w = Add(p, a)",
            ),
        )
    ),
    loop(
        "while-small",
        "n = ReduceMax <keepdims = 0> (v) w = Add(v, a) q = ReduceMax <keepdims = 0> (w) h0 = Constant <value = float {3.0}> () h = CastLike(h0, v) "
        "co = Less(q, h) o = Sub(h, v)",
        _X,
        np.array([0.5, 0.25], np.float32),
        integer(30),
    ),
    loop("long-product", "co = Identity(ci) w = Mul(v, a) o = Identity(v)", _X, np.array([0.99, 1.001], np.float32), integer(600)),
]

_SCAN = """g (float[2] h, float[{shape}] x) => (float[2] last, float[{output}] y) {{
  last, y = Scan <num_scan_inputs = 1{attributes}, body = b (float[2] s, float[2] e) => (float[2] n, float[2] o) {{
    {body}
  }}> (h, x)
}}"""


def scan(name: str, body: str, shape: tuple[int, ...], attributes: str = "", output: str = "T,2", **options: Any) -> Seed:
    """A scan over vectors with one state and one scan output."""
    text = _SCAN.format(shape=",".join(map(str, shape)), output=output, attributes=attributes, body=body)
    return model("Scan", f"scan-{name}", text, numbers(2), numbers(*shape), **options)


_CELL = "p = Mul(s, e) q = Add(p, e) n = Tanh(q) o = Identity(n)"
#: Without functions that ONNX Runtime evaluates less exactly than the default target grants.
_EXACT = "p = Mul(s, e) n = Sub(p, e) o = Abs(n)"
SCANS = [
    *(scan("cell", _CELL, (4, 2), opset=opset) for opset in (9, 11, 16, 21, 25)),
    scan("sum", "n = Add(s, e) o = Mul(n, e)", (5, 2)),
    scan("reversed", _EXACT, (4, 2), ", scan_input_directions = [1]", oracle="runtime"),
    scan("prepended", _EXACT, (4, 2), ", scan_output_directions = [1]", oracle="runtime"),
    scan("last-axis", _EXACT, (2, 4), ", scan_input_axes = [-1], scan_output_axes = [1]", "2,T", oracle="runtime"),
    scan("negative-output-axis", _EXACT, (2, 3), ", scan_input_axes = [1], scan_output_axes = [-1]", "2,T", oracle="runtime"),
    scan(
        "all-turned",
        "n = Sub(s, e) o = Abs(n)",
        (2, 4),
        ", scan_input_axes = [1], scan_input_directions = [1], scan_output_directions = [1], scan_output_axes = [1]",
        "2,T",
        oracle="runtime",
    ),
    scan("long-cell", _CELL, (600, 2)),
    scan("long-sum", "n = Add(s, e) o = Identity(s)", (600, 2)),
    scan("one-step", _CELL, (1, 2)),
    model(
        "Scan",
        "scan-two-inputs",
        """g (float[2] h, float[3,2] x, float[3,2] z, float[2] w) => (float[2] last, float[3,2] y, float[3] r) {
          last, y, r = Scan <num_scan_inputs = 2, scan_input_directions = [0, 1],
            body = b (float[2] s, float[2] e, float[2] f) => (float[2] n, float[2] o, float k) {
              p = Mul(e, w)
              n = Add(s, p)
              o = Sub(n, f)
              k = ReduceMax <keepdims = 0> (o)
          }> (h, x, z)
        }""",
        numbers(2),
        numbers(3, 2),
        numbers(3, 2),
        numbers(2),
        oracle="runtime",
    ),
    model(
        "Scan",
        "scan-8",
        """g (float[2,3] h, float[2,4,3] x) => (float[2,3] last, float[2,4,3] y) {
          last, y = Scan <num_scan_inputs = 1, body = b (float[3] s, float[3] e) => (float[3] n, float[3] o) {
            n = Add(s, e)
            o = Mul(n, e)
          }> ("", h, x)
        }""",
        numbers(2, 3),
        numbers(2, 4, 3),
        opset=8,
        oracle="runtime",
    ),
    model(
        "Scan",
        "scan-8-lengths",
        """g (int64[2] l, float[2,3] h, float[2,4,3] x) => (float[2,3] last, float[2,4,3] y) {
          last, y = Scan <num_scan_inputs = 1, directions = [1], body = b (float[3] s, float[3] e) => (float[3] n, float[3] o) {
            n = Add(s, e)
            o = Mul(n, e)
          }> (l, h, x)
        }""",
        np.array([2, 4], np.int64),
        numbers(2, 3),
        numbers(2, 4, 3),
        opset=8,
        oracle="runtime",
    ),
]

MAPS = [
    model(
        "SequenceMap",
        "map-split",
        """g (float[4,2] x, float[1,2] a) => (float[4,2] y) {
          s = SplitToSequence <axis = 0> (x)
          u = SequenceMap (s, a) <body = b (float[1,2] e, float[1,2] c) => (float[1,2] o) { p = Mul(e, c) o = Abs(p) }>
          y = ConcatFromSequence <axis = 0> (u)
        }""",
        numbers(4, 2),
        numbers(1, 2),
        opset=17,
        oracle="runtime",
    ),
    model(
        "SequenceMap",
        "map-any-length",
        """g (float[4,2] x, bool c) => (float[N,2] y) {
          s = If (c) <
            then_branch = t () => (seq(float[K,2]) a) { a = SplitToSequence <axis = 0> (x) },
            else_branch = e () => (seq(float[L,2]) b) { b = SequenceConstruct(x) }>
          u = SequenceMap (s) <body = f (float[M,2] e) => (float[M,2] o) { o = Sub(e, e) }>
          y = ConcatFromSequence <axis = 0> (u)
        }""",
        numbers(4, 2),
        np.array(True),
        opset=17,
        vary=("x", "c"),
        oracle="runtime",
    ),
]

SEEDS = [*IFS, *LOOPS, *SCANS, *MAPS]
