"""Normalisation with bad statistics: variances of files that are negative or zero, and epsilons that do not survive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.operator_cases.pairs import Family, Program, onnx_file

if TYPE_CHECKING:
    import onnx

NORMALISATION = Family("normalisation")


@NORMALISATION.file("NUM110", "BatchNormalization", "normal", image=(0, 1))
def negative_running_variance(fixed: bool) -> onnx.ModelProto:
    """A file whose running variance an averaging of checkpoints made slightly negative, below the epsilon."""
    variance = f"{{0.3,0.2,{0.002 if fixed else -0.002}}}"
    return onnx_file(
        "(float[1,3,4,4] image) => (float[1,3,4,4] y)"
        f"<float[3] scale = {{1,1,1}}, float[3] shift = {{0,0,0}}, float[3] mean = {{0.5,0.4,0.4}}, float[3] var = {variance}>",
        "normal = BatchNormalization<epsilon=1e-5>(image, scale, shift, mean, var)\ny = Relu(normal)",
    )


@NORMALISATION.file("NUM110", "BatchNormalization", "normal", image=(0, 1))
def dead_channel_without_epsilon(fixed: bool) -> onnx.ModelProto:
    """A dead channel has variance 0, and a converter wrote epsilon 0 into the file."""
    epsilon = 1e-5 if fixed else 0.0
    return onnx_file(
        "(float[1,3,4,4] image) => (float[1,3,4,4] y)"
        "<float[3] scale = {1,1,1}, float[3] shift = {0,0,0}, float[3] mean = {0.5,0,0.4}, float[3] var = {0.3,0,0.2}>",
        f"normal = BatchNormalization<epsilon={epsilon}>(image, scale, shift, mean, var)\ny = Relu(normal)",
    )


@NORMALISATION.file("NUM103", "Div", "normal", x=(-4, 4))
def vanished_epsilon_in_file(fixed: bool) -> onnx.ModelProto:
    """A file in float16 that normalises by hand; its epsilon of 1e-8 is 0 there.

    It fails where every value is rounded as the file says; ONNX Runtime's CPU provider alone keeps such chains in float32.
    """
    epsilon = 1e-4 if fixed else 1e-8
    return onnx_file(
        "(float16[2,8] x) => (float16[2,8] normal)",
        f"""
        axes = Constant<value_ints=[1]>()
        wide = Constant<value_float={epsilon}>()
        epsilon = Cast<to=10>(wide)
        mean = ReduceMean(x, axes)
        centred = Sub(x, mean)
        squares = Mul(centred, centred)
        variance = ReduceMean(squares, axes)
        guarded = Add(variance, epsilon)
        deviation = Sqrt(guarded)
        normal = Div(centred, deviation)
        """,
    )


@NORMALISATION.program("NUM103", "Div", precision="float16", image=(0, 1))
def folded_batch_norm(fixed: bool) -> Program:
    """A convolution and the statistics behind it as one, in float16: the epsilon of 1e-8 leaves a dead channel's variance at 0."""
    import torch
    from torch import nn

    class Folded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3, 2, 1, 1))
            self.gamma = nn.Parameter(torch.ones(3))
            self.register_buffer("running_var", torch.tensor([0.5, 0.0, 0.25]))
            self.register_buffer("eps", torch.tensor(1e-3 if fixed else 1e-8))

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            factor = self.gamma / torch.sqrt(self.running_var + self.eps)  # defect
            return nn.functional.conv2d(image, self.weight * factor[:, None, None, None])

    return Program(Folded(), {"image": torch.rand(1, 2, 3, 3)})


@NORMALISATION.program("NUM110", "tensorproof::GroupNormalization", image=(0, 1))
def groups_without_epsilon(fixed: bool) -> Program:
    """Group normalisation with an epsilon of 0, behind filters of differences: a plain picture has no variance."""
    import torch
    from torch import nn

    class Edges(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.filters = nn.Conv2d(1, 4, 2, bias=False)
            with torch.no_grad():
                self.filters.weight.copy_(torch.tensor([[[[1.0, -1.0], [1.0, -1.0]]], [[[1.0, 1.0], [-1.0, -1.0]]]] * 2))
            self.norm = nn.GroupNorm(2, 4, eps=1e-5 if fixed else 0.0)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.norm(self.filters(image)))  # defect

    return Program(Edges(), {"image": torch.rand(1, 1, 4, 4)})


@NORMALISATION.program("NUM102", "Sqrt", x=(0, 1000))
def variance_by_moments(fixed: bool) -> Program:
    """A deviation as sqrt(E[x^2] - E[x]^2), which rounding makes negative for nearly constant rows."""
    import torch

    def deviation(x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(-1, keepdim=True)
        if fixed:
            variance = (x - mean).square().mean(-1)
        else:
            variance = x.square().mean(-1) - mean.squeeze(-1).square()
        return torch.sqrt(variance)  # defect

    return Program(deviation, {"x": torch.rand(3, 16)})
