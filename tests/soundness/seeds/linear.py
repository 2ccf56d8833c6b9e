"""Matrix products, Einsum and determinants: old opsets, attributes, broadcasting, ONNX Runtime's fused forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.soundness.seeds.seed import Seed, seed

_RNG = np.random.default_rng(21)
_RUNTIME = "com.microsoft"
# Activations that ONNX Runtime computes as the standard says; its Tanh and Sigmoid are approximations of their own, which
# only the target onnxruntime-cpu describes.
_ACTIVATIONS: dict[str, dict[str, float]] = {
    "Relu": {},
    "LeakyRelu": {"activation_alpha": 0.1},
    "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4},
}


def _normal(*shape: int) -> np.ndarray[Any, Any]:
    return _RNG.standard_normal(shape).astype(np.float32)


def _whole(*shape: int, dtype: Any = np.int32) -> np.ndarray[Any, Any]:
    return _RNG.integers(0 if np.dtype(dtype).kind == "u" else -9, 9, shape).astype(dtype)


def _matmuls() -> list[Seed]:
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "matrices": ((3, 5), (5, 4)),
        "long": ((2, 40), (40, 3)),
        "vectors": ((6,), (6,)),
        "vector-matrix": ((4,), (4, 3)),
        "matrix-vector": ((3, 4), (4,)),
        "stack-matrix": ((2, 3, 4), (4, 2)),
        "broadcast": ((2, 1, 3, 4), (3, 4, 2)),
        "vector-stack": ((4,), (2, 3, 4, 2)),
        "one-term": ((3, 1), (1, 4)),
        "no-term": ((2, 0), (0, 3)),
        "no-row": ((0, 3), (3, 2)),
    }
    seeds = [
        seed("MatMul", [_normal(*a), _normal(*b)], opset=opset, name=f"MatMul-{opset}-{name}")
        for opset, (name, (a, b)) in zip((7, 8, 9, 13, 13, 13, 13, 21, 24, 13, 13), shapes.items())
    ]
    seeds += [
        seed("MatMul", [_normal(3, 5), _normal(5, 4)], opset=13, constants={1: True}, name="MatMul-13-weights"),
        seed("MatMul", [_normal(3, 5), _normal(2, 5, 4)], opset=13, constants={0: True}, name="MatMul-13-left-weights"),
        seed("MatMul", [_normal(4, 6), _normal(6, 3)], opset=13, oracle="runtime", name="MatMul-13-runtime"),
        seed("MatMul", [_whole(3, 4), _whole(4, 2)], opset=13, vary=[0, 1], name="MatMul-13-int32"),
        seed(
            "MatMul",
            [_whole(3, 4, dtype=np.uint64), _whole(4, 2, dtype=np.uint64)],
            opset=13,
            vary=[0, 1],
            name="MatMul-13-uint64",
        ),
    ]
    return seeds


def _gemms() -> list[Seed]:
    a, b = _normal(3, 5), _normal(5, 4)
    scaled = {"alpha": 0.3, "beta": -1.7}
    both = {"transA": 1, "transB": 1, "alpha": -2.0}
    return [
        seed("Gemm", [a, b, _normal(3, 4)], scaled, opset=7, name="Gemm-7"),
        seed("Gemm", [a, b, _normal(1, 4)], {"beta": 0.5}, opset=9, name="Gemm-9-row"),
        seed("Gemm", [a, b, _normal(3, 1)], {}, opset=10, name="Gemm-10-column"),
        seed("Gemm", [a, b, np.float32(0.7)], {"beta": 3.0}, opset=11, name="Gemm-11-scalar"),
        seed("Gemm", [a, b], {"alpha": 1e-3}, opset=11, name="Gemm-11-no-bias"),
        seed("Gemm", [a, b], {"alpha": 30.0}, opset=13, name="Gemm-13-large-alpha"),
        seed("Gemm", [_normal(5, 3), _normal(4, 5), _normal(4)], both, opset=13, name="Gemm-13-transposed"),
        seed("Gemm", [a, _normal(4, 5), _normal(4)], {"transB": 1}, opset=13, constants={1: True, 2: True}, name="Gemm-13-layer"),
        seed("Gemm", [a, b, _normal(4)], {"beta": 0.0}, opset=13, name="Gemm-13-no-beta"),
        seed("Gemm", [a, b, _normal(4)], scaled, opset=13, oracle="runtime", name="Gemm-13-runtime"),
        seed("Gemm", [_whole(3, 5), _whole(5, 4), _whole(4)], {}, opset=13, vary=[0, 1, 2], name="Gemm-13-int32"),
        seed("Gemm", [_normal(2, 0), _normal(0, 3), _normal(3)], {}, opset=13, name="Gemm-13-no-term"),
    ]


def _fused() -> list[Seed]:
    a, b = _normal(3, 5), _normal(5, 4)
    stack = _normal(2, 3, 4)
    return [
        seed("FusedMatMul", [a, _normal(4, 5)], {"transB": 1, "alpha": 0.25}, domain=_RUNTIME, opset=21, name="FusedMatMul-b"),
        seed("FusedMatMul", [_normal(5, 3), b], {"transA": 1, "alpha": -1.5}, domain=_RUNTIME, opset=21, name="FusedMatMul-a"),
        seed("FusedMatMul", [stack, _normal(3, 4, 5)], {"transBatchA": 1}, domain=_RUNTIME, opset=21, name="FusedMatMul-batch-a"),
        seed(
            "FusedMatMul",
            [_normal(3, 5, 2), _normal(2, 3, 4)],
            {"transBatchB": 1},
            domain=_RUNTIME,
            opset=21,
            name="FusedMatMul-batch-b",
        ),
        seed(
            "FusedMatMul",
            [stack, _normal(3, 2, 5)],
            {"transBatchA": 1, "transA": 1},
            domain=_RUNTIME,
            opset=21,
            name="FusedMatMul-both-a",
        ),
        seed("FusedMatMul", [_normal(4), _normal(4)], {"transA": 1}, domain=_RUNTIME, opset=21, name="FusedMatMul-vectors"),
        seed(
            "TransposeMatMul",
            [a, _normal(4, 5)],
            {"transB": 1, "alpha": 0.25},
            domain=_RUNTIME,
            opset=21,
            name="TransposeMatMul-b",
        ),
        *(
            seed(
                "FusedGemm",
                [a, b, _normal(4)],
                {"activation": name, "alpha": 0.5, **parameters},
                domain=_RUNTIME,
                opset=21,
                name=f"FusedGemm-{name}",
            )
            for name, parameters in _ACTIVATIONS.items()
        ),
    ]


def _einsums() -> list[Seed]:
    equations: dict[str, list[tuple[int, ...]]] = {
        "ij,jk->ik": [(3, 4), (4, 2)],
        "ij,kj": [(3, 4), (2, 4)],
        "bhqd,bhkd->bhqk": [(2, 2, 3, 4), (2, 2, 2, 4)],
        "...ij,...jk->...ik": [(2, 3, 4), (2, 4, 2)],
        "i...,i...->...": [(3, 2), (3, 2)],
        "ij,j->ij": [(3, 4), (4,)],
        "i,j->ij": [(3,), (4,)],
        "ii": [(4, 4)],
        "ii->i": [(4, 4)],
        "iij->j": [(3, 3, 2)],
        "ijk->kij": [(2, 3, 4)],
        "ijk->": [(2, 3, 4)],
        "...j->...": [(2, 3, 4)],
        "ij,jk->": [(3, 4), (4, 2)],
        "ij,k->k": [(3, 4), (2,)],
        "ii,ij->j": [(3, 3), (3, 2)],
        "bn,anm,bm->ba": [(2, 3), (2, 3, 4), (2, 4)],
        "i,i,i->i": [(4,), (4,), (4,)],
        "i,i,i": [(4,), (4,), (4,)],
        " ab , bC -> Ca ": [(2, 3), (3, 2)],
        "i,->i": [(3,), ()],
        "ij,ij->ij": [(1, 3), (2, 3)],
    }
    seeds = [
        seed("Einsum", [_normal(*shape) for shape in shapes], {"equation": equation}, opset=12, name=f"Einsum-12-{equation}")
        for equation, shapes in equations.items()
    ]
    weights = seed(
        "Einsum",
        [_normal(2, 3, 4), _normal(4, 2, 3)],
        {"equation": "bsd,dhk->bhsk"},
        opset=12,
        constants={1: True},
        name="Einsum-12-weights",
    )
    whole = seed(
        "Einsum",
        [_whole(3, 4), _whole(4, 2)],
        {"equation": "ij,jk->ik"},
        opset=12,
        vary=[0, 1],
        name="Einsum-12-int32",
    )
    nothing = seed("Einsum", [_normal(3, 0), _normal(0, 2)], {"equation": "ij,jk->ik"}, opset=12, name="Einsum-12-no-term")
    return [*seeds, weights, whole, nothing]


def _determinants() -> list[Seed]:
    return [
        *(seed("Det", [_normal(n, n)], opset=11, name=f"Det-11-{n}") for n in (1, 2, 3, 4)),
        seed("Det", [_normal(2, 3, 3)], opset=22, name="Det-22-stack"),
        seed("Det", [_normal(3, 3)], opset=11, oracle="runtime", name="Det-11-runtime"),
        seed("Det", [_normal(2, 0, 0)], opset=11, name="Det-11-nothing"),
    ]


SEEDS = [*_matmuls(), *_gemms(), *_fused(), *_einsums(), *_determinants()]
