"""Softmax regression on eight points, in slices of four, with an optimiser of its own: GRIST 47.

Defect: log(softmax(.)), the mean over the points.
"""

import argparse

import torch


class GradientDescent:
    """Steps against the gradient; the tensors are changed in place."""

    def __init__(self, parameters, lr):
        self.parameters = list(parameters)
        self.lr = lr

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self):
        for parameter in self.parameters:
            parameter.data.sub_(self.lr * parameter.grad)


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2001)
args = parser.parse_args()

x = torch.tensor(
    [[1, 2, 1, 1], [2, 1, 3, 2], [3, 1, 3, 4], [4, 1, 5, 5], [1, 7, 5, 5], [1, 2, 5, 6], [1, 6, 6, 6], [1, 7, 7, 7]]
).float()
y = torch.eye(3)[[2, 2, 2, 1, 1, 1, 0, 0]]
order = torch.tensor([0, 3, 6, 1, 4, 7, 2, 5])
x, y = x[order], y[order]

W = torch.zeros(4, 3, requires_grad=True)
b = torch.zeros(3, requires_grad=True)
optimizer = GradientDescent([W, b], lr=0.1)

for step in range(args.steps):
    start = step % 2 * 4
    xs, ys = x[start : start + 4], y[start : start + 4]
    hypothesis = torch.softmax(xs.mm(W) + b, dim=1)
    cost = (ys * -torch.log(hypothesis)).sum(dim=1).mean()  # defect
    optimizer.zero_grad()
    cost.backward()
    optimizer.step()
    if step % 200 == 0:
        print("step", step, "cost", float(cost.detach()))
