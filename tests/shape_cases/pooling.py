"""Pools."""

from __future__ import annotations

from tests.shape_cases import Draw, cases
from tests.shape_cases.convolution import dimensions, images, numbers


def _use(draw: Draw, input: str, arguments: list[str]) -> str:
    if draw.name.startswith("torch.nn.functional") or draw.name.count(".") == 1:
        return f"{draw.name}({', '.join([input, *arguments])})"
    return f"nn.{draw.short}({', '.join(arguments)})({input})"


@cases(
    *(f"torch.nn.{kind}Pool{axes}d" for kind in ("Max", "Avg", "LP") for axes in (1, 2, 3)),
    *(f"torch.nn.functional.{kind}_pool{axes}d" for kind in ("max", "avg", "lp") for axes in (1, 2, 3)),
    *(f"torch.max_pool{axes}d" for axes in (1, 2, 3)),
    "torch.avg_pool1d",
)
def _(draw: Draw) -> str:
    axes = dimensions(draw)
    kind = draw.short.lower()
    arguments = ["2"] if kind.startswith("lp") else []
    # A pool of powers over one axis takes no tuple.
    arguments.append(str(draw.integer(1, 4)) if kind.startswith("lp") and axes == 1 else numbers(draw, axes, 1, 4))
    if draw.chance(0.5):
        arguments.append(f"stride={numbers(draw, axes, 1, 3)}")
    if draw.chance(0.4) and not kind.startswith("lp"):
        arguments.append(f"padding={numbers(draw, axes, 0, 2)}")
    if draw.chance(0.3) and kind.startswith("max"):
        arguments.append(f"dilation={numbers(draw, axes, 1, 2)}")
    if draw.chance(0.4):
        arguments.append("ceil_mode=True")
    if draw.chance(0.2) and kind.startswith("max") and draw.name.count(".") > 1:
        arguments.append("return_indices=True")
    return _use(draw, images(draw, 2, axes, 1, 6), arguments)


@cases(
    *(f"torch.nn.Adaptive{kind}Pool{axes}d" for kind in ("Max", "Avg") for axes in (1, 2, 3)),
    *(f"torch.nn.functional.adaptive_{kind}_pool{axes}d" for kind in ("max", "avg") for axes in (1, 2, 3)),
    "torch.adaptive_avg_pool1d",
)
def _(draw: Draw) -> str:
    axes = dimensions(draw)
    size = numbers(draw, axes, 1, 4)
    if axes > 1 and draw.chance(0.2):
        size = str((None, *(draw.integer(1, 4) for _ in range(axes - 1))))
    extra = ["return_indices=True"] if "max" in draw.short.lower() and draw.chance(0.2) else []
    return _use(draw, images(draw, 2, axes, 1, 6), [size, *extra])


@cases(
    *(f"torch.nn.MaxUnpool{axes}d" for axes in (1, 2, 3)),
    *(f"torch.nn.functional.max_unpool{axes}d" for axes in (1, 2, 3)),
)
def _(draw: Draw) -> str:
    axes = dimensions(draw)
    kernel = draw.integer(1, 3)
    shape = (*((draw.integer(1, 2),) if draw.chance(0.8) else ()), 2, *(draw.integer(1, 4) for _ in range(axes)))
    if draw.chance(0.15):
        shape = shape[1:] if len(shape) == axes + 1 else (2, *shape)
    indices = f"torch.zeros({shape}, dtype=torch.int64)"
    stride = f", stride={draw.integer(1, 3)}" if draw.chance(0.4) else ""
    if "nn.Max" in draw.name:
        return f"nn.{draw.short}({kernel}{stride})({draw.array(shape)}, {indices})"
    return f"{draw.name}({draw.array(shape)}, {indices}, {kernel}{stride})"
