"""The networks that mutations start from: those of AUDEE's paper, for digits of 8 by 8, as deep as the originals and narrower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from tensorproof.compare.catalogue.digits import load_digits
from tensorproof.compare.catalogue.training import train
from tensorproof.compare.drawing import Array
from tensorproof.compare.spec import InputSpec, Json, LayerSpec, NetworkSpec

#: Images in a batch.
BATCH = 4


@dataclass(frozen=True)
class SeedNetwork:
    """A network for digits. `floor` is the share of digits that it must get right after training."""

    name: str
    network: NetworkSpec
    floor: float
    epochs: int

    def weights(self, seed: int = 0) -> dict[str, Array]:
        """Trained weights as `LAYER/INDEX`; trained now unless they are in the cache."""
        return train(self.network, self.epochs, seed).weights

    def accuracy(self, seed: int = 0) -> float:
        """The share of digits kept from training that the trained network gets right."""
        return train(self.network, self.epochs, seed).accuracy

    def examples(self, start: int = 0) -> dict[str, Array]:
        """A batch of digits that it was not trained on, by the name of its input."""
        entry = self.network.inputs[0]
        images = load_digits().held_out_images[start : start + entry.shape[0]]
        return {entry.name: images.reshape(len(images), *entry.shape[1:])}


class _Drawing:
    """A network written down layer by layer."""

    def __init__(self, *shape: int) -> None:
        self.input = InputSpec("image", (BATCH, *shape), values="uniform")
        self.layers: list[LayerSpec] = []
        self.last = "image"

    def add(self, kind: str, *inputs: str, **parameters: Json) -> str:
        self.last = f"{kind.lower()}_{len(self.layers)}"
        before = self.layers[-1].name if self.layers else "image"
        self.layers.append(LayerSpec(self.last, kind, parameters, inputs or (before,)))
        return self.last

    def convolve(self, filters: int, size: int, source: str, *, strides: int = 1, active: bool = True) -> str:
        """Convolution, normalisation, and the positive part if `active`."""
        name = self.add("Conv2D", source, filters=filters, kernel_size=size, strides=strides, padding="same", use_bias=False)
        name = self.add("BatchNormalization", name, momentum=0.9)
        return self.add("ReLU", name) if active else name

    def network(self) -> NetworkSpec:
        return NetworkSpec("keras", (self.input,), tuple(self.layers), (self.last,))


def _lenet() -> NetworkSpec:
    """LeNet-5 (LeCun and others, 1998)."""
    draw = _Drawing(8, 8, 1)
    draw.add("Conv2D", filters=6, kernel_size=5, padding="same", activation="tanh")
    draw.add("AveragePooling2D", pool_size=2)
    draw.add("Conv2D", filters=16, kernel_size=3, padding="same", activation="tanh")
    draw.add("AveragePooling2D", pool_size=2)
    draw.add("Flatten")
    draw.add("Dense", units=120, activation="tanh")
    draw.add("Dense", units=84, activation="tanh")
    draw.add("Dense", units=10, activation="softmax")
    return draw.network()


def _resnet() -> NetworkSpec:
    """ResNet-20 (He and others, 2016): three stages of three blocks of two convolutions."""
    draw = _Drawing(8, 8, 1)
    here = draw.convolve(8, 3, "image")
    for stage, width in enumerate((8, 16, 24)):
        for block in range(3):
            strides = 2 if stage and not block else 1
            inner = draw.convolve(width, 3, draw.convolve(width, 3, here, strides=strides), active=False)
            if strides > 1:
                here = draw.convolve(width, 1, here, strides=strides, active=False)
            here = draw.add("ReLU", draw.add("Add", inner, here))
    draw.add("GlobalAveragePooling2D", here)
    draw.add("Dense", units=10, activation="softmax")
    return draw.network()


def _vgg() -> NetworkSpec:
    """VGG-16 (Simonyan and Zisserman, 2015), with the normalisation that came later: 13 convolutions, 3 dense layers."""
    draw = _Drawing(8, 8, 1)
    here = "image"
    for width, count in ((8, 2), (16, 2), (24, 3), (32, 3), (32, 3)):
        for _ in range(count):
            here = draw.convolve(width, 3, here)
        here = draw.add("MaxPooling2D", here, padding="same")
    draw.add("Flatten")
    draw.add("Dense", units=64, activation="relu")
    draw.add("Dense", units=64, activation="relu")
    draw.add("Dense", units=10, activation="softmax")
    return draw.network()


def _mobilenet() -> NetworkSpec:
    """MobileNet-V2 (Sandler and others, 2018): 17 inverted residual blocks."""
    draw = _Drawing(8, 8, 1)

    def clipped(name: str) -> str:
        return draw.add("ReLU", draw.add("BatchNormalization", name, momentum=0.9), max_value=6.0)

    def pointwise(filters: int, source: str) -> str:
        return draw.add("Conv2D", source, filters=filters, kernel_size=1, use_bias=False)

    here, channels = clipped(draw.add("Conv2D", "image", filters=8, kernel_size=3, padding="same", use_bias=False)), 8
    for factor, width, count, first in (
        (1, 8, 1, 1),
        (6, 8, 2, 1),
        (6, 12, 3, 2),
        (6, 16, 4, 1),
        (6, 16, 3, 1),
        (6, 24, 3, 2),
        (6, 32, 1, 1),
    ):
        for block in range(count):
            strides = 1 if block else first
            wide = clipped(pointwise(factor * channels, here)) if factor > 1 else here
            deep = clipped(draw.add("DepthwiseConv2D", wide, kernel_size=3, strides=strides, padding="same", use_bias=False))
            thin = draw.add("BatchNormalization", pointwise(width, deep), momentum=0.9)
            here = draw.add("Add", thin, here) if strides == 1 and channels == width else thin
            channels = width
    draw.add("GlobalAveragePooling2D", clipped(pointwise(64, here)))
    draw.add("Dense", units=10, activation="softmax")
    return draw.network()


def _recurrent(kind: str) -> NetworkSpec:
    """Two layers over the eight rows of an image."""
    draw = _Drawing(8, 8)
    draw.add(kind, units=32, return_sequences=True)
    draw.add(kind, units=32)
    draw.add("Dense", units=10, activation="softmax")
    return draw.network()


def _transformer() -> NetworkSpec:
    """Two encoder blocks, normalised before each part; rows of the image are the tokens."""
    draw = _Drawing(8, 8)
    here = draw.add("Dense", units=24)
    for _ in range(2):
        normal = draw.add("LayerNormalization", here)
        here = draw.add("Add", here, draw.add("MultiHeadAttention", normal, normal, num_heads=2, key_dim=8))
        draw.add("LayerNormalization", here)
        draw.add("Dense", units=48, activation="gelu")
        here = draw.add("Add", here, draw.add("Dense", units=24))
    draw.add("LayerNormalization", here)
    draw.add("Flatten")
    draw.add("Dense", units=10, activation="softmax")
    return draw.network()


@cache
def seed_networks() -> Mapping[str, SeedNetwork]:
    """All seed networks by name."""
    listed = (
        SeedNetwork("LeNet-5", _lenet(), 0.9, 12),
        SeedNetwork("ResNet-20", _resnet(), 0.9, 8),
        SeedNetwork("VGG-16", _vgg(), 0.9, 12),
        SeedNetwork("MobileNet-V2", _mobilenet(), 0.85, 14),
        SeedNetwork("SimpleRNN", _recurrent("SimpleRNN"), 0.8, 12),
        SeedNetwork("LSTM", _recurrent("LSTM"), 0.8, 10),
        SeedNetwork("GRU", _recurrent("GRU"), 0.8, 10),
        SeedNetwork("Transformer", _transformer(), 0.8, 10),
    )
    return MappingProxyType({entry.name: entry for entry in listed})
