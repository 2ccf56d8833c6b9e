"""Classifiers as graphs of version 1, with their optimisers, summaries and savers: losses that take logarithms of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.tensorflow_corpus.pairs import Deferred, Expected, pair

tf: Any = Deferred("tensorflow.compat.v1")

PIXELS = {"x": (0, 1), "y": "one-hot"}
#: Weights of the last layer that put the first class far above the others.
FIRST_CLASS = [[1.0] + [-1.0] * 9]
LAST_CLASS = [[0.0] * 9 + [1.0]]


def trained(loss: Any, optimiser: Any) -> Sequence[Any]:
    """A step of the optimiser and a summary, as programs have them; the tensors that show whether the step is finite."""
    tf.summary.scalar("loss", loss)
    gradients = optimiser.compute_gradients(loss)
    optimiser.apply_gradients(gradients, global_step=tf.train.get_or_create_global_step(), name="train")
    tf.summary.merge_all()
    return [loss, *(gradient for gradient, _ in gradients if gradient is not None)]


def accuracy(labels: Any, predicted: Any) -> Any:
    hits = tf.equal(tf.argmax(labels, 1), tf.argmax(predicted, 1))
    return tf.reduce_mean(tf.cast(hits, tf.float32), name="accuracy")


@pair(
    "pb",
    Expected("NUM101", "Log", "Log"),
    ranges=PIXELS,
    point={"x": 1.0, "y": LAST_CLASS, "Variable": FIRST_CLASS},
    confirmed=True,
)
def softmax_regression(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 64], name="x")
    y = tf.placeholder(tf.float32, [None, 10], name="y")
    w = tf.Variable(tf.zeros([64, 10]))
    b = tf.Variable(tf.zeros([10]))
    p = tf.nn.softmax(tf.matmul(x, w) + b)
    if safe:
        loss = -tf.reduce_sum(y * tf.log(tf.clip_by_value(p, 1e-10, 1.0)))
    else:
        loss = -tf.reduce_sum(y * tf.log(p))
    accuracy(y, p)
    return trained(loss, tf.train.GradientDescentOptimizer(0.005))


@pair(
    "checkpoint",
    Expected("NUM101", "Log", "loss/Log"),
    ranges={**PIXELS, "keep_prob": (0.5, 1), "fc2/weights": (-40, 40)},
    point={"x": 1.0, "y": LAST_CLASS, "keep_prob": 1.0, "fc2/weights": [[40.0] + [-40.0] * 9]},
)
def convolutional_network(safe: bool) -> Any:
    def weights(*shape: int) -> Any:
        return tf.get_variable("weights", shape, initializer=tf.truncated_normal_initializer(stddev=0.1))

    def biases(*shape: int) -> Any:
        return tf.get_variable("biases", shape, initializer=tf.constant_initializer(0.1))

    x = tf.placeholder(tf.float32, [None, 64], name="x")
    y = tf.placeholder(tf.float32, [None, 10], name="y")
    keep_prob = tf.placeholder(tf.float32, [], name="keep_prob")
    image = tf.reshape(x, [-1, 8, 8, 1])
    with tf.variable_scope("conv1"):
        hidden = tf.nn.relu(tf.nn.conv2d(image, weights(3, 3, 1, 4), [1, 1, 1, 1], "SAME") + biases(4))
        hidden = tf.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    with tf.variable_scope("conv2"):
        hidden = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(hidden, weights(3, 3, 4, 8), [1, 1, 1, 1], "SAME"), biases(8)))
        hidden = tf.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    flat = tf.reshape(hidden, [-1, 2 * 2 * 8])
    with tf.variable_scope("fc1"):
        hidden = tf.nn.relu(tf.matmul(flat, weights(32, 32)) + biases(32))
        tf.summary.histogram("activations", hidden)
    hidden = tf.nn.dropout(hidden, keep_prob)
    with tf.variable_scope("fc2"):
        logits = tf.matmul(hidden, weights(32, 10)) + biases(10)
    p = tf.nn.softmax(logits)
    with tf.name_scope("loss"):
        if safe:
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits))
        else:
            loss = tf.reduce_mean(-tf.reduce_sum(y * tf.log(p), axis=[1]))
    accuracy(y, p)
    return trained(loss, tf.train.AdamOptimizer(1e-4))


@pair(
    "pbtxt",
    Expected("NUM101", "Log", "Log"),
    Expected("NUM101", "Log", "Log_1"),
    ranges={"x": (0, 1), "y": (0, 1), "out/kernel": (-3, 3)},
    point={"x": 1.0, "y": 0.0, "hidden/bias": 1.0, "out/kernel": 3.0},
    variables="resource",
)
def multilayer_perceptron(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 32], name="x")
    y = tf.placeholder(tf.float32, [None, 4], name="y")
    with tf.variable_scope("hidden"):
        kernel = tf.get_variable("kernel", [32, 40], initializer=tf.glorot_uniform_initializer())
        hidden = tf.nn.relu(x @ kernel + tf.get_variable("bias", [40], initializer=tf.ones_initializer()))
    with tf.variable_scope("out"):
        kernel = tf.get_variable("kernel", [40, 4], initializer=tf.glorot_normal_initializer())
        logits = hidden @ kernel + tf.get_variable("bias", [4], initializer=tf.zeros_initializer())
    if safe:
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
    else:
        p = tf.nn.sigmoid(logits)
        loss = -tf.reduce_mean(y * tf.log(p) + (1 - y) * tf.log(1 - p))
    return trained(loss, tf.train.RMSPropOptimizer(0.01))


@pair(
    "meta",
    Expected("NUM101", "Log", "cross_entropy/Log_1"),
    ranges={"x": (-1, 1), "y": "{0,1}"},
    point={"x": 1.0, "y": 0.0, "w": 1.0},
    confirmed=True,
)
def logistic_regression(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 30], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    w = tf.get_variable("w", [30, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
    p = tf.sigmoid(tf.matmul(x, w) + b)
    epsilon = 1e-5 if safe else 0.0
    with tf.name_scope("cross_entropy"):
        loss = -tf.reduce_mean(y * tf.log(p + 1e-5) + (1 - y) * tf.log(1 - p + epsilon))
    return trained(loss, tf.train.MomentumOptimizer(0.1, 0.9))


@pair(
    "pb",
    Expected("NUM101", "Log", "focal/Log"),
    ranges={"x": (-1, 1), "y": "one-hot"},
    point={"x": 1.0, "y": [[0.0, 0.0, 1.0]], "w": [[1.0, 0.0, -1.0]]},
    variables="resource",
)
def focal_loss(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 60], name="x")
    y = tf.placeholder(tf.float32, [None, 3], name="y")
    w = tf.get_variable("w", [60, 3], initializer=tf.zeros_initializer())
    p = tf.nn.softmax(x @ w)
    with tf.name_scope("focal"):
        if safe:
            p = tf.clip_by_value(p, 1e-7, 1.0 - 1e-7)
        loss = -tf.reduce_sum(0.25 * y * tf.square(1.0 - p) * tf.log(p))
    return trained(loss, tf.train.AdamOptimizer())


@pair(
    "pb",
    Expected("NUM201", "Exp", "Exp"),
    Expected("NUM203", "ReduceSum", "Sum"),
    Expected("NUM103", "Div", "truediv"),
    ranges={"x": (0, 1), "y": "one-hot"},
    point={"x": 1.0, "y": [[1.0, 0.0, 0.0, 0.0]], "Variable": 1.0},
    confirmed=True,
)
def softmax_by_hand(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 100], name="x")
    y = tf.placeholder(tf.float32, [None, 4], name="y")
    logits = tf.matmul(x, tf.Variable(tf.zeros([100, 4])))
    if safe:
        logits -= tf.reduce_max(logits, axis=1, keepdims=True)
    e = tf.exp(logits)
    p = e / tf.reduce_sum(e, axis=1, keepdims=True)
    loss = tf.reduce_sum(tf.square(y - p))
    return trained(loss, tf.train.GradientDescentOptimizer(0.1))


@pair(
    "frozen",
    Expected("NUM101", "Log", "entropy/Log"),
    ranges={"x": (-100, 100)},
    point={"x": [[100.0, -100.0, 100.0, -100.0, 100.0, -100.0, 100.0, -100.0]]},
    phase="inference",
    confirmed=True,
)
def entropy_of_a_frozen_classifier(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 8], name="x")
    w = tf.get_variable("w", [8, 5], initializer=tf.constant_initializer([[0.5, -0.5, 0.25, 0.0, -0.25], [-0.5, 0.5, 0, 0, 0]] * 4))
    logits = x @ w
    with tf.name_scope("entropy"):
        p = tf.nn.softmax(logits)
        logarithm = tf.nn.log_softmax(logits) if safe else tf.log(p)
        return [p, tf.negative(tf.reduce_sum(p * logarithm, axis=1), name="output")]


@pair(
    "saved_v1",
    Expected("NUM103", "Div", "normalised/truediv"),
    ranges={"x": (0, 1)},
    point={"x": 0.0},
    phase="inference",
)
def scores_that_sum_to_one(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 6], name="x")
    w = tf.get_variable("w", [6, 3], initializer=tf.random_normal_initializer(stddev=0.5, seed=1))
    scores = tf.nn.relu(x @ w)
    with tf.name_scope("normalised"):
        total = tf.reduce_sum(scores, axis=1, keepdims=True)
        return [scores / (total + 1e-6) if safe else scores / total]


@pair(
    "meta",
    Expected("NUM101", "Log", "Log"),
    ranges={"x": (-1, 1), "count": (0, 20)},
    point={"x": -1.0, "count": 3.0, "w": 1.0, "b": 0.0},
    variables="resource",
)
def poisson_regression(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 12], name="x")
    count = tf.placeholder(tf.float32, [None, 1], name="count")
    w = tf.get_variable("w", [12, 1], initializer=tf.random_uniform_initializer(-1.0, 1.0))
    b = tf.get_variable("b", [1], initializer=tf.ones_initializer())
    rate = tf.nn.softplus(x @ w + b) + 1e-3 if safe else tf.nn.relu(x @ w + b)
    loss = tf.reduce_mean(rate - count * tf.log(rate))
    return trained(loss, tf.train.AdagradOptimizer(0.05))
