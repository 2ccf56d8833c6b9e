"""Convolutions of Keras, plain, transposed, depthwise and separable, over one to three axes."""

from __future__ import annotations

from tensorproof.compare.catalogue.layer_kind import BY_SPATIAL, Arguments, LayerKind, Shape, alone, only, require
from tensorproof.compare.catalogue.parameters import (
    Parameter,
    activation,
    channels_order,
    choice,
    count,
    flag,
    sizes,
    spread,
)


def split(shape: Shape, arguments: Arguments) -> tuple[Shape, int]:
    """Spatial sizes and channels of a batch."""
    if arguments.get("data_format") == "channels_first":
        return shape[2:], shape[1]
    return shape[1:-1], shape[-1]


def joined(shape: Shape, spatial: Shape, channels: int, arguments: Arguments) -> Shape:
    """A batch like `shape` with other spatial sizes and channels."""
    if arguments.get("data_format") == "channels_first":
        return (shape[0], channels, *spatial)
    return (shape[0], *spatial, channels)


def swept(size: int, window: int, stride: int, padding: str) -> int:
    """How many places a window has along an axis."""
    if padding == "valid":
        require(size >= window)
        return (size - window) // stride + 1
    return -(-size // stride)


def convolved(spatial: Shape, arguments: Arguments) -> Shape:
    """Spatial sizes after a convolution. Strides and dilation are not supported together."""
    rank = len(spatial)
    kernel, strides = spread(arguments["kernel_size"], rank), spread(arguments["strides"], rank)
    dilation = spread(arguments["dilation_rate"], rank)
    require(max(strides) == 1 or max(dilation) == 1)
    return tuple(swept(size, (k - 1) * d + 1, s, arguments["padding"]) for size, k, s, d in zip(spatial, kernel, strides, dilation))


def convolution(shape: Shape, arguments: Arguments) -> Shape:
    """`groups` divides the channels on both sides."""
    spatial, channels = split(shape, arguments)
    filters, groups = arguments["filters"], arguments["groups"]
    require(channels % groups == 0 and filters % groups == 0)
    return joined(shape, convolved(spatial, arguments), filters, arguments)


def depthwise(shape: Shape, arguments: Arguments) -> Shape:
    """Each channel by itself."""
    spatial, channels = split(shape, arguments)
    return joined(shape, convolved(spatial, arguments), channels * arguments["depth_multiplier"], arguments)


def separable(shape: Shape, arguments: Arguments) -> Shape:
    """Each channel by itself, then all of them at each place."""
    spatial, _ = split(shape, arguments)
    return joined(shape, convolved(spatial, arguments), arguments["filters"], arguments)


def transposed(shape: Shape, arguments: Arguments) -> Shape:
    """The shape whose convolution gives the input's shape; `output_padding` chooses among several."""
    spatial, _ = split(shape, arguments)
    rank = len(spatial)
    kernel, strides = spread(arguments["kernel_size"], rank), spread(arguments["strides"], rank)
    dilation = spread(arguments["dilation_rate"], rank)
    require(max(strides) == 1 or max(dilation) == 1)
    extra = None if arguments["output_padding"] is None else spread(arguments["output_padding"], rank)
    require(extra is None or all(e < s for e, s in zip(extra, strides)))
    grown: list[int] = []
    for axis, (size, k, s, d) in enumerate(zip(spatial, kernel, strides, dilation)):
        window = (k - 1) * d + 1
        if arguments["padding"] == "valid":
            grown.append((size - 1) * s + window + (max(window, s) - window if extra is None else extra[axis]))
        else:
            grown.append(size * s if extra is None else (size - 1) * s + window % 2 + extra[axis])
    require(min(grown) > 0)
    return joined(shape, tuple(grown), arguments["filters"], arguments)


def _shared(rank: int, *paddings: str) -> dict[str, Parameter]:
    uneven = [3, 2, 1][:rank]
    return {
        "kernel_size": sizes(rank, 3, 1, 2, *((uneven,) if rank > 1 else ()), required=True, illegal=(100,)),
        "strides": sizes(rank, 1, 2, 3, *(([2, 1, 1][:rank],) if rank > 1 else ())),
        "padding": choice("valid", "same", *paddings),
        "data_format": channels_order,
        "dilation_rate": sizes(rank, 1, 2, *(([1, 2, 1][:rank],) if rank > 1 else ()), illegal=(50,)),
        "activation": activation,
        "use_bias": flag(True),
    }


def _kinds(rank: int) -> list[LayerKind]:
    palette = alone(*BY_SPATIAL[rank])
    causal = ("causal",) if rank == 1 else ()
    filters = count(4, 1, 6, required=True)
    found = [
        LayerKind(
            f"Conv{rank}D",
            "keras",
            "convolution",
            only(convolution),
            palette,
            {"filters": filters, **_shared(rank, *causal), "groups": count(1, 2, 4, illegal=(7,))},
            is_audee=True,
        ),
        LayerKind(
            f"Conv{rank}DTranspose",
            "keras",
            "convolution",
            only(transposed),
            palette,
            {
                "filters": filters,
                **_shared(rank),
                "kernel_size": sizes(rank, 3, 1, 2, *(([3, 2, 1][:rank],) if rank > 1 else ()), required=True),
                "dilation_rate": sizes(rank, 1, 2),
                "output_padding": sizes(rank, None, 0, 1, least=0, illegal=(5,)),
            },
            is_audee=rank > 1,
        ),
    ]
    if rank < 3:
        multiplier = {"depth_multiplier": count(1, 2, 3)}
        found += [
            LayerKind(
                f"DepthwiseConv{rank}D",
                "keras",
                "convolution",
                only(depthwise),
                palette,
                {**_shared(rank), **multiplier},
                is_audee=rank == 2,
            ),
            LayerKind(
                f"SeparableConv{rank}D",
                "keras",
                "convolution",
                only(separable),
                palette,
                {"filters": filters, **_shared(rank), **multiplier},
                is_audee=True,
            ),
        ]
    return found


KINDS = tuple(kind for rank in (1, 2, 3) for kind in _kinds(rank))
