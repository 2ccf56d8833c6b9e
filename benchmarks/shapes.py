"""What `tensorproof shapes` costs: CPU time from a cold start to the verdict, interpreter included, for scripts of about 150 lines.

Each script is checked in a process of its own, several times, and the fastest run counts: what else the machine does can only slow
one down. The start of the interpreter alone, and of the command without a file, are printed beside it.

    python -m benchmarks shapes
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures" / "shapes"
#: Scripts of this many lines are measured.
LENGTHS = range(135, 166)
ROUNDS = 5
#: Seconds that a script may take.
TARGET = 0.3


def cpu_seconds(command: list[str]) -> float:
    """CPU time of a child process, the fastest of several runs."""
    spent: list[float] = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def main() -> None:
    scripts = [path for path in sorted(FIXTURES.glob("*/clean_*.py")) if len(path.read_text().splitlines()) in LENGTHS]
    table = Table(title=f"cold start to verdict, CPU seconds (target {TARGET})")
    for heading in ("script", "lines", "seconds"):
        table.add_column(heading, justify="left" if heading == "script" else "right")
    table.add_row("(Python alone)", "", f"{cpu_seconds([sys.executable, '-c', 'pass']):.3f}")
    table.add_row("(tensorproof --help)", "", f"{cpu_seconds([sys.executable, '-m', 'tensorproof', '--help']):.3f}")
    for script in scripts:
        seconds = cpu_seconds([sys.executable, "-m", "tensorproof", "shapes", str(script)])
        lines = len(script.read_text().splitlines())
        table.add_row(f"{script.parent.name}/{script.stem}", str(lines), f"{seconds:.3f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
