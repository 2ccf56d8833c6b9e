"""Logistic regression on six points that a DataLoader shuffles: GRIST 56.

Defect: log(p) and log(1 - p) of a sigmoid p. The second one fails from a logit of 17 on, the first one below -89.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LogisticRegression(nn.Module):
    def __init__(self):
        super().__init__()
        self.W = nn.Parameter(torch.zeros(2, 1))
        self.b = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return torch.sigmoid(x @ self.W + self.b)


def cost_function(hypothesis, y):
    one = torch.log(hypothesis)  # also
    zero = torch.log(1 - hypothesis)  # defect
    return -(y * one + (1 - y) * zero).mean()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1001)
    args = parser.parse_args()

    x_train = torch.FloatTensor([[1, 2], [2, 3], [3, 1], [4, 3], [5, 3], [6, 2]])
    y_train = torch.FloatTensor([[0], [0], [0], [1], [1], [1]])
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=6, shuffle=True)
    model = LogisticRegression()
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    for epoch in range(args.steps):
        for x, y in loader:
            cost = cost_function(model(x), y)
            optimizer.zero_grad()
            cost.backward()
            optimizer.step()
        if epoch % 100 == 0:
            print("epoch", epoch, "cost", cost.item())
