"""Normalisations written out: what is claimed of them holds in real runs, and what is not quite one is not claimed."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from tensorproof.assumptions import Declarations, domain_from_json, resolve
from tensorproof.checking import ConstantRanges, input_values
from tensorproof.formats import BY_NAME, FLOAT16, FLOAT32
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted
from tensorproof.idioms.claims import claims_of
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.targets import TARGETS
from tests.models import found, model, static

pytestmark = pytest.mark.area("idioms")

N = 24
NAME = "divided-by-own-norm"
CENTRED = "m = ReduceMean<axes=[-1]>(x)\nd = Sub(x, m)\n"
NUMBERS = (
    "two = Constant<value_float=2.0>()\nhalf = Constant<value_float=0.5>()\nminus = Constant<value_float=-0.5>()\n"
    "one = Constant<value_float=1.0>()\nn = Constant<value_float=24.0>()\nless = Constant<value_float=23.0>()\n"
    "part = Constant<value_float=0.041666668>()\neps = Constant<value_float=1e-3>()\nzero = Constant<value_float=0.0>()\n"
    "gamma = Constant<value_floats=[0.5, -2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, "
    "1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]>()\n"
)
#: How a normalisation is written, and the largest |y| in exact arithmetic.
FORMS: dict[str, tuple[str, float]] = {
    "root of mean of powers": (
        CENTRED + "q = Pow(d, two)\nv = ReduceMean<axes=[-1]>(q)\nve = Add(v, eps)\ns = Sqrt(ve)\ny = Div(d, s)",
        math.sqrt(N),
    ),
    "products, epsilon first": (
        CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nve = Add(eps, v)\ns = Sqrt(ve)\ny = Div(d, s)",
        math.sqrt(N),
    ),
    "epsilon outside": (
        CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nr = Sqrt(v)\ns = Add(r, eps)\ny = Div(d, s)",
        math.sqrt(N),
    ),
    "epsilon by maximum": (
        CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nw = Max(v, eps)\ns = Sqrt(w)\ny = Div(d, s)",
        math.sqrt(N),
    ),
    "reciprocal": (
        CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\nr = Reciprocal(s)\ny = Mul(d, r)",
        math.sqrt(N),
    ),
    "one divided by the root": (
        CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\nr = Div(one, s)\ny = Mul(r, d)",
        math.sqrt(N),
    ),
    "power of minus one half": (
        CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\nr = Pow(w, minus)\ny = Mul(d, r)",
        math.sqrt(N),
    ),
    "power of one half": (
        CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Pow(w, half)\ny = Div(d, s)",
        math.sqrt(N),
    ),
    "weights beside the reciprocal": (
        CENTRED
        + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\nr = Reciprocal(s)\nrg = Mul(r, gamma)\ny = Mul(d, rg)",
        2.0 * math.sqrt(N),
    ),
    "sum of squares divided": (
        CENTRED + "t = ReduceSumSquare<axes=[-1]>(d)\nv = Div(t, n)\nw = Add(v, eps)\ns = Sqrt(w)\ny = Div(d, s)",
        math.sqrt(N),
    ),
    "sum times a part": (
        CENTRED + "q = Mul(d, d)\nt = ReduceSum(q, last)\nv = Mul(part, t)\nw = Add(v, eps)\ns = Sqrt(w)\ny = Div(d, s)",
        math.sqrt(N),
    ),
    "corrected variance": (
        CENTRED
        + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nk = Mul(v, n)\nc = Div(k, less)\nr = Sqrt(c)\ns = Add(r, eps)\ny = Div(d, s)",
        math.sqrt(N - 1),
    ),
    "difference the other way round": (
        "m = ReduceMean<axes=[-1]>(x)\nd = Sub(m, x)\nd2 = Sub(x, m)\n"
        "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\ny = Div(d2, s)",
        math.sqrt(N),
    ),
    "statistics computed twice": (
        CENTRED + "m2 = ReduceMean<axes=[-1]>(x)\nd2 = Sub(x, m2)\n"
        "q = Mul(d2, d2)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\ny = Div(d, s)",
        math.sqrt(N),
    ),
    "without the axis, put back": (
        CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1], keepdims=0>(q)\nw = Add(v, eps)\ns = Sqrt(w)\n"
        "u = Unsqueeze(s, last)\ny = Div(d, u)",
        math.sqrt(N),
    ),
    "root mean square": (
        "q = Pow(x, two)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\ny = Div(x, s)",
        math.sqrt(N),
    ),
    "norm clipped": ("r = ReduceL2<axes=[-1]>(x)\ns = Clip(r, eps)\ny = Div(x, s)", 1.0),
    "norm expanded": ("r = ReduceL2<axes=[-1]>(x)\nc = Max(r, eps)\nsh = Shape(x)\ns = Expand(c, sh)\ny = Div(x, s)", 1.0),
    "norm of a sum": ("t = ReduceSumSquare<axes=[-1]>(x)\nw = Add(t, eps)\ns = Sqrt(w)\ny = Div(x, s)", 1.0),
    "over both axes": ("q = Mul(x, x)\nv = ReduceMean(q)\nw = Add(v, eps)\ns = Sqrt(w)\ny = Div(x, s)", math.sqrt(3 * N)),
}
SIGNATURE = f"(float[3,{N}] x) => (float[3,{N}] y) <int64[1] last = {{-1}}>"


def written(body: str, precision: str = "float32") -> onnx.ModelProto:
    proto = model(SIGNATURE, NUMBERS + body, opset=13)
    return converted(proto, FLOAT16)[0] if precision == "float16" else proto


def idioms_of(proto: onnx.ModelProto) -> set[str]:
    graph = from_proto(proto)
    names = {node.number: node.name for node in graph.graph.walk()}
    return {claim.idiom for number, claims in claims_of(graph).items() for claim in claims if names[number] == "y"}


def range_of(proto: onnx.ModelProto, limit: float, target: str = "onnxruntime-cpu") -> Range:
    """The range of y for |x| <= limit."""
    graph = from_proto(proto)
    (assumptions, *_), _ = resolve(graph, Declarations({"*": domain_from_json((-limit, limit), "*")}, {}))
    ranged = propagate(
        graph,
        input_values(graph, assumptions),
        TARGETS[target],
        constants=ConstantRanges(graph, assumptions),
        keep_ranges=True,
        strict=True,
    )
    number = graph.find_value("y")
    assert number is not None
    result = ranged.ranges[number].clean
    assert isinstance(result, Range)
    return result


@cache
def session(body: str, precision: str, optimised: bool) -> ort.InferenceSession:
    options = ort.SessionOptions()
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(written(body, precision).SerializeToString(), options)


def adversaries(precision: str) -> list[np.ndarray[Any, Any]]:
    """Rows that come closest to the bound (one element unlike all others), at large means and at all scales."""
    rng = np.random.default_rng(0)
    half = precision == "float16"
    means = (0.0, 1.0, -30.0, 100.0) if half else (0.0, 1.0, -1e3, 1e6)
    scales = (1e-8, 1e-5, 1e-2, 1.0, 50.0) if half else (1e-44, 1e-30, 1e-20, 1e-6, 1.0, 1e3, 1e10, 1e17)
    spike = np.zeros((3, N))
    spike[:, 0] = (1.0, -1.0, 1.0)
    spike[2, 1] = 1e-3
    shapes = [spike, np.ones((3, N)), np.zeros((3, N)), rng.normal(size=(3, N)), np.sign(rng.normal(size=(3, N)))]
    return [(mean + scale * shape).astype(precision) for mean in means for scale in scales for shape in shapes]


LIMITS = {"float32": 2e17, "float16": 180.0}


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_claimed_holds_in_real_runs(form: str, precision: str) -> None:
    body, exact = FORMS[form]
    proto = written(body, precision)
    assert NAME in idioms_of(proto)
    y = range_of(proto, LIMITS[precision])
    low, high = y.hull()
    assert high == -low and exact <= high <= exact * (1.0001 if precision == "float32" else 1.15)
    assert y.norm is not None and y.norm.axis == 1 and high <= y.norm.bound <= exact * (1.0001 if precision == "float32" else 1.2)
    worst = largest_norm = 0.0
    for optimised in (False, True):
        for x in adversaries(precision):
            (result,) = session(body, precision, optimised).run(["y"], {"x": x})
            exactly = result.astype(np.float64)
            assert np.isfinite(exactly).all()
            worst = max(worst, float(np.abs(exactly).max()))
            largest_norm = max(largest_norm, float(np.sqrt((exactly**2).sum(axis=-1)).max()))
    assert worst <= high and largest_norm <= y.norm.bound
    assert worst >= 0.5 * exact / (2.0 if "weights" in form else 1.0), "the runs do not come near the bound"


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_means_of_two_operators_are_almost_the_same(precision: str) -> None:
    """The numerator's mean is a sum that is divided, the variance's one operator."""
    body = "t = ReduceSum(x, last)\nm = Div(t, n)\nd = Sub(x, m)\nm2 = ReduceMean<axes=[-1]>(x)\nd2 = Sub(x, m2)\nq = Mul(d2, d2)\n"
    body += "v = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\ny = Div(d, s)"
    limit = 1e4 if precision == "float32" else 30.0
    low, high = range_of(written(body, precision), limit).hull()
    assert math.sqrt(N) < high <= math.sqrt(N) + (2.0 if precision == "float32" else 10.0)
    for x in adversaries(precision):
        if np.abs(x).max() <= limit:
            (result,) = session(body, precision, False).run(["y"], {"x": x})
            assert low <= result.min() and result.max() <= high
    wrong = body.replace("Div(t, n)", "Div(t, less)")
    assert range_of(written(wrong, precision), limit).hull()[1] > 2.0 * high


FOLDED = {
    "x r + (b - m r)": "xr = Mul(x, r)\nmr = Mul(m, r)\no = Sub(one, mr)\ny = Add(xr, o)",
    "(x r + b) - m r": "xr = Mul(r, x)\nmr = Mul(m, r)\no = Add(one, xr)\ny = Sub(o, mr)",
    "x r - m r": "xr = Mul(x, r)\nmr = Mul(m, r)\ny = Sub(xr, mr)",
    "x r + -m r": "xr = Mul(x, r)\nk = Neg(m)\nmr = Mul(k, r)\ny = Add(xr, mr)",
}
SCALED = CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\nr = Reciprocal(s)\n"


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("form", FOLDED)
def test_normalisations_that_are_folded_into_one_product(form: str, precision: str) -> None:
    body, limit = SCALED + FOLDED[form], 1e4 if precision == "float32" else 30.0
    proto = written(body, precision)
    assert "normalised-and-shifted-at-once" in idioms_of(proto)
    low, high = range_of(proto, limit).hull()
    shift = 1.0 if "b" in form else 0.0
    assert high <= math.sqrt(N) + shift + (0.2 if precision == "float32" else 6.0)
    for optimised in (False, True):
        for x in adversaries(precision):
            if np.abs(x).max() <= limit:
                (result,) = session(body, precision, optimised).run(["y"], {"x": x})
                assert low <= result.min() and result.max() <= high


@pytest.mark.parametrize(
    "wrong",
    [
        "xr = Mul(x, r)\nmr = Mul(m, r)\ny = Add(xr, mr)",
        "xr = Mul(x, r)\nmr = Mul(m, s)\ny = Sub(xr, mr)",
        "m2 = ReduceMax<axes=[-1]>(x)\nxr = Mul(x, r)\nmr = Mul(m2, r)\ny = Sub(xr, mr)",
    ],
)
def test_what_is_folded_wrongly_is_not_bounded(wrong: str) -> None:
    assert "normalised-and-shifted-at-once" not in idioms_of(written(SCALED + wrong))


SQUARE = f"(float[{N},{N}] x) => (float[{N},{N}] y) <int64[1] first = {{0}}, int64[1] last = {{-1}}>"


def of_moments(axis: str) -> str:
    """Statistics along an axis of a square matrix, the mean without that axis where it is multiplied: `tf.nn.moments`."""
    scaled = SCALED.replace("-1", {"first": "0", "last": "-1"}[axis])
    return scaled + f"k = Squeeze(m, {axis})\nxr = Mul(x, r)\nmr = Mul(k, r)\no = Sub(one, mr)\ny = Add(xr, o)"


def test_a_mean_without_its_axis_meets_the_same_elements() -> None:
    """Along the first axis the mean of each column meets that column all the same; along the last one it meets other rows."""
    good, bad = (model(SQUARE, NUMBERS + of_moments(axis), opset=13) for axis in ("first", "last"))
    low, high = range_of(good, 100.0).hull()
    assert high <= math.sqrt(N) + 1.1
    farthest = {"good": 0.0, "bad": 0.0}
    for name, proto in (("good", good), ("bad", bad)):
        run = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        for seed in range(20):
            generator = np.random.default_rng(seed)
            rows = generator.choice([-100.0, 0.0, 100.0], (N, 1)) + generator.normal(0.0, 0.1, (N, N))
            x = np.clip(rows if seed % 2 else rows.T, -100.0, 100.0).astype(np.float32)
            (result,) = run.run(["y"], {"x": x})
            farthest[name] = max(farthest[name], float(np.abs(result).max()))
    assert farthest["good"] <= high and -low <= high
    assert farthest["bad"] > 2.0 * high
    assert range_of(bad, 100.0).hull()[1] >= farthest["bad"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", ["root of mean of powers", "norm clipped"])
def test_every_target_has_its_bound(form: str, target: str) -> None:
    body, exact = FORMS[form]
    for precision in ("float32", "float16"):
        low, high = range_of(written(body, precision), LIMITS[precision] / 20, target).hull()
        assert exact <= high <= 1.1 * exact and low == -high


NEAR_MISSES = {
    "no epsilon": CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\ns = Sqrt(v)\ny = Div(d, s)",
    "epsilon that is zero": CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, zero)\ns = Sqrt(w)\ny = Div(d, s)",
    "squares of means": "q = Mul(x, x)\na = ReduceMean<axes=[-1]>(q)\nm = ReduceMean<axes=[-1]>(x)\nb = Mul(m, m)\nv = Sub(a, b)\n"
    "w = Add(v, eps)\ns = Sqrt(w)\nd = Sub(x, m)\ny = Div(d, s)",
    "another axis": CENTRED
    + "q = Mul(d, d)\nv = ReduceMean<axes=[0]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\nt = Transpose(s)\ny = Div(d, t)",
    "another tensor": CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\ny = Div(x, s)",
    "a cube": CENTRED
    + "c = Constant<value_float=3.0>()\nq = Pow(d, c)\nv = ReduceMean<axes=[-1]>(q)\nw = Max(v, eps)\ns = Sqrt(w)\ny = Div(d, s)",
    "a top": CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nw = Clip(v, eps, one)\ns = Sqrt(w)\ny = Div(d, s)",
    "negative epsilon": CENTRED
    + "q = Mul(d, d)\nv = ReduceMean<axes=[-1]>(q)\nk = Neg(eps)\nw = Add(v, k)\nz = Max(w, eps)\ns = Sqrt(z)\ny = Div(d, s)",
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_not_bounded(name: str) -> None:
    if name == "another axis":
        proto = model("(float[4,4] x) => (float[4,4] y)", NUMBERS + NEAR_MISSES[name], opset=13)
    else:
        proto = written(NEAR_MISSES[name])
    assert range_of(proto, 1e4).hull()[1] > 1e4


def test_rows_of_a_square_matrix_are_not_confused() -> None:
    """Without keepdims the statistics of row i meet column i."""
    body = (
        NUMBERS + CENTRED + "q = Mul(d, d)\nv = ReduceMean<axes=[-1], keepdims=0>(q)\nw = Add(v, eps)\ns = Sqrt(w)\ny = Div(d, s)"
    )
    assert range_of(model("(float[4,4] x) => (float[4,4] y)", body, opset=13), 1e4).hull()[1] > 1e4


@pytest.mark.parametrize("name", ["no epsilon", "epsilon that is zero"])
def test_a_divisor_that_can_be_zero_is_reported(name: str) -> None:
    assert ("NUM103", "y") in found(static(written(NEAR_MISSES[name]), ranges={"x": (-10, 10)}))


def test_the_variance_by_squares_of_means_is_reported() -> None:
    assert ("NUM102", "s") in found(static(written(NEAR_MISSES["squares of means"]), ranges={"x": (-1e4, 1e4)}))


def test_an_epsilon_that_vanishes_in_float16_is_none() -> None:
    body = FORMS["root of mean of powers"][0]
    proto = model(SIGNATURE, NUMBERS.replace("1e-3", "1e-12") + body, opset=13)
    assert not static(proto, ranges={"x": (-10, 10)}).findings
    assert ("NUM103", "y") in found(static(proto, ranges={"x": (-10, 10)}, precision="float16"))


def test_squares_that_overflow_are_reported() -> None:
    report = static(written(FORMS["root of mean of powers"][0]), ranges={"x": (-1e20, 1e20)})
    assert "q" in {node for _, node in found(report)}


#: Node and |x|. The standard defines GroupNormalization by E[x^2] - E[x]^2, which is safe near zero only.
FUSED = {
    "LayerNormalization": ("float[2,16] x", "y = LayerNormalization(x, g, b)", 1e6),
    "RMSNormalization": ("float[2,16] x", "y = RMSNormalization(x, g)", 1e6),
    "InstanceNormalization": ("float[2,16,8] x", "y = InstanceNormalization(x, g, b)", 8.0),
    "GroupNormalization": ("float[2,16,8] x", "y = GroupNormalization<num_groups=4>(x, g, b)", 0.5),
}


@pytest.mark.parametrize("name", FUSED)
def test_fused_operators_are_proven(name: str) -> None:
    signature, body, limit = FUSED[name]
    ones, zeros = ", ".join(["1.0"] * 16), ", ".join(["0.0"] * 16)
    result = signature.replace(" x", " z")
    text = f"({signature}) => ({result}) <float[16] g = {{{ones}}}, float[16] b = {{{zeros}}}>"
    report = static(model(text, body + "\nz = Exp(y)", opset=23, ir_version=11), ranges={"x": (-limit, limit)})
    assert found(report) == set() and {"y", "z"} <= set(report.proven_safe)


def test_sums_of_sums_are_followed_once() -> None:
    """A tower of sums with itself has 2^60 paths, and one chain at its end."""
    tower = "\n".join(f"a{i + 1} = Add(a{i}, a{i})" for i in range(60))
    proto = written(f"a0 = Sqrt(x)\n{tower}\ny = Div(x, a60)")
    assert NAME not in idioms_of(proto)


def test_formats_of_the_two_precisions_are_the_ones_tested() -> None:
    assert written(FORMS["norm clipped"][0], "float16").graph.input[0].type.tensor_type.elem_type == FLOAT16.onnx_code
    assert written(FORMS["norm clipped"][0]).graph.input[0].type.tensor_type.elem_type == FLOAT32.onnx_code


UNIT = "la = ReduceL2<axes=[-1]>(x)\nca = Max(la, eps)\nna = Div(x, ca)\nlb = ReduceL2<axes=[-1]>(b)\ncb = Max(lb, eps)\nnb = Div(b, cb)\n"
SQUARES = (
    "aa = Mul(x, x)\nsa = ReduceSum(aa, last)\nbb = Mul(b, b)\nsb = ReduceSum(bb, last)\nab = Mul(x, b)\nt = ReduceSum(ab, last)\n"
)
COSINES = {
    "sum-of-products": UNIT + "p = Mul(na, nb)\ny = ReduceSum(p, last)",
    "cosine-under-one-root": SQUARES + "p = Mul(sb, sa)\ns = Sqrt(p)\nc = Max(s, eps)\ny = Div(t, c)",
}


def pair(body: str, precision: str) -> onnx.ModelProto:
    signature = f"(float[3,{N}] x, float[3,{N}] b) => (float[3,1] y) <int64[1] last = {{-1}}>"
    proto = model(signature, NUMBERS + body, opset=13)
    return converted(proto, FLOAT16)[0] if precision == "float16" else proto


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("name", COSINES)
def test_cosines_are_at_most_one(name: str, precision: str) -> None:
    proto = pair(COSINES[name], precision)
    assert name in idioms_of(proto)
    limit = 1e4 if precision == "float32" else 3.0
    low, high = range_of(proto, limit).hull()
    # In 16 bits, what the squares lose by underflow is large beside the square of epsilon.
    assert 1.0 <= high <= (1.0001 if precision == "float32" else 40.0) and low == -high
    engine = ort.InferenceSession(proto.SerializeToString())
    worst = 0.0
    for x in adversaries(precision):
        for b in (x, -x, x[::-1].copy()):
            if np.abs(x).max() <= limit:
                (result,) = engine.run(["y"], {"x": x, "b": b})
                assert low <= result.min() and result.max() <= high
                worst = max(worst, float(np.abs(result.astype(np.float64)).max()))
    assert worst > 0.99


@pytest.mark.parametrize(
    "body",
    [
        UNIT + "p = Mul(na, b)\ny = ReduceSum(p, last)",
        SQUARES + "p = Mul(sa, sa)\ns = Sqrt(p)\nc = Max(s, eps)\ny = Div(t, c)",
        SQUARES + "p = Mul(sb, sa)\nc = Max(p, eps)\ny = Div(t, c)",
        SQUARES + "p = Mul(sb, sa)\ns = Sqrt(p)\nk = Clip(s, eps, one)\ny = Div(t, k)",
    ],
)
def test_what_is_no_cosine_is_not_bounded(body: str) -> None:
    assert range_of(pair(body, "float32"), 1e4).hull()[1] > 1e4


def test_means_over_different_axes_are_not_the_same() -> None:
    body = "m = ReduceMean<axes=[0]>(x)\nd = Sub(x, m)\nm2 = ReduceMean<axes=[-1]>(x)\nd2 = Sub(x, m2)\nq = Mul(d2, d2)\n"
    body += "v = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\ny = Div(d, s)"
    assert range_of(written(body), 1e4).hull()[1] > 1e4


AREAS = "k = Mul(p, x)\nc = ReduceSum(k, last)\na = ReduceSum(p, last)\nb = ReduceSum(x, last)\nu = Add(a, b)\no = Sub({}, c)\ny = Add({}, o)"


def areas(body: str) -> onnx.ModelProto:
    signature = f"(float[3,{N}] p, float[3,{N}] x) => (float[3,1] y) <int64[1] last = {{-1}}>"
    return model(signature, NUMBERS + body, opset=13)


def test_the_union_of_two_areas_keeps_half_of_its_guard() -> None:
    """As TensorFlow's optimiser writes (a + b - c) + eps; near misses: no guard, and the shared part taken off one area alone."""
    proto = areas(AREAS.format("eps", "u"))
    assert "union-with-its-guard-inside" in idioms_of(proto)
    shares = {"p": (0, 1), "x": (0, 1)}
    with_quotient = areas(AREAS.format("eps", "u") + "\nz = Div(c, y)")
    assert not static(with_quotient, ranges=shares).findings
    for wrong in (AREAS.format("zero", "u"), AREAS.format("eps", "a")):
        assert ("NUM103", "z") in found(static(areas(wrong + "\nz = Div(c, y)"), ranges=shares))
    rng = np.random.default_rng(0)
    engine = ort.InferenceSession(proto.SerializeToString())
    for scale in (0.0, 1e-30, 1e-4, 1e-2, 1.0):
        for shape in (np.ones((3, N)), rng.uniform(size=(3, N))):
            p = (scale * shape).astype(np.float32)
            for x in (p, np.ones_like(p), np.zeros_like(p)):
                (result,) = engine.run(["y"], {"p": p, "x": x})
                assert result.min() >= 0.5e-3


GUARDED = "m = ReduceMax<axes=[-1]>(x)\n{}\nd = Sub(x, g)\ne = Exp(d)\nt = ReduceSum(e, last)\ny = Log(t)"


@pytest.mark.parametrize(
    ("guard", "safe"),
    [
        ("g = Max(m, least)", True),
        ("i = IsInf(m)\nj = IsNaN(m)\nk = Or(i, j)\nl = Not(k)\ng = Where(l, m, zero)", True),
        ("i = IsInf(m)\nl = Not(i)\nc = Cast<to=1>(l)\nk = Cast<to=1>(i)\na = Mul(c, m)\nb = Mul(k, zero)\ng = Add(a, b)", True),
        ("g = Max(m, zero)", False),
        ("l = Greater(m, zero)\ng = Where(l, m, zero)", False),
        ("l = Greater(m, zero)\nc = Cast<to=1>(l)\ng = Mul(c, m)", False),
    ],
)
def test_guards_around_a_maximum(guard: str, safe: bool) -> None:
    """Those that let every finite maximum pass are seen through; those that replace it by something else are not."""
    proto = model(SIGNATURE.replace("last = {-1}", "last = {-1}, float least = {0.0}"), NUMBERS + GUARDED.format(guard), opset=13)
    proto.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.array(-np.inf, np.float32), "least"))
    report = static(proto, ranges={"x": (-1e4, 1e4)})
    assert (found(report) == set()) is safe


@pytest.mark.parametrize("epsilon", [1e-7, 1e-5, 1e-3])
@pytest.mark.parametrize("precision", ["float16", "bfloat16", "float32"])
def test_any_order_of_summation_in_the_format_itself(precision: str, epsilon: float) -> None:
    """Every step rounded into 16 bits, sums of squares in random orders, magnitudes down to subnormal numbers."""
    body = "q = Mul(x, x)\nv = ReduceMean<axes=[-1]>(q)\nw = Add(v, eps)\ns = Sqrt(w)\ny = Div(x, s)"
    proto = model(SIGNATURE, NUMBERS.replace("1e-3", f"{epsilon}") + body, opset=13)
    format = BY_NAME[precision]
    proto = converted(proto, format)[0] if precision != "float32" else proto
    y = range_of(proto, 10.0, "ieee")
    assert y.norm is not None
    low, high = y.hull()
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(3000):
        exponents = rng.uniform(-24.0, 3.0) if rng.random() < 0.5 else rng.uniform(-24.0, 3.0, N)
        x = (rng.choice([-1.0, 1.0], N) * rng.uniform(1.0, 1.25, N) * 2.0**exponents).astype(format.dtype)
        if rng.random() < 0.3:
            x[1:] = 0
        total = format.dtype.type(0)
        for square in (x * x)[rng.permutation(N)]:
            total = format.dtype.type(total + square)
        mean = format.dtype.type(total / format.dtype.type(N))
        root = np.sqrt(format.dtype.type(mean + format.dtype.type(epsilon)))
        if root > 0:
            result = (x / root).astype(np.float64)
            assert np.abs(result).max() <= high and np.sqrt((result**2).sum()) <= y.norm.bound
            worst = max(worst, float(np.abs(result).max()))
    assert worst > 0.9 * math.sqrt(N) and low == -high


WIDE = "w = Cast<to=1>(x)\nq = Mul(w, w)\nv = ReduceMean<axes=[-1]>(q)\na = Add(v, eps)\ns = Sqrt(a)\nr = Reciprocal(s)\n"


@pytest.mark.parametrize(
    "rest",
    ["k = Mul(w, r)\ny = Cast<to=10>(k)", "h = Cast<to=10>(r)\ny = Mul(x, h)", "h = Cast<to=10>(s)\ny = Div(x, h)"],
    ids=["wide to the end", "narrow factor", "narrow divisor"],
)
def test_statistics_in_float32_of_a_float16_tensor(rest: str) -> None:
    signature = f"(float16[3,{N}] x) => (float16[3,{N}] y)"
    proto = model(signature, NUMBERS + WIDE + rest, opset=13)
    y = range_of(proto, 6e4)
    low, high = y.hull()
    assert math.sqrt(N) * 0.999 <= high <= 1.01 * math.sqrt(N) and low == -high
    engine = ort.InferenceSession(proto.SerializeToString())
    worst = 0.0
    for x in (*adversaries("float16"), np.full((3, N), 6e4, np.float16)):
        (result,) = engine.run(["y"], {"x": x})
        worst = max(worst, float(np.abs(result.astype(np.float64)).max()))
    assert 0.9 * math.sqrt(N) <= worst <= high
