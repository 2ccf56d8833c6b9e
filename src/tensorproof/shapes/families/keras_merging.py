"""Layers of Keras that merge several inputs: sums and the like, concatenation, products along an axis."""

from __future__ import annotations

from tensorproof.rules.shapes.axis_out_of_range import AXIS_OUT_OF_RANGE
from tensorproof.rules.shapes.join_mismatch import JOIN_MISMATCH
from tensorproof.rules.shapes.matmul_mismatch import MATMUL_MISMATCH
from tensorproof.rules.shapes.not_broadcastable import NOT_BROADCASTABLE
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.keras_layers import Layer, layer, layer_name
from tensorproof.shapes.families.modules import origin
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_tensor, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, bounds, is_unknown, same, unknown
from tensorproof.shapes.values import ListValue, Tensor, Value


def members(value: Value) -> tuple[Tensor, ...]:
    """The tensors of a list; raises `NotKnown` where they are not told apart."""
    items = value.items if isinstance(value, ListValue) else value
    if not isinstance(items, tuple) or not items:
        raise NotKnown
    return tuple(as_tensor(item, "keras") for item in items)


def _mismatch(call: Call, inputs: tuple[Tensor, ...], what: str, result: Shape) -> Mismatch:
    rule = JOIN_MISMATCH if what.startswith("join") else NOT_BROADCASTABLE
    shapes = " and ".join(str(tensor.shape) for tensor in inputs[:4])
    text = what.partition(": ")[2] or what
    message = f"{layer_name(call)} of {shapes}: {text}"
    return Mismatch(rule, message, result=inputs[0].with_shape(result), tensors=inputs, related=origin(call))


def merged(call: Call, inputs: tuple[Tensor, ...]) -> Tensor:
    """Element by element: all inputs have one batch size; the axes behind it are aligned at the end."""
    if any(tensor.shape.rank is None for tensor in inputs):
        return inputs[0].with_shape(ANY_SHAPE)
    shape = inputs[0].shape
    for tensor in inputs[1:]:
        if not shape.head or not tensor.shape.head:
            return inputs[0].with_shape(ANY_SHAPE)
        batch = _batch(shape.head[0], tensor.shape.head[0])
        if batch is None:
            raise _mismatch(call, inputs, f"batches of {shape.head[0]} and {tensor.shape.head[0]}", shape)
        rest = _aligned(shape.head[1:], tensor.shape.head[1:])
        if rest is None:
            raise _mismatch(call, inputs, "the sizes behind the batch have to be equal, or 1", inputs[0].shape)
        shape = Shape((batch, *rest))
    return inputs[0].with_shape(shape)


def _batch(left: Size, right: Size) -> Size | None:
    return None if same(left, right) is False else right if is_unknown(left) else left


def _aligned(left: tuple[Size, ...], right: tuple[Size, ...]) -> tuple[Size, ...] | None:
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    front = longer[: len(longer) - len(shorter)]
    sizes: list[Size] = []
    for a, b in zip(longer[len(front) :], shorter, strict=True):
        if a == 1 or b == 1:
            sizes.append(b if a == 1 else a)
        elif same(a, b) is False and bounds(a)[0] > 1 and bounds(b)[0] > 1:
            return None
        elif same(a, b):
            sizes.append(a)
        else:
            sizes.append(a if isinstance(a, int) else b if isinstance(b, int) else unknown())
    return (*front, *sizes)


@layer("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum")
class Merge(Layer):
    """`Merge`."""

    def __call__(self, call: Call, inputs: Value, **options: Value) -> Tensor:
        tensors = members(inputs)
        if layer_name(call) == "Subtract" and len(tensors) != 2:
            raise Mismatch(WRONG_RANK, f"Subtract takes two inputs, not {len(tensors)}", tensors=tensors)
        return merged(call, tensors)


@shape_rule(*(f"keras.layers.{name}" for name in ("add", "subtract", "multiply", "average", "maximum", "minimum")))
def merge(call: Call, inputs: Value, **options: Value) -> Tensor:
    """The function for the layer of that name."""
    tensors = members(inputs)
    if layer_name(call) == "subtract" and len(tensors) != 2:
        raise Mismatch(WRONG_RANK, f"subtract takes two inputs, not {len(tensors)}", tensors=tensors)
    return merged(call, tensors)


def joined(call: Call, inputs: tuple[Tensor, ...], axis: Value) -> Tensor:
    """Side by side along an axis; all other sizes are equal."""
    if not isinstance(axis, int) or any(tensor.shape.rank is None for tensor in inputs):
        features = _total(inputs) if axis == -1 else None
        return inputs[0].with_shape(ANY_SHAPE if features is None else Shape((), (features,)))
    rank = inputs[0].shape.rank or 0
    for tensor in inputs[1:]:
        if tensor.shape.rank != rank:
            raise _mismatch(call, inputs, "join: they need the same number of axes", ANY_SHAPE)
    if not -rank <= axis < rank:
        message = f"axis {axis} does not exist in {inputs[0].shape}"
        raise Mismatch(AXIS_OUT_OF_RANGE, message, tensors=inputs, related=origin(call))
    place = axis % rank
    total: Size = 0
    sizes = list(inputs[0].shape.dims)
    for tensor in inputs:
        total = total + tensor.shape.dims[place]
        for position, size in enumerate(tensor.shape.dims):
            if is_unknown(sizes[position]) or (isinstance(size, int) and not isinstance(sizes[position], int)):
                sizes[position] = size
    result = Shape(tuple(total if position == place else size for position, size in enumerate(sizes)))
    for tensor in inputs[1:]:
        for position, (a, b) in enumerate(zip(inputs[0].shape.dims, tensor.shape.dims, strict=True)):
            if position != place and same(a, b) is False:
                raise _mismatch(call, inputs, f"join: sizes {a} and {b} at axis {position} differ; joined is axis {place}", result)
    return inputs[0].with_shape(result)


def _total(inputs: tuple[Tensor, ...]) -> Size | None:
    total: Size = 0
    for tensor in inputs:
        if tensor.shape.least_rank == 0:
            return None
        total = total + tensor.shape[-1]
    return total


@layer("Concatenate")
class Concatenate(Layer):
    """`Concatenate`."""

    axis: Value = -1

    def __call__(self, call: Call, inputs: Value, **options: Value) -> Tensor:
        return joined(call, members(inputs), self.axis)


@shape_rule("keras.layers.concatenate")
def concatenate(call: Call, inputs: Value, axis: Value = -1, **options: Value) -> Tensor:
    """The function for the layer of that name."""
    return joined(call, members(inputs), axis)


def multiplied(call: Call, inputs: tuple[Tensor, ...], axes: Value) -> Tensor:
    """The product of two inputs for each sample, summed over one axis of each."""
    if len(inputs) != 2:
        raise Mismatch(WRONG_RANK, f"Dot takes two inputs, not {len(inputs)}", tensors=inputs)
    left, right = inputs
    ranks = (left.shape.rank, right.shape.rank)
    pair = axes.items if isinstance(axes, ListValue) else axes if isinstance(axes, tuple) else (axes, axes)
    if ranks[0] is None or ranks[1] is None or pair is None or len(pair) != 2:
        return left.with_shape(ANY_SHAPE)
    first, second = pair
    if not isinstance(first, int) or not isinstance(second, int):
        return left.with_shape(ANY_SHAPE)
    for axis, tensor in ((first, left), (second, right)):
        rank = tensor.shape.rank or 0
        if rank < 2:
            raise Mismatch(
                WRONG_RANK, f"Dot takes inputs of at least 2 axes, not {tensor.shape}", tensors=inputs, related=origin(call)
            )
        if not -rank <= axis < rank or axis % rank == 0:
            message = f"Dot cannot sum over axis {axis} of {tensor.shape}"
            raise Mismatch(AXIS_OUT_OF_RANGE, message, tensors=inputs, related=origin(call))
    a, b = first % ranks[0], second % ranks[1]
    x, y = left.shape.dims, right.shape.dims
    rest = (
        *(size for axis, size in enumerate(x) if axis not in (0, a)),
        *(size for axis, size in enumerate(y) if axis not in (0, b)),
    )
    result = left.with_shape(Shape((x[0], *rest) if rest else (x[0], 1)))
    if same(x[a], y[b]) is False or same(x[0], y[0]) is False:
        what = f"axis {a} of {left.shape} has {x[a]} elements, axis {b} of {right.shape} has {y[b]}"
        raise Mismatch(
            MATMUL_MISMATCH, f"Dot sums over axes of one size: {what}", result=result, tensors=inputs, related=origin(call)
        )
    return result


@layer("Dot")
class Dot(Layer):
    """`Dot`."""

    axes: Value
    normalize: Value = False

    def __call__(self, call: Call, inputs: Value, **options: Value) -> Tensor:
        return multiplied(call, members(inputs), self.axes)


@shape_rule("keras.layers.dot")
def dot(call: Call, inputs: Value, axes: Value = -1, **options: Value) -> Tensor:
    """The function for the layer of that name."""
    return multiplied(call, members(inputs), axes)
