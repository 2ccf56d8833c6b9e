"""Matrix product of shapes that do not fit.

## What it does
The inner sizes of a matrix product (`@`, matmul, mm, bmm, dot, linear) differ, or an operand has a rank that the function
does not take.

## Why it matters
The product is not defined, and every run that reaches the line stops there. The usual reason is a weight that was stored the
other way round, or a batch that was not flattened before.

## Example
    scores = torch.randn(32, 100) @ torch.randn(10, 100)  # 100 against 10

## Use instead
    scores = torch.randn(32, 100) @ torch.randn(10, 100).T  # (32, 10)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

MATMUL_MISMATCH = Rule("SHP101", "matmul-mismatch", __doc__ or "", severity="error")
