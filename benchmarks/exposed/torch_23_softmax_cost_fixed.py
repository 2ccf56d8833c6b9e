"""Repaired twin of `torch_23_softmax_cost.py`.

The logarithm of the softmax is computed as one function.
"""

import argparse

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
args = parser.parse_args()

z = torch.rand(3, 5, requires_grad=True)
hypothesis = F.softmax(z, dim=1)
print(hypothesis.sum(dim=1))

for step in range(args.steps):
    y = torch.randint(5, (3,)).long()
    y_one_hot = torch.zeros_like(hypothesis)
    y_one_hot.scatter_(1, y.unsqueeze(1), 1)
    cost = (y_one_hot * -F.log_softmax(z, dim=1)).sum(dim=1).mean()
    if step % 50 == 0:
        print(f"{step}: cost {cost:.6f}")
