"""Norms, distances, angles, powers and statistics written by hand, as graphs of version 1."""

from __future__ import annotations

from typing import Any

from tests.tensorflow_corpus.classifiers import trained
from tests.tensorflow_corpus.pairs import Deferred, Expected, pair

tf: Any = Deferred("tensorflow.compat.v1")


@pair(
    "pb",
    Expected("NUM103", "Div", "truediv"),
    ranges={"a": (-1, 1), "b": (-1, 1)},
    point={"a": 0.0, "b": 1.0},
    phase="inference",
    confirmed=True,
)
def cosine_similarity(safe: bool) -> Any:
    a = tf.placeholder(tf.float32, [None, 8], name="a")
    b = tf.placeholder(tf.float32, [None, 8], name="b")
    product = tf.reduce_sum(a * b, axis=1)
    lengths = tf.sqrt(tf.reduce_sum(tf.square(a), axis=1)) * tf.sqrt(tf.reduce_sum(tf.square(b), axis=1))
    return [product / (tf.maximum(lengths, 1e-8) if safe else lengths)]


@pair(
    "meta",
    Expected("NUM401", "Sqrt", "distance/Sqrt(_1)?", "backward"),
    Expected("NUM401", "Sqrt", "distance/Sqrt(_1)?", "backward"),
    ranges={"anchor": (-1, 1), "positive": (-1, 1), "negative": (-1, 1)},
    point={"anchor": 0.5, "positive": 0.5, "negative": 0.5, "embedding": 0.1},
    confirmed=True,
)
def triplet_loss(safe: bool) -> Any:
    """Forward all is finite: a distance of 0 has no derivative."""
    inputs = [tf.placeholder(tf.float32, [None, 6], name=name) for name in ("anchor", "positive", "negative")]
    embedding = tf.get_variable("embedding", [6, 4], initializer=tf.random_normal_initializer(stddev=0.1))
    anchor, positive, negative = (x @ embedding for x in inputs)
    epsilon = 1e-6 if safe else 0.0
    with tf.name_scope("distance"):
        near = tf.sqrt(tf.reduce_sum(tf.squared_difference(anchor, positive), axis=1) + epsilon)
        far = tf.sqrt(tf.reduce_sum(tf.squared_difference(anchor, negative), axis=1) + epsilon)
    loss = tf.reduce_mean(tf.nn.relu(near - far + 0.2))
    return trained(loss, tf.train.AdamOptimizer())


@pair(
    "pb",
    Expected("NUM401", "Sqrt", "penalty/norm/Sqrt", "backward"),
    ranges={"x": (-1, 1)},
    point={"x": 0.0},
    variables="resource",
)
def penalty_on_a_norm(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 6], name="x")
    w = tf.get_variable("w", [6, 3], initializer=tf.glorot_uniform_initializer())
    hidden = x @ w
    with tf.name_scope("penalty"):
        size = tf.sqrt(tf.reduce_sum(tf.square(hidden), axis=1) + 1e-6) if safe else tf.norm(hidden, axis=1)
        loss = tf.reduce_mean(tf.square(size - 1.0))
    return trained(loss, tf.train.MomentumOptimizer(0.1, 0.9))


@pair(
    "pbtxt",
    Expected("NUM103", "Reciprocal", "batch_norm/Rsqrt"),
    ranges={"x": (-1, 1)},
    point={"x": 0.5},
    also=(
        Expected("NUM401", "Sqrt", "batch_norm/Rsqrt/Sqrt", "backward"),
        Expected("NUM202", "Mul", "batch_norm/mul|Square"),
        Expected("NUM203", "ReduceMean", "Mean"),
    ),
)
def batch_normalisation_by_hand(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [4, 6], name="x")
    w = tf.get_variable("w", [6, 3], initializer=tf.glorot_normal_initializer())
    hidden = x @ w
    with tf.name_scope("batch_norm"):
        mean, variance = tf.nn.moments(hidden, axes=[0])
        scale = tf.rsqrt(variance + 1e-3 if safe else variance)
        normal = (hidden - mean) * scale
    loss = tf.reduce_mean(tf.square(normal - 0.5))
    return trained(loss, tf.train.GradientDescentOptimizer(0.1))


@pair(
    "pb",
    Expected("NUM104", "Pow", "Pow"),
    ranges={"image": (-1, 1)},
    point={"image": -0.5},
    phase="inference",
    confirmed=True,
)
def gamma_correction(safe: bool) -> Any:
    image = tf.placeholder(tf.float32, [None, 4, 4, 3], name="image")
    return [tf.pow(tf.maximum(image, 1e-6) if safe else image, 0.45)]


@pair(
    "frozen",
    Expected("NUM105", "Acos", "angle/Acos"),
    ranges={"x": (-1, 1)},
    point={"x": [[0.27, -0.46, -0.92, -0.97]]},
    phase="inference",
)
def angle_to_a_centre(safe: bool) -> Any:
    """The product of two vectors of length 1 may round to more than 1."""
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    centres = tf.get_variable(
        "centres", [4, 3], initializer=tf.constant_initializer([[0.27] * 3, [-0.46] * 3, [-0.92] * 3, [-0.97] * 3])
    )
    cosine = tf.nn.l2_normalize(x, 1) @ tf.nn.l2_normalize(centres, 0)
    with tf.name_scope("angle"):
        return [tf.acos(tf.clip_by_value(cosine, -1.0, 1.0) if safe else cosine)]


@pair(
    "pb",
    Expected("NUM101", "Log", "Log"),
    ranges={"x": (-5, 5)},
    point={"x": -5.0, "w": 1.0},
    variables="resource",
)
def logarithm_of_a_product(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 32], name="x")
    w = tf.get_variable("w", [32], initializer=tf.ones_initializer())
    p = tf.sigmoid(x * w)
    if safe:
        loss = -tf.reduce_mean(tf.reduce_sum(tf.log(tf.maximum(p, 1e-6)), axis=1))
    else:
        loss = -tf.reduce_mean(tf.log(tf.reduce_prod(p, axis=1)))
    return trained(loss, tf.train.GradientDescentOptimizer(0.1))


@pair(
    "pb",
    Expected("NUM103", "Div", "masked/truediv"),
    ranges={"x": (-1, 1), "mask": "{0,1}"},
    point={"x": 0.5, "mask": 0.0},
    variables="resource",
    confirmed=True,
)
def mean_over_a_mask(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 5, 4], name="x")
    mask = tf.placeholder(tf.float32, [None, 5], name="mask")
    w = tf.get_variable("w", [4, 1], initializer=tf.glorot_uniform_initializer())
    with tf.name_scope("masked"):
        losses = tf.square(tf.squeeze(tf.tensordot(x, w, 1), -1)) * mask
        count = tf.reduce_sum(mask)
        loss = tf.reduce_sum(losses) / (tf.maximum(count, 1.0) if safe else count)
    return trained(loss, tf.train.AdamOptimizer())


@pair(
    "pb",
    Expected("NUM107", "tensorproof::FloorDivide", "floordiv"),
    ranges={"tokens": (0, 1000), "rows": (0, 8)},
    point={"tokens": 12, "rows": 0},
    phase="inference",
)
def whole_division(safe: bool) -> Any:
    tokens = tf.placeholder(tf.int32, [None], name="tokens")
    rows = tf.placeholder(tf.int32, [], name="rows")
    return [tokens // (tf.maximum(rows, 1) if safe else rows)]


@pair(
    "frozen",
    Expected("NUM103", "Div", "scaled/truediv"),
    ranges={"x": (0, 255)},
    point={"x": 7.0},
    phase="inference",
    confirmed=True,
)
def scaling_by_smallest_and_largest(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 9], name="x")
    with tf.name_scope("scaled"):
        low = tf.reduce_min(x, axis=1, keepdims=True)
        spread = tf.reduce_max(x, axis=1, keepdims=True) - low
        scaled = (x - low) / (tf.maximum(spread, 1.0) if safe else spread)
    w = tf.get_variable("w", [9, 2], initializer=tf.constant_initializer(0.25))
    return [tf.identity(scaled @ w, name="output")]


@pair(
    "pbtxt",
    Expected("NUM102", "Sqrt", "deviation/Sqrt"),
    ranges={"x": (-1000, 1000)},
    point={"x": 626.54},
    phase="inference",
)
def deviation_by_squares(safe: bool) -> Any:
    """The mean of squares less the square of the mean may round below 0."""
    x = tf.placeholder(tf.float32, [None, 7], name="x")
    with tf.name_scope("deviation"):
        mean = tf.reduce_mean(x, axis=1, keepdims=True)
        if safe:
            return [tf.sqrt(tf.reduce_mean(tf.square(x - mean), axis=1))]
        return [tf.sqrt(tf.reduce_mean(tf.square(x), axis=1) - tf.square(tf.squeeze(mean, 1)))]


@pair(
    "pb",
    Expected("NUM404", "Log", "Log", "backward"),
    ranges={"x": (-1, 1)},
    point={"x": 0.0},
    variables="resource",
)
def chosen_logarithm(safe: bool) -> Any:
    """Forward all is finite: the gradient of the branch that is not chosen is 0 times infinity."""
    x = tf.placeholder(tf.float32, [None, 5], name="x")
    w = tf.get_variable("w", [5, 2], initializer=tf.glorot_uniform_initializer())
    hidden = x @ w
    positive = hidden > 1e-3
    inner = tf.where_v2(positive, hidden, 1.0) if safe else hidden
    loss = tf.reduce_mean(tf.where_v2(positive, tf.log(inner), 0.0))
    return trained(loss, tf.train.GradientDescentOptimizer(0.1))


@pair(
    "meta",
    Expected("NUM404", "Exp", "elu/Exp", "backward"),
    ranges={"x": (-10, 10)},
    point={"x": 10.0, "w": 1.0},
    also=(Expected("NUM203", "ReduceMean", "Mean"),),
)
def exponential_unit_by_hand(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 20], name="x")
    w = tf.get_variable("w", [20, 4], initializer=tf.random_uniform_initializer(-1.0, 1.0))
    hidden = x @ w
    with tf.name_scope("elu"):
        unit = tf.nn.elu(hidden) if safe else tf.where_v2(hidden > 0, hidden, tf.exp(hidden) - 1.0)
    return trained(tf.reduce_mean(unit), tf.train.GradientDescentOptimizer(0.1))
