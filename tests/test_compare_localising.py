"""Planted faults are named by layer and by parameters, in networks of one layer and of many; what is no fault is not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tensorproof.compare.backends.backend import NetworkRun
from tensorproof.compare.catalogue import kinds
from tensorproof.compare.fuzzing.change_rate import (
    Thresholds,
    change_rates,
    cradle_ranking,
    distance,
    guilty_parameters,
    localise_fix,
    suspects,
)
from tensorproof.compare.fuzzing.discrepancy import Discrepancy
from tensorproof.compare.fuzzing.localising import Localisation, localise, localise_all
from tensorproof.compare.fuzzing.observing import Observer
from tensorproof.compare.fuzzing.reducing import minimal, reduce_test
from tensorproof.compare.judging import judge
from tensorproof.compare.spec import InputSpec, LayerSpec, NetworkSpec, TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet
from tests.planted_faults.every_fault import NAMES, fault
from tests.planted_faults.networks import Case, deep, healthy, one_layer

pytestmark = pytest.mark.area("compare localising")

OTHER = BackendId.parse("keras:tensorflow")


def planted(*names: str) -> BackendId:
    return BackendId.parse("keras:torch?with=" + ",".join(f"tests.planted_faults.{name}" for name in names))


FAULTY = planted("every_fault")


def noticed(culprit: BackendId = FAULTY, oracle: str = "value") -> Discrepancy:
    return Discrepancy(oracle, culprit, OTHER, "other values")


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet() as workers:
        yield workers


# -- planted faults ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_fault_can_be_reached(fleet: Fleet, name: str) -> None:
    for trigger in fault(name).triggers:
        test = one_layer(name, trigger).test
        mine, theirs = (fleet.run(backend, test) for backend in (FAULTY, OTHER))
        assert judge(mine.arrays["planted_0"], theirs.arrays["planted_0"]).is_defect, trigger
    for trigger in fault(name).spared:
        test = one_layer(name, trigger).test
        mine, theirs = (fleet.run(backend, test) for backend in (FAULTY, OTHER))
        assert not judge(mine.arrays["planted_0"], theirs.arrays["planted_0"]).is_defect, trigger


@dataclass
class Score:
    """How many faults were named by layer and by parameters, and layers that were named without a fault."""

    faults: int = 0
    layers: int = 0
    parameters: int = 0
    wrong: int = 0

    def add(self, case: Case, found: Sequence[Localisation]) -> None:
        by_layer = {entry.layer: entry for entry in found if entry.layer is not None}
        for layer, name in case.faulty:
            self.faults += 1
            self.layers += layer in by_layer
            self.parameters += layer in by_layer and set(by_layer[layer].parameters) == fault(name).needed
        self.wrong += len(by_layer.keys() - {layer for layer, _ in case.faulty})

    def check(self, what: str) -> None:
        print(
            f"{what}: {self.faults} faults, layer named {self.layers}, exact parameters {self.parameters}, wrong layers {self.wrong}"
        )
        assert self.layers >= 0.9 * self.faults
        assert self.parameters >= 0.75 * self.faults
        assert self.wrong == 0


def test_faults_of_one_layer(fleet: Fleet) -> None:
    score = Score()
    for name in NAMES:
        case = one_layer(name, fault(name).triggers[0])
        score.add(case, [localise(fleet, case.test, noticed(), (FAULTY, OTHER))])
    score.check("one layer")


def test_one_fault_in_a_network(fleet: Fleet) -> None:
    score = Score()
    for seed, name in enumerate(NAMES):
        case = deep([(name, fault(name).triggers[-1])], seed)
        assert len(case.test.layers) >= 10
        score.add(case, [localise(fleet, case.test, noticed(), (FAULTY, OTHER), budget=60)])
    score.check("one fault in a network")


def two_faults(step: int, seed: int) -> Case:
    name, other = NAMES[seed % len(NAMES)], NAMES[(seed + step) % len(NAMES)]
    return deep([(name, fault(name).triggers[0]), (other, fault(other).triggers[-1])], seed)


def test_two_faults_in_a_network(fleet: Fleet) -> None:
    score = Score()
    for seed in range(1, len(NAMES), 4):
        case = two_faults(7, seed)
        assert len(case.test.layers) >= 10
        score.add(case, localise_all(fleet, case.test, noticed(), (FAULTY, OTHER), budget=60))
    score.check("two faults in a network")


@pytest.mark.parametrize("name", ["padding_side", "swapped_gates"])
def test_a_fault_in_a_process_of_its_own(fleet: Fleet, name: str) -> None:
    culprit = planted(name)
    score = Score()
    for seed, trigger in enumerate(fault(name).triggers):
        for case in (one_layer(name, trigger), deep([(name, trigger)], seed)):
            score.add(case, [localise(fleet, case.test, noticed(culprit), (culprit, OTHER), budget=60)])
    fleet.worker(culprit).close()
    score.check(name)


@pytest.mark.long
def test_all_faults_in_all_networks(fleet: Fleet) -> None:
    one, first, both = Score(), Score(), Score()
    for name in NAMES:
        for seed, trigger in enumerate(fault(name).triggers):
            case = one_layer(name, trigger, seed)
            one.add(case, [localise(fleet, case.test, noticed(), (FAULTY, OTHER))])
            case = deep([(name, trigger)], 100 + seed)
            first.add(case, [localise(fleet, case.test, noticed(), (FAULTY, OTHER))])
    for step, seed in itertools.product((1, 7), range(len(NAMES))):
        case = two_faults(step, seed)
        both.add(case, localise_all(fleet, case.test, noticed(), (FAULTY, OTHER)))
    one.check("one layer")
    first.check("one fault in a network")
    both.check("two faults in a network")


def test_the_reduced_test_is_small_and_shows_it(fleet: Fleet) -> None:
    name = "stride_phase"
    case = deep([(name, fault(name).triggers[0])], 3)
    found = localise(fleet, case.test, noticed(), (FAULTY, OTHER))
    assert found.is_alone and not found.arrays
    (layer,) = found.test.layers
    assert set(layer.parameters) == {"filters", "kernel_size", "padding", "strides"}
    assert found.test.network.inputs[0].shape == (1, 1, 1, 1)
    assert found.discrepancy is not None and found.discrepancy.signature == ("value", "keras:torch", "other values")
    again = localise(fleet, case.test, noticed(), (FAULTY, OTHER))
    assert (again.test, again.trail) == (found.test, found.trail)


# -- symptoms that are no values --------------------------------------------------------------------------------------


def chain(*layers: tuple[str, dict[str, object]], shape: tuple[int, ...]) -> TestSpec:
    made: list[LayerSpec] = []
    for index, (kind, parameters) in enumerate(layers):
        made.append(LayerSpec(f"layer_{index}", kind, parameters, (made[-1].name if made else "x",)))
    return TestSpec(NetworkSpec("keras", (InputSpec("x", shape),), tuple(made), (made[-1].name,)))


def test_a_refusal_is_found(fleet: Fleet) -> None:
    """Keras on PyTorch cannot normalise over an axis that is not the last."""
    before = [("Dense", {"units": 4}), ("Activation", {"activation": "tanh"})]
    normalisation = ("LayerNormalization", {"axis": 1, "epsilon": 0.01, "center": False})
    test = chain(*before, normalisation, ("Flatten", {}), ("Dense", {"units": 2}), shape=(3, 5, 4))
    found = localise(fleet, test, noticed(oracle="exception"), (FAULTY, OTHER))
    assert (found.layer, found.kind, found.parameters) == ("layer_2", "LayerNormalization", ("axis",))
    assert found.symptom.startswith("exception: ") and found.is_alone


def test_a_failure_that_is_a_consequence_is_traced_back(fleet: Fleet) -> None:
    """A pooling layer with a row too many makes a dense layer fail."""
    pooling = ("AveragePooling2D", {"pool_size": 2})
    test = chain(("Activation", {"activation": "tanh"}), pooling, ("Flatten", {}), ("Dense", {"units": 2}), shape=(3, 5, 5, 2))
    assert fleet.run(FAULTY, test).failure is not None
    found = localise(fleet, test, noticed(oracle="exception"), (FAULTY, OTHER))
    assert (found.layer, found.parameters) == ("layer_1", ())
    assert found.discrepancy is not None and found.discrepancy.oracle == "shape"


def test_masks_and_switches(fleet: Fleet) -> None:
    """A fault that needs the layer that made a mask is shown by both; one that a switch heals has it as evidence."""
    culprit = planted("ignored_mask", "single_thread")
    recurrent = ("SimpleRNN", {"units": 3, "activation": "relu"})
    masked = chain(("Dense", {"units": 2}), ("Masking", {"mask_value": 0.0}), recurrent, ("Dense", {"units": 2}), shape=(3, 5, 2))
    zeros = {"x": np.zeros((3, 5, 2), np.float32), "layer_0/1": np.zeros(2, np.float32)}
    zeros["x"][:, :2] = 1.0
    softplus = chain(("Dense", {"units": 2}), ("Activation", {"activation": "softplus"}), shape=(3, 4))
    found = localise(fleet, masked, noticed(culprit), (culprit, OTHER), arrays=zeros)
    assert (found.layer, found.is_alone) == ("layer_2", False)
    assert [layer.kind for layer in found.test.layers] == ["Masking", "SimpleRNN"]
    assert Observer(fleet, noticed(culprit)).shows(found.test, found.arrays, found.symptom)
    healed = localise(fleet, softplus, noticed(culprit), (culprit, OTHER), with_toggles=True)
    assert (healed.layer, healed.healed_by) == ("layer_1", ("threads=2",))
    fleet.worker(culprit).close()


def test_a_wrong_gradient_is_found(fleet: Fleet) -> None:
    culprit = planted("steep_gradient")
    layers = [("Dense", {"units": 3, "activation": activation}) for activation in ("tanh", "sigmoid", "selu", "tanh")]
    test = replace(chain(*layers, shape=(2, 4)), phase="gradient")
    found = localise(fleet, test, noticed(culprit), (culprit, OTHER))
    fleet.worker(culprit).close()
    assert (found.layer, found.parameters, found.test.phase) == ("layer_2", ("activation",), "gradient")


# -- controls ---------------------------------------------------------------------------------------------------------

#: Layers that round differently everywhere: long sums, exponentials, cancellation.
PRECISION_ONLY = (
    chain(("Dense", {"units": 3}), shape=(2, 600)),
    chain(("Conv2D", {"filters": 4, "kernel_size": 3}), shape=(1, 6, 6, 24)),
    chain(("LayerNormalization", {}), shape=(2, 64)),
    chain(("Softmax", {}), shape=(2, 40)),
    chain(("Activation", {"activation": "log_softmax"}), shape=(2, 40)),
    chain(("GRU", {"units": 4}), shape=(2, 12, 3)),
    chain(("GlobalAveragePooling2D", {}), shape=(1, 16, 16, 2)),
    chain(("BatchNormalization", {}), shape=(2, 5, 3)),
)


def test_what_is_no_fault_is_not_named(fleet: Fleet) -> None:
    culprit = planted("noise")
    tests = (*PRECISION_ONLY, *map(healthy, range(12)))
    found = [localise(fleet, test, noticed(culprit), (culprit, OTHER)) for test in tests]
    assert [entry for entry in found if entry.layer is not None] == []


def test_healthy_networks_beside_faults_are_not_named(fleet: Fleet) -> None:
    found = [localise(fleet, healthy(seed), noticed(), (FAULTY, OTHER)) for seed in range(12, 24)]
    assert [entry for entry in found if entry.layer is not None] == []


# -- delta debugging --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("needed", [set(), {"a"}, {"h"}, {"a", "h"}, {"b", "c", "g"}, set("abcdefgh")])
def test_a_minimal_set_remains(needed: set[str]) -> None:
    asked: list[tuple[str, ...]] = []

    def shows(keys: Sequence[str]) -> bool:
        asked.append(tuple(keys))
        return needed <= set(keys)

    assert set(minimal("abcdefgh", shows)) == needed
    assert len(asked) < 80


def test_one_of_two_ways_remains() -> None:
    found = minimal("abcd", lambda keys: {"a", "b"} <= set(keys) or {"c"} <= set(keys))
    assert found in (["a", "b"], ["c"])


def test_a_budget_ends_a_reduction() -> None:
    trigger = fault("padding_side").triggers[0]
    test = one_layer("padding_side", trigger).test
    asked: list[TestSpec] = []

    def shows(smaller: TestSpec, _: object) -> bool:
        asked.append(smaller)
        return "padding" in smaller.layers[0].parameters

    short = reduce_test(test, None, shows, budget=3)
    assert (len(asked), short.evaluations) == (3, 3)
    asked.clear()
    reduced = reduce_test(test, None, shows)
    assert reduced.parameters == ("padding",)
    assert len(asked) == len({entry.key for entry in asked}) == reduced.evaluations
    assert max(reduced.test.network.inputs[0].shape) == 1


def test_a_wrong_value_of_a_required_parameter_is_named() -> None:
    wrong = kinds("keras")["Conv2D"].parameters["filters"].illegal[0]
    test = chain(("Conv2D", {"filters": wrong, "kernel_size": 3, "padding": "same"}), shape=(1, 6, 6, 2))
    reduced = reduce_test(test, None, lambda smaller, _: smaller.layers[0].parameters["filters"] == wrong)
    assert reduced.parameters == ("filters",)
    assert "padding" not in reduced.test.layers[0].parameters


# -- change rates -----------------------------------------------------------------------------------------------------


def test_distances_and_rates() -> None:
    ones = np.ones(4, np.float32)
    assert distance(ones, ones + 1) == 1.0
    assert distance(ones, ones[:2]) == np.inf
    assert distance(np.array([np.nan, 1.0]), np.array([np.nan, 1.0])) == 0.0
    assert distance(np.array([np.nan, 1.0]), np.array([0.0, 1.0])) == np.inf
    network = chain(("Dense", {}), ("Dense", {}), ("Dense", {}), shape=(1, 1)).network
    distances = {"layer_0": 0.0, "layer_1": 1e-3, "layer_2": 1.1e-3}
    rates = change_rates(network, distances)
    assert rates["layer_1"] == pytest.approx(1e4)
    assert rates["layer_2"] == pytest.approx(0.1, rel=1e-3)
    assert suspects(network, distances, Thresholds(1000, 2)) == ["layer_1"]
    assert cradle_ranking(network, distances) == ["layer_1", "layer_2", "layer_0"]


def test_a_second_fault_is_named_after_the_first_is_fixed(fleet: Fleet) -> None:
    case = deep([("align_corners", fault("align_corners").triggers[0]), ("softmax_axis", fault("softmax_axis").triggers[0])], 5)

    def mine(test: TestSpec, arrays: dict[str, np.ndarray]) -> NetworkRun:
        return fleet.run(FAULTY, test, arrays=arrays)

    def theirs(test: TestSpec, arrays: dict[str, np.ndarray]) -> NetworkRun:
        return fleet.run(OTHER, test, arrays=arrays)

    assert localise_fix(case.test, mine, theirs) == ["planted_0", "planted_1"]
    assert guilty_parameters(case.test, "planted_0", mine, theirs) == ["interpolation"]
