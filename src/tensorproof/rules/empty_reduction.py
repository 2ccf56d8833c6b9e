"""Mean, maximum or minimum of no element.

## What it does
A reduction runs over an axis of size 0. The mean of nothing is 0/0; the maximum of nothing is -inf.

## Why it matters
The last batch, or an image without detections, is empty.

## Example
    loss = per_box.mean()

## Use instead
    loss = per_box.sum() / max(per_box.numel(), 1)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

EMPTY_REDUCTION = Rule("NUM114", "empty-reduction", __doc__ or "", severity="error")
