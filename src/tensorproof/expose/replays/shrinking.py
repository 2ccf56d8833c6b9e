"""Fewer values that fail in the same way: fewer samples, and the program's own values wherever these do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tensorproof.expose.replays.recipe import Recipe
from tensorproof.expose.replays.witness import Attempts

_Cut = Callable[[Recipe, str, list[int]], Recipe]


def made_smaller(recipe: Recipe, attempts: Attempts) -> Recipe | None:
    """A recipe of fewer rows and fewer values that still fails; None if the whole one does not."""
    seen = attempts.fails(recipe)
    if seen is None and recipe.failure.iteration:
        # Something that is no external value decides: a schedule, a state of the program.
        recipe = replace(recipe, first=recipe.failure.iteration)
        seen = attempts.fails(recipe)
    if seen is None:
        return None
    recipe = recipe.only(seen["given"])
    recipe = _fewer_rows(recipe, seen, attempts)
    return _fewer_values(recipe, attempts)


def _fewer_rows(recipe: Recipe, seen: dict[str, Any], attempts: Attempts) -> Recipe:
    """The fewest samples: batches of fewer rows if the program takes them, and else samples of its own for the others."""
    for source, size in _sources(recipe).items():
        failing = seen["rows"] if seen["size"] == size else []
        cuts: tuple[_Cut, ...] = (_cut, _mixed) if source.startswith("batch") else (_mixed,)
        for cut in cuts:
            smaller = _halved(recipe, source, list(range(size)), failing, cut, attempts)
            if smaller is not None:
                recipe = smaller
                break
    return recipe


def _halved(recipe: Recipe, source: str, rows: list[int], failing: Sequence[int], cut: _Cut, attempts: Attempts) -> Recipe | None:
    """The smallest part of the rows that was found to fail; None if no part does."""
    best: Recipe | None = None
    while len(rows) > 1:
        for part in _parts(rows, failing):
            smaller = cut(recipe, source, part)
            if attempts.fails(smaller) is not None:
                rows, best = part, smaller
                break
        else:
            return best
    return best


def _parts(rows: list[int], failing: Sequence[int]) -> Iterator[list[int]]:
    """Parts of the rows, the most promising first: one whose result was not finite."""
    if failing and failing[0] in rows:
        yield [failing[0]]
    half = len(rows) // 2
    yield rows[:half]
    yield rows[half:]


def _source(name: str) -> str:
    """What rows belong together: those of one loader, and those of all data that the program makes itself."""
    return name.partition(".")[0] if name.startswith("batch") else name.partition(":")[0]


def _sources(recipe: Recipe) -> dict[str, int]:
    """Values that have samples, and how many."""
    found: dict[str, int] = {}
    for name, array in recipe.values.items():
        if _source(name).startswith(("batch", "data")) and array.ndim and len(array) > 1:
            found[_source(name)] = max(found.get(_source(name), 0), len(array))
    return found


def _members(recipe: Recipe, source: str) -> set[str]:
    """The values of a source that have all of its rows."""
    size = _sources(recipe)[source]
    return {name for name, array in recipe.values.items() if _source(name) == source and array.ndim and len(array) == size}


def _cut(recipe: Recipe, source: str, rows: list[int]) -> Recipe:
    """Batches of these rows alone."""
    members = _members(recipe, source)
    return replace(recipe, values={name: array[rows] if name in members else array for name, array in recipe.values.items()})


def _mixed(recipe: Recipe, source: str, rows: list[int]) -> Recipe:
    """The program's own samples, but for these rows."""
    return replace(_cut(recipe, source, rows), rows={**recipe.rows, **dict.fromkeys(sorted(_members(recipe, source)), rows)})


def _fewer_values(recipe: Recipe, attempts: Attempts) -> Recipe:
    """The program's own values wherever these do: first all weights, then batches, draws and data, one after the other."""
    for group in sorted(dict.fromkeys(map(_group, recipe.values)), key=lambda group: group != "weight"):
        kept = [name for name in recipe.values if _group(name) != group]
        if attempts.fails(recipe.only(kept)) is not None:
            recipe = recipe.only(kept)
    return recipe


def _group(name: str) -> str:
    """Values that are kept or dropped together."""
    if name.startswith("weight"):
        return "weight"
    return _source(name) if name.startswith("batch") else name
