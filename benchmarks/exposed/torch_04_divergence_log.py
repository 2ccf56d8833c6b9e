"""Unit test of the divergence of a variational graph auto-encoder, as it was mutated: GRIST 4.

Defect: log(logvar), where the library has exp(logvar). The encoder of the test hands on its input, so the operand of the
logarithm is whatever the input is.
"""

import argparse

import torch


class VGAE(torch.nn.Module):
    """A variational auto-encoder of graphs, with its encoder given."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def reparametrize(self, mu, logvar):
        if self.training:
            return mu + torch.randn_like(logvar) * torch.exp(logvar)
        return mu

    def encode(self, *inputs):
        self.mu, self.logvar = self.encoder(*inputs)
        return self.reparametrize(self.mu, self.logvar)

    def kl_loss(self):
        spread = torch.log(self.logvar)  # defect
        return -0.5 * torch.mean(torch.sum(1 + self.logvar - self.mu**2 - spread, dim=1))


def test_vgae():
    model = VGAE(encoder=lambda x: (x, x))
    model.eval()
    x = torch.full((3, 2), 2.0)
    assert model.encode(x).tolist() == x.tolist()
    return model.kl_loss().item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    for _ in range(parser.parse_args().steps):
        print("kl loss", test_vgae())
