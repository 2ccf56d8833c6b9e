"""Seeds of selection by value and of tensors made from sizes: TopK, NonZero, Unique, OneHot, Range and others."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, numpy_helper

from tests.soundness.seeds.seed import seed

_rng = np.random.default_rng(7003)


def _floats(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape).astype(np.float32)


def _ints(*values: object) -> np.ndarray:
    return np.array(values, np.int64)


_X = _floats(3, 5)
_TIES = np.array([[1, 2, 2, 0, 2], [0, 0, 1, 1, 0]], np.float32)
_FLOAT, _INT64 = TensorProto.FLOAT, TensorProto.INT64
_WITH_POSITIONS = [_FLOAT, _INT64]
_BOXES = np.sort(_rng.random((2, 4, 2, 2)), axis=2).transpose(0, 1, 2, 3).reshape(2, 4, 4).astype(np.float32)
_SCORES = _rng.random((2, 3, 4)).astype(np.float32)
_ANY = np.array([True, False, True, True, False])


def _value(number: object, kind: type) -> object:
    return numpy_helper.from_array(np.array([number], kind))


SEEDS = [
    # TopK
    seed("TopK", [_X], {"k": 2}, opset=7, outputs=2, output_types=_WITH_POSITIONS),
    seed("TopK", [_X], {"k": 3, "axis": 0}, opset=9, outputs=2, output_types=_WITH_POSITIONS),
    seed("TopK", [_X, _ints(2)], {"axis": 1}, opset=10, outputs=2, output_types=_WITH_POSITIONS, vary=[0]),
    seed("TopK", [_X, _ints(4)], {"largest": 0}, opset=11, outputs=2, output_types=_WITH_POSITIONS, vary=[0]),
    seed("TopK", [_X, _ints(3)], {"sorted": 0}, opset=11, outputs=2, output_types=_WITH_POSITIONS, vary=[0]),
    seed("TopK", [_TIES, _ints(4)], opset=24, outputs=2, output_types=_WITH_POSITIONS, vary=[0], name="TopK-ties"),
    seed(
        "TopK",
        [_TIES, _ints(4)],
        {"largest": 0, "axis": -1},
        outputs=2,
        output_types=_WITH_POSITIONS,
        vary=[0],
        name="TopK-ties-smallest",
    ),
    seed("TopK", [_X, _ints(2)], outputs=2, output_types=_WITH_POSITIONS, vary=[0, 1], name="TopK-vague"),
    seed(
        "TopK",
        [np.array([[1, -np.inf, 0, np.inf, 2]], np.float32), _ints(3)],
        outputs=2,
        output_types=_WITH_POSITIONS,
        vary=[],
        name="TopK-infinite",
    ),
    # NonZero
    seed("NonZero", [_TIES], opset=9, output_types=[_INT64]),
    seed("NonZero", [_floats(2, 3, 2)], opset=13, output_types=[_INT64], name="NonZero-13"),
    seed("NonZero", [_ANY], opset=13, output_types=[_INT64], vary=[0], name="NonZero-bool"),
    seed("NonZero", [np.float32(1)], opset=13, output_types=[_INT64], name="NonZero-scalar"),
    # Unique
    seed("Unique", [_TIES], {"sorted": 1}, opset=11, outputs=4, output_types=[_FLOAT, *[_INT64] * 3], oracle="runtime"),
    seed(
        "Unique",
        [_TIES],
        {"sorted": 0, "axis": 1},
        opset=11,
        outputs=4,
        output_types=[_FLOAT, *[_INT64] * 3],
        oracle="runtime",
    ),
    seed("Unique", [_TIES], {"sorted": 0}, opset=11, oracle="runtime", name="Unique-alone"),
    seed("Unique", [_ints(3, 1, 3, 2)], {"axis": 0}, opset=11, vary=[0], oracle="runtime", name="Unique-integers"),
    seed("Unique", [np.array(["b", "a", "b"], object)], opset=11, oracle="runtime", name="Unique-text"),
    seed("Unique", [_TIES[0]], domain="com.microsoft", outputs=3, output_types=[_FLOAT, _INT64, _INT64]),
    # Compress
    seed("Compress", [_X, _ANY], {"axis": 1}, opset=9, constants={1: 1}),
    seed("Compress", [_X, np.array([False, True])], {"axis": -2}, opset=11, constants={1: 1}, name="Compress-short"),
    seed("Compress", [_X, np.arange(15) % 3 == 0], opset=11, constants={1: 1}, name="Compress-flat"),
    seed("Compress", [_X, _ANY], {"axis": 1}, opset=11, vary=[0, 1], name="Compress-vague"),
    # OneHot
    seed(
        "OneHot",
        [_ints(0, 2, -1, 7), np.int64(4), np.array([0, 1], np.float32)],
        opset=9,
        output_types=[_FLOAT],
        oracle="runtime",
    ),
    seed(
        "OneHot",
        [_ints([0, 2], [1, -3]), np.int64(3), _floats(2)],
        {"axis": 0},
        opset=11,
        output_types=[_FLOAT],
        oracle="runtime",
    ),
    seed(
        "OneHot",
        [_ints(1, 2, 0), np.int64(5), np.array([0.1, 0.9], np.float32)],
        {"axis": -2},
        opset=11,
        output_types=[_FLOAT],
        vary=[0, 2],
        oracle="runtime",
    ),
    seed(
        "OneHot",
        [_ints(1, 2, 0), np.int64(5), np.array([0, -np.inf], np.float32)],
        opset=11,
        output_types=[_FLOAT],
        vary=[0],
        oracle="runtime",
        name="OneHot-mask",
    ),
    # NonMaxSuppression
    seed(
        "NonMaxSuppression",
        [_BOXES, _SCORES, _ints(2), np.array([0.5], np.float32), np.array([0.1], np.float32)],
        opset=10,
        output_types=[_INT64],
    ),
    seed(
        "NonMaxSuppression",
        [_BOXES, _SCORES, _ints(9), np.array([0.5], np.float32)],
        {"center_point_box": 1},
        opset=11,
        output_types=[_INT64],
        oracle="runtime",
    ),
    seed("NonMaxSuppression", [_BOXES, _SCORES], opset=11, output_types=[_INT64], oracle="runtime", name="NMS-no-limit"),
    # Shape, Size
    seed("Shape", [_X], opset=7, output_types=[_INT64]),
    seed("Shape", [_floats(2, 3, 4)], {"start": -2, "end": 10}, opset=15, output_types=[_INT64]),
    seed("Shape", [_floats(2, 3, 4)], {"start": 1, "end": -1}, opset=19, output_types=[_INT64]),
    seed("Size", [_X], opset=7, output_types=[_INT64]),
    # Constant, ConstantOfShape
    seed("Constant", [], {"value": _value(2.5, np.float32)}, opset=9, output_types=[_FLOAT]),
    seed("Constant", [], {"value_floats": [1.0, 2.5]}, opset=12, output_types=[_FLOAT]),
    seed("Constant", [], {"value_ints": [3, 4]}, opset=13, output_types=[_INT64]),
    seed("ConstantOfShape", [_ints(2, 3)], opset=9, constants={0: 1}, output_types=[_FLOAT]),
    seed("ConstantOfShape", [_ints(2, 0)], {"value": _value(7, np.int32)}, opset=9, output_types=[TensorProto.INT32]),
    seed("ConstantOfShape", [_ints(2)], {"value": _value(-np.inf, np.float32)}, opset=20, output_types=[_FLOAT]),
    seed("ConstantOfShape", [_ints(2, 3)], {"value": _value(1, np.float32)}, vary=[0], output_types=[_FLOAT], name="Fill"),
    # EyeLike
    seed("EyeLike", [_X], {"k": 1}, opset=9),
    seed("EyeLike", [_X], {"k": -1, "dtype": _INT64}, opset=22, output_types=[_INT64]),
    # Range: only 16-bit limits vary, so that no oracle is asked for billions of elements
    seed("Range", [np.int64(10), np.int64(4), np.int64(-2)], opset=11, vary=[]),
    seed("Range", [np.int16(0), np.int16(5), np.int16(1)], opset=11, vary=[1], name="Range-limit"),
    seed("Range", [np.int16(0), np.int16(9), np.int16(2)], opset=11, vary=[0, 1, 2], name="Range-vague"),
    seed("Range", [np.float32(0), np.float32(1), np.float32(0.1)], opset=11, vary=[], name="Range-tenths"),
    seed("Range", [np.float32(1), np.float32(-4), np.float32(-0.7)], opset=11, vary=[], name="Range-down"),
    *(
        seed("Range", [*map(np.float32, ends)], opset=11, vary=[], oracle="runtime", name=f"Range-runtime-{number}")
        for number, ends in enumerate([(0, 1, 0.1), (-3, 40, 0.3), (1e8, 1.000001e8, 3), (5, -7, -0.11), (0.1, 0.4, 0.1)])
    ),
    seed("Range", [np.float32(0), np.float32(8)], domain="com.microsoft", vary=[]),
    seed("Range", [*map(np.float32, (0.1, 3, 0.3))], domain="com.microsoft", vary=[], name="Range-contrib"),
]
