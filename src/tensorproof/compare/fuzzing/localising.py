"""`localise`: the layer at which a discrepancy begins, and the smallest test that shows it.

The layer is the one whose inputs agree and whose result does not. It is found by halving what lies before a diverging layer, with
the results of a few layers at a time in memory. Then it is tried alone, on inputs recorded from the healthy side: a layer that
shows the same symptom by itself is the cause, whatever else happens in the network.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from tensorproof.compare.drawing import Array, Arrays, draw_inputs, dtype_of
from tensorproof.compare.fuzzing.change_rate import input_like, with_layer_given
from tensorproof.compare.fuzzing.discrepancy import Discrepancy
from tensorproof.compare.fuzzing.observing import GRADIENT, WHOLE, Observer
from tensorproof.compare.fuzzing.reducing import BUDGET, Reduction, reduce_test
from tensorproof.compare.reference import NoReference, run_reference
from tensorproof.compare.spec import NetworkSpec, TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet

#: Layers whose results are held at a time.
KEEP = 4
#: Faults that are looked for in one network.
FAULTS = 4


@dataclass(frozen=True)
class Localisation:
    """Where a discrepancy comes from.

    `layer` names a layer of the original test (None: it did not show again); `parameters` must differ from their defaults for it to
    show. `test` is the reduced test, which draws its arrays from its seed unless `arrays` has some; `discrepancy` is what it shows:
    another one than at first, where that was a consequence. `is_alone` says that the layer shows it by itself; otherwise it takes
    the layers of `test` together.
    """

    layer: str | None
    kind: str
    symptom: str
    parameters: tuple[str, ...]
    test: TestSpec
    arrays: Arrays = field(default_factory=dict[str, Array])
    is_alone: bool = False
    evaluations: int = 0
    #: What was tried, in order.
    trail: tuple[str, ...] = ()
    #: Switches of the backend with which it does not show: `onednn=off`.
    healed_by: tuple[str, ...] = ()
    discrepancy: Discrepancy | None = None


@dataclass(frozen=True)
class _Place:
    layer: str
    symptom: str
    trail: tuple[str, ...]


def localise(
    fleet: Fleet,
    test: TestSpec,
    discrepancy: Discrepancy,
    backends: Sequence[BackendId] = (),
    *,
    arrays: Arrays | None = None,
    budget: int = BUDGET,
    with_toggles: bool = False,
) -> Localisation:
    """The first layer at fault, with its minimal parameters.

    `backends` may stand in for the one that the culprit was compared with, when inputs are recorded. `with_toggles` also tries
    the backend's switches, each in a process of its own.
    """
    observer = Observer(fleet, discrepancy, backends)
    place = _first_place(observer, test, arrays) or _first_alone(observer, test, arrays)
    if place is None:
        return Localisation(
            None, "", "", (), test, arrays or {}, trail=("it does not show again",), evaluations=observer.evaluations
        )
    return _explain(observer, test, arrays, place, budget, with_toggles)


def localise_all(
    fleet: Fleet,
    test: TestSpec,
    discrepancy: Discrepancy,
    backends: Sequence[BackendId] = (),
    *,
    arrays: Arrays | None = None,
    budget: int = BUDGET,
) -> list[Localisation]:
    """All faults of a network: each layer found is given its right result, and the rest is looked at again (AUDEE, algorithm 2)."""
    observer = Observer(fleet, discrepancy, backends)
    found: list[Localisation] = []
    rest, feeds = test, dict(arrays or {})
    while len(found) < FAULTS:
        place = _first_place(observer, rest, feeds)
        if place is None:
            break
        found.append(_explain(observer, rest, feeds, place, budget, with_toggles=False))
        healthy = _recorded(observer, rest, feeds, [place.layer])
        if healthy is None:
            break
        feeds |= healthy
        fixed = with_layer_given(rest.network, place.layer, healthy[place.layer])
        if fixed is None:
            break
        rest = replace(rest, network=fixed)
    # What lies before a layer that is given takes no part any more, and small faults drown.
    known = {entry.layer for entry in found if entry.layer is not None}
    while len(found) < FAULTS and (place := _first_alone(observer, test, arrays, known)) is not None:
        found.append(_explain(observer, test, arrays, place, budget, with_toggles=False))
        known.add(place.layer)
    order = [layer.name for layer in test.layers]
    return sorted(found, key=lambda entry: order.index(entry.layer or ""))


def _first_place(observer: Observer, test: TestSpec, arrays: Arrays | None) -> _Place | None:
    symptoms = observer.symptoms(test, arrays)
    if not symptoms:
        return None
    if WHOLE in symptoms:
        return _first_failure(observer, test, arrays, symptoms[WHOLE])
    name = next(iter(symptoms))
    if name == GRADIENT:
        return _first_gradient(observer, test, arrays, symptoms[name])
    return _first_divergence(observer, test, arrays, name, symptoms[name], ())


def _first_alone(observer: Observer, test: TestSpec, arrays: Arrays | None, known: Collection[str] = ()) -> _Place | None:
    """The first layer, of those not known yet, that shows something by itself.

    A small fault drowns in what the roundings of a long network may amount to, but not in those of its own layer.
    """
    for layer in test.layers:
        healthy = None if layer.name in known else _recorded(observer, test, arrays, layer.inputs)
        if healthy is None:
            continue
        symptoms = observer.symptoms(isolated(test, [layer.name], healthy), {**weights_of(arrays, [layer.name]), **healthy})
        if symptoms:
            return _Place(layer.name, next(iter(symptoms.values())), ("the outputs agree", f"{layer.name} alone does not"))
    return None


def _first_divergence(
    observer: Observer, test: TestSpec, arrays: Arrays | None, target: str, symptom: str, trail: tuple[str, ...]
) -> _Place:
    """Before a diverging layer, some layers between agreeing ones and it: either one of them diverges, and is the next to be looked
    before, or they agree, and what lies before them is out of it."""
    agreed: set[str] = set()
    while open_layers := _between(test.network, target, agreed):
        chosen = _spread(open_layers, KEEP)
        seen = observer.symptoms(replace(test, network=test.network.up_to(chosen)), arrays)
        told = ", ".join(f"{name} {seen.get(name, 'agrees')}" for name in chosen)
        trail += (f"before {target}: {told}",)
        diverging = [name for name in chosen if name in seen]
        agreed.update(name for name in chosen if name not in seen)
        if diverging:
            target, symptom = diverging[0], seen[diverging[0]]
    return _Place(target, symptom, trail)


def _between(network: NetworkSpec, target: str, agreed: set[str]) -> list[str]:
    """Layers that the target depends on by a way that leads through no agreeing layer."""
    inputs = {layer.name: layer.inputs for layer in network.layers}
    reached: set[str] = set()
    waiting = [name for name in inputs[target] if name in inputs and name not in agreed]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(before for before in inputs[name] if before in inputs and before not in agreed)
    return [layer.name for layer in network.layers if layer.name in reached]


def _spread(names: list[str], count: int) -> list[str]:
    if len(names) <= count:
        return names
    return [names[(index + 1) * len(names) // (count + 1)] for index in range(count)]


def _first_failure(observer: Observer, test: TestSpec, arrays: Arrays | None, symptom: str) -> _Place:
    """The shortest beginning of the network that fails in the same way ends in the failing layer.

    If what that layer is given is already wrong, the failure is a consequence.
    """
    named = observer.named
    names = [layer.name for layer in test.layers]
    trail: tuple[str, ...] = ()
    low, high = 0, len(names) - 1
    if named in names:
        low = high = names.index(named)
        trail = (f"the framework names {named}",)
    while low < high:
        middle = (low + high) // 2
        beginning = _beginning(test, middle + 1)
        fails = observer.symptoms(beginning, arrays).get(WHOLE) == symptom
        trail += (f"up to {names[middle]}: {'fails' if fails else 'runs'}",)
        low, high = (low, middle) if fails else (middle + 1, high)
    layer = names[low]
    before = [name for name in test.network.layer(layer).inputs if name in names]
    if before:
        seen = observer.symptoms(replace(test, network=test.network.up_to(before)), arrays)
        wrong = [name for name in before if name in seen]
        if wrong:
            trail += (f"{layer} is given what is already wrong",)
            return _first_divergence(observer, test, arrays, wrong[0], seen[wrong[0]], trail)
    return _Place(layer, symptom, trail)


def _beginning(test: TestSpec, count: int) -> TestSpec:
    """The first layers; outputs are those that none of them takes."""
    layers = test.layers[:count]
    used = {name for layer in layers for name in layer.inputs}
    return replace(test, network=test.network.up_to([layer.name for layer in layers if layer.name not in used]))


def _first_gradient(observer: Observer, test: TestSpec, arrays: Arrays | None, symptom: str) -> _Place:
    """Gradients have no record by layer, so that each layer is tried alone."""
    trail: tuple[str, ...] = ()
    for layer in reversed(test.layers):
        healthy = _recorded(observer, test, arrays, layer.inputs)
        if healthy is None:
            continue
        alone = isolated(test, [layer.name], healthy)
        if observer.shows(alone, {**weights_of(arrays, [layer.name]), **healthy}, symptom):
            return _Place(layer.name, symptom, (*trail, f"{layer.name} alone has another gradient"))
        trail += (f"the gradient of {layer.name} agrees",)
    return _Place(test.layers[-1].name, symptom, trail)


def _explain(
    observer: Observer,
    test: TestSpec,
    arrays: Arrays | None,
    place: _Place,
    budget: int,
    with_toggles: bool,
) -> Localisation:
    """Try the layer alone, then with what lies before it, and reduce the first such test that shows the symptom."""
    trail = list(place.trail)
    layer = place.layer
    window, feeds, is_alone = test, dict(arrays or {}), False
    for names in _growing(test.network, layer):
        first = sorted({name for part in names for name in test.network.layer(part).inputs} - set(names))
        healthy = _recorded(observer, test, arrays, first)
        if healthy is None:
            trail.append(f"no healthy inputs of {', '.join(names)}")
            continue
        tried, given = isolated(test, names, healthy), {**weights_of(arrays, names), **healthy}
        shows = observer.shows(tried, given, place.symptom)
        trail.append(f"{', '.join(names)} {'alone ' if len(names) == 1 else ''}{'shows it' if shows else 'does not show it'}")
        if shows:
            window, feeds, is_alone = tried, given, len(names) == 1
            break

    def shows_again(reduced: TestSpec, given: Arrays) -> bool:
        return observer.shows(reduced, given, place.symptom)

    reduction = reduce_test(window, feeds, shows_again, layer=layer, budget=budget)
    trail.extend(reduction.trail)
    healed = toggles_that_heal(observer, reduction, place.symptom) if with_toggles else ()
    return Localisation(
        layer,
        test.network.layer(layer).kind,
        place.symptom,
        reduction.parameters,
        reduction.test,
        reduction.arrays,
        is_alone,
        observer.evaluations,
        tuple(trail),
        healed,
        observer.find(reduction.test, reduction.arrays, place.symptom),
    )


def _growing(network: NetworkSpec, layer: str) -> list[list[str]]:
    """The layer, then with its predecessors (masks come from there), then with all that it depends on."""
    everything = ancestors(network, layer)
    near = [name for name in everything if name == layer or name in network.layer(layer).inputs]
    groups = [[layer]]
    for group in (near, everything):
        if group not in groups:
            groups.append(group)
    return groups


def isolated(test: TestSpec, names: Sequence[str], recorded: Arrays) -> TestSpec:
    """Some layers as a network of their own, in which recorded values are inputs."""
    inputs = {entry.name: entry for entry in test.network.inputs}
    layers = tuple(layer for layer in test.layers if layer.name in names)
    wanted = dict.fromkeys(name for layer in layers for name in layer.inputs if name not in names)
    own = tuple(
        replace(inputs[name], shape=recorded[name].shape) if name in inputs else input_like(name, recorded[name]) for name in wanted
    )
    return replace(test, network=NetworkSpec(test.network.dialect, own, layers, (layers[-1].name,)), scale=1.0)


def ancestors(network: NetworkSpec, name: str) -> list[str]:
    """A layer and all layers that it depends on, in the network's order."""
    return [layer.name for layer in network.up_to([name]).layers]


def weights_of(arrays: Arrays | None, names: Sequence[str]) -> dict[str, Array]:
    """Given weights of some layers."""
    return {key: array for key, array in (arrays or {}).items() if key.rpartition("/")[0] in names}


def _recorded(observer: Observer, test: TestSpec, arrays: Arrays | None, names: Sequence[str]) -> dict[str, Array] | None:
    """What the healthy side makes of some inputs and layers: the other backend, else the reference, else any backend that can."""
    drawn = {**draw_inputs(test), **(arrays or {})}
    given = {entry.name for entry in test.network.inputs}
    values = {name: drawn[name] for name in names if name in given}
    wanted = [name for name in names if name not in given]
    if not wanted:
        return values
    part = replace(test, network=test.network.up_to(wanted), phase="inference" if test.phase == "gradient" else test.phase)
    culprit, other = observer.discrepancy.culprit, observer.discrepancy.other
    found = _from_backend(observer, part, arrays, other) if other is not None else _from_reference(part, arrays, wanted)
    for backend in (*observer.backends, culprit):
        if found is None:
            found = _from_backend(observer, part, arrays, backend)
    return None if found is None else values | found


def _from_backend(observer: Observer, test: TestSpec, arrays: Arrays | None, backend: BackendId) -> dict[str, Array] | None:
    run = observer.run(backend, test, arrays)
    return None if run is None or run.failure is not None else {name: run.arrays[name] for name in test.network.outputs}


def _from_reference(test: TestSpec, arrays: Arrays | None, names: list[str]) -> dict[str, Array] | None:
    try:
        values = run_reference(test, arrays, names)
    except NoReference:
        return None
    return {name: value.astype(dtype_of(test.dtype)) if value.dtype.kind == "f" else value for name, value in values.items()}


#: Switches that are tried as evidence.
_SWITCHES = {
    "keras:tensorflow": (("onednn", "off"), ("threads", "2")),
    "keras:torch": (("threads", "2"),),
    "onnxruntime": (("optimisation", "off"), ("threads", "2")),
}


def toggles_that_heal(observer: Observer, reduction: Reduction, symptom: str) -> tuple[str, ...]:
    """Switches of the culprit with which the symptom is gone. Each takes a process of its own, which is ended afterwards."""
    healed: list[str] = []
    culprit = observer.discrepancy.culprit
    for key, value in _SWITCHES.get(culprit.name, ()):
        switched = replace(culprit, toggles=tuple(sorted({**dict(culprit.toggles), key: value}.items())))
        other = Observer(observer.fleet, replace(observer.discrepancy, culprit=switched), observer.backends)
        if not other.shows(reduction.test, reduction.arrays, symptom):
            healed.append(f"{key}={value}")
        observer.fleet.worker(switched).close()
    return tuple(healed)
