"""Memories outside of a network: addressed by similarity, by shifts and by sharpening; keys that are kept at unit length."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.layers import dense, hidden, placeholder, trained

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("memories")


@family(
    holds("similarity/Sqrt(_1)?", "a sum of squares is 0 or more"),
    fails(
        "similarity/truediv",
        "an empty row of the memory has the length 0",
        {"memory": 0.0, "x": 1.0, "controller/kernel": 1.0, "key/kernel": 1.0},
        fixed="a product of lengths is 0 or more, and 1e-8 is added to it",
    ),
    holds("sharpened/Pow", "a weight is 0 or more, and the exponent at least 1"),
    holds(
        "sharpened/truediv",
        "weights sum to 1, so that the largest is at least 1/8: its power with an exponent below 40 is not 0",
    ),
    ranges={"x": (-1, 1), "memory": (-1, 1), "before": "simplex"},
)
def turing_machine(fixed: bool) -> Any:
    """The head of a neural Turing machine: content, interpolation, shift and sharpening."""
    x, memory, before = placeholder("x", 1, 6), placeholder("memory", 8, 5), placeholder("before", 1, 8)
    controller = tf.tanh(dense(x, 8, "controller"))
    key, strength = dense(controller, 5, "key"), tf.nn.softplus(dense(controller, 1, "strength"))
    gate, shift = tf.sigmoid(dense(controller, 1, "gate")), tf.nn.softmax(dense(controller, 3, "shift"))
    with tf.name_scope("similarity"):
        product = tf.matmul(key, memory, transpose_b=True)
        lengths = tf.sqrt(tf.reduce_sum(tf.square(key))) * tf.sqrt(tf.reduce_sum(tf.square(memory), 1))
        similarity = product / (lengths + 1e-8 if fixed else lengths)
    content = tf.nn.softmax(strength * similarity)
    mixed = gate * content + (1.0 - gate) * before
    moved = shift[:, :1] * tf.roll(mixed, 1, 1) + shift[:, 1:2] * mixed + shift[:, 2:] * tf.roll(mixed, -1, 1)
    with tf.name_scope("sharpened"):
        exponent = 1.0 + tf.nn.softplus(dense(controller, 1, "exponent"))
        powers = tf.pow(moved, exponent)
        address = powers / tf.reduce_sum(powers)
    read = dense(tf.matmul(address, memory), 5, "read")
    return trained(tf.reduce_mean(tf.square(read - memory[:1])), tf.train.RMSPropOptimizer(1e-4))


@family(
    fails(
        "query/truediv",
        "all units of the query are off: its length is 0",
        {"x": 1.0, "embedding/kernel": -1.0},
    ),
    holds("query/Sqrt", "a sum of squares is 0 or more", form="defective"),
    holds("query/l2_normalize/Rsqrt", "its operand is at least 1e-12 by the maximum", form="fixed"),
    holds("update/l2_normalize/Rsqrt", "its operand is at least 1e-12 by the maximum"),
    ranges={"x": (0, 1), "keys": "unit-norm", "ages": (0, 100)},
)
def rare_events(fixed: bool) -> Any:
    """Learning to remember rare events: the nearest of the keys of unit length, moved towards the query."""
    x, keys, ages = placeholder("x", 1, 8), placeholder("keys", 6, 5), placeholder("ages", 6)
    embedding = hidden(x, 5, "embedding")
    with tf.name_scope("query"):
        if fixed:
            query = tf.nn.l2_normalize(embedding, 1)
        else:
            query = embedding / tf.sqrt(tf.reduce_sum(tf.square(embedding), 1, keepdims=True))
    similarity = tf.matmul(query, keys, transpose_b=True)
    near = tf.nn.softmax(40.0 * similarity)
    with tf.name_scope("update"):
        moved = tf.nn.l2_normalize(query + tf.matmul(near, keys), 1)
    oldest = tf.reduce_max(ages + tf.random_uniform([6]))
    loss = tf.nn.relu(tf.reduce_max(similarity) - similarity[0, 0] + 0.1)
    return trained(loss), moved, oldest
