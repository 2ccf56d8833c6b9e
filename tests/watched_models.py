"""Small modules that fail while they train, each in one line that is marked with `# fails`."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import nn


class Layer(nn.Module):
    """A linear layer whose weights begin at zero, so that what follows sees `shift`."""

    def __init__(self, shift: float = 0.0) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        nn.init.zeros_(self.linear.weight)
        nn.init.constant_(self.linear.bias, shift)


class Log(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x)
        return h + torch.log(h)  # fails


class Exp(Layer):
    def __init__(self) -> None:
        super().__init__(100.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(self.linear(x))  # fails


class Division(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x)
        return 1.0 / h  # fails


class InPlace(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x) * 1.0
        h.log_()  # fails
        return h


class Sqrt(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(self.linear(x))  # fails


class Where(Layer):
    def __init__(self) -> None:
        super().__init__(-1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x)
        return torch.where(h > 0, torch.sqrt(h), h)  # fails


class Dropped(Layer):
    """Dropout and batch statistics decide whether this fails: the replay needs both as they were."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.drop(self.linear(self.norm(x)))
        return torch.log(h)  # fails


class Masked(nn.Module):
    """Attention with a mask of -inf, which is no failure."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.linear(x)
        scores = h @ h.mT
        mask = torch.full_like(scores, -math.inf).triu(1)
        return torch.softmax(scores + mask, -1) @ h


class MaskedLogits(nn.Module):
    """Returns infinities on purpose."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).masked_fill(torch.tensor([False, False, True]), -math.inf)


class Nested(nn.Module):
    """A model with a failing part two levels down, at the path `body.1.inner`."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 3), Holder(inner))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Holder(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def nested_log() -> nn.Module:
    return Nested(Log())


def nested_dropped() -> nn.Module:
    return Nested(Dropped())


def failing_line(kind: type[nn.Module]) -> int:
    """The line of this file that is marked inside of a class."""
    lines = Path(__file__).read_text("utf-8").splitlines()
    start = lines.index(next(line for line in lines if line.startswith(f"class {kind.__name__}(")))
    return next(number for number, line in enumerate(lines, 1) if number > start and "# fails" in line)
