"""Whole models of Keras, TensorFlow and JAX: nothing left out, no false alarm, values of real runs inside of their ranges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from benchmarks.framework_models import APPLICATIONS, BASIC_PITCH, CALIBRATED, TRAINING

from tensorproof.frontends.framework_model import ReadingOptions
from tensorproof.frontends.tensorflow_program import read_function, read_tensorflow
from tensorproof.graph import Model
from tensorproof.preparing import Prepared
from tests.framework_model_checks import checked
from tests.large_tensorflow_graph import large_graph

pytestmark = pytest.mark.area("framework models")

ROOT = Path(__file__).parents[1]
#: The share of nodes that can fail which has to be checked.
CHECKED = 0.99
#: Images of this size pass the five halvings of each network.
SIZE = "64"
#: Networks whose training is analysed in every run of the suite: batch normalisation, and a derivative that Keras' activation states.
TRAINED = ("EfficientNetB0",)


def apart(*arguments: str) -> dict[str, Any]:
    """What a check in a process of its own prints: Keras has one backend per process, and files need no framework at all."""
    variables = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, "-m", "tests.framework_model_checks", *arguments]
    environment = {**os.environ, **variables, "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def assert_safe(found: dict[str, Any]) -> None:
    assert found["checkable"] >= 60
    assert found["checked"] >= CHECKED * found["checkable"], found["gaps"]
    assert not found["findings"] and not found["consequences"]
    assert found["seen"] > found["nodes"]
    assert not found["outside"]


@pytest.mark.parametrize("name", [*APPLICATIONS, f"ResNet50{CALIBRATED}"])
def test_applications_of_keras(name: str) -> None:
    found = apart(name, SIZE)
    assert_safe(found)
    assert found["proven"] == found["checkable"]


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in TRAINED else pytest.mark.long) for n in APPLICATIONS])
def test_training_of_applications_of_keras(name: str) -> None:
    """Statistics of batches, the loss and all gradients: bounds on gradients may leave the format, which is no finding."""
    found = apart(f"{name}{TRAINING}", SIZE)
    assert_safe(found)
    assert not found["gaps"]
    assert found["proven"] + found["proven if"] + found["open"] == found["checkable"]


def test_basic_pitch_is_read_without_a_framework() -> None:
    """The SavedModel of a trained network: all of it is proven, and only the runs behind that load TensorFlow, elsewhere."""
    found = apart(BASIC_PITCH)
    assert found["loaded"] == []
    assert_safe(found)
    assert not found["gaps"]
    assert found["proven"] == found["checkable"]


@pytest.mark.parametrize("name", ["transformer", f"transformer{TRAINING}", f"transformer step{TRAINING}"])
def test_transformer_of_jax(name: str) -> None:
    found = checked(name)
    assert_safe(found)
    assert not found["gaps"]


def test_graphs_of_many_nodes_cost_the_same_per_node(tmp_path: Path) -> None:
    """Reading and scanning 40,000 nodes take four times as long as 10,000, and at that rate 200,000 take far less than 30 s."""
    path = tmp_path / "graph.pb"
    costs: list[float] = []
    for nodes in (10_000, 40_000):
        path.write_bytes(large_graph(nodes).SerializeToString())
        costs.append(min(_seconds(path, nodes) for _ in range(2)) / nodes)
    assert costs[1] < 1.5 * costs[0]
    assert 200_000 * costs[1] < 30.0


def _seconds(path: Path, nodes: int) -> float:
    started = time.process_time()
    prepared = Prepared.of(path, ranges={"*": (-1.0, 1.0)}, cache=False)
    report = prepared.checked(None)
    spent = time.process_time() - started
    assert len(report.proven_safe) == report.coverage.checkable > 0.6 * nodes
    assert not report.findings
    return spent


# -- what is part of gradients ----------------------------------------------------------------------------------------


@tf.custom_gradient
def logarithmic(x: tf.Tensor) -> Any:
    """A rule of the user's own."""
    return 2.0 * x, lambda gradient: tf.math.log(gradient)


@tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name="x")])
def normalised_step(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The gradient of three terms, one of them with a rule that TensorFlow states, brought to length 1."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.nn.silu(x) * x + logarithmic(x))
    gradient = tape.gradient(loss, x)
    return loss, gradient / tf.norm(gradient)


def phases(model: Model) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in model.graph.walk():
        found.setdefault(node.op, []).append(node.phase)
    return found


def test_what_tensorflow_makes_while_it_differentiates_is_part_of_gradients() -> None:
    """Sums of gradients and derivatives that TensorFlow states, whatever their names; not what the user wrote."""
    read = read_function(normalised_step, "normalised_step", None, ReadingOptions(training=True))
    found = phases(read.model)
    assert found["Sum"] == ["backward"]
    assert sorted(found["Sigmoid"]) == ["backward", "forward"]
    assert found["Log"] == ["forward"]
    assert found["Sqrt"] == ["forward"]
    assert read.found.origins[next(node.name for node in read.model.graph.walk() if node.op == "Sum")] == "AddN"


def test_sums_of_gradients_in_a_file(tmp_path: Path) -> None:
    """There names alone tell: the sum is of gradients where all that it adds is."""

    @tf.function(input_signature=[tf.TensorSpec([3], tf.float32, name="x")])
    def step(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.exp(x) * tf.sin(x))
        gradient = tape.gradient(loss, x)
        return loss, gradient, tf.add_n([gradient, x])

    path = tmp_path / "step.pb"
    path.write_bytes(step.get_concrete_function().graph.as_graph_def().SerializeToString())
    model = read_tensorflow(path, ReadingOptions(training=True)).model
    sums = {node.name: node.phase for node in model.graph.walk() if node.op == "Sum"}
    assert sums == {"AddN": "backward", "AddN_1": "forward"}
