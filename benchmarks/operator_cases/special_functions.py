"""Log1p, expm1, xlogy, lgamma and digamma at the ends of their domains; softplus and logsumexp written by hand."""

from __future__ import annotations

from benchmarks.operator_cases.pairs import Family, Program

SPECIAL = Family("special function")


@SPECIAL.program("NUM101", "tensorproof::Log1p", p=(0, 1))
def bernoulli_entropy(fixed: bool) -> Program:
    """The entropy of a coin, with log1p(-p) for the other side: minus infinity at p = 1."""
    import torch

    def entropy(p: torch.Tensor) -> torch.Tensor:
        if fixed:
            p = p.clamp(1e-6, 1 - 1e-6)
        return -(torch.xlogy(p, p) + (1 - p) * torch.log1p(-p)).mean()  # defect

    return Program(entropy, {"p": torch.rand(6)})


@SPECIAL.program("NUM101", "tensorproof::Log1p", features=(-4, 4))
def discrete_survival(fixed: bool) -> Program:
    """Log survival as a running sum of log1p(-hazard): the hazard rounds to 1 from a logit of 17 on."""
    import torch
    from torch import nn

    class Survival(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logits = nn.Linear(8, 5)
            nn.init.normal_(self.logits.weight)

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            logits = self.logits(features)
            if fixed:
                alive = nn.functional.logsigmoid(-logits)
            else:
                alive = torch.log1p(-torch.sigmoid(logits))  # defect
            return alive.cumsum(-1)

    return Program(Survival(), {"features": torch.rand(2, 8)})


@SPECIAL.program("NUM101", "tensorproof::Log1p", change=(-1, 3))
def log_returns(fixed: bool) -> Program:
    """Relative changes of prices as logarithms: a price that falls to nothing is a change of -1."""
    import torch
    from torch import nn

    class Forecast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.hidden = nn.Linear(6, 8)
            self.head = nn.Linear(8, 1)

        def forward(self, change: torch.Tensor) -> torch.Tensor:
            if fixed:
                change = change.clamp(min=-0.99)
            steps = torch.log1p(change)  # defect
            return self.head(torch.relu(self.hidden(steps)))

    return Program(Forecast(), {"change": torch.rand(2, 6)})


@SPECIAL.program("NUM117", "tensorproof::Lgamma", count=(0, 50), features=(-3, 3))
def negative_binomial_loss(fixed: bool) -> Program:
    """Counts with a dispersion that a ReLU makes positive, and sometimes zero: lgamma(0) is infinite."""
    import torch
    from torch import nn

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean = nn.Linear(4, 3)
            self.dispersion = nn.Linear(4, 3)

        def forward(self, features: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
            mu = nn.functional.softplus(self.mean(features)) + 1e-3
            raw = self.dispersion(features)
            r = nn.functional.softplus(raw) + 1e-3 if fixed else torch.relu(raw)
            choose = torch.lgamma(count + r + 1) - torch.lgamma(r) - torch.lgamma(count + 1)  # defect
            return -(choose + count * torch.log(mu / (mu + r)) - r * torch.log1p(mu)).mean()

    return Program(Loss(), {"features": torch.rand(2, 4), "count": torch.ones(2, 3)})


@SPECIAL.program("NUM117", "tensorproof::Digamma", logits=(-5, 5))
def beta_divergence(fixed: bool) -> Program:
    """The entropy of a predicted Beta distribution: a ReLU makes its concentrations zero, where digamma has its pole."""
    import torch
    from torch import nn

    def entropy(logits: torch.Tensor) -> torch.Tensor:
        alpha = nn.functional.softplus(logits) + 0.01 if fixed else torch.relu(logits)
        total = alpha.sum(-1) + 1.0
        spread = (alpha * torch.digamma(alpha)).sum(-1)  # defect
        return (torch.digamma(total) - spread).mean()

    return Program(entropy, {"logits": torch.rand(4, 2)})


@SPECIAL.program("NUM117", "tensorproof::Lgamma", logits=(-8, 8))
def dirichlet_evidence(fixed: bool) -> Program:
    """Evidential classification: concentrations are the evidence plus one; without the one they may be zero."""
    import torch

    def penalty(logits: torch.Tensor) -> torch.Tensor:
        evidence = torch.relu(logits)
        alpha = evidence + 1 if fixed else evidence
        total = alpha.sum(-1) + 1e-3
        normaliser = torch.lgamma(total) - torch.lgamma(alpha).sum(-1)  # defect
        return normaliser.mean()

    return Program(penalty, {"logits": torch.rand(3, 4)})


@SPECIAL.program("NUM101", "tensorproof::Xlogy", p=(0, 1), y=(0, 1))
def soft_cross_entropy(fixed: bool) -> Program:
    """Cross entropy with soft targets by xlogy, which mends 0 log 0 and not y log 0."""
    import torch

    def loss(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if fixed:
            p = p.clamp(min=1e-7)
        return -torch.xlogy(y, p).sum(-1).mean()  # defect

    return Program(loss, {"p": torch.rand(2, 3), "y": torch.rand(2, 3)})


@SPECIAL.program("NUM201", "tensorproof::Expm1", scale=(0.01, 120))
def inverse_softplus(fixed: bool) -> Program:
    """The number whose softplus is a given scale, log(expm1(scale)): expm1 overflows above 88.7."""
    import torch

    def raw(scale: torch.Tensor) -> torch.Tensor:
        if fixed:
            return scale + torch.log(-torch.expm1(-scale))
        return torch.log(torch.expm1(scale))  # defect

    return Program(raw, {"scale": torch.rand(4)})


@SPECIAL.program("NUM201", "Exp", logits=(-120, 120))
def mixture_of_experts(fixed: bool) -> Program:
    """The log evidence of a mixture as log(sum(exp(x)))."""
    import torch

    def evidence(logits: torch.Tensor) -> torch.Tensor:
        if fixed:
            return torch.logsumexp(logits, -1).mean()
        return torch.log(torch.exp(logits).sum(-1)).mean()  # defect

    return Program(evidence, {"logits": torch.rand(2, 5)})


@SPECIAL.program("NUM201", "Exp", x=(0, 60), y=(-1, 1))
def softplus_scale(fixed: bool) -> Program:
    """The scale of a predicted Laplace distribution as log(1 + exp(h)), behind a layer that doubles its input."""
    import torch
    from torch import nn

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            with torch.no_grad():
                self.linear.weight.copy_(torch.eye(4) * 2)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            h = self.linear(x)
            scale = (nn.functional.softplus(h) if fixed else torch.log(1 + torch.exp(h))) + 1e-3  # defect
            return (torch.log(2 * scale) + y.abs() / scale).mean()

    return Program(Loss(), {"x": torch.rand(2, 4), "y": torch.rand(2, 4)})
