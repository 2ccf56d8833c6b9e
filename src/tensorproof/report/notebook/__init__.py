"""A report as a notebook shows it: verdicts, coverage, findings, headroom per layer, and the graph of modules.

It is one piece of HTML without a script: what was shown once stays readable in a saved notebook, in its preview and on paper,
offline. So the graph is a drawing of the modules, a few kilobytes, and not the page's own in a frame: that would keep its scripts
and all nodes in every output, and viewers that run no scripts (previews, notebooks that are not trusted) would show nothing.

Names and messages come from models: everything goes through `html.escape`.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator

from tensorproof.findings import Finding, Location, Report
from tensorproof.model_map import KEPT_NODES
from tensorproof.report.html.page_data import coverage_data, is_scan, verdict_counts
from tensorproof.report.notebook.headroom_bars import headroom_bars
from tensorproof.report.notebook.module_graph import module_graph
from tensorproof.report.notebook.style import NAME, VERDICTS, style
from tensorproof.report.plain_text import count, interval, name, one_line
from tensorproof.report.ranking import in_order
from tensorproof.report.source_terminal import place, totals

#: Findings after this many are counted, not shown: the worst come first.
SHOWN = 8


def render(report: Report) -> str:
    """What was found in chips, the worst findings in a table, then the model: bits left per layer, and its modules."""
    return f'<div class="{NAME}"><style>{style()}</style>{"".join(_parts(report))}</div>'


def _parts(report: Report) -> Iterator[str]:
    setting = "" if report.is_source else f"target {name(report.target)}"
    if report.precision is not None:
        setting += f", precision {name(report.precision)}"
    yield f'<div class="head"><strong>{_text(name(report.model))}</strong><span class="quiet">{_text(setting)}</span></div>'
    yield f'<div class="row">{_counts(report)}</div>'
    yield _coverage(report)
    if report.is_source:
        yield _line(totals(report))
    if report.findings:
        yield _table(report, in_order(report)[:SHOWN])
    if len(report.findings) > SHOWN:
        yield _line(f"and {count(len(report.findings) - SHOWN, 'more finding')}")
    yield from (_line(f"error: {one_line(error, 400)}") for error in report.errors)
    yield from (_line(f"remark: {one_line(remark, 400)}") for remark in report.coverage.remarks)
    yield from _model(report)


def _counts(report: Report) -> str:
    chips: list[str] = []
    for verdict, amount, noun in verdict_counts(report):
        colour = VERDICTS[verdict] if amount else "grey"
        told = count(amount, verdict) if verdict == "note" else f"{amount} {verdict}"
        told = f"{amount} {noun} {verdict}" if noun == "nodes" else told
        chips.append(f'<span class="chip {colour}">{_text(told)}</span>')
    return "".join(chips)


def _coverage(report: Report) -> str:
    coverage = coverage_data(report)
    share = 100 * coverage["checked"] / coverage["whole"] if coverage["whole"] else 100
    return f'<div>{_text(coverage["text"])}<span class="meter"><span style="width:{share:.0f}%"></span></span></div>'


def _table(report: Report, findings: Iterable[Finding]) -> str:
    columns = ("rule", "verdict", "where", "what") if report.is_source else ("rule", "verdict", "node", "range", "what")
    head = "".join(f"<th>{column}</th>" for column in columns)
    rows = "".join(_row(finding) for finding in findings)
    return f'<div class="scrolled"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _row(finding: Finding) -> str:
    verdict = f"{finding.verdict} (note)" if finding.is_note else str(finding.verdict)
    colour = VERDICTS["note" if finding.is_note else str(finding.verdict)]
    where = _where(finding.location)
    cells = [
        f'<td class="fixed" title="{_text(finding.rule.summary)}"><strong>{_text(finding.rule.code)}</strong></td>',
        f'<td class="fixed"><span class="chip {colour}">{_text(verdict)}</span></td>',
    ]
    if finding.is_source:
        cells.append(f'<td><span class="mono">{_text(where)}</span></td>')
    else:
        node = f'{_text(name(finding.op))} <span class="mono">{_text(name(finding.node))}</span>'
        cells.append(f"<td>{node}{f'<br>{_quiet(where)}' if where else ''}</td>")
        bound = interval(*finding.bounds) if finding.low is not None else ""
        cells.append(f'<td class="fixed mono" title="{_text(name(finding.operand))}">{_text(bound)}</td>')
    cells.append(f"<td>{_text(one_line(finding.message, 400))}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _where(location: Location | None) -> str:
    if location is None:
        return ""
    file = "" if location.file is None else place(location, column=False)
    return " ".join(part for part in (file, location.module and name(location.module)) if part)


def _model(report: Report) -> Iterator[str]:
    """The plot and the graph, or the line that says how to get them."""
    mapped = report.model_map()
    if mapped is None:
        if is_scan(report):
            yield _line(
                f"Headroom per layer and the graph are shown if the check keeps the model: check(..., model_map=True). "
                f"By default it keeps those of up to {KEPT_NODES:,} nodes."
            )
        return
    bars, graph = headroom_bars(mapped), module_graph(mapped)
    if bars:
        yield f'<h4>Headroom per layer</h4><div class="bars">{bars}</div>'
    if graph:
        yield f'<h4>Modules</h4><div class="scrolled">{graph}</div>'


def _line(text: str) -> str:
    return f"<div>{_quiet(text)}</div>"


def _quiet(text: str) -> str:
    return f'<span class="quiet">{_text(text)}</span>'


def _text(text: str) -> str:
    return html.escape(text, quote=True)
