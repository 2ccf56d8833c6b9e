"""Quantisation: every version, granularity and type, products of quantised operands, and ONNX Runtime's own operators."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, INT32, UINT8, of_dtype
from tests.soundness.seeds.seed import Seed, seed

_RNG = np.random.default_rng(7)
_X = _RNG.standard_normal((2, 4, 6)).astype(np.float32) * 4
_SCALES = (_RNG.random(4) * 0.2 + 0.05).astype(np.float32)
_SCALAR = np.float32(0.07)


def _integers(shape: tuple[int, ...], dtype: Any, low: int = -100, high: int = 100) -> np.ndarray:
    info = ml_dtypes.iinfo(dtype)
    return _RNG.integers(max(low, int(info.min)), min(high, int(info.max)) + 1, shape).astype(dtype)


def _quantize(
    name: str, inputs: list[Any], attributes: dict[str, Any] | None = None, *, opset: int = 25, oracle: str = "reference"
) -> Seed:
    code = (attributes or {}).get("output_dtype") or (of_dtype(inputs[2].dtype).onnx_code if len(inputs) > 2 else UINT8.onnx_code)
    return seed(
        "QuantizeLinear",
        inputs,
        attributes,
        opset=opset,
        output_types=[code],
        vary=[0, 1] if inputs[0].dtype.kind != "i" else [0],
        oracle=oracle,
        name=f"quantize-{name}-{opset}-{oracle}",
    )


def _dequantize(
    name: str, inputs: list[Any], attributes: dict[str, Any] | None = None, *, opset: int = 25, oracle: str = "reference"
) -> Seed:
    code = (attributes or {}).get("output_dtype") or of_dtype(np.asarray(inputs[1]).dtype).onnx_code
    return seed(
        "DequantizeLinear",
        inputs,
        attributes,
        opset=opset,
        output_types=[code],
        vary=[0, 1],
        oracle=oracle,
        name=f"dequantize-{name}-{opset}-{oracle}",
    )


def _blocked(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    return (_RNG.random(shape) * 0.2 + 0.05).astype(dtype)


_QUANTIZE = [
    *(_quantize("tensor", [_X, _SCALAR, np.uint8(128)], opset=o, oracle=r) for o in (10, 13, 19) for r in ("reference", "runtime")),
    _quantize("no-zero-point", [_X, _SCALAR], opset=13),
    _quantize("int8", [_X, _SCALAR, np.int8(-3)], opset=10, oracle="runtime"),
    _quantize("axis", [_X, _SCALES, np.array([0, 5, 128, 255], np.uint8)], {"axis": 1}, opset=13),
    _quantize("negative-axis", [_X, _SCALES, np.array([-3, 5, 0, 7], np.int8)], {"axis": -2}, opset=13, oracle="runtime"),
    *(
        _quantize(
            f"blocked-{dtype.__name__}",
            [_X, _blocked((2, 4, 2)), _integers((2, 4, 2), dtype, -1, 1)],
            {"axis": 2, "block_size": 4},
        )
        for dtype in (np.int8, np.uint16, np.int16, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)
    ),
    _quantize(
        "blocked-runtime",
        [_X, _blocked((2, 2, 6)), _integers((2, 2, 6), np.int8)],
        {"axis": -2, "block_size": 2},
        opset=21,
        oracle="runtime",
    ),
    *(
        _quantize(
            f"{dtype.__name__}-saturate{saturate}",
            [_X * 200, np.float32(5), np.zeros((), dtype)],
            {"saturate": saturate},
            opset=19,
        )
        for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz)
        for saturate in (0, 1)
    ),
    _quantize("float4", [_X * 2, np.float32(5), np.zeros((), ml_dtypes.float4_e2m1fn)], opset=23),
    _quantize("output-dtype", [_X, _SCALES], {"axis": 1, "output_dtype": of_dtype(np.dtype(np.int16)).onnx_code}),
    _quantize("precision", [_X, _SCALAR, np.int8(3)], {"precision": FLOAT16.onnx_code}, opset=23),
    _quantize("mixed", [_X.astype(np.float16), _SCALAR, np.int8(3)], opset=23),
    _quantize("float16", [_X.astype(np.float16), np.float16(0.07), np.int8(3)], opset=19, oracle="runtime"),
    _quantize("int32", [_integers((3, 5), np.int32, -4000, 4000), np.float32(7.5), np.uint8(9)], opset=10),
]

_DEQUANTIZE = [
    # The reference evaluator has no DequantizeLinear below version 19.
    *(
        _dequantize("tensor", [_integers((3, 4), np.uint8), _SCALAR, np.uint8(128)], opset=o, oracle="runtime")
        for o in (10, 13, 19)
    ),
    _dequantize("no-zero-point", [_integers((3, 4), np.int8), _SCALAR], opset=13, oracle="runtime"),
    _dequantize("int32", [_integers((3, 4), np.int32, -(2**30), 2**30), _SCALAR], opset=10, oracle="runtime"),
    _dequantize("axis", [_integers((2, 4, 3), np.int8), _SCALES, _integers((4,), np.int8)], {"axis": 1}, opset=19),
    _dequantize(
        "negative-axis",
        [_integers((2, 3, 4), np.int8), _SCALES, _integers((4,), np.int8)],
        {"axis": -1},
        opset=13,
        oracle="runtime",
    ),
    *(
        _dequantize(
            f"blocked-{dtype.__name__}",
            [_integers((2, 5), dtype), _blocked((2, 3)), _integers((2, 3), dtype)],
            {"axis": 1, "block_size": 2},
        )
        for dtype in (np.int8, np.uint16, np.int16, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)
    ),
    *(
        _dequantize(dtype.__name__, [_X.astype(dtype), _SCALAR, np.zeros((), dtype)], opset=19)
        for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
    ),
    _dequantize("float4", [_X.astype(ml_dtypes.float4_e2m1fn), _SCALAR], opset=23),
    *(
        _dequantize(f"output-{format}", [_integers((3, 4), np.int16), _SCALAR, np.int16(7)], {"output_dtype": format.onnx_code})
        for format in (FLOAT16, BFLOAT16, FLOAT32)
    ),
    _dequantize("float16", [_integers((3, 4), np.int8), np.float16(0.3), np.int8(7)], opset=21, oracle="runtime"),
    _dequantize("bfloat16", [_integers((3, 4), np.int8), np.array(0.3, ml_dtypes.bfloat16), np.int8(7)], opset=21),
]

_CONVOLUTION = {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "strides": [1, 2], "dilations": [1, 1], "group": 2}
_IMAGE, _FILTERS = _integers((1, 4, 5, 6), np.uint8), _integers((2, 2, 3, 3), np.int8)

_PRODUCTS = [
    *(
        seed(
            "MatMulInteger",
            inputs,
            opset=10,
            output_types=[INT32.onnx_code],
            vary=[0, 1],
            oracle=oracle,
            name=f"matmul-integer-{number}-{oracle}",
        )
        for number, inputs in enumerate(
            [
                [_integers((3, 4), np.uint8), _integers((4, 2), np.int8)],
                [_integers((3, 4), np.uint8), _integers((4, 2), np.uint8), np.uint8(12), np.uint8(7)],
                [_integers((2, 3, 4), np.uint8), _integers((4, 2), np.int8), np.uint8(12), np.array([1, -4], np.int8)],
            ]
        )
        for oracle in ("reference", "runtime")
    ),
    *(
        seed(
            "ConvInteger",
            [_IMAGE, _FILTERS, np.uint8(20), zero_point],
            attributes,
            opset=10,
            output_types=[INT32.onnx_code],
            vary=[0, 1],
            oracle=oracle,
            name=f"conv-integer-{number}-{oracle}",
        )
        for number, (zero_point, attributes) in enumerate(
            [(np.int8(-4), _CONVOLUTION), (np.int8(0), {"auto_pad": "SAME_UPPER", "group": 2})]
        )
        for oracle in ("reference", "runtime")
    ),
    *(
        seed(
            "QLinearMatMul",
            [a, np.float32(0.02), a.dtype.type(3), b, b_scale, b_zero_point, np.float32(0.9), y],
            opset=opset,
            output_types=[of_dtype(y.dtype).onnx_code],
            vary=[0, 3],
            oracle=oracle,
            name=f"qlinear-matmul-{opset}-{a.dtype}-{b_scale.size}-{oracle}",
        )
        for opset, oracle, a, b, b_scale, b_zero_point, y in (
            (
                10,
                "reference",
                _integers((3, 4), np.uint8),
                _integers((4, 2), np.uint8),
                np.float32(0.3),
                np.uint8(9),
                np.uint8(11),
            ),
            (10, "runtime", _integers((3, 4), np.uint8), _integers((4, 2), np.int8), np.float32(0.3), np.int8(9), np.uint8(11)),
            (
                21,
                "runtime",
                _integers((2, 3, 4), np.int8),
                _integers((4, 2), np.int8),
                np.array([0.3, 0.1], np.float32),
                np.array([0, 0], np.int8),
                np.int8(-7),
            ),
        )
    ),
    *(
        seed(
            "QLinearConv",
            [_IMAGE, np.float32(0.03), np.uint8(20), _FILTERS, scale, zero_point, np.float32(1.3), np.uint8(100), *bias],
            {"kernel_shape": [3, 3], "group": 2, "pads": [1, 1, 1, 1]},
            opset=10,
            output_types=[UINT8.onnx_code],
            vary=[0, 3],
            oracle=oracle,
            name=f"qlinear-conv-{scale.size}-{len(bias)}-{oracle}",
        )
        for scale, zero_point, bias in (
            (np.float32(0.2), np.int8(0), []),
            (np.array([0.2, 0.7], np.float32), np.array([0, 0], np.int8), [np.array([300, -900], np.int32)]),
        )
        for oracle in ("reference", "runtime")
    ),
]

SEEDS = [*_QUANTIZE, *_DEQUANTIZE, *_PRODUCTS]
