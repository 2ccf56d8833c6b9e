"""A campaign as a page in the style of reports: what was tried, and each finding with its network, both sides and its script."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorproof.compare.fuzzing.campaign import CampaignResult
from tensorproof.compare.fuzzing.finding import CampaignFinding
from tensorproof.compare.fuzzing.reporting import rule_of, totals
from tensorproof.compare.spec import NetworkSpec
from tensorproof.report.html import assembled, packaged
from tensorproof.report.plain_text import count, name, one_line

SCRIPTS = ("elements.js", "head.js", "campaign_view.js")

#: A result as the script of a finding prints it: name, type and shape, numbers.
_RESULT = re.compile(r"^  ([^ ].*?): (\w+\[[\d, ]*\])(?: \(promised (.*?)\))?: (.*)$")
_SIDE = re.compile(r"^(\S.*) \((\w+)\)$")
#: Characters of a script, above which it is named alone.
_LONGEST_SCRIPT = 200_000


def to_html(result: CampaignResult, coverage: Sequence[str] = ()) -> str:
    """The page. Findings that a known issue hides are counted alone, as in all other formats."""
    return assembled(map(packaged, SCRIPTS), campaign_data(result, coverage), "Campaign - tensorproof")


def campaign_data(result: CampaignResult, coverage: Sequence[str] = ()) -> dict[str, Any]:
    """What the page shows, as JSON."""
    kinds = Counter(finding.kind for finding in result.shown)
    hidden = len(result.findings) - len(result.shown)
    speed = result.tests / result.seconds if result.seconds else 0.0
    facts = [
        ["tests", f"{result.tests} in {result.seconds:.0f} s ({speed:.2f} per second)"],
        ["discrepancies", str(result.discrepancies)],
        ["process deaths", str(result.deaths)],
        ["versions", ", ".join(f"{package} {version}" for package, version in sorted(result.versions.items()))],
        *(["not reproduced", signature] for signature in result.not_reproduced),
        *(["missing", f"{backend}: {reason}"] for backend, reason in result.missing.items()),
        *(["coverage", line] for line in coverage),
        *(["mistake of tensorproof", error] for error in result.errors),
    ]
    return {
        "headline": totals(result) + ("; interrupted" if result.interrupted else ""),
        # Classes of findings have the colours of the verdicts that they are in other formats.
        "tiles": [
            ["defect", kinds["defect"], "confirmed"],
            ["difference", kinds["difference"], "possible"],
            ["illegal accepted", kinds["illegal"], "possible"],
            ["known", hidden, "note"],
            ["test", result.tests, "note"],
        ],
        "facts": [[label, one_line(text, 400)] for label, text in facts],
        "backends": [
            [name(backend), int(runs), round(result.cpu_seconds.get(backend, 0.0), 1), int(result.unavailable.get(backend, 0))]
            for backend, runs in result.runs.items()
        ],
        "rules": _rules(result),
        "findings": [_finding(finding) for finding in result.shown],
    }


def _rules(result: CampaignResult) -> list[list[Any]]:
    """Code, name and summary of each rule that has findings, and how many."""
    rules = Counter(rule_of(finding.discrepancy) for finding in result.shown)
    return [[rule.code, rule.name, rule.summary, amount] for rule, amount in sorted(rules.items(), key=lambda pair: pair[0].code)]


def _finding(finding: CampaignFinding) -> dict[str, Any]:
    entry, test = finding.discrepancy, finding.explanation.test
    rule = rule_of(entry)
    return {
        "rule": rule.code,
        "name": rule.name,
        "class": finding.kind,
        "title": one_line(str(finding), 400),
        "facts": [
            ["seen", one_line(entry.detail, 400)],
            ["differs" if finding.kind == "difference" else "held to be wrong", name(str(entry.culprit))],
            ["test", f"number {finding.number}, {test.dtype}, {test.phase}; {count(finding.similar, 'similar test')}"],
            ["known", None if finding.returned is None else one_line(f"{finding.returned}, and still there", 300)],
            ["found with", one_line(", ".join(f"{package} {version}" for package, version in finding.versions.items()), 400)],
        ],
        "network": _network(test.network, finding.explanation.kind),
        "sides": _sides(finding),
        "trail": [one_line(step, 400) for step in finding.explanation.trail],
        "command": f"python {shlex.quote(one_line(finding.script))}",
        "script": _script(finding.script),
    }


def _network(network: NetworkSpec, kind: str) -> list[dict[str, Any]]:
    """Inputs and layers in the order in which they are computed; the layer at fault is marked."""
    rows = [
        {
            "name": name(entry.name),
            "kind": "input",
            "told": f"{entry.dtype}{list(entry.shape)}, {entry.values}",
            "reads": "",
            "at_fault": False,
        }
        for entry in network.inputs
    ]
    for layer in network.layers:
        told = ", ".join(f"{key}={json.dumps(value)}" for key, value in layer.parameters.items())
        rows.append(
            {
                "name": name(layer.name),
                "kind": name(layer.kind),
                "told": one_line(told, 600),
                "reads": one_line(", ".join(layer.inputs), 200),
                "at_fault": layer.kind == kind,
            }
        )
    return rows


def _sides(finding: CampaignFinding) -> list[dict[str, Any]]:
    """What the script printed for each side: its results by name, or what it said instead of giving some."""
    sides: list[dict[str, Any]] = []
    for line in finding.output.splitlines():
        if opened := _SIDE.match(line):
            sides.append({"name": name(opened[1]), "mode": opened[2], "results": [], "said": []})
        elif sides and (result := _RESULT.match(line)):
            promised = "" if result[3] is None or result[2].endswith(result[3]) else f", promised {one_line(result[3], 100)}"
            numbers = [one_line(text, 40) for text in result[4].split(", ")]
            sides[-1]["results"].append({"name": name(result[1]), "type": f"{result[2]}{promised}", "numbers": numbers})
        elif sides and line.startswith("  "):
            sides[-1]["said"].append(one_line(line.strip(), 1500))
    return sides


def _script(path: str) -> str | None:
    """The script as it is, for it is copied from the page; None if it is not there any more, or very long."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(text) <= _LONGEST_SCRIPT else None
