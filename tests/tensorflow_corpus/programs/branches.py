"""A function of TensorFlow with a loop and a branch that AutoGraph turns into nodes of the graph."""

# tensorproof: x = float32[4] in [-1,1]
import tensorflow as tf


@tf.function
def summed(x: tf.Tensor) -> tf.Tensor:
    total = tf.constant(0.0)
    for index in tf.range(4):
        if x[index] > -0.5:
            total += tf.math.log(x[index] + 0.5)  # BUG
    return total


@tf.function
def summed_safe(x: tf.Tensor) -> tf.Tensor:
    total = tf.constant(0.0)
    for index in tf.range(4):
        if x[index] > -0.5:
            total += tf.math.log(x[index] + 1.5)
    return total
