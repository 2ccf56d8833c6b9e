"""Two reports side by side: before and after a repair, or one model in two formats."""

from __future__ import annotations

import math
from typing import Any

from tensorproof.findings import Finding, Report
from tensorproof.model_map import MappedNode, ModelMap
from tensorproof.report.plain_text import interval, name, number

#: Nodes that are listed: those that lost most. What is left out is counted.
LISTED = 2000


def compared(before: Report, after: Report) -> dict[str, Any]:
    """Findings that are gone, new or changed, and the headroom of nodes of the same name, the greatest loss first."""
    old, new = {f.identity: f for f in before.findings}, {f.identity: f for f in after.findings}
    changed = [(old[key], new[key]) for key in old.keys() & new.keys() if _told(old[key]) != _told(new[key])]
    changed.sort(key=lambda pair: pair[1].identity)
    rows = _headroom(before.model_map(), after.model_map())
    return {
        "before": name(before.model),
        "after": name(after.model),
        "gone": [_row(finding) for key, finding in old.items() if key not in new],
        "new": [_row(finding) for key, finding in new.items() if key not in old],
        "changed": [{**_row(right), "before": _told(left), "after": _told(right)} for left, right in changed],
        "same": len(old.keys() & new.keys()) - len(changed),
        "headroom": rows[:LISTED],
        "unlisted": max(len(rows) - LISTED, 0),
        "has_maps": before.analysed is not None and after.analysed is not None,
    }


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule.code,
        "name": finding.rule.name,
        "verdict": str(finding.verdict),
        "note": finding.is_note,
        "op": name(finding.op),
        "node": name(finding.node),
    }


def _told(finding: Finding) -> str:
    bounds = "" if finding.is_source else f" {interval(*finding.bounds)}"
    return f"{finding.verdict}{' (note)' if finding.is_note else ''}{bounds}"


def _headroom(before: ModelMap | None, after: ModelMap | None) -> list[list[Any]]:
    """Name, operator, bits before and after, and bits lost, of all nodes that both models have."""
    if before is None or after is None:
        return []
    old = {node.name: node for node in before.nodes}
    pairs = [(old[node.name], node) for node in after.nodes if node.name in old]
    found = [(_lost(left, right), left, right) for left, right in pairs]
    known = [(lost, left, right) for lost, left, right in found if lost is not None]
    known.sort(key=lambda entry: -entry[0])
    return [
        [
            name(right.name),
            name(right.op),
            _bits(left),
            _bits(right),
            None if math.isinf(lost) else round(lost, 2),
            _formats(left, right),
        ]
        for lost, left, right in known
    ]


def _lost(before: MappedNode, after: MappedNode) -> float | None:
    left, right = before.headroom, after.headroom
    if left is None or right is None:
        return None
    return 0.0 if left == right else left - right


def _bits(node: MappedNode) -> str:
    bits = node.headroom
    assert bits is not None
    if bits == math.inf:
        return "all"
    return "none" if bits == -math.inf else number(round(bits, 2))


def _formats(before: MappedNode, after: MappedNode) -> str:
    left, right = before.outputs[0].format or "", after.outputs[0].format or ""
    return left if left == right else f"{left} to {right}"
