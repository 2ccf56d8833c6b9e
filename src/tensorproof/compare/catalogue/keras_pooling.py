"""Pooling layers of Keras: by windows, over everything, and to a given size."""

from __future__ import annotations

from collections.abc import Callable

from tensorproof.compare.catalogue.keras_convolution import joined, split, swept
from tensorproof.compare.catalogue.layer_kind import BY_SPATIAL, Arguments, LayerKind, Shape, alone, only, require
from tensorproof.compare.catalogue.parameters import Parameter, channels_order, choice, flag, sizes, spread


def windows(shape: Shape, arguments: Arguments) -> Shape:
    """One number for each place of a window; windows do not overlap unless strides say so."""
    spatial, channels = split(shape, arguments)
    rank = len(spatial)
    window = spread(arguments["pool_size"], rank)
    strides = window if arguments["strides"] is None else spread(arguments["strides"], rank)
    places = tuple(swept(size, w, s, arguments["padding"]) for size, w, s in zip(spatial, window, strides))
    return joined(shape, places, channels, arguments)


def everything(shape: Shape, arguments: Arguments) -> Shape:
    """One number for each channel."""
    spatial, channels = split(shape, arguments)
    require(min(spatial) > 0)
    if arguments["keepdims"]:
        return joined(shape, (1,) * len(spatial), channels, arguments)
    return (shape[0], channels)


def to_size(shape: Shape, arguments: Arguments) -> Shape:
    """As many numbers as asked for, also more than there are."""
    spatial, channels = split(shape, arguments)
    return joined(shape, spread(arguments["output_size"], len(spatial)), channels, arguments)


def _kind(name: str, rank: int, rule: Callable[[Shape, Arguments], Shape], parameters: dict[str, Parameter]) -> LayerKind:
    audee = name.startswith(("Max", "Average")) or (name.startswith("Global") and rank < 3)
    ordered = {**parameters, "data_format": channels_order}
    return LayerKind(name, "keras", "pooling", only(rule), alone(*BY_SPATIAL[rank]), ordered, is_audee=audee)


def _window_parameters(rank: int, required: bool) -> dict[str, Parameter]:
    return {
        "pool_size": sizes(rank, 2, 3, 1, *(([3, 2, 1][:rank],) if rank > 1 else ()), required=required, illegal=(100,)),
        "strides": sizes(rank, None, 1, 2, 3),
        "padding": choice("valid", "same", illegal=("causal",)),
    }


def _kinds(rank: int) -> list[LayerKind]:
    # Keras gives the maximum a default window, the average none.
    return [
        _kind(f"MaxPooling{rank}D", rank, windows, _window_parameters(rank, False)),
        _kind(f"AveragePooling{rank}D", rank, windows, _window_parameters(rank, True)),
        _kind(f"GlobalMaxPooling{rank}D", rank, everything, {"keepdims": flag(False)}),
        _kind(f"GlobalAveragePooling{rank}D", rank, everything, {"keepdims": flag(False)}),
        _kind(f"AdaptiveMaxPooling{rank}D", rank, to_size, {"output_size": sizes(rank, 2, 1, 3, 10, required=True)}),
        _kind(f"AdaptiveAveragePooling{rank}D", rank, to_size, {"output_size": sizes(rank, 2, 1, 3, 10, required=True)}),
    ]


KINDS = tuple(kind for rank in (1, 2, 3) for kind in _kinds(rank))
