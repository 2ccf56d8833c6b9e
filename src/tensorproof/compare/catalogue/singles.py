"""Networks of one layer, with legal parameters or with one that is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from tensorproof.compare.catalogue.layer_kind import InputRule, LayerKind, Shape
from tensorproof.compare.catalogue.table import kinds
from tensorproof.compare.spec import Dialect, InputSpec, Json, LayerSpec, NetworkSpec

#: One in so many tests has no rows at all.
_EMPTY_EVERY = 50
#: One in so many tests of a kind that takes masks has some.
_MASKED_EVERY = 3


def single_network(
    kind: LayerKind, parameters: Mapping[str, Json], random: np.random.Generator, *, values: str = "", empty: bool = False
) -> NetworkSpec:
    """A network of one layer on inputs of the palette; `values` says how floating inputs are drawn (any way that the kind allows).

    With `empty` one in fifty has a batch without rows.
    """
    fitting = kind.fitting(parameters) or list(kind.palette)
    shapes = fitting[int(random.integers(len(fitting)))]
    masks: tuple[Shape, ...] = ()
    masked = [pair for pair in kind.masked if kind.result_shapes(pair[0], parameters) is not None]
    if masked and random.integers(_MASKED_EVERY) == 0:
        shapes, masks = masked[int(random.integers(len(masked)))]
    # The batch axis is an axis like others to operators of ONNX.
    if empty and kind.dialect == "keras" and random.integers(_EMPTY_EVERY) == 0:
        shapes, masks = tuple((0, *shape[1:]) for shape in shapes), tuple((0, *shape[1:]) for shape in masks)
    inputs = [input_spec(f"x{index}", shape, kind.input_rule(index), parameters, values) for index, shape in enumerate(shapes)]
    inputs += [InputSpec(f"mask{index}", shape, "bool", "mask") for index, shape in enumerate(masks)]
    layer = LayerSpec("layer", kind.name, kind.given(parameters), tuple(entry.name for entry in inputs))
    results = kind.result_shapes(shapes, parameters)
    # In the ONNX dialect the name of a node stands for all its results.
    count = len(results) if results is not None and kind.dialect == "keras" else 1
    return NetworkSpec(kind.dialect, tuple(inputs), (layer,), ("layer", *(f"layer:{index}" for index in range(1, count))))


def input_spec(name: str, shape: Shape, rule: InputRule, parameters: Mapping[str, Json], values: str) -> InputSpec:
    """An input that holds what a layer expects."""
    wanted = values if values in rule.values else rule.values[0]
    high = parameters.get(rule.high, 8) if isinstance(rule.high, str) else rule.high
    spec = InputSpec(name, shape, rule.dtype, wanted)
    return replace(spec, high=int(high)) if wanted == "integers" and isinstance(high, int) and high > 0 else spec


@cache
def illegal_cases(dialect: Dialect) -> tuple[tuple[str, str, int], ...]:
    """Every illegal value of the catalogue: kind, parameter, place among the illegal values."""
    return tuple(
        (kind.name, name, place)
        for kind in kinds(dialect).values()
        for name, parameter in kind.parameters.items()
        for place in range(len(parameter.illegal))
    )


def illegal_network(kind: LayerKind, name: str, place: int, random: np.random.Generator) -> NetworkSpec:
    """A layer that has every parameter at its default except for one, which is illegal."""
    fitting = kind.fitting(kind.required) or list(kind.palette)
    shapes = fitting[int(random.integers(len(fitting)))]
    parameters = {**kind.required, name: kind.parameters[name].illegal[place]}
    inputs = tuple(
        input_spec(f"x{index}", shape, kind.input_rule(index), parameters, "normal") for index, shape in enumerate(shapes)
    )
    layer = LayerSpec("layer", kind.name, parameters, tuple(entry.name for entry in inputs))
    return NetworkSpec(kind.dialect, inputs, (layer,), ("layer",))
