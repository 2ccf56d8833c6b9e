"""Network that gives something else each time.

## What it does
Two runs in one process, on one thread, with the same weights and inputs and no random layer, differ in at least one bit.

## Why it matters
Results cannot be reproduced, and a difference between two versions cannot be told from chance.

## Example
    model(x) - model(x)  # not zero

## Use instead
    model(x)  # with the backend's deterministic mode
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

RUNS_DIFFER = Rule("CMP210", "runs-differ", __doc__ or "", severity="warning")
