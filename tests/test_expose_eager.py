"""Eager programs of TensorFlow and Keras under observation: what is found in them, that they stay what they are, and replays."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorproof.confirm.witness import npz_bytes
from tensorproof.expose.eager.witness import script
from tensorproof.expose.events import Failure, failure_of
from tensorproof.expose.replays.recipe import Recipe
from tensorproof.expose.search.board import Suspect
from tensorproof.expose.search.leading import Leading, Measured
from tensorproof.expose.search.moves import Legal
from tensorproof.expose.search.vulnerable import weaknesses
from tensorproof.expose.settings import Settings
from tensorproof.expose.workplace import Workplace
from tensorproof.formats import Array

pytestmark = pytest.mark.area("expose")
pytest.importorskip("tensorflow")


@dataclass(frozen=True)
class Outcome:
    program: Path
    events: list[dict[str, Any]]
    printed: str

    @property
    def folder(self) -> Path:
        return self.program.parent

    @property
    def failure(self) -> Failure | None:
        return next((failure_of(event) for event in self.events if event["event"] == "failure"), None)

    @property
    def found(self) -> Failure:
        assert self.failure is not None, self.printed
        return self.failure

    @property
    def line(self) -> str:
        """The source of the line that failed."""
        assert self.found.line is not None
        return self.program.read_text().splitlines()[self.found.line - 1].strip()

    @property
    def iterations(self) -> int:
        return sum(event["event"] == "iteration" for event in self.events)

    @property
    def ended(self) -> tuple[str, str]:
        assert self.events[-1]["event"] == "ended", self.printed
        return self.events[-1]["how"], self.events[-1]["text"]

    def arrays(self) -> dict[str, Any]:
        with np.load(self.folder / "values.npz") as archive:
            return {n: archive[f"array_{i}"] for i, n in enumerate(json.loads(bytes(archive["names"])))}


class Runner:
    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._count = 0

    def __call__(self, text: str, *, kind: str = "observed", **settings: Any) -> Outcome:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        program = folder / "program.py"
        program.write_text(textwrap.dedent(text).lstrip())
        given = json.loads(Settings(str(program), **settings).to_json())
        assert self.ask({"kind": kind, "settings": given, "folder": str(folder)}) == 0, (folder / "printed").read_text()
        file = folder / "events"
        events = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return Outcome(program, events, (folder / "printed").read_text())

    def replay(self, outcome: Outcome, *words: str) -> tuple[int, str]:
        """The exit code of a replay, and the last line that it printed."""
        code = self.ask({"kind": "replay", "words": [str(witness_of(outcome)), *words], "folder": str(outcome.folder)})
        return code, (outcome.folder / "printed").read_text().splitlines()[-1]

    def ask(self, job: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def witness_of(outcome: Outcome) -> Path:
    """Write the script that replays a failure, and its arrays."""
    recipe = Recipe(outcome.found, Workplace(outcome.program, outcome.folder), (), outcome.arrays())
    (outcome.folder / f"{recipe.name}.npz").write_bytes(npz_bytes(recipe.values))
    file = outcome.folder / f"test_{recipe.name}.py"
    file.write_text(script(recipe, outcome.folder))
    return file


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    folder = tmp_path_factory.mktemp("eager")
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.eager_runs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**environment, "PYTHONHASHSEED": "0"},
            cwd=Path(__file__).parents[1],
        )
        yield Runner(process, folder)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
    assert "Traceback" not in (folder / "errors").read_text()


FIT = """
    import keras
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (640, 100)).astype("float32")
    y = np.eye(3, dtype="float32")[rng.integers(0, 3, 640)]

    def cross_entropy(target, logits):
        p = tf.nn.softmax(logits)
        return -tf.reduce_mean(tf.reduce_sum(target * tf.math.log(p), axis=1))

    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss=cross_entropy)
    model.fit(x, y, batch_size=32, epochs=3, verbose=0)
"""


@pytest.fixture(scope="module")
def fitted(run: Runner) -> Outcome:
    return run(FIT)


def test_fit_of_keras_is_driven_into_the_logarithm_of_a_softmax(fitted: Outcome) -> None:
    found = fitted.found
    assert (found.operator, found.rule, found.phase, found.reaches) == ("Log", "NUM101", "forward", "loss")
    assert "tf.math.log(p)" in fitted.line
    assert found.function == "cross_entropy"
    assert found.suspect.startswith(f"program.py:{found.line}:{found.column}:Log:")
    assert found.iteration == fitted.iterations
    assert (found.operand, found.low) == ("x", 0.0)
    assert fitted.ended == ("stopped", "an operator failed")
    assert list(found.moved) == ["batch0.0"]
    arrays = fitted.arrays()
    legal = next(event for event in fitted.events if event["event"] == "value" and event["name"] == "batch0.0")
    assert arrays["batch0.0"].shape == (32, 100)
    assert legal["low"] >= 0
    assert legal["high"] <= 1
    assert arrays["batch0.0"].min() >= np.float32(legal["low"])
    assert arrays["batch0.0"].max() <= np.float32(legal["high"])
    assert (np.sort(arrays["batch0.1"], axis=1) == [0.0, 0.0, 1.0]).all()
    kernel = next(name for name, label in found.values.items() if label.endswith("kernel"))
    assert arrays[kernel].shape == (100, 3)


def test_the_program_alone_does_not_fail_that_soon(run: Runner, fitted: Outcome) -> None:
    plain = run(FIT, method="plain")
    assert plain.failure is None
    assert plain.ended == ("finished", "")
    assert plain.iterations == 60 > fitted.iterations


def test_a_program_that_catches_everything_cannot_hold_the_end_back(run: Runner) -> None:
    outcome = run(
        """
        import tensorflow as tf

        w = tf.Variable([0.0])
        for number in range(1000):
            try:
                with tf.GradientTape() as tape:
                    loss = tf.math.log(w)
                w.assign_sub(tape.gradient(loss, w))
            except:
                print("caught")
        """,
        method="plain",
    )
    assert outcome.ended == ("stopped", "an operator failed")
    assert sum(event["event"] == "failure" for event in outcome.events) == 1
    assert outcome.found.rule == "NUM101"
    assert "caught" in outcome.printed


def test_the_same_seed_finds_the_same(run: Runner, fitted: Outcome) -> None:
    again = run(FIT)
    assert [event for event in again.events if event["event"] == "suspect"] == [
        {**event, "file": str(again.program)} for event in fitted.events if event["event"] == "suspect"
    ]
    for name, array in fitted.arrays().items():
        assert np.array_equal(array, again.arrays()[name]), name


LOOP = """
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (320, 10)).astype("float32")
    y = (x[:, :1] > 0).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(320, seed=1).batch(32)
    w = tf.Variable(tf.random.normal((10, 1), stddev=0.1))
    b = tf.Variable(tf.zeros(1))

    for epoch in range(4):
        for features, target in data:
            with tf.GradientTape() as tape:
                p = tf.sigmoid(features @ w + b)
                loss = -tf.reduce_mean(target * tf.math.log(p + 1e-7) + (1 - target) * tf.math.log(1 - p))
            dw, db = tape.gradient(loss, [w, b])
            w.assign_sub(0.5 * dw)
            b.assign_sub(0.5 * db)
            print("largest", float(tf.reduce_max(tf.abs(features))))
"""


def test_a_loop_over_a_dataset_is_driven_into_log_of_one_minus_p(run: Runner) -> None:
    outcome = run(LOOP)
    found = outcome.found
    assert (found.operator, found.rule, found.phase) == ("Log", "NUM101", "forward")
    assert found.column is not None
    assert outcome.program.read_text().splitlines()[found.line - 1][found.column :].startswith("tf.math.log(1 - p)")
    assert found.values["batch0.0"] == "features"
    assert set(found.values) == {"weight0", "weight1", "batch0.0", "batch0.1"}
    assert outcome.iterations < 40


def test_declared_ranges_hold_by_the_name_of_a_variable(run: Runner) -> None:
    outcome = run(LOOP, ranges={"features": (-0.5, 0.5)}, iterations=12)
    largest = [float(line.split()[1]) for line in outcome.printed.splitlines() if line.startswith("largest")]
    assert largest[0] > 1.0
    assert len(largest) > 5
    assert max(largest[1:]) <= 0.5
    assert outcome.failure is None


def test_suspects_that_are_settled_are_not_driven(run: Runner) -> None:
    first = run(LOOP, method="plain", iterations=1)
    names = {event["name"] for event in first.events if event["event"] == "suspect"}
    assert len(names) == 2
    outcome = run(LOOP, settled=tuple(names), iterations=15)
    assert outcome.failure is None
    assert sum(event["event"] == "suspect" for event in outcome.events) == 2
    assert outcome.ended == ("stopped", "the iterations are used up")


ARRAYS = """
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (160, 60))
    labels = np.eye(4)[rng.integers(0, 4, 160)].astype("float32")
    w = tf.Variable(tf.zeros((60, 4)))
    optimizer = tf.keras.optimizers.SGD(10.0)

    @tf.function
    def step(features, target):
        with tf.GradientTape() as tape:
            p = tf.nn.softmax(features @ w)
            loss = -tf.reduce_mean(target * tf.math.log(p))
        optimizer.apply_gradients(zip(tape.gradient(loss, [w]), [w]))
        return loss

    for number in range(120):
        rows = slice(16 * (number % 10), 16 * (number % 10) + 16)
        step(tf.constant(x[rows], tf.float32), tf.convert_to_tensor(labels[rows]))
"""


def test_arrays_that_a_traced_function_gets_are_moved_and_labels_stay_with_them(run: Runner) -> None:
    outcome = run(ARRAYS)
    found = outcome.found
    assert (found.operator, found.rule, found.function) == ("Log", "NUM101", "step")
    data = {name.rpartition(":")[2]: array for name, array in outcome.arrays().items() if name.startswith("data:")}
    assert list(found.moved) == [name for name in found.values if name.startswith("data:") and name.endswith(":0")]
    assert found.values[found.moved[0]] == "features"
    assert data["0"].shape == (16, 60)
    # The samples of the first step are kept: later steps of the program have other labels.
    assert found.iteration > 0
    assert np.array_equal(data["1"], np.eye(4)[_first_labels()])
    assert run(ARRAYS, method="plain").failure is None


def _first_labels() -> Any:
    rng = np.random.default_rng(0)
    rng.uniform(0, 1, (160, 60))
    return rng.integers(0, 4, 160)[:16]


ROOT = """
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x = tf.constant(rng.uniform(0.5, 1, (64, 5)).astype("float32"))
    w = tf.Variable(np.full((5, 1), 0.5, "float32"))
    for number in range(20):
        with tf.GradientTape() as tape:
            h = tf.nn.relu(x @ w - 1.35)
            loss = tf.reduce_mean(tf.sqrt(h))
        w.assign_sub(0.0001 * tape.gradient(loss, w))
    print("loss", float(loss))
"""


@pytest.fixture(scope="module")
def rooted(run: Runner) -> Outcome:
    return run(ROOT)


def test_a_root_fails_in_the_backward_pass_for_data_that_the_program_holds(run: Runner, rooted: Outcome) -> None:
    found = rooted.found
    assert (found.operator, found.rule, found.phase, found.reaches) == ("Sqrt", "NUM401", "backward", "gradient")
    assert "tf.sqrt(h)" in rooted.line
    assert found.low == 0.0
    assert [found.values[name] for name in found.moved] == ["x"]
    assert rooted.arrays()[found.moved[0]].min() >= np.float32(0.5)
    assert run(ROOT, method="plain").failure is None


MADE = ROOT.replace(
    'tf.constant(rng.uniform(0.5, 1, (64, 5)).astype("float32"))', "tf.cast(rng.integers(128, 256, (64, 5)), tf.float32) / 255.0"
)


def test_what_a_program_computes_before_it_trains_is_data_too(run: Runner) -> None:
    outcome = run(MADE)
    found = outcome.found
    assert (found.operator, found.rule) == ("Sqrt", "NUM401")
    assert [name for name in found.moved if name.startswith("made:")]
    # Weights are moved where nothing else can be.
    assert "weight0" not in found.moved
    assert run.replay(outcome)[0] == 1


HANDED = """
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    data = rng.uniform((0.5, 0.5, 0.0), (1.0, 1.0, 0.5), (64, 3)).astype("float32")
    w = tf.Variable([[1.0], [2.0], [-1.0]])
    for number in range(30):
        batch = data[number % 8 * 8 : number % 8 * 8 + 8]
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.math.log(tf.math.square(batch) @ w))
        w.assign_sub(1e-4 * tape.gradient(loss, w))
"""


def test_arrays_that_operators_are_called_with_are_moved(run: Runner) -> None:
    outcome = run(HANDED)
    found = outcome.found
    assert (found.operator, found.rule) == ("Log", "NUM101")
    assert found.low <= 0.0
    assert [name.partition(":")[0] for name in found.moved] == ["data"]
    assert run(HANDED, method="plain").failure is None
    code, line = run.replay(outcome)
    assert code == 1, line


def test_what_a_layer_holds_and_what_libraries_make_tensors_of_is_no_data(run: Runner) -> None:
    outcome = run(
        """
        import keras
        import numpy as np
        import tensorflow as tf

        class Encoded(keras.layers.Layer):
            def __init__(self):
                super().__init__()
                self.positions = tf.cast(tf.range(4), tf.float32) / 4.0 + 0.5
                self.kernel = self.add_weight(shape=(4, 2), initializer="ones")

            def call(self, inputs):
                return tf.nn.softmax((tf.cast(inputs, tf.float32) * self.positions) @ self.kernel)

        layer, metric = Encoded(), keras.metrics.AUC()
        optimizer = keras.optimizers.SGD(0.1)
        for number in range(6):
            x = np.random.default_rng(number).integers(0, 3, (8, 4))
            with tf.GradientTape() as tape:
                p = layer(x)
                loss = -tf.reduce_mean(tf.math.log(p))
            metric.update_state(x[:, :1] > 1, p[:, :1])
            optimizer.apply(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables)
        metric.result()
        """
    )
    # Nothing but the weight is a number that comes from outside.
    assert [event["name"] for event in outcome.events if event["event"] == "value"] == []
    assert list(outcome.found.moved) == ["weight0"]
    assert [name for name in outcome.found.values if name.startswith("made:")]


def test_a_branch_that_is_not_taken_spoils_the_gradient(run: Runner) -> None:
    outcome = run(
        """
        import tensorflow as tf

        x = tf.constant([[1.0, -1.0], [2.0, 0.5]])
        w = tf.Variable([[1.0], [2.0]])
        for _ in range(3):
            with tf.GradientTape() as tape:
                h = tf.nn.relu(x @ w)
                loss = tf.reduce_sum(tf.where(h > 0, tf.math.log(h), 0.0))
            w.assign_sub(0.01 * tape.gradient(loss, w))
        """,
        method="plain",
    )
    found = outcome.found
    assert (found.operator, found.rule, found.phase, found.reaches) == ("Log", "NUM404", "backward", "gradient")
    assert found.iteration == 0


def test_a_gradient_in_the_loss_is_part_of_the_program(run: Runner) -> None:
    """The penalty differentiates a gradient; its root is at zero where all units are off."""
    outcome = run(
        """
        import numpy as np
        import tensorflow as tf

        x = np.random.default_rng(0).uniform(1, 2, (16, 4)).astype("float32")
        w = tf.Variable(tf.ones((4, 3)))
        v = tf.Variable(tf.ones((3, 1)))
        for features in tf.data.Dataset.from_tensor_slices(x).repeat().batch(8).take(30):
            with tf.GradientTape() as tape:
                with tf.GradientTape() as inner:
                    inner.watch(features)
                    out = tf.nn.relu(features @ w - 4.5) @ v
                slopes = inner.gradient(out, features)
                norm = tf.sqrt(tf.reduce_sum(slopes * slopes, axis=1))
                loss = tf.reduce_mean((norm - 1) ** 2) + tf.reduce_mean(tf.math.log(out + 1e-3))
            for variable, gradient in zip((w, v), tape.gradient(loss, [w, v])):
                variable.assign_sub(1e-4 * gradient)
        """
    )
    found = outcome.found
    assert (found.operator, found.phase) == ("Sqrt", "backward")
    assert "tf.sqrt(" in outcome.line
    assert list(found.moved) == ["batch0.0"]
    assert found.iteration > 0


SAFE = """
    import keras
    import numpy as np

    keras.utils.set_random_seed(3)
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (128, 6)).astype("float32")
    y = rng.integers(0, 3, 128)
    layers = [keras.layers.Dense(8, activation="tanh"), keras.layers.BatchNormalization(), keras.layers.Dropout(0.2)]
    model = keras.Sequential([*layers, keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    history = model.fit(x, y, batch_size=32, epochs=2, verbose=0, validation_split=0.25).history
    print("numbers", *history["loss"], *history["val_loss"], *history["accuracy"], float(model.predict(x, verbose=0).sum()))
"""


def _numbers(outcome: Outcome) -> list[float]:
    line = next(line for line in outcome.printed.splitlines() if line.startswith("numbers"))
    return [float(word) for word in line.split()[1:]]


def test_a_program_that_is_only_watched_computes_what_it_computes_alone(run: Runner) -> None:
    watched, alone = run(SAFE, method="plain"), run(SAFE, kind="alone")
    assert watched.failure is None
    assert watched.iterations == 6
    assert _numbers(watched) == pytest.approx(_numbers(alone), rel=1e-4)


def test_a_safe_program_does_not_fail_when_it_is_driven(run: Runner) -> None:
    outcome = run(SAFE)
    assert outcome.failure is None
    assert outcome.ended == ("finished", "")
    assert outcome.iterations == 6


def test_several_batches_in_one_call_of_keras_are_followed(run: Runner) -> None:
    outcome = run(FIT.replace("loss=cross_entropy)", "loss=cross_entropy, steps_per_execution=4)"))
    assert outcome.found.rule == "NUM101"
    assert list(outcome.found.moved) == ["batch0.0"]


DRAWS = """
    import tensorflow as tf

    u = tf.random.uniform((4, 3))
    print(tf.reduce_sum(tf.math.log(u)))
"""


def test_numbers_that_are_drawn_once_are_moved_and_the_program_is_run_again(run: Runner) -> None:
    outcome = run(DRAWS)
    found = outcome.found
    assert (found.operator, found.rule, found.reaches, found.iteration) == ("Log", "NUM101", "output", 0)
    assert [name.partition(":")[0] for name in found.moved] == ["draw"]
    assert found.low == 0.0
    code, line = run.replay(outcome)
    assert code == 1, line


def test_a_scaled_loss_whose_gradients_overflow_is_no_failure(run: Runner) -> None:
    outcome = run(
        """
        import keras
        import numpy as np

        keras.mixed_precision.set_global_policy("mixed_float16")
        rng = np.random.default_rng(0)
        x = rng.normal(0, 30, (32, 50)).astype("float32")
        y = rng.normal(0, 30, (32, 1)).astype("float32")
        model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, dtype="float32")])
        model.compile(optimizer="sgd", loss="mse")
        model.fit(x, y, batch_size=16, epochs=1, verbose=0)
        """,
        method="plain",
    )
    assert outcome.failure is None
    assert any("scaled loss" in event["text"] for event in outcome.events if event["event"] == "note")


def test_a_program_that_stops_at_what_is_not_finite_has_failed_there(run: Runner) -> None:
    outcome = run(
        """
        import numpy as np
        import tensorflow as tf

        value = tf.math.log(tf.constant(np.linspace(0, 1, 8)))
        if not np.isfinite(value).all():
            raise ValueError("stop")
        """,
        method="plain",
    )
    assert (outcome.found.operator, outcome.found.format, outcome.found.reaches) == ("Log", "float64", "output")


def test_infinities_on_purpose_and_data_that_are_not_finite_are_no_failures(run: Runner) -> None:
    outcome = run(
        """
        import numpy as np
        import tensorflow as tf

        mask = tf.constant([[0.0, -np.inf], [0.0, 0.0]])
        w = tf.Variable(tf.ones((2, 2)))
        for x in (np.ones((2, 2), "float32"), np.full((2, 2), np.nan, "float32")):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.nn.softmax(tf.constant(x) @ w + mask))
            w.assign_sub(0.1 * tape.gradient(loss, w))
        """,
        method="plain",
    )
    assert outcome.failure is None
    assert outcome.iterations == 2
    assert [event["text"] for event in outcome.events if event["event"] == "note"] == [
        "the loss is not finite, and no operator failed: the program was given numbers that are not"
    ]


def test_programs_of_sessions_are_left_alone(run: Runner) -> None:
    outcome = run(
        """
        import numpy as np
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
        x = tf.placeholder(tf.float32, [None, 4])
        w = tf.Variable(tf.ones([4, 1]))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.log(tf.sigmoid(x @ w))))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(train, {x: np.ones((2, 4))})
            print(session.run(w).sum())
        """
    )
    assert outcome.ended == ("finished", "")
    assert outcome.events[-1]["operators"] == 0
    assert float(outcome.printed.split()[-1]) == pytest.approx(4 + 0.4 / (1 + math.e**4), rel=0.01)


def test_everything_is_as_it_was_after_a_run(run: Runner) -> None:
    run(FIT.replace("epochs=3", "epochs=1"), kind="restored", method="plain")


# -- replays ------------------------------------------------------------------------------------------------------------


def test_a_replay_needs_tensorflow_alone_and_says_when_the_failure_is_gone(run: Runner, rooted: Outcome) -> None:
    witness = witness_of(rooted)
    assert "tensorproof" not in witness.read_text()
    ended = subprocess.run([sys.executable, "-P", str(witness)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert f"the failure is there, at program.py:{rooted.found.line}: the derivative of Sqrt" in ended.stdout
    repaired = rooted.folder / "repaired"
    repaired.mkdir()
    (repaired / "program.py").write_text("# repaired\n" + rooted.program.read_text().replace("tf.sqrt(h)", "tf.sqrt(h + 1e-6)"))
    code, line = run.replay(rooted, "--program", str(repaired / "program.py"))
    assert (code, line) == (0, f"NUM401 infinite-derivative-at-zero: program.py:{rooted.found.line} did not fail")


def test_a_replay_of_fit_says_what_it_saw(run: Runner, fitted: Outcome) -> None:
    details = fitted.folder / "details.json"
    code, line = run.replay(fitted, "--details", str(details))
    assert code == 1
    assert "Log made something that is not finite" in line
    seen = json.loads(details.read_text())
    assert seen["size"] == 32
    assert seen["rows"]
    assert seen["steps"] == 0
    assert set(seen["given"]) <= set(fitted.found.values)
    assert {"batch0.0", "batch0.1"} <= set(seen["given"])


def test_a_replay_of_another_program_says_so(run: Runner, fitted: Outcome) -> None:
    other = fitted.folder / "other"
    other.mkdir()
    (other / "program.py").write_text("import tensorflow as tf\nprint(tf.math.log(tf.constant([1.0])))\n")
    code, line = run.replay(fitted, "--program", str(other / "program.py"))
    assert code == 2
    assert "the program is another one now: it did not ask for batch0.0" in line


# -- where values go ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Value:
    name: str
    legal: Legal
    is_given_again: bool


@dataclass
class _Sum:
    """The sum of all numbers, which falls towards the low end; it fails at -8. What was measured without gradients is counted."""

    beside: int = 0
    sign: float = 1.0

    def __call__(self, values: Any, *, gradients: bool = True) -> Measured:
        self.beside += not gradients
        array: Array = values["x"]
        return Measured(float(array.sum()), {"x": np.full_like(array, self.sign)}, None, bool(array.sum() <= -8.0))


def _suspect() -> Suspect:
    (weakness, *_) = weaknesses("tensorflow")["Log"]
    return Suspect("train.py:1:Log", weakness, "Log", "train.py", 1)


@pytest.mark.parametrize(("method", "expected"), [("search", -1.0), ("no-replacement", -0.3)])
def test_the_corner_is_taken_where_it_is_nearer(method: str, expected: float) -> None:
    leading = Leading(Settings("", method=method), np.random.default_rng(0))  # pyright: ignore[reportArgumentType]
    measured, values = leading.moved(_suspect(), [_Value("x", Legal(-1.0, 1.0), True)], {"x": np.zeros(4)}, _Sum())
    assert measured.objective == 0.0
    assert values["x"] == pytest.approx(np.full(4, expected))


def test_a_corner_that_does_not_pay_is_tried_less_often() -> None:
    leading, suspect, chosen = Leading(Settings(""), np.random.default_rng(0)), _suspect(), [_Value("x", Legal(-1.0, 1.0), True)]
    suspect.note(0.0)

    def tried(measure: _Sum) -> list[int]:
        numbers: list[int] = []
        for number in range(40):
            before = measure.beside
            leading.moved(suspect, chosen, {"x": np.full((2, 2), 0.0)}, measure)
            suspect.note(0.0)
            numbers += [number] if measure.beside > before else []
        return numbers

    # The gradient points away from the sum's low end: each step and each corner is worse, the corner more so.
    assert tried(_Sum(sign=-1.0)) == [0, 1, 3, 7, 15, 31]
    leading, suspect = Leading(Settings(""), np.random.default_rng(0)), _suspect()
    suspect.note(0.0)
    assert tried(_Sum()) == list(range(40)), "one that pays, at each step"


def test_values_that_are_drawn_once_are_led_until_the_operator_fails() -> None:
    leading = Leading(Settings(""), np.random.default_rng(0))
    measured, values = leading.moved(_suspect(), [_Value("x", Legal(-4.0, 4.0), False)], {"x": np.full(4, 3.0)}, _Sum())
    assert measured.objective == 12.0
    assert _Sum()(values).has_failed
    assert values["x"].min() >= -4.0
