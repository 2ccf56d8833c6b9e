"""Networks that fail in float16 for the reasons that real ones do, at a size that tests can afford."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import onnx

from tests.torch_models import export

WIDTH, HEADS, LENGTH, WORDS = 32, 4, 12, 64
#: The word that pads: its embedding is zero, so that the variance of its row is, too.
PADDING = 0


@cache
def bert() -> onnx.ModelProto:
    """Two encoder layers as in BERT: embeddings, written-out layer normalisation, masked attention, GELU.

    Planted: an additive mask of -1e9, an epsilon of 1e-12 under a variance that can be zero, and outlier channels in the first
    feed-forward layer, whose squares leave float16.
    """
    import torch
    from torch import nn

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain, self.shift = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
            # A number would be dropped: the exporter takes one this small for zero.
            self.register_buffer("epsilon", torch.full((1,), 1e-12))

        def forward(self, x: Any) -> Any:
            centred = x - x.mean(-1, keepdim=True)
            variance = (centred**2).mean(-1, keepdim=True)
            return centred / torch.sqrt(variance + self.epsilon) * self.gain + self.shift

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
            self.out = nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.norm1, self.norm2 = Norm(), Norm()

        def heads(self, x: Any) -> Any:
            return x.view(1, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)

        def forward(self, x: Any, bias: Any) -> Any:
            q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
            scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS) + bias
            mixed = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(1, LENGTH, WIDTH)
            x = self.norm1(x + self.out(mixed))
            hidden = self.up(x)
            hidden = hidden * 0.5 * (1.0 + torch.erf(hidden / math.sqrt(2.0)))
            return self.norm2(x + self.down(hidden))

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(LENGTH, WIDTH))
            self.norm = Norm()
            self.layers = nn.ModuleList([Layer(), Layer()])
            self.pooler = nn.Linear(WIDTH, WIDTH)

        def forward(self, ids: Any, mask: Any) -> Any:
            x = self.norm(self.words(ids) + self.positions)
            bias = (1.0 - mask.view(1, 1, 1, LENGTH)) * -1e9
            for layer in self.layers:
                x = layer(x, bias)
            return torch.tanh(self.pooler(x[:, 0]))

    torch.manual_seed(0)
    network = Bert()
    with torch.no_grad():
        network.words.weight[PADDING] = 0.0
        network.positions[-1] = 0.0
        network.layers[0].down.weight[3] *= 600.0
    return export(network, (torch.zeros(1, LENGTH, dtype=torch.int64), torch.ones(1, LENGTH)), ["ids", "mask"])


@cache
def diffusion() -> onnx.ModelProto:
    """A block of a denoising network: time embedding, written-out group normalisation, SiLU, convolutions, attention, residuals.

    Planted: a time of up to 1000 times frequencies (a sine loses all accuracy), a variance of squares that leaves float16, and a
    residual stream that grows beyond it before the last normalisation.
    """
    import torch
    from torch import nn

    channels, groups, side = 16, 4, 8

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gain, self.shift = nn.Parameter(torch.ones(1, channels, 1, 1)), nn.Parameter(torch.zeros(1, channels, 1, 1))

        def forward(self, x: Any) -> Any:
            rows = x.reshape(1, groups, -1)
            centred = rows - rows.mean(-1, keepdim=True)
            variance = (centred * centred).mean(-1, keepdim=True)
            return (centred / torch.sqrt(variance + 1e-5)).reshape(x.shape) * self.gain + self.shift

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = Norm(), Norm()
            self.conv1, self.conv2 = nn.Conv2d(channels, channels, 3, padding=1), nn.Conv2d(channels, channels, 3, padding=1)
            self.time = nn.Linear(channels, channels)

        def forward(self, x: Any, time: Any) -> Any:
            h = self.conv1(nn.functional.silu(self.norm1(x)))
            h = h + self.time(nn.functional.silu(time)).view(1, channels, 1, 1)
            return x + self.conv2(nn.functional.silu(self.norm2(h)))

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = Norm()
            self.query, self.key, self.value, self.out = (nn.Linear(channels, channels) for _ in range(4))

        def forward(self, x: Any) -> Any:
            rows = self.norm(x).reshape(1, channels, side * side).transpose(1, 2)
            scores = self.query(rows) @ self.key(rows).transpose(1, 2) / math.sqrt(channels)
            mixed = self.out(torch.softmax(scores, -1) @ self.value(rows))
            return x + mixed.transpose(1, 2).reshape(1, channels, side, side)

    class Denoiser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("frequencies", torch.exp(-math.log(10000.0) * torch.arange(channels // 2) / (channels // 2)))
            self.time1, self.time2 = nn.Linear(channels, channels), nn.Linear(channels, channels)
            self.enter, self.leave = nn.Conv2d(4, channels, 3, padding=1), nn.Conv2d(channels, 4, 3, padding=1)
            self.first, self.second, self.third, self.attention, self.norm = Residual(), Residual(), Residual(), Attention(), Norm()

        def forward(self, x: Any, time: Any) -> Any:
            angles = time.view(1, 1) * self.frequencies
            embedded = torch.cat([torch.sin(angles), torch.cos(angles)], -1)
            embedded = self.time2(nn.functional.silu(self.time1(embedded)))
            h = self.second(self.first(self.enter(x), embedded), embedded)
            h = self.third(self.attention(h), embedded)
            return self.leave(nn.functional.silu(self.norm(h)))

    torch.manual_seed(1)
    network = Denoiser()
    with torch.no_grad():
        network.third.conv2.weight *= 2.0**16
        for block in (network.first, network.second, network.third):
            block.time.weight *= 16.0
    return export(network, (torch.zeros(1, 4, side, side), torch.zeros(1)), ["x", "time"])
