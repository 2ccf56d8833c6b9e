"""The functions that every exporter writes: names, inputs and their ranges."""

from __future__ import annotations

from dataclasses import dataclass

Box = tuple[float, float]


@dataclass(frozen=True)
class Input:
    """One input: its shape, the range of its elements, and whether it is a truth value."""

    shape: tuple[int, ...]
    box: Box
    boolean: bool = False


_LOGITS = Input((4, 8), (-1e4, 1e4))
_SHARE = Input((4, 8), (0.0, 1.0))
_WIDE = Input((4, 16), (-1e6, 1e6))
_IMAGE = Input((2, 8, 4, 4), (-1e3, 1e3))
_TOKENS = Input((2, 4, 8), (-10.0, 10.0))

#: Functions by name. Where a bound is what matters, the function goes on to use it: a logarithm of 1.01 - p fails if p > 1.01.
CASES: dict[str, dict[str, Input]] = {
    "log-softmax": {"x": _LOGITS},
    "softmax by hand": {"x": _LOGITS},
    "logsumexp": {"x": _LOGITS},
    "p div sum(p)": {"p": Input((4, 8), (1e-3, 1e3))},
    "exp(h - relu(h))": {"h": _LOGITS},
    "stable BCE": {"x": _LOGITS, "z": _SHARE},
    "softplus": {"x": _LOGITS},
    "logsigmoid": {"x": _LOGITS},
    "sparse cross-entropy": {"x": _LOGITS},
    "x div (1 + abs(x))": {"x": Input((4, 8), (-1e30, 1e30))},
    "a div (a + b)": {"a": Input((4, 8), (0.0, 1e3)), "b": Input((4, 8), (0.0, 1e3))},
    "standardise": {"x": _WIDE},
    "LayerNorm": {"x": _WIDE},
    "RMSNorm": {"x": _WIDE},
    "GroupNorm": {"x": _IMAGE},
    "InstanceNorm": {"x": _IMAGE},
    "batch statistics": {"x": _IMAGE},
    "LayerNorm of the library": {"x": _WIDE},
    "RMSNorm of the library": {"x": _WIDE},
    "GroupNorm of the library": {"x": _IMAGE},
    "InstanceNorm of the library": {"x": _IMAGE},
    "cosine similarity": {"a": _WIDE, "b": _WIDE},
    "masked attention": {"q": _TOKENS, "k": _TOKENS, "v": _TOKENS, "mask": Input((4, 4), (0, 1), boolean=True)},
    "IoU": {"p": _SHARE, "t": _SHARE},
    "dice": {"p": _SHARE, "t": _SHARE},
    "focal": {"x": _LOGITS},
    "InfoNCE": {"a": Input((4, 8), (-1e3, 1e3)), "b": Input((4, 8), (-1e3, 1e3))},
    "KL": {"x": _LOGITS, "y": _LOGITS},
    "softmax at V": {"x": _LOGITS, "v": Input((8, 5), (1.0, 2.0))},
    "l2-normalise": {"x": _WIDE},
    "gelu": {"x": Input((4, 8), (-10.0, 10.0))},
}

#: Functions that a library does not have, by exporter.
MISSING = {
    "jax": {name for name in CASES if name.endswith("of the library")},
    "torchscript": {"RMSNorm of the library"},
}

DEFECTIVE = ".defective"
