"""Value fed to a placeholder of another shape.

## What it does
A `feed_dict` gives a placeholder of TensorFlow 1 a value whose shape contradicts the declared one.

## Why it matters
`Session.run` refuses the value. Labels as plain numbers where the placeholder expects one-hot rows are the usual reason.

## Example
    y = tf.placeholder(tf.float32, [None, 10])
    session.run(loss, feed_dict={y: np.zeros(64)})  # (64,) for (None, 10)

## Use instead
    y = tf.placeholder(tf.float32, [None, 10])
    session.run(loss, feed_dict={y: np.eye(10)[np.zeros(64, int)]})  # (64, 10)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

FEED_MISMATCH = Rule("SHP112", "feed-mismatch", __doc__ or "", severity="error")
