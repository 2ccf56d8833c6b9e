"""Result of another shape than promised, or than on the other frameworks.

## What it does
The shape that the framework infers before it runs is not the shape of the result, or the result's shape differs from that of other
backends or of the reference.

## Why it matters
Layers that are built from the inferred shape get other sizes than they were made for.

## Example
    model.output_shape, model.predict(x).shape  # (None, 4, 4, 8) and (2, 5, 5, 8)

## Use instead
    keras.layers.Conv2DTranspose(8, 3, padding="valid")  # parameters on which all agree
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

ANOTHER_SHAPE = Rule("CMP207", "another-shape", __doc__ or "", severity="error")
