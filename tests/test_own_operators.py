"""Operators that ONNX does not have, and the target torch-cpu: torch itself is the oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format
from tensorproof.graph import Graph, Model, Node, Value
from tensorproof.operators.table import Call, Hazard, Operator, all_operators, evaluate, find_operator
from tensorproof.ranges.range import Range, flags_of
from tensorproof.ranges.special_functions import digamma, erfc, erfinv, log_gamma, trigamma
from tensorproof.targets import TORCH_CPU

pytestmark = pytest.mark.area("own operators")

OWN = "tensorproof"
FORMATS = (FLOAT32, FLOAT16, BFLOAT16, FLOAT64)
Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """An operator with attributes, and the function of torch that it stands for.

    `low` and `high` are where random operands come from; the operand `probability` is always one of [0, 1].
    """

    label: str
    function: Function
    operands: int = 1
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    low: float = -20.0
    high: float = 20.0
    probability: int | None = None

    @property
    def name(self) -> str:
        return f"{self.label}{''.join(f'-{value}' for value in self.attributes.values())}"

    @property
    def entry(self) -> Operator:
        domain, _, name = self.label.rpartition("::")
        found = find_operator(domain, name)
        assert found is not None
        return found


def functional() -> Any:
    import torch

    return torch.nn.functional


def of_torch(name: str) -> Function:
    """A function of torch by its name, looked up when it is called."""

    def call(*operands: Any) -> Any:
        import torch

        found: Any = torch
        for part in name.split("."):
            found = getattr(found, part)
        return found(*operands)

    return call


def own(name: str, function: Function | str, operands: int = 1, **more: Any) -> Case:
    return Case(f"{OWN}::{name}", of_torch(function) if isinstance(function, str) else function, operands, **more)


def binary_cross_entropy(x: Any, target: Any) -> Any:
    """As torch computes it inside [0, 1]; outside it refuses, which stands for NaN here."""
    import torch

    inside = (x >= 0) & (x <= 1)
    value = functional().binary_cross_entropy(torch.where(inside, x, 0.5), target, reduction="none")
    return torch.where(inside, value, torch.nan)


def div_no_nan(a: Any, b: Any) -> Any:
    import torch

    return torch.where(b == 0, torch.zeros_like(b), a / b)


CASES = [
    own("Exp2", "exp2", high=200.0),
    own("Expm1", "expm1", high=120.0),
    own("Log1p", "log1p", low=-1.5),
    own("Log2", "log2", low=-0.5),
    own("Log10", "log10", low=-0.5),
    own("LogAddExp", "logaddexp", 2, low=-200.0, high=200.0),
    own("LogAddExp2", "logaddexp2", 2, low=-200.0, high=200.0),
    own("Xlogy", "xlogy", 2, low=-0.5, high=3.0),
    own("Xlog1py", "special.xlog1py", 2, low=-1.5, high=3.0),
    own("Entr", "special.entr", low=-0.1, high=3.0),
    own("Hypot", "hypot", 2),
    own("LogSigmoid", "nn.functional.logsigmoid", low=-200.0, high=200.0),
    own("Softplus", "nn.functional.softplus", low=-120.0, high=120.0),
    own(
        "Softplus", lambda x: functional().softplus(x, 2.5, 30.0), attributes={"beta": 2.5, "threshold": 30.0}, low=-50.0, high=50.0
    ),
    own("Softplus", lambda x: functional().softplus(x, 0.1, 200.0), attributes={"beta": 0.1, "threshold": 200.0}, high=1500.0),
    own(
        "BinaryCrossEntropyWithLogits",
        lambda x, t: functional().binary_cross_entropy_with_logits(x, t, reduction="none"),
        2,
        low=-2.0,
        high=2.0,
    ),
    own("BinaryCrossEntropy", binary_cross_entropy, 2, low=-0.1, high=1.1, probability=1),
    own("Erfc", "erfc", low=-12.0, high=12.0),
    own("Erfinv", "erfinv", low=-1.1, high=1.1),
    own("Logit", "logit", low=-0.1, high=1.1),
    own("Logit", lambda x: of_torch("logit")(x, 1e-3), attributes={"eps": 1e-3}, low=-0.1, high=1.1),
    own("Logit", lambda x: of_torch("logit")(x, 1e-9), attributes={"eps": 1e-9}, low=-0.1, high=1.1),
    own("Lgamma", "lgamma", low=-5.0, high=20.0),
    own("Digamma", "digamma", low=-3.0, high=20.0),
    own("Trigamma", lambda x: of_torch("polygamma")(1, x), low=-3.0, high=20.0),
    own("Sinc", "sinc", low=-4.0, high=4.0),
    own("Atan2", "atan2", 2),
    own("Trunc", "trunc"),
    own("FloorDivide", lambda a, b: of_torch("floor_divide")(a, b), 2),
    own("ScaledSum", lambda a, b: a.add(b, alpha=0.3), 2, attributes={"factor": 0.3}),
    own("ScaledSum", lambda a, b: a.sub(b, alpha=3), 2, attributes={"factor": -3.0}),
    own("AddProduct", lambda x, a, b: x.addcmul(a, b, value=0.3), 3, attributes={"factor": 0.3}),
    own("DivNoNan", div_no_nan, 2),
    own("Lerp", "lerp", 3, low=-2.0, high=2.0),
    own("CopySign", "copysign", 2),
]

#: Operators of the standard with the function of torch that its target is about.
STANDARD = [
    Case("Exp", of_torch("exp"), high=120.0),
    Case("Log", of_torch("log"), low=-0.5),
    Case("Sqrt", of_torch("sqrt"), low=-0.5),
    Case("Reciprocal", of_torch("reciprocal")),
    Case("Sin", of_torch("sin")),
    Case("Cos", of_torch("cos")),
    Case("Tan", of_torch("tan")),
    Case("Asin", of_torch("asin"), low=-1.1, high=1.1),
    Case("Acos", of_torch("acos"), low=-1.1, high=1.1),
    Case("Atan", of_torch("atan")),
    Case("Sinh", of_torch("sinh"), low=-100.0, high=100.0),
    Case("Cosh", of_torch("cosh"), low=-100.0, high=100.0),
    Case("Tanh", of_torch("tanh")),
    Case("Asinh", of_torch("asinh")),
    Case("Acosh", of_torch("acosh")),
    Case("Atanh", of_torch("atanh"), low=-1.1, high=1.1),
    Case("Erf", of_torch("erf"), low=-5.0, high=5.0),
    Case("Sigmoid", of_torch("sigmoid"), low=-110.0, high=110.0),
    Case("Gelu", of_torch("nn.functional.gelu")),
    Case("Gelu", lambda x: functional().gelu(x, approximate="tanh"), attributes={"approximate": "tanh"}),
    Case("Swish", of_torch("nn.functional.silu"), low=-110.0),
    Case("Mish", of_torch("nn.functional.mish"), low=-110.0),
    Case("Elu", of_torch("nn.functional.elu")),
    Case("Celu", lambda x: functional().celu(x, 0.7), attributes={"alpha": 0.7}),
    Case("HardSwish", of_torch("nn.functional.hardswish")),
    Case("HardSigmoid", of_torch("nn.functional.hardsigmoid"), attributes={"alpha": 1 / 6, "beta": 0.5}),
    Case("Shrink", of_torch("nn.functional.softshrink"), attributes={"bias": 0.5, "lambd": 0.5}),
    Case("Shrink", of_torch("nn.functional.hardshrink"), attributes={"bias": 0.0, "lambd": 0.5}),
    Case("Pow", of_torch("pow"), 2, low=-4.0, high=8.0),
    Case("Mod", of_torch("remainder"), 2),
    Case("Mod", of_torch("fmod"), 2, attributes={"fmod": 1}),
]


# -- what torch computes ---------------------------------------------------------------------------------------------


def computed(case: Case, format: Format, points: Sequence[np.ndarray[Any, Any]], *, strided: bool = False) -> np.ndarray[Any, Any]:
    """Torch's results as float64 numbers, on contiguous tensors or on every second element of larger ones."""
    import torch

    dtype = getattr(torch, format.name)
    tensors = [torch.from_numpy(point.astype(np.float64)).to(dtype) for point in points]
    if strided:
        tensors = [torch.stack([x, x], 1)[:, 0] for x in tensors]
    result: np.ndarray[Any, Any] = case.function(*tensors).to(torch.float64).numpy()
    return result


def evaluated(case: Case, operands: Sequence[Range]) -> tuple[Range, list[Hazard]]:
    call = Call(case.entry, dict(case.attributes), target=TORCH_CPU)
    return evaluate(call, operands), call.hazards


def outside(result: Range, hazards: Sequence[Hazard], values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Results that the range does not hold: numbers beyond its ends, and special values that no hazard gives."""
    low, high, special = result.expanded()
    gives = 0
    for hazard in hazards:
        gives |= hazard.gives
    flags = flags_of(values)
    return ((flags == 0) & ~((low <= values) & (values <= high))) | ((flags & ~(special | np.uint8(gives & 7))) != 0)


# -- random cells ----------------------------------------------------------------------------------------------------


def special_numbers(format: Format) -> np.ndarray[Any, Any]:
    tiny, normal, largest = format.smallest_subnormal, format.smallest_normal, format.high
    sizes = [
        0.0,
        tiny,
        3 * tiny,
        normal,
        0.5,
        1 - format.unit_roundoff,
        1.0,
        1 + 2 * format.unit_roundoff,
        2.0,
        np.sqrt(largest),
        largest,
    ]
    return format.round_nearest(np.array([*sizes, *(-x for x in sizes)]))


def random_cell(rng: np.random.Generator, case: Case, format: Format, operand: int = 0) -> tuple[float, float]:
    """Two numbers of the format: near each other, far apart, or special ones."""
    style = rng.integers(5)
    if style == 0:
        ends = rng.choice(special_numbers(format), 2)
    elif style == 1:
        ends = np.array([rng.choice(special_numbers(format)), rng.uniform(case.low, case.high)])
    elif style == 2:
        ends = np.repeat(rng.uniform(case.low, case.high), 2)
    elif style == 3:
        ends = rng.uniform(case.low, case.high) + np.array([0.0, 10.0 ** rng.uniform(-6, 0)])
    else:
        ends = rng.uniform(case.low, case.high, 2)
    least, most = (0.0, 1.0) if operand == case.probability else (format.low, format.high)
    low, high = np.sort(np.clip(format.round_nearest(np.asarray(ends, np.float64)), least, most))
    return float(low), float(high)


def drawn(rng: np.random.Generator, format: Format, low: float, high: float, count: int) -> np.ndarray[Any, Any]:
    """Numbers of the cell: its ends, special ones, whole ones, and any others; zeros have either sign."""
    share = rng.random(count)
    any_number = np.clip(low + share * (min(high - low, format.high)), low, high)
    kind = rng.integers(5, size=count)
    choices = [np.full(count, low), np.full(count, high), rng.choice(special_numbers(format), count), np.rint(any_number)]
    picked = np.select([kind == k for k in range(4)], choices, any_number)
    points = np.clip(format.round_nearest(np.clip(picked, low, high)), low, high)
    return np.where((points == 0) & (rng.random(count) < 0.5), -points, points)


TRIALS = 60
POINTS = 24


@pytest.mark.parametrize("case", [*CASES, *STANDARD], ids=lambda case: case.name)
def test_what_torch_computes_lies_in_the_range(case: Case) -> None:
    rng = np.random.default_rng(7)
    for format in FORMATS:
        for _ in range(TRIALS):
            cells = [random_cell(rng, case, format, operand) for operand in range(case.operands)]
            result, hazards = evaluated(case, [Range.uniform((POINTS,), format, *cell) for cell in cells])
            points = [drawn(rng, format, *cell, POINTS) for cell in cells]
            values = computed(case, format, points)
            bad = outside(result, hazards, values)
            assert not bad.any(), (format.name, cells, [p[bad][0] for p in points], values[bad][0], result, hazards)


@pytest.mark.parametrize("case", [c for c in (*CASES, *STANDARD) if c.operands == 1], ids=lambda case: case.name)
@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
def test_errors_of_torch_at_points_are_covered(case: Case, strided: bool) -> None:
    """All 16-bit numbers, many others: the error that a block states is not smaller than torch's."""
    rng = np.random.default_rng(11)
    for format in FORMATS:
        points = many_numbers(rng, case, format)
        for start in range(0, points.size, 40_000):
            part = points[start : start + 40_000]
            result, hazards = evaluated(case, [Range.constant(part.astype(format.dtype))])
            values = computed(case, format, [part], strided=strided)
            bad = outside(result, hazards, values)
            assert not bad.any(), (format.name, float(part[bad][0]), values[bad][0], result.low[bad][0], result.high[bad][0])


def many_numbers(rng: np.random.Generator, case: Case, format: Format) -> np.ndarray[Any, Any]:
    if format.bits == 16:
        with np.errstate(invalid="ignore"):
            numbers = np.arange(1 << 16, dtype=np.uint16).view(format.dtype).astype(np.float64)
        return numbers[np.isfinite(numbers)]
    scaled = 10.0 ** rng.uniform(np.log10(format.smallest_subnormal) + 1, np.log10(format.high), 4000)
    parts = [scaled, -scaled, rng.uniform(case.low, case.high, 8000), rng.uniform(-2, 2, 4000), 1 + 0.01 * rng.normal(size=2000)]
    return format.round_nearest(np.concatenate(parts))


# -- meanings --------------------------------------------------------------------------------------------------------


def one_node(case: Case) -> Model:
    domain, _, name = case.label.rpartition("::")
    values = [Value(f"x{index}", FLOAT64, None) for index in range(case.operands)]
    inputs, output = tuple(range(case.operands)), case.operands
    node = Node(0, name, domain, 1, name, inputs, (output,), dict(case.attributes))
    graph = Graph("one", [node], inputs, (output,))
    return Model("one", graph, [*values, Value("y", FLOAT64, None)], {}, frozenset(), {"": 23, OWN: 1})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_meanings_are_the_functions_of_torch_and_searches_have_finite_slopes(case: Case) -> None:
    """Slopes are finite wherever values are, and also where they are not: one that is NaN would end a search."""
    import torch

    rng = np.random.default_rng(19)
    model = one_node(case)
    ends = [(0.0, 1.0) if operand == case.probability else (case.low, case.high) for operand in range(case.operands)]
    points = [np.concatenate([rng.uniform(*pair, 40), [0.0, 1.0, *pair, 0.0]]) for pair in ends]
    wanted = computed(case, FLOAT64, points)
    for search in (False, True):
        tensors = [torch.tensor(x, requires_grad=search) for x in points]
        (value,) = TorchGraph(model, search=search).run(dict(enumerate(tensors)), model.graph.outputs).values()
        np.testing.assert_allclose(value.detach().numpy(), wanted, rtol=1e-13)
        if search and value.requires_grad:
            slopes = torch.autograd.grad(value.nan_to_num(0.0, 0.0, 0.0).sum(), tensors, allow_unused=True)
            assert all(slope is None or bool(torch.isfinite(slope).all()) for slope in slopes)


# -- how tight -------------------------------------------------------------------------------------------------------


def random_ends(rng: np.random.Generator, case: Case, operand: int) -> np.ndarray[Any, Any]:
    ends = np.sort(rng.uniform(case.low, case.high, 2))
    return np.clip(ends, 0.0, 1.0) if operand == case.probability else ends


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ranges_are_no_wider_than_what_is_reached(case: Case) -> None:
    """In float64, on cells without a hazard: at most 1.02 times the hull of many samples; twice where the block is coarse."""
    rng = np.random.default_rng(13)
    measured = 0
    for _ in range(80):
        ends = [random_ends(rng, case, operand) for operand in range(case.operands)]
        result, hazards = evaluated(case, [Range.uniform((1,), FLOAT64, float(low), float(high)) for low, high in ends])
        if any(hazard.gives for hazard in hazards):
            continue
        count = 4001 if case.operands == 1 else 63 if case.operands == 2 else 15
        # A function may jump at zero, and between its signs.
        zeros = [[0.0, -0.0] if low < 0 < high else [] for low, high in ends]
        axes = [np.concatenate([np.linspace(low, high, count), more]) for (low, high), more in zip(ends, zeros)]
        values = computed(case, FLOAT64, [grid.ravel() for grid in np.meshgrid(*axes)])
        assert np.isfinite(values).all()
        (low, high), reached = result.hull(), float(values.max() - values.min())
        allowed = 2.0 if case.entry.coarse is not None else 1.02
        slack = 1e-8 + 1e-3 * reached
        # Between the samples of a grid a function of several operands goes a little farther.
        assert high - low <= allowed * reached + slack + (0.1 * reached if case.operands > 1 else 0.0), (ends, result, reached)
        measured += 1
    assert measured >= 10


# -- the functions behind the blocks ---------------------------------------------------------------------------------


def test_special_functions_in_float64() -> None:
    import mpmath

    rng = np.random.default_rng(17)
    positive = np.concatenate([10.0 ** rng.uniform(-30, 30, 100), rng.uniform(0, 20, 100), rng.uniform(1.4, 1.5, 50)])
    unit = np.concatenate([rng.uniform(-1, 1, 100), 1 - 10.0 ** rng.uniform(-15, -1, 50), 10.0 ** rng.uniform(-30, 0, 50)])
    functions: list[tuple[Callable[[Any], Any], Callable[[Any], Any], np.ndarray[Any, Any], bool]] = [
        (digamma, mpmath.digamma, positive, False),
        (trigamma, lambda x: mpmath.psi(1, x), positive, True),
        (log_gamma, mpmath.loggamma, positive, False),
        (erfinv, mpmath.erfinv, unit, True),
        (erfc, mpmath.erfc, rng.uniform(-5, 25, 100), True),
    ]
    with mpmath.workdps(50):
        for function, exact, points, relative in functions:
            for point, value in zip(points, function(points)):
                wanted = exact(mpmath.mpf(float(point)))
                scale = abs(wanted) if relative else 1 + abs(wanted)
                assert abs(mpmath.mpf(float(value)) - wanted) <= 4e-15 * scale, (function, point)


# -- the table -------------------------------------------------------------------------------------------------------


def test_every_own_operator_is_tested_and_has_a_meaning() -> None:
    entries = [entry for entry in all_operators() if ".own_" in entry.block.__module__]
    tested = {case.label.removeprefix(f"{OWN}::") for case in CASES}
    assert {entry.name for entry in entries} == tested
    assert [entry.name for entry in entries if entry.concrete is None] == []


#: Safe uses: no hazard on these operands.
SAFE: list[tuple[str, list[tuple[float, float]]]] = [
    ("Log1p", [(-0.999, 1e30)]),
    ("LogAddExp", [(-1e30, 1e30), (-1e30, 1e30)]),
    ("LogSigmoid", [(-1e30, 1e30)]),
    ("Softplus", [(-1e30, 1e30)]),
    ("Xlogy", [(0.0, 0.0), (0.0, 1.0)]),
    ("Xlogy", [(0.0, 1.0), (1e-30, 1.0)]),
    ("Entr", [(0.0, 1.0)]),
    ("BinaryCrossEntropy", [(0.0, 1.0), (0.0, 1.0)]),
    ("BinaryCrossEntropyWithLogits", [(-1e30, 1e30), (0.0, 1.0)]),
    ("Lgamma", [(1e-30, 1e30)]),
    ("Digamma", [(1e-30, 1e30)]),
    ("Hypot", [(-1e38, 1e38), (-1e38, 1e38)]),
    ("Lerp", [(-1e38, 1e38), (-1e38, 1e38), (0.0, 1.0)]),
    ("DivNoNan", [(-1.0, 1.0), (0.0, 0.0)]),
    ("Erfinv", [(-0.99999, 0.99999)]),
]


@pytest.mark.parametrize("name, cells", SAFE, ids=[name for name, _ in SAFE])
def test_safe_uses_are_not_reported(name: str, cells: list[tuple[float, float]]) -> None:
    case = Case(f"{OWN}::{name}", lambda: None)
    _, hazards = evaluated(case, [Range.uniform((3,), FLOAT32, *cell) for cell in cells])
    assert hazards == []


UNSAFE: list[tuple[str, str, list[tuple[float, float]]]] = [
    ("Log1p", "NUM101", [(-1.0, 0.0)]),
    ("Log2", "NUM101", [(0.0, 1.0)]),
    ("Xlogy", "NUM101", [(0.0, 1.0), (0.0, 1.0)]),
    ("Xlog1py", "NUM101", [(1.0, 1.0), (-1.0, 1.0)]),
    ("Entr", "NUM101", [(-0.1, 1.0)]),
    ("BinaryCrossEntropy", "NUM101", [(0.0, 1.5), (0.0, 1.0)]),
    ("Erfinv", "NUM105", [(0.0, 1.0)]),
    ("Logit", "NUM105", [(0.0, 0.5)]),
    ("Lgamma", "NUM117", [(0.0, 1.0)]),
    ("Lgamma", "NUM117", [(-1.5, -0.5)]),
    ("Digamma", "NUM117", [(0.0, 1.0)]),
    ("Exp2", "NUM201", [(0.0, 128.0)]),
    ("Expm1", "NUM201", [(0.0, 89.0)]),
    ("Hypot", "NUM202", [(0.0, 3e38), (0.0, 3e38)]),
    ("Sinc", "NUM202", [(0.0, 3e38)]),
    ("FloorDivide", "NUM103", [(0.0, 1.0), (0.0, 1.0)]),
]


@pytest.mark.parametrize("name, rule, cells", UNSAFE, ids=[f"{name}-{number}" for number, (name, _, _) in enumerate(UNSAFE)])
def test_hazards_have_their_rule(name: str, rule: str, cells: list[tuple[float, float]]) -> None:
    case = Case(f"{OWN}::{name}", lambda: None)
    _, hazards = evaluated(case, [Range.uniform((3,), FLOAT32, *cell) for cell in cells])
    assert rule in {hazard.rule.code for hazard in hazards}
