"""Forms that are safe although intervals alone cannot show it, each beside a near miss that is a real defect.

Written by hand as small ONNX graphs. `SAFE` gives every pair a name: the safe model and its ranges, the near miss and its
ranges, and the rule that the near miss must keep. `idiom` names what proves the safe model, where blocks alone do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.numpy_helper

from tests.models import model

Ranges = Mapping[str, Any]
Constants = Mapping[str, npt.NDArray[Any]]

#: Logits that no exponential survives.
WIDE = {"x": (-1e4, 1e4)}
MILD = {"x": (-50.0, 50.0)}


@dataclass(frozen=True)
class Case:
    """A safe graph and its near miss, as signature and body in ONNX's text form."""

    signature: str
    body: str
    near_body: str
    rule: str
    ranges: Ranges = field(default_factory=lambda: WIDE)
    near_ranges: Ranges | None = None
    near_signature: str | None = None
    idiom: str | None = None
    constants: Constants = field(default_factory=dict[str, npt.NDArray[Any]])
    near_constants: Constants | None = None

    @cached_property
    def safe(self) -> onnx.ModelProto:
        return _with(model(self.signature, self.body), self.constants)

    @cached_property
    def near_miss(self) -> onnx.ModelProto:
        constants = self.constants if self.near_constants is None else self.near_constants
        return _with(model(self.near_signature or self.signature, self.near_body), constants)

    @property
    def ranges_of_near_miss(self) -> Ranges:
        return self.ranges if self.near_ranges is None else self.near_ranges


def _with(proto: onnx.ModelProto, constants: Constants) -> onnx.ModelProto:
    """The model with initialisers, and with its Constant nodes in front: bodies name them last."""
    nodes = sorted(proto.graph.node, key=lambda node: node.op_type != "Constant")
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    for name, array in constants.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return proto


def _c(name: str, value: float) -> str:
    return f"{name} = Constant<value = float {{{value!r}}}>()\n"


X = "(float[4,8] x) => (float y)"
XZ = "(float[4,8] x, float[4,8] z) => (float y)"
LAST = {"last": np.array([-1], np.int64)}
FIRST = {"first": np.array([0], np.int64)}
AXES = LAST | FIRST
ONE = _c("one", 1.0)
ZERO = _c("zero", 0.0)
EPS = _c("eps", 1e-6)
HALF = _c("half", 0.5)
TWO = _c("two", 2.0)

SOFTMAX = """
    m = ReduceMax(x, last)
    d = Sub(x, m)
    e = Exp(d)
    s = ReduceSum(e, last)
    y = Div(e, s)
"""
WRONG_AXIS = SOFTMAX.replace("ReduceMax(x, last)", "ReduceMax(x, first)")
LOG_SUM_EXP = """
    m = ReduceMax(x, last)
    d = Sub(x, m)
    e = Exp(d)
    s = ReduceSum(e, last)
    l = Log(s)
    y = Add(m, l)
"""
POSITIVE = {"x": (1e-30, 1e30)}
PAIR = {"x": (1e-30, 1e30), "z": (1e-30, 1e30)}
PROBABILITIES = {"x": (0.0, 1.0), "z": (0.0, 1.0)}
LOGITS = {"x": (-200.0, 200.0), "z": (0.0, 1.0)}

SAFE: dict[str, Case] = {
    # -- softmax and log-sum-exp ---------------------------------------------------------------------------------------
    "log-softmax operator": Case(
        X, "y = LogSoftmax<axis=-1>(x)", "p = Softmax<axis=-1>(x)\n y = Log(p)", "NUM101"
    ),
    "softmax by hand, without maximum": Case(
        X, SOFTMAX, "e = Exp(x)\n s = ReduceSum(e, last)\n y = Div(e, s)", "NUM201", idiom="sum-of-shifted-exponentials",
        constants={"last": np.array([1], np.int64)},
    ),
    "softmax by hand, maximum over another axis": Case(
        X, SOFTMAX, WRONG_AXIS, "NUM103", idiom="sum-of-shifted-exponentials", constants=AXES
    ),
    "softmax by hand, maximum of another tensor": Case(
        XZ, SOFTMAX.replace("y = Div(e, s)", "w = Div(e, s)\n y = Add(w, z)"),
        SOFTMAX.replace("ReduceMax(x", "ReduceMax(z").replace("y = Div(e, s)", "w = Div(e, s)\n y = Add(w, z)"),
        "NUM201", ranges=WIDE | {"z": (-1e4, 1e4)}, idiom="ordered-difference", constants=LAST,
    ),
    "softmax by hand, minimum": Case(
        X, SOFTMAX, SOFTMAX.replace("ReduceMax", "ReduceMin"), "NUM201", idiom="ordered-difference", constants=LAST
    ),
    "softmax by hand, spelled otherwise": Case(
        X,
        """
        m = ReduceMax<keepdims=0>(x, last)
        u = Unsqueeze(m, last)
        n = Neg(u)
        d = Add(n, x)
        e = Exp(d)
        s = ReduceSum<keepdims=0>(e, last)
        t = Unsqueeze(s, last)
        r = Reciprocal(t)
        q = Mul(e, r)
        w = Sub(two, q)
        y = Log(w)
        two = Constant<value = float {1.5}>()
        """,
        """
        m = ReduceMax<keepdims=0>(x, last)
        u = Unsqueeze(m, last)
        d = Add(u, x)
        e = Exp(d)
        s = ReduceSum<keepdims=0>(e, last)
        t = Unsqueeze(s, last)
        r = Reciprocal(t)
        y = Mul(e, r)
        """,
        "NUM201", idiom="ordered-quotient", constants=LAST,
    ),
    "softmax by hand over all elements": Case(
        X,
        "m = ReduceMax<keepdims=0>(x)\n d = Sub(x, m)\n e = Exp(d)\n s = ReduceSum<keepdims=0>(e)\n y = Div(e, s)",
        "m = ReduceMean<keepdims=0>(x)\n d = Sub(x, m)\n e = Exp(d)\n s = ReduceSum<keepdims=0>(e)\n y = Div(e, s)",
        "NUM201", idiom="sum-of-shifted-exponentials",
    ),
    "softmax by hand of equal nodes": Case(
        XZ,
        """
        a = Mul(x, z)
        b = Mul(x, z)
        m = ReduceMax(a, last)
        d = Sub(b, m)
        e = Exp(d)
        s = ReduceSum(e, last)
        y = Div(e, s)
        """,
        """
        a = Mul(x, z)
        b = Mul(x, x)
        m = ReduceMax(a, last)
        d = Sub(b, m)
        e = Exp(d)
        s = ReduceSum(e, last)
        y = Div(e, s)
        """,
        "NUM201", ranges={"x": (-100.0, 100.0), "z": (-100.0, 100.0)}, idiom="ordered-difference", constants=LAST,
    ),
    "log-sum-exp by hand": Case(
        X, LOG_SUM_EXP, "e = Exp(x)\n s = ReduceSum(e, last)\n y = Log(s)", "NUM201", idiom="sum-of-shifted-exponentials",
        constants=LAST,
    ),
    "log-softmax through log-sum-exp by hand": Case(
        X,
        LOG_SUM_EXP.replace("y =", "t =") + "p = Sub(x, t)\n q = Exp(p)\n y = Sqrt(q)",
        LOG_SUM_EXP.replace("y =", "t =") + "p = Sub(t, x)\n q = Exp(p)\n y = Sqrt(q)",
        "NUM201", idiom="ordered-difference", constants=LAST,
    ),
    "exponential of x minus the operator's log-sum-exp": Case(
        X, "t = ReduceLogSumExp(x, last)\n p = Sub(x, t)\n y = Exp(p)", "m = ReduceMin(x, last)\n p = Sub(x, m)\n y = Exp(p)",
        "NUM201", idiom="ordered-difference", constants=LAST,
    ),
    "exponential of log-softmax": Case(
        X, "p = LogSoftmax<axis=-1>(x)\n e = Exp(p)\n d = Sub(two, e)\n y = Log(d)\n" + TWO,
        "p = LogSoftmax<axis=-1>(x)\n n = Neg(p)\n e = Exp(n)\n d = Add(two, e)\n y = Log(d)\n" + TWO, "NUM201",
    ),
    # -- ratios --------------------------------------------------------------------------------------------------------
    "p over its sum": Case(
        X, "s = ReduceSum(x, last)\n q = Div(x, s)\n y = Asin(q)", "s = ReduceSum(x, last)\n q = Div(x, s)\n y = Asin(q)", "NUM103",
        ranges=POSITIVE, near_ranges={"x": (0.0, 1.0)}, idiom="ordered-quotient", constants=LAST,
    ),
    "p over the sum of another tensor": Case(
        XZ, "s = ReduceSum(x, last)\n q = Div(x, s)\n w = Asin(q)\n y = Add(w, z)",
        "s = ReduceSum(z, last)\n q = Div(x, s)\n w = Asin(q)\n y = Add(w, z)", "NUM202",
        ranges=PAIR, idiom="ordered-quotient", constants=LAST,
    ),
    "p over its sum along another axis": Case(
        X, "s = ReduceSum(x, last)\n q = Div(x, s)\n y = Asin(q)",
        "s = ReduceSum<keepdims=0>(x, last)\n u = Reshape(s, shape)\n q = Div(x, u)\n y = Asin(q)\n" , "NUM105",
        ranges={"x": (1e-3, 1.0)}, near_signature="(float[8,8] x) => (float y)", idiom="ordered-quotient",
        constants=LAST, near_constants=LAST | {"shape": np.array([1, 8], np.int64)},
    ),
    "a over a + b": Case(
        XZ, "s = Add(x, z)\n q = Div(x, s)\n y = Asin(q)", "s = Sub(x, z)\n q = Div(x, s)\n y = Identity(q)", "NUM103",
        ranges=PAIR, idiom="ordered-quotient",
    ),
    "a over a + b that may be zero": Case(
        XZ, "s = Add(z, x)\n r = Reciprocal(s)\n q = Mul(r, x)\n h = Mul(q, half)\n y = Asin(h)\n" + HALF,
        "s = Add(z, x)\n r = Reciprocal(s)\n q = Mul(r, x)\n h = Mul(q, half)\n y = Asin(h)\n" + HALF, "NUM103",
        ranges={"x": (1e-20, 1e20), "z": (1e-20, 1e20)}, near_ranges={"x": (0.0, 1e20), "z": (0.0, 1e20)}, idiom="ordered-quotient",
    ),
    "x over 1 + |x|": Case(
        X, "a = Abs(x)\n b = Add(one, a)\n q = Div(x, b)\n y = Asin(q)\n" + ONE,
        "b = Add(one, x)\n q = Div(x, b)\n y = Identity(q)\n" + ONE, "NUM103", ranges={"x": (-1e30, 1e30)}, idiom="ordered-quotient",
    ),
    "x over 1 + max(x, -x)": Case(
        X, "n = Neg(x)\n a = Max(n, x)\n b = Add(one, a)\n q = Div(x, b)\n y = Acos(q)\n" + ONE,
        "n = Neg(x)\n a = Min(n, x)\n b = Add(one, a)\n q = Div(x, b)\n y = Identity(q)\n" + ONE, "NUM103",
        ranges={"x": (-1e30, 1e30)}, idiom="ordered-quotient",
    ),
    "x over the root of 1 + x^2": Case(
        X, "s = Mul(x, x)\n t = Add(s, one)\n r = Sqrt(t)\n q = Div(x, r)\n h = Mul(q, half)\n y = Asin(h)\n" + ONE + HALF,
        "s = Mul(x, x)\n t = Sub(s, one)\n r = Sqrt(t)\n q = Div(x, r)\n h = Mul(q, half)\n y = Identity(h)\n" + ONE + HALF,
        "NUM102", ranges={"x": (-1e15, 1e15)}, idiom="ordered-quotient",
    ),
    "x over its largest magnitude, guarded": Case(
        X, "a = Abs(x)\n m = ReduceMax(a, last)\n g = Max(m, eps)\n q = Div(x, g)\n y = Asin(q)\n" + EPS,
        "a = Abs(x)\n m = ReduceMax(a, last)\n q = Div(x, m)\n y = Asin(q)", "NUM103", idiom="ordered-quotient", constants=LAST,
    ),
    "x over its sum of magnitudes, guarded": Case(
        X, "m = ReduceL1(x, last)\n g = Add(m, eps)\n q = Div(x, g)\n y = Asin(q)\n" + EPS,
        "m = ReduceL1(x, last)\n q = Div(x, m)\n y = Asin(q)", "NUM103", idiom="ordered-quotient", constants=LAST,
    ),
    # -- rectifiers ----------------------------------------------------------------------------------------------------
    "exp(h - relu(h))": Case(
        X, "r = Relu(x)\n d = Sub(x, r)\n y = Exp(d)", "r = Relu(x)\n d = Add(x, r)\n y = Exp(d)", "NUM201", idiom="ordered-difference"
    ),
    "exp(h - max(h, 0))": Case(
        X, "r = Max(zero, x)\n d = Sub(x, r)\n y = Exp(d)\n" + ZERO, "r = Min(zero, x)\n d = Sub(x, r)\n y = Exp(d)\n" + ZERO,
        "NUM201", idiom="ordered-difference",
    ),
    "exp(h - clip(h, 0))": Case(
        X, "r = Clip(x, zero)\n d = Sub(x, r)\n y = Exp(d)\n" + ZERO,
        "r = Clip(x, zero, one)\n d = Sub(x, r)\n y = Exp(d)\n" + ZERO + ONE, "NUM201", idiom="ordered-difference",
    ),
    "root of relu(h) - h": Case(
        X, "r = Relu(x)\n d = Sub(r, x)\n y = Sqrt(d)", "r = Relu(x)\n d = Sub(x, r)\n y = Sqrt(d)", "NUM102", idiom="ordered-difference"
    ),
    "exp(h - |h|)": Case(
        X, "r = Abs(x)\n d = Sub(x, r)\n y = Exp(d)", "r = Abs(x)\n d = Add(x, r)\n y = Exp(d)", "NUM201", idiom="ordered-difference"
    ),
    # -- losses --------------------------------------------------------------------------------------------------------
    "cross entropy with logits": Case(
        XZ,
        """
        r = Relu(x)
        p = Mul(x, z)
        d = Sub(r, p)
        a = Abs(x)
        n = Neg(a)
        e = Exp(n)
        f = Add(one, e)
        l = Log(f)
        b = Add(d, l)
        y = Sqrt(b)
        """ + ONE,
        """
        r = Relu(x)
        p = Mul(x, z)
        d = Sub(r, p)
        e = Exp(x)
        f = Add(one, e)
        l = Log(f)
        y = Add(d, l)
        """ + ONE,
        "NUM201", ranges=LOGITS, idiom="ordered-difference",
    ),
    "softplus": Case(
        X, "r = Max(x, zero)\n a = Abs(x)\n n = Neg(a)\n e = Exp(n)\n f = Add(e, one)\n l = Log(f)\n y = Add(r, l)\n" + ONE + ZERO,
        "e = Exp(x)\n f = Add(e, one)\n y = Log(f)\n" + ONE, "NUM201", ranges={"x": (-200.0, 200.0)},
    ),
    "log-sigmoid": Case(
        X, "r = Min(x, zero)\n a = Abs(x)\n n = Neg(a)\n e = Exp(n)\n f = Add(e, one)\n l = Log(f)\n y = Sub(r, l)\n" + ONE + ZERO,
        "p = Sigmoid(x)\n y = Log(p)", "NUM101", ranges={"x": (-200.0, 200.0)},
    ),
    "log-sigmoid through softplus": Case(
        X, "n = Neg(x)\n s = Softplus(n)\n y = Neg(s)", "p = Sigmoid(x)\n d = Sub(one, p)\n y = Log(d)\n" + ONE, "NUM101",
        ranges={"x": (-200.0, 200.0)},
    ),
    "intersection over union of masks": Case(
        XZ,
        """
        i = Mul(x, z)
        inter = ReduceSum(i, last)
        a = ReduceSum(x, last)
        b = ReduceSum(z, last)
        s = Add(a, b)
        u = Sub(s, inter)
        g = Add(u, eps)
        y = Div(inter, g)
        """ + EPS,
        """
        i = Mul(x, z)
        inter = ReduceSum(i, last)
        a = ReduceSum(x, last)
        b = ReduceSum(z, last)
        s = Add(a, b)
        u = Sub(s, inter)
        y = Div(inter, u)
        """,
        "NUM103", ranges=PROBABILITIES, idiom="ordered-difference", constants=LAST,
    ),
    "intersection over union of boxes": Case(
        "(float[16] l, float[16] r, float[16] t, float[16] b, float[16] k, float[16] q, float[16] o, float[16] p) => (float y)",
        """
        wa0 = Sub(r, l)
        ha0 = Sub(b, t)
        wb0 = Sub(q, k)
        hb0 = Sub(p, o)
        wa = Relu(wa0)
        ha = Relu(ha0)
        wb = Relu(wb0)
        hb = Relu(hb0)
        a1 = Mul(wa, ha)
        a2 = Mul(wb, hb)
        right = Min(r, q)
        left = Max(l, k)
        bottom = Min(b, p)
        top = Max(t, o)
        w0 = Sub(right, left)
        h0 = Sub(bottom, top)
        w = Relu(w0)
        h = Relu(h0)
        inter = Mul(w, h)
        s = Add(a1, a2)
        union = Sub(s, inter)
        g = Add(union, eps)
        y = Div(inter, g)
        """ + EPS,
        """
        wa = Sub(r, l)
        ha = Sub(b, t)
        wb = Sub(q, k)
        hb = Sub(p, o)
        a1 = Mul(wa, ha)
        a2 = Mul(wb, hb)
        right = Min(r, q)
        left = Max(l, k)
        bottom = Min(b, p)
        top = Max(t, o)
        w0 = Sub(right, left)
        h0 = Sub(bottom, top)
        w = Relu(w0)
        h = Relu(h0)
        inter = Mul(w, h)
        s = Add(a1, a2)
        union = Sub(s, inter)
        g = Add(union, eps)
        y = Div(inter, g)
        """ + EPS,
        "NUM103", ranges={"*": (0.0, 640.0)}, idiom="ordered-difference",
    ),
    "intersection over union, guarded by a maximum": Case(
        XZ, "s = Sub(x, z)\n g = Max(s, eps)\n y = Div(z, g)\n" + EPS, "s = Sub(x, z)\n g = Max(s, zero)\n y = Div(z, g)\n" + ZERO, "NUM103",
        ranges=PROBABILITIES,
    ),
    "dice": Case(
        XZ,
        """
        i = Mul(x, z)
        inter = ReduceSum(i, last)
        t = Mul(two, inter)
        n = Add(t, eps)
        a = ReduceSum(x, last)
        b = ReduceSum(z, last)
        s = Add(a, b)
        g = Add(s, eps)
        y = Div(n, g)
        """ + EPS + TWO,
        """
        i = Mul(x, z)
        inter = ReduceSum(i, last)
        t = Mul(two, inter)
        a = ReduceSum(x, last)
        b = ReduceSum(z, last)
        s = Add(a, b)
        y = Div(t, s)
        """ + TWO,
        "NUM103", ranges=PROBABILITIES, constants=LAST,
    ),
    "focal loss with a clamp": Case(
        X,
        """
        p = Sigmoid(x)
        c = Clip(p, low, high)
        l = Log(c)
        m = Sub(one, c)
        k = Log(m)
        w = Pow(m, two)
        f = Mul(w, l)
        y = Add(f, k)
        """ + ONE + TWO + _c("low", 1e-6) + _c("high", 1.0 - 1e-6),
        """
        p = Sigmoid(x)
        c = Clip(p, low, high)
        l = Log(c)
        m = Sub(one, c)
        k = Log(m)
        w = Pow(m, two)
        f = Mul(w, l)
        y = Add(f, k)
        """ + ONE + TWO + _c("low", 1e-9) + _c("high", 1.0),
        "NUM101",
    ),
    "InfoNCE": Case(
        "(float[8,16] x, float[8,16] z) => (float y)",
        """
        zt = Transpose<perm=[1,0]>(z)
        c = MatMul(x, zt)
        g = Div(c, tau)
        m = ReduceMax(g, last)
        d = Sub(g, m)
        e = Exp(d)
        s = ReduceSum(e, last)
        l = Log(s)
        t = Add(m, l)
        y = Sub(t, g)
        """ + _c("tau", 0.07),
        """
        zt = Transpose<perm=[1,0]>(z)
        c = MatMul(x, zt)
        g = Div(c, tau)
        e = Exp(g)
        s = ReduceSum(e, last)
        l = Log(s)
        y = Sub(l, g)
        """ + _c("tau", 0.07),
        "NUM201", ranges={"x": (-1.0, 1.0), "z": (-1.0, 1.0)}, constants=LAST, idiom="sum-of-shifted-exponentials",
    ),
    "Kullback-Leibler divergence with a guard": Case(
        XZ, "a = Add(x, eps)\n l = Log(a)\n b = Clip(z, eps)\n k = Log(b)\n d = Sub(l, k)\n m = Mul(x, d)\n y = ReduceSum(m, last)\n" + EPS,
        "l = Log(x)\n k = Log(z)\n d = Sub(l, k)\n m = Mul(x, d)\n y = ReduceSum(m, last)\n", "NUM101",
        ranges=PROBABILITIES, constants=LAST,
    ),
    "a guard that survives in float32": Case(
        X, "d = Sub(one, x)\n g = Add(d, eps)\n y = Log(g)\n" + ONE + EPS,
        "s = Add(tiny, one)\n d = Sub(s, x)\n y = Log(d)\n" + ONE + _c("tiny", 1e-10), "NUM101", ranges={"x": (0.0, 1.0)},
    ),
    "cross entropy by hand": Case(
        XZ, "p = LogSoftmax<axis=-1>(x)\n m = Mul(z, p)\n s = ReduceSum(m, last)\n y = Neg(s)",
        "q = Softmax<axis=-1>(x)\n p = Log(q)\n m = Mul(z, p)\n s = ReduceSum(m, last)\n y = Neg(s)", "NUM101",
        ranges=LOGITS, constants=LAST,
    ),
    "variance of differences": Case(
        X, "m = ReduceMean(x, last)\n d = Sub(x, m)\n q = Mul(d, d)\n v = ReduceMean(q, last)\n y = Sqrt(v)",
        "m = ReduceMean(x, last)\n q = Mul(x, x)\n e = ReduceMean(q, last)\n n = Mul(m, m)\n v = Sub(e, n)\n y = Sqrt(v)", "NUM102",
        idiom="square", constants=LAST,
    ),
    # -- squares and functions of one tensor ---------------------------------------------------------------------------
    "root of a sum of products with itself": Case(
        X, "q = Mul(x, x)\n s = ReduceSum(q, last)\n y = Sqrt(s)", "n = Neg(x)\n q = Mul(x, n)\n s = ReduceSum(q, last)\n y = Sqrt(s)",
        "NUM102", idiom="square", constants=LAST,
    ),
    "root of a product of two tensors": Case(
        XZ, "q = Mul(x, x)\n s = Sqrt(q)\n y = Add(s, z)", "q = Mul(x, z)\n s = Sqrt(q)\n y = Add(s, z)", "NUM102", idiom="square",
        ranges=WIDE | {"z": (-1.0, 1.0)},
    ),
    "root of 1 + x^2": Case(
        X, "q = Mul(x, x)\n s = Add(one, q)\n y = Sqrt(s)\n" + ONE, "q = Mul(x, x)\n s = Sub(one, q)\n y = Sqrt(s)\n" + ONE, "NUM102",
        idiom="square",
    ),
    "minimum of SiLU": Case(
        X, "s = Sigmoid(x)\n g = Mul(x, s)\n a = Add(g, shift)\n y = Log(a)\n" + _c("shift", 0.29),
        "s = Sigmoid(x)\n g = Mul(x, s)\n a = Add(g, shift)\n y = Log(a)\n" + _c("shift", 0.27), "NUM101", ranges=MILD,
        idiom="function-of-one-tensor",
    ),
    "minimum of SiLU with a factor": Case(
        X, "k = Mul(c, x)\n s = Sigmoid(k)\n g = Mul(s, x)\n a = Add(g, shift)\n y = Log(a)\n" + _c("shift", 0.17) + _c("c", 1.702),
        "k = Mul(c, x)\n s = Sigmoid(k)\n g = Mul(s, x)\n a = Add(g, shift)\n y = Log(a)\n" + _c("shift", 0.16) + _c("c", 1.702),
        "NUM101", ranges=MILD, idiom="function-of-one-tensor",
    ),
    "minimum of GELU": Case(
        X,
        "v = Div(x, root)\n f = Erf(v)\n g = Add(f, one)\n h = Mul(x, g)\n w = Mul(h, half)\n a = Add(w, shift)\n y = Log(a)\n"
        + ONE + HALF + _c("root", 2.0**0.5) + _c("shift", 0.175),
        "v = Div(x, root)\n f = Erf(v)\n g = Add(f, one)\n h = Mul(x, g)\n w = Mul(h, half)\n a = Add(w, shift)\n y = Log(a)\n"
        + ONE + HALF + _c("root", 2.0**0.5) + _c("shift", 0.165),
        "NUM101", ranges={"x": (-20.0, 20.0)}, idiom="function-of-one-tensor",
    ),
    "minimum of GELU by tanh": Case(
        X,
        """
        c = Pow(x, three)
        d = Mul(c, cubic)
        e = Add(x, d)
        f = Mul(e, root)
        t = Tanh(f)
        g = Add(one, t)
        h = Mul(x, half)
        w = Mul(h, g)
        a = Add(w, shift)
        y = Log(a)
        """ + ONE + HALF + _c("three", 3.0) + _c("cubic", 0.044715) + _c("root", (2.0 / np.pi) ** 0.5) + _c("shift", 0.18),
        """
        c = Pow(x, three)
        d = Mul(c, cubic)
        e = Add(x, d)
        f = Mul(e, root)
        t = Tanh(f)
        g = Add(one, t)
        h = Mul(x, half)
        w = Mul(h, g)
        a = Add(w, shift)
        y = Log(a)
        """ + ONE + HALF + _c("three", 3.0) + _c("cubic", 0.044715) + _c("root", (2.0 / np.pi) ** 0.5) + _c("shift", 0.165),
        "NUM101", ranges={"x": (-20.0, 20.0)}, idiom="function-of-one-tensor",
    ),
    # -- averages ------------------------------------------------------------------------------------------------------
    "softmax times values": Case(
        "(float[2,8,64] x, float[2,64,16] v) => (float y)",
        "p = Softmax<axis=-1>(x)\n w = MatMul(p, v)\n e = Exp(w)\n y = Identity(e)",
        "p = Softmax<axis=1>(x)\n w = MatMul(p, v)\n e = Exp(w)\n y = Identity(e)", "NUM201",
        ranges={"x": (-1e3, 1e3), "v": (-80.0, 80.0)}, idiom="average-by-softmax",
    ),
    "p over its sum, times values": Case(
        "(float[8,64] x, float[64,16] v) => (float y)",
        "s = ReduceSum(x, last)\n p = Div(x, s)\n w = MatMul(p, v)\n y = Exp(w)",
        "p = Sigmoid(x)\n w = MatMul(p, v)\n y = Exp(w)", "NUM201",
        ranges={"x": (0.1, 1e3), "v": (-80.0, 80.0)}, idiom="average-by-softmax", constants=LAST,
    ),
    "cosine similarity": Case(
        "(float[8,64] x, float[8,64] v) => (float y)",
        """
        p = Mul(x, v)
        c = ReduceSum(p, last)
        a = ReduceL2(x, last)
        b = ReduceL2(v, last)
        n = Mul(a, b)
        g = Max(n, eps)
        y = Div(c, g)
        """ + EPS,
        """
        p = Mul(x, v)
        c = ReduceSum(p, last)
        a = ReduceL2(x, last)
        b = ReduceL2(v, last)
        n = Mul(a, b)
        y = Div(c, n)
        """,
        "NUM103", ranges={"x": (-10.0, 10.0), "v": (-10.0, 10.0)}, constants=LAST,
    ),
}


# -- masks -------------------------------------------------------------------------------------------------------------


def _causal(size: int, value: float = -np.inf) -> npt.NDArray[np.float32]:
    return np.where(np.tri(size, dtype=bool), 0.0, value).astype(np.float32)


def _first_row_masked(size: int) -> npt.NDArray[np.float32]:
    mask = _causal(size)
    mask[0] = -np.inf
    return mask


def _scores(size: int) -> str:
    return f"(float[1,2,{size},{size}] x) => (float y)"


ADDED = "m = Add(x, mask)\n y = Softmax<axis=-1>(m)"
BY_HAND = """
    a = Add(x, mask)
    m = ReduceMax(a, last)
    d = Sub(a, m)
    e = Exp(d)
    s = ReduceSum(e, last)
    y = Div(e, s)
"""
SIZES = {"n": np.array(96, np.int64), "start": np.array(0, np.int64), "step": np.array(1, np.int64)}
COMPARED = """
    i = Range(start, n, step)
    r = Unsqueeze(i, last)
    c = LessOrEqual(i, r)
    a = Where(c, x, infinite)
    y = Softmax<axis=-1>(a)
"""
INFINITE = {"infinite": np.array(-np.inf, np.float32)}


def _masks() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for size in (16, 96, 512):
        cases[f"causal mask, added, {size}"] = Case(
            _scores(size), ADDED, ADDED, "NUM108", idiom="rows-keep-a-number" if size > 16 else None,
            constants={"mask": _causal(size)}, near_constants={"mask": _first_row_masked(size)},
        )
    cases["causal mask of -1e9, added"] = Case(
        _scores(512), ADDED, ADDED, "NUM108", constants={"mask": _causal(512, -1e9)},
        near_constants={"mask": _first_row_masked(512)},
    )
    lowest = float(np.finfo(np.float32).min)
    cases["causal mask of the lowest number, added"] = Case(
        _scores(64), ADDED, "k = Add(mask, mask)\n" + ADDED.replace("x, mask", "x, k"), "NUM202",
        constants={"mask": _causal(64, lowest)},
    )
    cases["causal mask by Where"] = Case(
        _scores(512),
        "m = Where(keep, x, infinite)\n y = Softmax<axis=-1>(m)",
        "m = Where(keep, infinite, x)\n y = Softmax<axis=-1>(m)",
        "NUM108", idiom="rows-keep-a-number", constants=INFINITE | {"keep": np.tri(512, dtype=bool)},
    )
    cases["causal mask by Not and a sum"] = Case(
        _scores(256),
        "n = Not(keep)\n k = Where(n, infinite, zero)\n m = Add(k, x)\n y = LogSoftmax<axis=-1>(m)\n" + ZERO,
        "k = Where(keep, infinite, zero)\n m = Add(k, x)\n y = LogSoftmax<axis=-1>(m)\n" + ZERO,
        "NUM108", idiom="rows-keep-a-number", constants=INFINITE | {"keep": np.tri(256, dtype=bool)},
    )
    cases["causal mask by comparing positions"] = Case(
        _scores(96), COMPARED, COMPARED.replace("LessOrEqual", "Less"), "NUM108", idiom="rows-keep-a-number",
        constants=INFINITE | SIZES | LAST,
    )
    triangle = """
        full = Expand(infinite, shape)
        mask = Trilu<upper=1>(full, k)
    """
    shape = {"shape": np.array([96, 96], np.int64)}
    cases["causal mask by a triangle"] = Case(
        _scores(96), triangle + ADDED, triangle + ADDED, "NUM108", idiom="rows-keep-a-number",
        constants=INFINITE | shape | {"k": np.array(1, np.int64)},
        near_constants=INFINITE | shape | {"k": np.array(0, np.int64)},
    )
    cut = """
        cut = Slice(table, from, to, axes)
        mask = Unsqueeze(cut, axes)
    """
    ends = {"from": np.array([0, 0], np.int64), "to": np.array([96, 96], np.int64), "axes": np.array([0, 1], np.int64)}
    cases["causal mask cut from a table"] = Case(
        _scores(96), cut + ADDED, cut + ADDED, "NUM108", idiom="rows-keep-a-number",
        constants=ends | {"table": _causal(128)}, near_constants=ends | {"table": _first_row_masked(128)},
    )
    cases["causal mask, softmax by hand"] = Case(
        _scores(96), BY_HAND, BY_HAND, "NUM109", idiom="rows-keep-a-number", constants=LAST | {"mask": _causal(96)},
        near_constants=LAST | {"mask": _first_row_masked(96)},
    )
    cases["causal mask along another axis"] = Case(
        _scores(96), ADDED, ADDED.replace("axis=-1", "axis=2"), "NUM108", idiom="rows-keep-a-number",
        constants={"mask": _causal(96)}, near_constants={"mask": _first_row_masked(96).T.copy()},
    )
    return cases


SAFE |= _masks()
