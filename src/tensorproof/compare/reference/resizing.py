"""Images in another size, with values between the given ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.convolutions import channels_as_given, channels_last
from tensorproof.compare.reference.layer_table import REQUIRED, Accuracy, Call, NoReference, Outcome, Parameters, layer


def _matrix(size: int, wanted: int, interpolation: str) -> Array:
    """Weights of old places for new ones. Places are the middles of pixels; beyond the last middle its value goes on."""
    middles = (np.arange(wanted) + 0.5) * size / wanted - 0.5
    weights = np.zeros((wanted, size))
    if interpolation == "nearest":
        # The pixel that the middle lies in.
        weights[np.arange(wanted), np.minimum(np.floor((np.arange(wanted) + 0.5) * size / wanted), size - 1).astype(int)] = 1.0
        return weights
    places = np.clip(middles, 0, size - 1)
    low = np.minimum(np.floor(places).astype(int), size - 1)
    share = places - low
    np.add.at(weights, (np.arange(wanted), low), 1.0 - share)
    np.add.at(weights, (np.arange(wanted), np.minimum(low + 1, size - 1)), share)
    return weights


def resize(kind: str, images: Array, sizes: Sequence[int], interpolation: str) -> Array:
    """(batch, height, width, channels) in another size. Which cubic, and what at the border, the documentation leaves open."""
    if interpolation not in ("nearest", "bilinear"):
        raise NoReference(kind, f"interpolation={interpolation!r}")
    result = images
    for axis, wanted in enumerate(sizes, start=1):
        matrix = _matrix(images.shape[axis], wanted, interpolation)
        result = np.moveaxis(np.tensordot(matrix, result, axes=(1, axis)), 0, axis)
    return result


def interpolation_accuracy(parameters: Parameters) -> Accuracy:
    """The nearest is selected."""
    return Accuracy.EXACT if parameters["interpolation"] == "nearest" else Accuracy.SUM


@layer(
    "Resizing",
    accuracy=interpolation_accuracy,
    parameters={
        "height": REQUIRED,
        "width": REQUIRED,
        "interpolation": "bilinear",
        "crop_to_aspect_ratio": False,
        "pad_to_aspect_ratio": False,
        "antialias": False,
        "data_format": None,
    },
)
def resizing(call: Call) -> Outcome:
    """Images of a given height and width."""
    parameters = call.parameters
    for name in ("crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias"):
        parameters.refuse(name, (False,))
    if call.only.ndim != 4:
        raise NoReference(call.kind, f"an input of {call.only.ndim} axes")
    images = channels_last(call.only, parameters.is_channels_first)
    sizes = parameters["height"], parameters["width"]
    return channels_as_given(resize(call.kind, images, sizes, parameters["interpolation"]), parameters.is_channels_first)


@layer("CenterCrop", accuracy=Accuracy.EXACT, parameters={"height": REQUIRED, "width": REQUIRED, "data_format": None})
def center_crop(call: Call) -> Outcome:
    """The middle of images; of an odd number of rows that go, the last one goes with the bottom."""
    if call.only.ndim != 4:
        raise NoReference(call.kind, f"an input of {call.only.ndim} axes")
    x = channels_last(call.only, call.parameters.is_channels_first)
    for axis, wanted in enumerate((call.parameters["height"], call.parameters["width"]), start=1):
        size = x.shape[axis]
        if not 0 < wanted <= size:
            raise NoReference(call.kind, f"{wanted} of {size}: the image would be resized")
        start = (size - wanted) // 2
        x = np.take(x, range(start, start + wanted), axis=axis)
    return channels_as_given(x, call.parameters.is_channels_first)
