"""Autoencoders: sparse ones, variational ones with their divergences, codebooks."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.layers import SIGMOID_LOSS, dense, hidden, placeholder, sigmoid_cross_entropy, trained

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("autoencoders")


@family(
    fails(
        "sparsity/truediv",
        "a unit that is off for the whole batch: the sigmoid of -89 is flushed to 0",
        {"x": 1.0, "encoder/kernel": -1.0, "encoder/bias": -1.0},
        fixed="the mean is clipped to [1e-6, 1 - 1e-6]",
    ),
    fails(
        "sparsity/truediv_1",
        "a unit that is on for the whole batch: the sigmoid of 17 is 1",
        {"x": 1.0, "encoder/kernel": 1.0},
        fixed="the mean is clipped to [1e-6, 1 - 1e-6], and 1 - 1e-6 is a number below 1",
    ),
    holds("sparsity/Log(_1)?", "a positive number divided by one that is at most 1"),
    ranges={"x": (0, 1)},
)
def sparse_autoencoder(fixed: bool) -> Any:
    """Units that are to be on in one of twenty cases, by a divergence."""
    x = placeholder("x", 2, 90)
    code = tf.sigmoid(dense(x, 6, "encoder"))
    with tf.name_scope("sparsity"):
        mean = tf.reduce_mean(code, 0)
        if fixed:
            mean = tf.clip_by_value(mean, 1e-6, 1.0 - 1e-6)
        sparsity = tf.reduce_sum(0.05 * tf.log(0.05 / mean) + 0.95 * tf.log(0.95 / (1.0 - mean)))
    return trained(tf.reduce_mean(tf.square(dense(code, 90, "decoder") - x)) + 3.0 * sparsity)


def encoded(x: Any, size: int) -> Any:
    inner = hidden(x, 12, "encoder")
    return dense(inner, size, "mean"), dense(inner, size, "spread")


@family(
    holds("likelihood/Log", "a sigmoid is 0 or more, and 1e-10 is added to it", form="defective"),
    fails(
        "likelihood/Log_1",
        "1e-10 vanishes beside 1, and the sigmoid of 17 is 1",
        {"noise": 1.0, "spread/bias": 1.0, "decoder/kernel": 1.0, "image/kernel": 1.0},
    ),
    fails(
        "divergence/Exp",
        "the logarithm of a variance is 109 at the upper end of the box",
        {"x": 1.0, "encoder/kernel": 1.0, "spread/kernel": 1.0},
        fixed="its operand is at most 10",
    ),
    holds("sample/Exp", "its operand is at most 5"),
    SIGMOID_LOSS,
    ranges={"x": (0, 1), "noise": (-4, 4)},
)
def variational_autoencoder(fixed: bool) -> Any:
    """Bernoulli pixels by two logarithms with a guard each, and a divergence from a Gaussian."""
    x, noise = placeholder("x", 2, 8), placeholder("noise", 2, 4)
    mean, spread = encoded(x, 4)
    bounded = tf.clip_by_value(spread, -10.0, 10.0)
    with tf.name_scope("sample"):
        z = mean + tf.exp(0.5 * bounded) * noise
    logits = dense(hidden(z, 12, "decoder"), 8, "image")
    with tf.name_scope("likelihood"):
        if fixed:
            fit = sigmoid_cross_entropy(x, logits)
        else:
            p = tf.sigmoid(logits)
            fit = -x * tf.log(1e-10 + p) - (1.0 - x) * tf.log(1e-10 + 1.0 - p)
    with tf.name_scope("divergence"):
        chosen = bounded if fixed else spread
        divergence = -0.5 * tf.reduce_sum(1.0 + chosen - tf.square(mean) - tf.exp(chosen))
    return trained(tf.reduce_sum(fit) + divergence)


@family(
    fails(
        "density/Exp",
        "minus the logarithm of a variance is 109 at the lower end of the box",
        {"x": 1.0, "encoder/kernel": 1.0, "spread/kernel": -1.0},
        fixed="logarithms of variances are at least -10 and at most 10",
    ),
    holds("weights/Exp", "differences from the largest"),
    holds("weights/truediv", "the power of the largest difference is 1"),
    holds("bound/.*/Exp", "differences from the largest"),
    holds("bound/.*/Log", "the power of the largest difference is 1"),
    SIGMOID_LOSS,
    ranges={"x": (0, 1), "noise": (-4, 4)},
)
def importance_weights(fixed: bool) -> Any:
    """An autoencoder that weights five samples by their importance."""
    x, noise = placeholder("x", 1, 8), placeholder("noise", 5, 4)
    mean, spread = encoded(x, 4)
    if fixed:
        spread = tf.clip_by_value(spread, -10.0, 10.0)
    z = mean + noise
    with tf.name_scope("density"):
        own = -0.5 * tf.reduce_sum(spread + tf.square(z - mean) * tf.exp(-spread), 1)
        prior = -0.5 * tf.reduce_sum(tf.square(z), 1)
    logits = dense(hidden(z, 12, "decoder"), 8, "image")
    fit = -tf.reduce_sum(sigmoid_cross_entropy(tf.tile(x, [5, 1]), logits), 1)
    importance = fit + prior - own
    with tf.name_scope("weights"):
        powers = tf.exp(importance - tf.reduce_max(importance))
        weights = tf.stop_gradient(powers / tf.reduce_sum(powers))
    with tf.name_scope("bound"):
        bound = tf.reduce_logsumexp(importance, 0)
    return trained(-tf.reduce_sum(weights * importance)), bound


@family(
    holds("usage/Log", "a share is 0 or more, and 1e-10 is added to it"),
    holds("usage/Exp", "an entropy of eight shares is at most log(8)"),
    fails(
        "codebook/truediv",
        "a code that no vector is nearest to is a sum of none, divided by 0",
        {"x": 1.0, "codes": [[0.9] * 4] + [[-0.9] * 4] * 7},
        fixed="counts are 0 or more, and 1e-5 is added to them",
    ),
    ranges={"x": (-1, 1)},
)
def vector_quantiser(fixed: bool) -> Any:
    """Vectors that are replaced by the nearest of eight codes, which follow the means of what they replace."""
    x = placeholder("x", 6, 4)
    codes = tf.get_variable("codes", [8, 4], initializer=tf.random_uniform_initializer(-1.0, 1.0))
    encoded_vectors = tf.tanh(dense(x, 4, "encoder"))
    distance = (
        tf.reduce_sum(tf.square(encoded_vectors), 1, keepdims=True)
        - 2.0 * tf.matmul(encoded_vectors, codes, transpose_b=True)
        + tf.reduce_sum(tf.square(codes), 1)
    )
    chosen = tf.one_hot(tf.argmin(distance, 1), 8)
    quantised = tf.matmul(chosen, codes)
    with tf.name_scope("usage"):
        share = tf.reduce_mean(chosen, 0)
        perplexity = tf.exp(-tf.reduce_sum(share * tf.log(share + 1e-10)))
    with tf.name_scope("codebook"):
        count = tf.reduce_sum(chosen, 0)
        means = tf.matmul(chosen, encoded_vectors, transpose_a=True) / tf.expand_dims(count + 1e-5 if fixed else count, 1)
    straight = encoded_vectors + tf.stop_gradient(quantised - encoded_vectors)
    loss = tf.reduce_mean(tf.square(dense(straight, 4, "decoder") - x))
    commitment = tf.reduce_mean(tf.square(tf.stop_gradient(quantised) - encoded_vectors))
    return trained(loss + 0.25 * commitment), perplexity, means
