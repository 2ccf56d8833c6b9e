"""The quantile function of the normal distribution."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from tensorproof.formats import Array
from tensorproof.frontends.calls import OWN
from tensorproof.operators.exponential import on_domain
from tensorproof.operators.table import Call, Error, Mask, operator
from tensorproof.ranges.elementwise import monotone
from tensorproof.ranges.range import SPECIALS, Range
from tensorproof.rules.inverse_function_outside_domain import INVERSE_OUTSIDE_DOMAIN

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor


@operator("NormalQuantile", domain=OWN, error=Error(8.0), elementwise=True)
def normal_quantile(op: Call, x: Range) -> Range:
    """The number that a standard normal variable stays below with probability x: increasing on (0, 1), infinite at the ends."""
    return monotone(x.clamp(x.format.smallest_subnormal, 1.0 - x.format.unit_roundoff), _quantiles)


#: Wichura's algorithm AS 241, which Python's own quantiles are computed by, has a relative error of 1e-16.
_INVERSE = NormalDist().inv_cdf


def _quantiles(x: Array) -> Array:
    flat = [_INVERSE(float(p)) if 0.0 < p < 1.0 else math.nan for p in np.asarray(x).reshape(-1)]
    return np.array(flat, np.float64).reshape(np.shape(x))


normal_quantile.tensorflow("Ndtri")


@normal_quantile.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return on_domain(run, run.torch.special.ndtri, x, (x > 0) & (x < 1), point=0.5)


@normal_quantile.hazard(INVERSE_OUTSIDE_DOMAIN, gives=SPECIALS)
def _(op: Call, x: Range) -> Mask:
    return (x.low <= 0) | (x.high >= 1)
