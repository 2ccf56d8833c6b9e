"""Layers of Keras that prepare images, signals and categories."""

from __future__ import annotations

import math

from tensorproof.compare.catalogue.keras_convolution import joined, split, swept
from tensorproof.compare.catalogue.layer_kind import (
    ANY_RANK,
    IMAGES,
    Arguments,
    InputRule,
    LayerKind,
    Shape,
    alone,
    only,
    require,
    unchanged,
)
from tensorproof.compare.catalogue.parameters import channels_order, choice, count, flag, is_list, is_number, listed, number


def resized(shape: Shape, arguments: Arguments) -> Shape:
    """Images of a given size."""
    _, channels = split(shape, arguments)
    require(not (arguments.get("crop_to_aspect_ratio") and arguments.get("pad_to_aspect_ratio")))
    return joined(shape, (arguments["height"], arguments["width"]), channels, arguments)


def binned(shape: Shape, arguments: Arguments) -> Shape:
    """The number of the bin, or a vector with a one at it; vectors of one row together where several hot ones are asked for."""
    bounds = arguments["bin_boundaries"]
    require(is_list(bounds) and len(bounds) > 0 and all(is_number(bound) for bound in bounds))
    return _encoded(shape, len(bounds) + 1, arguments["output_mode"])


def counted(shape: Shape, arguments: Arguments) -> Shape:
    """Rows of numbers as vectors."""
    return _encoded(shape, arguments["num_tokens"], arguments["output_mode"])


def _encoded(shape: Shape, depth: int, mode: str) -> Shape:
    if mode == "int":
        return shape
    if mode == "one_hot":
        return (*shape[:-1], depth) if shape[-1] == 1 else (*shape, depth)
    return (*shape[:-1], depth)


def transformed(shape: Shape, arguments: Arguments) -> Shape:
    """Frames of a signal, each as a spectrum."""
    (steps,), channels = split(shape, arguments)
    length = arguments["frame_length"]
    step, points = arguments["frame_step"] or length // 2, arguments["fft_length"] or 2 ** math.ceil(math.log2(length))
    require(0 < step <= length and points >= length)
    bands = (points // 2 + 1) * (2 if arguments["mode"] == "stft" else 1)
    frames = swept(steps, length, step, arguments["padding"])
    if not arguments["expand_dims"]:
        return joined(shape, (frames,), bands * channels, arguments)
    return joined(shape, (frames, bands), channels, arguments)


_INTERPOLATION = choice("bilinear", "nearest", "bicubic", "lanczos3", "lanczos5")

KINDS = (
    LayerKind(
        "Rescaling",
        "keras",
        "preprocessing",
        only(unchanged),
        alone(*ANY_RANK),
        {
            "scale": number(0.5, 2.0, 0.0, -1.0, illegal=("half", None), required=True),
            "offset": number(0.0, 1.5, illegal=("zero", None)),
        },
    ),
    LayerKind(
        "Resizing",
        "keras",
        "preprocessing",
        only(resized),
        alone(*IMAGES),
        {
            "height": count(4, 8, 5, 1, required=True),
            "width": count(4, 8, 11, 1, required=True),
            "interpolation": _INTERPOLATION,
            "crop_to_aspect_ratio": flag(False),
            "pad_to_aspect_ratio": flag(False),
            "antialias": flag(False),
            "data_format": channels_order,
        },
    ),
    LayerKind(
        "CenterCrop",
        "keras",
        "preprocessing",
        only(resized),
        alone(*IMAGES),
        {"height": count(3, 2, 8, required=True), "width": count(2, 3, 9, required=True), "data_format": channels_order},
    ),
    LayerKind(
        "CategoryEncoding",
        "keras",
        "preprocessing",
        only(counted),
        alone((2, 8), (3, 5), (2, 1)),
        {"num_tokens": count(8, 9, required=True), "output_mode": choice("multi_hot", "one_hot", "count")},
        inputs=(InputRule("int32", ("integers",), "num_tokens"),),
        result_dtype="float32",
    ),
    LayerKind(
        "Discretization",
        "keras",
        "preprocessing",
        only(binned),
        alone((2, 8), (3, 5), (2, 1)),
        {
            "bin_boundaries": listed(
                [-1.0, 0.0, 1.0], [0.5], [-20.0, -1.0, -0.5, 0.0, 0.5, 1.0, 20.0], illegal=(None, "some", []), required=True
            ),
            "output_mode": choice("int", "one_hot", "multi_hot", "count"),
        },
        result_dtype="int32",
    ),
    LayerKind(
        "STFTSpectrogram",
        "keras",
        "preprocessing",
        only(transformed),
        alone((2, 16, 1), (1, 12, 2), (2, 9, 1)),
        {
            "frame_length": count(4, 8, 5, required=True),
            "frame_step": count(None, 2, 1, illegal=(100,)),
            "fft_length": count(None, 8, 16, illegal=(2,)),
            "mode": choice("log", "magnitude", "psd", "real", "imag", "angle", "stft"),
            "window": choice("hann", "hamming", None),
            "scaling": choice("density", "spectrum", None),
            "padding": choice("valid", "same", illegal=("causal",)),
            "expand_dims": flag(False),
            "data_format": channels_order,
        },
    ),
)
