"""Convolutions and transposed convolutions."""

from __future__ import annotations

from tests.shape_cases import Draw, cases

_SHORT = ("Conv1d", "Conv2d", "Conv3d")


def dimensions(draw: Draw) -> int:
    """The number in `Conv2d`, `max_pool1d`."""
    return next(int(letter) for letter in draw.short if letter.isdigit())


def images(draw: Draw, channels: int, axes: int, low: int = 3, high: int = 6) -> str:
    """An input with or without a batch; sometimes of a wrong rank or with wrong channels."""
    sizes = [draw.integer(low, high) for _ in range(axes)]
    front = [draw.integer(1, 2)] if draw.chance(0.8) else []
    wrong = draw.integer(1, 4) if draw.chance(0.15) else channels
    shape = [*front, wrong, *sizes]
    if draw.chance(0.08):
        shape.insert(0, 2)
    elif draw.chance(0.08):
        shape.pop(0)
    return draw.array(shape)


def numbers(draw: Draw, axes: int, low: int, high: int) -> str:
    """One number, or one for each axis."""
    if draw.chance(0.6):
        return str(draw.integer(low, high))
    return str(tuple(draw.integer(low, high) for _ in range(axes)))


def _options(draw: Draw, axes: int, padding: int = 2) -> list[str]:
    options: list[str] = []
    if draw.chance(0.5):
        options.append(f"stride={numbers(draw, axes, 1, 3)}")
    if draw.chance(0.5):
        options.append(f"padding={numbers(draw, axes, 0, padding)}")
    if draw.chance(0.3):
        options.append(f"dilation={numbers(draw, axes, 1, 2)}")
    return options


@cases(*(f"torch.nn.{name}" for name in _SHORT), *(f"torch.nn.Lazy{name}" for name in _SHORT))
def _(draw: Draw) -> str:
    axes = dimensions(draw)
    channels, filters = draw.integer(1, 4), draw.integer(1, 4)
    options = _options(draw, axes)
    if draw.chance(0.2):
        options = [f"padding={draw.pick(['same', 'valid'])!r}", *(["stride=2"] if draw.chance(0.2) else [])]
    if draw.chance(0.3):
        options.append(f"groups={draw.pick([1, 2, channels])}")
    if draw.chance(0.2):
        options.append(f"padding_mode={draw.pick(['reflect', 'replicate', 'circular'])!r}")
    first = "" if "Lazy" in draw.name else f"{channels}, "
    made = f"nn.{draw.short}({first}{filters}, {numbers(draw, axes, 1, 4)}, {', '.join(options)})"
    return f"{made}({images(draw, channels, axes)})"


def _transposed_options(draw: Draw, axes: int) -> list[str]:
    """Whether an output of size 0 is refused depends on the implementation: sizes are positive or negative."""
    return ["padding=6"] if draw.chance(0.1) else _options(draw, axes, 1)


@cases(*(f"torch.nn.{lazy}ConvTranspose{axes}d" for lazy in ("", "Lazy") for axes in (1, 2, 3)))
def _(draw: Draw) -> str:
    axes = dimensions(draw)
    channels, filters = draw.integer(1, 4), draw.integer(1, 4)
    options = _transposed_options(draw, axes)
    if draw.chance(0.3):
        options.append(f"output_padding={numbers(draw, axes, 0, 1)}")
    if draw.chance(0.2):
        options.append(f"groups={draw.pick([1, 2, channels])}")
    first = "" if "Lazy" in draw.name else f"{channels}, "
    made = f"nn.{draw.short}({first}{filters}, {numbers(draw, axes, 2, 4)}, {', '.join(options)})"
    size = f", output_size={[draw.integer(4, 10) for _ in range(axes)]}" if draw.chance(0.2) else ""
    return f"{made}({images(draw, channels, axes, 2, 4)}{size})"


@cases(*(f"torch.{prefix}conv{axes}d" for prefix in ("", "nn.functional.") for axes in (1, 2, 3)))
def _(draw: Draw) -> str:
    axes = dimensions(draw)
    groups = draw.pick([1, 1, 2])
    per_group, filters = draw.integer(1, 2), draw.integer(1, 4) if draw.chance(0.2) else groups * draw.integer(1, 2)
    weight = draw.varied((filters, per_group, *(draw.integer(1, 4) for _ in range(axes))), 0.1)
    bias = draw.array((draw.integer(1, 4) if draw.chance(0.15) else filters,)) if draw.chance(0.5) else "None"
    options = _options(draw, axes)
    if draw.chance(0.15):
        options = [f"padding={draw.pick(['same', 'valid'])!r}", *(["stride=2"] if draw.chance(0.2) else [])]
    arguments = [images(draw, per_group * groups, axes), draw.array(weight), f"bias={bias}", *options, f"groups={groups}"]
    return f"{draw.name}({', '.join(arguments)})"


@cases(*(f"torch.{prefix}conv_transpose{axes}d" for prefix in ("", "nn.functional.") for axes in (1, 2, 3)))
def _(draw: Draw) -> str:
    axes = dimensions(draw)
    groups = draw.pick([1, 1, 2])
    channels, per_group = groups * draw.integer(1, 2), draw.integer(1, 2)
    weight = (channels, per_group, *(draw.integer(2, 4) for _ in range(axes)))
    weight = weight[1:] if draw.chance(0.1) else weight
    bias = draw.array((draw.integer(1, 4) if draw.chance(0.15) else per_group * groups,)) if draw.chance(0.5) else "None"
    options = _transposed_options(draw, axes)
    if draw.chance(0.2):
        options.append(f"output_padding={numbers(draw, axes, 0, 1)}")
    arguments = [images(draw, channels, axes, 2, 4), draw.array(weight), f"bias={bias}", *options, f"groups={groups}"]
    return f"{draw.name}({', '.join(arguments)})"
