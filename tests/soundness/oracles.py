"""Where the ONNX reference evaluator does not follow the standard: ONNX Runtime is the oracle there instead.

The reasons were checked by hand against the operator's text. `all` stands for every format.
"""

from __future__ import annotations

from tests.soundness.seeds.seed import Seed

_SINGLE = "returns float32 for several tensors, whatever their format"
_ROUNDS = "rounds every step to the tensor's format where the standard computes in float32"

#: label of the operator, or name of the node case -> format -> what the reference evaluator does
DISTRUSTED: dict[str, dict[str, str]] = {
    "test_adam_multiple": {"float64": _SINGLE},
    "Adam-third": {"float64": _SINGLE},
    "Adam-regularised": {"float64": _SINGLE},
    "OneHot": {"all": "computes off + (on - off), which rounds and overflows, where the standard says on"},
    "SoftmaxCrossEntropyLoss": {"all": "takes Log(Softmax): infinite wherever the softmax underflows"},
    "AffineGrid": dict.fromkeys(("float16", "bfloat16", "float64"), "gives float32"),
    "GlobalLpPool": {"all": "does not implement it"},
    "MaxRoiPool": {"all": "does not implement it"},
    "MaxPool": {"all": "gives negative indices for windows at the border"},
    "LogSoftmax": {"all": "is Log(Softmax): -inf wherever the softmax underflows"},
    "Dropout": {"bfloat16": _SINGLE},
    "Det": {"float16": "is numpy.linalg.det, which lacks the format", "bfloat16": "gives float64 (numpy.linalg.det)"},
    "Erf": {"float64": "rounds to float32"},
    "Gelu": {"float64": "its Erf rounds to float32"},
    "LayerNormalization": {"float16": _ROUNDS, "bfloat16": _ROUNDS},
    "RMSNormalization": {"float16": _ROUNDS, "bfloat16": _ROUNDS},
    "test_batchnorm_example_training_mode": {"float16": _ROUNDS, "bfloat16": _ROUNDS},
    "test_batchnorm_epsilon_training_mode": {"float16": _ROUNDS, "bfloat16": _ROUNDS},
    "batch-training": {"float16": _ROUNDS, "bfloat16": _ROUNDS},
    "test_l1normalization_axis_0": {"all": "sums the elements instead of their absolute values"},
    "test_l1normalization_axis_1": {"all": "sums the elements instead of their absolute values"},
    "test_l1normalization_axis_last": {"all": "sums the elements instead of their absolute values"},
}

#: Operators that the standard computes in float32 whatever the tensor's format: float64 shows nothing more.
SINGLE_PRECISION = frozenset(
    {
        "Attention",
        "DeformConv",
        "GridSample",
        "GroupNormalization",
        "MeanVarianceNormalization",
        "RMSNormalization",
        "Resize",
        "ai.onnx.preview::FlexAttention",
    }
)


def is_distrusted(seed: Seed, format: str) -> bool:
    """Whether the reference evaluator's results for this operator and format are no evidence."""
    reasons = {**DISTRUSTED.get(seed.label, {}), **DISTRUSTED.get(seed.name, {})}
    return "all" in reasons or format in reasons
