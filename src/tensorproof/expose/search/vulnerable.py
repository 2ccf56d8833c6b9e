"""Which operators of a framework can fail, and how: read off the table of operators by the names that the framework has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tensorproof.findings import Phase
from tensorproof.operators.table import Dialect, Operator, all_spellings
from tensorproof.rules.derivative_overflow import DERIVATIVE_OVERFLOW
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW
from tensorproof.rules.rule import Rule

#: Rules about constants, shapes, masks and quantisation, and overflow at the largest numbers of the format: what inputs do does not
#: lead there step by step. Operators that fail in these ways are observed like all others.
_NOT_SEARCHED = ("NUM107", "NUM108", "NUM110", "NUM111", "NUM113", "NUM114", "NUM202", "NUM203", "NUM3")


@dataclass(frozen=True, slots=True)
class Weakness:
    """One way in which an operator fails: the rule, the operand that decides (-1: the result), and the pass in which it shows."""

    operator: Operator
    rule: Rule
    operand: int
    phase: Phase

    @property
    def key(self) -> str:
        """For names of suspects."""
        return f"{self.rule.code}.{self.operand}"


@cache
def weaknesses(dialect: Dialect) -> Mapping[str, tuple[Weakness, ...]]:
    """The operators of a framework that can fail, by the framework's names.

    Overflow is sought for exponentials alone. A derivative that overflows (NUM403) is sought where the operator itself does not
    fail on the way there.
    """
    found: dict[str, tuple[Weakness, ...]] = {}
    for name, operator in all_spellings(dialect):
        own = _of(operator)
        if own:
            found[name] = own
    return found


def _of(operator: Operator) -> tuple[Weakness, ...]:
    found: dict[tuple[str, int], Weakness] = {}
    for hazard in operator.hazards:
        if _is_searched(hazard.rule):
            found.setdefault((hazard.rule.code, hazard.operand), Weakness(operator, hazard.rule, hazard.operand, "forward"))
    if operator.overflow is EXPONENTIAL_OVERFLOW:
        found.setdefault((EXPONENTIAL_OVERFLOW.code, -1), Weakness(operator, EXPONENTIAL_OVERFLOW, -1, "forward"))
    for hazard in operator.backward_hazards:
        is_reached = any(other.phase == "forward" and other.operand == hazard.operand for other in found.values())
        if hazard.rule is DERIVATIVE_OVERFLOW and is_reached:
            continue
        if _is_searched(hazard.rule) and hazard.by == hazard.operand:
            found.setdefault((hazard.rule.code, hazard.operand), Weakness(operator, hazard.rule, hazard.operand, "backward"))
    return tuple(found.values())


def _is_searched(rule: Rule) -> bool:
    return rule.sought is not None and not rule.code.startswith(_NOT_SEARCHED)
