"""Problems as the diagnostics of an editor."""

from __future__ import annotations

from lsprotocol.types import Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity

from tensorproof.language_server.snapshot import Snapshot
from tensorproof.rules.rule import Severity
from tensorproof.shapes.problems import Problem

_SEVERITIES: dict[Severity, DiagnosticSeverity] = {
    "error": DiagnosticSeverity.Error,
    "warning": DiagnosticSeverity.Warning,
    "note": DiagnosticSeverity.Information,
}


def diagnostics(snapshot: Snapshot, *, shows_related: bool) -> list[Diagnostic]:
    """The diagnostics of a document. An editor that shows no related places gets them as lines of the message."""
    return [diagnostic(problem, snapshot, shows_related=shows_related) for problem in snapshot.problems]


def diagnostic(problem: Problem, snapshot: Snapshot, *, shows_related: bool) -> Diagnostic:
    """One problem."""
    located = [(one.message, location) for one in problem.related if (location := snapshot.location(one.place)) is not None]
    result = Diagnostic(
        range=snapshot.source.range(problem.place),
        message=problem.message,
        severity=_SEVERITIES[problem.rule.severity],
        code=problem.rule.code,
        source="tensorproof",
    )
    if shows_related:
        result.related_information = [DiagnosticRelatedInformation(location, message) for message, location in located]
    else:
        lines = [f"line {location.range.start.line + 1}: {message}" for message, location in located]
        result.message = "\n".join([problem.message, *lines])
    return result
