"""Samplers that send uniform numbers through logarithms, square roots and powers."""

from __future__ import annotations

import math

from benchmarks.operator_cases.pairs import Family, Program

SAMPLING = Family("sampling")

#: The largest number that `torch.rand` gives in float32.
LARGEST = 1 - 2.0**-24


@SAMPLING.program("NUM101", "Log", logits=(-5, 5), u=(0, 1))
def gumbel_noise(fixed: bool) -> Program:
    """Noise -log(-log(u)) of uniform numbers that may be 0 or 1."""
    import torch

    def relaxed(logits: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        if fixed:
            u = u.clamp(1e-6, 1 - 1e-6)
        noise = -torch.log(-torch.log(u))  # defect
        return torch.softmax((logits + noise) / 0.5, dim=-1)

    return Program(relaxed, {"logits": torch.rand(2, 4), "u": torch.rand(2, 4)})


@SAMPLING.program("NUM101", "Log", precision="float16", u=(0, 1))
def gumbel_in_half(fixed: bool) -> Program:
    """The same in float16 with the customary guards of 1e-10, which are 0 there."""
    import torch

    def noise(u: torch.Tensor) -> torch.Tensor:
        eps = 1e-4 if fixed else 1e-10
        inner = -torch.log(u + eps)  # defect
        return -torch.log(inner.clamp(min=0) + 1e-4)

    return Program(noise, {"u": torch.rand(6)})


@SAMPLING.program("NUM101", "Log", u=(0, LARGEST), v=(0, LARGEST))
def box_muller(fixed: bool) -> Program:
    """Normal numbers as sqrt(-2 log u) cos(2 pi v): uniform numbers may be 0, and 1 minus one of them may not."""
    import torch

    def drawn(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if fixed:
            u = 1 - u
        radius = torch.sqrt(-2 * torch.log(u))  # defect
        return radius * torch.cos(2 * math.pi * v)

    return Program(drawn, {"u": torch.rand(6), "v": torch.rand(6)})


@SAMPLING.program("NUM103", "Div", u=(0, LARGEST), raw=(-6, 6))
def exponential_times(fixed: bool) -> Program:
    """Waiting times -log(1 - u) / rate, with a rate that a ReLU makes 0."""
    import torch

    def times(u: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
        rate = torch.nn.functional.softplus(raw) if fixed else torch.relu(raw)
        return -torch.log1p(-u) / rate  # defect

    return Program(times, {"u": torch.rand(4), "raw": torch.rand(4)})


@SAMPLING.program("NUM104", "Pow", u=(0, LARGEST), shape=(0.5, 4))
def pareto_sizes(fixed: bool) -> Program:
    """Sizes u ** (-1 / shape) of uniform numbers that may be 0; 1 - u may not."""
    import torch

    def sizes(u: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
        if fixed:
            u = 1 - u
        return torch.pow(u, -1 / shape)  # defect

    return Program(sizes, {"u": torch.rand(4), "shape": torch.ones(4)})
