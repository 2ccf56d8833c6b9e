"""Variational autoencoders on digits, plain and conditional on the digit.

Each program has two graphs: the first guards its logarithms with an epsilon that float32 absorbs, the second clips their
operands but lets the logarithm of the variance fall to -100, where the derivative of the square root fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.zoo.builder import Builder, Tensor
from benchmarks.zoo.entry import Bug, Entry, Optimiser, Repair
from benchmarks.zoo.families.parts import DIGITS, NORMAL, PIXEL_COUNT, PIXELS, dense
from benchmarks.zoo.initial import xavier, zeros

PLAIN = "variational autoencoder"
CONDITIONAL = "conditional variational autoencoder"

_BATCH = 100
_HIDDEN = 500
_LARGEST = 87.0
#: Within this, exponentials are normal numbers, and sums of a few of them are finite.
_MODERATE = 80.0

_ABSORBED = "1e-10 + 1 is 1 in float32, so the guard is void: a sigmoid that rounds to 1 leaves the logarithm of 0"
_DERIVATIVE = "where subnormals are flushed, exp(s) is 0 below about -87.3, and the derivative inf of its root times 0 is NaN"

_PROJECT = "deep_learning_Nikolenko_and_Co"


def entries() -> Iterator[Entry]:
    yield from _pair(35, "ch10_04_01", PLAIN, latent=20, clip_once=False)
    yield from _pair(36, "ch10_04_03_Pic_10_05", PLAIN, latent=2, clip_once=True)
    yield from _pair(39, "ch10_04_04_Pic_10_06", PLAIN, latent=2, clip_once=True)
    yield from _pair(43, "ch10_04_05_Pic_10_07", CONDITIONAL, latent=2, clip_once=True)
    yield from _pair(49, "ch10_04_06_Pic_10_08", CONDITIONAL, latent=2, clip_once=True)


def _pair(program: int, chapter: str, family: str, *, latent: int, clip_once: bool) -> Iterator[Entry]:
    """The two graphs of a program. The second has two latent dimensions in all of them."""
    project, optimiser = f"{_PROJECT}.{chapter}", Optimiser("Adam", 0.001)
    common: dict[str, Any] = {"conditional": family == CONDITIONAL, "latent": latent, "lowest": -87.0, "clip_once": clip_once}
    moderate: dict[str, Any] = {"lowest": -_MODERATE, "highest": _MODERATE}
    first = partial(_describe, **common, clipped_operands=False)
    how = (
        "the operands of the logarithms are clipped to [1e-6, 1], as the program's second graph does; and the logarithm of the"
        " variance to [-80, 80]: a sum of variances of exp(87) = 6e37 overflows"
    )
    repair = Repair(how, partial(_describe, **common | moderate, clipped_operands=True))
    bug = Bug(f"{program}a", "Log", "reconstruction/log_of_rest", _ABSORBED)
    yield Entry(f"{program}a", program, project, "tensorflow", family, first, optimiser, (bug,), repair)
    second = partial(_describe, **common | {"latent": 2, "lowest": -100.0, "clip_once": False}, clipped_operands=True)
    derivative = Bug(f"{program}b", "Sqrt", "sample/deviation", _DERIVATIVE, error="invalid derivative")
    how = "the logarithm of the variance is clipped to [-80, 80], where its exponential is a normal number"
    repair = Repair(how, partial(second, **moderate))
    if family == CONDITIONAL:
        how = "the deviation is the exponential of half of the logarithm of the variance, which is at most 80"
        repair = Repair(how, partial(second, highest=_MODERATE, by_half=True))
    yield Entry(f"{program}b", program, project, "tensorflow", family, second, optimiser, (derivative,), repair)


def _describe(
    b: Builder,
    *,
    conditional: bool,
    latent: int,
    lowest: float,
    clip_once: bool,
    clipped_operands: bool,
    highest: float = _LARGEST,
    by_half: bool = False,
) -> None:
    """`lowest` and `highest` bound the logarithm of the variance; with `clip_once`, everything sees it clipped.

    The deviation is the root of the variance or, `by_half`, the exponential of half of its logarithm.
    """
    x = b.input("x", [_BATCH, PIXEL_COUNT], PIXELS)
    condition = [b.input("y", [_BATCH, DIGITS], "one-hot", "label")] if conditional else []
    noise = b.input("eps", [_BATCH, latent], NORMAL, "random")
    with b.scope("encoder"):
        mean, log_variance = _encode(b, _joined(b, x, condition), latent)
    with b.scope("sample"):
        bounded = b.clip(log_variance, lowest, highest)
        variance = b.exp(bounded)
        deviation = b.exp(0.5 * bounded, name="deviation") if by_half else b.sqrt(variance, name="deviation")
        z = mean + deviation * noise
    with b.scope("decoder"):
        d1 = b.softplus(_layer(b, _joined(b, z, condition), "d1", _HIDDEN))
        d2 = b.softplus(_layer(b, d1, "d2", _HIDDEN))
        r = b.sigmoid(_layer(b, d2, "out", PIXEL_COUNT))
    with b.scope("reconstruction"):
        hit = b.clip(r, 1e-6, 1.0) if clipped_operands else r + 1e-10
        rest = b.clip(1.0 - r, 1e-6, 1.0) if clipped_operands else b.add(1e-10, 1.0) - r
        terms = x * b.log(hit, name="log") + (1.0 - x) * b.log(rest, name="log_of_rest")
        reconstruction = -b.sum(terms, [1])
    with b.scope("latent"):
        linear = bounded if clip_once else log_variance
        divergence = -0.5 * b.sum(1.0 + linear - mean * mean - variance, [1])
    b.output("loss", b.mean(reconstruction + divergence))


def _encode(b: Builder, x: Tensor, latent: int) -> tuple[Tensor, Tensor]:
    """The mean and the logarithm of the variance of the latent variables."""
    e1 = b.softplus(_layer(b, x, "e1", _HIDDEN))
    e2 = b.softplus(_layer(b, e1, "e2", _HIDDEN))
    return _layer(b, e2, "mean", latent), _layer(b, e2, "log_variance", latent)


def _joined(b: Builder, x: Tensor, condition: list[Tensor]) -> Tensor:
    return b.concat([x, *condition], 1) if condition else x


def _layer(b: Builder, x: Tensor, name: str, size: int) -> Tensor:
    return dense(b, x, name, size, xavier(x.shape[1], size), zeros())
