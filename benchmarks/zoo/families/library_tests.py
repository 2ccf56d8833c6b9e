"""Parts of libraries as their unit tests run them: no network, nothing is trained.

GRIST runs mutated forms, with a logarithm or a square root where the library has another function.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

from benchmarks.zoo.builder import Builder, Tensor
from benchmarks.zoo.entry import Bug, Entry, Repair
from benchmarks.zoo.families.parts import UNCLIPPED

FAMILY = "unit test of a library"

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
    yield Entry("5", 5, "MatchZoo", "pytorch", FAMILY, _ranking, None, bugs)
    bugs = (Bug("13", "Log", "groups/log", _ANY, also=("groups/quotient",)),)
    yield Entry("13", 13, geometric, "pytorch", FAMILY, _group_softmax, None, bugs, None, "the input starts with zeros")


def _divergence(b: Builder, function: Literal["log", "exp"], highest: float | None = None) -> None:
    """The divergence of a variational graph autoencoder; the identity encoder makes the input mean and log-variance alike."""
    x = b.input("x", [3, 2], UNCLIPPED, start=[[1, -1], [1, 2], [2, 1]])
    with b.scope("divergence"):
        log_variance = x if highest is None else b.clip(x, None, highest)
        apply = b.log if function == "log" else b.exp
        terms = 1.0 + log_variance - x * x - apply(log_variance, name="variance")
        b.output("loss", -0.5 * b.mean(b.sum(terms, [1])))


def _ranking(b: Builder) -> None:
    """A ranking loss over groups of one positive and two negatives, which follow each other in a column."""

    def groups(column: Tensor) -> Tensor:
        return b.concat([b.slice(column, 0, first, 6, 3) for first in range(3)], 1)

    scores = groups(b.input("y_pred", [6, 1], UNCLIPPED, start=[0.8, 0.1, 0.1, 0.8, 0.1, 0.1]))
    labels = groups(b.input("y_true", [6, 1], "{0,1}", "label", start=[1, 0, 0, 0, 1, 0]))
    with b.scope("loss"):
        b.output("loss", -b.mean(b.sum(labels * b.sqrt(b.softmax(scores), name="root"), [1])))


def _group_softmax(b: Builder) -> None:
    """A softmax within groups of a vector. There is no loss: the quotients themselves are looked at."""
    source = b.input("src", [6], UNCLIPPED, start=[0, 1, 2, 0, 1, 2])
    group = b.constant([0, 0, 0, 1, 1, 1], integer=True)
    with b.scope("groups"):
        values = b.log(source, name="log")
        totals = b.gather(b.scatter_add(values, group, 2), group, 0)
        b.output("out", b.divide(values, totals, name="quotient"))
