"""From files to one report: each file is read and analysed, and its problems become findings."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tensorproof.errors import SourceError
from tensorproof.findings import Coverage, Finding, Location, RelatedLocation, Report, SourceEdit, Unanalysed, Verdict
from tensorproof.shapes.analysis import analyse_source
from tensorproof.shapes.problems import Place, Problem, ShapeOptions, SourceAnalysis, Statistics
from tensorproof.sources.discovery import find_sources, shown_path
from tensorproof.sources.reading import Source, read_source


@dataclass(frozen=True, slots=True)
class AnalysedSource:
    """One file and what the analysis says of it."""

    source: Source
    analysis: SourceAnalysis
    seconds: float


@dataclass(frozen=True, slots=True)
class CheckedSources:
    """All files of one run and the report on them, before a selection or a baseline."""

    report: Report
    files: tuple[AnalysedSource, ...]


def check_sources(paths: Sequence[str | Path], options: ShapeOptions, *, debug: bool = False) -> CheckedSources:
    """Analyse files, folders, notebooks and standard input (`-`). A file that cannot be analysed is an error of the report.

    With `debug`, what goes wrong in the analysis itself is raised.
    """
    analysed: list[AnalysedSource] = []
    errors: list[str] = []
    for found in find_sources(paths):
        try:
            if isinstance(found, SourceError):
                raise found
            analysed.append(_analysed(read_source(found), options))
        except SourceError as error:
            if debug and error.__cause__ is not None:
                raise error.__cause__ from None
            errors.append(str(error))
    findings, suppressed = _findings(analysed)
    report = Report(
        model=" ".join(map(str, paths)),
        target="",
        precision=None,
        assumptions={"context": options.context, "values": options.values},
        coverage=_coverage(analysed),
        findings=findings,
        proven_safe=(),
        proven_safe_if={},
        times={"analyse": sum(file.seconds for file in analysed)},
        suppressed=suppressed,
        files=tuple(file.source.path for file in analysed),
        errors=tuple(errors),
    )
    return CheckedSources(report, tuple(analysed))


def _analysed(source: Source, options: ShapeOptions) -> AnalysedSource:
    """Raises `SourceError` for a text that does not parse, and for one that is nested too deeply to be looked at."""
    start = time.perf_counter()
    try:
        analysis = analyse_source(source.text, source.path, options)
    except SourceError as error:
        raise source.error(error.what, error.line) from None
    except (RecursionError, MemoryError):
        raise source.error("nested too deeply to be analysed", None) from None
    except Exception as error:
        # A mistake of ours in one file must not hide what is wrong in the others.
        what = f"internal error of the analysis: {type(error).__name__}: {error}; run with --debug for the traceback"
        raise source.error(what, None) from error
    return AnalysedSource(source, analysis, time.perf_counter() - start)


def _coverage(files: Iterable[AnalysedSource]) -> Coverage:
    total = Statistics()
    remarks: list[str] = []
    for file in files:
        statistics = file.analysis.statistics
        total.tensors += statistics.tensors
        total.imprecise_tensors += statistics.imprecise_tensors
        total.unmodelled += statistics.unmodelled
        remarks += [f"{file.source.path}: a rule failed: {error}" for error in statistics.rule_errors]
        if statistics.exhausted is not None:
            remarks.append(f"{file.source.path}: {statistics.exhausted}")
    return Coverage(
        nodes=total.tensors,
        checkable=total.tensors,
        checked=total.tensors - total.imprecise_tensors,
        not_analysed=tuple(Unanalysed(name, "call", "no rule knows the function") for name in sorted(total.unmodelled)),
        remarks=tuple(remarks),
    )


# -- problems into findings -------------------------------------------------------------------------------------------


def _findings(files: Sequence[AnalysedSource]) -> tuple[tuple[Finding, ...], int]:
    """The findings of all files in the order of their places, and how many more were silenced by comments.

    The analysis of one file reaches into the modules that it imports: what several of them lead to is told once.
    """
    sources = _Sources({file.source.path: file.source for file in files})
    order = {file.source.path: position for position, file in enumerate(files)}
    problems = {_key(problem, sources): problem for file in files for problem in file.analysis.problems}
    placed = sorted(problems.items(), key=lambda item: (order.get(item[0][0], len(order)), item[0]))
    occurrences: Counter[tuple[str | None, str]] = Counter()
    found: list[Finding] = []
    for _, problem in placed:
        finding = _finding(problem, sources)
        alike = (finding.location.file if finding.location else None), finding.identity
        occurrences[alike] += 1
        if not sources.of(problem.place).ignores.covers(problem.rule.code, problem.place.line):
            found.append(replace(finding, occurrence=occurrences[alike]))
    return tuple(found), len(placed) - len(found)


@dataclass(slots=True)
class _Sources:
    """The sources that problems lie in: those that were analysed, and modules that they import."""

    known: dict[str, Source] = field(default_factory=dict[str, Source])

    def of(self, place: Place) -> Source:
        """The source of a place. One that cannot be read any more has no text, and positions as they are."""
        path = place.file if place.file in self.known else shown_path(place.file)
        if path not in self.known:
            try:
                self.known[path] = read_source(path)
            except SourceError:
                self.known[path] = Source(path, "")
        return self.known[path]

    def location(self, place: Place) -> Location:
        return self.of(place).location(place.line, place.column, place.end_line, place.end_column)


def _key(problem: Problem, sources: _Sources) -> tuple[str, int, int, str, str]:
    """What makes two problems the same, in the order in which they are shown."""
    place = problem.place
    return sources.of(place).path, place.line, place.column, problem.rule.code, problem.operation


def _finding(problem: Problem, sources: _Sources) -> Finding:
    location = sources.location(problem.place)
    is_error = problem.certain and problem.rule.severity == "error"
    return Finding(
        rule=problem.rule,
        node=(location.text or "").strip(),
        op=problem.operation,
        operand="",
        low=None,
        high=None,
        message=problem.message,
        target="",
        format="",
        verdict=Verdict.CERTAIN if is_error else Verdict.POSSIBLE,
        location=location,
        related=tuple(RelatedLocation(sources.location(related.place), related.message) for related in problem.related),
        edits=tuple(SourceEdit(edit.title, sources.location(edit.place), edit.text) for edit in problem.edits),
    )
