"""Softmax regression with a naive cross-entropy: on digits, on body-mass data, on toy data, and on free logits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.zoo.builder import Builder, Tensor
from benchmarks.zoo.entry import Bug, Entry, Optimiser, Repair
from benchmarks.zoo.families.parts import (
    DIGITS,
    NAIVE,
    SOFTMAX_0,
    UNCLIPPED,
    Change,
    binary_log_likelihood,
    clipped,
    cross_entropy,
    dense,
    digits,
    fused,
    log_of_softmax,
    shifted,
    softmax_bug,
    unchanged,
)
from benchmarks.zoo.initial import Initial, constant, truncated_normal, uniform, zeros

ON_DIGITS = "softmax regression on digits"
ON_BODY_MASS = "softmax regression on body-mass data"
ON_TOY_DATA = "softmax regression on toy data"
ON_FREE_LOGITS = "softmax cost of free logits"


def entries() -> Iterator[Entry]:
    yield from _on_digits()
    yield _binary_cross_entropy()
    for program, project in ((40, "ml_plactice.bmi"), (41, "ml_plactice.tb_bmi"), (42, "ml_plactice.tb_bmi2")):
        optimiser, bugs, repair = Optimiser("SGD", 0.01), (softmax_bug(str(program)),), fused(_body_mass)
        yield Entry(str(program), program, project, "tensorflow", ON_BODY_MASS, _body_mass, optimiser, bugs, repair)
    yield from _on_toy_data()
    yield from _on_free_logits()


# -- digits ------------------------------------------------------------------------------------------------------------


def _digits(
    b: Builder,
    *,
    batch: int = 100,
    mean: bool,
    weight: Initial | None = None,
    bias: Initial | None = None,
    logarithm: Change = NAIVE,
) -> None:
    x, y = digits(b, batch)
    logits = dense(b, x, "out", DIGITS, weight or zeros(), bias or zeros())
    cross_entropy(b, logits, y, mean=mean, logarithm=logarithm)


def _on_digits() -> Iterator[Entry]:
    def entry(name: str, project: str, optimiser: Optimiser, *, repair: Repair | None = None, note: str = "", **how: Any) -> Entry:
        program = int(name.rstrip("ab"))
        notes = (note,) if note else ()
        describe = partial(_digits, **how)
        repair = repair or fused(describe)
        return Entry(name, program, project, "tensorflow", ON_DIGITS, describe, optimiser, (softmax_bug(name),), repair, "", notes)

    upstream = Repair(
        "1e-8 is added inside the logarithm, and the loss is averaged over the batch",
        partial(_digits, mean=True, logarithm=log_of_softmax(shifted(1e-8))),
    )
    yield entry("3", "GitHub-IPS-9", Optimiser("Adam", 0.005), mean=False, repair=upstream)
    slower = "upstream lowered the learning rate from 0.01, which does not remove the defect"
    yield entry("10", "StackOverFlow-14", Optimiser("SGD", 0.005), batch=205, mean=False, note=slower)
    start: dict[str, Any] = {"weight": truncated_normal(0.1), "bias": constant(0.1)}
    yield entry("18", "Hands-On TensorFlow", Optimiser("SGD", 0.5), mean=True, **start)
    through_relu = log_of_softmax(lambda b, p: b.relu(p))
    yield entry("19", "Python-Tensorflow", Optimiser("SGD", 0.2), batch=50, mean=True, logarithm=through_relu)
    yield entry("20", "Tensorflow-Examples", Optimiser("SGD", 0.01), mean=True)
    yield entry("21", "Tensorflow-Examples-Tutorials-MNIST", Optimiser("SGD", 0.01), mean=False)
    yield entry("25", "Tensorflow_MNIST", Optimiser("SGD", 0.6), mean=True)
    yield entry("30", "Tensorflow_In_MachineLearning", Optimiser("SGD", 0.01), mean=False)
    yield entry("45a", "DataStructure", Optimiser("SGD", 0.5), batch=50, mean=True)
    yield entry("48b", "Dive_python", Optimiser("SGD", 0.5), mean=True)
    yield entry("50", "ImportantProjects", Optimiser("SGD", 0.05), mean=True)
    yield entry("52", "karch", Optimiser("SGD", 0.005), mean=False)
    by_hand = Optimiser("by hand", 0.01, "W moves by x^T (y - p), summed over the batch; b by the mean over the rows of the same")
    unused = "the program clips the probabilities and throws the result away"
    wide: dict[str, Any] = {"mean": True, "weight": uniform(-1.0, 1.0)}
    used = Repair("the clipped probabilities are used", partial(_digits, **wide, logarithm=log_of_softmax(clipped(1e-15, 1.0))))
    yield entry("59", "tensorflow_book", by_hand, **wide, logarithm=_unused_guard, repair=used, note=unused)
    yield entry("60", "tensorflow_test", Optimiser("SGD", 0.01), mean=False)


def _unused_guard(b: Builder, logits: Tensor) -> Tensor:
    probabilities = b.softmax(logits)
    b.clip(probabilities, 1e-15, 1.0)
    return b.log(probabilities, name="log")


def _binary_cross_entropy() -> Entry:
    def describe(b: Builder, guard: Change = unchanged) -> None:
        x, y = digits(b, 10)
        p = b.softmax(dense(b, x, "out", DIGITS, zeros(), zeros()))
        with b.scope("loss"):
            b.output("loss", -b.mean(binary_log_likelihood(b, p, y, guard)))

    rounding = "a softmax rounds to 1 once its logit leads by about 17, and the logarithm of 1 - 1 is -inf"
    bugs = (Bug("2a", "Log", "loss/log", SOFTMAX_0), Bug("2b", "Log", "loss/log_of_rest", rounding))
    repair = Repair("the operand of each logarithm is at least 1e-10", partial(describe, guard=clipped(1e-10, None)))
    return Entry("2", 2, "GitHub-IPS-6", "tensorflow", ON_DIGITS, describe, Optimiser("Adam", 0.01), bugs, repair)


# -- body mass ---------------------------------------------------------------------------------------------------------

#: With such small inputs, weights within [-10, 10] part two logits by 56 at most, and nothing fails: a long training is meant.
_LONG_TRAINING = (-50.0, 50.0)


def _body_mass(b: Builder, logarithm: Change = NAIVE) -> None:
    """Weight over 100 kg and height over 200 cm decide between thin, normal and fat."""
    x = b.input("x", [100, 2], {"channels": [[0.35, 0.8], [0.6, 1.0]], "axis": 1})
    y = b.input("y", [100, 3], "one-hot", "label")
    weight = b.weight("W_out", [2, 3], zeros(), range=_LONG_TRAINING)
    bias = b.weight("b_out", [3], zeros(), range=_LONG_TRAINING)
    cross_entropy(b, x @ weight + bias, y, mean=False, logarithm=logarithm)


# -- toy data ----------------------------------------------------------------------------------------------------------

_POINTS = ((1, 2, 1, 1), (2, 1, 3, 2), (3, 1, 3, 4), (4, 1, 5, 5), (1, 7, 5, 5), (1, 2, 5, 6), (1, 6, 6, 6), (1, 7, 7, 7))
_CLASSES = (2, 2, 2, 1, 1, 1, 0, 0)


def _toy_data(b: Builder, *, mean: bool, bias: tuple[int, ...], given_one_hot: bool, logarithm: Change = NAIVE) -> None:
    """Eight points of four dimensions in three classes. The labels are one-hot rows, or made so from indices."""
    x = b.input("x", [8, 4], UNCLIPPED, start=_POINTS)
    if given_one_hot:
        y = b.input("y", [8, 3], "one-hot", "label", start=[[float(label == c) for c in range(3)] for label in _CLASSES])
    else:
        y = b.one_hot(b.input("y", [8], (0, 2), "label", integer=True, start=_CLASSES), 3)
    logits = x @ b.weight("W", [4, 3], zeros()) + b.weight("b", bias, zeros())
    cross_entropy(b, logits, y, mean=mean, logarithm=logarithm)


def _on_toy_data() -> Iterator[Entry]:
    def entry(program: int, project: str, optimiser: Optimiser, **how: Any) -> Entry:
        describe, bugs = partial(_toy_data, **how), (softmax_bug(str(program)),)
        return Entry(str(program), program, project, "pytorch", ON_TOY_DATA, describe, optimiser, bugs, fused(describe))

    first = "PyTorchDeepLearningStart.0504_softmax_regression"
    yield entry(32, first, Optimiser("SGD", 0.1), mean=False, bias=(1,), given_one_hot=True)
    second = "TodayILearned.softmax_classification"
    yield entry(34, second, Optimiser("SGD", 0.1), mean=True, bias=(1,), given_one_hot=False)
    yield entry(47, "Study.torch21_Softmax_Reg1", Optimiser("SGD", 0.1), mean=True, bias=(3,), given_one_hot=True)
    yield entry(54, "DataScience.h03", Optimiser("Adam", 0.1), mean=True, bias=(1, 3), given_one_hot=True)


# -- free logits -------------------------------------------------------------------------------------------------------


def _free_logits(b: Builder, logarithm: Change = NAIVE) -> None:
    """Nothing is trained: the logits themselves are the input, which starts within [0, 1); labels are drawn at random."""
    logits = b.input("z", [3, 5], UNCLIPPED, start=np.linspace(0.0, 1.0, 15, endpoint=False))
    labels = b.one_hot(b.input("y", [3], (0, 4), "label", integer=True), 5)
    cross_entropy(b, logits, labels, mean=True, logarithm=logarithm)


def _on_free_logits() -> Iterator[Entry]:
    projects = {
        23: "pytorch_tu",
        27: "PyTorchDeepLearningStart.0503_softmax_regression_cost",
        46: "Study.torch20_softmax",
        57: "start_beginner_kaggle.03",
    }
    for program, project in projects.items():
        bugs = (softmax_bug(str(program)),)
        yield Entry(str(program), program, project, "pytorch", ON_FREE_LOGITS, _free_logits, None, bugs, fused(_free_logits))
