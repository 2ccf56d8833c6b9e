"""Classifiers: residual and inception networks, distillation, an optimiser that is learned on one."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.layers import (
    batch_normalised,
    convolution,
    dense,
    hidden,
    mean_cross_entropy,
    placeholder,
    trained,
    weight,
)

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("classifiers")


@family(
    holds(r"block_\d/(one|two)/batchnorm/Rsqrt", "a variance of a batch is 0 or more, and 0.001 is added to it"),
    ranges={"image": (-2, 2), "label": (0, 4)},
)
def residual_network(fixed: bool) -> Any:
    """Two blocks of two convolutions each, with batch normalisation and a shortcut."""
    image, label = placeholder("image", 2, 6, 6, 3), placeholder("label", 2, integer=True)
    x = convolution(image, 4, "first")
    for index in range(2):
        with tf.variable_scope(f"block_{index}"):
            inner = tf.nn.relu(batch_normalised(x, "one"))
            inner = tf.nn.relu(batch_normalised(convolution(inner, 4, "narrow"), "two"))
            x += convolution(inner, 4, "wide")
    pooled = tf.reduce_mean(tf.nn.relu(x), [1, 2])
    return trained(mean_cross_entropy(label, dense(pooled, 5, "classes")), tf.train.MomentumOptimizer(0.1, 0.9))


@family(
    holds("smoothed/truediv", "a division by the number of classes"),
    holds("batchnorm/Rsqrt|.*/batchnorm/Rsqrt", "a variance that is kept is 0 or more, and 0.001 is added to it"),
    fails(
        "confidence/Log",
        "the softmax of scores that are 88 apart underflows",
        {"image": 1.0, "one/kernel": 1.0, "three/kernel": 1.0, "classes/kernel": [[-1.0] + [1.0] * 4] * 8},
        fixed="probabilities are at least 1e-7 by the maximum",
    ),
    ranges={"image": (-1, 1), "label": (0, 4)},
)
def inception_network(fixed: bool) -> Any:
    """Branches of convolutions side by side, statistics that are kept, smoothed labels, and an entropy of its predictions."""
    image, label = placeholder("image", 1, 6, 6, 3), placeholder("label", 1, integer=True)
    branches = [
        tf.nn.relu(convolution(image, 3, "one", size=1)),
        tf.nn.relu(convolution(image, 3, "three")),
        convolution(tf.nn.max_pool2d(image, [1, 3, 3, 1], [1, 1, 1, 1], "SAME"), 2, "pooled", size=1),
    ]
    x = tf.concat(branches, 3)
    mean = tf.get_variable("mean", [8], initializer=tf.zeros_initializer(), trainable=False)
    variance = tf.get_variable("variance", [8], initializer=tf.ones_initializer(), trainable=False)
    x = tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3)
    logits = dense(tf.reshape(tf.nn.avg_pool2d(x, [1, 6, 6, 1], [1, 1, 1, 1], "VALID"), [1, 8]), 5, "classes")
    with tf.name_scope("smoothed"):
        wanted = 0.9 * tf.one_hot(label, 5) + 0.1 / tf.constant(5.0)
    with tf.name_scope("confidence"):
        p = tf.nn.softmax(logits)
        entropy = -tf.reduce_sum(p * tf.log(tf.maximum(p, 1e-7) if fixed else p))
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=wanted, logits=logits))
    return trained(loss - 0.1 * entropy, tf.train.RMSPropOptimizer(0.045, epsilon=1.0))


@family(
    holds("soft/truediv(_1)?", "a temperature of 2"),
    fails(
        "divergence/truediv",
        "a class that the student holds for impossible",
        {"x": 1.0, "student/hidden/kernel": 1.0, "student/classes/kernel": [[-1.0] + [1.0] * 3] * 12},
    ),
    fails(
        "divergence/Log",
        "a class that the teacher holds for impossible",
        {"teacher": [-100.0, 100.0, 100.0, 100.0]},
    ),
    ranges={"x": (-1, 1), "teacher": (-100, 100), "label": (0, 3)},
)
def distillation(fixed: bool) -> Any:
    """A student that learns the probabilities of a teacher, softened by a temperature."""
    x, teacher, label = placeholder("x", 2, 16), placeholder("teacher", 2, 4), placeholder("label", 2, integer=True)
    with tf.variable_scope("student"):
        logits = dense(hidden(x, 12, "hidden"), 4, "classes")
    with tf.name_scope("soft"):
        wanted, own = teacher / 2.0, logits / 2.0
    with tf.name_scope("divergence"):
        p = tf.nn.softmax(wanted)
        if fixed:
            each = p * (tf.nn.log_softmax(wanted) - tf.nn.log_softmax(own))
        else:
            each = p * tf.log(p / tf.nn.softmax(own))
        divergence = tf.reduce_mean(tf.reduce_sum(each, 1))
    return trained(mean_cross_entropy(label, logits) + 4.0 * divergence)


@family(
    fails(
        "scaled/Log",
        "a gradient of 0 has no logarithm",
        {"start": 0.0, "matrix": 0.0},
        fixed="a magnitude is 0 or more, and 1.2e-7 is added to it",
    ),
    holds("scaled/truediv", "a division by 10"),
    holds("scaled/Exp", "a constant of 10"),
    ranges={"start": (-1, 1), "matrix": (-1, 1), "goal": (-1, 1)},
)
def learned_optimiser(fixed: bool) -> Any:
    """A network that makes the steps of another: gradients by the logarithms of their magnitudes, and by their signs."""
    start, matrix, goal = placeholder("start", 6), placeholder("matrix", 6, 6), placeholder("goal", 6)
    hidden_weight, out = weight("hidden", 2, 5), weight("out", 5, 1)
    x, total = start, tf.zeros([])
    cost = tf.reduce_sum(tf.square(tf.linalg.matvec(matrix, x) - goal))
    (slope,) = tf.gradients(cost, [x])
    with tf.name_scope("scaled"):
        size = tf.abs(slope)
        logarithm = tf.log(size + 1.1920929e-07 if fixed else size) / 10.0
        signs = tf.clip_by_value(slope * tf.exp(tf.constant(10.0)), -1.0, 1.0)
        features = tf.stack([tf.maximum(logarithm, -1.0), signs], 1)
    x = x + 0.1 * tf.matmul(tf.tanh(tf.matmul(features, hidden_weight)), out)[:, 0]
    total += tf.reduce_sum(tf.square(tf.linalg.matvec(matrix, x) - goal))
    return trained(total)
