"""What may be written at the line of a finding: the repairs that its text suggests, then the guard that the analysis computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tensorproof.findings import Finding
from tensorproof.repair import operand
from tensorproof.repair.operand.block import Block, Interval
from tensorproof.repair.operand.clamps import single_interval
from tensorproof.repair.operand.numbers import usual_epsilon
from tensorproof.repair.program.text import LineMap
from tensorproof.repair.program.version import Version
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.source import Declined as NotProposed
from tensorproof.repair.source import proposals
from tensorproof.repair.source.choice import CHOICE
from tensorproof.repair.source.cross_entropy import BOUNDED_CROSS_ENTROPY, CROSS_ENTROPY
from tensorproof.repair.source.division import DIVISION
from tensorproof.repair.source.epsilon import EPSILON, LARGER_EPSILON
from tensorproof.repair.source.inverse_functions import INSIDE_DOMAIN, INSIDE_EDGES
from tensorproof.repair.source.log_sigmoid import LOG_SIGMOID
from tensorproof.repair.source.log_softmax import LOG_SOFTMAX
from tensorproof.repair.source.log_sum_exp import LOG_SUM_EXP
from tensorproof.repair.source.logarithm import LOGARITHM
from tensorproof.repair.source.mask import HALVED_MASK, MASK
from tensorproof.repair.source.operand_guard import operand_guard
from tensorproof.repair.source.repair import Repair
from tensorproof.repair.source.root_at_zero import NONNEGATIVE_ROOT, STANDARD_DEVIATION, VECTOR_NORM
from tensorproof.repair.source.sigmoid import SIGMOID
from tensorproof.repair.source.softmax import SOFTMAX
from tensorproof.repair.source.softplus import SOFTPLUS
from tensorproof.repair.source.square_root import ROOT_OF_EXPONENTIAL, SQUARE_ROOT
from tensorproof.repair.source.text import lines_of
from tensorproof.report.plain_text import one_line

#: Rules that a repair mends in a program, too: those of derivatives, which ONNX files do not have.
_ALSO: Mapping[str, frozenset[str]] = {
    LOG_SOFTMAX.name: frozenset({"NUM403"}),
    LOG_SIGMOID.name: frozenset({"NUM403"}),
    SOFTPLUS.name: frozenset({"NUM404"}),
    ROOT_OF_EXPONENTIAL.name: frozenset({"NUM401", "NUM403", "NUM404"}),
    SQUARE_ROOT.name: frozenset({"NUM401", "NUM403", "NUM404"}),
}
#: Functions that keep the result come first, then choices and clamps that keep it where it is finite, then epsilons.
_IN_ORDER = (
    LOG_SOFTMAX,
    LOG_SIGMOID,
    CROSS_ENTROPY,
    BOUNDED_CROSS_ENTROPY,
    LOG_SUM_EXP,
    SOFTPLUS,
    SIGMOID,
    SOFTMAX,
    ROOT_OF_EXPONENTIAL,
    STANDARD_DEVIATION,
    VECTOR_NORM,
    CHOICE,
    NONNEGATIVE_ROOT,
    INSIDE_DOMAIN,
    MASK,
    HALVED_MASK,
    INSIDE_EDGES,
    EPSILON,
    LARGER_EPSILON,
    DIVISION,
    SQUARE_ROOT,
    LOGARITHM,
)
#: The best of those that pass is taken, the first of equals.
PROGRAM_REPAIRS = tuple(replace(repair, rules=repair.rules | _ALSO.get(repair.name, frozenset())) for repair in _IN_ORDER)
_DIVISIONS = ("Div", "Reciprocal")
#: The longest piece of a line that a summary quotes.
_LONGEST_QUOTE = 120


@dataclass(frozen=True, slots=True)
class SourceProposal:
    """A change of the user's file that has not been verified yet; fields as in `tensorproof.repair.proposal.Proposal`."""

    name: str
    finding: Finding
    summary: str
    because: str
    safe: bool
    #: The whole file after the change.
    text: str = field(repr=False)
    kind: Literal["source"] = "source"


def proposed(version: Version, case: Case | None, finding: Finding) -> Iterator[SourceProposal | tuple[str, str]]:
    """Changes for a finding, in order of preference; where one does not apply, its name and the reason."""
    line = version.line(finding)
    if line is None:
        yield "source", _elsewhere(finding)
        return
    repairs = PROGRAM_REPAIRS if case is None else (*PROGRAM_REPAIRS, *_guards(case))
    text, rule = version.source.text, finding.rule.code
    seen, reasons = set[str](), set[str]()
    column = None if finding.location is None else finding.location.column
    for name, found in proposals(text, line, rule, repairs, format=finding.format, column=column):
        if isinstance(found, NotProposed):
            if found.reason not in reasons:
                reasons.add(found.reason)
                yield name, found.reason
        elif found.source not in seen:
            seen.add(found.source)
            yield SourceProposal(name, finding, _summary(text, found.source), found.why, found.safe, found.source)
    if not seen and not reasons:
        yield "source", f"nothing on line {line} is a pattern that has a repair for {rule}"


def by_hand(case: Case) -> Iterator[str]:
    """Guards of the operand that no pattern of the source can write, in words with their numbers."""
    for found in operand.proposed(case):
        if isinstance(found, Proposal):
            yield f"write it by hand: {found.summary} ({found.because})"
            return
        yield found[1]


def _elsewhere(finding: Finding) -> str:
    location = finding.location
    if location is None or location.file is None or location.line is None:
        return "no line of the program is known for it"
    return f"its line is {location.file}:{location.line}, in another file than the one that is named"


def _guards(case: Case) -> Iterator[Repair]:
    """Clamps of the operand that fails, by the numbers of the operator's own block.

    The widest interval comes first. Next to it a quotient may overflow: an epsilon of the usual size follows.
    """
    rule, op = case.finding.rule.code, case.node.op
    if rule in operand.DECLINED:
        return
    try:
        found = single_interval(Block(case))
    except Declined:
        return
    if found is None:
        return
    guarded, interval, is_harmless = found
    if op in _DIVISIONS and guarded.low < 0.0 < guarded.high:
        # A bound on one side would take the sign from the divisor.
        return
    intervals = [(interval, is_harmless)]
    if interval.low is not None and interval.high is None and interval.low > 0 and guarded.format.is_float:
        epsilon = usual_epsilon(guarded.format, max(map(abs, guarded.ends)))
        intervals += [(Interval(low=epsilon), False)] if epsilon > interval.low else []
    for chosen, safe in intervals:
        moved = "only operands without a finite result are moved" if safe else "operands outside of it are moved to its ends"
        why = f"{op} does not fail for operands {chosen.describe()}; {moved}."
        guard = operand_guard(op, guarded.indices[0], chosen.low, chosen.high, rule=rule, safe=safe, why=why)
        if guard is not None:
            yield guard


def _summary(before: str, after: str) -> str:
    """The lines that change, as they were and as they become."""
    old, new = lines_of(before), lines_of(after)
    parts: list[str] = []
    for first, last, start, end in LineMap(before, after).changes():
        was, becomes = (" ".join("".join(lines).split()) for lines in (old[first:last], new[start:end]))
        label = f"line {first + 1}: "
        if was and becomes:
            parts.append(f"{label}{_quoted(was)} becomes {_quoted(becomes)}")
        else:
            parts.append(f"{label}{_quoted(becomes)} comes before it" if becomes else f"{label}{_quoted(was)} goes")
    return "; ".join(parts)


def _quoted(code: str) -> str:
    return f"`{one_line(code, _LONGEST_QUOTE)}`"
