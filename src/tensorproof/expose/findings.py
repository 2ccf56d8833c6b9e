"""Failures of programs as findings, and all that runs showed as a report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tensorproof.expose.events import Failure
from tensorproof.expose.outcome import Journal, Seen
from tensorproof.expose.replays.witness import Kept
from tensorproof.expose.settings import Settings
from tensorproof.expose.workplace import Workplace
from tensorproof.findings import Coverage, Finding, Location, Reaches, Report, Unanalysed, Verdict
from tensorproof.formats import BY_NAME
from tensorproof.report.plain_text import count, number
from tensorproof.rules import all_rules

#: What a report says of every search.
PROVES_NOTHING = "a search proves nothing: what did not fail in these runs may fail in others"
_PREFIXES = {"torch": "aten.", "tensorflow": ""}
#: What is to be said of values that a search moved, by the beginning of their names.
_MOVED = {
    "draw": "random numbers, moved to where the program draws them rarely, if ever",
    "weight": "weights, moved to where training may never lead them",
}


def to_finding(failure: Failure, kept: Kept, workplace: Workplace) -> Finding:
    """A failure in the form of every other finding. What was seen in the run is both its range and what it reached."""
    rule = all_rules()[failure.rule]
    format = BY_NAME.get(failure.format)
    file = None if failure.file is None else workplace.known_as(failure.file)
    op = f"{_PREFIXES.get(failure.framework, '')}{failure.operator}"
    return Finding(
        rule=rule,
        node="/".join(part for part in (failure.function, failure.operator) if part),
        op=op,
        operand=failure.operand,
        low=failure.low,
        high=failure.high,
        message=_message(failure, kept),
        target=f"{failure.framework}-cpu",
        format=failure.format,
        phase=failure.phase,
        verdict=Verdict.CONFIRMED if kept.is_shown else Verdict.POSSIBLE,
        limit=format.high if format is not None and rule.code.startswith("NUM2") else None,
        reached=None if math.isnan(failure.low) else (failure.low, failure.high),
        reaches=_reaches(failure),
        location=Location(file, failure.line, column=None if failure.column is None else failure.column + 1),
        witness=kept.witness,
    )


def _reaches(failure: Failure) -> Reaches:
    if failure.phase == "backward":
        return "gradient"
    return failure.reaches or ("loss" if failure.iteration else "output")


def _message(failure: Failure, kept: Kept) -> str:
    """What happened, when, with which values; and that a replay does not show it, if so."""
    told = [f"{failure.message}, in step {failure.iteration} of a run with seed {failure.seed}"]
    given = kept.recipe.described()
    if kept.is_shown:
        told.append(f"the replay gives the program {'; '.join(given[:4])}" if given else "it needs no values but the program's own")
        if len(given) > 4:
            told[-1] += f"; and {count(len(given) - 4, 'more value')}"
    moved = {name.partition(":")[0].rstrip("0123456789") for name in failure.moved} & _MOVED.keys()
    told += [f"among them are {_MOVED[kind]}" for kind in sorted(moved)]
    if not kept.is_shown:
        told.append(kept.account)
    return ". ".join(text[:1].upper() + text[1:] if index else text for index, text in enumerate(told))


def numbered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by line; those that baselines could not tell apart are numbered."""
    ordered = sorted(findings, key=_order)
    seen: dict[str, int] = {}
    result: list[Finding] = []
    for finding in ordered:
        seen[finding.identity] = seen.get(finding.identity, 0) + 1
        result.append(replace(finding, occurrence=seen[finding.identity]))
    return tuple(result)


def _order(finding: Finding) -> tuple[str, int, int]:
    where = finding.location or Location()
    return where.file or "", where.line or 0, where.column or 0


def to_report(
    model: str,
    settings: Settings,
    journal: Journal,
    findings: Sequence[Finding],
    *,
    frameworks: Iterable[str],
    remarks: Sequence[str] = (),
    errors: Sequence[str] = (),
    times: Mapping[str, float] | None = None,
) -> Report:
    """All that runs showed. Suspects are what it counts as nodes, and those that were searched or proven safe as checked."""
    found = {(Path(f.location.file or "").name, f.location.line) for f in findings if f.location is not None}
    suspects = sorted(journal.suspects.values(), key=lambda seen: seen.name)
    proven = [seen for seen in suspects if seen.name in journal.proven]
    wrong = [seen for seen in proven if any(_is_of(finding, seen) for finding in findings)]
    safe = tuple(seen.name for seen in proven if seen not in wrong)
    searched = [
        seen for seen in suspects if seen.evaluations or seen.name in safe or (Path(seen.file or "").name, seen.line) in found
    ]
    left = [seen for seen in suspects if seen not in searched]
    remarks = [*(f"{seen.name} was proven safe, and failed: a fault of tensorproof, please report it" for seen in wrong), *remarks]
    return Report(
        model=model,
        target=", ".join(f"{name}-cpu" for name in sorted(frameworks)),
        precision=None,
        assumptions=_assumptions(settings, journal, suspects, safe),
        coverage=Coverage(
            nodes=len(suspects),
            checkable=len(suspects),
            checked=len(searched),
            not_analysed=tuple(Unanalysed(seen.name, seen.operator, _why(settings)) for seen in left),
            remarks=(PROVES_NOTHING, *remarks),
        ),
        findings=tuple(findings),
        proven_safe=safe,
        proven_safe_if={},
        times=dict(times or {}),
        errors=tuple(errors),
    )


def _is_of(finding: Finding, seen: Seen) -> bool:
    """Whether a finding is about the operator of a suspect."""
    where = finding.location or Location()
    place = Path(where.file or "").name, where.line, finding.op.removeprefix("aten.").strip("_")
    return place == (Path(seen.file or "").name, seen.line, seen.operator.strip("_"))


def _why(settings: Settings) -> str:
    if not settings.moves_inputs:
        return "it ran, and nothing was moved"
    return "it ran, and was not searched: no value leads there that can be moved, or its turn did not come"


def _assumptions(settings: Settings, journal: Journal, suspects: Sequence[Seen], safe: Sequence[str]) -> dict[str, Any]:
    runs = len(journal.outcomes)
    seeds = sorted({outcome.seed for outcome in journal.outcomes})
    moves = "" if not settings.moves_inputs else f", steps of {number(settings.epsilon)} of the legal width"
    replaced = f", {number(100 * settings.switch_rate)} % of the samples replaced" if settings.replaces_samples else ""
    notes = [
        f"method {settings.method}{moves}{replaced}",
        f"{count(runs, 'run')} with {_seeds(seeds)}, {count(journal.iterations, 'step')} of training",
        *journal.notes,
    ]
    if safe:
        notes.append(
            f"{count(len(safe), 'suspect')} proven safe, and not searched: in the forms in which they ran, they cannot fail for any"
            " finite weights and any inputs in the ranges that are listed; what has no range is any finite number"
        )
    return {
        "script": settings.script,
        "arguments": list(settings.arguments),
        "method": settings.method,
        "seed": settings.seed,
        "runs": runs,
        "iterations": journal.iterations,
        "weights": "as trained",
        "inputs": {
            f"{value.name} ({value.label})" if value.label else value.name: {
                "range": [value.low, value.high],
                "source": "declared" if value.is_declared else "observed",
            }
            for value in sorted(journal.values.values(), key=lambda value: value.name)
        },
        "suspects": [
            {
                "name": seen.name,
                "operator": seen.operator,
                "line": seen.line,
                "rule": seen.rule,
                "phase": seen.phase,
                "distance": seen.distance,
                "evaluations": seen.evaluations,
                "proven_safe": seen.name in safe,
            }
            for seen in suspects
        ],
        "notes": notes,
    }


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}" if seeds else "no seed"
