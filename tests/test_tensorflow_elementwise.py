"""TensorFlow's element-wise operators, their gradients, extremes and losses: TensorFlow itself is the oracle."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, Format
from tensorproof.frontends.calls import Handle
from tensorproof.frontends.graph_builder import GraphBuilder
from tensorproof.frontends.tensorflow_call import TensorflowCall
from tensorproof.frontends.tensorflow_records import DataType
from tensorproof.graph import ABSENT, NOT_ANALYSED
from tensorproof.operators.table import all_spellings, spelling_of
from tensorproof.ranges.range import Range
from tensorproof.targets import TENSORFLOW_CPU
from tests.spelled_points import FILES, Spelled, drawn, outside, random_cell, sampled

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.area("tensorflow spellings")

Box = tuple[float, float]
half, brain = np.float16, ml_dtypes.bfloat16


def raw(name: str, **attributes: Any) -> Callable[..., Any]:
    """An operator of TensorFlow on its operands in their order."""
    function = getattr(tf.raw_ops, name)
    names = [parameter for parameter in inspect.signature(function).parameters if parameter not in attributes]

    def call(*operands: Any) -> Any:
        return function(**dict(zip(names, operands)), **attributes)

    return call


@dataclass(frozen=True)
class Use:
    """An operator on boxes of numbers: the box of each operand, the formats, the attributes."""

    name: str
    boxes: tuple[Box, ...]
    dtypes: tuple[Any, ...] = (np.float32,)
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    shape: tuple[int, ...] = (2, 5)


def use(name: str, *boxes: Box, dtypes: Sequence[Any] = (np.float32,), shape: tuple[int, ...] = (2, 5), **attributes: Any) -> Use:
    return Use(name, boxes, tuple(dtypes), attributes, shape)


FLOATS = (np.float32, half, brain)
NARROW = (np.float32, half)
WHOLE = (np.int32, np.int64)

#: Boxes beside zeros, poles, overflow and ends of domains.
USES = [
    *(use(name, (-3, 3), (-2, 5), dtypes=(*FLOATS, *WHOLE)) for name in ("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum")),
    use("Add", (-3e38, 3e38), (-3e38, 3e38)),
    use("Mul", (-1e30, 1e30), (-1e30, 1e30)),
    use("Div", (-3, 3), (1, 5), dtypes=(*FLOATS, *WHOLE)),
    use("RealDiv", (-3, 3), (-1, 5), dtypes=FLOATS),
    use("RealDiv", (-3, 3), (1e-38, 5)),
    use("FloorDiv", (-9, 9), (1, 4), dtypes=(np.float32, *WHOLE)),
    use("FloorDiv", (-9, 9), (-1, 1)),
    use("TruncateDiv", (-9, 9), (1, 4), dtypes=(np.float32, *WHOLE)),
    use("FloorMod", (-9, 9), (1, 4), dtypes=(np.float32, *WHOLE)),
    use("FloorMod", (-9, 9), (-3, 3)),
    use("Mod", (-9, 9), (1, 4), dtypes=(np.float32, *WHOLE)),
    use("TruncateMod", (-9, 9), (1, 4), dtypes=(np.float32, *WHOLE)),
    use("DivNoNan", (-3, 3), (-1, 1), dtypes=NARROW),
    use("MulNoNan", (-3, 3), (-1, 1), dtypes=NARROW),
    use("Xdivy", (-3, 3), (-1, 1)),
    use("Xdivy", (0, 0), (-1, 1)),
    use("Xlogy", (0, 1), (0, 2), dtypes=NARROW),
    use("Xlog1py", (0, 1), (-1, 2), dtypes=NARROW),
    use("SquaredDifference", (-3, 3), (-2, 5), dtypes=(*FLOATS, np.int32)),
    use("SquaredDifference", (-2e19, 2e19), (0, 1)),
    use("Atan2", (-2, 2), (-2, 2), dtypes=NARROW),
    use("NextAfter", (-2, 2), (-2, 2)),
    use("Pow", (0, 4), (-2, 3), dtypes=FLOATS),
    use("Pow", (-4, 4), (0, 3), dtypes=(np.int32,)),
    use("Pow", (-4, 4), (0.5, 0.5)),
    *(use(name, (-3, 3), dtypes=(*FLOATS, *WHOLE)) for name in ("Neg", "Abs", "Sign", "Square")),
    use("Square", (-1e20, 1e20)),
    *(use(name, (-3.6, 3.6), dtypes=FLOATS) for name in ("Floor", "Ceil")),
    use("Round", (-3.5, 3.5), dtypes=FLOATS),
    use("Rint", (-3.5, 3.5)),
    use("Exp", (-110, 90), dtypes=FLOATS),
    use("Exp", (-2, 2), dtypes=FLOATS),
    use("Expm1", (-20, 90), dtypes=FLOATS),
    use("Log", (0, 5), dtypes=FLOATS),
    use("Log", (1e-38, 5)),
    use("Log1p", (-1, 5), dtypes=FLOATS),
    use("Sqrt", (0, 5), dtypes=FLOATS),
    use("Sqrt", (-1, 5)),
    use("Rsqrt", (0, 5), dtypes=FLOATS),
    use("Rsqrt", (1e-30, 1e30)),
    *(use(name, box, dtypes=NARROW) for name in ("Reciprocal", "Inv") for box in ((0.5, 4), (-1, 1))),
    use("Reciprocal", (1e30, 3e38)),
    use("Erf", (-5, 5), dtypes=FLOATS),
    use("Erfc", (-5, 12), dtypes=FLOATS),
    use("Erfinv", (-1, 1)),
    use("Erfinv", (-0.9, 0.9)),
    use("Ndtri", (0, 1)),
    use("Ndtri", (0.01, 0.99)),
    use("Lgamma", (0.1, 20), dtypes=NARROW),
    use("Lgamma", (-2.5, 3)),
    use("Digamma", (0.1, 20), dtypes=NARROW),
    use("Digamma", (-2.5, 3)),
    *(use(name, (-4, 4), dtypes=NARROW) for name in ("Sin", "Cos", "Tan", "Atan", "Asinh")),
    *(use(name, (-1, 1), dtypes=NARROW) for name in ("Asin", "Acos", "Atanh")),
    use("Asin", (-2, 2)),
    use("Acosh", (1, 20), dtypes=NARROW),
    use("Acosh", (0, 20)),
    *(use(name, (-95, 95), dtypes=NARROW) for name in ("Sinh", "Cosh")),
    *(use(name, (-20, 20), dtypes=FLOATS) for name in ("Tanh", "Sigmoid", "Softsign", "Elu", "Selu", "Relu", "Relu6")),
    use("Sigmoid", (-110, 110)),
    use("Relu", (-3, 3), dtypes=(np.int32,)),
    use("Softplus", (-110, 110), dtypes=FLOATS),
    *(use("LeakyRelu", (-3, 3), dtypes=FLOATS, alpha=alpha) for alpha in (0.2, 2.0)),
    *(use(name, (-90, 90), dtypes=FLOATS) for name in ("Softmax", "LogSoftmax")),
    use("ClipByValue", (-3, 3), (-1, -1), (2, 2), dtypes=(np.float32, np.int32)),
    use("ClipByValue", (-3, 3), (0, 3), (-2, 1)),
    *(use(name, (-3, 3), (0, 5), dtypes=(np.float32, half, np.int32)) for name in ("Equal", "NotEqual", "Less", "LessEqual")),
    *(use(name, (-3, 3), (0, 5), dtypes=(np.float32, half, np.int32)) for name in ("Greater", "GreaterEqual")),
    use("ApproximateEqual", (0, 1), (0, 1), tolerance=0.25),
    *(use(name, (-3, 3), dtypes=NARROW) for name in ("IsNan", "IsInf", "IsFinite")),
    *(use(name, (0, 1), (0, 1), dtypes=(np.bool_,)) for name in ("LogicalAnd", "LogicalOr")),
    use("LogicalNot", (0, 1), dtypes=(np.bool_,)),
    *(use(name, (-9, 90), (-3, 70), dtypes=(np.int32, np.uint8)) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    use("Invert", (-9, 90), dtypes=(np.int32, np.uint8)),
    use("PopulationCount", (0, 90), dtypes=(np.int32, np.uint8)),
    *(use(name, (-9, 90), (0, 4), dtypes=(np.int32,)) for name in ("LeftShift", "RightShift")),
    use("Bitcast", (1, 1), type=tf.int32),
    use("StopGradient", (-3, 3), dtypes=NARROW),
    use("CheckNumerics", (-3, 3), dtypes=NARROW, message="here"),
    use("CheckNumericsV2", (-3, 3), message="here"),
    *(use("FakeQuantWithMinMaxArgs", (-9, 9), min=low, max=high) for low, high in ((-6.0, 6.0), (0.5, 3.0), (-4.0, -1.0))),
    use("FakeQuantWithMinMaxArgs", (-1, 1), num_bits=4, narrow_range=True),
    use("L2Loss", (-3, 3), dtypes=NARROW),
    use("L2Loss", (-2e19, 2e19)),
    use("Bucketize", (-3, 30), dtypes=(np.float32, np.int32), boundaries=[0.0, 10.0, 20.0]),
    *(use("Cast", (-3, 3), DstT=to) for to in (tf.int32, tf.float16, tf.bool, tf.float64)),
    use("Cast", (-1e5, 1e5), DstT=tf.float16),
    use("Cast", (-3, 3), dtypes=(np.int32, half), DstT=tf.float32),
    use("Where", (0, 1), dtypes=(np.bool_,)),
    *(use(name, (0, 4), (-3, 3), dtypes=NARROW) for name in ("SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad")),
    use("SqrtGrad", (0.5, 4), (-3, 3)),
    use("RsqrtGrad", (0, 1e14), (-3, 3)),
    use("SigmoidGrad", (0, 1), (-3, 3), dtypes=FLOATS),
    use("TanhGrad", (-1, 1), (-3, 3), dtypes=FLOATS),
    *(use(name, (-3, 3), (-2, 8), dtypes=NARROW) for name in ("ReluGrad", "Relu6Grad", "SoftplusGrad", "SoftsignGrad")),
    use("SoftsignGrad", (-1e38, 1e38), (-1e25, 1e25)),
    use("LeakyReluGrad", (-3, 3), (-2, 8), alpha=0.1),
    *(use(name, (-3, 3), (-1, 8), dtypes=NARROW) for name in ("EluGrad", "SeluGrad")),
]

#: Operators whose operands differ, with functions of their own.
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
SPECIAL: dict[str, list[tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "AddN": [(lambda a, b, c: tf.raw_ops.AddN(inputs=[a, b, c]), (X, X, X))],
    "Select": [
        (raw("Select"), (X > 0, X, -X)),
        (raw("Select"), (np.array([True, False, True]), X, -X)),
        (raw("Select"), (np.array(True), X, -X)),
    ],
    "SelectV2": [(raw("SelectV2"), (X > 0, X, np.float32(1))), (raw("SelectV2"), (X[:1] > 0, X, -X))],
    "Max": [(lambda x: tf.reduce_max(x, 1), (X,)), (lambda x: tf.reduce_max(x), (X,)), (lambda x: tf.reduce_max(x, []), (X,))],
    "Min": [(lambda x: tf.reduce_min(x, [0, -1], keepdims=True), (X,))],
    "Any": [(lambda x: tf.reduce_any(x, 1), (X > 0,))],
    "All": [(lambda x: tf.reduce_all(x, 0, keepdims=True), (X > 0,))],
    "ArgMax": [(lambda x: tf.argmax(x, 1), (X,)), (lambda x: tf.argmax(x, 0, tf.int32), (X,))],
    "ArgMin": [(lambda x: tf.argmin(x, -1), (X,))],
    "TopKV2": [(lambda x: tuple(tf.math.top_k(x, 2)), (X,))],
    "Unique": [(lambda x: tuple(tf.unique(x)), (np.array([3, 3, 3], np.int32),))],
    "UniqueWithCounts": [(lambda x: tuple(tf.unique_with_counts(x)), (np.array([3, 3, 3], np.int32),))],
    "Polygamma": [
        (lambda x: tf.math.polygamma(tf.constant(1.0), x), (np.abs(X) + np.float32(0.5),)),
        (lambda x: tf.math.polygamma(tf.constant(0.0), x), (np.abs(X) + np.float32(0.5),)),
    ],
    "SoftmaxCrossEntropyWithLogits": [
        (lambda x, t: tuple(tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=x, labels=t)), (X, np.abs(X) / 4)),
    ],
    "SparseSoftmaxCrossEntropyWithLogits": [
        (
            lambda x, t: tuple(tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=t)),
            (X, np.array([0, 3, 1], np.int32)),
        ),
    ],
    "FakeQuantWithMinMaxVars": [
        (lambda x, low, high: tf.raw_ops.FakeQuantWithMinMaxVars(inputs=x, min=low, max=high), (X, np.float32(-1), np.float32(2))),
    ],
    "FakeQuantWithMinMaxVarsPerChannel": [
        (
            lambda x: tf.raw_ops.FakeQuantWithMinMaxVarsPerChannel(
                inputs=x, min=tf.constant([-1.1, -2.0, 0.0, -0.5]), max=tf.constant([1.0, 0.5, 3.0, 0.25])
            ),
            (X,),
        ),
    ],
    "AsString": [(lambda x: tf.raw_ops.AsString(input=x), (np.arange(3, dtype=np.int32),))],
    "StringToNumber": [(lambda x: x + tf.raw_ops.StringToNumber(string_tensor=tf.constant("2.5")), (X,))],
}

#: Operators of graphs of version 1 that TensorFlow does not run any more: their spelling alone is tried.
WITHOUT_KERNEL = {"AccumulateNV2", "TopK"}


def example(rng: np.random.Generator, box: Box, dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Numbers of a box where float64 and the format of the program agree: neither its ends nor what overflows."""
    low, high = max(box[0], -MODERATE), min(box[1], MODERATE)
    if np.dtype(dtype).kind in "iub":
        return rng.integers(int(low), int(high) + 1, shape).astype(dtype)
    if low > high:
        low = high = box[0]
    return np.asarray(low + (0.05 + 0.9 * rng.random(shape)) * (high - low)).astype(dtype)


#: Numbers up to this one overflow in no function.
MODERATE = 8.0


def clipped(ends: list[np.ndarray[Any, Any]]) -> Callable[..., Any]:
    """Between two numbers of the program."""
    return lambda x: tf.raw_ops.ClipByValue(t=x, clip_value_min=tf.constant(ends[0]), clip_value_max=tf.constant(ends[1]))


@pytest.mark.parametrize("case", USES, ids=[f"{number}-{case.name}" for number, case in enumerate(USES)])
def test_operators_on_boxes(case: Use) -> None:
    from tests.tensorflow_cases import check_case

    rng = np.random.default_rng(3)
    function = raw(case.name, **case.attributes)
    for dtype in case.dtypes:
        if np.dtype(dtype).kind not in "iub":
            # Boxes beyond a narrow format are cut off at its ends.
            largest = float(ml_dtypes.finfo(dtype).max)
            boxes = [(max(low, -largest), min(high, largest)) for low, high in case.boxes]
        else:
            boxes = [(max(low, 0.0), high) if np.dtype(dtype).kind == "u" else (low, high) for low, high in case.boxes]
        arrays = [example(rng, box, dtype, case.shape) for box in boxes]
        if case.name == "ClipByValue" and boxes[1][0] == boxes[1][1]:
            check_case(clipped([np.asarray(box[0]).astype(dtype) for box in boxes[1:]]), arrays[0], ranges={0: boxes[0]})
            continue
        check_case(function, *arrays, ranges=dict(enumerate(boxes)))


@pytest.mark.parametrize("name", SPECIAL)
def test_operators_with_operands_of_their_own(name: str) -> None:
    from tests.tensorflow_cases import check_case

    for function, arrays in SPECIAL[name]:
        operators = check_case(function, *arrays).traced
        assert operators is not None


def test_every_spelling_is_tried() -> None:
    names = {name for name, _ in all_spellings("tensorflow") if spelled_here(name)}
    steps = {f"{prefix}{name}" for name in STEPS for prefix in ("Apply", "ResourceApply")} - {"ApplyKerasMomentum"}
    assert names == {case.name for case in USES} | set(SPECIAL) | WITHOUT_KERNEL | steps


def spelled_here(name: str) -> bool:
    spelling = spelling_of(name, "tensorflow")
    assert spelling is not None
    module = spelling.operator.block.__module__ if spelling.adapter is None else spelling.adapter.__module__
    return module.rpartition(".")[2] in FILES


def test_operators_that_only_old_graphs_have() -> None:
    ranges, _ = Spelled("tensorflow", "AccumulateNV2", TENSORFLOW_CPU).on([Range.uniform((2,), FLOAT32, -1.0, 2.0)] * 3)
    np.testing.assert_allclose(ranges[0].hull(), (-3.0, 6.0), rtol=1e-6)
    numbers = np.array([[1.0, 3.0, 2.0]], np.float32)
    (values, places), _ = Spelled("tensorflow", "TopK", TENSORFLOW_CPU, {"k": 2}).on([Range.constant(numbers)])
    assert values.low.tolist() == [[3.0, 2.0]] and places.low.tolist() == [[1.0, 2.0]]


# -- points and cells ------------------------------------------------------------------------------------------------

#: Functions of one number, with where most of their arguments are taken from.
FUNCTIONS: dict[str, Box] = {
    **dict.fromkeys(("Exp", "Expm1", "Sinh", "Cosh", "Sigmoid", "Softplus"), (-110.0, 110.0)),
    **dict.fromkeys(("Tanh", "Sin", "Cos", "Tan", "Atan", "Asinh", "Elu", "Selu", "Softsign", "Square"), (-20.0, 20.0)),
    **dict.fromkeys(("Asin", "Acos", "Atanh", "Erfinv"), (-1.0, 1.0)),
    **dict.fromkeys(("Log", "Log1p", "Sqrt", "Rsqrt", "Lgamma", "Digamma", "Acosh"), (0.0, 20.0)),
    **dict.fromkeys(("Reciprocal", "Erf", "Erfc", "Relu", "Relu6", "LeakyRelu", "Sign", "Round"), (-20.0, 20.0)),
    "Ndtri": (0.0, 1.0),
}

#: Formats that TensorFlow has no kernel for.
NOT_IN = {"Erfinv": (FLOAT16, BFLOAT16), "Ndtri": (FLOAT16, BFLOAT16), "Lgamma": (BFLOAT16,), "Digamma": (BFLOAT16,)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_of_functions_at_points_are_covered(name: str) -> None:
    """All 16-bit numbers, many others, in vectors and alone: no error is larger than the block and the target say."""
    rng = np.random.default_rng(11)
    function, spelled = raw(name), Spelled("tensorflow", name, TENSORFLOW_CPU)
    for format in (FLOAT32, FLOAT16, BFLOAT16, FLOAT64):
        if format in NOT_IN.get(name, ()):
            continue
        points = sampled(rng, format, FUNCTIONS[name])
        values = function(tf.constant(points)).numpy().astype(np.float64)
        lone = rng.integers(0, points.size, 60)
        values[lone] = [float(function(tf.constant(points[i : i + 1])).numpy()[0]) for i in lone]
        (result,), hazards = spelled.on([Range.constant(points)])
        bad = outside(result, hazards, values)
        assert not bad.any(), (format.name, points[bad][0], values[bad][0], result.low[bad][0], result.high[bad][0])


#: Functions of two numbers: boxes that cells are drawn from.
PAIRS: dict[str, tuple[Box, Box]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "RealDiv", "DivNoNan", "MulNoNan", "Xdivy", "Atan2"), ((-5.0, 5.0), (-5.0, 5.0))),
    **dict.fromkeys(("FloorDiv", "FloorMod", "Mod", "TruncateDiv", "SquaredDifference"), ((-9.0, 9.0), (-3.0, 3.0))),
    **dict.fromkeys(("Xlogy", "Xlog1py", "Pow", "NextAfter", "Maximum", "Minimum"), ((-0.5, 3.0), (-1.5, 3.0))),
    **dict.fromkeys(("SqrtGrad", "RsqrtGrad", "ReciprocalGrad"), ((0.0, 4.0), (-3.0, 3.0))),
    **dict.fromkeys(("SigmoidGrad", "TanhGrad"), ((-1.0, 1.0), (-3.0, 3.0))),
    **dict.fromkeys(("ReluGrad", "Relu6Grad", "EluGrad", "SeluGrad", "LeakyReluGrad"), ((-3.0, 3.0), (-8.0, 8.0))),
    **dict.fromkeys(("SoftplusGrad", "SoftsignGrad"), ((-3.0, 3.0), (-20.0, 20.0))),
}
TRIALS, POINTS = 40, 24
#: Kernels of 16-bit formats that TensorFlow does not have.
SINGLE_ONLY = {"Atan2", "NextAfter", "Mod"}


@pytest.mark.parametrize("name", PAIRS)
def test_random_cells_hold_what_tensorflow_computes(name: str) -> None:
    rng = np.random.default_rng(7)
    function, spelled = raw(name), Spelled("tensorflow", name, TENSORFLOW_CPU)
    formats: tuple[Format, ...] = (FLOAT32,) if name in SINGLE_ONLY else (FLOAT32, FLOAT16, BFLOAT16)
    for format in formats:
        for _ in range(TRIALS):
            cells = [random_cell(rng, format, box) for box in PAIRS[name]]
            points = [drawn(rng, format, *cell, POINTS) for cell in cells]
            values = function(*map(tf.constant, points)).numpy().astype(np.float64)
            (result, *_), hazards = spelled.on([Range.uniform((POINTS,), format, *cell) for cell in cells])
            bad = outside(result, hazards, values)
            assert not bad.any(), (format.name, cells, [p[bad][0] for p in points], values[bad][0], result, hazards)


# -- steps of optimisers ---------------------------------------------------------------------------------------------

ANY, SQUARES = (-2.0, 2.0), (0.0, 2.0)
#: The operands of each step: variables and gradients as boxes, settings as numbers.
STEPS: dict[str, list[Box | float]] = {
    "GradientDescent": [ANY, 0.1, ANY],
    "Momentum": [ANY, ANY, 0.1, ANY, 0.9],
    "KerasMomentum": [ANY, ANY, 0.1, ANY, 0.9],
    "Adam": [ANY, ANY, SQUARES, (0.0, 0.9), (0.0, 0.999), 0.01, 0.9, 0.999, 1e-7, ANY],
    "Adagrad": [ANY, (0.1, 2.0), 0.1, ANY],
    "AdagradV2": [ANY, SQUARES, 0.1, 1e-7, ANY],
    "RMSProp": [ANY, SQUARES, ANY, 0.1, 0.9, 0.5, 1e-7, ANY],
    # The mean of squares stays above the square of the mean.
    "CenteredRMSProp": [ANY, (-0.5, 0.5), (1.0, 2.0), ANY, 0.1, 0.9, 0.5, 1e-7, ANY],
    "Adadelta": [ANY, SQUARES, SQUARES, 0.1, 0.9, 1e-7, ANY],
    "AdaMax": [ANY, ANY, SQUARES, (0.0, 0.9), 0.01, 0.9, 0.999, 1e-7, ANY],
}
#: How many operands of a step are variables.
HELD = {"GradientDescent": 1, "Adam": 3, "RMSProp": 3, "CenteredRMSProp": 4, "Adadelta": 3, "AdaMax": 3}


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_optimisers_hold_what_tensorflow_computes(name: str) -> None:
    rng = np.random.default_rng(31)
    count = HELD.get(name, 2)
    function = getattr(tf.raw_ops, f"ResourceApply{name}")
    names = list(inspect.signature(function).parameters)
    powers = [index for index, box in enumerate(STEPS[name]) if index >= count and isinstance(box, tuple) and box[0] == 0.0]
    has_nesterov = "use_nesterov" in names
    for nesterov in (False, True) if has_nesterov else (False,):
        attributes = {"use_nesterov": nesterov} if has_nesterov else {}
        for _ in range(12):
            cells = [box if isinstance(box, tuple) else (box, box) for box in STEPS[name]]
            cells = [tuple(sorted(rng.uniform(*cell, 2))) if index < count else cell for index, cell in enumerate(cells)]
            ranges = [
                Range.constant(np.asarray(box, np.float32))
                if isinstance(box, float)
                else Range.uniform(() if index in powers else (8,), FLOAT32, *map(float, np.float32(cells[index])))
                for index, box in enumerate(STEPS[name])
            ]
            points = [np.asarray(drawn(rng, FLOAT32, *x.hull(), 8)) for x in ranges]
            points = [p if x.rank else p[0] for p, x in zip(points, ranges)]
            variables = [tf.Variable(p) for p in points[:count]]
            given = [*(variable.handle for variable in variables), *map(tf.constant, points[count:])]
            function(**dict(zip(names, given)), **attributes)
            values = variables[0].numpy().astype(np.float64)
            for prefix, held in (("Apply", ()), ("ResourceApply", range(count))):
                if name == "KerasMomentum" and prefix == "Apply":
                    continue
                (result,), hazards = Spelled("tensorflow", prefix + name, TENSORFLOW_CPU, attributes).on(ranges, held=tuple(held))
                assert [hazard for hazard in hazards if hazard.gives] == []
                assert not outside(result, hazards, values).any(), (cells, values, result)


def test_an_epsilon_of_zero_divides_by_zero() -> None:
    """In float16 1e-8 is 0: the step of a gradient of zero is 0 / 0."""
    ranges = [
        Range.constant(np.asarray(box, np.float16)) if isinstance(box, float) else Range.uniform((8,), FLOAT16, *box)
        for box in STEPS["AdagradV2"]
    ]
    ranges[3] = Range.constant(np.asarray(1e-8, np.float16))
    _, hazards = Spelled("tensorflow", "ApplyAdagradV2", TENSORFLOW_CPU).on(ranges)
    assert "NUM103" in {hazard.rule.code for hazard in hazards}


# -- what is reported, and refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, rule, cells",
    [
        ("Log", "NUM101", [(0.0, 1.0)]),
        ("RealDiv", "NUM103", [(0.0, 1.0), (0.0, 1.0)]),
        ("Rsqrt", "NUM103", [(0.0, 1.0)]),
        ("SqrtGrad", "NUM401", [(0.0, 1.0), (-1.0, 1.0)]),
        ("RsqrtGrad", "NUM403", [(0.0, 1e14), (-1.0, 1.0)]),
        ("ReciprocalGrad", "NUM403", [(0.0, 1e30), (-1.0, 1.0)]),
        ("Erfinv", "NUM105", [(0.0, 0.99999994)]),
        ("Xdivy", "NUM103", [(0.0, 1.0), (0.0, 1.0)]),
    ],
)
def test_hazards_have_their_rule(name: str, rule: str, cells: list[Box]) -> None:
    _, hazards = Spelled("tensorflow", name, TENSORFLOW_CPU).on([Range.uniform((3,), FLOAT32, *cell) for cell in cells])
    assert rule in {hazard.rule.code for hazard in hazards}


@pytest.mark.parametrize(
    "name, cells",
    [
        ("DivNoNan", [(-1.0, 1.0), (0.0, 1.0)]),
        ("MulNoNan", [(-1.0, 1.0), (0.0, 1.0)]),
        ("Xdivy", [(0.0, 0.0), (0.0, 1.0)]),
        ("SigmoidGrad", [(0.0, 1.0), (-1e30, 1e30)]),
        ("TanhGrad", [(-1.0, 1.0), (-1e30, 1e30)]),
        ("SqrtGrad", [(1e-3, 1.0), (-1.0, 1.0)]),
        ("Softplus", [(-1e30, 1e30)]),
        ("ReluGrad", [(-1.0, 1.0), (-1e30, 1e30)]),
    ],
)
def test_safe_uses_are_not_reported(name: str, cells: list[Box]) -> None:
    _, hazards = Spelled("tensorflow", name, TENSORFLOW_CPU).on([Range.uniform((3,), FLOAT32, *cell) for cell in cells])
    assert [hazard for hazard in hazards if hazard.gives] == []


def test_the_error_function_of_large_float64_numbers_is_nan_and_found() -> None:
    value = float(tf.math.erf(tf.constant(1e200, tf.float64)))
    _, hazards = Spelled("tensorflow", "Erf", TENSORFLOW_CPU).on([Range.uniform((1,), FLOAT64, 0.0, 1e200)])
    assert np.isnan(value) and [hazard.rule.code for hazard in hazards] == ["NUM202"]


def test_a_masked_infinite_gradient_is_nan() -> None:
    """TensorFlow multiplies by the mask: what stays silent with a choice does not here."""
    value = raw("ReluGrad")(tf.constant([np.inf]), tf.constant([-1.0])).numpy()
    gradient = Range.uniform((1,), FLOAT32, 1.0, 1.0, 1)
    result, hazards = Spelled("tensorflow", "ReluGrad", TENSORFLOW_CPU).on([gradient, Range.uniform((1,), FLOAT32, -1.0, -1.0)])
    assert np.isnan(value).all() and (hazards or result[0].any_special)


@pytest.mark.parametrize("name, code, attributes", [("Add", 8, {}), ("Exp", 8, {}), ("Square", 18, {}), ("Equal", 8, {})])
def test_complex_numbers_are_refused_in_sight(name: str, code: int, attributes: dict[str, Any]) -> None:
    reason = refusal(name, code, attributes)
    assert "complex" in reason


def test_rounded_integers_are_refused_in_sight() -> None:
    assert "integers" in refusal("Round", 3, {})


def test_a_cast_that_truncates_is_refused_in_sight() -> None:
    attributes = {"SrcT": DataType(1), "DstT": DataType(19), "Truncate": True}
    assert "towards zero" in refusal("Cast", 1, attributes)


def refusal(name: str, code: int, attributes: dict[str, Any]) -> str:
    """Why an operator is not analysed, as its node in the graph says."""
    from tensorproof.frontends.tensorflow_call import format_of

    builder: Any = GraphBuilder()
    format = format_of(DataType(code))
    handles = [Handle(builder.new_value(f"x{index}", format, (2,)), format, (2,)) for index in range(2)]
    call = TensorflowCall(name, handles, {"T": DataType(code), **attributes}, [Handle(ABSENT, format, None)], builder)
    builder.translate("tensorflow", name, call, [handle.number for handle in handles], "no spelling")
    (node,) = builder.nodes
    return str(node.attributes[NOT_ANALYSED])


def test_integers_wrap_and_round_as_in_tensorflow() -> None:
    rng = np.random.default_rng(23)
    for name in ("FloorDiv", "TruncateDiv", "FloorMod", "TruncateMod", "Div"):
        spelled = Spelled("tensorflow", name, TENSORFLOW_CPU)
        for _ in range(40):
            ends = [np.sort(rng.integers(-50, 50, 2)), np.sort(rng.integers(1, 9, 2)) * rng.choice([-1, 1])]
            cells = [(int(min(pair)), int(max(pair))) for pair in ends]
            points = [rng.integers(low, high + 1, 16).astype(np.int32) for low, high in cells]
            values = raw(name)(*map(tf.constant, points)).numpy().astype(np.float64)
            (result,), hazards = spelled.on([Range.uniform((16,), INT32, float(low), float(high)) for low, high in cells])
            assert not outside(result, hazards, values).any(), (name, cells, result)
