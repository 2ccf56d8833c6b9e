"""Transposed convolutions: the gradient of a convolution at its input, in one to three dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.activation_functions import activate
from tensorproof.compare.reference.convolutions import channels_as_given, channels_last, rank_of
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


def _weights(shapes: list[Shape], parameters: Parameters) -> list[Weight]:
    window = parameters.sizes("kernel_size", rank_of(parameters.kind))
    depth = shapes[0][1] if parameters.is_channels_first else shapes[0][-1]
    bias = [Weight("bias", (parameters["filters"],))] if parameters["use_bias"] else []
    return [Weight("kernel", (*window, parameters["filters"], depth)), *bias]


def _result_size(size: int, span: int, stride: int, padding: str, extra: int | None) -> int:
    """Length of a result; without `output_padding` `same` gives size * stride, `valid` at least (size - 1) * stride + span."""
    if padding == "same":
        return size * stride if extra is None else (size - 1) * stride + span % 2 + extra
    return (size - 1) * stride + (max(span, stride) if extra is None else span + extra)


def scatter(x: Array, kernel: Array, strides: Sequence[int], dilation: Sequence[int]) -> Array:
    """Add a scaled copy of the kernel (*window, filters, channels) for every element of (batch, ..., channels)."""
    window = kernel.shape[:-2]
    sizes = x.shape[1:-1]
    spans = [(size - 1) * step + 1 for size, step in zip(window, dilation, strict=True)]
    full = [(size - 1) * stride + span for size, stride, span in zip(sizes, strides, spans, strict=True)]
    result = np.zeros((x.shape[0], *full, kernel.shape[-2]))
    for place in itertools.product(*map(range, window)):
        starts = [index * step for index, step in zip(place, dilation, strict=True)]
        where = tuple(
            slice(start, start + (size - 1) * stride + 1, stride)
            for start, size, stride in zip(starts, sizes, strides, strict=True)
        )
        result[(slice(None), *where, slice(None))] += x @ kernel[place].T
    return result


def _fitted(x: Array, axis: int, wanted: int) -> Array:
    """An axis cut to a length: half of what is too much before, the rest after; zeros after what is too short."""
    excess = x.shape[axis] - wanted
    if excess < 0:
        pads = [(0, 0)] * x.ndim
        pads[axis] = (0, -excess)
        return np.pad(x, pads)
    start = excess // 2
    return np.take(x, range(start, start + wanted), axis=axis)


@layer(
    *(f"{name}{rank}DTranspose" for name in ("Conv", "Convolution") for rank in (1, 2, 3)),
    accuracy=Accuracy.SUM,
    parameters={
        "filters": REQUIRED,
        "kernel_size": REQUIRED,
        "strides": 1,
        "padding": "valid",
        "output_padding": None,
        "data_format": None,
        "dilation_rate": 1,
        "activation": None,
        "use_bias": True,
    },
    weights=_weights,
)
def transposed_convolution(call: Call) -> Outcome:
    """What a convolution with the same parameters maps to the input's shape, transposed."""
    parameters = call.parameters
    rank = rank_of(call.kind)
    parameters.refuse("padding", ("valid", "same"))
    strides, dilation = parameters.sizes("strides", rank), parameters.sizes("dilation_rate", rank)
    extras: Sequence[int | None] = (None,) * rank
    if parameters["output_padding"] is not None:
        extras = parameters.sizes("output_padding", rank)
        if any(extra >= stride or extra < 0 for extra, stride in zip(parameters.sizes("output_padding", rank), strides)):
            raise NoReference(call.kind, f"output_padding {extras} for strides {strides}")
    if max(strides) > 1 and max(dilation) > 1:
        raise NoReference(call.kind, f"strides {strides} with dilation {dilation}")
    x = channels_last(call.only, parameters.is_channels_first)
    result = scatter(x, call.weights[0], strides, dilation)
    for index, (size, window) in enumerate(zip(x.shape[1:-1], parameters.sizes("kernel_size", rank), strict=True)):
        span = (window - 1) * dilation[index] + 1
        wanted = _result_size(size, span, strides[index], parameters["padding"], extras[index])
        cut = result
        if parameters["padding"] == "valid":
            pads = [(0, 0)] * cut.ndim
            pads[index + 1] = (0, wanted - cut.shape[index + 1])
            result = np.pad(cut, pads)
        else:
            result = _fitted(cut, index + 1, wanted)
    if parameters["use_bias"]:
        result = result + call.weights[1]
    result = channels_as_given(result, parameters.is_channels_first)
    return activate(call.kind, parameters["activation"], call.rounded("sum", result))
