"""Weight or constant that is NaN.

## What it does
An initialiser or constant of the model holds NaN. An infinite constant is legal (a mask) and is not reported here.

## Why it matters
The checkpoint was saved after training had diverged.

## Example
    torch.save(model.state_dict(), path)

## Use instead
    assert all(p.isfinite().all() for p in model.parameters())
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

CONSTANT_NOT_FINITE = Rule("NUM115", "constant-not-finite", __doc__ or "", severity="error")
