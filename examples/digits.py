"""A classifier of images of digits with a mistake in it: `tensorproof shapes examples/digits.py` names it."""

import torch
from torch import nn


class Digits(nn.Module):
    def __init__(self, channels: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, channels, 3), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Linear(64 * 7 * 7, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = self.features(images)
        return self.classifier(maps.flatten(1))


if __name__ == "__main__":
    scores = Digits()(torch.randn(8, 1, 28, 28))
    print(scores.shape)
