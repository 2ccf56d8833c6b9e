"""Blocks of space as channels or as samples, and back: TensorFlow's SpaceToDepth, SpaceToBatch and their inverses.

Blocks become axes of their own, and these are brought elsewhere; sizes of space are known, that of the batch may be computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.operators.movement import depth_to_space, space_to_depth

if TYPE_CHECKING:
    from tensorproof.frontends.tensorflow_call import TensorflowCall


def _image(call: TensorflowCall) -> tuple[Any, int, int, int]:
    """Samples, height, width and channels of images, wherever channels stand."""
    layout = str(call.attribute("data_format", "NHWC"))
    if layout not in ("NHWC", "NCHW"):
        raise NotAnalysed(f"images laid out as {layout}")
    sizes: list[Any] = call.sizes(0)
    if layout == "NCHW":
        sizes = [sizes[0], *sizes[2:], sizes[1]]
    if not all(isinstance(size, int) for size in sizes[1:]):
        raise NotAnalysed("blocks of images whose size is not fixed")
    return sizes[0], sizes[1], sizes[2], sizes[3]


@space_to_depth.tensorflow("SpaceToDepth")
def _(call: TensorflowCall) -> int:
    """The place in a block is the outer part of the number of a channel."""
    samples, height, width, channels = _image(call)
    b = int(call.attribute("block_size"))
    h, w, x = height // b, width // b, call.operand(0)
    if call.is_channels_last:
        split = call.moved("Transpose", call.reshaped(x, [samples, h, b, w, b, channels]), perm=[0, 1, 3, 2, 4, 5])
        return call.reshaped(split, [samples, h, w, b * b * channels])
    split = call.moved("Transpose", call.reshaped(x, [samples, channels, h, b, w, b]), perm=[0, 3, 5, 1, 2, 4])
    return call.reshaped(split, [samples, b * b * channels, h, w])


@depth_to_space.tensorflow("DepthToSpace")
def _(call: TensorflowCall) -> int:
    samples, h, w, channels = _image(call)
    b = int(call.attribute("block_size"))
    deep, x = channels // (b * b), call.operand(0)
    if call.is_channels_last:
        split = call.moved("Transpose", call.reshaped(x, [samples, h, w, b, b, deep]), perm=[0, 1, 3, 2, 4, 5])
        return call.reshaped(split, [samples, h * b, w * b, deep])
    split = call.moved("Transpose", call.reshaped(x, [samples, b, b, deep, h, w]), perm=[0, 3, 4, 1, 5, 2])
    return call.reshaped(split, [samples, deep, h * b, w * b])


def _blocks(call: TensorflowCall) -> tuple[list[int], list[tuple[int, int]]]:
    """The sizes of blocks in each axis of space, and the borders that are put around it or cut off."""
    borders = call.known(2 if call.name.endswith("ND") else 1).reshape(-1, 2)
    block = call.integers_of(1) if call.name.endswith("ND") else [int(call.attribute("block_size"))] * len(borders)
    return block, [(int(before), int(behind)) for before, behind in borders]


def _space(call: TensorflowCall, count: int) -> tuple[list[int], list[Any]]:
    """Sizes of the axes of space, which are the first ones behind that of the samples, and of all others."""
    sizes = call.sizes(0)
    space = [size for size in sizes[1 : 1 + count] if isinstance(size, int)]
    if len(space) < count:
        raise NotAnalysed("blocks of a space whose size is not fixed")
    return space, sizes[1 + count :]


@space_to_depth.tensorflow("SpaceToBatch", "SpaceToBatchND")
def _(call: TensorflowCall) -> int:
    """A border of zeros, then the place in a block as the outer part of the number of a sample."""
    block, borders = _blocks(call)
    count = len(block)
    space, rest = _space(call, count)
    x = call.operand(0)
    if any(before or behind for before, behind in borders):
        widths = call.integers([*(before for before, _ in borders), *(behind for _, behind in borders)])
        x = call.moved("Pad", x, widths, call.constant(np.zeros(()), call.format()), call.integers(range(1, 1 + count)))
    space = [size + before + behind for size, (before, behind) in zip(space, borders)]
    inner = [size // b for size, b in zip(space, block)]
    split = call.reshaped(x, [call.sizes(0)[0], *(item for pair in zip(inner, block) for item in pair), *rest])
    places, spaces = range(2, 2 + 2 * count, 2), range(1, 1 + 2 * count, 2)
    turned = call.moved("Transpose", split, perm=[*places, 0, *spaces, *range(1 + 2 * count, 1 + 2 * count + len(rest))])
    return call.reshaped(turned, [_samples(call, math.prod(block), [*inner, *rest]), *inner, *rest])


@depth_to_space.tensorflow("BatchToSpace", "BatchToSpaceND")
def _(call: TensorflowCall) -> int:
    """The place in a block, which is the outer part of the number of a sample, back into space; then a border is cut off."""
    block, borders = _blocks(call)
    count = len(block)
    inner, rest = _space(call, count)
    samples = call.sizes(0)[0]
    own = samples // math.prod(block) if isinstance(samples, int) else -1
    split = call.reshaped(call.operand(0), [*block, own, *inner, *rest])
    pairs = [axis for place in range(count) for axis in (count + 1 + place, place)]
    turned = call.moved("Transpose", split, perm=[count, *pairs, *range(2 * count + 1, 2 * count + 1 + len(rest))])
    whole = [size * b for size, b in zip(inner, block)]
    x = call.reshaped(turned, [own, *whole, *rest])
    if not any(before or behind for before, behind in borders):
        return x
    starts = [before for before, _ in borders]
    ends = [size - behind for size, (_, behind) in zip(whole, borders)]
    return call.moved("Slice", x, *(call.integers(items) for items in (starts, ends, range(1, 1 + count))))


def _samples(call: TensorflowCall, times: int, others: Sequence[Any]) -> int:
    """The number of samples that blocks make, -1 for what is left over where it is not known."""
    samples = call.sizes(0)[0]
    if isinstance(samples, int):
        return samples * times
    if any(not isinstance(size, int) for size in others):
        raise NotAnalysed("blocks of tensors of which several sizes are not fixed")
    return -1
