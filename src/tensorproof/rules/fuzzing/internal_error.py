"""Error inside a framework instead of a refusal.

## What it does
A network ends in an exception that no framework raises on purpose, such as UnboundLocalError, AttributeError or an internal
assertion; also if all backends do.

## Why it matters
A check is missing. The message says nothing about the argument that is wrong, and a legal argument may be refused by accident.

## Example
    keras.layers.Layer(arguments)(x)  # AttributeError: 'NoneType' object has no attribute 'shape'

## Use instead
    keras.layers.Layer(arguments)(x)  # ValueError: arguments must be ...
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

INTERNAL_ERROR = Rule("CMP203", "internal-error", __doc__ or "", severity="error")
