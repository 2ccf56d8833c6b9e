"""Layers of Keras that join several inputs."""

from __future__ import annotations

from tensorproof.compare.catalogue.layer_kind import Arguments, LayerKind, Shapes, axis_of, require
from tensorproof.compare.catalogue.parameters import flag, is_list, listed

_PAIRS: tuple[Shapes, ...] = (
    ((2, 8), (2, 8)),
    ((2, 8, 4), (2, 8, 4)),
    ((2, 8, 8, 4), (2, 8, 8, 4)),
    ((2, 5, 6, 4, 2), (2, 5, 6, 4, 2)),
    ((3, 5), (3, 1)),
    ((2, 8, 4), (2, 1, 4)),
    ((1, 1), (1, 1)),
)
_TRIPLES: tuple[Shapes, ...] = (((2, 8), (2, 8), (2, 8)), ((2, 8, 4), (2, 8, 1), (2, 1, 4)), ((3, 3, 3, 3),) * 3)


def broadcast(shapes: Shapes, arguments: Arguments) -> Shapes:
    """Elementwise: axes of size 1 are stretched; the batch is the same for all."""
    require(len(shapes) >= 2 and len({len(shape) for shape in shapes}) == 1 and len({shape[0] for shape in shapes}) == 1)
    sizes: list[int] = []
    for axis in zip(*shapes):
        wide = {size for size in axis if size != 1}
        require(len(wide) <= 1)
        sizes.append(wide.pop() if wide else 1)
    return (tuple(sizes),)


def pair(shapes: Shapes, arguments: Arguments) -> Shapes:
    """Exactly two inputs."""
    require(len(shapes) == 2)
    return broadcast(shapes, arguments)


def concatenated(shapes: Shapes, arguments: Arguments) -> Shapes:
    """All axes but one are the same."""
    count, first = len(shapes), shapes[0]
    require(count >= 2 and len({len(shape) for shape in shapes}) == 1)
    axis = axis_of(arguments["axis"], len(first))
    require(axis > 0)
    require(len({shape[:axis] + shape[axis + 1 :] for shape in shapes}) == 1)
    return ((*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :]),)


def contracted(shapes: Shapes, arguments: Arguments) -> Shapes:
    """Sums of products along one axis of each, the batch aside."""
    require(len(shapes) == 2)
    left, right = shapes
    axes = arguments["axes"]
    require(not is_list(axes) or len(axes) == 2)
    first, second = (axes[0], axes[1]) if is_list(axes) else (axes, axes)
    i, j = axis_of(first, len(left)), axis_of(second, len(right))
    require(i > 0 and j > 0 and left[i] == right[j] and left[0] == right[0])
    joined = left[:i] + left[i + 1 :] + right[1:j] + right[j + 1 :]
    return (joined if len(joined) > 1 else (*joined, 1),)


KINDS = (
    *(
        LayerKind(name, "keras", "merging", broadcast, _PAIRS + _TRIPLES)
        for name in ("Add", "Multiply", "Average", "Maximum", "Minimum")
    ),
    LayerKind("Subtract", "keras", "merging", pair, _PAIRS),
    LayerKind(
        "Concatenate",
        "keras",
        "merging",
        concatenated,
        (
            *_PAIRS[:4],
            ((3, 5), (3, 1)),
            ((2, 8, 4), (2, 1, 4)),
            ((2, 8, 8, 4), (2, 8, 8, 1), (2, 8, 8, 2)),
            ((2, 8, 8, 4), (2, 5, 8, 4)),
        ),
        {"axis": listed(-1, 1, 2, -2, illegal=(9, -9, "last", 1.5, None))},
        is_audee=False,
    ),
    LayerKind(
        "Dot",
        "keras",
        "merging",
        contracted,
        (
            ((2, 8), (2, 8)),
            ((2, 8, 4), (2, 8, 4)),
            ((2, 8, 4), (2, 5, 4)),
            ((2, 8, 4), (2, 4, 5)),
            ((3, 4, 4), (3, 4, 4)),
        ),
        {
            "axes": listed(-1, 1, 2, [2, 1], [1, 2], illegal=(9, 0, [1], [1, 2, 3], "last", None), required=True),
            "normalize": flag(False),
        },
    ),
)
