"""Layers of Keras: dense ones, those without weights, those that move elements."""

from __future__ import annotations

from tests.shape_cases import Draw, cases


def called(draw: Draw, options: str, *shapes: tuple[int, ...]) -> str:
    """The layer on an array; sometimes twice, on a second array that has other sizes behind the batch."""
    layer = f"{draw.name}({options})"
    if len(shapes) == 1:
        return f"{layer}({draw.array(shapes[0])})"
    first, second = (draw.array(shape) for shape in shapes)
    return f"(lambda layer: (layer({first}), layer({second}))[1])({layer})"


def varied_pair(draw: Draw, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """One input, or two of which the second may differ."""
    return (shape,) if draw.chance(0.5) else (shape, draw.varied(shape, 0.6))


@cases("keras.layers.Dense")
def _(draw: Draw) -> str:
    activation = draw.pick(["", ", activation='relu'", ", activation='softmax'", ", 'tanh'"])
    return called(draw, f"{draw.integer(1, 5)}{activation}", *varied_pair(draw, draw.shape(1, 4)))


@cases("keras.layers.Embedding")
def _(draw: Draw) -> str:
    return called(draw, f"{draw.integer(2, 9)}, {draw.integer(1, 5)}", *varied_pair(draw, draw.shape(0, 3)))


_OPTIONS = {
    "ActivityRegularization": "",
    "AlphaDropout": "0.2",
    "Dropout": "0.5",
    "ELU": "",
    "GaussianDropout": "0.2",
    "GaussianNoise": "0.1",
    "Identity": "",
    "LeakyReLU": "",
    "ReLU": "",
    "Rescaling": "1 / 255",
    "UnitNormalization": "",
}


@cases(*(f"keras.layers.{name}" for name in _OPTIONS))
def _(draw: Draw) -> str:
    return called(draw, _OPTIONS[draw.short], draw.shape(1, 4))


@cases("keras.layers.Activation", "keras.layers.Softmax", "keras.layers.PReLU", "keras.layers.Masking")
def _(draw: Draw) -> str:
    options = {"Activation": draw.pick(["'relu'", "'softmax'", "'glu'", "keras.activations.tanh"])}.get(draw.short, "")
    shape = draw.shape(2, 4)
    if options == "'glu'":
        shape = (*shape[:-1], 2 * shape[-1])
    return called(draw, options, shape)


@cases("keras.layers.SpatialDropout1D", "keras.layers.SpatialDropout2D", "keras.layers.SpatialDropout3D")
def _(draw: Draw) -> str:
    return called(draw, "0.5", draw.shape(2, 5))


@cases("keras.layers.Lambda")
def _(draw: Draw) -> str:
    function = draw.pick(["lambda x: x * 2", "lambda x: keras.ops.expand_dims(x, -1)", "keras.ops.relu"])
    return called(draw, function, draw.shape(1, 3))


@cases("keras.layers.Flatten")
def _(draw: Draw) -> str:
    return called(draw, "", draw.shape(0, 4))


@cases("keras.layers.Reshape")
def _(draw: Draw) -> str:
    shape = draw.shape(1, 4)
    target = list(shape[1:])
    if draw.chance(0.3):
        target = list(draw.varied(target, 1.0))
    elif len(target) > 1 and draw.chance(0.5):
        target = [target[0] * target[1], *target[2:]]
    if target and draw.chance(0.5):
        target[draw.integer(0, len(target) - 1)] = -1
    return called(draw, repr(tuple(target)), shape)


@cases("keras.layers.Permute")
def _(draw: Draw) -> str:
    shape = draw.shape(2, 4)
    count = len(shape) - 1 if draw.chance(0.7) else draw.integer(1, 3)
    order = sorted(range(1, count + 1), key=lambda _: draw.integer(0, 99))
    if draw.chance(0.1):
        order[0] = draw.integer(0, count + 1)
    return called(draw, repr(tuple(order)), shape)


@cases("keras.layers.RepeatVector")
def _(draw: Draw) -> str:
    return called(draw, str(draw.integer(1, 4)), draw.shape(1, 3))


def _ends(draw: Draw, axes: int, low: int, high: int) -> str:
    """Numbers for both ends of axes, in one of the ways to write them."""
    form = draw.integer(0, 2)
    if form == 0 or (axes == 1 and form == 1):
        return str(draw.integer(low, high))
    if form == 1:
        return repr(tuple(draw.integer(low, high) for _ in range(axes)))
    pairs = tuple((draw.integer(low, high), draw.integer(low, high)) for _ in range(axes))
    return repr(pairs[0] if axes == 1 else pairs)


@cases(*(f"keras.layers.{kind}{axes}D" for kind in ("ZeroPadding", "Cropping") for axes in (1, 2, 3)))
def _(draw: Draw) -> str:
    axes = int(draw.short[-2])
    rank = axes + 2 if draw.chance(0.85) else draw.integer(axes + 1, axes + 3)
    shape = tuple(draw.integer(2, 5) for _ in range(rank))
    return called(draw, _ends(draw, axes, 0, 2), shape)


@cases(*(f"keras.layers.UpSampling{axes}D" for axes in (1, 2, 3)))
def _(draw: Draw) -> str:
    axes = int(draw.short[-2])
    rank = axes + 2 if draw.chance(0.8) else draw.integer(axes + 1, axes + 3)
    size = repr(tuple(draw.integer(1, 3) for _ in range(axes))) if axes > 1 and draw.chance(0.5) else str(draw.integer(1, 3))
    return called(draw, size, tuple(draw.integer(1, 3) for _ in range(rank)))


@cases("keras.layers.Resizing", "keras.layers.CenterCrop")
def _(draw: Draw) -> str:
    rank = draw.pick([3, 4, 4, 4, 2])
    return called(draw, f"{draw.integer(1, 5)}, {draw.integer(1, 5)}", tuple(draw.integer(1, 5) for _ in range(rank)))


@cases("keras.layers.EinsumDense")
def _(draw: Draw) -> str:
    a, b, c, d = (draw.integer(1, 4) for _ in range(4))
    equation, sizes, shape = draw.pick(
        [
            ("ab,bc->ac", c, (a, b)),
            ("abc,cd->abd", (None, d), (a, b, c)),
            ("...x,xy->...y", d, (a, b, c)),
            ("abc,cde->abde", (None, d, a), (a, b, c)),
            ("abcd,cde->abe", (None, c), (a, b, c, d)),
        ]
    )
    return called(draw, f"{equation!r}, output_shape={sizes}", shape)


@cases("keras.layers.CategoryEncoding")
def _(draw: Draw) -> str:
    return called(draw, f"num_tokens={draw.integer(1, 5)}", draw.shape(2, 2))
