"""Networks against each other: generators and discriminators, and communication that an enemy listens to."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.layers import (
    SIGMOID_LOSS,
    convolution,
    dense,
    hidden,
    placeholder,
    sigmoid_cross_entropy,
    trained,
    weight,
)

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("adversarial")

#: All that the discriminator of images has, at the upper end of its box.
_CONVINCED = {"critic/features/kernel": 1.0, "critic/score/kernel": 1.0}


def critic_of_images(images: Any) -> Any:
    with tf.variable_scope("critic", reuse=tf.AUTO_REUSE):
        features = tf.nn.leaky_relu(convolution(images, 4, "features", stride=2))
        return dense(tf.reshape(features, [2, -1]), 1, "score")


def drawn_images(z: Any) -> Any:
    with tf.variable_scope("generator"):
        return tf.tanh(tf.reshape(dense(hidden(z, 8, "hidden"), 36, "image"), [2, 6, 6, 1]))


@family(
    fails(
        "loss/Log",
        "a real image that the discriminator is sure to be none: the sigmoid of -88 and less is flushed to 0",
        {"image": 1.0, "critic/features/kernel": 1.0, "critic/score/kernel": -1.0},
    ),
    fails(
        "loss/Log_1",
        "a drawn image that the discriminator is sure of",
        {"z": 1.0, "generator/hidden/kernel": 1.0, "generator/image/kernel": 1.0, **_CONVINCED},
    ),
    SIGMOID_LOSS,
    ranges={"image": (-1, 1), "z": (-1, 1)},
)
def minimax_game(fixed: bool) -> Any:
    """A convolutional generator and a discriminator in the game of two logarithms."""
    image, z = placeholder("image", 2, 6, 6, 1), placeholder("z", 2, 6)
    real, drawn = critic_of_images(image), critic_of_images(drawn_images(z))
    with tf.name_scope("loss"):
        if fixed:
            told = sigmoid_cross_entropy(tf.ones_like(real), real) + sigmoid_cross_entropy(tf.zeros_like(drawn), drawn)
        else:
            told = -tf.log(tf.sigmoid(real)) - tf.log(1.0 - tf.sigmoid(drawn))
        loss = tf.reduce_mean(told)
    return trained(loss, tf.train.AdamOptimizer(2e-4, beta1=0.5))


@family(
    holds("penalty/Sqrt", "a sum of squares is 0 or more; its root at 0 fails backward alone"),
    ranges={"image": (-1, 1), "z": (-1, 1)},
)
def gradient_penalty(fixed: bool) -> Any:
    """A critic whose gradients, part of its loss, are to have the norm 1."""
    image, z = placeholder("image", 2, 6, 6, 1), placeholder("z", 2, 6)
    drawn = drawn_images(z)
    share = tf.random_uniform([2, 1, 1, 1])
    between = image + share * (drawn - image)
    loss = tf.reduce_mean(critic_of_images(drawn)) - tf.reduce_mean(critic_of_images(image))
    with tf.name_scope("penalty"):
        (slope,) = tf.gradients(critic_of_images(between), [between])
        norm = tf.sqrt(tf.reduce_sum(tf.square(slope), [1, 2, 3]))
        penalty = tf.reduce_mean(tf.square(norm - 1.0))
    return trained(loss + 10.0 * penalty, tf.train.AdamOptimizer(1e-4, beta1=0.0))


@family(
    holds(r"spectral/truediv(_1)?", "a norm is 0 or more, and 1e-12 is added to it"),
    holds(r"spectral/(Sqrt|Sqrt_1)", "a sum of squares is 0 or more"),
    fails(
        "spectral/truediv_2",
        "a kernel of zeros has no singular value but 0",
        {"kernel": 0.0},
        fixed="a sum of products of numbers of one sign is 0 or more, and 1e-6 is added to it",
    ),
    ranges={"x": (-1, 1), "z": (-1, 1)},
)
def spectral_normalisation(fixed: bool) -> Any:
    """A critic with the hinge loss whose kernel is divided by its largest singular value, by one step of the power method."""
    x, z = placeholder("x", 2, 6), placeholder("z", 2, 4)
    kernel, start = weight("kernel", 6, 5), weight("start", 1, 5)
    with tf.name_scope("spectral"):
        left = tf.matmul(start, kernel, transpose_b=True)
        left = left / (tf.sqrt(tf.reduce_sum(tf.square(left))) + 1e-12)
        image = tf.matmul(left, kernel)
        right = image / (tf.sqrt(tf.reduce_sum(tf.square(image))) + 1e-12)
        size = tf.reduce_sum(image * right)
        normalised = kernel / (size + 1e-6 if fixed else size)
    real = dense(tf.nn.relu(tf.matmul(x, normalised)), 1, "score_of_real")
    drawn = dense(tf.nn.relu(tf.matmul(tf.tanh(dense(z, 6, "generator")), normalised)), 1, "score_of_drawn")
    return trained(tf.reduce_mean(tf.nn.relu(1.0 - real)) + tf.reduce_mean(tf.nn.relu(1.0 + drawn)))


@family(
    holds(r"secrecy/truediv(_\d)?", "a division by the number of bits, or by its half"),
    ranges={"message": "{-1,1}", "key": "{-1,1}"},
)
def adversarial_cryptography(fixed: bool) -> Any:
    """Two networks that share a key, and a third that listens: bits as numbers between -1 and 1."""
    message, key = placeholder("message", 2, 8), placeholder("key", 2, 8)

    def spoken(bits: Any, name: str) -> Any:
        with tf.variable_scope(name):
            mixed = tf.reshape(tf.sigmoid(dense(bits, 8, "mixed")), [2, 8, 1, 1])
            return tf.tanh(tf.reshape(convolution(mixed, 1, "filter"), [2, 8]))

    sent = spoken(tf.concat([message, key], 1), "alice")
    heard, overheard = spoken(tf.concat([sent, key], 1), "bob"), spoken(sent, "eve")
    with tf.name_scope("secrecy"):
        wrong = tf.reduce_sum(tf.abs(message - heard), 1) / 2.0
        wrong_of_eve = tf.reduce_sum(tf.abs(message - overheard), 1) / 2.0
        loss = tf.reduce_mean(wrong / 8.0) + tf.reduce_mean(tf.square(4.0 - wrong_of_eve) / 16.0)
    return trained(loss, tf.train.AdamOptimizer(8e-4))


@family(
    fails(
        "score/Log",
        "the softmax of scores that are 88 apart underflows",
        {"features": 1.0, "hidden/kernel": 1.0, "classes/kernel": [[-1.0] + [1.0] * 5] * 10},
        fixed="a probability is 0 or more, and 1e-12 is added to it",
    ),
    fails(
        "score/Log_1",
        "a class that no image has at all",
        {"features": 1.0, "hidden/kernel": 1.0, "classes/kernel": [[-1.0] + [1.0] * 5] * 10},
        fixed="a mean of probabilities is 0 or more, and 1e-12 is added to it",
    ),
    holds("score/Exp", "a divergence from a mean is at most the logarithm of the number of classes"),
    ranges={"features": (-1, 1)},
)
def inception_score(fixed: bool) -> Any:
    """The score of drawn images: how far the classes of each are from those of all."""
    features = placeholder("features", 4, 8)
    logits = dense(hidden(features, 10, "hidden"), 6, "classes")
    p = tf.nn.softmax(logits)
    guard = 1e-12 if fixed else 0.0
    with tf.name_scope("score"):
        mean = tf.reduce_mean(p, 0, keepdims=True)
        divergence = tf.reduce_sum(p * (tf.log(p + guard) - tf.log(mean + guard)), 1)
        score = tf.exp(tf.reduce_mean(divergence))
    labels = tf.argmax(logits, 1)
    return trained(tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))), score
