"""Convolutions: plain, grouped, depthwise, separable, in one to three dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.activation_functions import activate
from tensorproof.compare.reference.layer_table import (
    REQUIRED,
    Accuracy,
    Call,
    NoReference,
    Outcome,
    Parameters,
    Shape,
    Weight,
    layer,
)


def channels_last(x: Array, is_first: bool) -> Array:
    """The array with its channels on the last axis."""
    return np.moveaxis(x, 1, -1) if is_first else x


def channels_as_given(x: Array, is_first: bool) -> Array:
    """The reverse of `channels_last`."""
    return np.moveaxis(x, -1, 1) if is_first else x


def padding_of(padding: str, size: int, window: int, stride: int) -> tuple[int, int]:
    """What is added before and after an axis. `same` gives ceil(size / stride) results; an odd one goes to the end."""
    if padding == "valid":
        return 0, 0
    if padding == "causal":
        return window - 1, 0
    total = max((-(-size // stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def windows_of(
    x: Array, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int], padding: str, fill: float = 0.0
) -> Array:
    """All windows over the inner axes of (batch, ..., channels): shape (batch, ..., channels, *window)."""
    rank = len(window)
    spans = [(size - 1) * step + 1 for size, step in zip(window, dilation, strict=True)]
    pads = [padding_of(padding, size, span, step) for size, span, step in zip(x.shape[1:-1], spans, strides, strict=True)]
    padded = np.pad(x, [(0, 0), *pads, (0, 0)], constant_values=fill)
    views: Array = sliding_window_view(padded, spans, axis=tuple(range(1, rank + 1)))
    outer = (slice(None), *(slice(None, None, step) for step in strides), slice(None))
    inner = tuple(slice(None, None, step) for step in dilation)
    return views[outer + inner]


def convolve(x: Array, kernel: Array, strides: Sequence[int], dilation: Sequence[int], padding: str, groups: int = 1) -> Array:
    """Correlation of (batch, ..., channels) with a kernel (*window, channels of a group, filters)."""
    rank = kernel.ndim - 2
    views = windows_of(x, kernel.shape[:rank], strides, dilation, padding)
    depth = kernel.shape[-2]
    filters = kernel.shape[-1] // groups
    parts: list[Array] = []
    for group in range(groups):
        part = views[(slice(None),) * (rank + 1) + (slice(group * depth, (group + 1) * depth),)]
        weight = np.moveaxis(kernel[..., group * filters : (group + 1) * filters], rank, 0)
        parts.append(np.tensordot(part, weight, axes=rank + 1))
    return np.concatenate(parts, axis=-1)


def convolve_depthwise(x: Array, kernel: Array, strides: Sequence[int], dilation: Sequence[int], padding: str) -> Array:
    """Every channel with its own kernels, (*window, channels, multiplier); results of a channel stay together."""
    rank = kernel.ndim - 2
    views = windows_of(x, kernel.shape[:rank], strides, dilation, padding)
    size = math.prod(kernel.shape[:rank])
    flat = views.reshape(*views.shape[: rank + 2], size)
    weight = kernel.reshape(size, *kernel.shape[rank:])
    result: Array = np.einsum("...ck,kcm->...cm", flat, weight)
    return result.reshape(*result.shape[:-2], result.shape[-2] * result.shape[-1])


def _channels(shape: Shape, parameters: Parameters) -> int:
    return shape[1] if parameters.is_channels_first else shape[-1]


def rank_of(kind: str) -> int:
    """The number of spatial axes, which stands in a layer's name."""
    return next(int(letter) for letter in kind if letter.isdigit())


def _bias(parameters: Parameters, filters: int) -> list[Weight]:
    return [Weight("bias", (filters,))] if parameters["use_bias"] else []


def _convolution_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    window = parameters.sizes("kernel_size", rank_of(parameters.kind))
    depth = _channels(shapes[0], parameters) // parameters["groups"]
    return [Weight("kernel", (*window, depth, parameters["filters"])), *_bias(parameters, parameters["filters"])]


def _depthwise_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    window = parameters.sizes("kernel_size", rank_of(parameters.kind))
    depth, multiplier = _channels(shapes[0], parameters), parameters["depth_multiplier"]
    return [Weight("kernel", (*window, depth, multiplier)), *_bias(parameters, depth * multiplier)]


def _separable_weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    rank = rank_of(parameters.kind)
    depth, multiplier = _channels(shapes[0], parameters), parameters["depth_multiplier"]
    return [
        Weight("depthwise_kernel", (*parameters.sizes("kernel_size", rank), depth, multiplier)),
        Weight("pointwise_kernel", (*(1,) * rank, depth * multiplier, parameters["filters"])),
        *_bias(parameters, parameters["filters"]),
    ]


_SHARED = {
    "kernel_size": REQUIRED,
    "strides": 1,
    "padding": "valid",
    "data_format": None,
    "dilation_rate": 1,
    "activation": None,
    "use_bias": True,
}


def _steps(call: Call) -> tuple[Shape, Shape, str]:
    """Strides, dilation and padding, checked."""
    rank = rank_of(call.kind)
    call.parameters.refuse("padding", ("valid", "same", "causal") if rank == 1 else ("valid", "same"))
    strides, dilation = call.parameters.sizes("strides", rank), call.parameters.sizes("dilation_rate", rank)
    if min(*strides, *dilation) < 1 or (max(strides) > 1 and max(dilation) > 1):
        raise NoReference(call.kind, f"strides {strides} with dilation {dilation}")
    return strides, dilation, call.parameters["padding"]


def _finished(call: Call, result: Array) -> Array:
    """Bias, activation, and the channels where they were."""
    if call.parameters["use_bias"]:
        result = result + call.weights[-1]
    result = channels_as_given(result, call.parameters.is_channels_first)
    return activate(call.kind, call.parameters["activation"], call.rounded("sum", result))


@layer(
    *(f"{name}{rank}D" for name in ("Conv", "Convolution") for rank in (1, 2, 3)),
    accuracy=Accuracy.SUM,
    parameters={**_SHARED, "filters": REQUIRED, "groups": 1},
    weights=_convolution_weights,
)
def convolution(call: Call) -> Outcome:
    """Convolution as networks have it: the kernel is not flipped."""
    strides, dilation, padding = _steps(call)
    groups = call.parameters["groups"]
    x = channels_last(call.only, call.parameters.is_channels_first)
    if x.shape[-1] % groups or call.parameters["filters"] % groups:
        raise NoReference(call.kind, f"{groups} groups of {x.shape[-1]} channels and {call.parameters['filters']} filters")
    return _finished(call, convolve(x, call.weights[0], strides, dilation, padding, groups))


@layer(
    "DepthwiseConv1D",
    "DepthwiseConv2D",
    accuracy=Accuracy.SUM,
    parameters={**_SHARED, "depth_multiplier": 1},
    weights=_depthwise_weights,
)
def depthwise_convolution(call: Call) -> Outcome:
    """Every channel by itself."""
    x = channels_last(call.only, call.parameters.is_channels_first)
    return _finished(call, convolve_depthwise(x, call.weights[0], *_steps(call)))


@layer(
    *(f"{name}{rank}D" for name in ("SeparableConv", "SeparableConvolution") for rank in (1, 2)),
    accuracy=Accuracy.SUM,
    parameters={**_SHARED, "filters": REQUIRED, "depth_multiplier": 1},
    weights=_separable_weights,
)
def separable_convolution(call: Call) -> Outcome:
    """Every channel by itself, then all channels at every place."""
    x = channels_last(call.only, call.parameters.is_channels_first)
    apart = convolve_depthwise(x, call.weights[0], *_steps(call))
    once = (1,) * rank_of(call.kind)
    return _finished(call, convolve(apart, call.weights[1], once, once, "valid"))
