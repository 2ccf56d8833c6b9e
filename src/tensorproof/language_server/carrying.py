"""Results of an older text, carried over to the text of now.

While somebody types, the text does not parse most of the time. What was known of the lines that are the same stays known; what
touches a changed line is forgotten rather than shown in the wrong place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tensorproof.shapes.problems import Edit, Hint, Place, Problem, Related, SourceAnalysis


@dataclass(frozen=True, slots=True)
class UnchangedLines:
    """How the lines of two texts of one file correspond: the first ones, and the last ones with a shift between them."""

    file: str
    #: The last line of those at the beginning that are the same.
    head: int
    #: In the older text, the first line of those at the end that are the same, and how far they moved.
    tail: int
    shift: int

    @staticmethod
    def between(file: str, before: Sequence[str], after: Sequence[str]) -> UnchangedLines:
        head = _equal_at_start(before, after)
        at_end = _equal_at_start(before[head:][::-1], after[head:][::-1])
        return UnchangedLines(file, head, len(before) - at_end + 1, len(after) - len(before))

    def place(self, place: Place) -> Place | None:
        """The place in the newer text; None if one of its lines changed."""
        if place.file != self.file or place.end_line <= self.head:
            return place
        if place.line >= self.tail:
            return replace(place, line=place.line + self.shift, end_line=place.end_line + self.shift)
        return None

    def related(self, related: Iterable[Related]) -> tuple[Related, ...]:
        moved = ((one, self.place(one.place)) for one in related)
        return tuple(replace(one, place=place) for one, place in moved if place is not None)

    def edits(self, edits: Iterable[Edit]) -> tuple[Edit, ...]:
        moved = ((edit, self.place(edit.place)) for edit in edits)
        return tuple(replace(edit, place=place) for edit, place in moved if place is not None)


def carried_over(analysis: SourceAnalysis, before: Sequence[str], after: Sequence[str]) -> SourceAnalysis:
    """The analysis of the lines `before` as far as it holds for the lines `after`."""
    lines = UnchangedLines.between(analysis.path, before, after)
    problems: list[Problem] = []
    for problem in analysis.problems:
        if (place := lines.place(problem.place)) is not None:
            related, edits = lines.related(problem.related), lines.edits(problem.edits)
            problems.append(replace(problem, place=place, related=related, edits=edits))
    hints: list[Hint] = []
    for hint in analysis.hints:
        if (place := lines.place(hint.place)) is not None:
            hints.append(replace(hint, place=place, history=lines.related(hint.history)))
    return replace(analysis, problems=tuple(problems), hints=tuple(hints))


def _equal_at_start(first: Sequence[str], second: Sequence[str]) -> int:
    count = 0
    for one, other in zip(first, second):
        if one != other:
            break
        count += 1
    return count
