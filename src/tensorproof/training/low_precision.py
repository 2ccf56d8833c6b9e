"""Training in float16 and bfloat16: gradients that overflow or vanish, the loss scale that is needed, and the optimiser's step.

All of it is measured on points of the declared ranges, against the same steps in float64: nothing here is a proof. The number of
runs depends on time only where the user sets a limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tensorproof.assumptions import Declarations, resolve
from tensorproof.confirm.sampling import Point, points
from tensorproof.confirm.torch_witness import save
from tensorproof.errors import TensorproofError
from tensorproof.execute.torch_program import ProgramRunner
from tensorproof.findings import Finding, Verdict
from tensorproof.formats import BY_NAME, Format
from tensorproof.graph import Node
from tensorproof.low_precision.samples import domains_of
from tensorproof.rules.gradient_overflow import GRADIENT_OVERFLOW
from tensorproof.rules.gradient_vanishes import GRADIENT_VANISHES
from tensorproof.rules.optimiser_step import OPTIMISER_STEP
from tensorproof.targets import Target
from tensorproof.training.backward import Outcome, Sampling
from tensorproof.training.optimiser import EPSILON, adam_step
from tensorproof.training.places import Line, Places, finding_at, lines_of
from tensorproof.training.steps import Gradients, Steps, is_finite

if TYPE_CHECKING:
    from torch import Tensor

    from tensorproof.frontends.torch_program import TorchProgram

#: The formats that training is looked at in.
FORMATS = ("float16", "bfloat16")
#: Points that gradients are compared on; random ones, because corners of the box are no typical inputs.
COMPARED = 6
#: A gradient is reported when more than this share of its elements vanishes.
REPORTED_SHARE = 0.01
#: The share of all elements that a loss scale has to keep.
SURVIVING_SHARE = 0.999
#: The largest loss scale that is tried, as a power of two, and how many of them are run.
LARGEST_SCALE = 24
SCALES_TRIED = 6


@dataclass(slots=True)
class _Counts:
    """Elements of one gradient that are not zero in float32, and those of them that are zero in the format."""

    nonzero: int = 0
    vanished: int = 0
    smallest: float = math.inf

    @property
    def share(self) -> float:
        return self.vanished / self.nonzero if self.nonzero else 0.0


@dataclass(slots=True)
class _Comparison:
    """What the runs showed: counts by gradient, and the first point at which one was not finite."""

    counts: dict[str, _Counts] = field(default_factory=dict[str, _Counts])
    overflow: Point | None = None
    overflowing: tuple[str, ...] = ()
    #: Points at which all was finite, with the gradients in float64.
    exact: list[tuple[Point, Gradients]] = field(default_factory=list[tuple[Point, Gradients]])


def trained_format(program: TorchProgram) -> Format | None:
    """The 16-bit format that a program computes in; None if it has none."""
    used = {value.format.name for value in program.traced.model.values if value.format is not None}
    return next((BY_NAME[name] for name in FORMATS if name in used), None)


def low_precision_findings(
    program: TorchProgram,
    declared: Declarations,
    target: Target,
    *,
    known: Sequence[Finding] = (),
    sampling: Sampling,
) -> Outcome:
    """What training in a 16-bit format does to gradients and weights; nothing for programs without one."""
    format = trained_format(program)
    if format is None:
        return Outcome()
    study = _Study(program, declared, target, format, sampling)
    try:
        study.run(lines_of(known))
    except TensorproofError as reason:
        study.outcome.notes.append(f"training in {format.name} was not run: {reason}")
    return study.outcome


class _Study:
    """Runs one program and writes down what they show."""

    def __init__(self, program: TorchProgram, declared: Declarations, target: Target, format: Format, sampling: Sampling) -> None:
        self.program = program
        self.declared = declared
        self.target = target
        self.format = format
        self.sampling = sampling
        self.places = Places(program.traced.model)
        self.outcome = Outcome()

    def run(self, known: set[Line]) -> None:
        limit = self.sampling.time_limit
        end = None if limit is None else time.monotonic() + limit
        low, exact = Steps(self.program.traced, double=False), Steps(self.program.traced, double=True)
        typical, corners = self._points()
        compared = self._compare(low, exact, typical)
        if compared is None:
            return
        for point in corners:
            if compared.overflow is not None:
                break
            if end is not None and time.monotonic() >= end:
                self.outcome.notes.append(f"the runs in {self.format.name} were cut short by the time limit")
                break
            self._look(low, exact, point, compared)
        self._report_overflow(compared, known)
        self._report_vanished(compared)
        if compared.exact:
            self._state_scale(low, compared)
            self._report_step(low, compared.exact[0][0])
        self.outcome.notes.append(f"training in {self.format.name}: {low.runs} steps run, and {exact.runs} in float64")

    def _points(self) -> tuple[list[Point], list[Point]]:
        """Random points of the box, and others at its corners and beyond what is typical."""
        model = self.program.traced.model
        domains = domains_of(model, resolve(model, self.declared)[0][0])
        typical = list(points(self.sampling.seed, domains, COMPARED, tactics=("uniform",)))
        return typical, list(points(self.sampling.seed, domains, self.sampling.runs))

    def _compare(self, low: Steps, exact: Steps, typical: Sequence[Point]) -> _Comparison | None:
        """Both kinds of steps on typical points; None where they are not runs of one function."""
        compared = _Comparison()
        for point in typical:
            self._look(low, exact, point, compared, counted=True)
        if compared.exact:
            point, gradients = compared.exact[0]
            again = exact.gradients(point, seed=1)
            if again is None or any(not bool((again[name] == gradients[name]).all()) for name in gradients):
                self.outcome.notes.append("gradients were not compared: the program draws random numbers")
                return None
        return compared

    @staticmethod
    def _look(low: Steps, exact: Steps, point: Point, compared: _Comparison, *, counted: bool = False) -> None:
        found = low.gradients(point)
        if found is None or (is_finite(found) and not counted):
            return
        reference = exact.gradients(point)
        if reference is None or not is_finite(reference):
            return
        if not is_finite(found):
            if compared.overflow is None:
                compared.overflow = point
                compared.overflowing = tuple(name for name in found if not is_finite({name: found[name]}))
            return
        compared.exact.append((point, reference))
        for name in found.keys() & reference.keys():
            _count(compared.counts.setdefault(name, _Counts()), found[name], reference[name])

    # -- findings ---------------------------------------------------------------------------------------------------

    def _report_overflow(self, compared: _Comparison, known: set[Line]) -> None:
        point = compared.overflow
        if point is None:
            return
        shown = ProgramRunner(self.program.traced).replayed(point, gradients=True)
        lines = sorted(shown.backward_lines - known) if shown.bad_gradients and not shown.is_output_bad else []
        if not lines and shown.backward_lines & known:
            return
        names = compared.overflowing
        for line in lines or [None]:
            node = self._place(names[0]) if line is None else self.places.at_line(line)
            found = finding_at(
                GRADIENT_OVERFLOW,
                node,
                names[0],
                message=f"{GRADIENT_OVERFLOW.summary}: in {self.format.name} the gradient of {names[0]} is not finite,"
                " in float64 it is",
                target=self.target.name,
                format=self.format.name,
                low=-math.inf,
                high=math.inf,
                operand=names[0],
                line=line,
            )
            if self.sampling.folder is not None:
                found = replace(found, witness=save(self.sampling.folder, found, point, self.program, self.outcome.notes))
            self.outcome.findings.append(found)

    def _report_vanished(self, compared: _Comparison) -> None:
        """One finding per place: the gradient of which the largest share vanishes."""
        worst: dict[str, tuple[str, _Counts]] = {}
        for name, counts in sorted(compared.counts.items(), key=lambda item: -item[1].share):
            node = self._place(name)
            if counts.share > REPORTED_SHARE:
                worst.setdefault(name if node is None else node.name, (name, counts))
        for name, counts in worst.values():
            found = finding_at(
                GRADIENT_VANISHES,
                self._place(name),
                name,
                message=f"{GRADIENT_VANISHES.summary}: {counts.share:.1%} of the gradient of {name} are zero in {self.format.name},"
                f" the smallest of them {counts.smallest:.2g}",
                target=self.target.name,
                format=self.format.name,
                low=0.0,
                high=counts.smallest,
                operand=name,
                verdict=Verdict.POSSIBLE,
            )
            self.outcome.findings.append(found)

    def _report_step(self, low: Steps, point: Point) -> None:
        gradients = low.gradients(point)
        if gradients is None:
            return
        weights = {
            name: (parameter, gradients[name])
            for name, parameter in low.parameters.items()
            if str(parameter.dtype).removeprefix("torch.") in FORMATS and name in gradients
        }
        failed = adam_step(weights)
        if not failed:
            return
        first = max(failed, key=lambda name: failed[name])
        total = sum(parameter.numel() for parameter, _ in weights.values())
        about = f"{sum(failed.values())} of {total} weights are not finite after one step of Adam in {self.format.name}"
        epsilon = "is 0" if self.format.smallest_subnormal > 2 * EPSILON else "does not help"
        found = finding_at(
            OPTIMISER_STEP,
            self._place(first),
            first,
            message=f"{OPTIMISER_STEP.summary}: {about}, most of them in {first}; its epsilon of {EPSILON:g} {epsilon} there",
            target=self.target.name,
            format=self.format.name,
            low=0.0,
            high=float(gradients[first].abs().max()),
            operand=first,
        )
        self.outcome.findings.append(found)

    def _place(self, name: str) -> Node | None:
        """Where a gradient belongs: at the first use of a weight, or at the result of a module."""
        return self.places.using(name) or self.places.of_module(name)

    # -- loss scale -------------------------------------------------------------------------------------------------

    def _state_scale(self, low: Steps, compared: _Comparison) -> None:
        """Say which loss scale is needed: the smallest power of two that enough gradients survive with."""
        if not any(counts.nonzero for counts in compared.counts.values()):
            self.outcome.notes.append("all gradients are zero, in float32, too: nothing learns on the points that were run")
            return
        power = self._needed_power(low, compared)
        name, share = self.format.name, f"{SURVIVING_SHARE:.1%} of the gradients"
        self.outcome.stated |= {"format": name, "loss_scale": None if power is None else 2.0**power}
        if power is None:
            said = f"no loss scale up to 2^{LARGEST_SCALE} lets {share} survive in {name} without an overflow"
        elif power == 0:
            said = f"no loss scale is needed in {name}: {share} survive"
        else:
            said = f"loss scale needed in {name}: 2^{power}, with which {share} survive and none overflows"
        self.outcome.notes.append(said)

    def _needed_power(self, low: Steps, compared: _Comparison) -> int | None:
        if _survives(compared.counts):
            return 0
        for power in self._powers(compared):
            kept = self._at_scale(low, compared, power)
            if kept is None:
                return None
            if kept:
                return power
        return None

    def _powers(self, compared: _Comparison) -> range:
        """Powers of two to try: from the one that lifts all but a share of the lost elements over the smallest number."""
        import torch

        sizes = [g.abs().float().flatten() for _, gradients in compared.exact for g in gradients.values()]
        flat = torch.cat(sizes)
        flat = flat[flat > 0].sort().values
        at = float(flat[min(int((1.0 - SURVIVING_SHARE) * flat.numel()), flat.numel() - 1)])
        first = max(1, math.ceil(math.log2(self.format.smallest_subnormal / 2 / at)))
        return range(first, min(first + SCALES_TRIED, LARGEST_SCALE + 1))

    @staticmethod
    def _at_scale(low: Steps, compared: _Comparison, power: int) -> bool | None:
        """Whether enough gradients survive with a loss scale; None if one overflows."""
        counts: dict[str, _Counts] = {}
        for point, reference in compared.exact:
            found = low.gradients(point, scale=2.0**power)
            if found is None or not is_finite(found):
                return None
            for name in found.keys() & reference.keys():
                _count(counts.setdefault(name, _Counts()), found[name], reference[name])
        return _survives(counts)


def _count(counts: _Counts, found: Tensor, reference: Tensor) -> None:
    exact = reference.float()
    nonzero = exact != 0
    vanished = nonzero & (found == 0)
    counts.nonzero += int(nonzero.sum())
    counts.vanished += int(vanished.sum())
    if bool(vanished.any()):
        counts.smallest = min(counts.smallest, float(exact[vanished].abs().min()))


def _survives(counts: Mapping[str, _Counts]) -> bool:
    nonzero, vanished = sum(c.nonzero for c in counts.values()), sum(c.vanished for c in counts.values())
    return vanished <= (1.0 - SURVIVING_SHARE) * nonzero
