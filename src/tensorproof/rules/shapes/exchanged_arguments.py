"""Arguments in the order of another version.

## What it does
A call such as `tf.concat(0, parts)` or `tf.split(1, 3, value)` gives axis and value in the order that TensorFlow had before 1.0.

## Why it matters
The call fails, or takes the axis for the value. Later versions take the value first.

## Example
    parts = [tf.zeros([2, 3]), tf.zeros([2, 5])]
    joined = tf.concat(1, parts)

## Use instead
    parts = [tf.zeros([2, 3]), tf.zeros([2, 5])]
    joined = tf.concat(parts, 1)  # (2, 8)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

EXCHANGED_ARGUMENTS = Rule("SHP121", "exchanged-arguments", __doc__ or "", severity="error")
