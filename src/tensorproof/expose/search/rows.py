"""The rows that a program takes of its data in a step, where it takes its batches from the whole itself."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

#: Less than this part of a batch was in the first one, or the program takes the same rows again and again.
_SAME = 0.9

Indices = npt.NDArray[np.intp]


@dataclass(slots=True)
class Rows:
    """The rows of this step, by the names of data."""

    taken: dict[str, Indices] = field(default_factory=dict[str, Indices])
    _first: dict[str, Indices] = field(default_factory=dict[str, Indices])
    #: Data of which the program takes other rows in other steps; those that this was seen of in this step.
    _changing: set[str] = field(default_factory=set[str])
    _turned: set[str] = field(default_factory=set[str])

    def note(self, name: str, rows: Indices) -> None:
        """Rows that a step takes."""
        self.taken[name] = rows
        self._turned.discard(name)
        if name not in self._changing and np.isin(rows, self._first.setdefault(name, rows)).mean() < _SAME:
            self._changing.add(name)
            self._turned.add(name)

    def are_changing(self, name: str) -> bool:
        """Whether the program takes other rows in other steps."""
        return name in self._changing

    def first(self, name: str) -> Indices | None:
        """The rows of the first batch, if it is only now that others are taken: that batch has been moved already."""
        return self._first[name] if name in self._turned else None
