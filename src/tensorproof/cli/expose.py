"""The `expose` command: a training script run under observation, and driven into its numerical defects."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorproof.assumptions import parse_range_option
from tensorproof.cli.output import complain, policy, put_out
from tensorproof.cli.progress import DELAY_SECONDS, INTERVAL_SECONDS
from tensorproof.configuration import Configuration, find_configuration
from tensorproof.errors import AssumptionError, ConfigurationError
from tensorproof.expose.functions.declaration import parse_value, split_options
from tensorproof.expose.functions.running import EVALUATIONS, exposed_function
from tensorproof.expose.running import INTERRUPTED, Progress, exposed
from tensorproof.expose.settings import Method
from tensorproof.findings import Report
from tensorproof.report import find_format
from tensorproof.report.baseline import Baseline, apply_baseline, read_baseline, stale_entries, write_baseline
from tensorproof.report.plain_text import count, name, number
from tensorproof.report.selection import apply_selection, parse_selection

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Suspects that are shown while a search is going on: those that are nearest to failing.
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class ExposeOptions:
    """The options of the command, as given."""

    script: Path | None
    arguments: tuple[str, ...]
    function: str | None
    args: tuple[str, ...]
    ranges: tuple[str, ...]
    method: Method
    epsilon: float
    switch_rate: float
    seed: int | None
    runs: int
    iterations: int
    evaluations: int | None
    stop_after: int | None
    budget: float
    sandbox: bool
    witnesses: Path
    log: str | None
    format: str
    output: Path | None
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    fail_on: str | None
    baseline: Path | None
    write_baseline: Path | None


def run_expose(options: ExposeOptions) -> int:
    """Search, and print one report: 1 as `--fail-on` asks, 2 if the program could not be run, or was interrupted before."""
    configuration = find_configuration(Path.cwd())
    find_format(options.format)
    fail_on = policy(options.fail_on, configuration)
    # What is written wrong in these is said before the program is run.
    parse_selection(options.select or configuration.select, (*options.ignore, *configuration.ignore))
    known = options.baseline or (Path(configuration.baseline) if configuration.baseline else None)
    baseline = None if known is None else read_baseline(known)
    seed = options.seed if options.seed is not None else configuration.seed or 0
    checked, root = _function(options, seed) if options.function is not None else _script(options, seed)
    report = _wanted(checked, options, configuration, baseline)
    for error in report.errors:
        complain(error)
    put_out([report], options.format, options.output, root)
    if report.fails(fail_on):
        return 1
    return 2 if report.errors or INTERRUPTED in report.coverage.remarks else 0


def _script(options: ExposeOptions, seed: int) -> tuple[Report, Path]:
    """The report on a script, and the folder that its source is in."""
    if options.script is None:
        raise ConfigurationError("name a script, or a function with --function")
    if options.args:
        raise ConfigurationError("--args: these are arguments of a function; those of a script stand after --")
    with _shown(options.script.name) as progress:
        checked = exposed(
            options.script,
            options.arguments,
            ranges=_ranges(options.ranges),
            method=options.method,
            epsilon=options.epsilon,
            switch_rate=options.switch_rate,
            seed=seed,
            runs=options.runs,
            iterations=options.iterations,
            evaluations=100_000 if options.evaluations is None else options.evaluations,
            stop_after=options.stop_after,
            budget=options.budget,
            sandbox=options.sandbox,
            witnesses=options.witnesses,
            log=options.log,
            progress=progress,
        )
    script, here = options.script.resolve(), Path.cwd().resolve()
    return checked, here if script.is_relative_to(here) else script.parent


def _function(options: ExposeOptions, seed: int) -> tuple[Report, Path]:
    """The report on a function; source is shown of files where the user is."""
    assert options.function is not None
    if options.script is not None:
        raise ConfigurationError("name a script or a function, not both")
    if options.sandbox or options.log is not None:
        raise ConfigurationError("--sandbox and --log are for scripts: a function is called by itself")
    words = split_options(options.args)
    with _shown(options.function) as progress:
        checked = exposed_function(
            options.function,
            {key: parse_value(text) for key, text in words.items()},
            ranges=_ranges(options.ranges),
            method=options.method,
            epsilon=options.epsilon,
            seed=seed,
            runs=options.runs,
            evaluations=EVALUATIONS if options.evaluations is None else options.evaluations,
            stop_after=options.stop_after,
            budget=options.budget,
            witnesses=options.witnesses,
            progress=progress,
        )
    return checked, Path.cwd().resolve()


def _wanted(checked: Report, options: ExposeOptions, configuration: Configuration, baseline: Baseline | None) -> Report:
    """The report after selection and baseline."""
    selection = parse_selection(options.select or configuration.select, (*options.ignore, *configuration.ignore))
    report = apply_selection(checked, selection)
    if options.write_baseline is not None:
        write_baseline(options.write_baseline, Baseline.of([report]))
    if baseline is not None:
        for entry in stale_entries([checked], baseline):
            complain(f"baseline entry {entry.identity!a} of {entry.model!a} was not found again")
        report = apply_baseline(report, baseline)
    return report


def _ranges(options: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """Legal ranges of external values; only boxes can be moved in."""
    found: dict[str, tuple[float, float]] = {}
    for option in options:
        key, domain = parse_range_option(option)
        if domain.kind != "box":
            raise AssumptionError(f"--range {key}: values of a program are moved in a range; write {key}=LOW:HIGH")
        found[key] = domain.low, domain.high
    return found


@contextmanager
def _shown(title: str) -> Generator[Callable[[Progress], None] | None]:
    """Suspects and how near they are, on standard error, where somebody looks."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    began = last = time.monotonic()
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def show(progress: Progress) -> None:
            nonlocal last
            now = time.monotonic()
            if now - began >= DELAY_SECONDS and now - last >= INTERVAL_SECONDS:
                last = now
                live.update(_page(title, progress, now - began), refresh=True)

        yield show


def _page(title: str, progress: Progress, seconds: float) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    doing = "replaying a failure" if progress.stage == "replay" else f"step {progress.iteration}"
    run = f"run {progress.run} of {progress.runs}, seed {progress.seed}"
    head = f"{name(title)}: {run}, {doing}, {count(progress.found, 'finding')}, {seconds:.0f} s"
    table = Table(title=Text(head), title_justify="left", box=None, show_header=False, pad_edge=False)
    for seen in sorted(progress.suspects, key=_nearness)[:_SHOWN]:
        near = "failed" if seen.name in progress.settled else "-" if seen.distance is None else f"distance {number(seen.distance)}"
        place = f"{Path(seen.file or '').name}:{seen.line}"
        cells: tuple[Any, ...] = (seen.rule, name(seen.operator), name(place), near, f"{seen.evaluations} evaluations")
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _nearness(seen: Any) -> tuple[bool, float]:
    return seen.distance is None, seen.distance or 0.0
