"""Inverse functions at the ends of their domains: acos, asin, atanh, erfinv, logit; and what becomes of tan."""

from __future__ import annotations

import math

from benchmarks.operator_cases.pairs import Family, Program

INVERSES = Family("inverse function")


@INVERSES.program("NUM105", "Acos", embedding=(0.1, 1))
def angular_margin(fixed: bool) -> Program:
    """A face classifier with an angular margin: the product of two unit vectors exceeds 1 by a rounding error."""
    import torch
    from torch import nn

    class Margin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.centres = nn.Parameter(torch.rand(4, 8) + 0.1)

        def forward(self, embedding: torch.Tensor) -> torch.Tensor:
            unit = nn.functional.normalize(embedding, dim=-1)
            cosine = (unit[:, None] * nn.functional.normalize(self.centres, dim=-1)[None]).sum(-1)
            if fixed:
                cosine = cosine.clamp(-1.0, 1.0)
            angle = torch.acos(cosine)  # defect
            return 16 * torch.cos(angle + 0.3)

    return Program(Margin(), {"embedding": torch.rand(3, 8)})


@INVERSES.program("NUM105", "Acos", first=(-1, 1), second=(-1, 1))
def geodesic_distance(fixed: bool) -> Program:
    """The angle between two predicted rotations, whose matrices need not be orthogonal."""
    import torch

    def distance(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        trace = (first * second).sum(dim=(-2, -1))
        cosine = (trace - 1) / 2
        if fixed:
            cosine = cosine.clamp(-1.0, 1.0)
        return torch.acos(cosine).mean()  # defect

    return Program(distance, {"first": torch.rand(2, 3, 3), "second": torch.rand(2, 3, 3)})


@INVERSES.program("NUM103", "Div", start=(-1, 1), end=(-1, 1), t=(0, 1))
def spherical_interpolation(fixed: bool) -> Program:
    """Interpolation along a great circle divides by the sine of the angle, which is 0 between equal directions."""
    import torch
    from torch.nn.functional import normalize

    def slerp(start: torch.Tensor, end: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        cosine = (normalize(start, dim=-1) * normalize(end, dim=-1)).sum(-1, keepdim=True)
        limit = 0.9995 if fixed else 1.0
        angle = torch.acos(cosine.clamp(-limit, limit))
        left, right = torch.sin((1 - t) * angle), torch.sin(t * angle)
        return (left * start + right * end) / torch.sin(angle)  # defect

    return Program(slerp, {"start": torch.rand(2, 4), "end": torch.rand(2, 4), "t": torch.rand(2, 1)})


@INVERSES.program("NUM105", "Asin", q=(-1, 1))
def pitch_of_quaternion(fixed: bool) -> Program:
    """Euler angles of a unit quaternion: at the pole the sine of the pitch rounds to more than 1."""
    import torch

    def pitch(q: torch.Tensor) -> torch.Tensor:
        w, x, y, z = (q / q.norm(dim=-1, keepdim=True).clamp(min=1e-6)).unbind(-1)
        sine = 2 * (w * y - z * x)
        if fixed:
            sine = sine.clamp(-1.0, 1.0)
        return torch.asin(sine)  # defect

    return Program(pitch, {"q": torch.rand(8, 4)})


@INVERSES.program("NUM105", "Atanh", action=(-1, 1))
def squashed_action(fixed: bool) -> Program:
    """The density of a policy's action tanh(u) needs u = atanh(action), and actions are clipped to [-1, 1]."""
    import torch
    from torch import nn

    class Policy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean = nn.Parameter(torch.zeros(2))
            self.log_std = nn.Parameter(torch.zeros(2))

        def forward(self, action: torch.Tensor) -> torch.Tensor:
            if fixed:
                action = action.clamp(-1 + 1e-6, 1 - 1e-6)
            raw = torch.atanh(action)  # defect
            score = -0.5 * ((raw - self.mean) / self.log_std.exp()) ** 2 - self.log_std
            return score.sum(-1)

    return Program(Policy(), {"action": torch.rand(4, 2)})


@INVERSES.program("NUM105", "tensorproof::Logit", probability=(0, 1))
def ensemble_of_logits(fixed: bool) -> Program:
    """Probabilities of several models are averaged as logits: NaN where one is sure of 0 and another of 1."""
    import torch

    def mixed(probability: torch.Tensor) -> torch.Tensor:
        eps = 1e-6 if fixed else None
        logits = torch.logit(probability, eps=eps)  # defect
        return torch.sigmoid(logits.mean(0))

    return Program(mixed, {"probability": torch.rand(3, 5)})


@INVERSES.program("NUM105", "tensorproof::Erfinv", u=(0, 1))
def truncated_normal(fixed: bool) -> Program:
    """Normal numbers out of uniform ones by the inverse of the error function, infinite at 0 and at 1."""
    import torch

    def drawn(u: torch.Tensor) -> torch.Tensor:
        z = 2 * u - 1
        if fixed:
            z = z.clamp(-0.999999, 0.999999)
        return math.sqrt(2) * torch.erfinv(z)  # defect

    return Program(drawn, {"u": torch.rand(8)})


@INVERSES.program("NUM103", "Reciprocal", view=(0, math.pi / 2))
def focal_length(fixed: bool) -> Program:
    """A focal length out of a predicted field of view, which may be 0."""
    import torch

    def length(view: torch.Tensor) -> torch.Tensor:
        if fixed:
            view = view.clamp(min=0.05)
        return 0.5 * 640 / torch.tan(view / 2)  # defect

    return Program(length, {"view": torch.rand(4)})


@INVERSES.program("NUM202", "Mul", precision="float16", u=(0, 1))
def cauchy_noise(fixed: bool) -> Program:
    """Heavy-tailed noise in float16: tan is 2,000 at the number next to pi / 2, which the scale carries past the format."""
    import torch

    def noise(u: torch.Tensor) -> torch.Tensor:
        if fixed:
            u = u.clamp(0.01, 0.99)
        return 64 * torch.tan(math.pi * (u - 0.5))  # defect

    return Program(noise, {"u": torch.rand(8)})
