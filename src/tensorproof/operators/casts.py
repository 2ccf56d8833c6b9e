"""Conversions between formats: Cast and CastLike, and `converted`, which other operators use for their own output types.

Runtimes convert float64 and wide integers into the formats below float32 either directly or by way of float32; both are
monotone, so the hull of both at the ends of a cell holds for either.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import BFLOAT16, BY_NAME, BY_ONNX_CODE, FLOAT8_E8M0, FLOAT16, FLOAT32, FLOAT64, STRING, Array, Format
from tensorproof.operators.table import RESULT, UNDEFINED, Call, operator
from tensorproof.ranges import relations
from tensorproof.ranges.affine import Form
from tensorproof.ranges.range import INFINITIES, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Flags, Range
from tensorproof.rules.cast_overflow import CAST_OVERFLOW
from tensorproof.rules.rule import Rule
from tensorproof.rules.undefined_cast import UNDEFINED_CAST

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@operator("Cast", hazards=(CAST_OVERFLOW, UNDEFINED_CAST), elementwise=True)
def cast(op: Call, x: Range) -> Range:
    """Increasing; floats round to nearest, integers truncate or wrap around, float8 saturates if asked to (ONNX Cast-28)."""
    return _cast(op, x, _target(op))


def _target(op: Call | Run) -> Format:
    return BY_ONNX_CODE[int(op.attribute("to", FLOAT32.onnx_code))]


def _manner(op: Call | Run) -> dict[str, Any]:
    """How the attributes of a cast want overflow and rounding."""
    return {"saturate": bool(op.attribute("saturate", 1)), "round_mode": str(op.attribute("round_mode", "up"))}


@cast.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return converted_tensor(run, x, _target(run), **_manner(run))


@cast.aten(
    *("_to_copy", "type_as", "to.dtype", "to.dtype_layout", "to.device", "to.other"),
    *("to.prim_Device", "to.prim_dtype", "to.prim_other"),
    *(f"_cast_{name}" for name in ("Float", "Double", "Half", "Int", "Long", "Short", "Char", "Byte")),
)
def _(call: AtenCall) -> int:
    """A tensor in the format of the result; where it lies in memory is of no interest."""
    return call.tensor("self", _known_format(call))


@cast.aten("copy")
def _(call: AtenCall) -> int:
    """The source in the format and the shape of the tensor that it is copied into."""
    source = call.tensor("src", _known_format(call))
    if call.handle("src").shape == call.handle("self").shape and None not in (call.handle("self").shape or ()):
        return source
    return call.moved("Expand", source, call.shape_of(call.tensor("self")))


def _known_format(call: AtenCall) -> Format:
    if call.result.format is None:
        raise NotAnalysed("tensors of this dtype are not modelled")
    return call.result.format


@cast.aten("item", "_local_scalar_dense")
def _(call: AtenCall) -> int:
    """The one element of a tensor as a number of the program."""
    return call.reshaped(call.tensor("self", _known_format(call)), [])


@cast.tensorflow("Cast")
def _(call: TensorflowCall) -> int:
    source, to = call.arithmetic_format("SrcT"), call.arithmetic_format("DstT")
    if call.attribute("Truncate", False) and source.is_float and to.is_float and to.digits < source.digits:
        raise NotAnalysed("a cast that rounds towards zero")
    return call.emit("Cast", call.operand(0), to=to.onnx_code, formats=(to,))


@cast.tensorflow("StringToNumber")
def _(call: TensorflowCall) -> int:
    to = call.arithmetic_format("out_type")
    return call.emit("Cast", call.operand(0), to=to.onnx_code, formats=(to,))


@cast.tensorflow("AsString")
def _(call: TensorflowCall) -> int:
    call.arithmetic_format()
    return call.emit("Cast", call.operand(0), to=STRING.onnx_code, formats=(STRING,))


@cast.jax("convert_element_type")
def _(call: JaxCall) -> int:
    call.arithmetic_format()
    to = call.result.format
    if to is None or to.kind == "complex":
        raise NotAnalysed("numbers of this type are not modelled")
    return call.emit("Cast", call.operand(0), to=to.onnx_code, formats=(to,))


@cast.jax("reduce_precision")
def _(call: JaxCall) -> int:
    """Rounded to a format with fewer bits, which has to be one of those that are modelled, and back."""
    bits = int(call["exponent_bits"]), int(call["mantissa_bits"])
    narrow = {(5, 10): FLOAT16, (8, 7): BFLOAT16, (8, 23): FLOAT32, (11, 52): FLOAT64}.get(bits)
    format = call.arithmetic_format()
    if narrow is None:
        raise NotAnalysed(f"{bits[0]} bits of exponent and {bits[1]} of mantissa are no format that is modelled")
    if narrow.digits >= format.digits and narrow.high >= format.high:
        return call.emit("Identity", call.operand(0), formats=(format,))
    return call.cast(call.cast(call.operand(0), narrow), format)


@operator("CastLike", hazards=(CAST_OVERFLOW, UNDEFINED_CAST))
def cast_like(op: Call, x: Range, like: Range) -> Range:
    """Cast to the format of the second operand."""
    return _cast(op, x, like.format)


@cast_like.meaning
def _(run: Run, x: Tensor, like: Tensor) -> Tensor:
    return converted_tensor(run, x, format_of(run, 1, like), **_manner(run))


@cast.affine
@cast_like.affine
def _(op: Call, result: Range, x: Range, like: Range | None = None) -> Form | None:
    to = result.format
    # Small formats saturate: no hazard tells where the number is another one.
    if not x.format.is_float or to.bits < 16:
        return None
    if _fits(x.format, to):
        return relations.viewed(op, result, x)
    # One rounding, or two where the conversion passes through float32.
    lost = to.smallest_normal if op.target.flushes_results else to.smallest_subnormal
    return relations.total(op, result, (1.0, x), error=relations.error_of([x], to.unit_roundoff * (1.0 + 2.0**-8), 2.0 * lost))


def _cast(op: Call, x: Range, to: Format) -> Range:
    return converted(op, x, to, **_manner(op))


def converted(
    op: Call,
    x: Range,
    to: Format,
    *,
    saturate: bool = True,
    round_mode: str = "up",
    overflow: Rule = CAST_OVERFLOW,
) -> Range:
    """The range in another format, as Cast converts it.

    Reports UNDEFINED_CAST, and `overflow` where the format ends: on the operand for casts, on the result for operators that
    only round their own exact result through this function.
    """
    source = x.format
    if source is to:
        return x
    if "complex" in (source.kind, to.kind):
        raise NotAnalysed("complex numbers are not cast")
    if to is STRING:
        return Range.uniform(x.shape, STRING, 0.0, 0.0)
    if source is STRING:
        return _from_text(op, x, to)
    if to.kind == "bool":
        return _truth(op, x, to)
    if to.is_integer:
        return _truncated(op, x, to) if source.is_float else _wrapped(x, to)
    if to is FLOAT8_E8M0:
        return _powers_of_two(op, x, saturate, round_mode)
    return _rounded(op, x, to, saturates=_saturates(to, saturate), overflow=overflow)


def _saturates(to: Format, wanted: bool) -> bool:
    """The small formats without infinity and NaN have no other way than to saturate (ONNX float4 and float6)."""
    return not to.has_nan or (wanted and to.bits == 8)


# -- to floating formats -----------------------------------------------------------------------------------------------


def _rounded(op: Call, x: Range, to: Format, *, saturates: bool, overflow: Rule) -> Range:
    array = x.array
    if array is not None and _fits(x.format, FLOAT32 if to.bits < 32 else to):
        if saturates:
            array = np.clip(array.astype(np.float32), to.low, to.high)
        converted_array = array.astype(to.dtype)
        if bool(np.isfinite(converted_array).all()):
            return Range.constant(converted_array, to)
    empty = x.low > x.high
    low, high = _nearest_bounds(op, x, to)
    above, below = (high > to.high) & ~empty, (low < to.low) & ~empty
    special: Flags | None = x.special if x.has_special else None
    if special is not None:
        positive, negative = (special & POSITIVE_INFINITY) != 0, (special & NEGATIVE_INFINITY) != 0
        unknown = (special & NAN) != 0
        low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
        if not to.has_nan:
            low, high = np.where(unknown, to.low, low), np.where(unknown, to.high, high)
            special = special & np.uint8(INFINITIES)
        if saturates or not to.has_infinity:
            # Infinities become the ends of the format, by saturation or by the repair of the hazard.
            low, high = np.where(negative, to.low, low), np.where(positive, to.high, high)
            low = np.where(positive & empty & ~negative, to.high, low)
            high = np.where(negative & empty & ~positive, to.low, high)
            special = special & np.uint8(NAN)
            above, below = above | positive, below | negative
    if not saturates:
        gives = NAN
        if to.has_infinity:
            gives = (POSITIVE_INFINITY if above.any() else 0) | (NEGATIVE_INFINITY if below.any() else 0)
        op.report(overflow, 0 if overflow is CAST_OVERFLOW else RESULT, x, above | below, gives=gives)
    nonempty = low <= high
    low = np.where(nonempty, np.clip(low, to.low, to.high), np.inf)
    high = np.where(nonempty, np.clip(high, to.low, to.high), -np.inf)
    return x.replace(low, high, special, to)


def _nearest_bounds(op: Call, x: Range, to: Format) -> tuple[Array, Array]:
    """Both ends rounded to nearest, directly and through float32 where that can differ."""
    if op.target.keeps_chains_wide and to.bits < 32:
        return to.round_down(x.low), to.round_up(x.high)
    low, high = to.round_nearest(x.low), to.round_nearest(x.high)
    if to.bits < 32 and not _fits(x.format, FLOAT32):
        low = np.minimum(low, to.round_nearest(FLOAT32.round_nearest(x.low)))
        high = np.maximum(high, to.round_nearest(FLOAT32.round_nearest(x.high)))
    return low, high


def _fits(source: Format, target: Format) -> bool:
    """Whether every number of an integer or floating format is a number of the target format."""
    if source.is_float:
        return source.digits <= target.digits and source.high <= target.high
    return source.bits <= target.digits


def _powers_of_two(op: Call, x: Range, saturate: bool, round_mode: str) -> Range:
    """Into E8M0, which holds the powers of two from 2^-127 to 2^127 and NaN (ONNX Cast-24, second table).

    Negative numbers are undefined. Numbers beyond float32 become infinite, hence NaN, where the conversion passes through
    float32; without saturation everything out of range is NaN.
    """
    to = FLOAT8_E8M0
    empty = x.low > x.high
    op.report(UNDEFINED_CAST, 0, x, (x.low < 0) & ~empty, gives=UNDEFINED)
    round_to = {"up": to.round_up, "down": to.round_down, "nearest": to.round_nearest}[round_mode]
    low, high = np.maximum(x.low, 0.0), np.maximum(x.high, 0.0)
    infinite = (x.special & np.uint8(INFINITIES)) != 0
    outside = FLOAT32.round_nearest(high) > FLOAT32.high
    if not saturate:
        outside = outside | (round_to(high) > to.high) | (low < to.low)
    op.report(CAST_OVERFLOW, 0, x, (outside & ~empty) | infinite, gives=NAN)
    # Subnormal float32 numbers, whose leading bit is not where the exponent field says, round either way.
    tiny = FLOAT32.smallest_normal
    low = np.where(low < tiny, to.low, round_to(FLOAT32.round_nearest(low)))
    high = np.where(high <= to.low, to.low, np.where(high < tiny, tiny, round_to(FLOAT32.round_nearest(high))))
    high = np.where(x.high <= 0.0, to.low, high)
    low, high = np.clip(low, to.low, to.high), np.clip(high, to.low, to.high)
    low = np.where(empty, np.where(infinite, to.high, np.inf), low)
    high = np.where(infinite, to.high, np.where(empty, -np.inf, high))
    return x.replace(low, high, x.special & np.uint8(NAN) if x.has_special else None, to)


# -- to integers and truth values --------------------------------------------------------------------------------------


def _truncated(op: Call, x: Range, to: Format) -> Range:
    """Floats lose their fraction; what the integer format cannot hold is undefined (ONNX Cast: "undefined if OOR")."""
    low, high = np.trunc(x.low), np.trunc(x.high)
    empty = x.low > x.high
    # The largest 64-bit integers are no float64 numbers: the first number that is too large is a power of two.
    limit = 2.0 ** (to.bits - (1 if to.low < 0 else 0))
    outside = ((low < to.low) | (high >= limit)) & ~empty
    if x.array is not None and not outside.any():
        return Range.constant(x.array.astype(to.dtype), to)
    if x.has_special:
        outside = outside | (x.special != 0)
        low, high = np.where(x.special != 0, to.low, low), np.where(x.special != 0, to.high, high)
    op.report(UNDEFINED_CAST, 0, x, outside, gives=UNDEFINED)
    return x.replace(np.clip(low, to.low, to.high), np.clip(high, to.low, to.high), None, to)


def _wrapped(x: Range, to: Format) -> Range:
    """Integers lose their high bits: a cell inside one period moves as a whole, any other becomes the whole format."""
    if x.array is not None:
        return Range.constant(x.array.astype(to.dtype), to)
    if x.format.low >= to.low and x.format.high <= to.high:
        return x.with_format(to)
    period = 2.0**to.bits
    turns_low, turns_high = np.floor((x.low - to.low) / period), np.floor((x.high - to.low) / period)
    together = turns_low == turns_high
    low = np.where(together, x.low - turns_low * period, to.low)
    high = np.where(together, x.high - turns_low * period, to.high)
    return x.replace(np.clip(low, to.low, to.high), np.clip(high, to.low, to.high), None, to)


def _truth(op: Call, x: Range, to: Format) -> Range:
    """Zero is false, everything else true, NaN and the infinities included."""
    if x.array is not None and not op.target.flushes_operands:
        return Range.constant(x.array != 0, to)
    low, high = x.low, x.high
    least = x.format.smallest_normal if op.target.flushes_operands and x.format.is_float else 0.0
    may_be_zero = ((low < least) & (high > -least)) | ((low <= 0) & (high >= 0))
    may_be_other = (low != 0) | (high != 0)
    if x.has_special:
        empty = low > high
        may_be_zero, may_be_other = may_be_zero & ~empty, may_be_other | (x.special != 0)
    return x.replace(np.where(may_be_zero, 0.0, 1.0), np.where(may_be_other, 1.0, 0.0), None, to)


# -- from text ---------------------------------------------------------------------------------------------------------


def _from_text(op: Call, x: Range, to: Format) -> Range:
    """Numbers written out; text that is not known, or is no number, is undefined."""
    texts = x.array
    numbers = None if texts is None else _numbers(texts)
    if numbers is None:
        unknown = Range.uniform(x.shape, to, to.low, to.high)
        op.report(UNDEFINED_CAST, 0, unknown, True, gives=UNDEFINED)
        return unknown
    exact = Range.constant(numbers, FLOAT64)
    if to.is_integer and bool((np.abs(numbers) > 2.0**53).any()):
        # Integers that float64 cannot tell apart.
        return converted(op, exact.replace(np.nextafter(exact.low, -np.inf), np.nextafter(exact.high, np.inf), None), to)
    if to is FLOAT64:
        return exact
    if to.is_float:
        # Decimal text is converted in one rounding or by way of float64.
        low, high = np.nextafter(exact.low, -np.inf), np.nextafter(exact.high, np.inf)
        empty = exact.low > exact.high
        low, high = np.where(empty, np.inf, low), np.where(empty, -np.inf, high)
        exact = exact.replace(low, high, exact.special if exact.has_special else None)
    return converted(op, exact, to)


def _numbers(texts: npt.NDArray[Any]) -> Array | None:
    """The numbers that the texts write, or None if one of them writes none."""
    try:
        return np.array([float(str(text)) for text in texts.reshape(-1)], np.float64).reshape(texts.shape)
    except ValueError:
        return None


# -- on tensors --------------------------------------------------------------------------------------------------------


def format_of(run: Run, index: int, operand: Tensor) -> Format:
    """The format of an operand by the model; that of its dtype where the model does not say."""
    declared = run.formats[index] if index < len(run.formats) else None
    return declared or BY_NAME[str(operand.dtype).removeprefix("torch.")]


def converted_tensor(run: Run, x: Tensor, to: Format, *, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """A tensor's numbers in another format, as Cast converts them.

    Integers that a search can change stay floating. Formats below 16 bits are rounded to, whatever the run computes in.
    """
    if to.kind == "bool":
        return x != 0
    if to.is_integer:
        # What becomes of floating numbers that the format cannot hold is undefined: here they wrap around like integers.
        if run.search and x.requires_grad:
            return run.passing(wrapped_tensor(run, x.trunc(), to), x)
        return wrapped_tensor(run, x.to(run.torch.int64), to)
    if to.is_float and to.bits < 16:
        return run.passing(rounded_tensor(run, x, to, saturate=saturate, round_mode=round_mode), x)
    return x.to(run.dtype(to))


def wrapped_tensor(run: Run, x: Tensor, to: Format) -> Tensor:
    """Integers without their high bits."""
    if x.dtype.is_floating_point:
        turns = run.torch.floor((x.detach() - to.low) / 2.0**to.bits)
        return x - turns * 2.0**to.bits
    low = int(to.low)
    if to.bits < 64:
        return (((x.to(run.torch.int64) - low) & (2**to.bits - 1)) + low).to(run.dtype(to))
    if low == 0 and bool((x < 0).any()):
        raise NotExecutable("torch computes with unsigned integers below 2^63 only")
    return x.to(run.dtype(to))


def rounded_tensor(run: Run, x: Tensor, to: Format, *, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """The nearest numbers of a format below 16 bits; powers of two alone are rounded as asked (ONNX Cast-24)."""
    torch, wide = run.torch, x.detach().to(run.torch.float64)
    last = math.frexp(to.high)[1]
    # A table of powers: those that torch computes need not be exact.
    quanta = torch.tensor([2.0 ** (e - to.digits + 1) for e in range(to.least_exponent, last + 1)], dtype=torch.float64)
    exponent = torch.frexp(wide).exponent - 1
    quantum = quanta[(exponent.clamp(to.least_exponent, last) - to.least_exponent).to(torch.int64)]
    modes = {"up": torch.ceil, "down": torch.floor, "nearest": torch.round}
    number = (modes[round_mode] if to is FLOAT8_E8M0 else torch.round)(wide / quantum) * quantum
    if _saturates(to, saturate):
        number = number.clamp(to.low, to.high)
        number = number if to.has_nan else number.nan_to_num(0.0)
    else:
        beyond = number.sign() * math.inf if to.has_infinity else math.nan
        number = torch.where((number < to.low) | (number > to.high), beyond, number)
    return number.to(run.dtype(to))
