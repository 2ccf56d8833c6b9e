"""Fuzzing: tests per second on each backend, and what a campaign finds per CPU minute."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.timing import cpu_seconds
from tensorproof.cli.fuzz import DEFAULT_BACKENDS
from tensorproof.compare.backends.backend import Unavailable
from tensorproof.compare.catalogue import Plan, PlanOptions
from tensorproof.compare.fuzzing.campaign import CampaignOptions, run_campaign
from tensorproof.compare.fuzzing.discrepancy import backend_of
from tensorproof.compare.fuzzing.oracles import speaks
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet
from tensorproof.compare.workers.process import WorkerFailed

#: Tests of the plan that every backend runs, and tests of the campaign.
RUNS = 60
TESTS = 120
SEED = 0


def main(arguments: Sequence[str] = ()) -> None:
    """Two tables: the backends one by one, and a campaign on all of them."""
    console = Console(width=150)
    console.print(speed_table(console))
    console.print(campaign_table(int(arguments[0]) if arguments else TESTS))


def speed_table(console: Console) -> Table:
    """The same tests on each backend, call by call, on one thread; the import of the framework is not counted."""
    columns = ("backend", "tests", "refused", "not supported", "CPU ms per test", "tests per CPU second", "tests per second")
    table = Table(*columns, title=f"one process, {RUNS} tests of the plan")
    for name in DEFAULT_BACKENDS:
        row = _speed(backend_of(name))
        if row is not None:
            table.add_row(*row)
            console.print(" ".join(row), style="dim", highlight=False)
    return table


def _speed(backend: BackendId) -> tuple[str, ...] | None:
    keras = backend.name.startswith("keras:")
    plan = Plan(SEED, PlanOptions(dialects=("keras",) if keras else ("onnx",)))
    refused = unavailable = done = 0
    cpu = 0.0
    with Fleet() as fleet:
        try:
            fleet.worker(backend).versions()
        except (Unavailable, WorkerFailed):
            return None
        started = time.perf_counter()
        for number in range(RUNS):
            test = plan[number]
            assert speaks(backend, test)
            try:
                run = fleet.run(backend, test)
            except Unavailable:
                unavailable += 1
                continue
            done += 1
            refused += run.failure is not None
            cpu += run.seconds
        seconds = time.perf_counter() - started
    speeds = f"{1000 * cpu / max(done, 1):.1f}", f"{done / max(cpu, 1e-6):.1f}", f"{done / seconds:.1f}"
    return (backend.name, str(done), str(refused), str(unavailable), *speeds)


def campaign_table(tests: int) -> Table:
    """A campaign from an empty folder: backends started, tests run, discrepancies explained, scripts verified."""
    started = cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        options = CampaignOptions(tuple(map(backend_of, DEFAULT_BACKENDS)), SEED, tests=tests, folder=Path(folder), jobs=2)
        result = run_campaign(options, Plan(SEED))
    minutes = (cpu_seconds() - started) / 60
    kinds = [finding.kind for finding in result.findings]
    table = Table("", "", title=f"a campaign of {result.tests} tests on {len(options.backends)} backends", show_header=False)
    table.add_row("seconds", f"{result.seconds:.0f}")
    table.add_row("CPU minutes", f"{minutes:.1f}")
    table.add_row("tests per second", f"{result.tests / result.seconds:.2f}")
    table.add_row("discrepancies", str(result.discrepancies))
    table.add_row("distinct findings", ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))) or "0")
    table.add_row("distinct findings per CPU minute", f"{len(kinds) / minutes:.2f}")
    table.add_row("not reproduced by their script", str(len(result.not_reproduced)))
    table.add_row("process deaths survived", str(result.deaths))
    table.add_row("mistakes of tensorproof", str(len(result.errors)))
    return table


if __name__ == "__main__":
    main(sys.argv[1:])
