"""Small models for tests, written in ONNX's own text form."""

from __future__ import annotations

import onnx
import onnx.parser

from tensorproof import Report, check


def model(signature: str, body: str, *, opset: int = 18, ir_version: int = 8) -> onnx.ModelProto:
    """`signature` is `(float[2,3] x) => (float y)`; `body` are statements `e = Exp(x)`, one a line.

    Each node is named after its first output, so that tests can say where a finding belongs.
    """
    text = f'<ir_version: {ir_version}, opset_import: ["" : {opset}]>\nmain {signature}\n{{\n{body}\n}}'
    proto = onnx.parser.parse_model(text)
    _name(proto.graph)
    return proto


def _name(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        node.name = node.name or node.output[0]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _name(attribute.g)


def static(proto: onnx.ModelProto, **options: object) -> Report:
    """The static part of a check."""
    return check(proto, confirm=False, **options)  # type: ignore[arg-type]


def found(report: Report) -> set[tuple[str, str]]:
    """Rule and node of every finding that is a defect of its own."""
    return {(f.rule.code, f.node) for f in report.roots()}


def with_bodies() -> list[onnx.ModelProto]:
    """Models with sub-graphs: a Loop, an If, and one inside the other."""
    loop = model(
        "(float[2] x) => (float[2] y)",
        """
        n = Constant<value_int=6>()
        t = Constant<value = bool {1}>()
        y = Loop(n, t, x) <body = step (int64 i, bool c, float[2] s) => (bool k, float[2] out) {
            k = Identity(c)
            out = Mul(s, s)
        }>
        """,
    )
    branch = model(
        "(float[2] x, bool c) => (float[2] y)",
        """
        y = If(c) <then_branch = a () => (float[2] left) { left = Log(x) },
                   else_branch = b () => (float[2] right) { right = Abs(x) }>
        """,
    )
    nested = model(
        "(float[2] x) => (float[2] y)",
        """
        n = Constant<value_int=3>()
        t = Constant<value = bool {1}>()
        y = Loop(n, t, x) <body = step (int64 i, bool c, float[2] s) => (bool k, float[2] out) {
            k = Identity(c)
            zero = Constant<value_int=0>()
            first = Equal(i, zero)
            out = If(first) <then_branch = a () => (float[2] left) { left = Sqrt(s) },
                             else_branch = b () => (float[2] right) { right = Exp(s) }>
        }>
        """,
    )
    return [loop, branch, nested]
