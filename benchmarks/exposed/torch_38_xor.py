"""Logistic regression on XOR, which it cannot learn: GRIST 38.

Defect: log(p) and log(1 - p) of a sigmoid p. The classes are not separable, so no plain run gets to large logits.
"""

import argparse

import numpy as np
import torch

torch.manual_seed(777)

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2001)
args = parser.parse_args()

x_data = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.float32)
y_data = np.array([[0], [1], [1], [0]], dtype=np.float32)
X = torch.from_numpy(x_data)
Y = torch.from_numpy(y_data)

linear = torch.nn.Linear(2, 1, bias=True)
sigmoid = torch.nn.Sigmoid()
model = torch.nn.Sequential(linear, sigmoid)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for step in range(args.steps):
    optimizer.zero_grad()
    hypothesis = model(X)
    cost = Y * hypothesis.log()  # also
    cost = -(cost + (1 - Y) * (1 - hypothesis).log()).mean()  # defect
    cost.backward()
    optimizer.step()
    if step % 200 == 0:
        print(step, cost.item(), model[0].weight.detach().numpy())
