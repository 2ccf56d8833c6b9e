"""Reductions, running sums and products, and places of extremes: old opsets, axes as attribute and as input, corners."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from tests.soundness.seeds.seed import Seed, seed

_RNG = np.random.default_rng(20)
_CUBE = _RNG.standard_normal((3, 4, 5)).astype(np.float32)
_POSITIVE = (np.abs(_RNG.standard_normal((3, 4, 5))) + 0.1).astype(np.float32)
_MATRIX = _RNG.standard_normal((4, 6)).astype(np.float32)
_LONG = _RNG.standard_normal((2, 70)).astype(np.float32)
_WHOLE = _RNG.integers(-9, 9, (3, 4)).astype(np.int32)
_LARGE = _RNG.integers(-(2**40), 2**40, (3, 4)).astype(np.int64)
_EMPTY = np.zeros((2, 0, 3), np.float32)

_SUMMING = (
    "ReduceSum",
    "ReduceMean",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceProd",
)
_REDUCTIONS = (*_SUMMING, "ReduceMax", "ReduceMin")


def _axes(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


def _reductions(name: str) -> list[Seed]:
    x = _POSITIVE if name == "ReduceLogSum" else _CUBE
    matrix = np.abs(_MATRIX) + np.float32(0.1) if name == "ReduceLogSum" else _MATRIX
    # Axes became an input at version 13 of ReduceSum and at version 18 of all others.
    newest_with_attribute = 12 if name == "ReduceSum" else 17
    return [
        seed(name, [x], {"axes": [1], "keepdims": 0}, opset=7, name=f"{name}-7"),
        seed(name, [x], {"axes": [0, 2], "keepdims": 1}, opset=10, name=f"{name}-10-two-axes"),
        seed(name, [x], {"axes": [-1, 0], "keepdims": 0}, opset=11, name=f"{name}-11-negative"),
        seed(name, [x], {}, opset=newest_with_attribute, name=f"{name}-{newest_with_attribute}-all"),
        seed(name, [x, _axes(-2)], {"keepdims": 0}, opset=18, name=f"{name}-18-negative"),
        seed(name, [x, _axes(1, -1)], {"keepdims": 1}, opset=20, constants={1: True}, name=f"{name}-20-constant-axes"),
        seed(name, [matrix], {"noop_with_empty_axes": 1}, opset=18, name=f"{name}-18-noop"),
        seed(name, [matrix, _axes()], {"noop_with_empty_axes": 0}, opset=18, name=f"{name}-18-empty-axes"),
        seed(name, [matrix, _axes(0)], {}, opset=21, oracle="runtime", name=f"{name}-21-runtime"),
        seed(name, [np.float32(1.5)], {"keepdims": 1}, opset=18, name=f"{name}-18-scalar"),
        seed(name, [np.abs(_LONG), _axes(1)], {"keepdims": 1}, opset=18, name=f"{name}-18-long"),
        seed(name, [_EMPTY, _axes(1)], {"keepdims": 1}, opset=18, name=f"{name}-18-nothing"),
        seed(name, [_EMPTY, _axes(0)], {"keepdims": 0}, opset=18, name=f"{name}-18-no-result"),
    ]


def _integer_reductions(name: str) -> list[Seed]:
    # The reference evaluator's ReduceSumSquare gives int64 for int32; ONNX Runtime has no kernels for uint32.
    oracle = "runtime" if name == "ReduceSumSquare" else "reference"
    found = [
        seed(name, [_WHOLE, _axes(1)], {}, opset=18, vary=[0], oracle=oracle, name=f"{name}-18-int32"),
        seed(name, [_LARGE, _axes(0)], {"keepdims": 0}, opset=18, vary=[0], name=f"{name}-18-int64"),
    ]
    if oracle == "reference":
        unsigned = np.abs(_WHOLE).astype(np.uint32)
        found.append(seed(name, [unsigned, _axes(0)], {}, opset=18, vary=[0], name=f"{name}-18-uint32"))
    return found


def _places(name: str) -> list[Seed]:
    ties = np.array([[1, 2, 2], [3, 3, 1], [0, 0, 0]], np.float32)
    kind = [TensorProto.INT64]
    return [
        seed(name, [_MATRIX], {"axis": 1}, opset=7, output_types=kind, name=f"{name}-7"),
        seed(name, [_CUBE], {"axis": -1, "keepdims": 0}, opset=11, output_types=kind, name=f"{name}-11-negative"),
        seed(name, [_CUBE], {}, opset=12, output_types=kind, name=f"{name}-12-default"),
        seed(name, [ties], {"axis": 1, "select_last_index": 1}, opset=13, output_types=kind, name=f"{name}-13-last"),
        seed(name, [ties], {"axis": 1, "keepdims": 0}, opset=13, output_types=kind, name=f"{name}-13-ties"),
        seed(name, [_WHOLE], {"axis": 0}, opset=13, output_types=kind, vary=[0], name=f"{name}-13-int32"),
        seed(name, [_EMPTY], {"axis": 0}, opset=13, output_types=kind, name=f"{name}-13-no-result"),
    ]


def _running(name: str, opset: int) -> list[Seed]:
    found: list[Seed] = []
    for exclusive in (0, 1):
        for reverse in (0, 1):
            attributes = {"exclusive": exclusive, "reverse": reverse}
            tail = f"{opset}-{exclusive}{reverse}"
            found.append(seed(name, [_MATRIX, np.int64(-1)], attributes, opset=opset, name=f"{name}-{tail}"))
            found.append(seed(name, [_CUBE, np.int32(1)], attributes, opset=opset, name=f"{name}-{tail}-cube"))
            whole = seed(name, [_WHOLE, np.int64(0)], attributes, opset=opset, vary=[0], name=f"{name}-{tail}-int32")
            found.append(whole)
    found.append(seed(name, [_EMPTY, np.int64(1)], {}, opset=opset, name=f"{name}-{opset}-nothing"))
    found.append(seed(name, [np.abs(_LONG), np.int64(1)], {}, opset=opset, name=f"{name}-{opset}-long"))
    return found


_HARDMAX = [
    seed("Hardmax", [_CUBE], {"axis": 2}, opset=7, oracle="runtime", name="Hardmax-7-last"),
    seed("Hardmax", [_CUBE], {"axis": 1}, opset=11, oracle="runtime", name="Hardmax-11-flattened"),
    seed("Hardmax", [_CUBE], {}, opset=12, oracle="runtime", name="Hardmax-12-default"),
    seed("Hardmax", [_CUBE], {"axis": 0}, opset=12, oracle="runtime", name="Hardmax-12-all"),
    seed("Hardmax", [_CUBE], {"axis": -2}, opset=13, name="Hardmax-13-negative"),
    seed("Hardmax", [_EMPTY], {"axis": 1}, opset=13, name="Hardmax-13-nothing"),
]

SEEDS = [
    *(s for name in _REDUCTIONS for s in _reductions(name)),
    *(s for name in _REDUCTIONS if "Log" not in name for s in _integer_reductions(name)),
    *(s for name in ("ArgMax", "ArgMin") for s in _places(name)),
    *_running("CumSum", 11),
    *_running("CumSum", 14),
    *_running("CumProd", 26),
    *_HARDMAX,
]
