"""Perceptrons with one hidden layer on digits, whose losses take logarithms of probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.zoo.builder import Builder
from benchmarks.zoo.entry import Bug, Entry, Optimiser, Repair
from benchmarks.zoo.families.parts import (
    DIGITS,
    NAIVE,
    NORMAL,
    PIXEL_COUNT,
    PIXELS,
    SIGMOID_0,
    SIGMOID_1,
    Change,
    binary_log_likelihood,
    clipped,
    cross_entropy,
    dense,
    digits,
    dropout,
    fused,
    softmax_bug,
    unchanged,
)
from benchmarks.zoo.initial import linear_layer, truncated_normal, zeros

FAMILY = "perceptron on digits"


def entries() -> Iterator[Entry]:
    bugs = (Bug("9a", "Log", "loss/log_of_rest", SIGMOID_1), Bug("9b", "Log", "loss/log", SIGMOID_0))
    repair = Repair("both operands are clipped to [1e-10, 1]", partial(_sigmoid_outputs, guard=clipped(1e-10, 1.0)))
    yield Entry("9", 9, "StackOverFlow-7", "tensorflow", FAMILY, _sigmoid_outputs, Optimiser("SGD", 0.5), bugs, repair)
    yield Entry("12", 12, "Skorch", "pytorch", FAMILY, _wrapped, Optimiser("SGD", 0.1), (softmax_bug("12"),), fused(_wrapped))
    noisy = partial(_hidden_relu, noise=True, keep=0.75, mean=True)
    optimiser, bugs = Optimiser("Adagrad", 0.3), (softmax_bug("48a"),)
    yield Entry("48a", 48, "Dive_python", "tensorflow", FAMILY, noisy, optimiser, bugs, fused(noisy))
    quiet = partial(_hidden_relu, noise=False, keep=None, mean=False)
    notes = ("upstream advises a lower learning rate or the mean in place of the sum: neither removes the defect",)
    optimiser, bugs = Optimiser("Adagrad", 0.01), (softmax_bug("61"),)
    yield Entry("61", 61, "tensorflow_project", "tensorflow", FAMILY, quiet, optimiser, bugs, fused(quiet), notes=notes)


def _sigmoid_outputs(b: Builder, guard: Change = unchanged) -> None:
    """Neither layer has a bias, and both start at zero: the hidden units stay alike."""
    x, y = digits(b, 100)
    h = b.sigmoid(dense(b, x, "h1", 512, zeros(), None))
    p = b.sigmoid(dense(b, h, "out", DIGITS, zeros(), None))
    with b.scope("loss"):
        b.output("loss", b.mean(-b.sum(binary_log_likelihood(b, p, y, guard), [1])))


def _wrapped(b: Builder, logarithm: Change = NAIVE) -> None:
    """The module ends in a softmax; the library that trains it takes the logarithm, since the criterion wants one."""
    x = b.input("x", [128, PIXEL_COUNT], PIXELS)
    target = b.input("target", [128], (0, DIGITS - 1), "label", integer=True)
    hidden, output = linear_layer(PIXEL_COUNT), linear_layer(98)
    h = b.relu(x @ b.transpose(b.weight("hidden_weight", [98, PIXEL_COUNT], hidden)) + b.weight("hidden_bias", [98], hidden))
    h = dropout(b, h, 0.5)
    logits = h @ b.transpose(b.weight("output_weight", [DIGITS, 98], output)) + b.weight("output_bias", [DIGITS], output)
    with b.scope("loss"):
        b.output("loss", b.mean(-b.pick(logarithm(b, logits), b.reshape(target, [128, 1]), 1)))


def _hidden_relu(b: Builder, *, noise: bool, keep: float | None, mean: bool, logarithm: Change = NAIVE) -> None:
    """300 hidden units; the noise is one vector for the whole batch."""
    x, y = digits(b, 100)
    if noise:
        x = x + 0.01 * b.input("noise", [PIXEL_COUNT], NORMAL, "random")
    h = b.relu(dense(b, x, "1", 300, truncated_normal(0.1), zeros()))
    if keep is not None:
        h = dropout(b, h, keep)
    cross_entropy(b, dense(b, h, "2", DIGITS, zeros(), zeros()), y, mean=mean, logarithm=logarithm)
