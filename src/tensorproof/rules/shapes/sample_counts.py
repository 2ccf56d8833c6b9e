"""Inputs and targets with different numbers of samples.

## What it does
What is given to fit, evaluate, TensorDataset or train_test_split differs in its first axis.

## Why it matters
Every run that reaches the line stops there. One of the arrays was filtered, split or transposed, and the other was not.

## Example
    x, y = np.zeros((1000, 20)), np.zeros(800)
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))

## Use instead
    x, y = np.zeros((1000, 20)), np.zeros(1000)
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

SAMPLE_COUNTS = Rule("SHP120", "sample-counts", __doc__ or "", severity="error")
