"""System tests of derivatives: after training on one example, the gradient of the step that follows fails in TensorFlow.

The step that leads there is the one of all system tests, from the model's initial weights with learning rate 1. The step that
fails is TensorFlow's own graph of gradients, run on another input with the weights that were reached.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.zoo import Bug, Entry
from benchmarks.zoo.channels_last import arrangement
from tensorproof.confirm.sampling import TACTICS, Point, points
from tensorproof.confirm.training import Training, TrainingFailed
from tensorproof.formats import FLOAT32
from tensorproof.frontends.onnx_file import load

#: Training examples that are tried, and inputs with each.
EXAMPLES, INPUTS = {"full": 1000, "random": 200}, 2 * len(TACTICS)
#: Examples are mostly of many different rows, which do not pull all weights one way; or of a uniform distribution alone.
_EXAMPLES = {"full": ("corners", "uniform", "rows") * 2 + TACTICS, "random": ("uniform",)}
_INPUTS = {"full": TACTICS, "random": ("uniform",)}


def next_step_fails(entry: Entry, bug: Bug, method: str, seed: int, loss: str) -> bool:
    """Whether samples of the program's inputs hold an example and an input that show the bug, of a program of TensorFlow."""
    domains = {name: (given.domain, tuple(given.shape), FLOAT32) for name, given in entry.inputs.items()}
    inputs = list(points(seed + 1, domains, INPUTS, tactics=_INPUTS[method]))
    training = _training(entry, seed, loss)
    with _gradient(entry, bug, seed) as fails:
        for example in points(seed, domains, EXAMPLES[method], tactics=_EXAMPLES[method]):
            try:
                weights = training.trained(example)
            except TrainingFailed:
                continue
            if any(fails(weights, given) for given in inputs):
                return True
    return False


def _training(entry: Entry, seed: int, loss: str) -> Training:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.onnx"
        onnx.save(entry.onnx(seed), path)
        model = load(path)
    numbers = {model.name_of(n): n for n in model.weights}
    return Training(model, loss, [numbers[name] for name in entry.weights])


@contextmanager
def _gradient(entry: Entry, bug: Bug, seed: int) -> Iterator[Any]:
    """What tells, in a session of TensorFlow, whether the gradient of the bug's node fails on weights and an input."""
    import tensorflow

    graph, places = entry.tensorflow(seed, training=True), arrangement(entry.recording())
    (node,) = [operation for operation in graph.get_operations() if operation.name.startswith(f"gradients/{bug.node}_grad/")]
    with tensorflow.compat.v1.Session(graph=graph) as session:

        def fails(weights: Point, given: Point) -> bool:
            fed = {**{name: places.moved(name, array) for name, array in weights.items()}, **given}
            seen = session.run([*node.inputs, *node.outputs], {f"{name}:0": array for name, array in fed.items()})
            finite = [bool(np.isfinite(array).all()) for array in seen]
            return all(finite[: len(node.inputs)]) and not all(finite)

        yield fails
