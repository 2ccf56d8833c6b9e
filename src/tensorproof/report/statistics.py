"""Where the time of an analysis went, as a table: what `check --stats` prints after its report.

    with collecting() as costs:                 # tensorproof.ranges.costs
        report = check(model, ...)
    print(statistics_text(costs), file=sys.stderr)

Everything analysed inside of `collecting` counts: all combinations of sizes, the first pass, refinements and the last pass.
`Analysis.costs` is the same object.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tensorproof.ranges.abstraction import Abstraction
from tensorproof.ranges.costs import Costs, PassCost
from tensorproof.report.plain_text import count

#: Operators after this many are added up in one line.
SHOWN = 20


def statistics_text(costs: Costs) -> str:
    """Passes with their precision, then operators by time: calls, milliseconds, microseconds per call, cells per result."""
    lines = [_passes(costs.passes)]
    if costs.operators:
        lines += ["", _table(("operator", "calls", "ms", "us/call", "cells/call", "most cells"), _operators(costs))]
    return "\n".join(lines)


def _passes(passes: Sequence[PassCost]) -> str:
    rows: list[tuple[str, ...]] = []
    last = 0
    # Refinements evaluate small parts many times over: passes of one precision that follow each other share a line.
    for abstraction, group in groupby(passes, key=lambda entry: entry.abstraction):
        entries = list(group)
        first, last = last + 1, last + len(entries)
        nodes, spent = sum(entry.nodes for entry in entries), sum(entry.seconds for entry in entries)
        number = str(last) if first == last else f"{first}-{last}"
        per_node = 1e6 * spent / nodes if nodes else 0.0
        rows.append((number, _precision(abstraction), f"{nodes:,}", f"{1e3 * spent:.1f}", f"{per_node:.0f}"))
    seconds = sum(entry.seconds for entry in passes)
    heading = f"{len(passes)} {'pass' if len(passes) == 1 else 'passes'}, {1e3 * seconds:.1f} ms"
    return heading + "\n" + _table(("pass", "precision", "nodes", "ms", "us/node"), rows) if rows else heading


def _precision(abstraction: Abstraction) -> str:
    """What one pass was asked for, in words."""
    weights = "summaries of weights" if abstraction.weights == "channel" else "exact weights"
    extra = [abstraction.values] if abstraction.values != "interval" else []
    extra += ["spectral norms"] if abstraction.spectral else []
    return ", ".join((weights, count(abstraction.cells, "cell"), *extra))


def _operators(costs: Costs) -> list[tuple[str, ...]]:
    ordered = sorted(costs.operators.items(), key=lambda pair: -pair[1].seconds)
    rows: list[tuple[str, ...]] = []
    for label, cost in ordered[:SHOWN]:
        each = 1e6 * cost.seconds / cost.calls
        cells = cost.cells / cost.calls
        rows.append((label, f"{cost.calls:,}", f"{1e3 * cost.seconds:.1f}", f"{each:.0f}", f"{cells:,.1f}", f"{cost.most_cells:,}"))
    rest = [cost for _, cost in ordered[SHOWN:]]
    if rest:
        calls, seconds = sum(cost.calls for cost in rest), sum(cost.seconds for cost in rest)
        others = f"{len(rest)} other operators"
        rows.append((others, f"{calls:,}", f"{1e3 * seconds:.1f}", f"{1e6 * seconds / calls:.0f}", "", ""))
    return rows


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text; numbers stand right."""
    widths = [max(map(len, column)) for column in zip(heading, *rows)]
    left = {"operator", "precision"}
    lines: list[str] = []
    for row in (heading, *rows):
        cells = [text.ljust(w) if name in left else text.rjust(w) for name, text, w in zip(heading, row, widths)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
