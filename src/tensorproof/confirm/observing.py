"""What a run in ONNX Runtime shows of a finding: whether its node failed, and how close it came.

A node fails when all its operands are finite (or legal special values) and its result is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.assumptions import Domain
from tensorproof.checking import Analysis
from tensorproof.confirm import witness
from tensorproof.confirm.sampling import Point
from tensorproof.findings import Finding, Reaches, Verdict
from tensorproof.formats import FLOAT32, Format
from tensorproof.graph import ABSENT, Model, Node
from tensorproof.ranges.range import NEGATIVE_INFINITY, POSITIVE_INFINITY

if TYPE_CHECKING:
    import onnx

Domains = Mapping[str, tuple[Domain, tuple[int, ...], Format]]


@dataclass(frozen=True, slots=True)
class Scene:
    """What every step of a confirmation works on: a model, its analysis, the box, and the weights that are fed like inputs."""

    model: Model
    analysis: Analysis
    domains: Domains
    free: tuple[str, ...]

    @classmethod
    def of(cls, model: Model, analysis: Analysis) -> Scene:
        return cls(model, analysis, domains_of(model, analysis), tuple(model.name_of(n) for n in analysis.assumptions.weights))


@dataclass(slots=True)
class Watch:
    """A finding whose node is observed, and what the runs have shown of it."""

    index: int
    finding: Finding
    node: Node
    operands: tuple[str, ...]
    results: tuple[str, ...]
    in_body: bool = False
    part: onnx.ModelProto | None = None
    low: float = np.inf
    high: float = -np.inf
    point: Point | None = None
    reaches: Reaches | None = None

    def values(self) -> tuple[str, ...]:
        at_operand = self.finding.rule.code in witness.SEEN_AT
        return self.operands if at_operand else self.operands + self.results

    def settled(self) -> Finding:
        """The finding with what the runs have shown."""
        reached = None if self.low > self.high else (self.low, self.high)
        if self.point is None:
            return replace(self.finding, reached=reached)
        return replace(self.finding, reached=reached, verdict=Verdict.CONFIRMED, reaches=self.reaches)


def domains_of(model: Model, analysis: Analysis) -> dict[str, tuple[Domain, tuple[int, ...], Format]]:
    """Everything that is sampled: the inputs, and the weights that are ranges."""
    assumed = analysis.assumptions
    found: dict[str, tuple[Domain, tuple[int, ...], Format]] = {}
    for n, domain in assumed.inputs.items():
        shape = assumed.shapes[n]
        if shape is not None:
            found[model.name_of(n)] = (domain, shape, model.values[n].format or FLOAT32)
    for n, domain in assumed.weights.items():
        found[model.name_of(n)] = (domain, model.constants[n].shape, model.values[n].format or FLOAT32)
    return found


def is_floating(analysis: Analysis, number: int) -> bool:
    """Whether the analysis saw a floating value there."""
    summary = analysis.summaries.get(number)
    return summary is not None and summary.format.is_float


def can_be_fed(model: Model, number: int, analysis: Analysis) -> bool:
    """Whether an input is a tensor whose shape is known."""
    value = model.values[number]
    return value.container == "tensor" and analysis.assumptions.shapes[number] is not None


def legal_specials(model: Model, analysis: Analysis) -> dict[str, int]:
    """The special values that tensors have without any hazard, such as the -inf of a mask, as flags by name."""
    return {model.name_of(n): s.special for n, s in analysis.summaries.items() if s.special}


def constants_of(model: Model, watches: Iterable[Watch]) -> dict[str, npt.NDArray[Any]]:
    """Operands of watched nodes that are constants: known without a run."""
    numbers = {n for w in watches for n in w.node.inputs if n in model.constants}
    return {model.name_of(n): model.constants[n] for n in numbers}


def look(watch: Watch, values: Mapping[str, Any], legal: Mapping[str, int]) -> bool:
    """Whether a node failed in one run; the worst finite value that it showed is kept."""
    measured = watch.finding.operand
    numbers = _numbers(values.get(measured))
    if numbers is not None:
        finite = numbers[np.isfinite(numbers)]
        if finite.size:
            watch.low, watch.high = min(watch.low, float(finite.min())), max(watch.high, float(finite.max()))
    if any(is_bad(values.get(name), legal.get(name, 0)) for name in watch.operands):
        return False
    if watch.finding.rule.code in witness.SEEN_AT:
        return numbers is not None and _outside(watch, numbers)
    return any(is_bad(values.get(name), legal.get(name, 0)) for name in watch.results)


def _outside(watch: Watch, numbers: npt.NDArray[np.float64]) -> bool:
    if watch.finding.rule.code == "NUM107":
        return bool((numbers == 0).any())
    return bool((np.abs(numbers) >= 2.0**63).any())


def _numbers(array: Any) -> npt.NDArray[np.float64] | None:
    if array is None or not isinstance(array, np.ndarray) or array.dtype.kind not in "fiubV":
        return None
    return array.astype(np.float64)


def is_bad(array: Any, legal: int) -> bool:
    """Whether an array holds a special value that is not a legal one."""
    if array is None or not isinstance(array, np.ndarray) or array.dtype.kind not in "fV":
        return False
    numbers = array.astype(np.float64)
    bad = np.isnan(numbers)
    if not legal & POSITIVE_INFINITY:
        bad |= numbers == np.inf
    if not legal & NEGATIVE_INFINITY:
        bad |= numbers == -np.inf
    return bool(bad.any())


def not_finite(value: Any) -> bool:
    """Whether a result, or a member of a sequence, is NaN or infinite anywhere."""
    if isinstance(value, list):
        return any(not_finite(v) for v in value)
    return is_bad(value, 0)


def special_values(flags: int) -> tuple[float, ...]:
    """The infinities that a set of flags stands for."""
    return tuple(value for bit, value in ((POSITIVE_INFINITY, np.inf), (NEGATIVE_INFINITY, -np.inf)) if flags & bit)


def watches_of(model: Model, analysis: Analysis) -> Iterable[Watch]:
    """The findings that a run can confirm: defects of their own, of the forward pass."""
    nodes = {node.name: node for node in model.graph.walk()}
    inside = {node.number for node in nodes.values()} - {node.number for node in model.graph.nodes}
    for index, finding in enumerate(analysis.findings):
        node = nodes.get(finding.node)
        if node is None or finding.consequence_of or not finding.rule.code.startswith(("NUM1", "NUM2")):
            continue
        operands = tuple(dict.fromkeys(model.name_of(n) for n in node.inputs if n != ABSENT))
        results = tuple(model.name_of(n) for n in node.outputs if n != ABSENT)
        yield Watch(index, finding, node, operands, results, node.number in inside)
