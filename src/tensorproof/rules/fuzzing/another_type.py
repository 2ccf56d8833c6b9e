"""Result of another type than on the other frameworks.

## What it does
The same network gives numbers of another type (float64 for float32, say) on one backend.

## Why it matters
Memory and time double, or precision is lost, and the next layer may refuse the type.

## Example
    keras.layers.Layer(dtype="float16")(x).dtype  # float32 on one backend

## Use instead
    keras.ops.cast(y, "float16")
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

ANOTHER_TYPE = Rule("CMP206", "another-type", __doc__ or "", severity="warning")
