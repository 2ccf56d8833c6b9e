"""`Rule`: a hazard as the user sees it, with a code, a name and a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["error", "warning", "note"]


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

    @property
    def summary(self) -> str:
        return self.page.strip().splitlines()[0].rstrip(".")

    def __str__(self) -> str:
        return self.code
