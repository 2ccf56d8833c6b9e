"""Softmax regression on eight points, the labels turned to one-hot rows in each step: GRIST 34.

Defect: log(softmax(.)), the mean over the points.
"""

import argparse

import torch


def onehot(classes, count):
    rows = torch.zeros(len(classes), count)
    return rows.scatter_(1, classes.view(-1, 1), 1.0)


def softmax_cost(logits, classes):
    p = torch.softmax(logits, 1)
    return torch.mean(torch.sum(onehot(classes, 3) * -torch.log(p), 1))  # defect


points = [[1, 2, 1, 1], [2, 1, 3, 2], [3, 1, 3, 4], [4, 1, 5, 5], [1, 7, 5, 5], [1, 2, 5, 6], [1, 6, 6, 6], [1, 7, 7, 7]]
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2001)
args = parser.parse_args()

x_train = torch.tensor(points, dtype=torch.float32)
y_train = torch.tensor([2, 2, 2, 1, 1, 1, 0, 0])
W = torch.zeros(4, 3).requires_grad_()
b = torch.zeros(1).requires_grad_()
optimizer = torch.optim.SGD((W, b), lr=0.1)

for step in range(args.steps):
    cost = softmax_cost(x_train @ W + b, y_train)
    optimizer.zero_grad()
    cost.backward()
    optimizer.step()
    if step % 200 == 0:
        print(f"step {step:5d} cost {cost:.5f}")
