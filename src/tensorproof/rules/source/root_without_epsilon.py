"""Root or norm that is differentiated at zero.

## What it does
A square root or a norm written out by hand is part of what gradients are computed of, and nothing keeps its operand above
zero.

## Why it matters
The derivative of sqrt at 0 is infinite; infinity times the zero that comes from inside is NaN. One pair of equal points in a
batch of distances ends the training.

## Example
    a = torch.zeros(3, requires_grad=True)
    distance = torch.sqrt((a**2).sum())
    distance.backward()  # a.grad is NaN

## Use instead
    a = torch.zeros(3, requires_grad=True)
    distance = torch.sqrt((a**2).sum() + 1e-12)
    distance.backward()
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

ROOT_WITHOUT_EPSILON = Rule("NUM507", "root-without-epsilon", __doc__ or "", severity="warning")
