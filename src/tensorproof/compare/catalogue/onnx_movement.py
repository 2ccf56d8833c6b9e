"""Operators of ONNX that reduce axes, or move and select data."""

from __future__ import annotations

import math

from tensorproof.compare.catalogue.layer_kind import Arguments, LayerKind, OneRule, Shape, Shapes, alone, axis_of, only, require
from tensorproof.compare.catalogue.onnx_elementwise import ONNX_SHAPES, stretched
from tensorproof.compare.catalogue.parameters import Parameter, choice, count, is_count, is_list, listed
from tensorproof.compare.spec import Json

_IMAGES = ((2, 4, 8, 8), (1, 8, 4, 6), (2, 16, 3, 1))


def axes_of(value: Json, rank: int) -> tuple[int, ...]:
    """Axes counted from the front, each once."""
    require(is_list(value))
    found = tuple(axis_of(axis, rank) for axis in value)
    require(len(set(found)) == len(found))
    return found


def reduced(shape: Shape, arguments: Arguments) -> Shape:
    """No axes are all axes, unless `noop_with_empty_axes`."""
    wanted = arguments["@1"]
    if wanted is None and arguments["noop_with_empty_axes"]:
        return shape
    axes = tuple(range(len(shape))) if wanted is None else axes_of(wanted, len(shape))
    if arguments["keepdims"]:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def picked(shape: Shape, arguments: Arguments) -> Shape:
    """The place of an extreme along one axis."""
    axis = axis_of(arguments["axis"], len(shape))
    return (*shape[:axis], *((1,) if arguments["keepdims"] else ()), *shape[axis + 1 :])


def along(shape: Shape, arguments: Arguments) -> Shape:
    """Along one axis."""
    axis_of(arguments["axis"], len(shape))
    return shape


def summed(shape: Shape, arguments: Arguments) -> Shape:
    """Running sums; the axis is an operand."""
    axis_of(arguments["@1"], len(shape))
    return shape


def best(shapes: Shapes, arguments: Arguments) -> Shapes:
    """The largest or smallest along an axis, and where they are."""
    (shape,) = shapes
    axis, wanted = axis_of(arguments["axis"], len(shape)), arguments["@1"]
    require(is_list(wanted, 1) and is_count(wanted[0], 0) and wanted[0] <= shape[axis])
    found = (*shape[:axis], wanted[0], *shape[axis + 1 :])
    return (found, found)


def transposed(shape: Shape, arguments: Arguments) -> Shape:
    """Axes in another order, by default turned round."""
    order = arguments["perm"]
    if order is None:
        return shape[::-1]
    require(is_list(order) and all(is_count(axis, 0) for axis in order) and sorted(order) == list(range(len(shape))))
    return tuple(shape[axis] for axis in order)


def reshaped(shape: Shape, arguments: Arguments) -> Shape:
    """-1 stands for what is left; 0 for the size at the same place, unless `allowzero`."""
    wanted = arguments["@1"]
    require(is_list(wanted) and all(is_count(part, -1) for part in wanted) and list(wanted).count(-1) <= 1)
    sizes: list[int] = []
    for place, part in enumerate(wanted):
        if part == 0 and not arguments["allowzero"]:
            require(place < len(shape))
            sizes.append(shape[place])
        else:
            sizes.append(part)
    known, total = math.prod(size for size in sizes if size != -1), math.prod(shape)
    if -1 in sizes:
        require(known > 0 and total % known == 0)
        return tuple(total // known if size == -1 else size for size in sizes)
    require(known == total)
    return tuple(sizes)


def flattened(shape: Shape, arguments: Arguments) -> Shape:
    """Axes before `axis` in one, the others in another."""
    axis = arguments["axis"]
    require(isinstance(axis, int) and -len(shape) <= axis <= len(shape))
    place = axis if axis >= 0 else axis + len(shape)
    return (math.prod(shape[:place]), math.prod(shape[place:]))


def squeezed(shape: Shape, arguments: Arguments) -> Shape:
    """Axes of size 1 left out, by default all of them."""
    wanted = arguments["@1"]
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1) if wanted is None else axes_of(wanted, len(shape))
    require(all(shape[axis] == 1 for axis in axes))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def unsqueezed(shape: Shape, arguments: Arguments) -> Shape:
    """Axes of size 1 put in; they are axes of the result."""
    wanted = arguments["@1"]
    require(is_list(wanted))
    axes, left = axes_of(wanted, len(shape) + len(wanted)), list(shape)
    return tuple(1 if axis in axes else left.pop(0) for axis in range(len(shape) + len(wanted)))


def joined(shapes: Shapes, arguments: Arguments) -> Shapes:
    """All axes but one are the same."""
    require(len({len(shape) for shape in shapes}) == 1)
    axis = axis_of(arguments["axis"], len(shapes[0]))
    require(len({shape[:axis] + shape[axis + 1 :] for shape in shapes}) == 1)
    return ((*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :]),)


def sliced(shape: Shape, arguments: Arguments) -> Shape:
    """As Python's slices."""
    starts, ends, wanted, steps = (arguments[f"@{place}"] for place in (1, 2, 3, 4))
    require(is_list(starts) and is_list(ends, len(starts)) and all(isinstance(place, int) for place in (*starts, *ends)))
    axes = axes_of(list(range(len(starts))) if wanted is None else wanted, len(shape))
    strides = [1] * len(starts) if steps is None else steps
    require(is_list(strides, len(starts)) and len(axes) == len(starts) and 0 not in strides)
    sizes = list(shape)
    for axis, start, end, step in zip(axes, starts, ends, strides):
        sizes[axis] = len(range(*slice(start, end, step).indices(shape[axis])))
    return tuple(sizes)


def padded(shape: Shape, arguments: Arguments) -> Shape:
    """Before and after each axis; negative numbers cut off. A reflection is shorter than the axis."""
    pads, rank = arguments["@1"], len(shape)
    require(is_list(pads, 2 * rank) and all(isinstance(part, int) for part in pads))
    if arguments["mode"] == "reflect":
        require(all(max(pads[axis], pads[axis + rank]) < size for axis, size in enumerate(shape)))
    if arguments["mode"] == "wrap":
        require(all(max(pads[axis], pads[axis + rank]) <= size for axis, size in enumerate(shape)))
    grown = tuple(size + pads[axis] + pads[axis + rank] for axis, size in enumerate(shape))
    require(min(grown) > 0)
    return grown


def gathered(shape: Shape, arguments: Arguments) -> Shape:
    """Entries of an axis, by number; negative ones count from the end."""
    axis, places = axis_of(arguments["axis"], len(shape)), arguments["@1"]
    flat = _flat(places)
    require(all(isinstance(place, int) and -shape[axis] <= place < shape[axis] for place in flat))
    return (*shape[:axis], *_shape(places), *shape[axis + 1 :])


def expanded(shape: Shape, arguments: Arguments) -> Shape:
    """Stretched to a shape and by it."""
    wanted = arguments["@1"]
    require(is_list(wanted) and all(is_count(part) for part in wanted))
    return stretched((shape, tuple(wanted)))


def tiled(shape: Shape, arguments: Arguments) -> Shape:
    """Each axis some times."""
    times = arguments["@1"]
    require(is_list(times, len(shape)) and all(is_count(part) for part in times))
    return tuple(size * part for size, part in zip(shape, times))


def deeper(shape: Shape, arguments: Arguments) -> Shape:
    """Blocks of an image become channels."""
    block = arguments["blocksize"]
    require(shape[2] % block == 0 and shape[3] % block == 0)
    return (shape[0], shape[1] * block * block, shape[2] // block, shape[3] // block)


def wider(shape: Shape, arguments: Arguments) -> Shape:
    """Channels become blocks of an image."""
    block = arguments["blocksize"]
    require(shape[1] % (block * block) == 0)
    return (shape[0], shape[1] // (block * block), shape[2] * block, shape[3] * block)


def resized(shape: Shape, arguments: Arguments) -> Shape:
    """By factors or to sizes, not both."""
    factors, sizes = arguments["@2"], arguments["@3"]
    require((factors is None) != (sizes is None))
    if sizes is not None:
        require(is_list(sizes, len(shape)) and all(is_count(size) for size in sizes))
        return tuple(sizes)
    require(is_list(factors, len(shape)) and all(factor > 0 for factor in factors))
    found = tuple(math.floor(size * factor) for size, factor in zip(shape, factors))
    require(min(found) > 0)
    return found


def triangle(shape: Shape, arguments: Arguments) -> Shape:
    """A corner of each matrix."""
    return shape


def _flat(value: Json) -> list[Json]:
    return [part for entry in value for part in _flat(entry)] if is_list(value) else [value]


def _shape(value: Json) -> Shape:
    return (len(value), *_shape(value[0])) if is_list(value) else ()


def _kind(name: str, rule: OneRule, parameters: dict[str, Parameter], shapes: tuple[Shape, ...] = ONNX_SHAPES) -> LayerKind:
    return LayerKind(name, "onnx", "movement", only(rule), alone(*shapes), parameters)


_AXIS = listed(-1, 1, 0, illegal=(9, -9))
_BIT = Parameter(0, (0, 1), (), lambda value: value in (0, 1))
_ONE = Parameter(1, (1, 0), (), lambda value: value in (0, 1))
_REDUCTIONS = "Sum Mean Max Min Prod L1 L2 LogSumExp SumSquare LogSum"

KINDS = (
    *(
        LayerKind(
            f"Reduce{name}",
            "onnx",
            "reduction",
            only(reduced),
            alone(*ONNX_SHAPES),
            {
                "@1": listed(None, [1], [-1], [0, 1], [1, 2], illegal=([9], [-9])),
                "keepdims": _ONE,
                "noop_with_empty_axes": _BIT,
            },
        )
        for name in _REDUCTIONS.split()
    ),
    *(
        LayerKind(name, "onnx", "reduction", only(along), alone(*ONNX_SHAPES), {"axis": _AXIS})
        for name in ("Softmax", "LogSoftmax", "Hardmax")
    ),
    *(
        LayerKind(
            name,
            "onnx",
            "reduction",
            only(picked),
            alone(*ONNX_SHAPES),
            {"axis": listed(0, 1, -1, illegal=(9, -9)), "keepdims": _ONE, "select_last_index": _BIT},
            result_dtype="int64",
        )
        for name in ("ArgMax", "ArgMin")
    ),
    _kind(
        "CumSum",
        summed,
        {"@1": listed(1, 0, -1, illegal=(9, -9), required=True), "exclusive": _BIT, "reverse": _BIT},
    ),
    LayerKind(
        "TopK",
        "onnx",
        "movement",
        best,
        alone(*ONNX_SHAPES),
        {
            "@1": listed([1], [3], [2], illegal=([99], [-1]), required=True),
            "@results": Parameter(2, (2,), (), lambda value: value == 2, required=True),
            "axis": _AXIS,
            "largest": _ONE,
            "sorted": Parameter(1, (1,), (), lambda value: value in (0, 1)),
        },
    ),
    _kind("Transpose", transposed, {"perm": listed(None, [1, 0], [0, 2, 1], [0, 2, 3, 1], illegal=([0, 0], [5, 6]))}),
    _kind(
        "Reshape",
        reshaped,
        {
            "@1": listed([-1], [0, -1], [2, -1], [4, 2, -1], [-1, 8], illegal=([-1, -1], [7, 11], [-2]), required=True),
            "allowzero": _BIT,
        },
    ),
    _kind("Flatten", flattened, {"axis": listed(1, 0, 2, -1, illegal=(9, -9))}),
    _kind(
        "Squeeze", squeezed, {"@1": listed(None, [0], [1], [-1], illegal=([9],))}, ((1, 8), (2, 1), (1, 1), (1, 4, 1), (2, 1, 5, 1))
    ),
    _kind("Unsqueeze", unsqueezed, {"@1": listed([0], [1], [-1], [0, 2], illegal=([9], [0, 0]), required=True)}),
    LayerKind(
        "Concat",
        "onnx",
        "movement",
        joined,
        (
            ((2, 8), (2, 8)),
            ((2, 8), (2, 3)),
            ((2, 8, 4), (2, 5, 4), (2, 1, 4)),
            ((4, 4, 4), (4, 4, 4)),
            ((2, 4, 8, 8), (2, 3, 8, 8)),
        ),
        {"axis": listed(1, 0, -1, 2, illegal=(9, -9), required=True)},
    ),
    _kind(
        "Slice",
        sliced,
        {
            "@1": listed([1], [0], [-1], [-3], illegal=([[1]],), required=True),
            "@2": listed([1000], [3], [-1], [-1000], illegal=([1, 2],), required=True),
            "@3": listed(None, [1], [-1], illegal=([9],)),
            "@4": listed(None, [2], [-1], illegal=([0],)),
        },
    ),
    _kind(
        "Pad",
        padded,
        {
            "@1": listed(
                [1, 0, 2, 1],
                [0, 1, 1, 0, 2, 1],
                [0, -1, 0, 2],
                [0, 0, 1, 1, 0, 0, 2, 0],
                illegal=([1], [-9, -9, -9, -9]),
                required=True,
            ),
            "@2": listed(None, 1.5),
            "mode": choice("constant", "reflect", "edge", "wrap"),
        },
    ),
    _kind(
        "Gather",
        gathered,
        {
            "@1": listed([0], 1, [[0, 1], [1, 0]], [-1, 0, -1], illegal=([99], [-99]), required=True),
            "axis": listed(0, 1, -1, illegal=(9, -9)),
        },
    ),
    _kind(
        "Expand",
        expanded,
        {"@1": listed([1], [3, 1, 1], [2, 1, 1, 1], [8, 4], illegal=([7, 9], [-1]), required=True)},
        ((2, 8), (3, 1), (2, 8, 4), (2, 1, 4)),
    ),
    _kind("Tile", tiled, {"@1": listed([2, 1], [1, 3], [1, 2, 2], [1, 1, 2, 1], illegal=([2], [-1, -1]), required=True)}),
    _kind("SpaceToDepth", deeper, {"blocksize": count(2, 1, 3, required=True)}, ((2, 4, 8, 8), (1, 2, 6, 4), (2, 1, 3, 9))),
    _kind(
        "DepthToSpace",
        wider,
        {"blocksize": count(2, 1, required=True), "mode": choice("DCR", "CRD")},
        _IMAGES,
    ),
    _kind(
        "Resize",
        resized,
        {
            "@1": Parameter(None, (None,), (), lambda value: value is None, required=True),
            "@2": listed([1.0, 1.0, 2.0, 2.0], None, [1.0, 1.0, 0.5, 1.5], illegal=([2.0], [1.0, 1.0, -1.0, 1.0]), required=True),
            "@3": listed(None, [2, 4, 5, 11], [1, 8, 8, 3], illegal=([2, 4],)),
            "mode": choice("nearest", "linear", "cubic"),
            "coordinate_transformation_mode": choice("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"),
            "nearest_mode": choice("round_prefer_floor", "floor", "ceil", "round_prefer_ceil"),
        },
        ((2, 4, 8, 8), (1, 8, 4, 6)),
    ),
    _kind(
        "Trilu",
        triangle,
        {"upper": _ONE, "@1": Parameter(None, (None, 1, -1), ([1, 2],), lambda v: v is None or isinstance(v, int))},
    ),
)
