"""Repaired twin of `torch_22_rbm.py`.

The logarithm of one plus an exponential is softplus.
"""

import argparse

import torch
import torch.nn.functional as F
from digits import draw
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class RBM(nn.Module):
    def __init__(self, n_vis=784, n_hin=500, k=1):
        super().__init__()
        self.W = nn.Parameter(torch.randn(n_hin, n_vis) * 1e-2)
        self.v_bias = nn.Parameter(torch.zeros(n_vis))
        self.h_bias = nn.Parameter(torch.zeros(n_hin))
        self.k = k

    def sample_from_p(self, p):
        return F.relu(torch.sign(p - torch.rand(p.size())))

    def v_to_h(self, v):
        p_h = torch.sigmoid(F.linear(v, self.W, self.h_bias))
        return p_h, self.sample_from_p(p_h)

    def h_to_v(self, h):
        p_v = torch.sigmoid(F.linear(h, self.W.t(), self.v_bias))
        return p_v, self.sample_from_p(p_v)

    def forward(self, v):
        _, h_ = self.v_to_h(v)
        for _ in range(self.k):
            _, v_ = self.h_to_v(h_)
            _, h_ = self.v_to_h(v_)
        return v, v_

    def free_energy(self, v):
        vbias_term = v.mv(self.v_bias)
        wx_b = F.linear(v, self.W, self.h_bias)
        hidden_term = F.softplus(wx_b).sum(1)
        return (-hidden_term - vbias_term).mean()


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1501)
args = parser.parse_args()

images, labels = draw(2048)
train_loader = DataLoader(TensorDataset(torch.from_numpy(images), torch.from_numpy(labels)), batch_size=64)

rbm = RBM()
train_op = optim.SGD(rbm.parameters(), 0.1)
step = 0
while step < args.steps:
    for data, _ in train_loader:
        v, v1 = rbm(data)
        loss = rbm.free_energy(v) - rbm.free_energy(v1)
        if step % 100 == 0:
            print("step", step, "loss", loss.item())
        train_op.zero_grad()
        loss.backward()
        train_op.step()
        step += 1
        if step == args.steps:
            break
