"""The HTML report of a large model: making it, opening it in Chromium, and what readers do in its graph.

    python -m benchmarks report_page

Prints CPU seconds of the check, of the check that keeps the model for the page, and of making the page; then seconds until the
browser has drawn the page, and milliseconds of each action in its graph, drawing included.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.browser import INSTALL, chromium, is_installed
from tests.large_graphs import large_model
from tests.page_actions import actions

from benchmarks.timing import cpu_seconds
from tensorproof import check
from tensorproof.files import write_text
from tensorproof.report import html

NODES = 10_000


def main(nodes: int = NODES) -> None:
    if not is_installed():
        print(f"benchmarks: {INSTALL}", file=sys.stderr)
        return
    proto = large_model(nodes)
    rows: list[tuple[str, str]] = []

    def timed(what: str, started: float) -> None:
        rows.append((what, f"{cpu_seconds() - started:.2f} s"))

    check(proto, confirm=False)  # what is loaded once is not counted
    started = cpu_seconds()
    check(proto, confirm=False)
    timed("check", started)
    started = cpu_seconds()
    report = check(proto, confirm=False, model_map=True)
    timed("check that keeps the model", started)
    started = cpu_seconds()
    text = html.render((report,))
    timed("make the page", started)
    rows.append(("size", f"{len(text) / 1e6:.1f} MB"))
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        page = Path(folder) / "page.html"
        write_text(page, text)
        started = time.perf_counter()
        browser.open(page)
        browser.frame()
        rows.append(("open", f"{time.perf_counter() - started:.2f} s"))
        rows += [(name, f"{milliseconds:.1f} ms") for name, milliseconds in actions(browser).items()]
    table = Table(title=f"the report of {len(proto.graph.node):,} nodes as a page")
    table.add_column("what")
    table.add_column("time", justify="right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
