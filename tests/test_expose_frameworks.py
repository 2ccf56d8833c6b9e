"""`tensorproof expose` on programs of TensorFlow, as a user meets it: sessions, `fit` of Keras, loops with tapes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tensorproof.expose import running, workplace
from tensorproof.expose.events import Failure
from tensorproof.expose.host import Host
from tensorproof.expose.outcome import Journal, Outcome
from tensorproof.expose.raised import described
from tensorproof.expose.replays.recipe import Recipe, read_arrays
from tensorproof.expose.replays.witness import Attempts
from tensorproof.expose.running import INTERRUPTED, exposed
from tensorproof.expose.settings import Settings
from tensorproof.findings import Finding, Verdict
from tests import tensorflow_programs as programs
from tests.commands import interruptible
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


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A process that has TensorFlow loaded once it is asked for it."""
    with Host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.fixture
def warm(host: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    """All programs are run by that process, one after the other."""
    monkeypatch.setattr(running, "Host", lambda *_: nullcontext(host))
    return host


def found(text: str, folder: Path) -> Finding:
    report = exposed(written(folder, text), runs=1, iterations=200, stop_after=1, witnesses=folder / "witnesses")
    assert report.target == "tensorflow-cpu"
    (finding,) = report.findings
    return finding


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_driven_into_its_defect_and_the_replay_tells_when_it_is_repaired(
    name: str, warm: Host, tmp_path: Path
) -> None:
    text, kind, defect, repair = PROGRAMS[name]
    finding = found(text, tmp_path)
    assert (finding.rule.code, finding.phase, finding.reaches) == kind
    assert finding.verdict is Verdict.CONFIRMED, finding.message
    assert finding.location is not None and finding.location.line == failing_line(text)
    assert finding.witness is not None

    # A fresh process has failed before the finding was called confirmed; here the program is run by a fork.
    code, told = replay(warm, finding, tmp_path)
    assert code == 1 and f"at train.py:{failing_line(text)}" in told, told
    other = tmp_path / "repaired"
    other.mkdir()
    assert defect in text
    details = tmp_path / "details.json"
    repaired = written(other, text.replace(defect, repair))
    code, told = replay(warm, finding, tmp_path, "--program", repaired, "--details", details)
    assert code == 0, told
    assert json.loads(details.read_text())["steps"] < 10, "nothing can fail after the steps that get the values"


def replay(host: Host, finding: Finding, folder: Path, *arguments: object) -> tuple[int, str]:
    """The exit code of a replay, and what it printed."""
    assert finding.witness is not None
    words = [finding.witness.script, *map(str, arguments)]
    output = folder / "printed.txt"
    (event,) = host.ask({"replay": words, "limit": 60.0, "output": str(output)})
    return event["code"], output.read_text()


@pytest.mark.parametrize("name", programs.STOPPING)
def test_the_command_tells_where_a_program_stops(name: str, warm: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text, told = programs.STOPPING[name]
    written(tmp_path, text)
    ended = command("expose", "train.py")
    assert ended.code == 2
    assert ended.err.startswith(f"tensorproof: train.py: {told}") and ended.err.count("\n") == 1
    assert f"remark: not run to its end: train.py: {told[:40]}" in ended.out


@pytest.mark.parametrize("name", programs.IDLE)
def test_a_program_that_trains_nothing_says_so(name: str, warm: Host, tmp_path: Path) -> None:
    text, told = programs.IDLE[name]
    report = exposed(written(tmp_path, text), runs=1)
    assert report.findings == ()
    assert told in " ".join((*report.errors, *report.coverage.remarks, *report.assumptions["notes"]))


QUOTED = """Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "train.py", line 3, in __getitem__
    raise ValueError("no row")
ValueError: no row
"""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError(QUOTED), "ValueError: no row"),
        (
            RuntimeError("2 root error(s) found.\n  (0) ABORTED: no\n\t [[{{node a}}]]\n  (1) ABORTED: no"),
            "RuntimeError: (0) ABORTED: no",
        ),
        (ValueError("Graph execution error:\n\n"), "ValueError: Graph execution error:"),
        (ValueError("\n first\n second"), "ValueError: first"),
        (ValueError(), "ValueError: no message"),
        (SystemExit(3), "the program ended with exit code 3"),
    ],
)
def test_the_reason_is_told_and_not_what_is_around_it(error: BaseException, told: str) -> None:
    assert described(error, Path("train.py")) == told


def test_what_was_found_is_kept_when_the_program_stops_later(warm: Host, tmp_path: Path) -> None:
    report = exposed(written(tmp_path, programs.LATE), witnesses=tmp_path / "witnesses")
    (finding,) = report.findings
    assert finding.verdict is Verdict.CONFIRMED and finding.witness is not None
    assert finding.location is not None and finding.location.line == failing_line(programs.LATE)
    assert [remark for remark in report.coverage.remarks if "NotFoundError at train.py:13: gone.txt; No such file" in remark]


def test_an_interrupt_keeps_what_was_found_in_sessions_and_eagerly(tmp_path: Path) -> None:
    written(tmp_path, programs.ENDLESS)
    log = tmp_path / "log.txt"
    words = [sys.executable, "-m", "tensorproof", "expose", "train.py", "--format", "json", "--iterations", "0", "--log", str(log)]
    process = interruptible(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 240
        # The third run has begun: what the first two showed is replayed.
        while (not log.exists() or log.read_text().count("begun") < 3) and time.monotonic() < deadline:
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        printed, complaints = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1, complaints
    report = json.loads(printed)
    lines = [number for number, line in enumerate(programs.ENDLESS.lstrip().splitlines(), 1) if "# fails" in line]
    assert [finding["location"]["line"] for finding in report["findings"]] == lines
    assert {finding["verdict"] for finding in report["findings"]} == {"confirmed"}
    assert all((tmp_path / finding["replay"]).exists() for finding in report["findings"])
    assert INTERRUPTED in report["coverage"]["remarks"]


# -- one run of a program ------------------------------------------------------------------------------------------------


def failed(host: Host, folder: Path, text: str) -> Failure:
    """The failure of a program; it happens at the line that is marked, and again when it is replayed."""
    script = written(folder, text)
    settings = Settings(str(script), iterations=60)
    outcome, journal = Outcome(settings.seed, folder), Journal()
    for event in host.ask({"run": settings.to_json(), "folder": str(folder)}, time.monotonic() + 120):
        journal.note(event, outcome)
    failure = outcome.failure
    assert failure is not None, (outcome.how, outcome.text, journal.suspects)
    assert failure.line == failing_line(text)
    place = workplace.in_place(script)
    recipe = Recipe(failure, place, (), read_arrays(folder / failure.arrays))
    seen = Attempts(host, place, folder, time.monotonic() + 60).fails(recipe)
    assert seen is not None, (folder / "printed.txt").read_text()
    return failure


@pytest.mark.parametrize("text", [programs.SESSION_WORKERS, programs.TAPE_WORKERS], ids=["session", "tape"])
def test_workers_that_train_are_left_alone(text: str, host: Host, tmp_path: Path) -> None:
    """The failure is in the process of the program, after its workers are done: they fail at the same line, and nobody stops them."""
    failure = failed(host, tmp_path, text)
    assert (failure.operator, failure.format) == ("Log", "float32")
    assert "workers 3" in host.printed
    assert "workers 3" in (tmp_path / "printed.txt").read_text()


def test_a_program_whose_workers_do_everything_says_so(warm: Host, tmp_path: Path) -> None:
    report = exposed(written(tmp_path, programs.SESSION_WORKERS.replace("    trained(3)\n", "")), runs=1)
    assert report.findings == ()
    (error,) = report.errors
    assert "no operator of a framework was observed in it; what processes compute that it starts is not seen" in error


@pytest.mark.parametrize(
    "text",
    [
        programs.SESSION_PARALLEL,
        programs.FIT_PARALLEL.replace("DATA", "mapped"),
        programs.FIT_PARALLEL.replace("DATA", "Rows(workers=2, use_multiprocessing=False)"),
        programs.FIT_PARALLEL.replace("DATA", "Rows(workers=2, use_multiprocessing=True)"),
    ],
    ids=["session", "dataset", "threads", "processes"],
)
def test_batches_that_others_prepare_are_moved(text: str, host: Host, tmp_path: Path) -> None:
    failure = failed(host, tmp_path, text)
    assert failure.operator == "Log"
    assert [name for name in failure.moved if name.startswith("batch")]


@pytest.mark.parametrize("text", [programs.SESSION_HALF, programs.FIT_HALF], ids=["session", "fit"])
def test_half_precision(text: str, host: Host, tmp_path: Path) -> None:
    failure = failed(host, tmp_path, text)
    assert (failure.operator, failure.rule, failure.format) == ("Exp", "NUM201", "float16")
    assert [name for name in failure.moved if name.startswith("batch")]
