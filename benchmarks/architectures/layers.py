"""The layers that the architectures are made of, as programs for TensorFlow 1 write them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.architectures.architecture import Deferred, holds

tf: Any = Deferred("tensorflow.compat.v1")

#: What TensorFlow writes for a cross-entropy of logits and a sigmoid.
SIGMOID_LOSS = holds(r"(.*/)?logistic_loss(_\d+)?/(Exp|Log1p)", "of minus a magnitude, and of its power, which is between 0 and 1")


def placeholder(name: str, *shape: int, integer: bool = False) -> Any:
    return tf.placeholder(tf.int32 if integer else tf.float32, shape, name=name)


def weight(name: str, *shape: int, deviation: float = 0.5) -> Any:
    """A variable that starts within two deviations: by default the box of its initialiser is [-1, 1]."""
    return tf.get_variable(name, shape, initializer=tf.truncated_normal_initializer(stddev=deviation))


def zeros(name: str, *shape: int) -> Any:
    return tf.get_variable(name, shape, initializer=tf.zeros_initializer())


def ones(name: str, *shape: int) -> Any:
    return tf.get_variable(name, shape, initializer=tf.ones_initializer())


def dense(x: Any, size: int, name: str, deviation: float = 0.5) -> Any:
    with tf.variable_scope(name):
        return tf.matmul(x, weight("kernel", int(x.shape[-1]), size, deviation=deviation)) + zeros("bias", size)


def hidden(x: Any, size: int, name: str) -> Any:
    return tf.nn.relu(dense(x, size, name))


def convolution(x: Any, channels: int, name: str, size: int = 3, stride: int = 1) -> Any:
    with tf.variable_scope(name):
        kernel = weight("kernel", size, size, int(x.shape[-1]), channels)
        return tf.nn.conv2d(x, kernel, [1, stride, stride, 1], "SAME") + zeros("bias", channels)


def embedded(ids: Any, rows: int, size: int, name: str = "embedding") -> Any:
    table = tf.get_variable(name, [rows, size], initializer=tf.random_uniform_initializer(-1.0, 1.0))
    return tf.nn.embedding_lookup(table, ids)


def lstm(inputs: Sequence[Any], size: int, name: str) -> list[Any]:
    """The outputs of a long short-term memory, step by step."""
    batch = int(inputs[0].shape[0])
    state = output = tf.zeros([batch, size])
    outputs: list[Any] = []
    with tf.variable_scope(name) as scope:
        for step, x in enumerate(inputs):
            if step:
                scope.reuse_variables()
            gates = dense(tf.concat([x, output], 1), 4 * size, "gates")
            taken, new, kept, shown = tf.split(gates, 4, axis=1)
            state = tf.sigmoid(kept + 1.0) * state + tf.sigmoid(taken) * tf.tanh(new)
            output = tf.sigmoid(shown) * tf.tanh(state)
            outputs.append(output)
    return outputs


def gru(inputs: Sequence[Any], size: int, name: str) -> list[Any]:
    """The states of a gated recurrent unit, step by step."""
    state = tf.zeros([int(inputs[0].shape[0]), size])
    states: list[Any] = []
    with tf.variable_scope(name) as scope:
        for step, x in enumerate(inputs):
            if step:
                scope.reuse_variables()
            reset, update = tf.split(tf.sigmoid(dense(tf.concat([x, state], 1), 2 * size, "gates")), 2, axis=1)
            new = tf.tanh(dense(tf.concat([x, reset * state], 1), size, "candidate"))
            state = update * state + (1.0 - update) * new
            states.append(state)
    return states


def batch_normalised(x: Any, name: str, epsilon: float = 1e-3) -> Any:
    """With the statistics of the batch; its only operation that can fail is `NAME/batchnorm/Rsqrt`."""
    with tf.variable_scope(name):
        channels = int(x.shape[-1])
        mean, variance = tf.nn.moments(x, list(range(len(x.shape) - 1)))
        return tf.nn.batch_normalization(x, mean, variance, zeros("beta", channels), ones("gamma", channels), epsilon)


def layer_normalised(x: Any, name: str, epsilon: float = 1e-6) -> Any:
    with tf.variable_scope(name):
        size = int(x.shape[-1])
        mean = tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(x - mean), -1, keepdims=True)
        return (x - mean) * tf.rsqrt(variance + epsilon) * ones("gain", size) + zeros("shift", size)


def mean_cross_entropy(labels: Any, logits: Any) -> Any:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def sigmoid_cross_entropy(labels: Any, logits: Any) -> Any:
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


def trained(loss: Any, optimiser: Any | None = None) -> Any:
    """The loss, in a graph that also has its gradients and the steps that make it smaller."""
    (tf.train.AdamOptimizer() if optimiser is None else optimiser).minimize(loss)
    return loss
