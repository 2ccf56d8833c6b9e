"""Values that differ by more than rounding.

## What it does
The same network, weights and inputs give other values than the float64 reference, or (without a reference) than other backends: by
more units in the last place than the operators may be off by, and by more than the result moves when inputs move by one unit.

## Why it matters
One of the frameworks computes another function: a model that is moved to it loses accuracy without a message.

## Example
    keras.layers.UpSampling2D(interpolation="bicubic")(maps)  # another kernel on one backend

## Use instead
    keras.layers.UpSampling2D(interpolation="bilinear")(maps)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

VALUES_DIFFER = Rule("CMP211", "values-differ", __doc__ or "", severity="error")
