"""System tests on disk: both parts of the point, the model with its initial weights, and a test file that replays both steps.

Names of models, nodes and tensors are data from outside: they enter the test file as Python literals and file names as a
slug, never as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.confirm.system_objective import joined, parts
from tensorproof.confirm.witness import FLAG, SEEN_AT, npz_bytes, slug
from tensorproof.files import write_bytes, write_text
from tensorproof.findings import Finding, Witness
from tensorproof.targets import flushes_subnormals

if TYPE_CHECKING:
    import onnx

    from tensorproof.confirm.system_test import SystemTest

_SCRIPT = '''\
"""{rule}: a training example and an input that make a model fail.

The model starts with the weights of its file. Training on the example leads to weights with which the node fails on the
input. The names stand below as data.

    {arrays}
        the example and the input
    {training_model}
        the part of the model that leads to the loss, a copy, with the initial weights
    {node_model}
        the part that leads to the node, a copy; the weights that are trained are inputs

This file needs onnxruntime, numpy and, for the training step, tensorproof with its extra `torch`. Run it either way:

    python {file_name}
        exit code 0: the failure happened again; exit code 1: it did not
    python -m pytest {file_name}
        passes if the failure happens again
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort

from tensorproof.confirm.system_witness import read_parts
from tensorproof.confirm.training import trained_weights

HERE = Path(__file__).resolve().parent
TRAINING_MODEL = {training_model!a}
NODE_MODEL = {node_model!a}
ARRAYS = {arrays!a}
RULE = {rule!a}
SOURCE = {model_name!a}
NODE = {node!a}
OPERATOR = {operator!a}
LOSS = {loss!a}
LEARNING_RATE = {rate!r}
STEPS = {steps!r}
WEIGHTS = {weights!a}
OPERANDS = {operands!a}
RESULTS = {results!a}
#: Infinities that belong to a value, as those of a mask: they are no failure.
LEGAL = {legal!a}
#: "result": a result is not finite. "flag": the same, inside the body of an If, Loop or Scan. "operand": no integer holds
#: the operand.
SEEN_AT = {seen_at!a}
#: Whether the target takes subnormal numbers for zero. The first session of a process decides that for all of them.
FLUSHES = {flushes!a}


def test_{test_name}_happens_again_after_training():
    happened, account = replay_in_own_process() if FLUSHES else replay()
    assert happened, account


def replay_in_own_process():
    ended = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    return ended.returncode == 0, ended.stdout + ended.stderr


def replay():
    """Whether the failure happened again, and what was seen, in words."""
    training, inference = read_parts(HERE / ARRAYS)
    weights = trained_weights(HERE / TRAINING_MODEL, LOSS, WEIGHTS, training, rate=LEARNING_RATE, steps=STEPS)
    values = run({{**inference, **weights}})
    operands = {{name: values[name] for name in OPERANDS if name in values}}
    results = {{name: values[name] for name in RESULTS if name in values}}
    if SEEN_AT == "flag":
        failed = any(array.any() for array in results.values())
    elif SEEN_AT == "operand":
        failed = any(bool((np.abs(array.astype(np.float64)) >= 2.0**63).any()) for array in operands.values())
    else:
        failed = any(unexpected(*item) for item in results.items())
    happened = failed and not any(unexpected(*item) for item in [*weights.items(), *operands.items()])
    verdict = "happened again" if happened else "did NOT happen again"
    seen = [described(name, array) for name, array in [*weights.items(), *operands.items(), *results.items()]]
    return happened, "\\n".join(["%s at node %a, operator %a, %s" % (RULE, NODE, OPERATOR, verdict), *seen])


def run(feeds):
    """The operands and results of the node on these inputs and weights, which are values, too."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    if FLUSHES:
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
    session = ort.InferenceSession(str(HERE / NODE_MODEL), options, providers=["CPUExecutionProvider"])
    observed = [output.name for output in session.get_outputs()]
    wanted = {{given.name: feeds[given.name] for given in session.get_inputs()}}
    return {{**feeds, **dict(zip(observed, session.run(observed, wanted)))}}


def unexpected(name, array):
    """How many elements are NaN, or infinities that do not belong there."""
    if array.dtype.kind != "f":
        return 0
    found = np.isnan(array)
    for infinity in ("inf", "-inf"):
        if infinity not in LEGAL.get(name, ()):
            found |= array == float(infinity)
    return int(found.sum())


def described(name, array):
    text = "%a, shape %s, %s" % (name, array.shape, array.dtype)
    if array.dtype.kind not in "fiu":
        return text
    finite = array[np.isfinite(array)].astype(np.float64)
    ends = "[%g, %g]" % (finite.min(), finite.max()) if finite.size else "no finite numbers"
    return "%s: %s, not finite: %d" % (text, ends, array.size - finite.size)


if __name__ == "__main__":
    happened, account = replay()
    print(account)
    sys.exit(0 if happened else 1)
'''


def save(
    folder: Path,
    finding: Finding,
    test: SystemTest,
    models: tuple[onnx.ModelProto, onnx.ModelProto],
    operands: tuple[str, ...],
    results: tuple[str, ...],
    legal: Mapping[str, tuple[float, ...]],
    *,
    model_name: str,
) -> Witness:
    """Write the four files of a system test.

    `models` are the one that leads to the loss, with the initial weights, and the one that leads to the node and shows its
    operands and results (or `FLAG`), with the trained weights as inputs. `model_name` is what the user calls the whole.
    """
    name = slug(finding, model_name)
    arrays, script = folder / f"{name}_system.npz", folder / f"test_{name}_system.py"
    training_model, node_model = folder / f"{name}_training.onnx", folder / f"{name}_trained.onnx"
    write_bytes(arrays, npz_bytes(joined(test.training, test.inference)))
    for path, model in zip((training_model, node_model), models, strict=True):
        write_bytes(path, model.SerializeToString())
    text = _SCRIPT.format(
        rule=f"{finding.rule.code} {finding.rule.name}",
        test_name=re.sub(r"\W", "_", finding.rule.name),
        file_name=script.name,
        arrays=arrays.name,
        training_model=training_model.name,
        node_model=node_model.name,
        model_name=model_name,
        node=finding.node,
        operator=finding.op,
        loss=test.loss,
        rate=test.rate,
        steps=test.steps,
        weights=list(test.weights),
        operands=list(operands),
        results=list(results),
        legal={key: [str(value) for value in values] for key, values in legal.items() if values},
        seen_at="flag" if results == (FLAG,) else SEEN_AT.get(finding.rule.code, "result"),
        flushes=flushes_subnormals(finding.target),
    )
    write_text(script, text)
    return Witness(str(arrays), str(script))


def read_parts(path: str | Path) -> tuple[dict[str, npt.NDArray[Any]], dict[str, npt.NDArray[Any]]]:
    """The training example and the inference input of a file that `save` wrote."""
    with np.load(path, allow_pickle=False) as archive:
        names = json.loads(bytes(archive["names"]))
        return parts({name: archive[f"array_{i}"] for i, name in enumerate(names)})
