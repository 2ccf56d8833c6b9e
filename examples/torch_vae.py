"""A variational autoencoder with two defects that its author does not see: one in the forward pass, one in its gradients.

tensorproof check examples/torch_vae.py:Loss --phase training
"""

import torch
from torch import nn

# tensorproof: x = float32[N,16] in [0,1]


class Loss(nn.Module):
    """Reconstruction by hand, and a deviation as the root of a variance."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Linear(16, 8)
        self.log_variance = nn.Linear(16, 8)
        self.decoder = nn.Linear(8, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, log_variance = self.encoder(x), 200 * self.log_variance(x)
        deviation = torch.sqrt(torch.exp(log_variance.clamp(max=2)))
        z = mean + deviation * torch.randn_like(deviation)
        p = torch.sigmoid(8 * self.decoder(z))
        reconstruction = -(x * torch.log(p) + (1 - x) * torch.log(1 - p)).sum(-1)
        kl = 0.5 * (deviation**2 + mean**2 - 1 - log_variance).sum(-1)
        return (reconstruction + kl).mean()


class StableLoss(Loss):
    """The same with half the logarithm, and the loss on logits."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, log_variance = self.encoder(x), (200 * self.log_variance(x)).clamp(-20, 2)
        deviation = torch.exp(0.5 * log_variance)
        z = mean + deviation * torch.randn_like(deviation)
        logits = 8 * self.decoder(z)
        reconstruction = nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1)
        kl = 0.5 * (torch.exp(log_variance) + mean**2 - 1 - log_variance).sum(-1)
        return (reconstruction + kl).mean()
