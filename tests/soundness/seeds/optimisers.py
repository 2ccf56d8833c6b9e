"""Optimiser steps beyond the first iteration, with decay, regularisation and several tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.soundness.seeds.seed import Seed, seed

_RNG = np.random.default_rng(11)
_DOMAIN = "ai.onnx.preview.training"


def _tensors(*kinds: str) -> list[np.ndarray]:
    """Two tensors and what belongs to them, by kind: x, gradient g, momentum v, squares h (never negative)."""
    shapes = (3,), (2, 2)
    return [
        (_RNG.random(shape) + 3.0 if kind == "h" else _RNG.standard_normal(shape)).astype(np.float32)
        for kind in kinds
        for shape in shapes
    ]


def _step(operator: str, name: str, kinds: str, count: int, **attributes: Any) -> Seed:
    inputs = [np.float32(0.1), np.array(count, np.int64), *_tensors(*kinds)]
    return seed(
        operator,
        inputs,
        attributes,
        domain=_DOMAIN,
        outputs=2 * (len(kinds) - 1),
        oracle="reference",
        name=f"{operator}-{name}",
    )


SEEDS = [
    _step("Adagrad", "decayed", "xgh", 3, decay_factor=0.1, epsilon=1e-3),
    _step("Adagrad", "regularised", "xgh", 0, norm_coefficient=0.01),
    _step("Adam", "third", "xgvh", 3, alpha=0.9, beta=0.99, epsilon=1e-2),
    _step("Adam", "regularised", "xgvh", 1, norm_coefficient=0.01, norm_coefficient_post=0.02, epsilon=1e-2),
    _step("Momentum", "later", "xgv", 4, alpha=0.9, beta=0.5, norm_coefficient=0.001, mode="standard"),
    _step("Momentum", "nesterov", "xgv", 4, alpha=0.9, beta=0.5, norm_coefficient=0.0, mode="nesterov"),
]
