"""The search for arguments that make a function fail: special numbers, random ones, and steps towards each suspect's failure.

What a framework does is behind `Evaluator`: it calls the function with some values, says what failed and which operators might
have, and measures how near one of them is. Everything is counted in evaluations, so that the same seed gives the same result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import Protocol

import numpy as np

from tensorproof.confirm.witness import npz_bytes
from tensorproof.expose.events import Failure, Pipe
from tensorproof.expose.functions.argument import Argument
from tensorproof.expose.functions.declaration import FunctionSettings
from tensorproof.expose.functions.shrinking import simplified
from tensorproof.expose.search.board import PROGRESS, Suspect
from tensorproof.expose.search.leading import Measured
from tensorproof.expose.search.moves import cornered, linear, signed
from tensorproof.files import write_bytes
from tensorproof.formats import Array

Values = Mapping[str, Array]
#: Calls with special numbers, and steps towards one suspect from one start.
_CORNERS = 200
_STEPS = 60
#: Steps without progress, each a quarter of the last one, after which a suspect is left alone.
_PATIENCE = 8
#: Tries of ways to call a function.
TRIALS = 6
#: What is said of calls that show nothing.
ON_PURPOSE = "the function returned infinities that it writes itself"
UNEXPLAINED = "gradients are not finite, and no operator was seen to fail"
NOTHING_FLOATING = "it returned no floating tensor"


@dataclass(frozen=True, slots=True)
class Ran:
    """One call: why the function took none of it (empty if it did), what failed, and the operators that might have."""

    refused: str = ""
    failure: Failure | None = None
    suspects: Sequence[Suspect] = ()
    #: What it gave besides: infinities that it wrote itself, nothing that could be looked at.
    remark: str = ""


class Evaluator(Protocol):
    """A function that can be called and measured."""

    def run(self, values: Values) -> Ran:
        """Call it, and differentiate what it gives."""
        ...

    def measure(self, suspect: str, values: Values) -> Measured | None:
        """How near a suspect of the last call is with these values in place of those; None if that is not known."""
        ...


class Over(Exception):
    """The evaluations are used up."""


class FunctionSearch:
    """The search of one function."""

    def __init__(
        self, evaluator: Evaluator, arguments: Sequence[Argument], settings: FunctionSettings, pipe: Pipe, folder: Path
    ) -> None:
        self._evaluator = evaluator
        self._arguments = {argument.name: argument for argument in arguments}
        self._settings = settings
        self._pipe = pipe
        self._folder = folder
        self._suspects: dict[str, Suspect] = {}
        self._found: dict[tuple[str | int | None, ...], Failure] = {}
        self._remarks: dict[str, int] = {}
        self._files = 0
        self.evaluations = 0
        self.calls = 0
        self.refused = 0
        self.runs = 0

    def search(self) -> None:
        """Look for failures until the evaluations are used up, or every suspect has had its turns."""
        try:
            for number in range(self._settings.runs):
                self.runs = number + 1
                generator = np.random.default_rng([self._settings.seed, number])
                self._sample(generator, number)
                if self._settings.is_moved:
                    self._drive_all(generator, number)
        except Over:
            pass
        for text, times in self._remarks.items():
            self._pipe.send("note", text=f"{text} ({times} of {self.calls} calls)")

    # -- calls ----------------------------------------------------------------------------------------------------------

    def _sample(self, generator: np.random.Generator, number: int) -> None:
        """Calls with numbers that nothing led to."""
        if number == 0 and self._settings.is_moved:
            for values in islice(self._corners(generator), _CORNERS):
                self._call(values)
        for _ in range(max(1, self._settings.evaluations // (4 * self._settings.runs))):
            self._call({name: argument.drawn(generator) for name, argument in self._arguments.items()})

    def _corners(self, generator: np.random.Generator) -> Iterator[dict[str, Array]]:
        """One special number in all elements of each argument; all combinations if these are few."""
        yield {name: argument.even(generator) for name, argument in self._arguments.items()}
        choices = [argument.specials() for argument in self._arguments.values()]
        if math.prod(map(len, choices)) <= _CORNERS:
            for chosen in product(*choices):
                yield {name: argument.whole(value) for (name, argument), value in zip(self._arguments.items(), chosen)}
            return
        while True:
            yield {name: argument.whole(generator.choice(argument.specials())) for name, argument in self._arguments.items()}

    def _call(self, values: Values) -> Ran:
        self._count()
        self.calls += 1
        ran = self._evaluator.run(values)
        self.refused += bool(ran.refused)
        if ran.remark:
            self._remarks[ran.remark] = self._remarks.get(ran.remark, 0) + 1
        for suspect in ran.suspects:
            if suspect.name not in self._suspects:
                self._suspects[suspect.name] = suspect
                self._pipe.suspect(suspect)
        if ran.failure is not None:
            self._keep(ran.failure, values)
        return ran

    def _count(self) -> None:
        if self.evaluations >= self._settings.evaluations:
            raise Over
        self.evaluations += 1

    # -- steps towards a failure ----------------------------------------------------------------------------------------

    def _drive_all(self, generator: np.random.Generator, number: int) -> None:
        """Each suspect in turn, the nearest first, from numbers of the range."""
        for suspect in sorted(self._suspects.values(), key=lambda suspect: suspect.rank):
            if self._is_open(suspect):
                start = {name: a.drawn(generator) if number else a.even(generator) for name, a in self._arguments.items()}
                self._drive(suspect, start, generator)

    def _is_open(self, suspect: Suspect) -> bool:
        """Whether nothing failed there yet, or only its derivative did."""
        found = [failure for failure in self._found.values() if suspect.name.startswith(_beginning(failure))]
        if suspect.weakness.phase == "backward":
            return not found
        return all(failure.phase == "backward" for failure in found)

    def _drive(self, suspect: Suspect, values: dict[str, Array], generator: np.random.Generator) -> None:
        epsilon, idle = self._settings.epsilon, 0
        for step in range(_STEPS):
            ran = self._call(values)
            if ran.refused or ran.failure is not None:
                return
            now = self._measure(suspect, values)
            if now is None or not now.gradients:
                return
            suspect.note(now.objective)
            self._pipe.suspect(suspect)
            points = list(self._steps(values, now, epsilon, generator, is_first=step == 0))
            measured = [self._measure(suspect, point) for point in points]
            best, point = min(zip(map(_nearness, measured), points), key=lambda pair: pair[0])
            if best >= now.objective - PROGRESS:
                epsilon, idle = epsilon / 4.0, idle + 1
                if idle == _PATIENCE:
                    return
            if best < now.objective or idle == 0:
                values = point

    def _measure(self, suspect: Suspect, values: Values) -> Measured | None:
        self._count()
        return self._evaluator.measure(suspect.name, values)

    def _steps(
        self, values: Values, now: Measured, epsilon: float, generator: np.random.Generator, *, is_first: bool
    ) -> Iterator[dict[str, Array]]:
        """Where to go from here: a step of the sign, the corner of the range, and where straight lines lead.

        Objectives are logarithms of distances: by the slope of the logarithm, the distance itself would be zero one unit on.
        """
        moved = {name: a for name, a in self._arguments.items() if a.is_moved and name in now.gradients}
        slopes = now.gradients
        with np.errstate(over="ignore", invalid="ignore"):
            steps = {n: signed(values[n], slopes[n], a.bounds, epsilon, generator) for n, a in moved.items()}
            corners = {n: cornered(values[n], slopes[n], a.bounds) for n, a in moved.items()}
            near = {n: linear(values[n], 1.0, slopes[n], a.bounds) for n, a in moved.items()}
            lines = {n: linear(values[n], now.objective, slopes[n], a.bounds) for n, a in moved.items()} if is_first else {}
        for chosen in filter(None, (steps, corners, near, lines)):
            yield {**values, **{name: self._arguments[name].legal(array) for name, array in chosen.items()}}

    # -- failures -------------------------------------------------------------------------------------------------------

    def _keep(self, failure: Failure, values: Values) -> None:
        """Tell of a failure that is new, or shows already in the value where only a derivative was known to fail."""
        key = failure.file, failure.line, failure.column, failure.operator.strip("_")
        known = self._found.get(key)
        if known is not None and (known.phase == "forward" or failure.phase == "backward"):
            return
        self._found[key] = failure
        plain, shown = simplified(self._arguments, values, failure, self._again)
        file = self._folder / f"failure{self._files}.npz"
        self._files += 1
        write_bytes(file, npz_bytes(stored(self._arguments, plain)))
        self._found[key] = told = replace(shown, arrays=file.name)
        self._pipe.send("failure", **asdict(told))

    def _again(self, values: Values) -> Failure | None:
        """What fails with other values; these calls are not counted."""
        return self._evaluator.run(values).failure


def _nearness(measured: Measured | None) -> float:
    if measured is None or math.isnan(measured.objective):
        return math.inf
    return -math.inf if measured.has_failed else measured.objective


def refusal(error: BaseException) -> str:
    """An exception of the function in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


def _beginning(failure: Failure) -> str:
    """What the names of suspects begin with that are the operator that failed."""
    return f"{Path(failure.file or '').name}:{failure.line}:{failure.column}:{failure.operator.strip('_')}:"


def stored(arguments: Mapping[str, Argument], values: Values) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Values as files hold them: formats that NumPy does not have are numbers of a larger one."""
    found: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}
    for name, array in values.items():
        format = arguments[name].format
        kind = np.float64 if format.name == "float64" else np.float32 if format.is_float else np.int64
        found[name] = array.astype(bool if format.kind == "bool" else kind)
    return found
