"""Images, volumes and sequences as Keras lays them out: batch, spatial axes, channels (first or last)."""

from __future__ import annotations

from tensorproof.shapes.families.keras_layers import need_rank
from tensorproof.shapes.rule_table import Call, shape_rule
from tensorproof.shapes.shape import Shape, of_rank
from tensorproof.shapes.sizes import Size
from tensorproof.shapes.values import Tensor, Value


def channels_first(call: Call, data_format: Value) -> bool:
    """Whether the channels come before the spatial axes; None means the order that the program set for all layers."""
    return (call.run.image_data_format if data_format is None else data_format) == "channels_first"


def split_planes(call: Call, input: Tensor, axes: int, data_format: Value) -> tuple[Size, tuple[Size, ...], Size]:
    """Batch, spatial sizes and channels of an input with that many spatial axes."""
    dims = need_rank(call, input, axes + 2, of_rank(axes + 2)).shape.dims
    if channels_first(call, data_format):
        return dims[0], dims[2:], dims[1]
    return dims[0], dims[1:-1], dims[-1]


def join_planes(call: Call, batch: Size, spatial: tuple[Size, ...], channels: Size, data_format: Value) -> Shape:
    """The shape of which these are the parts."""
    if channels_first(call, data_format):
        return Shape((batch, channels, *spatial))
    return Shape((batch, *spatial, channels))


@shape_rule("keras.backend.set_image_data_format", "keras.config.set_image_data_format", "keras.backend.set_image_dim_ordering")
def set_image_data_format(call: Call, data_format: Value) -> Value:
    """The order of axes for all layers made from here on."""
    names = {"channels_first": "channels_first", "th": "channels_first"}
    call.run.image_data_format = names.get(data_format, "channels_last") if isinstance(data_format, str) else "unknown"
    return None


@shape_rule("keras.backend.image_data_format", "keras.config.image_data_format")
def image_data_format(call: Call) -> Value:
    """The order of axes that layers take by default."""
    return call.run.image_data_format


@shape_rule("keras.backend.image_dim_ordering")
def image_dim_ordering(call: Call) -> Value:
    """The same in the words of older programs."""
    return "th" if call.run.image_data_format == "channels_first" else "tf"
