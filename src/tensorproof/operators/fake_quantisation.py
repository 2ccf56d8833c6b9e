"""Quantisation that is only simulated: numbers are moved to the levels of an integer format and stay floating (FakeQuant)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.frontends.calls import OWN
from tensorproof.operators.activations import PADDED
from tensorproof.operators.table import Call, Mask, operator
from tensorproof.ranges.range import NAN, SPECIALS, Range, align
from tensorproof.rules.quantisation_scale import QUANTISATION_SCALE

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.tensorflow_call import TensorflowCall

#: Half a step, and what the roundings of 2^16 levels in float32 add to it.
_HALF = 0.51


def _levels(op: Call | Run) -> int:
    """How many steps lie between the first and the last level."""
    bits = int(op.attribute("num_bits", 8))
    return 2**bits - (2 if op.attribute("narrow_range", False) else 1)


@operator(
    "FakeQuantize",
    domain=OWN,
    error=PADDED,
    coarse="levels are not followed: a number is moved by half a step at most",
    elementwise=True,
)
def fake_quantize(op: Call, x: Range, least: Range, most: Range) -> Range:
    """x, clamped between two ends and moved to the nearest of `num_bits` levels; the ends are moved so that zero is a level."""
    aligned = align(x, least, most)
    (lx, ln, lm), (hx, hn, hm), (sx, _, _) = aligned.lows, aligned.highs, aligned.specials
    step = np.maximum(hm - ln, 0.0) / _levels(op)
    # Ends on one side of zero are shifted so that one of them is zero; else each moves by half a step at most.
    width = np.maximum(hm - ln, 0.0)
    holds_zero = (hn <= 0) & (lm >= 0)
    first_low = np.where(holds_zero, ln, -np.maximum(width, -ln)) - _HALF * step
    first_high = np.where(holds_zero, np.minimum(hn + _HALF * step, 0.0), 0.0)
    last_high = np.where(holds_zero, hm, np.maximum(width, hm)) + _HALF * step
    last_low = np.where(holds_zero, np.maximum(lm - _HALF * step, 0.0), 0.0)
    error = 16.0 * x.format.unit_roundoff * (np.abs(first_low) + np.abs(last_high)) + x.format.smallest_normal
    low = np.maximum(np.minimum(np.maximum(lx, first_low), last_low) - _HALF * step, first_low) - error
    high = np.minimum(np.maximum(np.minimum(hx, last_high), first_high) + _HALF * step, last_high) + error
    if not x.has_special:
        return aligned.result(x.format, low, high)
    infinite = (sx & np.uint8(SPECIALS & ~NAN)) != 0
    low, high = np.where(infinite | (lx > hx), first_low - error, low), np.where(infinite | (lx > hx), last_high + error, high)
    return aligned.result(x.format, low, high, sx & np.uint8(NAN))


@fake_quantize.hazard(QUANTISATION_SCALE, gives=SPECIALS, operand=2)
def _(op: Call, x: Range, least: Range, most: Range) -> Mask:
    """The ends may meet elsewhere than at zero, where TensorFlow gives zero."""
    aligned = align(least, most)
    (ln, lm), (hn, hm) = aligned.lows, aligned.highs
    return (lm <= hn) & ~((ln == 0) & (hn == 0) & (lm == 0) & (hm == 0))


@fake_quantize.meaning
def _(run: Run, x: Tensor, least: Tensor, most: Tensor) -> Tensor:
    torch, levels = run.torch, _levels(run)
    step = (most - least) / levels
    safe = torch.where(step == 0, torch.ones_like(step), step)
    place = torch.floor(torch.clamp(-least / safe, 0, levels) + 0.5)
    first, last = -place * step, (levels - place) * step
    clamped = torch.minimum(torch.maximum(x, first), last)
    value = torch.floor((clamped - first) / safe + 0.5) * step + first
    return run.passing(torch.where(step == 0, torch.zeros_like(value), value), x + 0.0 * step)


def _settings(call: TensorflowCall) -> dict[str, Any]:
    return {"num_bits": int(call.attribute("num_bits", 8)), "narrow_range": int(bool(call.attribute("narrow_range", False)))}


@fake_quantize.tensorflow("FakeQuantWithMinMaxArgs")
def _(call: TensorflowCall) -> int:
    """The ends are attributes."""
    numbers = (np.asarray(call.attribute(name, default), np.float32) for name, default in (("min", -6.0), ("max", 6.0)))
    return call.own("FakeQuantize", call.operand(0), *map(call.constant, numbers), **_settings(call))


@fake_quantize.tensorflow("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def _(call: TensorflowCall) -> int:
    """The ends are tensors: numbers, or one for each element of the last axis."""
    return call.own("FakeQuantize", *call.all_operands(), **_settings(call))
