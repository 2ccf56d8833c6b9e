"""Losses and statistics of reinforcement learning, divergences, schedules, clipping of gradients: graphs of version 1."""

from __future__ import annotations

from typing import Any

from tests.tensorflow_corpus.classifiers import trained
from tests.tensorflow_corpus.generative import dense
from tests.tensorflow_corpus.pairs import Deferred, Expected, pair

tf: Any = Deferred("tensorflow.compat.v1")


@pair(
    "pb",
    Expected("NUM101", "Log", "policy/Log"),
    ranges={"state": (-10, 10), "action": (0, 3), "advantage": (-5, 5)},
    point={"state": 10.0, "action": 3, "advantage": 1.0, "hidden/kernel": 1.0, "scores/kernel": [[1.0, 0.0, 0.0, -1.0]]},
)
def policy_gradient(safe: bool) -> Any:
    state = tf.placeholder(tf.float32, [None, 6], name="state")
    action = tf.placeholder(tf.int32, [None], name="action")
    advantage = tf.placeholder(tf.float32, [None], name="advantage")
    scores = dense(tf.nn.relu(dense(state, 8, "hidden")), 4, "scores")
    with tf.name_scope("policy"):
        if safe:
            chosen = -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=action, logits=scores)
        else:
            p = tf.nn.softmax(scores)
            chosen = tf.log(tf.reduce_sum(p * tf.one_hot(action, 4), axis=1))
        loss = -tf.reduce_mean(chosen * advantage)
    rate = tf.train.exponential_decay(0.01, tf.train.get_or_create_global_step(), 100, 0.9, staircase=True)
    return trained(loss, tf.train.RMSPropOptimizer(rate))


@pair(
    "meta",
    Expected("NUM103", "Div", "advantage/truediv"),
    ranges={"reward": (-1, 1)},
    point={"reward": 0.5},
    phase="inference",
)
def standardised_advantage(safe: bool) -> Any:
    reward = tf.placeholder(tf.float32, [8], name="reward")
    with tf.name_scope("advantage"):
        mean, variance = tf.nn.moments(reward, [0])
        deviation = tf.sqrt(variance)
        return [(reward - mean) / (deviation + 1e-6 if safe else deviation)]


@pair(
    "pb",
    Expected("NUM103", "Div", "divergence/truediv"),
    ranges={"p": "simplex", "x": (-1, 1)},
    point={"p": 0.25, "x": 1.0, "scores/kernel": [[1.0, 0.0, 0.0, -1.0]]},
    variables="resource",
)
def divergence_from_a_teacher(safe: bool) -> Any:
    """The probabilities of the teacher are kept above 0, those of the pupil are not."""
    p = tf.placeholder(tf.float32, [None, 4], name="p")
    x = tf.placeholder(tf.float32, [None, 60], name="x")
    scores = dense(x, 4, "scores")
    with tf.name_scope("divergence"):
        target = tf.maximum(p, 1e-6)
        if safe:
            terms = target * (tf.log(target) - tf.nn.log_softmax(scores))
        else:
            terms = target * tf.log(target / tf.nn.softmax(scores))
        loss = tf.reduce_mean(tf.reduce_sum(terms, axis=1))
    return trained(loss, tf.train.AdamOptimizer())


@pair(
    "pb",
    Expected("NUM103", "Div", "debiased/truediv"),
    ranges={"average": (-1, 1), "step": (0, 10000)},
    point={"average": 0.5, "step": 0.0},
    phase="inference",
    confirmed=True,
)
def debiased_average(safe: bool) -> Any:
    average = tf.placeholder(tf.float32, [4], name="average")
    step = tf.placeholder(tf.float32, [], name="step")
    with tf.name_scope("debiased"):
        return [average / (1.0 - tf.pow(0.99, tf.maximum(step, 1.0) if safe else step))]


@pair(
    "pb",
    Expected("NUM103", "Div", "clip/truediv"),
    Expected("NUM103", "Div", "clip/truediv_1"),
    ranges={"x": (-1, 1), "y": (-1, 1)},
    point={"x": 0.0, "y": 0.0},
    also=(Expected("NUM202", "Mul", "clip/mul.*"),),
)
def clipped_gradients(safe: bool) -> Any:
    """The safe twin clips with TensorFlow's own function, which divides by the norm, too, and takes the smaller of two quotients."""
    x = tf.placeholder(tf.float32, [None, 5], name="x")
    y = tf.placeholder(tf.float32, [None, 2], name="y")
    loss = tf.reduce_mean(tf.square(dense(x, 2, "out") - y))
    optimiser = tf.train.MomentumOptimizer(0.1, 0.9)
    gradients, variables = zip(*optimiser.compute_gradients(loss), strict=True)
    with tf.name_scope("clip"):
        if safe:
            clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
        else:
            norm = tf.global_norm(gradients)
            clipped = [gradient * (1.0 / norm) for gradient in gradients]
    optimiser.apply_gradients(zip(clipped, variables, strict=True))
    return [loss, *clipped]


@pair(
    "pbtxt",
    Expected("NUM101", "tensorproof::Log1p", "Log1p"),
    ranges={"growth": (-1, 3)},
    point={"growth": -1.0},
    phase="inference",
    confirmed=True,
)
def logarithm_of_growth(safe: bool) -> Any:
    growth = tf.placeholder(tf.float32, [None, 3], name="growth")
    return [tf.reduce_sum(tf.log1p(tf.maximum(growth, -0.999) if safe else growth), axis=1)]


@pair(
    "pb",
    Expected("NUM105", "Atanh", "Atanh"),
    ranges={"x": (-1, 1)},
    point={"x": 1.0, "w": 1.0},
    variables="resource",
)
def fisher_transform(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 30], name="x")
    w = tf.get_variable("w", [30, 2], initializer=tf.random_uniform_initializer(-1.0, 1.0))
    correlation = tf.tanh(x @ w)
    loss = tf.reduce_mean(tf.square(tf.atanh(tf.clip_by_value(correlation, -0.999, 0.999) if safe else correlation)))
    return trained(loss, tf.train.GradientDescentOptimizer(0.1))


@pair(
    "frozen",
    Expected("NUM204", "Cast", "half"),
    ranges={"x": (0, 255)},
    point={"x": 255.0},
    phase="inference",
    confirmed=True,
)
def energy_in_half_precision(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    energy = tf.reduce_sum(tf.square(x), axis=1) * tf.get_variable("gain", [], initializer=tf.constant_initializer(1.0))
    return [tf.cast(tf.minimum(energy, 65504.0) if safe else energy, tf.float16, name="half")]


@pair(
    "pb",
    Expected("NUM114", "ReduceMean", "Mean"),
    ranges={"losses": (0, 4)},
    point={"losses": 1.0, "keep": False},
    phase="inference",
)
def mean_of_what_is_left(safe: bool) -> Any:
    losses = tf.placeholder(tf.float32, [6], name="losses")
    keep = tf.placeholder(tf.bool, [6], name="keep")
    if safe:
        weights = tf.cast(keep, tf.float32)
        return [tf.div_no_nan(tf.reduce_sum(losses * weights), tf.reduce_sum(weights))]
    return [tf.reduce_mean(tf.boolean_mask(losses, keep))]


@pair(
    "meta",
    Expected("NUM101", "Log", "sampled/Log"),
    ranges={"word": (0, 29), "context": (0, 29)},
    point={"word": 3, "context": 5, "embeddings": 1.0, "weights": -2.0},
    variables="resource",
)
def sampled_softmax(safe: bool) -> Any:
    """The safe twin is TensorFlow's own noise-contrastive loss, with its sampler and the logarithms of its counts."""
    word = tf.placeholder(tf.int64, [4], name="word")
    context = tf.placeholder(tf.int64, [4, 1], name="context")
    embeddings = tf.get_variable("embeddings", [30, 50], initializer=tf.random_uniform_initializer(-1.0, 1.0))
    weights = tf.get_variable("weights", [30, 50], initializer=tf.truncated_normal_initializer(stddev=1.0))
    biases = tf.get_variable("biases", [30], initializer=tf.zeros_initializer())
    vectors = tf.nn.embedding_lookup(embeddings, word)
    with tf.name_scope("sampled"):
        if safe:
            loss = tf.reduce_mean(tf.nn.nce_loss(weights, biases, context, vectors, num_sampled=5, num_classes=30))
        else:
            chosen = tf.nn.embedding_lookup(weights, tf.squeeze(context, 1))
            loss = -tf.reduce_mean(tf.log(tf.sigmoid(tf.reduce_sum(vectors * chosen, axis=1))))
    return trained(loss, tf.train.GradientDescentOptimizer(1.0))


@pair(
    "checkpoint",
    Expected("NUM103", "Reciprocal", "weights/Reciprocal"),
    ranges={"x": (-2, 2)},
    point={"x": [[2.0, -1.0, 0.0]]},
    phase="inference",
)
def inverse_distances(safe: bool) -> Any:
    """The values of the centres come from the checkpoint; one of them lies within the box of the input."""
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    centres = tf.get_variable("centres", [2, 3], initializer=tf.constant_initializer([[2.0, -1.0, 0.0], [9.0, 9.0, 9.0]]))
    with tf.name_scope("weights"):
        squares = tf.reduce_sum(tf.squared_difference(tf.expand_dims(x, 1), centres), axis=2)
        weights = tf.reciprocal(squares + 1e-3 if safe else squares)
        return [weights]
