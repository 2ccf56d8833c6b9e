"""The cost of softmax regression on random logits, with their derivatives: GRIST 57.

Defect: log(softmax(z)). Nothing is trained; z is drawn once, the classes are drawn again each time.
"""

import argparse

import torch
from torch import nn


def cost_of(z, y):
    p = nn.Softmax(dim=1)(z)
    picked = torch.zeros(z.size()).scatter(1, y.view(-1, 1), 1.0)
    return torch.mean(torch.sum(picked * -torch.log(p), dim=1))  # defect


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
args = parser.parse_args()

z = nn.init.uniform_(torch.empty(3, 5, requires_grad=True))
for step in range(args.steps):
    y = torch.randint(0, 5, (3,))
    cost = cost_of(z, y)
    (slope,) = torch.autograd.grad(cost, z)
    if step % 50 == 0:
        print("step", step, "cost", cost.item(), "slope", slope.abs().max().item())
