"""Functions of TensorFlow that are checked live: their lines come from the tracebacks of the graph."""

# tensorproof: x = float32[N,4] in [-3,3]
import tensorflow as tf

weights = tf.Variable([[3.0, -3.0, 0.0], [-3.0, 3.0, 0.0]] * 2, name="weights")


@tf.function
def normalised(x: tf.Tensor) -> tf.Tensor:
    length = tf.sqrt(tf.reduce_sum(tf.square(x), axis=-1, keepdims=True))
    return x / length  # BUG


@tf.function
def normalised_safe(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.l2_normalize(x, axis=-1)
