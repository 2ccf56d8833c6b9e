"""Known issues: findings that are not shown again, but counted. The file hides findings; none ever comes from it.

    [[issue]]
    culprit = "keras:torch"
    layer = "LayerNormalization"
    parameters = ["axis"]
    symptom = "refuses: RuntimeError: Given normalized_shape*"
    note = "axes other than the last are not supported by torch"
    until = { keras = "3.16" }

An issue covers a finding if everything that it says holds; `*` stands for any text. `until` names the first version in which it is
mended: from there on the finding is shown again, with the note.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from tensorproof.compare.fuzzing.finding import CampaignFinding
from tensorproof.errors import ConfigurationError

_TEXTS = ("oracle", "culprit", "layer", "symptom", "phase")


@dataclass(frozen=True)
class KnownIssue:
    """A pattern of findings, a note on it, and the versions in which it is said to be mended."""

    note: str
    texts: Mapping[str, str]
    parameters: frozenset[str] | None = None
    until: Mapping[str, str] = field(default_factory=dict[str, str])

    def covers(self, finding: CampaignFinding) -> bool:
        entry = finding.discrepancy
        facts = {
            "oracle": entry.oracle,
            "culprit": entry.culprit.name,
            "layer": finding.explanation.kind,
            "symptom": entry.symptom,
            "phase": finding.explanation.test.phase,
        }
        if self.parameters is not None and self.parameters != frozenset(finding.explanation.parameters):
            return False
        return all(_matches(pattern, facts[name]) for name, pattern in self.texts.items())

    def mended_in(self, versions: Mapping[str, str]) -> str | None:
        """`keras 3.16` if that version, or a later one, is installed and was to mend it."""
        for package, version in self.until.items():
            if package in versions and version_key(versions[package]) >= version_key(version):
                return f"{package} {version}"
        return None


def read_known_issues(path: Path) -> tuple[KnownIssue, ...]:
    """The issues of a file; what is wrong with it is said with its place."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    issues = data.pop("issue", [])
    if data or not isinstance(issues, list):
        raise ConfigurationError(f"{path}: write [[issue]] tables, and nothing else")
    listed = cast("list[object]", issues)
    return tuple(_read(entry, f"{path}: issue {number}") for number, entry in enumerate(listed, 1))


def mark_known(findings: Sequence[CampaignFinding], issues: Sequence[KnownIssue]) -> tuple[CampaignFinding, ...]:
    """The findings with `known` set where an issue covers them, and `returned` where one did until it was to be mended."""
    return tuple(_marked(finding, issues) for finding in findings)


def version_key(version: str) -> tuple[int, ...]:
    """The numbers of a version, in an order in which 3.10 comes after 3.9."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    parts = [int(part) for part in numbers.group().split(".")] if numbers else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def _marked(finding: CampaignFinding, issues: Sequence[KnownIssue]) -> CampaignFinding:
    returned: str | None = None
    for issue in issues:
        if issue.covers(finding):
            mended = issue.mended_in(finding.versions)
            if mended is None:
                return replace(finding, known=issue.note)
            returned = f"{issue.note} (to be mended in {mended})"
    return replace(finding, returned=returned)


def _read(entry: object, place: str) -> KnownIssue:
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{place}: not a table")
    data = dict(cast("dict[str, Any]", entry))
    note, until, parameters = data.pop("note", ""), data.pop("until", {}), data.pop("parameters", None)
    unknown = set(data) - set(_TEXTS)
    if unknown:
        raise ConfigurationError(
            f"{place}: unknown {', '.join(sorted(unknown))}; there are {', '.join(_TEXTS)}, parameters, note, until"
        )
    if not data or not all(isinstance(value, str) for value in (note, *data.values())):
        raise ConfigurationError(f"{place}: say at least one of {', '.join(_TEXTS)}, as text")
    if not isinstance(until, dict) or not all(isinstance(value, str) for value in cast("dict[str, Any]", until).values()):
        raise ConfigurationError(f'{place}: until is a table of versions, such as {{ keras = "3.16" }}')
    if parameters is not None and not isinstance(parameters, list):
        raise ConfigurationError(f"{place}: parameters is a list of names")
    names = None if parameters is None else frozenset(map(str, cast("list[Any]", parameters)))
    return KnownIssue(note or "known", data, names, cast("dict[str, str]", until))


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split("*")), text) is not None
