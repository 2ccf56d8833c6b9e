"""Baselines: findings that are known and accepted, so that only new ones fail a build.

An entry recognises a finding by `Finding.identity` and by the file name of its model: nodes of two models often have
the same name. Folders do not count, so that a baseline holds wherever the model is checked from. They do for source, where
many files have the same name: there a path is relative to the folder that the check was started in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tensorproof.errors import ConfigurationError
from tensorproof.files import write_text
from tensorproof.findings import Finding, Report
from tensorproof.report.json_report import dumps

BASELINE_VERSION = 1


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One accepted finding. `rule` and `node` are for the people who read the file."""

    model: str
    identity: str
    rule: str
    node: str

    @property
    def key(self) -> tuple[str, str]:
        return self.model, self.identity


@dataclass(frozen=True, slots=True)
class Baseline:
    """The accepted findings of one or several models."""

    entries: frozenset[Entry] = frozenset()

    @staticmethod
    def of(reports: Iterable[Report]) -> Baseline:
        """A baseline that accepts every finding of these reports."""
        return Baseline(frozenset(_entry(report, finding) for report in reports for finding in report.findings))


def write_baseline(path: str | Path, baseline: Baseline) -> None:
    """Write the file whole or not at all, in an order that does not depend on the run."""
    entries = [{"model": e.model, "rule": e.rule, "node": e.node, "identity": e.identity} for e in sorted(baseline.entries)]
    try:
        write_text(path, dumps({"schema_version": BASELINE_VERSION, "findings": entries}))
    except OSError as error:
        raise ConfigurationError(f"{path}: the baseline cannot be written ({error.strerror})") from None


def read_baseline(path: str | Path) -> Baseline:
    """The baseline of a file."""
    try:
        content: Any = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: the baseline cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{path}: the baseline is not JSON; write it anew") from None
    if not isinstance(content, dict) or "findings" not in content:
        raise ConfigurationError(f"{path}: not a baseline; write it anew")
    document = cast("dict[str, Any]", content)
    version = document.get("schema_version")
    if version != BASELINE_VERSION:
        raise ConfigurationError(f"{path}: baseline of version {version!r}, but {BASELINE_VERSION} is read; write it anew")
    if not isinstance(document["findings"], list):
        raise ConfigurationError(f"{path}: not a baseline; write it anew")
    listed = cast("list[Any]", document["findings"])
    return Baseline(frozenset(_read_entry(path, position, item) for position, item in enumerate(listed)))


def apply_baseline(report: Report, baseline: Baseline) -> Report:
    """The report without the accepted findings, which are counted."""
    known = {entry.key for entry in baseline.entries}
    kept = tuple(finding for finding in report.findings if _entry(report, finding).key not in known)
    return report.with_findings(kept, suppressed=len(report.findings) - len(kept))


def stale_entries(reports: Sequence[Report], baseline: Baseline) -> tuple[Entry, ...]:
    """Entries that no finding matches any more. Give it the reports as they were before baseline and selection.

    An entry is not stale where the run could not have found it: its model was not checked, or its node not analysed.
    """
    models = {model for report in reports for model in _models(report)}
    found = {_entry(report, finding).key for report in reports for finding in report.findings}
    unknown = {(_model(report), _text(node.node)) for report in reports for node in report.coverage.not_analysed}
    return tuple(
        entry
        for entry in sorted(baseline.entries)
        if entry.model in models and entry.key not in found and (entry.model, entry.node) not in unknown
    )


def _entry(report: Report, finding: Finding) -> Entry:
    file = finding.location.file if report.is_source and finding.location is not None else None
    model = _model(report) if file is None else _text(file.replace("\\", "/"))
    return Entry(model, _text(finding.identity), finding.rule.code, _text(finding.node))


def _models(report: Report) -> list[str]:
    """What was checked, as entries name it."""
    return [_model(report)] if report.files is None else [_text(file.replace("\\", "/")) for file in report.files]


def _model(report: Report) -> str:
    return _text(report.model.replace("\\", "/").rstrip("/").rpartition("/")[2])


def _text(name: str) -> str:
    """The name as JSON gives it back: a lone surrogate becomes its escape."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _read_entry(path: str | Path, position: int, item: Any) -> Entry:
    fields: list[str] = []
    if isinstance(item, dict):
        values = cast("dict[str, Any]", item)
        fields = [v for v in map(values.get, ("model", "identity", "rule", "node")) if isinstance(v, str)]
    if len(fields) != 4:
        raise ConfigurationError(f"{path}: entry {position + 1} of the baseline is damaged; write it anew")
    return Entry(*fields)
