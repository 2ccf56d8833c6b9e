"""`ModelMap`: the analysed model as a reader sees it, node by node, with the ranges of its values and what was proven of it.

A report keeps what a map is made from if the check was asked to (`model_map=True`), or if nothing was said and the model is
small: the graph of a large model takes more memory than all that is said about it. The map itself is made when somebody asks for
it, out of the report as it is then, so that findings which later steps added or confirmed count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any

from tensorproof.findings import Finding, Location, Report, Verdict, number
from tensorproof.graph import ABSENT, Dimension, Graph, Model, Node, Value
from tensorproof.ranges.grid import Shape, Size
from tensorproof.ranges.range import NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY

if TYPE_CHECKING:
    from tensorproof.formats import Format
    from tensorproof.ranges.records import Summary


#: Models of up to so many nodes are kept unless a check is told otherwise. That takes about 1 kB for each node.
KEPT_NODES = 5000


class NodeVerdict(StrEnum):
    """What is known about a node: the worst that is said of it, or else what was proven."""

    CONFIRMED = "confirmed"
    POSSIBLE = "possible"
    SAFE = "proven safe"
    SAFE_IF = "proven safe if"
    NOT_ANALYSED = "not analysed"
    #: No input makes an operator of this kind fail: there is nothing to prove.
    NOT_CHECKABLE = "not checkable"


@dataclass(frozen=True, slots=True)
class AnalysedModel:
    """What a map is made from: the graph, the summaries of its values under each combination of sizes, and what was found.

    It has no arrays: a report does not hold on to the weights of its model.
    """

    model: Model
    summaries: tuple[Mapping[int, Summary], ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class MappedValue:
    """A tensor of the model. The range holds if no defect occurs at its node or before it.

    `low` and `high` are None where nothing is known; an end is infinite where infinities are legal values. A dimension is a
    number, or text: the name of a symbolic dimension, a range of sizes (`1..8`), or `?`.
    """

    name: str
    format: str | None
    shape: tuple[int | str, ...] | None
    low: float | None
    high: float | None
    #: Whether NaN is among the legal values, as in a constant that holds it.
    may_be_nan: bool
    #: Bits to the largest number of the format: log2(largest / largest magnitude); inf for zero, None where it has no meaning.
    headroom: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "format": self.format,
            "shape": None if self.shape is None else list(self.shape),
            "range": None if self.low is None else [number(self.low), number(self.high)],
            "may_be_nan": self.may_be_nan,
            "headroom": number(self.headroom),
        }


@dataclass(frozen=True, slots=True)
class MappedNode:
    """One node: `scope` is the path of its module, parted by `/`.

    `sources` are the indices of the nodes that make what it reads, and of those that make the results of its bodies.
    """

    name: str
    op: str
    scope: str
    location: Location | None
    reads: tuple[str, ...]
    sources: tuple[int, ...]
    outputs: tuple[MappedValue, ...]
    verdict: NodeVerdict
    #: The index of the node in whose body (of a loop, a branch) it stands.
    inside: int | None = None

    @property
    def headroom(self) -> float | None:
        """That of the output which has the least."""
        return min((value.headroom for value in self.outputs if value.headroom is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "op": self.op,
            "scope": self.scope,
            "location": None if self.location is None else self.location.to_json(),
            "reads": list(self.reads),
            "sources": list(self.sources),
            "outputs": [value.to_json() for value in self.outputs],
            "verdict": str(self.verdict),
            "inside": self.inside,
        }


@dataclass(frozen=True, slots=True)
class ModelMap:
    """All nodes, each before those of its body and after those that it reads; `outputs` are names of values."""

    inputs: tuple[MappedValue, ...]
    outputs: tuple[str, ...]
    nodes: tuple[MappedNode, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "inputs": [value.to_json() for value in self.inputs],
            "outputs": list(self.outputs),
            "nodes": [node.to_json() for node in self.nodes],
        }


def kept(
    model: Model, summaries: Sequence[Mapping[int, Summary]], findings: tuple[Finding, ...], wanted: bool | None
) -> AnalysedModel | None:
    """What a report keeps of its model: if that is wanted, or if nothing is said (None) and the model is small."""
    if wanted is False or (wanted is None and len(list(islice(model.graph.walk(), KEPT_NODES + 1))) > KEPT_NODES):
        return None
    shown = set(model.graph.inputs)
    for node in model.graph.walk():
        shown.update(node.outputs)
    light = tuple({n: summary.without_array() for n, summary in found.items() if n in shown} for found in summaries)
    return AnalysedModel(replace(model, constants={}, weights=frozenset(), initial_ranges={}, conversions={}), light, findings)


def map_model(analysed: AnalysedModel, report: Report) -> ModelMap:
    """The map of a model whose ranges are those of the analysis, and whose verdicts are those of the report."""
    model = analysed.model
    verdicts = _Verdicts(analysed, report)
    walked = list(_walk(model.graph, None))
    makers = {n: index for index, (node, _) in enumerate(walked) for n in node.outputs if n != ABSENT}

    def mapped(node: Node, inside: int | None) -> MappedNode:
        read = [n for n in node.inputs if n != ABSENT]
        made_inside = [n for body in node.subgraphs() for n in body.outputs]
        return MappedNode(
            name=node.name,
            op=node.label,
            scope=scope_of(node),
            location=location_of(node),
            reads=tuple(model.name_of(n) for n in read),
            sources=tuple(dict.fromkeys(makers[n] for n in (*read, *made_inside) if n in makers)),
            outputs=tuple(_value(analysed, n) for n in node.outputs if n != ABSENT),
            verdict=verdicts.of(node.name),
            inside=inside,
        )

    return ModelMap(
        inputs=tuple(_value(analysed, n) for n in model.graph.inputs),
        outputs=tuple(model.name_of(n) for n in model.graph.outputs),
        nodes=tuple(mapped(node, inside) for node, inside in walked),
    )


def scope_of(node: Node) -> str:
    """The module that a node belongs to: what the front end says, or else the part of its name before the last `/`."""
    if node.module:
        return "/".join(part for part in node.module.replace(".", "/").split("/") if part)
    return "/".join(part for part in node.name.split("/")[:-1] if part)


def headroom(format: Format, low: float, high: float) -> float | None:
    """Bits between a range and the largest number of its format; not positive if the range reaches it, None for integers."""
    largest = max(abs(low), abs(high))
    if not format.is_float or math.isnan(largest):
        return None
    if largest == 0:
        return math.inf
    return -math.inf if math.isinf(largest) else math.log2(format.high) - math.log2(largest)


class _Verdicts:
    """The verdict of every node, by name. What a baseline or a selection of rules leaves out of a report is still not proven."""

    def __init__(self, analysed: AnalysedModel, report: Report) -> None:
        self._found: dict[str, NodeVerdict] = dict.fromkeys(report.proven_safe, NodeVerdict.SAFE)
        self._found |= dict.fromkeys(report.proven_safe_if, NodeVerdict.SAFE_IF)
        self._found |= {entry.node: NodeVerdict.NOT_ANALYSED for entry in report.coverage.not_analysed}
        errors = [f for f in (*analysed.findings, *report.findings) if f.rule.severity == "error"]
        self._found |= {f.node: NodeVerdict.POSSIBLE for f in errors}
        self._found |= {f.node: NodeVerdict.CONFIRMED for f in errors if f.verdict is Verdict.CONFIRMED}

    def of(self, name: str) -> NodeVerdict:
        return self._found.get(name, NodeVerdict.NOT_CHECKABLE)


def _walk(graph: Graph, inside: int | None, first: int = 0) -> Iterator[tuple[Node, int | None]]:
    """`Graph.walk`, each node with the index of the one in whose body it stands."""
    index = first
    for node in graph.nodes:
        yield node, inside
        own, index = index, index + 1
        for body in node.subgraphs():
            for inner in _walk(body, own, index):
                yield inner
                index += 1


def _value(analysed: AnalysedModel, number: int) -> MappedValue:
    value = analysed.model.values[number]
    found = [summaries[number] for summaries in analysed.summaries if number in summaries]
    shape = _shape(value, [summary.shape for summary in found])
    if not found:
        return MappedValue(value.name, None if value.format is None else value.format.name, shape, None, None, False, None)
    summary = found[0]
    for other in found[1:]:
        summary = summary.join(other)
    low, high = summary.ends
    low = -math.inf if summary.special & NEGATIVE_INFINITY else low
    high = math.inf if summary.special & POSITIVE_INFINITY else high
    is_empty = low > high
    return MappedValue(
        name=value.name,
        format=summary.format.name,
        shape=shape,
        low=None if is_empty else low,
        high=None if is_empty else high,
        may_be_nan=bool(summary.special & NAN),
        headroom=None if is_empty else headroom(summary.format, low, high),
    )


def _shape(value: Value, shapes: Sequence[Shape | None]) -> tuple[int | str, ...] | None:
    """Sizes as the analysis knows them; the names of the file where it knows several, or none."""
    known = [shape for shape in shapes if shape is not None]
    if value.shape is not None and any(len(shape) != len(value.shape) for shape in known):
        return None
    if len(known) < max(len(shapes), 1):
        return None if value.shape is None else tuple("?" if size is None else size for size in value.shape)
    if len({len(shape) for shape in known}) > 1:
        return None
    names: Sequence[Dimension] = value.shape or (None,) * len(known[0])
    return tuple(_size(set(sizes), name) for sizes, name in zip(zip(*known), names))


def _size(sizes: set[Size], name: Dimension) -> int | str:
    only = next(iter(sizes)) if len(sizes) == 1 else None
    if isinstance(only, int):
        return only
    if isinstance(name, str):
        return name
    return "?" if only is None else str(only)


def location_of(node: Node) -> Location | None:
    """The user's line of a node, or else its module."""
    if node.source is None:
        return Location(module=node.module) if node.module else None
    return Location(node.source.file, node.source.line, node.module or None, node.source.column)
