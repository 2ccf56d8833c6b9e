"""`exposed`: a program run again and again until its operators have failed, or what is allowed is used up.

A run ends with its first failure. The operator is settled then, and the program is run again for the others; runs without a
failure are repeated with the next seed. What counts are runs, steps of training and evaluations, so that the same seed gives the
same result; a time limit cuts the sequence short.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import numpy as np

from tensorproof.errors import AssumptionError, ConfigurationError, SourceError
from tensorproof.expose.events import Failure
from tensorproof.expose.findings import numbered, to_finding, to_report
from tensorproof.expose.host import Died, Host, OutOfTime
from tensorproof.expose.imports import OBSERVED, frameworks_of
from tensorproof.expose.outcome import Journal, Outcome, Seen
from tensorproof.expose.replays.recipe import Recipe, read_arrays
from tensorproof.expose.replays.shrinking import made_smaller
from tensorproof.expose.replays.witness import FAILED, Attempts, Kept, has_replay, replayed, write
from tensorproof.expose.settings import Method, Settings
from tensorproof.expose.workplace import Workplace, in_place, sandboxed
from tensorproof.findings import Finding, Report
from tensorproof.report.plain_text import count

#: What a report says that Ctrl-C cut short.
INTERRUPTED = "interrupted: what was found until then is here"
#: The log that is our own standard error.
STANDARD_ERROR = "-"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is. `stage` is `search` or `replay`."""

    stage: str
    run: int
    runs: int
    seed: int
    iteration: int
    found: int
    suspects: tuple[Seen, ...]
    settled: frozenset[str]


def exposed(
    script: str | Path,
    arguments: Sequence[str] = (),
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    method: Method = "search",
    epsilon: float = 0.15,
    switch_rate: float = 0.05,
    seed: int = 0,
    runs: int = 10,
    iterations: int = 1000,
    evaluations: int = 100_000,
    stop_after: int | None = None,
    budget: float | None = 1800.0,
    sandbox: bool = False,
    witnesses: str | Path | None = None,
    log: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    host: Host | None = None,
) -> Report:
    """Run a program under observation, and drive its operators into their failures: see `tensorproof.expose`.

    `host` is a process of an earlier call, with the framework loaded; replays are in fresh processes all the same.
    """
    path = Path(script)
    frameworks = _checked(path)
    settings = Settings(
        str(path),
        tuple(arguments),
        seed=seed,
        method=method,
        epsilon=epsilon,
        switch_rate=switch_rate,
        ranges={name: (float(low), float(high)) for name, (low, high) in (ranges or {}).items()},
        iterations=iterations,
        evaluations=evaluations,
    )
    _check(settings, runs, budget, stop_after)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tensorproof-"))).resolve()
        workplace = sandboxed(path, scratch) if sandbox else in_place(path)
        told = _log(log, stack)
        running_in = stack.enter_context(Host(workplace.folder, told)) if host is None else host
        folder = None if witnesses is None else Path(witnesses)
        deadline = None if budget is None else time.monotonic() + budget
        exposure = _Exposure(
            replace(settings, script=str(workplace.script)),
            workplace,
            running_in,
            scratch,
            folder,
            runs,
            stop_after,
            deadline,
            progress,
        )
        exposure.run()
    return to_report(
        str(script),
        settings,
        exposure.journal,
        numbered(exposure.findings),
        frameworks=frameworks,
        remarks=[*exposure.remarks, *(f"not run to its end: {e}" for e in exposure.errors), *_unused(settings, exposure.journal)],
        errors=exposure.errors,
        times=exposure.times,
    )


def _checked(path: Path) -> set[str]:
    """The frameworks that a program uses, if it can be run at all."""
    if not path.is_file():
        raise SourceError(str(path), "is a folder; name the script" if path.is_dir() else "there is no such file")
    try:
        found = frameworks_of(path)
    except SyntaxError as error:
        raise SourceError(str(path), f"not Python ({error.msg})", error.lineno) from None
    except (OSError, ValueError) as error:
        raise SourceError(str(path), f"cannot be read ({error})") from None
    if not found:
        known = " nor ".join(OBSERVED.values())
        raise SourceError(str(path), f"imports neither {known}: there is nothing to observe")
    for name in sorted(found):
        if find_spec(name) is None:
            raise SourceError(
                str(path), f"imports {OBSERVED[name]}, which is not installed here: pip install 'tensorproof[{name}]'"
            )
    return found


def _check(settings: Settings, runs: int, budget: float | None, stop_after: int | None) -> None:
    """Refuse numbers that make no sense."""
    if settings.method not in get_args(Method):
        raise ConfigurationError(f"method {settings.method!r}: write {', '.join(get_args(Method))}")
    for what, value, is_right, wanted in (
        ("epsilon", settings.epsilon, 0.0 < settings.epsilon <= 1.0, "above 0, at most 1"),
        ("switch rate", settings.switch_rate, 0.0 <= settings.switch_rate <= 1.0, "from 0 to 1"),
        ("seed", settings.seed, settings.seed >= 0, "0 or more"),
        ("runs", runs, runs >= 1, "1 or more"),
        ("iterations", settings.iterations, settings.iterations >= 0, "0 (as many as the program has) or more"),
        ("evaluations", settings.evaluations, settings.evaluations >= 1, "1 or more"),
        ("stop after", stop_after, stop_after is None or stop_after >= 1, "1 or more"),
        ("budget", budget, budget is None or budget > 0, "a number of seconds above 0"),
    ):
        if not is_right:
            raise ConfigurationError(f"{what} {value}: write {wanted}")
    for name, (low, high) in settings.ranges.items():
        if not low <= high or not math.isfinite(low) or not math.isfinite(high):
            raise AssumptionError(f"range of {name}: {low:g}:{high:g} is none that values can be moved in")


def _log(log: str | Path | None, stack: ExitStack) -> Callable[[bytes], Any] | None:
    """Where to put what the program prints."""
    if log is None:
        return None
    if str(log) == STANDARD_ERROR:

        def told(chunk: bytes) -> None:
            sys.stderr.write(chunk.decode("utf-8", "replace"))
            sys.stderr.flush()

        return told
    try:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        file = stack.enter_context(Path(log).open("wb", buffering=0))  # noqa: SIM115
    except OSError as error:
        raise ConfigurationError(f"{log}: the log cannot be written ({error.strerror})") from None
    return file.write


def _unused(settings: Settings, journal: Journal) -> list[str]:
    """Declared ranges that no value goes by."""
    if not journal.values:
        return []
    known = {name for value in journal.values.values() for name in (value.name, value.label)} | {"*"}
    return [f"a range was declared for {name}, and no value has that name" for name in settings.ranges if name not in known]


@dataclass(slots=True)
class _Exposure:
    """The sequence of runs."""

    settings: Settings
    workplace: Workplace
    host: Host
    scratch: Path
    folder: Path | None
    runs: int
    stop_after: int | None
    deadline: float | None
    progress: Callable[[Progress], None] | None
    journal: Journal = field(default_factory=Journal)
    findings: list[Finding] = field(default_factory=list[Finding])
    remarks: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    times: dict[str, float] = field(default_factory=lambda: {"search": 0.0, "search on the CPU": 0.0, "replay": 0.0})
    #: Runs that ended at a failure that was known.
    _repeated: int = 0
    _settled: set[str] = field(default_factory=set[str])
    _found: set[tuple[Any, ...]] = field(default_factory=set[tuple[Any, ...]])

    def run(self) -> None:
        """Run the program until nothing is left, or what is allowed is used up."""
        seed = self.settings.seed
        try:
            for number in range(self.runs):
                outcome = self._once(number, seed)
                if outcome.failure is not None and self._is_new(outcome.failure):
                    self._keep(outcome.failure, outcome.folder)
                    if len(self.findings) == self.stop_after:
                        return
                    if self.settings.method != "plain":
                        # The same random numbers again, for another operator.
                        continue
                elif not self._goes_on(outcome):
                    return
                seed += 1
                if self._is_nothing_left():
                    return
        except KeyboardInterrupt:
            self.remarks.append(INTERRUPTED)
        except OutOfTime:
            self.remarks.append("the time was used up: more of it may show more")
        if self._repeated:
            self.journal.notes[f"{count(self._repeated, 'run')} ended at failures that were known"] = None

    def _once(self, number: int, seed: int) -> Outcome:
        """One run."""
        folder = self.scratch / f"run{number}"
        folder.mkdir()
        self.workplace.refresh()
        outcome = Outcome(seed, folder)
        self.journal.outcomes.append(outcome)
        settings = replace(self.settings, seed=seed, settled=tuple(sorted(self._settled)))
        began = time.monotonic()
        try:
            for event in self.host.ask({"run": settings.to_json(), "folder": str(folder)}, self.deadline):
                self.journal.note(event, outcome)
                self.times["search on the CPU"] += event.get("cpu", 0.0)
                self._show("search", outcome)
        except Died:
            outcome.how, outcome.text = "failed", "the process of the program ended"
        finally:
            self.times["search"] += time.monotonic() - began
        return outcome

    def _show(self, stage: str, outcome: Outcome) -> None:
        if self.progress is not None:
            self.progress(
                Progress(
                    stage,
                    len(self.journal.outcomes),
                    self.runs,
                    outcome.seed,
                    outcome.iterations,
                    len(self.findings),
                    tuple(self.journal.suspects.values()),
                    frozenset(self._settled),
                )
            )

    def _is_new(self, failure: Failure) -> bool:
        place = Path(failure.file or "").name, failure.line, failure.column, failure.operator.strip("_")
        is_new = place not in self._found
        self._found.add(place)
        # Whatever else can go wrong with the operator there is the same defect.
        self._settled.update(name for name, seen in self.journal.suspects.items() if _is_there(seen, failure))
        # Operators that no search leads to fail, too.
        self._settled.add(":".join(map(str, (*place, failure.rule))))
        return is_new

    def _goes_on(self, outcome: Outcome) -> bool:
        """Whether another run can show more, after one that showed nothing new."""
        if outcome.failure is not None:
            self._repeated += 1
            return True
        if outcome.how == "failed":
            what = f"{self.workplace.known_as(str(self.workplace.script))}: {outcome.text}"
            if outcome.evaluations:
                self.journal.notes[f"with values moved, the program stopped: {outcome.text}"] = None
                return True
            printed = self.host.printed.strip().splitlines()
            self.errors.append(
                what + (f" (it printed last: {printed[-1].strip()[:200]})" if printed and "exit code" in what else "")
            )
            return False
        if not self.journal.suspects and not outcome.iterations:
            if outcome.operators == 0:
                self.errors.append(
                    f"{self.settings.script}: the program ran, and no operator of a framework was observed in it;"
                    " what processes compute that it starts is not seen"
                )
            else:
                self.remarks.append("no operator that can fail was observed, and no step of training")
            return False
        if not self.journal.iterations:
            self.journal.notes["no step of training was observed: the program computes, and changes no weights"] = None
        # Other seeds help only where something was moved, or everything depends on them.
        return bool(outcome.evaluations) or not self.settings.moves_inputs

    def _is_nothing_left(self) -> bool:
        return bool(self.journal.suspects) and self.journal.suspects.keys() <= self._settled | self.journal.proven

    # -- a failure ------------------------------------------------------------------------------------------------------

    def _keep(self, failure: Failure, folder: Path) -> None:
        """Replay a failure, and make a finding of it; if there is no time for that, the finding says so."""
        values = read_arrays(folder / failure.arrays)
        finite = {name: array for name, array in values.items() if array.dtype.kind != "f" or bool(np.isfinite(array).all())}
        recipe = Recipe(failure, self.workplace.original, self.settings.arguments, finite)
        self.findings.append(
            to_finding(failure, Kept(recipe, None, False, "it was not replayed: there was no time"), self.workplace)
        )
        began = time.monotonic()
        self._show("replay", self.journal.outcomes[-1])
        try:
            kept = self._replayed(recipe)
        finally:
            self.times["replay"] += time.monotonic() - began
        self.findings[-1] = to_finding(failure, kept, self.workplace)

    def _replayed(self, recipe: Recipe) -> Kept:
        if not has_replay(recipe.failure):
            return Kept(recipe, None, False, f"it was not replayed: there are no scripts for {recipe.failure.framework}")
        attempts = self.scratch / "attempts"
        smaller = made_smaller(recipe, Attempts(self.host, self.workplace, attempts, self.deadline))
        folder = self.folder if self.folder is not None else self.scratch / "witnesses"
        witness = write(smaller or recipe, folder)
        code, account = replayed(witness, self.workplace)
        return Kept(
            smaller or recipe, None if self.folder is None else witness, code == FAILED, f"a replay did not show it: {account}"
        )


def _is_there(seen: Seen, failure: Failure) -> bool:
    """Whether a suspect is the operator that failed, whatever it was suspected of."""
    if seen.name == failure.suspect:
        return True
    file = Path(failure.file or "").name
    if (Path(seen.file or "").name, seen.line) != (file, failure.line) or seen.operator.strip("_") != failure.operator.strip("_"):
        return False
    return failure.column is None or seen.name.startswith(f"{file}:{failure.line}:{failure.column}:")
