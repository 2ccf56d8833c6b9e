"""The `confirm` command: a failing input for every possible finding."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from tensorproof import find_system_tests, find_witnesses
from tensorproof.cli.output import policy, put_out
from tensorproof.cli.progress import shown_search
from tensorproof.cli.scanning import ScanArguments
from tensorproof.configuration import Configuration, find_configuration
from tensorproof.errors import ConfigurationError
from tensorproof.findings import Report
from tensorproof.report import SHOW_MODEL, find_format


@dataclass(frozen=True, slots=True)
class ConfirmOptions:
    """The options of the command, as given."""

    model: Path
    nodes: tuple[str, ...]
    scan: ScanArguments
    method: str
    evaluations: int
    budget: float | None
    seed: int | None
    shrink: bool
    system_test: bool
    loss: str | None
    rate: float
    steps: int
    batch: int | None
    out: Path
    format: str
    output: Path | None
    fail_on: str | None
    source_root: Path | None


def run_confirm(options: ConfirmOptions) -> int:
    """Search, print one report, and answer with the exit code that `--fail-on` asks for."""
    configuration = find_configuration(Path.cwd())
    find_format(options.format)
    fail_on = policy(options.fail_on, configuration)
    if options.evaluations < 0:
        raise ConfigurationError(f"--evaluations {options.evaluations}: write a number that is not negative")
    with shown_search(options.model.name) as (progress, search_progress):
        report = _searched(options, configuration, progress, search_progress)
    unknown = [n for n in options.nodes if not _is_in(n, report)]
    for name in unknown:
        print(f"tensorproof: no finding at node {name!a}", file=sys.stderr)
    put_out([report], options.format, options.output, options.source_root)
    return 1 if report.fails(fail_on) else 0


def _is_in(pattern: str, report: Report) -> bool:
    return any(fnmatchcase(finding.node, pattern) for finding in report.findings)


def _searched(
    options: ConfirmOptions,
    configuration: Configuration,
    progress: Callable[[str, int], None] | None,
    search_progress: Callable[[str, int, float], None] | None,
) -> Report:
    search = find_witnesses
    if options.system_test:
        if options.loss is None:
            raise ConfigurationError("--system-test: name the output that training makes small with --loss")
        search = partial(find_system_tests, loss=options.loss, lr=options.rate, steps=options.steps, batch=options.batch)
    # Training changes weights: the scan looks at those that it may lead to.
    scan = options.scan.options(configuration, weights="ranum" if options.system_test else "fixed")
    scan["model_map"] = options.format in SHOW_MODEL
    report = search(
        options.model,
        nodes=options.nodes,
        seed=options.seed if options.seed is not None else configuration.seed or 0,
        evaluations=options.evaluations,
        method=options.method,
        budget=options.budget,
        shrink=options.shrink,
        witnesses=options.out,
        progress=progress,
        search_progress=search_progress,
        **scan,
    )
    return replace(report, model=str(options.model), options=tuple(options.scan.words()))
