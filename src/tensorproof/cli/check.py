"""The `check` command: configuration and options into calls of the library, reports into text, policy into exit codes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from tensorproof import check
from tensorproof.cli.output import policy, put_out
from tensorproof.cli.progress import shown_progress
from tensorproof.cli.scanning import ScanArguments
from tensorproof.configuration import Configuration, find_configuration
from tensorproof.errors import ConfigurationError
from tensorproof.findings import Report
from tensorproof.headroom_budget import read_budget, with_lost_headroom, write_budget
from tensorproof.ranges.costs import collecting
from tensorproof.report import SHOW_MODEL, find_format
from tensorproof.report.baseline import Baseline, apply_baseline, read_baseline, stale_entries, write_baseline
from tensorproof.report.selection import apply_selection, parse_selection
from tensorproof.report.statistics import statistics_text


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options of the command, as given."""

    models: tuple[Path, ...]
    scan: ScanArguments
    tensors: str | None
    values: str | None
    cache: bool
    stats: bool
    format: str
    output: Path | None
    reports: tuple[str, ...]
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    fail_on: str | None
    baseline: Path | None
    write_baseline: Path | None
    confirm: bool
    witnesses: Path
    source_root: Path | None
    seed: int | None
    budget: float | None
    budget_file: Path | None
    write_budget: Path | None
    budget_bits: float


def run_check(options: CheckOptions) -> int:
    """Check all models and print one report; the exit code follows `--fail-on`."""
    configuration = find_configuration(Path.cwd())
    find_format(options.format)
    further = [parse_report_option(option) for option in options.reports]
    fail_on = policy(options.fail_on, configuration)
    selection = parse_selection(options.select or configuration.select, (*options.ignore, *configuration.ignore))
    baseline_path = options.baseline or (Path(configuration.baseline) if configuration.baseline else None)
    baseline = None if baseline_path is None else read_baseline(baseline_path)
    if not 0 <= options.budget_bits < math.inf:
        raise ConfigurationError(f"--budget-bits {options.budget_bits}: write how many bits a node may lose, 0 or more")
    headroom = None if options.budget_file is None else read_budget(options.budget_file)
    checked: list[Report] = []
    with collecting() if options.stats else nullcontext() as costs:
        for path in options.models:
            with shown_progress(path.name) as progress:
                checked.append(_check_one(path, options, configuration, progress))
    if costs is not None:
        print(statistics_text(costs), file=sys.stderr)
    if options.write_budget is not None:
        write_budget(options.write_budget, checked)
    if headroom is not None:
        checked = [with_lost_headroom(report, headroom, options.budget_bits) for report in checked]
    reports = [apply_selection(report, selection) for report in checked]
    if options.write_baseline is not None:
        write_baseline(options.write_baseline, Baseline.of(reports))
    if baseline is not None:
        for entry in stale_entries(checked, baseline):
            print(f"tensorproof: baseline entry {entry.identity!a} of {entry.model!a} is gone", file=sys.stderr)
        reports = [apply_baseline(report, baseline) for report in reports]
    for format, file in further:
        put_out(reports, format, file, options.source_root)
    put_out(reports, options.format, options.output, options.source_root)
    return 1 if any(report.fails(fail_on) for report in reports) else 0


def parse_report_option(option: str) -> tuple[str, Path]:
    """`sarif=report.sarif`."""
    format, _, file = option.partition("=")
    if not file:
        raise ConfigurationError(f"--report {option!r}: write FORMAT=FILE")
    find_format(format)
    return format, Path(file)


def _check_one(
    path: Path, options: CheckOptions, configuration: Configuration, progress: Callable[[str, int], None] | None
) -> Report:
    scan = options.scan.options(configuration)
    scan["tensors"] = options.tensors or configuration.tensors
    scan["values"] = options.values or configuration.values
    scan["cache"] = options.cache
    shown = (options.format, *(parse_report_option(text)[0] for text in options.reports))
    keeps_model = options.budget_file is not None or options.write_budget is not None
    scan["model_map"] = keeps_model or not SHOW_MODEL.isdisjoint(shown)
    report = check(
        path,
        confirm=options.confirm,
        seed=options.seed if options.seed is not None else configuration.seed or 0,
        budget=options.budget,
        witnesses=options.witnesses,
        progress=progress,
        **scan,
    )
    return replace(report, model=str(path), options=tuple(options.scan.words()))
