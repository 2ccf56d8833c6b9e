"""The programs of the GRIST benchmark in the frameworks that they are written in: graphs of TensorFlow, modules of PyTorch.

One or two programs of each family are tried here, all of them in the long suite. The phase is training, as programs are used: a
quotient by 0 that a clip of its result hides forward (11c) fails in the gradient alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from benchmarks import zoo
from benchmarks.zoo import Bug, Entry, programs
from benchmarks.zoo.channels_last import CHANNEL_BIAS, IMAGE, KERNEL, arrangement
from benchmarks.zoo.entry import initial_weights

import tensorproof
from tensorproof import Report
from tensorproof.findings import Finding
from tensorproof.preparing import Prepared

pytestmark = pytest.mark.area("zoo")

ENTRIES = {entry.id: entry for entry in programs()}
TWINS = {twin.id: twin for entry in programs() if (twin := entry.safe) is not None}
IN_TENSORFLOW = {name: entry for name, entry in (ENTRIES | TWINS).items() if entry.framework == "tensorflow"}
DERIVATIVES = ("35b", "36b", "39b", "43b", "49b")

#: One of each family, and of both ways to guard or to fail where a family has two. The gradients of the U-Net take half a minute:
#: it is in the long suite, and here without them.
SAMPLE = ["1", "2", "4-exp", "5", "5-log", "9", "11ac", "13-exp", "14", "15", "22", "23", "24", "26", "28a", "31", "32"]
SAMPLE += ["35b", "40", "43b"]
#: One of each kind of repair.
REPAIRED = [f"{name}-safe" for name in ("2", "5", "11ac", "13", "15", "22", "26", "28a", "31", "35b", "37", "43b")]

#: The rule of each way to fail that the facts name.
RULES = {
    **dict.fromkeys(("softmax of 0", "softmax of 1", "sigmoid of 0", "sigmoid of 1", "absorbed epsilon"), "NUM101"),
    **dict.fromkeys(("operand not positive", "quotient of 0"), "NUM101"),
    "overflow": "NUM201",
    "divisor of 0": "NUM103",
    "derivative of a root at 0": "NUM401",
}
FACTS: list[dict[str, Any]] = json.loads((Path(zoo.__file__).parent / "facts.json").read_text("utf-8"))
MODES = {bug["letter"]: bug["mode"] for facts in FACTS for bug in facts["bugs"]}
MODES |= {"4-exp": "overflow", "5-log": "softmax of 0", "13-exp": "overflow"}

#: How TensorFlow calls the operators of bugs.
SPELLED = {"Log": "Log", "Exp": "Exp", "Sqrt": "Sqrt", "Div": "RealDiv"}


def sampled(names: Iterable[str], sample: Sequence[str]) -> list[Any]:
    """Names as parameters; all but the sample are long."""
    return [name if name in sample else pytest.param(name, marks=pytest.mark.long) for name in names]


def checked(entry: Entry, folder: Path, **options: Any) -> Report:
    """The report on a program in its own framework, in training unless something else is said."""
    options = {"phase": "training", "confirm": False, **options}
    ranges = dict(entry.declarations().domains)
    if entry.framework == "tensorflow":
        return tensorproof.check(entry.tensorflow_file(folder, training=True), ranges=ranges, **options)
    example = {name: torch.tensor(array) for name, array in entry.plain_inputs().items()}
    return tensorproof.check(entry.torch(), example, ranges=ranges, **options)


def step_of(entry: Entry, finding: Finding) -> str:
    """The step that a finding is at: TensorFlow's nodes bear its name, PyTorch's are in the module of that name."""
    if entry.framework == "tensorflow":
        return finding.node
    assert finding.location is not None and finding.location.module is not None
    return finding.location.module.removeprefix("steps.")


def expected(bug: Bug) -> tuple[str, str, str]:
    return bug.node, RULES[MODES[bug.letter]], "forward" if bug.is_forward else "backward"


# -- findings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sampled(ENTRIES, SAMPLE))
def test_every_bug_is_found_at_its_node(name: str, tmp_path: Path) -> None:
    entry = ENTRIES[name]
    report = checked(entry, tmp_path)
    found = {(step_of(entry, finding), finding.rule.code, finding.phase) for finding in report.roots()}
    assert {expected(bug) for bug in entry.bugs} <= found
    assert report.target == entry.target
    left = {item.op for item in report.coverage.not_analysed}
    assert left <= {"tensorflow::ApplyCenteredRMSProp"}, left


def test_the_overflow_of_the_u_net_is_found_without_its_gradients(tmp_path: Path) -> None:
    entry = ENTRIES["17"]
    found = {finding.node for finding in checked(entry, tmp_path, phase="inference").roots()}
    assert entry.bugs[0].node in found


@pytest.mark.parametrize("name", sampled(TWINS, REPAIRED))
def test_nothing_is_found_in_repaired_programs(name: str, tmp_path: Path) -> None:
    assert not checked(TWINS[name], tmp_path).roots()


@pytest.mark.parametrize("name", sampled(DERIVATIVES, ["35b"]))
def test_derivatives_fail_only_where_subnormal_numbers_are_flushed(name: str, tmp_path: Path) -> None:
    """exp(-100) is subnormal. Where it is kept, it has a root with a finite derivative, and that is proven."""
    entry = ENTRIES[name]
    (bug,) = entry.bugs
    forward = checked(entry, tmp_path, phase="inference", target="tensorflow-cpu")
    assert bug.node not in {finding.node for finding in forward.findings}
    flushed, kept = (checked(entry, tmp_path, target=target) for target in ("tensorflow-cpu", "ieee"))
    assert ("NUM401", bug.node, "backward") in {(f.rule.code, f.node, f.phase) for f in flushed.roots()}
    assert bug.node in kept.proven_safe
    assert not [finding for finding in kept.findings if finding.phase == "backward"]


def test_tensorflow_fails_where_the_finding_says() -> None:
    """A logarithm of the variance of -100 gives gradients that are NaN in TensorFlow; with -87 they are finite."""
    import tensorflow.compat.v1 as tf

    entry = ENTRIES["35b"]
    recording = entry.recording()
    (source, *_) = recording.step(recording.step(recording.step("sample/deviation").operands[0]).operands[0]).operands
    graph = entry.tensorflow(training=True)
    inputs = {f"{key}:0": array for key, array in entry.plain_inputs().items()}
    gradient = "gradients/encoder/matmul_grad/MatMul_1:0"
    outcomes: list[bool] = []
    with _session(tf, graph) as session, graph.as_default():
        session.run(tf.global_variables_initializer())
        for value in (-100.0, -87.0):
            fed = {**inputs, f"{source}:0": np.full(recording.shapes[source], value, np.float32)}
            outcomes += [bool(np.isfinite(session.run(output, fed)).all()) for output in ("loss:0", gradient)]
    assert outcomes == [True, False, True, True]


# -- TensorFlow's form ---------------------------------------------------------------------------------------------------


def _session(tf: Any, graph: Any) -> Any:
    return tf.Session(graph=graph, config=tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1))


@pytest.mark.parametrize("name", sampled(IN_TENSORFLOW, [*SAMPLE, "17", "1-safe", "28a-safe"]))
def test_the_graph_agrees_with_the_onnx_form(name: str) -> None:
    """At the start of a training, and beside it: with weights of zero, the order of axes does not show."""
    import tensorflow.compat.v1 as tf

    entry = IN_TENSORFLOW[name]
    recording, inputs = entry.recording(), entry.plain_inputs()
    places, start = arrangement(recording), initial_weights(recording, 0)
    generator = np.random.default_rng(0)
    beside = {key: (array + generator.normal(0.0, 0.02, array.shape)).astype(np.float32) for key, array in start.items()}
    graph = entry.tensorflow()
    with _session(tf, graph) as session:
        for weights in (start, beside):
            fed = {f"{key}:0": array for key, array in inputs.items()}
            fed |= {f"{key}:0": places.moved(key, array) for key, array in weights.items()}
            computed = session.run({output: f"{output}:0" for output in recording.outputs}, fed)
            options = ort.SessionOptions()
            options.intra_op_num_threads, options.log_severity_level = 1, 3
            model = entry.onnx(weights=weights).SerializeToString()
            wanted = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(list(recording.outputs), inputs)
            for output, value in zip(recording.outputs, wanted):
                np.testing.assert_allclose(computed[output], value, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("name", sampled(IN_TENSORFLOW, SAMPLE))
def test_nodes_and_variables_bear_their_names(name: str) -> None:
    entry = IN_TENSORFLOW[name]
    recording, graph = entry.recording(), entry.tensorflow(training=True)
    nodes = {node.name: node for node in graph.as_graph_def().node}
    places = arrangement(recording)
    for bug in entry.bugs:
        assert nodes[bug.node].op == SPELLED[bug.operator]
    assert {key for key, node in nodes.items() if node.op == "Placeholder"} == set(recording.inputs)
    for key, weight in recording.weights.items():
        sizes = tuple(dimension.size for dimension in nodes[key].attr["shape"].shape.dim)
        assert nodes[key].op == "VariableV2" and sizes == places.shape(key, weight.shape)
    assert graph.as_graph_def().ByteSize() < 1_000_000


def test_optimisers_are_those_of_the_programs() -> None:
    wanted = {
        "3": "ApplyAdam",
        "10": "ApplyGradientDescent",
        "44": "ApplyAdagrad",
        "15": "ApplyCenteredRMSProp",
        "17": "ApplyMomentum",
    }
    for name, op in wanted.items():
        steps = [node.op for node in ENTRIES[name].tensorflow(training=True).as_graph_def().node if node.op.startswith("Apply")]
        assert set(steps) == {op} and len(steps) == len(ENTRIES[name].weights)
    assert not any(node.op.startswith("Apply") for node in ENTRIES["3"].tensorflow().as_graph_def().node)


def test_each_of_two_losses_trains_its_own_weights() -> None:
    nodes = ENTRIES["31"].tensorflow(training=True).as_graph_def().node
    trained = {node.name.partition("/")[0]: set[str]() for node in nodes if node.op == "ApplyAdam"}
    for node in nodes:
        if node.op == "ApplyAdam":
            trained[node.name.partition("/")[0]].add(node.input[0])
    weights = ENTRIES["31"].weights
    assert list(trained.values()) == [{w for w in weights if w.startswith(prefix)} for prefix in ("D_", "G_")]


def test_the_step_by_hand_is_that_of_its_program() -> None:
    import tensorflow.compat.v1 as tf

    entry = ENTRIES["59"]
    inputs = entry.plain_inputs()
    with _session(tf, graph := entry.tensorflow(training=True)) as session, graph.as_default():
        session.run(tf.global_variables_initializer())
        fed = {f"{key}:0": array for key, array in inputs.items()}
        before, bias, p = session.run(["W_out:0", "b_out:0", "loss/softmax:0"], fed)
        session.run(["move_W:0", "move_b:0"], fed)
        after, moved = session.run(["W_out:0", "b_out:0"])
    error = inputs["x"].T @ (inputs["y"] - p)
    np.testing.assert_allclose(after, before + 0.01 * error, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moved, bias + 0.01 * error.mean(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["1", "11b", "18", "35a"])
def test_initialisers_say_what_the_description_says(name: str, tmp_path: Path) -> None:
    """As tensorproof reads them from the graph: constants, uniform and truncated normal numbers have the same ends."""
    entry = ENTRIES[name]
    model = Prepared.of(entry.tensorflow_file(tmp_path)).graph
    ends = {model.name_of(number): found for number, found in model.initial_ranges.items()}
    for key, weight in entry.weights.items():
        if weight.initial.law != "normal":
            assert ends[key] == pytest.approx((weight.initial.low, weight.initial.high), abs=1e-6), key


def test_seeds_choose_the_initial_values_that_tensorflow_draws() -> None:
    import tensorflow.compat.v1 as tf

    drawn: list[Any] = []
    for seed in (0, 0, 1):
        with _session(tf, graph := ENTRIES["18"].tensorflow(seed)) as session, graph.as_default():
            session.run(tf.global_variables_initializer())
            drawn.append(session.run("W_out:0"))
    assert (drawn[0] == drawn[1]).all() and (drawn[0] != drawn[2]).any()
    assert np.abs(drawn[0]).max() <= 0.2 and drawn[0].std() == pytest.approx(0.088, rel=0.05)


def test_a_program_of_pytorch_has_no_graph() -> None:
    with pytest.raises(ValueError, match="PyTorch"):
        ENTRIES["26"].tensorflow()


# -- channels last -------------------------------------------------------------------------------------------------------


def test_axes_are_where_tensorflow_has_them() -> None:
    places = arrangement(ENTRIES["6"].recording())
    assert places.orders["conv"] == IMAGE and places.orders["W_conv1"] == KERNEL and places.orders["b_conv1"] == CHANNEL_BIAS
    assert places.shape("W_conv2", (64, 32, 5, 5)) == (5, 5, 32, 64)
    assert places.shape("b_conv2", (64, 1, 1)) == (64,)
    assert places.flattened == {"W_fc1": (64, 7, 7)}


def test_rows_of_a_flattened_image_go_with_its_pixels() -> None:
    places = arrangement(ENTRIES["44"].recording())
    image = np.random.default_rng(0).random((1, 16, 14, 14), np.float32)
    matrix = np.random.default_rng(1).random((16 * 14 * 14, 2), np.float32)
    moved = image.transpose(0, 2, 3, 1).reshape(1, -1) @ places.moved("W_fc1", matrix)
    np.testing.assert_allclose(moved, image.reshape(1, -1) @ matrix, rtol=1e-4)


def test_kernels_and_biases_of_the_same_shape_are_told_apart() -> None:
    """In the value iteration network both are [1, 150, 1, 1]: one is a kernel, one is added to an image."""
    places = arrangement(ENTRIES["15"].recording())
    assert places.shape("w1", (1, 150, 1, 1)) == (1, 1, 150, 1)
    assert places.shape("bias", (1, 150, 1, 1)) == (1, 1, 1, 150)


def test_a_live_graph_is_checked_as_its_file_is(tmp_path: Path) -> None:
    entry = ENTRIES["3"]
    ranges = dict(entry.declarations().domains)
    saved, live = (
        tensorproof.check(model, ranges=ranges, confirm=False) for model in (entry.tensorflow_file(tmp_path), entry.tensorflow())
    )
    (finding,) = live.findings
    assert [(f.rule, f.node, f.low, f.high) for f in saved.findings] == [(finding.rule, finding.node, finding.low, finding.high)]
    assert finding.location is not None and finding.location.file is not None, "a live graph knows its lines"
