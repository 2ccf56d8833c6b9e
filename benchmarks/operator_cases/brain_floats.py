"""Bfloat16: eight bits of precision absorb what is added, and its largest number lies below that of float32."""

from __future__ import annotations

from benchmarks.operator_cases.pairs import Family, Program

BFLOAT16 = Family("bfloat16")


@BFLOAT16.program("NUM101", "Log", precision="bfloat16", p=(0, 1))
def absorbed_guard(fixed: bool) -> Program:
    """The guard of a logarithm is added to 1 first: 1.001 is 1 in bfloat16, and 1 - p is 0."""
    import torch

    def loss(p: torch.Tensor) -> torch.Tensor:
        rest = (1 - p) + 1e-3 if fixed else (1e-3 + torch.ones_like(p)) - p
        return -torch.log(rest).mean()  # defect

    return Program(loss, {"p": torch.rand(4)})


@BFLOAT16.program("NUM108", "Softmax", precision="bfloat16", scores=(-10, 10), mask={"values": [0, 1]})
def mask_of_wider_format(fixed: bool) -> Program:
    """The smallest number of float32 as a mask becomes minus infinity in bfloat16, and a row that is masked whole NaN."""
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            floor = torch.finfo(torch.bfloat16 if fixed else torch.float32).min
            self.register_buffer("floor", torch.tensor(floor))

        def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            masked = torch.where(mask > 0, scores, self.floor)
            return torch.softmax(masked, dim=-1)  # defect

    return Program(Attention(), {"scores": torch.rand(2, 4), "mask": torch.ones(2, 4)})


@BFLOAT16.program("NUM202", "Mul", precision="bfloat16", gradient=(-3e19, 3e19))
def gradient_norm(fixed: bool) -> Program:
    """The norm of gradients that a loss scale made large: squares beyond 3.4e38."""
    import torch

    def norm(gradient: torch.Tensor) -> torch.Tensor:
        largest = gradient.abs().amax().clamp(min=1.0)
        unit = gradient / largest if fixed else gradient
        length = (unit * unit).sum().sqrt()  # defect
        return length * largest if fixed else length

    return Program(norm, {"gradient": torch.rand(8)})


@BFLOAT16.program("NUM103", "Div", precision="bfloat16", x=(-100, 100))
def absorbed_difference(fixed: bool) -> Program:
    """A finite difference with a step of 0.001: at x = 1 and above x + 0.001 is x."""
    import torch

    def slope(x: torch.Tensor) -> torch.Tensor:
        step = x.abs() / 16 + 0.125 if fixed else 0.001
        moved = x + step
        return (torch.sin(moved) - torch.sin(x) + 0.01) / (moved - x)  # defect

    return Program(slope, {"x": torch.rand(4)})
