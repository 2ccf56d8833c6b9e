"""Divisions by norms, deviations, counts and areas that may be zero; reciprocals, rsqrt and remainders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.operator_cases.pairs import Family, Program, onnx_file

if TYPE_CHECKING:
    import onnx

RATIOS = Family("ratio")


@RATIOS.program("NUM103", "Div", query=(-1, 1), keys=(-1, 1))
def cosine_retrieval(fixed: bool) -> Program:
    """Cosine similarity of a query and keys, by hand: an empty document is the zero vector."""
    import torch

    def similarity(query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        lengths = query.norm(dim=-1, keepdim=True) * keys.norm(dim=-1)
        if fixed:
            lengths = lengths.clamp(min=1e-8)
        return (query @ keys.T) / lengths  # defect

    return Program(similarity, {"query": torch.rand(2, 4), "keys": torch.rand(3, 4)})


@RATIOS.program("NUM103", "Div", series=(-10, 10))
def standardised_series(fixed: bool) -> Program:
    """Each series is brought to mean 0 and deviation 1; a sensor that stands still has none."""
    import torch

    def standardised(series: torch.Tensor) -> torch.Tensor:
        mean = series.mean(-1, keepdim=True)
        deviation = series.std(-1, keepdim=True)
        if fixed:
            deviation = deviation + 1e-5
        return (series - mean) / deviation  # defect

    return Program(standardised, {"series": torch.rand(3, 16)})


@RATIOS.program("NUM103", "Div", x=(-1, 1), keep=(0, 1))
def pruned_weight_norm(fixed: bool) -> Program:
    """Weight normalisation of a layer whose weights are pruned: a unit that loses all of them has norm 0."""
    import torch
    from torch import nn

    class Pruned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.direction = nn.Parameter(torch.randn(3, 5))
            self.gain = nn.Parameter(torch.ones(3, 1))

        def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            kept = self.direction * keep
            norm = kept.norm(dim=1, keepdim=True)
            if fixed:
                norm = norm.clamp(min=1e-6)
            weight = self.gain * kept / norm  # defect
            return x @ weight.T

    return Program(Pruned(), {"x": torch.rand(2, 5), "keep": torch.ones(3, 5)})


@RATIOS.program("NUM103", "Reciprocal", counts=(0, 1000))
def balanced_class_weights(fixed: bool) -> Program:
    """Weights of classes are reciprocals of their counts; a class may not occur in a batch."""
    import torch

    def weights(counts: torch.Tensor) -> torch.Tensor:
        if fixed:
            counts = counts.clamp(min=1.0)
        inverse = torch.reciprocal(counts)  # defect
        return inverse / inverse.sum()

    return Program(weights, {"counts": torch.ones(6)})


@RATIOS.program("NUM103", "Reciprocal", adjacency={"values": [0, 1]}, features=(-1, 1))
def graph_convolution(fixed: bool) -> Program:
    """Symmetric normalisation of an adjacency matrix: an isolated node has degree 0, unless it is joined to itself."""
    import torch
    from torch import nn

    class Convolution(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, adjacency: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
            if fixed:
                adjacency = adjacency + torch.eye(5)
            scale = torch.rsqrt(adjacency.sum(-1))  # defect
            spread = scale[:, None] * adjacency * scale[None, :]
            return torch.relu(spread @ self.linear(features))

    return Program(Convolution(), {"adjacency": torch.ones(5, 5), "features": torch.rand(5, 3)})


@RATIOS.program("NUM103", "Reciprocal", tokens=(-1, 1))
def root_mean_square_norm(fixed: bool) -> Program:
    """Root mean square normalisation without an epsilon: a padded token is the zero vector."""
    import torch
    from torch import nn

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(8))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            energy = tokens.square().mean(-1, keepdim=True)
            if fixed:
                energy = energy + 1e-6
            return self.weight * (tokens * torch.rsqrt(energy))  # defect

    return Program(Norm(), {"tokens": torch.rand(2, 3, 8)})


@RATIOS.program("NUM106", "Mod", time=(0, 100), period=(0, 24))
def learned_period(fixed: bool) -> Program:
    """The phase of a time within a learned period, which may be 0."""
    import torch

    def phase(time: torch.Tensor, period: torch.Tensor) -> torch.Tensor:
        if fixed:
            period = period.clamp(min=0.5)
        return torch.cos(6.2831855 * torch.remainder(time, period) / period.clamp(min=0.5))  # defect

    return Program(phase, {"time": torch.rand(4), "period": torch.ones(1)})


@RATIOS.file("NUM106", "Mod", "phase", position=(0, 512), width=(0, 64))
def window_position(fixed: bool) -> onnx.ModelProto:
    """Positions inside windows whose width is an input of the file: Mod by 0."""
    width = "least = Constant<value_float=1.0>()\nused = Max(width, least)" if fixed else "used = Identity(width)"
    body = f"{width}\nphase = Mod<fmod=1>(position, used)\nangle = Sin(phase)"
    return onnx_file("(float[8] position, float[1] width) => (float[8] angle)", body)


@RATIOS.program("NUM103", "Div", boxes=(0, 1), targets=(0, 1))
def box_overlap(fixed: bool) -> Program:
    """Intersection over union of boxes (left, top, width, height) that may have no area."""
    import torch

    def overlap(boxes: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        corner = torch.maximum(boxes[:, :2], targets[:, :2])
        opposite = torch.minimum(boxes[:, :2] + boxes[:, 2:], targets[:, :2] + targets[:, 2:])
        shared = (opposite - corner).clamp(min=0).prod(-1)
        union = boxes[:, 2:].prod(-1) + targets[:, 2:].prod(-1) - shared
        if fixed:
            union = union.clamp(min=1e-6)
        return 1 - (shared / union).mean()  # defect

    return Program(overlap, {"boxes": torch.rand(3, 4), "targets": torch.rand(3, 4)})


@RATIOS.program("NUM103", "Div", boxes=(0, 1), targets=(0, 1))
def generalised_overlap(fixed: bool) -> Program:
    """The penalty of the generalised IoU divides by the box around both, which has no area where both are one point."""
    import torch

    def penalty(boxes: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        low = torch.minimum(boxes[:, :2], targets[:, :2])
        high = torch.maximum(boxes[:, :2] + boxes[:, 2:], targets[:, :2] + targets[:, 2:])
        hull = (high - low).prod(-1)
        areas = boxes[:, 2:].prod(-1) + targets[:, 2:].prod(-1)
        if fixed:
            hull = hull + 1e-6
        return ((hull - areas).clamp(min=0) / hull).mean()  # defect

    return Program(penalty, {"boxes": torch.rand(3, 4), "targets": torch.rand(3, 4)})


@RATIOS.program("NUM103", "Div", p=(0, 1), y={"values": [0, 1]})
def tversky_loss(fixed: bool) -> Program:
    """The Tversky index of an image without the object, on which the network rightly sees none: 0 / 0."""
    import torch

    def loss(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        hit, extra, lost = (p * y).sum(-1), (p * (1 - y)).sum(-1), ((1 - p) * y).sum(-1)
        smooth = 1.0 if fixed else 0.0
        return 1 - ((hit + smooth) / (hit + 0.3 * extra + 0.7 * lost + smooth)).mean()  # defect

    return Program(loss, {"p": torch.rand(2, 6), "y": torch.ones(2, 6)})
