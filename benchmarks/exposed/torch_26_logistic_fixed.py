"""Repaired twin of `torch_26_logistic.py`.

The sigmoid is held away from zero and one, by more than float32 loses.
"""

import argparse

import torch
from torch import optim

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1001)
args = parser.parse_args()

x_data = [[1, 2], [2, 3], [3, 1], [4, 3], [5, 3], [6, 2]]
y_data = [[0], [0], [0], [1], [1], [1]]
x_train = torch.FloatTensor(x_data)
y_train = torch.FloatTensor(y_data)

W = torch.zeros((2, 1), requires_grad=True)
b = torch.zeros(1, requires_grad=True)
optimizer = optim.SGD([W, b], lr=1)

for epoch in range(args.steps):
    hypothesis = torch.sigmoid(x_train.matmul(W) + b).clamp(1e-6, 1 - 1e-6)
    hit = y_train * torch.log(hypothesis)
    miss = (1 - y_train) * torch.log(1 - hypothesis)
    cost = -(hit + miss).mean()

    optimizer.zero_grad()
    cost.backward()
    optimizer.step()

    if epoch % 100 == 0:
        print(f"Epoch {epoch:4d}/{args.steps} Cost: {cost.item():.6f}")

print((torch.sigmoid(x_train.matmul(W) + b) >= 0.5).squeeze().tolist())
