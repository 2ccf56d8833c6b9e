"""Powers: a fractional one of a negative number, a negative one of zero, and a large one."""

from __future__ import annotations

from benchmarks.operator_cases.pairs import Family, Program

POWERS = Family("power")


@POWERS.program("NUM104", "Pow", image=(0, 1))
def gamma_correction(fixed: bool) -> Program:
    """An image is sharpened, which undershoots zero at edges, and gamma corrected."""
    import torch
    from torch import nn

    class Tone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            kernel = torch.tensor([[0.0, -1.0, 0.0], [-1.0, 5.0, -1.0], [0.0, -1.0, 0.0]])
            self.register_buffer("kernel", kernel.expand(3, 1, 3, 3).clone())

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            sharp = nn.functional.conv2d(image, self.kernel, padding=1, groups=3)
            if fixed:
                sharp = sharp.clamp(0.0, 1.0)
            return sharp ** (1 / 2.2)  # defect

    return Program(Tone(), {"image": torch.rand(1, 3, 8, 8)})


@POWERS.program("NUM104", "Pow", features=(-2, 6))
def generalised_mean_pooling(fixed: bool) -> Program:
    """Pooling by the cubic mean of features that are not rectified: the mean of cubes may be negative."""
    import torch
    from torch import nn

    class Pool(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = nn.Parameter(torch.tensor(3.0))
            self.head = nn.Linear(6, 4)

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            if fixed:
                features = features.clamp(min=1e-6)
            cubes = features * features * features
            pooled = cubes.mean(dim=(2, 3)) ** (1 / self.p)  # defect
            return self.head(pooled)

    return Program(Pool(), {"features": torch.rand(2, 6, 3, 3)})


@POWERS.program("NUM104", "Pow", step=(0, 1200))
def polynomial_decay(fixed: bool) -> Program:
    """A rate that falls as (1 - step / 1000) ** 0.9, asked for after the last step."""
    import torch

    def rate(step: torch.Tensor) -> torch.Tensor:
        left = 1 - step / 1000
        if fixed:
            left = left.clamp(min=0.0)
        return 1e-3 * left**0.9  # defect

    return Program(rate, {"step": torch.zeros(1)})


@POWERS.program("NUM104", "Pow", points=(-1, 1), centres=(-1, 1))
def inverse_distance_weights(fixed: bool) -> Program:
    """Interpolation with weights 1 / d^3, asked for at one of its own points."""
    import torch

    def weights(points: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
        distance = (points[:, None, :] - centres[None, :, :]).abs().sum(-1)
        if fixed:
            distance = distance.clamp(min=1e-3)
        weight = distance**-3  # defect
        return weight / weight.sum(-1, keepdim=True)

    return Program(weights, {"points": torch.rand(2, 2), "centres": torch.rand(3, 2)})


@POWERS.program("NUM202", "Pow", x=(-255, 255), support=(-255, 255))
def polynomial_kernel(fixed: bool) -> Program:
    """A polynomial kernel of degree 7 on pixels that nobody scaled."""
    import torch

    def kernel(x: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
        if fixed:
            x, support = x / 255, support / 255
        return (x @ support.T / 8 + 1) ** 7  # defect

    return Program(kernel, {"x": torch.rand(2, 64), "support": torch.rand(3, 64)})


@POWERS.program("NUM104", "Pow", code=(0, 1))
def perceptual_quantiser(fixed: bool) -> Program:
    """The transfer curve of HDR video: small codes give a negative base, unless it is cut at 0 as SMPTE ST 2084 says."""
    import torch

    def luminance(code: torch.Tensor) -> torch.Tensor:
        level = code ** (1 / 78.84375)
        base = level - 0.8359375
        if fixed:
            base = base.clamp(min=0.0)
        return (base / (18.8515625 - 18.6875 * level)) ** (1 / 0.1593017578125)  # defect

    return Program(luminance, {"code": torch.rand(2, 4)})
