"""Restricted Boltzmann machine on digits with Adam, batches taken from one tensor by random indices: GRIST 63.

Defect: the free energy has log(1 + exp(.)), and the exponential overflows above 88.
"""

import argparse

import torch
from digits import draw
from torch import nn


class BoltzmannMachine(nn.Module):
    def __init__(self, n_visible, n_hidden):
        super().__init__()
        self.W = nn.Parameter(torch.randn(n_hidden, n_visible) * 0.01)
        self.v_bias = nn.Parameter(torch.zeros(n_visible))
        self.h_bias = nn.Parameter(torch.zeros(n_hidden))

    def to_hidden(self, v):
        return torch.sigmoid(torch.addmm(self.h_bias, v, self.W.t()))

    def to_visible(self, h):
        return torch.sigmoid(torch.addmm(self.v_bias, h, self.W))

    def gibbs(self, v):
        h = self.draw(self.to_hidden(v))
        return self.draw(self.to_visible(h))

    def draw(self, p):
        return torch.relu(torch.sign(p - torch.empty_like(p).uniform_()))

    def energy(self, v):
        a = torch.addmm(self.h_bias, v, self.W.t())
        e = torch.exp(a)  # defect
        return -torch.log(1 + e).sum(1).mean() - (v * self.v_bias).sum(1).mean()


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1001)
args = parser.parse_args()

pictures = torch.from_numpy(draw(2000, seed=63)[0])
machine = BoltzmannMachine(784, 500)
optimizer = torch.optim.Adam(machine.parameters(), lr=0.005)
for step in range(args.steps):
    v = pictures[torch.randperm(len(pictures))[:64]]
    loss = machine.energy(v) - machine.energy(machine.gibbs(v))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"{step:5d} loss {loss.detach():.5f}")
