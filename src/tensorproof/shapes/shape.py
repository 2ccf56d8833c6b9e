"""`Shape`: the sizes of a tensor, all of them or only those at its two ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tensorproof.shapes.sizes import Size, is_unknown, product, same, unknown


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes from the front; if `tail` is given, any number of unknown sizes follow, then those of the tail.

    `Shape((2, 3))` is exactly that; `Shape((), (120,))` is `[*, 120]`; `ANY_SHAPE` is nothing known at all.
    """

    head: tuple[Size, ...]
    tail: tuple[Size, ...] | None = None

    @property
    def rank(self) -> int | None:
        return len(self.head) if self.tail is None else None

    @property
    def least_rank(self) -> int:
        return len(self.head) + len(self.tail or ())

    @property
    def dims(self) -> tuple[Size, ...]:
        """All sizes; only for a shape whose rank is known."""
        assert self.tail is None, "the rank is not known"
        return self.head

    @property
    def is_precise(self) -> bool:
        """Whether every size is known, be it as a symbol."""
        return self.tail is None and not any(is_unknown(size) for size in self.head)

    @property
    def elements(self) -> Size | None:
        return product(self.head) if self.tail is None else None

    def __getitem__(self, axis: int) -> Size:
        """The size of an axis, from the front or (negative) from the back; unknown where the ends do not reach."""
        if self.tail is None:
            return self.head[axis]
        if axis >= 0:
            return self.head[axis] if axis < len(self.head) else unknown()
        return self.tail[axis] if -axis <= len(self.tail) else unknown()

    def last(self, wanted: int) -> tuple[Size, ...]:
        """The last sizes; fewer only if the rank is known to be lower."""
        if self.tail is None:
            return self.head[len(self.head) - wanted :] if wanted <= len(self.head) else self.head
        return tuple(self[axis] for axis in range(-wanted, 0))

    def without_last(self, count: int) -> Shape:
        """All but the last sizes."""
        if count == 0:
            return self
        if self.tail is None:
            return Shape(self.head[: max(len(self.head) - count, 0)])
        return Shape(self.head, self.tail[: max(len(self.tail) - count, 0)])

    def extended(self, *sizes: Size) -> Shape:
        """With further sizes at the end."""
        return Shape((*self.head, *sizes)) if self.tail is None else Shape(self.head, (*self.tail, *sizes))

    def preceded(self, *sizes: Size) -> Shape:
        """With further sizes in front."""
        return Shape((*sizes, *self.head), self.tail)

    def map(self, function: Callable[[Size], Size]) -> Shape:
        return Shape(tuple(map(function, self.head)), None if self.tail is None else tuple(map(function, self.tail)))

    def __iter__(self) -> Iterator[Size]:
        return iter(self.dims)

    def __str__(self) -> str:
        parts = [*map(str, self.head), *([] if self.tail is None else ["*", *map(str, self.tail)])]
        return f"[{', '.join(parts)}]"


ANY_SHAPE = Shape((), ())
SCALAR = Shape(())


def of_rank(rank: int) -> Shape:
    """A shape with that many unknown sizes."""
    return Shape(tuple(unknown() for _ in range(rank)))


def same_shape(left: Shape, right: Shape) -> bool | None:
    """Whether two shapes are equal: yes, no (for all values), or unknown."""
    if left.tail is None and right.tail is None:
        if len(left.head) != len(right.head):
            return False
        answers = [same(a, b) for a, b in zip(left.head, right.head, strict=True)]
        return False if False in answers else True if all(answers) else None
    return False if _contradict(left, right) else None


def meet(left: Shape, right: Shape) -> Shape | None:
    """What both say together; None if they contradict each other."""
    if _contradict(left, right):
        return None
    if left.tail is not None and right.tail is not None:
        return left if left.least_rank >= right.least_rank else right
    exact, other = (left, right) if left.tail is None else (right, left)
    dims: list[Size] = []
    for axis, size in enumerate(exact.head):
        known = _at(other, axis, len(exact.head))
        dims.append(known if known is not None and is_unknown(size) else _better(size, known))
    return Shape(tuple(dims))


def _better(size: Size, other: Size | None) -> Size:
    return other if isinstance(other, int) and not isinstance(size, int) else size


def _at(shape: Shape, axis: int, rank: int) -> Size | None:
    """The size that a shape gives an axis if its rank is `rank`."""
    if shape.tail is None:
        return shape.head[axis]
    if axis < len(shape.head):
        return shape.head[axis]
    return shape.tail[axis - rank] if axis - rank >= -len(shape.tail) else None


def _contradict(left: Shape, right: Shape) -> bool:
    for one, other in ((left, right), (right, left)):
        if one.rank is not None and other.least_rank > one.rank:
            return True
    if left.rank is not None and right.rank is not None:
        return left.rank != right.rank or any(same(a, b) is False for a, b in zip(left.head, right.head, strict=True))
    if any(same(a, b) is False for a, b in zip(left.head, right.head, strict=False)):
        return True
    ends = [shape.head if shape.tail is None else shape.tail for shape in (left, right)]
    return any(same(a, b) is False for a, b in zip(reversed(ends[0]), reversed(ends[1]), strict=False))
