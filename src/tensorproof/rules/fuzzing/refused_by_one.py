"""Network that one framework refuses and another computes.

## What it does
All parameters are legal, some backend or the float64 reference computes the network, and this backend raises an exception.

## Why it matters
A model that was trained on one backend cannot be run on the other.

## Example
    keras.layers.LayerNormalization(axis=1)(maps)  # Keras on torch: Given normalized_shape=[...]

## Use instead
    keras.layers.Permute((2, 1))(maps)  # and LayerNormalization over the last axis
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

REFUSED_BY_ONE = Rule("CMP202", "refused-by-one", __doc__ or "", severity="warning")
