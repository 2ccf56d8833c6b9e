"""Inverse trigonometric or hyperbolic function outside its domain.

## What it does
Acos and Asin are defined on [-1, 1], Acosh from 1 on, Atanh inside (-1, 1); elsewhere the result is NaN, and Atanh is
infinite at -1 and 1.

## Why it matters
A cosine similarity leaves [-1, 1] by one rounding error.

## Example
    angle = torch.acos((a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1)))

## Use instead
    angle = torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6))
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

INVERSE_OUTSIDE_DOMAIN = Rule("NUM105", "inverse-function-outside-domain", __doc__ or "", severity="error")
