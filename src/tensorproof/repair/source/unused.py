"""Assignments that a repair leaves without a reader: what they compute could still fail, and is taken out."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from tensorproof.repair.source.drafting import Draft
from tensorproof.repair.source.following import Definition
from tensorproof.repair.source.reading import Reader
from tensorproof.repair.source.text import Change, Place


def without_unused(reader: Reader, drafts: Sequence[Draft], changes: Sequence[Change]) -> list[Change]:
    """The changes of drafts, and those that take out the assignments which only what is replaced has read.

    An assignment with a comment stays.
    """
    found = list(changes)
    gone: list[cst.CSTNode] = [node for draft in drafts for node, _ in draft.replaced]
    written = " ".join(change.text for change in changes)
    for definition in dict.fromkeys(definition for draft in drafts if not draft.readers for definition in draft.through):
        is_read = reader.follower.other_users(definition, gone) or re.search(rf"\b{definition.name}\b", written)
        line = None if is_read else _own_line(reader, definition)
        if line is not None:
            gone.append(definition.statement)
            found = _without(reader, definition, line, found)
    return found


def _own_line(reader: Reader, definition: Definition) -> cst.SimpleStatementLine | None:
    """The line of an assignment, if nothing else stands on it."""
    line = reader.parsed.parents.get(definition.statement)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    return line if line.trailing_whitespace.comment is None else None


def _without(reader: Reader, definition: Definition, line: cst.SimpleStatementLine, changes: Sequence[Change]) -> list[Change]:
    """The changes with a statement taken out; what was to stand before it, on a line of its own, takes its place."""
    start, end = reader.parsed.start(definition.statement), reader.parsed.end(definition.statement)
    before = [change for change in changes if change.start == change.end == start]
    outside = [change for change in changes if change.end < start or change.start > end]
    if before:
        return [*outside, Change(start, end, before[-1].text.rstrip())]
    return [*outside, Change(Place(start.line, 0), Place(end.line + 1, 0), "")]
