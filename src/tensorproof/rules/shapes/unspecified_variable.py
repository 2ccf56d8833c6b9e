"""Variable made of a value whose shape is not known.

## What it does
A variable of TensorFlow 1 gets an initial value with an axis of unknown size, such as one that depends on a placeholder.

## Why it matters
`tf.Variable` refuses: variables are made before anything is fed, and need a full shape.

## Example
    x = tf.placeholder(tf.float32, [None, 784])
    state = tf.Variable(tf.zeros(tf.stack([tf.shape(x)[0], 128])))

## Use instead
    x = tf.placeholder(tf.float32, [None, 784])
    state = tf.zeros(tf.stack([tf.shape(x)[0], 128]))
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

UNSPECIFIED_VARIABLE = Rule("SHP119", "unspecified-variable", __doc__ or "", severity="error")
