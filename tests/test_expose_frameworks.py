"""`tensorproof expose` on programs of TensorFlow, as a user meets it: sessions, `fit` of Keras, loops with tapes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tensorproof.expose.running import exposed
from tensorproof.findings import Finding, Verdict
from tests.commands import tensorproof as command
from tests.exposed_programs import failing_line, written

pytestmark = pytest.mark.area("expose frameworks")
pytest.importorskip("tensorflow")

SESSION = """
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
random = np.random.RandomState(0)
x = tf.placeholder(tf.float32, [None, 256], name="x")
y = tf.placeholder(tf.float32, [None, 10], name="y")
W = tf.Variable(tf.zeros([256, 10]), name="W")
p = tf.nn.softmax(tf.matmul(x, W))
loss = tf.reduce_mean(-tf.reduce_sum(y * tf.log(p), axis=1))  # fails
train = tf.train.GradientDescentOptimizer(2.0).minimize(loss)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(300):
        batch = random.rand(50, 256) * (random.rand(50, 256) < 0.2)
        labels = np.eye(10)[random.randint(0, 10, 50)]
        sess.run([train, loss], {x: batch, y: labels})
"""

FIT = """
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.uniform(0, 1, (640, 100)).astype("float32")
y = np.eye(3, dtype="float32")[rng.integers(0, 3, 640)]


def cross_entropy(target, logits):
    p = tf.nn.softmax(logits)
    logs = tf.math.log(p)  # fails
    return -tf.reduce_mean(tf.reduce_sum(target * logs, axis=1))


model = keras.Sequential([keras.layers.Dense(3)])
model.compile(optimizer=keras.optimizers.SGD(1.0), loss=cross_entropy)
model.fit(x, y, batch_size=32, epochs=3, verbose=0)
"""

#: The deviation of a row that is the same everywhere is zero, and the derivative of the root is infinite there.
TAPE = """
import numpy as np
import tensorflow as tf

x = tf.constant(np.random.default_rng(0).uniform(0, 1, (16, 6)).astype("float32"))
scale = tf.Variable(tf.ones(6))
optimizer = tf.keras.optimizers.SGD(0.01)
for step in range(80):
    with tf.GradientTape() as tape:
        centred = (x - tf.reduce_mean(x, 1, keepdims=True)) * scale
        deviation = tf.sqrt(tf.reduce_mean(tf.square(centred), 1, keepdims=True))  # fails
        loss = tf.reduce_mean(tf.square(deviation - 1.0))
    optimizer.apply_gradients([(tape.gradient(loss, scale), scale)])
"""

PROGRAMS = {
    "session": (SESSION, ("NUM101", "forward", "loss"), "tf.log(p)", "tf.log(p + 1e-7)"),
    "fit": (FIT, ("NUM101", "forward", "loss"), "tf.math.log(p)", "tf.math.log(p + 1e-7)"),
    "tape": (TAPE, ("NUM401", "backward", "gradient"), "tf.sqrt(tf.reduce_mean(", "tf.sqrt(1e-10 + tf.reduce_mean("),
}


def found(text: str, folder: Path) -> Finding:
    report = exposed(written(folder, text), runs=1, iterations=200, stop_after=1, witnesses=folder / "witnesses")
    assert report.target == "tensorflow-cpu"
    (finding,) = report.findings
    return finding


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_driven_into_its_defect_and_the_replay_tells_when_it_is_repaired(name: str, tmp_path: Path) -> None:
    text, kind, defect, repair = PROGRAMS[name]
    finding = found(text, tmp_path)
    assert (finding.rule.code, finding.phase, finding.reaches) == kind
    assert finding.verdict is Verdict.CONFIRMED, finding.message
    assert finding.location is not None and finding.location.line == failing_line(text)
    assert finding.witness is not None

    def replay(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, str(finding.witness and finding.witness.script), *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)

    ended = replay()
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert f"at train.py:{failing_line(text)}" in ended.stdout
    other = tmp_path / "repaired"
    other.mkdir()
    assert defect in text
    ended = replay("--program", written(other, text.replace(defect, repair)))
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_command_tells_where_a_program_stops(tmp_path: Path) -> None:
    script = written(tmp_path, "import tensorflow as tf\n\nprint(tf.ones(3) + tf.ones(4))\n")
    ended = command("expose", script)
    assert ended.code == 2
    assert "InvalidArgumentError at train.py:3" in ended.err
    assert "Traceback" not in ended.err


def test_a_program_that_trains_nothing_says_so(tmp_path: Path) -> None:
    report = exposed(written(tmp_path, textwrap.dedent("import tensorflow as tf\n\nprint(tf.ones(3) + 1)\n")), runs=1)
    assert report.findings == () and report.errors == ()
    assert any("no step of training" in remark for remark in report.coverage.remarks)
