"""Float16: logits, residual sums, squares, running sums and running products that leave a format which ends at 65,504."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.operator_cases.pairs import Family, Program, onnx_file

if TYPE_CHECKING:
    import onnx

HALF = Family("float16")

ZEROS = "what is divided by an infinite deviation is 0: the output is wrong, and finite"


@HALF.program("NUM203", "MatMul", precision="float16", q=(-40, 40), k=(-40, 40))
def attention_logits(fixed: bool) -> Program:
    """Queries and keys are multiplied first and scaled afterwards."""
    import torch

    def weights(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        scale = 64**-0.5
        if fixed:
            logits = (q * scale) @ k.transpose(-2, -1)
        else:
            logits = q @ k.transpose(-2, -1) * scale  # defect
        return torch.softmax(logits, dim=-1)

    return Program(weights, {"q": torch.rand(2, 4, 64), "k": torch.rand(2, 4, 64)})


@HALF.program("NUM202", "Add", precision="float16", x=(-100, 100))
def residual_sums(fixed: bool) -> Program:
    """Eight residual blocks without a normalisation, each of which may more than double what comes in."""
    import torch
    from torch import nn

    class Trunk(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gains = nn.Parameter(torch.full((8, 4), 1.5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for gain in self.gains:
                branch = torch.relu(x) * gain
                if fixed:
                    branch = torch.tanh(branch)
                x = x + branch  # defect
            return x

    return Program(Trunk(), {"x": torch.rand(2, 4)})


@HALF.program("NUM202", "Mul", precision="float16", silent=ZEROS, x=(-500, 500))
def layer_norm_squares(fixed: bool) -> Program:
    """Layer normalisation by hand: squares of 256 and more are infinite, and what is divided by them is 0."""
    import torch

    def normalised(x: torch.Tensor) -> torch.Tensor:
        wide = x.float() if fixed else x
        centred = wide - wide.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)  # defect
        return (centred / torch.sqrt(variance + 1e-3)).to(x.dtype)

    return Program(normalised, {"x": torch.rand(2, 16)})


@HALF.program("NUM202", "Mul", precision="float16", content=(-1, 1), style=(-500, 500))
def style_transfer(fixed: bool) -> Program:
    """Features take over the deviation of a style, whose squares are infinite from 256 on."""
    import torch

    def transferred(content: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        wide = style.float() if fixed else style
        centred = wide - wide.mean(-1, keepdim=True)
        deviation = (centred * centred).mean(-1, keepdim=True).sqrt()  # defect
        return (content * deviation).to(content.dtype) + style.mean(-1, keepdim=True)

    return Program(transferred, {"content": torch.rand(2, 16), "style": torch.rand(2, 16)})


@HALF.program("NUM203", "ReduceSum", precision="float16", tokens=(0, 100))
def mean_of_tokens(fixed: bool) -> Program:
    """A mean over 1,024 tokens as their sum divided by their number."""
    import torch

    def pooled(tokens: torch.Tensor) -> torch.Tensor:
        count = tokens.shape[1]
        if fixed:
            return (tokens / count).sum(1)
        return tokens.sum(1) / count  # defect

    return Program(pooled, {"tokens": torch.rand(1, 1024, 2)})


@HALF.program("NUM203", "CumSum", precision="float16", durations=(0, 200))
def token_onsets(fixed: bool) -> Program:
    """Onsets of sounds as the running sum of their durations in frames."""
    import torch

    def onsets(durations: torch.Tensor) -> torch.Tensor:
        dtype = torch.float32 if fixed else None
        ends = torch.cumsum(durations, dim=-1, dtype=dtype)  # defect
        return ends / ends[:, -1:].clamp(min=1.0)

    return Program(onsets, {"durations": torch.ones(1, 512)})


@HALF.program("NUM203", "CumProd", precision="float16", growth=(0.5, 2))
def compounded_growth(fixed: bool) -> Program:
    """A running product of growth rates over 24 periods."""
    import torch

    def paths(growth: torch.Tensor) -> torch.Tensor:
        if fixed:
            growth = growth.float()
        levels = torch.cumprod(growth, dim=-1)  # defect
        return torch.log(levels)

    return Program(paths, {"growth": torch.ones(2, 24)})


@HALF.program("NUM201", "Exp", precision="float16", logits=(-20, 20))
def softmax_by_hand(fixed: bool) -> Program:
    """Exponentials of logits up to 20: float16 ends at those of 11."""
    import torch

    def softmax(logits: torch.Tensor) -> torch.Tensor:
        if fixed:
            logits = logits - logits.amax(-1, keepdim=True)
        weights = torch.exp(logits)  # defect
        return weights / weights.sum(-1, keepdim=True)

    return Program(softmax, {"logits": torch.rand(2, 6)})


@HALF.program("NUM202", "Pow", precision="float16", x=(-10, 10))
def squared_relu(fixed: bool) -> Program:
    """The square of a ReLU behind a wide layer: hidden units reach hundreds."""
    import torch
    from torch import nn

    class FeedForward(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(32, 16)
            self.down = nn.Linear(16, 32)
            nn.init.normal_(self.up.weight, std=3.0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = torch.relu(self.up(x))
            if fixed:
                hidden = hidden / 16
            return self.down(hidden**2)  # defect

    return Program(FeedForward(), {"x": torch.rand(2, 32)})


@HALF.file("NUM203", "ReduceSumSquare", "energy", spectrum=(-100, 100))
def energy_in_file(fixed: bool) -> onnx.ModelProto:
    """A file in float16 that sums the squares of a spectrum."""
    cast, kind = ("Cast<to=1>", "float") if fixed else ("Identity", "float16")
    body = f"wide = {cast}(spectrum)\naxes = Constant<value_ints=[1]>()\nenergy = ReduceSumSquare(wide, axes)"
    return onnx_file(f"(float16[2,64] spectrum) => ({kind}[2,1] energy)", body)


@HALF.file("NUM204", "Cast", "narrow", depth=(0, 100000))
def depth_in_millimetres(fixed: bool) -> onnx.ModelProto:
    """A depth image in millimetres is cast to float16, which ends at 65 metres."""
    scale = 0.001 if fixed else 1.0
    body = f"scale = Constant<value_float={scale}>()\nscaled = Mul(depth, scale)\nnarrow = Cast<to=10>(scaled)\ny = Relu(narrow)"
    return onnx_file("(float[2,4] depth) => (float16[2,4] y)", body)
