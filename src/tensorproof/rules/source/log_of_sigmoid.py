"""Logarithm of a sigmoid.

## What it does
The source computes log(sigmoid(x)) or log(1 - sigmoid(x)) instead of logsigmoid(x) or logsigmoid(-x).

## Why it matters
In float32 sigmoid(x) is 0 below about -104, and 1 - sigmoid(x) is 0 above about 17: the logarithm is -infinity.

## Example
    x = torch.tensor(20.0)
    loss = -torch.log(1 - torch.sigmoid(x))  # inf

## Use instead
    x = torch.tensor(20.0)
    loss = -F.logsigmoid(-x)  # 20
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

LOG_OF_SIGMOID = Rule("NUM505", "log-of-sigmoid", __doc__ or "", severity="warning")
