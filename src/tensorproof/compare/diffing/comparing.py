"""`compare`: two models, their outputs on the same inputs, and the operator at which they part."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tensorproof.assumptions import Domain, read_samples
from tensorproof.compare.diffing.aligning import Alignment, Pair, align
from tensorproof.compare.diffing.bisecting import Divergence, Probe, localise, localise_defect
from tensorproof.compare.diffing.comparison import Comparison, FirstOperator
from tensorproof.compare.diffing.doubling import DoublePrecision
from tensorproof.compare.diffing.inputs import InputSpace, given_points, input_space
from tensorproof.compare.diffing.outputs import Tally
from tensorproof.compare.diffing.replaying import save_witness
from tensorproof.compare.diffing.rounding import Tolerance
from tensorproof.compare.diffing.searching import search
from tensorproof.compare.diffing.side import RunFailed, Side, open_side
from tensorproof.compare.drawing import Array
from tensorproof.compare.judging import Opinion
from tensorproof.confirm.sampling import Point
from tensorproof.errors import ModelError

#: Points at which an operator at fault is sought, before all that differs is taken for rounding.
_SUSPECTS = 3


@dataclass(frozen=True)
class DiffOptions:
    """Two models, what runs them, and what they are run on.

    `runs` points are drawn where no data is given; `evaluations` bounds the search for an input on which they part; `size` is that
    of dimensions which both models leave open. `inputs`, `dims` and `state` are those of `check`, for programs. In `out` the input
    of a defect is saved, with a program that replays it.
    """

    left: str
    right: str
    left_backend: str | None = None
    right_backend: str | None = None
    left_python: str = ""
    right_python: str = ""
    data: str | None = None
    ranges: Mapping[str, Domain] = field(default_factory=dict[str, Domain])
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    dims: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    state: str | None = None
    runs: int = 16
    evaluations: int = 100
    seed: int = 0
    size: int = 2
    out: Path | None = None


def compare(options: DiffOptions, progress: Callable[[str], None] | None = None) -> Comparison:
    """Open both models, compare them, and close what was opened."""
    tell = progress or (lambda _: None)
    started = time.monotonic()
    data = None if options.data is None else read_samples(options.data)
    program = {"inputs": dict(options.inputs), "dims": dict(options.dims), "state": options.state}
    with ExitStack() as stack:
        tell(f"opening {options.left}")
        left = open_side(options.left, options.left_backend, options.left_python, program)
        stack.callback(left.worker.close)
        tell(f"opening {options.right}")
        right = open_side(options.right, options.right_backend, options.right_python, program)
        stack.callback(right.worker.close)
        alignment = align(left.facts, right.facts)
        space = input_space(left.facts, right.facts, alignment, options.ranges, options.size, data)
        # A quantised model is calibrated for ordinary inputs: at the corners of a box it is cut off by design.
        is_quantised = "int8" in (left.facts.precision, right.facts.precision)
        if is_quantised:
            options = replace(options, evaluations=0)
        if data is not None:
            points = given_points(data, left.facts, alignment, str(options.data))
        else:
            points = list(space.draw(options.seed, options.runs, is_typical=is_quantised))
        opened = time.monotonic()
        comparing = _Comparing(options, left, right, alignment, space, tell)
        stack.callback(comparing.double.close)
        result = comparing.compared(points)
        seconds = {"opening": opened - started, "comparing": time.monotonic() - opened}
        return replace(result, seconds=seconds)


@dataclass
class _Comparing:
    options: DiffOptions
    left: Side
    right: Side
    alignment: Alignment
    space: InputSpace
    tell: Callable[[str], None]
    held: int = 0

    def __post_init__(self) -> None:
        self.tolerance = Tolerance.between(self.left.facts.precision, self.right.facts.precision)
        self.double = DoublePrecision(self.left)
        self.tally = Tally(self.alignment.outputs, self.tolerance)

    def compared(self, points: list[Point]) -> Comparison:
        """Points first, a search if they show no defect; then the first operator at which the models part."""
        suspects: list[tuple[Point, Pair | None]] = []
        imprecise: tuple[float, Point, Pair] | None = None
        both_failed = 0
        for number, point in enumerate(points):
            self.tell(f"point {number + 1} of {len(points)}")
            probe = self._probe(point)
            outcome = self._outcome(probe, count=True)
            if outcome is None:
                both_failed += 1
            elif outcome[0] is Opinion.DEFECT:
                suspects.append((point, outcome[1]))
            elif outcome[0] is Opinion.PRECISION and outcome[1] is not None and (imprecise is None or outcome[2] > imprecise[0]):
                imprecise = outcome[2], point, outcome[1]
        if points and both_failed == len(points):
            raise ModelError(f"neither model runs on these inputs: {self._last_failure}")
        remarks: list[str] = []
        if self.tolerance.coarse == "int8":
            remarks.append("a quantised model is compared on ordinary points alone, without a search for extreme ones")
        if both_failed:
            remarks.append(f"{both_failed} of {len(points)} points fail in both models")
        found = self._defect(suspects)
        how, evaluations = "data" if self.options.data is not None else "samples", 0
        if found is None and self.options.evaluations > 0:
            found, evaluations = self._searched()
            how = "search"
        if found is not None:
            point, divergence, failure = found
            return self._result(Opinion.DEFECT, point, divergence, failure, len(points), evaluations, how, remarks)
        if suspects:
            remarks.append("outputs are far apart, but no operator is at fault: rounding grows in these models")
        if imprecise is None and suspects and suspects[0][1] is not None:
            imprecise = 0.0, suspects[0][0], suspects[0][1]
        if imprecise is None:
            return self._result(Opinion.AGREE, None, None, ("", ""), len(points), evaluations, "", remarks)
        _, point, output = imprecise
        self.tell("looking for the first operator")
        probe = self._probe(point)
        divergence = localise(probe, self.alignment, output, Opinion.PRECISION)
        self.held = max(self.held, probe.held)
        return self._result(Opinion.PRECISION, point, divergence, ("", ""), len(points), evaluations, "", remarks)

    _last_failure = ""

    def _probe(self, point: Point) -> Probe:
        return Probe(
            self.left,
            self.right,
            self.space.for_left(point),
            self.space.for_right(point),
            self.tolerance,
            self.options.seed,
            doubts_shapes=not self.alignment.is_by_name,
        )

    def _outcome(self, probe: Probe, *, count: bool) -> tuple[Opinion, Pair | None, float] | None:
        """The worst opinion over all outputs, the output, and its units; None where neither model runs.

        The output is None where only one model runs.
        """
        outputs = self.alignment.outputs
        left, left_failure = _whole(self.left, probe.left_feeds, [pair.left for pair in outputs])
        right, right_failure = _whole(self.right, probe.right_feeds, [pair.right for pair in outputs])
        if left_failure and right_failure:
            self._last_failure = left_failure
            return None
        if left_failure or right_failure:
            return Opinion.DEFECT, None, 0.0
        worst: tuple[Opinion, Pair, float] = Opinion.AGREE, outputs[0], -1.0
        for pair in outputs:
            a, b = left[pair.left], right[pair.right]
            judgement = self.tolerance.judge(a, b, sensitivity=probe.sensitivity(probe.left_feeds, pair.left, a))
            if count:
                self.tally.add(pair, a, b, judgement)
            rank = list(Opinion).index(judgement.opinion)
            if (rank, judgement.units) > (list(Opinion).index(worst[0]), worst[2]):
                worst = judgement.opinion, pair, judgement.units
        return worst

    def _defect(self, suspects: list[tuple[Point, Pair | None]]) -> tuple[Point, Divergence, tuple[str, str]] | None:
        """The first point at which an operator is at fault, and the operator."""
        for point, output in suspects[:_SUSPECTS]:
            self.tell("looking for the first operator")
            probe = self._probe(point)
            if output is None:
                divergence = self._failing(probe)
                return point, divergence, (divergence.left_failure, divergence.right_failure)
            divergence, is_defect = localise_defect(probe, self.alignment, output)
            self.held = max(self.held, probe.held)
            if is_defect:
                return point, divergence, ("", "")
        return None

    def _failing(self, probe: Probe) -> Divergence:
        """The first value that one model computes and the other does not."""
        output = next((pair for pair in self.alignment.outputs if probe.differs(pair, Opinion.DEFECT)), self.alignment.outputs[0])
        divergence = localise(probe, self.alignment, output, Opinion.DEFECT)
        self.held = max(self.held, probe.held)
        return divergence

    def _searched(self) -> tuple[tuple[Point, Divergence, tuple[str, str]] | None, int]:
        """A point that samples did not show, and the evaluations that it took."""
        tries = 0

        def evaluate(point: Point) -> tuple[float, bool]:
            nonlocal tries
            tries += 1
            self.tell(f"search, evaluation {tries} of {self.options.evaluations}")
            outcome = self._outcome(self._probe(point), count=False)
            return (0.0, False) if outcome is None else (outcome[2], outcome[0] is Opinion.DEFECT)

        result = search(self.space, evaluate, seed=self.options.seed, evaluations=self.options.evaluations)
        if result.point is None:
            return None, result.evaluations
        outcome = self._outcome(self._probe(result.point), count=True)
        found = None if outcome is None else self._defect([(result.point, outcome[1])])
        return found, result.evaluations

    def _result(
        self,
        verdict: Opinion,
        point: Point | None,
        divergence: Divergence | None,
        failure: tuple[str, str],
        points: int,
        evaluations: int,
        found_by: str,
        remarks: list[str],
    ) -> Comparison:
        first = None
        if divergence is not None and point is not None:
            first = self._described(self.double.consulted(divergence, self.space.for_left(point)))
        witness = None
        if verdict is Opinion.DEFECT and point is not None and self.options.out is not None:
            witness = save_witness(
                self.options.out,
                self.left,
                self.right,
                self.space,
                point,
                first,
                share=self.tolerance.share,
                state=self.options.state,
            )
        aligned = len(self.alignment.pairs)
        if not self.alignment.is_by_name and verdict is not Opinion.AGREE:
            remarks = [*remarks, "the models have no names in common: their values were matched by order"]
        return Comparison(
            self.left.described(),
            self.right.described(),
            self.left.model,
            self.right.model,
            verdict,
            self.tally.outputs(),
            first,
            failure,
            points,
            evaluations,
            found_by,
            witness,
            tuple(remarks),
            {name: _domain_json(domain, shape) for name, (domain, shape, _) in self.space.domains.items()},
            (self.left.facts.precision, self.right.facts.precision),
            len(self.right.facts.values),
            aligned,
            self.held,
        )

    def _described(self, divergence: Divergence) -> FirstOperator:
        ours = self.left.facts.places.get(divergence.pair.left, {})
        theirs = self.right.facts.places.get(divergence.pair.right, {})
        place = {**theirs, **{key: value for key, value in ours.items() if value}}
        return FirstOperator(
            divergence,
            self.left.facts.operators.get(divergence.pair.left, "output"),
            self.right.facts.operators.get(divergence.pair.right, "output"),
            str(theirs.get("node") or place.get("node") or divergence.pair.right),
            str(place.get("module", "")),
            place.get("file"),
            place.get("line"),
        )


def _whole(side: Side, feeds: dict[str, Array], names: list[str]) -> tuple[dict[str, Array], str]:
    try:
        return side.run(feeds, names), ""
    except RunFailed as error:
        return {}, str(error)


def _domain_json(domain: Domain, shape: tuple[int, ...]) -> dict[str, Any]:
    return {**domain.to_json(), "text": domain.describe(), "shape": list(shape)}
