"""A generative adversarial network on digits: one of the three logarithms of its losses has no guard."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from benchmarks.zoo.builder import Builder, Tensor
from benchmarks.zoo.entry import Bug, Entry, Optimiser, Repair
from benchmarks.zoo.families.parts import NORMAL, PIXEL_COUNT, SIGMOID_0, Change, clipped, dropout, shifted, unchanged
from benchmarks.zoo.initial import truncated_normal, zeros

FAMILY = "generative adversarial network"

_BATCH = 100
_KEPT = 0.3
_GUARD = 1e-8


def entries() -> Iterator[Entry]:
    bug = Bug("31", "Log", "discriminator_loss/log", SIGMOID_0)
    optimiser = Optimiser("Adam", 0.0002, "one for each of the two losses, in turn", trains={"loss": "D_", "generator_loss": "G_"})
    describe = partial(_describe, of_real=unchanged, of_made=shifted(_GUARD))
    clip = clipped(_GUARD, 1.0)
    repair = Repair("the operands of all three logarithms are clipped to [1e-8, 1]", partial(_describe, of_real=clip, of_made=clip))
    note = (
        "TensorFlow computes (1 - D) + 1e-8 as 1 - D when it optimises the graph: there the second logarithm has no guard, either"
    )
    yield Entry("31", 31, "GAN_MNIST", "tensorflow", FAMILY, describe, optimiser, (bug,), repair, notes=(note,))


def _describe(b: Builder, *, of_real: Change, of_made: Change) -> None:
    """The discriminator's weights are shared between real images and those that the generator makes of noise.

    The guards are those of the logarithms of what it says about either.
    """
    x = b.input("x", [_BATCH, PIXEL_COUNT], "-1:1")
    z = b.input("z", [_BATCH, 100], NORMAL, "random")
    generator = _layers(b, "G", [100, 256, 512, 1024, PIXEL_COUNT])
    discriminator = _layers(b, "D", [PIXEL_COUNT, 1024, 512, 256, 1])

    def generate(h: Tensor) -> Tensor:
        *inner, (weight, bias) = generator
        for inner_weight, inner_bias in inner:
            h = b.relu(h @ inner_weight + inner_bias)
        return b.tanh(h @ weight + bias)

    def discriminate(h: Tensor, name: str) -> Tensor:
        *inner, (weight, bias) = discriminator
        for index, (inner_weight, inner_bias) in enumerate(inner):
            h = dropout(b, b.relu(h @ inner_weight + inner_bias), _KEPT, f"{name}_dropout_{index}")
        return b.sigmoid(h @ weight + bias)

    real, made = discriminate(x, "real"), discriminate(generate(z), "made")
    with b.scope("discriminator_loss"):
        b.output("loss", -b.mean(b.log(of_real(b, real), name="log") + b.log(of_made(b, 1.0 - made), name="log_of_rest")))
    with b.scope("generator_loss"):
        b.output("generator_loss", -b.mean(b.log(of_made(b, made), name="log")))


def _layers(b: Builder, name: str, sizes: list[int]) -> list[tuple[Tensor, Tensor]]:
    return [
        (b.weight(f"{name}_w{index}", [fan_in, fan_out], truncated_normal(0.02)), b.weight(f"{name}_b{index}", [fan_out], zeros()))
        for index, (fan_in, fan_out) in enumerate(pairwise(sizes))
    ]
