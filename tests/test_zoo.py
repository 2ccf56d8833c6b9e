"""The programs of the GRIST benchmark: their forms agree, their defects are real and flagged, their repairs are not flagged."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from benchmarks.zoo import Bug, Builder, Entry, programs
from benchmarks.zoo.entry import initial_weights
from benchmarks.zoo.initial import zeros
from onnx import numpy_helper, shape_inference

from tensorproof import Report, check
from tensorproof.assumptions import Domain
from tensorproof.targets import find_target

pytestmark = pytest.mark.area("zoo")

ENTRIES = {entry.id: entry for entry in programs()}
TWINS = {twin.id: twin for entry in programs() if (twin := entry.safe) is not None}
ALL = ENTRIES | TWINS
DEFECTS = [(entry.id, bug) for entry in ENTRIES.values() for bug in entry.bugs if bug.is_forward]
DERIVATIVES = [(entry.id, bug) for entry in ENTRIES.values() for bug in entry.bugs if not bug.is_forward]
#: One of each family: what depends on the builder alone is not tried on every program.
ONE_OF_EACH = {entry.family: entry.id for entry in reversed(ENTRIES.values())}


@cache
def scan(name: str) -> Report:
    entry = ALL[name]
    return check(entry.onnx(), ranges=dict(entry.declarations().domains), confirm=False)


def flagged(name: str) -> set[str]:
    """The nodes that the static scan alarms on, each for a reason of its own."""
    return {finding.node for finding in scan(name).roots()}


def run(proto: onnx.ModelProto, inputs: dict[str, Any]) -> dict[str, Any]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def tensors(inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(array) for name, array in inputs.items()}


# -- facts -------------------------------------------------------------------------------------------------------------


def test_all_programs_and_bugs_are_there() -> None:
    bugs = [bug for entry in ENTRIES.values() for bug in entry.bugs if "-" not in bug.letter]
    assert {entry.program for entry in ENTRIES.values()} == set(range(1, 64))
    assert len({bug.letter for bug in bugs}) == len(bugs) == 79
    assert Counter(bug.operator for bug in bugs) == {"Log": 60, "Sqrt": 6, "Exp": 7, "Div": 6}
    assert Counter(bug.error for bug in bugs) == {"invalid value": 73, "invalid derivative": 6}
    frameworks = {entry.program: entry.framework for entry in ENTRIES.values()}
    assert Counter(frameworks.values()) == {"tensorflow": 41, "pytorch": 22}
    assert len(ONE_OF_EACH) == 18


def test_mutated_programs_have_the_form_of_their_library_too() -> None:
    originals = {entry.id: (entry.program, entry.bugs[0].operator) for entry in ENTRIES.values() if "-" in entry.id}
    assert originals == {"4-exp": (4, "Exp"), "5-log": (5, "Log"), "13-exp": (13, "Exp")}


@pytest.mark.parametrize("framework", ["tensorflow", "pytorch"])
def test_the_target_of_a_program_computes_as_its_framework_does(framework: str) -> None:
    entry = next(entry for entry in ENTRIES.values() if entry.framework == framework)
    target = find_target(entry.target)
    assert entry.flushes_subnormals == (framework == "tensorflow") == target.flushes_results == target.flushes_operands
    assert torch.exp(torch.tensor(-100.0)) > 0.0  # PyTorch keeps what TensorFlow flushes


def test_training_data_is_told_from_what_is_drawn_or_set() -> None:
    assert ENTRIES["6"].training_inputs == ("x", "y")
    assert {name: given.role for name, given in ENTRIES["6"].inputs.items()} == {
        "x": "data",
        "y": "label",
        "keep_prob": "setting",
        "dropout_mask": "random",
    }


def test_weights_that_start_at_zero_or_at_a_constant_may_move() -> None:
    weights = ENTRIES["1"].weights
    assert weights["W_fc1"].range == (-10.0, 10.0)
    assert weights["b_fc1"].range == pytest.approx((-0.12, 0.12))
    assert weights["b_loc2"].range == (-1.0, 2.0)
    assert ENTRIES["6"].weights["b_fc1"].range == pytest.approx((-0.9, 1.1))


@pytest.mark.parametrize("name", ENTRIES)
def test_programs_start_inside_what_they_declare(name: str) -> None:
    entry, domains = ENTRIES[name], ENTRIES[name].declarations().domains
    for values in (entry.plain_inputs(), initial_weights(entry.recording(), 0)):
        for key, array in values.items():
            assert domains[key].low <= array.min() and array.max() <= domains[key].high, key
            if domains[key].kind == "one-hot":
                assert ((array == 0) | (array == 1)).all() and (array.sum(-1) == 1).all()


def test_seeds_choose_the_start_of_training() -> None:
    entry = ENTRIES["12"]
    first, again, other = (numpy_helper.to_array(entry.onnx(seed).graph.initializer[0]) for seed in (0, 0, 1))
    assert (first == again).all() and (first != other).any()


# -- forms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_the_onnx_form_is_what_the_description_says(name: str) -> None:
    entry = ALL[name]
    recording, proto = entry.recording(), entry.onnx()
    onnx.checker.check_model(proto, full_check=True)
    assert [(node.name, node.op_type) for node in proto.graph.node] == [(s.name, s.operator) for s in recording.steps]
    assert [given.name for given in proto.graph.input] == list(recording.inputs)
    assert [output.name for output in proto.graph.output] == list(recording.outputs)
    initialisers = {tensor.name: tuple(tensor.dims) for tensor in proto.graph.initializer}
    assert {key: initialisers[key] for key in recording.weights} == {key: w.shape for key, w in recording.weights.items()}
    inferred = shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True).graph
    shapes = {value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim) for value in inferred.value_info}
    assert shapes == {key: recording.shapes[key] for key in shapes}
    assert len(shapes) + len(proto.graph.output) == len(recording.steps)


@pytest.mark.parametrize("name", ALL)
def test_forms_agree_where_training_starts(name: str) -> None:
    """And the results are finite, but for the two programs that fail with the values they start with."""
    entry = ALL[name]
    inputs = entry.plain_inputs()
    with torch.no_grad():
        expected = {key: value.numpy() for key, value in entry.torch()(**tensors(inputs)).items()}
    found = run(entry.onnx(), inputs)
    assert found.keys() == expected.keys()
    for key, value in found.items():
        np.testing.assert_allclose(value, expected[key], rtol=1e-4, atol=1e-6)
        assert np.isfinite(value).all() == (entry.fails_at_start == "")


@pytest.mark.parametrize("family", [family for family in ONE_OF_EACH if family != "U-Net"])
def test_gradients_of_the_torch_form_are_true(family: str) -> None:
    """The derivative of the loss along a direction of the weights (of the inputs, where there are none) is its slope.

    The U-Net is left out for its time: all its operators but the transposed convolution are in other programs.
    """
    entry = ENTRIES[ONE_OF_EACH[family]]
    program = entry.torch().double()
    given = {name: value.double() if value.is_floating_point() else value for name, value in tensors(entry.plain_inputs()).items()}
    if entry.fails_at_start:
        given = {name: value.abs() + 0.5 for name, value in given.items()}
    moved: list[torch.Tensor] = list(program.parameters())
    if not moved:
        moved = [value.requires_grad_() for value in given.values() if value.is_floating_point()]
    generator = torch.Generator().manual_seed(0)
    directions = [torch.randn(value.shape, generator=generator, dtype=torch.float64) for value in moved]

    def result_after(step: float) -> torch.Tensor:
        with torch.no_grad():
            for value, direction in zip(moved, directions):
                value.add_(direction, alpha=step)
        return next(iter(program(**given).values())).sum()

    # Magnitudes of weights that start at zero have no derivative there. Longer steps below would flip units that are sampled.
    gradients = torch.autograd.grad(result_after(1e-2), moved, materialize_grads=True)
    slope = sum(float((gradient * direction).sum()) for gradient, direction in zip(gradients, directions))
    with torch.no_grad():
        measured = float(result_after(1e-9) - result_after(-2e-9)) / 2e-9
    assert slope == pytest.approx(measured, rel=1e-3, abs=2e-7) and slope != 0.0


# -- defects -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENTRIES)
def test_bugs_name_nodes_of_their_operators(name: str) -> None:
    entry = ENTRIES[name]
    operators = {node.name: node.op_type for node in entry.onnx().graph.node}
    assert entry.bugs
    for bug in entry.bugs:
        assert operators[bug.node] == bug.operator
        assert all(node in operators for node in bug.also)
    assert entry.safe is not None
    assert {bug.node for bug in entry.bugs} <= {step.name for step in entry.safe.recording().steps}


@pytest.mark.parametrize("name", ENTRIES)
def test_the_scan_flags_every_bug_of_the_forward_pass(name: str) -> None:
    """Nothing is left unanalysed. Roots of 0 are legal forward: bugs of derivatives are not seen there."""
    for bug in ENTRIES[name].bugs:
        for node in (bug.node, *bug.also):
            assert (node in flagged(name)) == bug.is_forward, bug.letter
    assert scan(name).coverage.not_analysed == ()


@pytest.mark.parametrize(("name", "bug"), DERIVATIVES, ids=[bug.letter for _, bug in DERIVATIVES])
def test_derivatives_fail_in_the_program_and_not_in_its_twin(name: str, bug: Bug) -> None:
    """The arithmetic is that of the program's framework: exp(-100) is 0 where subnormal numbers are flushed."""
    found: list[set[tuple[str, str]]] = []
    for entry in (ENTRIES[name], TWINS[f"{name}-safe"]):
        ranges = dict(entry.declarations().domains)
        report = check(entry.onnx(), ranges=ranges, confirm=False, phase="training", target=entry.target)
        found.append({(finding.node, finding.phase) for finding in report.roots()})
    assert (bug.node, "backward") in found[0] and not found[1]


@pytest.mark.parametrize("name", ENTRIES)
def test_the_scan_says_of_repaired_programs_what_their_entries_say(name: str) -> None:
    """Every program has a repair, and with it the scan is silent where the program failed."""
    entry = ENTRIES[name]
    assert entry.repair is not None
    nodes = {node for bug in entry.bugs for node in (bug.node, *bug.also)}
    found = flagged(f"{name}-safe")
    assert bool(found & nodes) == bool(entry.repair.remains)
    assert bool(found - nodes) == bool(entry.repair.elsewhere)


@pytest.mark.parametrize(("name", "bug"), DEFECTS, ids=[bug.letter for _, bug in DEFECTS])
def test_every_bug_fails_somewhere_in_the_declared_box(name: str, bug: Bug) -> None:
    """In ONNX Runtime, at its node: with weights that are all zero, cancel an epsilon of 1e-7, are at their upper ends, or led by gradients."""
    entry = ENTRIES[name]
    inputs = entry.plain_inputs()
    corners = [
        {key: np.full(weight.shape, np.clip(value, *weight.range), np.float32) for key, weight in entry.weights.items()}
        for value in (0.0, -1e-7, np.inf)
    ]
    assert any(_fails(entry, bug, weights, inputs) for weights in corners) or _fails(entry, bug, *_led(entry, bug))


def _fails(entry: Entry, bug: Bug, weights: dict[str, Any], inputs: dict[str, Any]) -> bool:
    recording, proto = entry.recording(), entry.onnx(weights=weights)
    shown = {value: output for output, value in recording.outputs.items()}.get(bug.node, bug.node)
    if shown == bug.node:
        shape = recording.shapes[bug.node]
        proto.graph.output.append(onnx.helper.make_tensor_value_info(shown, onnx.TensorProto.FLOAT, shape))
    return not np.isfinite(run(proto, inputs)[shown]).all()


def _led(entry: Entry, bug: Bug) -> tuple[dict[str, Any], dict[str, Any]]:
    """Weights and inputs after steps against the sign of the objective's gradient, inside their boxes.

    They start near their initial values, not at them: gradients of weights that are all zero cancel.
    """
    recording, program = entry.recording(), entry.torch()
    given = tensors(entry.plain_inputs())
    boxes = {name: domain for name, domain in entry.declarations().domains.items() if domain.kind == "box"}
    moved = {name: value.requires_grad_() for name, value in given.items() if name in boxes and value.is_floating_point()}
    moved |= dict(program.named_parameters())
    step = recording.step(bug.node)
    generator = torch.Generator().manual_seed(0)
    for name, value in moved.items():
        _move(value, torch.randn(value.shape, generator=generator), 1e-4, boxes[name])
    for _ in range(60):
        values = program.values(**given)
        if not torch.isfinite(values[bug.node]).all():
            break
        objective = _objective(step.operator, values[step.operands[-1]])
        gradients = torch.autograd.grad(objective, list(moved.values()), materialize_grads=True)
        for (name, value), gradient in zip(moved.items(), gradients):
            _move(value, -torch.sign(gradient), 0.05, boxes[name])
    weights = {name: value.detach().numpy() for name, value in program.named_parameters()}
    return weights, {name: value.detach().numpy() for name, value in given.items()}


def _objective(operator: str, operand: torch.Tensor) -> torch.Tensor:
    """What is small where the operator fails: a logarithm's operand, the negative of an exponential's, a whole divisor."""
    match operator:
        case "Log":
            return operand.min()
        case "Exp":
            return -operand.max()
        case _:
            return operand.min() if operand.ndim else operand


def _move(value: torch.Tensor, direction: torch.Tensor, part: float, box: Domain) -> None:
    with torch.no_grad():
        value += part * (box.high - box.low) * direction
        value.clamp_(box.low, box.high)


# -- the builder -------------------------------------------------------------------------------------------------------


def test_names_of_values_are_unique() -> None:
    b = Builder()
    x = b.input("x", [2], "0:1")
    with b.scope("inner"):
        assert [b.exp(x).name, b.exp(x).name, b.log(x, name="named").name] == ["inner/exp", "inner/exp_1", "inner/named"]
        with pytest.raises(ValueError, match="inner/named"):
            b.log(x, name="named")


def test_odd_padding_goes_to_the_far_side() -> None:
    """TensorFlow's SAME, which no symmetric padding imitates."""
    b = Builder()
    image = b.conv2d(b.input("x", [1, 1, 40, 40], "0:1"), b.weight("w", [1, 1, 3, 3], zeros()), stride=2)
    assert image.shape == (1, 1, 20, 20)
    assert b.recording.step("conv").attributes["pads"] == (0, 0, 1, 1)
