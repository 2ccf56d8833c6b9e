"""Last batch that is smaller than assumed.

## What it does
A loader without `drop_last=True` gives a last batch with fewer samples, and the loop uses the full batch size as a number.

## Why it matters
The loop runs until the last batch of the epoch and fails there: 1000 samples in batches of 64 end with one of 40.

## Example
    samples = torch.randn(1000, 20)
    for batch in torch.utils.data.DataLoader(samples, batch_size=64):
        rows = batch.view(64, 2, 10)  # 40 rows at the end

## Use instead
    samples = torch.randn(1000, 20)
    for batch in torch.utils.data.DataLoader(samples, batch_size=64):
        rows = batch.view(batch.shape[0], 2, 10)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

PARTIAL_BATCH = Rule("SHP207", "partial-batch", __doc__ or "", severity="warning")
