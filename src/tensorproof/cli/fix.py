"""`tensorproof fix`: repairs with their proof, as a report, as a diff, or applied."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tensorproof import fix
from tensorproof.cli.output import policy, put_out
from tensorproof.cli.progress import shown_repairs
from tensorproof.cli.scanning import ScanArguments
from tensorproof.configuration import Configuration, find_configuration
from tensorproof.errors import ConfigurationError
from tensorproof.findings import Finding, Report
from tensorproof.frontends.user_program import split_name
from tensorproof.repair.fixing import Fixed
from tensorproof.repair.graph_diff import graph_diff
from tensorproof.repair.saving import check_target, save_model, save_source
from tensorproof.repair.source_changes import source_diffs
from tensorproof.report import SHOW_MODEL, find_format
from tensorproof.report.plain_text import one_line
from tensorproof.report.source_lines import SourceTree

#: What `--at` may ask for, besides names of nodes.
PLACES = ("operand", "inputs", "weights", "both")


@dataclass(frozen=True, slots=True)
class FixOptions:
    """The options of the command, as given."""

    model: Path
    nodes: tuple[str, ...]
    at: str
    apply: Path | None
    in_place: bool
    unsafe: bool
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    diff: bool
    scan: ScanArguments
    seed: int | None
    runs: int | None
    witnesses: Path
    format: str
    output: Path | None
    fail_on: str | None
    source_root: Path | None

    @property
    def file(self) -> Path:
        """The file that is read: the model, or, for `module.py:name`, the module."""
        program = split_name(str(self.model))
        return self.model if program is None else program[0]


def run_fix(options: FixOptions) -> int:
    """Find repairs, show them, apply them if asked; exit 1 if what fails by `--fail-on` is left."""
    configuration = find_configuration(Path.cwd())
    find_format(options.format)
    fail_on = policy(options.fail_on, configuration)
    if options.runs is not None and options.runs < 1:
        raise ConfigurationError(f"--runs {options.runs}: write a number above 0")
    file = options.file
    target = file if options.in_place and options.apply is None else options.apply
    if target is not None:
        check_target(file, target, in_place=options.in_place)
    with shown_repairs(options.model.name) as progress:
        found = _found(options, configuration, progress)
    shown = options.diff or options.format in SHOW_MODEL
    report = replace(found.report(), model=str(options.model), change=_diff(found, options) if shown else None)
    if options.diff and options.format not in SHOW_MODEL:
        sys.stdout.write(report.change or "")
    else:
        put_out([_with_command(report, options)], options.format, options.output, options.source_root)
    if target is not None:
        is_written = _save(found, file, target, in_place=options.in_place)
        print(_applied(found, target) if is_written else _not_written(found, target), file=sys.stderr)
    return 1 if found.left().fails(fail_on) else 0


def _save(found: Fixed, file: Path, target: Path, *, in_place: bool) -> bool:
    """Write the model; whether there is anything to write: some are repaired by hand alone."""
    if found.proto is not None:
        save_model(found.proto, file, target, in_place=in_place)
    elif found.change is not None:
        save_source(found.change.after, target)
    elif found.graph_file is not None:
        found.graph_file.write(target, in_place=in_place)
    else:
        return False
    return True


def _found(options: FixOptions, configuration: Configuration, progress: Any) -> Fixed:
    scan = options.scan.options(configuration)
    scan["model_map"] = options.format in SHOW_MODEL
    return fix(
        options.model,
        nodes=options.nodes,
        at=options.at if options.at in PLACES else tuple(name for name in options.at.split(",") if name),
        unsafe=options.unsafe,
        select=options.select or configuration.select,
        ignore=(*options.ignore, *configuration.ignore),
        seed=options.seed if options.seed is not None else configuration.seed or 0,
        runs=options.runs,
        witnesses=options.witnesses,
        progress=progress,
        **scan,
    )


def _applied(found: Fixed, target: Path) -> str:
    count = len(found.applied)
    left = [outcome for outcome in found.outcomes if not outcome.is_applied]
    unsafe = sum(outcome.repair is not None for outcome in left)
    text = f"tensorproof: {target}: {count} repair{'' if count == 1 else 's'} applied"
    if unsafe:
        text += f", {unsafe} more with --unsafe"
    if len(left) > unsafe:
        text += f", {len(left) - unsafe} finding{'' if len(left) - unsafe == 1 else 's'} without a repair"
    return text


def _not_written(found: Fixed, target: Path) -> str:
    count = len(found.outcomes)
    left = "no findings" if count == 0 else f"{count} finding{'' if count == 1 else 's'} without a repair"
    return f"tensorproof: {target}: not written, the model is repaired by hand; {left}"


def _with_command(report: Report, options: FixOptions) -> Report:
    """Every repair with the one command that applies it."""

    def complete(finding: Finding) -> Finding:
        if finding.fix is None or finding.fix["kind"] is None or finding.fix["along_with"] is not None:
            return finding
        words = ["tensorproof", "fix", str(options.model), *options.scan.words(), "--node", finding.node]
        words += [] if options.at == "operand" else ["--at", options.at]
        words += [] if finding.fix["safe"] else ["--unsafe"]
        command = shlex.join([*words, "--apply", f"OUT{options.file.suffix}"])
        return replace(finding, fix={**finding.fix, "apply": command})

    return report.with_findings(tuple(map(complete, report.findings)))


def _diff(found: Fixed, options: FixOptions) -> str:
    """The change of the source of a program; else that of the graph, and of the source lines that its nodes name.

    What is left to the user follows, as comments.
    """
    sources = SourceTree(options.source_root or Path.cwd())
    if found.change is not None:
        parts = [found.change.diff(sources.model_file(str(options.file)))]
    elif found.graph_file is not None:
        parts = [found.graph_file.diff()]
    elif found.original is not None and found.proto is not None:
        parts = [graph_diff(found.original, found.proto, options.model.name), *source_diffs(found.outcomes, sources)]
    else:
        parts = []
    by_hand = [f"# {finding.rule.code} at {one_line(finding.node)}: {one_line(words)}\n" for finding, words in found.by_hand]
    return "".join([*parts, *by_hand]) if any(parts) else "".join(["no repair is applied: nothing changes\n", *by_hand])
