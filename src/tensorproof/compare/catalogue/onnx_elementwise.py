"""Operators of ONNX that work on each element by itself, alone or with those at the same place of other inputs."""

from __future__ import annotations

from dataclasses import replace

from tensorproof.compare.catalogue.layer_kind import Arguments, LayerKind, Misfit, Shape, Shapes, alone, only, require, unchanged
from tensorproof.compare.catalogue.parameters import Parameter, choice, is_list, is_number, listed, number
from tensorproof.compare.spec import Json

ONNX_SHAPES: tuple[Shape, ...] = ((2, 8), (3, 5), (1, 1), (2, 8, 4), (4, 4, 4), (2, 4, 8, 8), (1, 3, 7, 5))
_PAIRS: tuple[Shapes, ...] = (
    ((2, 8), (2, 8)),
    ((2, 8, 4), (2, 8, 4)),
    ((2, 8, 4), (4,)),
    ((2, 1, 4), (2, 8, 1)),
    ((4, 4, 4), (4, 4)),
    ((2, 4, 8, 8), (1, 4, 1, 1)),
    ((1, 1), (3, 5)),
)
_SEVERAL: tuple[Shapes, ...] = (*_PAIRS, ((2, 8), (2, 8), (2, 8)), ((2, 8, 4), (8, 1), (1,)))


def weight_shape(value: Json) -> Shape:
    """The shape of a constant operand that is drawn."""
    if isinstance(value, dict) and is_list(value.get("shape")):
        return tuple(value["shape"])
    raise Misfit


def stretched(shapes: Shapes) -> Shape:
    """Shapes counted from the last axis; axes of size 1 or missing ones are stretched (ONNX, "Multidirectional Broadcasting")."""
    rank = max(len(shape) for shape in shapes)
    sizes: list[int] = []
    for axis in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes)):
        wide = {size for size in axis if size != 1}
        require(len(wide) <= 1)
        sizes.append(wide.pop() if wide else 1)
    return tuple(sizes)


def pairwise(shapes: Shapes, arguments: Arguments) -> Shapes:
    """Two inputs."""
    require(len(shapes) == 2)
    return (stretched(shapes),)


def together(shapes: Shapes, arguments: Arguments) -> Shapes:
    """Any number of inputs."""
    return (stretched(shapes),)


def sloped(shape: Shape, arguments: Arguments) -> Shape:
    """A slope that stretches to the input."""
    slope = weight_shape(arguments["@1"])
    require(len(slope) <= len(shape) and stretched((shape, slope)) == shape)
    return shape


def clipped(shape: Shape, arguments: Arguments) -> Shape:
    """Bounds are single numbers."""
    require(all(arguments[name] is None or is_number(arguments[name]) for name in ("@1", "@2")))
    return shape


def _unary(name: str, **parameters: Parameter) -> LayerKind:
    return LayerKind(name, "onnx", "elementwise", only(unchanged), alone(*ONNX_SHAPES), parameters)


def _real(*legal: float) -> Parameter:
    return number(*legal, illegal=("much", [1.0, 2.0]))


_PLAIN = (
    "Relu",
    "Sigmoid",
    "Tanh",
    "Exp",
    "Log",
    "Sqrt",
    "Abs",
    "Neg",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Erf",
    "Softplus",
    "Softsign",
    "Reciprocal",
    "Sin",
    "Cos",
    "Atan",
    "Sinh",
    "HardSwish",
    "Mish",
    "Identity",
)

KINDS = (
    *(_unary(name) for name in _PLAIN),
    _unary("LeakyRelu", alpha=_real(0.01, 0.5, 1.5)),
    _unary("Elu", alpha=_real(1.0, 0.5, 2.0)),
    _unary("Selu", alpha=_real(1.67326319217681884765625, 1.0), gamma=_real(1.05070102214813232421875, 2.0)),
    # The standard knows it for float32 only.
    replace(_unary("Celu", alpha=_real(1.0, 0.5, 2.0)), dtypes=("float32",)),
    _unary("HardSigmoid", alpha=_real(0.2, 0.5), beta=_real(0.5, 0.0)),
    _unary("ThresholdedRelu", alpha=_real(1.0, 0.0, 2.0)),
    _unary("Shrink", bias=_real(0.0, 0.5), lambd=_real(0.5, 1.0)),
    _unary("Gelu", approximate=choice("none", "tanh")),
    LayerKind(
        "PRelu",
        "onnx",
        "elementwise",
        only(sloped),
        alone(*ONNX_SHAPES),
        {
            "@1": listed(
                {"shape": [1]},
                {"shape": [4]},
                {"shape": [8, 4]},
                {"shape": [4, 1, 1]},
                illegal=({"shape": [7, 9]},),
                required=True,
            )
        },
    ),
    LayerKind(
        "Clip",
        "onnx",
        "elementwise",
        only(clipped),
        alone(*ONNX_SHAPES),
        {"@1": listed(None, 0.0, -1.0, illegal=([1.0, 2.0],)), "@2": listed(None, 6.0, 0.5, illegal=([1.0, 2.0],))},
    ),
    *(LayerKind(name, "onnx", "elementwise", pairwise, _PAIRS) for name in ("Add", "Sub", "Mul", "Div", "Pow")),
    *(LayerKind(name, "onnx", "elementwise", together, _SEVERAL) for name in ("Max", "Min", "Mean", "Sum")),
)
