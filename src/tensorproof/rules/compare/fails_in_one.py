"""One of two models cannot be run on an input that the other computes.

## What it does
Two models that are meant to compute the same were run on the same input. One of them stops with an error; the layer or
operator that is named is the first whose result cannot be had.

## Why it matters
The model works where it was developed and not where it is deployed.

## Example
    keras.layers.LayerNormalization(axis=1)  # computes on TensorFlow and JAX, raises on PyTorch

## Use instead
    keras.layers.Permute((2, 1))  # before and after a LayerNormalization over the last axis
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

FAILS_IN_ONE = Rule("CMP104", "fails-in-one-model", __doc__ or "")
