"""The judge that runs: a mixture is good if it stays finite and close to float32 on every sample, in ONNX Runtime.

Every value of the mixture is looked at: none may hold more NaN or infinities than the same value of the float32 model. Floating
outputs may deviate by a tolerance that is measured in the format's epsilon, relative to the largest element of the output.

ONNX Runtime's CPU provider keeps chains of 16-bit operators in float32; 16-bit Identities behind every value make each one round
(`tensorproof.execute.instrument.rounded`). It has no kernels for bfloat16: there the float32 model is run, with every value of
the format rounded into it and back. Sums inside an operator accumulate in float32 in both cases, and values inside sub-graphs
(If, Loop, Scan) round where they leave them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tensorproof.confirm.sampling import Point
from tensorproof.errors import ModelError
from tensorproof.execute.instrument import instrumented, rounded
from tensorproof.execute.runtime import Runtime, Session
from tensorproof.execute.worker import Measure, WorkerDied, WorkerError
from tensorproof.formats import FLOAT16, Format
from tensorproof.low_precision.mixed import Blueprint, Mixed, MixedValue, low_values
from tensorproof.low_precision.search import Budget, Reasons, nearest_converted, readers

if TYPE_CHECKING:
    import onnx

#: How ONNX Runtime says that an operator cannot be run in a format; the group is the operator.
_NO_KERNEL = (
    re.compile(r"Could not find an implementation for (?:[\w.]+:)?(\w+)\(\d+\)"),
    re.compile(r"of operator \((\w+)\) in node \([^)]*\) is invalid"),
)


class Deviation(NamedTuple):
    """How far an array is from another: the largest difference, the same relative to the largest element, and in epsilons."""

    absolute: float
    relative: float
    units: float

    @classmethod
    def of(cls, array: npt.NDArray[Any], exact: npt.NDArray[Any], format: Format) -> Deviation:
        """Of floating arrays, where the exact one is finite; other arrays do not deviate."""
        if exact.dtype.kind != "f" or array.shape != exact.shape:
            return cls(0.0, 0.0, 0.0)
        finite = np.isfinite(exact)
        if not finite.any():
            return cls(0.0, 0.0, 0.0)
        wanted = exact[finite].astype(np.float64)
        with np.errstate(invalid="ignore"):
            absolute = float(np.abs(array[finite].astype(np.float64) - wanted).max())
        absolute = math.inf if math.isnan(absolute) else absolute
        scale = max(float(np.abs(wanted).max()), format.smallest_normal)
        return cls(absolute, absolute / scale, absolute / scale / (2.0 * format.unit_roundoff))


class Reference(NamedTuple):
    """What the float32 model gives for a sample: its outputs, and the measure of each floating value."""

    outputs: list[npt.NDArray[Any]]
    measures: dict[str, Measure]


class Failure(NamedTuple):
    """How a mixture fails on a sample: at its first value that is not finite, or by outputs that are too far off."""

    number: int
    value: MixedValue | None


class Check(NamedTuple):
    """How a plan did on fresh samples: on how many it failed, and the largest deviations of any floating output."""

    samples: int
    failures: int
    absolute: float
    relative: float
    units: float

    @property
    def passed(self) -> bool:
        return self.failures == 0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; a deviation that is not finite is null."""
        figures = {name: figure if math.isfinite(figure) else None for name, figure in self._asdict().items()}
        return {**figures, "passed": self.passed}


class Sampled:
    """Runs mixtures on samples. Samples that failed before come first: most mixtures that fail do so at once."""

    def __init__(self, blueprint: Blueprint, points: Sequence[Point], runtime: Runtime, budget: Budget, tolerance: float) -> None:
        self.blueprint = blueprint
        self.runtime = runtime
        self.budget = budget
        self.tolerance = tolerance
        self.is_emulated = blueprint.format is not FLOAT16
        self.points: list[Point] = []
        self.references: list[Reference] = []
        self._order: list[int] = []
        self._values = [v for part in blueprint.parts for v in part.node.output if v in blueprint.types]
        self._observed = [v for v in self._values if v not in blueprint.outputs and v not in blueprint.constants]
        self._reference_session = runtime.session(instrumented(blueprint.proto, [*blueprint.outputs, *self._observed]))
        self.add(points)

    def add(self, points: Sequence[Point]) -> None:
        """Further samples; the float32 model is run on each. Raises ModelError if ONNX Runtime cannot."""
        for point in points:
            try:
                outputs, measures = self._reference_session.measure(point, len(self.blueprint.outputs))
            except (WorkerError, WorkerDied) as error:
                raise ModelError(f"{self.blueprint.tensors.name}: ONNX Runtime does not run the model ({error})") from None
            measured = {**_measured(self.blueprint.outputs, outputs), **dict(zip(self._observed, measures))}
            self._order.append(len(self.points))
            self.points.append(point)
            self.references.append(Reference(outputs, measured))

    def close(self) -> None:
        """Free what the float32 model holds in the runtime."""
        self._reference_session.close()

    def exclude_what_cannot_run(self) -> None:
        """Leave operators as they are that ONNX Runtime has no kernels for in the format, neither there nor by casting."""
        while self.points:
            session = self._session(self._mixed(()))
            try:
                session.measure(self.points[0], len(self.blueprint.outputs))
                session.close()
                return
            except (WorkerError, WorkerDied) as error:
                matches = (pattern.search(str(error)) for pattern in _NO_KERNEL)
                operator = next((match[1] for match in matches if match), None)
                why = f"ONNX Runtime's CPU provider has no {self.blueprint.format} kernel of {operator}"
                if operator is None or not self.blueprint.exclude(operator, why):
                    raise ModelError(
                        f"{self.blueprint.tensors.name}: its {self.blueprint.format} form does not run ({error})"
                    ) from None

    def out_of_range(self) -> dict[str, str]:
        """The nodes that compute or read a value which leaves the format on some sample already in float32."""
        found: dict[str, str] = {}
        reached = self._reached()
        for part in self.blueprint.free:
            for value in part.low_reads():
                if reached.get(value, 0.0) >= _overflow_threshold(self.blueprint.format):
                    found[part.name] = f"reads {value}, which reaches {reached[value]:.4g}"
            for index in sorted(part.low_outputs):
                value = part.node.output[index]
                if reached.get(value, 0.0) >= _overflow_threshold(self.blueprint.format):
                    found[part.name] = f"its result reaches {reached[value]:.4g}"
        return found

    def _reached(self) -> dict[str, float]:
        """The largest finite magnitude of each value over all samples; of constants, that of their elements."""
        reached = dict.fromkeys(self._values, 0.0)
        for reference in self.references:
            for value, measure in reference.measures.items():
                reached[value] = max(reached.get(value, 0.0), measure.largest)
        for point in self.points:
            for value, measure in _measured(list(point), list(point.values())).items():
                reached[value] = max(reached.get(value, 0.0), measure.largest)
        for value in self.blueprint.constants:
            self.blueprint.low_constant(value)
            if self.blueprint.changes.get(value) == "overflow":
                reached[value] = Measure.of(self.blueprint.tensors.array(self.blueprint.constants[value])).largest
        return reached

    def count_failures(self, kept: Collection[str]) -> int:
        """On how many samples a mixture fails."""
        mixed = self._mixed(kept)
        session = self._session(mixed)
        failed = [number for number in range(len(self.points)) if self._failure(mixed, session, number) is not None]
        first = set(failed)
        self._order = [*failed, *(number for number in self._order if number not in first)]
        session.close()
        return len(failed)

    def check(self, kept: Collection[str]) -> tuple[Check, list[Point]]:
        """How a mixture does on all samples, and those on which it fails.

        In float16 the mixed model is also run as it is, without forced rounding, and must be as close.
        """
        mixed = self._mixed(kept)
        sessions = [self._session(mixed)]
        if not self.is_emulated:
            sessions.append(self.runtime.session(instrumented(mixed.proto, [*self.blueprint.outputs, *self._inner(mixed)])))
        worst = Deviation(0.0, 0.0, 0.0)
        failed: list[Point] = []
        for number, point in enumerate(self.points):
            failures: list[Failure | None] = []
            for session in sessions:
                outputs, measures = self._run(mixed, session, number)
                failures.append(self._judged(mixed, number, outputs, measures))
                for pair in zip(outputs, self.references[number].outputs):
                    worst = Deviation(*map(max, worst, Deviation.of(*pair, self.blueprint.format)))
            if any(failures):
                failed.append(point)
        for session in sessions:
            session.close()
        return Check(len(self.points), len(failed), *worst), failed

    def accepts(self, kept: Collection[str]) -> bool:
        return self._first_failure(kept) is None

    def objections(self, kept: Collection[str]) -> Reasons:
        failure = self._first_failure(kept)
        if failure is None:
            return {}
        found = self._against_value(failure.value, kept) if failure.value is not None else self._against_deviation(failure, kept)
        return found or {part.name: "no smaller set was found" for part in self.blueprint.free if part.name not in kept}

    def _first_failure(self, kept: Collection[str]) -> Failure | None:
        mixed = self._mixed(kept)
        session = self._session(mixed)
        try:
            for place, number in enumerate(self._order):
                failure = self._failure(mixed, session, number)
                if failure is not None:
                    self._order.insert(0, self._order.pop(place))
                    return failure
            return None
        finally:
            session.close()

    def _mixed(self, kept: Collection[str]) -> Mixed:
        return self.blueprint.emulated(kept) if self.is_emulated else self.blueprint.mixed(kept)

    def _session(self, mixed: Mixed) -> Session:
        return self.runtime.session(instrumented(self._rounding(mixed), [*self.blueprint.outputs, *self._inner(mixed)]))

    def _rounding(self, mixed: Mixed) -> onnx.ModelProto:
        return mixed.proto if self.is_emulated else rounded(mixed.proto, low_values(mixed))

    def _inner(self, mixed: Mixed) -> list[str]:
        """The values of a mixture that are no outputs."""
        outputs = set(self.blueprint.outputs)
        return [value.name for value in mixed.values if value.name not in outputs]

    def _failure(self, mixed: Mixed, session: Session, number: int) -> Failure | None:
        self.budget.spend()
        return self._judged(mixed, number, *self._run(mixed, session, number))

    def _run(self, mixed: Mixed, session: Session, number: int) -> tuple[list[npt.NDArray[Any]], dict[str, Measure]]:
        """The outputs of a mixture for a sample, and the measure of each of its values."""
        try:
            outputs, inner = session.measure(self.points[number], len(self.blueprint.outputs))
        except (WorkerError, WorkerDied) as error:
            raise ModelError(f"{self.blueprint.tensors.name}: a mixed model does not run ({error})") from None
        return outputs, {**_measured(self.blueprint.outputs, outputs), **dict(zip(self._inner(mixed), inner))}

    def _judged(
        self, mixed: Mixed, number: int, outputs: Sequence[npt.NDArray[Any]], measures: Mapping[str, Measure]
    ) -> Failure | None:
        reference = self.references[number]
        for value in mixed.values:
            if measures[value.name].not_finite > self._not_finite(reference, number, value.original):
                return Failure(number, value)
        far = (Deviation.of(*pair, self.blueprint.format).units > self.tolerance for pair in zip(outputs, reference.outputs))
        return Failure(number, None) if any(far) else None

    def _not_finite(self, reference: Reference, number: int, value: str) -> int:
        measure = reference.measures.get(value)
        return measure.not_finite if measure is not None else Measure.of(self.points[number].get(value)).not_finite

    def _against_value(self, value: MixedValue, kept: Collection[str]) -> dict[str, str]:
        """The first value that is not finite: its node; if that is float32 already, what feeds it; for a cast, who reads it."""
        name = self.blueprint.format.name
        if value.is_low and value.is_cast:
            why = f"reads {value.original}, which is not finite in {name}"
            return dict.fromkeys(readers(self.blueprint, value.original, kept), why)
        if value.is_low:
            return {value.producer: f"its result is not finite in {name}"}
        feeding = nearest_converted(self.blueprint, value.producer, kept)
        return dict.fromkeys(feeding, f"{value.producer} fails on what it gives in {name}")

    def _against_deviation(self, failure: Failure, kept: Collection[str]) -> dict[str, str]:
        """The first value that is farther from float32 than an output may be, and has something to keep."""
        mixed = self._mixed(kept)
        point = self.points[failure.number]
        session = self._session(mixed)
        found = dict(zip([*self.blueprint.outputs, *self._inner(mixed)], session.run(point)))
        session.close()
        exact = dict(zip([*self.blueprint.outputs, *self._observed], self._reference_session.run(point)))
        for value in mixed.values:
            if value.original not in exact:
                continue
            units = Deviation.of(found[value.name], exact[value.original], self.blueprint.format).units
            more = self._against_value(value, kept) if units > self.tolerance else {}
            if more:
                return dict.fromkeys(more, f"{value.original} is off by {units:.3g} epsilons")
        return {}


def _measured(names: Sequence[str], arrays: Sequence[Any]) -> dict[str, Measure]:
    return {name: Measure.of(array) for name, array in zip(names, arrays)}


def _overflow_threshold(format: Format) -> float:
    """The smallest number that rounds to infinity: half a unit in the last place above the largest one (IEEE 754-2019, 4.3.1)."""
    return format.high + format.quantum_at(format.high) / 2.0
