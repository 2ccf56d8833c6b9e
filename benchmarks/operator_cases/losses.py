"""Losses: focal, Gaussian and Jensen-Shannon divergences, contrastive temperatures, and deviances of counts."""

from __future__ import annotations

from benchmarks.operator_cases.pairs import Family, Program

LOSSES = Family("loss")


@LOSSES.program("NUM101", "Log", logits=(-120, 120), y={"values": [0, 1]})
def focal_loss(fixed: bool) -> Program:
    """Focal loss of a detector: the logarithm of a sigmoid that underflows."""
    import torch
    from torch.nn.functional import logsigmoid

    def loss(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        signed = (2 * y - 1) * logits
        p = torch.sigmoid(signed)
        log_p = logsigmoid(signed) if fixed else torch.log(p)  # defect
        return -((1 - p) ** 2 * log_p).mean()

    return Program(loss, {"logits": torch.rand(2, 3), "y": torch.ones(2, 3)})


@LOSSES.program("NUM103", "Div", mean=(-2, 2), log_var=(-300, 10), prior_log_var=(-300, 10))
def gaussian_divergence(fixed: bool) -> Program:
    """The divergence of two Gaussians divides by the variance of the prior, exp(log_var), which underflows to 0."""
    import torch

    def divergence(mean: torch.Tensor, log_var: torch.Tensor, prior_log_var: torch.Tensor) -> torch.Tensor:
        if fixed:
            prior_log_var = prior_log_var.clamp(min=-20.0)
        spread = (log_var.exp() + mean * mean) / prior_log_var.exp()  # defect
        return 0.5 * (prior_log_var - log_var + spread - 1).sum(-1).mean()

    return Program(divergence, {name: torch.rand(2, 3) for name in ("mean", "log_var", "prior_log_var")})


@LOSSES.program("NUM201", "Exp", image=(-1, 1), text=(-1, 1), temperature=(0.005, 1))
def contrastive_temperature(fixed: bool) -> Program:
    """Exponentials of similarities over a learned temperature: at 0.005 a similarity of 1 is a logit of 200."""
    import torch
    from torch.nn.functional import normalize

    def loss(image: torch.Tensor, text: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
        if fixed:
            temperature = temperature.clamp(min=0.02)
        logits = normalize(image, dim=-1) @ normalize(text, dim=-1).T / temperature
        weights = torch.exp(logits)  # defect
        return -torch.log(weights.diagonal() / weights.sum(-1)).mean()

    return Program(loss, {"image": torch.rand(3, 4), "text": torch.rand(3, 4), "temperature": torch.ones(1)})


@LOSSES.program("NUM101", "Log", p="simplex", q="simplex")
def jensen_shannon(fixed: bool) -> Program:
    """The divergence of two distributions as p log(p / m): 0 times minus infinity where p is 0."""
    import torch

    def divergence(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        middle = ((p + q) / 2).clamp(min=1e-30)
        if fixed:
            gain = torch.xlogy(p, p) - torch.xlogy(p, middle)
        else:
            gain = p * torch.log(p) - torch.xlogy(p, middle)  # defect
        return gain.sum(-1).mean()

    return Program(divergence, {"p": torch.full((2, 4), 0.25), "q": torch.full((2, 4), 0.25)})


@LOSSES.program("NUM101", "Log", count=(0, 30), rate=(0.1, 30))
def poisson_deviance(fixed: bool) -> Program:
    """The deviance y log(y / rate) - (y - rate) of counts, of which many are 0."""
    import torch

    def deviance(count: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        ratio = count / rate
        gain = torch.xlogy(count, ratio.clamp(min=1e-30)) if fixed else count * torch.log(ratio)  # defect
        return 2 * (gain - (count - rate)).mean()

    return Program(deviance, {"count": torch.ones(2, 3), "rate": torch.ones(2, 3)})


@LOSSES.program("NUM103", "Div", prediction=(-2, 2), target=(-2, 2))
def scale_invariant_ratio(fixed: bool) -> Program:
    """A signal to distortion ratio: the projection divides by the energy of a target that may be silent."""
    import torch

    def ratio(prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        energy = target.square().sum(-1, keepdim=True)
        if fixed:
            energy = energy + 1e-6
        projected = (prediction * target).sum(-1, keepdim=True) / energy * target  # defect
        noise = (prediction - projected).square().sum(-1)
        return (projected.square().sum(-1) / (noise + 1e-3)).mean()

    return Program(ratio, {"prediction": torch.rand(2, 8), "target": torch.rand(2, 8)})
