"""Summaries of weights: never too tight, in every format and order of axes; and what products make of them."""

from __future__ import annotations

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensorproof.formats import FLOAT32, INT64
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.ranges import channel_windows, weighted_windows, weights
from tensorproof.ranges.abstraction import FIRST_PASS, PRECISE, Abstraction
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.ranges.sums import interval_product
from tensorproof.targets import ONNXRUNTIME_CPU
from tests.soundness.containment import violation

pytestmark = pytest.mark.area("weights")

DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2)
#: Shapes with the axes that are summed over: rows, columns, both ends, the middle, an order that no product has.
SUMS = (
    ((300, 50), (0,)),
    ((300, 50), (1,)),
    ((4, 70, 30), (1,)),
    ((4, 70, 30), (0, 2)),
    ((3, 40, 20, 9), (1, 3)),
    ((5, 6, 7, 8, 9), (0, 2, 4)),
    ((2, 70_000), (1,)),
    ((70_000, 2), (0,)),
    ((3, 9_000), (0,)),
    ((7_000,), (0,)),
)


def random_array(seed: int, shape: tuple[int, ...], dtype: Any, scale: float) -> np.ndarray[Any, Any]:
    """Finite numbers of both signs around a scale, some of them zero, the largest numbers of the format among them."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(0.3, 1.0, shape) * np.where(rng.random(shape) < 0.1, 0.0, scale)
    info = ml_dtypes.finfo(dtype)
    return np.clip(numbers, float(info.min), float(info.max)).astype(dtype)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e-42, 1e25, 3e38], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_sums_hold_and_are_not_far_off(dtype: Any, scale: float) -> None:
    for seed, (shape, axes) in enumerate(SUMS):
        array = random_array(seed, shape, dtype, scale)
        found = weights.channels(array, axes)
        exact = array.astype(np.longdouble)
        total, absolute = exact.sum(axes), np.abs(exact).sum(axes)
        length = np.sqrt((exact * exact).sum(axes))
        assert found.total.shape == total.shape
        assert (np.abs(found.total - total) <= found.error).all()
        norm = weights.channel_norms(array, axes)
        assert (found.absolute >= absolute).all() and norm.shape == length.shape and (norm >= length).all()
        assert (found.error <= 5e-3 * absolute + 1e-30).all() and (found.absolute <= 1.005 * absolute + 1e-30).all()
        if 1e-15 < scale < 1e15:
            assert (norm <= 1.005 * length + 1e-15).all()
        assert weights.norm_of(array) >= float(np.sqrt((exact * exact).sum()))


def test_views_share_what_is_found() -> None:
    """A transposed weight and its transposed sums; a convolution's weights as a matrix."""
    array = random_array(1, (64, 96), np.float32, 1.0)
    before = weights.channels(array, (0,))
    assert np.shares_memory(weights.channels(array.T, (1,)).total, before.total)
    np.testing.assert_array_equal(weights.channels(array.T, (0,)).absolute, weights.channels(array, (1,)).absolute)
    stack = random_array(2, (20, 30, 40), np.float32, 1.0)
    turned = stack.transpose(2, 0, 1)
    np.testing.assert_array_equal(weights.channels(turned, (1,)).absolute, weights.channels(stack, (0,)).absolute.T)
    kernel = random_array(3, (32, 16, 3, 3), np.float32, 1.0)
    matrix = kernel.reshape(32, -1).T
    np.testing.assert_array_equal(weights.channel_norms(kernel, (1, 2, 3)), weights.channel_norms(matrix, (0,)))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("sign", [1.0, -1.0, None])
def test_extents_are_exact(dtype: Any, sign: float | None) -> None:
    array = random_array(4, (90, 60), dtype, 1.0)
    if sign is not None:
        array = (np.abs(array.astype(np.float64)) * sign).astype(dtype)
    numbers = array.astype(np.float64)
    weights.survey(array.copy(), (0,))
    assert weights.extent(array) == (numbers.min(), numbers.max()) == weights.extent(array.T)
    for axis in (0, 1):
        low, high = weights.extents_along(array, axis)
        np.testing.assert_array_equal(low, numbers.min(axis))
        np.testing.assert_array_equal(high, numbers.max(axis))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_a_special_value_is_never_overlooked(dtype: Any, special: float) -> None:
    for place in (0, 12_345, 19_999):
        array = np.ones(20_000, dtype)
        array[place] = special
        assert weights.extent(array) is None
        surveyed = array.reshape(200, 100).copy()
        weights.survey(surveyed, (1,))
        assert weights.extent(surveyed) is None
        assert Range.constant(array).has_special


def test_weights_that_do_not_begin_at_a_multiple_of_their_size() -> None:
    array = random_array(5, (70, 80), np.float32, 1.0)
    odd = np.frombuffer(b"x" + array.tobytes(), np.uint8)[1:].view(np.float32).reshape(70, 80)
    assert not odd.flags.aligned
    np.testing.assert_array_equal(weights.channels(odd, (0,)).absolute, weights.channels(array, (0,)).absolute)
    assert weights.extent(odd) == weights.extent(array)


def test_no_copy_of_the_weights_is_made() -> None:
    array = np.ones((2_000, 2_000), np.float32)
    tracemalloc.start()
    weights.survey(array, (0,))
    weights.channels(array, (1,))
    weights.extents_along(array, 0)
    Range.constant(array.T).hull()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < array.nbytes / 8


# -- products ---------------------------------------------------------------------------------------------------------


def single(op: str, inputs: dict[str, list[int]], constants: dict[str, np.ndarray[Any, Any]], order: list[str], **attributes: Any):
    """A model of one node."""
    node = helper.make_node(op, order, ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        op,
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in inputs.items()],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def result(proto: onnx.ModelProto, ranges: dict[str, Range], abstraction: Abstraction) -> Range:
    model = from_proto(proto)
    inputs = {n: ranges[model.name_of(n)] for n in model.graph.inputs}
    ranged = propagate(model, inputs, ONNXRUNTIME_CPU, strict=True, abstraction=abstraction)
    (flow,) = ranged.outputs.values()
    assert isinstance(flow.clean, Range)
    return flow.clean


def matrices(rng: np.random.Generator) -> Any:
    rows, terms, columns = (int(n) for n in rng.integers(1, 7, 3))
    batch = [int(rng.integers(1, 4))] if rng.random() < 0.5 else []
    weight_batch = batch if rng.random() < 0.3 else []
    w = rng.normal(0, 1, (*weight_batch, terms, columns)).astype(np.float32)
    if rng.random() < 0.5:
        return single("MatMul", {"x": [*batch, rows, terms]}, {"w": w}, ["x", "w"])
    return single("MatMul", {"x": [*batch, columns, rows]}, {"w": w}, ["w", "x"])


def gemms(rng: np.random.Generator) -> Any:
    rows, terms, columns = (int(n) for n in rng.integers(1, 7, 3))
    turned = {"transA": int(rng.integers(0, 2)), "transB": int(rng.integers(0, 2))}
    scale = {"alpha": float(rng.choice([1.0, -0.5, 2.0])), "beta": float(rng.choice([1.0, 0.0, -3.0]))}
    w = rng.normal(0, 1, (columns, terms) if turned["transB"] else (terms, columns)).astype(np.float32)
    x = [terms, rows] if turned["transA"] else [rows, terms]
    c = rng.normal(0, 1, (columns,)).astype(np.float32)
    return single("Gemm", {"x": x}, {"w": w, "c": c}, ["x", "w", "c"], **turned, **scale)


def convolutions(rng: np.random.Generator) -> Any:
    rank, group = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
    channels, filters = group * int(rng.integers(1, 3)), group * int(rng.integers(1, 4))
    kernel = [int(n) for n in rng.integers(1, 4, rank)]
    attributes: dict[str, Any] = {
        "group": group,
        "strides": [int(n) for n in rng.integers(1, 3, rank)],
        "dilations": [int(n) for n in rng.integers(1, 3, rank)],
        "pads": [int(n) for n in rng.integers(0, 3, 2 * rank)],
    }
    w = rng.normal(0, 1, (filters, channels // group, *kernel)).astype(np.float32)
    b = rng.normal(0, 1, filters).astype(np.float32)
    x = [int(rng.integers(1, 3)), channels, *(int(n) for n in rng.integers(5, 8, rank))]
    return single("Conv", {"x": x}, {"w": w, "b": b}, ["x", "w", "b"][: int(rng.integers(2, 4))], **attributes)


def transposed_convolutions(rng: np.random.Generator) -> Any:
    rank, group = int(rng.integers(1, 3)), int(rng.choice([1, 2]))
    channels, filters = group * int(rng.integers(1, 3)), int(rng.integers(1, 4))
    kernel, strides = [int(n) for n in rng.integers(1, 4, rank)], [int(n) for n in rng.integers(1, 4, rank)]
    attributes: dict[str, Any] = {"group": group, "strides": strides}
    if rng.random() < 0.5:
        attributes["output_padding"] = [int(rng.integers(0, s)) for s in strides]
    w = rng.normal(0, 1, (channels, filters, *kernel)).astype(np.float32)
    b = rng.normal(0, 1, group * filters).astype(np.float32)
    x = [1, channels, *(int(n) for n in rng.integers(3, 6, rank))]
    return single("ConvTranspose", {"x": x}, {"w": w, "b": b}, ["x", "w", "b"], **attributes)


def sums_of_products(rng: np.random.Generator) -> Any:
    equation = str(rng.choice(["bij,jk->bik", "bij,kj->bki", "bij,jik->bk", "jk,bij->ibk", "bij,bjk->bik"]))
    sizes = {label: int(n) for label, n in zip("bijk", rng.integers(1, 6, 4))}
    terms = equation.split("->")[0].split(",")
    variable = terms.index("bij")
    w = rng.normal(0, 1, [sizes[label] for label in terms[1 - variable]]).astype(np.float32)
    order = ["x", "w"] if variable == 0 else ["w", "x"]
    return single("Einsum", {"x": [sizes[label] for label in "bij"]}, {"w": w}, order, equation=equation)


PRODUCTS = (matrices, gemms, convolutions, transposed_convolutions, sums_of_products)


def boxes(rng: np.random.Generator, shape: list[int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Bounds per element: around zero, of one sign, far from zero, or points."""
    kind = int(rng.integers(0, 4))
    low = rng.normal(0, 1, shape) + (0.0, 2.0, 1e4, -50.0)[kind]
    return low.astype(np.float32), (low + np.abs(rng.normal(0, 1, shape)) * (kind != 2)).astype(np.float32)


@pytest.mark.parametrize("make", PRODUCTS, ids=lambda f: f.__name__)
def test_products_by_summaries_hold(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold all that runs give at corners and inside, and all that exact weights allow."""
    monkeypatch.setattr(weights, "LARGE", 0)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    for seed in range(40):
        rng = np.random.default_rng(seed)
        proto = make(rng)
        shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
        low, high = boxes(rng, shape)
        box = {"x": Range.elements(FLOAT32, low.astype(np.float64), high.astype(np.float64))}
        coarse, exact = result(proto, box, FIRST_PASS), result(proto, box, PRECISE)
        slack = 1e-5 * max(1.0, *map(abs, exact.hull()))
        widened = coarse.replace(coarse.low - slack, coarse.high + slack, None)
        assert widened.shape == exact.shape and widened.includes(exact.without_special()), (seed, coarse, exact)
        session = ort.InferenceSession(proto.SerializeToString(), options)
        for run in range(6):
            share = rng.integers(0, 2, shape) if run < 4 else rng.random(shape)
            x = np.clip((low + (high - low) * share).astype(np.float32), low, high)
            assert violation(coarse, session.run(None, {"x": x})[0]) is None, seed


@pytest.mark.parametrize("make", PRODUCTS, ids=lambda f: f.__name__)
def test_one_interval_for_all_elements_loses_little(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the operand is one interval around zero, summaries say as much as the weights (but for padding: nothing lost)."""
    monkeypatch.setattr(weights, "LARGE", 0)
    for seed in range(20):
        proto = make(np.random.default_rng(seed))
        shape = tuple(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim)
        box = {"x": Range.uniform(shape, FLOAT32, -1.0, 3.0)}
        coarse, exact = result(proto, box, FIRST_PASS).hull(), result(proto, box, PRECISE).hull()
        width = exact[1] - exact[0]
        assert coarse[0] >= exact[0] - 1e-3 * width - 1e-6 and coarse[1] <= exact[1] + 1e-3 * width + 1e-6, seed


def test_tables_by_their_extent() -> None:
    """An index that reaches most of a large table gives its extent; one that reaches little, only what it reaches."""
    table = np.random.default_rng(0).normal(0, 1, (600, 40)).astype(np.float32)
    table[300:, :] = 7.0
    node = helper.make_node("Gather", ["w", "i"], ["y"])
    index = helper.make_tensor_value_info("i", TensorProto.INT64, [5])
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph([node], "gather", [index], outputs, [numpy_helper.from_array(table, "w")])
    model = from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))
    for reach, expected in (((0, 599), table), ((310, 320), table[310:321]), ((-600, -1), table), ((0, 99), table[:100])):
        box = Range.uniform((5,), INT64, float(reach[0]), float(reach[1]))
        ranged = propagate(model, {model.graph.inputs[0]: box}, ONNXRUNTIME_CPU, strict=True, abstraction=FIRST_PASS)
        (flow,) = ranged.outputs.values()
        assert isinstance(flow.clean, Range)
        assert flow.clean.shape == (5, 40)
        assert flow.clean.hull() == (float(expected.min()), float(expected.max()))


@pytest.mark.parametrize("scale", [1.0, 1e-40, 1e-20, 1e30, 1e60, 1e300], ids=str)
@pytest.mark.parametrize("dtype", (np.float32, np.float16, ml_dtypes.bfloat16), ids=lambda d: np.dtype(d).name)
def test_products_in_float32_hold(dtype: Any, scale: float) -> None:
    """Exact weights, multiplied in float32: bounds hold those of float64, are hardly wider, and zeros stay zeros."""
    for shape in ((300, 80), (40, 2_000), (9_000, 3)):
        point = random_array(6, shape, dtype, 1.0)
        rng = np.random.default_rng(7)
        low = rng.normal(0, scale, (5, shape[0]))
        high = low + np.abs(rng.normal(0, scale, low.shape)) * (rng.random(low.shape) < 0.5)
        low[1], high[1] = low[2] * 1e-30, low[2] * 1e-30
        low[3], high[3] = 0.0, 0.0
        low, high = np.minimum(low, high), np.maximum(low, high)
        exact = interval_product(low, high, point, point)
        found = interval_product(low, high, point, point, single=True)
        slack = 1e-14 * exact[2]
        assert (
            (found[0] <= exact[0] + slack).all() and (found[1] >= exact[1] - slack).all() and (found[2] >= exact[2] - slack).all()
        )
        rows = [0, 2, 4]
        assert (found[1][rows] - found[0][rows] <= exact[1][rows] - exact[0][rows] + 2e-3 * exact[2][rows] + 1e-30 * scale).all()
        assert not found[0][3].any() and not found[1][3].any()
        flipped = interval_product(point.T, point.T, low.T, high.T, single=True)
        assert (exact[0] + slack >= flipped[0].T).all() and (exact[1] - slack <= flipped[1].T).all()


@pytest.mark.parametrize("make", (convolutions, transposed_convolutions), ids=lambda f: f.__name__)
def test_weights_in_one_interval_give_what_the_general_convolution_gives(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        proto = make(rng)
        model = from_proto(proto)
        shape = tuple(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim)
        x = Range.uniform(shape, FLOAT32, *sorted(rng.normal(0, 1, 2)))
        if seed % 2 and proto.graph.node[0].attribute[0].i == 1:
            low = rng.normal(0, 1, (1, shape[1], *(1,) * (len(shape) - 2)))
            x = x.refine_fully(1).replace(low, low + 0.5, None)
        ends = sorted(rng.normal(0, 1, 2))

        def constants(number: int, model: Any = model, ends: Any = ends) -> Flow:
            if model.name_of(number) == "w":
                return Flow.of(Range.uniform(model.constants[number].shape, FLOAT32, *ends))
            return Flow.of(Range.constant(model.constants[number]))

        results: list[Range] = []
        for block in (channel_windows.uniform_windows, lambda *_: None):
            monkeypatch.setattr(weighted_windows, "uniform_windows", block)
            ranged = propagate(model, {model.graph.inputs[0]: x}, ONNXRUNTIME_CPU, constants=constants, strict=True)
            (flow,) = ranged.outputs.values()
            assert isinstance(flow.clean, Range)
            results.append(flow.clean)
        quick, general = (r.expanded() for r in results)
        slack = 1e-4 * (1.0 + np.abs(general[0]) + np.abs(general[1]))
        assert (quick[0] <= general[0] + slack).all() and (quick[1] >= general[1] - slack).all()
        # Where padding is seen, the general one may tell places of the image apart: the hull over them is the same.
        space = tuple(range(2, quick[0].ndim))
        assert (quick[0].min(space) >= general[0].min(space) - slack.max()).all()
        assert (quick[1].max(space) <= general[1].max(space) + slack.max()).all()
