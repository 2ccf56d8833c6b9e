"""Images that are made or compared: styles, resolution, the next frame of a video, depth."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.layers import convolution, dense, ones, placeholder, trained, zeros

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("images")


@family(
    holds("instance/pow", "a mean of squares is 0 or more, to the power of 0.5", form="defective"),
    holds("instance/pow", "a mean of squares and 0.001, to the power of 0.5", form="fixed"),
    fails(
        "instance/truediv",
        "an image of one colour has no deviation",
        {"image": 0.0},
        fixed="a deviation of at least the root of 0.001",
    ),
    holds("gram/truediv", "a division by the number of elements"),
    holds("variation/truediv(_1)?", "a division by the number of differences"),
    ranges={"image": (0, 1), "style": (-1, 1)},
)
def style_transfer(fixed: bool) -> Any:
    """A network for one style: instance normalisation, Gram matrices of features, total variation."""
    image, style = placeholder("image", 1, 6, 6, 3), placeholder("style", 4, 4)
    features = convolution(image, 4, "features")
    with tf.variable_scope("instance"):
        mean, variance = tf.nn.moments(features, [1, 2], keepdims=True)
        normal = (features - mean) / (variance + 1e-3 if fixed else variance) ** 0.5 * ones("scale", 4) + zeros("shift", 4)
    made = tf.sigmoid(convolution(tf.nn.relu(normal), 3, "out"))
    seen = tf.reshape(convolution(made, 4, "seen"), [36, 4])
    with tf.name_scope("gram"):
        gram = tf.matmul(seen, seen, transpose_a=True) / 144.0
    with tf.name_scope("variation"):
        down, across = made[:, 1:] - made[:, :-1], made[:, :, 1:] - made[:, :, :-1]
        variation = tf.nn.l2_loss(down) / 90.0 + tf.nn.l2_loss(across) / 90.0
    return trained(tf.reduce_sum(tf.square(gram - style)) + 0.1 * variation)


@family(
    fails(
        "ratio/truediv",
        "an image that is restored exactly has an error of 0",
        {"low": 0.0, "high": 0.0},
        fixed="a mean of squares is 0 or more, and 1e-8 is added to it",
    ),
    holds("ratio/Log", "1 divided by a positive number"),
    holds("ratio/Log_1", "a constant of 10"),
    holds("ratio/truediv_1", "the logarithm of 10"),
    holds(
        "similarity/truediv",
        "sums of squares, and of variances that are 0 or more but for their rounding, with constants of 1e-4 and 9e-4",
    ),
    ranges={"low": (0, 1), "high": (0, 1)},
)
def super_resolution(fixed: bool) -> Any:
    """An image of twice the resolution, with its ratio of signal to noise and its structural similarity."""
    low, high = placeholder("low", 1, 4, 4, 1), placeholder("high", 1, 8, 8, 1)
    features = tf.nn.relu(convolution(low, 4, "features"))
    made = tf.depth_to_space(convolution(features, 4, "out"), 2)
    error = tf.reduce_mean(tf.square(made - high))
    with tf.name_scope("ratio"):
        ratio = 10.0 * tf.log(1.0 / (error + 1e-8 if fixed else error)) / tf.log(10.0)
    with tf.name_scope("similarity"):
        shown = tf.clip_by_value(made, 0.0, 1.0)
        mean_1, mean_2 = tf.reduce_mean(shown), tf.reduce_mean(high)
        variance_1 = tf.reduce_mean(tf.square(shown)) - tf.square(mean_1)
        variance_2 = tf.reduce_mean(tf.square(high)) - tf.square(mean_2)
        both = tf.reduce_mean(shown * high) - mean_1 * mean_2
        above = (2.0 * mean_1 * mean_2 + 1e-4) * (2.0 * both + 9e-4)
        similarity = above / ((tf.square(mean_1) + tf.square(mean_2) + 1e-4) * (variance_1 + variance_2 + 9e-4))
    return trained(error), ratio, similarity


#: What is added to kernels that could be 0.
_SHIFT = 1e-12


@family(
    fails(
        "kernels/truediv",
        "all numbers of a kernel are negative before they are cut off: they sum to 0",
        {"frame": 1.0, "features/kernel": 1.0, "kernel/kernel": -1.0},
        fixed="each number is at least 1e-12",
    ),
    ranges={"frame": (0, 1), "next": (0, 1)},
)
def video_prediction(fixed: bool) -> Any:
    """The next frame of a video: the last one, moved by kernels that a network gives and that sum to 1."""
    frame, following = placeholder("frame", 1, 6, 6, 1), placeholder("next", 1, 6, 6, 1)
    features = tf.reshape(tf.nn.relu(convolution(frame, 2, "features", stride=2)), [1, 18])
    raw = tf.reshape(dense(features, 18, "kernel"), [3, 3, 1, 2])
    with tf.name_scope("kernels"):
        kernels = tf.nn.relu(raw - _SHIFT) + _SHIFT if fixed else tf.nn.relu(raw)
        kernels = kernels / tf.reduce_sum(kernels, [0, 1], keepdims=True)
    moved = tf.nn.conv2d(frame, kernels, [1, 1, 1, 1], "SAME")
    masks = tf.nn.softmax(convolution(frame, 2, "masks"))
    predicted = tf.reduce_sum(moved * masks, 3, keepdims=True)
    return trained(tf.reduce_mean(tf.square(predicted - following)))


@family(
    fails(
        "depth/truediv",
        "a disparity whose sigmoid is flushed to 0 is infinitely far",
        {"frame": 1.0, "features/kernel": 1.0, "disparity/kernel": -1.0},
        fixed="a disparity of at least 0.01",
    ),
    fails(
        "normal/truediv",
        "all disparities are flushed to 0",
        {"frame": 1.0, "features/kernel": 1.0, "disparity/kernel": -1.0},
        fixed="a mean of numbers of at least 0.01",
    ),
    fails(
        "projection/truediv",
        "a point behind the camera, at -1e-10: what is to keep the divisor from 0 makes it 0",
        {"motion": -1e-10, "frame": 0.0},
        fixed="a divisor of at least 0.001 by the maximum",
    ),
    ranges={"frame": (0, 1), "motion": (-2, 2)},
)
def depth_from_motion(fixed: bool) -> Any:
    """Depths from a video: disparities, normalised by their mean, and points that are projected into the next frame."""
    frame, motion = placeholder("frame", 1, 4, 4, 3), placeholder("motion", 16)
    features = tf.nn.relu(convolution(frame, 4, "features"))
    disparity = tf.sigmoid(tf.reshape(convolution(features, 1, "disparity"), [16]))
    if fixed:
        disparity = 10.0 * disparity + 0.01
    with tf.name_scope("normal"):
        smooth = tf.reduce_mean(tf.abs(disparity / tf.reduce_mean(disparity) - 1.0))
    with tf.name_scope("depth"):
        depth = 1.0 / disparity
    with tf.name_scope("projection"):
        ray = tf.constant([index / 15.0 for index in range(16)], tf.float32)
        distance = tf.maximum(motion, 1e-3) if fixed else motion + 1e-10
        projected = ray / distance
    return trained(smooth + 0.001 * tf.reduce_sum(depth)), tf.reduce_sum(projected)
