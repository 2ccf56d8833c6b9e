"""Losses and overlaps with their guards."""

from __future__ import annotations

from tests.safe_case import EPS, LAST, ONE, TWO, XZ, ZERO, Case, X, number

PROBABILITIES = {"x": (0.0, 1.0), "z": (0.0, 1.0)}
LOGITS = {"x": (-200.0, 200.0), "z": (0.0, 1.0)}

LOSSES: dict[str, Case] = {
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
        """
        + ONE,
        """
        r = Relu(x)
        p = Mul(x, z)
        d = Sub(r, p)
        e = Exp(x)
        f = Add(one, e)
        l = Log(f)
        y = Add(d, l)
        """
        + ONE,
        "NUM201",
        ranges=LOGITS,
        idiom="ordered-difference",
    ),
    "softplus": Case(
        X,
        "r = Max(x, zero)\n a = Abs(x)\n n = Neg(a)\n e = Exp(n)\n f = Add(e, one)\n l = Log(f)\n y = Add(r, l)\n" + ONE + ZERO,
        "e = Exp(x)\n f = Add(e, one)\n y = Log(f)\n" + ONE,
        "NUM201",
        ranges={"x": (-200.0, 200.0)},
    ),
    "log-sigmoid": Case(
        X,
        "r = Min(x, zero)\n a = Abs(x)\n n = Neg(a)\n e = Exp(n)\n f = Add(e, one)\n l = Log(f)\n y = Sub(r, l)\n" + ONE + ZERO,
        "p = Sigmoid(x)\n y = Log(p)",
        "NUM101",
        ranges={"x": (-200.0, 200.0)},
    ),
    "log-sigmoid through softplus": Case(
        X,
        "n = Neg(x)\n s = Softplus(n)\n y = Neg(s)",
        "p = Sigmoid(x)\n d = Sub(one, p)\n y = Log(d)\n" + ONE,
        "NUM101",
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
        """
        + EPS,
        """
        i = Mul(x, z)
        inter = ReduceSum(i, last)
        a = ReduceSum(x, last)
        b = ReduceSum(z, last)
        s = Add(a, b)
        u = Sub(s, inter)
        y = Div(inter, u)
        """,
        "NUM103",
        ranges=PROBABILITIES,
        idiom="ordered-difference",
        constants=LAST,
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
        """
        + EPS,
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
        y = Div(inter, union)
        """,
        "NUM103",
        ranges={"*": (0.0, 640.0)},
        idiom="ordered-difference",
    ),
    "intersection over union, guarded by a maximum": Case(
        XZ,
        "s = Sub(x, z)\n g = Max(s, eps)\n y = Div(z, g)\n" + EPS,
        "s = Sub(x, z)\n g = Max(s, zero)\n y = Div(z, g)\n" + ZERO,
        "NUM103",
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
        """
        + EPS
        + TWO,
        """
        i = Mul(x, z)
        inter = ReduceSum(i, last)
        t = Mul(two, inter)
        a = ReduceSum(x, last)
        b = ReduceSum(z, last)
        s = Add(a, b)
        y = Div(t, s)
        """
        + TWO,
        "NUM103",
        ranges=PROBABILITIES,
        constants=LAST,
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
        """
        + ONE
        + TWO
        + number("low", 1e-6)
        + number("high", 1.0 - 1e-6),
        """
        p = Sigmoid(x)
        c = Clip(p, low, high)
        l = Log(c)
        m = Sub(one, c)
        k = Log(m)
        w = Pow(m, two)
        f = Mul(w, l)
        y = Add(f, k)
        """
        + ONE
        + TWO
        + number("low", 1e-9)
        + number("high", 1.0),
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
        """
        + number("tau", 0.07),
        """
        zt = Transpose<perm=[1,0]>(z)
        c = MatMul(x, zt)
        g = Div(c, tau)
        e = Exp(g)
        s = ReduceSum(e, last)
        l = Log(s)
        y = Sub(l, g)
        """
        + number("tau", 0.07),
        "NUM201",
        ranges={"x": (-1.0, 1.0), "z": (-1.0, 1.0)},
        constants=LAST,
        idiom="sum-of-shifted-exponentials",
    ),
    "Kullback-Leibler divergence with a guard": Case(
        XZ,
        "a = Add(x, eps)\n l = Log(a)\n b = Clip(z, eps)\n k = Log(b)\n d = Sub(l, k)\n m = Mul(x, d)\n y = ReduceSum(m, last)\n"
        + EPS,
        "l = Log(x)\n k = Log(z)\n d = Sub(l, k)\n m = Mul(x, d)\n y = ReduceSum(m, last)\n",
        "NUM101",
        ranges=PROBABILITIES,
        constants=LAST,
    ),
    "a guard that survives in float32": Case(
        X,
        "d = Sub(one, x)\n g = Add(d, eps)\n y = Log(g)\n" + ONE + EPS,
        "s = Add(tiny, one)\n d = Sub(s, x)\n y = Log(d)\n" + ONE + number("tiny", 1e-10),
        "NUM101",
        ranges={"x": (0.0, 1.0)},
    ),
    "cross entropy by hand": Case(
        XZ,
        "p = LogSoftmax<axis=-1>(x)\n m = Mul(z, p)\n s = ReduceSum(m, last)\n y = Neg(s)",
        "q = Softmax<axis=-1>(x)\n p = Log(q)\n m = Mul(z, p)\n s = ReduceSum(m, last)\n y = Neg(s)",
        "NUM101",
        ranges=LOGITS,
        constants=LAST,
    ),
    "variance of differences": Case(
        X,
        "m = ReduceMean(x, last)\n d = Sub(x, m)\n q = Mul(d, d)\n v = ReduceMean(q, last)\n y = Sqrt(v)",
        "m = ReduceMean(x, last)\n q = Mul(x, x)\n e = ReduceMean(q, last)\n n = Mul(m, m)\n v = Sub(e, n)\n y = Sqrt(v)",
        "NUM102",
        idiom="square",
        constants=LAST,
    ),
}
