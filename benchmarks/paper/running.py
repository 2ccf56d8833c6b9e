"""All cases of the chosen tables, in worker processes: those that took long in the run before come first, the others as listed.

A long case that comes last keeps one worker busy alone; and what is most likely to go wrong is seen early.
"""

from __future__ import annotations

import importlib
import multiprocessing
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import cast

from rich.console import Console

from benchmarks.paper.journal import Entry, Journal, fingerprint
from benchmarks.paper.table import Json, Size, Table

#: The journal that the last run left, and the seconds by the clock from which a case of it is a long one.
LAST_RUN = Path(__file__).parent.parent.parent / "docs" / "paper" / "journal.jsonl"
LONG = 60


def table_of(name: str) -> Table:
    """The module of a table of ours, by its name, or of any other, by its path."""
    return cast("Table", importlib.import_module(name if "." in name else f"benchmarks.paper.tables.{name}"))


def run(names: Sequence[str], size: Size, journal: Journal, jobs: int, console: Console, only: tuple[str, ...] = ()) -> list[str]:
    """Measure what the journal does not have; what went wrong is returned, one line per case. `only` are beginnings of cases."""
    listed = [(name, case) for name in names for case in table_of(name).cases(size) if not only or case.startswith(only)]
    pending = long_first([key for key in listed if key not in journal], Journal(LAST_RUN).clocks())
    if not pending:
        return []
    sources, started, wrong = fingerprint(), time.monotonic(), list[str]()
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures: dict[Future[tuple[Json, float]], tuple[str, str]] = {
            pool.submit(_measure, name, case, size): (name, case) for name, case in pending
        }
        try:
            for done, future in enumerate(as_completed(futures), 1):
                name, case = futures[future]
                try:
                    result, seconds = future.result()
                except BrokenProcessPool:
                    raise
                except Exception as error:
                    wrong.append(f"{name} {case}: {type(error).__name__}: {error}")
                    console.print(wrong[-1], style="bold red", highlight=False)
                    continue
                journal.add(Entry(name, case, result, sources, round(seconds, 1)))
                minutes = (time.monotonic() - started) / 60
                told = f"{done}/{len(pending)} after {minutes:.1f} min: {name} {case}, {seconds:.1f} s"
                console.print(told, style="dim", highlight=False)
        except (KeyboardInterrupt, BrokenProcessPool):
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
    return wrong


def long_first(pending: Sequence[tuple[str, str]], clocks: Mapping[tuple[str, str], float]) -> list[tuple[str, str]]:
    """Cases by how long they took, the longest first; those that took less than `LONG`, or are new, as they come."""
    return sorted(pending, key=lambda key: -clocks.get(key, 0) if clocks.get(key, 0) >= LONG else 0)


def _measure(name: str, case: str, size: Size) -> tuple[Json, float]:
    """The result, and how long it took by the clock: processes that cases leave running for others do not tell their CPU time."""
    before = time.monotonic()
    return table_of(name).measured(case, size), time.monotonic() - before
