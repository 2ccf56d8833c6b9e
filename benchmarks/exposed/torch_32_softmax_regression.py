"""Softmax regression on eight points with a sum loss: GRIST 32.

Defect: log(softmax(.)); a logit that is 104 below the largest one makes it minus infinity.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import optim

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1001)
args = parser.parse_args()

x_train = torch.FloatTensor(
    [[1, 2, 1, 1], [2, 1, 3, 2], [3, 1, 3, 4], [4, 1, 5, 5], [1, 7, 5, 5], [1, 2, 5, 6], [1, 6, 6, 6], [1, 7, 7, 7]]
)
y_train = torch.LongTensor([2, 2, 2, 1, 1, 1, 0, 0])
y_one_hot = torch.zeros(8, 3)
y_one_hot.scatter_(1, y_train.unsqueeze(1), 1)

W = torch.zeros((4, 3), requires_grad=True)
b = torch.zeros(1, requires_grad=True)
optimizer = optim.SGD([W, b], lr=0.1)

for epoch in range(args.steps):
    hypothesis = F.softmax(x_train.matmul(W) + b, dim=1)
    cost = (y_one_hot * -torch.log(hypothesis)).sum().mean()  # defect
    optimizer.zero_grad()
    cost.backward()
    optimizer.step()
    if epoch % 100 == 0:
        print(f"Epoch {epoch:4d} Cost: {cost.item():.6f}")
