"""Convolutions of PyTorch and their transposes, in one to three dimensions."""

from __future__ import annotations

from dataclasses import dataclass

from tensorproof.rules.shapes.convolution_channels import CONVOLUTION_CHANNELS
from tensorproof.rules.shapes.window_too_large import WINDOW_TOO_LARGE
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.modules import Module, correction, origin, parameter, write
from tensorproof.shapes.families.windows import (
    extent,
    is_given,
    last_sizes,
    need_positive,
    need_rank,
    per_axis,
    positions,
    with_last,
)
from tensorproof.shapes.problems import Edit, Related
from tensorproof.shapes.rule_table import Call, Extent, Mismatch, native_class, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, bounds, is_unknown, less, same, unknown
from tensorproof.shapes.values import ListValue, Tensor, Value


@dataclass(frozen=True, slots=True)
class Filter:
    """What a convolution is but its weights."""

    dimensions: int
    channels: Size
    filters: Size
    kernel: tuple[Size, ...]
    stride: tuple[Size, ...]
    #: None: `same`.
    padding: tuple[Size, ...] | None
    dilation: tuple[Size, ...]
    related: tuple[Related, ...] = ()

    @property
    def name(self) -> str:
        return f"a convolution over {self.dimensions} {'axis' if self.dimensions == 1 else 'axes'}"


def paddings(value: Value, dimensions: int) -> tuple[Size, ...] | None:
    """Padding in numbers; None for `same`."""
    if isinstance(value, str):
        return None if value == "same" else (0,) * dimensions
    return per_axis(value, dimensions)


def check_input(input: Tensor, filter: Filter, output: tuple[Size, ...], edits: tuple[Edit, ...], parameter: str) -> Tensor:
    """The result with `output` as its last axes, if rank and channels of the input fit."""
    axes = filter.dimensions
    of_any_rank = input.with_shape(Shape((), (filter.filters, *(unknown() for _ in output))))
    need_rank(input, (axes + 1, axes + 2), filter.name, filter.related, of_any_rank)
    result = input.with_shape(with_last(input.shape, axes + 1, filter.filters, *output))
    channels = input.shape[-axes - 1]
    if same(channels, filter.channels) is False:
        message = (
            f"the convolution takes {filter.channels} channels, but its input {input.shape} has {channels} at axis {-axes - 1}"
        )
        advice = _advice(input, filter, channels, parameter)
        raise Mismatch(CONVOLUTION_CHANNELS, message + advice, result=result, tensors=(input,), related=filter.related, edits=edits)
    return result


def _advice(input: Tensor, filter: Filter, channels: Size, parameter: str) -> str:
    shape, axes = input.shape, filter.dimensions
    if shape.rank == axes + 2 and filter.channels == shape[-1] != 1:
        order = ", ".join(map(str, (0, axes + 1, *range(1, axes + 1))))
        return f"; the channels seem to be last: permute({order})"
    if shape.rank == axes + 1 and filter.channels == 1:
        return "; an input of this rank is one image without a batch: unsqueeze(1) adds the axis of the channel"
    return "" if is_unknown(channels) else f"; {parameter} should be {channels}"


def convolved(input: Tensor, filter: Filter, edits: tuple[Edit, ...] = (), parameter: str = "in_channels") -> Tensor:
    """A convolution."""
    axes = filter.dimensions
    windows = tuple(map(extent, filter.kernel, filter.dilation))
    spatial = last_sizes(input, axes)
    if filter.padding is None:
        sizes = spatial
    else:
        sizes = tuple(map(positions, spatial, windows, filter.stride, filter.padding))
    result = check_input(input, filter, sizes, edits, parameter)
    need_positive(input, sizes, "the kernel", windows, result, filter.related)
    return result


def transposed(
    input: Tensor, filter: Filter, output_padding: tuple[Size, ...], output_size: Value, edits: tuple[Edit, ...], parameter: str
) -> Tensor:
    """A transposed convolution: the sizes from which a convolution would come to those of the input."""
    axes = filter.dimensions
    assert filter.padding is not None
    for added, stride, dilation in zip(output_padding, filter.stride, filter.dilation, strict=True):
        if less(added, stride) is False and less(added, dilation) is False:
            message = f"output_padding {added} has to be smaller than the stride {stride} or the dilation {dilation}"
            raise Mismatch(WINDOW_TOO_LARGE, message, related=filter.related)
    spatial = last_sizes(input, axes)
    sizes = tuple(
        (size - 1) * stride - 2 * padding + extent(kernel, dilation) + added
        for size, stride, padding, kernel, dilation, added in zip(
            spatial, filter.stride, filter.padding, filter.kernel, filter.dilation, output_padding, strict=True
        )
    )
    if is_given(output_size):
        sizes = _wanted_sizes(input, filter, sizes, output_size)
    result = check_input(input, filter, sizes, edits, parameter)
    # Whether an output without elements is refused depends on the implementation that is chosen.
    need_positive(input, sizes, "the transposed kernel", filter.kernel, result, filter.related, least=0)
    return result


def _wanted_sizes(input: Tensor, filter: Filter, least: tuple[Size, ...], output_size: Value) -> tuple[Size, ...]:
    """`output_size` picks one of the sizes that the stride leaves open."""
    axes = filter.dimensions
    items = output_size.items if isinstance(output_size, ListValue) else output_size
    if not isinstance(items, tuple) or len(items) not in (axes, axes + 1, axes + 2):
        return tuple(unknown() for _ in least)
    wanted = per_axis(items[-axes:], axes)
    for low, size, stride in zip(least, wanted, filter.stride, strict=True):
        if less(size, low) or less(low + stride - 1, size):
            message = f"output_size {size} cannot be reached from {input.shape}: it has to be between {low} and {low + stride - 1}"
            raise Mismatch(WINDOW_TOO_LARGE, message, tensors=(input,), related=filter.related)
    return wanted


class Convolution(Module):
    """What `nn.Conv1d`, `nn.Conv2d` and `nn.Conv3d` share."""

    dimensions = 0

    in_channels: Extent
    out_channels: Extent
    kernel_size: Value
    stride: Value = 1
    padding: Value = 0
    dilation: Value = 1
    groups: Extent = 1
    bias: Value = True
    padding_mode: Value = "zeros"
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        check_groups(self.in_channels, self.out_channels, self.groups)
        if self.padding == "same" and any(bounds(stride)[0] > 1 for stride in per_axis(self.stride, self.dimensions)):
            raise Mismatch(WINDOW_TOO_LARGE, "padding='same' needs a stride of 1")
        kernel = per_axis(self.kernel_size, self.dimensions)
        write(call, weight=parameter(self.out_channels, self.in_channels // self.groups, *kernel))
        write(call, bias=None if self.bias is False else parameter(self.out_channels))
        return None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        axes = self.dimensions
        filter = Filter(
            axes,
            self.in_channels,
            self.out_channels,
            per_axis(self.kernel_size, axes),
            per_axis(self.stride, axes),
            paddings(self.padding, axes),
            per_axis(self.dilation, axes),
            origin(call),
        )
        if self.padding_mode in ("reflect", "circular") and filter.padding is not None:
            _check_copied_padding(input, filter, strict=self.padding_mode == "reflect")
        channels = last_sizes(input, axes + 1)[0]
        if is_unknown(self.in_channels):
            check_groups(channels, self.out_channels, self.groups)
        return convolved(input, filter, correction(call, "in_channels", channels))


def check_groups(channels: Size, filters: Size, groups: Size) -> None:
    """Both numbers of channels are divided among the groups."""
    for name, size in (("in_channels", channels), ("out_channels", filters)):
        if isinstance(size, int) and isinstance(groups, int) and (groups <= 0 or size % groups):
            raise Mismatch(CONVOLUTION_CHANNELS, f"{name} {size} cannot be divided into {groups} groups")


def _check_copied_padding(input: Tensor, filter: Filter, *, strict: bool) -> None:
    """Padding that copies elements of the input cannot be wider than the input."""
    assert filter.padding is not None
    axes = filter.dimensions
    for axis, size, padding in zip(range(-axes, 0), last_sizes(input, axes), filter.padding, strict=True):
        if less(padding, size) is False if strict else less(size, padding):
            message = f"the padding of {padding} copies more elements than axis {axis} of {input.shape} has"
            raise Mismatch(WINDOW_TOO_LARGE, message, tensors=(input,), related=filter.related)


@native_class("torch.nn.Conv1d")
class Conv1d(Convolution):
    """`nn.Conv1d`."""

    dimensions = 1


@native_class("torch.nn.Conv2d")
class Conv2d(Convolution):
    """`nn.Conv2d`."""

    dimensions = 2


@native_class("torch.nn.Conv3d")
class Conv3d(Convolution):
    """`nn.Conv3d`."""

    dimensions = 3


class TransposedConvolution(Module):
    """What `nn.ConvTranspose1d`, `2d` and `3d` share."""

    dimensions = 0

    in_channels: Extent
    out_channels: Extent
    kernel_size: Value
    stride: Value = 1
    padding: Value = 0
    output_padding: Value = 0
    groups: Extent = 1
    bias: Value = True
    dilation: Value = 1
    padding_mode: Value = "zeros"
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        check_groups(self.in_channels, self.out_channels, self.groups)
        kernel = per_axis(self.kernel_size, self.dimensions)
        write(call, weight=parameter(self.in_channels, self.out_channels // self.groups, *kernel))
        write(call, bias=None if self.bias is False else parameter(self.out_channels))
        return None

    def __call__(self, call: Call, input: Tensor, output_size: Value = None) -> Tensor:
        axes = self.dimensions
        filter = Filter(
            axes,
            self.in_channels,
            self.out_channels,
            per_axis(self.kernel_size, axes),
            per_axis(self.stride, axes),
            per_axis(self.padding, axes),
            per_axis(self.dilation, axes),
            origin(call),
        )
        added = (0,) * axes if is_given(output_size) else per_axis(self.output_padding, axes)
        channels = last_sizes(input, axes + 1)[0]
        if is_unknown(self.in_channels):
            check_groups(channels, self.out_channels, self.groups)
        return transposed(input, filter, added, output_size, correction(call, "in_channels", channels), "in_channels")


@native_class("torch.nn.ConvTranspose1d")
class ConvTranspose1d(TransposedConvolution):
    """`nn.ConvTranspose1d`."""

    dimensions = 1


@native_class("torch.nn.ConvTranspose2d")
class ConvTranspose2d(TransposedConvolution):
    """`nn.ConvTranspose2d`."""

    dimensions = 2


@native_class("torch.nn.ConvTranspose3d")
class ConvTranspose3d(TransposedConvolution):
    """`nn.ConvTranspose3d`."""

    dimensions = 3


def _dimensions(call: Call) -> int:
    return int(call.name[-2])


def _checked_weight(weight: Tensor, bias: Tensor | None, axes: int, filters_axis: int, groups: Size) -> None:
    if weight.shape.rank not in (None, axes + 2):
        message = f"a convolution over {axes} axes needs weights of {axes + 2} axes, not {weight.shape}"
        raise Mismatch(WRONG_RANK, message, tensors=(weight,))
    filters = weight.shape[filters_axis] * (groups if filters_axis == 1 else 1)
    if bias is not None and (bias.shape.rank not in (None, 1) or same(bias.shape[-1], filters) is False):
        raise Mismatch(CONVOLUTION_CHANNELS, f"the bias {bias.shape} needs {filters} elements", tensors=(weight, bias))
    rows = weight.shape[0]
    if isinstance(rows, int) and isinstance(groups, int) and (groups <= 0 or rows % groups):
        raise Mismatch(CONVOLUTION_CHANNELS, f"weights {weight.shape} cannot be divided into {groups} groups", tensors=(weight,))


@shape_rule(
    "torch.nn.functional.conv1d",
    "torch.nn.functional.conv2d",
    "torch.nn.functional.conv3d",
    "torch.conv1d",
    "torch.conv2d",
    "torch.conv3d",
)
def convolution(
    call: Call,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Value = 1,
    padding: Value = 0,
    dilation: Value = 1,
    groups: Extent = 1,
) -> Tensor:
    """`F.conv2d`: the weights are stored as (filters, channels of a group, height, width)."""
    axes = _dimensions(call)
    _checked_weight(weight, bias, axes, 0, groups)
    strides = per_axis(stride, axes)
    if padding == "same" and any(bounds(step)[0] > 1 for step in strides):
        raise Mismatch(WINDOW_TOO_LARGE, "padding='same' needs a stride of 1", tensors=(input,))
    kernel = weight.shape.last(axes)
    filter = Filter(
        axes, weight.shape[1] * groups, weight.shape[0], kernel, strides, paddings(padding, axes), per_axis(dilation, axes)
    )
    return convolved(input, filter, parameter=f"for weights {weight.shape} in {groups} groups the number of channels")


@shape_rule(
    "torch.nn.functional.conv_transpose1d",
    "torch.nn.functional.conv_transpose2d",
    "torch.nn.functional.conv_transpose3d",
    "torch.conv_transpose1d",
    "torch.conv_transpose2d",
    "torch.conv_transpose3d",
)
def transposed_convolution(
    call: Call,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Value = 1,
    padding: Value = 0,
    output_padding: Value = 0,
    groups: Extent = 1,
    dilation: Value = 1,
) -> Tensor:
    """`F.conv_transpose2d`: the weights are stored as (channels, filters of a group, height, width)."""
    axes = _dimensions(call)
    _checked_weight(weight, bias, axes, 1, groups)
    filter = Filter(
        axes,
        weight.shape[0],
        weight.shape[1] * groups,
        weight.shape.last(axes),
        per_axis(stride, axes),
        per_axis(padding, axes),
        per_axis(dilation, axes),
    )
    return transposed(input, filter, per_axis(output_padding, axes), None, (), "the first axis of the weights")
