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


@dataclass(frozen=True, slots=True)
class Request:
    """A text to analyse as the file at `path`, and what was known of the document before."""

    uri: str
    path: str
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
    try:
        analysis, complaint = _wanted(analyse_source(request.source.text, request.path), request.source.text)
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


def _wanted(analysis: SourceAnalysis, text: str) -> tuple[SourceAnalysis, str | None]:
    """Without what comments or the project's configuration silence; a configuration that is wrong is complained about."""
    ignores, selection, complaint = Ignores.of(text), Selection(), None
    try:
        configuration = find_configuration(Path(analysis.path).absolute().parent)
        selection = parse_selection(configuration.select, configuration.ignore)
    except TensorproofError as error:
        complaint = str(error)
    problems = tuple(
        problem
        for problem in analysis.problems
        if selection.shows_rule(problem.rule) and not ignores.covers(problem.rule.code, problem.place.line)
    )
    return replace(analysis, problems=problems), complaint
