"""The registry of idioms, and the claims that they make about the nodes of one model."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tensorproof.graph import Model, Node
from tensorproof.idioms.structure import Structure
from tensorproof.operators.table import Bound


@dataclass(frozen=True, slots=True)
class Fact:
    """A bound that says more: rules (by code) that cannot fire in the node, and special values that its result never has.

    `legal` are special values that the result may have, and that are no defect.
    """

    bound: Bound | None = None
    impossible: frozenset[str] = frozenset()
    never: int = 0
    legal: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """A bound on the first result of one node, as computed.

    `bound` is called with the call and the ranges of the values named in `reads`, each time that the node is evaluated. It
    gives two numbers (low, high), or a range of the result's shape, or a fact, or None where it has nothing to say. It
    holds if no hazard fires in the node or before it, those aside that a fact excludes. `norm` is called with the call, the
    range of the result and the same ranges, and gives a bound on the Euclidean norm of the result
    (`tensorproof.ranges.norms.Norm`), or None. `fine` are values that the claim needs element by element.
    """

    idiom: str
    reads: tuple[int, ...]
    bound: Callable[..., Any]
    norm: Callable[..., Any] | None = None
    fine: tuple[int, ...] = ()


Recogniser = Callable[[Structure, Node], Claim | None]


@dataclass(frozen=True, slots=True)
class Idiom:
    """One idiom: the operators at whose nodes it is tried, and what recognises it there. Its docstring is its proof."""

    name: str
    operators: tuple[str, ...]
    recognise: Recogniser
    costly: bool = False


_IDIOMS: dict[str, Idiom] = {}


def idiom(*operators: str, costly: bool = False) -> Callable[[Recogniser], Idiom]:
    """Enter an idiom that claims something about nodes of these operators (of the ONNX standard, others with their domain).

    `costly` says that its claims take far more time than the node itself: very large models do without in their first pass.
    """

    def enter(recognise: Recogniser) -> Idiom:
        name = recognise.__name__.strip("_").replace("_", "-")
        if name in _IDIOMS:
            raise ValueError(f"two idioms are named {name}")
        _IDIOMS[name] = Idiom(name, operators, recognise, costly)
        return _IDIOMS[name]

    return enter


@cache
def _by_operator() -> Mapping[str, Sequence[Idiom]]:
    package = importlib.import_module("tensorproof.idioms")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    found: dict[str, list[Idiom]] = {}
    for entry in _IDIOMS.values():
        for name in entry.operators:
            found.setdefault(name, []).append(entry)
    return found


def all_idioms() -> Iterator[Idiom]:
    """Every idiom, by name."""
    _by_operator()
    return iter(sorted(_IDIOMS.values(), key=lambda entry: entry.name))


#: What a recogniser meets in a node that is not what its operator's schema says. Such a node makes no idiom, and its own block
#: says what is wrong with it.
_MALFORMED = (AssertionError, IndexError, KeyError, TypeError, ValueError)


def claims_of(model: Model, *, costly: bool = True) -> dict[int, list[Claim]]:
    """The claims about each node of a model, by the node's number; those of costly idioms only if they are asked for."""
    by_operator = _by_operator()
    structure: Structure | None = None
    claims: dict[int, list[Claim]] = {}
    for node in model.graph.walk():
        if node.label not in by_operator:
            continue
        if structure is None:
            structure = Structure(model)
        for entry in by_operator[node.label]:
            if entry.costly and not costly:
                continue
            try:
                claim = entry.recognise(structure, node)
            except _MALFORMED:
                continue
            if claim is not None:
                claims.setdefault(node.number, []).append(claim)
    return claims
