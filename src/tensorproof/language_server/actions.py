"""Quick fixes: the edits that mend a problem, and the comment that silences it on its line."""

from __future__ import annotations

from lsprotocol.types import CodeAction, CodeActionKind, CodeActionParams, Diagnostic, Position, Range, TextEdit, WorkspaceEdit

from tensorproof.language_server.diagnostics import diagnostic
from tensorproof.language_server.ignoring import ignore_edit
from tensorproof.language_server.snapshot import Snapshot
from tensorproof.shapes.problems import Edit, Problem


def code_actions(snapshot: Snapshot, params: CodeActionParams, *, shows_related: bool) -> list[CodeAction]:
    """What an editor offers at a range: for each problem that touches it, its repairs first."""
    if not _wants_quick_fixes(params):
        return []
    actions: list[CodeAction] = []
    for problem in snapshot.problems:
        if _touches(snapshot.source.range(problem.place), params.range):
            shown = diagnostic(problem, snapshot, shows_related=shows_related)
            actions.extend(_repairs(problem, snapshot, shown))
            actions.extend(_ignores(problem, snapshot, shown))
    return actions


def _wants_quick_fixes(params: CodeActionParams) -> bool:
    """Kinds are hierarchical: an empty one asks for all, `quickfix.tensorproof` would not be offered for it."""
    only = params.context.only
    return only is None or any(str(getattr(kind, "value", kind)) in ("", CodeActionKind.QuickFix.value) for kind in only)


def _touches(one: Range, other: Range) -> bool:
    return _key(one.start) <= _key(other.end) and _key(other.start) <= _key(one.end)


def _key(position: Position) -> tuple[int, int]:
    return position.line, position.character


def _repairs(problem: Problem, snapshot: Snapshot, shown: Diagnostic) -> list[CodeAction]:
    located = [(edit, change) for edit in problem.edits if (change := _change(edit, snapshot)) is not None]
    return [
        CodeAction(edit.title, CodeActionKind.QuickFix, diagnostics=[shown], is_preferred=len(located) == 1, edit=change)
        for edit, change in located
    ]


def _ignores(problem: Problem, snapshot: Snapshot, shown: Diagnostic) -> list[CodeAction]:
    edit = ignore_edit(snapshot.source, problem)
    change = None if edit is None else _change(edit, snapshot)
    return [] if edit is None or change is None else [CodeAction(edit.title, CodeActionKind.QuickFix, [shown], edit=change)]


def _change(edit: Edit, snapshot: Snapshot) -> WorkspaceEdit | None:
    location = snapshot.location(edit.place)
    return None if location is None else WorkspaceEdit(changes={location.uri: [TextEdit(location.range, edit.text)]})
