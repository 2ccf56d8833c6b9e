"""The SARIF 2.1.0 format, for code scanning and editors.

All models of a run share one SARIF run: GitHub accepts one run per tool and category. Section numbers refer to the
OASIS standard "Static Analysis Results Interchange Format (SARIF) Version 2.1.0".
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tensorproof.findings import Finding, Location, Report, SourceEdit, number
from tensorproof.report.json_report import dumps
from tensorproof.report.plain_text import count, interval, names, one_line
from tensorproof.report.ranking import closeness, in_order
from tensorproof.report.source_lines import SourceTree
from tensorproof.report.terminal import not_analysed
from tensorproof.rules import all_rules
from tensorproof.rules.rule import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
#: What relative paths are relative to; its place is the reader's to know (3.14.14), so that reports can be compared.
URI_BASE = "%SRCROOT%"

Object = dict[str, Any]


def render(reports: Sequence[Report], *, source_root: Path | None = None) -> str:
    """One run with all rules and the results of all models."""
    sources = SourceTree(source_root)
    rules = _rules(reports)
    index = {code: position for position, code in enumerate(rules)}
    driver: Object = {"name": "tensorproof", "rules": [_rule(rule) for rule in rules.values()]}
    driver |= _version()
    run: Object = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {URI_BASE: {"description": {"text": "The folder of the checked program."}}},
        "invocations": [
            {
                "executionSuccessful": not any(report.errors for report in reports),
                "toolExecutionNotifications": _notifications(reports),
            }
        ],
        "artifacts": [{"location": _file_location(file, sources), "roles": ["analysisTarget"]} for file in _checked(reports)],
        "results": [_result(finding, report, sources, index) for report in reports for finding in in_order(report)],
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def message_text(text: str) -> str:
    """Plain text for a message: braces are doubled (3.11.5), and nothing in it reads as a link (3.11.6)."""
    return one_line(text).replace("{", "{{").replace("}", "}}").replace("](", "] (")


def _version() -> Object:
    from importlib import metadata  # slow to import

    with suppress(metadata.PackageNotFoundError):
        return {"version": metadata.version("tensorproof")}
    return {}


# -- rules and notifications ------------------------------------------------------------------------------------------


def _rules(reports: Sequence[Report]) -> Mapping[str, Rule]:
    """All rules of the table, then those that only findings know."""
    others = {finding.rule.code: finding.rule for report in reports for finding in report.findings}
    return {**others, **all_rules()} if not others.keys() <= all_rules().keys() else all_rules()


def _rule(rule: Rule) -> Object:
    page = rule.page.strip()
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": f"{rule.summary}."},
        "fullDescription": {"text": f"{rule.summary}."},
        "help": {"text": page, "markdown": f"# {page}"},
        "defaultConfiguration": {"level": rule.severity},
    }


def _notifications(reports: Sequence[Report]) -> list[Object]:
    """What was not analysed, so that an empty list of results is not mistaken for a proof."""
    found: list[Object] = []
    for report in reports:
        noun = "function" if report.is_source else "node"
        told = [
            f"{count(len(nodes), noun)} not analysed ({reason}): {names(nodes)}"
            for reason, nodes in not_analysed(report.coverage.not_analysed)
        ]
        for text in (*told, *report.coverage.remarks):
            found.append({"level": "warning", "message": {"text": message_text(f"{report.model}: {text}")}})
        for error in report.errors:
            found.append({"level": "error", "message": {"text": message_text(error)}})
    return found


# -- results ----------------------------------------------------------------------------------------------------------


def _result(finding: Finding, report: Report, sources: SourceTree, index: Mapping[str, int]) -> Object:
    text = finding.message
    if finding.consequence_of:
        text += f" (a consequence of {names(finding.consequence_of)})"
    digest = hashlib.sha256(finding.identity.encode("utf-8", "surrogatepass")).hexdigest()
    result: Object = {
        "ruleId": finding.rule.code,
        "ruleIndex": index[finding.rule.code],
        "level": _level(finding),
        "message": {"text": message_text(text)},
        "locations": [_location(finding, report, sources)],
        # GitHub tells alerts of one file apart by the line hash alone, and a model file has no lines to hash.
        "partialFingerprints": {"tensorproofIdentity/v1": digest, "primaryLocationLineHash": f"{digest[:16]}:1"},
        "rank": round(100.0 * closeness(finding), 1),
        "properties": _properties(finding),
    }
    if finding.related:
        result["relatedLocations"] = [
            {"id": number, **_source_location(related.location, sources), "message": {"text": message_text(related.message)}}
            for number, related in enumerate(finding.related)
        ]
    fixes = [_fix(edit, sources) for edit in finding.edits if edit.location.cell is None]
    if fixes:
        result["fixes"] = fixes
    if finding.trail:
        result["codeFlows"] = [{"threadFlows": [{"locations": _flow(finding, report, sources)}]}]
    return result


def _level(finding: Finding) -> str:
    if finding.is_note:
        return "note"
    return "error" if finding.is_sure else "warning"


def _location(finding: Finding, report: Report, sources: SourceTree) -> Object:
    """The source line if there is one, else the model file; the node of a model by its name in both cases."""
    if finding.is_source:
        return _source_location(finding.location or Location(report.model), sources)
    found = sources.line(finding.location)
    if found is None:
        physical: Object = {"artifactLocation": _file_location(report.model, sources)}
    else:
        path, line = found
        region: Object = {"startLine": line}
        if finding.location is not None and finding.location.column is not None:
            region["startColumn"] = finding.location.column
        physical = {"artifactLocation": _relative_location(path), "region": region}
    logical = [_logical(finding.node, "node")]
    if finding.location is not None and finding.location.module:
        logical.append(_logical(finding.location.module, "module"))
    return {"physicalLocation": physical, "logicalLocations": logical}


def _source_location(location: Location, sources: SourceTree) -> Object:
    """A place of a file that was read. Of a notebook's cell, whose lines are not those of the file, by name."""
    physical: Object = {"artifactLocation": _file_location(location.file or "", sources)}
    if location.cell is not None:
        return {"physicalLocation": physical, "logicalLocations": [_logical(f"cell {location.cell}, line {location.line}", "cell")]}
    if location.line is not None:
        physical["region"] = _region(location)
    return {"physicalLocation": physical}


def _region(location: Location) -> Object:
    """Lines and columns from 1; the end column is the one after the last (3.30)."""
    ends = {
        "startLine": location.line,
        "startColumn": location.column,
        "endLine": location.end_line,
        "endColumn": location.end_column,
    }
    return {key: value for key, value in ends.items() if value is not None}


def _fix(edit: SourceEdit, sources: SourceTree) -> Object:
    replacement = {"deletedRegion": _region(edit.location), "insertedContent": {"text": edit.text}}
    change = {"artifactLocation": _file_location(edit.location.file or "", sources), "replacements": [replacement]}
    return {"description": {"text": message_text(edit.title)}, "artifactChanges": [change]}


def _flow(finding: Finding, report: Report, sources: SourceTree) -> list[Object]:
    model = {"artifactLocation": _file_location(report.model, sources)}
    return [
        {
            "location": {
                "physicalLocation": model,
                "logicalLocations": [_logical(step.value, "value")],
                "message": {"text": message_text(f"{step.value} ({step.op}) in {interval(step.low, step.high)}")},
            }
        }
        for step in finding.trail
    ]


def _logical(name: str, kind: str) -> Object:
    return {"fullyQualifiedName": one_line(name), "kind": kind}


def _properties(finding: Finding) -> Object:
    return {
        "verdict": str(finding.verdict),
        "op": one_line(finding.op),
        "operand": one_line(finding.operand),
        "phase": finding.phase,
        "target": one_line(finding.target),
        "format": one_line(finding.format),
        "range": None if finding.is_source else [number(bound) for bound in finding.bounds],
        "reached": None if finding.reached is None else [number(value) for value in finding.reached],
        "limit": number(finding.limit),
        "reaches": finding.reaches,
        "consequenceOf": [one_line(node) for node in finding.consequence_of],
        "witness": None if finding.witness is None else one_line(finding.witness.arrays),
        "replay": None if finding.witness is None else one_line(finding.witness.script),
    }


# -- artifacts --------------------------------------------------------------------------------------------------------


def _checked(reports: Sequence[Report]) -> list[str]:
    """The models and source files, each once: `artifacts` may not hold the same one twice (3.14.15)."""
    return list(dict.fromkeys(file for r in reports for file in ((r.model,) if r.files is None else r.files)))


def _relative_location(path: str) -> Object:
    return {"uri": quote(path, safe="/", errors="replace"), "uriBaseId": URI_BASE}


def _file_location(name: str, sources: SourceTree) -> Object:
    """Of a model or a source file: relative to the source root if the file is below it, else absolute."""
    file = sources.model_file(name)
    if sources.relative(file) is not None:
        return _relative_location(file)
    path = os.path.abspath(file).replace("\\", "/")
    return {"uri": f"file://{'' if path.startswith('/') else '/'}{quote(path, safe='/', errors='replace')}"}
