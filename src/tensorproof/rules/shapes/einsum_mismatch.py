"""Einsum whose equation does not fit its operands.

## What it does
A letter of an einsum equation stands for two different sizes, or a term has another number of letters than its operand has
axes.

## Why it matters
Every run that reaches the line stops there. In attention the letters of queries and keys are easily exchanged.

## Example
    queries = torch.randn(2, 8, 16, 64)
    keys = torch.randn(2, 8, 20, 64)
    scores = torch.einsum("bhqd,bhqd->bhq", queries, keys)  # q is 16 and 20

## Use instead
    queries = torch.randn(2, 8, 16, 64)
    keys = torch.randn(2, 8, 20, 64)
    scores = torch.einsum("bhqd,bhkd->bhqk", queries, keys)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

EINSUM_MISMATCH = Rule("SHP115", "einsum-mismatch", __doc__ or "", severity="error")
