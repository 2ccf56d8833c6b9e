"""Seeds for activations, exponentials and trigonometric functions: attributes, old opsets, ONNX Runtime's fused forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.soundness.seeds.seed import Seed, seed

_RNG = np.random.default_rng(12)
MICROSOFT = "com.microsoft"


def _floats(*shape: int, scale: float = 2.0) -> np.ndarray[Any, Any]:
    return (scale * _RNG.standard_normal(shape)).astype(np.float32)


def _one(name: str, operator: str, *inputs: Any, **more: Any) -> Seed:
    return seed(operator, inputs, more.pop("attributes", None), name=f"{operator}-{name}", **more)


#: Attributes of each operator, its oldest opset from 7 on, beyond what the node cases of the standard have.
ATTRIBUTES: list[tuple[str, int, dict[str, Any]]] = [
    ("Relu", 7, {}),
    ("LeakyRelu", 7, {}),
    ("LeakyRelu", 7, {"alpha": 0.3}),
    ("LeakyRelu", 16, {"alpha": 1.5}),
    ("LeakyRelu", 16, {"alpha": -0.5}),
    ("ThresholdedRelu", 10, {"alpha": 0.3}),
    ("ThresholdedRelu", 22, {"alpha": -0.6}),
    ("Elu", 7, {"alpha": 0.7}),
    ("Elu", 22, {"alpha": 3.0}),
    ("Elu", 7, {"alpha": -1.5}),
    ("Selu", 7, {}),
    ("Selu", 22, {"alpha": 2.0, "gamma": 0.5}),
    ("Celu", 12, {"alpha": 0.6}),
    ("Celu", 28, {"alpha": 2.5}),
    ("Sigmoid", 7, {}),
    ("HardSigmoid", 7, {"alpha": 0.3, "beta": 0.6}),
    ("HardSigmoid", 22, {"alpha": -0.4, "beta": 1.2}),
    ("HardSwish", 14, {}),
    ("Softplus", 7, {}),
    ("Softsign", 7, {}),
    ("Mish", 18, {}),
    ("Gelu", 20, {"approximate": "none"}),
    ("Gelu", 20, {"approximate": "tanh"}),
    ("Swish", 24, {"alpha": 1.702}),
    ("Swish", 24, {"alpha": -0.8}),
    ("Swish", 24, {"alpha": 0.01}),
    ("Swish", 24, {"alpha": 0.0}),
    ("Shrink", 9, {"bias": 0.3, "lambd": 0.7}),
    ("Shrink", 9, {"bias": -0.4, "lambd": 0.0}),
    ("Shrink", 9, {"bias": 1.5, "lambd": -0.5}),
    ("Erf", 9, {}),
    ("Tanh", 7, {}),
    ("Sin", 7, {}),
    ("Cos", 7, {}),
    ("Tan", 7, {}),
    ("Atan", 7, {}),
    ("Sinh", 9, {}),
    ("Cosh", 9, {}),
    ("Asinh", 9, {}),
]

ACTIVATIONS = [
    _one(f"{number}", operator, _floats(2, 3, 2), attributes=attributes, opset=opset)
    for number, (operator, opset, attributes) in enumerate(ATTRIBUTES)
]

OTHERS = [
    *(_one("wide", operator, _floats(6, scale=40.0)) for operator in ("Sin", "Cos", "Tan", "Sigmoid", "Softplus", "Tanh")),
    *(_one("wide", operator, _floats(6, scale=8.0)) for operator in ("Gelu", "Mish", "Swish", "HardSwish", "Elu", "Erf")),
    *(_one("unit", operator, (0.3 * _floats(5)).clip(-0.9, 0.9), opset=7) for operator in ("Asin", "Acos")),
    *(_one("one", operator, np.array([0.2], np.float32)) for operator in ("Asin", "Acos", "Atanh")),
    _one("unit", "Atanh", (0.3 * _floats(5)).clip(-0.9, 0.9), opset=9),
    _one("above", "Acosh", 3.0 + np.abs(_floats(5)), opset=9),
    _one("wide", "Tan", np.array([0.1, 0.2, -0.3, 3.2], np.float32), opset=22),
    _one("opset7", "PRelu", _floats(2, 3, 2), _floats(3, 1), opset=7),
    _one("opset9", "PRelu", _floats(2, 3), _floats(1), opset=9, vary=[0]),
    _one("int", "PRelu", np.array([[-3, 2], [0, 5]], np.int32), np.array([2, -1], np.int32), opset=16, vary=[0, 1]),
    _one(
        "int",
        "Shrink",
        np.array([-5, -2, 0, 2, 5], np.int32),
        attributes={"bias": 1.5, "lambd": 1.5},
        opset=9,
        vary=[0],
    ),
    _one("uint", "Shrink", np.array([0, 2, 5, 9], np.uint8), attributes={"bias": 1.0, "lambd": 1.5}, opset=9, vary=[0]),
    _one("int", "Relu", np.array([-3, 0, 2], np.int32), opset=14, vary=[0]),
    _one("alpha", "SwiGLU", _floats(2, 3), _floats(2, 3), attributes={"alpha": 1.7}, opset=28),
    _one("one", "SwiGLU", _floats(2, 3), _floats(2, 3), opset=28),
]

CONTRIB = [
    _one("plain", "Gelu", _floats(2, 3), domain=MICROSOFT),
    _one("plain", "BiasGelu", _floats(2, 3), _floats(3), domain=MICROSOFT),
    _one("plain", "FastGelu", _floats(2, 3), domain=MICROSOFT),
    _one("bias", "FastGelu", _floats(2, 3), _floats(3), domain=MICROSOFT),
    _one("plain", "QuickGelu", _floats(2, 3), domain=MICROSOFT),
    _one("alpha", "QuickGelu", _floats(2, 3), attributes={"alpha": 0.8}, domain=MICROSOFT),
]

SEEDS = [*ACTIVATIONS, *OTHERS, *CONTRIB]
