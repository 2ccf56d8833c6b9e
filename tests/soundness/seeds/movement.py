"""Seeds of data movement: old opsets, negative axes, attributes and sizes that the node cases miss."""

from __future__ import annotations

import numpy as np

from tests.soundness.seeds.seed import seed

_rng = np.random.default_rng(7001)


def _floats(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape).astype(np.float32)


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


_X = _floats(2, 3, 4)
_IMAGE = _floats(1, 8, 2, 3)
_MASK = np.where(np.tri(4, dtype=np.bool_), np.float32(0), np.float32(-np.inf))
_MINUS_INFINITY = np.array(-np.inf, np.float32)

SEEDS = [
    seed("Identity", [_X], opset=7),
    seed("Identity", [np.array(["a", "b"], object)], opset=13, name="Identity-text"),
    # Reshape
    seed("Reshape", [_X, _ints(6, 4)], opset=7, constants={1: 1}),
    seed("Reshape", [_X, _ints(0, -1)], opset=13, constants={1: 1}, name="Reshape-13-zero"),
    seed("Reshape", [_floats(4, 6), _ints(2, 2, 3, 2)], constants={1: 1}, name="Reshape-split"),
    seed("Reshape", [_floats(4, 6), _ints(3, 8)], constants={1: 1}, name="Reshape-across"),
    seed("Reshape", [_floats(6, 4), _ints(4, 6)], constants={1: 1}, name="Reshape-swap"),
    seed("Reshape", [_floats(2, 2, 3, 2, 5), _ints(4, 15, 2)], constants={1: 1}, name="Reshape-merge"),
    seed("Reshape", [_floats(1, 6, 1, 4), _ints(2, 1, 3, 4)], constants={1: 1}, name="Reshape-ones"),
    seed("Reshape", [_floats(24), _ints(2, 3, 4)], constants={1: 1}, name="Reshape-flat"),
    seed("Reshape", [_floats(12, 5), _ints(3, 20)], constants={1: 1}, name="Reshape-stack"),
    seed("Reshape", [_floats(0, 3), _ints(3, 0)], {"allowzero": 1}, constants={1: 1}, name="Reshape-empty"),
    seed("Reshape", [_floats(1), _ints()], constants={1: 1}, name="Reshape-scalar"),
    seed("Reshape", [_MASK, _ints(2, 8)], constants={1: 1}, vary=[], name="Reshape-mask"),
    # Flatten, Squeeze, Unsqueeze, Transpose
    seed("Flatten", [_X], {"axis": 0}, opset=7),
    seed("Flatten", [_X], {"axis": 2}, opset=9),
    seed("Flatten", [_X], {"axis": -1}, opset=13),
    seed("Flatten", [_X], {"axis": 3}, opset=13, name="Flatten-all"),
    seed("Squeeze", [_floats(1, 3, 1, 2)], {"axes": [0, 2]}, opset=7),
    seed("Squeeze", [_floats(1, 3, 1, 2)], {"axes": [-2]}, opset=11),
    seed("Squeeze", [_floats(1, 3, 1, 2)], opset=13, name="Squeeze-all"),
    seed("Squeeze", [_floats(1, 3, 1), _ints(-1)], opset=13, constants={1: 1}, name="Squeeze-13-axes"),
    seed("Unsqueeze", [_X], {"axes": [0, 3]}, opset=7),
    seed("Unsqueeze", [_X], {"axes": [-1, 1]}, opset=11),
    seed("Unsqueeze", [_X, _ints(-1, 2)], opset=13, constants={1: 1}, name="Unsqueeze-13-axes"),
    seed("Transpose", [_X], {"perm": [2, 0, 1]}, opset=7),
    seed("Transpose", [_X], opset=7, name="Transpose-reversed"),
    # Concat, Split
    seed("Concat", [_floats(2, 3), _floats(2, 1), _floats(2, 2)], {"axis": 1}, opset=7),
    seed("Concat", [_floats(2, 3), _floats(1, 3)], {"axis": -2}, opset=11),
    seed("Concat", [_floats(2, 0), _floats(2, 2)], {"axis": 1}, opset=13, name="Concat-empty"),
    seed("Concat", [_floats(4, 4), _MASK], {"axis": 0}, vary=[0], name="Concat-mask"),
    seed("Split", [_floats(6, 2)], {"axis": 0, "split": [1, 2, 3]}, opset=7, outputs=3),
    seed("Split", [_floats(2, 6)], {"axis": -1}, opset=11, outputs=3),
    seed("Split", [_floats(2, 6), _ints(4, 0, 2)], {"axis": 1}, opset=13, outputs=3, constants={1: 1}),
    seed("Split", [_floats(7)], {"num_outputs": 3}, opset=18, outputs=3),
    # Slice
    seed("Slice", [_X], {"starts": [0, 1], "ends": [2, -1], "axes": [1, 2]}, opset=7),
    seed("Slice", [_X], {"starts": [1, 0, -3], "ends": [1000, 2, 1000]}, opset=9),
    seed("Slice", [_X, _ints(0, -1), _ints(5, 0), _ints(2, 1), _ints(2, -1)], opset=10, vary=[0]),
    seed("Slice", [_X, _ints(-1), _ints(-(2**63)), _ints(-1), _ints(-2)], opset=13, vary=[0], name="Slice-back"),
    seed("Slice", [_X, _ints(2), _ints(1), _ints(1)], opset=13, vary=[0], name="Slice-empty"),
    seed("Slice", [_floats(9), _ints(1), _ints(8), _ints(0), _ints(3)], vary=[0], name="Slice-step"),
    seed("Slice", [_floats(9), _ints(2), _ints(7)], vary=[0, 1, 2], name="Slice-vague"),
    seed("Slice", [_floats(9, 2), _ints(-3), _ints(-1), _ints(0)], vary=[0, 1, 2], name="Slice-vague-negative"),
    seed("Slice", [_floats(9), _ints(6), _ints(1), _ints(0), _ints(-2)], vary=[0, 1, 2], name="Slice-vague-back"),
    seed("Slice", [_MASK, _ints(1, 0), _ints(3, 3)], vary=[], name="Slice-mask"),
    # Pad
    seed("Pad", [_floats(2, 3)], {"pads": [0, 1, 2, 0], "value": 1.5}, opset=7),
    seed("Pad", [_floats(2, 3)], {"pads": [1, 1, 0, 2], "mode": "reflect"}, opset=7),
    seed("Pad", [_floats(2, 3)], {"pads": [1, 0, 3, 2], "mode": "edge"}, opset=7),
    seed("Pad", [_floats(3, 4), _ints(-1, 1, 0, -2), np.float32(2)], opset=11, constants={1: 1}, oracle="runtime"),
    seed("Pad", [_floats(2, 3), _ints(1, 1, 0, 2), _MINUS_INFINITY], opset=13, constants={1: 1, 2: 1}, name="Pad-minus"),
    seed("Pad", [_floats(2, 3), _ints(2, 1), None, _ints(-1)], opset=18, constants={1: 1, 3: 1}, name="Pad-18-axes"),
    seed("Pad", [_floats(4, 3), _ints(3, 2, 5, 1)], {"mode": "wrap"}, opset=19, constants={1: 1}),
    seed("Pad", [_floats(4, 5), _ints(2, 1, 3, 4)], {"mode": "reflect"}, opset=13, constants={1: 1}),
    seed("Pad", [_floats(4, 5), _ints(0, -1, 0, 2)], {"mode": "edge"}, opset=13, constants={1: 1}, oracle="runtime"),
    seed("Pad", [_floats(3, 2), _ints(1, 0, 2, 0)], vary=[0, 1], name="Pad-vague"),
    seed("Pad", [np.arange(6).reshape(2, 3), _ints(1, 1, 1, 1), np.int64(9)], vary=[0], name="Pad-integers"),
    seed("Pad", [_floats(0, 2), _ints(1, 0, 1, 1)], constants={1: 1}, name="Pad-empty"),
    # Tile, Expand
    seed("Tile", [_floats(2, 3), _ints(2, 3)], opset=7, constants={1: 1}),
    seed("Tile", [_floats(2, 3), _ints(1, 0)], opset=13, constants={1: 1}, name="Tile-none"),
    seed("Tile", [_floats(2, 3), _ints(2, 2)], vary=[0, 1], name="Tile-vague"),
    seed("Expand", [_floats(3, 1), _ints(2, 1, 4)], opset=8, constants={1: 1}),
    seed("Expand", [_floats(1, 3), _ints(2, 1)], opset=13, constants={1: 1}),
    seed("Expand", [_floats(1, 3), _ints(0, 3)], opset=13, constants={1: 1}, name="Expand-none"),
    seed("Expand", [_floats(3, 1), _ints(3, 4)], vary=[0, 1], name="Expand-vague"),
    seed("Expand", [_MASK, _ints(2, 4, 4)], vary=[], name="Expand-mask"),
    # DepthToSpace, SpaceToDepth
    seed("DepthToSpace", [_IMAGE], {"blocksize": 2}, opset=7),
    seed("DepthToSpace", [_IMAGE], {"blocksize": 2, "mode": "CRD"}, opset=11),
    seed("SpaceToDepth", [_floats(1, 2, 4, 6)], {"blocksize": 2}, opset=7),
    # ReverseSequence, CenterCropPad, Trilu
    seed("ReverseSequence", [_floats(4, 3, 2), _ints(4, 2, 1)], opset=10, constants={1: 1}),
    seed(
        "ReverseSequence",
        [_floats(3, 4, 2), _ints(1, 3, 4)],
        {"batch_axis": 0, "time_axis": 1},
        opset=10,
        constants={1: 1},
    ),
    seed("ReverseSequence", [_floats(4, 3), _ints(4, 2, 3)], opset=10, vary=[0, 1], name="ReverseSequence-vague"),
    seed("CenterCropPad", [_floats(5, 4), _ints(2, 7)], opset=18, constants={1: 1}),
    seed("CenterCropPad", [_floats(5, 4), _ints(8)], {"axes": [-2]}, opset=18, constants={1: 1}),
    seed("Trilu", [_floats(4, 5)], opset=14, name="Trilu-default"),
    seed("Trilu", [_floats(2, 4, 3), np.int64(-1)], {"upper": 0}, opset=14, vary=[0]),
    seed("Trilu", [_floats(4, 5), np.int64(1)], {"upper": 1}, opset=14, vary=[0, 1], name="Trilu-vague-upper"),
    seed("Trilu", [_floats(4, 5), np.int64(0)], {"upper": 0}, opset=14, vary=[0, 1], name="Trilu-vague-lower"),
    seed("Trilu", [np.full((4, 4), -np.inf, np.float32), np.int64(1)], opset=14, vary=[], name="Trilu-mask"),
    # Contrib operators of ONNX Runtime
    seed("SampleOp", [_X], domain="com.microsoft"),
    seed("ExpandDims", [_X, np.int32(1)], domain="com.microsoft", constants={1: 1}),
    seed("ExpandDims", [_X, np.int32(-1)], domain="com.microsoft", constants={1: 1}, name="ExpandDims-negative"),
    seed("UnfoldTensor", [_floats(2, 7)], {"dim": -1, "size": 3, "step": 2}, domain="com.microsoft"),
    seed("UnfoldTensor", [_floats(5, 2)], {"dim": 0, "size": 2, "step": 1}, domain="com.microsoft", name="UnfoldTensor-0"),
    seed("Pad", [_floats(2, 3), _ints(0, 1, 2, 0)], {"mode": "constant"}, domain="com.microsoft", constants={1: 1}),
    seed(
        "Pad",
        [_floats(2, 3), _ints(1, 0, 0, 2), np.array([3], np.float32)],
        {"mode": "constant"},
        domain="com.microsoft",
        constants={1: 1},
        name="Pad-contrib-value",
    ),
    seed("Pad", [_floats(2, 3), _ints(1, 2, 1, 1)], {"mode": "reflect"}, domain="com.microsoft", constants={1: 1}),
    seed("Pad", [_floats(2, 3), _ints(1, 2, 1, 1)], {"mode": "edge"}, domain="com.microsoft", constants={1: 1}),
    seed("Trilu", [_floats(3, 4), np.int64(1)], {"upper": 1}, domain="com.microsoft", vary=[0]),
    seed("Trilu", [_floats(3, 4)], {"upper": 0}, domain="com.microsoft", name="Trilu-contrib-lower"),
]
