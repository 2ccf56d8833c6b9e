"""Norms beside ranges: never exceeded by what runtimes compute, and tight enough to prove what intervals cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime as ort
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph, NotImplemented

from tensorproof.assumptions import parse_domain
from tensorproof.confirm.sampling import sample
from tensorproof.execute.instrument import instrumented
from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted
from tensorproof.operators.table import Call, evaluate, find_operator
from tensorproof.ranges.abstraction import FIRST_PASS, Abstraction
from tensorproof.ranges.norms import Norm
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.ranges.records import RangedGraph
from tensorproof.ranges.spectral import sigma
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU
from tests.models import model
from tests.soundness.containment import violation
from tests.test_whole_models import exported, outside
from tests.torch_models import EXPORTED

pytestmark = pytest.mark.area("norms")

SPECTRAL = Abstraction(spectral=True, idioms=False)
INTERVALS = Abstraction(norms=False, idioms=False)


def adversarial(shape: tuple[int, ...], reach: float, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Inputs that strain norms: large means, one large element, constant rows, signs that alternate, subnormal numbers."""
    rng = np.random.default_rng(seed)
    ramp = np.linspace(-1.0, 1.0, shape[-1])
    spike = np.zeros(shape)
    spike[..., 1] = reach
    alternating = np.broadcast_to(np.where(np.arange(shape[-1]) % 2, reach, -reach), shape)
    inputs = [rng.normal(size=shape) * scale for scale in (1.0, 1e-3, reach / 4)]
    inputs += [np.full(shape, reach), np.full(shape, reach) * (1.0 - 1e-4 * ramp), alternating, spike, spike + 1.0]
    inputs += [np.full(shape, 2.0**-149), rng.normal(size=shape) * 2.0**-140, rng.normal(size=shape) * 0.01 + 0.9 * reach]
    return [np.clip(x, -reach, reach) for x in inputs]


def analysed(
    proto: onnx.ModelProto, reach: float, abstraction: Abstraction = SPECTRAL, target: Any = ONNXRUNTIME_CPU
) -> RangedGraph:
    parsed = from_proto(proto)
    inputs: dict[int, Any] = {}
    for number in parsed.graph.inputs:
        value = parsed.values[number]
        assert value.shape is not None and value.format is not None
        ends = min(reach, value.format.high)
        inputs[number] = Range.uniform(tuple(int(n) for n in value.shape if n is not None), value.format, -ends, ends)
    return propagate(parsed, inputs, target, keep_ranges=True, strict=True, abstraction=abstraction)


def norm_of(ranged: RangedGraph, name: str) -> Norm | None:
    number = next(n for n in ranged.ranges if ranged.model.name_of(n) == name)
    value = ranged.ranges[number].clean
    assert isinstance(value, Range)
    return value.norm


def range_of(ranged: RangedGraph, name: str) -> Range:
    number = next(n for n in ranged.ranges if ranged.model.name_of(n) == name)
    value = ranged.ranges[number].clean
    assert isinstance(value, Range)
    return value


def check_runs(proto: onnx.ModelProto, reach: float, abstraction: Abstraction = SPECTRAL) -> RangedGraph:
    """Every value of every strained run lies in its range and within its norm."""
    ranged = analysed(proto, reach, abstraction)
    names = [name for node in proto.graph.node for name in node.output if name]
    flows = {ranged.model.name_of(n): flow for n, flow in ranged.ranges.items()}
    fails_nowhere = not any(record.hazards for record in ranged.records.values())
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(instrumented(proto, names).SerializeToString(), options)
    (given,) = session.get_inputs()
    dtype = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}[given.type]
    for x in adversarial(tuple(given.shape), min(reach, float(np.finfo(dtype).max))):
        results = session.run(names, {given.name: x.astype(dtype)})
        for name, result in zip(names, results):
            assert violation(flows[name].clean if fails_nowhere else flows[name].actual, result) is None, name
    return ranged


SOURCES = {
    "LayerNormalization": "gain = Constant<value = float[8] {1.0, 0.5, -2.0, 1.0, 3.0, 0.0, 1.0, 1.5}>() n = LayerNormalization(x, gain)",
    "RMS": "one = Constant<value = float[8] {1, 1, 1, 1, 1, 1, 1, 1}>() n = RMSNormalization(x, one)",
    "Softmax": "n = Softmax(x)",
    "Lp": "n = LpNormalization(x)",
    "L1": "n = LpNormalization<p=1>(x)",
}

#: What follows a tensor n of shape (2, 4, 8) with a norm along its last axis; the last value is y.
FOLLOWERS = {
    "sum": "y = Add(n, n)",
    "difference": "c = Constant<value = float[1] {0.75}>() y = Sub(n, c)",
    "several": "c = Constant<value = float[4, 1] {0.75, 2.0, -3.0, 1.0}>() y = Sum(n, n, c)",
    "factor": "c = Constant<value = float[8] {1, 2, 3, 4, 5, 6, 7, -8}>() y = Mul(n, c)",
    "square": "y = Mul(n, n)",
    "quotient": "c = Constant<value = float {0.125}>() y = Div(n, c)",
    "relu": "y = Relu(n)",
    "gelu": "y = Gelu(n)",
    "tanh gelu": 'y = Gelu<approximate="tanh">(n)',
    "silu": "g = Sigmoid(n) y = Mul(n, g)",
    "hard swish": "y = HardSwish(n)",
    "mish": "y = Mish(n)",
    "leaky": "y = LeakyRelu<alpha = 1.5>(n)",
    "tanh": "y = Tanh(n)",
    "erf": "y = Erf(n)",
    "clip": "c = Constant<value = float {-0.3}>() d = Constant<value = float {0.2}>() y = Clip(n, c, d)",
    "absolute": "a = Abs(n) y = Neg(a)",
    "choice": "c = Constant<value = float {0.1}>() b = Greater(n, c) y = Where(b, n, c)",
    "maximum": "c = Constant<value = float {0.1}>() y = Max(n, c)",
    "transposed": "y = Transpose<perm = [2, 0, 1]>(n)",
    "heads": "s = Constant<value = int64[4] {2, 4, 2, 4}>() h = Reshape(n, s) y = Transpose<perm = [0, 2, 1, 3]>(h)",
    "merged": "s = Constant<value = int64[2] {2, 32}>() y = Reshape(n, s)",
    "swallowed": "t = Transpose<perm = [0, 2, 1]>(n) y = Flatten(t)",
    "squeezed": "a = Constant<value = int64[1] {1}>() u = Unsqueeze(n, a) y = Squeeze(u, a)",
    "slice": "a = Constant<value = int64[1] {1}>() b = Constant<value = int64[1] {7}>() y = Slice(n, a, b, a)",
    "rows": "i = Constant<value = int64[3] {0, 3, 1}>() y = Gather<axis = 1>(n, i)",
    "joined": "y = Concat<axis = 2>(n, n)",
    "stacked": "y = Concat<axis = 0>(n, n)",
    "expanded": "s = Constant<value = int64[4] {3, 2, 4, 8}>() y = Expand(n, s)",
    "tiled": "s = Constant<value = int64[3] {1, 2, 3}>() y = Tile(n, s)",
    "padded": "s = Constant<value = int64[6] {0, 1, 2, 0, 0, 3}>() y = Pad(n, s)",
    "mean": "a = Constant<value = int64[1] {1}>() y = ReduceMean(n, a)",
    "total": "a = Constant<value = int64[2] {0, 1}>() y = ReduceSum<keepdims = 0>(n, a)",
    "most": "a = Constant<value = int64[1] {1}>() y = ReduceMax(n, a)",
    "pools": "t = Transpose<perm = [0, 2, 1]>(n) m = MaxPool<kernel_shape = [3], pads = [1, 1]>(t) y = AveragePool<kernel_shape = [2]>(m)",
    "global": "t = Transpose<perm = [0, 2, 1]>(n) a = GlobalAveragePool(t) b = GlobalMaxPool(t) y = Add(a, b)",
    "scores": "t = Transpose<perm = [0, 2, 1]>(n) y = MatMul(n, t)",
    "mixed": "t = Transpose<perm = [0, 2, 1]>(n) q = MatMul(n, t) p = Softmax(q) y = MatMul(p, n)",
    "triangle": "y = Trilu(n)",
    "dropout": "y, m = Dropout(n)",
}


def build(source: str, follower: str) -> onnx.ModelProto:
    return model("(float[2,4,8] x) => (float y)", f"{SOURCES[source]}\n{FOLLOWERS[follower]}", opset=23, ir_version=11)


@pytest.mark.parametrize("follower", FOLLOWERS)
def test_no_block_loses_or_shortens_a_norm(follower: str) -> None:
    for source in SOURCES:
        proto = build(source, follower)
        ranged = check_runs(proto, 1e6)
        assert not any(record.hazards for record in ranged.records.values()), source
        assert norm_of(ranged, "n") is not None, source
        assert norm_of(ranged, "y") is not None, source


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("format", [FLOAT16, FLOAT64], ids=str)
def test_norms_hold_in_other_formats(source: str, format: Any) -> None:
    for follower in ("sum", "several", "factor", "gelu", "silu", "heads", "joined", "mean", "mixed", "choice"):
        proto = build(source, follower)
        if format is FLOAT16:
            proto, _ = converted(proto, FLOAT16)
        else:
            proto, _ = converted(proto, FLOAT64)
        try:
            check_runs(proto, 1e4)
        except (NotImplemented, InvalidGraph):
            assert format is FLOAT64  # ONNX Runtime has no kernel of some operators for it


def with_weights(body: str, weights: dict[str, np.ndarray[Any, Any]], signature: str) -> onnx.ModelProto:
    proto = model(signature, body, opset=23, ir_version=11)
    if "com.microsoft" in body:
        proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    for name, array in weights.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return proto


def linear_models() -> dict[str, tuple[onnx.ModelProto, float]]:
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return rng.normal(size=shape).astype(np.float32)

    wide, flat = normal(160, 192), np.outer(normal(160), normal(192)).astype(np.float32)
    gain = np.full(160, 160**-0.5, np.float32)
    unit = "n = RMSNormalization(x, gain)"
    kernels = {"k": normal(64, 32, 3, 3), "d": normal(24, 1, 3, 3), "g": normal(16, 6, 3, 3), "b": normal(64)}
    norm = "n = Softmax<axis = 1>(x)"
    return {
        "matmul": (with_weights(f"{unit}\ny = MatMul(n, w)", {"w": wide, "gain": gain}, "(float[3,160] x) => (float y)"), 1e6),
        "low rank": (with_weights(f"{unit}\ny = MatMul(n, w)", {"w": flat, "gain": gain}, "(float[3,160] x) => (float y)"), 1e6),
        "left": (
            with_weights("n = LpNormalization<axis = 0>(x)\ny = MatMul(w, n)", {"w": wide}, "(float[192,3] x) => (float y)"),
            1e6,
        ),
        "gemm": (
            with_weights(
                f"{unit}\ny = Gemm<alpha = 0.3, beta = 2.0, transB = 1>(n, w, b)",
                {"w": wide.T.copy(), "b": normal(192) / 10, "gain": gain},
                "(float[3,160] x) => (float y)",
            ),
            1e6,
        ),
        "heads": (
            with_weights(
                f"{unit}\nm = MatMul(n, w)\na = Add(m, b)\nr = Reshape(a, s)\ny = Transpose<perm = [1, 0, 2]>(r)",
                {"w": wide, "b": normal(192), "s": np.array([3, 12, 16]), "gain": gain},
                "(float[3,160] x) => (float y)",
            ),
            1e6,
        ),
        "split heads": (
            with_weights(
                f"{unit}\nm = MatMul(n, w)\nq, k, v = Split<axis = 1, num_outputs = 3>(m)\ny = Reshape(k, s)",
                {"w": wide, "s": np.array([3, 4, 16]), "gain": gain},
                "(float[3,160] x) => (float y)",
            ),
            1e6,
        ),
        "conv": (
            with_weights(f"{norm}\ny = Conv<pads = [1,1,1,1]>(n, k, b)", kernels, "(float[1,32,5,6] x) => (float y)"),
            1e6,
        ),
        "strided": (
            with_weights(
                f"{norm}\ny = Conv<strides = [2,2], dilations = [2,1]>(n, k)", kernels, "(float[1,32,7,6] x) => (float y)"
            ),
            1e6,
        ),
        "depthwise": (
            with_weights(f"{norm}\ny = Conv<group = 24, pads = [1,1,1,1]>(n, d)", kernels, "(float[1,24,5,5] x) => (float y)"),
            1e6,
        ),
        "groups": (with_weights(f"{norm}\ny = Conv<group = 4>(n, g)", kernels, "(float[1,24,5,5] x) => (float y)"), 1e6),
        "transposed": (
            with_weights(
                f"{norm}\ny = ConvTranspose<strides = [2,2]>(n, t)", {"t": normal(32, 24, 3, 3)}, "(float[1,32,4,5] x) => (float y)"
            ),
            1e6,
        ),
    }


LINEAR = linear_models()


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("abstraction", [SPECTRAL, Abstraction(idioms=False), FIRST_PASS], ids=["spectral", "frobenius", "first"])
def test_products_keep_norms(name: str, abstraction: Abstraction) -> None:
    proto, reach = LINEAR[name]
    ranged = check_runs(proto, reach, abstraction)
    if not (name == "transposed" and abstraction is FIRST_PASS):
        assert norm_of(ranged, "y") is not None
    half, _ = converted(proto, FLOAT16)
    check_runs(half, reach, abstraction)


@pytest.mark.parametrize("name", ["matmul", "low rank", "gemm", "heads", "conv"])
def test_norms_are_tighter_than_intervals(name: str) -> None:
    proto, reach = LINEAR[name]
    with_norms, without = (range_of(analysed(proto, reach, a), "y") for a in (Abstraction(idioms=False), INTERVALS))
    assert max(map(abs, with_norms.hull())) * 2 < max(map(abs, without.hull()))


def test_spectral_norms_are_tighter_than_frobenius() -> None:
    proto, reach = LINEAR["matmul"]
    spectral, frobenius = (norm_of(analysed(proto, reach, a), "y") for a in (SPECTRAL, Abstraction(idioms=False)))
    assert spectral is not None and frobenius is not None
    assert spectral.bound * 3 < frobenius.bound


@pytest.mark.parametrize("name", ["matmul", "low rank", "left"])
def test_the_longest_result_is_within_its_norm_and_near_it(name: str) -> None:
    """The input that a matrix stretches most."""
    proto, reach = LINEAR[name]
    norm = norm_of(analysed(proto, reach, SPECTRAL), "y")
    weights = next(np.asarray(onnx.numpy_helper.to_array(t)) for t in proto.graph.initializer if t.name == "w")
    left, _, right = np.linalg.svd(weights.astype(np.float64))
    x = np.tile(right[0][:, None], (1, 3)) if name == "left" else np.tile(left[:, 0], (3, 1))
    (y,) = ort.InferenceSession(proto.SerializeToString()).run(None, {"x": (x * 1e3).astype(np.float32)})
    longest = float(np.linalg.norm(np.asarray(y, np.float64), axis=0 if name == "left" else 1).max())
    assert norm is not None and longest <= norm.bound
    # Without an epsilon, rows of tiny numbers that underflow are not shorter than they are wide.
    assert norm.bound <= longest * (1.1 if name != "left" else 1.1 * 192**0.5 * 1.5)


def test_heads_are_parts_of_a_product() -> None:
    """Each head is as long as its own columns make it, in the sum with a bias and after the reshape."""
    proto, reach = LINEAR["heads"]
    whole, heads = (norm_of(analysed(proto, reach, SPECTRAL), name) for name in ("a", "y"))
    assert whole is not None and heads is not None and heads.axis == 2
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    weights, bias = np.asarray(arrays["w"], np.float64), np.asarray(arrays["b"], np.float64)
    exact = max(np.linalg.norm(weights[:, i : i + 16], 2) for i in range(0, 192, 16))
    assert exact <= heads.bound <= (exact * 1.1 + float(np.linalg.norm(bias))) * 1.01
    assert heads.bound < whole.bound


# -- blocks alone, in every format --------------------------------------------------------------------------------------


def rows_within(format: Any, rng: np.random.Generator, length: float) -> np.ndarray[Any, Any]:
    """Rows of the format whose norms are at most a length, many of them nearly so long."""
    rows = np.concatenate([rng.normal(size=(6, 40)), np.eye(2, 40), np.ones((1, 40)), (-1.0) ** np.arange(40)[None]])
    rows *= length * rng.choice([1.0, 0.999, 1e-3], (len(rows), 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    tiny = rng.normal(size=(1, 40)) * float(format.smallest_subnormal) * 3
    held = np.concatenate([rows, tiny]).astype(format.dtype)
    while True:
        longest = np.linalg.norm(held.astype(np.float64), axis=1, keepdims=True)
        if (longest <= length).all():
            return held
        held = np.where(longest > length, held.astype(np.float64) * (1.0 - 2 * format.unit_roundoff), held).astype(format.dtype)


@pytest.mark.parametrize("format", [FLOAT32, FLOAT16, BFLOAT16, FLOAT64], ids=str)
@pytest.mark.parametrize("length", [1.0, 37.5, 1e-3])
def test_blocks_in_the_arithmetic_of_their_format(format: Any, length: float) -> None:
    """Every operation rounded to the format, sums one term after the other: the target `ieee`."""
    rng = np.random.default_rng(7)
    weights = rng.normal(size=(40, 24)).astype(format.dtype)

    def rounded(x: Any) -> Any:
        return np.asarray(x, np.float64).astype(format.dtype)

    def product(x: Any, w: Any) -> Any:
        total = np.zeros((len(x), w.shape[1]), format.dtype)
        for k in range(x.shape[1]):
            term = rounded(x[:, k : k + 1].astype(np.float64) * w[k].astype(np.float64))
            total = rounded(total.astype(np.float64) + term.astype(np.float64))
        return total

    cases: dict[str, tuple[Any, ...]] = {
        "Add": (lambda a, b: rounded(a.astype(np.float64) + b.astype(np.float64)), 2),
        "Sub": (lambda a, b: rounded(a.astype(np.float64) - b.astype(np.float64)), 2),
        "Mul": (lambda a, b: rounded(a.astype(np.float64) * b.astype(np.float64)), 2),
        "Max": (np.maximum, 2),
        "Relu": (lambda a: np.maximum(a, format.dtype.type(0)), 1),
        "MatMul": (lambda a: product(a, weights), 1, weights),
    }
    for name, (function, arity, *fixed) in cases.items():
        entry = find_operator("", name)
        assert entry is not None
        for _ in range(10):
            arrays = [rows_within(format, rng, length) for _ in range(arity)]
            operands: list[Range] = []
            for array in arrays:
                x = Range.uniform(array.shape, format, -length, length)
                x.norm = Norm(1, length)
                operands.append(x)
            for abstraction in (SPECTRAL, Abstraction()):
                call = Call(entry, {}, target=IEEE, abstraction=abstraction)
                result = evaluate(call, [*operands, *(Range.constant(w, format) for w in fixed)])
                assert result.norm is not None, name
                assert violation(result, function(*arrays)) is None, name


# -- inputs and fused operators -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [FLOAT32, FLOAT16, BFLOAT16, FLOAT64], ids=str)
@pytest.mark.parametrize("kind", ["unit-norm@1", "simplex", "one-hot@0"])
def test_inputs_with_norms(kind: str, format: Any) -> None:
    domain, shape = parse_domain(kind, "x"), (3, 50, 7)
    value = domain.range(shape, format)
    assert value.norm is not None and value.norm.bound <= 1.1
    for seed in range(20):
        assert violation(value, sample(np.random.default_rng(seed), domain, shape, format, "random")) is None


def fused_models() -> dict[str, onnx.ModelProto]:
    rng = np.random.default_rng(5)
    weights = {name: (rng.normal(size=(64, 64)) / 4).astype(np.float32) for name in ("wq", "wk", "wv", "wo")}
    weights |= {"gain": np.linspace(0.5, 2.0, 64, dtype=np.float32), "shift": rng.normal(size=64).astype(np.float32)}
    weights |= {"packed": (rng.normal(size=(64, 192)) / 4).astype(np.float32), "bias": rng.normal(size=192).astype(np.float32)}
    angles = rng.uniform(0.0, 7.0, (1, 6, 8))
    weights |= {"c": np.cos(angles).astype(np.float32), "s": np.sin(angles).astype(np.float32)}
    start = "n = LayerNormalization(x, gain, shift)\n"
    attention = start + "q = MatMul(n, wq)\nk = MatMul(n, wk)\nv = MatMul(n, wv)\n"
    bodies = {
        "Attention": attention + "y = Attention<q_num_heads = 4, kv_num_heads = 4>(q, k, v)\nz = MatMul(y, wo)",
        "causal": attention + "y = Attention<q_num_heads = 4, kv_num_heads = 4, is_causal = 1>(q, k, v)\nz = MatMul(y, wo)",
        "MultiHeadAttention": attention + "y = com.microsoft.MultiHeadAttention<num_heads = 4>(q, k, v)\nz = MatMul(y, wo)",
        "packed": start + "y = com.microsoft.Attention<num_heads = 4>(n, packed, bias)\nz = MatMul(y, wo)",
        "SkipLayerNormalization": start
        + "m = MatMul(n, wq)\ny = com.microsoft.SkipLayerNormalization(n, m, gain, shift)\nz = MatMul(y, wo)",
        "SkipSimplified": start + "y = com.microsoft.SkipSimplifiedLayerNormalization(n, x, gain)\nz = MatMul(y, wo)",
        "rotary": attention + "h = RotaryEmbedding<num_heads = 4>(q, c, s)\ny = Mul(h, gain)\nz = MatMul(y, wo)",
        "gelu": start + "m = MatMul(n, wq)\ny = com.microsoft.BiasGelu(m, shift)\nz = com.microsoft.FastGelu(y)",
        "FusedMatMul": start + "y = com.microsoft.FusedMatMul<alpha = 0.5, transB = 1>(n, wq)\nz = com.microsoft.QuickGelu(y)",
    }
    return {name: with_weights(body, weights, "(float[1,6,64] x) => (float z)") for name, body in bodies.items()}


FUSED = fused_models()


@pytest.mark.parametrize("name", FUSED)
def test_fused_operators_keep_norms(name: str) -> None:
    for abstraction in (SPECTRAL, FIRST_PASS):
        ranged = check_runs(FUSED[name], 1e5, abstraction)
        assert norm_of(ranged, "y") is not None
        assert norm_of(ranged, "z") is not None


# -- layer normalisation at large means ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("width", [16, 768])
def test_layer_normalisation_at_large_means(mean: float, width: int) -> None:
    """The error of the mean is common to a row: it blurs, but makes no row longer than sqrt(n) times relative errors."""
    proto = with_weights("y = LayerNormalization(x, s)", {"s": np.ones(width, np.float32)}, f"(float[4,{width}] x) => (float y)")
    parsed = from_proto(proto)
    inputs = {n: Range.uniform((4, width), FLOAT32, mean - 1.0, mean + 1.0) for n in parsed.graph.inputs}
    ranged = propagate(parsed, inputs, ONNXRUNTIME_CPU, keep_ranges=True, strict=True)
    norm = norm_of(ranged, "y")
    assert norm is not None and np.sqrt(width) <= norm.bound <= 1.02 * np.sqrt(width)
    session = ort.InferenceSession(proto.SerializeToString())
    rng = np.random.default_rng(0)
    rows = [rng.uniform(-1, 1, (4, width)), np.where(rng.random((4, width)) < 0.5, -1.0, 1.0), np.eye(4, width) * 2 - 1]
    for row in rows:
        (y,) = session.run(None, {"x": (row + mean).astype(np.float32)})
        assert float(np.linalg.norm(np.asarray(y, np.float64), axis=1).max()) <= norm.bound


def test_partial_sums_are_bounded_by_norms() -> None:
    """Sums of float16 terms in float16 itself: no partial sum exceeds |w| |x|, which intervals cannot show."""
    weights = np.full((256, 2), 1.0, np.float16)
    body = "n = Softmax(x)\nc = Constant<value = float {600.0}>()\nm = Mul(n, c)\ny = MatMul(m, w)"
    proto, _ = converted(with_weights(body, {"w": weights.astype(np.float32)}, "(float[1,256] x) => (float y)"), FLOAT16)
    for abstraction, expected in ((Abstraction(idioms=False), 0), (INTERVALS, 1)):
        ranged = analysed(proto, 10.0, abstraction, IEEE)
        (record,) = (r for r in ranged.records.values() if r.node.op == "MatMul")
        assert len(record.hazards) == expected


# -- singular values ----------------------------------------------------------------------------------------------------


def matrices() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(2)
    square = rng.normal(size=(96, 96))
    return {
        "random": square.astype(np.float32),
        "wide": rng.normal(size=(40, 500)).astype(np.float32),
        "tall": rng.normal(size=(500, 40)).astype(np.float32),
        "one row": rng.normal(size=(1, 300)).astype(np.float32),
        "one column": rng.normal(size=(300, 1)).astype(np.float32),
        "rank one": np.outer(square[0], square[1]).astype(np.float32),
        "low rank": (square[:, :3] @ square[:3]).astype(np.float32),
        "ill scaled rows": (square * np.logspace(-15, 15, 96)[:, None]).astype(np.float32),
        "large": (square * 1e30).astype(np.float32),
        "small": (square * 1e-30).astype(np.float32),
        "subnormal": (square * 1e-41).astype(np.float32),
        "large float64": square * 1e250,
        "small float64": square * 1e-30,
        "half": square.astype(np.float16),
        "positive": np.abs(square).astype(np.float32),
        "outliers": (square * np.where(np.arange(96) == 7, 20.0, 1.0)).astype(np.float32),
        "transposed view": square.astype(np.float32).T[:, :50],
    }


@pytest.mark.parametrize("name", matrices())
def test_bounds_of_singular_values(name: str) -> None:
    matrix = matrices()[name]
    exact = float(np.linalg.svd(matrix.astype(np.float64), compute_uv=False)[0])
    assert exact * (1.0 - 1e-12) <= sigma(matrix) <= 1.1 * exact


def test_singular_values_of_nothing() -> None:
    assert sigma(np.zeros((20, 30), np.float32)) == 0.0
    assert sigma(np.zeros((0, 30), np.float32)) == 0.0


def test_equal_singular_values_are_the_worst_case() -> None:
    assert 1.0 <= sigma(np.eye(128, dtype=np.float32)) <= 128 ** (1 / 32) * 1.01


def test_bounds_of_many_random_matrices() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        shape = rng.integers(1, 40, 2)
        matrix = (rng.normal(size=shape) ** rng.integers(1, 8) * 10.0 ** rng.integers(-12, 12)).astype(np.float32)
        exact = float(np.linalg.svd(matrix.astype(np.float64), compute_uv=False)[0])
        assert sigma(matrix) >= exact * (1.0 - 1e-12)


# -- whole models -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("name", EXPORTED)
def test_models_exported_by_torch_with_spectral_norms(name: str, precision: str) -> None:
    """Every value of 20 runs lies in its range and within its norm."""
    proto = exported(name) if precision == "float32" else converted(exported(name), FLOAT16)[0]
    for abstraction, runs in ((Abstraction(spectral=True), 20), (FIRST_PASS, 4)):
        assert outside(proto, EXPORTED[name][1], {}, runs, abstraction) == []


def test_a_loop_does_not_keep_the_norm_of_its_first_state() -> None:
    """The body leaves the interval of the state as it is, and makes its vectors longer."""
    proto = model(
        "(float[1,4] x) => (float[1,4] y)",
        """
        n = Constant<value_int=400>()
        t = Constant<value = bool {1}>()
        o = Constant<value = float {1.0}>()
        h = Constant<value = float {0.5}>()
        s = Softmax(x)
        y = Loop(n, t, s) <body = step (int64 i, bool c, float[1,4] v) => (bool k, float[1,4] out) {
            k = Identity(c)
            d = Sub(o, v)
            e = Mul(d, h)
            out = Add(v, e)
        }>
        """,
    )
    ranged = analysed(proto, 1.0, Abstraction())
    norm = norm_of(ranged, "y")
    assert norm is None or norm.bound >= 2.0
