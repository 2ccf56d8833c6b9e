"""Input or state that does not fit a recurrent layer.

## What it does
What reaches an RNN, LSTM or GRU has another number of features than the layer was built with, or its state has other sizes
than (layers, batch, hidden).

## Why it matters
Every run that reaches the line stops there. Without `batch_first=True` the first axis is time, not batch, and a state made for
the batch does not fit.

## Example
    words = torch.randn(32, 20, 100)
    state = torch.zeros(1, 32, 64)
    output, state = nn.GRU(100, 64)(words, state)  # 20 is taken for the batch

## Use instead
    words = torch.randn(32, 20, 100)
    state = torch.zeros(1, 32, 64)
    output, state = nn.GRU(100, 64, batch_first=True)(words, state)
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

RECURRENT_STATE = Rule("SHP116", "recurrent-state", __doc__ or "", severity="error")
