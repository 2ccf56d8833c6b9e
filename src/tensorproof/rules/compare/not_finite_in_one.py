"""One of two models gives NaN or infinity where the other gives a number.

## What it does
Two models that are meant to compute the same were run on the same input, and NaN or infinity stands at an element where the
other model has another value. The operator that is named is the first that does so.

## Why it matters
An export that spells a stable function by its definition, or a format with a smaller range, overflows on inputs that the
original handles. Everything computed from the element is lost.

## Example
    y = torch.nn.functional.logsigmoid(x)  # exported to ONNX as Log(Sigmoid(x)): -inf for x below -89

## Use instead
    y = -torch.nn.functional.softplus(-x)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

NOT_FINITE_IN_ONE = Rule("CMP102", "not-finite-in-one-model", __doc__ or "")
