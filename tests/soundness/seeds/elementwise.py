"""Seeds for element-wise arithmetic, comparisons, choice and bits: old opsets, attributes and integer ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from tests.soundness.seeds.seed import Seed, seed

_RNG = np.random.default_rng(11)


def _floats(*shape: int, scale: float = 2.0) -> np.ndarray[Any, Any]:
    return (scale * _RNG.standard_normal(shape)).astype(np.float32)


def _positive(*shape: int) -> np.ndarray[Any, Any]:
    return (0.25 + 2.0 * _RNG.random(shape)).astype(np.float32)


def _integers(dtype: Any, *shape: int, low: int = -9, high: int = 10) -> np.ndarray[Any, Any]:
    return _RNG.integers(low, high, shape).astype(dtype)


def _truths(*shape: int) -> np.ndarray[Any, Any]:
    return _RNG.random(shape) < 0.5


def _one(name: str, operator: str, inputs: Sequence[Any], **more: Any) -> Seed:
    return seed(operator, inputs, more.pop("attributes", None), name=f"{operator}-{name}", **more)


ARITHMETIC = [
    _one("one", "Sum", [_floats(2, 3)]),
    _one("two", "Sum", [_floats(2, 3), _floats(3)], opset=8),
    _one("five", "Sum", [_floats(2, 1), _floats(3), _floats(2, 3), _floats(), _floats(1, 3)]),
    _one("opset7", "Sum", [_floats(4), _floats(4), _floats(4)], opset=7),
    _one("cancelling", "Sum", [_floats(4, scale=100.0), _floats(4, scale=100.0), _floats(4), _floats(4, scale=0.01)]),
    _one("one", "Mean", [_floats(2, 3)]),
    _one("three", "Mean", [_floats(2, 3), _floats(3), _floats(2, 1)], opset=8),
    _one("seven", "Mean", [_floats(3) for _ in range(7)], opset=13),
    _one("fmod", "Mod", [_floats(3, 4, scale=5.0), _floats(4)], attributes={"fmod": 1}),
    _one("fmod-constant", "Mod", [_floats(3, 4), np.float32(3.0)], attributes={"fmod": 1}, vary=[0], opset=10),
    _one("fmod-wide", "Mod", [_floats(8), np.float32(-64.0)], attributes={"fmod": 1}, vary=[0]),
    _one("floor", "Mod", [_floats(3, 4, scale=5.0), _floats(4)], opset=28),
    _one("floor-constant", "Mod", [_floats(3, 4), np.float32(4.0)], vary=[0], opset=28),
    _one("floor-negative", "Mod", [_floats(3, 4), np.float32(-2.5)], vary=[0], opset=28),
    _one("int", "Mod", [_integers(np.int32, 3, 4, low=-20, high=20), np.int32(7)], vary=[0]),
    _one("int-negative", "Mod", [_integers(np.int32, 3, 4), np.int32(-5)], vary=[0], opset=10),
    _one("int-fmod", "Mod", [_integers(np.int64, 3, 4), np.int64(-4)], attributes={"fmod": 1}, vary=[0], opset=13),
    _one("int-both", "Mod", [_integers(np.int32, 6, low=3, high=30), _integers(np.int32, 6, low=9, high=12)], vary=[0]),
    _one("uint", "Mod", [_integers(np.uint8, 6, low=0, high=100), np.uint8(9)], vary=[0]),
    _one("div-int", "Div", [_integers(np.int32, 6), np.int32(-3)], vary=[0]),
    _one("abs-int", "Abs", [_integers(np.int32, 6)], vary=[0]),
    _one("opset7", "Add", [_floats(2, 3), _floats(3)], opset=7),
    _one("opset7", "Reciprocal", [_positive(5)], opset=7),
    _one("opset8", "Max", [_floats(2, 3), _floats(3), _floats(1)], opset=8),
    _one("opset8", "Min", [_floats(2, 3), _floats(3), _floats(1)], opset=8),
]

POWERS = [
    _one(f"constant{exponent}", "Pow", [_floats(2, 4), np.float32(exponent)], vary=[0])
    for exponent in (2.0, 3.0, 0.0, 1.0, 4.0, -1.0, -2.0)
] + [
    _one("root", "Pow", [_positive(5), np.float32(0.5)], vary=[0], opset=7),
    _one("inverse-root", "Pow", [_positive(5), np.float32(-0.5)], vary=[0], opset=12),
    _one("both", "Pow", [_positive(2, 3), _floats(3)]),
    _one("any-base", "Pow", [_floats(2, 3), _floats(3)], opset=13),
    _one("int-exponent", "Pow", [_floats(2, 4), _integers(np.int64, 4, low=-3, high=5)], vary=[0, 1]),
    _one("int-exponent-fixed", "Pow", [_floats(2, 4), _integers(np.int32, 4, low=0, high=5)], vary=[0], opset=12),
    _one("int", "Pow", [_integers(np.int32, 2, 4), _integers(np.int32, 4, low=0, high=4)], vary=[0], opset=12),
    _one("int-both", "Pow", [_integers(np.int64, 4), _integers(np.int64, 4, low=0, high=4)], vary=[0, 1]),
    _one("int-float", "Pow", [_integers(np.int32, 4, low=1, high=9), np.float32(1.5)], vary=[0]),
    _one("unsigned-exponent", "Pow", [_floats(4), _integers(np.uint8, 4, low=0, high=5)], vary=[0, 1]),
]

BOOL = [TensorProto.BOOL]

COMPARISONS = [
    _one(f"{kind}-{opset}", operator, operands, opset=opset, output_types=BOOL, vary=[0, 1])
    for operator, opset, kind, operands in (
        ("Equal", 7, "int", [_integers(np.int32, 2, 3, low=0, high=3), _integers(np.int32, 3, low=0, high=3)]),
        ("Equal", 7, "bool", [_truths(2, 3), _truths(3)]),
        ("Equal", 11, "float", [np.array([0, 1, 2, -0.0], np.float32), np.array([0, 1, 3, 0.0], np.float32)]),
        ("Equal", 19, "point", [_floats(4), np.float32(1.0)]),
        ("Greater", 7, "float", [_floats(2, 3), _floats(3)]),
        ("Greater", 9, "int", [_integers(np.int64, 2, 3), _integers(np.int64, 3)]),
        ("GreaterOrEqual", 12, "float", [_floats(2, 3), _floats(3)]),
        ("Less", 7, "float", [_floats(2, 3), _floats(3)]),
        ("Less", 13, "uint", [_integers(np.uint8, 4, low=0), _integers(np.uint8, 4, low=0)]),
        ("LessOrEqual", 12, "float", [_floats(2, 3), _floats(3)]),
        ("LessOrEqual", 16, "int", [_integers(np.int32, 4), _integers(np.int32, 4)]),
        ("And", 7, "bool", [_truths(2, 3), _truths(3)]),
        ("Or", 7, "bool", [_truths(2, 3), _truths(3)]),
        ("Xor", 7, "bool", [_truths(2, 3), _truths(3)]),
    )
] + [
    _one(
        "large",
        "Equal",
        [np.array([2**62, 2**62 + 1], np.int64), np.array([2**62, 2**62], np.int64)],
        output_types=BOOL,
        vary=[],
    ),
    _one("bool", "Not", [_truths(2, 3)], output_types=BOOL, vary=[0]),
    _one("opset9", "IsNaN", [np.array([1, np.nan, 2], np.float32)], opset=9, output_types=BOOL, vary=[]),
    _one("finite", "IsNaN", [_floats(4)], opset=13, output_types=BOOL),
    *(
        _one(
            f"{positive}{negative}",
            "IsInf",
            [np.array([1, np.inf, -np.inf, np.nan], np.float32)],
            attributes={"detect_positive": positive, "detect_negative": negative},
            opset=10,
            output_types=BOOL,
            vary=[],
        )
        for positive in (0, 1)
        for negative in (0, 1)
    ),
]

CHOICES = [
    _one("float", "Where", [_truths(2, 3), _floats(2, 3), _floats(3)], opset=9, output_types=[1], vary=[0, 1, 2]),
    _one("mask", "Where", [_truths(2, 3), _floats(2, 3), np.float32(-np.inf)], output_types=[1], vary=[0, 1]),
    _one("fixed", "Where", [_truths(2, 3), _floats(2, 3), _floats(2, 1)], output_types=[1], vary=[1, 2]),
    _one(
        "int",
        "Where",
        [_truths(2, 3), _integers(np.int64, 2, 3), _integers(np.int64, 3)],
        output_types=[TensorProto.INT64],
        vary=[0, 1, 2],
    ),
    _one("clip-opset6", "Clip", [_floats(2, 3)], attributes={"min": -0.7, "max": 1.3}, opset=7),
    _one("clip-low", "Clip", [_floats(2, 3)], attributes={"min": -0.7}, opset=10),
    _one("clip-default", "Clip", [_floats(2, 3)], opset=7),
    _one("opset11", "Clip", [_floats(2, 3), np.float32(-0.5), np.float32(0.5)], opset=11),
    _one("fixed", "Clip", [_floats(2, 3), np.float32(-0.5), np.float32(0.5)], opset=12, vary=[0]),
    _one("no-low", "Clip", [_floats(2, 3), None, np.float32(0.5)]),
    _one("no-high", "Clip", [_floats(2, 3), np.float32(0.5)]),
    _one("crossed", "Clip", [_floats(2, 3), np.float32(1.0), np.float32(-1.0)], vary=[0]),
    _one("infinite", "Clip", [_floats(2, 3), np.float32(-np.inf), np.float32(np.inf)], vary=[0]),
    _one("nan", "Clip", [_floats(2, 3), np.float32(np.nan), np.float32(1.0)], vary=[0]),
    _one("int", "Clip", [_integers(np.int32, 2, 3), np.int32(-4), np.int32(5)], opset=12, vary=[0, 1, 2]),
]

BITS = (
    [
        _one(
            f"{kind.__name__}-{direction}-{opset}",
            "BitShift",
            operands,
            attributes={"direction": direction},
            opset=opset,
            vary=vary,
        )
        for kind, opset, vary in (
            (np.uint8, 11, [0]),
            (np.uint32, 11, [0]),
            (np.int8, 28, [0, 1]),
            (np.int32, 28, [0, 1]),
        )
        for direction in ("LEFT", "RIGHT")
        for operands in ([_integers(kind, 4, low=0, high=60), _integers(kind, 4, low=0, high=4)],)
    ]
    + [
        _one(
            f"{dtype.__name__}-{len(vary)}",
            operator,
            [_integers(dtype, 2, 4, low=low), _integers(dtype, 4, low=low)],
            vary=vary,
        )
        for operator in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
        for dtype, low in ((np.uint8, 0), (np.int16, -9), (np.uint64, 0), (np.int64, -9))
        for vary in ([0], [0, 1])
    ]
    + [
        _one("int8", "BitwiseNot", [_integers(np.int8, 4)], vary=[0]),
        _one("uint16", "BitwiseNot", [_integers(np.uint16, 4, low=0)], vary=[0]),
        _one("int32", "BitCast", [_floats(4)], attributes={"to": TensorProto.INT32}, opset=26, output_types=[6], vary=[]),
        _one(
            "float",
            "BitCast",
            [_integers(np.int32, 4)],
            attributes={"to": TensorProto.FLOAT},
            opset=26,
            output_types=[1],
            vary=[],
        ),
        _one(
            "uint8",
            "BitCast",
            [_integers(np.int8, 4)],
            attributes={"to": TensorProto.UINT8},
            opset=26,
            output_types=[2],
            vary=[0],
        ),
    ]
)

SEEDS = [*ARITHMETIC, *POWERS, *COMPARISONS, *CHOICES, *BITS]
