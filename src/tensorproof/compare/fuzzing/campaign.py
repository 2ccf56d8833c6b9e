"""`run_campaign`: tests of a plan on many backends, their discrepancies explained, told apart, and shown again by a script.

Decisions are made in the order of the tests' numbers, whatever order results arrive in: which discrepancies are new, which
explanations are one finding. So a campaign on two processes, on a cluster, or cut in two by a kill comes to the same findings, and
a time limit only ends the sequence earlier.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tensorproof.compare.drawing import Arrays
from tensorproof.compare.fuzzing.discrepancy import Discrepancy
from tensorproof.compare.fuzzing.executors import Engine, Executor, open_executor
from tensorproof.compare.fuzzing.finding import CampaignFinding, Explanation, array_to_json
from tensorproof.compare.fuzzing.journal import Journal
from tensorproof.compare.fuzzing.known_issues import KnownIssue, mark_known
from tensorproof.compare.fuzzing.scripts import file_name
from tensorproof.compare.spec import Json, TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.process import TIME_LIMIT
from tensorproof.errors import ConfigurationError
from tensorproof.interrupts import Interrupts, held

#: Discrepancies with one rough symptom that are explained; later ones are only counted. Each death costs the start of a process.
EXPLAINED = 3
EXPLAINED_DEATHS = 1
#: Scripts that are tried for one finding.
SCRIPTS = 2
#: Seconds after Ctrl-C in which tests that are under way may still end.
GRACE = 10.0
_INTERVAL = 0.2


class TestSource(Protocol):
    """Tests by number; the same number is always the same test."""

    def __getitem__(self, number: int) -> TestSpec: ...


#: Tests that are done, distinct findings so far, explanations and scripts under way.
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class CampaignOptions:
    """`tests` and `budget` (seconds) end a campaign, whichever comes first. `folder` holds its journal and its scripts."""

    backends: tuple[BackendId, ...]
    seed: int = 0
    tests: int | None = 200
    budget: float | None = None
    folder: Path = Path("tensorproof-fuzz")
    resume: bool = False
    jobs: int = max(1, min(os.cpu_count() or 1, 8))
    engine: Engine = "pool"
    known_issues: tuple[KnownIssue, ...] = ()
    time_limit: float = TIME_LIMIT


@dataclass(frozen=True)
class CampaignResult:
    """Findings in the order of the tests that first showed them; known ones are among them, marked.

    `not_reproduced` are signatures whose script did not show them again, `errors` mistakes of tensorproof itself.
    """

    findings: tuple[CampaignFinding, ...]
    tests: int
    numbers: tuple[int, ...]
    discrepancies: int
    deaths: int
    not_reproduced: tuple[str, ...]
    runs: Mapping[str, float]
    cpu_seconds: Mapping[str, float]
    unavailable: Mapping[str, float]
    missing: Mapping[str, str]
    versions: Mapping[str, str]
    seconds: float
    errors: tuple[str, ...] = ()
    interrupted: bool = False

    @property
    def shown(self) -> tuple[CampaignFinding, ...]:
        """The findings that no known issue hides."""
        return tuple(finding for finding in self.findings if finding.known is None)


def run_campaign(options: CampaignOptions, plan: TestSource, progress: Progress | None = None) -> CampaignResult:
    """Run, or go on with, a campaign. Ctrl-C ends it early, with everything that was found out in the journal."""
    if options.tests is None and options.budget is None:
        raise ConfigurationError("a campaign needs an end: --tests or --budget")
    journal = Journal(options.folder / "journal.jsonl", resume=options.resume)
    with journal:
        executor = open_executor(options.engine, options.jobs, time_limit=options.time_limit)
        try:
            with held() as interrupts:
                return _Campaign(options, plan, journal, executor, progress, interrupts).run()
        finally:
            executor.close()


@dataclass
class _Signature:
    """Explanations of one finding in their order, and what became of their scripts."""

    candidates: list[tuple[int, Explanation]] = field(default_factory=list[tuple[int, Explanation]])
    tried: int = 0
    busy: bool = False
    verified: Mapping[str, Json] | None = None
    rough: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])


class _Campaign:
    def __init__(
        self,
        options: CampaignOptions,
        plan: TestSource,
        journal: Journal,
        executor: Executor,
        progress: Progress | None,
        interrupts: Interrupts,
    ) -> None:
        self._options, self._plan, self._journal, self._executor, self._progress = options, plan, journal, executor, progress
        self._interrupts = interrupts
        self._started = time.monotonic()
        self._tickets: dict[int, Callable[[dict[str, Json]], None]] = {}
        self._next_ticket = 0
        #: What is in the journal: results of tests, explanations by test and place, scripts by signature and attempt.
        self._results: dict[int, Mapping[str, Json]] = {}
        self._explained: dict[tuple[int, int], Mapping[str, Json]] = {}
        self._verified: dict[tuple[str, int], Mapping[str, Json]] = {}
        self._frontier = 0
        self._rough: Counter[tuple[str, ...]] = Counter()
        self._wanted: list[tuple[int, int]] = []
        self._settled = 0
        self._signatures: dict[str, _Signature] = {}
        self._versions: dict[str, dict[str, str]] = {}
        self._missing: dict[str, str] = {}
        self._deaths = 0
        self._ending = False
        self._backends: tuple[BackendId, ...] = ()

    # -- the course of a campaign -------------------------------------------------------------------------------------

    def run(self) -> CampaignResult:
        interrupted = False
        try:
            self._begin()
            self._course()
        except KeyboardInterrupt:
            interrupted = True
            self._drain(time.monotonic() + GRACE)
        return self._result(interrupted)

    def _course(self) -> None:
        number = 0
        while True:
            self._advance()
            while self._may_start(number):
                if number not in self._results:
                    self._start_test(number)
                number += 1
                self._advance()
            if not self._tickets:
                return
            self._collect()

    def _may_start(self, number: int) -> bool:
        options = self._options
        if options.tests is not None and number >= options.tests:
            return False
        if number in self._results:
            return True
        if options.budget is not None and time.monotonic() - self._started >= options.budget:
            return False
        # One task waits behind each that is under way. Explanations were submitted before, and come first.
        return len(self._tickets) < 2 * self._executor.slots

    def _collect(self) -> None:
        for ticket, result in self._executor.wait(_INTERVAL):
            self._tickets.pop(ticket)(result)
        if self._progress is not None:
            found = sum(entry.verified is not None for entry in self._signatures.values())
            self._progress(len(self._results), found, len(self._tickets))
        # Every result that has arrived is in the journal now: here, and only here, Ctrl-C loses nothing.
        self._interrupts.take()

    def _drain(self, deadline: float) -> None:
        """Tests that are under way may end; nothing new is begun."""
        self._ending = True
        try:
            while self._tickets and time.monotonic() < deadline:
                self._collect()
        except KeyboardInterrupt:
            pass

    def _submit(self, task: Mapping[str, Json], then: Callable[[dict[str, Json]], None]) -> None:
        self._tickets[self._next_ticket] = then
        self._executor.submit(self._next_ticket, task)
        self._next_ticket += 1

    # -- the beginning ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Read the journal, learn what is installed, and check that it is the same campaign."""
        for entry in self._journal.entries:
            if entry["type"] == "test":
                self._results[entry["number"]] = entry
            elif entry["type"] == "explained":
                self._explained[entry["number"], entry["place"]] = entry
            elif entry["type"] == "script":
                self._verified[entry["signature"], entry["attempt"]] = entry
            self._deaths += entry.get("deaths", 0)
        for backend in self._options.backends:
            self._submit({"verb": "versions", "backend": str(backend)}, self._note_versions(backend))
        while self._tickets:
            self._collect()
        self._backends = tuple(backend for backend in self._options.backends if str(backend) not in self._missing)
        if not self._backends:
            raise ConfigurationError("no backend can run: " + "; ".join(f"{name}: {why}" for name, why in self._missing.items()))
        facts = {"seed": self._options.seed, "backends": [str(b) for b in self._backends], "versions": self._versions}
        started = [entry for entry in self._journal.entries if entry["type"] == "start"]
        for entry in started:
            changed = [name for name, value in facts.items() if entry[name] != value]
            if changed:
                told = ", ".join(f"{name} {entry[name]}, now {facts[name]}" for name in changed)
                raise ConfigurationError(f"{self._journal.path}: that campaign had {told}; start another one with --out")
        for number, entry in self._results.items():
            if self._plan[number].key != entry["key"]:
                raise ConfigurationError(
                    f"{self._journal.path}: test {number} is another one in this plan; start another with --out"
                )
        if not started:
            self._journal.write({"type": "start", **facts}, important=True)

    def _note_versions(self, backend: BackendId) -> Callable[[dict[str, Json]], None]:
        def note(result: dict[str, Json]) -> None:
            if "versions" in result:
                self._versions[str(backend)] = result["versions"]
            else:
                self._missing[str(backend)] = result.get("unavailable") or result.get("error", "")

        return note

    # -- tests --------------------------------------------------------------------------------------------------------

    def _start_test(self, number: int) -> None:
        test = self._plan[number]

        def done(result: dict[str, Json]) -> None:
            entry = {"type": "test", "number": number, "key": test.key, **result}
            self._journal.write(entry)
            self._results[number] = entry
            self._deaths += result["deaths"]

        self._submit({"verb": "examine", **self._task(test, number)}, done)

    def _task(self, test: TestSpec, number: int) -> dict[str, Json]:
        arrays = arrays_of(self._plan, number)
        return {
            "test": test.to_json(),
            "backends": [str(backend) for backend in self._backends],
            "arrays": {name: array_to_json(array) for name, array in arrays.items()},
        }

    def _advance(self) -> None:
        """Decide, in the order of numbers, which discrepancies are new; then which explanations are."""
        while self._frontier in self._results:
            number = self._frontier
            self._frontier += 1
            entries = self._results[number].get("discrepancies", [])
            test = self._plan[number] if entries else None
            for place, data in enumerate(entries):
                assert test is not None
                entry = Discrepancy.from_json(data)
                key = rough_key(test, entry)
                self._rough[key] += 1
                if self._rough[key] <= (EXPLAINED_DEATHS if entry.oracle == "death" else EXPLAINED):
                    self._wanted.append((number, place))
                    if (number, place) not in self._explained:
                        self._start_explanation(number, place, test, entry)
        while self._settled < len(self._wanted) and self._wanted[self._settled] in self._explained:
            where = self._wanted[self._settled]
            data = self._explained[where]
            self._settled += 1
            if "error" not in data:
                self._settle(where[0], where[1], Explanation.from_json(data["explanation"]))

    # -- explanations and scripts -------------------------------------------------------------------------------------

    def _start_explanation(self, number: int, place: int, test: TestSpec, entry: Discrepancy) -> None:
        def done(result: dict[str, Json]) -> None:
            told = {"error": result["error"]} if "error" in result else {"explanation": result}
            deaths = result.pop("deaths", 0)
            line = {"type": "explained", "number": number, "place": place, "deaths": deaths, **told}
            self._journal.write(line)
            self._explained[number, place] = line
            self._deaths += deaths

        self._submit({"verb": "explain", "discrepancy": dict(entry.to_json()), **self._task(test, number)}, done)

    def _settle(self, number: int, place: int, found: Explanation) -> None:
        group = self._signatures.setdefault(found.signature, _Signature())
        group.candidates.append((number, found))
        group.rough.add(rough_key(self._plan[number], Discrepancy.from_json(self._results[number]["discrepancies"][place])))
        self._try_script(found.signature, group)

    def _try_script(self, signature: str, group: _Signature) -> None:
        """Run the script of the next candidate, unless one was already seen to work, or enough did not."""
        while not group.busy and group.verified is None and group.tried < min(SCRIPTS, len(group.candidates)):
            _, found = group.candidates[group.tried]
            line = self._verified.get((signature, group.tried))
            if line is None:
                if self._ending:
                    return
                group.busy = True
                self._start_script(signature, group, found)
                return
            group.tried += 1
            if line.get("reproduced"):
                group.verified = line

    def _start_script(self, signature: str, group: _Signature, found: Explanation) -> None:
        def done(result: dict[str, Json]) -> None:
            line = {"type": "script", "signature": signature, "attempt": group.tried, **result}
            self._journal.write(line, important=True)
            self._verified[signature, group.tried] = line
            self._deaths += result["deaths"]
            group.busy = False
            self._try_script(signature, group)

        versions = self._versions_of(found)
        title = str(CampaignFinding(0, found, "", "", versions))
        task = {"verb": "verify", "explanation": found.to_json(), "versions": versions, "title": title}
        self._submit(task, done)

    def _versions_of(self, found: Explanation) -> dict[str, str]:
        sides = [found.discrepancy.culprit, *([] if found.discrepancy.other is None else [found.discrepancy.other])]
        return {name: version for side in sides for name, version in self._versions.get(str(side), {}).items()}

    # -- the end ------------------------------------------------------------------------------------------------------

    def _result(self, interrupted: bool) -> CampaignResult:
        findings: list[CampaignFinding] = []
        failed: list[str] = []
        for signature, group in self._signatures.items():
            if group.verified is None:
                if group.tried:
                    failed.append(signature)
                continue
            number, found = group.candidates[group.tried - 1]
            path = self._options.folder / "findings" / file_name(found)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(group.verified["script"], "utf-8")
            similar = sum(self._rough[key] for key in group.rough)
            findings.append(CampaignFinding(number, found, str(path), group.verified["output"], self._versions_of(found), similar))
        tests = [self._results[number] for number in sorted(self._results)]
        errors = [f"test {entry['number']}: {entry['error']}" for entry in tests if "error" in entry]
        errors += [f"explaining test {n}: {e['error']}" for (n, _), e in sorted(self._explained.items()) if "error" in e]
        errors += [f"script of {s}: {e['error']}" for (s, _), e in sorted(self._verified.items()) if "error" in e]
        versions = {package: version for found in self._versions.values() for package, version in found.items()}
        return CampaignResult(
            mark_known(findings, self._options.known_issues),
            len(tests),
            tuple(sorted(self._results)),
            sum(len(entry.get("discrepancies", [])) for entry in tests),
            self._deaths,
            tuple(failed),
            _added(tests, "runs"),
            _added(tests, "seconds"),
            _added(tests, "unavailable"),
            self._missing,
            versions,
            time.monotonic() - self._started,
            tuple(errors),
            interrupted,
        )


def rough_key(test: TestSpec, entry: Discrepancy) -> tuple[str, ...]:
    """What is compared before anything is explained: the symptom, and the layer that shows it (or all, if none does)."""
    named = [layer.kind for layer in test.layers if layer.name == entry.layer]
    kinds = named or sorted({layer.kind for layer in test.layers})
    return (entry.oracle, entry.culprit.name, entry.symptom, test.phase, *kinds)


def arrays_of(plan: TestSource, number: int) -> Arrays:
    """Arrays that a test of the plan is run with, where it does not draw them from its seed."""
    give = getattr(plan, "arrays", None)
    return {} if give is None else give(number)


def _added(entries: Sequence[Mapping[str, Json]], name: str) -> dict[str, float]:
    total: Counter[str] = Counter()
    for entry in entries:
        total.update(entry.get(name, {}))
    return dict(total)
