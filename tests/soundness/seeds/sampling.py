"""Sampling at positions that are data: modes, paddings, versions and options that the node cases miss."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.soundness.seeds.seed import Seed, seed

_rng = np.random.default_rng(23)


def _normal(*shape: int) -> Any:
    return _rng.standard_normal(shape).astype(np.float32)


def _uniform(*shape: int) -> Any:
    return _rng.uniform(-1.2, 1.2, shape).astype(np.float32)


_ROIS = np.array([[0.4, 0.2, 3.1, 4.3], [1.0, 1.0, 2.0, 2.5], [-3.0, 0.3, 6.2, 9.1]], np.float32)
_BATCH = np.array([0, 1, 0])
_BOXES = np.array([[0.1, 0.05, 0.7, 0.93], [0.0, 0.2, 1.3, 0.8], [0.9, 0.3, 0.2, 0.31]], np.float32)

SEEDS: list[Seed] = [
    *(
        seed(
            "GridSample",
            [_normal(1, 2, 4, 3), _uniform(1, 2, 3, 2)],
            {"mode": mode, "padding_mode": padding, "align_corners": aligned},
            opset=20,
            vary=vary,
            name=f"grid_sample_{mode}_{padding}_{aligned}",
        )
        for mode, vary in (("linear", [0, 1]), ("nearest", [0]), ("cubic", [0]))
        for padding in ("zeros", "border", "reflection")
        for aligned in (0, 1)
    ),
    seed(
        "GridSample",
        [_normal(2, 1, 4, 5), _uniform(2, 3, 2, 2)],
        {"mode": "bilinear"},
        opset=16,
        oracle="runtime",
        name="grid_sample_16",
    ),
    seed(
        "GridSample",
        [_normal(1, 1, 3, 2, 4), _uniform(1, 2, 1, 2, 3)],
        {"mode": "linear", "padding_mode": "border"},
        opset=20,
        vary=[0],
        name="grid_sample_3d",
    ),
    seed(
        "GridSample",
        [_normal(1, 2, 4, 3), _uniform(1, 2, 3, 2)],
        {"mode": "bilinear"},
        domain="com.microsoft",
        name="contrib_grid_sample",
    ),
    seed("AffineGrid", [_normal(2, 2, 3), np.array([2, 1, 3, 4])], {"align_corners": 1}, opset=20, name="affine_2d"),
    seed("AffineGrid", [_normal(1, 3, 4), np.array([1, 1, 2, 3, 2])], {}, opset=20, name="affine_3d"),
    *(
        seed(
            "RoiAlign",
            [_normal(2, 2, 5, 4), _ROIS, _BATCH],
            {"output_height": 2, "output_width": 3, "spatial_scale": 0.7, **attributes},
            opset=opset,
            vary=[0],
            oracle=oracle,
            name=f"roi_align_{number}",
        )
        for number, (attributes, opset, oracle) in enumerate(
            [
                ({}, 10, "runtime"),
                ({"sampling_ratio": 2}, 10, "runtime"),
                ({"sampling_ratio": 2, "mode": "max"}, 16, "reference"),
                ({"sampling_ratio": 3, "coordinate_transformation_mode": "output_half_pixel"}, 16, "reference"),
                ({"mode": "avg"}, 22, "reference"),
                ({"mode": "max"}, 16, "runtime"),
            ]
        )
    ),
    seed(
        "DeformConv",
        [_normal(1, 2, 4, 4), _normal(2, 1, 2, 2), 0.4 * _normal(1, 16, 3, 3), _normal(2), _normal(1, 8, 3, 3)],
        {"group": 2, "offset_group": 2},
        opset=19,
        vary=[0, 1, 3, 4],
        name="deform_conv_groups",
    ),
    seed(
        "DeformConv",
        [_normal(1, 1, 4, 5), _normal(2, 1, 3, 2), 0.4 * _normal(1, 12, 2, 3)],
        {"pads": [1, 0, 0, 1], "strides": [2, 2]},
        opset=22,
        name="deform_conv_strides",
    ),
    seed(
        "DeformConv",
        [_normal(1, 1, 5, 5), _normal(1, 1, 2, 2), 0.2 * _normal(1, 8, 3, 3)],
        {"dilations": [2, 2]},
        opset=22,
        vary=[0, 1],
        name="deform_conv_dilations",
    ),
    *(
        seed(
            "CropAndResize",
            [_normal(2, 2, 5, 4), _BOXES, np.array([0, 1, 0], np.int32), np.array(size, np.int32)],
            {"mode": mode, "extrapolation_value": 0.5},
            domain="com.microsoft",
            vary=[0],
            name=f"crop_and_resize_{mode}_{size[0]}",
        )
        for mode, size in (("bilinear", [3, 2]), ("nearest", [4, 3]), ("bilinear", [1, 1]))
    ),
]
