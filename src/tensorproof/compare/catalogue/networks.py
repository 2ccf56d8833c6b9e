"""Random networks whose shapes fit: chains that branch and join again."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from tensorproof.compare.catalogue.covering import covering_rows, values_of
from tensorproof.compare.catalogue.layer_kind import IMAGES, SEQUENCES, LayerKind, Shape
from tensorproof.compare.catalogue.table import kinds
from tensorproof.compare.spec import Dialect, InputSpec, Json, LayerSpec, NetworkSpec

#: Layers of a network, at least and at most.
SHORTEST, LONGEST = 3, 12
#: Elements that a result may have.
_LARGEST = 2048
_STARTS = (*SEQUENCES[:3], *IMAGES[:2], (2, 8), (4, 12))
_ONNX_STARTS = ((2, 4, 8, 8), (1, 3, 7, 5), (2, 8, 4), (2, 8))
#: How many kinds are tried at a place before the network ends there.
_TRIES = 40
_JOINS = {"keras": ("Add", "Concatenate", "Multiply", "Maximum"), "onnx": ("Add", "Concat", "Mul", "Max")}


@cache
def usable(dialect: Dialect) -> tuple[LayerKind, ...]:
    """Kinds with one floating input and one floating result, that compute the same in every phase."""
    return tuple(
        kind
        for kind in kinds(dialect).values()
        if 1 in kind.arities and not kind.is_random and not kind.result_dtype and kind.inputs[0].dtype == "float32"
    )


def random_network(dialect: Dialect, random: np.random.Generator, values: str = "normal") -> NetworkSpec:
    """A network of 3 to 12 layers. All that nothing else uses are its outputs."""
    starts = _STARTS if dialect == "keras" else _ONNX_STARTS
    start = starts[int(random.integers(len(starts)))]
    growing = _Growing(dialect, random, start)
    wanted = int(random.integers(SHORTEST, LONGEST + 1))
    while len(growing.layers) < wanted:
        source = growing.last if random.random() < 0.8 else growing.any_value()
        if len(growing.layers) + 3 <= wanted and random.random() < 0.3:
            growing.branch(source)
        elif not growing.extend(source) and not growing.extend(growing.any_value()):
            break
    used = {name for layer in growing.layers for name in layer.inputs}
    outputs = tuple(layer.name for layer in growing.layers if layer.name not in used)
    return NetworkSpec(dialect, (InputSpec("x", start, values=values),), tuple(growing.layers), outputs)


class _Growing:
    """A network under construction."""

    def __init__(self, dialect: Dialect, random: np.random.Generator, start: Shape) -> None:
        self.dialect: Dialect = dialect
        self.random = random
        self.shapes: dict[str, Shape] = {"x": start}
        self.layers: list[LayerSpec] = []
        self.last = "x"

    def any_value(self) -> str:
        names = list(self.shapes)
        return names[int(self.random.integers(len(names)))]

    def extend(self, source: str, same_shape: bool = False) -> bool:
        """Another layer on a value."""
        kinds_here = usable(self.dialect)
        for _ in range(_TRIES):
            kind = kinds_here[int(self.random.integers(len(kinds_here)))]
            rows = covering_rows(kind, 0)
            parameters = values_of(kind, rows[int(self.random.integers(len(rows)))])
            # Keras promises another shape for a gated linear unit than it gives, and what follows would be built for that one.
            if parameters.get("return_state") or parameters.get("activation") == "glu":
                continue
            results = kind.result_shapes([self.shapes[source]], parameters)
            if results is None or len(results) != 1 or not 0 < math.prod(results[0]) <= _LARGEST:
                continue
            if same_shape and results[0] != self.shapes[source]:
                continue
            self._add(kind.name, kind.given(parameters), (source,), results[0])
            return True
        return False

    def branch(self, source: str) -> None:
        """A value on two ways that join again, if their shapes allow."""
        ways: list[str] = []
        for _ in range(2):
            if self.extend(source, same_shape=self.random.random() < 0.7):
                ways.append(self.last)
        joins = _JOINS[self.dialect]
        for place in self.random.permutation(len(joins)):
            kind = kinds(self.dialect)[joins[int(place)]]
            for axis in (-1, 1):
                parameters = {"axis": axis} if "axis" in kind.parameters else {}
                results = kind.result_shapes([self.shapes[way] for way in ways], parameters) if len(ways) == 2 else None
                if results is not None and math.prod(results[0]) <= _LARGEST:
                    self._add(kind.name, kind.given(parameters), tuple(ways), results[0])
                    return

    def _add(self, kind: str, parameters: dict[str, Json], inputs: tuple[str, ...], shape: Shape) -> None:
        self.last = f"layer{len(self.layers)}"
        self.layers.append(LayerSpec(self.last, kind, parameters, inputs))
        self.shapes[self.last] = shape
