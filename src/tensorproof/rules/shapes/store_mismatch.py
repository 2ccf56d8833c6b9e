"""Value that does not fit the slice it is stored in.

## What it does
The right side of an assignment to a slice or index has sizes that cannot be broadcast to those of the slice.

## Why it matters
Every run that reaches the line stops there. The buffer was made for another size of batch or sequence than the value has.

## Example
    history = np.zeros((100, 10))
    history[0] = np.ones(12)  # 12 into 10

## Use instead
    history = np.zeros((100, 12))
    history[0] = np.ones(12)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

STORE_MISMATCH = Rule("SHP118", "store-mismatch", __doc__ or "", severity="error")
