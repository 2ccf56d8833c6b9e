"""Pools of PyTorch: one value for each window of the last one to three axes."""

from __future__ import annotations

from tensorproof.rules.shapes.window_too_large import WINDOW_TOO_LARGE
from tensorproof.shapes.families.modules import Module, origin
from tensorproof.shapes.families.windows import (
    extent,
    flag,
    is_given,
    last_sizes,
    need_positive,
    need_rank,
    per_axis,
    positions,
    positions_rounded_up,
    with_last,
)
from tensorproof.shapes.problems import Related
from tensorproof.shapes.rule_table import Call, Mismatch, native_class, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, less, unknown
from tensorproof.shapes.values import UNKNOWN, ListValue, Tensor, Value, as_size


def pooled(
    input: Tensor,
    axes: int,
    kernel_size: Value,
    stride: Value,
    padding: Value = 0,
    dilation: Value = 1,
    ceil_mode: Value = False,
    related: tuple[Related, ...] = (),
) -> Tensor:
    """One value per window; windows follow each other without a gap if no stride is given."""
    need_rank(input, (axes + 1, axes + 2), f"a pool over {axes} {'axis' if axes == 1 else 'axes'}", related)
    kernel = per_axis(kernel_size, axes)
    steps = per_axis(stride, axes) if is_given(stride) else kernel
    pads = per_axis(padding, axes)
    windows = tuple(map(extent, kernel, per_axis(dilation, axes)))
    for pad, size in zip(pads, kernel, strict=True):
        if less(size // 2, pad):
            message = f"the padding {pad} is more than half of the window of {size} elements"
            raise Mismatch(WINDOW_TOO_LARGE, message, tensors=(input,), related=related)
    rounded_up = flag(ceil_mode)
    if rounded_up is None:
        sizes: tuple[Size, ...] = tuple(unknown() for _ in range(axes))
    else:
        count = positions_rounded_up if rounded_up else positions
        sizes = tuple(map(count, last_sizes(input, axes), windows, steps, pads))
    result = input.with_shape(with_last(input.shape, axes, *sizes))
    if input.shape.rank is None:
        result = input.with_shape(with_last(input.shape, axes + 1, input.shape[-axes - 1], *sizes))
    need_positive(input, sizes, "the window", windows, result, related)
    return result


def mean_pooled(
    input: Tensor,
    axes: int,
    kernel_size: Value,
    stride: Value,
    padding: Value = 0,
    ceil_mode: Value = False,
    related: tuple[Related, ...] = (),
) -> Tensor:
    """`pooled` by means, which over three axes needs a whole window inside the input."""
    result = pooled(input, axes, kernel_size, stride, padding, 1, ceil_mode, related)
    kernel = per_axis(kernel_size, axes)
    if axes == 3 and any(less(size, width) for size, width in zip(last_sizes(input, axes), kernel, strict=True)):
        message = f"the window {Shape(kernel)} is larger than the last axes of {input.shape}"
        raise Mismatch(WINDOW_TOO_LARGE, message, result=result, tensors=(input,), related=related)
    return result


def with_indices(result: Tensor, wanted: Value) -> Value:
    """The result, and with it the indices of what was taken, if they are wanted."""
    return_both = flag(wanted)
    if return_both is None:
        return UNKNOWN
    return (result, result.with_shape(result.shape, dtype="i64")) if return_both else result


def _axes_of(call: Call) -> int:
    """The number in `max_pool2d`."""
    return next(int(letter) for letter in call.name if letter.isdigit())


class MaxPool(Module):
    """What `nn.MaxPool1d`, `2d` and `3d` share."""

    dimensions = 0

    kernel_size: Value
    stride: Value = None
    padding: Value = 0
    dilation: Value = 1
    return_indices: Value = False
    ceil_mode: Value = False

    def __call__(self, call: Call, input: Tensor) -> Value:
        result = pooled(
            input, self.dimensions, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, origin(call)
        )
        return with_indices(result, self.return_indices)


@native_class("torch.nn.MaxPool1d")
class MaxPool1d(MaxPool):
    """`nn.MaxPool1d`."""

    dimensions = 1


@native_class("torch.nn.MaxPool2d")
class MaxPool2d(MaxPool):
    """`nn.MaxPool2d`."""

    dimensions = 2


@native_class("torch.nn.MaxPool3d")
class MaxPool3d(MaxPool):
    """`nn.MaxPool3d`."""

    dimensions = 3


class AvgPool(Module):
    """What `nn.AvgPool1d`, `2d` and `3d` share."""

    dimensions = 0

    kernel_size: Value
    stride: Value = None
    padding: Value = 0
    ceil_mode: Value = False
    count_include_pad: Value = True
    divisor_override: Value = None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        return mean_pooled(input, self.dimensions, self.kernel_size, self.stride, self.padding, self.ceil_mode, origin(call))


@native_class("torch.nn.AvgPool1d")
class AvgPool1d(AvgPool):
    """`nn.AvgPool1d`."""

    dimensions = 1


@native_class("torch.nn.AvgPool2d")
class AvgPool2d(AvgPool):
    """`nn.AvgPool2d`."""

    dimensions = 2


@native_class("torch.nn.AvgPool3d")
class AvgPool3d(AvgPool):
    """`nn.AvgPool3d`."""

    dimensions = 3


class PowerPool(Module):
    """What `nn.LPPool1d`, `2d` and `3d` share."""

    dimensions = 0

    norm_type: Value
    kernel_size: Value
    stride: Value = None
    ceil_mode: Value = False

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        return mean_pooled(input, self.dimensions, self.kernel_size, self.stride, 0, self.ceil_mode, origin(call))


@native_class("torch.nn.LPPool1d")
class LPPool1d(PowerPool):
    """`nn.LPPool1d`."""

    dimensions = 1


@native_class("torch.nn.LPPool2d")
class LPPool2d(PowerPool):
    """`nn.LPPool2d`."""

    dimensions = 2


@native_class("torch.nn.LPPool3d")
class LPPool3d(PowerPool):
    """`nn.LPPool3d`."""

    dimensions = 3


@shape_rule(*(f"torch.{prefix}max_pool{axes}d" for prefix in ("", "nn.functional.") for axes in (1, 2, 3)))
def max_pool(
    call: Call,
    input: Tensor,
    kernel_size: Value,
    stride: Value = None,
    padding: Value = 0,
    dilation: Value = 1,
    ceil_mode: Value = False,
    return_indices: Value = False,
) -> Value:
    """`F.max_pool2d`: unlike the layer it takes `ceil_mode` first."""
    return with_indices(pooled(input, _axes_of(call), kernel_size, stride, padding, dilation, ceil_mode), return_indices)


@shape_rule(*(f"torch.nn.functional.avg_pool{axes}d" for axes in (1, 2, 3)), "torch.avg_pool1d")
def avg_pool(
    call: Call,
    input: Tensor,
    kernel_size: Value,
    stride: Value = None,
    padding: Value = 0,
    ceil_mode: Value = False,
    count_include_pad: Value = True,
    divisor_override: Value = None,
) -> Tensor:
    """`F.avg_pool2d`."""
    return mean_pooled(input, _axes_of(call), kernel_size, stride, padding, ceil_mode)


@shape_rule(*(f"torch.nn.functional.lp_pool{axes}d" for axes in (1, 2, 3)))
def power_pool(
    call: Call, input: Tensor, norm_type: Value, kernel_size: Value, stride: Value = None, ceil_mode: Value = False
) -> Tensor:
    """`F.lp_pool2d`."""
    return mean_pooled(input, _axes_of(call), kernel_size, stride, 0, ceil_mode)


# -- pools to a given size --------------------------------------------------------------------------------------------


def averaged(input: Tensor, axes: int, output_size: Value, related: tuple[Related, ...] = ()) -> Tensor:
    """`adapted`, but averages over all of two or three axes are taken of an input of any rank."""
    if axes > 1 and all(size == 1 for size in per_axis(output_size, axes)) and input.shape.least_rank >= axes:
        return input.with_shape(with_last(input.shape, axes, *(1 for _ in range(axes))))
    return adapted(input, axes, output_size, related)


def adapted(input: Tensor, axes: int, output_size: Value, related: tuple[Related, ...] = ()) -> Tensor:
    """The last axes pooled to given sizes; None keeps a size."""
    need_rank(input, (axes + 1, axes + 2), f"a pool over {axes} {'axis' if axes == 1 else 'axes'}", related)
    before = last_sizes(input, axes)
    items = output_size.items if isinstance(output_size, ListValue) else output_size
    wanted = items if isinstance(items, tuple) else (items,) * axes
    if len(wanted) == 1:
        wanted = wanted * axes
    if len(wanted) != axes:
        sizes: tuple[Size, ...] = tuple(unknown() for _ in range(axes))
    else:
        sizes = tuple(
            size if target is None else unknown(0) if (found := as_size(target)) is None else found
            for size, target in zip(before, wanted, strict=True)
        )
    if input.shape.rank is None:
        return input.with_shape(with_last(input.shape, axes + 1, input.shape[-axes - 1], *sizes))
    return input.with_shape(with_last(input.shape, axes, *sizes))


class AdaptiveAvgPool(Module):
    """What `nn.AdaptiveAvgPool1d`, `2d` and `3d` share."""

    dimensions = 0

    output_size: Value

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        return averaged(input, self.dimensions, self.output_size, origin(call))


@native_class("torch.nn.AdaptiveAvgPool1d")
class AdaptiveAvgPool1d(AdaptiveAvgPool):
    """`nn.AdaptiveAvgPool1d`."""

    dimensions = 1


@native_class("torch.nn.AdaptiveAvgPool2d")
class AdaptiveAvgPool2d(AdaptiveAvgPool):
    """`nn.AdaptiveAvgPool2d`."""

    dimensions = 2


@native_class("torch.nn.AdaptiveAvgPool3d")
class AdaptiveAvgPool3d(AdaptiveAvgPool):
    """`nn.AdaptiveAvgPool3d`."""

    dimensions = 3


class AdaptiveMaxPool(Module):
    """What `nn.AdaptiveMaxPool1d`, `2d` and `3d` share."""

    dimensions = 0

    output_size: Value
    return_indices: Value = False

    def __call__(self, call: Call, input: Tensor) -> Value:
        return with_indices(adapted(input, self.dimensions, self.output_size, origin(call)), self.return_indices)


@native_class("torch.nn.AdaptiveMaxPool1d")
class AdaptiveMaxPool1d(AdaptiveMaxPool):
    """`nn.AdaptiveMaxPool1d`."""

    dimensions = 1


@native_class("torch.nn.AdaptiveMaxPool2d")
class AdaptiveMaxPool2d(AdaptiveMaxPool):
    """`nn.AdaptiveMaxPool2d`."""

    dimensions = 2


@native_class("torch.nn.AdaptiveMaxPool3d")
class AdaptiveMaxPool3d(AdaptiveMaxPool):
    """`nn.AdaptiveMaxPool3d`."""

    dimensions = 3


@shape_rule(*(f"torch.nn.functional.adaptive_avg_pool{axes}d" for axes in (1, 2, 3)), "torch.adaptive_avg_pool1d")
def adaptive_avg_pool(call: Call, input: Tensor, output_size: Value) -> Tensor:
    """`F.adaptive_avg_pool2d`."""
    return averaged(input, _axes_of(call), output_size)


@shape_rule(*(f"torch.nn.functional.adaptive_max_pool{axes}d" for axes in (1, 2, 3)))
def adaptive_max_pool(call: Call, input: Tensor, output_size: Value, return_indices: Value = False) -> Value:
    """`F.adaptive_max_pool2d`."""
    return with_indices(adapted(input, _axes_of(call), output_size), return_indices)


# -- the way back -----------------------------------------------------------------------------------------------------


def unpooled(input: Tensor, axes: int, kernel_size: Value, stride: Value, padding: Value, output_size: Value) -> Tensor:
    """The sizes that a pool would have made those of the input from."""
    need_rank(input, (axes + 1, axes + 2), f"an unpool over {axes} {'axis' if axes == 1 else 'axes'}")
    kernel = per_axis(kernel_size, axes)
    steps = per_axis(stride, axes) if is_given(stride) else kernel
    items = output_size.items if isinstance(output_size, ListValue) else output_size
    if is_given(output_size):
        sizes = per_axis(items[-axes:] if isinstance(items, tuple) else items, axes)
    else:
        parts = zip(last_sizes(input, axes), steps, per_axis(padding, axes), kernel, strict=True)
        sizes = tuple((size - 1) * step - 2 * pad + width for size, step, pad, width in parts)
    return input.with_shape(with_last(input.shape, axes, *sizes))


class MaxUnpool(Module):
    """What `nn.MaxUnpool1d`, `2d` and `3d` share."""

    dimensions = 0

    kernel_size: Value
    stride: Value = None
    padding: Value = 0

    def __call__(self, call: Call, input: Tensor, indices: Tensor, output_size: Value = None) -> Tensor:
        return unpooled(input, self.dimensions, self.kernel_size, self.stride, self.padding, output_size)


@native_class("torch.nn.MaxUnpool1d")
class MaxUnpool1d(MaxUnpool):
    """`nn.MaxUnpool1d`."""

    dimensions = 1


@native_class("torch.nn.MaxUnpool2d")
class MaxUnpool2d(MaxUnpool):
    """`nn.MaxUnpool2d`."""

    dimensions = 2


@native_class("torch.nn.MaxUnpool3d")
class MaxUnpool3d(MaxUnpool):
    """`nn.MaxUnpool3d`."""

    dimensions = 3


@shape_rule(*(f"torch.nn.functional.max_unpool{axes}d" for axes in (1, 2, 3)))
def max_unpool(
    call: Call,
    input: Tensor,
    indices: Tensor,
    kernel_size: Value,
    stride: Value = None,
    padding: Value = 0,
    output_size: Value = None,
) -> Tensor:
    """`F.max_unpool2d`."""
    return unpooled(input, _axes_of(call), kernel_size, stride, padding, output_size)
