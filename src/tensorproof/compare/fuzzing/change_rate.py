"""Layers suspected by how fast the distance of two backends grows: AUDEE's change rate and CRADLE's ranking.

AUDEE (Guo et al., ASE 2020, section III-D) and CRADLE (Pham et al., ICSE 2019) compare layer by layer: d is the mean absolute
difference of a layer's two results, and the rate R = (d - p) / (p + epsilon) with p the largest d of its predecessors. These
are kept as cheap first suspicion and as baselines: a rate says where a difference grows, not who is its cause (`localising`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tensorproof.compare.backends.backend import NetworkRun
from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.spec import InputSpec, NetworkSpec, TestSpec

#: AUDEE's and CRADLE's constant against division by zero.
EPSILON = 1e-7


@dataclass(frozen=True)
class Thresholds:
    """`jump` is for layers before which nothing differs, `growth` for the others.

    A layer whose predecessors differ by less than `nothing` on average has nothing before it. The values are those that
    `python -m benchmarks localisation` prints for 1,000 networks, of which they are a fit: layers with and without planted faults,
    Keras on PyTorch against TensorFlow. AUDEE took 1000 and 2, and misses more of the small faults.
    """

    jump: float = 15.0
    growth: float = 0.73
    nothing: float = 1e-6


#: How one backend runs a test, with some arrays given.
Run = Callable[[TestSpec, Arrays], NetworkRun]


def distance(left: Array, right: Array) -> float:
    """The mean absolute difference. Infinite for another shape, or NaN and infinity at other places."""
    if left.shape != right.shape:
        return math.inf
    if left.size == 0:
        return 0.0
    a, b = left.astype(np.float64), right.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(a - b))
    return float(np.mean(np.where(np.isnan(difference), math.inf, difference)))


def layer_distances(test: TestSpec, left: Run, right: Run, arrays: Arrays | None = None) -> dict[str, float]:
    """Distances by layer. All results are in memory at a time, as in AUDEE. Layers that did not run have none."""
    every = replace(test, network=replace(test.network, outputs=tuple(layer.name for layer in test.layers)))
    one, two = left(every, arrays or {}), right(every, arrays or {})
    return {
        name: distance(one.arrays[name], two.arrays[name])
        for name in every.network.outputs
        if name in one.arrays.keys() & two.arrays.keys()
    }


def change_rates(network: NetworkSpec, distances: Mapping[str, float]) -> dict[str, float]:
    """The rate of each layer, in the network's order. Inputs are the same on both sides."""
    rates: dict[str, float] = {}
    for layer in network.layers:
        if layer.name in distances:
            before = before_layer(network, distances, layer.name)
            if math.isinf(before):
                rates[layer.name] = 0.0
            else:
                rates[layer.name] = (distances[layer.name] - before) / (before + EPSILON)
    return rates


def before_layer(network: NetworkSpec, distances: Mapping[str, float], name: str) -> float:
    """The largest distance among a layer's predecessors."""
    return max((distances.get(entry, 0.0) for entry in network.layer(name).inputs), default=0.0)


def suspects(network: NetworkSpec, distances: Mapping[str, float], thresholds: Thresholds) -> list[str]:
    """Layers whose rate exceeds its threshold, in the network's order."""
    rates = change_rates(network, distances)
    found: list[str] = []
    for name, rate in rates.items():
        before = before_layer(network, distances, name)
        if rate > (thresholds.jump if before <= thresholds.nothing else thresholds.growth):
            found.append(name)
    return found


def cradle_ranking(network: NetworkSpec, distances: Mapping[str, float]) -> list[str]:
    """All layers, the highest rate first; of equal ones the earlier."""
    rates = change_rates(network, distances)
    return sorted(rates, key=lambda name: -rates[name])


def localise_fix(
    test: TestSpec, left: Run, right: Run, thresholds: Thresholds | None = None, arrays: Arrays | None = None, limit: int = 8
) -> list[str]:
    """AUDEE's algorithm 2: the first suspect is named, its result replaced by the right side's, and the rest looked at again.

    So two faults in one network are both named, though the second hides behind the first.
    """
    found: list[str] = []
    rest, given = test, dict(arrays or {})
    while len(found) < limit:
        suspected = suspects(rest.network, layer_distances(rest, left, right, given), thresholds or Thresholds())
        if not suspected:
            break
        name = suspected[0]
        found.append(name)
        alone = replace(rest, network=rest.network.up_to([name]))
        value = right(alone, given).arrays.get(name)
        fixed = None if value is None else with_layer_given(rest.network, name, value)
        if value is None or fixed is None:
            break
        given[name] = value
        rest = replace(rest, network=fixed)
    return found


def with_layer_given(network: NetworkSpec, name: str, value: Array) -> NetworkSpec | None:
    """The network in which a layer's result is an input. None if nothing is left to compute."""
    layers = tuple(entry for entry in network.layers if entry.name != name)
    outputs = tuple(entry for entry in network.outputs if entry != name)
    if not layers or not outputs:
        return None
    cut = replace(network, inputs=(*network.inputs, input_like(name, value)), layers=layers, outputs=outputs)
    return cut.up_to(outputs)


def input_like(name: str, value: Array) -> InputSpec:
    """An input that takes a value, and draws others like it."""
    if value.dtype.kind == "b":
        return InputSpec(name, value.shape, "bool", "mask")
    if value.dtype.kind in "iu":
        return InputSpec(name, value.shape, value.dtype.name, "integers", int(value.max(initial=0)) + 1)
    return InputSpec(name, value.shape)


def guilty_parameters(
    test: TestSpec, name: str, left: Run, right: Run, thresholds: Thresholds | None = None, arrays: Arrays | None = None
) -> list[str]:
    """AUDEE's causal parameters: those whose default, one at a time, takes the layer off the list of suspects.

    Faults that need two parameters name both; faults that any of two parameters shows name none (`reducing` keeps a minimal set).
    """
    layer = test.network.layer(name)
    limits = thresholds or Thresholds()
    found: list[str] = []
    for key in sorted(layer.parameters):
        rest = {other: value for other, value in layer.parameters.items() if other != key}
        changed = replace(test, network=test.network.with_layer(layer.with_parameters(rest)).up_to([name]))
        distances = layer_distances(changed, left, right, arrays)
        if name in distances and name not in suspects(changed.network, distances, limits):
            found.append(key)
    return found
