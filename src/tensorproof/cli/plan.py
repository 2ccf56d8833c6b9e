"""The `plan` command: which nodes have to stay in float32."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from tensorproof.assumptions import parse_dimension_option
from tensorproof.cli.progress import shown_plan
from tensorproof.cli.scanning import declared_domains
from tensorproof.configuration import find_configuration
from tensorproof.errors import ConfigurationError
from tensorproof.files import write_bytes
from tensorproof.low_precision.lists import find_list
from tensorproof.low_precision.plan import Plan, Stays, plan_precision

_FORMATS = ("terminal", "json")
_GUARANTEES = {
    "sampled": "holds on the samples that were run, not for all inputs",
    "proven": "proven by the static scan for all inputs of the ranges, and run on samples",
}


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options of the command, as given."""

    model: Path
    precision: str | None
    guarantee: str
    apply: Path | None
    lists: str | None
    format: str
    ranges: tuple[str, ...]
    ranges_file: Path | None
    samples: Path | None
    dims: tuple[str, ...]
    target: str | None
    effort: int | None
    runs: int
    tolerance: float
    evaluations: int | None
    seed: int | None


def run_plan(options: PlanOptions) -> int:
    """Make a plan, print it, and write what was asked for; 1 if the check of the plan failed."""
    if options.format not in _FORMATS:
        raise ConfigurationError(f"--format {options.format!r}: write {' or '.join(_FORMATS)}")
    listed = None if options.lists is None else find_list(options.lists)
    if options.apply is not None and _is_same_file(options.apply, options.model):
        raise ConfigurationError(f"--apply {options.apply}: this is the model itself, which is never overwritten")
    plan = _planned(options)
    names = None if listed is None else listed(plan)
    if options.apply is not None:
        write_bytes(options.apply, plan.serialised())
    _put_out(plan, options.format, names)
    return 0 if plan.passed else 1


def _is_same_file(first: Path, second: Path) -> bool:
    return first.resolve() == second.resolve() or (first.exists() and second.exists() and first.samefile(second))


def _planned(options: PlanOptions) -> Plan:
    configuration = find_configuration(Path.cwd())
    precision = options.precision or configuration.precision
    if precision is None:
        raise ConfigurationError("name the lower precision with --precision float16 or --precision bfloat16")
    with shown_plan(options.model.name) as progress:
        plan = plan_precision(
            options.model,
            precision=precision,
            guarantee=options.guarantee,
            ranges=declared_domains(options.ranges, options.ranges_file, configuration),
            dims=dict(configuration.dims) | dict(map(parse_dimension_option, options.dims)),
            samples=None if options.samples is None else str(options.samples),
            target=options.target or configuration.target or "onnxruntime-cpu",
            effort=next((e for e in (options.effort, configuration.effort) if e is not None), 1),
            runs=options.runs,
            seed=options.seed if options.seed is not None else configuration.seed or 0,
            tolerance=options.tolerance,
            evaluations=options.evaluations,
            progress=progress,
        )
    return replace(plan, model=str(options.model))


def _put_out(plan: Plan, format: str, names: str | None) -> None:
    """The plan on standard output; where a list was asked for, that alone stands there, to be sent on."""
    if format == "json":
        content = plan.to_json() if names is None else {**plan.to_json(), "list": names}
        print(json.dumps(content, indent=2))
        return
    stream: TextIO = sys.stdout if names is None else sys.stderr
    for line in _lines(plan):
        print(line, file=stream)
    if names is not None:
        print(names)


def _lines(plan: Plan) -> Iterator[str]:
    stays = len(plan.kept) + len(plan.fixed)
    count = f"{stays} of {plan.floating_nodes} floating nodes ({plan.share:.1%})"
    yield f"{_plain(plan.model)} in {plan.precision}: {count} stay in float32"
    yield f"  guarantee: {plan.guarantee}, {_GUARANTEES[plan.guarantee]}"
    for name, domain in plan.assumptions["inputs"].items():
        yield f"  input {_plain(name)}: {domain['text']} ({domain['source']})"
    if plan.plain_failures is not None:
        yield f"  with no node kept, {plan.plain_failures} of {plan.samples} samples fail"
    if not plan.is_minimal:
        yield f"  not minimal: the evaluations were spent ({plan.evaluations}); more are allowed with --evaluations"
    for node in plan.kept:
        yield _line(node)
    for node in plan.fixed:
        yield _line(node)
    yield _check_line(plan)
    for remark in plan.remarks:
        yield f"  note: {_plain(remark)}"


def _line(node: Stays) -> str:
    return f"  keep {_plain(node.name)} ({_plain(node.op)}): {_plain(node.why)}"


def _check_line(plan: Plan) -> str:
    if plan.check is None:
        return "  check: nothing was run"
    check = plan.check
    found = "passed" if check.passed else f"FAILED on {check.failures}"
    return (
        f"  check: {found}, {check.samples} fresh samples; outputs differ from float32 by at most {check.absolute:.3g}, relative "
        f"{check.relative:.3g}, {check.units:.3g} epsilons of {plan.precision} (allowed {plan.tolerance:g})"
    )


def _plain(text: str) -> str:
    """Text of a model file without characters that a terminal would obey."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
