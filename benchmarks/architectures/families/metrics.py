"""Distances that are learned: pairs and triplets, domains that are to look alike, descriptors, capsules."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.layers import (
    SIGMOID_LOSS,
    convolution,
    dense,
    hidden,
    mean_cross_entropy,
    placeholder,
    sigmoid_cross_entropy,
    trained,
    weight,
)

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("metrics")


@family(
    holds("distance/Sqrt", "a sum of squares is 0 or more; its root at 0 fails backward alone"),
    ranges={"left": (-1, 1), "right": (-1, 1), "same": "{0,1}"},
)
def siamese_networks(fixed: bool) -> Any:
    """Two copies of a network and the contrastive loss of their distance."""
    left, right, same = placeholder("left", 3, 6), placeholder("right", 3, 6), placeholder("same", 3)

    def embedded_pair(x: Any) -> Any:
        with tf.variable_scope("twin", reuse=tf.AUTO_REUSE):
            return dense(hidden(x, 8, "hidden"), 4, "out")

    with tf.name_scope("distance"):
        distance = tf.sqrt(tf.reduce_sum(tf.square(embedded_pair(left) - embedded_pair(right)), 1))
    near, far = same * tf.square(distance), (1.0 - same) * tf.square(tf.nn.relu(1.0 - distance))
    return trained(tf.reduce_mean(near + far), tf.train.MomentumOptimizer(0.01, 0.9))


@family(
    fails(
        "distances/Sqrt",
        "the square of the distance between vectors that are nearly the same is negative after rounding",
        {"x": [[0.9], [0.9001], [0.9002], [0.9003]], "out/kernel": [-1.0, 0.7, -0.9, 0.5]},
        {"x": [[0.7], [0.7001], [0.7002], [0.7003]], "out/kernel": [-0.4, 0.2, -0.3, -0.2]},
        fixed="its operand is at least 0 by the maximum",
    ),
    ranges={"x": (-1, 1)},
)
def triplet_loss(fixed: bool) -> Any:
    """The hardest positive and negative of a batch, by distances from one product of matrices."""
    x = placeholder("x", 4, 6)
    vectors = dense(x, 4, "out")
    with tf.name_scope("distances"):
        product = tf.matmul(vectors, vectors, transpose_b=True)
        squares = tf.linalg.diag_part(product)
        between = tf.expand_dims(squares, 1) - 2.0 * product + tf.expand_dims(squares, 0)
        distances = tf.sqrt(tf.maximum(between, 0.0) if fixed else between)
    positive, negative = tf.reduce_max(distances[:2, :2]), tf.reduce_min(distances[:2, 2:])
    return trained(tf.nn.relu(positive - negative + 0.2))


@family(
    holds("(shared|own)/l2_normalize/Rsqrt", "its operand is at least 1e-12 by the maximum"),
    holds("difference/norm/Sqrt", "a sum of squares is 0 or more"),
    holds("similarity/Exp(_\\d)?", "minus a sum of squares"),
    fails(
        "similarity/Sqrt",
        "two domains that are the same have a discrepancy that is negative after rounding",
        {"source": [[-0.7], [-0.3], [-0.2]], "target": [[-0.2], [-0.3], [-0.7]], "shared/kernel": 0.2},
        {"source": [[1.0], [-0.6], [0.5]], "target": [[0.5], [-0.6], [1.0]], "shared/kernel": 0.5},
        {"source": [[0.7], [0.3], [0.1]], "target": [[0.1], [0.3], [0.7]], "shared/kernel": 0.2},
        fixed="its operand is at least 0 by the maximum",
    ),
    SIGMOID_LOSS,
    ranges={"source": (-1, 1), "target": (-1, 1), "label": "{0,1}"},
)
def domain_separation(fixed: bool) -> Any:
    """Two domains with a code in common and one of their own: orthogonal to each other, and a discrepancy by kernels."""
    source, target, label = placeholder("source", 3, 6), placeholder("target", 3, 6), placeholder("label", 3, 1)

    def code(x: Any, name: str) -> Any:
        with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
            return dense(x, 4, "code") if name == "own" else tf.matmul(x, weight("kernel", 6, 4))

    common, own = code(source, "shared"), code(source, "own")
    with tf.name_scope("shared/"):
        one = tf.nn.l2_normalize(common, 1, name="l2_normalize")
    with tf.name_scope("own/"):
        other = tf.nn.l2_normalize(own, 1, name="l2_normalize")
    with tf.name_scope("difference"):
        difference = tf.norm(tf.matmul(one, other, transpose_a=True))
    with tf.name_scope("similarity"):

        def alike(x: Any, y: Any) -> Any:
            return tf.reduce_mean(tf.exp(-tf.reduce_sum(tf.square(tf.expand_dims(x, 1) - tf.expand_dims(y, 0)), 2)))

        far = code(target, "shared")
        discrepancy = alike(common, common) - 2.0 * alike(common, far) + alike(far, far)
        distance = tf.sqrt(tf.maximum(discrepancy, 0.0) if fixed else discrepancy)
    fit = tf.reduce_mean(sigmoid_cross_entropy(label, dense(common, 1, "classes")))
    return trained(fit + difference + distance)


@family(
    holds("pooled/Pow", "numbers of at least 1e-6 by the maximum, to a power of at most 4", form="fixed"),
    holds(
        "pooled/Pow",
        "numbers to the power of 3; in the wider box the exponent need not be whole",
        form="defective",
        wider={"image": 1.0, "features/kernel": -1.0, "exponent": 2.5},
    ),
    fails(
        "pooled/Pow_1",
        "a mean of cubes is negative, and has no power with an exponent of 1/3",
        {"image": 1.0, "features/kernel": -1.0},
        fixed="a mean of positive numbers",
    ),
    holds("pooled/truediv", "the exponent is a constant of 3, or at least 2 in the wider box"),
    holds("pooled/l2_normalize/Rsqrt", "its operand is at least 1e-12 by the maximum"),
    ranges={"image": (0, 1), "label": (0, 4)},
)
def generalised_mean(fixed: bool) -> Any:
    """A descriptor of an image: the mean of powers of its features, with an exponent that is learned."""
    image, label = placeholder("image", 1, 5, 5, 2), placeholder("label", 1, integer=True)
    features = convolution(image, 4, "features")
    exponent = tf.get_variable("exponent", [1], initializer=tf.constant_initializer(3.0))
    with tf.name_scope("pooled"):
        powers = tf.pow(tf.maximum(features, 1e-6) if fixed else features, exponent)
        pooled = tf.pow(tf.reduce_mean(powers, [1, 2]), 1.0 / exponent)
        descriptor = tf.nn.l2_normalize(pooled, 1)
    return trained(mean_cross_entropy(label, dense(descriptor, 5, "classes")))


def squashed(vectors: Any, name: str, fixed: bool) -> Any:
    """Vectors of the same direction, shorter than 1."""
    with tf.name_scope(name):
        square = tf.reduce_sum(tf.square(vectors), -1, keepdims=True)
        length = tf.sqrt(square + 1e-7 if fixed else square)
        return square / (1.0 + square) * (vectors / length)


@family(
    holds(r"squash_\d/Sqrt", "a sum of squares is 0 or more"),
    holds(r"squash_\d/truediv", "1 and a sum of squares"),
    fails(
        "squash_0/truediv_1",
        "a capsule of zeros has the length 0",
        {"image": 0.0},
        fixed="the root of a sum of squares and 1e-7",
    ),
    fails(
        "squash_1/truediv_1",
        "votes of zeros sum to a capsule of zeros",
        {"image": 1.0, "primary/kernel": 1.0, "routes": 0.0},
        fixed="the root of a sum of squares and 1e-7",
    ),
    holds("margin/Sqrt", "a sum of squares is 0 or more"),
    ranges={"image": (0, 1), "label": (0, 2)},
)
def capsules(fixed: bool) -> Any:
    """Capsules with two rounds of routing by agreement, and the margin loss of their lengths."""
    image, label = placeholder("image", 1, 4, 4, 1), placeholder("label", 1, integer=True)
    primary = squashed(tf.reshape(convolution(image, 4, "primary", stride=2), [4, 4]), "squash_0", fixed)
    votes = tf.einsum("id,ijde->ije", primary, weight("routes", 4, 3, 4, 4))
    agreed = tf.reduce_mean(votes, 0)
    for _ in range(2):
        routes = tf.nn.softmax(tf.reduce_sum(votes * tf.expand_dims(agreed, 0), 2))
        agreed = tf.reduce_sum(tf.expand_dims(routes, 2) * votes, 0)
    capsule = squashed(agreed, "squash_1", fixed)
    with tf.name_scope("margin"):
        length = tf.sqrt(tf.reduce_sum(tf.square(capsule), 1) + 1e-9)
        wanted = tf.one_hot(label[0], 3)
        missed = wanted * tf.square(tf.nn.relu(0.9 - length))
        wrong = 0.5 * (1.0 - wanted) * tf.square(tf.nn.relu(length - 0.1))
    return trained(tf.reduce_sum(missed + wrong))
