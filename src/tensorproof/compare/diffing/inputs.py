"""The inputs that two models are compared on: the user's own, or drawn from ranges. Both models are fed the same numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorproof.assumptions import Domain, domain_from_json
from tensorproof.compare.backends.backend import ModelFacts
from tensorproof.compare.diffing.aligning import Alignment
from tensorproof.compare.drawing import Array, Arrays, dtype_of
from tensorproof.confirm.sampling import TACTICS, Point, points
from tensorproof.errors import AssumptionError
from tensorproof.formats import BY_NAME, FLOAT32, Format

#: What floating inputs are drawn from, where nothing is declared.
_DEFAULT = Domain("box", -1.0, 1.0, source="default")
_DEFAULT_INTEGERS = Domain("box", 0.0, 1.0, source="default")


@dataclass(frozen=True)
class InputSpace:
    """Domain, shape and format of each input, by its name in the left model; `names` has those of the right model."""

    domains: Mapping[str, tuple[Domain, tuple[int, ...], Format]]
    names: Mapping[str, str]
    left_types: Mapping[str, str]
    right_types: Mapping[str, str]

    def draw(self, seed: int, count: int, *, first: int = 0, is_typical: bool = False) -> Iterator[Point]:
        """Points of the ranges, from number `first` to before `first + count`; each depends on the seed and its number alone.

        Corners and constants are among them, unless only typical points are wanted.
        """
        return points(seed, self.domains, first + count, first=first, tactics=("uniform",) if is_typical else TACTICS)

    def for_left(self, point: Arrays) -> dict[str, Array]:
        """A point as the left model takes it: with numbers that the right model's inputs can hold, too."""
        return {name: self._shared(name, array, self.left_types[name]) for name, array in point.items()}

    def for_right(self, point: Arrays) -> dict[str, Array]:
        """The same numbers for the right model."""
        return {self.names[name]: self._shared(name, array, self.right_types[self.names[name]]) for name, array in point.items()}

    def _shared(self, name: str, array: Array, wanted: str) -> Array:
        shared = array
        for dtype in (self.left_types[name], self.right_types[self.names[name]]):
            with np.errstate(over="ignore", invalid="ignore"):
                narrow = shared.astype(dtype_of(dtype))
                # What a format cannot hold at all stays as it is: then the models are given what the user has.
                if array.dtype.kind != "f" or bool(np.isfinite(narrow.astype(np.float64)).all()):
                    shared = narrow
        with np.errstate(over="ignore", invalid="ignore"):
            return shared.astype(dtype_of(wanted))


def input_space(
    left: ModelFacts,
    right: ModelFacts,
    alignment: Alignment,
    ranges: Mapping[str, Domain],
    size: int,
    data: Mapping[str, Array] | None,
) -> InputSpace:
    """What inputs are drawn from: declared ranges, those of the models themselves, those of the data.

    Dimensions that both models leave open have `size` elements.
    """
    names = {pair.left: pair.right for pair in alignment.inputs}
    unknown = set(ranges) - set(names) - set(names.values()) - {"*"}
    if unknown:
        raise AssumptionError(f"range of {sorted(unknown)[0]!r}: no such input; inputs are {', '.join(names) or 'none'}")
    ours = {name: (dtype, shape) for name, dtype, shape in left.inputs}
    theirs = {name: (dtype, shape) for name, dtype, shape in right.inputs}
    domains: dict[str, tuple[Domain, tuple[int, ...], Format]] = {}
    for name, other in names.items():
        dtype, shape = ours[name]
        form = BY_NAME.get(dtype, FLOAT32)
        sizes = tuple(a if a is not None else b if b is not None else size for a, b in zip(shape, theirs[other][1]))
        declared = next((ranges[key] for key in (name, other, "*") if key in ranges), None)
        stated = left.ranges.get(name, right.ranges.get(other))
        if declared is None and data is not None and name in data:
            declared = _observed(data[name])
        if declared is None and stated is not None:
            declared = domain_from_json(stated, name)
        domains[name] = declared or (_DEFAULT if form.is_float else _DEFAULT_INTEGERS), sizes, form
    return InputSpace(
        domains, names, {name: dtype for name, (dtype, _) in ours.items()}, {name: dtype for name, (dtype, _) in theirs.items()}
    )


def _observed(array: Array) -> Domain | None:
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    return Domain("box", float(finite.min()), float(finite.max()), source="data") if finite.size else None


def given_points(data: Mapping[str, Array], left: ModelFacts, alignment: Alignment, path: str) -> list[Point]:
    """The samples of an .npz file. An array has the shape of its input, or one more axis in front: then it holds several samples.

    Arrays have the names of the inputs in either model; a model of one input takes the only array of the file.
    """
    columns: dict[str, Sequence[Array]] = {}
    shapes = {name: (dtype, shape) for name, dtype, shape in left.inputs}
    for pair in alignment.inputs:
        array = data.get(pair.left, data.get(pair.right))
        if array is None and len(alignment.inputs) == 1 and len(data) == 1:
            array = next(iter(data.values()))
        if array is None:
            raise AssumptionError(f"{path}: has no array {pair.left!r}; it has {', '.join(sorted(data)) or 'none'}")
        columns[pair.left] = _samples(array, *shapes[pair.left], name=pair.left, path=path)
    count = {len(column) for column in columns.values()}
    if len(count) > 1:
        raise AssumptionError(f"{path}: its arrays hold different numbers of samples ({', '.join(map(str, sorted(count)))})")
    return [{name: column[index] for name, column in columns.items()} for index in range(next(iter(count), 0))]


def _samples(array: Array, dtype: str, shape: tuple[int | None, ...], *, name: str, path: str) -> Sequence[Array]:
    if array.dtype.kind not in "fiubV":
        raise AssumptionError(f"{path}: {name} holds {array.dtype.name}, not numbers")
    with np.errstate(over="ignore", invalid="ignore"):
        numbers: Any = array if array.dtype == dtype_of(dtype) else array.astype(dtype_of(dtype))
    if _fits(array.shape, shape):
        return [numbers]
    if _fits(array.shape[1:], shape) and array.ndim:
        return list(numbers)
    if shape[:1] == (1,) and _fits(array.shape[1:], shape[1:]):
        return [row[None] for row in numbers]
    wanted = ", ".join("?" if size is None else str(size) for size in shape)
    raise AssumptionError(f"{path}: {name} is of shape {array.shape}, its input of shape ({wanted})")


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(shape) == len(wanted) and all(b is None or a == b for a, b in zip(shape, wanted))
