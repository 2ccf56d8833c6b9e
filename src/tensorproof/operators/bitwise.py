"""Bits of integers: shifts, logic, and reinterpretation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import BOOL, BY_NAME, BY_ONNX_CODE, Array, Format
from tensorproof.operators.casts import format_of, wrapped_tensor
from tensorproof.operators.comparison import folded
from tensorproof.operators.table import Call, operator
from tensorproof.ranges.bit_patterns import as_numbers
from tensorproof.ranges.range import Range, align

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall

Bits = npt.NDArray[np.uint64]
#: A bound of an operation on bits over a <= x <= b, c <= y <= d (unsigned numbers), given the bits of the format.
Bound = Callable[[Bits, Bits, Bits, Bits, int], Bits]

# -- shifts ----------------------------------------------------------------------------------------------------------


@operator("BitShift")
def bit_shift(op: Call, x: Range, y: Range) -> Range:
    """x 2^y, or floor(x / 2^y): monotone while no bit is lost."""
    left = _is_left(op)
    bits, format = x.format.bits, x.format
    result = folded(lambda a, b: _shifted(a, b, left), x, y) if _in_range(y, bits) or op.version >= 28 else None
    if result is not None:
        return result
    aligned = align(x, y)
    (lx, ly), (hx, hy) = aligned.lows, aligned.highs
    first, last = np.clip(ly, 0, bits - 1), np.clip(hy, 0, bits - 1)
    factors = np.exp2(first), np.exp2(last)
    ends = [np.floor(v / f) if not left else v * f for v in (lx, hx) for f in factors]
    low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
    # float64 holds 2^64 for the largest uint64: results that reach it are wrapped, too.
    wraps = (low < format.low) | (high > format.high) | (left & (bits == 64) & (high >= format.high))
    beyond = (ly < 0) | (hy >= bits)
    if op.version < 28:
        # Older versions leave shifts beyond the bits open, and C++ does not define them.
        wraps = wraps | beyond
    low, high = np.where(wraps, format.low, low), np.where(wraps, format.high, high)
    if op.version >= 28 and beyond.any():
        # ONNX BitShift-28: only the sign is left.
        rest = [np.zeros_like(v) if left else np.where(v < 0, -1.0, 0.0) for v in (lx, hx)]
        valid = (hy >= 0) & (ly < bits)
        low = np.where(valid, np.where(beyond, np.minimum(low, rest[0]), low), rest[0])
        high = np.where(valid, np.where(beyond, np.maximum(high, rest[1]), high), rest[1])
    return aligned.result(format, low, high)


def _is_left(op: Call | Run) -> bool:
    return op.attribute("direction", "LEFT") == "LEFT"


@bit_shift.tensorflow("LeftShift")
def _(call: TensorflowCall) -> int:
    return _shift(call, "LEFT")


@bit_shift.tensorflow("RightShift")
def _(call: TensorflowCall) -> int:
    return _shift(call, "RIGHT")


@bit_shift.jax("shift_left")
def _(call: JaxCall) -> int:
    return _shift(call, "LEFT")


@bit_shift.jax("shift_right_arithmetic")
def _(call: JaxCall) -> int:
    """With the sign: bits of unsigned integers are taken as signed ones."""
    format = call.arithmetic_format()
    signed = BY_NAME[format.name.removeprefix("u")]
    shifted = _shift(call, "RIGHT", signed)
    return call.cast(shifted, format)


@bit_shift.jax("shift_right_logical")
def _(call: JaxCall) -> int:
    """Without the sign: bits of signed integers are taken as unsigned ones."""
    format = call.arithmetic_format()
    unsigned = format if format.low == 0 else BY_NAME[f"u{format.name}"]
    return call.cast(_shift(call, "RIGHT", unsigned), format)


def _shift(call: TensorflowCall | JaxCall, direction: str, format: Format | None = None) -> int:
    format = format or call.arithmetic_format()
    return call.emit("BitShift", call.operand(0, format), call.operand(1, format), direction=direction, formats=(format,))


@bit_shift.meaning
def _(run: Run, x: Tensor, y: Tensor) -> Tensor:
    left, bits = _is_left(run), format_of(run, 0, x).bits

    def shifted(a: Tensor, b: Tensor) -> Tensor:
        valid = (b >= 0) & (b < bits)
        amount = run.torch.where(valid, b, 0)
        rest = run.torch.zeros_like(a) if left else run.torch.where(a < 0, -1, 0)
        return run.torch.where(valid, a << amount if left else a >> amount, rest)

    return run.passing(_on_bits(run, shifted, x, y), x * run.torch.pow(2.0, y if left else -y))


def _on_bits(run: Run, function: Callable[..., Tensor], *operands: Tensor) -> Tensor:
    """A function of 64-bit integers, in the format of the first operand."""
    return wrapped_tensor(run, function(*map(run.whole, operands)), format_of(run, 0, operands[0]))


def _in_range(y: Range, bits: int) -> bool:
    low, high = y.hull()
    return low >= 0 and high < bits


def _shifted(a: npt.NDArray[np.integer], b: npt.NDArray[np.integer], left: bool) -> npt.NDArray[np.integer]:
    """Shifts as ONNX BitShift-28 defines them, in the dtype of the operands."""
    bits = a.dtype.itemsize * 8
    valid = (b >= 0) & (b < bits)
    amount = np.where(valid, b, 0).astype(a.dtype)
    rest = np.zeros_like(a) if left else np.where(a < 0, -1, 0)
    return np.where(valid, np.left_shift(a, amount) if left else np.right_shift(a, amount), rest).astype(a.dtype)


# -- logic -----------------------------------------------------------------------------------------------------------


def _high_bits(bits: int) -> Iterator[np.uint64]:
    return (np.uint64(1) << np.uint64(k) for k in reversed(range(bits)))


def _least_or(a: Bits, b: Bits, c: Bits, d: Bits, bits: int) -> Bits:
    """The smallest x | y: one operand is raised to the highest bit that only the other has (Hacker's Delight, 4-3)."""
    done = np.zeros(np.broadcast_shapes(a.shape, c.shape), np.bool_)
    for m in _high_bits(bits):
        keep = ~(m - np.uint64(1))
        raised_a, raised_c = (a | m) & keep, (c | m) & keep
        take_a = ~done & ((~a & c & m) != 0) & (raised_a <= b)
        take_c = ~done & ((a & ~c & m) != 0) & (raised_c <= d)
        a, c = np.where(take_a, raised_a, a), np.where(take_c, raised_c, c)
        done |= take_a | take_c
    return a | c


def _largest_or(a: Bits, b: Bits, c: Bits, d: Bits, bits: int) -> Bits:
    """The largest x | y: a bit that both have is given up by one for all bits below (same source)."""
    done = np.zeros(np.broadcast_shapes(a.shape, c.shape), np.bool_)
    for m in _high_bits(bits):
        ones = m - np.uint64(1)
        both = ~done & ((b & d & m) != 0)
        lowered_b, lowered_d = (b ^ m) | ones, (d ^ m) | ones
        take_b = both & (lowered_b >= a)
        take_d = both & ~take_b & (lowered_d >= c)
        b, d = np.where(take_b, lowered_b, b), np.where(take_d, lowered_d, d)
        done |= take_b | take_d
    return b | d


def _least_and(a: Bits, b: Bits, c: Bits, d: Bits, bits: int) -> Bits:
    return ~_largest_or(~b, ~a, ~d, ~c, bits)


def _largest_and(a: Bits, b: Bits, c: Bits, d: Bits, bits: int) -> Bits:
    return ~_least_or(~b, ~a, ~d, ~c, bits)


def _least_xor(a: Bits, b: Bits, c: Bits, d: Bits, bits: int) -> Bits:
    """The smallest x ^ y: every bit that only one operand has is raised in the other where possible (same source)."""
    for m in _high_bits(bits):
        keep = ~(m - np.uint64(1))
        raised_a, raised_c = (a | m) & keep, (c | m) & keep
        take_a = ((~a & c & m) != 0) & (raised_a <= b)
        take_c = ((a & ~c & m) != 0) & (raised_c <= d)
        a, c = np.where(take_a, raised_a, a), np.where(take_c, raised_c, c)
    return a ^ c


def _largest_xor(a: Bits, b: Bits, c: Bits, d: Bits, bits: int) -> Bits:
    """The largest x ^ y: of every bit that both have, one gives it up (same source)."""
    for m in _high_bits(bits):
        ones = m - np.uint64(1)
        both = (b & d & m) != 0
        lowered_b, lowered_d = (b ^ m) | ones, (d ^ m) | ones
        take_b = both & (lowered_b >= a)
        take_d = both & ~take_b & (lowered_d >= c)
        b, d = np.where(take_b, lowered_b, b), np.where(take_d, lowered_d, d)
    return b ^ d


def _as_bits(values: Array, format: Format) -> Bits:
    """Integers as 64-bit patterns (two's complement); float64's 2^63 and 2^64 stand for the largest integers."""
    if format.low < 0:
        large = values >= 2.0**63
        return np.where(large, np.iinfo(np.int64).max, np.where(large, 0.0, values).astype(np.int64)).view(np.uint64)
    large = values >= 2.0**64
    return np.where(large, np.iinfo(np.uint64).max, np.where(large, 0.0, values).astype(np.uint64))


def _from_bits(bits: Bits, format: Format, direction: float) -> Array:
    """Patterns as bounds: rounded in `direction` where float64 is too coarse."""
    values = (bits.view(np.int64) if format.low < 0 else bits).astype(np.float64)
    return np.where(np.abs(values) > 2.0**53, np.nextafter(values, direction), values)


def _halves(low: Array, high: Array) -> list[tuple[npt.NDArray[np.bool_], Array, Array]]:
    """The negative and the other part of cells: each is a range of unsigned patterns."""
    negative = low < 0, np.minimum(low, -1.0), np.minimum(high, -1.0)
    return [negative, (high >= 0, np.maximum(low, 0.0), np.maximum(high, 0.0))]


def _bitwise(x: Range, y: Range, function: np.ufunc, least: Bound, largest: Bound) -> Range:
    result = folded(function, x, y)
    if result is not None:
        return result
    aligned = align(x, y)
    (lx, ly), (hx, hy) = aligned.lows, aligned.highs
    format = x.format
    bits = 64 if format.low < 0 else format.bits
    low = np.full(np.broadcast_shapes(lx.shape, ly.shape), np.inf)
    high = np.full(low.shape, -np.inf)
    for here_x, *ends_x in _halves(lx, hx):
        for here_y, *ends_y in _halves(ly, hy):
            here = np.broadcast_to(here_x & here_y, low.shape)
            if not here.any():
                continue
            a, b, c, d = (_as_bits(v, format) for v in (*ends_x, *ends_y))
            low = np.where(here, np.minimum(low, _from_bits(least(a, b, c, d, bits), format, -np.inf)), low)
            high = np.where(here, np.maximum(high, _from_bits(largest(a, b, c, d, bits), format, np.inf)), high)
    return aligned.result(format, np.maximum(low, format.low), np.minimum(high, format.high))


@operator("BitwiseAnd")
def bitwise_and(op: Call, x: Range, y: Range) -> Range:
    """The exact extremes over two ranges of integers."""
    return _bitwise(x, y, np.bitwise_and, _least_and, _largest_and)


@bitwise_and.aten("bitwise_and.Tensor", "bitwise_and.Scalar", "__and__.Tensor", "__and__.Scalar")
def _(call: AtenCall) -> int:
    return _of_bits(call, "And")


bitwise_and.tensorflow("BitwiseAnd")


@bitwise_and.jax("and")
def _(call: JaxCall) -> int:
    return _of_jax(call, "And")


def _of_jax(call: JaxCall, op: str) -> int:
    """On the bits of integers, or on truth values."""
    format = call.arithmetic_format()
    return call.emit(op if format is BOOL else f"Bitwise{op}", *call.all_operands(), formats=(format,))


def _of_bits(call: AtenCall, op: str) -> int:
    """On the bits of integers, or on truth values."""
    format = call.result.format
    return call.emit(op if format is BOOL else f"Bitwise{op}", *call.promoted("self", "other"), formats=(format,))


@bitwise_and.meaning
def _(run: Run, x: Tensor, y: Tensor) -> Tensor:
    return _bitwise_tensor(run, run.torch.bitwise_and, x, y)


@operator("BitwiseOr")
def bitwise_or(op: Call, x: Range, y: Range) -> Range:
    """The exact extremes over two ranges of integers."""
    return _bitwise(x, y, np.bitwise_or, _least_or, _largest_or)


@bitwise_or.aten("bitwise_or.Tensor", "bitwise_or.Scalar", "__or__.Tensor", "__or__.Scalar")
def _(call: AtenCall) -> int:
    return _of_bits(call, "Or")


bitwise_or.tensorflow("BitwiseOr")


@bitwise_or.jax("or")
def _(call: JaxCall) -> int:
    return _of_jax(call, "Or")


@bitwise_or.meaning
def _(run: Run, x: Tensor, y: Tensor) -> Tensor:
    return _bitwise_tensor(run, run.torch.bitwise_or, x, y)


@operator("BitwiseXor")
def bitwise_xor(op: Call, x: Range, y: Range) -> Range:
    """The exact extremes over two ranges of integers."""
    return _bitwise(x, y, np.bitwise_xor, _least_xor, _largest_xor)


@bitwise_xor.aten("bitwise_xor.Tensor", "bitwise_xor.Scalar", "__xor__.Tensor", "__xor__.Scalar")
def _(call: AtenCall) -> int:
    return _of_bits(call, "Xor")


bitwise_xor.tensorflow("BitwiseXor")


@bitwise_xor.jax("xor")
def _(call: JaxCall) -> int:
    return _of_jax(call, "Xor")


@bitwise_xor.meaning
def _(run: Run, x: Tensor, y: Tensor) -> Tensor:
    return _bitwise_tensor(run, run.torch.bitwise_xor, x, y)


def _bitwise_tensor(run: Run, function: Callable[..., Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Bits have no derivative; a search takes that of the sum, in which each bit of an operand counts as much."""
    return run.passing(_on_bits(run, function, x, y), x + y)


@operator("BitwiseNot")
def bitwise_not(op: Call, x: Range) -> Range:
    """Decreasing: -1 - x, or the largest number minus x."""
    result = folded(np.invert, x)
    if result is not None:
        return result
    top = -1.0 if x.format.low < 0 else x.format.high
    low, high = top - x.high, top - x.low
    low = np.where(np.abs(low) > 2.0**53, np.nextafter(low, -np.inf), low)
    high = np.where(np.abs(high) > 2.0**53, np.nextafter(high, np.inf), high)
    return x.replace(np.maximum(low, x.format.low), np.minimum(high, x.format.high), None)


@bitwise_not.aten("bitwise_not")
def _(call: AtenCall) -> int:
    format = call.result.format
    return call.emit("Not" if format is BOOL else "BitwiseNot", call.tensor("self"), formats=(format,))


bitwise_not.tensorflow("Invert")


@bitwise_not.jax("not")
def _(call: JaxCall) -> int:
    return _of_jax(call, "Not")


@bitwise_not.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.passing(_on_bits(run, run.torch.bitwise_not, x), -x)


# -- reinterpretation ------------------------------------------------------------------------------------------------


@operator("BitCast", coarse="only constants and integers as floating numbers are reinterpreted; others may hold every pattern")
def bit_cast(op: Call, x: Range) -> Range:
    """Exact on constants; integers that are bits of floating numbers without a sign are in their order; else any value."""
    format = BY_ONNX_CODE[op.attribute("to")]
    result = folded(lambda a: a.view(format.dtype), x)
    if result is None:
        result = as_numbers(x, format)
    return Range.top(x.shape, format) if result is None else result


@bit_cast.tensorflow("Bitcast")
def _(call: TensorflowCall) -> int:
    return _reinterpreted(call, call.arithmetic_format(), call.arithmetic_format("type"))


@bit_cast.jax("bitcast_convert_type")
def _(call: JaxCall) -> int:
    return _reinterpreted(call, call.arithmetic_format(), call.result.format)


def _reinterpreted(call: TensorflowCall | JaxCall, source: Format, to: Format | None) -> int:
    if to is None or source.bits != to.bits or to.kind == "complex" or "bool" in (source.kind, to.kind):
        raise NotAnalysed("bits are reinterpreted as numbers of another size")
    return call.emit("BitCast", call.operand(0), to=to.onnx_code, formats=(to,))


@bit_cast.meaning
def _(run: Run, x: Tensor) -> Tensor:
    format = BY_ONNX_CODE[run.attribute("to")]
    patterns = x.detach().to(_stored(run, format_of(run, 0, x)))
    return run.passing(patterns.view(_stored(run, format)).to(run.dtype(format)), x)


def _stored(run: Run, format: Format) -> Any:
    """The torch dtype whose bits are those of a format, whatever the run computes in."""
    if format.bits < 8:
        raise NotExecutable(f"torch has no tensors of {format.name} bit by bit")
    return getattr(run.torch, format.dtype.name)
