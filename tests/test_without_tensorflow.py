"""TensorFlow's files are analysed where TensorFlow is not installed: in an environment that has our core alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import venv
from importlib import metadata
from pathlib import Path

import pytest
import tensorflow as tf

import tensorproof

pytestmark = pytest.mark.area("tensorflow files")


def _needed(name: str, found: dict[str, metadata.Distribution]) -> None:
    """A distribution and all that it requires, extras aside."""
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return
    key = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
    if key in found:
        return
    found[key] = distribution
    for requirement in distribution.requires or ():
        if "extra ==" not in requirement:
            _needed(re.split(r"[ ;<>=!~\[(]", requirement, maxsplit=1)[0], found)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment that has what the core requires, and nothing else."""
    folder = tmp_path_factory.mktemp("core")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    found: dict[str, metadata.Distribution] = {}
    _needed("tensorproof", found)
    assert {"numpy", "onnx", "protobuf", "rich", "typer"} <= set(found) and "tensorflow-cpu" not in found
    for distribution in found.values():
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__", "bin")}
        for top in tops:
            source = Path(str(distribution.locate_file(top)))
            if source.exists() and not (packages / top).exists() and not top.endswith(".pth"):
                (packages / top).symlink_to(source)
    (packages / "tensorproof").unlink(missing_ok=True)
    (packages / "tensorproof").symlink_to(Path(tensorproof.__file__).parent)
    return folder / "bin" / "python"


def _run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    return subprocess.run([str(python), *arguments], capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_there_is_no_framework_in_it(core: Path) -> None:
    for name in ("tensorflow", "keras", "jax", "torch"):
        assert "ModuleNotFoundError" in _run(core, "-c", f"import {name}").stderr


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training graph of version 1 and a SavedModel, as TensorFlow writes them."""
    folder = tmp_path_factory.mktemp("models")
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 8], name="x")
        weight = tf.compat.v1.get_variable("w", [8, 3], initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.1))
        loss = -tf.reduce_mean(tf.math.log(tf.nn.softmax(tf.matmul(x, weight) * 50.0)))
        tf.compat.v1.train.AdamOptimizer(0.01).minimize(loss)
    (folder / "training.pb").write_bytes(graph.as_graph_def().SerializeToString())

    class Scale(tf.Module):
        def __init__(self) -> None:
            self.weight = tf.Variable([2.0, 3.0], name="weight")

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def __call__(self, x: tf.Tensor) -> tf.Tensor:
            return tf.sqrt(x * self.weight + 1.0)

    module = Scale()
    tf.saved_model.save(module, str(folder / "saved"))
    return folder


def test_a_training_graph_is_analysed_there(core: Path, models: Path) -> None:
    done = _run(
        core, "-m", "tensorproof", "check", str(models / "training.pb"), "--range", "x=-1:1", "--no-confirm", "--format", "json"
    )
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert [(finding["rule"], finding["node"]) for finding in report["findings"]] == [("NUM101", "Log")]
    assert report["coverage"]["complete"]


def test_a_saved_model_has_its_values_there(core: Path, models: Path) -> None:
    command = ["-m", "tensorproof", "check", str(models / "saved"), "--no-confirm", "--format", "json", "--fail-on", "possible"]
    safe = _run(core, *command, "--range", "x=-0.3:1")
    assert (safe.returncode, json.loads(safe.stdout)["findings"]) == (0, []), safe.stderr
    unsafe = _run(core, *command, "--range", "x=-0.4:1")
    assert unsafe.returncode == 1 and [f["op"] for f in json.loads(unsafe.stdout)["findings"]] == ["Sqrt"]


def test_confirming_without_tensorflow_says_so(core: Path, models: Path) -> None:
    done = _run(core, "-m", "tensorproof", "check", str(models / "training.pb"), "--range", "x=-1:1", "--format", "json")
    assert done.returncode == 0 and "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    assert report["findings"][0]["verdict"] == "possible"
    assert any("TensorFlow is not installed" in note for note in report["assumptions"]["confirm"])


def test_only_our_own_packages_are_loaded(core: Path) -> None:
    listed = "import sys, tensorproof.frontends.tensorflow_program; print([m for m in ('tensorflow', 'torch') if m in sys.modules])"
    assert _run(core, "-c", listed).stdout.strip() == "[]"
