"""Activations of Keras, and layers that do something in training only."""

from __future__ import annotations

from tensorproof.compare.catalogue.keras_normalisation import along
from tensorproof.compare.catalogue.layer_kind import (
    ANY_RANK,
    BY_SPATIAL,
    Arguments,
    LayerKind,
    Shape,
    alone,
    axis_of,
    only,
    require,
    unchanged,
)
from tensorproof.compare.catalogue.parameters import Parameter, choice, is_count, is_list, listed, number

#: All that `keras.activations` names and that have no parameter of their own to choose.
ACTIVATIONS = (
    "relu",
    "celu",
    "elu",
    "exponential",
    "gelu",
    "glu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_shrink",
    "softmax",
    "softplus",
    "softsign",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
    "squareplus",
    "tanh",
    "tanh_shrink",
    "threshold",
)

_RATE = number(0.5, 0.0, 0.2, illegal=(-0.5, 1.5, "half", None), low=0.0, high=1.0, required=True)


def activated(shape: Shape, arguments: Arguments) -> Shape:
    """A gated linear unit halves the last axis; the others leave the shape alone."""
    if arguments["activation"] == "glu":
        require(shape[-1] % 2 == 0)
        return (*shape[:-1], shape[-1] // 2)
    return shape


def shared(shape: Shape, arguments: Arguments) -> Shape:
    """Slopes may be shared along axes other than the batch."""
    axes = arguments["shared_axes"]
    if axes is not None:
        require(is_list(axes) and all(is_count(axis) and axis_of(axis, len(shape)) > 0 for axis in axes))
    return shape


def noise(shape: Shape, arguments: Arguments) -> Shape:
    """A dropout mask that is broadcast along axes of size 1."""
    wanted = arguments["noise_shape"]
    if wanted is not None:
        require(is_list(wanted, len(shape)))
        require(all(want is None or want in (1, size) for want, size in zip(wanted, shape)))
    return shape


def _kind(name: str, parameters: dict[str, Parameter], *, audee: bool = False) -> LayerKind:
    return LayerKind(name, "keras", "activation", only(unchanged), alone(*ANY_RANK), parameters, is_audee=audee)


def _random(name: str, parameters: dict[str, Parameter], rank: int | None = None) -> LayerKind:
    palette = alone(*(ANY_RANK if rank is None else BY_SPATIAL[rank]))
    rule = only(noise if "noise_shape" in parameters else unchanged)
    return LayerKind(name, "keras", "regularisation", rule, palette, parameters, is_random=True)


_NOISE = {"rate": _RATE, "noise_shape": listed(None, [None, 1], [None, 1, None], illegal=(7, [1, 1, 1, 1, 1, 1, 1]))}

KINDS = (
    LayerKind(
        "Activation",
        "keras",
        "activation",
        only(activated),
        alone(*ANY_RANK),
        {"activation": choice(*ACTIVATIONS, required=True, illegal=([],))},
        is_audee=True,
    ),
    _kind(
        "ReLU",
        {
            "max_value": number(None, 6.0, 0.0, 1.5, illegal=(-1.0, "six"), low=0.0),
            "negative_slope": number(0.0, 0.1, 1.5, illegal=(-0.5, "flat", None), low=0.0),
            "threshold": number(0.0, 0.5, 2.0, illegal=(-1.0, "zero", None), low=0.0),
        },
        audee=True,
    ),
    _kind("LeakyReLU", {"negative_slope": number(0.3, 0.0, 0.01, 1.5, illegal=("flat", None))}),
    _kind("ELU", {"alpha": number(1.0, 0.5, 2.0, 0.0, illegal=("one", None))}),
    LayerKind(
        "PReLU",
        "keras",
        "activation",
        only(shared),
        alone(*ANY_RANK),
        {"shared_axes": listed(None, [1], [1, 2], illegal=([9], [0], "all"))},
    ),
    LayerKind(
        "Softmax",
        "keras",
        "activation",
        only(along),
        alone(*ANY_RANK),
        {"axis": listed(-1, 1, [1, 2], [-2, -1], illegal=(9, -9, "last", None))},
    ),
    LayerKind(
        "ActivityRegularization",
        "keras",
        "regularisation",
        only(unchanged),
        alone(*ANY_RANK),
        {"l1": number(0.0, 0.5, illegal=("much",)), "l2": number(0.0, 0.5, illegal=("much",))},
    ),
    _random("Dropout", _NOISE),
    _random("AlphaDropout", _NOISE),
    _random("GaussianDropout", {"rate": _RATE}),
    _random("GaussianNoise", {"stddev": number(0.5, 0.0, 1.0, illegal=(-1.0, "much", None), low=0.0, required=True)}),
    _random("SpatialDropout1D", {"rate": _RATE}, 1),
    _random("SpatialDropout2D", {"rate": _RATE, "data_format": choice(None, "channels_last", "channels_first")}, 2),
    _random("SpatialDropout3D", {"rate": _RATE, "data_format": choice(None, "channels_last", "channels_first")}, 3),
)
