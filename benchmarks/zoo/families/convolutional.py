"""Convolutional networks on digits with a naive cross-entropy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.zoo.builder import Builder, Padding, Tensor
from benchmarks.zoo.entry import Entry, Optimiser, Repair
from benchmarks.zoo.families.parts import (
    DIGITS,
    NAIVE,
    PIXELS,
    Change,
    clipped,
    cross_entropy,
    dense,
    digits,
    dropout,
    fused,
    keep_probability,
    log_of_softmax,
    shifted,
    softmax_bug,
)
from benchmarks.zoo.initial import Initial, constant, truncated_normal, zeros

TWO_LAYERS = "network of two convolutions"
OTHERS = "other convolutional network"

_TRAINING_OR_NOT = (0.5, 1.0)
_TRAINING = (0.5, 0.5)


def entries() -> Iterator[Entry]:
    def entry(name: str, project: str, rate: float = 1e-4, repair: Repair | None = None, **how: Any) -> Entry:
        program, describe = int(name.rstrip("b")), partial(_two_layers, **how)
        bugs, repair = (softmax_bug(name),), repair or fused(describe)
        return Entry(name, program, project, "tensorflow", TWO_LAYERS, describe, Optimiser("Adam", rate), bugs, repair)

    clip = partial(_two_layers, logarithm=log_of_softmax(clipped(1e-10, 1.0)))
    shift = partial(_two_layers, logarithm=log_of_softmax(shifted(1e-9)))
    yield entry("6", "StackOverFlow-1", repair=Repair("the softmax is clipped to [1e-10, 1]", clip))
    yield entry("7", "StackOverFlow-2", repair=Repair("1e-9 is added inside the logarithm", shift))
    yield entry("8", "StackOverFlow-6", repair=Repair("the softmax is clipped to [1e-10, 1]", clip))
    yield entry("24", "Tensorflow_Gesture_Demo", batch=100, keep=None)
    yield entry("29", "MachineLearning", rate=5e-4, batch=100, channels_last=True)
    yield entry("45b", "DataStructure", keep=_TRAINING, mean=True)
    yield entry("55", "practice", keep=_TRAINING, mean=True)
    yield entry("58", "pytest", keep=_TRAINING)
    optimiser, bugs = Optimiser("SGD", 0.001), (softmax_bug("14"),)
    yield Entry("14", 14, "MNIST", "tensorflow", OTHERS, _lenet, optimiser, bugs, fused(_lenet))
    optimiser, bugs = Optimiser("Adagrad", 1e-3), (softmax_bug("44"),)
    yield Entry("44", 44, "CNNRelationExtraction", "tensorflow", OTHERS, _one_layer, optimiser, bugs, fused(_one_layer))


def _two_layers(
    b: Builder,
    *,
    batch: int = 50,
    keep: tuple[float, float] | None = _TRAINING_OR_NOT,
    mean: bool = False,
    channels_last: bool = False,
    logarithm: Change = NAIVE,
) -> None:
    """The network of a well-known tutorial: two convolutions with pooling, one hidden layer."""
    weight, bias = truncated_normal(0.1), constant(0.1)
    if channels_last:
        x, y = _images(b, batch, 28)
    else:
        rows, y = digits(b, batch)
        x = b.reshape(rows, [batch, 1, 28, 28])
    x = b.max_pool(_convolution(b, x, "conv1", 5, 32, weight, bias))
    x = b.max_pool(_convolution(b, x, "conv2", 5, 64, weight, bias))
    h = b.relu(dense(b, b.flatten(x), "fc1", 1024, weight, bias))
    if keep is not None:
        h = dropout(b, h, keep_probability(b, *keep))
    logits = dense(b, h, "fc2", DIGITS, weight, bias)
    cross_entropy(b, logits, y, mean=mean, logarithm=logarithm)


def _lenet(b: Builder, logarithm: Change = NAIVE) -> None:
    """LeNet-5, on digits padded to 32 by 32."""
    weight = truncated_normal(0.1)
    x, y = _images(b, 64, 32)
    x = b.max_pool(_convolution(b, x, "conv1", 5, 6, weight, zeros(), "valid"))
    x = b.max_pool(_convolution(b, x, "conv3", 5, 16, weight, zeros(), "valid"))
    x = _convolution(b, x, "conv5", 5, 120, weight, zeros(), "valid")
    h = b.relu(dense(b, b.flatten(x), "6", 84, weight, zeros()))
    logits = dense(b, h, "7", DIGITS, weight, zeros())
    cross_entropy(b, logits, y, mean=False, logarithm=logarithm)


def _one_layer(b: Builder, logarithm: Change = NAIVE) -> None:
    weight, bias = truncated_normal(0.1), constant(0.1)
    x, y = _images(b, 50, 28)
    x = b.max_pool(_convolution(b, x, "conv1", 5, 16, weight, bias))
    h = b.relu(dense(b, b.flatten(x), "fc1", 128, weight, bias))
    h = dropout(b, h, keep_probability(b, *_TRAINING))
    cross_entropy(b, dense(b, h, "fc2", DIGITS, weight, bias), y, mean=False, logarithm=logarithm)


def _images(b: Builder, batch: int, size: int) -> tuple[Tensor, Tensor]:
    """Images as TensorFlow has them, channels last, brought into our order; and their labels."""
    x = b.input("x", [batch, size, size, 1], PIXELS)
    return b.transpose(x, [0, 3, 1, 2]), b.input("y", [batch, DIGITS], "one-hot", "label")


def _convolution(
    b: Builder, x: Tensor, name: str, size: int, channels: int, weight: Initial, bias: Initial, padding: Padding = "same"
) -> Tensor:
    """A convolution with bias and relu."""
    kernel = b.weight(f"W_{name}", [channels, x.shape[1], size, size], weight)
    return b.relu(b.conv2d(x, kernel, padding=padding) + b.weight(f"b_{name}", [channels, 1, 1], bias))
