"""What the page shows, as JSON: each report with its summary, assumptions, coverage, findings and graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorproof.findings import Finding, Report
from tensorproof.model_map import NodeVerdict
from tensorproof.report.assumption_lines import as_mapping, assumption_lines
from tensorproof.report.html.comparison import compared
from tensorproof.report.html.finding_data import finding_data
from tensorproof.report.html.graph_data import graph_data
from tensorproof.report.plain_text import count, name, names, one_line
from tensorproof.report.ranking import families, tally
from tensorproof.report.source_lines import SourceTree
from tensorproof.report.source_terminal import totals
from tensorproof.report.terminal import not_analysed

#: Reasons for which nodes are not analysed, and consequences below one root, after which the others are counted.
SHOWN = 50
#: Lines of a change that are shown.
LONGEST_CHANGE = 5000


def page_data(reports: Sequence[Report], source_root: Path | None) -> dict[str, Any]:
    """All reports; with exactly two of models, what changed from the first to the second."""
    sources = SourceTree(source_root)
    pair = len(reports) == 2 and not any(report.is_source for report in reports)
    return {
        "reports": [_report(report, sources) for report in reports],
        "comparison": compared(reports[0], reports[1]) if pair else None,
    }


def _report(report: Report, sources: SourceTree) -> dict[str, Any]:
    mapped = report.model_map()
    indices: dict[str, int] = {}
    if mapped is not None:
        for index, node in enumerate(mapped.nodes):
            indices.setdefault(node.name, index)
    graph = None if mapped is None else graph_data(mapped)
    # Inputs stand before the nodes in the graph of the page.
    offset = 0 if mapped is None else len(mapped.inputs)
    return {
        "model": name(report.model),
        "source": report.is_source,
        "headline": _headline(report),
        "verdicts": verdict_counts(report),
        "setting": _setting(report),
        "assumptions": [list(pair) for pair in _assumptions(report)],
        "coverage": coverage_data(report),
        "families": [
            {
                "root": None if family.root is None else finding_data(family.root, report, sources),
                "consequences": [
                    {**_short(finding), "from": names(finding.consequence_of)} for finding in family.consequences[:SHOWN]
                ],
                "left_out": max(len(family.consequences) - SHOWN, 0),
                "at": None if family.root is None or family.root.node not in indices else indices[family.root.node] + offset,
            }
            for family in families(report)
        ],
        "change": None if report.change is None else [one_line(line, 400) for line in report.change.splitlines()[:LONGEST_CHANGE]],
        "graph": graph,
    }


def _headline(report: Report) -> str:
    if report.is_source:
        return totals(report)
    return str(tally(report.findings)) if report.findings else "no findings"


def _short(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule.code,
        "verdict": str(finding.verdict),
        "op": name(finding.op),
        "node": name(finding.node),
        "message": one_line(finding.message, 400),
    }


def is_scan(report: Report) -> bool:
    """Whether a report has bounds: a search, as that of `expose`, or a watched run has what was seen, and proves nothing."""
    return not report.is_source and "abstraction" in report.assumptions


def verdict_counts(report: Report) -> list[list[Any]]:
    """Counts for the tiles of the summary: findings first, then what was proven of nodes. A zero that says nothing is left out."""
    counts = tally(report.findings)
    if report.is_source:
        certain = sum(f.is_sure and not f.is_note for f in report.findings)
        return [["certain", certain, "findings"], ["possible", counts.possible, "findings"], ["note", counts.notes, ""]]
    tiles: list[list[Any]] = [["confirmed", counts.confirmed, "findings"], ["possible", counts.possible, "findings"]]
    if counts.notes:
        tiles.append(["note", counts.notes, ""])
    if is_scan(report) or report.proven_safe:
        tiles.append([str(NodeVerdict.SAFE), len(report.proven_safe), "nodes"])
    if report.proven_safe_if:
        tiles.append([str(NodeVerdict.SAFE_IF), len(report.proven_safe_if), "nodes"])
    if report.coverage.not_analysed:
        tiles.append([str(NodeVerdict.NOT_ANALYSED), len(report.coverage.not_analysed), "nodes"])
    return tiles


def _setting(report: Report) -> list[list[str]]:
    """Target and precision, and how long it took."""
    times = ", ".join(f"{one_line(key)} {value:.2f} s" for key, value in report.times.items())
    if report.is_source:
        return [["files", str(len(report.files or ()))], *([["time", times]] if times else [])]
    precision = "as in the model" if report.precision is None else name(report.precision)
    return [["target", name(report.target)], ["precision", precision], *([["time", times]] if times else [])]


def _assumptions(report: Report) -> list[tuple[str, str]]:
    if report.is_source:
        return [(one_line(key), one_line(str(value), 400)) for key, value in report.assumptions.items()]
    return list(assumption_lines(report.assumptions)) + _others(report.assumptions)


def _others(assumptions: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What confirmation has to say, and what was fed to a program that was run."""
    told = [("confirmation", one_line(str(note), 400)) for note in assumptions.get("confirm", ())]
    fed = as_mapping(assumptions.get("values"))
    return told + [("value", one_line(f"{key} {value}", 400)) for key, value in list(fed.items())[:SHOWN]]


def coverage_data(report: Report) -> dict[str, Any]:
    """How much was checked, why the rest was not, and which refinements proved what."""
    coverage = report.coverage
    groups = not_analysed(coverage.not_analysed)
    is_scanned = is_scan(report)
    noun = "tensor" if report.is_source else "checkable node" if is_scanned else "place"
    whole = coverage.nodes if report.is_source else coverage.checkable
    text = f"{coverage.checked} of {count(whole, noun)}"
    if report.is_source:
        text += " whose shape is fully known"
    else:
        text += f" checked, {count(coverage.nodes, 'node')} in all" if is_scanned else " observed in runs"
    steps = Counter(report.proven_by.values())
    return {
        "text": text,
        "checked": coverage.checked,
        "whole": whole,
        "complete": coverage.complete,
        "proves": report.is_source or is_scanned,
        "reasons": [
            {"reason": one_line(reason, 400), "count": len(nodes), "nodes": names(nodes)} for reason, nodes in groups[:SHOWN]
        ],
        "more_reasons": max(len(groups) - SHOWN, 0),
        "remarks": [one_line(remark, 400) for remark in coverage.remarks],
        "errors": [one_line(error, 400) for error in report.errors],
        "proven_by": [[one_line(step), amount] for step, amount in steps.most_common()],
        "suppressed": report.suppressed,
    }
