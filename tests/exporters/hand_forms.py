"""The functions as somebody who knows ONNX writes them, operator by operator."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx

from tests.exporters.catalogue import CASES, DEFECTIVE
from tests.models import model

#: Constants of every body, each used or not.
NUMBERS = {
    "zero": 0.0, "one": 1.0, "two": 2.0, "half": 0.5, "tenth": 0.1, "fifth": 0.2, "ten": 10.0, "limit": 1.01, "middle": 1.5,
    "eps": 1e-5, "small": 1e-3, "tiny": 1e-6, "least": 1e-12, "root2": 1.4142135, "root8": 2.828427, "hidden": -1e9,
    "heat": 0.07, "size": 16.0, "less": 15.0,
}  # fmt: skip
LAST = "<axes=[-1]>"
SHIFTED = "m = ReduceMax<axes=[-1]>(x)\nd = Sub(x, m)\ne = Exp(d)\nt = ReduceSum(e, last)\n"
CENTRED = "m = ReduceMean<axes=[-1]>(x)\nd = Sub(x, m)\n"
GROUPED = "g = Reshape(x, groups)\nm = ReduceMean<axes=[-1]>(g)\nd = Sub(g, m)\nq = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\n"
SPATIAL = "m = ReduceMean<axes=[2, 3]>(x)\nd = Sub(x, m)\nq = ReduceSumSquare<axes=[2, 3]>(d)\nv = Div(q, size)\n"
BATCHED = "m = ReduceMean<axes=[0, 2, 3]>(x)\nd = Sub(x, m)\nq = Mul(d, d)\nv = ReduceMean<axes=[0, 2, 3]>(q)\n"
SCORES = "kt = Transpose<perm=[0, 2, 1]>(k)\ns = MatMul(q, kt)\ns8 = Div(s, root8)\n"
AREAS = "pt = Mul(p, t)\nboth = ReduceSum<keepdims=0>(pt, last)\nsp = ReduceSum<keepdims=0>(p, last)\nst = ReduceSum<keepdims=0>(t, last)\n"

#: The function, and the same with a defect; the result is r.
FORMS: dict[str, tuple[str, str]] = {
    "log-softmax": (SHIFTED + "l = Log(t)\nr = Sub(d, l)", "s = Softmax<axis=-1>(x)\nr = Log(s)"),
    "softmax by hand": (SHIFTED + "r = Div(e, t)", "e = Exp(x)\nt = ReduceSum(e, last)\nr = Div(e, t)"),
    "logsumexp": (SHIFTED + "l = Log(t)\nr = Add(m, l)", "e = Exp(x)\nt = ReduceSum(e, last)\nr = Log(t)"),
    "p div sum(p)": (
        "t = ReduceSum(p, last)\nq = Div(p, t)\nc = Sub(limit, q)\nr = Log(c)",
        "t = ReduceMean<axes=[-1]>(p)\nq = Div(p, t)\nc = Sub(limit, q)\nr = Log(c)",
    ),
    "exp(h - relu(h))": ("p = Relu(h)\nd = Sub(h, p)\nr = Exp(d)", "p = Relu(h)\nd = Add(h, p)\nr = Exp(d)"),
    "stable BCE": (
        "p = Relu(x)\nxz = Mul(x, z)\na = Abs(x)\nn = Neg(a)\ne = Exp(n)\ne1 = Add(one, e)\nl = Log(e1)\nd = Sub(p, xz)\nr = Add(d, l)",
        "p = Sigmoid(x)\nl = Log(p)\nn = Sub(one, p)\nk = Log(n)\nnz = Sub(one, z)\na = Mul(z, l)\nb = Mul(nz, k)\nr = Add(a, b)",
    ),
    "softplus": (
        "p = Max(x, zero)\na = Abs(x)\nn = Neg(a)\ne = Exp(n)\ne1 = Add(e, one)\nl = Log(e1)\nr = Add(p, l)",
        "e = Exp(x)\ne1 = Add(e, one)\nr = Log(e1)",
    ),
    "logsigmoid": ("n = Neg(x)\ns = Softplus(n)\nr = Neg(s)", "s = Sigmoid(x)\nr = Log(s)"),
    "sparse cross-entropy": (
        "r = SoftmaxCrossEntropyLoss(x, labels)",
        "s = Softmax<axis=-1>(x)\nl = Log(s)\nr = NegativeLogLikelihoodLoss(l, labels)",
    ),
    "x div (1 + abs(x))": (
        "a = Abs(x)\nb = Add(a, one)\nq = Div(x, b)\nc = Sub(limit, q)\nr = Log(c)",
        "b = Add(x, one)\nq = Div(x, b)\nc = Sub(limit, q)\nr = Log(c)",
    ),
    "a div (a + b)": (
        "s = Add(a, b)\nt = Add(s, small)\nq = Div(a, t)\nc = Sub(limit, q)\nr = Log(c)",
        "s = Sub(a, b)\nt = Add(s, small)\nq = Div(a, t)\nc = Sub(limit, q)\nr = Log(c)",
    ),
    "standardise": (
        CENTRED
        + "q = Mul(d, d)\nt = ReduceSum(q, last)\nv = Div(t, less)\ns = Sqrt(v)\ng = Add(s, tiny)\ny = Div(d, g)\nr = Exp(y)",
        CENTRED + "q = Mul(d, d)\nt = ReduceSum(q, last)\nv = Div(t, less)\ns = Sqrt(v)\ny = Div(d, s)\nr = Exp(y)",
    ),
    "LayerNorm": (
        CENTRED + "q = Pow(d, two)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\ny = Div(d, s)\nr = Exp(y)",
        CENTRED + "q = Mul(x, x)\na = ReduceMean<axes=[-1]>(q)\nb = Mul(m, m)\nv = Sub(a, b)\nw = Add(v, eps)\ns = Sqrt(w)\n"
        "y = Div(d, s)\nr = Exp(y)",
    ),
    "RMSNorm": (
        "q = Mul(x, x)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, tiny)\ns = Sqrt(w)\ni = Div(one, s)\ny = Mul(x, i)\nr = Exp(y)",
        "q = Mul(x, x)\nv = ReduceMean<axes=[-1]>(q)\ns = Sqrt(v)\ni = Div(one, s)\ny = Mul(x, i)\nr = Exp(y)",
    ),
    "GroupNorm": (
        GROUPED + "w = Add(v, eps)\ns = Sqrt(w)\ny = Div(d, s)\nz = Reshape(y, image)\nr = Exp(z)",
        GROUPED + "s = Sqrt(v)\ny = Div(d, s)\nz = Reshape(y, image)\nr = Exp(z)",
    ),
    "InstanceNorm": (
        SPATIAL + "w = Add(v, eps)\ns = Sqrt(w)\ni = Reciprocal(s)\ny = Mul(d, i)\nr = Exp(y)",
        SPATIAL + "s = Sqrt(v)\ni = Reciprocal(s)\ny = Mul(d, i)\nr = Exp(y)",
    ),
    "batch statistics": (
        BATCHED
        + "w = Add(v, eps)\ns = Sqrt(w)\ni = Reciprocal(s)\nxi = Mul(x, i)\nmi = Mul(m, i)\no = Sub(one, mi)\ny = Add(xi, o)\nr = Exp(y)",
        BATCHED + "s = Sqrt(v)\ni = Reciprocal(s)\nxi = Mul(x, i)\nmi = Mul(m, i)\no = Sub(one, mi)\ny = Add(xi, o)\nr = Exp(y)",
    ),
    "LayerNorm of the library": (
        "y = LayerNormalization(x, scale16, bias16)\nr = Exp(y)",
        "y = LayerNormalization(x, scale16, bias16)\nz = Mul(y, ten)\nw = Mul(z, z)\nr = Exp(w)",
    ),
    "RMSNorm of the library": (
        "y = RMSNormalization(x, scale16)\nr = Exp(y)",
        "y = RMSNormalization(x, scale16)\nz = Mul(y, ten)\nw = Mul(z, z)\nr = Exp(w)",
    ),
    "GroupNorm of the library": (
        "y = Reshape(x, groups)\nz = InstanceNormalization(y, scale4, bias4)\nw = Reshape(z, image)\nr = Exp(w)",
        "y = GroupNormalization<num_groups=4>(x, scale8, bias8)\nr = Exp(y)",
    ),
    "InstanceNorm of the library": (
        "y = InstanceNormalization(x, scale8, bias8)\nr = Exp(y)",
        "y = InstanceNormalization(x, scale8, bias8)\nz = Mul(y, ten)\nw = Mul(z, z)\nr = Exp(w)",
    ),
    "cosine similarity": (
        "la = ReduceL2<axes=[-1]>(a)\nca = Max(la, least)\nna = Div(a, ca)\nlb = ReduceL2<axes=[-1]>(b)\ncb = Max(lb, least)\n"
        "nb = Div(b, cb)\np = Mul(na, nb)\nc = ReduceSum(p, last)\nd = Sub(limit, c)\nr = Log(d)",
        "p = Mul(a, b)\nc = ReduceSum(p, last)\nd = Sub(limit, c)\nr = Log(d)",
    ),
    "masked attention": (
        SCORES + "c = Where(mask, s8, hidden)\na = Softmax<axis=-1>(c)\nr = MatMul(a, v)",
        SCORES + "h = Div(hidden, zero)\nc = Where(mask, s8, h)\na = Softmax<axis=-1>(c)\nr = MatMul(a, v)",
    ),
    "IoU": (
        AREAS + "u = Add(sp, st)\nn = Sub(u, both)\ng = Add(n, tiny)\nr = Div(both, g)",
        AREAS + "u = Sub(sp, st)\ng = Add(u, tiny)\nr = Div(both, g)",
    ),
    "dice": (
        AREAS + "b2 = Mul(both, two)\nb3 = Add(b2, one)\nu = Add(sp, st)\ng = Add(u, one)\nq = Div(b3, g)\nr = Sub(one, q)",
        AREAS + "b2 = Mul(both, two)\nu = Add(sp, st)\nq = Div(b2, u)\nr = Sub(one, q)",
    ),
    "focal": (
        "l = LogSoftmax<axis=-1>(x)\np = Exp(l)\nn = Sub(one, p)\nn2 = Mul(n, n)\nf = Mul(n2, l)\nr = Neg(f)",
        "p = Softmax<axis=-1>(x)\nl = Log(p)\nn = Sub(one, p)\nn2 = Mul(n, n)\nf = Mul(n2, l)\nr = Neg(f)",
    ),
    "InfoNCE": (
        "la = ReduceL2<axes=[-1]>(a)\nca = Max(la, least)\nna = Div(a, ca)\nlb = ReduceL2<axes=[-1]>(b)\ncb = Max(lb, least)\n"
        "nb = Div(b, cb)\nnt = Transpose(nb)\ns = MatMul(na, nt)\n"
        "h = Div(s, heat)\ne = Exp(h)\nt = ReduceSum(e, last)\nq = Div(e, t)\nr = Log(q)",
        "nt = Transpose(b)\ns = MatMul(a, nt)\nh = Div(s, heat)\ne = Exp(h)\nt = ReduceSum(e, last)\nq = Div(e, t)\nr = Log(q)",
    ),
    "KL": (
        "p = Softmax<axis=-1>(x)\nlp = LogSoftmax<axis=-1>(x)\nlq = LogSoftmax<axis=-1>(y)\nd = Sub(lp, lq)\nf = Mul(p, d)\n"
        "r = ReduceSum(f, last)",
        "p = Softmax<axis=-1>(x)\nq = Softmax<axis=-1>(y)\nd = Div(p, q)\nl = Log(d)\nf = Mul(p, l)\nr = ReduceSum(f, last)",
    ),
    "softmax at V": (
        "p = Softmax<axis=-1>(x)\na = MatMul(p, v)\nr = Log(a)",
        "p = Softmax<axis=-1>(x)\nc = Sub(v, middle)\na = MatMul(p, c)\nr = Log(a)",
    ),
    "l2-normalise": (
        "n = ReduceL2<axes=[-1]>(x)\nc = Clip(n, least)\ny = Div(x, c)\nz = Mul(y, ten)\nr = Exp(z)",
        "n = ReduceL2<axes=[-1]>(x)\ny = Div(x, n)\nz = Mul(y, ten)\nr = Exp(z)",
    ),
    "gelu": (
        "d = Div(x, root2)\ne = Erf(d)\np = Add(e, one)\nh = Mul(x, p)\ng = Mul(h, half)\nc = Add(g, fifth)\nr = Log(c)",
        "d = Div(x, root2)\ne = Erf(d)\np = Add(e, one)\nh = Mul(x, p)\ng = Mul(h, half)\nc = Add(g, tenth)\nr = Log(c)",
    ),
}


def initialisers() -> str:
    """Axes, shapes, labels, and the weights of normalisations."""
    made = [
        "int64[1] last = {-1}",
        "int64[3] groups = {2, 4, 32}",
        "int64[4] image = {2, 8, 4, 4}",
        "int64[4] labels = {0, 3, 7, 1}",
    ]
    for size in (4, 8, 16):
        made.append(f"float[{size}] scale{size} = {{{', '.join(['1.5'] * size)}}}")
        made.append(f"float[{size}] bias{size} = {{{', '.join(['0.5'] * size)}}}")
    return f"<{', '.join(made)}>"


def main(folder: Path) -> None:
    constants = "".join(f"{name} = Constant<value_float={value}>()\n" for name, value in NUMBERS.items())
    for name, inputs in CASES.items():
        declared = ", ".join(
            f"{'bool' if i.boolean else 'float'}[{','.join(map(str, i.shape))}] {variable}" for variable, i in inputs.items()
        )
        # Reductions take their axes as attributes up to version 17.
        opset, ir_version = (23, 11) if name.endswith("of the library") else (17, 8)
        for suffix, body in zip(("", DEFECTIVE), FORMS[name]):
            proto = model(f"({declared}) => (float r) {initialisers()}", constants + body, opset=opset, ir_version=ir_version)
            onnx.save(proto, folder / f"{name}{suffix}.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
