"""Estimators of gradients through discrete choices, and bounds from several samples."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.layers import SIGMOID_LOSS, dense, hidden, placeholder, sigmoid_cross_entropy, trained

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("estimators")


@family(
    holds("gumbel/Log", "uniform numbers are 0 or more, and 1e-20 is added to them"),
    holds("gumbel/Log_1", "uniform numbers are at most 1 - 2**-23: minus their logarithm is at least 1.2e-7"),
    holds("gumbel/truediv", "a temperature of 0.5"),
    holds("divergence/Log", "a probability is 0 or more, and 1e-20 is added to it"),
    SIGMOID_LOSS,
    ranges={"x": (0, 1)},
)
def gumbel_softmax(fixed: bool) -> Any:
    """A categorical autoencoder that draws by Gumbel noise, with the guards of its authors."""
    x = placeholder("x", 2, 12)
    logits = tf.reshape(dense(hidden(x, 10, "encoder"), 8, "logits"), [4, 4])
    with tf.name_scope("divergence"):
        q = tf.nn.softmax(logits)
        divergence = tf.reduce_sum(q * tf.log(4.0 * q + 1e-20))
    with tf.name_scope("gumbel"):
        uniform = tf.random_uniform([4, 4])
        noise = -tf.log(-tf.log(uniform + 1e-20) + 1e-20)
        drawn = tf.nn.softmax((logits + noise) / 0.5)
    image = dense(hidden(tf.reshape(drawn, [2, 8]), 10, "decoder"), 12, "image")
    return trained(tf.reduce_sum(sigmoid_cross_entropy(x, image)) + divergence)


@family(
    fails(
        "noise/Log",
        "TensorFlow draws 0, once in 8 million numbers",
        {"noise/random_uniform/RandomUniform": 0.0},
        fixed="uniform numbers are clipped to 1e-6 and more",
    ),
    holds("noise/Log1p", "a uniform number is below 1"),
    holds("relaxed/truediv", "a temperature of 0.1"),
    SIGMOID_LOSS,
    ranges={"x": (0, 1)},
)
def rebar(fixed: bool) -> Any:
    """A sigmoid belief network whose control variate is a relaxed draw: logistic noise from one uniform number."""
    x = placeholder("x", 2, 12)
    logits = dense(x, 6, "encoder")
    with tf.name_scope("noise"):
        uniform = tf.random_uniform([2, 6])
        if fixed:
            uniform = tf.clip_by_value(uniform, 1e-6, 1.0 - 1e-6)
        noise = tf.log(uniform) - tf.log1p(-uniform)
    with tf.name_scope("relaxed"):
        relaxed = tf.sigmoid((logits + noise) / 0.1)
        hard = tf.stop_gradient(tf.cast(logits + noise > 0.0, tf.float32))
    with tf.variable_scope("generator"):
        drawn = tf.reduce_sum(sigmoid_cross_entropy(x, dense(hard, 12, "image")), 1)
    with tf.variable_scope("generator", reuse=True):
        variate = tf.reduce_sum(sigmoid_cross_entropy(x, dense(relaxed, 12, "image")), 1)
    likely = tf.reduce_sum(sigmoid_cross_entropy(hard, logits), 1)
    return trained(tf.reduce_mean(drawn + tf.stop_gradient(drawn - variate) * likely))


@family(
    fails(
        "bound/Log",
        "all samples explain 24 pixels badly: the mean of the weights is 0",
        {"x": 1.0, "decoder/kernel": -1.0, "decoder/bias": -1.0, "noise": 1.0, "encoder/bias": 1.0},
    ),
    holds("bound/Exp", "a logarithm of a probability is 0 or less", form="defective"),
    holds("bound/.*/Exp", "differences from the largest", form="fixed"),
    holds("bound/.*/Log", "the power of the largest difference is 1", form="fixed"),
    holds("left_out/truediv", "a division by the number of other samples"),
    SIGMOID_LOSS,
    ranges={"x": (0, 1), "noise": (0, 1)},
)
def several_samples(fixed: bool) -> Any:
    """Variational inference with the mean of five weights as its bound, each sample judged by the others."""
    x, noise = placeholder("x", 24), placeholder("noise", 5, 6)
    logits = dense(tf.expand_dims(x, 0), 6, "encoder")
    drawn = tf.cast(tf.sigmoid(logits) > noise - 0.5, tf.float32)
    each = -tf.reduce_sum(sigmoid_cross_entropy(tf.tile(tf.expand_dims(x, 0), [5, 1]), dense(drawn, 24, "decoder")), 1)
    with tf.name_scope("bound"):
        bound = tf.reduce_logsumexp(each) - 1.609438 if fixed else tf.log(tf.reduce_mean(tf.exp(each)))
    with tf.name_scope("left_out"):
        others = (tf.reduce_sum(each) - each) / 4.0
    likely = tf.reduce_sum(sigmoid_cross_entropy(drawn, tf.tile(logits, [5, 1])), 1)
    return trained(tf.reduce_mean(tf.stop_gradient(each - others) * likely) - bound)
