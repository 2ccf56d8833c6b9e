"""What is still open and what has been proven so far, over all steps of a refinement."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tensorproof.graph import ABSENT, Model, Node
from tensorproof.idioms.claims import Claim
from tensorproof.operators.table import Bound, find_operator
from tensorproof.ranges.abstraction import Abstraction
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.differentiable import NO_PATHS, Paths
from tensorproof.ranges.flow import Flow
from tensorproof.ranges.grid import Shape, largest
from tensorproof.ranges.propagate import Propagation
from tensorproof.ranges.range import Range
from tensorproof.ranges.records import Known, RangedGraph, Record, Summary
from tensorproof.refine.cone import Part, Structure
from tensorproof.targets import Target

#: A hazard of one node: the code of its rule, and the operand.
Key = tuple[str, int]

#: So many products of numbers cost as much as one evaluation of a node does beside its arithmetic.
PRODUCTS_PER_EVALUATION = 1 << 17
#: Elements of a result that are counted at most.
MOST_ELEMENTS = 1 << 24


def open_hazards(record: Record) -> set[Key]:
    """The hazards of a node that are defects of its own."""
    return {(hazard.rule.code, hazard.operand) for hazard in record.hazards if hazard.rule.severity == "error"}


@dataclass(slots=True)
class Budget:
    """Evaluations of nodes that a step may still spend."""

    left: int

    def take(self, cost: int) -> bool:
        """Spend so many, if there are."""
        if cost > self.left:
            return False
        self.left -= cost
        return True


@dataclass(slots=True)
class Alarms:
    """The hazards that are open, and what the steps have proven.

    `ranges` are bounds of values where no hazard fires before; `kept` are ranges of single values that later steps begin at.
    """

    model: Model
    target: Target
    constants: Callable[[int], Flow]
    inputs: Mapping[int, Abstract]
    structure: Structure
    progress: Callable[[str, int], None] | None
    open: dict[int, set[Key]]
    summaries: dict[int, Summary]
    ranges: dict[int, Bound] = field(default_factory=dict[int, Bound])
    impossible: set[tuple[int, str, int]] = field(default_factory=set[tuple[int, str, int]])
    proven_by: dict[int, str] = field(default_factory=dict[int, str])
    kept: dict[int, Range] = field(default_factory=dict[int, Range])
    #: The nodes whose derivatives are looked at.
    paths: Paths = field(default_factory=lambda: NO_PATHS)
    #: Whether bounds were found that no pass has carried on yet.
    tightened: bool = False

    @classmethod
    def of(
        cls,
        ranged: RangedGraph,
        inputs: Mapping[int, Abstract],
        constants: Callable[[int], Flow],
        progress: Callable[[str, int], None] | None,
    ) -> Alarms:
        """The open hazards after the first pass."""
        found = {number: open_hazards(record) for number, record in sorted(ranged.records.items()) if record.hazards}
        return cls(
            ranged.model,
            ranged.target,
            constants,
            inputs,
            Structure(ranged.model),
            progress,
            {number: keys for number, keys in found.items() if keys},
            dict(ranged.summaries),
            paths=ranged.paths,
        )

    @property
    def known(self) -> Known:
        return Known(self.ranges, frozenset(self.impossible))

    def prove(self, node: int, step: str) -> None:
        """No hazard of a node can fire, those of the backward pass included, which hazards of the forward pass may have hidden."""
        self.impossible.update((node, code, operand) for code, operand in self.open.pop(node) | self._backward_hazards(node))
        self.proven_by[node] = step

    def _backward_hazards(self, number: int) -> set[Key]:
        if number not in self.paths:
            return set()
        node = self.structure.nodes[number]
        entry = find_operator(node.domain, node.op)
        return set() if entry is None else {(hazard.rule.code, hazard.operand) for hazard in entry.backward_hazards}

    def settle(self, records: Mapping[int, Record], step: str) -> None:
        """Prove the nodes for which a pass over the cones of all open hazards finds none.

        A node is proven as a whole or not at all: a division by zero that vanishes may uncover an overflow, which was not
        reported beside it.
        """
        for node in list(self.open):
            record = records.get(node)
            if record is None or record.not_analysed is not None:
                continue
            left = open_hazards(record)
            if left:
                self._uncover(node, left)
                continue
            # A branch that is only reached behind a hazard reports its own hazards as consequences.
            if not (self.structure.is_inside(node) and record.consequences):
                self.prove(node, step)

    def _uncover(self, node: int, left: set[Key]) -> None:
        """Where nothing but derivatives is left of a node that seemed to fail forward, they are what is open."""
        if left <= self._backward_hazards(node):
            self.impossible.update((node, code, operand) for code, operand in self.open[node] - left)
            self.open[node] = left

    def bound(self, number: int, low: float, high: float) -> None:
        """A value lies between two numbers, where no hazard fires."""
        if not low <= high:
            return
        summary = self.summaries.get(number)
        if summary is not None and not (low > summary.low or high < summary.high):
            return
        earlier = self.ranges.get(number)
        if isinstance(earlier, Range):
            self.ranges[number] = earlier.replace(np.maximum(earlier.low, low), np.minimum(earlier.high, high), None)
        else:
            least, most = earlier if earlier is not None else (-np.inf, np.inf)
            self.ranges[number] = max(least, low), min(most, high)
        if summary is not None:
            low, high = max(low, summary.low), min(high, summary.high)
            self.summaries[number] = Summary(summary.format, summary.shape, low, high, summary.special)

    def learn(self, part: Part, records: Mapping[int, Record], summaries: Mapping[int, Summary]) -> None:
        """Take over the bounds that a pass found for the results of nodes that cannot fail there."""
        for node in part.nodes:
            record = records.get(node.number)
            if record is None or record.hazards or record.not_analysed is not None:
                continue
            for number in node.outputs:
                summary = None if number == ABSENT else summaries.get(number)
                if summary is not None:
                    self.bound(number, summary.low, summary.high)

    def run(
        self,
        part: Part,
        entering: Mapping[int, Abstract],
        abstraction: Abstraction,
        *,
        known: Known | None = None,
        keep: Collection[int] = (),
        claims: Mapping[int, Sequence[Claim]] | None = None,
        patience: int | None = None,
        step: str,
    ) -> Propagation:
        """One pass over a part of the model; with `patience`, up to so many alarms one after the other that stay open."""
        report = self.progress
        run = Propagation(
            part.model,
            self.target,
            self.constants,
            keep_ranges=keep,
            progress=None if report is None else lambda done: report(step, done),
            abstraction=abstraction,
            known=self.known if known is None else known,
            claims=claims,
            paths=self.paths,
        )
        if patience is not None:
            run.until = self._fruitless(run, patience)
        with np.errstate(all="ignore"):
            run.run(part.model.graph, [run.as_operand(Flow.of(entering[number])) for number in part.entering])
        return run

    def _fruitless(self, run: Propagation, patience: int) -> Callable[[Node], bool]:
        left = patience

        def stop(node: Node) -> bool:
            nonlocal left
            if node.number in self.open:
                record = run.records.get(node.number)
                left = left - 1 if record is None or open_hazards(record) else patience
            return left <= 0

        return stop

    def cost(self, nodes: Sequence[Node]) -> int:
        """What one pass over these nodes costs, in evaluations of nodes: products with large constants count as many."""
        total = 0
        for node in nodes:
            total += 1 + sum(1 for sub in node.subgraphs() for _ in sub.walk())
            large = [self.model.constants[n] for n in node.inputs if n in self.model.constants and self.model.constants[n].ndim > 1]
            result = self.summaries.get(node.outputs[0]) if large and node.outputs else None
            if result is not None:
                # Terms of one element of the result, times elements: the first axis of kernels runs over channels.
                terms = max(w.size // (w.shape[0] if w.ndim > 2 else max(w.shape)) if w.size else 0 for w in large)
                total += int(terms * min(elements(result.shape), MOST_ELEMENTS)) // PRODUCTS_PER_EVALUATION
        return total


def elements(shape: Shape | None) -> float:
    """The largest number of elements of a tensor."""
    if shape is None:
        return math.inf
    sizes = [largest(size) for size in shape]
    return math.inf if None in sizes else math.prod(size for size in sizes if size is not None)
