"""What a request for a repair in source comes to: the new source, or the reason why there is none."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

from tensorproof.repair.source.text import lines_of


def unified_diff(before: str, after: str, path: str) -> str:
    """The change of the file `path` as a unified diff; empty if there is none."""
    marked = (
        line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(lines_of(before), lines_of(after), f"a/{path}", f"b/{path}")
    )
    return "".join(marked)


@dataclass(frozen=True, slots=True)
class SourceRepair:
    """A file with one defect repaired.

    `safe` means that the new expression is the same function in exact arithmetic, and accepts the same operands. A repair that
    is not safe moves results near the place of failure, or asks more of its operands, as `why` says.
    """

    name: str
    safe: bool
    why: str
    #: The whole file after the repair.
    source: str = field(repr=False)
    #: The whole file before it.
    before: str = field(repr=False)

    def diff(self, path: str) -> str:
        """The change as a unified diff of the file `path`."""
        return unified_diff(self.before, self.source, path)


@dataclass(frozen=True, slots=True)
class Declined:
    """No repair is proposed; `reason` is one line for the user."""

    reason: str
