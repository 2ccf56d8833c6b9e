"""Illegal parameter that some frameworks accept.

## What it does
A value that the documentation rules out is computed with by some backends and refused by others.

## Why it matters
A mistake in a model is noticed on one backend only; on the others it computes something that nobody meant.

## Example
    keras.layers.MaxPooling2D(strides=0)(maps)  # one backend computes something

## Use instead
    keras.layers.MaxPooling2D(strides=1)(maps)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

ILLEGAL_VALUE_ACCEPTED = Rule("CMP204", "illegal-value-accepted", __doc__ or "", severity="warning")
