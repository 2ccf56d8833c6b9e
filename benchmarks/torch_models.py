"""Architectures of PyTorch at the widths of published models: what exporting, translating and analysing each of them costs.

Weights are random, as the architecture initialises them. *Export* is torch's own part, decompositions included; *nodes* are
those of our graph, *checked* those that can fail and were bounded. Findings that follow from others are in brackets. Below the
table stand the ATen operators that the programs reach, what was not analysed, and the first findings.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from tests.torch_programs import PROGRAMS, aten_names

from tensorproof.assumptions import Declarations, Domain, resolve
from tensorproof.checking import Analysis, analyse
from tensorproof.frontends.torch_export import exported, translated
from tensorproof.targets import TORCH_CPU

#: Findings of a program that are named below the table.
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """One program: its parameters, the seconds of each step, the analysis, and the ATen operators that it calls."""

    parameters: int
    exporting: float
    translating: float
    analysing: float
    analysis: Analysis
    names: frozenset[str]


def measured(name: str) -> Measured:
    make, size = PROGRAMS[name]
    program = make(size)
    domains = {key: Domain("box", *ends) for key, ends in program.ranges.items()}
    started = time.perf_counter()
    made = exported(program.module, (), program.example, name=name)
    both = time.perf_counter()
    again = translated(made.program, program.module, name=name)
    read = time.perf_counter()
    (assumptions, *_), _ = resolve(again.model, Declarations(domains=domains))
    analysis = analyse(again.model, assumptions, TORCH_CPU)
    finished = time.perf_counter()
    parameters = sum(weight.numel() for weight in program.module.parameters())
    return Measured(
        parameters,
        exporting=max(both - started - (read - both), 0.0),
        translating=read - both,
        analysing=finished - read,
        analysis=analysis,
        names=frozenset(aten_names(made)),
    )


def main() -> None:
    console = Console(width=132)
    table = Table(title="architectures of PyTorch in float32, target torch-cpu")
    for column in ("program", "parameters", "export s", "translate s", "analyse s", "nodes", "checkable", "checked", "findings"):
        table.add_column(column, justify="left" if column == "program" else "right")
    names: set[str] = set()
    missing: list[str] = []
    for name in PROGRAMS:
        row = measured(name)
        coverage, findings = row.analysis.coverage, row.analysis.findings
        roots = [finding for finding in findings if not finding.consequence_of]
        names |= row.names
        missing += [f"{name}: {item.node} ({item.op}): {item.reason}" for item in coverage.not_analysed]
        table.add_row(
            name,
            f"{row.parameters / 1e6:.0f} M",
            *(f"{seconds:.1f}" for seconds in (row.exporting, row.translating, row.analysing)),
            *(str(count) for count in (coverage.nodes, coverage.checkable, coverage.checked)),
            f"{len(roots)} ({len(findings) - len(roots)})" if findings else "0",
        )
        for finding in roots[:SHOWN]:
            place = finding.location
            missing.append(f"{name}: {finding.rule.code} at {finding.node}, {'' if place is None else place.module}")
        del row
        gc.collect()
    console.print(table)
    console.print(f"{len(names)} ATen operators: {', '.join(sorted(names))}", highlight=False)
    for line in missing:
        console.print(line, highlight=False)
