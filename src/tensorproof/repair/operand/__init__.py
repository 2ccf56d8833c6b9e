"""Guards of the failing node's operands: a clamp, an epsilon, a divisor away from zero, a larger constant or attribute.

Where a guard needs a number, the operator's own block is asked for it (`block.Block`): bisection over the numbers of the format
ends at the last one at which nothing fires, so that one step farther fails and guards agree with the scan for every operator.
Only what the failing node reads is exchanged; other readers of the same value keep it as it is. NaN passes every clamp and needs
none: the finding is at the node that makes it.

What repairs which rule:

- NUM103, NUM106, NUM107: a divisor of both signs is held away from zero with its sign; one of one sign is clamped.
- NUM110: the attribute epsilon is raised; a variance that is an operand is clamped.
- NUM115 (NaN in a constant) and NUM114 (a reduction of nothing) are no matter of an operand's size: declined.
- NUM301, NUM302: the constant is replaced by one that survives. NUM205: it is clamped to the ends of its format.
- NUM401, NUM402, NUM403 (the derivative): the operand is clamped in ONNX files; elsewhere declined.
- All others are clamped, with an epsilon beside the clamp where the operand is never negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tensorproof.repair.operand.attributes import raised_epsilon
from tensorproof.repair.operand.block import Block
from tensorproof.repair.operand.clamps import clamps
from tensorproof.repair.operand.constants import of_conversion, surviving_constant
from tensorproof.repair.operand.divisors import guarded_divisors
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.rules import all_rules

_BACKWARD = "the value is finite, its derivative is not: the page of the rule says how to write it; guards are tried on values only"
#: Those of the backward pass that operators' own blocks declare. In ONNX files, which have no gradients of their own that would
#: have to follow, the operand is clamped: the derivative is 0 where it is moved.
_OF_OPERANDS = frozenset({"NUM401", "NUM402", "NUM403"})

#: Rules that no guard of an operand repairs, with the reason.
DECLINED: Mapping[str, str] = {
    "NUM114": "the number of elements is at fault, not their values: there is nothing to reduce",
    "NUM115": "a constant that is NaN carries no information: it needs a sound checkpoint",
    **{code: _BACKWARD for code, rule in all_rules().items() if rule.phase == "backward"},
}


def proposed(case: Case) -> Iterator[Proposal | tuple[str, str]]:
    """Guards for a finding, in order of preference; where none applies, a name and the reason."""
    code = case.finding.rule.code
    if code in DECLINED and code not in _OF_OPERANDS:
        yield "operand", DECLINED[code]
        return
    name, guards = _GUARDS.get(code, ("clamp", _clamps))
    try:
        yield from guards(case)
    except Declined as reason:
        yield name, str(reason)


def _clamps(case: Case) -> Iterator[Proposal]:
    block = Block(case)
    signed = False
    for proposal in guarded_divisors(block):
        signed = True
        yield proposal
    if not signed:
        yield from clamps(block)


def _normalisations(case: Case) -> Iterator[Proposal]:
    block = Block(case)
    raised = False
    for proposal in raised_epsilon(block):
        raised = True
        yield proposal
    try:
        yield from clamps(block)
    except Declined:
        if not raised:
            raise


def _absorbed(case: Case) -> Iterator[Proposal]:
    yield surviving_constant(Block(case))


def _converted(case: Case) -> Iterator[Proposal]:
    yield of_conversion(case)


_GUARDS: Mapping[str, tuple[str, Callable[[Case], Iterator[Proposal]]]] = {
    "NUM110": ("raised-epsilon", _normalisations),
    "NUM205": ("saturated-constant", _converted),
    "NUM301": ("surviving-constant", _converted),
    "NUM302": ("surviving-constant", _absorbed),
}
