"""NaN or infinity on one framework only.

## What it does
The same network, weights and inputs give NaN or infinity at elements at which others, or the float64 reference, give numbers; or
numbers where they give NaN.

## Why it matters
NaN spreads to everything that is computed from it; a NaN that is lost hides a failure.

## Example
    keras.layers.Softmax()(scores)  # NaN for scores of 100 on one backend

## Use instead
    keras.layers.Softmax()(scores - scores.max(-1, keepdims=True))
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

NOT_FINITE_ON_ONE = Rule("CMP205", "not-finite-on-one", __doc__ or "", severity="error")
