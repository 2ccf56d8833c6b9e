"""`fuzz --level input|weight|both`: searches around trained networks for NaN, or for classes that two backends do not share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from tensorproof.cli.output import write_out
from tensorproof.errors import ConfigurationError

if TYPE_CHECKING:
    from tensorproof.compare.fuzzing.searching.trained import SearchResult


@dataclass(frozen=True)
class SearchArguments:
    """The options as they were given."""

    level: str
    networks: tuple[str, ...]
    goal: str
    method: str
    backends: tuple[str, ...]
    evaluations: int
    seed: int
    out: Path
    format: str
    output: Path | None


def run_search(arguments: SearchArguments) -> int:
    """Search, and print what was found: 1 if something was."""
    from tensorproof.compare.fuzzing.discrepancy import backend_of
    from tensorproof.compare.fuzzing.searching.space import Level
    from tensorproof.compare.fuzzing.searching.trained import Method, SearchOptions, Wanted, search_networks
    from tensorproof.compare.workers.fleet import Fleet

    for option, value, known in (
        ("--level", arguments.level, get_args(Level)),
        ("--goal", arguments.goal, get_args(Wanted)),
        ("--method", arguments.method, get_args(Method)),
        ("--format", arguments.format, ("terminal", "json")),
    ):
        if value not in known:
            raise ConfigurationError(f"{option} {value!r}: write {', '.join(known)}")
    backends = tuple(backend_of(name) for name in arguments.backends or ("keras:torch", "keras:tensorflow"))
    names = arguments.networks or ("LeNet-5",)
    options = SearchOptions(
        names[0],
        cast("Any", arguments.level),
        cast("Any", arguments.goal),
        cast("Any", arguments.method),
        backends,
        arguments.evaluations,
        arguments.seed,
    )
    with Fleet() as fleet:
        found = search_networks(fleet, options, names, arguments.out)
    text = json.dumps([entry.to_json() for entry in found], indent=2) if arguments.format == "json" else _text(found)
    write_out(text + "\n", arguments.output)
    return 1 if any(entry.found for entry in found) else 0


def _text(results: list[SearchResult]) -> str:
    lines: list[str] = []
    for entry in results:
        told = entry.found or f"nothing found (best fitness {entry.fitness:.4g})"
        lines.append(f"{entry.options.network}: {told} after {entry.evaluations} evaluations")
        if entry.point is not None:
            lines.append(f"  saved    {entry.point}")
    return "\n".join(lines)
