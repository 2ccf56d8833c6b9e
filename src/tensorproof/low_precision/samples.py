"""The samples that a plan is made and checked on: points of the declared box, and the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from tensorproof.assumptions import Assumptions, Domain, read_samples
from tensorproof.confirm.sampling import Point, points
from tensorproof.errors import AssumptionError
from tensorproof.formats import FLOAT32, Format
from tensorproof.graph import Model

Domains = Mapping[str, tuple[Domain, tuple[int, ...], Format]]


def domains_of(model: Model, assumptions: Assumptions) -> Domains:
    """What each input is drawn from; an input without a known shape cannot be fed."""
    found: dict[str, tuple[Domain, tuple[int, ...], Format]] = {}
    for number, domain in assumptions.inputs.items():
        value, shape = model.values[number], assumptions.shapes[number]
        if shape is None or value.container != "tensor":
            raise AssumptionError(f"input {value.name!r} has no known shape: no sample of it can be made")
        found[value.name] = domain, shape, value.format or FLOAT32
    return found


def drawn(model: Model, combinations: Sequence[Assumptions], seed: int, count: int, *, first: int = 0) -> list[Point]:
    """`count` points, spread over all declared combinations of dimension sizes; `first` is the number of the first one."""
    found: list[Point] = []
    for index, assumptions in enumerate(combinations):
        share = len(range(index, count, len(combinations)))
        found.extend(points(seed, domains_of(model, assumptions), first + share, first=first))
    return found


def given(path: str | None, model: Model, assumptions: Assumptions) -> tuple[list[Point], str]:
    """The samples of an .npz file, and a remark if its arrays do not have the shapes of the inputs.

    Each array holds one sample, or several along a further first axis (or along the first axis, if the input's is 1).
    """
    if path is None:
        return [], ""
    arrays, domains = read_samples(path), domains_of(model, assumptions)
    columns = {name: list(_split(arrays[name], shape, format)) for name, (_, shape, format) in domains.items() if name in arrays}
    count = min((len(column) for column in columns.values()), default=0)
    if len(columns) < len(domains) or not count:
        return [], f"{path}: gives ranges alone; its arrays are no samples, as they do not have the shapes of all inputs"
    return [{name: column[number] for name, column in columns.items()} for number in range(count)], ""


def _split(array: npt.NDArray[Any], shape: tuple[int, ...], format: Format) -> Iterator[npt.NDArray[Any]]:
    if array.shape == shape:
        yield array.astype(format.dtype)
    elif array.shape[1:] == shape:
        yield from array.astype(format.dtype)
    elif shape[:1] == (1,) and array.shape[1:] == shape[1:]:
        yield from (row[None] for row in array.astype(format.dtype))
