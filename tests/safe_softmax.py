"""Softmax and log-sum-exp, as operators and written out."""

from __future__ import annotations

import numpy as np

from tests.safe_case import AXES, HALF, LAST, ONE, TWO, WIDE, XZ, Case, X

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


SOFTMAX_FORMS: dict[str, Case] = {
    "log-softmax operator": Case(X, "y = LogSoftmax<axis=-1>(x)", "p = Softmax<axis=-1>(x)\n y = Log(p)", "NUM101"),
    "softmax by hand, without maximum": Case(
        X,
        SOFTMAX,
        "e = Exp(x)\n s = ReduceSum(e, last)\n y = Div(e, s)",
        "NUM201",
        idiom="sum-of-shifted-exponentials",
        constants={"last": np.array([1], np.int64)},
    ),
    "softmax by hand, maximum over another axis": Case(
        X, SOFTMAX, WRONG_AXIS, "NUM103", idiom="sum-of-shifted-exponentials", constants=AXES
    ),
    "softmax by hand, maximum of another tensor": Case(
        XZ,
        SOFTMAX.replace("y = Div(e, s)", "w = Div(e, s)\n y = Add(w, z)"),
        SOFTMAX.replace("ReduceMax(x", "ReduceMax(z").replace("y = Div(e, s)", "w = Div(e, s)\n y = Add(w, z)"),
        "NUM201",
        ranges=WIDE | {"z": (-1e4, 1e4)},
        idiom="ordered-difference",
        constants=LAST,
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
        "NUM201",
        idiom="ordered-quotient",
        constants=LAST,
    ),
    "softmax by hand, reduced in another shape": Case(
        "(float[2,3,4,5] x) => (float y)",
        """
        f = Flatten<axis=1>(x)
        m = ReduceMax<keepdims=0>(f, last)
        r = Reshape(m, ones)
        d = Sub(x, r)
        e = Exp(d)
        s = ReduceSum(e, rest)
        i = Div(one, s)
        q = Mul(e, i)
        h = Mul(q, half)
        y = Asin(h)
        """
        + ONE
        + HALF,
        """
        f = Reshape(x, other)
        m = ReduceMax<keepdims=0>(f, last)
        r = Reshape(m, ones)
        d = Sub(x, r)
        e = Exp(d)
        s = ReduceSum(e, rest)
        i = Div(one, s)
        y = Mul(e, i)
        """
        + ONE,
        "NUM201",
        idiom="sum-of-shifted-exponentials",
        constants=LAST | {"ones": np.array([2, 1, 1, 1], np.int64), "rest": np.array([1, 2, 3], np.int64)},
        near_constants=LAST
        | {"ones": np.array([3, 1, 1], np.int64), "rest": np.array([1, 2, 3], np.int64), "other": np.array([3, 40], np.int64)},
    ),
    "logarithm of a sum of shifted exponentials": Case(
        X,
        "m = ReduceMax(x, last)\n d = Sub(x, m)\n e = Exp(d)\n l = ReduceLogSum(e, last)\n y = Sqrt(l)",
        "m = ReduceMax(x, first)\n d = Sub(x, m)\n e = Exp(d)\n y = ReduceLogSum(e, last)",
        "NUM101",
        idiom="sum-of-shifted-exponentials",
        constants=AXES,
    ),
    "softmax by hand through casts": Case(
        "(float16[4,8] x) => (double y)",
        """
        w = Cast<to=1>(x)
        m = ReduceMax(w, last)
        d = Sub(w, m)
        e = Exp(d)
        c = Cast<to=11>(e)
        s = ReduceSum(c, last)
        y = Div(c, s)
        """,
        """
        w = Cast<to=1>(x)
        m = ReduceMax(x, first)
        k = Cast<to=1>(m)
        d = Sub(w, k)
        e = Exp(d)
        c = Cast<to=11>(e)
        s = ReduceSum(c, last)
        y = Div(c, s)
        """,
        "NUM103",
        idiom="sum-of-shifted-exponentials",
        constants=AXES,
    ),
    "softmax by hand over all elements": Case(
        X,
        "m = ReduceMax<keepdims=0>(x)\n d = Sub(x, m)\n e = Exp(d)\n s = ReduceSum<keepdims=0>(e)\n y = Div(e, s)",
        "m = ReduceMean<keepdims=0>(x)\n d = Sub(x, m)\n e = Exp(d)\n s = ReduceSum<keepdims=0>(e)\n y = Div(e, s)",
        "NUM201",
        idiom="sum-of-shifted-exponentials",
    ),
    "softmax by hand of negatives": Case(
        X,
        SOFTMAX.replace("(x,", "(n,").replace("m =", "n = Neg(x)\n    m =", 1),
        SOFTMAX.replace("Sub(x,", "Sub(n,").replace("m =", "n = Neg(x)\n    m =", 1),
        "NUM201",
        idiom="sum-of-shifted-exponentials",
        constants=LAST,
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
        "NUM201",
        ranges={"x": (-100.0, 100.0), "z": (-100.0, 100.0)},
        idiom="ordered-difference",
        constants=LAST,
    ),
    "log-sum-exp by hand": Case(
        X,
        LOG_SUM_EXP,
        "e = Exp(x)\n s = ReduceSum(e, last)\n y = Log(s)",
        "NUM201",
        idiom="sum-of-shifted-exponentials",
        constants=LAST,
    ),
    "logarithm of two exponentials by hand": Case(
        XZ,
        "m = Max(x, z)\n a = Sub(x, m)\n b = Sub(z, m)\n p = Exp(a)\n q = Exp(b)\n s = Add(p, q)\n l = Log(s)\n y = Add(m, l)",
        "m = Max(x, z)\n a = Sub(x, m)\n p = Exp(a)\n s = Add(p, p)\n l = Log(s)\n y = Add(m, l)",
        "NUM101",
        ranges=WIDE | {"z": (-1e4, 1e4)},
        idiom="exponentials-below-their-maximum",
    ),
    "log-softmax through log-sum-exp by hand": Case(
        X,
        LOG_SUM_EXP.replace("y =", "t =") + "p = Sub(x, t)\n q = Exp(p)\n y = Sqrt(q)",
        LOG_SUM_EXP.replace("y =", "t =") + "p = Sub(t, x)\n q = Exp(p)\n y = Sqrt(q)",
        "NUM201",
        idiom="ordered-difference",
        constants=LAST,
    ),
    "exponential of x minus the operator's log-sum-exp": Case(
        X,
        "t = ReduceLogSumExp(x, last)\n p = Sub(x, t)\n y = Exp(p)",
        "m = ReduceMin(x, last)\n p = Sub(x, m)\n y = Exp(p)",
        "NUM201",
        idiom="ordered-difference",
        constants=LAST,
    ),
    "exponential of log-softmax": Case(
        X,
        "p = LogSoftmax<axis=-1>(x)\n e = Exp(p)\n d = Sub(two, e)\n y = Log(d)\n" + TWO,
        "p = LogSoftmax<axis=-1>(x)\n n = Neg(p)\n e = Exp(n)\n d = Add(two, e)\n y = Log(d)\n" + TWO,
        "NUM201",
    ),
}
