"""Stable rewrites: the same function by other operators, which do not fail. One pattern per module, its algebra in its docstring.

A rewrite is tried at the node of a finding, and at the nodes behind it whose results it flows into: a naive logarithm of a sum of
exponentials overflows in the exponential and is mended at the logarithm.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tensorproof.graph import Node
from tensorproof.repair.editing import Editor
from tensorproof.repair.matching import result, users
from tensorproof.repair.proposal import Case, Declined, Proposal
from tensorproof.repair.recognised import vanishing

#: A rewrite is anchored at most this many nodes behind the node that fails.
REACH = 8

#: Called with the case and the node that the pattern would end in; raises Declined with the reason if it does not apply.
Pattern = Callable[[Case, Node], Proposal]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A pattern with the operators that it ends in."""

    name: str
    operators: tuple[str, ...]
    match: Pattern


_REWRITES: dict[str, Rewrite] = {}


def rewrite(*operators: str) -> Callable[[Pattern], Rewrite]:
    """Enter a rewrite whose last node is one of these operators of the ONNX standard."""

    def enter(match: Pattern) -> Rewrite:
        name = match.__name__.strip("_").replace("_", "-")
        if name in _REWRITES:
            raise ValueError(f"two rewrites are named {name}")
        _REWRITES[name] = Rewrite(name, operators, match)
        return _REWRITES[name]

    return enter


@cache
def by_operator() -> Mapping[str, Sequence[Rewrite]]:
    """All rewrites, by the operator that they end in."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    found: dict[str, list[Rewrite]] = {}
    for entry in _REWRITES.values():
        for operator in entry.operators:
            found.setdefault(operator, []).append(entry)
    return found


def all_rewrites() -> Iterator[Rewrite]:
    """Every rewrite, by name."""
    by_operator()
    return iter(sorted(_REWRITES.values(), key=lambda entry: entry.name))


def proposed(case: Case) -> Iterator[Proposal | tuple[str, str]]:
    """The rewrites of a finding's node; where one does not apply, its name and the reason."""
    for anchor in _anchors(case):
        for entry in by_operator().get(anchor.op, ()) if not anchor.domain else ():
            try:
                proposal = entry.match(case, anchor)
            except Declined as reason:
                yield entry.name, str(reason)
                continue
            if case.node.name in proposal.replaces:
                yield proposal
            else:
                yield entry.name, f"{case.node.name} is no part of the pattern, or something else reads its result, too"


def proposal(
    case: Case,
    node: Node,
    inner: Sequence[Node],
    *,
    name: str,
    summary: str,
    because: str,
    edit: Callable[[Editor], None],
    safe: bool = True,
) -> Proposal:
    """A rewrite that ends in a node: it replaces that, and those inner nodes that are read by no other.

    It is not safe if it leaves out a conversion to a narrower format, whose rounding the original has.
    """
    safe = safe and not any(_narrows(case, move) for move in inner)
    return Proposal("rewrite", name, case.finding, summary, because, safe, vanishing(case, node, inner), edit)


def _narrows(case: Case, node: Node) -> bool:
    before, after = case.format(node.inputs[0]), case.format(result(node))
    return node.op in ("Cast", "CastLike") and (before is None or after is None or after.digits < before.digits)


def _anchors(case: Case) -> Iterator[Node]:
    """The node, then the nodes that it flows into, nearest first."""
    seen = {case.node.number}
    wave = [case.node]
    for _ in range(REACH):
        yield from wave
        wave = [user for node in wave if node.outputs for user in users(case, result(node)) if user.number not in seen]
        wave = list({node.number: node for node in wave}.values())
        seen.update(node.number for node in wave)
