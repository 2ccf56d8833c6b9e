"""Values that are finite with derivatives that are not: roots and norms at 0, acos at 1, branches that are not selected."""

from __future__ import annotations

from benchmarks.operator_cases.pairs import Family, Program

DERIVATIVES = Family("derivative")


@DERIVATIVES.program("NUM401", "Sqrt", phase="training", anchor=(-1, 1), positive=(-1, 1))
def triplet_distance(fixed: bool) -> Program:
    """The Euclidean distance of two embeddings of the same picture: the square root at 0."""
    import torch

    def distance(anchor: torch.Tensor, positive: torch.Tensor) -> torch.Tensor:
        squares = (anchor - positive).square().sum(-1)
        if fixed:
            squares = squares + 1e-8
        return torch.sqrt(squares).mean()  # defect

    return Program(distance, {"anchor": torch.rand(3, 4), "positive": torch.rand(3, 4)})


@DERIVATIVES.program("NUM401", "Sqrt", phase="training", features=(-1, 1))
def minibatch_deviation(fixed: bool) -> Program:
    """The deviation over a batch that a discriminator sees: the root of a variance that is 0 when all samples agree."""
    import torch

    def deviation(features: torch.Tensor) -> torch.Tensor:
        variance = features.var(0, unbiased=False)
        if fixed:
            variance = variance + 1e-8
        return variance.sqrt().mean()  # defect

    return Program(deviation, {"features": torch.rand(4, 3)})


@DERIVATIVES.program("NUM401", "Pow", phase="training", pooled=(-4, 4))
def signed_power(fixed: bool) -> Program:
    """The signed square root of bilinear pooling, |x| ** 0.5, at 0."""
    import torch

    def scaled(pooled: torch.Tensor) -> torch.Tensor:
        size = pooled.abs()
        if fixed:
            size = size + 1e-6
        return (torch.sign(pooled) * size**0.5).sum()  # defect

    return Program(scaled, {"pooled": torch.rand(2, 6)})


@DERIVATIVES.program("NUM402", "Acos", phase="training", first=(-1, 1), second=(-1, 1))
def rotation_loss(fixed: bool) -> Program:
    """The angle between two quaternions, with its cosine held in the domain of acos, and not inside of it."""
    import torch
    from torch.nn.functional import normalize

    def angle(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        cosine = (normalize(first, dim=-1) * normalize(second, dim=-1)).sum(-1)
        limit = 1 - 1e-5 if fixed else 1.0
        return torch.acos(cosine.clamp(-limit, limit)).mean()  # defect

    return Program(angle, {"first": torch.rand(3, 4), "second": torch.rand(3, 4)})


@DERIVATIVES.program("NUM401", "Pow", phase="training", linear=(0, 1))
def display_curve(fixed: bool) -> Program:
    """The sRGB curve: below 0.0031308 the straight part is chosen, and the power's derivative at 0 is infinite all the same."""
    import torch

    def encoded(linear: torch.Tensor) -> torch.Tensor:
        base = linear.clamp(min=0.0031308) if fixed else linear
        curved = 1.055 * base ** (1 / 2.4) - 0.055  # defect
        return torch.where(linear <= 0.0031308, 12.92 * linear, curved).sum()

    return Program(encoded, {"linear": torch.rand(2, 4)})


@DERIVATIVES.program("NUM404", "Log", phase="training", x=(-3, 3))
def guarded_logarithm(fixed: bool) -> Program:
    """A logarithm that `where` guards on the outside: its derivative is taken at numbers that were not selected."""
    import torch

    def features(x: torch.Tensor) -> torch.Tensor:
        inside = torch.where(x > 0.1, x, 1.0) if fixed else x
        return torch.where(x > 0.1, torch.log(inside), x).sum()  # defect

    return Program(features, {"x": torch.rand(4)})


@DERIVATIVES.program("NUM404", "Div", phase="training", hits=(0, 5), total=(0, 5))
def guarded_ratio(fixed: bool) -> Program:
    """Precision of a detector, 0 where nothing was detected: the division is differentiated there, too."""
    import torch

    def precision(hits: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        divisor = torch.where(total > 0.5, total, 1.0) if fixed else total
        return torch.where(total > 0.5, hits / divisor, 0.0).sum()  # defect

    return Program(precision, {"hits": torch.rand(4), "total": torch.rand(4)})


@DERIVATIVES.program("NUM404", "Exp", phase="training", x=(-100, 100))
def guarded_exponential(fixed: bool) -> Program:
    """An exponential linear unit by hand: the exponential overflows where it is not selected."""
    import torch

    def unit(x: torch.Tensor) -> torch.Tensor:
        below = x.clamp(max=0.0) if fixed else x
        return torch.where(x > 0, x, torch.exp(below) - 1).sum()  # defect

    return Program(unit, {"x": torch.rand(4)})


@DERIVATIVES.program("NUM401", "Sqrt", phase="training", x=(-2, 2))
def spectral_magnitude(fixed: bool) -> Program:
    """The magnitude of a learned spectrum, in a logarithm that is guarded: the square root is not, and silence is 0."""
    import torch
    from torch import nn

    class Spectrum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.real = nn.Linear(6, 4, bias=False)
            self.imaginary = nn.Linear(6, 4, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            energy = self.real(x).square() + self.imaginary(x).square()
            if fixed:
                energy = energy + 1e-8
            magnitude = torch.sqrt(energy)  # defect
            return torch.log(magnitude + 1e-3).mean()

    return Program(Spectrum(), {"x": torch.rand(2, 6)})


@DERIVATIVES.program("NUM402", "Asin", phase="training", chord=(0, 2))
def haversine_distance(fixed: bool) -> Program:
    """Distances on a sphere, 2 asin(chord / 2): points that lie opposite to each other have a chord of 2."""
    import torch

    def distance(chord: torch.Tensor) -> torch.Tensor:
        limit = 1 - 1e-5 if fixed else 1.0
        return 2 * torch.asin((chord / 2).clamp(-limit, limit)).square().mean()  # defect

    return Program(distance, {"chord": torch.rand(4)})
