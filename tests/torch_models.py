"""Networks written by hand and exported by PyTorch: the shapes of real architectures, at a size that tests can afford."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import onnx


def export(module: Any, inputs: tuple[Any, ...], names: list[str]) -> onnx.ModelProto:
    import torch

    module.eval()
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(module, inputs, dynamo=True, input_names=names, verbose=False)
    program.save(buffer)
    return onnx.ModelProto.FromString(buffer.getvalue())


def resnet() -> onnx.ModelProto:
    """A ResNet-18-like network: four stages of two residual blocks with batch normalisation."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, inner: int, outer: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outer)
            self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outer)
            self.skip = nn.Identity() if stride == 1 and inner == outer else nn.Conv2d(inner, outer, 1, stride)

        def forward(self, x: Any) -> Any:
            y = torch.relu(self.bn1(self.conv1(x)))
            return torch.relu(self.bn2(self.conv2(y)) + self.skip(x))

    torch.manual_seed(0)
    layers: list[Any] = [nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width = 8
    for outer, stride in ((8, 1), (16, 2), (32, 2), (64, 2)):
        layers += [Block(width, outer, stride), Block(outer, outer, 1)]
        width = outer
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
    network = nn.Sequential(*layers)
    network.train()
    for _ in range(3):  # running statistics that are not the defaults
        network(torch.randn(4, 3, 64, 64))
    return export(network, (torch.zeros(1, 3, 64, 64),), ["x"])


def _attention(width: int, heads: int, causal: bool) -> Any:
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q, k, v = self.qkv(x).view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            scores = q @ k.transpose(-2, -1) * (width // heads) ** -0.5
            if causal:
                mask = torch.ones(length, length, dtype=torch.bool).tril()
                scores = scores.masked_fill(~mask, float("-inf"))
            mixed = scores.softmax(-1) @ v
            return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    return Attention()


def _block(width: int, heads: int, causal: bool = False, activation: str = "gelu") -> Any:
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = _attention(width, heads, causal)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    return Block()


def vit() -> onnx.ModelProto:
    """A stack of vision transformer blocks over image patches."""
    import torch
    from torch import nn

    torch.manual_seed(1)

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(3, 32, 8, 8)
            self.position = nn.Parameter(torch.randn(1, 16, 32) * 0.02)
            self.blocks = nn.Sequential(*[_block(32, 4) for _ in range(3)])
            self.norm = nn.LayerNorm(32)
            self.head = nn.Linear(32, 10)

        def forward(self, x: Any) -> Any:
            tokens = self.patch(x).flatten(2).transpose(1, 2) + self.position
            return self.head(self.norm(self.blocks(tokens)).mean(1))

    return export(ViT(), (torch.zeros(1, 3, 32, 32),), ["x"])


def bert() -> onnx.ModelProto:
    """A two-layer encoder over token ids, as in BERT: embeddings, layer normalisation, pooler with tanh."""
    import torch
    from torch import nn

    torch.manual_seed(2)

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(100, 32)
            self.positions = nn.Embedding(12, 32)
            self.norm = nn.LayerNorm(32)
            self.layers = nn.Sequential(*[_block(32, 4) for _ in range(2)])
            self.pooler = nn.Linear(32, 32)

        def forward(self, ids: Any) -> Any:
            x = self.norm(self.words(ids) + self.positions(torch.arange(12)))
            return torch.tanh(self.pooler(self.layers(x)[:, 0]))

    return export(Bert(), (torch.zeros(1, 12, dtype=torch.int64),), ["ids"])


def gpt() -> onnx.ModelProto:
    """A GPT-2-like decoder: causal attention with a mask of -inf, tied output embedding."""
    import torch
    from torch import nn

    torch.manual_seed(3)

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(64, 32)
            self.blocks = nn.Sequential(*[_block(32, 4, causal=True) for _ in range(2)])
            self.norm = nn.LayerNorm(32)

        def forward(self, ids: Any) -> Any:
            return torch.log_softmax(self.norm(self.blocks(self.words(ids))) @ self.words.weight.T, -1)

    return export(Gpt(), (torch.zeros(1, 8, dtype=torch.int64),), ["ids"])


def lstm() -> onnx.ModelProto:
    """A two-layer bidirectional LSTM with a classifier."""
    import torch
    from torch import nn

    torch.manual_seed(4)

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(8, 12, num_layers=2, bidirectional=True, batch_first=True)
            self.head = nn.Linear(24, 5)

        def forward(self, x: Any) -> Any:
            return torch.log_softmax(self.head(self.lstm(x)[0]), -1)

    return export(Tagger(), (torch.zeros(1, 7, 8),), ["x"])


#: Exported models with the ranges of their inputs.
EXPORTED: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, tuple[float, float]]]] = {
    "resnet": (resnet, {"x": (-3.0, 3.0)}),
    "vit": (vit, {"x": (-3.0, 3.0)}),
    "bert": (bert, {"ids": (0, 99)}),
    "gpt": (gpt, {"ids": (0, 63)}),
    "lstm": (lstm, {"x": (-4.0, 4.0)}),
}
