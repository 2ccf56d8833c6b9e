"""Recurrent layers: what activations bound, what can overflow, sequences of any length, first passes and exact ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tensorproof.formats import FLOAT16, FLOAT32, Format
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.ranges.abstraction import FIRST_PASS, PRECISE, Abstraction
from tensorproof.ranges.propagate import propagate
from tensorproof.ranges.range import Range
from tensorproof.ranges.records import RangedGraph
from tensorproof.targets import IEEE, ONNXRUNTIME_CPU
from tests.soundness.seeds.recurrent import layer
from tests.soundness.seeds.seed import Seed
from tests.soundness.trials import Workbench, abstract_point

pytestmark = pytest.mark.area("recurrent")


def output(result: RangedGraph, index: int = 0) -> Range:
    """The clean range of an output."""
    value = result.outputs[result.model.graph.outputs[index]].clean
    assert isinstance(value, Range)
    return value


def recurrent(
    operator: str,
    format: Format,
    steps: int,
    weight: float,
    attributes: Mapping[str, object],
    *,
    abstraction: Abstraction = PRECISE,
) -> RangedGraph:
    """A layer of 4 units over 3 features whose weights all lie in [-weight, weight]."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[operator]
    outputs = ["y", "h", "c"] if operator == "LSTM" else ["y", "h"]
    shapes = {"x": (steps, 2, 3), "w": (1, 4 * gates, 3), "r": (1, 4 * gates, 4)}
    infos = [helper.make_tensor_value_info(n, format.onnx_code, s) for n, s in shapes.items()]
    results = [helper.make_tensor_value_info(n, format.onnx_code, None) for n in outputs]
    node = helper.make_node(operator, list(shapes), outputs, name="layer", hidden_size=4, **attributes)
    graph = helper.make_graph([node], "g", infos, results)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    graph = from_proto(proto)
    ends = {"x": 1.0, "w": weight, "r": weight}
    names = {number: graph.values[number].name for number in graph.graph.inputs}
    ranges = {n: Range.uniform(shapes[name], format, -ends[name], ends[name]) for n, name in names.items()}
    return propagate(graph, ranges, IEEE, abstraction=abstraction, strict=True)


@pytest.mark.parametrize("format, steps", [(FLOAT32, 10), (FLOAT32, 100_000), (FLOAT16, 10), (FLOAT16, 20_000)], ids=str)
@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("abstraction", [FIRST_PASS, PRECISE], ids=["first", "precise"])
def test_hidden_states_are_bounded_by_their_activations(
    operator: str, steps: int, format: Format, abstraction: Abstraction
) -> None:
    result = recurrent(operator, format, steps, 2.0, {}, abstraction=abstraction)
    assert not any(record.hazards or record.not_analysed for record in result.records.values())
    states, last = output(result), output(result, 1)
    assert states.shape == (steps, 1, 2, 4) and last.shape == (1, 2, 4)
    low, high = states.hull()
    assert low >= -1.0 and high <= 1.0
    if operator == "LSTM":
        # Each step adds at most 1.
        assert output(result, 2).hull()[1] <= steps * 1.05


def test_a_memory_kept_in_float32_overflows_when_it_is_stored_in_float16() -> None:
    """In float16 arithmetic a sum of ones stops at 2048; a kernel that keeps the memory in float32 reaches 100,000."""
    (record,) = recurrent("LSTM", FLOAT16, 100_000, 2.0, {}).records.values()
    assert [h.rule.code for h in record.hazards] == ["NUM203"]


def test_an_unbounded_activation_can_overflow() -> None:
    result = recurrent("RNN", FLOAT32, 200, 2.0, {"activations": ["Relu"]})
    (record,) = result.records.values()
    assert [h.rule.code for h in record.hazards] == ["NUM203"]
    assert not recurrent("RNN", FLOAT32, 10, 2.0, {"activations": ["Relu"]}).records[0].hazards


def test_a_contracting_layer_without_bounds_is_proven_for_any_length() -> None:
    result = recurrent("RNN", FLOAT32, 1_000_000, 0.2, {"activations": ["Relu"]})
    assert not result.records[0].hazards
    # h <= 3 * 0.2 + 4 * 0.2 h gives h <= 3.
    assert 2.9 <= output(result).hull()[1] <= 4.1


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_of_onnx_runtime_lie_inside_the_range_of_its_target(operator: str) -> None:
    base = layer(operator, {"direction": "bidirectional"}, steps=4, lengths=(4, 2), number=300, oracle="reference")
    seed = Seed(base.name, base.operator, "", base.model, base.inputs, vary=base.vary, oracle="runtime")
    bench = Workbench(seed, FLOAT32, ONNXRUNTIME_CPU)
    compared = 0
    for number in range(25):
        outcome = bench.trial(np.random.default_rng([number, 7]))
        assert outcome.violations == []
        compared += outcome.samples
    assert compared > 100


# -- large layers ----------------------------------------------------------------------------------------------------

VARIANTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("LSTM", {}, {}),
    ("LSTM", {"direction": "bidirectional"}, {"lengths": (7, 3)}),
    ("LSTM", {"direction": "reverse", "clip": 1.5}, {"peepholes": True}),
    ("LSTM", {"input_forget": 1}, {"initial": False}),
    ("GRU", {}, {}),
    ("GRU", {"linear_before_reset": 1, "direction": "bidirectional"}, {"lengths": (7, 4)}),
    ("RNN", {"direction": "reverse"}, {"lengths": (6, 7)}),
    ("RNN", {"activations": ["Relu"]}, {}),
]


@pytest.mark.parametrize("operator, attributes, options", VARIANTS, ids=[f"{v[0]}-{i}" for i, v in enumerate(VARIANTS)])
@pytest.mark.parametrize("abstraction", [FIRST_PASS, PRECISE], ids=["first", "precise"])
def test_large_layers_of_onnx_runtime_lie_inside_their_ranges(
    operator: str, attributes: dict[str, Any], options: dict[str, Any], abstraction: Abstraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matrices beyond the size from which a first pass looks at their sums alone."""
    monkeypatch.setattr("tests.soundness.trials.propagate", partial(propagate, abstraction=abstraction))
    base = layer(
        operator, attributes, steps=7, features=136, hidden=136, number=400, oracle="reference", weights_vary=False, **options
    )
    for index in (1, 2):
        # Random weights of size 1 saturate every gate; layers of networks have about 1 / sqrt(n).
        base.inputs[index][:] *= 0.2
    seed = Seed(base.name, base.operator, "", base.model, base.inputs, vary=base.vary, oracle="runtime")
    bench = Workbench(seed, FLOAT32, ONNXRUNTIME_CPU)
    compared = 0
    for number in range(4):
        outcome = bench.trial(np.random.default_rng([number, 11]), samples=4)
        assert outcome.violations == []
        compared += outcome.samples
    assert compared >= 8


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("steps", [3, 9, 700])
def test_a_first_pass_includes_the_exact_one(operator: str, steps: int) -> None:
    seed = layer(
        operator,
        {"direction": "bidirectional"},
        steps=steps,
        features=136,
        hidden=136,
        number=401,
        weights_vary=False,
        initial=False,
    )
    graph = from_proto(seed.model)
    values: list[Any] = [abstract_point(x, None) for x in seed.inputs]
    values[0] = Range.uniform(seed.inputs[0].shape, FLOAT32, -0.25, 0.25)
    inputs = dict(zip(graph.graph.inputs, values, strict=True))
    coarse, exact = (propagate(graph, inputs, IEEE, abstraction=a, strict=True) for a in (FIRST_PASS, PRECISE))
    for index in range(len(graph.graph.outputs)):
        wide, narrow = output(coarse, index), output(exact, index)
        assert wide.shape == narrow.shape
        slack = 1e-5
        low, high = wide.hull()
        assert low - slack <= narrow.hull()[0] and narrow.hull()[1] <= high + slack
    assert not any(record.hazards for record in coarse.records.values())
    assert output(coarse).hull()[1] <= 1.0


def test_a_state_that_repeats_is_multiplied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal inputs at every step, gates that saturate: most steps find the state of the step before."""
    from tensorproof.ranges.gate_weights import Whole

    calls: list[int] = []
    times = Whole._times

    def counting(self: Whole, a: Any) -> Any:
        calls.append(len(a.low))
        return times(self, a)

    monkeypatch.setattr(Whole, "_times", counting)
    seed = layer("RNN", {}, steps=400, features=256, hidden=256, number=402, weights_vary=False, initial=False, lengths=None)
    graph = from_proto(seed.model)
    values: list[Any] = [abstract_point(x, None) for x in seed.inputs]
    values[0] = Range.uniform(seed.inputs[0].shape, FLOAT32, -4.0, 4.0)
    result = propagate(graph, dict(zip(graph.graph.inputs, values, strict=True)), IEEE, strict=True)
    assert output(result).hull() == (-1.0, 1.0)
    assert 2 <= len(calls) <= 8


def test_an_overflow_of_a_gate_is_found_by_a_first_pass() -> None:
    result = recurrent("LSTM", FLOAT16, 50, 3e4, {}, abstraction=FIRST_PASS)
    assert [h.rule.code for h in result.records[0].hazards] == ["NUM203"]
    assert not recurrent("LSTM", FLOAT16, 50, 3.0, {}, abstraction=FIRST_PASS).records[0].hazards


def test_an_unbounded_activation_is_no_bound_in_a_first_pass() -> None:
    result = recurrent("RNN", FLOAT32, 200, 2.0, {"activations": ["Relu"]}, abstraction=FIRST_PASS)
    assert [h.rule.code for h in result.records[0].hazards] == ["NUM203"]
    assert not recurrent("RNN", FLOAT32, 1_000_000, 0.2, {"activations": ["Relu"]}, abstraction=FIRST_PASS).records[0].hazards
