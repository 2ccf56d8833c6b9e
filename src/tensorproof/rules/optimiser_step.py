"""Optimiser step that is not finite in low precision.

## What it does
One step of Adam with its default settings was made on gradients of the program, in the format of the weights, and weights became
NaN or infinite although all gradients were finite. In float16 the epsilon of 1e-8 is 0, and so is the second moment of gradients
below 0.0054 in the first step, where it is g * g / 1000: the step divides by zero. Reported for PyTorch programs that are checked
for training and whose weights are float16 or bfloat16.

## Why it matters
The model is destroyed by its first step.

## Example
    model.half()
    optimiser = torch.optim.Adam(model.parameters())

## Use instead
    optimiser = torch.optim.Adam(model.parameters())  # weights stay in float32
    with torch.autocast("cuda", torch.float16):
        loss = model(x)

Where weights have to be 16-bit, an epsilon of 1e-4 survives in float16.
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

OPTIMISER_STEP = Rule("NUM408", "optimiser-step", __doc__ or "", severity="error", phase="backward")
