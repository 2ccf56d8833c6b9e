"""Restricted Boltzmann machine on pictures that two worker processes load: GRIST 62.

Defect: the free energy has log(1 + exp(.)), and the exponential overflows above 88.
"""

import argparse

import torch
from digits import draw
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Pictures as tensors of shape 1, 28, 28, with numbers in [0, 1]."""

    def __init__(self, count, seed=62):
        images, self.labels = draw(count, seed=seed)
        self.images = (images * 255).astype("uint8").reshape(-1, 1, 28, 28)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return torch.from_numpy(self.images[index]).float().div(255), int(self.labels[index])


class RBM(nn.Module):
    def __init__(self, visible=784, hidden=500):
        super().__init__()
        self.W = nn.Parameter(torch.randn(hidden, visible).mul(0.01))
        self.v_bias = nn.Parameter(torch.zeros(visible))
        self.h_bias = nn.Parameter(torch.zeros(hidden))

    @staticmethod
    def bernoulli(p):
        return torch.relu(torch.sign(p - torch.rand(p.shape)))

    def forward(self, v):
        h = self.bernoulli(torch.sigmoid(nn.functional.linear(v, self.W, self.h_bias)))
        return self.bernoulli(torch.sigmoid(nn.functional.linear(h, self.W.t(), self.v_bias)))

    def free_energy(self, v):
        hidden = nn.functional.linear(v, self.W, self.h_bias)
        exponential = hidden.exp()  # defect
        return (-(1 + exponential).log().sum(dim=1) - v.matmul(self.v_bias)).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1001)
    steps = parser.parse_args().steps

    loader = DataLoader(Pictures(4096), batch_size=64, shuffle=True, num_workers=2)
    rbm = RBM()
    optimizer = torch.optim.Adam(rbm.parameters(), lr=0.005)
    step = 0
    while step < steps:
        for pictures, _ in loader:
            v = pictures.view(-1, 784)
            v1 = rbm(v)
            loss = rbm.free_energy(v) - rbm.free_energy(v1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 50 == 0:
                print("step", step, "loss", loss.item())
            step += 1
            if step == steps:
                break


if __name__ == "__main__":
    main()
