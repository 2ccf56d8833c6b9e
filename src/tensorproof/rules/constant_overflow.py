"""Constant out of the range of its format.

## What it does
A finite constant or initialiser of the original model becomes infinite when it is converted to the chosen format.

## Why it matters
The conversion to float16 clips or turns it into infinity without a word.

## Example
    scale = torch.tensor(1e6).half()

## Use instead
    scale = torch.tensor(1e6)  # keep this node in float32
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

CONSTANT_OVERFLOW = Rule("NUM205", "constant-overflow", __doc__ or "", severity="error")
