"""Gradient that is not finite.

## What it does
The value is finite, but the gradient that eager PyTorch computes for it is NaN or infinite: in its formula for the derivative
something is divided by zero, or zero meets an infinity. Reported when a PyTorch program is checked for training, at the line of
the value, where no other rule says more.

The graph of the whole training step, as torch itself differentiates the program, shows which lines are in question. Torch guards
many of its formulas by a mask behind a division, and not every such mask is recognised; so a line is reported when the gradient
failed in a real run on points of the declared ranges, or, with `--effort 2` and above, whenever its gradient is not proven finite.
The report names the lines that are left. Gradients that merely grow beyond float32 are not reported.

## Why it matters
The loss looks healthy, and after one step the weights are NaN.

## Example
    axes = torch.linalg.eigh(covariance).eigenvectors  # equal eigenvalues: 1 / (a - b) in the gradient

## Use instead
    axes = torch.linalg.eigh(covariance.detach()).eigenvectors

or a loss that needs the eigenvalues alone, whose gradients are finite.
"""

from __future__ import annotations

from tensorproof.rules.rule import Rule

GRADIENT_NOT_FINITE = Rule("NUM405", "gradient-not-finite", __doc__ or "", severity="error", phase="backward")
