"""The cost of softmax regression as a module that holds random logits; one evaluation, and the program ends: GRIST 27.

Defect: log(softmax(z)), z a parameter drawn from [0, 1).
"""

import argparse

import torch
from torch import nn


class SoftmaxCost(nn.Module):
    def __init__(self, rows=3, classes=5):
        super().__init__()
        self.z = nn.Parameter(torch.rand(rows, classes))

    def forward(self, y):
        p = self.z.softmax(dim=1)
        one_hot = torch.zeros_like(p).scatter_(1, y.unsqueeze(1), 1)
        return (one_hot * -p.log()).sum(dim=1).mean()  # defect


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    model = SoftmaxCost()
    for _ in range(parser.parse_args().steps):
        cost = model(torch.randint(5, (3,)))
        print("cost", cost.item())


main()
