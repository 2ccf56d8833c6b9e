"""Squares, activations written out, averages and similarities."""

from __future__ import annotations

import numpy as np

from tests.safe_case import AXES, EPS, HALF, LAST, MILD, ONE, WIDE, XZ, ZERO, Case, X, number

FUNCTIONS: dict[str, Case] = {
    "root of a sum of products with itself": Case(
        X,
        "q = Mul(x, x)\n s = ReduceSum(q, last)\n y = Sqrt(s)",
        "n = Neg(x)\n q = Mul(x, n)\n s = ReduceSum(q, last)\n y = Sqrt(s)",
        "NUM102",
        idiom="square",
        constants=LAST,
    ),
    "root of a product of two tensors": Case(
        XZ,
        "q = Mul(x, x)\n s = Sqrt(q)\n y = Add(s, z)",
        "q = Mul(x, z)\n s = Sqrt(q)\n y = Add(s, z)",
        "NUM102",
        idiom="square",
        ranges=WIDE | {"z": (-1.0, 1.0)},
    ),
    "root of 1 + x^2": Case(
        X,
        "q = Mul(x, x)\n s = Add(one, q)\n y = Sqrt(s)\n" + ONE,
        "q = Mul(x, x)\n s = Sub(one, q)\n y = Sqrt(s)\n" + ONE,
        "NUM102",
        idiom="square",
    ),
    "power of 1 - exp(-|x|)": Case(
        X,
        "a = Abs(x)\n n = Neg(a)\n e = Exp(n)\n d = Sub(one, e)\n y = Pow(d, power)\n" + ONE + number("power", 1.5),
        "a = Abs(x)\n e = Exp(a)\n d = Sub(one, e)\n y = Pow(d, power)\n" + ONE + number("power", 1.5),
        "NUM104",
        ranges=MILD,
        idiom="exponential-of-one-sign",
    ),
    "minimum of SiLU": Case(
        X,
        "s = Sigmoid(x)\n g = Mul(x, s)\n a = Add(g, shift)\n y = Log(a)\n" + number("shift", 0.29),
        "s = Sigmoid(x)\n g = Mul(x, s)\n a = Add(g, shift)\n y = Log(a)\n" + number("shift", 0.27),
        "NUM101",
        ranges=MILD,
        idiom="function-of-one-tensor",
    ),
    "minimum of SiLU with a factor": Case(
        X,
        "k = Mul(c, x)\n s = Sigmoid(k)\n g = Mul(s, x)\n a = Add(g, shift)\n y = Log(a)\n"
        + number("shift", 0.17)
        + number("c", 1.702),
        "k = Mul(c, x)\n s = Sigmoid(k)\n g = Mul(s, x)\n a = Add(g, shift)\n y = Log(a)\n"
        + number("shift", 0.16)
        + number("c", 1.702),
        "NUM101",
        ranges=MILD,
        idiom="function-of-one-tensor",
    ),
    "minimum of GELU": Case(
        X,
        "v = Div(x, root)\n f = Erf(v)\n g = Add(f, one)\n h = Mul(x, g)\n w = Mul(h, half)\n a = Add(w, shift)\n y = Log(a)\n"
        + ONE
        + HALF
        + number("root", 2.0**0.5)
        + number("shift", 0.175),
        "v = Div(x, root)\n f = Erf(v)\n g = Add(f, one)\n h = Mul(x, g)\n w = Mul(h, half)\n a = Add(w, shift)\n y = Log(a)\n"
        + ONE
        + HALF
        + number("root", 2.0**0.5)
        + number("shift", 0.165),
        "NUM101",
        ranges={"x": (-20.0, 20.0)},
        idiom="function-of-one-tensor",
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
        """
        + ONE
        + HALF
        + number("three", 3.0)
        + number("cubic", 0.044715)
        + number("root", (2.0 / np.pi) ** 0.5)
        + number("shift", 0.18),
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
        """
        + ONE
        + HALF
        + number("three", 3.0)
        + number("cubic", 0.044715)
        + number("root", (2.0 / np.pi) ** 0.5)
        + number("shift", 0.165),
        "NUM101",
        ranges={"x": (-20.0, 20.0)},
        idiom="function-of-one-tensor",
    ),
    "softmax times values": Case(
        "(float[2,8,64] x, float[2,64,16] v) => (float y)",
        "p = Softmax<axis=-1>(x)\n w = MatMul(p, v)\n y = Log(w)",
        "p = Softmax<axis=1>(x)\n w = MatMul(p, v)\n y = Log(w)",
        "NUM101",
        ranges={"x": (-1e3, 1e3), "v": (1e-3, 80.0)},
        idiom="average-by-softmax",
    ),
    "softmax times values, guarded against NaN": Case(
        "(float[2,8,64] x, float[2,64,16] v) => (float y)",
        "p = Softmax<axis=-1>(x)\n n = IsNaN(p)\n g = Where(n, zero, p)\n w = MatMul(g, v)\n y = Log(w)\n" + ZERO,
        "p = Softmax<axis=-1>(x)\n n = Less(p, half)\n g = Where(n, zero, p)\n w = MatMul(g, v)\n y = Log(w)\n" + ZERO + HALF,
        "NUM101",
        ranges={"x": (-1e3, 1e3), "v": (1e-3, 80.0)},
        idiom="average-by-softmax",
    ),
    "p over its sum, times values": Case(
        "(float[8,64] x, float[64,16] v) => (float y)",
        "s = ReduceSum(x, last)\n p = Div(x, s)\n w = MatMul(p, v)\n y = Exp(w)",
        "p = Sigmoid(x)\n w = MatMul(p, v)\n y = Exp(w)",
        "NUM201",
        ranges={"x": (1e-4, 1e3), "v": (-80.0, 80.0)},
        idiom="average-by-softmax",
        constants=LAST,
    ),
    "sum of a softmax": Case(
        X,
        "p = Softmax<axis=-1>(x)\n s = ReduceSum(p, last)\n y = Log(s)",
        "p = Softmax<axis=-1>(x)\n s = ReduceSum(p, first)\n y = Log(s)",
        "NUM101",
        idiom="sum-of-softmax",
        constants=AXES,
    ),
    "sum of a softmax written out": Case(
        X,
        "m = ReduceMax(x, last)\n d = Sub(x, m)\n e = Exp(d)\n t = ReduceSum(e, last)\n p = Div(e, t)\n"
        "s = ReduceSum(p, last)\n y = Log(s)",
        "m = ReduceMax(x, last)\n d = Sub(x, m)\n e = Exp(d)\n t = ReduceSum(e, last)\n p = Div(e, t)\n"
        "s = ReduceSum(p, first)\n y = Log(s)",
        "NUM101",
        idiom="sum-of-softmax",
        constants=AXES,
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
        d = Div(c, g)
        s = Div(d, tau)
        y = Exp(s)
        """
        + EPS
        + number("tau", 0.07),
        """
        p = Mul(x, v)
        c = ReduceSum(p, last)
        a = ReduceL2(x, last)
        b = ReduceL2(v, last)
        n = Mul(a, b)
        d = Div(c, n)
        s = Div(d, tau)
        y = Exp(s)
        """
        + number("tau", 0.07),
        "NUM103",
        ranges={"x": (-10.0, 10.0), "v": (-10.0, 10.0)},
        idiom="cosine-similarity",
        constants=LAST,
    ),
    "cosine similarity with lengths of another tensor": Case(
        "(float[8,64] x, float[8,64] v, float[8,64] w) => (float y)",
        """
        p = Mul(x, v)
        c = ReduceSum<keepdims=0>(p, last)
        q = Mul(x, x)
        t = ReduceSum<keepdims=0>(q, last)
        r = Sqrt(t)
        a = Max(r, eps)
        k = Mul(v, v)
        l = ReduceSum<keepdims=0>(k, last)
        m = Sqrt(l)
        b = Max(m, eps)
        n = Mul(b, a)
        d = Div(c, n)
        s = Div(d, tau)
        e = Exp(s)
        z = ReduceSum(w)
        y = Add(e, z)
        """
        + number("eps", 1e-4)
        + number("tau", 0.07),
        """
        p = Mul(x, v)
        c = ReduceSum<keepdims=0>(p, last)
        q = Mul(x, x)
        t = ReduceSum<keepdims=0>(q, last)
        r = Sqrt(t)
        a = Max(r, eps)
        k = Mul(w, w)
        l = ReduceSum<keepdims=0>(k, last)
        m = Sqrt(l)
        b = Max(m, eps)
        n = Mul(b, a)
        d = Div(c, n)
        s = Div(d, tau)
        y = Exp(s)
        """
        + number("eps", 1e-4)
        + number("tau", 0.07),
        "NUM201",
        ranges={"x": (-10.0, 10.0), "v": (-10.0, 10.0), "w": (-10.0, 10.0)},
        idiom="cosine-similarity",
        constants=LAST,
    ),
    "logarithm of a guarded operand": Case(
        "(float[4,5] x) => (float[4,5] y)",
        "c = Greater(x, low)\n s = Where(c, x, one)\n y = Log(s)" + number("low", 0.1) + number("one", 1.0),
        "c = GreaterOrEqual(x, low)\n s = Where(c, x, one)\n y = Log(s)" + number("low", 0.0) + number("one", 1.0),
        "NUM101",
        ranges={"x": (-3.0, 3.0)},
        idiom="guarded-choice",
    ),
    "exponential of a magnitude that is chosen": Case(
        "(float[4,5] x) => (float[4,5] y)",
        "c = GreaterOrEqual(x, zero)\n n = Neg(x)\n s = Where(c, n, x)\n y = Exp(s)" + number("zero", 0.0),
        "c = GreaterOrEqual(x, zero)\n n = Neg(x)\n s = Where(c, x, n)\n y = Exp(s)" + number("zero", 0.0),
        "NUM201",
        ranges={"x": (-200.0, 200.0)},
        idiom="guarded-choice",
    ),
    "mean of what is kept": Case(
        "(float[4,8] x) => (float[4,1] y)",
        """
        c = Greater(x, zero)
        w = Cast<to=1>(c)
        n = ReduceSum<keepdims=1>(w, last)
        some = Greater(n, tiny)
        d = Where(some, n, one)
        k = Mul(x, w)
        s = ReduceSum<keepdims=1>(k, last)
        y = Div(s, d)
        """
        + ZERO
        + ONE
        + number("tiny", 1e-37),
        """
        w = Exp(x)
        n = ReduceSum<keepdims=1>(w, last)
        some = Greater(n, tiny)
        d = Where(some, n, one)
        s = ReduceSum<keepdims=1>(x, last)
        y = Div(s, d)
        """
        + ONE
        + number("tiny", 1e-37),
        "NUM202",
        ranges={"x": (-87.0, 80.0)},
        idiom="quotient-by-a-count",
        constants=LAST,
    ),
    "unit vector by a quotient that is capped": Case(
        "(float[4,5] x) => (float[4,5] y)",
        """
        s = Mul(x, x)
        t = ReduceSum<keepdims=1>(s, last)
        n = Sqrt(t)
        q = Div(one, n)
        m = Min(q, cap)
        y = Mul(x, m)
        """
        + number("one", 1.0)
        + number("cap", 1e6),
        """
        s = Mul(x, x)
        t = ReduceSum<keepdims=1>(s, last)
        n = Sqrt(t)
        q = Div(one, n)
        m = Max(q, cap)
        y = Mul(x, m)
        """
        + number("one", 1.0)
        + number("cap", 1e6),
        "NUM103",
        ranges={"x": (-3.0, 3.0)},
        idiom="capped-quotient",
        constants=LAST,
    ),
}
