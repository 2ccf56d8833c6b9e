"""Logistic regression on a handful of points, with a hand-written binary cross-entropy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks.zoo.builder import Builder
from benchmarks.zoo.entry import Bug, Entry, Optimiser, Repair
from benchmarks.zoo.families.parts import (
    SIGMOID_0,
    UNCLIPPED,
    Change,
    binary_log_likelihood,
    clipped,
    stable_log_likelihood,
    unchanged,
)
from benchmarks.zoo.initial import linear_layer, zeros

FAMILY = "logistic regression on toy data"

_SIX_POINTS = ((1, 2), (2, 3), (3, 1), (4, 3), (5, 3), (6, 2))
_SIX_LABELS = (0, 0, 0, 1, 1, 1)
_CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
_EXCLUSIVE_OR = (0, 1, 1, 0)
_TWELVE_POINTS = tuple((x,) for x in (1, 2, 3, 4, 5, 2.5, 3.5, 0, 3.1, 2.7, 2.8, 2.9))
_TWELVE_LABELS = (1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1)


def _describe(
    b: Builder,
    points: Sequence[Sequence[float]],
    labels: Sequence[float],
    *,
    bias: Sequence[int] = (1,),
    linear: bool = False,
    guard: Change = unchanged,
    stable: bool = False,
) -> None:
    """Weights are a column that starts at zero, or PyTorch's `linear` layer, which keeps them as a row and draws them.

    The operands of the logarithms pass a guard; in the `stable` form there are none: the loss is made from the logits.
    """
    count, width = len(points), len(points[0])
    initial = linear_layer(width) if linear else zeros()
    x = b.input("x", [count, width], UNCLIPPED, start=points)
    y = b.input("y", [count, 1], "{0,1}", "label", start=labels)
    weight = b.transpose(b.weight("W", [1, width], initial)) if linear else b.weight("W", [width, 1], initial)
    logits = x @ weight + b.weight("b", bias, initial)
    p = None if stable else b.sigmoid(logits)
    with b.scope("loss"):
        terms = stable_log_likelihood(b, logits, y) if p is None else binary_log_likelihood(b, p, y, guard)
        b.output("loss", -b.mean(terms))


def entries() -> Iterator[Entry]:
    def entry(program: int, project: str, optimiser: Optimiser, **how: Any) -> Entry:
        bugs = (Bug(str(program), "Log", "loss/log", SIGMOID_0, also=("loss/log_of_rest",)),)
        describe = partial(_describe, **how)
        repair = Repair("both operands are clipped to [1e-7, 1]", partial(describe, guard=clipped(1e-7, 1.0)))
        if how.get("linear"):
            repair = Repair("the loss is made from the logits, by softplus", partial(describe, stable=True))
        return Entry(str(program), program, project, "pytorch", FAMILY, describe, optimiser, bugs, repair)

    six: dict[str, Any] = {"points": _SIX_POINTS, "labels": _SIX_LABELS}
    yield entry(26, "PyTorchDeepLearningStart.0401_logistic_regression", Optimiser("SGD", 1.0), **six)
    yield entry(33, "TodayILearned.logistic_classification", Optimiser("SGD", 1.0), **six)
    yield entry(37, "MachineLearning.lab05", Optimiser("SGD", 0.01), **six, linear=True)
    corners: dict[str, Any] = {"points": _CORNERS, "labels": _EXCLUSIVE_OR}
    yield entry(38, "MachineLearning.lab09", Optimiser("SGD", 0.1), **corners, linear=True)
    twelve: dict[str, Any] = {"points": _TWELVE_POINTS, "labels": _TWELVE_LABELS}
    yield entry(53, "DataScience.h02", Optimiser("SGD", 1.0, "written by hand"), **twelve, bias=(1, 1))
    yield entry(56, "start_beginner_kaggle.01", Optimiser("SGD", 1.0), **six)
