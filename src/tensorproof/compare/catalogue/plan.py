"""`Plan`: an endless sequence of tests that depends on a seed alone.

Tests come in blocks. A block has, in an order of its own, single-layer tests of every kind (more of those with many parameters),
networks, changed seed networks, and layers with one illegal value. The n-th test of a kind takes the n-th row of its covering
array, so that after some blocks every pair of parameter values was seen; what else is drawn depends on seed and number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np

from tensorproof.compare.catalogue.covering import Row, covering_rows, values_of
from tensorproof.compare.catalogue.layer_kind import LayerKind
from tensorproof.compare.catalogue.mutating import changed_network
from tensorproof.compare.catalogue.networks import random_network
from tensorproof.compare.catalogue.seed_networks import seed_networks
from tensorproof.compare.catalogue.singles import illegal_cases, illegal_network, single_network
from tensorproof.compare.catalogue.table import kinds
from tensorproof.compare.drawing import generator
from tensorproof.compare.spec import Dialect, NetworkSpec, Phase, TestSpec
from tensorproof.errors import ConfigurationError

Item = TypeVar("Item")

#: What a test is made from.
Origin = Literal["single", "network", "seed network", "illegal"]

#: A kind has one test in a block for each so many pairs of values of its two largest parameters, and at least one: a covering
#: array has at least so many rows.
ROWS_PER_TEST = 8
_DTYPES = ("float32",) * 5 + ("float16",) * 2 + ("bfloat16", "float64")
_ONNX_DTYPES = ("float32",) * 4 + ("float16", "float64")
_PHASES: tuple[Phase, ...] = ("inference",) * 4 + ("training",) + ("gradient",) * 2
_VALUES = ("normal", "normal", "uniform", "signs", "edges")
#: Large values go with ordinary numbers only: edges are large as they are.
_SCALES = (1.0, 1.0, 1.0, 30.0)


@dataclass(frozen=True)
class PlanOptions:
    """Which tests a plan has. `kinds` restricts single-layer tests and illegal values to some kinds (None: all).

    `networks`, `mutations` and `illegal` are how many such tests there are for each single-layer test.
    """

    dialects: tuple[Dialect, ...] = ("keras", "onnx")
    kinds: frozenset[str] | None = None
    dtypes: tuple[str, ...] | None = None
    phases: tuple[Phase, ...] | None = None
    networks: float = 0.15
    mutations: float = 0.02
    illegal: float = 0.15
    #: Some batches have no rows.
    empty_batches: bool = True


@dataclass(frozen=True)
class _Slot:
    """A place in a block: what is tested, and the how-manieth of its sort in a block of `of` such."""

    origin: Origin
    dialect: Dialect
    kind: str
    index: int
    of: int


class Plan:
    """Tests by number: `plan[7]` is the same test whatever was asked before, in any process."""

    def __init__(self, seed: int = 0, options: PlanOptions | None = None) -> None:
        self.seed = seed
        self.options = options or PlanOptions()
        if not self._slots:
            raise ConfigurationError("the plan is empty: none of the chosen kinds is in the catalogue of the chosen dialects")

    def __len__(self) -> int:
        """A plan has no end; this is a number that no campaign reaches."""
        return 2**31 - 1

    @property
    def block(self) -> int:
        """How many tests there are until every kind was tested."""
        return len(self._slots)

    def origin(self, number: int) -> Origin:
        """What the test of that number is made from."""
        return self._slot(number)[0].origin

    def __getitem__(self, number: int) -> TestSpec:
        if number < 0:
            raise IndexError(number)
        slot, round_ = self._slot(number)
        random = generator("plan", self.seed, number)
        occurrence = round_ * slot.of + slot.index
        phase: Phase = "inference"
        dtype, values, scale = "float32", "normal", 1.0
        if slot.origin != "illegal":
            key = (slot.origin, slot.dialect, slot.kind)
            onnx = slot.dialect == "onnx"
            dtype = self._nth(self.options.dtypes or (_ONNX_DTYPES if onnx else _DTYPES), occurrence, "dtype", *key)
            phase = "inference" if onnx else self._nth(self.options.phases or _PHASES, occurrence, "phase", *key)
            values = self._nth(_VALUES, occurrence, "values", *key)
            scale = 1.0 if values == "edges" else self._nth(_SCALES, occurrence, "scale", *key)
        network = self._network(slot, occurrence, random, values)
        dtype = dtype if all(dtype in kinds(slot.dialect)[layer.kind].dtypes for layer in network.layers) else "float32"
        if phase == "gradient" and not any(entry.dtype.startswith("float") for entry in network.inputs):
            phase = "inference"
        return TestSpec(network, int(random.integers(2**31)), dtype, phase, scale)

    def _network(self, slot: _Slot, occurrence: int, random: np.random.Generator, values: str) -> NetworkSpec:
        if slot.origin == "single":
            kind = kinds(slot.dialect)[slot.kind]
            row = self._row(kind, occurrence)
            return single_network(kind, values_of(kind, row), random, values=values, empty=self.options.empty_batches)
        if slot.origin == "illegal":
            name, parameter, place = self._nth(self._illegal(slot.dialect), occurrence, "illegal", slot.dialect)
            return illegal_network(kinds(slot.dialect)[name], parameter, place, random)
        if slot.origin == "network":
            return random_network(slot.dialect, random, values)
        seed = self._nth(tuple(seed_networks().values()), occurrence, "seed network")
        return changed_network(seed.network, random, int(random.integers(1, 4)))

    def _row(self, kind: LayerKind, occurrence: int) -> Row:
        """Rows of one covering array after another, each array from another draw."""
        cycle = 0
        while True:
            rows = covering_rows(kind, self.seed, cycle)
            if occurrence < len(rows):
                return rows[occurrence]
            occurrence -= len(rows)
            cycle += 1

    def _illegal(self, dialect: Dialect) -> tuple[tuple[str, str, int], ...]:
        chosen = self.options.kinds
        return tuple(case for case in illegal_cases(dialect) if chosen is None or case[0] in chosen)

    def _nth(self, items: Sequence[Item], number: int, *key: object) -> Item:
        """Items in rounds; each round has all of them, in an order of its own."""
        round_, place = divmod(number, len(items))
        order = generator("order", self.seed, *key, round_).permutation(len(items))
        return items[int(order[place])]

    def _slot(self, number: int) -> tuple[_Slot, int]:
        round_, place = divmod(number, len(self._slots))
        order = generator("block", self.seed, round_).permutation(len(self._slots))
        return self._slots[int(order[place])], round_

    @cached_property
    def _slots(self) -> tuple[_Slot, ...]:
        options = self.options
        found: list[_Slot] = []
        for dialect in options.dialects:
            chosen = [kind for kind in kinds(dialect).values() if options.kinds is None or kind.name in options.kinds]
            singles = 0
            for kind in chosen:
                count = max(1, round(_fewest_rows(kind) / ROWS_PER_TEST))
                found += [_Slot("single", dialect, kind.name, index, count) for index in range(count)]
                singles += count
            shares: list[tuple[Origin, float]] = [("network", options.networks)]
            if dialect == "keras":
                shares.append(("seed network", options.mutations))
            if self._illegal(dialect):
                shares.append(("illegal", options.illegal))
            for origin, share in shares:
                count = round(share * singles)
                found += [_Slot(origin, dialect, "", index, count) for index in range(count)]
        return tuple(found)


def _fewest_rows(kind: LayerKind) -> int:
    sizes = sorted((len(parameter.legal) for parameter in kind.parameters.values()), reverse=True)
    return math.prod(sizes[:2])
