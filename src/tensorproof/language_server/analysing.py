"""One analysis of one text, as a worker thread runs it: nothing that goes wrong in it leaves it."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from pathlib import Path

from lsprotocol.types import Diagnostic

from tensorproof.configuration import find_configuration
from tensorproof.errors import SourceError, TensorproofError
from tensorproof.language_server.carrying import carried_over
from tensorproof.language_server.diagnostics import diagnostics
from tensorproof.language_server.positions import SourceText
from tensorproof.language_server.snapshot import Snapshot
from tensorproof.report.selection import Selection, parse_selection
from tensorproof.shapes.analysis import analyse_source
from tensorproof.shapes.problems import SourceAnalysis
from tensorproof.sources.ignores import Ignores
from tensorproof.sources.reading import LARGEST_SOURCE


@dataclass(frozen=True, slots=True)
class Request:
    """A text to analyse as the file at `path`, and what was known of the document before.

    `root` is the folder that the editor has open, which the patterns of files in a configuration are relative to.
    """

    uri: str
    path: str
    root: str | None
    source: SourceText
    last: Snapshot | None
    #: Whether the editor shows related places of a diagnostic by itself.
    shows_related: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The new state of the document, None if its text never parsed; and what the log of the editor should say."""

    snapshot: Snapshot | None
    diagnostics: list[Diagnostic]
    complaint: str | None = None


def analyse(request: Request) -> Outcome:
    """Analyse a text. One that does not parse is no reason to complain, it is being typed: the last result is kept."""
    if len(request.source.text) > LARGEST_SOURCE:
        return Outcome(None, [], f"{request.path} is larger than {LARGEST_SOURCE // 1_000_000} MB: not analysed")
    try:
        analysis, complaint = _wanted(request, analyse_source(request.source.text, request.path))
        return _outcome(request, Snapshot(request.uri, request.source, analysis), complaint)
    except SourceError:
        return _outcome(request, _kept(request), None)
    except Exception:
        return _outcome(request, _kept(request), f"the analysis of {request.path} failed:\n{traceback.format_exc()}")


def _outcome(request: Request, snapshot: Snapshot | None, complaint: str | None) -> Outcome:
    shown = [] if snapshot is None else diagnostics(snapshot, shows_related=request.shows_related)
    return Outcome(snapshot, shown, complaint)


def _kept(request: Request) -> Snapshot | None:
    """What still holds of the last result."""
    last, source = request.last, request.source
    if last is None:
        return None
    return Snapshot(request.uri, source, carried_over(last.analysis, last.source.lines, source.lines))


def _wanted(request: Request, analysis: SourceAnalysis) -> tuple[SourceAnalysis, str | None]:
    """Without what comments or the project's configuration silence; a configuration that is wrong is complained about."""
    ignores, selection, complaint = Ignores.of(request.source.text), Selection(), None
    path = Path(request.path).absolute()
    try:
        configuration = find_configuration(path.parent)
        selection = parse_selection(configuration.select, configuration.ignore)
    except TensorproofError as error:
        complaint = str(error)
    shown = path.relative_to(request.root) if request.root and path.is_relative_to(request.root) else path
    problems = tuple(
        problem
        for problem in analysis.problems
        if selection.shows_rule(problem.rule, shown.as_posix()) and not ignores.covers(problem.rule.code, problem.place.line)
    )
    return replace(analysis, problems=problems), complaint
