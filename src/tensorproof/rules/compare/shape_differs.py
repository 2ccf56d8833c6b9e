"""Two models give results of different shape or type.

## What it does
Two models that are meant to compute the same were run on the same input, and an output of one has another shape, or is of
another kind of number, than that of the other. A narrower floating format alone is no difference.

## Why it matters
Whatever reads the output breaks, or silently broadcasts and goes on with wrong numbers.

## Example
    tensorproof diff model.py:Net model.onnx  # the export dropped an axis of size 1

## Use instead
Give the axis explicitly, where the operator that is named leaves it to the framework.
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

SHAPE_DIFFERS = Rule("CMP103", "shape-or-type-differs", __doc__ or "")
