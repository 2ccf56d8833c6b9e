"""Comparisons, logic, and the choice between two tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, FLOAT32, INT32, INT64, UINT8, Array
from tensorproof.frontends.aten import common_format
from tensorproof.operators.activations import LEAK
from tensorproof.operators.table import Call, operator
from tensorproof.ranges import relations
from tensorproof.ranges.affine import Form
from tensorproof.ranges.elementwise import monotone
from tensorproof.ranges.range import CELL_BUDGET, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Aligned, Range, align

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

Truth = npt.NDArray[np.bool_]


def folded(function: Callable[..., Any], *operands: Range) -> Range | None:
    """The result on constants, computed in their own dtype; None if an operand is not a constant.

    64-bit integers beyond 2^53 and text are exact in no other way.
    """
    arrays: list[npt.NDArray[Any]] = []
    for x in operands:
        array = _elements(x)
        if array is None:
            return None
        arrays.append(array)
    return Range.constant(np.asarray(function(*arrays)))


def _elements(x: Range) -> npt.NDArray[Any] | None:
    if x.array is not None or x.format.is_float or not x.has_known_shape or x.size > CELL_BUDGET:
        return x.array
    values = x.values()
    return None if values is None or (np.abs(values) > 2.0**53).any() else values.astype(x.format.dtype)


def truth(aligned: Aligned, certain: Truth, possible: Truth) -> Range:
    """A truth value per cell: 1 where it certainly holds, 0 where it cannot, both elsewhere."""
    return aligned.result(BOOL, (certain & possible).astype(np.float64), possible.astype(np.float64))


# -- comparisons -----------------------------------------------------------------------------------------------------

Comparison = Callable[[Array, Array, Array, Array], Truth]


def _compared(a: Range, b: Range, function: np.ufunc, certain: Comparison, possible: Comparison) -> Range:
    """Compare cells, infinities included; every comparison with NaN is false (IEEE 754-2019, section 5.11)."""
    result = folded(function, a, b)
    if result is not None:
        return result
    aligned = align(a.replace(*a.extended(), a.special), b.replace(*b.extended(), b.special))
    (la, lb), (ha, hb), (sa, sb) = aligned.lows, aligned.highs, aligned.specials
    if a.format.kind == "string":
        return truth(aligned, np.zeros(np.broadcast_shapes(la.shape, lb.shape), np.bool_), np.asarray(True))
    ordered = ((sa | sb) & np.uint8(NAN)) == 0
    return truth(aligned, certain(la, ha, lb, hb) & ordered, possible(la, ha, lb, hb))


def _less(a: Range, b: Range, function: np.ufunc) -> Range:
    return _compared(a, b, function, lambda la, ha, lb, hb: ha < lb, lambda la, ha, lb, hb: la < hb)


def _less_or_equal(a: Range, b: Range, function: np.ufunc) -> Range:
    def possible(la: Array, ha: Array, lb: Array, hb: Array) -> Truth:
        return (la <= hb) & (la <= ha) & (lb <= hb)

    return _compared(a, b, function, lambda la, ha, lb, hb: ha <= lb, possible)


@operator("Equal", elementwise=True)
def equal(op: Call, a: Range, b: Range) -> Range:
    """True for equal points, false for cells that do not meet."""
    return _compared(
        a,
        b,
        np.equal,
        lambda la, ha, lb, hb: (la == ha) & (lb == hb) & (la == lb),
        lambda la, ha, lb, hb: np.maximum(la, lb) <= np.minimum(ha, hb),
    )


equal.aten("eq.Tensor", "eq.Scalar")


@equal.aten("ne.Tensor", "ne.Scalar", "not_equal.Tensor", "not_equal.Scalar")
def _(call: AtenCall) -> int:
    same = call.emit("Equal", *call.promoted("self", "other"), formats=(BOOL,))
    return call.emit("Not", same, formats=(BOOL,))


equal.tensorflow("Equal")
equal.jax("eq")


@equal.tensorflow("NotEqual")
def _(call: TensorflowCall) -> int:
    call.arithmetic_format()
    return call.emit("Not", call.emit("Equal", *call.all_operands(), formats=(BOOL,)), formats=(BOOL,))


@equal.jax("ne")
def _(call: JaxCall) -> int:
    """What differs from itself is NaN: JAX writes the question in this way."""
    if call.operand(0) == call.operand(1) and call.arithmetic_format().is_float:
        return call.emit("IsNaN", call.operand(0), formats=(BOOL,))
    call.arithmetic_format()
    return call.emit("Not", call.emit("Equal", *call.all_operands(), formats=(BOOL,)), formats=(BOOL,))


@equal.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.eq(a, b)


@operator("Less", elementwise=True)
def less(op: Call, a: Range, b: Range) -> Range:
    """Decided where cells do not overlap."""
    return _less(a, b, np.less)


less.aten("lt.Tensor", "lt.Scalar", "less.Tensor", "less.Scalar")
less.tensorflow("Less")


@less.jax("lt")
def _(call: JaxCall) -> int:
    return _ordered(call, "Less")


def _ordered(call: JaxCall, op: str) -> int:
    """Truth values are compared as 0 and 1."""
    is_truth = call.arithmetic_format() is BOOL
    operands = [call.operand(index, UINT8 if is_truth else None) for index in (0, 1)]
    return call.emit(op, *operands, formats=(BOOL,))


@less.tensorflow("ApproximateEqual")
def _(call: TensorflowCall) -> int:
    """|x - y| < tolerance."""
    format = call.arithmetic_format()
    distance = call.emit("Abs", call.emit("Sub", *call.all_operands(), formats=(format,)), formats=(format,))
    return call.emit("Less", distance, call.value(float(call.attribute("tolerance", 1e-5)), format), formats=(BOOL,))


@less.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.lt(a, b)


@operator("LessOrEqual", elementwise=True)
def less_or_equal(op: Call, a: Range, b: Range) -> Range:
    """Decided where cells do not overlap."""
    return _less_or_equal(a, b, np.less_equal)


less_or_equal.aten("le.Tensor", "le.Scalar", "less_equal.Tensor", "less_equal.Scalar")
less_or_equal.tensorflow("LessEqual")


@less_or_equal.jax("le")
def _(call: JaxCall) -> int:
    return _ordered(call, "LessOrEqual")


@less_or_equal.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.le(a, b)


@operator("Greater", elementwise=True)
def greater(op: Call, a: Range, b: Range) -> Range:
    """Decided where cells do not overlap."""
    return _less(b, a, np.less)


greater.aten("gt.Tensor", "gt.Scalar", "greater.Tensor", "greater.Scalar")
greater.tensorflow("Greater")


@greater.jax("gt")
def _(call: JaxCall) -> int:
    return _ordered(call, "Greater")


@greater.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.gt(a, b)


@operator("GreaterOrEqual", elementwise=True)
def greater_or_equal(op: Call, a: Range, b: Range) -> Range:
    """Decided where cells do not overlap."""
    return _less_or_equal(b, a, np.less_equal)


greater_or_equal.aten("ge.Tensor", "ge.Scalar", "greater_equal.Tensor", "greater_equal.Scalar")
greater_or_equal.tensorflow("GreaterEqual")


@greater_or_equal.jax("ge")
def _(call: JaxCall) -> int:
    return _ordered(call, "GreaterOrEqual")


@greater_or_equal.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.ge(a, b)


@operator("IsNaN", elementwise=True)
def is_nan(op: Call, x: Range) -> Range:
    """Decided by the special values of a cell."""
    nan = (x.special & np.uint8(NAN)) != 0
    return _classified(x, nan, (x.low > x.high) & (x.special == NAN))


@is_nan.aten("isnan")
def _(call: AtenCall) -> int:
    return call.emit("IsNaN", call.tensor("self"), formats=(BOOL,))


is_nan.tensorflow("IsNan")


@is_nan.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.isnan(x)


@operator("IsInf", elementwise=True)
def is_inf(op: Call, x: Range) -> Range:
    """Decided by the special values of a cell; the attributes choose the signs (ONNX IsInf-10)."""
    wanted = POSITIVE_INFINITY * bool(op.attribute("detect_positive", 1))
    wanted |= NEGATIVE_INFINITY * bool(op.attribute("detect_negative", 1))
    infinite = (x.special & np.uint8(wanted)) != 0
    return _classified(x, infinite, (x.low > x.high) & infinite & ((x.special & ~np.uint8(wanted)) == 0))


@is_inf.aten("isinf")
def _(call: AtenCall) -> int:
    return call.emit("IsInf", call.tensor("self"), formats=(BOOL,))


@is_inf.aten("isposinf")
def _(call: AtenCall) -> int:
    return call.emit("IsInf", call.tensor("self"), detect_negative=0, formats=(BOOL,))


@is_inf.aten("isneginf")
def _(call: AtenCall) -> int:
    return call.emit("IsInf", call.tensor("self"), detect_positive=0, formats=(BOOL,))


@is_inf.aten("isfinite")
def _(call: AtenCall) -> int:
    x = call.tensor("self")
    special = [call.emit(op, x, formats=(BOOL,)) for op in ("IsNaN", "IsInf")]
    return call.emit("Not", call.emit("Or", *special, formats=(BOOL,)), formats=(BOOL,))


is_inf.tensorflow("IsInf")


@is_inf.tensorflow("IsFinite")
def _(call: TensorflowCall) -> int:
    call.arithmetic_format()
    return _finite(call)


@is_inf.jax("is_finite")
def _(call: JaxCall) -> int:
    call.arithmetic_format()
    return _finite(call)


def _finite(call: TensorflowCall | JaxCall) -> int:
    special = [call.emit(op, call.operand(0), formats=(BOOL,)) for op in ("IsNaN", "IsInf")]
    return call.emit("Not", call.emit("Or", *special, formats=(BOOL,)), formats=(BOOL,))


@is_inf.meaning
def _(run: Run, x: Tensor) -> Tensor:
    positive = run.torch.isposinf(x) & bool(run.attribute("detect_positive", 1))
    return positive | (run.torch.isneginf(x) & bool(run.attribute("detect_negative", 1)))


def _classified(x: Range, possible: Truth, certain: Truth) -> Range:
    return x.replace((certain & possible).astype(np.float64), possible.astype(np.float64), None, BOOL)


# -- logic -----------------------------------------------------------------------------------------------------------


@operator("And", elementwise=True)
def and_(op: Call, a: Range, b: Range) -> Range:
    """The smaller truth value."""
    aligned = align(a, b)
    return aligned.result(BOOL, np.minimum(*aligned.lows), np.minimum(*aligned.highs))


@and_.aten("logical_and")
def _(call: AtenCall) -> int:
    return _of_truth_values(call, "And")


and_.tensorflow("LogicalAnd")


def _of_truth_values(call: AtenCall, op: str) -> int:
    """Numbers are true unless they are zero."""
    operands = [call.tensor(name, BOOL) for name in ("self", "other") if name in call.arguments]
    return call.emit(op, *operands, formats=(BOOL,))


@and_.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.logical_and(a, b)


@operator("Or", elementwise=True)
def or_(op: Call, a: Range, b: Range) -> Range:
    """The larger truth value."""
    aligned = align(a, b)
    return aligned.result(BOOL, np.maximum(*aligned.lows), np.maximum(*aligned.highs))


@or_.aten("logical_or")
def _(call: AtenCall) -> int:
    return _of_truth_values(call, "Or")


or_.tensorflow("LogicalOr")


@or_.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.logical_or(a, b)


@operator("Xor", elementwise=True)
def xor(op: Call, a: Range, b: Range) -> Range:
    """Decided where both operands are."""
    aligned = align(a, b)
    (la, lb), (ha, hb) = aligned.lows, aligned.highs
    decided = (la == ha) & (lb == hb)
    return truth(aligned, decided & (la != lb), ~decided | (la != lb))


@xor.aten("logical_xor")
def _(call: AtenCall) -> int:
    return _of_truth_values(call, "Xor")


@xor.meaning
def _(run: Run, a: Tensor, b: Tensor) -> Tensor:
    return run.torch.logical_xor(a, b)


@operator("Not", elementwise=True)
def not_(op: Call, x: Range) -> Range:
    """Decreasing."""
    return monotone(x, lambda v: 1.0 - v)


@not_.aten("logical_not")
def _(call: AtenCall) -> int:
    return _of_truth_values(call, "Not")


not_.tensorflow("LogicalNot")


@not_.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.logical_not(x)


# -- choice ----------------------------------------------------------------------------------------------------------


@operator("Where", elementwise=True)
def where(op: Call, condition: Range, x: Range, y: Range) -> Range:
    """One operand where the condition is decided, the hull of both elsewhere."""
    result = folded(np.where, condition, x, y)
    if result is not None:
        return result
    aligned = align(condition, x, y)
    (lc, lx, ly), (hc, hx, hy), (_, sx, sy) = aligned.lows, aligned.highs, aligned.specials
    always, never = lc > 0, hc <= 0
    low = np.where(always, lx, np.where(never, ly, np.minimum(lx, ly)))
    high = np.where(always, hx, np.where(never, hy, np.maximum(hx, hy)))
    special = np.where(always, sx, np.where(never, sy, sx | sy)) if x.has_special or y.has_special else None
    return aligned.result(x.format, low, high, special)


@where.meaning
def _(run: Run, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    condition = condition.to(run.torch.bool)
    chosen = run.torch.where(condition, x, y)
    if not run.search or not chosen.requires_grad:
        return chosen
    # The operand that is not chosen counts a little: the condition has no derivative that could lead to it.
    other = run.torch.where(condition, y, x).nan_to_num(0.0)
    return run.passing(chosen, chosen + LEAK * other)


@where.affine
def _(op: Call, result: Range, condition: Range, x: Range, y: Range) -> Form | None:
    return relations.chosen(op, result, condition, x, y)


@where.aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _(call: AtenCall) -> int:
    condition, format = call.value(call.arguments["condition"], BOOL), call.result.format
    return call.emit("Where", condition, call.tensor("self", format), call.tensor("other", format), formats=(format,))


@where.aten("masked_fill.Scalar", "masked_fill.Tensor")
def _(call: AtenCall) -> int:
    mask, format = call.value(call.arguments["mask"], BOOL), call.result.format
    return call.emit("Where", mask, call.tensor("value", format), call.tensor("self", format), formats=(format,))


@where.tensorflow("SelectV2")
def _(call: TensorflowCall) -> int:
    return call.emit("Where", *call.all_operands(), formats=(call.arithmetic_format(),))


@where.tensorflow("Select")
def _(call: TensorflowCall) -> int:
    """A condition with one axis chooses between slices of tensors that have more."""
    format = call.arithmetic_format()
    condition, x, y = call.all_operands()
    if call.rank(0) == 1 and call.rank(1) > 1:
        condition = call.reshaped(condition, [-1, *(1,) * (call.rank(1) - 1)])
    return call.emit("Where", condition, x, y, formats=(format,))


@where.jax("select_n")
def _(call: JaxCall) -> int:
    """The case that a truth value or an integer names, for each element or for all of them; the first one is false."""
    format = call.arithmetic_format(1)
    chosen, *cases = call.all_operands()
    if len(cases) == 1:
        return call.emit("Identity", cases[0], formats=(format,))
    if call.handle(0).format is BOOL:
        return call.emit("Where", chosen, cases[1], cases[0], formats=(format,))
    # Integers beyond the cases are cut off at the last one.
    result = cases[-1]
    for index in reversed(range(len(cases) - 1)):
        number = call.value(index, call.handle(0).format)
        is_case = call.emit("LessOrEqual", chosen, number, formats=(BOOL,))
        result = call.emit("Where", is_case, cases[index], result, formats=(format,))
    return result


# -- positions among sorted numbers ----------------------------------------------------------------------------------


@less.aten("bucketize.Tensor", "bucketize.Scalar", "searchsorted.Tensor", "searchsorted.Scalar")
def _(call: AtenCall) -> int:
    """How many of the sorted numbers are smaller than a value (or, to the right of equal ones, not larger)."""
    if call.is_given("sorter"):
        raise NotAnalysed("numbers that are sorted by an index")
    name = "boundaries" if "boundaries" in call.arguments else "sorted_sequence"
    format = common_format(call.arguments[name], call.arguments["self"])
    numbers, values = call.tensor(name, format), call.tensor("self", format)
    if call.rank(name) > 1:
        numbers = call.moved("Unsqueeze", numbers, call.integers([-2]))
    values = call.moved("Unsqueeze", values, call.integers([-1]))
    to_the_right = bool(call.get("right", False)) or call.get("side") == "right"
    met = call.emit("LessOrEqual" if to_the_right else "Less", numbers, values, formats=(BOOL,))
    count = call.emit("ReduceSum", call.cast(met, INT64), call.integers([-1]), keepdims=0, formats=(INT64,))
    return count if call.result.format is None else call.cast(count, call.result.format)


@less_or_equal.tensorflow("Bucketize")
def _(call: TensorflowCall) -> int:
    """How many of the boundaries are not larger than a value; they are float32 numbers."""
    call.arithmetic_format()
    boundaries = call.constant(np.array(call.attribute("boundaries", []), np.float32))
    values = call.moved("Unsqueeze", call.operand(0, FLOAT32), call.integers([-1]))
    met = call.emit("LessOrEqual", boundaries, values, formats=(BOOL,))
    return call.emit("ReduceSum", call.cast(met, INT32), call.integers([-1]), keepdims=0, formats=(INT32,))
