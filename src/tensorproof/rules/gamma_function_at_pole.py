"""Gamma function, or a derivative of its logarithm, at a pole.

## What it does
The operand of Lgamma, Digamma or Trigamma can be zero or a negative integer, where Lgamma is infinite, Digamma infinite or
NaN. Digamma and Trigamma are also reported for all negative operands: they are as large as they come near the next pole.

## Why it matters
The log-density of a gamma, beta, Dirichlet, Student or Poisson distribution takes Lgamma of its parameters: a concentration
that underflows to zero makes the loss infinite, and its gradient, which is Digamma, NaN.

## Example
    concentration = torch.relu(self.head(x))
    loss = -torch.distributions.Gamma(concentration, rate).log_prob(y).mean()

## Use instead
    concentration = F.softplus(self.head(x)) + 1e-4
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.rules.rule import Rule

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

GAMMA_AT_POLE = Rule("NUM117", "gamma-function-at-pole", __doc__ or "", severity="error")


@GAMMA_AT_POLE.objective
def _(place: Place) -> Tensor:
    """The operand while it is positive, then its distance from the next integer."""
    x = place.operand
    return place.torch.where(x > 0, place.below(x), place.zero(x - x.detach().round()))
