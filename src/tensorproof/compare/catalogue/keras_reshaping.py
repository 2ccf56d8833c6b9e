"""Layers of Keras that move data, cut it off, or add to it."""

from __future__ import annotations

import math

from tensorproof.compare.catalogue.keras_convolution import joined, split
from tensorproof.compare.catalogue.layer_kind import (
    ANY_RANK,
    BY_SPATIAL,
    FLAT,
    Arguments,
    LayerKind,
    Misfit,
    Shape,
    alone,
    only,
    require,
    unchanged,
)
from tensorproof.compare.catalogue.parameters import channels_order, choice, count, is_count, is_list, listed, number, sizes, spread
from tensorproof.compare.spec import Json


def flat(shape: Shape, arguments: Arguments) -> Shape:
    """All axes but the batch in one."""
    return (shape[0], math.prod(shape[1:]))


def reshaped(shape: Shape, arguments: Arguments) -> Shape:
    """As many elements as before; -1 stands for what is left."""
    wanted, size = arguments["target_shape"], math.prod(shape[1:])
    require(is_list(wanted) and all(part == -1 or is_count(part, 0) for part in wanted) and list(wanted).count(-1) <= 1)
    known = math.prod(part for part in wanted if part != -1)
    if -1 in wanted:
        require(known > 0 and size % known == 0)
        return (shape[0], *(size // known if part == -1 else part for part in wanted))
    require(known == size)
    return (shape[0], *wanted)


def permuted(shape: Shape, arguments: Arguments) -> Shape:
    """Axes in another order, counted from 1, the batch left aside."""
    dims = arguments["dims"]
    require(is_list(dims) and sorted(dims, key=str) == sorted(range(1, len(shape)), key=str))
    return (shape[0], *(shape[axis] for axis in dims))


def repeated(shape: Shape, arguments: Arguments) -> Shape:
    """Each vector `n` times."""
    require(len(shape) == 2)
    return (shape[0], arguments["n"], shape[1])


def edges_of(value: Json, rank: int) -> list[tuple[int, int]]:
    """What happens before and after each axis: one number for all, one per axis, or pairs. One axis may have a pair alone."""
    if is_count(value, 0):
        return [(value, value)] * rank
    if rank == 1 and is_list(value, 2) and all(is_count(part, 0) for part in value):
        return [(value[0], value[1])]
    require(rank > 1 and is_list(value, rank))
    found: list[tuple[int, int]] = []
    for part in value:
        if is_count(part, 0):
            found.append((part, part))
        elif is_list(part, 2) and all(is_count(side, 0) for side in part):
            found.append((part[0], part[1]))
        else:
            raise Misfit
    return found


def cropped(shape: Shape, arguments: Arguments) -> Shape:
    """Something has to be left."""
    spatial, channels = split(shape, arguments)
    left = tuple(size - before - after for size, (before, after) in zip(spatial, edges_of(arguments["cropping"], len(spatial))))
    require(min(left) > 0)
    return joined(shape, left, channels, arguments)


def padded(shape: Shape, arguments: Arguments) -> Shape:
    """Zeros around."""
    spatial, channels = split(shape, arguments)
    grown = tuple(size + before + after for size, (before, after) in zip(spatial, edges_of(arguments["padding"], len(spatial))))
    return joined(shape, grown, channels, arguments)


def enlarged(shape: Shape, arguments: Arguments) -> Shape:
    """Each axis by a whole factor."""
    spatial, channels = split(shape, arguments)
    factors = spread(arguments["size"], len(spatial))
    return joined(shape, tuple(size * factor for size, factor in zip(spatial, factors)), channels, arguments)


def _kinds(rank: int) -> list[LayerKind]:
    palette = alone(*BY_SPATIAL[rank])
    uneven = [0, 2] if rank == 1 else [[1, 0], [0, 2], [1, 1]][:rank]
    order = {} if rank == 1 else {"data_format": channels_order}
    wrong = (-1, "one", 1.5, [1] * (rank + 2), None)
    crop = ([1, 1], 0, [[0, 0], [0, 0]], [[1, 1]] * 3)
    default = crop[0] if rank == 1 else crop[rank]
    pad: Json = {1: 1, 2: [1, 1], 3: [[1, 1]] * 3}[rank]
    return [
        LayerKind(
            f"Cropping{rank}D",
            "keras",
            "reshaping",
            only(cropped),
            palette,
            {"cropping": listed(default, 0, 1, uneven, illegal=(*wrong, 50)), **order},
        ),
        LayerKind(
            f"ZeroPadding{rank}D",
            "keras",
            "reshaping",
            only(padded),
            palette,
            {"padding": listed(pad, 0, 2, uneven, illegal=wrong), "data_format": channels_order},
        ),
        LayerKind(
            f"UpSampling{rank}D",
            "keras",
            "reshaping",
            only(enlarged),
            palette,
            {
                "size": sizes(rank, 2 if rank == 1 else [2] * rank, 1, 3, *(([1, 2, 3][:rank],) if rank > 1 else ())),
                **order,
                **({"interpolation": choice("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5")} if rank == 2 else {}),
            },
        ),
    ]


KINDS = (
    LayerKind("Flatten", "keras", "reshaping", only(flat), alone(*ANY_RANK), {"data_format": channels_order}, is_audee=False),
    LayerKind(
        "Reshape",
        "keras",
        "reshaping",
        only(reshaped),
        alone(*ANY_RANK),
        {
            "target_shape": listed(
                [-1], [8, 4], [-1, 4], [2, 2, -1], [4, 8], illegal=([-1, -1], [7, 7], [-2], "flat", None, 0), required=True
            )
        },
    ),
    LayerKind(
        "Permute",
        "keras",
        "reshaping",
        only(permuted),
        alone(*ANY_RANK),
        {
            "dims": listed(
                [2, 1], [1], [3, 1, 2], [1, 3, 2], [4, 3, 2, 1], illegal=([0, 1], [1, 1], [2, 3], "swap", None), required=True
            )
        },
    ),
    LayerKind("RepeatVector", "keras", "reshaping", only(repeated), alone(*FLAT), {"n": count(3, 1, 2, required=True)}),
    LayerKind(
        "Masking", "keras", "reshaping", only(unchanged), alone((2, 8, 4), (3, 5, 6), (1, 1, 4)), {"mask_value": number(0.0, 1.0)}
    ),
    *(kind for rank in (1, 2, 3) for kind in _kinds(rank)),
)
