"""Reshape that mixes samples of the batch.

## What it does
A reshape with -1 as its first size gives another number of rows than the batch has, and nothing undoes it later.

## Why it matters
The elements fit, so nothing fails at the reshape: rows then hold pieces of several samples, or one sample fills several rows.

## Example
    maps = torch.randn(8, 32, 14, 14)
    flat = maps.view(-1, 32 * 7 * 7)  # (32, 1568): four rows for each image

## Use instead
    maps = torch.randn(8, 32, 14, 14)
    flat = maps.view(maps.shape[0], -1)  # (8, 6272)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

BATCH_CHANGING_RESHAPE = Rule("SHP203", "batch-changing-reshape", __doc__ or "", severity="warning")
