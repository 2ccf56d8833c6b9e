"""Parts of libraries as their unit tests run them: no network, nothing is trained.

GRIST runs mutated forms, with a logarithm or a square root where the library has another function. Here are both: the form
that GRIST runs, and that of the library under the name of the function that it has (`4-exp`, `5-log`, `13-exp`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

from benchmarks.zoo.builder import Builder, Tensor
from benchmarks.zoo.entry import Bug, Entry, Repair
from benchmarks.zoo.families.parts import (
    NAIVE,
    UNCLIPPED,
    Change,
    clipped,
    fused,
    less_the_largest,
    softmax_bug,
    unchanged,
)

FAMILY = "unit test of a library"

Function = Literal["log", "exp"]

_ANY = "the operand is the input itself, which may be 0 or negative"


def entries() -> Iterator[Entry]:
    fork, geometric = "Pytorch_Geometric_Fork", "Pytorch_Geometric"
    clamped = Repair(
        "upstream has the exponential, of logarithms of variances that are at most 10",
        partial(_divergence, function="exp", highest=10.0),
    )
    mutated, original = partial(_divergence, function="log"), partial(_divergence, function="exp")
    bugs = (Bug("4", "Log", "divergence/variance", _ANY),)
    yield Entry("4", 4, fork, "pytorch", FAMILY, mutated, None, bugs, clamped, "the input starts with a negative number")
    bugs = (Bug("4-exp", "Exp", "divergence/variance", "exp overflows above 88.7"),)
    yield Entry("4-exp", 4, fork, "pytorch", FAMILY, original, None, bugs, clamped)
    why = "a softmax of exactly 0 has a root with an infinite derivative, which meets a factor 0"
    bugs = (Bug("5", "Sqrt", "loss/root", why, error="invalid derivative"),)
    mutated, original = partial(_ranking, logarithm=_root_of_softmax()), partial(_ranking, logarithm=NAIVE)
    repair = Repair("the softmax is clipped to [1e-10, 1]", partial(_ranking, logarithm=_root_of_softmax(clipped(1e-10, 1.0))))
    yield Entry("5", 5, "MatchZoo", "pytorch", FAMILY, mutated, None, bugs, repair)
    yield Entry("5-log", 5, "MatchZoo", "pytorch", FAMILY, original, None, (softmax_bug("5-log"),), fused(original))
    stable = Repair("the exponential, of what is left when the largest of its group is subtracted", _stable_group_softmax)
    mutated, original = partial(_group_softmax, function="log"), partial(_group_softmax, function="exp")
    bugs = (Bug("13", "Log", "groups/values", _ANY, also=("groups/quotient",)),)
    yield Entry("13", 13, geometric, "pytorch", FAMILY, mutated, None, bugs, stable, "the input starts with zeros")
    why = "exp overflows above 88.7, and inf / inf is NaN"
    bugs = (Bug("13-exp", "Exp", "groups/values", why),)
    yield Entry("13-exp", 13, geometric, "pytorch", FAMILY, original, None, bugs, stable)


def _divergence(b: Builder, function: Function, highest: float | None = None) -> None:
    """The divergence of a variational graph autoencoder; the identity encoder makes the input mean and log-variance alike."""
    x = b.input("x", [3, 2], UNCLIPPED, start=[[1, -1], [1, 2], [2, 1]])
    with b.scope("divergence"):
        log_variance = x if highest is None else b.clip(x, None, highest)
        apply = b.log if function == "log" else b.exp
        terms = 1.0 + log_variance - x * x - apply(log_variance, name="variance")
        b.output("loss", -0.5 * b.mean(b.sum(terms, [1])))


def _root_of_softmax(guard: Change = unchanged) -> Change:
    """What the mutated form has for the logarithm."""
    return lambda b, scores: b.sqrt(guard(b, b.softmax(scores)), name="root")


def _ranking(b: Builder, logarithm: Change) -> None:
    """A ranking loss over groups of one positive and two negatives, which follow each other in a column."""

    def groups(column: Tensor) -> Tensor:
        return b.concat([b.slice(column, 0, first, 6, 3) for first in range(3)], 1)

    scores = groups(b.input("y_pred", [6, 1], UNCLIPPED, start=[0.8, 0.1, 0.1, 0.8, 0.1, 0.1]))
    labels = groups(b.input("y_true", [6, 1], "{0,1}", "label", start=[1, 0, 0, 0, 1, 0]))
    with b.scope("loss"):
        b.output("loss", -b.mean(b.sum(labels * logarithm(b, scores), [1])))


def _source(b: Builder) -> Tensor:
    return b.input("src", [6], UNCLIPPED, start=[0, 1, 2, 0, 1, 2])


def _group_softmax(b: Builder, function: Function) -> None:
    """A softmax within groups of a vector. There is no loss: the quotients themselves are looked at."""
    source = _source(b)
    group = b.constant([0, 0, 0, 1, 1, 1], integer=True)
    with b.scope("groups"):
        values = (b.log if function == "log" else b.exp)(source, name="values")
        totals = b.gather(b.scatter_add(values, group, 2), group, 0)
        b.output("out", b.divide(values, totals, name="quotient"))


def _stable_group_softmax(b: Builder) -> None:
    """The groups are of one size, and so they are the rows of a matrix."""
    rows = b.reshape(_source(b), [2, 3])
    with b.scope("groups"):
        values = b.exp(less_the_largest(b, rows, 1), name="values")
        quotients = b.divide(values, b.sum(values, [1], keep=True), name="quotient")
        b.output("out", b.reshape(quotients, [6]))
