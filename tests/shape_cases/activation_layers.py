"""Layers without sizes of their own."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.convolution import dimensions

_SIMPLE = (
    "ReLU ReLU6 LeakyReLU RReLU ELU CELU SELU GELU SiLU Mish Sigmoid LogSigmoid Tanh Tanhshrink Hardtanh Hardsigmoid Hardswish "
    "Hardshrink Softshrink Softplus Softsign Dropout AlphaDropout FeatureAlphaDropout Identity"
)
_OPTIONS = {"LeakyReLU": "0.2", "Dropout": "p=0.3", "ReLU": "inplace=True", "GELU": "approximate='tanh'", "Hardtanh": "0, 6"}


@cases(*(f"torch.nn.{name}" for name in _SIMPLE.split()))
def _(draw: Draw) -> str:
    options = _OPTIONS.get(draw.short, "") if draw.chance(0.5) else ""
    shape = draw.shape(0 if draw.short[0] != "F" else 2)
    # What follows is refused if the layer gives another number of elements.
    return f"nn.{draw.short}({options})({draw.array(shape)}).reshape({draw.elements(shape)})"


@cases("torch.nn.Threshold")
def _(draw: Draw) -> str:
    return f"nn.Threshold(0.1, 20.0)({draw.array(draw.shape())})"


@cases(*(f"torch.nn.Dropout{axes}d" for axes in (1, 2, 3)))
def _(draw: Draw) -> str:
    return f"nn.{draw.short}(0.5)({draw.array(draw.shape(1, 5, 3))})"


@cases("torch.nn.Softmax", "torch.nn.LogSoftmax", "torch.nn.Softmin", "torch.nn.GLU")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return f"nn.{draw.short}(dim={draw.axis(len(shape))})({draw.array(shape)})"


@cases("torch.nn.PReLU")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    count = draw.pick([1, shape[1] if len(shape) > 1 else 1, draw.integer(1, 5)])
    return f"nn.PReLU({count})({draw.array(shape)})"


@cases("torch.nn.Flatten")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 4)
    options = f"{draw.axis(len(shape), 0.1)}, {draw.axis(len(shape), 0.1)}" if draw.chance(0.6) else ""
    return f"nn.Flatten({options})({draw.array(shape)})"


@cases("torch.nn.Unflatten")
def _(draw: Draw) -> str:
    parts = draw.shape(1, 3, 3)
    total = parts[0] * (parts[1] if len(parts) > 1 else 1) * (parts[2] if len(parts) > 2 else 1)
    shape = (2, total if draw.chance(0.8) else total + 1)
    return f"nn.Unflatten({draw.pick([1, -1, 1, 2])}, {parts})({draw.array(shape)})"


@cases(
    *(f"torch.nn.{kind}Pad{axes}d" for kind in ("Zero", "Constant", "Reflection", "Replication", "Circular") for axes in (1, 2, 3))
)
def _(draw: Draw) -> str:
    axes = dimensions(draw)
    shape = [draw.integer(1, 2), draw.integer(1, 3), *(draw.integer(1, 4) for _ in range(axes))]
    if draw.chance(0.15):
        shape.pop(0)
    padding = str(draw.integer(0, 2)) if draw.chance(0.5) else str(tuple(draw.integer(0, 2) for _ in range(2 * axes)))
    value = ", 0.5" if "Constant" in draw.short else ""
    return f"nn.{draw.short}({padding}{value})({draw.array(shape)})"
