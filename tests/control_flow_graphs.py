"""Graphs with the control flow of TensorFlow 1, as its own Python builds them: each returns inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
Built = tuple[list[Any], list[Any]]
GRAPHS: dict[str, Callable[[], Built]] = {}


def graph(build: Callable[[], Built]) -> Callable[[], Built]:
    GRAPHS[build.__name__] = build
    return build


def vector() -> Any:
    return v1.placeholder(tf.float32, [3])


def flag() -> Any:
    return v1.placeholder(tf.bool, [])


def number() -> Any:
    return v1.placeholder(tf.int32, [])


@graph
def condition() -> Built:
    x, p = vector(), flag()
    return [x, p], [v1.cond(p, lambda: tf.math.log(tf.abs(x) + 1.0) * 2.0, lambda: x - 3.0)]


@graph
def condition_of_constants() -> Built:
    p = flag()
    return [p], [v1.cond(p, lambda: tf.constant([1.0, 2.0]), lambda: tf.constant([3.0, 4.0]))]


@graph
def nested_conditions() -> Built:
    x, p, q = vector(), flag(), flag()
    then = lambda: v1.cond(q, lambda: x * 2.0, lambda: x + 1.0) + 1.0  # noqa: E731
    other = lambda: v1.cond(q, lambda: tf.constant([1.0, 2.0, 3.0]), lambda: tf.exp(x))  # noqa: E731
    return [x, p, q], [v1.cond(p, then, other)]


@graph
def several_results() -> Built:
    x, p = vector(), flag()

    def then() -> Any:
        a = tf.exp(x)
        return a * 2.0, a + 1.0, v1.cond(tf.reduce_sum(a) > 3.0, lambda: a - 1.0, lambda: a)

    first = v1.cond(p, then, lambda: (x, x * x, x - 1.0))
    return [x, p], [*first, v1.cond(p, lambda: first[0] + first[1], lambda: first[2])]


@graph
def cases() -> Built:
    x, n = vector(), number()
    branches = [(tf.equal(n, value), lambda value=value: x * float(value)) for value in range(3)]
    return [x, n], [v1.case(branches, default=lambda: tf.exp(x))]


@graph
def gradient_of_condition() -> Built:
    x, p = vector(), flag()
    y = v1.cond(p, lambda: tf.math.log(tf.exp(x) + 1.0) * 2.0, lambda: tf.tanh(x) * x)
    loss = tf.reduce_sum(y * y)
    return [x, p], [loss, *tf.gradients(loss, x)]


@graph
def gradient_of_nested_conditions() -> Built:
    x, p, q = vector(), flag(), flag()
    y = v1.cond(p, lambda: v1.cond(q, lambda: tf.exp(x), lambda: x * x), lambda: tf.sin(x))
    return [x, p, q], [y, *tf.gradients(y, x)]


@graph
def index_of_merge() -> Built:
    from tensorflow.python.ops import gen_control_flow_ops

    x, p = vector(), flag()
    otherwise, then = gen_control_flow_ops.switch(x, p)
    merged = gen_control_flow_ops.merge([tf.exp(otherwise), then * 2.0])
    return [x, p], [merged.output, merged.value_index * 2]


@graph
def switched_batch_statistics() -> Built:
    x, p = v1.placeholder(tf.float32, [4, 3]), flag()
    mean, variance = tf.nn.moments(x, [0])
    means, variances = v1.cond(p, lambda: (tf.identity(mean), tf.identity(variance)), lambda: (tf.zeros([3]), tf.ones([3])))
    return [x, p], [tf.nn.batch_normalization(x, means, variances, None, None, 1e-3)]


@graph
def assertion() -> Built:
    x = vector()
    with tf.control_dependencies([v1.Assert(tf.reduce_all(x > -100.0), [x])]):
        return [x], [x * 2.0]


@graph
def effect_in_branch() -> Built:
    x, p = vector(), flag()
    total = v1.get_variable("total", [3], initializer=v1.zeros_initializer(), use_resource=True)
    update = v1.cond(p, lambda: tf.identity(total.assign_add(x)), lambda: total.read_value())
    return [x, p], [update]


@graph
def loop() -> Built:
    x, n = vector(), number()
    body = lambda i, y: (i + 1, tf.math.log(tf.abs(y) + x * x + 1.0))  # noqa: E731
    return [x, n], [*v1.while_loop(lambda i, y: i < n, body, [0, x])]


@graph
def nested_loops() -> Built:
    x, n = vector(), number()

    def body(i: Any, y: Any) -> Any:
        _, z = v1.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z * 0.5 + x), [0, y])
        return i + 1, z + 1.0

    i, y = v1.while_loop(lambda i, y: i < n, body, [0, x])
    k, w = v1.while_loop(lambda k, w: tf.reduce_sum(w) < 10.0, lambda k, w: (k + 1, w + 1.0), [0, y * y])
    return [x, n], [i, y, k, w]


@graph
def condition_in_loop_in_condition() -> Built:
    x, n, p = vector(), number(), flag()

    def body(i: Any, y: Any) -> Any:
        return i + 1, v1.cond(tf.equal(i % 2, 0), lambda: tf.exp(-tf.abs(y)), lambda: y + x)

    return [x, n, p], [v1.cond(p, lambda: v1.while_loop(lambda i, y: i < n, body, [0, x])[1], lambda: x)]


@graph
def gradient_of_loop() -> Built:
    x, n = vector(), number()
    _, y = v1.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, tf.tanh(y) * x + 1.0), [0, x])
    loss = tf.reduce_sum(y)
    return [x, n], [loss, *tf.gradients(loss, x)]


@graph
def gradient_of_nested_loops() -> Built:
    x, n = vector(), number()

    def body(i: Any, y: Any) -> Any:
        return i + 1, v1.while_loop(lambda j, z: j < 2, lambda j, z: (j + 1, tf.sin(z) * x), [0, y])[1]

    _, y = v1.while_loop(lambda i, y: i < n, body, [0, x])
    return [x, n], [y, *tf.gradients(y, x)]


@graph
def gradient_of_condition_in_loop() -> Built:
    x, n = vector(), number()

    def body(i: Any, y: Any) -> Any:
        return i + 1, v1.cond(tf.equal(i % 2, 0), lambda: tf.exp(-tf.abs(y)) * y, lambda: y * x)

    _, y = v1.while_loop(lambda i, y: i < n, body, [0, x])
    loss = tf.reduce_sum(y)
    return [x, n], [loss, *tf.gradients(loss, x)]


@graph
def gradient_of_loop_in_condition() -> Built:
    x, n, p = vector(), number(), flag()
    body = lambda i, y: (i + 1, tf.tanh(y) * x)  # noqa: E731
    y = v1.cond(p, lambda: v1.while_loop(lambda i, y: i < n, body, [0, x])[1], lambda: x * x)
    return [x, n, p], [y, *tf.gradients(y, x)]


@graph
def recurrent_network() -> Built:
    x = v1.placeholder(tf.float32, [2, 4, 3])
    weights = tf.constant(np.full((3, 3), 0.2, np.float32))

    def body(t: Any, h: Any, steps: Any) -> Any:
        h = tf.tanh(tf.matmul(x[:, t], weights) + h)
        return t + 1, h, steps.write(t, h)

    _, h, steps = v1.while_loop(lambda t, h, s: t < 4, body, [0, tf.zeros([2, 3]), tf.TensorArray(tf.float32, 4)])
    outputs = steps.stack()
    return [x], [h, outputs, *tf.gradients(tf.reduce_sum(outputs * outputs), x)]


@graph
def scan_and_map() -> Built:
    x = v1.placeholder(tf.float32, [4, 3])
    scanned = v1.scan(lambda a, b: tf.tanh(a + b), x)
    mapped = v1.map_fn(lambda row: tf.math.log(tf.reduce_sum(row * row) + 1.0), scanned)
    return [x], [scanned, mapped, *tf.gradients(mapped, x)]


@graph
def training_step() -> Built:
    x, p = v1.placeholder(tf.float32, [4, 3]), flag()
    weights = v1.get_variable("weights", [3, 2], initializer=v1.constant_initializer(0.3), use_resource=True)
    y = tf.matmul(x, weights)
    y = v1.cond(p, lambda: tf.nn.softmax(y), lambda: tf.sigmoid(y))
    loss = -tf.reduce_mean(tf.math.log(y + 1e-3))
    v1.summary.scalar("loss", loss)
    v1.train.Saver()
    with tf.control_dependencies([v1.train.GradientDescentOptimizer(0.1).minimize(loss)]):
        return [x, p], [loss, tf.identity(weights.read_value())]
