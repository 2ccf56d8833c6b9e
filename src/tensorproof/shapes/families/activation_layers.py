"""Layers of PyTorch without sizes of their own: activations, dropout, flattening, padding."""

from __future__ import annotations

from tensorproof.shapes.applying import apply_rule
from tensorproof.shapes.families.loss_layers import apply_function
from tensorproof.shapes.families.modules import Module
from tensorproof.shapes.families.normalisation import unchanged
from tensorproof.shapes.rule_table import RULES, Call, native_class
from tensorproof.shapes.sizes import Size
from tensorproof.shapes.values import UNKNOWN, ListValue, Tensor, Value, as_size


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
    "torch.nn.Sigmoid",
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


@native_class("torch.nn.Identity")
class Identity(Module):
    """`nn.Identity` takes any arguments and gives back its input."""

    def setup(self, call: Call) -> Value:
        return None

    def __call__(self, call: Call, input: Value) -> Value:
        return input


class ChannelDropout(Module):
    """What `nn.Dropout1d`, `2d` and `3d` share."""

    function = ""

    p: Value = 0.5
    inplace: Value = False

    def __call__(self, call: Call, input: Value) -> Value:
        return apply_function(call, self.function, input)


@native_class("torch.nn.Dropout1d")
class Dropout1d(ChannelDropout):
    function = "dropout1d"


@native_class("torch.nn.Dropout2d")
class Dropout2d(ChannelDropout):
    function = "dropout2d"


@native_class("torch.nn.Dropout3d")
class Dropout3d(ChannelDropout):
    function = "dropout3d"


class AlongAxis(Module):
    """What the softmax layers share; without an axis PyTorch guesses one."""

    function = ""

    dim: Value = None

    def __call__(self, call: Call, input: Value) -> Value:
        return apply_function(call, self.function, input, dim=self.dim)


@native_class("torch.nn.Softmax")
class Softmax(AlongAxis):
    function = "softmax"


@native_class("torch.nn.LogSoftmax")
class LogSoftmax(AlongAxis):
    function = "log_softmax"


@native_class("torch.nn.Softmin")
class Softmin(AlongAxis):
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

    num_parameters: Value = 1
    init: Value = 0.25
    device: Value = None
    dtype: Value = None

    def __call__(self, call: Call, input: Value) -> Value:
        size = as_size(self.num_parameters)
        slopes = Tensor() if size is None else _vector(size)
        return apply_function(call, "prelu", input, slopes)


def _vector(size: Size) -> Tensor:
    from tensorproof.shapes.families.modules import parameter

    return parameter(size)


def _apply_method(call: Call, name: str, *arguments: Value) -> Value:
    full = f"torch.{name}"
    rule = RULES.get(full) or RULES.get(f"torch.Tensor.{name}")
    return UNKNOWN if rule is None else apply_rule(call.run, call.place, rule, full, arguments, {})


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
