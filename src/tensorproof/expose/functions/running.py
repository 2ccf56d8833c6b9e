"""`exposed_function`: the arguments of one function searched for those that make it, or its derivative, NaN or infinite."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tensorproof.errors import AssumptionError, ConfigurationError, TensorproofError
from tensorproof.expose.events import Failure, failure_of
from tensorproof.expose.findings import PROVES_NOTHING, numbered
from tensorproof.expose.functions.declaration import Declared, FunctionSettings, parse_arguments
from tensorproof.expose.functions.witness import Calling, write
from tensorproof.expose.host import Died, Host, OutOfTime
from tensorproof.expose.outcome import Journal, Outcome
from tensorproof.expose.replays.recipe import Arrays, read_arrays
from tensorproof.expose.replays.witness import FAILED, replayed
from tensorproof.expose.running import INTERRUPTED, Progress
from tensorproof.expose.workplace import Workplace
from tensorproof.findings import Coverage, Finding, Location, Report, Unanalysed, Verdict, Witness
from tensorproof.formats import BY_NAME
from tensorproof.report.plain_text import count, number
from tensorproof.rules import all_rules

#: Evaluations that a search takes, if nobody says how many.
EVALUATIONS = 5000
#: Elements of an array that a message lists.
_LISTED = 6
_SERVER = "tensorproof.expose.functions.server"


def exposed_function(
    function: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    method: str = "search",
    epsilon: float = 0.15,
    seed: int = 0,
    runs: int = 10,
    evaluations: int = EVALUATIONS,
    stop_after: int | None = None,
    budget: float | None = 600.0,
    witnesses: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Search the arguments of a function: see `tensorproof.expose_function`."""
    tensors, literals = parse_arguments(arguments or {})
    for name, (low, high) in (ranges or {}).items():
        tensors[name] = _ranged(name, tensors.get(name, Declared()), float(low), float(high), name in literals)
    settings = FunctionSettings(function, str(Path.cwd()), tensors, literals, method == "search", epsilon, seed, runs, evaluations)
    _check(settings, method, budget, stop_after)
    with tempfile.TemporaryDirectory(prefix="tensorproof-") as scratch:
        folder = None if witnesses is None else Path(witnesses)
        search = _Search(settings, Path(scratch).resolve(), folder, stop_after, budget, progress)
        search.run()
        return search.report()


def _ranged(name: str, declared: Declared, low: float, high: float, is_literal: bool) -> Declared:
    if is_literal:
        raise AssumptionError(f"range of {name}: its value is given")
    if not low <= high or not math.isfinite(low) or not math.isfinite(high):
        raise AssumptionError(f"range of {name}: {low:g}:{high:g} is none that values can be moved in")
    return replace(declared, kind="box", low=low, high=high)


def _check(settings: FunctionSettings, method: str, budget: float | None, stop_after: int | None) -> None:
    if method not in ("search", "plain"):
        raise ConfigurationError(f"method {method!r}: for a function, write search or plain")
    for what, value, is_right, wanted in (
        ("epsilon", settings.epsilon, 0.0 < settings.epsilon <= 1.0, "above 0, at most 1"),
        ("seed", settings.seed, settings.seed >= 0, "0 or more"),
        ("runs", settings.runs, settings.runs >= 1, "1 or more"),
        ("evaluations", settings.evaluations, settings.evaluations >= 1, "1 or more"),
        ("stop after", stop_after, stop_after is None or stop_after >= 1, "1 or more"),
        ("budget", budget, budget is None or budget > 0, "a number of seconds above 0"),
    ):
        if not is_right:
            raise ConfigurationError(f"{what} {value}: write {wanted}")


@dataclass(slots=True)
class _Search:
    """A search, and what it showed."""

    settings: FunctionSettings
    scratch: Path
    folder: Path | None
    stop_after: int | None
    budget: float | None
    progress: Callable[[Progress], None] | None
    journal: Journal = field(default_factory=Journal)
    calling: Calling | None = None
    failures: dict[tuple[Any, ...], Failure] = field(default_factory=dict[tuple[Any, ...], Failure])
    findings: list[Finding] = field(default_factory=list[Finding])
    remarks: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    times: dict[str, float] = field(default_factory=dict[str, float])
    evaluations: int | None = None

    def run(self) -> None:
        """Search, then replay what failed; Ctrl-C ends either, and what was found is kept."""
        began = time.monotonic()
        deadline = None if self.budget is None else began + self.budget
        workplace = Workplace(Path(self.settings.function), Path.cwd())
        try:
            self._searched(deadline)
        except KeyboardInterrupt:
            self.remarks.append(INTERRUPTED)
        except OutOfTime:
            self.remarks.append("the time was used up: more of it may show more")
        except Died:
            self.errors.append(f"{self.settings.function}: the process that called it ended")
        if self.calling is None and not self.errors:
            self.errors.append(f"{self.settings.function}: it was not called before the end")
        self.times["search"] = time.monotonic() - began
        began = time.monotonic()
        for failure in self.failures.values():
            try:
                self.findings.append(self._kept(failure, workplace))
            except KeyboardInterrupt:
                self.remarks += [INTERRUPTED] if INTERRUPTED not in self.remarks else []
        self.times["replay"] = time.monotonic() - began

    def _searched(self, deadline: float | None) -> None:
        outcome = Outcome(self.settings.seed, self.scratch)
        self.journal.outcomes.append(outcome)
        command = {"search": self.settings.to_json(), "folder": str(self.scratch)}
        with Host(Path.cwd(), server=_SERVER) as host:
            for event in host.ask(command, deadline):
                self._note(event, outcome)
                if len(self.failures) == self.stop_after:
                    return

    def _note(self, event: dict[str, Any], outcome: Outcome) -> None:
        kind = event["event"]
        if kind == "arranged":
            self.calling = Calling.of(self.settings.function, event)
        elif kind == "failure":
            failure = failure_of(event)
            self.failures[failure.file, failure.line, failure.column, failure.operator.strip("_")] = failure
        elif kind == "ended" and event["how"] == "refused":
            raise TensorproofError(event["text"])
        elif kind == "done":
            self.times["search on the CPU"] = event["cpu"]
        else:
            self.evaluations = event.get("evaluations", self.evaluations)
            self.journal.note(event, outcome)
        if self.progress is not None:
            suspects = tuple(self.journal.suspects.values())
            self.progress(
                Progress("search", 1, 1, self.settings.seed, outcome.evaluations, len(self.failures), suspects, frozenset())
            )

    # -- failures -------------------------------------------------------------------------------------------------------

    def _kept(self, failure: Failure, workplace: Workplace) -> Finding:
        assert self.calling is not None
        file = self.scratch / failure.arrays
        arrays = read_arrays(file)
        described = [f"{name} = {_listed(array)}" for name, array in arrays.items()]
        folder = self.folder if self.folder is not None else self.scratch / "witnesses"
        witness = write(self.calling, failure, described, file.read_bytes(), folder)
        code, account = replayed(witness, workplace)
        shown = None if self.folder is None else witness
        return self._finding(failure, arrays, shown, "" if code == FAILED else account, workplace)

    def _finding(self, failure: Failure, arrays: Arrays, witness: Witness | None, account: str, workplace: Workplace) -> Finding:
        rule, format = all_rules()[failure.rule], BY_NAME.get(failure.format)
        given = [f"{name} = {_listed(array)}" for name, array in arrays.items()]
        given += [f"{name} = {value!r}" for name, value in (self.calling.literals if self.calling else {}).items()]
        told = f"{failure.message}{_within(failure)}. {self.settings.function} with {', '.join(given)}"
        return Finding(
            rule=rule,
            node=f"{self.settings.function}/{failure.operator}",
            op=f"{'aten.' if failure.framework == 'torch' else ''}{failure.operator}",
            operand=failure.operand,
            low=failure.low,
            high=failure.high,
            message=f"{told}. A replay did not show it: {account}" if account else told,
            target=f"{failure.framework}-cpu",
            format=failure.format,
            phase=failure.phase,
            verdict=Verdict.POSSIBLE if account else Verdict.CONFIRMED,
            limit=format.high if format is not None and rule.code.startswith("NUM2") else None,
            reached=None if math.isnan(failure.low) else (failure.low, failure.high),
            reaches=failure.reaches,
            location=_location(failure, workplace),
            witness=witness,
        )

    # -- the report -----------------------------------------------------------------------------------------------------

    def report(self) -> Report:
        """All that the search showed."""
        suspects = sorted(self.journal.suspects.values(), key=lambda seen: seen.name)
        failed = {(f.file, f.line, f.operator.strip("_")) for f in self.failures.values()}
        searched = [s for s in suspects if s.evaluations or (s.file, s.line, s.operator.strip("_")) in failed]
        return Report(
            model=self.settings.function,
            target="" if self.calling is None else f"{self.calling.framework}-cpu",
            precision=None,
            assumptions=self._assumptions(),
            coverage=Coverage(
                nodes=len(suspects),
                checkable=len(suspects),
                checked=len(searched),
                not_analysed=tuple(
                    Unanalysed(s.name, s.operator, "it ran, and no argument that can be moved leads there")
                    for s in suspects
                    if s not in searched
                ),
                remarks=(PROVES_NOTHING.replace("these runs", "these calls"), *self.remarks),
            ),
            findings=numbered(self.findings),
            proven_safe=(),
            proven_safe_if={},
            times=self.times,
            errors=tuple(self.errors),
        )

    def _assumptions(self) -> dict[str, Any]:
        settings, calling = self.settings, self.calling
        words = {} if calling is None else calling.words
        spent = "" if self.evaluations is None else f", {count(self.evaluations, 'evaluation')}"
        guesses = () if calling is None else calling.guesses
        notes = [f"seed {settings.seed}{spent}"]
        notes += [f"guessed: {guess}" for guess in guesses]
        return {
            "function": settings.function,
            "method": "search" if settings.is_moved else "plain",
            "seed": settings.seed,
            "arguments": {} if calling is None else {name: repr(value) for name, value in calling.literals.items()},
            "weights": "none",
            "inputs": {
                value.name: {
                    "range": [value.low, value.high],
                    "source": calling.sources.get(value.name, "assumed") if calling is not None else "assumed",
                    "text": words.get(value.name, ""),
                }
                for value in self.journal.values.values()
            },
            "suspects": [
                {
                    "name": seen.name,
                    "operator": seen.operator,
                    "line": seen.line,
                    "rule": seen.rule,
                    "phase": seen.phase,
                    "distance": seen.distance,
                    "evaluations": seen.evaluations,
                }
                for seen in sorted(self.journal.suspects.values(), key=lambda seen: seen.name)
            ],
            "notes": [*notes, *self.journal.notes],
        }


def _location(failure: Failure, workplace: Workplace) -> Location | None:
    """The line of the function; functions of C++ have none."""
    if failure.file is None:
        return None
    column = None if failure.column is None else failure.column + 1
    return Location(workplace.known_as(failure.file), failure.line, column=column)


def _within(failure: Failure) -> str:
    """The line of a library, for formats that know files of the user's alone."""
    _, installed, rest = (failure.file or "").rpartition("site-packages/")
    return f"; at {rest}:{failure.line}" if installed else ""


def _listed(array: Any) -> str:
    """An array in words: its numbers if they are few, or else its range and shape."""
    flat = np.asarray(array).reshape(-1)
    if 0 < flat.size <= _LISTED:
        told = ", ".join(number(float(value)) for value in flat)
        shape = "" if array.ndim <= 1 else f" (shape {' x '.join(map(str, array.shape))})"
        return f"[{told}]{shape}" if array.ndim else told
    ends = f"in [{number(float(flat.min()))}, {number(float(flat.max()))}]" if flat.size else "nothing"
    return f"numbers {ends}, shape {' x '.join(map(str, array.shape))}"
