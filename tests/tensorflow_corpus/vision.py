"""Networks on images as graphs of version 1: sampling grids, transposed convolutions, normalisations, segmentation losses."""

from __future__ import annotations

from typing import Any

from tests.tensorflow_corpus.classifiers import LAST_CLASS, trained
from tests.tensorflow_corpus.generative import dense
from tests.tensorflow_corpus.pairs import Deferred, Expected, pair

tf: Any = Deferred("tensorflow.compat.v1")


def convolved(x: Any, size: int, name: str, stride: int = 1) -> Any:
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [3, 3, int(x.shape[-1]), size], initializer=tf.truncated_normal_initializer(stddev=0.5))
        bias = tf.get_variable("bias", [size], initializer=tf.zeros_initializer())
        return tf.nn.bias_add(tf.nn.conv2d(x, kernel, [1, stride, stride, 1], "SAME"), bias)


def bilinear(image: Any, x: Any, y: Any, size: int) -> Any:
    """Four corners of each place of a grid, looked up in the flattened image and weighed by their distance."""
    batch = tf.shape(image)[0]
    flat = tf.reshape(image, [-1])
    offset = tf.expand_dims(tf.range(batch) * size * size, 1)
    left, top = tf.cast(tf.floor(x), tf.int32), tf.cast(tf.floor(y), tf.int32)
    total = 0.0
    for across in (0, 1):
        for down in (0, 1):
            column = tf.clip_by_value(left + across, 0, size - 1)
            row = tf.clip_by_value(top + down, 0, size - 1)
            weight = (1.0 - tf.abs(x - tf.cast(column, tf.float32))) * (1.0 - tf.abs(y - tf.cast(row, tf.float32)))
            total = total + weight * tf.gather(flat, offset + row * size + column)
    return total


@pair(
    "pb",
    Expected("NUM101", "Log", "Log"),
    ranges={"x": (0, 1), "y": "one-hot"},
    point={"x": 1.0, "y": LAST_CLASS, "out/kernel": [[1.0] + [-1.0] * 9], "conv/kernel": 1.0, "place/kernel": 0.0},
)
def spatial_transformer(safe: bool) -> Any:
    x = tf.placeholder(tf.float32, [None, 36], name="x")
    y = tf.placeholder(tf.float32, [None, 10], name="y")
    place = tf.tanh(dense(x, 2, "place", tf.zeros_initializer()))
    steps = tf.linspace(-1.0, 1.0, 6)
    across, down = tf.meshgrid(steps, steps)
    columns = (tf.reshape(across, [1, -1]) * place[:, :1] + 1.0) * 3.0
    rows = (tf.reshape(down, [1, -1]) * place[:, 1:] + 1.0) * 3.0
    image = tf.reshape(bilinear(x, columns, rows, 6), [-1, 6, 6, 1])
    hidden = tf.reshape(tf.nn.relu(convolved(image, 8, "conv", 2)), [-1, 3 * 3 * 8])
    p = tf.nn.softmax(dense(hidden, 10, "out"))
    loss = -tf.reduce_sum(y * tf.log(tf.maximum(p, 1e-8) if safe else p))
    return trained(loss, tf.train.AdamOptimizer())


@pair(
    "pb",
    Expected("NUM201", "Exp", "pixels/Exp"),
    Expected("NUM203", "ReduceSum", "pixels/Sum"),
    Expected("NUM103", "Div", "pixels/truediv"),
    ranges={"image": (0, 1), "mask": "one-hot"},
    point={"image": 1.0, "mask": [1.0, 0.0], "down/kernel": 1.0, "up/kernel": 1.0, "out/kernel": 1.0},
    variables="resource",
)
def segmentation_network(safe: bool) -> Any:
    """A small U-Net: down, up by a transposed convolution, joined with what came before, a softmax by hand over the pixels."""
    image = tf.placeholder(tf.float32, [None, 8, 8, 1], name="image")
    mask = tf.placeholder(tf.float32, [None, 8, 8, 2], name="mask")
    wide = tf.nn.relu(convolved(image, 4, "wide"))
    low = tf.nn.relu(convolved(tf.nn.max_pool(wide, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"), 8, "down"))
    with tf.variable_scope("up"):
        kernel = tf.get_variable("kernel", [2, 2, 4, 8], initializer=tf.truncated_normal_initializer(stddev=0.5))
        high = tf.nn.conv2d_transpose(low, kernel, tf.stack([tf.shape(image)[0], 8, 8, 4]), [1, 2, 2, 1], "SAME")
    logits = convolved(tf.concat([wide, tf.reshape(high, [-1, 8, 8, 4])], 3), 2, "out")
    with tf.name_scope("pixels"):
        if safe:
            logits -= tf.reduce_max(logits, axis=3, keepdims=True)
        exponentials = tf.exp(logits)
        p = exponentials / tf.reduce_sum(exponentials, axis=3, keepdims=True)
        loss = -tf.reduce_mean(mask * tf.log(tf.clip_by_value(p, 1e-10, 1.0)))
    return trained(loss, tf.train.MomentumOptimizer(0.2, 0.2))


@pair(
    "meta",
    Expected("NUM103", "Div", "dice/truediv"),
    ranges={"image": (-1, 1), "mask": "{0,1}"},
    point={"image": 1.0, "mask": 0.0, "conv/kernel": -1.0, "out/kernel": -1.0, "out/bias": -1.0, "conv/bias": 1.0},
)
def dice_loss(safe: bool) -> Any:
    image = tf.placeholder(tf.float32, [None, 6, 6, 1], name="image")
    mask = tf.placeholder(tf.float32, [None, 6, 6, 1], name="mask")
    p = tf.nn.relu(convolved(tf.nn.relu(convolved(image, 4, "conv")), 1, "out"))
    with tf.name_scope("dice"):
        smooth = 1.0 if safe else 0.0
        both = 2.0 * tf.reduce_sum(p * mask, axis=[1, 2, 3]) + smooth
        score = both / (tf.reduce_sum(p, axis=[1, 2, 3]) + tf.reduce_sum(mask, axis=[1, 2, 3]) + smooth)
        loss = 1.0 - tf.reduce_mean(score)
    return trained(loss, tf.train.AdamOptimizer())


@pair(
    "pbtxt",
    Expected("NUM103", "Reciprocal", "batchnorm/Rsqrt"),
    ranges={"image": (0, 1)},
    point={"image": 0.0},
    also=(
        Expected("NUM401", "Sqrt", "batchnorm/Rsqrt/Sqrt", "backward"),
        Expected("NUM202", "Mul", "batchnorm/mul.*|Square"),
        Expected("NUM202", "(Add|Sub)", "batchnorm/(add_1|sub)|sub"),
        Expected("NUM203", "ReduceMean", "Mean"),
    ),
    variables="resource",
)
def normalisation_without_epsilon(safe: bool) -> Any:
    image = tf.placeholder(tf.float32, [2, 4, 4, 1], name="image")
    hidden = convolved(image, 3, "conv")
    mean, variance = tf.nn.moments(hidden, axes=[0, 1, 2])
    offset = tf.get_variable("offset", [3], initializer=tf.zeros_initializer())
    scale = tf.get_variable("scale", [3], initializer=tf.ones_initializer())
    normal = tf.nn.batch_normalization(hidden, mean, variance, offset, scale, 1e-3 if safe else 0.0)
    loss = tf.reduce_mean(tf.square(tf.nn.relu(normal) - 1.0))
    return trained(loss, tf.train.GradientDescentOptimizer(0.1))


@pair(
    "frozen",
    Expected("NUM103", "Div", "standard/truediv"),
    ranges={"image": (0, 255)},
    point={"image": 9.0},
    also=(Expected("NUM203", "Conv", "Conv2D/Conv"),),
    phase="inference",
    confirmed=True,
)
def standardised_images(safe: bool) -> Any:
    image = tf.placeholder(tf.float32, [None, 6, 6, 3], name="image")
    with tf.name_scope("standard"):
        mean = tf.reduce_mean(image, axis=[1, 2, 3], keepdims=True)
        deviation = tf.math.reduce_std(image, axis=[1, 2, 3], keepdims=True)
        normal = (image - mean) / (tf.maximum(deviation, 1.0 / 108.0**0.5) if safe else deviation)
    kernel = tf.get_variable("kernel", [3, 3, 3, 2], initializer=tf.constant_initializer(0.1))
    pooled = tf.nn.avg_pool(tf.nn.relu6(tf.nn.conv2d(normal, kernel, [1, 2, 2, 1], "VALID")), [1, 2, 2, 1], [1, 1, 1, 1], "VALID")
    return [tf.identity(pooled, name="output")]
