"""Interpolation, shuffles and patches."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.convolution import numbers

_MODES = ("nearest", "linear", "bilinear", "bicubic", "trilinear", "area")


@cases(
    "torch.nn.Upsample",
    "torch.nn.UpsamplingNearest2d",
    "torch.nn.UpsamplingBilinear2d",
    "torch.nn.functional.interpolate",
    "torch.nn.functional.upsample",
)
def _(draw: Draw) -> str:
    axes = 2 if "2d" in draw.short else draw.integer(1, 3)
    shape = [draw.integer(1, 2), draw.integer(1, 3), *(draw.integer(2, 5) for _ in range(axes))]
    if draw.chance(0.1):
        shape.pop()
    if draw.chance(0.5):
        options = [f"size={numbers(draw, axes, 1, 6)}"]
    elif draw.chance(0.7):
        options = [f"scale_factor={draw.pick(['2', '3', '0.5', '1.5', '2.0'])}"]
    else:
        options = [f"scale_factor={tuple(draw.pick([2.0, 1.5, 0.5]) for _ in range(axes))}"]
    if "2d" not in draw.short:
        fitting = {1: "linear", 2: "bilinear", 3: "trilinear"}[axes]
        options.append(f"mode={draw.pick([fitting, fitting, 'nearest', *_MODES])!r}")
    input = draw.array(shape)
    if "functional" in draw.name:
        return f"{draw.name}({', '.join([input, *options])})"
    return f"nn.{draw.short}({', '.join(options)})({input})"


@cases(
    "torch.nn.PixelShuffle",
    "torch.nn.PixelUnshuffle",
    "torch.nn.functional.pixel_shuffle",
    "torch.nn.functional.pixel_unshuffle",
    "torch.pixel_shuffle",
    "torch.pixel_unshuffle",
)
def _(draw: Draw) -> str:
    factor = draw.integer(1, 3)
    back = "un" in draw.short.lower()
    height, width = (draw.integer(1, 2) * (factor if back else 1) for _ in range(2))
    channels = draw.integer(1, 2) * (1 if back else factor * factor)
    shape = draw.varied((*draw.shape(0, 2, 2), channels, height, width), 0.3)
    if "torch.nn.P" in draw.name:
        return f"nn.{draw.short}({factor})({draw.array(shape)})"
    return f"{draw.name}({draw.array(shape)}, {factor})"


@cases("torch.nn.ChannelShuffle", "torch.nn.functional.channel_shuffle", "torch.channel_shuffle")
def _(draw: Draw) -> str:
    groups = draw.integer(1, 3)
    shape = draw.varied((draw.integer(1, 2), groups * draw.integer(1, 2), *draw.shape(1, 2, 3)), 0.3)
    if draw.short == "ChannelShuffle":
        return f"nn.ChannelShuffle({groups})({draw.array(shape)})"
    return f"{draw.name}({draw.array(shape)}, {groups})"


def _window(draw: Draw) -> list[str]:
    options: list[str] = []
    if draw.chance(0.4):
        options.append(f"dilation={numbers(draw, 2, 1, 2)}")
    if draw.chance(0.4):
        options.append(f"padding={numbers(draw, 2, 0, 2)}")
    if draw.chance(0.5):
        options.append(f"stride={numbers(draw, 2, 1, 3)}")
    return options


@cases("torch.nn.Unfold", "torch.nn.functional.unfold")
def _(draw: Draw) -> str:
    shape = (*((draw.integer(1, 2),) if draw.chance(0.8) else ()), draw.integer(1, 3), draw.integer(1, 5), draw.integer(1, 5))
    if draw.chance(0.1):
        shape = shape[:2]
    options = [numbers(draw, 2, 1, 3), *_window(draw)]
    if draw.short == "Unfold":
        return f"nn.Unfold({', '.join(options)})({draw.array(shape)})"
    return f"F.unfold({', '.join([draw.array(shape), *options])})"


@cases("torch.nn.Fold", "torch.nn.functional.fold")
def _(draw: Draw) -> str:
    height, width, kernel = draw.integer(3, 5), draw.integer(3, 5), draw.integer(1, 3)
    stride = draw.integer(1, 2)
    blocks = ((height - kernel) // stride + 1) * ((width - kernel) // stride + 1)
    shape = draw.varied((draw.integer(1, 2), kernel * kernel * draw.integer(1, 2), blocks), 0.3)
    options = f"({height}, {width}), {kernel}, stride={stride}"
    if draw.short == "Fold":
        return f"nn.Fold({options})({draw.array(shape)})"
    return f"F.fold({draw.array(shape)}, {options})"


@cases("torch.nn.functional.grid_sample")
def _(draw: Draw) -> str:
    axes = draw.integer(2, 3)
    batch = draw.integer(1, 3)
    image = draw.varied((batch, draw.integer(1, 3), *(draw.integer(1, 4) for _ in range(axes))), 0.15)
    grid = draw.varied((batch, *(draw.integer(1, 4) for _ in range(axes)), axes), 0.25)
    return f"F.grid_sample({draw.array(image)}, {draw.array(grid)}, align_corners=False)"


@cases("torch.nn.functional.affine_grid")
def _(draw: Draw) -> str:
    axes = draw.integer(2, 3)
    batch = draw.integer(1, 3)
    theta = draw.varied((batch, axes, axes + 1), 0.3)
    size = (batch, draw.integer(1, 3), *(draw.integer(1, 4) for _ in range(axes)))
    return f"F.affine_grid({draw.array(theta)}, {size}, align_corners=False)"
