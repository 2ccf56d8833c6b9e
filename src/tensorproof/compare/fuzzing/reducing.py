"""`reduce_test`: the smallest test that still shows a symptom.

Parameters go back to their defaults by delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input",
2002, ddmin), so that a set remains of which none can be left out; then arrays are drawn rather than given, layers that take no part
are removed, and sizes shrink, equal ones together. Everything is tried in a fixed order and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar, cast

from tensorproof.compare.catalogue import kinds
from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.fuzzing.referee import illegal_parameters
from tensorproof.compare.spec import Dialect, Json, LayerSpec, NetworkSpec, TestSpec

#: How many tests one reduction may run.
BUDGET = 200

Item = TypeVar("Item")
#: Does a test show the symptom, with some arrays given?
Shows = Callable[[TestSpec, Arrays], bool]


@dataclass(frozen=True)
class Reduction:
    """A reduced test, what has to be given with it, and the parameters of its layer that must not have their defaults."""

    test: TestSpec
    arrays: Arrays = field(default_factory=dict[str, Array])
    parameters: tuple[str, ...] = ()
    evaluations: int = 0
    trail: tuple[str, ...] = ()


def reduce_test(
    test: TestSpec, arrays: Arrays | None, shows: Shows, *, layer: str | None = None, budget: int = BUDGET
) -> Reduction:
    """Reduce a test that shows a symptom. `parameters` are those of `layer`; of the last layer if none is named."""
    trial = _Trial(shows, budget)
    given = dict(arrays or {})
    name = layer or test.layers[-1].name
    others = [entry.name for entry in test.layers if entry.name != name]
    test, given = _without_layers(test, given, others, trial)
    parameters: tuple[str, ...] = ()
    for entry in [name, *(part for part in others if any(kept.name == part for kept in test.layers))]:
        test, remaining = _with_defaults(test, given, entry, trial)
        parameters = remaining if entry == name else parameters
    test, given = _drawn(test, given, trial)
    test, given = _shrunk(test, given, name, parameters, trial)
    return Reduction(test, given, parameters, trial.evaluations, tuple(trial.trail))


class _Trial:
    """Runs tests until the budget is used up; after that nothing shows anything, so that what was found stays."""

    def __init__(self, shows: Shows, budget: int) -> None:
        self._shows = shows
        self._budget = budget
        self._known: dict[tuple[str, tuple[str, ...]], bool] = {}
        self.evaluations = 0
        self.trail: list[str] = []

    def __call__(self, test: TestSpec, arrays: Arrays, what: str) -> bool:
        key = test.key, tuple(f"{name}{array.shape}" for name, array in sorted(arrays.items()))
        if key not in self._known:
            if self.evaluations >= self._budget:
                return False
            self.evaluations += 1
            self._known[key] = self._shows(test, arrays)
            self.trail.append(f"{what}: {'still shows' if self._known[key] else 'gone'}")
        return self._known[key]


def minimal(items: Sequence[Item], shows: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """A part of the items that shows, and of which no single one can be left out (ddmin). All items together must show."""
    if shows([]):
        return []
    remaining = list(items)
    count = 2
    while len(remaining) > 1:
        parts = _parts(remaining, count)
        smaller = next((part for part in parts if shows(part)), None)
        if smaller is not None:
            remaining, count = smaller, 2
            continue
        rests = ([entry for entry in remaining if entry not in part] for part in parts)
        smaller = next((rest for rest in rests if len(parts) > 2 and shows(rest)), None)
        if smaller is not None:
            remaining, count = smaller, max(count - 1, 2)
        elif count < len(remaining):
            count = min(2 * count, len(remaining))
        else:
            break
    return remaining


def _parts(items: list[Item], count: int) -> list[list[Item]]:
    edges = [index * len(items) // count for index in range(count + 1)]
    return [items[low:high] for low, high in pairwise(edges) if low < high]


def _with_defaults(test: TestSpec, given: Arrays, name: str, trial: _Trial) -> tuple[TestSpec, tuple[str, ...]]:
    """The test with as many parameters of a layer left out as can be; and those that could not, but have a default."""
    layer = test.network.layer(name)
    # A required parameter has no default, but if its value is wrong on purpose, a right one can take its place.
    wrong = illegal_parameters(test)
    required = [key for key in layer.parameters if is_required(test.network.dialect, layer.kind, key)]
    fixed = {
        key: right_value(test.network.dialect, layer.kind, key) if f"{name}.{key}" in wrong else layer.parameters[key]
        for key in required
    }
    defaults = defaults_of(test.network.dialect, layer.kind)
    optional = [key for key in layer.parameters if key not in fixed and not _is_default(defaults, key, layer.parameters[key])]
    free = sorted([*optional, *(key for key in fixed if f"{name}.{key}" in wrong)])

    def made(keys: Sequence[str]) -> TestSpec:
        return _with_parameters(test, layer, {**fixed, **{key: layer.parameters[key] for key in keys}})

    def shows(keys: Sequence[str]) -> bool:
        changed = made(keys)
        return trial(changed, _fitting(given, test, changed), f"{layer.kind} with {', '.join(keys) or 'defaults'}")

    if not shows(free):
        return test, tuple(sorted(free))
    kept = minimal(free, shows)
    return made(kept), tuple(sorted(kept))


def defaults_of(dialect: Dialect, kind: str) -> Mapping[str, Json]:
    """Defaults of a kind of layer that are known."""
    known = kinds(dialect).get(kind)
    return {} if known is None else {key: entry.default for key, entry in known.parameters.items() if not entry.required}


def is_required(dialect: Dialect, kind: str, key: str) -> bool:
    """Whether a parameter has no default, as far as is known."""
    known = kinds(dialect).get(kind)
    return known is not None and key in known.parameters and known.parameters[key].required


def right_value(dialect: Dialect, kind: str, key: str) -> Json:
    """The value of choice of a required parameter."""
    return kinds(dialect)[kind].parameters[key].default


def _is_default(defaults: Mapping[str, Json], key: str, value: Json) -> bool:
    return key in defaults and bool(defaults[key] == value) and isinstance(value, bool) == isinstance(defaults[key], bool)


def _with_parameters(test: TestSpec, layer: LayerSpec, parameters: Mapping[str, Json]) -> TestSpec:
    return replace(test, network=test.network.with_layer(layer.with_parameters(parameters)))


def _fitting(given: Arrays, before: TestSpec, after: TestSpec) -> dict[str, Array]:
    """Weights were given for the old parameters; a layer with others draws its own."""
    changed = {layer.name for layer, old in zip(after.layers, before.layers) if dict(layer.parameters) != dict(old.parameters)}
    return {name: array for name, array in given.items() if name.rpartition("/")[0] not in changed or "/" not in name}


def _without_layers(
    test: TestSpec, given: dict[str, Array], names: Sequence[str], trial: _Trial
) -> tuple[TestSpec, dict[str, Array]]:
    """Layers bypassed one by one, from the last."""
    for name in reversed(names):
        network = bypassed(test.network, name) if any(layer.name == name for layer in test.layers) else None
        if network is None:
            continue
        shorter = replace(test, network=network)
        inputs = {entry.name for entry in network.inputs}
        fewer = {key: array for key, array in given.items() if key in inputs or "/" in key}
        if trial(shorter, fewer, f"without {name}"):
            test, given = shorter, fewer
    return test, given


def bypassed(network: NetworkSpec, name: str) -> NetworkSpec | None:
    """The network in which a layer passes on its first input. None if that leaves no layer as output."""
    first = network.layer(name).inputs[0]
    layers = tuple(
        replace(layer, inputs=tuple(first if entry == name else entry for entry in layer.inputs))
        for layer in network.layers
        if layer.name != name
    )
    names = {layer.name for layer in layers}
    outputs = tuple(dict.fromkeys(first if entry == name else entry for entry in network.outputs))
    if not set(outputs) <= names:
        return None
    return replace(network, layers=layers).up_to(outputs)


def _drawn(test: TestSpec, given: dict[str, Array], trial: _Trial) -> tuple[TestSpec, dict[str, Array]]:
    """Arrays drawn from the seed in place of given ones: all, or one by one. Other ways of drawing are tried if need be."""
    if not given:
        return test, given
    for values in ("", "normal", "uniform", "edges"):
        inputs = tuple(
            replace(entry, values=values) if values and entry.values not in ("integers", "mask") else entry
            for entry in test.network.inputs
        )
        changed = replace(test, network=replace(test.network, inputs=inputs))
        if trial(changed, {}, f"arrays drawn {values}".strip()):
            return changed, {}
    for name in sorted(given):
        fewer = {key: array for key, array in given.items() if key != name}
        if trial(test, fewer, f"{name} drawn"):
            given = fewer
    return test, given


#: Where a size stands: ("input", index, axis), or (layer, key) with the index in a list.
_Where = tuple[Any, ...]


def _shrunk(
    test: TestSpec, given: dict[str, Array], name: str, parameters: Sequence[str], trial: _Trial
) -> tuple[TestSpec, dict[str, Array]]:
    """Sizes made smaller until none can be: all equal ones together, then one by one.

    A smaller test in which a parameter is no longer needed shows something else, and is not taken.
    """

    def shows(candidate: TestSpec, sliced: Arrays, what: str) -> bool:
        if not trial(candidate, sliced, what):
            return False
        layer = candidate.network.layer(name)
        for key in parameters:
            rest = {other: value for other, value in layer.parameters.items() if other != key}
            if is_required(candidate.network.dialect, layer.kind, key):
                rest[key] = right_value(candidate.network.dialect, layer.kind, key)
            if trial(_with_parameters(candidate, layer, rest), sliced, f"{what}, without {key}"):
                return False
        return True

    if any("/" in name for name in given):
        return test, given
    changed = True
    while changed:
        changed = False
        for places, size in list(_groups(test)):
            for smaller in _smaller(size):
                candidate = test
                for place in places:
                    candidate = _with_size(candidate, place, smaller)
                sliced = _sliced(candidate, given)
                if sliced is None:
                    continue
                if shows(candidate, sliced, f"size {size} to {smaller} at {len(places)} places"):
                    test, given, changed = candidate, sliced, True
                    break
            if changed:
                break
    return test, given


def _smaller(size: int) -> list[int]:
    return sorted(number for number in {1, 2, size // 2, size - 1} if 0 < number < size)


def _groups(test: TestSpec) -> Iterator[tuple[list[_Where], int]]:
    sizes: dict[int, list[_Where]] = {}
    for place, size in _places(test):
        sizes.setdefault(size, []).append(place)
    for size in sorted(sizes, reverse=True):
        if size > 1:
            yield sizes[size], size
    for size in sorted(sizes, reverse=True):
        inputs = [place for place in sizes[size] if place[0] == "input"]
        if size > 1 and len(sizes[size]) > 1:
            if 1 < len(inputs) < len(sizes[size]):
                yield inputs, size
            for place in sizes[size]:
                yield [place], size


def _places(test: TestSpec) -> Iterator[tuple[_Where, int]]:
    for index, entry in enumerate(test.network.inputs):
        for axis, size in enumerate(entry.shape):
            yield ("input", index, axis), size
    for layer in test.layers:
        for key, value in layer.parameters.items():
            if isinstance(value, int) and not isinstance(value, bool):
                yield ("parameter", layer.name, key), value
            elif isinstance(value, list | tuple):
                for index, part in enumerate(cast("Sequence[Json]", value)):
                    if isinstance(part, int) and not isinstance(part, bool):
                        yield ("parameter", layer.name, key, index), part


def _with_size(test: TestSpec, place: _Where, size: int) -> TestSpec:
    if place[0] == "input":
        inputs = list(test.network.inputs)
        shape = list(inputs[place[1]].shape)
        shape[place[2]] = size
        inputs[place[1]] = replace(inputs[place[1]], shape=tuple(shape))
        return replace(test, network=replace(test.network, inputs=tuple(inputs)))
    layer = test.network.layer(place[1])
    value: Json = size
    if len(place) == 4:
        value = list(cast("Sequence[Json]", layer.parameters[place[2]]))
        value[place[3]] = size
    return _with_parameters(test, layer, {**layer.parameters, place[2]: value})


def _sliced(test: TestSpec, given: Arrays) -> dict[str, Array] | None:
    """Given inputs cut to the sizes of the test. None if they would have to grow."""
    cut: dict[str, Array] = {}
    for entry in test.network.inputs:
        if entry.name in given:
            array = given[entry.name]
            if array.ndim != len(entry.shape) or any(have < want for have, want in zip(array.shape, entry.shape)):
                return None
            cut[entry.name] = array[tuple(slice(0, size) for size in entry.shape)]
    return cut
