"""`tensorproof expose` on the training scripts of `benchmarks/exposed`: a search, plain running, and a search without replacement.

A script counts as found if the search reports its defect, at its line, and the replay failed in a fresh process. The search knows
the script, and legal ranges where the script shows a few of the legal values only. CPU seconds are those of the runs that were
searched, frameworks imported before. The baselines may take as many steps of training as come to about ten times the CPU time of
the search, or as many as the script itself takes if that is less: what did not fail until then counts with its time, and the
ratio is a lower bound (>).
"""

from __future__ import annotations

import atexit
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.exposed.catalogue import FOLDER, Framework, Program
from tensorproof.expose.host import Host
from tensorproof.expose.running import exposed
from tensorproof.expose.settings import Method
from tensorproof.findings import Finding, Report

SEEDS, FEW_SEEDS = 10, 5
#: Scripts of which a search takes 20 seconds and more: fewer seeds.
SLOW = frozenset(
    {
        "tf_01_spatial_transformer.py",
        "tf_16_clipped_div.py",
        "tf_17_unet.py",
        "tf_35_vae_sqrt.py",
        "tf_40_bmi.py",
        "tf_42_bmi_summaries.py",
        "tf_43_cvae_sqrt.py",
        "tf_44_one_conv.py",
    }
)
#: Runs of a script that one search may take, and steps of training of each.
RUNS = 3
ITERATIONS = 3000
#: Seeds of the baselines, and the steps that one may take: in steps of the search, and at least. Plain steps are the cheaper ones.
BASELINE_SEEDS = 3
CAPS: dict[Method, tuple[int, int]] = {"plain": (50, 2000), "no-replacement": (10, 400)}


@dataclass(frozen=True, slots=True)
class Run:
    """One search: whether the defect was found and replayed, CPU seconds, steps of training, and what else there is to say."""

    found: bool
    seconds: float
    steps: int
    remark: str = ""


def searched(program: Program, seed: int, method: Method = "search", iterations: int = ITERATIONS, **settings: Any) -> Run:
    """One search of a script, with seeds that no other search has."""
    report = exposed(
        program.path,
        ranges=program.ranges,
        method=method,
        seed=1000 * seed,
        runs=RUNS if method == "search" else 1,
        iterations=iterations,
        stop_after=1,
        budget=None,
        host=warm_host(program.framework),
        **settings,
    )
    found = any(is_defect(program, finding) for finding in report.confirmed)
    return Run(found, report.times["search on the CPU"] or report.times["search"], _steps(report), "" if found else _told(report))


def seeds_of(program: Program) -> range:
    """The seeds of a script's searches."""
    return range(FEW_SEEDS if program.file in SLOW else SEEDS)


@cache
def warm_host(framework: Framework) -> Host:
    """A process that has the framework loaded once it has run a script; it ends with this one."""
    host = Host(FOLDER)
    atexit.register(host.close)
    return host


def is_defect(program: Program, finding: Finding) -> bool:
    """Whether a finding is the defect of a script."""
    where = finding.location
    if where is None or where.file is None or where.line is None:
        return False
    return program.is_met_by(where.file, where.line, finding.op, finding.phase)


def _steps(report: Report) -> int:
    return int(report.assumptions["iterations"])


def _told(report: Report) -> str:
    """What came instead of the defect."""
    for finding in report.findings:
        where = finding.location
        line = "" if where is None else f" at {Path(where.file or '').name}:{where.line}"
        return f"{finding.verdict.value} {finding.rule.code} {finding.op}{line}: {finding.message[-160:]}"
    near = sorted((s["distance"], s["name"]) for s in report.assumptions["suspects"] if s["distance"] is not None)
    return (report.errors or [f"nearest {near[0][1]}: {near[0][0]:.3g}" if near else "no suspect"])[0]


def baselines(program: Program, search: Sequence[Run]) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """Plain running, and the search without replacement."""
    steps = statistics.mean(run.steps for run in search)
    caps = {method: max(int(times * steps), least) for method, (times, least) in CAPS.items()}
    plain = tuple(searched(program, seed, "plain", caps["plain"]) for seed in range(BASELINE_SEEDS))
    kept = tuple(searched(program, seed, "no-replacement", caps["no-replacement"]) for seed in range(BASELINE_SEEDS))
    return plain, kept
