"""Densities that are written out: mixtures, quantised logistics, flows, codes as long as minus a logarithm."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.layers import batch_normalised, convolution, dense, hidden, ones, placeholder, trained

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("likelihoods")


@family(
    fails(
        "code/Log",
        "far from the mean both ends of an interval have the same sigmoid",
        {"x": 8.0, "mean/bias": -1.0, "spread/bias": -1.0},
        fixed="the likelihood is at least 1e-9 by the maximum",
    ),
    holds("code/Log_1", "a constant of 2"),
    holds("code/truediv(_1)?", "a scale of at least 0.11 by the maximum"),
    holds("code/truediv_2", "the logarithm of 2"),
    ranges={"x": (-8, 8)},
)
def entropy_coder(fixed: bool) -> Any:
    """The length of a code in bits: the likelihood of an interval is a difference of two sigmoids."""
    x = placeholder("x", 2, 6)
    context = tf.tanh(dense(x, 6, "context"))
    mean, spread = dense(context, 6, "mean"), dense(context, 6, "spread")
    with tf.name_scope("code"):
        scale = tf.maximum(tf.nn.softplus(spread), 0.11)
        rounded = x + tf.random_uniform([2, 6]) - 0.5
        upper, lower = tf.sigmoid((rounded + 0.5 - mean) / scale), tf.sigmoid((rounded - 0.5 - mean) / scale)
        likelihood = tf.maximum(upper - lower, 1e-9) if fixed else upper - lower
        bits = -tf.reduce_sum(tf.log(likelihood) / tf.log(2.0))
    return trained(bits)


@family(
    holds("logistics/Exp", "minus a logarithm that is at least -7 by the maximum"),
    fails(
        "logistics/Log",
        "far from the mean both sigmoids are the same",
        {"image": 1.0, "first/kernel": 1.0, "last/kernel": -1.0},
        fixed="the difference is at least 1e-12 by the maximum",
    ),
    holds("mixture/.*/Exp", "differences from the largest"),
    holds("mixture/.*/Log", "the power of the largest difference is 1"),
    ranges={"image": (-1, 1)},
)
def mixture_of_logistics(fixed: bool) -> Any:
    """Pixels as a mixture of quantised logistic distributions, from the pixels above them."""
    image = placeholder("image", 1, 4, 4, 1)
    above = tf.pad(image, [[0, 0], [1, 0], [0, 0], [0, 0]])[:, :-1]
    features = tf.nn.elu(convolution(above, 6, "first"))
    shares, means, scales = tf.split(convolution(features, 9, "last"), 3, axis=3)
    with tf.name_scope("logistics"):
        inverse = tf.exp(-tf.maximum(scales, -7.0))
        centred = image - means
        difference = tf.sigmoid(inverse * (centred + 1.0 / 255.0)) - tf.sigmoid(inverse * (centred - 1.0 / 255.0))
        each = tf.log(tf.maximum(difference, 1e-12) if fixed else difference)
    with tf.name_scope("mixture"):
        likelihood = tf.reduce_logsumexp(each + tf.nn.log_softmax(shares), 3)
    return trained(-tf.reduce_sum(likelihood))


@family(
    fails(
        "pen/Exp(_1)?",
        "the logarithm of a deviation is above 89 at the upper end of the box",
        {"x": 1.0, "hidden/kernel": 1.0, "deviation/kernel": 1.0},
        fixed="its operand is clipped to [-5, 5]",
    ),
    fails(
        "pen/truediv(_1)?",
        "the logarithm of a deviation is below -89 at the lower end of the box",
        {"x": 1.0, "hidden/kernel": 1.0, "deviation/kernel": -1.0},
        fixed="deviations are at least exp(-5)",
    ),
    fails(
        "pen/truediv_2",
        "the hyperbolic tangent of 10 is 1: what is left of 1 is 0",
        {"x": 1.0, "hidden/kernel": 1.0, "correlation/kernel": 1.0},
        fixed="correlations are within 0.99",
    ),
    fails(
        "pen/truediv_3",
        "a product of deviations that are exp(-45) each is 0, and the pen is where it was expected",
        {"x": 1.0, "hidden/kernel": 1.0, "deviation/kernel": -0.5},
        fixed="deviations are at least exp(-5), and what is left of 1 is at least 0.0198",
    ),
    holds("pen/Exp_2", "minus a quotient of a sum of squares and a number that is 0 or more"),
    holds("pen/Sqrt", "1 minus the square of a number within [-1, 1]"),
    holds("pen/Log", "a density is 0 or more, and 1e-6 is added to it"),
    ranges={"x": (-1, 1), "point": (-10, 10)},
)
def handwriting(fixed: bool) -> Any:
    """The next point of a pen: a mixture of Gaussians of two dimensions, with a correlation."""
    x, point = placeholder("x", 2, 9), placeholder("point", 2, 2)
    inner = hidden(x, 10, "hidden")
    shares = tf.nn.softmax(dense(inner, 3, "shares"))
    mean_1, mean_2 = dense(inner, 3, "mean_1"), dense(inner, 3, "mean_2")
    spread = dense(inner, 6, "deviation")
    if fixed:
        spread = tf.clip_by_value(spread, -5.0, 5.0)
    with tf.name_scope("pen"):
        deviation_1, deviation_2 = tf.exp(spread[:, :3]), tf.exp(spread[:, 3:])
        rho = tf.tanh(dense(inner, 3, "correlation")) * (0.99 if fixed else 1.0)
        a, b = (point[:, :1] - mean_1) / deviation_1, (point[:, 1:] - mean_2) / deviation_2
        left = 1.0 - tf.square(rho)
        z = tf.square(a - rho * b) + left * tf.square(b)
        power = tf.exp(-z / (2.0 * left))
        density = power / (2.0 * math.pi * deviation_1 * deviation_2 * tf.sqrt(left))
        loss = -tf.reduce_mean(tf.log(tf.reduce_sum(shares * density, 1) + 1e-6))
    return trained(loss)


@family(
    fails(
        "logit/Log",
        "a pixel of 0 has no logit",
        {"x": 0.0},
        fixed="pixels are moved into [0.05, 0.95]",
    ),
    fails(
        "logit/Log_1",
        "a pixel of 1 has no logit",
        {"x": 1.0},
        fixed="pixels are moved into [0.05, 0.95]",
    ),
    holds("coupling_\\d/Exp", "a hyperbolic tangent times a factor of at most 2"),
    holds("normal/batchnorm/Rsqrt", "a variance of a batch is 0 or more, and 0.001 is added to it"),
    holds("normal_1/Log", "a variance of a batch is 0 or more, and 0.001 is added to it"),
    ranges={"x": (0, 1)},
)
def real_nvp(fixed: bool) -> Any:
    """A flow: pixels to logits, two affine couplings and a batch normalisation with their determinants."""
    x = placeholder("x", 3, 8)
    with tf.name_scope("logit"):
        inside = 0.05 + 0.9 * x if fixed else x
        y = tf.log(inside) - tf.log(1.0 - inside)
    determinant = tf.zeros([3])
    for index in range(2):
        with tf.variable_scope(f"coupling_{index}"):
            kept, moved = (y[:, :4], y[:, 4:]) if index else (y[:, 4:], y[:, :4])
            inner = tf.tanh(dense(kept, 6, "hidden"))
            scale = ones("factor") * tf.tanh(dense(inner, 4, "scale"))
            moved = moved * tf.exp(scale) + dense(inner, 4, "shift")
            y = tf.concat([kept, moved], 1)
            determinant += tf.reduce_sum(scale, 1)
    y = batch_normalised(y, "normal")
    with tf.name_scope("normal"):
        _, variance = tf.nn.moments(y, [0])
        determinant -= 0.5 * tf.reduce_sum(tf.log(variance + 1e-3))
    return trained(tf.reduce_mean(0.5 * tf.reduce_sum(tf.square(y), 1) - determinant))
