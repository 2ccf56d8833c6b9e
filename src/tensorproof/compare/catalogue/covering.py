"""Parameters in pairs: which values of two parameters can stand together, and few rows in which every such pair stands.

Faults of frameworks mostly need one or two parameters to be set; a covering array of strength two has every pair of values in some
row, and few rows (D. R. Kuhn, R. N. Kacker, Y. Lei, "Introduction to Combinatorial Testing", 2013). Rows are built greedily, as
values away from their defaults first: early tests then set as much as possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, product
from typing import TypeAlias

import numpy as np

from tensorproof.compare.catalogue.layer_kind import LayerKind
from tensorproof.compare.drawing import generator
from tensorproof.compare.spec import Json

#: For each parameter, in the order of the kind's table, the place of its value among the legal ones.
Row: TypeAlias = tuple[int, ...]
#: Parameter and value, parameter and value, as places; of kinds with one parameter the second half is (-1, -1).
Pair: TypeAlias = tuple[int, int, int, int]

#: Fillings that are tried before a pair counts as impossible.
_TRIES = 24


def values_of(kind: LayerKind, row: Row) -> dict[str, Json]:
    """The parameters that a row stands for."""
    return {name: parameter.legal[place] for (name, parameter), place in zip(kind.parameters.items(), row, strict=True)}


def pairs_in(row: Row) -> Iterator[Pair]:
    """All pairs of values that stand in a row."""
    if len(row) == 1:
        yield (0, row[0], -1, -1)
    for (i, a), (j, b) in combinations(enumerate(row), 2):
        yield (i, a, j, b)


@lru_cache(maxsize=512)
def possible_pairs(kind: LayerKind) -> frozenset[Pair]:
    """The pairs of legal values for which the other parameters and an input of the palette can be chosen."""
    random = generator("pairs", kind.dialect, kind.name)
    sizes = [len(parameter.legal) for parameter in kind.parameters.values()]
    found: set[Pair] = set()
    if len(sizes) == 1:
        found.update((0, a, -1, -1) for a in range(sizes[0]) if _fits(kind, (a,)))
    for i, j in combinations(range(len(sizes)), 2):
        for a, b in product(range(sizes[i]), range(sizes[j])):
            if (i, a, j, b) not in found:
                row = _completed(kind, sizes, {i: a, j: b}, random)
                found.update(() if row is None else pairs_in(row))
    return frozenset(found)


def _completed(kind: LayerKind, sizes: list[int], fixed: dict[int, int], random: np.random.Generator) -> Row | None:
    """A row with some values given: the others at their defaults if that fits, else at random."""
    row = tuple(fixed.get(k, 0) for k in range(len(sizes)))
    for _ in range(_TRIES):
        if _fits(kind, row):
            return row
        free = [k for k in range(len(sizes)) if k not in fixed]
        changed = {k: int(random.integers(sizes[k])) for k in free if random.random() < 0.5}
        row = tuple({**fixed, **changed}.get(k, 0) for k in range(len(sizes)))
    return None


@lru_cache(maxsize=65536)
def _fits(kind: LayerKind, row: Row) -> bool:
    return bool(kind.fitting(values_of(kind, row)))


def covering_rows(kind: LayerKind, seed: int, cycle: int = 0) -> tuple[Row, ...]:
    """Rows in which every possible pair stands; another cycle gives other rows."""
    return _covering_rows(kind, seed, cycle)


@lru_cache(maxsize=1024)
def _covering_rows(kind: LayerKind, seed: int, cycle: int) -> tuple[Row, ...]:
    if not kind.parameters:
        return ((),)
    random = generator("rows", seed, cycle, kind.dialect, kind.name)
    sizes = [len(parameter.legal) for parameter in kind.parameters.values()]
    missing = set(possible_pairs(kind))
    rows: list[Row] = []
    while missing:
        row = max(
            (_grown(kind, sizes, missing, random) for _ in range(4)), key=lambda row: len(missing.intersection(pairs_in(row)))
        )
        rows.append(row)
        missing.difference_update(pairs_in(row))
    return tuple(rows)


def _grown(kind: LayerKind, sizes: list[int], missing: set[Pair], random: np.random.Generator) -> Row:
    """A row around a missing pair; each further value is the one that covers most, if the row still fits."""
    ordered = sorted(missing)
    i, a, j, b = ordered[int(random.integers(len(ordered)))]
    fixed = {i: a} if j < 0 else {i: a, j: b}
    base = _completed(kind, sizes, fixed, random)
    while base is None:  # possible pairs have a filling; it takes a while to find a rare one again
        base = _completed(kind, sizes, fixed, random)
    row = list(base)
    done = set(fixed)
    for k in (int(k) for k in random.permutation(len(sizes)) if int(k) not in fixed):
        best = row[k], -1.0
        for value in (int(v) for v in random.permutation(sizes[k])):
            gain = sum(((m, row[m], k, value) if m < k else (k, value, m, row[m])) in missing for m in done)
            score = gain + (0.5 if value else 0.0)
            if score > best[1] and _fits(kind, (*row[:k], value, *row[k + 1 :])):
                best = value, score
        row[k] = best[0]
        done.add(k)
    return tuple(row)
