"""Where the ONNX reference evaluator does not follow the standard: ONNX Runtime is the oracle there instead.

The reasons were checked by hand against the operator's text. `all` stands for every format.
"""

from __future__ import annotations

#: label of the operator -> format -> what the reference evaluator does
DISTRUSTED: dict[str, dict[str, str]] = {
    "LogSoftmax": {"all": "is Log(Softmax): -inf wherever the softmax underflows"},
}


def is_distrusted(label: str, format: str) -> bool:
    """Whether the reference evaluator's results for this operator and format are no evidence."""
    reasons = DISTRUSTED.get(label, {})
    return "all" in reasons or format in reasons
