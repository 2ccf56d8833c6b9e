"""Seeds of losses and dropout: old opsets, ignored targets, targets that vary."""

from __future__ import annotations

import numpy as np

from tests.soundness.seeds.seed import Seed, seed

_RNG = np.random.default_rng(71)


def _array(*shape: int) -> np.ndarray:
    return _RNG.standard_normal(shape).astype(np.float32)


_TARGET = np.array([1, 0, 3], np.int64)
_WEIGHT = np.array([0.5, 1.0, 2.0, 0.25], np.float32)

SEEDS: list[Seed] = [
    seed("Dropout", [_array(2, 3)], {"ratio": 0.3}, opset=7),
    seed("Dropout", [_array(2, 3)], {"ratio": 0.3}, opset=10, outputs=2, output_types=[1, 9]),
    seed("Dropout", [_array(2, 3), np.float32(0.25)], opset=12),
    *(
        seed(op, [_array(3, 4), _TARGET, *weights], {"reduction": reduction, **extra}, opset=opset)
        for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
        for opset in (12, 13)
        for reduction in ("none", "sum", "mean")
        for extra in ({}, {"ignore_index": 3})
        for weights in ((), (_WEIGHT,))
    ),
    seed("NegativeLogLikelihoodLoss", [_array(3, 4), _TARGET], {"reduction": "none"}, vary=[0, 1], name="nll-targets-vary"),
    seed("NegativeLogLikelihoodLoss", [_array(3, 4), _TARGET, _WEIGHT], {"reduction": "mean"}, vary=[0], name="nll-fixed-weights"),
]
