"""What the programs have in common: layers, dropout, and the ways they write the logarithm of a probability.

Weights and branches on which no loss depends are left out of the descriptions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.zoo.builder import Builder, Tensor
from benchmarks.zoo.entry import Bug, Repair
from benchmarks.zoo.initial import Initial

#: Inputs that the search moves without bounds: wide enough for every way in which the programs fail.
UNCLIPPED = "-100:100"
#: Draws of a standard normal variable: in float32, no generator in use gives more.
NORMAL = "-7:7"
PIXELS = "0:1"
DIGITS = 10
PIXEL_COUNT = 784

#: One tensor made of another: a guard of an operand; or a way from logits to logarithms of probabilities, where the node
#: that fails, or its repair, is named `log`.
Change = Callable[[Builder, Tensor], Tensor]

SOFTMAX_0 = "a logit far below its row's largest makes a softmax of exactly 0, whose logarithm is -inf; times a label 0, NaN"
SIGMOID_0 = "a sigmoid is exactly 0 below about -88.7 (subnormals kept: -104), its logarithm is -inf"
SIGMOID_1 = "a sigmoid rounds to 1 above about 16.7, and the logarithm of 1 - 1 is -inf"


def unchanged(b: Builder, x: Tensor) -> Tensor:
    return x


def clipped(low: float, high: float | None) -> Change:
    return lambda b, x: b.clip(x, low, high)


def shifted(epsilon: float) -> Change:
    return lambda b, x: x + epsilon


def log_of_softmax(guard: Change = unchanged) -> Change:
    """The naive form: softmax, then logarithm, with a guard between them or without."""
    return lambda b, logits: b.log(guard(b, b.softmax(logits)), name="log")


NAIVE = log_of_softmax()


def fused_log_softmax(b: Builder, logits: Tensor) -> Tensor:
    return b.log_softmax(logits, name="log")


def fused(describe: Callable[..., None]) -> Repair:
    """The repair of a program whose description takes its way from logits to logarithms as `logarithm`."""
    how = "the logarithms of the softmax are computed from the logits by one fused operator"
    return Repair(how, partial(describe, logarithm=fused_log_softmax))


def less_the_largest(b: Builder, x: Tensor, axis: int) -> Tensor:
    """What a stable softmax exponentiates: nothing is above 0, and the largest is 0."""
    return x - b.maximum(x, [axis], keep=True)


def softmax_bug(letter: str) -> Bug:
    """The bug of `cross_entropy` with a naive logarithm."""
    return Bug(letter, "Log", "loss/log", SOFTMAX_0)


def cross_entropy(b: Builder, logits: Tensor, labels: Tensor, *, mean: bool, logarithm: Change) -> None:
    """The loss of classifiers with one-hot labels: summed over classes, then over the batch or averaged over it."""
    with b.scope("loss"):
        terms = labels * logarithm(b, logits)
        b.output("loss", b.mean(-b.sum(terms, [1])) if mean else -b.sum(terms))


def binary_log_likelihood(b: Builder, p: Tensor, labels: Tensor, guard: Change = unchanged) -> Tensor:
    """The terms y log(p) + (1 - y) log(1 - p) of a hand-written binary cross-entropy."""
    return labels * b.log(guard(b, p), name="log") + (1.0 - labels) * b.log(guard(b, 1.0 - p), name="log_of_rest")


def stable_log_likelihood(b: Builder, logits: Tensor, labels: Tensor) -> Tensor:
    """The same terms from logits a: log(sigmoid(a)) is -softplus(-a), and log(1 - sigmoid(a)) is -softplus(a)."""
    return -(labels * b.softplus(-logits, name="log")) - (1.0 - labels) * b.softplus(logits, name="log_of_rest")


def digits(b: Builder, batch: int) -> tuple[Tensor, Tensor]:
    """A batch of flattened images of digits, and their labels as one-hot rows."""
    return b.input("x", [batch, PIXEL_COUNT], PIXELS), b.input("y", [batch, DIGITS], "one-hot", "label")


def dense(b: Builder, x: Tensor, name: str, size: int, weight: Initial, bias: Initial | None) -> Tensor:
    """x W + b, the weight being `W_name` and the bias `b_name`; without a bias where there is None."""
    product = x @ b.weight(f"W_{name}", [x.shape[-1], size], weight)
    return product if bias is None else product + b.weight(f"b_{name}", [size], bias)


def dropout(b: Builder, x: Tensor, keep: Tensor | float, name: str = "dropout") -> Tensor:
    """What is kept is divided by the probability of keeping it. The random mask is an input."""
    mask = b.input(f"{name}_mask", x.shape, "{0,1}", "random")
    with b.scope(name):
        return x / keep * mask


def keep_probability(b: Builder, low: float, high: float) -> Tensor:
    """The probability of keeping a unit as a setting of the run, between its values in training and in evaluation."""
    return b.input("keep_prob", [], (low, high), "setting")
