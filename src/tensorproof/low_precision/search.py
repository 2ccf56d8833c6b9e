"""The search of a small set of nodes that stay in float32: grow it until nothing speaks against it, then take away what is idle.

A judge says what speaks against a mixture; how it knows (by runs, by proof) is its own matter. The search is deterministic, and
its budget counts the judge's evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from tensorproof.errors import ConfigurationError
from tensorproof.low_precision.mixed import Blueprint
from tensorproof.low_precision.parts import Part

#: Nodes with the reason why each stays in float32.
Reasons = Mapping[str, str]


class BudgetSpent(ConfigurationError):
    """No evaluations are left."""

    def __init__(self) -> None:
        super().__init__("the evaluations were spent before a plan was found; allow more with --evaluations")


class Budget:
    """Evaluations that may be spent, and those that were; `progress` is told of each."""

    def __init__(self, evaluations: int, progress: Callable[[int], None] | None = None) -> None:
        self.evaluations = evaluations
        self.spent = 0
        self._progress = progress

    def spend(self) -> None:
        """Count one evaluation; raises BudgetSpent if it is one too many."""
        if self.spent >= self.evaluations:
            raise BudgetSpent
        self.spent += 1
        if self._progress is not None:
            self._progress(self.spent)


class Judge(Protocol):
    """Says whether a mixture is good enough."""

    def objections(self, kept: Collection[str]) -> Reasons:
        """Further nodes that have to stay, at least one if anything fails, each with the reason; none if nothing fails."""
        ...

    def accepts(self, kept: Collection[str]) -> bool:
        """Whether nothing fails."""
        ...


class All:
    """Several judges, the cheapest first: a mixture has to please each of them."""

    def __init__(self, judges: Sequence[Judge]) -> None:
        self.judges = judges

    def objections(self, kept: Collection[str]) -> Reasons:
        return next((found for judge in self.judges if (found := judge.objections(kept))), {})

    def accepts(self, kept: Collection[str]) -> bool:
        return all(judge.accepts(kept) for judge in self.judges)


def grown(judge: Judge, kept: Reasons) -> dict[str, str]:
    """The set with all that the judge asks for. Ends, as every objection names nodes that are not in the set yet."""
    found = dict(kept)
    while more := judge.objections(found):
        found.update(more)
    return found


def minimised(judge: Judge, kept: Sequence[str]) -> tuple[list[str], bool]:
    """The set without groups, then without single nodes, that the judge does not miss; False if the budget cut this short.

    After Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (2002).
    """
    left = list(kept)
    size = len(left)
    try:
        while size >= 1:
            shorter = _without_groups(judge, left, size)
            # A pass over single nodes is repeated until it takes nothing away.
            size = size // 2 if size > 1 or len(shorter) == len(left) else 1
            left[:] = shorter
    except _CutShort as cut:
        return cut.left, False
    return left, True


class _CutShort(Exception):
    """The budget was spent; `left` is the smallest set so far."""

    def __init__(self, left: list[str]) -> None:
        super().__init__()
        self.left = left


def _without_groups(judge: Judge, kept: list[str], size: int) -> list[str]:
    """One pass over neighbouring groups of a size."""
    left, start = list(kept), 0
    while start < len(left):
        trial = left[:start] + left[start + size :]
        try:
            is_idle = judge.accepts(trial)
        except BudgetSpent:
            raise _CutShort(left) from None
        if is_idle:
            left = trial
        else:
            start += size
    return left


def readers(blueprint: Blueprint, value: str, kept: Collection[str]) -> list[str]:
    """The converted nodes that read a value in the format."""
    return [part.name for part in blueprint.free if part.name not in kept and value in set(part.low_reads())]


def nearest_converted(blueprint: Blueprint, name: str, kept: Collection[str]) -> list[str]:
    """The converted nodes that lead to a node's operands with none in between, as near as there are any."""
    free = {part.name for part in blueprint.free}
    ring = [part for part in blueprint.parts if part.name == name]
    seen = {name}
    while ring:
        operands = (value for part in ring for value in (*part.node.input, *part.captured))
        ring = list({p.name: p for p in _producers(blueprint, operands) if p.name not in seen}.values())
        found = [part.name for part in ring if part.name in free and part.name not in kept]
        if found:
            return found
        seen.update(part.name for part in ring)
    return []


def _producers(blueprint: Blueprint, values: Iterable[str]) -> Iterable[Part]:
    return (blueprint.producers[value] for value in values if value in blueprint.producers)
