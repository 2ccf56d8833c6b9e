"""The nodes of a model gathered by module, so that few enough are left to be drawn beside a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tensorproof.model_map import MappedNode, ModelMap
from tensorproof.report.html.graph_data import BODY, module_paths

#: What nodes outside of all modules are called where they are gathered.
OUTSIDE = "outside of modules"

_Key = str | int


@dataclass(frozen=True, slots=True)
class Group:
    """A module, a node that stands alone, or several of them that follow each other; `nodes` are indices, in order."""

    label: str
    nodes: tuple[int, ...]


def grouped(mapped: ModelMap, most: int, of: Callable[[MappedNode], bool] = lambda node: True) -> list[Group]:
    """The nodes that `of` picks in at most `most` groups, in the order of the first node of each.

    Modules go as deep as there is room for; a node in none stands alone, or else they are one group. Where even the outermost
    modules are too many, those that follow each other go together. What is in a body belongs to the module around it.
    """
    chosen = [index for index, node in enumerate(mapped.nodes) if of(node)]
    paths = [_without_bodies(path) for path in module_paths(mapped)]
    depths = range(max((len(paths[index]) for index in chosen), default=0), 0, -1)

    def key(index: int, depth: int, outside: _Key) -> _Key:
        return "/".join(paths[index][:depth]) or outside

    for gathers in (False, True):
        for depth in depths:
            found = _by_key((key(index, depth, OUTSIDE if gathers else index), index) for index in chosen)
            if len(found) <= most:
                return [_group(mapped, name, indices) for name, indices in found]
    found = _by_key((key(index, 1, index), index) for index in chosen)
    return [_run(mapped, run) for run in _runs(found, most)]


def _without_bodies(path: str) -> tuple[str, ...]:
    parts = tuple(path.split("/")) if path else ()
    return next((parts[:place] for place, part in enumerate(parts) if part.startswith(BODY)), parts)


def _by_key(pairs: Iterable[tuple[_Key, int]]) -> list[tuple[_Key, tuple[int, ...]]]:
    members: dict[_Key, list[int]] = {}
    for key, index in pairs:
        members.setdefault(key, []).append(index)
    return [(key, tuple(indices)) for key, indices in members.items()]


def _group(mapped: ModelMap, key: _Key, indices: tuple[int, ...]) -> Group:
    return Group(mapped.nodes[key].name if isinstance(key, int) else key, indices)


def _runs(found: Sequence[tuple[_Key, tuple[int, ...]]], most: int) -> list[Sequence[tuple[_Key, tuple[int, ...]]]]:
    """The groups cut into `most` runs of nearly the same length."""
    count = min(most, len(found))
    ends = [place * len(found) // count for place in range(count + 1)] if count else [0]
    return [found[start:end] for start, end in pairwise(ends)]


def _run(mapped: ModelMap, run: Sequence[tuple[_Key, tuple[int, ...]]]) -> Group:
    groups = [_group(mapped, key, indices) for key, indices in run]
    label = groups[0].label if len(groups) == 1 else f"{groups[0].label} to {groups[-1].label}"
    return Group(label, tuple(sorted(index for group in groups for index in group.nodes)))
