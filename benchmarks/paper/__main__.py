"""The tables of the papers, repeated.

python -m benchmarks.paper                      all tables, hours on two cores; goes on where it was interrupted
python -m benchmarks.paper --quick              some cases of each, two seeds, within minutes
python -m benchmarks.paper detection debar      some tables
python -m benchmarks.paper --write              also the files of docs/paper and the headline of the README
python -m benchmarks.paper --take FILE          what another journal has, such as docs/paper/journal.jsonl, is not measured again
python -m benchmarks.paper --against FILE       what came out differently in another journal
python -m benchmarks.paper --kept               nothing is measured: what the journal has, complete or not
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import signal
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from benchmarks.paper import writing
from benchmarks.paper.journal import Journal, differences
from benchmarks.paper.running import run, table_of
from benchmarks.paper.table import Section, Size
from benchmarks.paper.tables import TABLES

FOLDER = Path("build/paper")


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and write what is asked for. Exit code 1 if a case went wrong, 2 if the run was cut short."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description="The tables of the papers, repeated.")
    parser.add_argument("tables", nargs="*", help=f"some of {', '.join(TABLES)} (all by default)")
    parser.add_argument("--only", nargs="+", default=[], metavar="CASE", help="cases whose names begin so")
    parser.add_argument("--quick", action="store_true", help="some cases, two seeds")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    parser.add_argument("--write", action="store_true", help="write docs/paper and the headline of the README")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where journals are kept")
    parser.add_argument(
        "--take", type=Path, nargs="+", default=[], metavar="FILE", help="take over what journals of other runs have"
    )
    parser.add_argument("--kept", action="store_true", help="measure nothing: show what the journal has")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with the journal of another run")
    options = parser.parse_args(arguments)
    console = Console(width=160)
    unknown = [name for name in options.tables if name not in TABLES]
    if unknown:
        parser.error(f"no table {', '.join(unknown)}; there are {', '.join(TABLES)}")
    size: Size = "quick" if options.quick else "full"
    names = options.tables or TABLES
    path = options.folder / f"{size}.jsonl"
    if options.fresh:
        path.unlink(missing_ok=True)
    journal = Journal(path)
    for other in options.take:
        journal.take(Journal(other))
    try:
        wrong = [] if options.kept else run(names, size, journal, options.jobs, console, tuple(options.only))
    except KeyboardInterrupt:
        console.print(f"interrupted; what is done is kept in {path}, and the same command goes on", highlight=False)
        return 2
    except BrokenProcessPool:
        console.print(f"a worker died; what is done is kept in {path}, and the same command goes on", highlight=False)
        return 2
    sections = sections_of(journal, names, size, options.only)
    for name, section in sections.items():
        show(section, console)
        minutes = journal.minutes(name)
        console.print("" if minutes is None else f"{minutes:.1f} minutes of one worker", style="dim", highlight=False)
    if len(journal.sources()) > 1:
        console.print("results were made with several states of the sources; --fresh measures all of them anew", highlight=False)
    if options.against is not None:
        changed = differences(journal, Journal(options.against))
        console.print(*(f"differs: {name} {case}" for name, case in changed), sep="\n", highlight=False)
        console.print(f"{len(changed)} cases came out differently", highlight=False)
        wrong += [f"{name} {case}" for name, case in changed]
    if options.write:
        writing.write(sections, journal, size)
    return 1 if wrong else 0


def sections_of(journal: Journal, names: Sequence[str], size: Size, only: Sequence[str] = ()) -> dict[str, Section]:
    """What the journal has of the tables; one that is not complete says so."""
    sections: dict[str, Section] = {}
    for name in names:
        known, table = journal.results(name), table_of(name)
        cases = [case for case in table.cases(size) if _is_chosen(case, only)]
        results = {case: known[case] for case in cases if case in known}
        if results:
            section = table.section(results, size)
            cut = "" if len(results) == len(cases) else f"not complete, {len(results)} of {len(cases)} cases: "
            sections[name] = replace(section, lines=(cut + section.lines[0], *section.lines[1:]))
    return sections


def _is_chosen(case: str, beginnings: Sequence[str]) -> bool:
    return not beginnings or case.startswith(tuple(beginnings))


def show(section: Section, console: Console) -> None:
    """A section on the terminal."""
    grid = Grid(*(escape(column) for column in section.columns), title=section.title)
    for row in section.rows:
        grid.add_row(*(escape(cell) for cell in row))
    console.print(grid)
    for line in section.lines:
        console.print(line, highlight=False, markup=False)
    for word, lines in (("paper", section.paper), ("set-up", section.setup)):
        for line in lines:
            console.print(f"{word}: {line}", style="dim", highlight=False, markup=False)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends the run ends its workers
    sys.exit(main(sys.argv[1:]))
