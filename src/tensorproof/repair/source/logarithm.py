"""log(x) as log(max(x, tiny)), for x that nothing else is known of.

Below the smallest normal number of the format the logarithm is held constant, and its derivative there is 0; above it nothing
changes, and the derivative 1 / x is finite.
"""

from __future__ import annotations

import libcst as cst

from tensorproof.repair.source.drafting import Draft
from tensorproof.repair.source.exceptions import NotSure
from tensorproof.repair.source.repair import Repair


def _rewrite(node: cst.BaseExpression, draft: Draft) -> None:
    log = draft.reader.operation(node, "log", "log2", "log10")
    if log is None or log.through or log.library != "torch":
        return
    if draft.reader.operation(log.operand, "clamp", "maximum", extra=frozenset({"min", "max"})) is not None:
        raise NotSure("the operand of the logarithm is bounded already")
    low = draft.limit("tiny", log.operand, "torch")
    draft.replace(node, draft.again(log, draft.clamped(log.operand, log, low=low)))


LOGARITHM = Repair(
    "logarithm",
    False,
    "The operand is kept at or above the smallest normal number of its format, where the logarithm and its derivative are finite.",
    frozenset({"NUM101", "NUM403", "NUM404"}),
    _rewrite,
)
