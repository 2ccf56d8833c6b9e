"""Sizes as values, and tensors made from sizes: Shape, Size, Constant, ConstantOfShape, Range, EyeLike."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BY_ONNX_CODE, FLOAT32, FLOAT64, INT32, INT64, Array, Format, of_dtype
from tensorproof.frontends.calls import into
from tensorproof.graph import ABSENT
from tensorproof.operators.movement import product
from tensorproof.operators.table import CORRECT, RESULT, UNDEFINED, Call, Mask, operator
from tensorproof.ranges.grid import Shape, Size, Span, counts, largest, smallest
from tensorproof.ranges.moving import FOLD_LIMIT, dimensions, moved
from tensorproof.ranges.range import CELL_BUDGET, NAN, Range
from tensorproof.rules.constant_not_finite import CONSTANT_NOT_FINITE
from tensorproof.rules.range_step_of_zero import RANGE_STEP_OF_ZERO

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@operator("Shape")
def shape_(op: Call, x: Range) -> Range:
    """The sizes of the axes from `start` to `end`."""
    if x.shape is None:
        return Range.uniform((Span(0, None),), INT64, 0.0, INT64.high)
    sizes = x.shape[op.attribute("start", 0) : op.attribute("end", len(x.shape))]
    if all(isinstance(size, int) for size in sizes):
        return Range.constant(np.array([smallest(size) for size in sizes], np.int64), INT64)
    return Range.elements(INT64, np.array([*map(smallest, sizes)], np.float64), np.array([*map(_high, sizes)]))


@shape_.meaning
def _(run: Run, x: Tensor) -> Tensor:
    sizes = x.shape[run.attribute("start", 0) : run.attribute("end", x.ndim)]
    return run.torch.tensor(tuple(sizes), dtype=run.torch.int64)


@shape_.tensorflow("Shape")
def _(call: TensorflowCall) -> int:
    """Sizes as 32-bit integers, unless 64-bit ones are asked for."""
    return call.cast(call.shape_of(call.operand(0)), call.attribute("out_type", INT32))


@shape_.tensorflow("ShapeN")
def _(call: TensorflowCall) -> tuple[int, ...]:
    format = call.attribute("out_type", INT32)
    return tuple(call.cast(call.shape_of(number), format) for number in call.all_operands())


@operator("Size")
def size_(op: Call, x: Range) -> Range:
    """The number of elements."""
    count: Size = Span(0, None) if x.shape is None else product(x.shape)
    if isinstance(count, int):
        return Range.constant(np.array(count, np.int64), INT64)
    return Range.uniform((), INT64, float(count.low), _high(count))


@size_.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return run.torch.tensor(x.numel())


@size_.aten("numel", "sym_numel")
def _(call: AtenCall) -> int:
    return call.emit("Size", call.tensor("self"), formats=(INT64,))


@size_.tensorflow("Size")
def _(call: TensorflowCall) -> int:
    return call.cast(call.emit("Size", call.operand(0), formats=(INT64,)), call.attribute("out_type", INT32))


@size_.tensorflow("Rank")
def _(call: TensorflowCall) -> int:
    """The number of sizes."""
    return call.cast(call.emit("Size", call.shape_of(call.operand(0)), formats=(INT64,)), INT32)


def _high(size: Size) -> float:
    end = largest(size)
    return INT64.high if end is None else float(end)


@operator("Constant")
def constant(op: Call) -> Range:
    """The attribute's value."""
    return Range.constant(_value(op.attributes))


@constant.meaning
def _(run: Run) -> Tensor:
    value = _value(run.attributes)
    return run.torch.tensor(value.tolist(), dtype=run.dtype(of_dtype(value.dtype)))


def _value(attributes: Mapping[str, Any]) -> npt.NDArray[Any]:
    for name, value in attributes.items():
        if name in ("value", "sparse_value"):
            return value
        if name in ("value_float", "value_floats"):
            return np.asarray(value, FLOAT32.dtype)
        if name in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
        if name in ("value_string", "value_strings"):
            return np.asarray(value, object)
    raise NotAnalysed("a Constant without a value")


@operator("ConstantOfShape", hazards=(CONSTANT_NOT_FINITE,), steered_by=(0,))
def constant_of_shape(op: Call, shape: Range) -> Range:
    """One value everywhere; one cell, however large."""
    element = Range.constant(_element(op))
    op.report(CONSTANT_NOT_FINITE, RESULT, element, bool(element.any_special & NAN), gives=NAN)
    sizes = _target(shape)
    if sizes is None:
        return moved(element, None, (), lambda a: a)
    if element.array is not None and all(isinstance(size, int) for size in sizes):
        numbers = [smallest(size) for size in sizes]
        if math.prod(numbers) <= CELL_BUDGET:
            return Range.filled(element.array, numbers)
    grid = tuple(np.zeros(1, np.int64) if size == 0 else None for size in sizes)
    return moved(element, sizes, grid, lambda a: np.broadcast_to(a, counts(grid)))


@constant_of_shape.meaning
def _(run: Run, shape: Tensor) -> Tensor:
    element = _element(run)
    return run.torch.full(run.integers("shape", shape) or (), element.item(), dtype=run.dtype(of_dtype(element.dtype)))


@constant_of_shape.aten(
    *("full", "zeros", "ones", "full_like", "zeros_like", "ones_like", "new_full", "new_zeros", "new_ones"),
    *("fill.Scalar", "fill.Tensor", "zero", "scalar_tensor"),
)
def _(call: AtenCall) -> int:
    """One number everywhere, known or computed."""
    format = call.result.format
    if format is None:
        raise NotAnalysed("tensors of this dtype are not modelled")
    number = next((call.arguments[name] for name in ("fill_value", "value", "s") if name in call.arguments), None)
    if number is None:
        number = int("one" in call.name)
    if isinstance(number, bool | int | float):
        element = into(np.array([number]), format)
        if call.result.shape == ():
            return call.constant(element.reshape(()))
        return call.emit("ConstantOfShape", call.result_sizes(), value=element, formats=(format,))
    return call.moved("Expand", call.value(number, format), call.result_sizes())


@constant_of_shape.tensorflow("Fill")
def _(call: TensorflowCall) -> int:
    """One number everywhere, known or computed."""
    if call.is_known(1) and call.known(1).dtype != object:
        element = call.known(1).reshape(1)
        return call.emit("ConstantOfShape", call.as_integers(0), value=element, formats=(of_dtype(element.dtype),))
    return call.moved("Expand", call.operand(1), call.as_integers(0))


@constant_of_shape.tensorflow("ZerosLike", "OnesLike")
def _(call: TensorflowCall) -> int:
    element = into(np.array([int(call.name == "OnesLike")]), call.format())
    return call.emit("ConstantOfShape", call.shape_of(call.operand(0)), value=element, formats=(call.format(),))


@operator("Uninitialised", domain="tensorproof", steered_by=(0,))
def uninitialised(op: Call, shape: Range) -> Range:
    """Memory that nothing was written into, or random bits: any number of the format."""
    format = BY_ONNX_CODE[op.attribute("dtype", FLOAT32.onnx_code)]
    return Range.uniform(_target(shape), format, format.low, format.high)


@uninitialised.meaning
def _(run: Run, shape: Tensor) -> Tensor:
    format = BY_ONNX_CODE[run.attribute("dtype", FLOAT32.onnx_code)]
    return run.torch.zeros(run.integers("shape", shape) or (), dtype=run.dtype(format))


@uninitialised.aten(
    *("empty.memory_format", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"),
)
def _(call: AtenCall) -> int:
    format = call.result.format
    if format is None:
        raise NotAnalysed("tensors of this dtype are not modelled")
    return call.own("Uninitialised", call.result_sizes(), dtype=format.onnx_code, formats=(format,))


def anything(call: TensorflowCall | JaxCall, sizes: int, format: Format | None) -> int:
    """A tensor of which only the shape and the format are known."""
    if format is None or format.kind not in ("float", "int", "bool"):
        raise NotAnalysed("tensors of this type are not modelled")
    return call.own("Uninitialised", sizes, dtype=format.onnx_code, formats=(format,))


@uninitialised.tensorflow("Empty")
def _(call: TensorflowCall) -> int:
    """Memory as it comes, or zeros."""
    format = call.format("dtype")
    if not call.attribute("init", False):
        return anything(call, call.as_integers(0), format)
    return call.emit("ConstantOfShape", call.as_integers(0), value=into(np.array([0]), format), formats=(format,))


@uninitialised.jax("empty")
def _(call: JaxCall) -> int:
    return anything(call, call.integers(call.result_shape), call.result.format)


def _element(op: Call | Run) -> npt.NDArray[Any]:
    """What ConstantOfShape fills with."""
    value = op.attribute("value")
    return np.zeros((), np.float32) if value is None else value.reshape(())


def _target(shape: Range) -> Shape | None:
    sizes = dimensions(shape)
    if sizes is None:
        return None
    return tuple(max(s, 0) if isinstance(s, int) else Span(max(s.low, 0), s.high) for s in sizes)


@operator("EyeLike")
def eye_like(op: Call, x: Range) -> Range:
    """Ones on a diagonal of a matrix of the operand's shape, zeros elsewhere."""
    code = op.attribute("dtype")
    format = x.format if code is None else BY_ONNX_CODE[code]
    if x.shape is None or not x.has_known_shape or x.size > FOLD_LIMIT:
        return Range.uniform(x.shape, format, 0.0, 1.0)
    rows, columns = x.sizes
    return Range.constant(np.eye(rows, columns, op.attribute("k", 0)).astype(format.dtype), format)


@eye_like.meaning
def _(run: Run, x: Tensor) -> Tensor:
    code = run.attribute("dtype")
    result = run.torch.zeros(x.shape, dtype=x.dtype if code is None else run.dtype(BY_ONNX_CODE[code]))
    result.diagonal(run.attribute("k", 0)).fill_(1)
    return result


@eye_like.aten("eye", "eye.m")
def _(call: AtenCall) -> int:
    if all(isinstance(call.arguments[name], int) for name in ("n", "m") if name in call.arguments):
        with contextlib.suppress(NotAnalysed):
            return call.computed()
    format = call.result.format
    if format is None:
        raise NotAnalysed("tensors of this dtype are not modelled")
    rows = call.arguments["n"]
    sizes = call.integers([rows, call.arguments.get("m", rows)])
    zeros = call.emit("ConstantOfShape", sizes, value=into(np.array([0]), format), formats=(format,))
    return call.moved("EyeLike", zeros, dtype=format.onnx_code)


@eye_like.aten("diag_embed")
def _(call: AtenCall) -> int:
    """Vectors as diagonals: each spread over the columns that it meets, and kept where the diagonal is."""
    x, rank, offset = call.handle("self"), call.rank("self"), call["offset"]
    length = call.size(x, rank - 1)
    if not isinstance(length, int):
        raise NotAnalysed("a diagonal whose length is not fixed")
    border = call.integers([max(offset, 0), max(-offset, 0)])
    last = call.integers([rank - 1])
    spread = call.moved("Pad", x.number, border, ABSENT, last) if offset else x.number
    size = length + abs(offset)
    on_diagonal = call.constant(np.eye(size, k=offset, dtype=np.bool_))
    zero = call.value(0, x.format)
    matrices = call.emit("Where", on_diagonal, call.moved("Unsqueeze", spread, last), zero, formats=(x.format,))
    places = call.axis("dim1", rank + 1), call.axis("dim2", rank + 1)
    order = list(range(rank - 1))
    for place, axis in sorted(zip(places, (rank - 1, rank))):
        order.insert(place, axis)
    return call.moved("Transpose", matrices, perm=order) if order != sorted(order) else matrices


@constant.aten(
    *("linspace", "logspace", "tril_indices", "triu_indices"),
    *(f"{name}_window.{kind}" for name in ("hann", "hamming", "blackman", "bartlett") for kind in ("default", "periodic")),
    *("hamming_window.periodic_alpha", "hamming_window.periodic_alpha_beta", "kaiser_window.beta"),
)
def _(call: AtenCall) -> int:
    """What torch computes from numbers alone."""
    return call.computed()


@constant.jax("platform_index")
def _(call: JaxCall) -> int:
    """Which branch of a program that tells platforms apart is taken: that of the CPU, or the one for all others (None)."""
    for index, platforms in enumerate(call["platforms"]):
        if platforms is None or "cpu" in platforms:
            return call.constant(np.array(index, np.int32))
    raise NotAnalysed("a program without a branch for the CPU")


# -- Range -----------------------------------------------------------------------------------------------------------


@operator("Range", error=CORRECT, steered_by=(0, 1, 2))
def range_(op: Call, start: Range, limit: Range, delta: Range) -> Range:
    """start + i * delta, i from 0 to before ceil((limit - start) / delta); the step keeps away from zero."""
    inner = start.format
    if inner.is_float and inner.bits < 32:
        # ONNX Range-27: 16-bit numbers are computed in a wider format.
        inner = FLOAT64 if op.attribute("stash_type", 1) == FLOAT64.onnx_code else FLOAT32
    return _sequence(op, start, limit, delta, inner)


@range_.hazard(RANGE_STEP_OF_ZERO, gives=UNDEFINED, operand=2)
def _(op: Call, start: Range, limit: Range, delta: Range) -> Mask:
    return delta.contains(0.0)


@range_.aten("arange", "arange.start", "arange.start_step")
def _(call: AtenCall) -> int:
    """Torch's own numbers where all is known; else whole numbers, of which there is a computed number."""
    bounds = [call.arguments.get("start", 0), call.arguments["end"], call.arguments.get("step", 1)]
    if all(isinstance(bound, bool | int | float) for bound in bounds):
        return call.computed()
    if any(isinstance(bound, float) or (not isinstance(bound, int) and bound.format is not INT64) for bound in bounds):
        raise NotAnalysed("a sequence of fractions whose length is not fixed")
    numbers = call.emit("Range", *(call.value(bound, INT64) for bound in bounds), formats=(INT64,))
    return numbers if call.result.format is None else call.cast(numbers, call.result.format)


@range_.tensorflow("Range")
def _(call: TensorflowCall) -> int:
    # SavedModels leave out attributes that have their default.
    format = call.format("Tidx") if "Tidx" in call.attributes else INT32
    return call.emit("Range", *call.all_operands(), formats=(format,))


@range_.tensorflow("LinSpace")
def _(call: TensorflowCall) -> int:
    """start + i * step with step = (stop - start) / (count - 1); the last number is the end itself."""
    (count,), format = call.integers_of(2), call.format()
    start, stop = call.operand(0), call.operand(1)
    first = call.reshaped(start, [1])
    if count <= 1:
        return call.moved("Identity", first)
    step = call.moved("Div", call.moved("Sub", stop, start), call.value(float(count - 1), format))
    numbers = call.constant(into(np.arange(1, count - 1), format))
    between = call.moved("Add", start, call.moved("Mul", step, numbers))
    return call.moved("Concat", first, between, call.reshaped(stop, [1]), axis=0)


@range_.jax("iota")
def _(call: JaxCall) -> int:
    """Whole numbers along one axis, repeated along the others."""
    format, shape, axis = call.result.format, call.result_shape, int(call["dimension"])
    if format is None or len(call):
        raise NotAnalysed("numbers of this type, or a shape that is computed")
    size = shape[axis]
    if size <= FOLD_LIMIT:
        numbers = call.constant(np.arange(size), format)
    else:
        bounds = (call.constant(np.array(bound, np.int64)) for bound in (0, size, 1))
        numbers = call.cast(call.emit("Range", *bounds, formats=(INT64,)), format)
    along = call.reshaped(numbers, [size if other == axis else 1 for other in range(len(shape))])
    return call.moved("Expand", along, call.integers(shape)) if len(shape) > 1 else numbers


@operator("Range", domain="com.microsoft", error=CORRECT)
def contrib_range(op: Call, start: Range, limit: Range, delta: Range | None = None) -> Range:
    """start + i * delta, i from 0 to before ceil((limit - start) / delta); the step keeps away from zero."""
    step = Range.constant(np.ones((), start.format.dtype), start.format) if delta is None else delta
    return _sequence(op, start, limit, step, start.format)


@contrib_range.hazard(RANGE_STEP_OF_ZERO, gives=UNDEFINED, operand=2)
def _(op: Call, start: Range, limit: Range, delta: Range | None = None) -> Mask:
    return False if delta is None else delta.contains(0.0)


@range_.meaning
@contrib_range.meaning
def _(run: Run, start: Tensor, limit: Tensor, delta: Tensor | None = None) -> Tensor:
    torch = run.torch
    delta = torch.ones_like(start) if delta is None else delta
    first, last, step = (x.detach().item() for x in (start, limit, delta))
    count = _count(first, last, step)
    if run.search:
        # A search for steps of zero meets sequences that no memory holds.
        count = min(count, FOLD_LIMIT)
    held = torch.promote_types(start.dtype, delta.dtype)
    # ONNX Range-27: 16-bit numbers are computed in a wider format.
    inner = torch.promote_types(held, run.dtype(FLOAT32)) if held.is_floating_point else held
    elements = start.to(inner) + torch.arange(count, dtype=inner) * delta.to(inner)
    return elements.reshape(count).to(held)


def _count(first: float, last: float, step: float) -> int:
    """The number of elements of a sequence; a step of zero, which runtimes refuse, and what is not finite give none."""
    if step == 0 or not math.isfinite(last - first) or not math.isfinite(step):
        return 0
    return max(math.ceil(Fraction(last - first) / Fraction(step)), 0)


def _sequence(op: Call, start: Range, limit: Range, delta: Range, inner: Format) -> Range:
    """The elements, computed in the format `inner`."""
    format = start.format
    if any(x.has_special for x in (start, limit, delta)):
        return Range.top((Span(0, None),), format)
    exact = [x.integers() if format.is_integer else None for x in (start, limit, delta)]
    if all(value is not None for value in exact):
        first, last, step = (int(value.reshape(())) for value in exact if value is not None)
        if step and len(range(first, last, step)) <= FOLD_LIMIT:
            return Range.constant(np.arange(first, last, step, dtype=np.int64).astype(format.dtype), format)
    a, b, d = ((float(x.low.min()), float(x.high.max())) for x in (start, limit, delta))
    steps = _without_zero(*d, inner.smallest_subnormal if format.is_float else 1.0)
    lengths = {n for step in steps for first in a for last in b for n in _lengths(first, last, step, inner)}
    shortest, longest = min(lengths), max(lengths)
    if shortest == longest <= CELL_BUDGET:
        return _elements(op, a, steps, longest, format, inner)
    size = Span(shortest, longest if longest <= 2**53 else None)
    low = min(a[0] if steps[-1] > 0 else np.inf, b[0] if steps[0] < 0 else np.inf)
    high = max(a[1] if steps[0] < 0 else -np.inf, b[1] if steps[-1] > 0 else -np.inf)
    if format.is_integer:
        # The limit itself is left out.
        low = low if a[0] <= low else low + 1
        high = high if a[1] >= high else high - 1
        return Range.uniform((size if shortest < longest else shortest,), format, min(low, high), high)
    if size.high is None:
        return Range.uniform((size,), format, format.low, format.high)
    # As `_sequence_error`, with every element as large as the largest: a step is at most twice that.
    flushed = inner.smallest_normal if op.target.flushes_results else 0.0
    error = (longest + 2.0) * (8.0 * max(abs(low), abs(high)) * inner.unit_roundoff + flushed)
    return Range.uniform((size if shortest < longest else shortest,), format, low - error, high + error)


def _without_zero(low: float, high: float, tiny: float) -> tuple[float, ...]:
    """The ends, in order, of the negative and of the positive part of an interval of steps."""
    parts: list[float] = []
    if low < 0:
        parts += [low, min(high, -tiny)]
    if high > 0 or not parts:
        parts += [max(low, tiny), max(high, tiny)]
    return tuple(parts)


def _lengths(start: float, limit: float, step: float, format: Format) -> set[int]:
    """The numbers of elements that implementations find: exactly, in float64, or with steps rounded into the format."""
    difference = Fraction(limit) - Fraction(start)
    quotients = {difference / Fraction(step)}
    if format.is_float:
        rounded = float(format.round_nearest(np.array(limit - start)))
        for numerator in (limit - start, rounded):
            with np.errstate(all="ignore"):
                quotient = float(np.float64(numerator) / np.float64(step))
            both = quotient, float(format.round_nearest(np.array(quotient)))
            quotients |= {Fraction(q) for q in both if np.isfinite(q)}
    return {max(math.ceil(q), 0) for q in quotients}


def _elements(op: Call, start: tuple[float, float], steps: tuple[float, ...], count: int, format: Format, inner: Format) -> Range:
    """Element by element: the number of elements is known."""
    index = np.arange(count, dtype=np.float64)
    low, high = start[0] + index * min(steps), start[1] + index * max(steps)
    if format.is_float and count > 1:
        sizes = np.maximum(np.abs(low), np.abs(high))
        is_point = start[0] == start[1] and len(set(steps)) == 1
        if not (is_point and _is_on_grid(start[0], steps[0], float(sizes.max()), inner)):
            error = _sequence_error(op, sizes, max(map(abs, steps)), inner)
            # The first element is the start itself, the second one correctly rounded sum.
            error[: 2 if inner is format else 1] = 0.0
            low, high = low - error, high + error
    return Range.elements(format, low, high)


def _is_on_grid(start: float, step: float, size: float, format: Format) -> bool:
    """Whether all multiples and sums are exact: start and step are multiples of a unit that fits the format's digits."""
    units = [math.ldexp(1.0, _last_bit(value)) for value in (start, step) if value]
    return (size + abs(step)) / min(units) <= 2.0**format.digits


def _last_bit(value: float) -> int:
    """The exponent of the last digit that is set."""
    numerator, denominator = value.as_integer_ratio()
    return (numerator & -numerator).bit_length() - denominator.bit_length()


def _sequence_error(op: Call, values: Array, step: float, format: Format) -> Array:
    """A bound on the rounding error of each element of a sequence with these largest absolute values.

    Repeated addition rounds every element on the way; start + i * step rounds the product and the sum; NumPy multiplies the
    difference of the first two elements, which is off by one rounding of the second element and one of the difference.
    """
    index = np.arange(len(values), dtype=np.float64)
    added = np.cumsum(values)
    multiplied = index * (values[1] + 3.0 * step) + values
    flushed = format.smallest_normal if op.target.flushes_results else 0.0
    own = 2.0**-51 * (values + index * step)
    return np.maximum(added, multiplied) * format.unit_roundoff * 1.01 + own + index * flushed
