"""No change of a program without its proof: scanned as a whole, the failing input replayed, outputs and derivatives compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.confirm.observing import Scene
from tensorproof.confirm.sampling import Point
from tensorproof.execute.torch_program import ProgramFailed, ProgramRunner
from tensorproof.findings import Finding
from tensorproof.formats import BY_NAME, FLOAT32, Format
from tensorproof.repair.gradients import compare_derivatives
from tensorproof.repair.program.running import EagerProgram
from tensorproof.repair.program.text import LineMap
from tensorproof.repair.program.version import Version
from tensorproof.repair.verify import GRADIENT_POINTS, Refused, Reservoir, Verification, spread

if TYPE_CHECKING:
    from torch import Tensor

#: Outputs that differ from the original's by more than this share of their size, at more than half of the points, are those of
#: another function: a repair changes results at most near the place of failure.
FAR = 0.1


def verified(before: Version, after: Version, finding: Finding, *, witness: Point | None, seed: int, runs: int) -> Verification:
    """What the verification of a change saw; raises Refused if it failed anywhere. `witness` is an input that fails before."""
    lines = LineMap(before.source.text, after.source.text)
    _compare_findings(before, after, finding, lines)
    result = Verification()
    if witness is not None:
        _replay(before, after, finding, witness, lines)
        result.witness_replayed = True
    pair = _Pair(before, after)
    sound = Reservoir(GRADIENT_POINTS, seed)
    for point in spread([Scene.of(before.prepared.graph, analysis) for analysis in before.analyses], seed, runs):
        if pair.compare(point, result):
            sound.add(point)
    pair.refuse_another_function()
    result.gradients = compare_derivatives(pair.old.derivatives, pair.new.derivatives, pair.exact_derivatives, sound.kept, witness)
    return result


def _compare_findings(before: Version, after: Version, finding: Finding, lines: LineMap) -> None:
    """Refuse a change after which the finding is still there, or another one is that was not there before.

    Findings are told apart by rule and line: a change of the program gives its nodes other names. What was only the consequence
    of another finding before may stay, as a finding of its own.
    """
    old = Counter(_key(before, f, lines.old) for f in before.roots)
    new = Counter(_key(after, f, lines.new) for f in after.roots)
    known = old | Counter(_key(before, f, lines.old) for analysis in before.analyses for f in analysis.findings)
    key = _key(before, finding, lines.old)
    if new[key] >= old[key]:
        raise Refused(f"the scan still finds {finding.rule.code} there")
    for found in after.roots:
        other = _key(after, found, lines.new)
        if new[other] > known[other]:
            raise Refused(f"the scan finds {found.rule.code} at {_place(after, found)}, which was not there before")
    unknown = {u.op for analysis in before.analyses for u in analysis.coverage.not_analysed}
    for unanalysed in (u for analysis in after.analyses for u in analysis.coverage.not_analysed):
        if unanalysed.op not in unknown:
            raise Refused(f"{unanalysed.op} of the patched program is not analysed: {unanalysed.reason}")


def _key(version: Version, finding: Finding, of_line: Callable[[int], int]) -> tuple[str, object]:
    return finding.rule.code, version.place(finding, of_line)


def _place(version: Version, finding: Finding) -> str:
    line = version.line(finding)
    return finding.node if line is None else f"line {line} of the patched file"


def _replay(before: Version, after: Version, finding: Finding, witness: Point, lines: LineMap) -> None:
    """Refuse a change after which the failing input still fails at the line; anywhere, if nothing else is found."""
    is_backward = finding.phase == "backward"
    try:
        shown = ProgramRunner(after.program.traced).replayed(witness, gradients=is_backward)
    except ProgramFailed as failure:
        raise Refused(f"the patched program stops on the failing input: {failure}") from None
    line = before.line(finding)
    failed = shown.backward_lines if is_backward else shown.forward_lines
    file = str(after.source.path.resolve())
    if line is not None and lines.old(line) in {lines.new(number) for name, number in failed if name == file}:
        raise Refused("the failing input still fails at the changed line")
    if not after.roots and (shown.is_output_bad or shown.bad_gradients):
        raise Refused(f"the failing input still makes {'a gradient' if is_backward else 'an output'} NaN or infinite")


class _Pair:
    """The original, the patched program, and the original in float64, run on the same points."""

    def __init__(self, before: Version, after: Version) -> None:
        self.old, self.new = EagerProgram(before.program), EagerProgram(after.program)
        self._exact = _in_float64(before)
        self._finite = 0
        self._far = 0

    def refuse_another_function(self) -> None:
        """Raise Refused if results differ much at most of the points at which the original has any."""
        if 2 * self._far > self._finite:
            raise Refused(f"outputs differ by more than {FAR:.0%} at {self._far} of {self._finite} points: it is another function")

    def compare(self, point: Point, result: Verification) -> bool:
        """Run one point and add what it shows; whether the original is finite there."""
        try:
            after = self.new.outputs(point)
        except ProgramFailed as failure:
            raise Refused(f"the patched program stops on a point of the box: {failure}") from None
        result.runs += 1
        try:
            before = self.old.outputs(point)
        except ProgramFailed:
            # The original stops on this point; the patched program did not.
            return False
        if [array.shape for array in before] != [array.shape for array in after]:
            raise Refused("the patched program has outputs of other shapes")
        for old, new, exact in zip(before, after, self._exactly(point, before)):
            if _loses_numbers(old, new):
                raise Refused("an output is NaN or infinite at a point where that of the original is finite")
            format = _format(old)
            result.values.add(old, new, exact, format)
            result.outputs.add(old, new, None, format)
        if not all(map(_is_finite, before)):
            return False
        self._finite += 1
        self._far += any(map(_is_far, before, after))
        return True

    def exact_derivatives(self, point: Point) -> Mapping[str, Tensor]:
        """The derivatives of the original in float64; none where it cannot be run so."""
        try:
            return {} if self._exact is None else self._exact.derivatives(point)
        except ProgramFailed:
            return {}

    def _exactly(self, point: Point, outputs: Sequence[npt.NDArray[Any]]) -> Iterable[npt.NDArray[Any] | None]:
        """The outputs in exact arithmetic, as far as float64 is; None where there is nothing wider, or the program cannot do it."""
        nothing = [None] * len(outputs)
        if self._exact is None or any(array.dtype == np.float64 for array in outputs):
            return nothing
        try:
            exact = self._exact.outputs(point)
        except ProgramFailed:
            # A program may ask for a format of its own.
            self._exact = None
            return nothing
        return exact if [array.shape for array in exact] == [array.shape for array in outputs] else nothing


def _in_float64(version: Version) -> EagerProgram | None:
    """The program in float64; None if its module cannot be copied and converted."""
    try:
        return EagerProgram(version.program, exact=True)
    except Exception:  # whatever the classes of the user's own modules raise
        return None


def _is_finite(array: npt.NDArray[Any]) -> bool:
    return bool(np.isfinite(array.astype(np.float64)).all())


def _is_far(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> bool:
    """Whether two finite results differ by more than a share of the larger one of the original's elements."""
    before, after = old.astype(np.float64), new.astype(np.float64)
    size = float(np.abs(before).max(initial=0.0))
    return bool(np.abs(after - before).max(initial=0.0) > max(FAR * size, float(np.finfo(np.float32).eps)))


def _loses_numbers(old: npt.NDArray[Any], new: npt.NDArray[Any]) -> bool:
    """Whether an element that is finite in the original is not any more."""
    return bool((np.isfinite(old.astype(np.float64)) & ~np.isfinite(new.astype(np.float64))).any())


def _format(array: npt.NDArray[Any]) -> Format:
    return BY_NAME.get(array.dtype.name, FLOAT32)
