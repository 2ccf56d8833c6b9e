"""Pooling: strides, pads, ceil_mode, dilations and versions that the node cases miss.

The reference evaluator takes wrong axes in GlobalMaxPool of rank 3 and 5, wrong sizes and indices in MaxPool with stride 1,
uneven pads or SAME_LOWER, and multiplies border averages in LpPool with ceil_mode: ONNX Runtime is the oracle there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from tests.soundness.seeds.seed import Seed, seed

_rng = np.random.default_rng(21)


def _normal(*shape: int) -> Any:
    return _rng.standard_normal(shape).astype(np.float32)


_AVERAGE: list[tuple[Any, dict[str, Any], int]] = [
    (_normal(1, 2, 6), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}, 7),
    (_normal(1, 2, 6), {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "count_include_pad": 1}, 7),
    (_normal(1, 1, 6), {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1}, 10),
    (
        _normal(1, 1, 6, 5),
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 0], "count_include_pad": 1, "ceil_mode": 1},
        11,
    ),
    (_normal(1, 1, 6, 5), {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER", "count_include_pad": 1}, 19),
    (_normal(1, 1, 7), {"kernel_shape": [2], "strides": [2], "dilations": [3], "pads": [1, 1], "ceil_mode": 1}, 19),
    (_normal(1, 1, 3, 4, 3), {"kernel_shape": [2, 2, 2], "pads": [1, 0, 0, 0, 1, 1]}, 22),
    (_normal(1, 2, 1, 5), {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1], "count_include_pad": 1}, 22),
    (_normal(0, 2, 4), {"kernel_shape": [2]}, 22),
]

_MAX: list[tuple[Any, dict[str, Any], int, int, str]] = [
    (_normal(1, 2, 7), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}, 8, 2, "reference"),
    (_normal(2, 2, 5, 4), {"kernel_shape": [2, 3], "pads": [1, 1, 0, 1]}, 12, 2, "runtime"),
    (_normal(1, 2, 5, 4), {"kernel_shape": [2, 2], "storage_order": 1}, 12, 2, "runtime"),
    (_normal(1, 1, 6, 7), {"kernel_shape": [2, 2], "dilations": [2, 3], "strides": [2, 1]}, 22, 2, "reference"),
    (_normal(1, 1, 6), {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1}, 10, 2, "reference"),
    (_normal(1, 1, 7), {"kernel_shape": [4], "strides": [3], "auto_pad": "SAME_LOWER"}, 12, 2, "runtime"),
    (_normal(1, 1, 7, 5), {"kernel_shape": [4, 2], "strides": [3, 2], "auto_pad": "SAME_UPPER"}, 12, 1, "runtime"),
    (_normal(1, 1, 3, 4, 3), {"kernel_shape": [2, 2, 2]}, 22, 2, "runtime"),
    (_rng.integers(-9, 9, (1, 2, 5, 5)).astype(np.int8), {"kernel_shape": [2, 2]}, 12, 1, "runtime"),
]

_NORM: list[tuple[Any, dict[str, Any], int, str]] = [
    (_normal(1, 2, 6), {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "p": 1}, 11, "reference"),
    (_normal(1, 2, 6), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}, 11, "runtime"),
    (_normal(1, 2, 5, 4), {"kernel_shape": [2, 2], "p": 3}, 18, "runtime"),
    (_normal(1, 1, 6), {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1}, 18, "runtime"),
    (_normal(1, 1, 7), {"kernel_shape": [2], "dilations": [3], "pads": [1, 1]}, 22, "reference"),
]

SEEDS: list[Seed] = [
    *(
        seed("AveragePool", [x], attributes, opset=opset, name=f"average_pool_{number}")
        for number, (x, attributes, opset) in enumerate(_AVERAGE)
    ),
    *(
        seed(
            "MaxPool",
            [x],
            attributes,
            opset=opset,
            outputs=outputs,
            output_types=[TensorProto.INT8 if x.dtype == np.int8 else TensorProto.FLOAT, TensorProto.INT64][:outputs],
            vary=[0],
            oracle=oracle,
            name=f"max_pool_{number}",
        )
        for number, (x, attributes, opset, outputs, oracle) in enumerate(_MAX)
    ),
    *(
        seed("LpPool", [x], attributes, opset=opset, oracle=oracle, name=f"lp_pool_{number}")
        for number, (x, attributes, opset, oracle) in enumerate(_NORM)
    ),
    seed("GlobalLpPool", [_normal(2, 3, 4, 3)], {}, opset=7, oracle="runtime", name="global_lp_pool_2"),
    seed("GlobalLpPool", [_normal(1, 2, 5)], {"p": 3}, opset=7, oracle="runtime", name="global_lp_pool_3"),
    seed("GlobalLpPool", [_normal(1, 2, 2, 3, 2)], {"p": 1}, opset=7, oracle="runtime", name="global_lp_pool_1"),
    seed("GlobalAveragePool", [_normal(2, 3, 5)], {}, opset=7, name="global_average_pool_1d"),
    seed("GlobalAveragePool", [_normal(1, 2, 2, 3, 2)], {}, opset=22, name="global_average_pool_3d"),
    seed("GlobalMaxPool", [_normal(2, 3, 5)], {}, opset=7, oracle="runtime", name="global_max_pool_1d"),
    seed("GlobalMaxPool", [_normal(1, 2, 2, 3, 2)], {}, opset=22, oracle="runtime", name="global_max_pool_3d"),
    seed(
        "MaxUnpool",
        [_normal(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]])],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        opset=9,
        name="max_unpool",
    ),
    seed(
        "MaxUnpool",
        [_normal(1, 2, 3), np.array([[[0, 3, 5], [6, 9, 11]]])],
        {"kernel_shape": [2], "strides": [2]},
        opset=11,
        oracle="runtime",
        name="max_unpool_1d",
    ),
    seed(
        "MaxUnpool",
        [_normal(1, 1, 3, 3), np.array([[[[0, 1, 3], [4, 6, 7], [12, 14, 15]]]])],
        {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        opset=22,
        name="max_unpool_pads",
    ),
    seed(
        "MaxUnpool",
        [_normal(1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]]), np.array([1, 1, 5, 5])],
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        opset=11,
        oracle="runtime",
        name="max_unpool_output_shape",
    ),
    seed(
        "MaxRoiPool",
        [_normal(2, 3, 5, 4), np.array([[0, 0, 0, 3, 3], [1, 1, 1, 2, 3], [0, 1, 0, 5, 6]], np.float32)],
        {"pooled_shape": [2, 3], "spatial_scale": 0.5},
        opset=7,
        vary=[0],
        oracle="runtime",
        name="max_roi_pool_scaled",
    ),
    seed(
        "MaxRoiPool",
        [_normal(1, 2, 6, 6), np.array([[0, 0, 0, 5, 5], [0, 1, 1, 2, 4], [0, 8, 8, 9, 9]], np.float32)],
        {"pooled_shape": [3, 2]},
        opset=7,
        vary=[0],
        oracle="runtime",
        name="max_roi_pool",
    ),
    seed(
        "NhwcMaxPool",
        [_rng.integers(0, 200, (1, 5, 4, 2)).astype(np.uint8)],
        {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1], "strides": [2, 1]},
        domain="com.microsoft",
        vary=[0],
        name="nhwc_max_pool",
    ),
]
