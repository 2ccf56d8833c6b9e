"""`Coverage`: which kinds, pairs of parameter values, number types and phases some tests have seen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from tensorproof.compare.catalogue.covering import Pair, Row, pairs_in, possible_pairs
from tensorproof.compare.catalogue.layer_kind import LayerKind, same
from tensorproof.compare.catalogue.table import kinds
from tensorproof.compare.catalogue.tracing import shapes_of
from tensorproof.compare.spec import Dialect, Json, LayerSpec, TestSpec


class Coverage:
    """Counts over tests. Layers with an illegal value count as `illegal` only, by kind: they are refused before they compute."""

    def __init__(self) -> None:
        self.tests = 0
        self.layers: Counter[tuple[Dialect, str]] = Counter()
        self.dtypes: Counter[str] = Counter()
        self.phases: Counter[str] = Counter()
        #: (dialect, kind, number type, phase)
        self.conditions: Counter[tuple[str, str, str, str]] = Counter()
        self.illegal: Counter[tuple[Dialect, str]] = Counter()
        self._pairs: dict[tuple[Dialect, str], set[Pair]] = {}

    def add(self, test: TestSpec) -> None:
        """Count one test."""
        self.tests += 1
        dialect = test.network.dialect
        if shapes_of(test.network) is None:
            self.illegal.update((dialect, layer.kind) for layer in test.layers)
            return
        self.dtypes[test.dtype] += 1
        self.phases[test.phase] += 1
        for layer in test.layers:
            key = dialect, layer.kind
            self.layers[key] += 1
            self.conditions[(*key, test.dtype, test.phase)] += 1
            self._pairs.setdefault(key, set()).update(_pairs_of(kinds(dialect)[layer.kind], layer))

    def add_all(self, tests: Iterable[TestSpec]) -> Coverage:
        """Count some tests."""
        for test in tests:
            self.add(test)
        return self

    def pairs(self, dialect: Dialect, kind: str) -> tuple[int, int]:
        """How many pairs of legal values of a kind were seen together, and how many there are."""
        possible = possible_pairs(kinds(dialect)[kind])
        return len(self._pairs.get((dialect, kind), set()) & possible), len(possible)

    def totals(self, dialect: Dialect) -> dict[str, int]:
        """Kinds and pairs of a dialect, seen and all."""
        counted = [self.pairs(dialect, name) for name in kinds(dialect)]
        return {
            "kinds seen": sum((dialect, name) in self.layers for name in kinds(dialect)),
            "kinds": len(counted),
            "pairs seen": sum(seen for seen, _ in counted),
            "pairs": sum(possible for _, possible in counted),
        }

    def to_json(self) -> Json:
        """Everything, in an order that is always the same."""
        return {
            "tests": self.tests,
            "dtypes": dict(sorted(self.dtypes.items())),
            "phases": dict(sorted(self.phases.items())),
            "dialects": {
                dialect: {
                    **self.totals(dialect),
                    "layers": {
                        name: {
                            "tests": self.layers[dialect, name],
                            "illegal": self.illegal[dialect, name],
                            "pairs seen": self.pairs(dialect, name)[0],
                            "pairs": self.pairs(dialect, name)[1],
                            "conditions": {
                                f"{dtype} {phase}": count
                                for (d, k, dtype, phase), count in sorted(self.conditions.items())
                                if (d, k) == (dialect, name)
                            },
                        }
                        for name in sorted(kinds(dialect))
                    },
                }
                for dialect in self._dialects()
            },
        }

    def to_text(self) -> str:
        """A few lines for a terminal."""
        lines = [f"{self.tests} tests, {sum(self.illegal.values())} layers with an illegal value"]
        for dialect in self._dialects():
            total = self.totals(dialect)
            lines.append(
                f"{dialect}: {total['kinds seen']} of {total['kinds']} kinds,"
                f" {total['pairs seen']} of {total['pairs']} pairs of parameter values"
                f" ({_percent(total['pairs seen'], total['pairs'])})"
            )
        lines.append("types: " + ", ".join(f"{name} {count}" for name, count in sorted(self.dtypes.items())))
        lines.append("phases: " + ", ".join(f"{name} {count}" for name, count in sorted(self.phases.items())))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.to_text()

    def to_json_text(self) -> str:
        """`to_json` as text."""
        return json.dumps(self.to_json(), indent=1, sort_keys=True)

    def _dialects(self) -> list[Dialect]:
        seen = {dialect for dialect, _ in [*self.layers, *self.illegal]}
        every: tuple[Dialect, ...] = ("keras", "onnx")
        return [dialect for dialect in every if dialect in seen]


def _pairs_of(kind: LayerKind, layer: LayerSpec) -> Iterable[Pair]:
    """Pairs of a layer's values that are in the catalogue; values that are not there count for nothing."""
    arguments = kind.arguments(layer.parameters)
    row: Row = tuple(
        next((place for place, value in enumerate(parameter.legal) if same(value, arguments[name])), -1)
        for name, parameter in kind.parameters.items()
    )
    return (pair for pair in pairs_in(row) if pair[1] >= 0 and (pair[2] < 0 or pair[3] >= 0))


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"
