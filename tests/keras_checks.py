"""Models of Keras, built, saved and checked on one backend per process.

    KERAS_BACKEND=jax python -m tests.keras_checks FOLDER

prints one JSON object: what was seen of each model.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers, ops

import tensorproof
from tensorproof.assumptions import resolve
from tensorproof.checking import analyse
from tensorproof.frontends.framework_model import ReadingOptions
from tensorproof.frontends.keras_model import read_keras
from tensorproof.preparing import Prepared

#: A program of a user.
PROGRAM = Path(__file__).parent / "fixtures" / "keras" / "event_rates.py"


# -- models ------------------------------------------------------------------------------------------------------------


def nested() -> Any:
    """A recurrent layer, one layer called twice, and a model in the model."""
    inner = keras.Sequential(
        [keras.Input([4]), layers.Dense(4, name="gate", activation="gelu"), layers.BatchNormalization(name="norm")], name="inner"
    )
    x = keras.Input([5, 3], name="x")
    shared = layers.Dense(4, name="shared")
    state = layers.LSTM(4, name="memory")(x)
    return keras.Model(x, layers.Softmax(name="classes")(inner(shared(shared(state)))), name="outer")


def repeated() -> Any:
    """Two models in the model whose layers have the same names, the second one frozen and called first."""

    def block(name: str) -> Any:
        return keras.Sequential([keras.Input([4]), layers.Dense(4, "tanh", name="gate"), layers.Dense(4, name="out")], name=name)

    x = keras.Input([4], name="x")
    first, second = block("first"), block("second")
    second.trainable = False
    return keras.Model(x, layers.Average(name="both")([second(x), first(x)]), name="repeated")


def of_two() -> Any:
    """Two inputs by name, one of them of whole numbers."""
    tokens, scale = keras.Input([6], dtype="int32", name="tokens"), keras.Input([1], name="scale")
    words = layers.GlobalAveragePooling1D(name="mean")(layers.Embedding(10, 4, name="words")(tokens))
    return keras.Model({"tokens": tokens, "scale": scale}, layers.Multiply(name="scaled")([words, scale]), name="two")


def scores(x: Any, gain: float) -> Any:
    return layers.Dense(3, kernel_initializer=keras.initializers.Identity(gain), use_bias=False, name="scores")(x)


def entropy(safe: bool = False) -> Any:
    """The entropy of classes whose scores lie far apart: the logarithm of a probability that is 0.

    The safe twin has a mask, whose infinity is no failure.
    """
    x = keras.Input([3], name="x")
    given = scores(x, 200.0)
    if safe:
        given = ops.where(given > -1e6, given, -float("inf"))
    classes = layers.Softmax(name="classes")(given)
    logarithms = layers.Activation("log_softmax", name="logarithms")(given) if safe else ops.log(classes)
    return keras.Model(x, layers.Dot(1, name="entropy")([classes, logarithms]), name="classifier")


def length(safe: bool = False) -> Any:
    """The length of a vector that can be 0: its value is finite, its gradient is not."""
    x = keras.Input([3], name="x")
    squares = ops.sum(ops.square(layers.Dense(4, name="hidden")(x)), axis=-1)
    return keras.Model(x, ops.sqrt(squares + 1e-6 if safe else squares), name="length")


def squared(safe: bool = False) -> Any:
    """A model of two outputs; the loss of one of them overflows where the output does not."""
    x = keras.Input([3], name="x")
    classes = layers.Dense(2, "softmax", kernel_initializer="ones", name="classes")(x)
    model = keras.Model(x, [scores(x, 1.0 if safe else 1e25), classes], name="regression")
    model.compile("adam", ["mean_squared_error", "sparse_categorical_crossentropy"])
    return model


def lost() -> Any:
    """An epsilon that TensorFlow's graphs lose: they compute (1 - p) + 1e-8 as 1 - p."""
    x = keras.Input([3], name="x")
    p = layers.Activation("sigmoid", name="p")(scores(x, 40.0))
    return keras.Model(x, ops.log((1.0 - p) + 1e-8), name="guarded")


def filled(model: Any) -> Any:
    """The model with weights that tell each other apart."""
    generator = np.random.default_rng(0)
    for variable in model.variables:
        if "float" in variable.dtype:
            numbers = generator.uniform(0.1, 0.9, variable.shape)
            variable.assign(numbers.astype(np.float32))
    return model


# -- what is seen ------------------------------------------------------------------------------------------------------


def described(path: Path) -> dict[str, Any]:
    """What the front end says about a file, and what Keras says about the model in it."""
    model: Any = keras.saving.load_model(path)
    read = read_keras(path, ReadingOptions())
    graph = read.model
    variables: dict[str, Any] = {}
    seen: Counter[str] = Counter()
    for variable in model.variables:
        if "float" in variable.dtype:
            seen[variable.path] += 1
            variables[variable.path if seen[variable.path] == 1 else f"{variable.path}_{seen[variable.path]}"] = variable
    trained = {id(variable) for variable in model.trainable_variables}
    values = {name: np.asarray(ops.convert_to_numpy(variable.value)) for name, variable in variables.items()}
    return {
        "modules": sorted({node.module for node in graph.graph.walk()} - {""}),
        "weights": sorted(graph.name_of(number) for number in graph.weights),
        "expected weights": sorted(variables),
        "wrong values": [
            name for n in graph.weights if not np.array_equal(graph.constants[n], values.get(name := graph.name_of(n)))
        ],
        "trainable": sorted(graph.name_of(number) for number in read.trainable),
        "expected trainable": sorted(name for name, variable in variables.items() if id(variable) in trained),
        "inputs": {graph.name_of(n): list(graph.values[n].shape or ())[1:] for n in graph.graph.inputs},
    }


def contained(path: Path) -> dict[str, Any]:
    """The outputs of the model on points of the box, run by Keras and by the runner, against the ranges of the analysis."""
    model: Any = keras.saving.load_model(path)
    prepared = Prepared.of(path, ranges={"*": (-1, 1)})
    assert prepared.framework is not None
    combinations, _ = resolve(prepared.graph, prepared.declared)
    analysis = analyse(prepared.graph, combinations[0], prepared.target)
    output = prepared.graph.graph.outputs[0]
    summary = analysis.summaries[output]
    point = np.random.default_rng(0).uniform(-1, 1, (2, *model.inputs[0].shape[1:])).astype(np.float32)
    expected = np.asarray(ops.convert_to_numpy(model(point)))
    name = prepared.graph.name_of(output)
    with prepared.framework.runner() as runner:
        shown = runner.values({"x": point}, [name]).get(name)
    inside = summary.low <= expected.min() and expected.max() <= summary.high
    return {
        "inside": bool(inside),
        "is a bound": bool(np.isfinite([summary.low, summary.high]).all()),
        "shown": shown is not None and bool(np.allclose(shown, expected, atol=1e-5)),
    }


def outcome(model: Any, **options: Any) -> dict[str, Any]:
    report = tensorproof.check(model, **options)
    return {
        "findings": [
            {
                "rule": finding.rule.code,
                "op": finding.op,
                "phase": finding.phase,
                "module": finding.location.module if finding.location else None,
                "file": Path(str(finding.location.file)).name if finding.location and finding.location.file else None,
                "line": finding.location.line if finding.location else None,
                "verdict": finding.verdict.value,
                "reaches": finding.reaches,
                "script": None if finding.witness is None else finding.witness.script,
            }
            for finding in report.findings
            if finding.rule.severity == "error" and not finding.is_note
        ],
        "not analysed": [f"{item.op}: {item.reason}" for item in report.coverage.not_analysed],
        "complete": report.coverage.complete,
        "notes": [*report.assumptions.get("notes", ()), *report.assumptions.get("confirm", ())],
    }


def safe_models(folder: Path) -> dict[str, Any]:
    """Models without a defect, as files and live, forward and in training."""
    found: dict[str, Any] = {}
    ranges: dict[str, Any]
    for build in (nested, repeated, of_two):
        model = filled(build())
        path = folder / f"{build.__name__}.keras"
        model.save(path)
        ranges = {"tokens": (0, 9), "scale": (-1, 1)} if build is of_two else {"*": (-1, 1)}
        found[build.__name__] = described(path)
        for kind, given in (("file", path), ("live", model)):
            found[build.__name__][kind] = outcome(given, ranges=ranges, confirm=False)
        if build is nested:
            found[build.__name__] |= contained(path)
        if build is repeated:
            model.compile(loss="mean_squared_error")
            found[build.__name__]["training"] = outcome(model, ranges=ranges, confirm=False, phase="training")
    return found


def defective_models(folder: Path) -> dict[str, Any]:
    """Models with a defect: as files beside their repaired twins, live, and as programs."""
    witnesses = folder / "witnesses"
    found: dict[str, Any] = {}
    builds: tuple[Callable[..., Any], ...] = (entropy, length, squared)
    for build in builds:
        name, phase = build.__name__, "training" if build in (length, squared) else "inference"
        build().save(folder / f"{name}.keras")
        build(safe=True).save(folder / f"{name}_safe.keras")
        ranges = {"x": (-1, 1), "y_0": (-1, 1)} if build is squared else {"*": (-1, 1)}
        found[name] = outcome(folder / f"{name}.keras", ranges=ranges, phase=phase, witnesses=witnesses)
    lost().save(folder / "lost.keras")
    found["lost"] = outcome(folder / "lost.keras", ranges={"*": (-1, 1)}, witnesses=witnesses)
    events = imported(PROGRAM)
    x = keras.Input([3], name="x")
    given = events.Halved(name="half")(scores(x, 400.0))
    halved = keras.Model(x, layers.Activation("exponential", name="rates")(given), name="counts")
    found["live"] = outcome(halved, ranges={"*": (-1, 1)}, witnesses=witnesses)
    # Another model before it: Keras numbers the names of the next one.
    events.Rates()
    found["program"] = outcome(f"{PROGRAM}:Rates", witnesses=witnesses)
    return found


def imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(folder: Path) -> None:
    print(json.dumps({**safe_models(folder), **defective_models(folder)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
