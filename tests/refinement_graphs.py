"""Graphs that one step of the refinement proves and the steps before it cannot, each with a defect that looks alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.models import model


@dataclass(frozen=True)
class Example:
    """`safe` is proven at `effort` by `step` and not below; `defective` is flagged at every effort, at node y."""

    name: str
    effort: int
    step: str
    safe: onnx.ModelProto
    defective: onnx.ModelProto
    ranges: dict[str, Any]
    #: The ranges of the defect, where they are what makes it one.
    defective_ranges: dict[str, Any] | None = None


def constant(name: str, value: float) -> str:
    return f"{name} = Constant<value_float={value}>()\n"


def with_weights(proto: onnx.ModelProto, **weights: np.ndarray) -> onnx.ModelProto:
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return proto


def guarded_logarithm(comparison: str) -> onnx.ModelProto:
    """log(where(x > 0, 2 x, 1)); with >= the zero comes through."""
    body = constant("zero", 0.0) + constant("one", 1.0) + constant("two", 2.0)
    body += f"c = {comparison}(x, zero)\nt = Mul(x, two)\ns = Where(c, t, one)\ny = Log(s)"
    return model("(float[4,5] x) => (float[4,5] y)", body)


def guarded_difference(first: str) -> onnx.ModelProto:
    """log(0.1 + |a - b|) with the absolute value written as a selection; the wrong way round it is -|a - b|."""
    second = "n" if first == "d" else "d"
    body = constant("eps", 0.1)
    body += f"c = Greater(a, b)\nd = Sub(a, b)\nn = Sub(b, a)\nw = Where(c, {first}, {second})\nq = Add(w, eps)\ny = Log(q)"
    return model("(float[3,4] a, float[3,4] b) => (float[3,4] y)", body)


#: a^2 + b^2 - a b + c: at least c, which the range of no single operand shows.
FORM = "p = Mul(a, b)\naa = Mul(a, a)\nbb = Mul(b, b)\ns = Add(aa, bb)\nd = Sub(s, p)\nq = Add(d, c)\n"


def form_of_tensors(offset: float, *, summed: bool = False) -> onnx.ModelProto:
    """The logarithm of the form, element by element, or of its sum."""
    if summed:
        body = FORM + "t = ReduceSum<keepdims=0>(q)\ny = Log(t)"
        return model("(float[5,6] a, float[5,6] b) => (float y)", constant("c", offset) + body)
    return model("(float[5,6] a, float[6] b) => (float[5,6] y)", constant("c", offset) + FORM + "y = Log(q)")


def form_of_two(offset: float) -> onnx.ModelProto:
    """The form of two elements of one small input."""
    body = constant("c", offset) + "i = Constant<value_int=0>()\nj = Constant<value_int=1>()\n"
    return model("(float[2] x) => (float y)", body + "a = Gather(x, i)\nb = Gather(x, j)\n" + FORM + "y = Log(q)")


def in_a_loop(offset: float) -> onnx.ModelProto:
    """The form of outer values, inside of a body."""
    body = f"""
        n = Constant<value_int=3>()
        t = Constant<value = bool {{1}}>()
        z = Constant<value_float=0.0>()
        c = Constant<value_float={offset}>()
        out = Loop(n, t, z) <body = step (int64 i, bool k, float v) => (bool l, float w) {{
            l = Identity(k)
            {FORM}
            y = Log(q)
            w = Add(v, y)
        }}>
        """
    return model("(float a, float b) => (float out)", body)


def layers(margin: float, activation: str = "Relu", seed: int = 0) -> onnx.ModelProto:
    """log(W relu(V x + a) + b + margin)."""
    rng = np.random.default_rng(seed)
    body = constant("m", margin) + f"g = Gemm(x, V, a)\nh = {activation}(g)\no = Gemm(h, W, b)\nq = Add(o, m)\ny = Log(q)"
    return with_weights(
        model("(float[1,4] x) => (float[1,3] y)", body),
        V=rng.normal(0, 0.5, (4, 8)).astype(np.float32),
        a=rng.normal(0, 0.2, 8).astype(np.float32),
        W=rng.normal(0, 0.5, (8, 3)).astype(np.float32),
        b=rng.normal(0, 0.2, 3).astype(np.float32),
    )


def one_strong_input(seed: int = 0) -> onnx.ModelProto:
    """log(x W) where one element of x decides the sign: only the weights themselves tell it from the others."""
    weights = np.abs(np.random.default_rng(seed).normal(0, 1, (160, 128))) + 0.5
    weights[0] = 40.0
    return with_weights(model("(float[1,160] x) => (float[1,128] y)", "p = MatMul(x, W)\ny = Log(p)"), W=weights.astype(np.float32))


def strong_input(weak: float) -> dict[str, Any]:
    return {"x": {"channels": [[1.0, 2.0], *[[-weak, weak]] * 159], "axis": 1}}


def two_lines() -> onnx.ModelProto:
    """log((2 x + 1) - 2 x): one, unless x is so large that the addition of one is lost."""
    body = constant("two", 2.0) + constant("one", 1.0)
    return model("(float[6] x) => (float[6] y)", body + "t = Mul(x, two)\na = Add(t, one)\nd = Sub(a, t)\ny = Log(d)")


def rotations(scale: float) -> onnx.ModelProto:
    """Orthogonal matrices one after the other, in float16, behind a normalisation: lengths stay as they are."""
    rng = np.random.default_rng(0)
    width, count = 64, 7
    body, last, weights = "n = LayerNormalization(x, g)\n", "n", {"g": np.ones(width, np.float16)}
    for index in range(count):
        matrix, _ = np.linalg.qr(rng.normal(size=(width, width)))
        name = "y" if index == count - 1 else f"p{index}"
        weights[f"W{index}"] = (scale * matrix).astype(np.float16)
        body += f"{name} = MatMul({last}, W{index})\n"
        last = name
    return with_weights(model(f"(float16[2,{width}] x) => (float16[2,{width}] y)", body), **weights)


EXAMPLES = [
    Example("rotations", 1, "spectral norms", rotations(1.0), rotations(5.0), {"x": (-10, 10)}),
    Example("strong input", 1, "exact weights", one_strong_input(), one_strong_input(), strong_input(0.05), strong_input(0.9)),
    Example("two lines", 1, "affine forms", two_lines(), two_lines(), {"x": (-1000, 1000)}, {"x": (-1e8, 1e8)}),
    Example("guard", 2, "predicate splitting", guarded_logarithm("Greater"), guarded_logarithm("GreaterOrEqual"), {"x": (-3, 3)}),
    Example("difference", 2, "predicate splitting", guarded_difference("d"), guarded_difference("n"), {"a": (-3, 3), "b": (-3, 3)}),
    Example("form of tensors", 2, "bisection", form_of_tensors(1.0), form_of_tensors(0.0), {"*": (-1, 1)}),
    Example("sum of forms", 2, "bisection", form_of_tensors(1.0, summed=True), form_of_tensors(0.0, summed=True), {"*": (-1, 1)}),
    Example("form of two", 2, "bisection", form_of_two(1.0), form_of_two(0.0), {"x": (-1, 1)}),
    Example("in a loop", 2, "bisection", in_a_loop(1.0), in_a_loop(0.0), {"*": (-1, 1)}),
    Example("layers", 3, "linear relaxation", layers(2.5), layers(1.0), {"x": (-1, 1)}),
    Example("layers of tanh", 3, "linear relaxation", layers(3.0, "Tanh"), layers(1.5, "Tanh"), {"x": (-1, 1)}),
]
