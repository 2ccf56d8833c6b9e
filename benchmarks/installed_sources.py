"""The shape analysis over sources that it was not written for: Keras, the models of transformers, the modules of PyTorch.

The files are read as plain text. Counted are crashes, files that take more CPU time than they may, and findings, which are printed
one per line: they are there to be looked at. Several processes share the files.

    python -m benchmarks installed_sources [NAME...]
"""

from __future__ import annotations

import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

#: CPU seconds that one file may take.
LIMIT = 10.0
ROOTS = {"keras": ("keras", "src"), "transformers": ("transformers", "models"), "torch": ("torch", "nn/modules")}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened with one file."""

    file: str
    seconds: float
    findings: tuple[str, ...] = ()
    crash: str | None = None
    exhausted: bool = False


def files_of(name: str) -> list[Path]:
    """All Python files of one of the roots."""
    package, below = ROOTS[name]
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return sorted((Path(spec.origin).parent / below).rglob("*.py"))


def analyse(file: Path) -> Outcome:
    """Analyse one file; an exception is an outcome, too."""
    from tensorproof.errors import SourceError
    from tensorproof.shapes.analysis import analyse_source

    start = time.process_time()
    try:
        analysis = analyse_source(file.read_text(encoding="utf-8"), str(file))
    except SourceError as error:
        return Outcome(str(file), time.process_time() - start, crash=f"not parsed: {error}")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(str(file), time.process_time() - start, crash=f"{error!r} at {Path(place.filename).name}:{place.lineno}")
    if analysis.statistics.rule_errors:
        return Outcome(str(file), time.process_time() - start, crash="; ".join(analysis.statistics.rule_errors))
    findings = tuple(f"{p.place.line}: {p.rule} {p.message}" for p in analysis.problems if p.place.file == str(file))
    return Outcome(str(file), time.process_time() - start, findings, exhausted=analysis.statistics.exhausted is not None)


def measured(files: list[Path]) -> Iterator[Outcome]:
    """One outcome after the other, in the order of the files."""
    with ProcessPoolExecutor(2) as pool:
        yield from pool.map(analyse, files, chunksize=8)


def main() -> None:
    names = [name for name in sys.argv[2:] if name in ROOTS] or list(ROOTS)
    console = Console(width=120)
    table = Table(title=f"shape analysis of installed sources (limit {LIMIT:.0f} s of CPU time a file)")
    for heading in ("sources", "files", "crashes", "over the limit", "slowest", "CPU s", "stopped by budgets", "findings"):
        table.add_column(heading, justify="left" if heading == "sources" else "right")
    for name in names:
        outcomes: list[Outcome] = []
        count = Counter(crash=0, late=0, stopped=0, findings=0)
        for outcome in measured(files_of(name)):
            outcomes.append(outcome)
            count["crash"] += outcome.crash is not None
            count["late"] += outcome.seconds > LIMIT
            count["stopped"] += outcome.exhausted
            count["findings"] += len(outcome.findings)
            for line in (*outcome.findings, *([] if outcome.crash is None else [f"CRASH {outcome.crash}"])):
                console.print(f"{outcome.file}:{line}", markup=False, soft_wrap=True)
        slowest = max(outcome.seconds for outcome in outcomes)
        total = sum(outcome.seconds for outcome in outcomes)
        row = [len(outcomes), count["crash"], count["late"], f"{slowest:.1f}", f"{total:.0f}", count["stopped"], count["findings"]]
        table.add_row(name, *map(str, row))
    console.print(table)


if __name__ == "__main__":
    main()
