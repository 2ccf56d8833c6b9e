"""Detectors: boxes decoded from a network and encoded for it, overlaps, losses of few positives among many anchors."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.architectures.architecture import Deferred, Family, fails, holds
from benchmarks.architectures.layers import (
    SIGMOID_LOSS,
    convolution,
    dense,
    hidden,
    placeholder,
    sigmoid_cross_entropy,
    trained,
)

tf: Any = Deferred("tensorflow.compat.v1")
family = Family("detection")

#: The logarithm of the largest box, in anchors.
_LARGEST = math.log(1000.0 / 16.0)

#: A bright image and kernels at the upper end of their box: features grow from layer to layer.
_BRIGHT = {"image": 1.0, "features/kernel": 1.0, "deep/kernel": 1.0, "boxes/kernel": 1.0, "size": 0.5}


def smooth_l1(difference: Any) -> Any:
    size = tf.abs(difference)
    return tf.where(size < 1.0, 0.5 * tf.square(size), size - 0.5)


@family(
    fails(
        "decode/Exp",
        "three layers of kernels at 1 give a logarithm of sizes above 1000",
        _BRIGHT,
        fixed="its operand is at most log(1000 / 16)",
    ),
    fails(
        "encode/Log",
        "a box without extent has no logarithm",
        {"size": 0.0},
        fixed="sizes are at least 1e-8, and anchors are below 1",
    ),
    holds("encode/truediv(_1)?", "anchors are constants of 0.1 and more"),
    ranges={"image": (0, 1), "centre": (0, 1), "size": (0, 1)},
)
def box_coder(fixed: bool) -> Any:
    """A single-shot detector: boxes as offsets from anchors, sizes as logarithms, smooth L1 loss."""
    image, centre, size = placeholder("image", 1, 6, 6, 3), placeholder("centre", 9, 2), placeholder("size", 9, 2)
    features = tf.nn.relu(convolution(image, 4, "features"))
    deep = tf.nn.relu(convolution(features, 4, "deep"))
    offsets = tf.reshape(convolution(deep, 4, "boxes", stride=2), [9, 4])
    anchors = tf.constant([[0.1 + 0.1 * row, 0.9 - 0.1 * row] for row in range(9)], tf.float32)
    middle = tf.constant([[row / 9.0, 1.0 - row / 9.0] for row in range(9)], tf.float32)
    with tf.name_scope("decode"):
        logarithm = offsets[:, 2:]
        extent = tf.exp(tf.minimum(logarithm, _LARGEST) if fixed else logarithm) * anchors
        boxes = tf.concat([middle + offsets[:, :2] * anchors, extent], 1)
    with tf.name_scope("encode"):
        wanted = tf.maximum(size, 1e-8) if fixed else size
        target = tf.concat([(centre - middle) / anchors, tf.log(wanted / anchors)], 1)
    return trained(tf.reduce_mean(smooth_l1(offsets - target))), boxes


@family(
    fails(
        "scale/Reciprocal",
        "a rectangle without extent has the area 0",
        {"offset": 0.0},
        fixed="sides are twice an offset of at least 0.1",
    ),
    ranges={"centre": (-1, 1), "offset": (0, 2)},
)
def rectangles(fixed: bool) -> Any:
    """DEBAR's own example: rectangles around centres, joined, taken apart again, and weighted by one over their areas."""
    centre, offset = placeholder("centre", 20, 2), placeholder("offset", 20, 2)
    if fixed:
        offset = offset + 0.1
    corners = tf.concat([centre - offset, centre + offset], 1)
    bottom, left, top, right = tf.split(corners, 4, axis=1)
    with tf.name_scope("scale"):
        scale = tf.reciprocal((right - left) * (top - bottom))
    return trained(tf.reduce_mean(scale * tf.square(dense(corners, 1, "score"))))


def area(boxes: Any) -> Any:
    """The areas of boxes that are given by two corners; crossed ones have none."""
    low, high = boxes[:, :2], boxes[:, 2:]
    sides = tf.maximum(high - low, 0.0)
    return sides[:, 0] * sides[:, 1]


@family(
    fails(
        "overlap/truediv",
        "two boxes without area have a union of 0",
        {"boxes": 0.5, "truth": 0.5},
        fixed="the union is at least 1e-8, and the intersection at most 1",
    ),
    fails(
        "loss/truediv",
        "no anchor overlaps a box: the number of positives is 0",
        {"boxes": [0.0, 0.0, 0.1, 0.1], "truth": [0.5, 0.5, 0.9, 0.9]},
        fixed="the number of positives is at least 1 by the maximum",
    ),
    SIGMOID_LOSS,
    ranges={"boxes": (0, 1), "truth": (0, 1), "features": (-1, 1)},
)
def anchor_matching(fixed: bool) -> Any:
    """Anchors that are positive where they overlap a box by half, and a loss per positive anchor."""
    boxes, truth, features = placeholder("boxes", 8, 4), placeholder("truth", 8, 4), placeholder("features", 8, 6)
    scores = dense(hidden(features, 6, "hidden"), 1, "score")
    with tf.name_scope("overlap"):
        corner_low = tf.maximum(boxes[:, :2], truth[:, :2])
        corner_high = tf.minimum(boxes[:, 2:], truth[:, 2:])
        shared = area(tf.concat([corner_low, corner_high], 1))
        union = area(boxes) + area(truth) - shared
        overlap = shared / (tf.maximum(union, 1e-8) if fixed else union)
    with tf.name_scope("loss"):
        positive = tf.cast(overlap > 0.5, tf.float32)
        each = sigmoid_cross_entropy(positive, scores[:, 0])
        count = tf.reduce_sum(positive)
        loss = tf.reduce_sum(each * positive) / (tf.maximum(count, 1.0) if fixed else count)
    return trained(loss, tf.train.MomentumOptimizer(0.01, 0.9))


@family(
    fails(
        "focal/Log",
        "a score of -109 has a sigmoid that is flushed to 0",
        {"features": 1.0, "hidden/kernel": 1.0, "score/kernel": -1.0},
    ),
    fails(
        "focal/Log_1",
        "a score of 109 has a sigmoid of 1",
        {"features": 1.0, "hidden/kernel": 1.0, "score/kernel": 1.0},
    ),
    holds("focal/(pow|Pow|pow_1)", "a number between 0 and 1, squared"),
    holds("focal/truediv", "the number of labels that are 1, and 1 more"),
    ranges={"features": (-1, 1), "labels": "{0,1}"},
)
def focal_loss(fixed: bool) -> Any:
    """A dense detector whose loss is weighted by how wrong each anchor is."""
    features, labels = placeholder("features", 6, 12), placeholder("labels", 6, 1)
    scores = dense(hidden(features, 9, "hidden"), 1, "score")
    with tf.name_scope("focal"):
        p = tf.sigmoid(scores)
        log_p, log_q = (-tf.nn.softplus(-scores), -tf.nn.softplus(scores)) if fixed else (tf.log(p), tf.log(1.0 - p))
        positive = -0.25 * labels * (1.0 - p) ** 2.0 * log_p
        negative = -0.75 * (1.0 - labels) * p**2.0 * log_q
        loss = tf.reduce_sum(positive + negative) / (1.0 + tf.reduce_sum(labels))
    return trained(loss, tf.train.MomentumOptimizer(0.01, 0.9))
