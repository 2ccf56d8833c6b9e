"""The `diff` command: do two models compute the same, and if not, where do they part first?"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from tensorproof.assumptions import parse_dimension_option
from tensorproof.cli.output import put_out, write_out
from tensorproof.cli.scanning import declared_domains, parse_input_option
from tensorproof.compare.diffing.comparing import DiffOptions, compare
from tensorproof.compare.diffing.comparison import Comparison
from tensorproof.compare.diffing.reporting import lines, report_of
from tensorproof.compare.judging import Opinion
from tensorproof.configuration import find_configuration
from tensorproof.errors import ConfigurationError
from tensorproof.report import find_format

_FAIL_ON = ("defect", "precision", "never")


@dataclass(frozen=True, slots=True)
class DiffArguments:
    """The options of the command, as given."""

    options: DiffOptions
    ranges: tuple[str, ...]
    ranges_file: Path | None
    inputs: tuple[str, ...]
    dims: tuple[str, ...]
    seed: int | None
    format: str
    output: Path | None
    fail_on: str
    source_root: Path | None


def run_diff(arguments: DiffArguments) -> int:
    """Compare, report; 1 for a defect, or for a loss of precision if that is asked for."""
    find_format(arguments.format)
    if arguments.fail_on not in _FAIL_ON:
        raise ConfigurationError(f"--fail-on {arguments.fail_on!r}: write {', '.join(_FAIL_ON)}")
    for name, value, least in (
        ("--runs", arguments.options.runs, 1),
        ("--evaluations", arguments.options.evaluations, 0),
        ("--size", arguments.options.size, 1),
    ):
        if value < least:
            raise ConfigurationError(f"{name} {value}: write a whole number from {least} on")
    configuration = find_configuration(Path.cwd())
    options = replace(
        arguments.options,
        ranges=declared_domains(arguments.ranges, arguments.ranges_file, configuration),
        inputs=dict(configuration.inputs) | dict(map(parse_input_option, arguments.inputs)),
        dims=dict(configuration.dims) | dict(map(parse_dimension_option, arguments.dims)),
        seed=arguments.seed if arguments.seed is not None else configuration.seed or 0,
    )
    comparison = compare(options, _progress)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    _put_out(comparison, arguments)
    fatal = {"defect": (Opinion.DEFECT,), "precision": (Opinion.DEFECT, Opinion.PRECISION), "never": ()}[arguments.fail_on]
    return 1 if comparison.verdict in fatal else 0


def _put_out(comparison: Comparison, arguments: DiffArguments) -> None:
    if arguments.format != "terminal":
        put_out([report_of(comparison)], arguments.format, arguments.output, arguments.source_root)
        return
    if comparison.verdict is Opinion.AGREE and arguments.output is None:
        # As of two equal files: nothing on standard output, so that a script sees that there is nothing to see.
        print(f"agree: {comparison.points} points, {comparison.evaluations} evaluations of a search", file=sys.stderr)
        return
    write_out("".join(f"{line}\n" for line in lines(comparison)), arguments.output)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
