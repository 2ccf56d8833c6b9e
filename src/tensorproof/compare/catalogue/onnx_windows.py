"""Operators of ONNX with windows and kernels: convolutions, pooling, normalisation, matrix products, recurrent ones."""

from __future__ import annotations

from tensorproof.compare.catalogue.layer_kind import (
    Arguments,
    LayerKind,
    OneRule,
    Shape,
    ShapeRule,
    Shapes,
    alone,
    axis_of,
    only,
    require,
)
from tensorproof.compare.catalogue.onnx_elementwise import ONNX_SHAPES, stretched, weight_shape
from tensorproof.compare.catalogue.parameters import Parameter, choice, count, is_count, is_list, listed, number
from tensorproof.compare.spec import Json

_IMAGES = ((2, 4, 8, 8), (1, 6, 7, 5), (3, 3, 3, 3), (2, 2, 6, 1), (2, 4, 9))


def whole(value: Json, rank: int, default: int, least: int = 1) -> tuple[int, ...]:
    """A list of whole numbers, one for each spatial axis."""
    if value is None:
        return (default,) * rank
    require(is_list(value, rank) and all(is_count(part, least) for part in value))
    return tuple(value)


def _swept(spatial: Shape, kernel: Shape, arguments: Arguments) -> Shape:
    """Places of a window (ONNX Conv-11, MaxPool-12, AveragePool-19)."""
    rank = len(spatial)
    strides, dilations = whole(arguments["strides"], rank, 1), whole(arguments.get("dilations"), rank, 1)
    automatic, up = arguments["auto_pad"], arguments.get("ceil_mode", 0)
    require(automatic == "NOTSET" or arguments["pads"] is None)
    pads = whole(arguments["pads"], 2 * rank, 0, 0)
    found: list[int] = []
    for axis, (size, k, s, d) in enumerate(zip(spatial, kernel, strides, dilations)):
        window = (k - 1) * d + 1
        if automatic.startswith("SAME"):
            found.append(-(-size // s))
            continue
        before, after = (pads[axis], pads[axis + rank]) if automatic == "NOTSET" else (0, 0)
        room = size + before + after - window
        require(room >= 0)
        if "ceil_mode" in arguments:
            require(before < window and after < window)
        places = (-(-room // s) if up else room // s) + 1
        # A window must not start behind the input and the padding before it.
        found.append(places - 1 if up and (places - 1) * s >= size + before else places)
    return tuple(found)


def convolution(shape: Shape, arguments: Arguments) -> Shape:
    """`@1` is (filters, channels of a group, kernel)."""
    weight, groups = weight_shape(arguments["@1"]), arguments["group"]
    require(len(weight) == len(shape) and weight[1] * groups == shape[1] and weight[0] % groups == 0)
    require(arguments["@2"] is None or weight_shape(arguments["@2"]) == weight[:1])
    return (shape[0], weight[0], *_swept(shape[2:], weight[2:], arguments))


def transposed(shape: Shape, arguments: Arguments) -> Shape:
    """`@1` is (channels, filters of a group, kernel)."""
    weight, groups, rank = weight_shape(arguments["@1"]), arguments["group"], len(shape) - 2
    require(len(weight) == len(shape) and weight[0] == shape[1] and shape[1] % groups == 0)
    require(arguments["@2"] is None or weight_shape(arguments["@2"]) == (weight[1] * groups,))
    strides, dilations = whole(arguments["strides"], rank, 1), whole(arguments["dilations"], rank, 1)
    pads, extra = whole(arguments["pads"], 2 * rank, 0, 0), whole(arguments["output_padding"], rank, 0, 0)
    require(all(e < max(s, d) for e, s, d in zip(extra, strides, dilations)))
    grown = tuple(
        (size - 1) * s + extra[axis] + (k - 1) * d + 1 - pads[axis] - pads[axis + rank]
        for axis, (size, k, s, d) in enumerate(zip(shape[2:], weight[2:], strides, dilations))
    )
    require(min(grown) > 0)
    return (shape[0], weight[1] * groups, *grown)


def pooled(shape: Shape, arguments: Arguments) -> Shape:
    """One number for each window."""
    kernel = whole(arguments["kernel_shape"], len(shape) - 2, 1)
    return (*shape[:2], *_swept(shape[2:], kernel, arguments))


def everything(shape: Shape, arguments: Arguments) -> Shape:
    """One number for each channel."""
    return (*shape[:2], *((1,) * (len(shape) - 2)))


def by_channel(*operands: str) -> OneRule:
    """Operands with a number for each channel."""

    def rule(shape: Shape, arguments: Arguments) -> Shape:
        require(all(weight_shape(arguments[name]) == (shape[1],) for name in operands))
        return shape

    return rule


def layer_normal(shape: Shape, arguments: Arguments) -> Shape:
    """Scale and bias have the shape of the axes from `axis` on."""
    axis = axis_of(arguments["axis"], len(shape))
    require(weight_shape(arguments["@1"]) == shape[axis:])
    require(arguments["@2"] is None or weight_shape(arguments["@2"]) == shape[axis:])
    return shape


def along(shape: Shape, arguments: Arguments) -> Shape:
    """Along one axis."""
    axis_of(arguments["axis"], len(shape))
    return shape


def local(shape: Shape, arguments: Arguments) -> Shape:
    """Across neighbouring channels."""
    return shape


def matrix(shapes: Shapes, arguments: Arguments) -> Shapes:
    """Products of matrices in the last two axes, the others stretched."""
    require(len(shapes) == 2)
    left, right = shapes
    require(min(len(left), len(right)) > 1)
    *_, rows, inner = left
    *_, height, columns = right
    require(inner == height)
    lead = stretched((left[:-2], right[:-2])) if len(left) + len(right) > 4 else ()
    return ((*lead, rows, columns),)


def general(shapes: Shapes, arguments: Arguments) -> Shapes:
    """alpha A B + beta C, A and B turned round if wanted."""
    require(len(shapes) in (2, 3) and all(len(shape) == 2 for shape in shapes[:2]))
    left = shapes[0][::-1] if arguments["transA"] else shapes[0]
    right = shapes[1][::-1] if arguments["transB"] else shapes[1]
    require(left[1] == right[0])
    result = (left[0], right[1])
    require(len(shapes) == 2 or (len(shapes[2]) <= 2 and stretched((result, shapes[2])) == result))
    return (result,)


def recurrent(gates: int, states: int) -> ShapeRule:
    """X is (steps, batch, size); W, R and B have `gates` matrices for each direction (ONNX LSTM-14, GRU-14, RNN-14)."""

    def rule(shapes: Shapes, arguments: Arguments) -> Shapes:
        require(len(shapes) == 1)
        steps, batch, size = shapes[0]
        ways = 2 if arguments["direction"] == "bidirectional" else 1
        hidden, functions = arguments["hidden_size"], arguments.get("activations")
        require(functions is None or (is_list(functions, ways) and all(name in ("Relu", "Tanh", "Sigmoid") for name in functions)))
        require(weight_shape(arguments["@1"]) == (ways, gates * hidden, size))
        require(weight_shape(arguments["@2"]) == (ways, gates * hidden, hidden))
        require(arguments["@3"] is None or weight_shape(arguments["@3"]) == (ways, 2 * gates * hidden))
        results = ((steps, ways, batch, hidden), *(((ways, batch, hidden),) * states))
        return results[: arguments["@results"]]

    return rule


def _lists(*legal: Json) -> Parameter:
    return listed(None, *legal, illegal=([0, 0], [-1, -1], [1, 2, 3, 4, 5, 6, 7], "two"))


def _weight(*shapes: list[int], name: str = "", required: bool = True) -> Parameter:
    named = {"name": name} if name else {}
    described = tuple({"shape": shape, **named} for shape in shapes)
    return listed(*(described if required else (None, *described)), illegal=({"shape": [5, 9, 2]},), required=required)


_AUTO = choice("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", illegal=("SAME",))
_PADS = listed(None, [1, 1, 1, 1], [0, 1, 1, 0], illegal=([-9, -9, -9, -9], [1], "one"))
_POOL: dict[str, Parameter] = {
    "kernel_shape": listed([2, 2], [3, 2], [1, 1], [3], illegal=([0, 0], [-1, 2], [2, 2, 2], [99, 99], "two"), required=True),
    "strides": _lists([2, 2], [1, 3], [2]),
    "pads": _PADS,
    "auto_pad": _AUTO,
    "ceil_mode": choice(0, 1, illegal=()),
    "dilations": _lists([2, 2]),
}


def _channels(*names: str) -> dict[str, Parameter]:
    return {f"@{place}": _weight([4], [6], name=name) for place, name in enumerate(names, 1)}


def _flagged(*legal: int) -> Parameter:
    return Parameter(legal[0], legal, ("yes",), lambda value: value in legal)


def _recurrent(name: str, gates: int, states: int, more: dict[str, Parameter]) -> LayerKind:
    hidden = (3,)
    ways = (1, 2)
    w = [[d, gates * h, 4] for h in hidden for d in ways]
    r = [[d, gates * h, h] for h in hidden for d in ways]
    b = [[d, 2 * gates * h] for h in hidden for d in ways]
    return LayerKind(
        name,
        "onnx",
        "recurrent",
        recurrent(gates, states),
        alone((5, 2, 4), (3, 1, 4), (1, 3, 4)),
        {
            "@1": _weight(*w),
            "@2": _weight(*r),
            "@3": _weight(*b, required=False),
            "hidden_size": count(*hidden, required=True),
            "direction": choice("forward", "reverse", "bidirectional"),
            "@results": Parameter(1, (1, states + 1), (), lambda value: value in (1, states + 1)),
            **more,
        },
    )


KINDS = (
    LayerKind(
        "Conv",
        "onnx",
        "windows",
        only(convolution),
        alone(*_IMAGES),
        {
            "@1": _weight([4, 4, 3, 3], [6, 2, 3, 2], [4, 1, 2, 2], [6, 3, 1, 1], [4, 4, 3]),
            "@2": _weight([4], [6], required=False),
            "group": count(1, 2, 4, illegal=(3,)),
            "strides": _lists([2, 2], [1, 3], [2]),
            "pads": _PADS,
            "dilations": _lists([2, 2], [1, 2]),
            "auto_pad": _AUTO,
        },
    ),
    LayerKind(
        "ConvTranspose",
        "onnx",
        "windows",
        only(transposed),
        alone(*_IMAGES),
        {
            "@1": _weight([4, 3, 3, 3], [4, 2, 2, 3], [6, 1, 2, 2], [4, 2, 3]),
            "@2": _weight([3], [4], [2], required=False),
            "group": count(1, 2, illegal=(3,)),
            "strides": _lists([2, 2], [1, 3]),
            "pads": _PADS,
            "dilations": _lists([2, 2]),
            "output_padding": listed(None, [1, 1], [0, 1], illegal=([5, 5], [-1, -1])),
        },
    ),
    LayerKind("MaxPool", "onnx", "windows", only(pooled), alone(*_IMAGES), _POOL),
    LayerKind("AveragePool", "onnx", "windows", only(pooled), alone(*_IMAGES), {**_POOL, "count_include_pad": _flagged(0, 1)}),
    LayerKind("LpPool", "onnx", "windows", only(pooled), alone(*_IMAGES), {**_POOL, "p": count(2, 1, 3)}),
    LayerKind("GlobalMaxPool", "onnx", "windows", only(everything), alone(*_IMAGES)),
    LayerKind("GlobalAveragePool", "onnx", "windows", only(everything), alone(*_IMAGES)),
    LayerKind(
        "BatchNormalization",
        "onnx",
        "normalisation",
        only(by_channel("@1", "@2", "@3", "@4")),
        alone(*_IMAGES),
        {**_channels("gamma", "beta", "mean", "variance"), "epsilon": number(1e-5, 0.1, illegal=("small",), low=0.0)},
    ),
    LayerKind(
        "InstanceNormalization",
        "onnx",
        "normalisation",
        only(by_channel("@1", "@2")),
        alone(*_IMAGES),
        {**_channels("gamma", "beta"), "epsilon": number(1e-5, 0.1, illegal=("small",), low=0.0)},
    ),
    LayerKind(
        "LayerNormalization",
        "onnx",
        "normalisation",
        only(layer_normal),
        alone(*ONNX_SHAPES),
        {
            "@1": _weight([8], [4], [8, 4], [5], [8, 8], name="gamma"),
            "@2": _weight([8], [4], [8, 4], required=False),
            "axis": listed(-1, 1, -2, illegal=(9, -9)),
            "epsilon": number(1e-5, 0.1, illegal=("small",), low=0.0),
        },
    ),
    LayerKind(
        "LRN",
        "onnx",
        "normalisation",
        only(local),
        alone(*_IMAGES[:4]),
        {
            "size": count(3, 1, 5, required=True),
            "alpha": number(1e-4, 0.5, illegal=("much",)),
            "beta": number(0.75, 0.5, illegal=("much",)),
            "bias": number(1.0, 2.0, illegal=("much",)),
        },
    ),
    LayerKind(
        "LpNormalization",
        "onnx",
        "normalisation",
        only(along),
        alone(*ONNX_SHAPES),
        {"axis": listed(-1, 1, -2, illegal=(9, -9)), "p": choice(2, 1, illegal=())},
    ),
    LayerKind(
        "MatMul",
        "onnx",
        "matrices",
        matrix,
        (
            ((2, 8), (8, 3)),
            ((4, 4), (4, 4)),
            ((2, 8, 4), (2, 4, 5)),
            ((2, 8, 4), (4, 3)),
            ((2, 3, 5, 4), (3, 4, 1)),
            ((1, 1), (1, 1)),
        ),
    ),
    LayerKind(
        "Gemm",
        "onnx",
        "matrices",
        general,
        (
            ((2, 8), (8, 3)),
            ((8, 2), (8, 3), (3,)),
            ((2, 8), (3, 8), (2, 1)),
            ((8, 2), (3, 8), (2, 3)),
            ((4, 4), (4, 4), (4, 4)),
            ((2, 8), (8, 3), (1,)),
        ),
        {
            "alpha": number(1.0, 0.5, illegal=("much",)),
            "beta": number(1.0, 0.5, 0.0, illegal=("much",)),
            "transA": _flagged(0, 1),
            "transB": _flagged(0, 1),
        },
    ),
    _recurrent("LSTM", 4, 2, {"input_forget": _flagged(0, 1)}),
    _recurrent("GRU", 3, 1, {"linear_before_reset": _flagged(0, 1)}),
    _recurrent("RNN", 1, 1, {"activations": listed(None, ["Relu"], ["Relu", "Tanh"], illegal=(["Unknown"],))}),
)
