"""Lower precision with a reason: which nodes of a model have to stay in float32, and the mixed model."""

from __future__ import annotations

from tensorproof.low_precision.plan import Plan, plan_precision

__all__ = ["Plan", "plan_precision"]
