"""Programs of TensorFlow sessions under observation: what is found in them, and that they stay what they are."""

from __future__ import annotations

import json
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

from tensorproof.expose.events import Failure, failure_of
from tensorproof.expose.settings import Settings

pytestmark = pytest.mark.area("expose")
pytest.importorskip("tensorflow")

HEADER = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
random = np.random.RandomState(0)
"""


@dataclass(frozen=True)
class Outcome:
    events: list[dict[str, Any]]
    printed: str
    folder: Path

    @property
    def failure(self) -> Failure | None:
        return next((failure_of(event) for event in self.events if event["event"] == "failure"), None)

    @property
    def iterations(self) -> int:
        return sum(event["event"] == "iteration" for event in self.events)

    @property
    def ended(self) -> tuple[str, str]:
        event = self.events[-1]
        assert event["event"] == "ended"
        return event["how"], event["text"]

    def first_distances(self) -> dict[str, float]:
        """How far suspects were when they were first seen, by name."""
        found: dict[str, float] = {}
        for event in self.events:
            if event["event"] == "suspect":
                found.setdefault(event["name"], event["distance"])
        return found

    def arrays(self) -> dict[str, Any]:
        with np.load(self.folder / "values.npz") as archive:
            return {n: archive[f"array_{i}"] for i, n in enumerate(json.loads(bytes(archive["names"])))}


class Runner:
    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._folder = folder
        self._count = 0

    def __call__(self, text: str, *, observed: bool = True, **settings: Any) -> Outcome:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        script = folder / "program.py"
        script.write_text(HEADER + textwrap.dedent(text))
        given = json.loads(Settings(str(script), **settings).to_json())
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"settings": given, "folder": str(folder), "observed": observed}) + "\n")
        self._process.stdin.flush()
        status = json.loads(self._process.stdout.readline())
        assert status == 0, (folder / "printed").read_text()
        events = [json.loads(line) for line in (folder / "events").read_text().splitlines()]
        return Outcome(events, (folder / "printed").read_text(), folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    folder = tmp_path_factory.mktemp("sessions")
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.session_runs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            cwd=Path(__file__).parents[1],
        )
        yield Runner(process, folder)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
    assert "Traceback" not in (folder / "errors").read_text()


SOFTMAX = """
x = tf.placeholder(tf.float32, [None, 256], name="x")
y = tf.placeholder(tf.float32, [None, 10], name="y")
W = tf.Variable(tf.zeros([256, 10]), name="W")
p = tf.nn.softmax(tf.matmul(x, W))
loss = tf.reduce_mean(-tf.reduce_sum(y * tf.log(p), axis=1))
train = tf.train.GradientDescentOptimizer(2.0).minimize(loss)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(300):
        batch = random.rand(50, 256) * (random.rand(50, 256) < 0.2)
        labels = np.eye(10)[random.randint(0, 10, 50)]
        _, value = sess.run([train, loss], {x: batch, y: labels})
        print(repr(float(value)))
"""


def line(text: str, part: str) -> int:
    """The line of a program that holds a text."""
    lines = (HEADER + textwrap.dedent(text)).splitlines()
    return next(number for number, content in enumerate(lines, 1) if part in content)


def test_log_of_softmax_from_zeros(run: Runner) -> None:
    found = run(SOFTMAX)
    failure = found.failure
    assert failure is not None
    assert (failure.operator, failure.rule, failure.phase) == ("Log", "NUM101", "forward")
    assert failure.line == line(SOFTMAX, "tf.log(p)")
    assert Path(failure.file or "").name == "program.py"
    assert failure.suspect == f"program.py:{failure.line}:Log:0:NUM101.0"
    assert (failure.operand, failure.low, failure.format) == ("Softmax:0", 0.0, "float32")
    assert found.ended == ("stopped", "an operator failed")
    assert failure.iteration == found.iterations
    assert failure.reaches == "loss"
    assert failure.values == {"batch0.x:0": "x", "batch0.y:0": "y", "weight:W": "W"}
    assert failure.moved == ["batch0.x:0"]
    arrays = found.arrays()
    assert arrays.keys() == failure.values.keys()
    assert arrays["batch0.x:0"].shape == (50, 256)
    assert arrays["batch0.x:0"].min() >= 0.0
    assert arrays["batch0.x:0"].max() <= 1.0
    # Labels stay what the program gives.
    assert (arrays["batch0.y:0"].sum(axis=1) == 1.0).all()


def test_running_alone_does_not_find_it(run: Runner) -> None:
    found = run(SOFTMAX, method="plain")
    assert found.failure is None
    assert found.iterations == 300
    assert found.ended == ("finished", "")


def test_values_that_are_given_make_the_program_fail_at_once(run: Runner) -> None:
    found = run(SOFTMAX)
    again = run(SOFTMAX, method="plain", overrides=str(found.folder / "values.npz"))
    assert again.failure is not None
    assert (again.failure.operator, again.failure.iteration) == ("Log", 0)


TWO_LOGS = """
x = tf.placeholder(tf.float32, [None, 16], name="x")
y = tf.placeholder(tf.float32, [None, 1], name="y")
W = tf.Variable(tf.random_normal([16, 1]))
p = tf.sigmoid(tf.matmul(x, W))
positive = y * tf.log(p)
negative = (1 - y) * tf.log(1 - p)
train = tf.train.AdamOptimizer(0.01).minimize(-tf.reduce_mean(positive + negative))
sess = tf.InteractiveSession()
tf.global_variables_initializer().run()
for step in range(200):
    train.run({x: random.rand(20, 16) * 4 - 2, y: random.randint(0, 2, (20, 1))})
"""


def test_the_logarithm_of_a_difference_is_nearer(run: Runner) -> None:
    """1 - p is 0 from p = 1 - 2^-25 on, p from 1e-38 on: the former is driven, and fails. Nothing is fetched but the step."""
    found = run(TWO_LOGS)
    distances = found.first_distances()
    difference = f"program.py:{line(TWO_LOGS, 'tf.log(1 - p)')}:Log:0:NUM101.0"
    plain = f"program.py:{line(TWO_LOGS, 'tf.log(p)')}:Log:0:NUM101.0"
    assert 0.0 < distances[difference] < 20.0 < 60.0 < distances[plain]
    assert found.failure is not None
    assert found.failure.suspect == difference


ROOT = """
x = tf.placeholder(tf.float32, [None, 8], name="x")
W = tf.get_variable("W", [8, 4], initializer=tf.glorot_uniform_initializer(), use_resource=True)
V = tf.get_variable("V", [8, 4], initializer=tf.glorot_uniform_initializer(), use_resource=True)
deviation = tf.sqrt(tf.exp(tf.minimum(tf.matmul(x, W), 10.0)))
z = tf.matmul(x, V) + deviation * tf.random_normal(tf.shape(deviation))
loss = tf.reduce_mean(tf.square(z))
train = tf.train.AdamOptimizer(0.001).minimize(loss)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(200):
        _, value = sess.run([train, loss], {x: random.uniform(-40, 40, (10, 8))})
        assert np.isfinite(value)
"""


def test_derivative_of_a_root_whose_value_is_finite(run: Runner) -> None:
    found = run(ROOT)
    failure = found.failure
    assert failure is not None
    assert (failure.operator, failure.rule, failure.phase) == ("Sqrt", "NUM401", "backward")
    assert failure.line == line(ROOT, "tf.sqrt")
    assert failure.suspect == f"program.py:{failure.line}:Sqrt:0:NUM401.0"
    # The numbers that were drawn are kept, so that the step can be seen again.
    assert "draw:random_normal/RandomStandardNormal:0" in failure.values
    again = run(ROOT, method="plain", overrides=str(found.folder / "values.npz")).failure
    assert again is not None
    assert (again.operator, again.phase, again.iteration) == ("Sqrt", "backward", 0)


DIVISION = """
x = tf.placeholder(tf.float32, [None, 8], name="x")
scale = tf.Variable(tf.random_{kind}([8]{arguments}), name="scale")
out = x / scale
train = tf.train.GradientDescentOptimizer(1e-6).minimize(tf.reduce_mean(tf.square(out)))
with tf.train.MonitoredTrainingSession() as sess:
    for step in range(20):
        sess.run(train, {{x: random.rand(10, 8)}})
"""


def test_division_by_a_first_value_in_a_monitored_session(run: Runner) -> None:
    """The graph is finalised. Inputs do not lead to the divisor: its first value is moved, in one linear step or a few."""
    found = run(DIVISION.format(kind="normal", arguments=""))
    failure = found.failure
    assert failure is not None
    assert (failure.operator, failure.rule, failure.iteration) == ("RealDiv", "NUM103", 0)
    assert (found.arrays()["weight:scale"] == 0.0).any()
    assert failure.moved == ["weight:scale"]


def test_first_values_stay_where_they_are_drawn(run: Runner) -> None:
    found = run(DIVISION.format(kind="uniform", arguments=", 0.5, 2.0"))
    assert found.failure is None
    assert found.ended == ("finished", "")
    allowed = run(DIVISION.format(kind="uniform", arguments=", 0.5, 2.0"), ranges={"scale": (-1.0, 1.0)})
    assert allowed.failure is not None


EVALUATED = """
x = tf.placeholder(tf.float32, [None, 4], name="x")
t = tf.placeholder(tf.float32, [None, 1], name="t")
W = tf.Variable(tf.random_normal([4, 1]))
loss = tf.reduce_mean(tf.square(tf.matmul(x, W) - t))
train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
score = tf.reduce_mean(tf.log(tf.reduce_sum(x, 1) + {offset}))
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(100):
        batch = random.rand(20, 4) * 2 - 1
        sess.run(train, {{x: batch, t: batch.sum(1, keepdims=True)}})
        if step % 5 == 0:
            print(sess.run(score, {{x: random.rand(30, 4) * 2 - 1}}))
"""


def test_failure_that_only_evaluation_reaches(run: Runner) -> None:
    text = EVALUATED.format(offset=3.5)
    found = run(text)
    assert found.failure is not None
    assert (found.failure.operator, found.failure.line) == ("Log", line(text, "tf.log"))
    assert run(text, method="plain").failure is None
    # Values of [-1, 1] do not get there.
    assert run(EVALUATED.format(offset=5.0)).failure is None


SAFE = """
x = tf.placeholder(tf.float32, [None, 8], name="x")
y = tf.placeholder(tf.float32, [None, 3], name="y")
keep = tf.placeholder(tf.float32, name="keep")
hidden = tf.nn.dropout(tf.nn.relu(tf.matmul(x, tf.Variable(tf.random_normal([8, 16])))), rate=1 - keep)
z = tf.matmul(hidden, tf.Variable(tf.random_normal([16, 3])))
masked = z + tf.constant([[0.0, -np.inf, 0.0]])
error = tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=z)
loss = tf.reduce_mean(error) - 0.1 * tf.reduce_mean(tf.log(tf.sigmoid(z) + 1e-3)) - tf.reduce_mean(tf.log(z * z - z + 1.5))
train = tf.train.AdamOptimizer(0.001).minimize(loss)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(120):
        feeds = {x: random.rand(20, 8), y: np.eye(3)[random.randint(0, 3, 20)], keep: 0.8}
        _, value, chosen = sess.run([train, loss, tf.nn.softmax(masked) if step == 0 else masked], feeds)
        print(repr(float(value)))
"""


def test_safe_program(run: Runner) -> None:
    """Infinities of a mask are there on purpose. A logarithm with a plain guard is proven safe, another one is driven in vain."""
    found = run(SAFE)
    assert found.failure is None
    guarded, other = (f"program.py:{line(SAFE, 'z * z - z')}:Log:{number}:NUM101.0" for number in range(2))
    assert list(found.first_distances()) == [guarded, other]
    assert [event["name"] for event in found.events if event["event"] == "proven"] == [guarded]
    told = [event["name"] for event in found.events if event["event"] == "suspect"]
    assert told.count(guarded) == 1
    assert told.count(other) > 20
    assert found.ended == ("finished", "")
    assert found.iterations == 120
    assert run(SAFE, iterations=30).ended == ("stopped", "the iterations are used up")
    assert run(SAFE, evaluations=10).ended == ("stopped", "the evaluations are used up")


def test_a_program_that_is_watched_computes_what_it_computes(run: Runner) -> None:
    for text in (SOFTMAX, SAFE):
        watched = run(text, method="plain")
        alone = run(text, observed=False)
        assert len(alone.printed.splitlines()) >= 100
        assert watched.printed == alone.printed


def test_runs_are_the_same_each_time(run: Runner) -> None:
    first, second = run(ROOT, seed=3), run(ROOT, seed=3)
    assert first.failure is not None
    assert [{**event, "file": ""} for event in first.events] == [{**event, "file": ""} for event in second.events]
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, second.arrays()[name])


DATASET = """
data = tf.data.Dataset.from_tensor_slices(random.rand(60, 4).astype(np.float32)).shuffle(60, seed=1).batch(10)
x = tf.data.make_one_shot_iterator(data).get_next()
W = tf.Variable(tf.ones([4, 1]))
out = tf.matmul(x, W)
loss = tf.reduce_mean(tf.square(out) + tf.log({operand}))
train = tf.train.GradientDescentOptimizer(1e-4).minimize(loss)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    steps = 0
    try:
        while True:
            sess.run([train, loss])
            steps += 1
    except tf.errors.OutOfRangeError:
        print(steps)
"""


def test_batches_of_a_dataset_in_the_graph(run: Runner) -> None:
    """Numbers of [0, 1] are moved to where four of them add up to nothing; the dataset ends when it would."""
    found = run(DATASET.format(operand="tf.reduce_sum(x, 1) - 0.5"))
    assert found.failure is not None
    assert (found.failure.operator, found.failure.moved) == ("Log", ["batch1.IteratorGetNext:0"])
    safe = run(DATASET.format(operand="tf.reduce_sum(x, 1) + 0.5"))
    assert safe.failure is None
    assert safe.printed.split() == ["6"]


OWN_STATE = """
x = tf.placeholder(tf.float32, [None, 6], name="x")
W = tf.placeholder(tf.float32, [6, 3], name="W")
hidden = tf.exp(tf.matmul(x, W))
updated = W + 0.01 * tf.matmul(tf.transpose(x), 1.0 / (1.0 + hidden))
weights = random.rand(6, 3)
with tf.Session() as sess:
    for step in range(60):
        print(repr(np.float32(weights).tolist()))
        weights, _ = sess.run([updated, tf.reduce_mean(hidden)], {x: random.uniform(-{high}, {high}, (10, 6)), W: weights})
"""


def test_weights_that_the_program_feeds_are_not_moved(run: Runner) -> None:
    """Arrays that a call returned and that are fed again are the state of a program that keeps its weights itself."""
    found = run(OWN_STATE.replace("{high}", "2"))
    assert found.failure is None
    assert found.ended == ("finished", "")
    assert found.iterations == 59
    outcome = run(OWN_STATE.replace("{high}", "60"))
    failure = outcome.failure
    assert failure is not None
    assert (failure.operator, failure.rule) == ("Exp", "NUM201")
    assert failure.moved == ["batch0.x:0"]
    np.testing.assert_array_equal(outcome.arrays()["batch0.W:0"], json.loads(outcome.printed.splitlines()[-1]))


def test_batches_of_many_sizes(run: Runner) -> None:
    """The program's own batch is fed where it has another form than the one that is kept; one of a new form is kept in the end."""
    text = SOFTMAX.replace("random.rand(50, 256) * (random.rand(50, 256) < 0.2)", "random.rand(size, 256) * 0.1 + (step == 0)")
    text = text.replace("random.randint(0, 10, 50)", "random.randint(0, 10, size)").replace(
        "batch =", "size = 30 if step < 2 else 45\n        batch ="
    )
    found = run(text)
    assert found.failure is not None
    assert found.arrays()["batch0.x:0"].shape == (45, 256)


MASKED = """
x = tf.placeholder(tf.float32, [None, 4], name="x")
W = tf.Variable(tf.ones([4]))
v = tf.nn.relu(x * W)
out = tf.where(v > 0, tf.log(v), tf.zeros_like(v))
loss = tf.reduce_mean(out)
train = tf.train.GradientDescentOptimizer(1e-3).minimize(loss)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(20):
        sess.run([train, loss], {x: random.rand(10, 4) - 0.5})
"""


def test_branch_that_is_not_selected(run: Runner) -> None:
    """The value fails and nothing shows it; its gradient does harm."""
    failure = run(MASKED, method="plain").failure
    assert failure is not None
    assert (failure.operator, failure.rule, failure.phase) == ("Log", "NUM404", "backward")
    assert failure.line == line(MASKED, "tf.where")
    assert failure.reaches == "gradient"


def test_a_value_that_fails_without_harm_is_no_failure(run: Runner) -> None:
    text = """
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    W = tf.Variable(tf.ones([4]))
    out = tf.maximum(tf.log(tf.nn.relu(x)), -100.0)
    train = tf.assign_add(W, tf.reduce_mean(out, 0))
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for step in range(10):
            sess.run(train, {x: random.rand(10, 4) - 0.5})
    """
    found = run(text)
    assert found.failure is None
    assert found.ended == ("finished", "")
    assert [event["text"].partition(": ")[2] for event in found.events if event["event"] == "note"] == [
        "Log failed, and nothing that the program uses shows it"
    ]


def test_program_that_looks_for_nan_itself(run: Runner) -> None:
    text = SOFTMAX.replace("tf.reduce_mean(-tf", "tf.check_numerics(tf.reduce_mean(-tf").replace("axis=1))", 'axis=1)), "loss")')
    failure = run(text).failure
    assert failure is not None
    assert (failure.operator, failure.line) == ("Log", line(text, "tf.log(p)"))


def test_a_known_failure_does_not_end_the_program(run: Runner) -> None:
    """The program goes on with its own data and without the step that spoilt its weights; the other logarithm is found."""
    first = run(TWO_LOGS).failure
    assert first is not None
    other = run(TWO_LOGS.replace("range(200)", "range(400)"), settled=(first.suspect,), ranges={"x": (-20.0, 20.0)}).failure
    assert other is not None
    assert other.line == line(TWO_LOGS, "tf.log(p)")
    everything = tuple(run(TWO_LOGS, method="plain").first_distances()) or (first.suspect, other.suspect)
    found = run(TWO_LOGS + "print(np.isfinite(W.eval()).all())", settled=everything, ranges={"x": (-20.0, 20.0)})
    assert found.failure is None
    assert found.printed.split() == ["True"]


DRAWN = """
z = tf.random_normal([5, 3])
p = tf.nn.softmax({scale} * z)
total = -tf.reduce_sum(tf.log(1.0 - p))
with tf.Session() as sess:
    print(sess.run(total))
"""


def test_numbers_that_are_drawn_in_the_only_call(run: Runner) -> None:
    found = run(DRAWN.format(scale=10.0))
    assert found.failure is not None
    assert found.failure.operator == "Log"
    assert found.failure.moved == ["draw:random_normal/RandomStandardNormal:0"]
    assert found.failure.reaches == "output"
    # Where numbers of a normal distribution do not lie, they are not moved to.
    assert run(DRAWN.format(scale=1.0)).failure is None


LOOP = """
x = tf.placeholder(tf.float32, [None, 4], name="x")
W = tf.Variable(tf.ones([4]))
grown = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.exp(v * W)), (0, x))[1]
loss = tf.reduce_mean(grown)
train = tf.train.GradientDescentOptimizer(1e-3).minimize(loss)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(3):
        sess.run([train, loss], {x: random.rand(10, 4) + 2.0})
"""


@pytest.mark.parametrize("control_flow", ["v1", "v2"])
def test_loops_are_seen_from_outside(run: Runner, control_flow: str) -> None:
    text = LOOP if control_flow == "v1" else "tf.enable_control_flow_v2()\n" + LOOP
    failure = run(text).failure
    assert failure is not None
    assert failure.line == line(text, "tf.while_loop")
    assert failure.phase == "forward"


BRANCH = """
x = tf.placeholder(tf.float32, [None, 4], name="x")
W = tf.Variable(tf.ones([4]))
total = tf.reduce_sum(x * W)
scaled = tf.cond(total > 1e9, lambda: tf.sqrt(total), lambda: total * 2.0)
loss = tf.log(tf.nn.relu(scaled))
train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(60):
        sess.run([train, loss], {x: random.uniform(-0.2, 1.0, (3, 4))})
"""


def test_a_branch_that_is_not_taken_hides_no_failure(run: Runner) -> None:
    failure = run(BRANCH).failure
    assert failure is not None
    assert (failure.operator, failure.rule, failure.line) == ("Log", "NUM101", line(BRANCH, "tf.log"))


SQUARES = """
x = tf.placeholder(tf.float32, [None, 4], name="x")
W = tf.Variable(tf.ones([4]), name="W")
loss = tf.reduce_sum(x * W) * 1e20
train = tf.train.AdamOptimizer(0.001).minimize(loss)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(5):
        sess.run([train, loss], {x: random.uniform(0.5, 1.0, (3, 4))})
"""


def test_squares_that_an_optimiser_keeps_overflow_before_weights_do(run: Runner) -> None:
    found = run(SQUARES, method="plain")
    failure = found.failure
    assert failure is not None
    assert (failure.rule, failure.phase, failure.iteration) == ("NUM202", "backward", 0)
    assert failure.operator.endswith("ApplyAdam") and failure.line == line(SQUARES, "AdamOptimizer")
    assert failure.high < 1e22, "the gradient is finite"
    assert all(np.isfinite(array).all() for array in found.arrays().values())
    assert run(SQUARES.replace("1e20", "1e3"), method="plain").failure is None


OBJECTIVES = """
import json
from tensorproof.expose.sessions.place import position, terms
from tensorproof.expose.search.vulnerable import weaknesses

class Stand:
    def __init__(self, kind, inputs):
        self.type, self.inputs, self.outputs = kind, inputs, [tf.exp(inputs[0]) if kind == "Expm1" else inputs[-1] * 1.0]

found = {}
with tf.Session() as sess:
    for kind, ways in weaknesses("tensorflow").items():
        for weakness in ways:
            arrays = [random.uniform(-2, 2, 40) for _ in range(2)]
            inputs = [tf.constant(array, tf.float64) for array in arrays]
            operator = Stand(kind, inputs)
            value = terms(weakness, operator)
            index = position(weakness, operator)
            slope = tf.gradients(tf.reduce_sum(tf.where(tf.is_finite(value), value, tf.zeros_like(value))), inputs[index])[0]
            numbers = sess.run([value, slope if slope is not None else tf.zeros(40)])
            found[f"{kind} {weakness.key}"] = [index, *(a.tolist() for a in (*arrays, *numbers))]
print(json.dumps(found))
"""


def test_objectives_are_those_of_torch(run: Runner) -> None:
    """Every rule that is sought in TensorFlow gives the same numbers and slopes in its graphs as on tensors of torch."""
    torch = pytest.importorskip("torch")
    from tensorproof.confirm.place import Place
    from tensorproof.expose.search.vulnerable import weaknesses

    found = json.loads(run(OBJECTIVES, observed=False).printed)
    count = 0
    for kind, ways in weaknesses("tensorflow").items():
        for weakness in ways:
            index, first, second, values, slopes = found[f"{kind} {weakness.key}"]
            operands = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (first, second)]
            result = operands[0].exp() if kind == "Expm1" else operands[1] * 1.0
            place = Place(torch, weakness.operator.name, {}, operands, [result], index, float(np.finfo(np.float64).max))
            sought = weakness.rule.sought
            assert sought is not None
            terms = sought(place)
            assert terms is not None
            # Below zero the lines are steeper in TensorFlow: they begin at smaller numbers.
            near = terms.detach().numpy() > -60.0
            np.testing.assert_allclose(np.asarray(values)[near], terms.detach().numpy()[near], rtol=1e-6)
            assert (np.asarray(values)[~near] < -60.0).all()
            torch.where(torch.isfinite(terms), terms, torch.zeros_like(terms)).sum().backward()
            slope = operands[index].grad
            expected = np.zeros(40) if slope is None else slope.numpy()
            np.testing.assert_allclose(np.asarray(slopes)[near], expected[near], rtol=1e-5)
            assert (np.sign(np.asarray(slopes)[~near]) == np.sign(expected[~near])).all()
            count += 1
    assert count > 40
