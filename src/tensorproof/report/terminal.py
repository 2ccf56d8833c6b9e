"""The terminal format: what a person needs to understand a finding, believe it and replay it, at 100 columns.

`rich` is imported inside the functions, so that the table of formats costs nothing to import.
"""

from __future__ import annotations

import io
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorproof.findings import Finding, Report, Unanalysed
from tensorproof.report import source_terminal
from tensorproof.report.assumption_lines import as_mapping, as_sequence, assumption_lines
from tensorproof.report.plain_text import count, interval, name, names, number, one_line, without_commands
from tensorproof.report.ranking import Family, families, tally
from tensorproof.report.source_lines import SourceTree

if TYPE_CHECKING:
    from rich.text import Text

WIDTH = 100
#: Roots after this many get one line each: the first ones are the closest to failing, and JSON has them all.
DETAILED_ROOTS = 25
#: Of lists below one root or one heading, this many lines are shown and the others counted.
SHOWN = 6
#: Steps of a trail: the first one and the last ones.
TRAIL_SHOWN = 5

_LABEL_WIDTH = 10
_STYLES = {"confirmed": "bold red", "possible": "yellow", "note": "dim"}


def render(
    reports: Sequence[Report],
    *,
    source_root: Path | None = None,
    width: int = WIDTH,
    colour: bool = False,
) -> str:
    """Each model with its findings, assumptions and coverage; for several models, a last line that adds them up.

    Findings in source are shown in the compact way that linters have.
    """
    if reports and all(report.is_source for report in reports):
        return "".join(source_terminal.render(report, width=width, colour=colour) for report in reports)
    sources = SourceTree(source_root)
    page = Page(width, colour)
    for report in reports:
        _model(page, report, sources)
        page.blank()
    if len(reports) > 1:
        total = sum((tally(report.findings) for report in reports[1:]), tally(reports[0].findings))
        page.line(f"{len(reports)} models: {total}", style="bold")
    return page.text()


class Page:
    """Lines of text with hanging indents. Everything shown is a `Text`: nothing in it is read as markup."""

    def __init__(self, width: int, colour: bool) -> None:
        from rich.console import Console

        self._file = io.StringIO()
        self._width = max(width, 40)
        self._colour = colour
        self._console = Console(
            file=self._file,
            width=self._width,
            force_terminal=colour,
            color_system="standard" if colour else None,
            legacy_windows=False,
            markup=False,
            highlight=False,
            emoji=False,
        )

    def blank(self) -> None:
        self._file.write("\n")

    def line(self, *parts: str | tuple[str, str], style: str = "", indent: int = 0, hang: int = 2) -> None:
        """One paragraph of strings or (string, style) pairs; what does not fit continues `hang` columns further in."""
        from rich.text import Text

        self._wrap(Text.assemble(*parts, style=style), " " * indent, " " * (indent + hang))

    def field(self, label: str, *parts: str | tuple[str, str], indent: int = 2) -> None:
        """A label and its text in two columns."""
        from rich.text import Text

        start = " " * indent + label.ljust(_LABEL_WIDTH)
        self._wrap(Text.assemble(*parts), start, " " * len(start))

    def text(self) -> str:
        """Everything so far, without trailing blank lines and without lines that a build server would obey."""
        lines = [line.rstrip() for line in self._file.getvalue().split("\n")]
        return without_commands("\n".join(lines).rstrip("\n") + "\n")

    def _wrap(self, text: Text, first: str, rest: str) -> None:
        from rich.text import Text

        start = first
        for piece in text.wrap(self._console, max(self._width - len(rest), 20), overflow="fold"):
            line = Text.assemble((start, "dim" if start.strip() else ""), piece)
            self._console.print(line, no_wrap=True, overflow="ignore", crop=False)
            start = rest


def _model(page: Page, report: Report, sources: SourceTree) -> None:
    precision = "as in the model" if report.precision is None else name(report.precision)
    page.line((name(report.model), "bold"), f"  target {name(report.target)}, precision {precision}")
    _findings(page, families(report), sources)
    page.blank()
    page.line("assumptions", style="bold")
    for label, text in assumption_lines(report.assumptions):
        page.field(label, text)
    page.blank()
    page.line("result", style="bold")
    page.field("findings", str(tally(report.findings)) if report.findings else "none")
    if report.suppressed:
        page.field("", f"{count(report.suppressed, 'finding')} suppressed by a baseline or by the selection of rules")
    _coverage(page, report)
    page.field("time", ", ".join(f"{one_line(key)} {value:.2f} s" for key, value in report.times.items()) or "unknown")


# -- findings ---------------------------------------------------------------------------------------------------------


def _findings(page: Page, found: Sequence[Family], sources: SourceTree) -> None:
    detailed = 0
    for family in found:
        if family.root is None:
            page.blank()
            page.line("consequences of defects that are not shown")
            _consequences(page, family.consequences, None)
        elif detailed < DETAILED_ROOTS:
            detailed += 1
            page.blank()
            _root(page, family.root, sources)
            _consequences(page, family.consequences, family.root.node)
        else:
            if detailed == DETAILED_ROOTS:
                detailed += 1
                page.blank()
                page.line("further findings, in short (the json format has all details)")
            page.line(*_short(family.root), _also(family.consequences), indent=2)


def _root(page: Page, finding: Finding, sources: SourceTree) -> None:
    page.line((finding.rule.code, "bold"), " ", _verdict(finding), f"  {finding.rule.name}")
    page.line(one_line(finding.message, 400), indent=2, hang=0)
    phase = "" if finding.phase == "forward" else ", in the backward pass"
    page.field("node", f"{name(finding.op)} {name(finding.node)}{phase}")
    _source(page, finding, sources)
    form = f" ({one_line(finding.format)})" if finding.format else ""
    page.field("operand", f"{name(finding.operand)} in {interval(*finding.bounds)}{form}")
    page.field("bracket", bracket(finding))
    if finding.reaches is not None:
        page.field("reaches", finding.reaches)
    if finding.trail:
        page.field("trail", trail(finding))
    if finding.witness is not None:
        page.field("witness", one_line(finding.witness.arrays))
        page.field("replay", f"python {shlex.quote(one_line(finding.witness.script))}")
    if finding.fix is not None:
        _fix(page, finding.fix)


def _fix(page: Page, fix: Mapping[str, Any]) -> None:
    """The repair, its kind, what it costs in values, and the command that applies it; or why there is none."""
    if fix.get("kind") is None:
        reasons = {str(entry.get("reason")): None for entry in map(as_mapping, as_sequence(fix.get("declined")))}
        page.field("fix", "none found: " + one_line("; ".join(reasons), 400))
        return
    if fix.get("along_with"):
        page.field("fix", f"goes with the repair of {name(str(fix['along_with']))}")
        return
    safety = "safe" if fix.get("safe") else "unsafe: it changes values"
    page.field("fix", one_line(f"{fix.get('kind')} {fix.get('name')} ({safety}): {fix.get('summary')}", 400))
    page.field("because", one_line(str(fix.get("because")), 400))
    page.field("proof", one_line(str(fix.get("cost")), 600))
    if fix.get("apply"):
        page.field("apply", one_line(str(fix["apply"]), 600))


def bracket(finding: Finding) -> str:
    """What real runs came to, what the analysis bounds it by, and the limit between fine and failed."""
    reached = "no runs" if finding.reached is None else f"reached {interval(*finding.reached)}"
    limit = "" if finding.limit is None else f", limit {number(finding.limit)}"
    return f"{reached}, bound {interval(*finding.bounds)}{limit}"


def trail(finding: Finding) -> str:
    """The chain of ranges from an input to the operand; the middle of a long one is left out."""
    steps = [f"{name(step.value)} {name(step.op)} {interval(step.low, step.high)}" for step in finding.trail]
    if len(steps) > TRAIL_SHOWN:
        left_out = len(steps) - TRAIL_SHOWN
        steps = [steps[0], f"({count(left_out, 'step')})", *steps[-(TRAIL_SHOWN - 1) :]]
    return " -> ".join(steps)


def _source(page: Page, finding: Finding, sources: SourceTree) -> None:
    location = finding.location
    if location is None:
        return
    if location.module:
        page.field("module", name(location.module))
    if location.file:
        line = "" if location.line is None else f":{location.line}"
        page.field("source", f"{name(sources.relative(location.file) or location.file)}{line}")
        excerpt = sources.excerpt(location)
        if excerpt is not None:
            page.field("", ("| ", "dim"), excerpt)


def _consequences(page: Page, findings: Sequence[Finding], root: str | None) -> None:
    label = "then"
    for finding in findings[:SHOWN]:
        others = [node for node in finding.consequence_of if node != root]
        joined = f" (also from {names(others)})" if others and root is not None else ""
        if root is None:
            joined = f" (from {names(others)})"
        page.field(label, *_short(finding), joined)
        label = ""
    if len(findings) > SHOWN:
        page.field("", f"and {count(len(findings) - SHOWN, 'more consequence')}")


def _short(finding: Finding) -> tuple[str | tuple[str, str], ...]:
    node = f"  {name(finding.op)} {name(finding.node)} {interval(*finding.bounds)}"
    return finding.rule.code, " ", _verdict(finding), node


def _also(consequences: Sequence[Finding]) -> str:
    return f", {count(len(consequences), 'consequence')}" if consequences else ""


def _verdict(finding: Finding) -> tuple[str, str]:
    verdict = str(finding.verdict)
    if finding.is_note:
        return f"{verdict} (note)", _STYLES["note"]
    return verdict, _STYLES["confirmed" if finding.is_sure else "possible"]


# -- assumptions and coverage -----------------------------------------------------------------------------------------


def _coverage(page: Page, report: Report) -> None:
    coverage = report.coverage
    checkable = count(coverage.checkable, "checkable node")
    page.field("coverage", f"checked {coverage.checked} of {checkable} ({count(coverage.nodes, 'node')})")
    groups = not_analysed(coverage.not_analysed)
    for reason, nodes in groups[:SHOWN]:
        page.field("", f"not analysed: {count(len(nodes), 'node')}, {one_line(reason, 200)}: {names(nodes)}")
    if len(groups) > SHOWN:
        rest = sum(len(nodes) for _, nodes in groups[SHOWN:])
        page.field("", f"not analysed: {count(rest, 'node')} for {count(len(groups) - SHOWN, 'other reason')}")
    for remark in coverage.remarks:
        page.field("", f"remark: {one_line(remark)}")
    conditional = len(report.proven_safe_if)
    also = f"; {count(conditional, 'node')} only if the defects before them do not occur" if conditional else ""
    page.field("proven", f"{count(len(report.proven_safe), 'node')} safe{also}")
    if report.proven_by:
        steps = Counter(report.proven_by.values())
        listed = ", ".join(f"{one_line(step)} {amount}" for step, amount in steps.most_common())
        page.field("", f"{count(len(report.proven_by), 'node')} proven by: {listed}")


def not_analysed(nodes: Iterable[Unanalysed]) -> list[tuple[str, list[str]]]:
    """Reasons, each with its operator and the nodes it holds for; the most frequent first."""
    groups: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        groups[f"{node.op}: {node.reason}"].append(node.node)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
