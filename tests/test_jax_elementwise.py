"""JAX's element-wise primitives and extremes: JAX itself is the oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, INT32, UINT32, Format
from tensorproof.operators.table import all_spellings, spelling_of
from tensorproof.ranges.range import Range
from tensorproof.targets import JAX_CPU
from tests.spelled_points import FILES, Spelled, drawn, outside, random_cell, sampled

jax = pytest.importorskip("jax")
lax = pytest.importorskip("jax.lax")

pytestmark = pytest.mark.area("jax spellings")

Box = tuple[float, float]
half, brain = np.float16, ml_dtypes.bfloat16
FLOATS = (np.float32, half, brain)
WHOLE = (np.int32, np.uint8)


@dataclass(frozen=True)
class Use:
    """A function that uses a primitive, on boxes of its operands, in several formats."""

    name: str
    function: Callable[..., Any]
    boxes: tuple[Box, ...]
    dtypes: tuple[Any, ...]
    rtol: float | None


def use(
    name: str,
    *boxes: Box,
    dtypes: Sequence[Any] = (np.float32,),
    by: Callable[..., Any] | None = None,
    rtol: float | None = 1e-4,
) -> Use:
    """`rtol` is larger where the program itself rounds, and None where float64 has another meaning altogether."""
    return Use(name, by or getattr(lax, name), boxes, tuple(dtypes), rtol)


def along(name: str, *more: Any) -> Callable[[Any], Any]:
    """A reduction along the second axis."""
    return lambda x: getattr(lax, name)(x, *more)


def select(which: Any, *cases: Any) -> Any:
    return lax.select_n(which, *cases)


AWAY, EVEN = lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN

#: Boxes beside zeros, poles, overflow and ends of domains.
USES = [
    *(use(name, (-3, 3), (1, 5), dtypes=(np.float32, brain, *WHOLE)) for name in ("add", "sub", "mul", "max", "min", "div", "rem")),
    use("max", (0, 1), (0, 1), dtypes=(np.bool_,)),
    use("min", (0, 1), (0, 1), dtypes=(np.bool_,)),
    use("add", (-3e38, 3e38), (-3e38, 3e38)),
    use("div", (-3, 3), (-1, 1), dtypes=(np.float32, np.int32)),
    use("rem", (-9, 9), (-2, 2), dtypes=(np.float32, np.int32)),
    use("div", (-3, 3), dtypes=FLOATS, by=lambda x: x / np.asarray(3.0, x.dtype)),
    use("add_any", (-3, 3), by=lambda x: jax.grad(lambda v: (v * v).sum())(x)),
    *(use(name, (-3, 3), dtypes=(np.float32, np.int32)) for name in ("neg", "abs", "sign", "square")),
    *(use(name, (-3.6, 3.6)) for name in ("floor", "ceil")),
    *(use("round", (-3.5, 3.5), dtypes=FLOATS, by=lambda x, mode=mode: lax.round(x, mode)) for mode in (AWAY, EVEN)),
    use("exp", (-110, 90)),
    use("exp2", (-140, 130)),
    use("expm1", (-20, 90)),
    use("log", (0, 5)),
    use("log1p", (-1, 5)),
    *(use(name, (0, 5)) for name in ("sqrt", "rsqrt")),
    use("sqrt", (-1, 5)),
    use("rsqrt", (1e-30, 1e30)),
    use("cbrt", (-5, 5)),
    use("pow", (0, 4), (-2, 3), dtypes=FLOATS),
    *(
        use("integer_pow", (-3, 3), dtypes=(np.float32, brain, np.int32), by=lambda x, y=y: lax.integer_pow(x, y))
        for y in (2, 3, 7)
    ),
    *(use("integer_pow", (-3, 3), by=lambda x, y=y: lax.integer_pow(x, y)) for y in (-1, -2, -3)),
    use("integer_pow", (-1e15, 1e15), by=lambda x: lax.integer_pow(x, 3)),
    *(use(name, (-20, 20)) for name in ("tanh", "logistic", "erf")),
    use("erfc", (-5, 12)),
    use("erf_inv", (-1, 1)),
    *(use(name, (0.1, 20)) for name in ("lgamma", "digamma")),
    use("lgamma", (-2.5, 3)),
    use("polygamma", (0.5, 5), by=lambda x: lax.polygamma(np.ones(x.shape, x.dtype), x)),
    *(use(name, (-4, 4)) for name in ("sin", "cos", "tan", "atan", "asinh")),
    *(use(name, (-1, 1)) for name in ("asin", "acos", "atanh")),
    use("acosh", (1, 20)),
    *(use(name, (-95, 95)) for name in ("sinh", "cosh")),
    use("atan2", (-2, 2), (-2, 2), dtypes=(np.float32, half)),
    use("nextafter", (-2, 2), (-2, 2)),
    use("is_finite", (-3, 3), dtypes=FLOATS),
    *(use(name, (-3, 3), (0, 5), dtypes=(np.float32, np.int32)) for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    *(use(name, (0, 1), (0, 1), dtypes=(np.bool_,)) for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    *(
        use(name, (0, 90), (0, 70), dtypes=(np.int32, np.uint8), by=getattr(lax, f"bitwise_{name}"))
        for name in ("and", "or", "xor")
    ),
    *(use(name, (0, 1), (0, 1), dtypes=(np.bool_,), by=getattr(lax, f"bitwise_{name}")) for name in ("and", "or", "xor")),
    use("not", (0, 90), dtypes=(np.int32, np.uint8), by=lax.bitwise_not),
    use("not", (0, 1), dtypes=(np.bool_,), by=lax.bitwise_not),
    *(use(name, (0, 90), dtypes=(np.int32, np.uint8)) for name in ("population_count", "clz")),
    *(use(name, (-9, 90), (0, 40), dtypes=(np.int32,)) for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical")),
    use("shift_right_arithmetic", (0, 255), (0, 4), dtypes=(np.uint8,)),
    use("select_n", (0, 1), (-3, 3), (0, 5), by=lambda w, a, b: select(w > 0.5, a, b)),
    use("select_n", (0, 2), (-3, 3), (0, 5), (7, 8), by=lambda w, *cases: select(w.astype(np.int32), *cases)),
    use("clamp", (-3, 3), dtypes=(*FLOATS, np.int32), by=lambda x: lax.clamp(np.asarray(-1, x.dtype), x, np.asarray(2, x.dtype))),
    use("clamp", (-2, 0), (-3, 3), (-1, 2)),
    *(
        use("convert_element_type", (-3, 3), by=lambda x, to=to: x.astype(to), rtol=1e-2)
        for to in (np.int32, half, brain, np.bool_)
    ),
    use("convert_element_type", (-1e5, 1e5), by=lambda x: x.astype(half), rtol=1e-2),
    use("convert_element_type", (-3, 3), dtypes=(np.int32, half, brain), by=lambda x: x.astype(np.float32)),
    use("reduce_precision", (-3, 3), by=lambda x: lax.reduce_precision(x, 5, 10), rtol=1e-2),
    use("reduce_precision", (-1e5, 1e5), by=lambda x: lax.reduce_precision(x, 5, 10), rtol=1e-2),
    use("bitcast_convert_type", (1, 2), by=lambda x: lax.bitcast_convert_type(x, np.int32), rtol=None),
    *(use(name, (-3, 3), by=along(name, (1,))) for name in ("reduce_max", "reduce_min")),
    *(use(name, (0, 1), dtypes=(np.bool_,), by=along(name, (1,))) for name in ("reduce_and", "reduce_or")),
    *(use(name, (-3, 3), by=along(name, 1, np.int32)) for name in ("argmax", "argmin")),
    use("top_k", (-3, 3), by=lambda x: tuple(lax.top_k(x, 2))),
]

#: What no function gives a trace of: the spelling is tried where the front end meets it.
NOT_TRACED = {"stop_gradient"}

#: Numbers up to this one overflow in no function.
MODERATE = 8.0


def example(rng: np.random.Generator, box: Box, dtype: Any, shape: tuple[int, ...] = (2, 5)) -> np.ndarray[Any, Any]:
    """Numbers of a box where float64 and the format of the program agree: neither its ends nor what overflows."""
    low, high = max(box[0], -MODERATE), min(box[1], MODERATE)
    if np.dtype(dtype).kind in "iub":
        return rng.integers(int(low), int(high) + 1, shape).astype(dtype)
    return np.asarray(low + (0.05 + 0.9 * rng.random(shape)) * (high - low)).astype(dtype)


@pytest.mark.parametrize("case", USES, ids=[f"{number}-{case.name}" for number, case in enumerate(USES)])
def test_primitives_on_boxes(case: Use) -> None:
    from tests.jax_cases import check_case

    rng = np.random.default_rng(3)
    for dtype in case.dtypes:
        boxes = list(case.boxes)
        coarse = np.dtype(dtype).kind not in "iub" and float(ml_dtypes.finfo(dtype).eps) > 1e-4
        if np.dtype(dtype).kind == "u":
            boxes = [(max(low, 0.0), high) for low, high in boxes]
        elif coarse:
            largest = float(ml_dtypes.finfo(dtype).max)
            boxes = [(max(low, -largest), min(high, largest)) for low, high in boxes]
        arrays = [example(rng, box, dtype) for box in boxes]
        names = {equation.primitive.name for equation in jax.make_jaxpr(case.function)(*arrays).eqns}
        assert case.name in names, f"{case.name} is not among {names}"
        check_case(
            case.function,
            *arrays,
            ranges=dict(enumerate(boxes)),
            rtol=case.rtol or 0.0,
            atol=case.rtol or 0.0,
            is_random=case.rtol is None,
        )


def test_every_spelling_is_tried() -> None:
    names = {name for name, _ in all_spellings("jax") if spelled_here(name)}
    assert names == {case.name for case in USES} | NOT_TRACED


def spelled_here(name: str) -> bool:
    spelling = spelling_of(name, "jax")
    assert spelling is not None
    module = spelling.operator.block.__module__ if spelling.adapter is None else spelling.adapter.__module__
    return module.rpartition(".")[2] in FILES


# -- points and cells ------------------------------------------------------------------------------------------------

#: Functions of one number, with where most of their arguments are taken from.
FUNCTIONS: dict[str, Box] = {
    **dict.fromkeys(("exp", "exp2", "expm1", "sinh", "cosh", "logistic"), (-110.0, 110.0)),
    **dict.fromkeys(("tanh", "sin", "cos", "tan", "atan", "asinh", "square", "cbrt", "erf", "erfc"), (-20.0, 20.0)),
    **dict.fromkeys(("asin", "acos", "atanh", "erf_inv"), (-1.0, 1.0)),
    **dict.fromkeys(("log", "log1p", "sqrt", "rsqrt", "lgamma", "digamma", "acosh"), (0.0, 20.0)),
    **dict.fromkeys(("sign", "floor", "ceil", "neg", "abs"), (-20.0, 20.0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_of_functions_at_points_are_covered(name: str) -> None:
    """All 16-bit numbers, many others, in vectors and alone: no error is larger than the block and the target say."""
    rng = np.random.default_rng(11)
    function, spelled = jax.jit(getattr(lax, name)), Spelled("jax", name, JAX_CPU)
    for format in (FLOAT32, FLOAT16, BFLOAT16):
        points = sampled(rng, format, FUNCTIONS[name])
        values = np.asarray(function(points)).astype(np.float64)
        lone = rng.integers(0, points.size, 40)
        values[lone] = [float(np.asarray(function(points[i : i + 1]))[0]) for i in lone]
        (result,), hazards = spelled.on([Range.constant(points)])
        bad = outside(result, hazards, values)
        assert not bad.any(), (format.name, points[bad][0], values[bad][0], result.low[bad][0], result.high[bad][0])


#: Functions of two numbers: boxes that cells are drawn from.
PAIRS: dict[str, tuple[Box, Box]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "atan2"), ((-5.0, 5.0), (-5.0, 5.0))),
    **dict.fromkeys(("rem", "max", "min", "nextafter"), ((-9.0, 9.0), (-3.0, 3.0))),
    "pow": ((-0.5, 3.0), (-1.5, 3.0)),
}
TRIALS, POINTS = 40, 24


@pytest.mark.parametrize("name", PAIRS)
def test_random_cells_hold_what_jax_computes(name: str) -> None:
    rng = np.random.default_rng(7)
    function, spelled = jax.jit(getattr(lax, name)), Spelled("jax", name, JAX_CPU)
    formats: tuple[Format, ...] = (FLOAT32,) if name == "nextafter" else (FLOAT32, FLOAT16, BFLOAT16)
    for format in formats:
        for _ in range(TRIALS):
            cells = [random_cell(rng, format, box) for box in PAIRS[name]]
            points = [drawn(rng, format, *cell, POINTS) for cell in cells]
            values = np.asarray(function(*points)).astype(np.float64)
            (result,), hazards = spelled.on([Range.uniform((POINTS,), format, *cell) for cell in cells])
            bad = outside(result, hazards, values)
            assert not bad.any(), (format.name, cells, [p[bad][0] for p in points], values[bad][0], result, hazards)


# -- integers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["div", "rem"])
@pytest.mark.parametrize("format", [INT32, UINT32], ids=str)
def test_integers_divided_by_zero_have_a_result_and_no_hazard(name: str, format: Format) -> None:
    rng = np.random.default_rng(23)
    function, spelled = jax.jit(getattr(lax, name)), Spelled("jax", name, JAX_CPU)
    special = [0, 1, int(format.high), int(format.low)]
    for trial in range(60):
        ends = [np.sort(rng.integers(-9 if format.low < 0 else 0, 9, 2)) for _ in range(2)]
        if trial % 5 == 0:
            ends[0] = np.sort(rng.choice(special, 2))
        points = [rng.integers(low, high, 16, endpoint=True).astype(format.dtype) for low, high in ends]
        values = np.asarray(function(*points)).astype(np.float64)
        (result,), hazards = spelled.on([Range.uniform((16,), format, float(low), float(high)) for low, high in ends])
        assert hazards == []
        assert not outside(result, hazards, values).any(), (ends, values, result)


def test_the_smallest_integer_divided_by_minus_one_stays_what_it_is() -> None:
    lowest = np.full(4, np.iinfo(np.int32).min, np.int32)
    (result,), _ = Spelled("jax", "div", JAX_CPU).on([Range.constant(lowest), Range.constant(np.full(4, -1, np.int32))])
    value = int(np.asarray(lax.div(lowest, np.full(4, -1, np.int32)))[0])
    assert result.hull()[0] <= value <= result.hull()[1]


# -- what is reported, and what XLA does -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, rule, cells",
    [
        ("log", "NUM101", [(0.0, 1.0)]),
        ("div", "NUM103", [(0.0, 1.0), (0.0, 1.0)]),
        ("rsqrt", "NUM103", [(0.0, 1.0)]),
        ("exp2", "NUM201", [(0.0, 129.0)]),
        ("erf_inv", "NUM105", [(0.0, 1.0)]),
        ("pow", "NUM104", [(-1.0, 1.0), (0.5, 0.5)]),
    ],
)
def test_hazards_have_their_rule(name: str, rule: str, cells: list[Box]) -> None:
    _, hazards = Spelled("jax", name, JAX_CPU).on([Range.uniform((3,), FLOAT32, *cell) for cell in cells])
    assert rule in {hazard.rule.code for hazard in hazards}


def test_a_product_that_enters_a_sum_is_not_rounded() -> None:
    """XLA fuses them: the range of a product on this target holds what the sum sees."""
    from tests.jax_cases import check_case

    factor = np.full(64, 1 + 2.0**-12, np.float32)
    rounded = np.float32(factor[0] * factor[0])
    fused = float(np.asarray(jax.jit(lambda a, b, c: a * b + c)(factor, factor, -np.full(64, rounded)))[0])
    assert fused != 0.0
    ends = float(factor[0]), float(factor[0])
    check_case(lambda a, b: a * b - rounded, factor, factor, ranges={0: ends, 1: ends})


def test_quotients_by_a_constant_are_products_in_xla() -> None:
    """A third of them is not correctly rounded: the target says so."""
    points = np.random.default_rng(29).uniform(0.1, 100, 4000).astype(np.float32)
    values = np.asarray(jax.jit(lambda x: x / np.float32(3))(points))
    assert (values != points / np.float32(3)).any()
    (result,), hazards = Spelled("jax", "div", JAX_CPU).on([Range.constant(points), Range.constant(np.full(4000, 3, np.float32))])
    assert not outside(result, hazards, values.astype(np.float64)).any()
