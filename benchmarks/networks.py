"""Networks at their real size, with random weights of realistic scale: what the benchmark and the tests of precision analyse.

Exported once by PyTorch into the cache folder; seeds are fixed, so that every machine analyses the same weights.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

CACHE = Path(__file__).parent.parent / ".cache" / "networks"


@dataclass(frozen=True, slots=True)
class Network:
    """A way to make a model, and the ranges of its inputs as after the usual preprocessing."""

    make: Callable[[], tuple[Any, tuple[Any, ...], list[str]]]
    ranges: dict[str, tuple[float, float]]
    kind: str


def path_of(name: str) -> Path:
    """The exported file of a network, made on first use."""
    path = CACHE / f"{name}.onnx"
    if not path.exists():
        import torch

        module, inputs, names = NETWORKS[name].make()
        module.eval()
        CACHE.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(module, inputs, dynamo=True, input_names=names, verbose=False)
        # Two processes may want the same network at once.
        fresh = path.with_suffix(f".{os.getpid()}.new")
        program.save(str(fresh))
        fresh.rename(path)
    return path


def load(name: str) -> onnx.ModelProto:
    """The exported model."""
    return onnx.load(str(path_of(name)))


def _resnet50() -> tuple[Any, tuple[Any, ...], list[str]]:
    """Sixteen bottleneck blocks with batch normalisation, whose running statistics come from random images."""
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Bottleneck(nn.Module):
        def __init__(self, inner: int, width: int, stride: int) -> None:
            super().__init__()
            outer = 4 * width
            self.conv1, self.bn1 = nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer)
            self.skip: Any = nn.Identity()
            if stride != 1 or inner != outer:
                self.skip = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.bn1(self.conv1(x)))
            y = torch.relu(self.bn2(self.conv2(y)))
            return torch.relu(self.bn3(self.conv3(y)) + self.skip(x))

    layers: list[Any] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(blocks):
            layers.append(Bottleneck(inner, width, stride if index == 0 else 1))
            inner = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, 1000)]
    network = nn.Sequential(*layers)
    for part in network.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
    network.train()
    with torch.no_grad():
        for _ in range(4):
            network(torch.randn(2, 3, 224, 224))
    return network, (torch.zeros(1, 3, 224, 224),), ["image"]


def _block(width: int, heads: int, causal: bool) -> Any:
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
            self.out = nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def attend(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = (
                part(x).view(batch, length, heads, width // heads).transpose(1, 2) for part in (self.query, self.key, self.value)
            )
            scores = q @ k.transpose(-2, -1) / math.sqrt(width // heads)
            if causal:
                mask = torch.ones(length, length, dtype=torch.bool).tril()
                scores = scores.masked_fill(~mask, float("-inf"))
            mixed = torch.softmax(scores, -1) @ v
            return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

        def forward(self, x: Any) -> Any:
            if causal or pre_norm:
                x = x + self.attend(self.norm1(x))
                return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))
            x = self.norm1(x + self.attend(x))
            return self.norm2(x + self.down(torch.nn.functional.gelu(self.up(x))))

    pre_norm = causal or width < 700
    return Block()


def _realistic(network: Any, outliers: bool) -> None:
    """Weights N(0, 0.02) as transformers start with; with `outliers`, 0.5 % of the input channels are 20 times larger."""
    import torch
    from torch import nn

    for part in network.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, 0.0, 0.02)
            if outliers and isinstance(part, nn.Linear):
                chosen = torch.randperm(part.in_features)[: max(1, round(0.005 * part.in_features))]
                with torch.no_grad():
                    part.weight[:, chosen] *= 20.0
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.bias, 0.0, 0.02)
        if isinstance(part, nn.LayerNorm):
            nn.init.normal_(part.weight, 1.0, 0.1)
            nn.init.normal_(part.bias, 0.0, 0.1)


def _vit_tiny() -> tuple[Any, tuple[Any, ...], list[str]]:
    import torch
    from torch import nn

    torch.manual_seed(1)

    class Vit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(3, 192, 16, 16)
            self.first = nn.Parameter(torch.randn(1, 1, 192) * 0.02)
            self.position = nn.Parameter(torch.randn(1, 197, 192) * 0.02)
            self.blocks = nn.Sequential(*[_block(192, 3, False) for _ in range(12)])
            self.norm, self.head = nn.LayerNorm(192), nn.Linear(192, 1000)

        def forward(self, image: Any) -> Any:
            tokens = self.patch(image).flatten(2).transpose(1, 2)
            tokens = torch.cat([self.first.expand(image.shape[0], -1, -1), tokens], 1) + self.position
            return self.head(self.norm(self.blocks(tokens))[:, 0])

    network = Vit()
    _realistic(network, outliers=False)
    return network, (torch.zeros(1, 3, 224, 224),), ["image"]


def _bert2(outliers: bool) -> tuple[Any, tuple[Any, ...], list[str]]:
    import torch
    from torch import nn

    torch.manual_seed(2)

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(30522, 768), nn.Embedding(512, 768)
            self.norm = nn.LayerNorm(768)
            self.layers = nn.Sequential(*[_block(768, 12, False) for _ in range(2)])
            self.pooler = nn.Linear(768, 768)

        def forward(self, ids: Any) -> Any:
            x = self.norm(self.words(ids) + self.positions(torch.arange(ids.shape[1])))
            return torch.tanh(self.pooler(self.layers(x)[:, 0]))

    network = Bert()
    _realistic(network, outliers)
    return network, (torch.zeros(1, 128, dtype=torch.int64),), ["ids"]


def _gpt2(outliers: bool) -> tuple[Any, tuple[Any, ...], list[str]]:
    import torch
    from torch import nn

    torch.manual_seed(3)

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
            self.blocks = nn.Sequential(*[_block(768, 12, True) for _ in range(12)])
            self.norm = nn.LayerNorm(768)

        def forward(self, ids: Any) -> Any:
            x = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
            return self.norm(self.blocks(x)) @ self.words.weight.T

    network = Gpt()
    _realistic(network, outliers)
    return network, (torch.zeros(1, 128, dtype=torch.int64),), ["ids"]


def _lstm() -> tuple[Any, tuple[Any, ...], list[str]]:
    import torch
    from torch import nn

    torch.manual_seed(4)

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(256, 512, num_layers=2, bidirectional=True, batch_first=True)
            self.head = nn.Linear(1024, 40)

        def forward(self, x: Any) -> Any:
            return torch.log_softmax(self.head(self.lstm(x)[0]), -1)

    return Tagger(), (torch.zeros(1, 128, 256),), ["x"]


NETWORKS: dict[str, Network] = {
    "resnet50": Network(_resnet50, {"image": (-2.65, 2.65)}, "cnn"),
    "vit_tiny": Network(_vit_tiny, {"image": (-2.65, 2.65)}, "transformer"),
    "bert2": Network(lambda: _bert2(False), {"ids": (0, 30521)}, "transformer"),
    "gpt2": Network(lambda: _gpt2(False), {"ids": (0, 50256)}, "transformer"),
    "lstm": Network(_lstm, {"x": (-4.0, 4.0)}, "recurrent"),
    "bert2_outliers": Network(lambda: _bert2(True), {"ids": (0, 30521)}, "transformer"),
    "gpt2_outliers": Network(lambda: _gpt2(True), {"ids": (0, 50256)}, "transformer"),
}
