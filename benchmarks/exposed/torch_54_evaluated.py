"""Softmax regression on eight points with Adam, evaluated on further points as it learns: GRIST 54.

Defect: log(softmax(.)), in the step and again in the evaluation, where no gradients are recorded.
"""

import argparse

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=501)
args = parser.parse_args()

x_train = torch.Tensor(
    [[1, 2, 1, 1], [2, 1, 3, 2], [3, 1, 3, 4], [4, 1, 5, 5], [1, 7, 5, 5], [1, 2, 5, 6], [1, 6, 6, 6], [1, 7, 7, 7]]
)
y_train = torch.Tensor([[0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0]])
x_test = torch.Tensor([[2, 1, 1, 1], [3, 1, 2, 2], [3, 3, 3, 4], [1, 6, 7, 7]])
y_test = torch.Tensor([[0, 0, 1], [0, 0, 1], [0, 1, 0], [1, 0, 0]])

W = torch.zeros((4, 3), requires_grad=True)
b = torch.zeros((1, 3), requires_grad=True)
optimizer = torch.optim.Adam([W, b], lr=0.1)


def evaluate():
    with torch.no_grad():
        p = F.softmax(x_test.matmul(W) + b, dim=1)
        return (-(y_test * torch.log(p)).sum(dim=1)).mean().item()  # also


for step in range(args.steps):
    p = F.softmax(x_train.matmul(W) + b, dim=1)
    loss = -(y_train * torch.log(p)).sum(dim=1).mean()  # defect
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.6f}, on other points {evaluate():.6f}")
