"""Logistic regression on six points in a module whose outputs a hook looks at: GRIST 33.

Defect: log(p) and log(1 - p) of a sigmoid p. The second one fails from a logit of 17 on, the first one below -89.
"""

import argparse

import torch
from torch import nn


class BinaryClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x):
        return torch.sigmoid(self.linear(x))


def binary_cross_entropy(p, y):
    losses = -y * torch.log(p)  # also
    losses = losses - (1 - y) * torch.log(1 - p)  # defect
    return losses.mean()


def main(steps):
    x_train = torch.tensor([[1.0, 2.0], [2.0, 3.0], [3.0, 1.0], [4.0, 3.0], [5.0, 3.0], [6.0, 2.0]])
    y_train = torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]])
    model = BinaryClassifier()
    seen = {}
    handle = model.linear.register_forward_hook(lambda module, inputs, output: seen.update(logit=output.detach().abs().max()))
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    for step in range(steps):
        cost = binary_cross_entropy(model(x_train), y_train)
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        if step % 100 == 0:
            print("step", step, "cost", cost.item(), "largest logit", seen["logit"].item())
    handle.remove()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1001)
    main(parser.parse_args().steps)
