"""Generative models as graphs of version 1: autoencoders, adversarial networks, mixtures, Boltzmann machines."""

from __future__ import annotations

from typing import Any

from tests.tensorflow_corpus.classifiers import trained
from tests.tensorflow_corpus.pairs import Deferred, Expected, pair

tf: Any = Deferred("tensorflow.compat.v1")


def dense(x: Any, size: int, name: str, initial: Any = None) -> Any:
    with tf.variable_scope(name):
        kernel = tf.get_variable(
            "kernel", [int(x.shape[-1]), size], initializer=initial or tf.truncated_normal_initializer(stddev=0.5)
        )
        return tf.matmul(x, kernel) + tf.get_variable("bias", [size], initializer=tf.zeros_initializer())


@pair(
    "pb",
    Expected("NUM201", "Exp", "kl/Exp"),
    Expected("NUM203", "ReduceSum", "kl/Sum"),
    ranges={"x": (0, 1), "noise": (-4, 4)},
    point={"x": 1.0, "noise": 0.0, "log_variance/kernel": 1.0, "encoder/kernel": 1.0},
)
def variational_autoencoder(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 24], name="x")
    noise = tf.placeholder(tf.float32, [None, 2], name="noise")
    hidden = tf.nn.relu(dense(x, 16, "encoder"))
    mean, log_variance = dense(hidden, 2, "mean"), dense(hidden, 2, "log_variance")
    bounded = tf.clip_by_value(log_variance, -10.0, 10.0)
    z = mean + tf.exp(0.5 * bounded) * noise
    logits = dense(tf.nn.relu(dense(z, 16, "decoder")), 24, "image")
    with tf.name_scope("kl"):
        spread = bounded if safe else log_variance
        divergence = -0.5 * tf.reduce_sum(1 + spread - tf.square(mean) - tf.exp(spread), axis=1)
    fit = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), axis=1)
    return trained(tf.reduce_mean(fit + divergence), tf.train.AdamOptimizer())


@pair(
    "meta",
    Expected("NUM401", "Sqrt", "sample/Sqrt", "backward"),
    ranges={"x": (0, 1), "noise": (-4, 4)},
    point={"x": 1.0, "noise": 1.0, "log_variance/kernel": -1.0, "encoder/kernel": 1.0},
    confirmed=True,
)
def deviation_of_an_autoencoder(safe: bool) -> Any:
    """Forward all is finite: exp of a very small logarithm is 0, and the root of 0 has no derivative."""
    x = tf.placeholder(tf.float32, [None, 24], name="x")
    noise = tf.placeholder(tf.float32, [None, 2], name="noise")
    hidden = tf.nn.relu(dense(x, 16, "encoder"))
    mean, log_variance = dense(hidden, 2, "mean"), tf.minimum(dense(hidden, 2, "log_variance"), 10.0)
    with tf.name_scope("sample"):
        deviation = tf.exp(0.5 * log_variance) if safe else tf.sqrt(tf.exp(log_variance))
        z = mean + deviation * noise
    image = tf.sigmoid(dense(z, 24, "image"))
    return trained(tf.reduce_mean(tf.reduce_sum(tf.square(image - x), axis=1)), tf.train.RMSPropOptimizer(1e-3))


def discriminated(x: Any) -> Any:
    with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
        hidden = tf.nn.leaky_relu(dense(x, 16, "hidden"))
        return tf.nn.sigmoid(dense(hidden, 1, "out"))


def adversaries(bounded: Any, epsilon: float) -> Any:
    """Generator and discriminator with a loss each; `bounded` is applied to what the discriminator says."""
    z = tf.placeholder(tf.float32, [None, 8], name="z")
    x = tf.placeholder(tf.float32, [None, 16], name="x")
    with tf.variable_scope("generator"):
        made = tf.nn.tanh(dense(tf.nn.relu(dense(z, 16, "hidden")), 16, "out"))
    real, fake = bounded(discriminated(x)), bounded(discriminated(made))
    with tf.name_scope("loss"):
        loss = -tf.reduce_mean(tf.log(real) + tf.log((1.0 - fake) + epsilon))
    tf.summary.histogram("fake", fake)
    return trained(loss, tf.train.AdamOptimizer(2e-4, beta1=0.5))


#: Weights of the discriminator that make it sure that everything is real.
ALL_REAL = {
    "discriminator/hidden/kernel": 0.5,
    "discriminator/out/kernel": 1.0,
    "generator/out/kernel": 1.0,
    "generator/hidden/kernel": 1.0,
}


@pair(
    "pb",
    Expected("NUM101", "Log", "loss/Log"),
    Expected("NUM101", "Log", "loss/Log_1"),
    ranges={"z": (-1, 1), "x": (-1, 1)},
    point={"x": 1.0, "z": 1.0, **ALL_REAL},
)
def adversarial_network(safe: bool) -> Any:
    return adversaries((lambda p: tf.clip_by_value(p, 1e-6, 1.0 - 1e-6)) if safe else (lambda p: p), 0.0)


@pair(
    "pb",
    Expected("NUM101", "Log", "loss/Log_1"),
    ranges={"z": (-1, 1), "x": (-1, 1)},
    point={"x": 1.0, "z": 1.0, **ALL_REAL},
)
def epsilon_that_graphs_move(safe: bool) -> Any:
    """(1 - D) + 1e-8 becomes (1 + 1e-8) - D in a graph, which is 1 - D; the repair adds a number that float32 keeps beside 1."""
    if safe:
        return adversaries(lambda p: tf.maximum(p, 1e-8), 1e-5)
    return adversaries(lambda p: tf.maximum(p, 1e-8), 1e-8)


@pair(
    "pbtxt",
    Expected("NUM101", "Log", "gumbel/Log"),
    ranges={"x": (-1, 1)},
    point={"x": 0.0, "gumbel/random_uniform/RandomUniform": 0.0},
    variables="resource",
)
def gumbel_softmax(safe: bool) -> Any:
    """The uniform numbers of TensorFlow start at exactly 0."""
    x = tf.placeholder(tf.float32, [None, 10], name="x")
    logits = dense(x, 4, "logits")
    with tf.name_scope("gumbel"):
        u = tf.random_uniform(tf.shape(logits), 0.0, 1.0)
        if safe:
            u = tf.clip_by_value(u, 1e-6, 1.0 - 1e-6)
        noise = -tf.log(-tf.log(u))
        choice = tf.nn.softmax((logits + noise) / 0.5)
    loss = tf.reduce_mean(tf.square(choice - 0.25))
    return trained(loss, tf.train.AdamOptimizer())


@pair(
    "pb",
    Expected("NUM101", "Log", "likelihood/Log"),
    ranges={"x": (-1, 1), "y": (-5, 5)},
    point={"x": 0.0, "y": 5.0, "mean/bias": -1.0, "deviation/bias": -1.0},
    confirmed=True,
)
def mixture_density_network(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    hidden = tf.nn.tanh(dense(x, 8, "hidden"))
    scores, mean = dense(hidden, 3, "scores"), dense(hidden, 3, "mean")
    deviation = tf.nn.softplus(dense(hidden, 3, "deviation")) + 1e-2
    with tf.name_scope("likelihood"):
        exponent = -0.5 * tf.square((y - mean) / deviation)
        if safe:
            joint = tf.nn.log_softmax(scores) + exponent - tf.log(deviation)
            loss = -tf.reduce_mean(tf.reduce_logsumexp(joint, axis=1))
        else:
            density = tf.nn.softmax(scores) * tf.exp(exponent) / deviation
            loss = -tf.reduce_mean(tf.log(tf.reduce_sum(density, axis=1)))
    return trained(loss, tf.train.AdamOptimizer())


@pair(
    "meta",
    Expected("NUM201", "Exp", r"free_energy/Exp(_1)?"),
    ranges={"visible": (0, 1)},
    point={"visible": 1.0, "w": 1.0},
)
def boltzmann_machine(safe: bool) -> Any:
    visible = tf.placeholder(tf.float32, [None, 100], name="visible")
    w = tf.get_variable("w", [100, 6], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [6], initializer=tf.zeros_initializer())
    activation = visible @ w + b
    with tf.name_scope("free_energy"):
        terms = tf.nn.softplus(activation) if safe else tf.log(1 + tf.exp(activation))
        energy = -tf.reduce_sum(terms, axis=1)
    return trained(tf.reduce_mean(energy), tf.train.GradientDescentOptimizer(0.01))
