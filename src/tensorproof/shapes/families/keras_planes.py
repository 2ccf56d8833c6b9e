"""Images, volumes and sequences as Keras lays them out: batch, spatial axes, channels (first or last)."""

from __future__ import annotations

from tensorproof.shapes.families.keras_layers import need_rank
from tensorproof.shapes.rule_table import Call
from tensorproof.shapes.shape import Shape, of_rank
from tensorproof.shapes.sizes import Size
from tensorproof.shapes.values import Tensor, Value


def split_planes(call: Call, input: Tensor, axes: int, data_format: Value) -> tuple[Size, tuple[Size, ...], Size]:
    """Batch, spatial sizes and channels of an input with that many spatial axes."""
    dims = need_rank(call, input, axes + 2, of_rank(axes + 2)).shape.dims
    if data_format == "channels_first":
        return dims[0], dims[2:], dims[1]
    return dims[0], dims[1:-1], dims[-1]


def join_planes(batch: Size, spatial: tuple[Size, ...], channels: Size, data_format: Value) -> Shape:
    if data_format == "channels_first":
        return Shape((batch, channels, *spatial))
    return Shape((batch, *spatial, channels))
