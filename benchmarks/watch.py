"""What `tensorproof.watch` costs: CPU time of a watched training step over that of the same step unwatched, one thread.

The steps of the three kinds (unwatched, level module, level operator) take turns in one process, and the fastest ones are compared:
what else the machine does can only slow a step down.

    python -m benchmarks.watch
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import tensorproof

#: Ratios that the levels are meant to keep.
TARGETS = {"module": 1.10, "operator": 2.0}
ROUNDS = 12
STEPS = 4


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    module: nn.Module
    batch: torch.Tensor
    classes: int


def convolutional() -> Subject:
    def block(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]

    layers = [*block(3, 16), *block(16, 32), *block(32, 64), nn.Flatten(), nn.Linear(64 * 4 * 4, 10)]
    return Subject("small CNN, batch 32", nn.Sequential(*layers), torch.randn(32, 3, 32, 32), 10)


class Classifier(nn.Module):
    """Four layers of a transformer, and a mean over the sequence."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x).mean(1))


def transformer() -> Subject:
    return Subject("transformer, 4 layers, width 256, length 128", Classifier(), torch.randn(4, 128, 256), 10)


def perceptron() -> Subject:
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return Subject("MLP 784-512-512-10, batch 128", nn.Sequential(*layers), torch.randn(128, 784), 10)


def training(subject: Subject) -> Callable[[], None]:
    """One step of gradient descent with momentum."""
    optimizer = torch.optim.SGD(subject.module.parameters(), lr=1e-3, momentum=0.9)
    labels = torch.randint(subject.classes, (len(subject.batch),))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(subject.module(subject.batch), labels).backward()
        optimizer.step()

    return step


def seconds_per_step(subject: Subject) -> dict[str, float]:
    """The least CPU time of a step: unwatched, and at each level."""
    step = training(subject)
    spent: dict[str, list[float]] = {"unwatched": [], **{level: [] for level in TARGETS}}
    for _ in range(ROUNDS):
        for kind, times in spent.items():
            context = nullcontext() if kind == "unwatched" else tensorproof.watch(subject.module, level=kind)
            with context:
                step()
                for _ in range(STEPS):
                    started = time.process_time()
                    step()
                    times.append(time.process_time() - started)
    return {kind: min(times) for kind, times in spent.items()}


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    table = Table(title="a watched training step over an unwatched one (CPU time, one thread)")
    for column in ("model", "step", *TARGETS):
        table.add_column(column, justify="left" if column == "model" else "right")
    for subject in (convolutional(), transformer(), perceptron()):
        seconds = seconds_per_step(subject)
        ratios = {level: seconds[level] / seconds["unwatched"] for level in TARGETS}
        cells = [f"[{'red' if ratio > TARGETS[level] else 'default'}]{ratio:.2f}" for level, ratio in ratios.items()]
        table.add_row(subject.name, f"{1000 * seconds['unwatched']:.1f} ms", *cells)
    table.caption = ", ".join(f"target at level {level}: {ratio:.2f}" for level, ratio in TARGETS.items())
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
