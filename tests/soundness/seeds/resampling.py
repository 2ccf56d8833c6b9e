"""Resampling: modes, coordinate transformations and versions that the node cases miss.

The reference evaluator knows no Resize below version 11 and no linear Upsample; ONNX Runtime is the oracle there, and for
one more look at float32 coordinates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.soundness.seeds.seed import Seed, seed

_rng = np.random.default_rng(22)


def _normal(*shape: int) -> Any:
    return _rng.standard_normal(shape).astype(np.float32)


_ROI = np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.1], np.float32)
_HALF = [1.0, 1.0, 0.6, 1.3]
_TRANSFORMATIONS = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
_IMAGE = _normal(1, 1, 5, 4)


def _scaled(scales: list[float], oracle: str, **attributes: Any) -> Seed:
    roi = _ROI if attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize" else None
    words = "_".join(str(v) for v in attributes.values())
    return seed(
        "Resize",
        [_IMAGE, roi, np.array(scales, np.float32)],
        attributes,
        opset=19,
        vary=[0],
        oracle=oracle,
        name=f"resize_{words}_{scales[2]}_{oracle}",
    )


SEEDS: list[Seed] = [
    *(
        _scaled(scales, oracle, mode=mode, coordinate_transformation_mode=transformation)
        for mode in ("nearest", "linear", "cubic")
        for transformation in _TRANSFORMATIONS
        for scales, oracle in ((_HALF, "reference"), ([1.0, 1.0, 1.7, 0.3], "runtime"))
    ),
    *(
        _scaled(scales, "runtime", mode="nearest", coordinate_transformation_mode="half_pixel", nearest_mode=rounding)
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        for scales in (_HALF, [1.0, 1.0, 2.0, 0.5])
    ),
    *(
        _scaled(_HALF, oracle, mode=mode, antialias=1, exclude_outside=outside)
        for mode, outside, oracle in (
            ("linear", 0, "runtime"),
            ("linear", 1, "reference"),
            ("cubic", 0, "runtime"),
            ("cubic", 1, "runtime"),
        )
    ),
    _scaled(_HALF, "reference", mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    _scaled(
        [1.0, 1.0, 2.0, 2.0],
        "reference",
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=10.0,
    ),
    *(
        seed(
            "Resize",
            [_IMAGE, None, None, np.array([7, 6])],
            {"mode": mode, "axes": [2, 3], "keep_aspect_ratio_policy": policy},
            opset=18,
            vary=[0],
            name=f"resize_{mode}_{policy}",
        )
        for mode, policy in (("linear", "not_larger"), ("cubic", "not_smaller"), ("nearest", "stretch"))
    ),
    seed(
        "Resize",
        [_normal(3, 4, 5), np.zeros(0, np.float32), np.zeros(0, np.float32), np.array([4, 4, 3])],
        {"mode": "linear"},
        opset=11,
        vary=[0],
        name="resize_every_axis_11",
    ),
    seed(
        "Resize",
        [_rng.integers(-90, 90, (1, 1, 4, 3)).astype(np.int8), None, np.array([1, 1, 1.5, 2], np.float32)],
        {"mode": "linear"},
        opset=13,
        vary=[0],
        oracle="reference",
        name="resize_int8",
    ),
    *(
        seed(
            "Resize",
            [_IMAGE, np.array(scales, np.float32)],
            {"mode": mode},
            opset=10,
            vary=[0],
            oracle="runtime",
            name=f"resize_10_{mode}_{scales[2]}",
        )
        for mode, scales in (("nearest", [1, 1, 2, 3]), ("nearest", [1, 1, 0.5, 0.5]), ("linear", [1, 1, 1.5, 2]))
    ),
    seed("Upsample", [_IMAGE], {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 3.0]}, opset=7, oracle="runtime", name="upsample_7"),
    seed(
        "Upsample",
        [_IMAGE],
        {"mode": "linear", "scales": [1.0, 1.0, 2.0, 1.5]},
        opset=7,
        oracle="runtime",
        name="upsample_7_linear",
    ),
    seed(
        "Upsample",
        [_IMAGE, np.array([1, 1, 2, 2], np.float32)],
        {"mode": "nearest"},
        opset=9,
        vary=[0],
        name="upsample_9",
    ),
]
