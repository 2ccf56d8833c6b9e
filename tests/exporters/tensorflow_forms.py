"""The functions in TensorFlow, exported by tf2onnx."""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import onnx
import tensorflow as tf
import tf2onnx

from tests.exporters.catalogue import CASES, DEFECTIVE

Function = Callable[..., Any]
OPSET = 18


def total(x, axis=-1):
    return tf.reduce_sum(x, axis=axis, keepdims=True)


def mean(x, axis=-1):
    return tf.reduce_mean(x, axis=axis, keepdims=True)


def softmax_by_hand(x):
    e = tf.exp(x - tf.reduce_max(x, axis=-1, keepdims=True))
    return e / total(e)


def naive_softmax(x):
    e = tf.exp(x)
    return e / total(e)


def stable_bce(x, z):
    return tf.reduce_mean(tf.maximum(x, 0.0) - x * z + tf.math.log(1.0 + tf.exp(-tf.abs(x))))


def naive_bce(x, z):
    p = tf.sigmoid(x)
    return -tf.reduce_mean(z * tf.math.log(p) + (1.0 - z) * tf.math.log(1.0 - p))


def layer_norm(x):
    average, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    return tf.exp((x - average) * tf.math.rsqrt(variance + 1e-5))


def layer_norm_of_squares(x):
    variance = mean(x * x) - mean(x) * mean(x)
    return tf.exp((x - mean(x)) * tf.math.rsqrt(variance + 1e-5))


def rms_norm(x, eps=1e-6):
    return tf.exp(x * tf.math.rsqrt(mean(tf.square(x)) + eps))


def group_norm(x, eps=1e-5):
    y = tf.reshape(x, [2, 4, 32])
    y = y - mean(y)
    y = y / tf.sqrt(mean(tf.square(y)) + eps)
    return tf.exp(tf.reshape(y, [2, 8, 4, 4]))


def instance_norm(x, eps=1e-5):
    average, variance = tf.nn.moments(x, axes=[2, 3], keepdims=True)
    return tf.exp((x - average) / tf.sqrt(variance + eps))


def batch_norm(x, eps=1e-5):
    average, variance = tf.nn.moments(x, axes=[0, 2, 3], keepdims=True)
    return tf.exp(tf.nn.batch_normalization(x, average, variance, tf.ones([8, 1, 1]) * 0.1, tf.ones([8, 1, 1]) * 1.5, eps))


def attention(q, k, v, mask, hidden=-1e9):
    scores = tf.matmul(q, k, transpose_b=True) / math.sqrt(8.0)
    return tf.matmul(tf.nn.softmax(tf.where(mask, scores, tf.constant(hidden, tf.float32)), axis=-1), v)


def iou(p, t):
    both = total(p * t)
    return both / (total(p) + total(t) - both + 1e-6)


def dice(p, t, smooth=1.0):
    return 1.0 - (2.0 * total(p * t) + smooth) / (total(p) + total(t) + smooth)


def focal(x):
    logarithm = tf.nn.log_softmax(x)
    return tf.reduce_mean(-((1.0 - tf.exp(logarithm)) ** 2) * logarithm)


def naive_focal(x):
    p = tf.nn.softmax(x)
    return tf.reduce_mean(-((1.0 - p) ** 2) * tf.math.log(p))


def info_nce(a, b):
    similar = tf.matmul(tf.math.l2_normalize(a, axis=-1), tf.math.l2_normalize(b, axis=-1), transpose_b=True) / 0.07
    return -tf.reduce_mean(tf.reduce_sum(tf.nn.log_softmax(similar) * tf.eye(4), axis=-1))


def naive_info_nce(a, b):
    e = tf.exp(tf.matmul(a, b, transpose_b=True))
    return -tf.reduce_mean(tf.math.log(tf.reduce_sum(e * tf.eye(4), axis=-1) / tf.reduce_sum(e, axis=-1)))


def kl(x, y):
    return total(tf.nn.softmax(x) * (tf.nn.log_softmax(x) - tf.nn.log_softmax(y)))


def naive_kl(x, y):
    p, q = tf.nn.softmax(x), tf.nn.softmax(y)
    return total(p * tf.math.log(p / q))


_layers: dict[str, Any] = {}


def layer(kind, x, **options):
    """A layer of Keras; its weights are made outside of the function that is traced."""
    with tf.init_scope():
        if f"{kind} {options}" not in _layers:
            made = _layers[f"{kind} {options}"] = getattr(keras.layers, kind)(**options)
            made.build(tuple(x.shape))
    return _layers[f"{kind} {options}"](x)


LABELS = [0, 3, 7, 1]

#: The function, and the same with a defect.
FORMS: dict[str, tuple[Function, Function]] = {
    "log-softmax": (tf.nn.log_softmax, lambda x: tf.math.log(tf.nn.softmax(x))),
    "softmax by hand": (softmax_by_hand, naive_softmax),
    "logsumexp": (
        lambda x: tf.reduce_logsumexp(x, axis=-1),
        lambda x: tf.math.log(tf.reduce_sum(tf.exp(x), axis=-1)),
    ),
    "p div sum(p)": (lambda p: tf.math.log(1.01 - p / total(p)), lambda p: tf.math.log(1.01 - p / mean(p))),
    "exp(h - relu(h))": (lambda h: tf.exp(h - tf.nn.relu(h)), lambda h: tf.exp(h + tf.nn.relu(h))),
    "stable BCE": (stable_bce, naive_bce),
    "softplus": (tf.nn.softplus, lambda x: tf.math.log(1.0 + tf.exp(x))),
    "logsigmoid": (tf.math.log_sigmoid, lambda x: tf.math.log(tf.sigmoid(x))),
    "sparse cross-entropy": (
        lambda x: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(LABELS, x)),
        lambda x: -tf.reduce_mean(tf.reduce_sum(tf.math.log(tf.nn.softmax(x)) * tf.one_hot(LABELS, 8), axis=-1)),
    ),
    "x div (1 + abs(x))": (
        lambda x: tf.math.log(1.01 - x / (1.0 + tf.abs(x))),
        lambda x: tf.math.log(1.01 - x / (1.0 + x)),
    ),
    "a div (a + b)": (
        lambda a, b: tf.math.log(1.01 - a / (a + b + 1e-3)),
        lambda a, b: tf.math.log(1.01 - a / (a - b + 1e-3)),
    ),
    "standardise": (
        lambda x: tf.exp((x - mean(x)) / (tf.math.reduce_std(x, axis=-1, keepdims=True) + 1e-6)),
        lambda x: tf.exp((x - mean(x)) / tf.math.reduce_std(x, axis=-1, keepdims=True)),
    ),
    "LayerNorm": (layer_norm, layer_norm_of_squares),
    "RMSNorm": (rms_norm, lambda x: rms_norm(x, 0.0)),
    "GroupNorm": (group_norm, lambda x: group_norm(x, 0.0)),
    "InstanceNorm": (instance_norm, lambda x: instance_norm(x, 0.0)),
    "batch statistics": (batch_norm, lambda x: batch_norm(x, 0.0)),
    "LayerNorm of the library": (
        lambda x: tf.exp(layer("LayerNormalization", x, epsilon=1e-5)),
        lambda x: tf.exp(20.0 * layer("LayerNormalization", x, epsilon=1e-5) ** 3),
    ),
    "RMSNorm of the library": (
        lambda x: tf.exp(layer("RMSNormalization", x, epsilon=1e-5)),
        lambda x: tf.exp(20.0 * layer("RMSNormalization", x, epsilon=1e-5) ** 3),
    ),
    "GroupNorm of the library": (
        lambda x: tf.exp(layer("GroupNormalization", x, groups=4, axis=1, epsilon=1e-5)),
        lambda x: tf.exp(20.0 * layer("GroupNormalization", x, groups=4, axis=1, epsilon=1e-5) ** 3),
    ),
    "InstanceNorm of the library": (
        lambda x: tf.exp(layer("GroupNormalization", x, groups=-1, axis=1, epsilon=1e-5)),
        lambda x: tf.exp(20.0 * layer("GroupNormalization", x, groups=-1, axis=1, epsilon=1e-5) ** 3),
    ),
    "cosine similarity": (
        lambda a, b: tf.math.log(1.01 - total(tf.math.l2_normalize(a, axis=-1) * tf.math.l2_normalize(b, axis=-1))),
        lambda a, b: tf.math.log(1.01 - total(a * b)),
    ),
    "masked attention": (attention, lambda q, k, v, mask: attention(q, k, v, mask, -math.inf)),
    "IoU": (iou, lambda p, t: total(p * t) / (total(p) - total(t) + 1e-6)),
    "dice": (dice, lambda p, t: dice(p, t, 0.0)),
    "focal": (focal, naive_focal),
    "InfoNCE": (info_nce, naive_info_nce),
    "KL": (kl, naive_kl),
    "softmax at V": (
        lambda x, v: tf.math.log(tf.matmul(tf.nn.softmax(x), v)),
        lambda x, v: tf.math.log(tf.matmul(tf.nn.softmax(x), v - 1.5)),
    ),
    "l2-normalise": (
        lambda x: tf.exp(10.0 * tf.math.l2_normalize(x, axis=-1)),
        lambda x: tf.exp(10.0 * x / tf.norm(x, axis=-1, keepdims=True)),
    ),
    "gelu": (
        lambda x: tf.math.log(0.2 + tf.nn.gelu(x, approximate=True)),
        lambda x: tf.math.log(0.1 + tf.nn.gelu(x, approximate=True)),
    ),
}


def main(folder: Path) -> None:
    logging.disable(logging.WARNING)
    for name, inputs in CASES.items():
        signature = [tf.TensorSpec(i.shape, tf.bool if i.boolean else tf.float32, name=n) for n, i in inputs.items()]
        for suffix, function in zip(("", DEFECTIVE), FORMS[name]):
            program = tf.function(function, input_signature=signature)
            proto, _ = tf2onnx.convert.from_function(program, input_signature=signature, opset=OPSET)
            onnx.save(proto, folder / f"{name}{suffix}.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
