"""The GitLab format: a Code Quality report, which merge requests show beside the changed lines.

GitLab reads the fields of "Code Quality report format" in its documentation: a subset of the Code Climate specification. It takes
two entries of the same fingerprint for one, and an entry whose fingerprint it knows for an old one: fingerprints hold what
identifies a finding, never ranges or lines, which drift.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tensorproof.findings import Finding, Location, Report
from tensorproof.report.json_report import dumps
from tensorproof.report.plain_text import count, interval, name, names, one_line
from tensorproof.report.ranking import in_order
from tensorproof.report.source_lines import SourceTree
from tensorproof.report.source_terminal import place
from tensorproof.report.terminal import not_analysed

#: What an entry is called that tells of a gap in the analysis, so that an empty list is not mistaken for a proof.
NOT_ANALYSED = "not-analysed"


def render(reports: Sequence[Report], *, source_root: Path | None = None) -> str:
    """One list with an entry per finding. Paths are relative to the source root, by default the current folder; of a file
    outside of it the name alone."""
    # Nothing is opened below the root: it is what paths are relative to.
    sources = SourceTree(source_root or Path.cwd())
    return dumps(_distinct([entry for report in reports for entry in _entries(report, sources)]))


def _entries(report: Report, sources: SourceTree) -> Iterator[dict[str, Any]]:
    for finding in in_order(report):
        path, line = _where(finding, report, sources)
        checked = _path((finding.location or Location()).file or report.model if finding.is_source else report.model, sources)
        yield _entry(
            _description(finding, report),
            f"{finding.rule.code} {finding.rule.name}",
            _severity(finding),
            path,
            line,
            (checked, finding.identity, finding.operand, finding.phase),
        )
    gaps = not_analysed(report.coverage.not_analysed) if not report.is_source else []
    told = [f"{count(len(nodes), 'node')} not analysed ({reason}): {names(nodes)}" for reason, nodes in gaps]
    file = _path(report.model, sources)
    for text in (*told, *report.coverage.remarks):
        yield _entry(f"{name(report.model)}: {text}", NOT_ANALYSED, "info", file, 1, (file, NOT_ANALYSED, text))
    for error in report.errors:
        yield _entry(error, NOT_ANALYSED, "major", file, 1, (file, NOT_ANALYSED, error))


def _entry(text: str, check: str, severity: str, path: str, line: int, identity: Sequence[str]) -> dict[str, Any]:
    digest = hashlib.sha256("\0".join(identity).encode("utf-8", "surrogatepass")).hexdigest()
    return {
        "description": one_line(text) or check,
        "check_name": check,
        "fingerprint": digest,
        "severity": severity,
        "location": {"path": path, "lines": {"begin": line}},
    }


def _distinct(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries with a fingerprint each: what is the same in all that identifies it is told apart by its order."""
    seen: Counter[str] = Counter()
    for entry in entries:
        digest = entry["fingerprint"]
        seen[digest] += 1
        if seen[digest] > 1:
            entry["fingerprint"] = hashlib.sha256(f"{digest}:{seen[digest]}".encode()).hexdigest()
    return entries


def _severity(finding: Finding) -> str:
    """`critical` for what is sure to fail, `major` and `minor` for errors and warnings that are possible, `info` for notes."""
    if finding.is_note:
        return "info"
    if finding.is_sure:
        return "critical"
    return "major" if finding.rule.severity == "error" else "minor"


def _where(finding: Finding, report: Report, sources: SourceTree) -> tuple[str, int]:
    """The source line if there is one, else the first line of the model, or of the notebook."""
    location = finding.location
    found = sources.line(location)
    if found is not None:
        return found
    file = location.file if finding.is_source and location is not None and location.file else report.model
    return _path(file, sources), location.line or 1 if finding.is_source and location and location.cell is None else 1


def _path(file: str, sources: SourceTree) -> str:
    path = sources.model_file(file)
    if sources.relative(path) is None:
        path = posixpath.basename(path.replace("\\", "/").rstrip("/"))
    return one_line(path) or "(unnamed)"


def _description(finding: Finding, report: Report) -> str:
    location = finding.location
    if finding.is_source:
        cell = f"{place(location)}: " if location is not None and location.cell is not None else ""
        parts = [f"{cell}{finding.message}", *(f"help: {edit.title}" for edit in finding.edits)]
    else:
        parts = [finding.message, f"node {name(finding.node)} of {name(report.model)}"]
    if finding.reached is not None:
        parts.append(f"real runs reached {interval(*finding.reached)}")
    if finding.consequence_of:
        parts.append(f"a consequence of {names(finding.consequence_of)}")
    if finding.witness is not None:
        parts.append(f"replay with python {finding.witness.script}")
    return f"{finding.verdict}: {'; '.join(parts)}"
