"""Loops, branches, embeddings, attention and queues as graphs of version 1, with the control flow of version 1 and of version 2."""

from __future__ import annotations

from typing import Any

from tests.tensorflow_corpus.classifiers import trained
from tests.tensorflow_corpus.pairs import Deferred, Expected, pair

tf: Any = Deferred("tensorflow.compat.v1")

STEPS = 5


def recurrent_log_likelihood(safe: bool) -> Any:
    """A recurrent network over a TensorArray; each step adds the logarithm of the probability of the next symbol."""
    x = tf.placeholder(tf.float32, [STEPS, None, 6], name="x")
    kernel = tf.get_variable("kernel", [6, 12], initializer=tf.glorot_uniform_initializer())
    recurrent = tf.get_variable("recurrent", [12, 12], initializer=tf.random_uniform_initializer(-1.0, 1.0))
    out = tf.get_variable("out", [12, 6], initializer=tf.random_uniform_initializer(-6.0, 6.0))
    rows = tf.TensorArray(tf.float32, STEPS, element_shape=[None, 6]).unstack(x)

    def step(time: Any, state: Any, total: Any) -> Any:
        symbol = rows.read(time)
        state = tf.tanh(symbol @ kernel + state @ recurrent)
        logits = state @ out
        logarithm = tf.nn.log_softmax(logits) if safe else tf.log(tf.nn.softmax(logits))
        return time + 1, state, total + tf.reduce_sum(symbol * logarithm)

    first = tf.zeros([tf.shape(x)[1], 12])
    _, _, total = tf.while_loop(lambda time, state, total: time < STEPS, step, [0, first, 0.0], name="rnn")
    return trained(-total, tf.train.AdamOptimizer())


FAILING_STEPS = {"x": 1.0, "kernel": 0.4, "recurrent": 1.0, "out": [[6.0] + [-6.0] * 5]}


@pair(
    "pb",
    Expected("NUM101", "Log", "(.*[./])?Log"),
    ranges={"x": "one-hot"},
    point=FAILING_STEPS,
    has_gradient_of_loop=True,
)
def loop_of_version_1(safe: bool) -> Any:
    return recurrent_log_likelihood(safe)


@pair(
    "meta",
    Expected("NUM101", "Log", "(.*[./])?Log"),
    ranges={"x": "one-hot"},
    point=FAILING_STEPS,
    variables="resource",
    control_flow="v2",
    has_gradient_of_loop=True,
)
def loop_of_version_2(safe: bool) -> Any:
    return recurrent_log_likelihood(safe)


#: What is divided by a length next to 0 may be as large as the format goes.
GROWN = (
    Expected("NUM202", "Mul", ".*Square"),
    Expected("NUM203", "ReduceSum", ".*Sum"),
    Expected("NUM203", "MatMul", ".*matmul"),
)


def rescaled_state(safe: bool) -> Any:
    """Power iteration: the state is divided by its length in each step. Nothing is trained."""
    matrix = tf.placeholder(tf.float32, [4, 4], name="matrix")

    def step(count: Any, state: Any) -> Any:
        state = matrix @ state
        length = tf.sqrt(tf.reduce_sum(tf.square(state)))
        return count + 1, state / (tf.maximum(length, 1e-6) if safe else length)

    _, state = tf.while_loop(lambda count, state: count < 8, step, [0, tf.ones([4, 1])], name="power")
    return [tf.identity(state, name="output")]


@pair(
    "frozen",
    Expected("NUM103", "Div", "power.*truediv.*"),
    ranges={"matrix": (-1, 1)},
    point={"matrix": 0.0},
    also=GROWN,
    phase="inference",
)
def power_iteration_of_version_1(safe: bool) -> Any:
    return rescaled_state(safe)


@pair(
    "pbtxt",
    Expected("NUM103", "Div", "power.*truediv.*"),
    ranges={"matrix": (-1, 1)},
    point={"matrix": 0.0},
    also=GROWN,
    phase="inference",
    control_flow="v2",
)
def power_iteration_of_version_2(safe: bool) -> Any:
    return rescaled_state(safe)


def branching(safe: bool) -> Any:
    """The safe twin takes the logarithm of what is positive whichever branch runs."""
    x = tf.placeholder(tf.float32, [None, 5], name="x")
    level = tf.placeholder(tf.float32, [], name="level")
    shifted = x + 2.0 if safe else x + 1.0
    return [tf.cond(level > 0.5, lambda: tf.log(shifted), lambda: x * 2.0, name="branch")]


@pair(
    "pb",
    Expected("NUM101", "Log", "branch(.*[./])?Log"),
    ranges={"x": (-1, 1), "level": (0, 1)},
    point={"x": -1.0, "level": 1.0},
    phase="inference",
)
def branch_of_version_1(safe: bool) -> Any:
    return branching(safe)


@pair(
    "pb",
    Expected("NUM101", "Log", "branch(.*[./])?Log"),
    ranges={"x": (-1, 1), "level": (0, 1)},
    point={"x": -1.0, "level": 1.0},
    phase="inference",
    control_flow="v2",
)
def branch_of_version_2(safe: bool) -> Any:
    return branching(safe)


@pair(
    "checkpoint",
    Expected("NUM101", "Log", "nce/Log"),
    Expected("NUM101", "Log", "nce/Log_1"),
    ranges={"word": (0, 19), "context": (0, 19), "noise": (0, 19), "embeddings": (-2, 2), "weights": (-2, 2)},
    point={"word": 3, "context": 5, "noise": 7, "embeddings": 2.0, "weights": -2.0},
)
def word_vectors(safe: bool) -> Any:
    word = tf.placeholder(tf.int32, [None], name="word")
    context = tf.placeholder(tf.int32, [None], name="context")
    noise = tf.placeholder(tf.int32, [4], name="noise")
    embeddings = tf.get_variable("embeddings", [20, 32], initializer=tf.random_uniform_initializer(-1.0, 1.0))
    weights = tf.get_variable("weights", [20, 32], initializer=tf.truncated_normal_initializer(stddev=0.2))
    vectors = tf.nn.embedding_lookup(embeddings, word)
    near = tf.reduce_sum(vectors * tf.nn.embedding_lookup(weights, context), axis=1)
    far = tf.matmul(vectors, tf.nn.embedding_lookup(weights, noise), transpose_b=True)
    with tf.name_scope("nce"):
        if safe:
            loss = -tf.reduce_mean(tf.log_sigmoid(near)) - tf.reduce_mean(tf.log_sigmoid(-far))
        else:
            loss = -tf.reduce_mean(tf.log(tf.sigmoid(near))) - tf.reduce_mean(tf.log(1.0 - tf.sigmoid(far)))
    return trained(loss, tf.train.GradientDescentOptimizer(1.0))


@pair(
    "pb",
    Expected("NUM108", "Softmax", "attention/Softmax"),
    ranges={"query": (-1, 1), "keys": (-1, 1)},
    point={"query": 1.0, "keys": 1.0, "visible": False},
    phase="inference",
)
def attention_that_sees_nothing(safe: bool) -> Any:
    query = tf.placeholder(tf.float32, [None, 8], name="query")
    keys = tf.placeholder(tf.float32, [None, 6, 8], name="keys")
    visible = tf.placeholder(tf.bool, [None, 6], name="visible")
    with tf.name_scope("attention"):
        scores = tf.einsum("bd,bkd->bk", query, keys) / 8.0**0.5
        hidden = -1e9 if safe else float("-inf")
        weights = tf.nn.softmax(tf.where_v2(visible, scores, hidden))
        return [tf.einsum("bk,bkd->bd", weights, keys)]


@pair(
    "meta",
    Expected("NUM101", "Log", "decibel/Log"),
    ranges={"frames_Dequeue": (0, 1)},
    point={"frames_Dequeue": 0.0},
    phase="inference",
)
def frames_from_a_queue(safe: bool) -> Any:
    queue = tf.FIFOQueue(8, [tf.float32], shapes=[[16]], name="frames")
    power = tf.square(queue.dequeue())
    with tf.name_scope("decibel"):
        return [10.0 * tf.log(tf.maximum(power, 1e-10) if safe else power)]


@pair(
    "pb",
    Expected("NUM101", "Log", "Log"),
    ranges={"x": (-1, 1), "y": "one-hot"},
    point={"x": 1.0, "y": [[0.0, 0.0, 1.0]], "out": [[10.0, 0.0, -10.0]], "kernel": 1.0},
    variables="resource",
)
def unrolled_gates(safe: bool) -> Any:
    """An LSTM cell written out over three steps."""
    x = tf.placeholder(tf.float32, [None, 3, 4], name="x")
    y = tf.placeholder(tf.float32, [None, 3], name="y")
    kernel = tf.get_variable("kernel", [4 + 8, 4 * 8], initializer=tf.random_uniform_initializer(-1.0, 1.0))
    bias = tf.get_variable("bias", [4 * 8], initializer=tf.zeros_initializer())
    state = memory = tf.zeros([tf.shape(x)[0], 8])
    for step in tf.unstack(x, axis=1):
        gates = tf.nn.bias_add(tf.matmul(tf.concat([step, state], 1), kernel), bias)
        i, j, f, o = tf.split(gates, 4, axis=1)
        memory = memory * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        state = tf.tanh(memory) * tf.sigmoid(o)
    p = tf.nn.softmax(state @ tf.get_variable("out", [8, 3], initializer=tf.random_uniform_initializer(-10.0, 10.0)))
    loss = -tf.reduce_mean(tf.reduce_sum(y * tf.log(p + 1e-8 if safe else p), axis=1))
    return trained(loss, tf.train.AdamOptimizer())
