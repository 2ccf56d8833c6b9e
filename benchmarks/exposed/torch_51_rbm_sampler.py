"""Restricted Boltzmann machine on digits without nn.Module, slices of one tensor: GRIST 51.

Defect: the free energy has log(1 + exp(.)), and the exponential overflows above 88.
"""

import argparse

import torch
from digits import draw


def sample(probability):
    """Zeros and ones with the probabilities given."""
    return torch.relu(torch.sign(probability - torch.rand_like(probability)))


class RBM:
    def __init__(self, visible, hidden, k=1):
        self.W = (torch.randn(hidden, visible) * 0.01).requires_grad_()
        self.v_bias = torch.zeros(visible, requires_grad=True)
        self.h_bias = torch.zeros(hidden, requires_grad=True)
        self.k = k

    def parameters(self):
        return [self.W, self.v_bias, self.h_bias]

    def reconstruct(self, v):
        h = sample(torch.sigmoid(v @ self.W.T + self.h_bias))
        for _ in range(self.k):
            v = sample(torch.sigmoid(h @ self.W + self.v_bias))
            h = sample(torch.sigmoid(v @ self.W.T + self.h_bias))
        return v

    def free_energy(self, v):
        activation = v @ self.W.T + self.h_bias
        softplus = torch.log(1 + torch.exp(activation))  # defect
        return torch.mean(-softplus.sum(dim=1) - v @ self.v_bias)


def main(steps, batch_size=64):
    pictures = torch.from_numpy(draw(2048)[0])
    rbm = RBM(784, 500)
    optimizer = torch.optim.SGD(rbm.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        start = step * batch_size % len(pictures)
        v = pictures[start : start + batch_size]
        loss = rbm.free_energy(v) - rbm.free_energy(rbm.reconstruct(v))
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1501)
    main(parser.parse_args().steps)
