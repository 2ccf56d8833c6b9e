"""The functions in JAX, traced and written as ONNX by `tests.exporters.jaxpr_to_onnx`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx

from tests.exporters.catalogue import CASES, DEFECTIVE, MISSING
from tests.exporters.jaxpr_to_onnx import translate

Function = Callable[..., Any]


def softmax_by_hand(x):
    e = jnp.exp(x - jnp.max(x, axis=-1, keepdims=True))
    return e / jnp.sum(e, axis=-1, keepdims=True)


def naive_softmax(x):
    e = jnp.exp(x)
    return e / jnp.sum(e, axis=-1, keepdims=True)


def stable_bce(x, z):
    return jnp.mean(jnp.maximum(x, 0) - x * z + jnp.log1p(jnp.exp(-jnp.abs(x))))


def naive_bce(x, z):
    p = jax.nn.sigmoid(x)
    return -jnp.mean(z * jnp.log(p) + (1 - z) * jnp.log(1 - p))


ONE_HOT = np.eye(8, dtype=np.float32)[[0, 3, 7, 1]]


def layer_norm(x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    factor = jax.lax.rsqrt(jnp.var(x, axis=-1, keepdims=True) + 1e-5) * np.linspace(0.5, 2.0, 16, dtype=np.float32)
    return jnp.exp((x - mean) * factor)


def layer_norm_of_squares(x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(x * x, axis=-1, keepdims=True) - mean * mean
    return jnp.exp((x - mean) * jax.lax.rsqrt(variance + 1e-5))


def rms_norm(x, eps=1e-6):
    return jnp.exp(x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + eps))


def group_norm(x, eps=1e-5):
    y = x.reshape(2, 4, -1)
    y = y - jnp.mean(y, axis=-1, keepdims=True)
    y = y / jnp.sqrt(jnp.mean(y**2, axis=-1, keepdims=True) + eps)
    return jnp.exp(y.reshape(x.shape))


def instance_norm(x, eps=1e-5):
    mean, variance = jnp.mean(x, axis=(2, 3), keepdims=True), jnp.var(x, axis=(2, 3), keepdims=True)
    return jnp.exp((x - mean) / jnp.sqrt(variance + eps))


def batch_norm(x, eps=1e-5):
    mean = jnp.mean(x, axis=(0, 2, 3), keepdims=True)
    factor = jax.lax.rsqrt(jnp.mean(jnp.square(x - mean), axis=(0, 2, 3), keepdims=True) + eps)
    return jnp.exp(x * factor - mean * factor)


def attention(q, k, v, mask, hidden=-1e9):
    scores = jnp.einsum("bqd,bkd->bqk", q, k) / math.sqrt(q.shape[-1])
    return jax.nn.softmax(jnp.where(mask, scores, hidden), axis=-1) @ v


def iou(p, t):
    both = jnp.sum(p * t, axis=-1)
    return both / (jnp.sum(p, axis=-1) + jnp.sum(t, axis=-1) - both + 1e-6)


def dice(p, t, smooth=1.0):
    return 1 - (2 * jnp.sum(p * t, axis=-1) + smooth) / (jnp.sum(p, axis=-1) + jnp.sum(t, axis=-1) + smooth)


def focal(x):
    logarithm = jax.nn.log_softmax(x)
    return jnp.mean(-((1 - jnp.exp(logarithm)) ** 2) * logarithm)


def naive_focal(x):
    p = jax.nn.softmax(x)
    return jnp.mean(-((1 - p) ** 2) * jnp.log(p))


def normalised(x):
    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def info_nce(a, b):
    similar = normalised(a) @ normalised(b).T / 0.07
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(similar) * np.eye(4, dtype=np.float32), axis=-1))


def naive_info_nce(a, b):
    e = jnp.exp(a @ b.T)
    return -jnp.mean(jnp.log(jnp.sum(e * np.eye(4, dtype=np.float32), axis=-1) / jnp.sum(e, axis=-1)))


def kl(x, y):
    return jnp.sum(jax.nn.softmax(x) * (jax.nn.log_softmax(x) - jax.nn.log_softmax(y)), axis=-1)


def naive_kl(x, y):
    p, q = jax.nn.softmax(x), jax.nn.softmax(y)
    return jnp.sum(p * jnp.log(p / q), axis=-1)


#: The function, and the same with a defect.
FORMS: dict[str, tuple[Function, Function]] = {
    "log-softmax": (jax.nn.log_softmax, lambda x: jnp.log(jax.nn.softmax(x))),
    "softmax by hand": (softmax_by_hand, naive_softmax),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=-1), lambda x: jnp.log(jnp.sum(jnp.exp(x), axis=-1))),
    "p div sum(p)": (
        lambda p: jnp.log(1.01 - p / jnp.sum(p, axis=-1, keepdims=True)),
        lambda p: jnp.log(1.01 - p / jnp.mean(p, axis=-1, keepdims=True)),
    ),
    "exp(h - relu(h))": (lambda h: jnp.exp(h - jax.nn.relu(h)), lambda h: jnp.exp(h + jax.nn.relu(h))),
    "stable BCE": (stable_bce, naive_bce),
    "softplus": (jax.nn.softplus, lambda x: jnp.log(1 + jnp.exp(x))),
    "logsigmoid": (jax.nn.log_sigmoid, lambda x: jnp.log(jax.nn.sigmoid(x))),
    "sparse cross-entropy": (
        lambda x: -jnp.mean(jnp.sum(jax.nn.log_softmax(x) * ONE_HOT, axis=-1)),
        lambda x: -jnp.mean(jnp.sum(jnp.log(jax.nn.softmax(x)) * ONE_HOT, axis=-1)),
    ),
    "x div (1 + abs(x))": (
        lambda x: jnp.log(1.01 - jax.nn.soft_sign(x)),
        lambda x: jnp.log(1.01 - x / (1 + x)),
    ),
    "a div (a + b)": (
        lambda a, b: jnp.log(1.01 - a / (a + b + 1e-3)),
        lambda a, b: jnp.log(1.01 - a / (a - b + 1e-3)),
    ),
    "standardise": (
        lambda x: jnp.exp((x - jnp.mean(x, axis=-1, keepdims=True)) / (jnp.std(x, axis=-1, keepdims=True) + 1e-6)),
        lambda x: jnp.exp(jax.nn.standardize(x)),
    ),
    "LayerNorm": (layer_norm, layer_norm_of_squares),
    "RMSNorm": (rms_norm, lambda x: rms_norm(x, 0.0)),
    "GroupNorm": (group_norm, lambda x: group_norm(x, 0.0)),
    "InstanceNorm": (instance_norm, lambda x: instance_norm(x, 0.0)),
    "batch statistics": (batch_norm, lambda x: batch_norm(x, 0.0)),
    "cosine similarity": (
        lambda a, b: jnp.log(1.01 - jnp.sum(normalised(a) * normalised(b), axis=-1)),
        lambda a, b: jnp.log(1.01 - jnp.sum(a * b, axis=-1)),
    ),
    "masked attention": (attention, lambda q, k, v, mask: attention(q, k, v, mask, -jnp.inf)),
    "IoU": (iou, lambda p, t: jnp.sum(p * t, axis=-1) / (jnp.sum(p, axis=-1) - jnp.sum(t, axis=-1) + 1e-6)),
    "dice": (dice, lambda p, t: dice(p, t, 0.0)),
    "focal": (focal, naive_focal),
    "InfoNCE": (info_nce, naive_info_nce),
    "KL": (kl, naive_kl),
    "softmax at V": (
        lambda x, v: jnp.log(jax.nn.softmax(x) @ v),
        lambda x, v: jnp.log(jax.nn.softmax(x) @ (v - 1.5)),
    ),
    "l2-normalise": (
        lambda x: jnp.exp(10 * normalised(x)),
        lambda x: jnp.exp(10 * x / jnp.linalg.norm(x, axis=-1, keepdims=True)),
    ),
    "gelu": (
        lambda x: jnp.log(0.2 + jax.nn.gelu(x, approximate=False)),
        lambda x: jnp.log(0.1 + jax.nn.gelu(x, approximate=False)),
    ),
}


def main(folder: Path) -> None:
    for name in CASES.keys() - MISSING["jax"]:
        inputs = CASES[name]
        signature = {i: (spec.shape, "bool" if spec.boolean else "float32") for i, spec in inputs.items()}
        for suffix, function in zip(("", DEFECTIVE), FORMS[name]):
            onnx.save(translate(function, signature), folder / f"{name}{suffix}.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
