"""Whole models of Keras, TensorFlow and JAX in float32: what reading and analysing each of them costs, and what is proven.

    python -m benchmarks.framework_models [MODEL ...]

Weights are those of an untrained network, except basic-pitch's, which come with its wheel. Inputs lie where the preprocessing of
the model puts them, or in 0..255 where it rescales them itself. *Training* is the graph of the loss and of all gradients;
*calibrated* are networks whose channels differ in size, with the statistics of a batch, as training leaves them. Each
model has a process of its own; *reading* is the CPU time from the live model or the file to our graph, tracing by the framework
included, its import and the building of the model not. *Open* are nodes of gradients whose bounds leave the format: of these no
finding is made. What follows them is *proven if* they are finite.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tensorproof.findings import Report
from tensorproof.preparing import Prepared

#: Models of `keras.applications`, with the range of their inputs: 0..255 where the model rescales them, else that of its
#: `preprocess_input` (ResNet50: means of channels between 103 and 124 are taken away).
APPLICATIONS = {
    "ResNet50": (-123.68, 151.061),
    "MobileNetV2": (-1.0, 1.0),
    "EfficientNetB0": (0.0, 255.0),
    "ConvNeXtTiny": (0.0, 255.0),
}

#: The transformer in plain JAX: names of its functions by the name of the row.
TRANSFORMER = Path(__file__).parents[1] / "tests" / "jax_transformer.py"
FUNCTIONS = {"transformer": "loss", "transformer step": "train_step"}

BASIC_PITCH = "basic-pitch"
#: What a row is named after in which gradients are analysed, too.
TRAINING = ", training"
TRAINED = tuple(f"{name}{TRAINING}" for name in (*APPLICATIONS, "transformer", "transformer step"))
#: What a row is named after whose batch normalisations are not as they were made.
CALIBRATED = ", calibrated"
NAMES = (*APPLICATIONS, BASIC_PITCH, "transformer", *(f"{name}{CALIBRATED}" for name in ("ResNet50", "EfficientNetB0")), *TRAINED)

#: Findings of a model that are named below the table.
SHOWN = 5


def basic_pitch() -> Path:
    """The folder of the SavedModel in the installed wheel, which is not imported."""
    spec = importlib.util.find_spec("basic_pitch")
    assert spec is not None and spec.submodule_search_locations, "basic-pitch is not installed"
    return Path(spec.submodule_search_locations[0]) / "saved_models" / "icassp_2022" / "nmp"


def given(name: str, size: int | None = None) -> tuple[Any, dict[str, Any]]:
    """A model, and the options of its check; `size` is that of the images, where it reads images."""
    what, phase = name.removesuffix(TRAINING).removesuffix(CALIBRATED), "training" if name.endswith(TRAINING) else "inference"
    if what in APPLICATIONS:
        import keras

        keras.utils.set_random_seed(0)
        shape = None if size is None else (size, size, 3)
        model = getattr(keras.applications, what)(weights=None, input_shape=shape)
        model.compile(loss="sparse_categorical_crossentropy")
        if name.endswith(CALIBRATED):
            calibrate(model, *APPLICATIONS[what])
        return model, {"ranges": {model.inputs[0].name: APPLICATIONS[what]}, "phase": phase}
    if what == BASIC_PITCH:
        return basic_pitch(), {"ranges": {"*": (-1.0, 1.0)}}
    import jax

    jax.config.update("jax_platforms", "cpu")
    return f"{TRANSFORMER}:{FUNCTIONS[what]}", {"phase": phase}


def calibrate(model: Any, low: float, high: float) -> None:
    """Filters of different sizes, slopes and shifts of their own, the statistics of a batch: what training makes of a network."""
    import keras

    generator = np.random.default_rng(0)
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
            layer.gamma.assign(generator.uniform(0.5, 1.5, layer.gamma.shape))
            layer.beta.assign(generator.normal(0.0, 0.3, layer.beta.shape))
        elif isinstance(layer, keras.layers.Conv2D):
            layer.kernel.assign(layer.kernel * np.exp(generator.normal(0.0, 0.5, layer.kernel.shape[-1:])))
    batch = generator.uniform(low, high, (4, *model.inputs[0].shape[1:])) * generator.uniform(0.0, 1.0, (4, 1, 1, 1))
    model(batch.astype(np.float32), training=True)


def measure(name: str, size: int | None = None) -> dict[str, Any]:
    """CPU seconds of both steps, and what came of them."""
    model, options = given(name, size)
    started = time.process_time()
    prepared = Prepared.of(model, cache=False, **options)
    read = time.process_time()
    report = prepared.checked(None)
    done = time.process_time()
    if report.findings:
        report = prepared.checked(prepared.quick_confirm())
    return {"reading": read - started, "analysis": done - read, **described(report)}


def described(report: Report) -> dict[str, Any]:
    """The counts of a report, its gaps and its findings."""
    coverage = report.coverage
    roots = [finding for finding in report.findings if not finding.consequence_of]
    flagged = {finding.node for finding in report.findings if finding.rule.severity == "error"}
    proven, conditional = len(report.proven_safe), len(report.proven_safe_if)
    verdicts = [finding.verdict.value for finding in roots]
    return {
        "nodes": coverage.nodes,
        "checkable": coverage.checkable,
        "checked": coverage.checked,
        "proven": proven,
        "proven if": conditional,
        "open": coverage.checked - proven - conditional - len(flagged),
        "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
        "consequences": len(report.findings) - len(roots),
        "gaps": [f"{item.node} ({item.op}): {item.reason}" for item in coverage.not_analysed],
        "findings": [f"{finding.verdict} {finding.rule.code} at {finding.node}: {finding.message}" for finding in roots],
    }


def _row(name: str) -> dict[str, Any]:
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "benchmarks.framework_models", "--one", name]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: Sequence[str] = ()) -> None:
    if list(arguments[:1]) == ["--one"]:
        size = int(arguments[2]) if len(arguments) > 2 else None
        print(json.dumps(measure(arguments[1], size)))
        return
    table = Table(title="models of Keras, TensorFlow and JAX in float32 (CPU seconds)")
    for column in ("model", "reading s", "analysis s", "nodes", "checkable", "checked", "proven", "proven if", "open", "findings"):
        table.add_column(column, justify="left" if column == "model" else "right")
    below: list[str] = []
    for name in list(arguments) or NAMES:
        row = _row(name)
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in row["verdicts"].items()) or "0"
        table.add_row(
            name,
            *(f"{row[key]:.2f}" for key in ("reading", "analysis")),
            *(str(row[key]) for key in ("nodes", "checkable", "checked", "proven", "proven if", "open")),
            f"{verdicts} (+{row['consequences']})" if row["consequences"] else verdicts,
        )
        below += [f"{name}: {line}" for line in (*row["gaps"], *row["findings"][:SHOWN])]
    console = Console(width=132)
    console.print(table)
    for line in below:
        console.print(line, highlight=False)


if __name__ == "__main__":
    main(sys.argv[1:])
