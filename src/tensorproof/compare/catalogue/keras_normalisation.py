"""Normalising layers of Keras."""

from __future__ import annotations

from tensorproof.compare.catalogue.layer_kind import ANY_RANK, Arguments, LayerKind, Shape, alone, axis_of, only, require
from tensorproof.compare.catalogue.parameters import Parameter, flag, is_count, is_list, listed, number
from tensorproof.compare.spec import Json

_EPSILON = number(0.001, 1e-5, 0.1, illegal=("small", None), low=0.0)
_SCALED = {"center": flag(True), "scale": flag(True)}


def axes_of(value: Json, rank: int) -> tuple[int, ...]:
    """One axis or a list of them, each once and none of them the batch."""
    require(not is_list(value) or len(value) > 0)
    axes = tuple(axis_of(axis, rank) for axis in value) if is_list(value) else (axis_of(value, rank),)
    require(len(set(axes)) == len(axes) and 0 not in axes)
    return axes


def along(shape: Shape, arguments: Arguments) -> Shape:
    """Along one axis or several."""
    axes_of(arguments["axis"], len(shape))
    return shape


def channel(shape: Shape, arguments: Arguments) -> Shape:
    """One axis, which keeps its own mean and variance."""
    require(not is_list(arguments["axis"]))
    return along(shape, arguments)


def grouped(shape: Shape, arguments: Arguments) -> Shape:
    """Groups divide the channels; -1 is a group for each."""
    (axis,) = axes_of(arguments["axis"], len(shape))
    groups = shape[axis] if arguments["groups"] == -1 else arguments["groups"]
    require(groups <= shape[axis] and shape[axis] % groups == 0)
    return shape


def given(shape: Shape, arguments: Arguments) -> Shape:
    """Mean and variance are both given, with a number for all or one for each entry of the axis, or neither."""
    mean, variance = arguments["mean"], arguments["variance"]
    require((mean is None) == (variance is None))
    axis = arguments["axis"]
    axes = () if axis is None else axes_of(axis, len(shape))
    if is_list(mean):
        require(is_list(variance, len(mean)) and len(axes) == 1 and len(mean) in (1, shape[axes[0]]))
    else:
        require(not is_list(variance))
    return shape


def _axis(*more: Json) -> Parameter:
    return listed(-1, 1, *more, illegal=(9, -9, "channels", 1.5, None))


KINDS = (
    LayerKind(
        "BatchNormalization",
        "keras",
        "normalisation",
        only(channel),
        alone(*ANY_RANK),
        {
            "axis": _axis(2),
            "momentum": number(0.99, 0.5, 0.0, illegal=("much", None), low=0.0, high=1.0),
            "epsilon": _EPSILON,
            **_SCALED,
        },
        is_audee=True,
    ),
    LayerKind(
        "LayerNormalization",
        "keras",
        "normalisation",
        only(along),
        alone(*ANY_RANK),
        {"axis": _axis([1, 2], [-1, 1], [-2, -1]), "epsilon": _EPSILON, **_SCALED},
    ),
    LayerKind(
        "GroupNormalization",
        "keras",
        "normalisation",
        only(grouped),
        alone(*ANY_RANK),
        {
            # Keras' own default of 32 groups fits no small input.
            "groups": Parameter(
                2, (2, 1, -1, 4), (0, -2, 1.5, "two", None, 7), lambda value: value == -1 or is_count(value), required=True
            ),
            "axis": _axis(2),
            "epsilon": _EPSILON,
            **_SCALED,
        },
    ),
    LayerKind(
        "RMSNormalization",
        "keras",
        "normalisation",
        only(along),
        alone(*ANY_RANK),
        {"axis": _axis([1, 2]), "epsilon": number(1e-6, 1e-3, 0.1, illegal=("small", None), low=0.0)},
    ),
    LayerKind(
        "UnitNormalization",
        "keras",
        "normalisation",
        only(along),
        alone(*ANY_RANK),
        {"axis": _axis([1, 2], [-1])},
    ),
    LayerKind(
        "Normalization",
        "keras",
        "normalisation",
        only(given),
        alone(*ANY_RANK),
        {
            "axis": listed(-1, 1, None, illegal=(9, -9, "channels")),
            "mean": listed(None, 0.5, [0.5], [0.5, -1.0, 2.0, 0.0], illegal=(1.0, [[0.0]])),
            "variance": listed(None, 2.0, [2.0], [2.0, 1.0, 0.5, 4.0], illegal=(1.0,)),
            "invert": flag(False),
        },
    ),
)
