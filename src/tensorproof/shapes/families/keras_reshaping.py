"""Layers of Keras that move elements: flatten, reshape, permute, repeat, pad, crop, enlarge."""

from __future__ import annotations

from tensorproof.rules.shapes.axis_out_of_range import AXIS_OUT_OF_RANGE
from tensorproof.rules.shapes.reshape_count import RESHAPE_COUNT
from tensorproof.rules.shapes.window_too_large import WINDOW_TOO_LARGE
from tensorproof.shapes.families.keras_layers import Layer, layer, need_least_rank, need_rank
from tensorproof.shapes.families.keras_planes import join_planes, split_planes
from tensorproof.shapes.families.modules import origin
from tensorproof.shapes.families.windows import per_axis
from tensorproof.shapes.rule_table import Call, Extent, Mismatch, Sizes
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Polynomial, Size, bounds, divide_exactly, is_unknown, product, same, unknown
from tensorproof.shapes.values import ListValue, Tensor, Value, as_size


@layer("Flatten")
class Flatten(Layer):
    """`Flatten`."""

    data_format: Value = None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        need_least_rank(call, inputs, 1, Shape((unknown(), unknown())))
        shape = inputs.shape
        batch = shape.head[0] if shape.head else unknown()
        rest = unknown() if shape.rank is None else product(shape.head[1:])
        return inputs.with_shape(Shape((batch, rest)))


@layer("Reshape")
class Reshape(Layer):
    """Other sizes behind the batch."""

    target_shape: Sizes

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        shape = inputs.shape
        batch = shape.head[0] if shape.head else unknown()
        target = self.target_shape
        result = inputs.with_shape(Shape((batch, *(unknown() if size == -1 or bounds(size)[0] < 0 else size for size in target))))
        if shape.rank is None:
            return result
        total = product(shape.head[1:])
        known = product(size for size in target if size != -1)
        if -1 not in target and same(total, known) is False:
            message = f"{shape} has {total} elements for each sample, but the target {Shape(target)} holds {known}"
            raise Mismatch(RESHAPE_COUNT, message, result=result, tensors=(inputs,), related=origin(call))
        if target.count(-1) != 1 or is_unknown(total):
            return result
        if isinstance(total, int) and isinstance(known, int) and (known == 0 or total % known):
            message = (
                f"{shape} has {total} elements for each sample, which the target {Shape(target)} cannot hold: {known} for each -1"
            )
            raise Mismatch(RESHAPE_COUNT, message, result=result, tensors=(inputs,), related=origin(call))
        rest = divide_exactly(total, known)
        whole = rest if isinstance(rest, int) or (isinstance(rest, Polynomial) and rest.is_whole) else unknown()
        return inputs.with_shape(Shape((batch, *(whole if size == -1 else size for size in target))))


@layer("Permute")
class Permute(Layer):
    """The axes behind the batch in another order, counted from 1."""

    dims: Sizes

    def setup(self, call: Call) -> Value:
        if all(isinstance(axis, int) for axis in self.dims) and sorted(map(int, map(str, self.dims))) != self._order():
            message = f"dims {tuple(map(int, map(str, self.dims)))} has to name every axis from 1 to {len(self.dims)} once"
            raise Mismatch(AXIS_OUT_OF_RANGE, message)
        return None

    def _order(self) -> list[int]:
        return list(range(1, len(self.dims) + 1))

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        count = len(self.dims)
        if inputs.shape.rank not in (None, count + 1):
            wanted = f"Permute of {count} axes takes an input of {count + 1} (with the batch)"
            message = f"{wanted}, but {inputs.shape} has {inputs.shape.rank}"
            sizes = tuple(unknown() for _ in range(count + 1))
            raise Mismatch(
                AXIS_OUT_OF_RANGE, message, result=inputs.with_shape(Shape(sizes)), tensors=(inputs,), related=origin(call)
            )
        input = need_rank(call, inputs, count + 1)
        dims = input.shape.dims
        sizes = tuple(dims[axis] if isinstance(axis, int) and 0 < axis <= count else unknown() for axis in self.dims)
        return input.with_shape(Shape((dims[0], *sizes)), contiguous=None)


@layer("RepeatVector")
class RepeatVector(Layer):
    """`RepeatVector`."""

    n: Extent

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        input = need_rank(call, inputs, 2, Shape((unknown(), self.n, unknown())))
        batch, features = input.shape.dims
        return input.with_shape(Shape((batch, self.n, features)))


def both_ends(value: Value, axes: int) -> list[tuple[Size, Size]]:
    """Padding or cropping at both ends of each axis: one number, one per axis, or a pair per axis."""
    items = value.items if isinstance(value, ListValue) else value
    if axes == 1 and isinstance(items, tuple) and len(items) == 2:
        return [_pair(items)]
    if isinstance(items, tuple) and len(items) == axes:
        return [_pair(item) for item in items]
    return [(size, size) for size in per_axis(value, axes)]


def _pair(value: Value) -> tuple[Size, Size]:
    items = value.items if isinstance(value, ListValue) else value
    if isinstance(items, tuple) and len(items) == 2:
        first, second = (as_size(item) for item in items)
        return (unknown(0) if first is None else first, unknown(0) if second is None else second)
    size = as_size(value)
    return (unknown(0), unknown(0)) if size is None else (size, size)


class Padding(Layer):
    """What `ZeroPadding1D`, `2D` and `3D` share."""

    axes = 0

    def padded(self, call: Call, inputs: Tensor, padding: Value, data_format: Value) -> Tensor:
        batch, spatial, channels = split_planes(call, inputs, self.axes, data_format)
        sizes = tuple(size + before + after for size, (before, after) in zip(spatial, both_ends(padding, self.axes), strict=True))
        return inputs.with_shape(join_planes(call, batch, sizes, channels, data_format))


@layer("ZeroPadding1D")
class ZeroPadding1D(Padding):
    """`ZeroPadding1D`."""

    axes = 1
    padding: Value = 1
    data_format: Value = None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        return self.padded(call, inputs, self.padding, self.data_format)


@layer("ZeroPadding2D")
class ZeroPadding2D(ZeroPadding1D):
    """`ZeroPadding2D`."""

    axes = 2


@layer("ZeroPadding3D")
class ZeroPadding3D(ZeroPadding1D):
    """`ZeroPadding3D`."""

    axes = 3


@layer("Cropping1D")
class Cropping1D(Layer):
    """`Cropping1D`."""

    axes = 1
    cropping: Value = (1, 1)
    data_format: Value = None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        batch, spatial, channels = split_planes(call, inputs, self.axes, self.data_format)
        cuts = both_ends(self.cropping, self.axes)
        sizes = tuple(size - before - after for size, (before, after) in zip(spatial, cuts, strict=True))
        result = inputs.with_shape(join_planes(call, batch, sizes, channels, self.data_format))
        for size, left, (before, after) in zip(spatial, sizes, cuts, strict=True):
            if bounds(left)[1] < 1:
                message = f"cropping {before} and {after} elements of an axis of {size} in {inputs.shape} leaves nothing"
                raise Mismatch(
                    WINDOW_TOO_LARGE,
                    message,
                    result=inputs.with_shape(_unknown_planes(result)),
                    tensors=(inputs,),
                    related=origin(call),
                )
        return result


def _unknown_planes(tensor: Tensor) -> Shape:
    return Shape(tuple(size if bounds(size)[1] >= 1 else unknown() for size in tensor.shape.dims))


@layer("Cropping2D")
class Cropping2D(Cropping1D):
    """`Cropping2D`."""

    axes = 2
    cropping: Value = ((0, 0), (0, 0))


@layer("Cropping3D")
class Cropping3D(Cropping1D):
    """`Cropping3D`."""

    axes = 3
    cropping: Value = ((1, 1), (1, 1), (1, 1))


@layer("UpSampling1D")
class UpSampling1D(Layer):
    """`UpSampling1D`."""

    axes = 1
    size: Value = 2
    data_format: Value = None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        batch, spatial, channels = split_planes(call, inputs, self.axes, self.data_format)
        sizes = tuple(size * factor for size, factor in zip(spatial, per_axis(self.size, self.axes), strict=True))
        return inputs.with_shape(join_planes(call, batch, sizes, channels, self.data_format))


@layer("UpSampling2D")
class UpSampling2D(UpSampling1D):
    """`UpSampling2D`."""

    axes = 2
    size: Value = (2, 2)


@layer("UpSampling3D")
class UpSampling3D(UpSampling1D):
    """`UpSampling3D`."""

    axes = 3
    size: Value = (2, 2, 2)


@layer("Resizing", "CenterCrop", "RandomCrop")
class Resizing(Layer):
    """Images of a fixed size; one image or a batch of them."""

    height: Extent
    width: Extent

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        shape = inputs.shape
        need_least_rank(call, inputs, 3)
        if self.__dict__.get("data_format") == "channels_first":
            return inputs.with_shape(shape.without_last(2).extended(self.height, self.width))
        return inputs.with_shape(shape.without_last(3).extended(self.height, self.width, shape[-1]))
