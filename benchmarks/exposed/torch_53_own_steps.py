"""Logistic regression on twelve numbers whose classes overlap, with the step written out: GRIST 53.

Defect: log(p) and log(1 - p) of a sigmoid p. No plain run gets to large logits.
"""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2001)
args = parser.parse_args()

x = torch.tensor([1, 2, 3, 4, 5, 2.5, 3.5, 0, 3.1, 2.7, 2.8, 2.9]).view(-1, 1)
y = torch.tensor([1.0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1]).view(-1, 1)
W = torch.zeros(1, 1, requires_grad=True)
b = torch.zeros(1, 1, requires_grad=True)
learning_rate = 1.0

for epoch in range(args.steps):
    hypothesis = torch.sigmoid(x @ W + b)
    error = -y * torch.log(hypothesis)  # also
    error -= (1 - y) * torch.log(1 - hypothesis)  # defect
    cost = error.mean()
    cost.backward()
    with torch.no_grad():
        W -= learning_rate * W.grad
        b -= learning_rate * b.grad
        W.grad.zero_()
        b.grad.zero_()
    if epoch % 200 == 0:
        print(f"epoch {epoch}: cost {cost.item():.5f}, W {W.item():.4f}, b {b.item():.4f}")
