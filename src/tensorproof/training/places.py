"""Where in the user's program something of a training step belongs: lines, nodes of the forward graph, and findings there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensorproof.findings import Finding, Location, Verdict
from tensorproof.graph import Model, Node
from tensorproof.rules.rule import Rule

Line = tuple[str, int]


class Places:
    """The nodes of a forward graph by line, by module and by the weights that they use."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._by_line: dict[Line, list[Node]] = {}
        self._by_module: dict[str, list[Node]] = {}
        self._by_operand: dict[str, Node] = {}
        for node in model.graph.walk():
            if node.source is not None:
                self._by_line.setdefault((node.source.file, node.source.line), []).append(node)
            self._by_module.setdefault(node.module, []).append(node)
            for number in node.inputs:
                if number >= 0:
                    self._by_operand.setdefault(model.name_of(number), node)

    def at_line(self, line: Line, name: str = "") -> Node | None:
        """The node at a line: the one of that name, or of that name but for its number, if it is there, else the last one."""
        nodes = self._by_line.get(line, [])
        same = [node for node in nodes if node.name == name] or [node for node in nodes if _stem(node.name) == _stem(name)]
        return next(iter(same), nodes[-1] if nodes else None)

    def using(self, name: str) -> Node | None:
        """The first node that uses a value."""
        return self._by_operand.get(name)

    def of_module(self, path: str) -> Node | None:
        """The node that makes the result of a module: the last one in it."""
        nodes = self._by_module.get(path, [])
        return nodes[-1] if nodes else None


def _stem(name: str) -> str:
    """`_linalg_eigh_1` and `linalg_eigh` are names of one operator."""
    return name.strip("_0123456789")


def lines_of(findings: Iterable[Finding]) -> set[Line]:
    """The lines at which something is reported that explains a bad gradient; an overflow that no run saw does not."""
    return {line for finding in findings if _explains(finding) for line in _line(finding.location)}


def _explains(finding: Finding) -> bool:
    is_overflow = finding.rule.code.startswith("NUM2")
    return finding.rule.severity == "error" and (finding.verdict is Verdict.CONFIRMED or not is_overflow)


def _line(location: Location | None) -> Sequence[Line]:
    if location is None or location.file is None or location.line is None:
        return ()
    return ((location.file, location.line),)


def finding_at(
    rule: Rule,
    node: Node | None,
    name: str,
    *,
    message: str,
    target: str,
    format: str,
    low: float,
    high: float,
    operand: str = "",
    verdict: Verdict = Verdict.CONFIRMED,
    line: Line | None = None,
) -> Finding:
    """A finding of the backward pass at a node of the forward graph; `name` and `line` stand in where there is none."""
    location = None
    if node is not None and node.source is not None:
        location = Location(node.source.file, node.source.line, node.module or None)
    elif line is not None:
        location = Location(*line)
    return Finding(
        rule=rule,
        node=name if node is None else node.name,
        op="" if node is None else node.label,
        operand=operand or name,
        low=low,
        high=high,
        message=message,
        target=target,
        format=format,
        phase="backward",
        verdict=verdict,
        reaches="gradient" if verdict is Verdict.CONFIRMED else None,
        location=location,
    )
