"""Headroom budgets: how many bits each node of a model is away from overflow, kept in a file that is committed with the model.

The headroom of a node is that of the map of the model (`tensorproof.model_map`): log2(largest number of the format / largest
magnitude of the range). An entry recognises a model by its file name, as baselines do, and by the precision it was checked in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tensorproof.errors import ConfigurationError
from tensorproof.files import write_text
from tensorproof.findings import Finding, Report, Verdict, number
from tensorproof.formats import BY_NAME
from tensorproof.model_map import MappedNode, MappedValue
from tensorproof.report.json_report import dumps
from tensorproof.rules.budget.headroom_lost import HEADROOM_LOST

BUDGET_VERSION = 1
#: Bits that a node may lose, and has to keep, unless the user says otherwise.
DEFAULT_BITS = 1.0
#: Digits of a bit that are kept: what differs between machines is less.
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class ModelHeadroom:
    """The bits of each node of one model that has a floating result; infinite where the result is zero."""

    model: str
    precision: str | None
    nodes: Mapping[str, float]

    @property
    def key(self) -> tuple[str, str | None]:
        return self.model, self.precision

    @staticmethod
    def of(report: Report) -> ModelHeadroom:
        """What a report says. It has to have been made with `model_map=True`."""
        return ModelHeadroom(_model(report), report.precision, _measured(_nodes(report)))


def write_budget(path: str | Path, reports: Iterable[Report]) -> None:
    """Write the headroom of these models, whole or not at all, in an order that does not depend on the run."""
    measured = sorted(map(ModelHeadroom.of, reports), key=lambda entry: (entry.model, entry.precision or ""))
    entries = [
        {"model": entry.model, "precision": entry.precision, "nodes": {n: number(b) for n, b in sorted(entry.nodes.items())}}
        for entry in measured
    ]
    try:
        write_text(path, dumps({"schema_version": BUDGET_VERSION, "headroom": entries}))
    except OSError as error:
        raise ConfigurationError(f"{path}: the headroom budget cannot be written ({error.strerror})") from None


def read_budget(path: str | Path) -> tuple[ModelHeadroom, ...]:
    """The budget of a file."""
    try:
        content: Any = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: the headroom budget cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{path}: the headroom budget is not JSON; write it anew") from None
    document = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    listed = document.get("headroom")
    if document.get("schema_version") != BUDGET_VERSION or not isinstance(listed, list):
        raise ConfigurationError(f"{path}: no headroom budget of version {BUDGET_VERSION}; write it anew")
    try:
        return tuple(_entry(item) for item in cast("list[Any]", listed))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigurationError(f"{path}: the headroom budget is damaged; write it anew") from None


def with_lost_headroom(report: Report, budget: Iterable[ModelHeadroom], bits: float = DEFAULT_BITS) -> Report:
    """The report with a finding for each node that lost more than `bits`, or that has less than `bits` left."""
    known = {entry.key: entry for entry in budget}
    key = _model(report), report.precision
    if key not in known:
        precision = "its own precision" if report.precision is None else report.precision
        raise ConfigurationError(f"the headroom budget has no entry for {key[0]!a} in {precision}; add it with --write-budget")
    nodes, before = _nodes(report), known[key].nodes
    now = _measured(nodes)
    lost = [
        _finding(report, node, before.get(name), now.get(name), bits)
        for name, node in nodes.items()
        if _is_lost(before.get(name), now.get(name), bits, is_unknown=any(value.low is None for value in node.outputs))
    ]
    return report.with_findings((*report.findings, *lost))


def _is_lost(before: float | None, now: float | None, bits: float, *, is_unknown: bool) -> bool:
    if now is None:
        # A result that has become an integer has no headroom, and needs none.
        return before is not None and is_unknown
    if before is None:
        return now < bits
    # What was zero can only become something: that alone is no loss.
    shrank = math.isfinite(before) and before - now > bits
    return shrank or now < bits <= before


def _finding(report: Report, node: MappedNode, before: float | None, now: float | None, bits: float) -> Finding:
    value = _tightest(node)
    known = value is not None and value.low is not None and value.high is not None
    format = BY_NAME.get(value.format or "") if value is not None else None
    was = "new" if before is None else f"{_bits(before)} before"
    left = "unknown" if now is None else _bits(now)
    return Finding(
        rule=HEADROOM_LOST,
        node=node.name,
        op=node.op,
        operand=node.name if value is None else value.name,
        low=value.low if known and value is not None else -math.inf,
        high=value.high if known and value is not None else math.inf,
        message=f"Headroom of {node.op}: {was}, {left} now; the budget lets a node lose {_bits(bits)} and keep no less",
        target=report.target,
        format="" if value is None else value.format or "",
        # Two numbers were compared: there is nothing to confirm.
        verdict=Verdict.CERTAIN,
        limit=None if format is None else format.high,
        location=node.location,
    )


def _tightest(node: MappedNode) -> MappedValue | None:
    """The output with the least headroom, or the first one where nothing is known."""
    known = [value for value in node.outputs if value.headroom is not None]
    if known:
        return min(known, key=lambda value: value.headroom or 0.0)
    return next(iter(node.outputs), None)


def _nodes(report: Report) -> dict[str, MappedNode]:
    """The nodes by their names; of several with one name that which has the least headroom."""
    found = report.model_map()
    assert found is not None, "the check has to keep the model: model_map=True"
    nodes: dict[str, MappedNode] = {}
    for node in found.nodes:
        name = _text(node.name)
        other = nodes.get(name)
        if other is None or other.headroom is None or (node.headroom is not None and node.headroom < other.headroom):
            nodes[name] = node
    return nodes


def _measured(nodes: Mapping[str, MappedNode]) -> dict[str, float]:
    known = {name: node.headroom for name, node in nodes.items()}
    return {name: round(bits, _DIGITS) if math.isfinite(bits) else bits for name, bits in known.items() if bits is not None}


def _model(report: Report) -> str:
    return _text(report.model.replace("\\", "/").rstrip("/").rpartition("/")[2])


def _text(name: str) -> str:
    """The name as JSON gives it back: a lone surrogate becomes its escape."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _bits(amount: float) -> str:
    return f"{amount:.4g} bit" if amount == 1 else f"{amount:.4g} bits"


def _entry(item: Any) -> ModelHeadroom:
    nodes = {str(name): float(bits) for name, bits in item["nodes"].items()}
    if any(math.isnan(bits) for bits in nodes.values()):
        raise ValueError("NaN is no headroom")
    precision = item["precision"]
    return ModelHeadroom(str(item["model"]), None if precision is None else str(precision), nodes)
