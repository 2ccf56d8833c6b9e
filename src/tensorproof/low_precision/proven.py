"""The judge that proves: a mixture is good if the static scan of it raises no alarm that the float32 model does not raise, too.

Alarms are findings of errors: overflow, and operations outside their domain. Nodes that are not analysed prove nothing, and are
told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tensorproof.assumptions import Declarations, resolve
from tensorproof.checking import analyse
from tensorproof.findings import Finding
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.low_precision.mixed import Blueprint, Mixed
from tensorproof.low_precision.search import Budget, Reasons, nearest_converted, readers
from tensorproof.ranges.abstraction import Abstraction
from tensorproof.targets import Target

if TYPE_CHECKING:
    from tensorproof.graph import Model


class Proven:
    """Scans mixtures under the declared ranges. An evaluation is one scan."""

    def __init__(
        self, blueprint: Blueprint, declared: Declarations, target: Target, effort: int, abstraction: Abstraction, budget: Budget
    ) -> None:
        self.blueprint = blueprint
        self.declared = declared
        self.target = target
        self.effort = effort
        self.abstraction = abstraction
        self.budget = budget
        self.not_analysed: dict[str, str] = {}
        self._own = {part.name: part.name for part in blueprint.parts}
        original = from_proto(blueprint.proto, path=None if blueprint.tensors.file is None else str(blueprint.tensors.file))
        for node in original.graph.nodes:
            self._own.update({inner.name: node.name for body in node.subgraphs() for inner in body.walk()})
        #: What the float32 model itself cannot be proven free of: keeping nodes in float32 does not help there.
        self.known = frozenset((f.rule.code, f.node) for f in self._alarms(original))

    def accepts(self, kept: Collection[str]) -> bool:
        return next(self._against(self.blueprint.mixed(kept)), None) is None

    def objections(self, kept: Collection[str]) -> Reasons:
        mixed = self.blueprint.mixed(kept)
        found: dict[str, str] = {}
        alarmed = False
        for finding in self._against(mixed):
            alarmed = True
            for node in self._blamed(mixed, finding, kept):
                found.setdefault(node, f"{finding.rule.code} {finding.rule.name} at {finding.node}")
        if alarmed and not found:
            return {part.name: "no smaller set was proven" for part in self.blueprint.free if part.name not in kept}
        return found

    def _against(self, mixed: Mixed) -> Iterator[Finding]:
        """The alarms of a mixture that the float32 model does not have."""
        self.budget.spend()
        model = from_proto(mixed.proto)
        for number, value in enumerate(model.values):
            if value.name in mixed.changes and number in model.constants:
                model.conversions[number] = mixed.changes[value.name]
        return (f for f in self._alarms(model) if (f.rule.code, f.node) not in self.known)

    def _alarms(self, model: Model) -> Iterator[Finding]:
        combinations, _ = resolve(model, self.declared)
        for assumptions in combinations:
            analysis = analyse(model, assumptions, self.target, effort=self.effort, abstraction=self.abstraction)
            self.not_analysed.update({u.node: u.reason for u in analysis.coverage.not_analysed})
            yield from (f for f in analysis.findings if f.rule.severity == "error" and not f.consequence_of)

    def _blamed(self, mixed: Mixed, finding: Finding, kept: Collection[str]) -> list[str]:
        """The node of a finding; if that is float32 already, what feeds it; for a cast or a constant, who reads it."""
        read = mixed.originals.get(finding.node)
        if read is not None:
            return readers(self.blueprint, read, kept)
        node = self._own.get(finding.node)
        if node is None:
            return []
        is_converted = node not in kept and any(part.name == node for part in self.blueprint.free)
        return [node] if is_converted else nearest_converted(self.blueprint, node, kept)
