"""Declared shape that contradicts what is known.

## What it does
`set_shape` or `ensure_shape` of TensorFlow declares sizes that differ from those the tensor has.

## Why it matters
Every run that reaches the line stops there. `set_shape` adds knowledge; it does not reshape.

## Example
    images = tf.zeros([8, 28, 28])
    images.set_shape([8, 784])

## Use instead
    images = tf.zeros([8, 28, 28])
    images = tf.reshape(images, [8, 784])
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

SET_SHAPE_CONFLICT = Rule("SHP113", "set-shape-conflict", __doc__ or "", severity="error")
