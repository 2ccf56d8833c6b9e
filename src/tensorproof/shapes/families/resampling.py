"""Other resolutions of the last axes: interpolation, pixels into channels and back, patches and back."""

from __future__ import annotations

import math

from tensorproof.rules.shapes.reshape_count import RESHAPE_COUNT
from tensorproof.rules.shapes.window_too_large import WINDOW_TOO_LARGE
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.modules import Module, origin
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
from tensorproof.shapes.problems import Related
from tensorproof.shapes.rule_table import Call, Extent, Mismatch, NotKnown, as_sizes, native_class, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, product, same, unknown
from tensorproof.shapes.values import UNKNOWN, ListValue, Tensor, Value, as_size

#: The ranks of inputs that each way of interpolation takes; others take all of them.
_RANKS = {"linear": (3,), "bilinear": (4,), "bicubic": (4,), "trilinear": (5,)}


def interpolated(input: Tensor, size: Value, scale: Value, mode: Value, related: tuple[Related, ...] = ()) -> Tensor:
    """The axes after batch and channels in another size, or scaled by a factor."""
    ranks = _RANKS.get(mode, (3, 4, 5)) if isinstance(mode, str) else (3, 4, 5)
    need_rank(input, ranks, f"an interpolation ({mode})" if isinstance(mode, str) else "an interpolation", related)
    rank = input.shape.rank or (ranks[0] if len(ranks) == 1 else None)
    if rank is None:
        raise NotKnown
    axes = rank - 2
    if is_given(size):
        items = size.items if isinstance(size, ListValue) else size
        if isinstance(items, tuple) and len(items) != axes:
            message = f"size gives {len(items)} numbers, but the input {input.shape} has {axes} axes to interpolate"
            raise Mismatch(WRONG_RANK, message, tensors=(input,), related=related)
        sizes = per_axis(size, axes)
    else:
        sizes = tuple(map(_scaled, last_sizes(input, axes), _factors(input, scale, axes, related)))
    channels = input.shape[1] if input.shape.rank is None else input.shape.dims[1]
    return input.with_shape(Shape((input.shape[0], channels, *sizes)))


def _factors(input: Tensor, scale: Value, axes: int, related: tuple[Related, ...]) -> tuple[Value, ...]:
    items = scale.items if isinstance(scale, ListValue) else scale
    if not isinstance(items, tuple):
        return (items,) * axes
    if len(items) != axes:
        message = f"scale_factor gives {len(items)} numbers, but the input {input.shape} has {axes} axes to interpolate"
        raise Mismatch(WRONG_RANK, message, tensors=(input,), related=related)
    return items


def _scaled(size: Size, factor: Value) -> Size:
    """The size times the factor, rounded down."""
    whole = as_size(factor)
    if whole is not None:
        return size * whole
    if not isinstance(factor, float):
        return unknown()
    if isinstance(size, int):
        return math.floor(size * factor)
    inverse = 1 / factor if factor else 0.0
    return size // int(inverse) if inverse.is_integer() and inverse >= 1 else unknown()


@native_class("torch.nn.Upsample")
class Upsample(Module):
    """`nn.Upsample`."""

    size: Value = None
    scale_factor: Value = None
    mode: Value = "nearest"
    align_corners: Value = None
    recompute_scale_factor: Value = None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        return interpolated(input, self.size, self.scale_factor, self.mode, origin(call))


class UpsampleImages(Module):
    """What `nn.UpsamplingNearest2d` and `nn.UpsamplingBilinear2d` share."""

    mode = ""

    size: Value = None
    scale_factor: Value = None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        return interpolated(input, self.size, self.scale_factor, self.mode, origin(call))


@native_class("torch.nn.UpsamplingNearest2d")
class UpsamplingNearest2d(UpsampleImages):
    """`nn.UpsamplingNearest2d`."""

    mode = "nearest"


@native_class("torch.nn.UpsamplingBilinear2d")
class UpsamplingBilinear2d(UpsampleImages):
    """`nn.UpsamplingBilinear2d`."""

    mode = "bilinear"


@shape_rule("torch.nn.functional.interpolate", "torch.nn.functional.upsample")
def interpolate(
    input: Tensor,
    size: Value = None,
    scale_factor: Value = None,
    mode: Value = "nearest",
    align_corners: Value = None,
    recompute_scale_factor: Value = None,
    antialias: Value = False,
) -> Tensor:
    """`F.interpolate`."""
    return interpolated(input, size, scale_factor, mode)


# -- channels and pixels ----------------------------------------------------------------------------------------------


def shuffled(input: Tensor, factor: Size, *, back: bool, related: tuple[Related, ...] = ()) -> Tensor:
    """Channels into pixels of a finer image, or back."""
    shape = input.shape
    if shape.rank is not None and shape.rank < 3:
        raise Mismatch(WRONG_RANK, f"an image has at least 3 axes, not {shape}", tensors=(input,), related=related)
    channels, height, width = last_sizes(input, 3)
    parts = (height, width) if back else (channels,)
    divisor = factor if back else factor * factor
    for part in parts:
        if isinstance(part, int) and isinstance(divisor, int) and (divisor <= 0 or part % divisor):
            what = "height or width" if back else "channels"
            message = f"{part} {what} of {shape} cannot be divided by {divisor}"
            raise Mismatch(RESHAPE_COUNT, message, tensors=(input,), related=related)
    if back:
        return input.with_shape(with_last(shape, 3, channels * factor * factor, height // factor, width // factor))
    return input.with_shape(with_last(shape, 3, channels // (factor * factor), height * factor, width * factor))


@native_class("torch.nn.PixelShuffle")
class PixelShuffle(Module):
    """`nn.PixelShuffle`."""

    upscale_factor: Extent

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        return shuffled(input, self.upscale_factor, back=False, related=origin(call))


@native_class("torch.nn.PixelUnshuffle")
class PixelUnshuffle(Module):
    """`nn.PixelUnshuffle`."""

    downscale_factor: Extent

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        return shuffled(input, self.downscale_factor, back=True, related=origin(call))


@shape_rule("torch.nn.functional.pixel_shuffle", "torch.pixel_shuffle")
def pixel_shuffle(input: Tensor, upscale_factor: Extent) -> Tensor:
    """`F.pixel_shuffle`."""
    return shuffled(input, upscale_factor, back=False)


@shape_rule("torch.nn.functional.pixel_unshuffle", "torch.pixel_unshuffle")
def pixel_unshuffle(input: Tensor, downscale_factor: Extent) -> Tensor:
    """`F.pixel_unshuffle`."""
    return shuffled(input, downscale_factor, back=True)


def regrouped(input: Tensor, groups: Size, related: tuple[Related, ...] = ()) -> Tensor:
    """Channels in another order."""
    shape = input.shape
    if shape.rank is not None and shape.rank < 3:
        raise Mismatch(WRONG_RANK, f"a channel shuffle takes at least 3 axes, not {shape}", tensors=(input,), related=related)
    channels = shape[1]
    if isinstance(channels, int) and isinstance(groups, int) and (groups <= 0 or channels % groups):
        message = f"{channels} channels of {shape} cannot be divided into {groups} groups"
        raise Mismatch(RESHAPE_COUNT, message, tensors=(input,), related=related)
    return input.with_shape(shape)


@native_class("torch.nn.ChannelShuffle")
class ChannelShuffle(Module):
    """`nn.ChannelShuffle`."""

    groups: Extent

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        return regrouped(input, self.groups, origin(call))


@shape_rule("torch.nn.functional.channel_shuffle", "torch.channel_shuffle")
def channel_shuffle(input: Tensor, groups: Extent) -> Tensor:
    """`F.channel_shuffle`."""
    return regrouped(input, groups)


# -- patches ----------------------------------------------------------------------------------------------------------


def patches(
    input: Tensor, kernel_size: Value, dilation: Value, padding: Value, stride: Value, related: tuple[Related, ...] = ()
) -> Tensor:
    """Every window of an image as a column."""
    need_rank(input, (3, 4), "unfold", related)
    kernel = per_axis(kernel_size, 2)
    windows = tuple(map(extent, kernel, per_axis(dilation, 2)))
    counts = tuple(map(positions, last_sizes(input, 2), windows, per_axis(stride, 2), per_axis(padding, 2)))
    columns = last_sizes(input, 3)[0] * product(kernel)
    result = input.with_shape(with_last(input.shape, 3, columns, product(counts)))
    need_positive(input, counts, "the window", windows, input.with_shape(with_last(input.shape, 2, *counts)), related)
    return result


def joined_patches(
    input: Tensor,
    output_size: Value,
    kernel_size: Value,
    dilation: Value,
    padding: Value,
    stride: Value,
    related: tuple[Related, ...] = (),
) -> Tensor:
    """The image that columns of windows add up to."""
    need_rank(input, (2, 3), "fold", related)
    kernel, image = per_axis(kernel_size, 2), per_axis(output_size, 2)
    windows = tuple(map(extent, kernel, per_axis(dilation, 2)))
    counts = tuple(map(positions, image, windows, per_axis(stride, 2), per_axis(padding, 2)))
    columns, blocks = last_sizes(input, 2)
    area, expected = product(kernel), product(counts)
    result = input.with_shape(with_last(input.shape, 2, columns // area, *image))
    if isinstance(columns, int) and isinstance(area, int) and (area == 0 or columns % area):
        message = f"the {columns} rows of {input.shape} are not a multiple of the {area} elements of a window"
        raise Mismatch(RESHAPE_COUNT, message, result=result, tensors=(input,), related=related)
    if same(blocks, expected) is False:
        message = f"an image of {Shape(image)} has {expected} windows, but {input.shape} holds {blocks}"
        raise Mismatch(WINDOW_TOO_LARGE, message, result=result, tensors=(input,), related=related)
    return result


@native_class("torch.nn.Unfold")
class Unfold(Module):
    """`nn.Unfold`."""

    kernel_size: Value
    dilation: Value = 1
    padding: Value = 0
    stride: Value = 1

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        return patches(input, self.kernel_size, self.dilation, self.padding, self.stride, origin(call))


@shape_rule("torch.nn.functional.unfold")
def unfold(input: Tensor, kernel_size: Value, dilation: Value = 1, padding: Value = 0, stride: Value = 1) -> Tensor:
    """`F.unfold`."""
    return patches(input, kernel_size, dilation, padding, stride)


@native_class("torch.nn.Fold")
class Fold(Module):
    """`nn.Fold`."""

    output_size: Value
    kernel_size: Value
    dilation: Value = 1
    padding: Value = 0
    stride: Value = 1

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        return joined_patches(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride, origin(call))


@shape_rule("torch.nn.functional.fold")
def fold(
    input: Tensor, output_size: Value, kernel_size: Value, dilation: Value = 1, padding: Value = 0, stride: Value = 1
) -> Tensor:
    """`F.fold`."""
    return joined_patches(input, output_size, kernel_size, dilation, padding, stride)


# -- grids ------------------------------------------------------------------------------------------------------------


@shape_rule("torch.nn.functional.grid_sample")
def grid_sample(
    input: Tensor, grid: Tensor, mode: Value = "bilinear", padding_mode: Value = "zeros", align_corners: Value = None
) -> Tensor:
    """`F.grid_sample`: the pixels of an image at the points of a grid."""
    shape, points = input.shape, grid.shape
    ranks = {rank for rank in (shape.rank, points.rank) if rank is not None}
    if not ranks:
        raise NotKnown
    wrong = len(ranks) > 1 or not ranks <= {4, 5}
    if wrong or same(shape[0], points[0]) is False or same(points[-1], max(ranks) - 2) is False:
        message = f"grid_sample takes images (N, C, H, W) and a grid (N, H, W, 2), not {shape} and {points}"
        raise Mismatch(WRONG_RANK, message, tensors=(input, grid))
    if points.rank is None:
        return input.with_shape(Shape((shape[0], shape[1], *(unknown() for _ in range(max(ranks) - 2)))))
    return input.with_shape(Shape((points.dims[0], shape[1], *points.dims[1:-1])))


@shape_rule("torch.nn.functional.affine_grid")
def affine_grid(theta: Tensor, size: Value, align_corners: Value = None) -> Value:
    """`F.affine_grid`: the points of images of a size (N, C, H, W)."""
    sizes = as_sizes(size)
    if len(sizes) not in (4, 5):
        return UNKNOWN
    axes = len(sizes) - 2
    wanted = Shape((sizes[0], axes, axes + 1))
    wrong = theta.shape.rank not in (None, 3) or any(
        same(a, b) is False for a, b in zip(theta.shape.last(3), wanted.dims, strict=False)
    )
    result = theta.with_shape(Shape((sizes[0], *sizes[2:], axes)))
    if wrong:
        raise Mismatch(WRONG_RANK, f"affine_grid needs maps of {wanted}, not {theta.shape}", result=result, tensors=(theta,))
    return result
