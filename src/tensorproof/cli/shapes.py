"""The `shapes` command: shape defects in Python source.

It is run on every save of a file, so its options are parsed by `argparse`, which is imported in a tenth of typer's time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn, cast, get_args

from tensorproof.cli.output import complain, policy, put_out, write_out
from tensorproof.configuration import FAIL_ON, Configuration, find_configuration
from tensorproof.errors import ConfigurationError
from tensorproof.findings import Report
from tensorproof.report import FORMATS
from tensorproof.report.plain_text import count
from tensorproof.shapes.problems import Context, ShapeOptions, Values
from tensorproof.shapes.reporting import AnalysedSource, CheckedSources, check_sources

_DESCRIPTION = "Report tensor-shape defects in Python source. Nothing is run, and no framework is imported."
_EPILOG = (
    "A line is silenced by the comment `# tensorproof: ignore[SHP101]` (or `# tensorproof: ignore` for all rules), a file by "
    "`# tensorproof: ignore-file`."
)
#: Functions that no rule knows, of which `--stats` names the most frequent.
_SHOWN_FUNCTIONS = 10


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are those of the rest of the command line."""

    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(f"{message}; see tensorproof shapes --help")


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    made = _Parser(prog="tensorproof shapes", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False)
    add = made.add_argument
    add("paths", nargs="+", metavar="PATH", help="Python files, notebooks or folders; `-` is standard input")
    add("--context", choices=get_args(Context), help="how calls are told apart (default: full)")
    add("--values", choices=get_args(Values), help="what is kept where paths meet (default: full)")
    add("--explain-shapes", action="store_true", help="print the source with the shape after each tensor that is assigned")
    add("--stats", action="store_true", help="show how much was understood, on standard error")
    add("--format", choices=tuple(FORMATS), default="terminal", help="how the report is written (default: terminal)")
    add("--output", type=Path, metavar="FILE", help="write the report (or the explained source) to a file")
    add("--select", action="append", default=[], metavar="CODES", help="only these rules, e.g. SHP1,SHP201")
    add("--ignore", action="append", default=[], metavar="CODES", help="not these rules; SHP201[legacy/*] ignores by file")
    add("--fail-on", choices=FAIL_ON, help="what makes the exit code 1 (default: confirmed, which errors are)")
    add("--baseline", type=Path, metavar="FILE", help="known findings, not reported again")
    add("--write-baseline", type=Path, metavar="FILE", help="write the findings as a new baseline")
    add("--debug", action="store_true", help="show the traceback of an error")
    return made


def run_shapes(arguments: Sequence[str]) -> int:
    """Analyse, print one report, and answer with the exit code: 2 if a file could not be analysed, else as `--fail-on` asks."""
    try:
        given = parser().parse_args(arguments)
    except SystemExit as exit_request:  # after --help
        return int(exit_request.code or 0)
    configuration = find_configuration(Path.cwd())
    fail_on = policy(given.fail_on, configuration)
    checked = check_sources(given.paths, _options(given), debug=given.debug)
    report = _wanted(checked.report, given, configuration)
    for error in report.errors:
        complain(error)
    if given.stats:
        print("\n".join(line for file in checked.files for line in _statistics(file)), file=sys.stderr)
    if given.explain_shapes:
        write_out(explained(checked), given.output)
    else:
        put_out([report], given.format, given.output, Path.cwd())
    if report.errors:
        return 2
    return 1 if report.fails(fail_on) else 0


def _options(given: argparse.Namespace) -> ShapeOptions:
    default = ShapeOptions()
    context, values = cast("Context | None", given.context), cast("Values | None", given.values)
    return ShapeOptions(context=context or default.context, values=values or default.values)


def _wanted(report: Report, given: argparse.Namespace, configuration: Configuration) -> Report:
    """The report after selection and baseline; both are imported only if they are used."""
    select, ignore = given.select or configuration.select, (*given.ignore, *configuration.ignore)
    checked = report
    if select or ignore:
        from tensorproof.report.selection import apply_selection, parse_selection

        report = apply_selection(report, parse_selection(select, ignore))
    known = given.baseline or (Path(configuration.baseline) if configuration.baseline else None)
    if known is not None or given.write_baseline is not None:
        from tensorproof.report.baseline import Baseline, apply_baseline, read_baseline, stale_entries, write_baseline

        baseline = None if known is None else read_baseline(known)
        if given.write_baseline is not None:
            write_baseline(given.write_baseline, Baseline.of([report]))
        if baseline is not None:
            for entry in stale_entries([checked], baseline):
                complain(f"baseline entry {entry.identity!a} of {entry.model!a} is gone")
            report = apply_baseline(report, baseline)
    return report


def explained(checked: CheckedSources) -> str:
    """The text of each file with the shapes that its lines assign; several files are told apart by their names."""
    parts: list[str] = []
    for file in checked.files:
        if len(checked.files) > 1:
            parts.append(f"# {file.source.path}\n")
        parts.append(_explained(file))
    return "".join(parts)


def _explained(file: AnalysedSource) -> str:
    shapes: dict[int, dict[str, str]] = {}
    for hint in file.analysis.hints:
        if hint.place.file == file.analysis.path:
            shapes.setdefault(hint.place.line, {})[hint.name] = hint.shape
    lines = file.source.text.removesuffix("\n").split("\n")
    for row, assigned in shapes.items():
        named = len(assigned) > 1
        told = ", ".join(f"{name}: {shape}" if named else shape for name, shape in assigned.items())
        lines[row - 1] = f"{lines[row - 1].rstrip()}  # {told}"
    return "\n".join(lines) + "\n"


def _statistics(file: AnalysedSource) -> Iterator[str]:
    found = file.analysis.statistics
    yield f"{file.source.path}: {file.seconds:.3f} s, {count(found.steps, 'step')}"
    yield f"  the shape is fully known of {found.tensors - found.imprecise_tensors} of {count(found.tensors, 'tensor')}"
    arguments = count(found.arguments, "argument")
    yield f"  {found.arguments - found.imprecise_arguments} of {arguments} that decide a shape are known"
    if found.exhausted is not None:
        yield f"  stopped early: {found.exhausted}"
    for error, times in found.rule_errors.most_common():
        yield f"  a mistake of tensorproof, {count(times, 'time')}: the rule of {error}"
    for name, calls in found.unmodelled.most_common(_SHOWN_FUNCTIONS):
        yield f"  no rule knows {name} ({count(calls, 'call')})"
    if len(found.unmodelled) > _SHOWN_FUNCTIONS:
        yield f"  nor {count(len(found.unmodelled) - _SHOWN_FUNCTIONS, 'other function')}"
