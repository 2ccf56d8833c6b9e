"""Searches around trained networks: AUDEE's input, weight and joint level on the networks of the catalogue."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tensorproof.compare.catalogue import seed_networks
from tensorproof.compare.fuzzing.searching.coverage_guided import search_by_coverage
from tensorproof.compare.fuzzing.searching.genetic import search_genetic
from tensorproof.compare.fuzzing.searching.goals import Goal, Labels, NotFinite
from tensorproof.compare.fuzzing.searching.gradients import search_by_gradients
from tensorproof.compare.fuzzing.searching.searching import Search
from tensorproof.compare.fuzzing.searching.space import Level, Space
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet
from tensorproof.errors import ConfigurationError
from tensorproof.files import write_bytes, write_text

Method = Literal["genetic", "gradient", "coverage"]
Wanted = Literal["label", "nan"]

#: Pixels of a digit.
PIXELS = (0.0, 1.0)


@dataclass(frozen=True)
class SearchOptions:
    """What is looked for, around which network, on which backends; the first two are compared for labels."""

    network: str
    level: Level
    wanted: Wanted
    method: Method
    backends: tuple[BackendId, ...]
    evaluations: int = 500
    seed: int = 0


@dataclass(frozen=True)
class SearchResult:
    """`found` is empty if the budget ended first; `fitness` is that of the best point."""

    options: SearchOptions
    found: str
    evaluations: int
    fitness: float
    point: str | None

    def to_json(self) -> dict[str, object]:
        options = self.options
        return {
            "network": options.network,
            "level": options.level,
            "goal": options.wanted,
            "method": options.method,
            "backends": [str(backend) for backend in options.backends],
            "seed": options.seed,
            "found": self.found,
            "evaluations": self.evaluations,
            "fitness": repr(self.fitness),
            "point": self.point,
        }


def search_network(fleet: Fleet, options: SearchOptions, out: Path | None = None) -> SearchResult:
    """Search around a trained network; a point that fails is saved under `out`: arrays, and the test that they belong to."""
    known = seed_networks()
    if options.network not in known:
        raise ConfigurationError(f"no network {options.network!r}; there are {', '.join(known)}")
    entry = known[options.network]
    space = Space.of(options.level, entry.examples(), entry.weights(), PIXELS)
    search = Search(fleet, TestSpec(entry.network), space, _goal(options), options.evaluations, options.seed)
    _methods(options)[options.method](search)
    place = _save(search, options, out) if search.found and out is not None else None
    return SearchResult(options, search.found, search.spent, search.best.fitness, place)


def search_networks(fleet: Fleet, options: SearchOptions, names: Sequence[str], out: Path | None = None) -> list[SearchResult]:
    """One search around each network."""
    return [search_network(fleet, replace(options, network=name), out) for name in names]


def _goal(options: SearchOptions) -> Goal:
    if options.wanted == "nan":
        return NotFinite(options.backends)
    if len(options.backends) < 2:
        raise ConfigurationError("labels of two backends are compared: give --backend twice")
    return Labels(options.backends[0], options.backends[1])


def _methods(options: SearchOptions) -> dict[Method, Callable[[Search], None]]:
    with_gradients = [b for b in options.backends if b.name in ("keras:torch", "keras:tensorflow", "keras:jax")]
    if options.method == "gradient" and (not with_gradients or options.level == "weight"):
        raise ConfigurationError("gradients are those of inputs, on keras:torch, keras:tensorflow or keras:jax")
    return {
        "genetic": search_genetic,
        "gradient": lambda search: search_by_gradients(search, with_gradients[0]),
        "coverage": search_by_coverage,
    }


def _save(search: Search, options: SearchOptions, out: Path) -> str:
    stem = f"{options.network}_{options.level}_{options.wanted}_{options.method}_{options.seed}"
    buffer = BytesIO()
    save: Any = np.savez_compressed  # its stubs take the names of arrays for those of its options
    save(buffer, **search.space.point(search.best_point))
    write_bytes(out / f"{stem}.npz", buffer.getvalue())
    write_text(out / f"{stem}.json", json.dumps(search.test.to_json(), indent=2) + "\n")
    return str(out / f"{stem}.npz")
