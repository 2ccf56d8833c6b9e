"""The rules of the backward pass: where eager PyTorch's derivative is infinite or NaN although the value is finite."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from benchmarks.zoo import programs

from tensorproof.checking import ModelPhase, analyse, check
from tensorproof.execute.meaning import Run
from tensorproof.findings import Finding, Report
from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.operators.table import NEWEST, Call, Operator, all_operators, evaluate, find_operator, report_derivatives
from tensorproof.preparing import Prepared
from tensorproof.ranges.differentiable import (
    FIRST_RESULT,
    NO_DERIVATIVE,
    SELECTING,
    Flowing,
    differentiable_paths,
    trainable_values,
)
from tensorproof.ranges.range import Range
from tensorproof.ranges.silence import silence

pytestmark = pytest.mark.area("backward rules")

BY_LABEL = {entry.label: entry for entry in all_operators()}
DTYPES = {FLOAT64: torch.float64, FLOAT32: torch.float32, FLOAT16: torch.float16, BFLOAT16: torch.bfloat16}
Function = Callable[..., torch.Tensor]

#: The functions of torch that the operators with hazards of the backward pass stand for.
FUNCTIONS: dict[str, Function] = {
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Div": torch.div,
    "Log": torch.log,
    "Pow": torch.pow,
    "Reciprocal": torch.reciprocal,
    "Sqrt": torch.sqrt,
    "tensorproof::Cbrt": lambda x: x.sign() * x.abs() ** (1.0 / 3.0),
    "Tan": torch.tan,
    # Torch refuses what is no probability.
    "tensorproof::BinaryCrossEntropy": lambda x, t: torch.nn.functional.binary_cross_entropy(
        x.clamp(0, 1), t.clamp(0, 1), reduction="none"
    ),
    "tensorproof::Digamma": torch.digamma,
    "tensorproof::Entr": torch.special.entr,
    "tensorproof::Hypot": torch.hypot,
    "tensorproof::Lgamma": torch.lgamma,
    "tensorproof::Log10": torch.log10,
    "tensorproof::Log2": torch.log2,
    "tensorproof::Logit": torch.logit,
    "tensorproof::Trigamma": lambda x: torch.polygamma(1, x),
    "tensorproof::Xlog1py": torch.special.xlog1py,
    "tensorproof::Xlogy": torch.xlogy,
}

#: Numbers at which derivatives are known to break, and ordinary ones; the ends of random cells are drawn from them.
NEGATIVE = (-3e38, -1e20, -100.0, -2.0, -1.0, -0.5, -1e-3, -1e-20)
POSITIVE = (1e-44, 1e-39, 1e-30, 1e-20, 1e-8, 1e-3, 0.5, 1.0, float(np.float16(np.pi / 2)), 2.0, 100.0, 1e4, 1e20, 3e38)
ENDS = (*NEGATIVE, 0.0, *POSITIVE)
CELLS = 60


def arity(entry: Operator) -> int:
    """The number of operands that an operator must have."""
    parameters = list(inspect.signature(entry.block).parameters.values())[1:]
    return sum(1 for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL)


def hazards(entry: Operator, cells: Sequence[Range]) -> tuple[set[str], set[str]]:
    """The codes that a call reports on one cell for each operand: forward, and backward by all of them."""
    call = Call(entry, {})
    with silence():
        result = evaluate(call, cells)
        forward = {hazard.rule.code for hazard in call.hazards if hazard.gives}
        report_derivatives(call, result, cells, Flowing(frozenset(range(len(cells)))))
    return forward, {hazard.rule.code for hazard in call.hazards if hazard.rule.phase == "backward"}


def slopes(function: Function, numbers: Sequence[torch.Tensor], incoming: float = 1.0) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The result of a function of vectors, element by element, and its derivatives by each of them."""
    leaves = [x.clone().requires_grad_() for x in numbers]
    result = function(*leaves)
    found = torch.autograd.grad(result, leaves, torch.full_like(result, incoming))
    return result.detach(), list(found)


def random_cell(rng: np.random.Generator, format: Format) -> tuple[float, float]:
    ends = [float(np.clip(x, format.low, format.high)) for x in rng.choice(ENDS, 2)]
    low, high = sorted(float(format.round_nearest(np.array(x))) for x in ends)
    return low, high


def points_of(rng: np.random.Generator, low: float, high: float, format: Format) -> np.ndarray[Any, Any]:
    """Numbers of a cell: its ends, numbers at which derivatives break, and numbers between them of all sizes."""
    inside = [x for x in (*ENDS, *(1.0 - 2.0**-k for k in (8, 11, 24))) if low <= x <= high]
    between = rng.uniform(low / 2, high / 2, 8) * 2.0 if low < high else np.full(1, low)
    scaled = np.clip(np.exp(rng.uniform(-100, 85, 8)) * rng.choice([-1, 1], 8), low, high)
    return np.clip(format.round_nearest(np.array([low, high, *inside, *between, *scaled])), low, high)


# -- the table ---------------------------------------------------------------------------------------------------------


def test_every_operator_with_a_hazard_of_the_backward_pass_is_tried() -> None:
    declared = {entry.label for entry in all_operators() if entry.backward_hazards}
    assert declared == set(FUNCTIONS)
    for entry in all_operators():
        for hazard in entry.backward_hazards:
            assert hazard.rule.phase == "backward" and hazard.rule in entry.rules()
            assert max(hazard.operand, hazard.by) < arity(entry)


@pytest.mark.parametrize("format", [FLOAT32, FLOAT16], ids=str)
@pytest.mark.parametrize("label", FUNCTIONS)
def test_no_derivative_breaks_without_a_hazard(label: str, format: Format) -> None:
    entry, function = BY_LABEL[label], FUNCTIONS[label]
    rng = np.random.default_rng([len(label), *label.encode(), format.bits])
    broken = 0
    for _ in range(CELLS):
        ends = [random_cell(rng, format) for _ in range(arity(entry))]
        drawn = [points_of(rng, *end, format) for end in ends]
        size = min(map(len, drawn))
        # Each with each for two operands: what breaks is often a pair, such as (0, 0).
        if len(drawn) == 2:
            drawn = [x.reshape(-1) for x in np.meshgrid(*drawn)]
            size = len(drawn[0])
        numbers = [torch.tensor(x[:size], dtype=DTYPES[format]) for x in drawn]
        result, found = slopes(function, numbers)
        bad = torch.isfinite(result) & ~torch.stack([torch.isfinite(slope) for slope in found]).all(0)
        if bool(bad.any()):
            broken += 1
            forward, backward = hazards(entry, [Range.uniform((), format, *end) for end in ends])
            assert forward or backward, (ends, [x[bad][:3] for x in numbers])
    # The tangent is so large in no float32 number.
    assert broken or (label, format) in NEVER_BROKEN


#: Functions and formats of which no number has a derivative that breaks.
NEVER_BROKEN = {("Tan", FLOAT32)}

#: Cells where nothing may be reported, forward or backward: operator, and the ends of each operand.
SOUND = [
    ("Sqrt", [(1e-38, 1.0)]),
    ("tensorproof::Cbrt", [(-1.0, -1e-30)]),
    ("Sqrt", [(1e-45, 1e30)]),
    ("Pow", [(0.0, 10.0), (2.0, 2.0)]),
    ("Pow", [(0.0, 10.0), (1.0, 1.0)]),
    ("Pow", [(0.0, 10.0), (0.0, 0.0)]),
    ("Pow", [(-10.0, 10.0), (3.0, 3.0)]),
    ("Pow", [(1e-12, 10.0), (0.5, 0.5)]),
    ("Pow", [(1e-12, 10.0), (-0.5, -0.5)]),
    ("Acos", [(-0.999999, 0.999999)]),
    ("Asin", [(-0.999999, 0.999999)]),
    ("Acosh", [(1.0001, 1e30)]),
    ("Reciprocal", [(1e-19, 1.0)]),
    ("Reciprocal", [(-1.0, -1e-19)]),
    ("Div", [(-10.0, 10.0), (1e-12, 1.0)]),
    ("Div", [(-1.0, 1.0), (-5.0, -1e-18)]),
    ("Log", [(1e-38, 1e38)]),
    ("Tan", [(-1.5, 1.5)]),
    ("tensorproof::Hypot", [(0.0, 1.0), (1e-30, 1.0)]),
    ("tensorproof::Xlogy", [(0.0, 1.0), (1e-30, 1.0)]),
    ("tensorproof::Entr", [(1e-38, 1.0)]),
]


@pytest.mark.parametrize(("label", "ends"), SOUND)
def test_nothing_is_reported_where_derivatives_are_finite(label: str, ends: list[tuple[float, float]]) -> None:
    rng = np.random.default_rng(0)
    drawn = np.meshgrid(*(points_of(rng, *end, FLOAT32) for end in ends))
    result, found = slopes(FUNCTIONS[label], [torch.tensor(x.reshape(-1), dtype=torch.float32) for x in drawn][: len(ends)])
    trained = found if label != "Pow" else found[:1]
    assert bool(torch.isfinite(result).all()) and all(bool(torch.isfinite(slope).all()) for slope in trained)
    entry = BY_LABEL[label]
    cells = [Range.uniform((), FLOAT32, *end) for end in ends]
    call = Call(entry, {})
    with silence():
        report_derivatives(call, evaluate(call, cells), cells, Flowing(frozenset(range(1 if label == "Pow" else len(ends)))))
    assert not call.hazards


def test_a_derivative_counts_only_by_operands_that_are_trained() -> None:
    """The exponent is a constant for almost all powers: its derivative is NaN for negative bases, and nobody asks for it."""
    cells = [Range.uniform((), FLOAT32, -2.0, -1.0), Range.uniform((), FLOAT32, 2.0, 2.0)]
    for by, expected in ((set[int](), set[str]()), ({0}, set[str]()), ({1}, {"NUM402"}), ({0, 1}, {"NUM402"})):
        call = Call(BY_LABEL["Pow"], {})
        with silence():
            report_derivatives(call, evaluate(call, cells), cells, Flowing(frozenset(by)))
        assert {hazard.rule.code for hazard in call.hazards} == expected


# -- operators without a hazard ------------------------------------------------------------------------------------------

#: Operators that this test leaves out, with the reason.
LEFT_OUT = {
    "Cast": "its attribute decides what it is; between floating formats its derivative is 1",
    "Clip": "its bounds are numbers in almost all programs",
    "tensorproof::Atan2": "g x / (x^2 + y^2) overflows where both numbers are below 1e-19, and is 0 at (0, 0)",
    "tensorproof::DivNoNan": "torch has no such function",
}
#: Attributes that an operator cannot do without.
ATTRIBUTES: dict[str, dict[str, Any]] = {"tensorproof::ScaledSum": {"factor": 0.5}, "tensorproof::IntegerPower": {"exponent": 3}}
#: Sizes of the numbers that are tried beside zero: what breaks only outside of them is left to NUM403.
SIZES = (1e-12, 1e-6, 0.5, 1.0, 1.5, 2.0, 7.0, 80.0, 1e4, 1e9)


def elementwise_without_hazard() -> Iterator[str]:
    for entry in all_operators():
        if entry.elementwise and not entry.backward_hazards and entry.concrete is not None and entry.label not in LEFT_OUT:
            yield entry.label


def meaning(entry: Operator) -> Function:
    def function(*operands: torch.Tensor) -> torch.Tensor:
        assert entry.concrete is not None
        run = Run(
            entry,
            ATTRIBUTES.get(entry.label, {}),
            version=NEWEST,
            outputs=1,
            formats=[FLOAT32] * len(operands),
            precision=None,
            search=False,
            generator=torch.Generator(),
            body=lambda graph, inputs: list(inputs),
            values=(),
        )
        return entry.concrete(run, *operands)

    return function


@pytest.mark.parametrize("label", list(elementwise_without_hazard()))
def test_derivatives_without_a_hazard_are_finite_wherever_the_value_is(label: str) -> None:
    """Catches what was forgotten: an operator has a hazard of the backward pass, or its derivative never breaks."""
    entry = BY_LABEL[label]
    numbers = torch.tensor([0.0, *SIZES, *(-x for x in SIZES)])
    count = max(arity(entry), 1)
    first = [torch.rand(numbers.shape[0] ** 2) < 0.5] if label == "Where" else []
    drawn = torch.meshgrid(*[numbers] * 2, indexing="ij")
    operands = [x.reshape(-1).clone().requires_grad_() for x in (drawn * 2)[: count - len(first)]]
    result = meaning(entry)(*first, *operands)
    if not result.requires_grad:
        return
    found = torch.autograd.grad(result.sum(), operands, allow_unused=True)
    for slope in found:
        assert slope is None or bool(torch.isfinite(slope[torch.isfinite(result)]).all()), label


def test_what_is_left_out_exists() -> None:
    assert set(LEFT_OUT) <= set(BY_LABEL)
    assert not any(BY_LABEL[label].backward_hazards for label in LEFT_OUT)


#: Functions of rows that fail nowhere at rows of equal numbers, zeros included: PyTorch defines their derivatives there.
OF_ROWS: dict[str, Function] = {
    "ReduceL1": lambda x: torch.linalg.vector_norm(x, 1, dim=-1),
    "ReduceL2": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "ReduceProd": lambda x: x.prod(-1),
    "CumProd": lambda x: x.cumprod(-1),
    "ReduceLogSumExp": lambda x: x.logsumexp(-1),
    "Softmax": lambda x: x.softmax(-1),
    "LogSoftmax": lambda x: x.log_softmax(-1),
    "LayerNormalization": lambda x: torch.nn.functional.layer_norm(x, (4,)),
    "RMSNormalization": lambda x: torch.nn.functional.rms_norm(x, (4,)),
    "GroupNormalization": lambda x: torch.nn.functional.group_norm(x.reshape(1, 4, 4), 2),
    "InstanceNormalization": lambda x: torch.nn.functional.instance_norm(x.reshape(1, 4, 4)),
    "LpNormalization": lambda x: torch.nn.functional.normalize(x, dim=-1),
    "LpPool": lambda x: torch.nn.functional.lp_pool1d(x, 2.0, 2),
    "Det": torch.linalg.det,
    "tensorproof::StandardDeviation": lambda x: x.std(-1),
    "tensorproof::Variance": lambda x: x.var(-1),
}


@pytest.mark.parametrize("label", OF_ROWS)
def test_functions_of_rows_have_finite_derivatives_at_equal_numbers(label: str) -> None:
    assert not BY_LABEL[label].backward_hazards
    for number in (0.0, 1.0, -2.0, 1e-12, 1e4):
        result, (slope,) = slopes(OF_ROWS[label], [torch.full((4, 4), number)])
        assert bool(torch.isfinite(result).all()) and bool(torch.isfinite(slope).all()), number


# -- gradients of zero ---------------------------------------------------------------------------------------------------

#: Functions that fail, with the numbers at which they do.
FAILING: list[tuple[str, Function, list[float]]] = [
    ("Sqrt", torch.sqrt, [-1.0, -1e-40]),
    ("Log", torch.log, [0.0, -1.0, -1e20]),
    ("Exp", torch.exp, [89.0, 1e10]),
    ("Sinh", torch.sinh, [100.0, -100.0]),
    ("Cosh", torch.cosh, [100.0, -100.0]),
    ("Reciprocal", torch.reciprocal, [0.0, 1e-45]),
    ("Acos", torch.acos, [1.5, -2.0]),
    ("Asin", torch.asin, [1.5, -2.0]),
    ("Acosh", torch.acosh, [0.5, 0.0, -1.0, -2.0]),
    ("Atanh", torch.atanh, [1.0, -1.0, 2.0, -3.0]),
    ("tensorproof::Log1p", torch.log1p, [-1.0, -2.0]),
    ("tensorproof::Log2", torch.log2, [0.0, -1.0]),
    ("tensorproof::Log10", torch.log10, [0.0, -1.0]),
    ("tensorproof::Expm1", torch.expm1, [100.0]),
    ("tensorproof::Exp2", torch.exp2, [200.0]),
    ("tensorproof::Erfinv", torch.erfinv, [1.0, 2.0]),
    ("tensorproof::Logit", torch.logit, [0.0, 1.0, 2.0, -1.0]),
]


@pytest.mark.parametrize(("label", "function", "numbers"), FAILING, ids=[case[0] for case in FAILING])
def test_a_gradient_of_zero_is_spoiled_as_torch_does(label: str, function: Function, numbers: list[float]) -> None:
    entry = BY_LABEL[label]
    for number in numbers:
        result, (slope,) = slopes(function, [torch.tensor([number])], incoming=0.0)
        assert not bool(torch.isfinite(result).all())
        cell = Range.uniform((), FLOAT32, number, number)
        spoils = True if entry.spoils is None else bool(np.any(entry.spoils(Call(entry, {}), cell)))
        assert spoils is bool(torch.isnan(slope).any()), number


#: Programs that drop a failing value: body of the graph, the same in torch, the range of x, and the rules that are expected.
CONSTANTS = "zero = Constant<value_float=0.0>() one = Constant<value_float=1.0>() many = Constant<value_float=20.0>() "
DROPPED: dict[str, tuple[str, Function, tuple[float, float], set[str]]] = {
    "root of negative numbers": (
        "c = Greater(x, zero) s = Sqrt(x) y = Where(c, s, x)",
        lambda x: torch.where(x > 0, torch.sqrt(x), x),
        (-2, 2),
        {"NUM404"},
    ),
    "exponential of large numbers": (
        "c = LessOrEqual(x, zero) s = Exp(x) t = Add(one, x) y = Where(c, s, t)",
        lambda x: torch.where(x <= 0, torch.exp(x), 1 + x),
        (-100, 100),
        {"NUM404"},
    ),
    "logarithm at zero": (
        "c = Greater(x, zero) s = Log(x) y = Where(c, s, zero)",
        lambda x: torch.where(x > 0, torch.log(x), 0.0),
        (-2, 2),
        {"NUM404"},
    ),
    "a logarithm of negative numbers alone spoils nothing": (
        "c = Greater(x, zero) s = Log(x) y = Where(c, s, zero)",
        lambda x: torch.where(x > 0, torch.log(x), 0.0),
        (-2, -1),
        {"NUM101"},
    ),
    "a product with the failing value does": (
        "c = Greater(x, zero) s = Log(x) t = Mul(x, s) y = Where(c, t, zero)",
        lambda x: torch.where(x > 0, x * torch.log(x), 0.0),
        (-2, -1),
        {"NUM404"},
    ),
    "the exponential of a sigmoid": (
        "n = Neg(x) e = Exp(n) d = Add(one, e) y = Div(one, d)",
        lambda x: 1 / (1 + torch.exp(-x)),
        (-200, 200),
        {"NUM404"},
    ),
    "the exponential of a guarded softplus": (
        "c = Greater(x, many) e = Exp(x) d = Add(one, e) l = Log(d) y = Where(c, x, l)",
        lambda x: torch.where(x > 20, x, torch.log(1 + torch.exp(x))),
        (-200, 200),
        {"NUM404"},
    ),
    "a clamp after the exponential": (
        "e = Exp(x) y = Clip(e, zero, many)",
        lambda x: torch.exp(x).clamp(0, 20),
        (-200, 200),
        {"NUM404"},
    ),
    "a minimum after the exponential": (
        "e = Exp(x) y = Min(e, many)",
        lambda x: torch.minimum(torch.exp(x), torch.tensor(20.0)),
        (-200, 200),
        {"NUM404"},
    ),
    "a condition on the absolute value": (
        "a = Abs(x) c = Less(a, one) s = Acos(x) y = Where(c, s, zero)",
        lambda x: torch.where(x.abs() < 1, torch.acos(x), 0.0),
        (-2, 2),
        {"NUM404"},
    ),
    "the second branch": (
        "c = LessOrEqual(x, zero) s = Log(x) y = Where(c, zero, s)",
        lambda x: torch.where(x <= 0, 0.0, torch.log(x)),
        (-2, 2),
        {"NUM404"},
    ),
    "NaN is looked for": (
        "s = Sqrt(x) c = IsNaN(s) y = Where(c, zero, s)",
        lambda x: torch.where(torch.isnan(torch.sqrt(x)), 0.0, torch.sqrt(x)),
        (-2, -1),
        {"NUM404"},
    ),
    "the operand is exchanged, and nothing fails": (
        "c = Greater(x, zero) s = Where(c, x, one) t = Sqrt(s) y = Where(c, t, x)",
        lambda x: torch.where(x > 0, torch.sqrt(torch.where(x > 0, x, 1.0)), x),
        (-2, 2),
        set(),
    ),
    "a sum that overflows and is cut off spoils nothing": (
        "s = Mul(x, many) y = Clip(s, zero, many)",
        lambda x: (x * 20.0).clamp(0, 20),
        (-3e38, 3e38),
        {"NUM202"},
    ),
}


def parsed(body: str, signature: str = "(float[4] x) => (float[4] y)") -> onnx.ModelProto:
    header = '<ir_version: 10, opset_import: ["" : 18, "tensorproof" : 1]>'
    return onnx.parser.parse_model(f"{header} g {signature} {{ {body} }}")


def scanned(
    proto: onnx.ModelProto, ranges: dict[str, Any], *, phase: ModelPhase = "training", target: str = "torch-cpu", effort: int = 1
) -> Report:
    prepared = Prepared.of(proto, ranges=ranges, target=target, effort=effort, cache=False)
    return check(prepared.graph, prepared.declared, prepared.target, effort=effort, abstraction=prepared.abstraction, phase=phase)


def roots(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if not finding.consequence_of]


@pytest.mark.parametrize("name", DROPPED)
def test_failing_values_that_are_dropped(name: str) -> None:
    """What is said of the gradient holds in eager PyTorch, on numbers of the range; the value is finite on all of them."""
    body, function, (low, high), expected = DROPPED[name]
    x = torch.tensor([low, high, 0.0 if low < 0 < high else low, *np.linspace(low / 2, high / 2, 41) * 2], dtype=torch.float32)
    result, (slope,) = slopes(function, [x])
    assert bool(torch.isfinite(result).all())
    assert bool(torch.isnan(slope).any()) is ("NUM404" in expected)
    report = scanned(parsed(CONSTANTS + body), {"x": (low, high)})
    assert {finding.rule.code for finding in roots(report)} == expected
    for finding in roots(report):
        assert finding.phase == ("backward" if finding.rule.code == "NUM404" else "forward")


#: Programs whose failing value is not dropped, or not surely: body and the rules that are expected.
NOT_DROPPED = {
    "the wrong branch": ("c = Less(x, zero) s = Sqrt(x) y = Where(c, s, x)", {"NUM102"}),
    "a sum beside the choice": ("c = Greater(x, zero) s = Sqrt(x) t = Where(c, s, x) y = Add(s, t)", {"NUM102"}),
    "a bound that is too low": ("c = Greater(x, low) s = Sqrt(x) y = Where(c, s, x)", {"NUM102"}),
    "one of two conditions": ("a = Greater(x, zero) b = Less(x, one) c = Or(a, b) s = Sqrt(x) y = Where(c, s, x)", {"NUM102"}),
    "other elements decide": ("m = ReduceMax<keepdims=1>(x) c = Greater(m, zero) s = Sqrt(x) y = Where(c, s, x)", {"NUM102"}),
    "elements were moved": ("t = Transpose(x) c = Greater(t, zero) s = Sqrt(x) y = Where(c, s, x)", {"NUM102"}),
    "numbers above zero overflow as well": ("c = Greater(x, zero) s = Div(one, x) y = Where(c, s, zero)", {"NUM404", "NUM202"}),
}


@pytest.mark.parametrize("name", NOT_DROPPED)
def test_failing_values_that_may_be_selected(name: str) -> None:
    body, expected = NOT_DROPPED[name]
    proto = parsed(CONSTANTS + "low = Constant<value_float=-0.5>() " + body, "(float[4,4] x) => (float[4,4] y)")
    assert {finding.rule.code for finding in roots(scanned(proto, {"x": (-2, 2)}))} == expected


# -- paths ---------------------------------------------------------------------------------------------------------------

#: Bodies of a graph from x to y, with a square root at s, and whether a gradient flows through it.
PATHS = {
    "straight": ("s = Sqrt(x) y = Identity(s)", True),
    "through a sum": ("s = Sqrt(x) a = Add(s, x) y = ReduceSum(a)", True),
    "rounded: torch sends zeros back": ("s = Sqrt(x) y = Floor(s)", True),
    "stopped before": ("a = tensorproof.StopGradient(x) s = Sqrt(a) y = Mul(s, x)", False),
    "stopped behind": ("s = Sqrt(x) a = tensorproof.StopGradient(s) y = Mul(a, x)", False),
    "compared": ("s = Sqrt(x) c = Greater(s, x) y = Where(c, x, x)", False),
    "cast to integers": ("s = Sqrt(x) i = Cast<to=7>(s) f = Cast<to=1>(i) y = Add(f, x)", False),
    "a position": ("s = Sqrt(x) i = ArgMax<axis=0>(s) y = Gather(x, i)", False),
    "a shape": ("s = Sqrt(x) i = Shape(s) y = Reshape(x, i)", False),
    "the positions of the largest": ("s = Sqrt(x) k = Constant<value_ints=[2]>() v, i = TopK(s, k) y = Gather(x, i)", False),
    "the largest": ("s = Sqrt(x) k = Constant<value_ints=[2]>() y, i = TopK(s, k)", True),
    "nobody reads it": ("s = Sqrt(x) y = Identity(x)", False),
    "a constant": ("c = Constant<value_floats=[0.0, 1.0]>() s = Sqrt(c) a = ReduceSum(s) y = Add(a, x)", False),
}


@pytest.mark.parametrize("name", PATHS)
def test_gradients_flow_along_differentiable_paths(name: str) -> None:
    body, flows = PATHS[name]
    proto = parsed(body, "(float[4] x) => (y)")
    model = from_proto(proto)
    root = next(node for node in model.graph.nodes if node.op == "Sqrt")
    assert (root.number in differentiable_paths(model)) is flows
    codes = {finding.rule.code for finding in roots(scanned(proto, {"x": (0, 1)}))}
    assert codes == ({"NUM401"} if flows else set())


#: Roots of operands that are zero where a gradient is stopped, or is not: body of the graph, and the same in torch.
STOPS: dict[str, tuple[str, Function]] = {
    "Relu": ("r = Relu(x) y = Sqrt(r)", lambda x: torch.sqrt(torch.relu(x))),
    "a power of Relu": ("h = Constant<value_float=0.5>() r = Relu(x) y = Pow(r, h)", lambda x: torch.relu(x) ** 0.5),
    "a sum of Relu": ("r = Relu(x) s = ReduceSum(r) y = Sqrt(s)", lambda x: torch.relu(x).sum().sqrt()),
    "Where": (
        CONSTANTS + "c = Greater(x, zero) r = Where(c, x, zero) y = Sqrt(r)",
        lambda x: torch.sqrt(torch.where(x > 0, x, 0.0)),
    ),
    "Where that selects zeros": (
        CONSTANTS + "c = GreaterOrEqual(x, zero) r = Where(c, x, zero) y = Sqrt(r)",
        lambda x: torch.sqrt(torch.where(x >= 0, x, 0.0)),
    ),
    "Where with a branch that is not compared": (
        CONSTANTS + "c = Greater(x, zero) a = Abs(x) r = Where(c, one, a) y = Sqrt(r)",
        lambda x: torch.sqrt(torch.where(x > 0, 1.0, x.abs())),
    ),
    "Clip": ("z = Constant<value_float=0.0>() r = Clip(x, z) y = Sqrt(r)", lambda x: torch.sqrt(x.clamp(min=0))),
    "Max": ("z = Constant<value_float=0.0>() r = Max(x, z) y = Sqrt(r)", lambda x: torch.sqrt(x.maximum(torch.zeros(())))),
    "Abs": ("r = Abs(x) y = Sqrt(r)", lambda x: torch.sqrt(x.abs())),
    "a square of Relu": ("r = Relu(x) s = Mul(r, r) y = Sqrt(s)", lambda x: torch.sqrt(torch.relu(x) * torch.relu(x))),
}


@pytest.mark.parametrize("name", STOPS)
def test_relu_stops_infinite_gradients(name: str) -> None:
    body, function = STOPS[name]
    breaks = False
    for number in (-1.0, 0.0, 1e-30, 1.0):
        _, (slope,) = slopes(function, [torch.full((4,), number)])
        breaks = breaks or not bool(torch.isfinite(slope).all())
    found = {finding.rule.code for finding in roots(scanned(parsed(body, "(float[4] x) => (y)"), {"x": (-1, 1)}))}
    assert found == ({"NUM401"} if breaks else set())


@pytest.mark.parametrize(("moved", "is_stop"), [("d = Identity(c)", True), ("d = Reshape(c, row)", False)])
def test_a_choice_by_elements_in_other_places_is_no_stop(moved: str, is_stop: bool) -> None:
    """The condition is brought to another shape and broadcast: x[i] is then chosen by x[j] > 0."""
    body = f"{CONSTANTS} row = Constant<value_ints=[1, 4]>() c = Greater(x, zero) {moved} r = Where(d, x, zero) y = Sqrt(r)"
    proto = parsed(body, "(float[4,1] x) => (y)")
    model = from_proto(proto)
    root = next(node for node in model.graph.nodes if node.op == "Sqrt")
    assert differentiable_paths(model)[root.number].stopped_at_zero == ({0} if is_stop else set())
    assert {finding.rule.code for finding in roots(scanned(proto, {"x": (-1, 1)}))} == (set() if is_stop else {"NUM102"})


def test_weights_are_trained_unless_there_are_none() -> None:
    proto = parsed(
        "a = Mul(x, w) s = Sqrt(a) t = Sqrt(x) y = Add(s, t)", "(float[4] x) => (float[4] y) <float[4] w = {0, 1, 2, 3}>"
    )
    model = from_proto(proto)
    weight, given = model.find_value("w"), model.find_value("x")
    assert weight is not None and given is not None
    assert trainable_values(model) == {weight}
    assert {f.node for f in roots(scanned(proto, {"x": (0, 1)}))} == {"Sqrt(s)"}
    prepared = Prepared.of(proto, ranges={"x": (0, 1)}, cache=False)
    both = check(prepared.graph, prepared.declared, prepared.target, phase="training", trainable={weight, given})
    assert {f.node for f in roots(both)} == {"Sqrt(s)", "Sqrt(t)"}
    none = check(prepared.graph, prepared.declared, prepared.target, phase="training", trainable=())
    assert not roots(none)


def test_bodies_of_control_flow_are_looked_into() -> None:
    body = """
        c = ReduceMax<keepdims=0>(x)
        h = Constant<value_float=0.5>()
        b = Greater(c, h)
        y = If (b) <
            then_branch = one () => (float[4] p) { p = Sqrt(x) },
            else_branch = two () => (float[4] q) { q = Identity(x) }
        >
    """
    found = roots(scanned(parsed(body), {"x": (0, 1)}))
    assert [(f.rule.code, f.op) for f in found] == [("NUM401", "Sqrt")]
    assert not roots(scanned(parsed(body), {"x": (0, 1)}, phase="inference"))


def test_names_of_operators_without_derivative_are_in_the_table() -> None:
    names = {entry.name for entry in all_operators()}
    assert names >= NO_DERIVATIVE | FIRST_RESULT | set(SELECTING)


# -- findings ------------------------------------------------------------------------------------------------------------


def test_inference_does_not_ask_for_derivatives() -> None:
    proto = parsed("s = Sqrt(x) a = Acos(x) y = Add(s, a)")
    assert not roots(scanned(proto, {"x": (0, 1)}, phase="inference"))
    found = roots(scanned(proto, {"x": (0, 1)}))
    assert {(f.rule.code, f.phase, f.op, f.limit) for f in found} == {
        ("NUM401", "backward", "Sqrt", 0.0),
        ("NUM402", "backward", "Acos", 1.0),
    }
    for finding in found:
        assert (finding.low, finding.high) == (0.0, 1.0) and finding.operand == "x"


def test_a_node_that_fails_forward_is_reported_for_that_alone() -> None:
    assert {f.rule.code for f in roots(scanned(parsed("y = Sqrt(x)"), {"x": (-1, 1)}))} == {"NUM102"}


def test_derivatives_give_no_special_values() -> None:
    """What follows an infinite derivative is proven safe without a condition: its values are finite."""
    report = scanned(parsed("s = Sqrt(x) y = Exp(s)"), {"x": (0, 1)})
    assert [f.node for f in report.findings] == ["Sqrt(s)"]
    assert report.proven_safe == ("Exp(y)",) and not report.proven_safe_if


def test_refinement_proves_derivatives_too() -> None:
    """x + z - x is z: only the relation of the operands tells, which the first pass does not keep."""
    proto = parsed("a = Add(x, z) s = Sub(a, x) y = Sqrt(s)", "(float[4] x, float[4] z) => (float[4] y)")
    ranges = {"x": (0, 1), "z": (1, 2)}
    assert [f.rule.code for f in roots(scanned(proto, ranges, effort=0))] == ["NUM401"]
    report = scanned(proto, ranges)
    assert not roots(report) and report.proven_by == {"Sqrt(y)": "affine forms"}


def test_refinement_uncovers_derivatives() -> None:
    """A first pass with one cell per tensor sees negative numbers at the root, the next one zeros: no failure, but a derivative."""
    body = "a = Concat<axis=0>(x, z) k = Constant<value_ints=[4, 4]>() b, c = Split<axis=0>(a, k) y = Sqrt(c)"
    proto = parsed(body, "(float[4] x, float[4] z) => (float[4] y)")
    ranges = {"x": (-1, 0), "z": (0, 1)}
    codes: list[list[str]] = []
    for effort in (0, 1):
        prepared = Prepared.of(proto, ranges=ranges, tensors="smash", effort=effort, cache=False)
        report = check(
            prepared.graph, prepared.declared, prepared.target, effort=effort, abstraction=prepared.abstraction, phase="training"
        )
        codes.append([finding.rule.code for finding in roots(report)])
    assert codes == [["NUM102"], ["NUM401"]]


@pytest.mark.parametrize("program", ["35b", "36b", "39b", "43b", "49b", "5"])
def test_the_invalid_derivatives_of_the_zoo_are_found(program: str) -> None:
    """Those of the autoencoders need flushed subnormal numbers, as in TensorFlow, which the programs are written in."""
    entry = next(entry for entry in programs() if entry.id == program)
    (bug,) = entry.bugs
    assert bug.error == "invalid derivative"
    target = "torch-cpu" if entry.framework == "pytorch" else "tensorflow-cpu"
    ranges = dict(entry.declarations().domains)
    found = [f for f in roots(scanned(entry.onnx(), ranges, target=target)) if f.phase == "backward"]
    assert [(f.rule.code, f.node) for f in found] == [("NUM401", bug.node)]
    assert not any(f.phase == "backward" for f in roots(scanned(entry.onnx(), ranges, target=target, phase="inference")))


def test_an_autoencoder_has_finite_gradients_where_subnormal_numbers_are_kept() -> None:
    entry = next(entry for entry in programs() if entry.id == "35b")
    found = roots(scanned(entry.onnx(), dict(entry.declarations().domains), target="torch-cpu"))
    assert not any(f.phase == "backward" for f in found)
    result, (slope,) = slopes(lambda s: torch.sqrt(torch.exp(s.clamp(-100.0, 87.0))), [torch.tensor([-101.0, -100.0, -90.0, 87.0])])
    assert bool(torch.isfinite(result).all()) and bool(torch.isfinite(slope).all())


def test_all_combinations_of_sizes_are_checked_for_training() -> None:
    prepared = Prepared.of(
        parsed("y = Sqrt(x)", "(float[N] x) => (float[N] y)"), ranges={"x": (0, 1)}, dims={"N": (1, 2)}, cache=False
    )
    report = check(prepared.graph, prepared.declared, prepared.target, phase="training")
    assert [f.rule.code for f in roots(report)] == ["NUM401"]


def test_an_analysis_is_for_inference_unless_it_is_said() -> None:
    from tensorproof.assumptions import resolve

    prepared = Prepared.of(parsed("y = Sqrt(x)"), ranges={"x": (0, 1)}, cache=False)
    (assumptions, *_), _ = resolve(prepared.graph, prepared.declared)
    assert not analyse(prepared.graph, assumptions, prepared.target).findings
    assert analyse(prepared.graph, assumptions, prepared.target, phase="training").findings
    assert find_operator("tensorproof", "StopGradient") is not None
