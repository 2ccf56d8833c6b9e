"""The catalogue against the frameworks it describes, and the plan that tests are drawn from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tensorproof.compare.catalogue import Coverage, Plan, PlanOptions, kinds, seed_networks, shapes_of
from tensorproof.compare.catalogue.covering import covering_rows, pairs_in, possible_pairs, values_of
from tensorproof.compare.catalogue.digits import load_digits
from tensorproof.compare.catalogue.mutating import changed_network
from tensorproof.compare.catalogue.networks import LONGEST, random_network
from tensorproof.compare.catalogue.singles import illegal_cases, illegal_network, single_network
from tensorproof.compare.drawing import generator
from tensorproof.compare.spec import TestSpec, read_test
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet
from tensorproof.errors import ConfigurationError

pytestmark = pytest.mark.area("compare catalogue")

#: Reads cases as JSON, answers with the shapes that Keras promises, or with what it raises; for a shape that is not the expected
#: one also with the shape that it computes. Defaults of constructors are answered as text.
_KERAS = """
import inspect, json, sys, warnings
warnings.simplefilter("ignore")
import keras, numpy as np
from tensorproof.compare.backends.keras_layers import call_layer, make_layer, skip_random_initialisers
from tensorproof.compare.spec import LayerSpec
skip_random_initialisers()
request = json.load(sys.stdin)
answers = []
for case in request["cases"]:
    spec = LayerSpec("layer", case["kind"], case["parameters"], ("x",) * len(case["shapes"]))
    try:
        layer = make_layer(spec, "float32")
        inputs = [keras.Input(batch_shape=shape, dtype=case["dtype"]) for shape in case["shapes"]]
        found = [list(part.shape) for part in call_layer(layer, spec, inputs, [], False)]
        if found != case["expected"]:
            values = [np.zeros(shape, case["dtype"]) for shape in case["shapes"]]
            found = [list(part.shape) for part in call_layer(make_layer(spec, "float32"), spec, values, [], False)]
        answers.append(found)
    except Exception as error:
        answers.append(f"{type(error).__name__}: {error}")
defaults = {
    kind: {name: repr(entry.default) for name, entry in inspect.signature(getattr(keras.layers, kind).__init__).parameters.items()}
    for kind in request["kinds"]
}
json.dump({"answers": answers, "defaults": defaults}, sys.stdout)
"""


def test_catalogue_is_as_large_as_promised() -> None:
    assert len(kinds("keras")) >= 75
    assert len(kinds("onnx")) >= 50
    assert sum(kind.is_audee for kind in kinds("keras").values()) == 25


@pytest.mark.parametrize("dialect", ["keras", "onnx"])
def test_legal_values_fit_and_illegal_ones_do_not(dialect) -> None:
    for kind in kinds(dialect).values():
        assert kind.fitting(kind.required), kind.name
        possible = {(i, a) for pair in possible_pairs(kind) for i, a in (pair[:2], pair[2:])}
        for place, (name, parameter) in enumerate(kind.parameters.items()):
            assert parameter.legal[0] == parameter.default, (kind.name, name)
            for index, value in enumerate(parameter.legal):
                assert (place, index) in possible, (kind.name, name, value)
            for value in parameter.illegal:
                assert not kind.fitting({**kind.required, name: value}), (kind.name, name, value)


@pytest.fixture(scope="module")
def keras_answers():
    cases = []
    for kind in kinds("keras").values():
        rows = covering_rows(kind, 0)
        for number, row in enumerate(rows[:: max(1, len(rows) // 4)]):
            parameters = values_of(kind, row)
            shapes = kind.fitting(parameters)[number % len(kind.fitting(parameters))]
            cases.append(
                {
                    "kind": kind.name,
                    "parameters": kind.given(parameters),
                    "shapes": shapes,
                    "dtype": kind.inputs[0].dtype,
                    "expected": [list(shape) for shape in kind.result_shapes(shapes, parameters) or ()],
                }
            )
    environment = {**os.environ, "KERAS_BACKEND": "numpy", "PYTHONPATH": "src", "TF_CPP_MIN_LOG_LEVEL": "3"}
    request = json.dumps({"cases": cases, "kinds": list(kinds("keras"))})
    done = subprocess.run(
        [sys.executable, "-c", _KERAS], input=request, text=True, capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return cases, json.loads(done.stdout)


def test_shapes_are_those_of_keras(keras_answers) -> None:
    cases, answers = keras_answers
    assert len(cases) > 300
    wrong = [(case, answer) for case, answer in zip(cases, answers["answers"], strict=True) if case["expected"] != answer]
    assert not wrong, wrong[:5]


def test_defaults_are_those_of_keras(keras_answers) -> None:
    _, answers = keras_answers
    for kind in kinds("keras").values():
        known = answers["defaults"][kind.name]
        for name, parameter in kind.parameters.items():
            if parameter.required or name.startswith("call:"):
                continue
            assert name in known or "kwargs" in known, (kind.name, name)
            if name in known:
                default = repr(parameter.default).replace("[", "(").replace("]", ")")
                equal = {default, default.replace("((", "(").replace("))", ")")}
                width = len(parameter.default) if isinstance(parameter.default, list) else 3
                spread = {repr((parameter.default,) * n) for n in (2, width)}
                assert known[name] in equal | spread, (kind.name, name, known[name], parameter.default)


def test_shapes_are_those_of_onnx() -> None:
    from onnx import shape_inference

    from tensorproof.compare.backends.onnx_networks import onnx_model

    count, pooled = 0, 0
    for kind in kinds("onnx").values():
        for number, row in enumerate(covering_rows(kind, 0)):
            network = single_network(kind, values_of(kind, row), generator(number))
            model = shape_inference.infer_shapes(onnx_model(TestSpec(network)), strict_mode=True, data_prop=True)
            inferred = [tuple(size.dim_value for size in entry.type.tensor_type.shape.dim) for entry in model.graph.output]
            expected = kind.result_shapes([entry.shape for entry in network.inputs], network.layers[0].parameters)
            assert expected is not None
            count += 1
            # The text of the standard ignores windows that start behind the input; the inference of the package does not.
            if list(expected) != inferred and network.layers[0].parameters.get("ceil_mode"):
                pooled += 1
                continue
            assert list(expected) == inferred, (kind.name, network.layers[0].parameters)
    assert count > 400 and pooled < 12


def test_rows_cover_every_possible_pair() -> None:
    for name in ("Conv2D", "LSTM", "Resizing", "Activation", "Dropout"):
        kind = kinds("keras")[name]
        rows = covering_rows(kind, 3)
        assert {pair for row in rows for pair in pairs_in(row)} >= possible_pairs(kind)
        assert all(kind.fitting(values_of(kind, row)) for row in rows)
    assert len(covering_rows(kinds("keras")["Conv2D"], 3)) < 40


def test_plan_depends_on_seed_and_number_alone() -> None:
    numbers = [5, 300, 17, 1, 299, 40, 0]
    forwards = {number: Plan(7)[number].key for number in sorted(numbers)}
    backwards = Plan(7)
    assert {number: backwards[number].key for number in sorted(numbers, reverse=True)} == forwards
    program = f"from tensorproof.compare.catalogue import Plan; p = Plan(7); print([p[n].key for n in {numbers}])"
    environment = {**os.environ, "PYTHONPATH": "src", "PYTHONHASHSEED": "5"}
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, env=environment, check=True)
    assert done.stdout.strip() == str([forwards[number] for number in numbers])
    assert Plan(8)[5].key != forwards[5]


def test_a_block_has_every_kind() -> None:
    plan = Plan(1)
    for block in (0, 2):
        singles = [
            plan[number].network
            for number in range(block * plan.block, (block + 1) * plan.block)
            if plan.origin(number) == "single"
        ]
        for dialect in ("keras", "onnx"):
            seen = Counter(network.layers[0].kind for network in singles if network.dialect == dialect)
            assert set(seen) == set(kinds(dialect))
            assert max(seen.values()) < 8


def test_some_blocks_see_all_pairs_types_phases_and_illegal_values() -> None:
    chosen = ("Conv2D", "MaxPooling2D", "LayerNormalization")
    plan = Plan(0, PlanOptions(("keras",), frozenset(chosen), networks=0, mutations=0, illegal=0.5))
    tests = [plan[number] for number in range(40 * plan.block)]
    coverage = Coverage().add_all(tests)
    for kind in chosen:
        seen, possible = coverage.pairs("keras", kind)
        assert seen == possible
        assert {key[2] for key in coverage.conditions if key[1] == kind} == {"float32", "float16", "bfloat16", "float64"}
        assert {key[3] for key in coverage.conditions if key[1] == kind} == {"inference", "training", "gradient"}
    wanted = {case for case in illegal_cases("keras") if case[0] in chosen}
    refused = {repr(test.layers[0]) for number, test in enumerate(tests) if plan.origin(number) == "illegal"}
    assert len(refused) == len(wanted) > 40


def test_an_empty_plan_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the plan is empty"):
        Plan(0, PlanOptions(kinds=frozenset({"NoSuchLayer"})))


def test_every_test_is_valid_or_illegal_on_purpose() -> None:
    plan = Plan(2)
    lengths: Counter[int] = Counter()
    for number in range(plan.block):
        test = plan[number]
        assert read_test(json.dumps(test.to_json())) == test
        assert (shapes_of(test.network) is None) == (plan.origin(number) == "illegal"), test
        if plan.origin(number) == "network":
            lengths[len(test.layers)] += 1
    assert len(lengths) > 4 and max(lengths) <= LONGEST
    assert {plan.origin(number) for number in range(plan.block)} == {"single", "network", "seed network", "illegal"}


def test_networks_branch_and_join() -> None:
    joined = 0
    for number in range(40):
        network = random_network("keras", generator("joins", number))
        joined += any(len(layer.inputs) > 1 for layer in network.layers)
    assert joined > 8


def test_seed_networks_stay_valid_when_they_change() -> None:
    names = ("LeNet-5", "ResNet-20", "VGG-16", "MobileNet-V2", "SimpleRNN", "LSTM", "GRU", "Transformer")
    assert tuple(seed_networks()) == names
    for name, seed in seed_networks().items():
        shapes = shapes_of(seed.network)
        assert shapes is not None and shapes[seed.network.outputs[0]] == (4, 10), name
        kinds_of = Counter(layer.kind for layer in seed.network.layers)
        if name == "VGG-16":
            assert kinds_of["Conv2D"] == 13 and kinds_of["Dense"] == 3
        if name == "ResNet-20":
            assert kinds_of["Add"] == 9
        if name == "MobileNet-V2":
            assert kinds_of["DepthwiseConv2D"] == 17
        for number in range(3):
            changed = changed_network(seed.network, generator(number), 3)
            assert changed != seed.network
            assert shapes_of(changed) is not None


def test_coverage_is_the_same_text_each_time() -> None:
    plan = Plan(3, PlanOptions(dialects=("keras",)))
    tests = [plan[number] for number in range(30)]
    once, again = Coverage().add_all(tests), Coverage().add_all(reversed(tests))
    assert once.to_json_text() == again.to_json_text()
    assert once.to_text() == again.to_text()
    assert f"of {len(kinds('keras'))} kinds" in once.to_text()
    data = once.to_json()
    assert data["tests"] == 30 and sum(data["dtypes"].values()) == sum(data["phases"].values()) <= 30
    layer = next(entry for entry in data["dialects"]["keras"]["layers"].values() if entry["tests"])
    assert sum(layer["conditions"].values()) == layer["tests"]


@pytest.fixture(scope="module")
def fleet():
    with Fleet() as workers:
        yield workers


@pytest.mark.parametrize(("backend", "dialect", "count"), [("keras:torch", "keras", 60), ("onnxruntime", "onnx", 120)])
def test_frameworks_compute_what_is_legal(fleet, backend, dialect, count) -> None:
    plan = Plan(4, PlanOptions(dialects=(dialect,), illegal=0, mutations=0, empty_batches=False, dtypes=("float32",)))
    refused, odd = [], []
    for number in range(count):
        test = plan[number]
        run = fleet.run(BackendId.parse(backend), test)
        if run.failure is not None:
            refused.append((test.network.to_json(), run.failure))
            continue
        shapes = shapes_of(test.network)
        assert shapes is not None
        odd += [(test.network.to_json(), name) for name in test.network.outputs if run.arrays[name].shape != shapes[name]]
    # Frameworks do not implement everything: some interpolations, LayerNormalization over other axes on PyTorch.
    assert len(refused) <= 0.08 * count, refused
    # ONNX Runtime leaves dilations aside when it pads by itself.
    assert len(odd) <= 0.02 * count, odd


def test_frameworks_refuse_most_of_what_is_illegal(fleet) -> None:
    backend = BackendId.parse("keras:torch")
    accepted = []
    cases = illegal_cases("keras")
    order = generator("illegal").permutation(len(cases))[:60]
    for place in order:
        name, parameter, value = cases[int(place)]
        test = TestSpec(illegal_network(kinds("keras")[name], parameter, value, generator(int(place))))
        if fleet.run(backend, test).failure is None:
            accepted.append((name, test.layers[0].parameters))
    assert len(accepted) <= 0.25 * len(order), accepted


def test_digits_are_read_without_scikit_learn(monkeypatch) -> None:
    digits = load_digits()
    assert digits.images.shape == (1500, 8, 8, 1) and digits.held_out_images.shape == (297, 8, 8, 1)
    assert 0.0 <= digits.images.min() < digits.images.max() == 1.0
    assert set(digits.labels.tolist()) == set(range(10))
    program = "import sys; from tensorproof.compare.catalogue.digits import load_digits; load_digits(); assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": "src"}, check=True)
    load_digits.cache_clear()
    monkeypatch.setattr("tensorproof.compare.catalogue.digits.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="scikit-learn"):
        load_digits()
    monkeypatch.undo()


def _check_trained(name: str, folder: Path, monkeypatch, fleet: Fleet) -> None:
    seed = seed_networks()[name]
    monkeypatch.setenv("TENSORPROOF_CACHE", str(folder))
    weights = seed.weights()
    assert len(list((folder / "seed-networks").glob("*.npz"))) == 1
    assert seed.accuracy() >= seed.floor
    # The worker gives the trained network's answers: the weights are those of the layers that they are named after.
    run = fleet.run(BackendId.parse("keras:torch"), TestSpec(seed.network), arrays={**weights, **seed.examples()})
    assert run.failure is None
    guesses = run.arrays[seed.network.outputs[0]].argmax(axis=1)
    assert (guesses == load_digits().held_out_labels[: len(guesses)]).sum() >= len(guesses) - 1


def test_lenet_learns_digits(tmp_path, monkeypatch, fleet) -> None:
    _check_trained("LeNet-5", tmp_path, monkeypatch, fleet)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in seed_networks() if name != "LeNet-5"])
def test_seed_network_learns_digits(name, tmp_path, monkeypatch, fleet) -> None:
    _check_trained(name, tmp_path, monkeypatch, fleet)
