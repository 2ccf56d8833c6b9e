"""`Repair`: one way to write an expression so that it does not fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from tensorproof.repair.source.drafting import Draft

#: Reads an expression and, if it is the pattern, writes the replacement into the draft; raises `NotSure` for a near miss.
Rewrite = Callable[[cst.BaseExpression, Draft], None]


@dataclass(frozen=True, slots=True)
class Repair:
    """A named rewriting of expressions, and the codes of the rules whose findings it mends. `safe` as in `SourceRepair`.

    With `anywhere`, what it rewrites may stand on another line of the function than the finding, if the repair is tried.
    """

    name: str
    safe: bool
    why: str
    rules: frozenset[str]
    rewrite: Rewrite
    anywhere: bool = False
