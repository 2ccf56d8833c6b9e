"""Layers of PyTorch without sizes of their own: activations, dropout, flattening, padding."""

from __future__ import annotations

from tensorproof.rules.shapes.layer_features import LAYER_FEATURES
from tensorproof.shapes.families.loss_layers import apply_as_part, apply_function
from tensorproof.shapes.families.modules import Module, correction, origin, parameter, write
from tensorproof.shapes.families.normalisation import need_least_rank, unchanged
from tensorproof.shapes.families.windows import need_rank
from tensorproof.shapes.rule_table import RULES, Call, Extent, Mismatch, native_class
from tensorproof.shapes.sizes import same
from tensorproof.shapes.values import ListValue, Tensor, Value, as_size


@native_class(
    "torch.nn.ReLU",
    "torch.nn.ReLU6",
    "torch.nn.LeakyReLU",
    "torch.nn.RReLU",
    "torch.nn.ELU",
    "torch.nn.CELU",
    "torch.nn.SELU",
    "torch.nn.GELU",
    "torch.nn.SiLU",
    "torch.nn.Mish",
    "torch.nn.LogSigmoid",
    "torch.nn.Tanh",
    "torch.nn.Tanhshrink",
    "torch.nn.Hardtanh",
    "torch.nn.Hardsigmoid",
    "torch.nn.Hardswish",
    "torch.nn.Hardshrink",
    "torch.nn.Softshrink",
    "torch.nn.Softplus",
    "torch.nn.Softsign",
    "torch.nn.Threshold",
    "torch.nn.Dropout",
    "torch.nn.AlphaDropout",
    "torch.nn.FeatureAlphaDropout",
)
class Elementwise(Module):
    """Layers that keep the shape of any input; their options do not matter to it."""

    first: Value = None
    second: Value = None
    third: Value = None
    inplace: Value = None
    p: Value = None
    approximate: Value = None
    negative_slope: Value = None
    alpha: Value = None
    beta: Value = None
    threshold: Value = None
    lambd: Value = None
    value: Value = None
    min_val: Value = None
    max_val: Value = None
    lower: Value = None
    upper: Value = None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        return unchanged(input)


@native_class("torch.nn.Sigmoid")
class Sigmoid(Elementwise):
    """`nn.Sigmoid`, told apart from the others: the logarithm of its result has a function of its own."""


@native_class("torch.nn.Identity")
class Identity(Module):
    """`nn.Identity` takes any arguments and gives back its input."""

    def setup(self, call: Call) -> Value:
        return None

    def __call__(self, call: Call, input: Value) -> Value:
        return input


class ChannelDropout(Module):
    """What `nn.Dropout1d`, `2d` and `3d` share."""

    dimensions = 0

    p: Value = 0.5
    inplace: Value = False

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        if self.dimensions == 1:
            need_rank(input, (2, 3), "Dropout1d", origin(call), unchanged(input))
        elif self.dimensions == 2:
            need_least_rank(input, 2, "Dropout2d", origin(call))
        return unchanged(input)


@native_class("torch.nn.Dropout1d")
class Dropout1d(ChannelDropout):
    """`nn.Dropout1d`."""

    dimensions = 1


@native_class("torch.nn.Dropout2d")
class Dropout2d(ChannelDropout):
    """`nn.Dropout2d`."""

    dimensions = 2


@native_class("torch.nn.Dropout3d")
class Dropout3d(ChannelDropout):
    """`nn.Dropout3d`."""

    dimensions = 3


class AlongAxis(Module):
    """What the softmax layers share; without an axis PyTorch guesses one."""

    function = ""

    dim: Value = None

    def __call__(self, call: Call, input: Value) -> Value:
        return apply_function(call, self.function, input, dim=self.dim)


@native_class("torch.nn.Softmax")
class Softmax(AlongAxis):
    """`nn.Softmax`."""

    function = "softmax"


@native_class("torch.nn.LogSoftmax")
class LogSoftmax(AlongAxis):
    """`nn.LogSoftmax`."""

    function = "log_softmax"


@native_class("torch.nn.Softmin")
class Softmin(AlongAxis):
    """`nn.Softmin`."""

    function = "softmin"


@native_class("torch.nn.GLU")
class GLU(Module):
    """`nn.GLU`."""

    dim: Value = -1

    def __call__(self, call: Call, input: Value) -> Value:
        return apply_function(call, "glu", input, dim=self.dim)


@native_class("torch.nn.PReLU")
class PReLU(Module):
    """`nn.PReLU`: one slope, or one per channel."""

    num_parameters: Extent = 1
    init: Value = 0.25
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        write(call, weight=parameter(self.num_parameters))
        return None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        rank, slopes = input.shape.rank, self.num_parameters
        channels = input.shape[1] if rank is None or rank > 1 else 1
        if slopes != 1 and same(slopes, channels) is False:
            message = f"the layer has {slopes} slopes, but its input {input.shape} has {channels} channels at axis 1"
            edits = correction(call, "num_parameters", channels)
            raise Mismatch(LAYER_FEATURES, message, result=unchanged(input), tensors=(input,), related=origin(call), edits=edits)
        return unchanged(input)


def _apply_method(call: Call, name: str, *arguments: Value) -> Value:
    full = f"torch.{name}"
    return apply_as_part(call, full if full in RULES else f"torch.Tensor.{name}", arguments, {})


@native_class("torch.nn.Flatten")
class Flatten(Module):
    """`nn.Flatten`."""

    start_dim: Value = 1
    end_dim: Value = -1

    def __call__(self, call: Call, input: Value) -> Value:
        return _apply_method(call, "flatten", input, self.start_dim, self.end_dim)


@native_class("torch.nn.Unflatten")
class Unflatten(Module):
    """`nn.Unflatten`."""

    dim: Value
    unflattened_size: Value

    def __call__(self, call: Call, input: Value) -> Value:
        return _apply_method(call, "unflatten", input, self.dim, self.unflattened_size)


# -- padding ----------------------------------------------------------------------------------------------------------


class Padding(Module):
    """What layers that pad the last axes share: `3`, or numbers for both ends of each axis, the last one first."""

    dimensions = 0
    mode = "constant"

    padding: Value
    value: Value = 0.0

    def __call__(self, call: Call, input: Value) -> Value:
        size = as_size(self.padding)
        ends: Value = self.padding if size is None else (size,) * (2 * self.dimensions)
        if isinstance(ends, ListValue) and ends.items is not None:
            ends = ends.items
        return apply_function(call, "pad", input, ends, self.mode)


def _declare(prefix: str, mode: str) -> None:
    """A class for each number of axes."""
    for axes in (1, 2, 3):
        fields = {"dimensions": axes, "mode": mode, "__doc__": f"`nn.{prefix}{axes}d`."}
        native_class(f"torch.nn.{prefix}{axes}d")(type(f"{prefix}{axes}d", (Padding,), fields))


for _prefix, _mode in (
    ("ZeroPad", "constant"),
    ("ConstantPad", "constant"),
    ("ReflectionPad", "reflect"),
    ("ReplicationPad", "replicate"),
    ("CircularPad", "circular"),
):
    _declare(_prefix, _mode)
