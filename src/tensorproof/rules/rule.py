"""`Rule`: a hazard as the user sees it, with a code, a name and a page, and what a search has to make small to reach it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tensorproof.confirm.place import Place
    from tensorproof.execute.meaning import Tensor

Severity = Literal["error", "warning", "note"]
#: Which way a defect shows: in values, or in gradients while all values are finite.
Phase = Literal["forward", "backward"]
Objective = Callable[["Place"], "Tensor | None"]

_OBJECTIVES: dict[str, Objective] = {}


@dataclass(frozen=True, slots=True)
class Rule:
    """A documented kind of defect.

    `page` is the docstring of the module that defines the rule; its first line is the summary. `linear` marks overflow of
    operators that are linear in their operands: true and useless when weights are free ranges, so off there by default.
    """

    code: str
    name: str
    page: str = field(repr=False)
    severity: Severity = "error"
    linear: bool = False
    phase: Phase = "forward"

    def objective(self, function: Objective) -> Objective:
        """Declare what a search makes small: a number for every element that may fail, None where nothing leads there."""
        _OBJECTIVES[self.code] = function
        return function

    @property
    def sought(self) -> Objective | None:
        """The declared objective, None for rules that no input decides."""
        return _OBJECTIVES.get(self.code)

    @property
    def summary(self) -> str:
        return self.page.strip().splitlines()[0].rstrip(".")

    def __str__(self) -> str:
        return self.code
