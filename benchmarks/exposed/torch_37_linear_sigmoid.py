"""Logistic regression on six points with a linear layer, a seed of its own and a small rate: GRIST 37.

Defect: log(p) and log(1 - p) of a sigmoid p, in a class that is used like a criterion of the library.
"""

import argparse

import torch
from torch import nn

torch.manual_seed(777)


class CrossEntropy(nn.Module):
    def forward(self, hypothesis, y):
        first = y * torch.log(hypothesis)  # also
        second = (1 - y) * torch.log(1 - hypothesis)  # defect
        return -(first + second).mean()


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=5001)
args = parser.parse_args()

X = torch.tensor([[1, 2], [2, 3], [3, 1], [4, 3], [5, 3], [6, 2]], dtype=torch.float)
Y = torch.tensor([[0], [0], [0], [1], [1], [1]], dtype=torch.float)

model = nn.Sequential(nn.Linear(2, 1, bias=True), nn.Sigmoid())
criterion = CrossEntropy()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for step in range(args.steps):
    optimizer.zero_grad()
    cost = criterion(model(X), Y)
    cost.backward()
    optimizer.step()
    if step % 500 == 0:
        print(step, "cost", cost.data.numpy())

predicted = (model(X).data > 0.5).float()
print("Accuracy", (predicted == Y.data).float().mean().item())
