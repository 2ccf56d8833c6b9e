"""Logistic regression by hand on six points: the logarithm of 1 - p fails as soon as p rounds to 1.

tensorproof expose examples/torch_logistic.py --range x=-50:50
"""

import torch

x = torch.tensor([[1.0, 2.0], [2.0, 3.0], [3.0, 1.0], [4.0, 3.0], [5.0, 3.0], [6.0, 2.0]])
y = torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]])
w = torch.zeros((2, 1), requires_grad=True)
b = torch.zeros(1, requires_grad=True)
optimiser = torch.optim.SGD([w, b], lr=0.1)

for step in range(1000):
    p = torch.sigmoid(x @ w + b)
    loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    if step % 100 == 0:
        print(step, loss.item())
