"""Quotients of ordered tensors, and differences to rectified ones."""

from __future__ import annotations

import numpy as np

from tests.safe_case import EPS, HALF, LAST, ONE, XZ, ZERO, Case, X

POSITIVE = {"x": (1e-30, 1e30)}
PAIR = {"x": (1e-30, 1e30), "z": (1e-30, 1e30)}
#: v - g v with the gain g = v / (v + z), where v is itself a sum whose first term is a product.
LEFT_OVER = """
    q = Mul(x, x)
    w = Mul(q, one)
    v = Add(w, eps)
    t = Add(v, z)
    g = Div(v, t)
    p = Mul(g, v)
    d = Sub(v, p)
    y = Sqrt(d)
"""
LEFT_OVER += ONE + EPS

RATIOS: dict[str, Case] = {
    "p over its sum": Case(
        X,
        "s = ReduceSum(x, last)\n q = Div(x, s)\n y = Asin(q)",
        "s = ReduceSum(x, last)\n q = Div(x, s)\n y = Asin(q)",
        "NUM103",
        ranges=POSITIVE,
        near_ranges={"x": (0.0, 1.0)},
        idiom="ordered-quotient",
        constants=LAST,
    ),
    "p over the sum of another tensor": Case(
        XZ,
        "s = ReduceSum(x, last)\n q = Div(x, s)\n w = Asin(q)\n y = Add(w, z)",
        "s = ReduceSum(z, last)\n q = Div(x, s)\n w = Asin(q)\n y = Add(w, z)",
        "NUM202",
        ranges=PAIR,
        idiom="ordered-quotient",
        constants=LAST,
    ),
    "p over its sum along another axis": Case(
        X,
        "s = ReduceSum(x, last)\n q = Div(x, s)\n y = Asin(q)",
        "s = ReduceSum<keepdims=0>(x, last)\n u = Reshape(s, shape)\n q = Div(x, u)\n y = Asin(q)\n",
        "NUM105",
        ranges={"x": (1e-3, 1.0)},
        near_signature="(float[8,8] x) => (float y)",
        idiom="ordered-quotient",
        constants=LAST,
        near_constants=LAST | {"shape": np.array([1, 8], np.int64)},
    ),
    "a over a + b": Case(
        XZ,
        "s = Add(x, z)\n q = Div(x, s)\n y = Asin(q)",
        "s = Sub(x, z)\n q = Div(x, s)\n y = Identity(q)",
        "NUM103",
        ranges=PAIR,
        idiom="ordered-quotient",
    ),
    "a over a + b that may be zero": Case(
        XZ,
        "s = Add(z, x)\n r = Reciprocal(s)\n q = Mul(r, x)\n h = Mul(q, half)\n y = Asin(h)\n" + HALF,
        "s = Add(z, x)\n r = Reciprocal(s)\n q = Mul(r, x)\n h = Mul(q, half)\n y = Asin(h)\n" + HALF,
        "NUM103",
        ranges={"x": (1e-20, 1e20), "z": (1e-20, 1e20)},
        near_ranges={"x": (0.0, 1e20), "z": (0.0, 1e20)},
        idiom="ordered-quotient",
    ),
    "x over 1 + |x|": Case(
        X,
        "a = Abs(x)\n b = Add(one, a)\n q = Div(x, b)\n y = Asin(q)\n" + ONE,
        "b = Add(one, x)\n q = Div(x, b)\n y = Identity(q)\n" + ONE,
        "NUM103",
        ranges={"x": (-1e30, 1e30)},
        near_ranges={"x": (-1.0, 1.0)},
        idiom="ordered-quotient",
    ),
    "x over 1 + max(x, -x)": Case(
        X,
        "n = Neg(x)\n a = Max(n, x)\n b = Add(one, a)\n q = Div(x, b)\n y = Acos(q)\n" + ONE,
        "n = Neg(x)\n a = Min(n, x)\n b = Add(one, a)\n q = Div(x, b)\n y = Identity(q)\n" + ONE,
        "NUM103",
        ranges={"x": (-1e30, 1e30)},
        idiom="ordered-quotient",
    ),
    "x over the root of 1 + x^2": Case(
        X,
        "s = Mul(x, x)\n t = Add(s, one)\n r = Sqrt(t)\n q = Div(x, r)\n h = Mul(q, half)\n y = Asin(h)\n" + ONE + HALF,
        "s = Mul(x, x)\n t = Sub(s, one)\n r = Sqrt(t)\n q = Div(x, r)\n h = Mul(q, half)\n y = Identity(h)\n" + ONE + HALF,
        "NUM102",
        ranges={"x": (-1e15, 1e15)},
        idiom="ordered-quotient",
    ),
    "x over its largest magnitude, guarded": Case(
        X,
        "a = Abs(x)\n m = ReduceMax(a, last)\n g = Max(m, eps)\n q = Div(x, g)\n y = Asin(q)\n" + EPS,
        "a = Abs(x)\n m = ReduceMax(a, last)\n q = Div(x, m)\n y = Asin(q)",
        "NUM103",
        idiom="ordered-quotient",
        constants=LAST,
    ),
    "x over its sum of magnitudes, guarded": Case(
        X,
        "m = ReduceL1(x, last)\n g = Add(m, eps)\n q = Div(x, g)\n y = Asin(q)\n" + EPS,
        "m = ReduceL1(x, last)\n q = Div(x, m)\n y = Asin(q)",
        "NUM103",
        idiom="ordered-quotient",
        constants=LAST,
    ),
    "exp(h - relu(h))": Case(
        X,
        "r = Relu(x)\n d = Sub(x, r)\n y = Exp(d)",
        "r = Relu(x)\n d = Add(x, r)\n y = Exp(d)",
        "NUM201",
        idiom="ordered-difference",
    ),
    "exp(h - max(h, 0))": Case(
        X,
        "r = Max(zero, x)\n d = Sub(x, r)\n y = Exp(d)\n" + ZERO,
        "r = Min(zero, x)\n d = Sub(x, r)\n y = Exp(d)\n" + ZERO,
        "NUM201",
        idiom="ordered-difference",
    ),
    "exp(h - clip(h, 0))": Case(
        X,
        "r = Clip(x, zero)\n d = Sub(x, r)\n y = Exp(d)\n" + ZERO,
        "r = Clip(x, zero, one)\n d = Sub(x, r)\n y = Exp(d)\n" + ZERO + ONE,
        "NUM201",
        idiom="ordered-difference",
    ),
    "root of relu(h) - h": Case(
        X,
        "r = Relu(x)\n d = Sub(r, x)\n y = Sqrt(d)",
        "r = Relu(x)\n d = Sub(x, r)\n y = Sqrt(d)",
        "NUM102",
        idiom="ordered-difference",
    ),
    "variance that a measurement leaves of a sum": Case(
        XZ,
        LEFT_OVER,
        LEFT_OVER.replace("Div(v, t)", "Div(t, v)"),
        "NUM102",
        ranges={"x": (-1.0, 1.0), "z": (0.0, 100.0)},
        idiom="ordered-difference",
    ),
    "root of a cross-entropy of logits, by a choice": Case(
        XZ,
        "g = GreaterOrEqual(x, zero)\n r = Where(g, x, zero)\n p = Mul(x, z)\n d = Sub(r, p)\n y = Sqrt(d)\n" + ZERO,
        "g = LessOrEqual(x, zero)\n r = Where(g, x, zero)\n p = Mul(x, z)\n d = Sub(r, p)\n y = Sqrt(d)\n" + ZERO,
        "NUM102",
        ranges={"x": (-1e4, 1e4), "z": (0.0, 1.0)},
        idiom="ordered-difference",
    ),
    "the smaller of two, by a choice": Case(
        XZ,
        "g = Less(z, x)\n r = Where(g, z, x)\n d = Sub(r, x)\n y = Exp(d)",
        "g = Less(x, z)\n r = Where(g, z, x)\n d = Sub(r, x)\n y = Exp(d)",
        "NUM201",
        ranges={"x": (-1e4, 1e4), "z": (-1e4, 1e4)},
        idiom="ordered-difference",
    ),
    "exp(h - |h|)": Case(
        X,
        "r = Abs(x)\n d = Sub(x, r)\n y = Exp(d)",
        "r = Abs(x)\n d = Add(x, r)\n y = Exp(d)",
        "NUM201",
        idiom="ordered-difference",
    ),
}
