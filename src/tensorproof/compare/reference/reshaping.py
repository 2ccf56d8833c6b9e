"""Layers that move data: shapes, order of axes, borders, repetition."""

from __future__ import annotations

import math

import numpy as np

from tensorproof.compare.drawing import Array
from tensorproof.compare.reference.convolutions import channels_as_given, channels_last, rank_of
from tensorproof.compare.reference.layer_table import REQUIRED, Accuracy, Call, NoReference, Outcome, layer
from tensorproof.compare.reference.resizing import interpolation_accuracy, resize


@layer("Reshape", accuracy=Accuracy.EXACT, parameters={"target_shape": REQUIRED})
def reshape(call: Call) -> Outcome:
    """Another shape for each sample; -1 is what is left."""
    target = list(call.parameters["target_shape"])
    if target.count(-1) > 1 or any(size < -1 for size in target):
        raise NoReference(call.kind, f"target_shape={target}")
    known = math.prod(size for size in target if size != -1)
    # A batch may have no samples, from which NumPy could not tell what is left.
    left = math.prod(call.only.shape[1:]) // known if known else 0
    return call.only.reshape(call.only.shape[0], *(left if size == -1 else size for size in target))


@layer("Flatten", accuracy=Accuracy.EXACT, parameters={"data_format": None})
def flatten(call: Call) -> Outcome:
    """One axis for each sample, with the channels last in it whatever the order of axes."""
    x = channels_last(call.only, call.parameters.is_channels_first and call.only.ndim > 1)
    return x.reshape(x.shape[0], int(np.prod(x.shape[1:])))


@layer("Permute", accuracy=Accuracy.EXACT, parameters={"dims": REQUIRED})
def permute(call: Call) -> Outcome:
    """Axes in another order, counted from 1."""
    return np.transpose(call.only, (0, *call.parameters["dims"]))


@layer("RepeatVector", accuracy=Accuracy.EXACT, parameters={"n": REQUIRED})
def repeat_vector(call: Call) -> Outcome:
    """Every sample's vector n times."""
    if call.only.ndim != 2:
        raise NoReference(call.kind, f"an input of {call.only.ndim} axes")
    return np.repeat(call.only[:, None], call.parameters["n"], axis=1)


def _borders(call: Call, name: str) -> list[tuple[int, int]]:
    """What is meant before and after each spatial axis: one number, one for each axis, or two for each axis."""
    rank = rank_of(call.kind)
    value = call.parameters[name]
    if isinstance(value, int):
        return [(value, value)] * rank
    entries = list(value)
    if rank == 1 and len(entries) == 2 and all(isinstance(entry, int) for entry in entries):
        return [(entries[0], entries[1])]
    if len(entries) != rank:
        raise NoReference(call.kind, f"{name}={value!r}")
    pairs = [(entry, entry) if isinstance(entry, int) else tuple(entry) for entry in entries]
    if any(len(pair) != 2 for pair in pairs):
        raise NoReference(call.kind, f"{name}={value!r}")
    return [(pair[0], pair[1]) for pair in pairs]


def _last(call: Call) -> Array:
    """The input with its channels last."""
    if call.only.ndim != rank_of(call.kind) + 2:
        raise NoReference(call.kind, f"an input of {call.only.ndim} axes")
    return channels_last(call.only, _is_first(call))


def _is_first(call: Call) -> bool:
    return "data_format" in call.parameters.values and call.parameters.is_channels_first


@layer("Cropping1D", accuracy=Accuracy.EXACT, parameters={"cropping": (1, 1)})
@layer("Cropping2D", accuracy=Accuracy.EXACT, parameters={"cropping": ((0, 0), (0, 0)), "data_format": None})
@layer("Cropping3D", accuracy=Accuracy.EXACT, parameters={"cropping": ((1, 1), (1, 1), (1, 1)), "data_format": None})
def cropping(call: Call) -> Outcome:
    """Without some steps at the beginning and the end."""
    x = _last(call)
    cuts = [slice(before, size - after) for (before, after), size in zip(_borders(call, "cropping"), x.shape[1:-1])]
    if any(cut.start < 0 or cut.stop > size or cut.stop <= cut.start for cut, size in zip(cuts, x.shape[1:-1])):
        raise NoReference(call.kind, "nothing is left")
    return channels_as_given(x[(slice(None), *cuts)], _is_first(call))


@layer("ZeroPadding1D", accuracy=Accuracy.EXACT, parameters={"padding": 1, "data_format": None})
@layer("ZeroPadding2D", accuracy=Accuracy.EXACT, parameters={"padding": (1, 1), "data_format": None})
@layer("ZeroPadding3D", accuracy=Accuracy.EXACT, parameters={"padding": ((1, 1), (1, 1), (1, 1)), "data_format": None})
def zero_padding(call: Call) -> Outcome:
    """With zeros at the beginning and the end."""
    padded = np.pad(_last(call), [(0, 0), *_borders(call, "padding"), (0, 0)])
    return channels_as_given(padded, _is_first(call))


@layer("UpSampling1D", accuracy=Accuracy.EXACT, parameters={"size": 2})
@layer("UpSampling3D", accuracy=Accuracy.EXACT, parameters={"size": 2, "data_format": None})
@layer("UpSampling2D", accuracy=interpolation_accuracy, parameters={"size": 2, "data_format": None, "interpolation": "nearest"})
def up_sampling(call: Call) -> Outcome:
    """Every step several times; in two dimensions also with values between."""
    x = _last(call)
    factors = call.parameters.sizes("size", rank_of(call.kind))
    if min(factors) < 1:
        raise NoReference(call.kind, f"size {factors}")
    if call.kind == "UpSampling2D" and call.parameters["interpolation"] != "nearest":
        wanted = [size * factor for size, factor in zip(x.shape[1:-1], factors, strict=True)]
        x = resize(call.kind, x, wanted, call.parameters["interpolation"])
    else:
        for axis, factor in enumerate(factors, start=1):
            x = np.repeat(x, factor, axis=axis)
    return channels_as_given(x, _is_first(call))
