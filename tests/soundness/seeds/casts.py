"""Cast and CastLike: every pair of numeric formats, both ways of saturation, all rounding modes of E8M0, old opsets, text."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tensorproof.formats import (
    BFLOAT16,
    BOOL,
    FLOAT4_E2M1,
    FLOAT6_E2M3,
    FLOAT6_E3M2,
    FLOAT8_E4M3FN,
    FLOAT8_E4M3FNUZ,
    FLOAT8_E5M2,
    FLOAT8_E5M2FNUZ,
    FLOAT8_E8M0,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT2,
    INT4,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT2,
    UINT4,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Format,
)
from tests.soundness.seeds.seed import Seed, seed

_FLOATS = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32) * 3
_INTEGERS = np.array([[0, 1, 7], [100, 250, 3]], np.int64)
_FLOAT8 = (FLOAT8_E4M3FN, FLOAT8_E4M3FNUZ, FLOAT8_E5M2, FLOAT8_E5M2FNUZ)


def _cast(x: object, to: Format, opset: int = 25, **attributes: object) -> Seed:
    array = np.asarray(x)
    name = f"cast-{array.dtype}-{to}-{opset}-" + "-".join(f"{k}{v}" for k, v in attributes.items())
    return seed("Cast", [array], {"to": to.onnx_code, **attributes}, opset=opset, output_types=[to.onnx_code], vary=[0], name=name)


def _cast_like(x: object, to: Format, opset: int = 25, **attributes: object) -> Seed:
    array = np.asarray(x)
    like = np.ones(2, to.dtype)
    name = f"cast-like-{array.dtype}-{to}-{opset}-" + "-".join(f"{k}{v}" for k, v in attributes.items())
    return seed("CastLike", [array, like], attributes, opset=opset, output_types=[to.onnx_code], vary=[0], name=name)


SEEDS = [
    # float -> float, both sides of every format
    *(_cast(_FLOATS, to) for to in (FLOAT64, FLOAT16, BFLOAT16, *_FLOAT8, FLOAT4_E2M1)),
    *(_cast(_FLOATS, to, 28) for to in (FLOAT6_E2M3, FLOAT6_E3M2)),
    *(_cast(_FLOATS, to, 19, saturate=0) for to in _FLOAT8),
    *(_cast(_FLOATS * 100, to, 19, saturate=1) for to in _FLOAT8),
    *(
        _cast(np.abs(_FLOATS), FLOAT8_E8M0, 24, round_mode=mode, saturate=saturate)
        for mode in ("up", "down", "nearest")
        for saturate in (0, 1)
    ),
    *(_cast(_FLOATS.astype(fmt.dtype), FLOAT32) for fmt in (*_FLOAT8, FLOAT4_E2M1, FLOAT16, BFLOAT16, FLOAT64)),
    *(_cast(_FLOATS.astype(np.float64), to) for to in (FLOAT32, FLOAT16, BFLOAT16, FLOAT8_E4M3FN)),
    *(_cast(_FLOATS * 1e4, to, opset) for to in (FLOAT16, FLOAT64) for opset in (7, 9, 13)),
    # float -> integer and truth
    *(_cast(_FLOATS, to) for to in (INT2, INT4, INT8, INT16, INT32, INT64, UINT2, UINT4, UINT8, UINT16, UINT32, UINT64, BOOL)),
    *(_cast(np.abs(_FLOATS), to, opset) for to in (INT32, UINT8, BOOL) for opset in (7, 9, 13)),
    *(_cast(_FLOATS.astype(fmt.dtype), INT8) for fmt in (FLOAT16, BFLOAT16, FLOAT8_E4M3FN, FLOAT64)),
    # integer -> anything
    *(_cast(_INTEGERS, to) for to in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64, FLOAT8_E5M2)),
    *(_cast(_INTEGERS, to) for to in (INT2, INT4, INT8, INT16, INT32, UINT2, UINT4, UINT8, UINT32, UINT64, BOOL)),
    *(_cast(_INTEGERS.astype(np.int32), to) for to in (FLOAT16, BFLOAT16, FLOAT32, INT8, INT64)),
    *(_cast((_INTEGERS % 8).astype(dtype), FLOAT32) for dtype in (ml_dtypes.int4, ml_dtypes.uint4, np.uint8, np.bool_)),
    _cast(np.array([2**53 + 1, -(2**62) - 1, 2**40], np.int64), FLOAT64),
    _cast(np.array([2**53 + 1, -(2**62) - 1, 2**40], np.int64), INT32),
    # text
    _cast(np.array(["3.14", "1e-5", "INF", "-inf", "NaN", "1000"], object), FLOAT32, 13),
    _cast(np.array(["3", "-12", "1000"], object), INT64, 13),
    _cast(_FLOATS, STRING, 13),
    # the format of another tensor
    *(_cast_like(_FLOATS, to) for to in (FLOAT64, FLOAT16, BFLOAT16, INT8, INT64, UINT4, BOOL, FLOAT8_E4M3FN)),
    *(_cast_like(_FLOATS * 200, to, 19, saturate=s) for to in (FLOAT8_E4M3FN, FLOAT8_E5M2) for s in (0, 1)),
    *(_cast_like(_FLOATS, to, 15) for to in (FLOAT16, INT32)),
    *(_cast_like(_INTEGERS, to) for to in (FLOAT16, INT8, BOOL)),
]
