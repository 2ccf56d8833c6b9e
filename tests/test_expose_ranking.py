"""What the static analysis says of suspects while a program is searched: which are proven safe, which come first, and what never is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.exposed.catalogue import PROGRAMS, Defect, Framework, Program

from tensorproof.expose.events import Failure, Pipe
from tensorproof.expose.findings import to_finding, to_report
from tensorproof.expose.outcome import Journal, Outcome
from tensorproof.expose.replays.recipe import Recipe
from tensorproof.expose.replays.witness import Kept
from tensorproof.expose.running import exposed
from tensorproof.expose.search.board import Board, Suspect
from tensorproof.expose.search.moves import Legal
from tensorproof.expose.search.static_rank import Ledger, Standing, outward
from tensorproof.expose.search.vulnerable import weaknesses
from tensorproof.expose.settings import Settings
from tensorproof.expose.workplace import in_place

pytestmark = pytest.mark.area("expose ranking")

#: Lines of programs that end in these are proven safe: with their derivatives, and without them. No others are.
SAFE, HALF = "# safe", "# half"

TORCH = """
import numpy as np
import torch
torch.manual_seed(0)
x = torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (8, 4)).astype("float32"))
y = torch.tensor([[0.0], [1.0]] * 4)
w = torch.zeros(4, 1, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
state = torch.full((1,), 0.5)
for step in range(12):
    p = torch.sigmoid(x @ w)
    logs = []
{}
    loss = sum(term.mean() for term in logs)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

SESSION = """
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
random = np.random.RandomState(0)
x = tf.placeholder(tf.float32, [None, 4])
y = tf.placeholder(tf.float32, [None, 1])
scale = tf.placeholder(tf.float32, [])
v = tf.Variable(tf.ones([4, 1]))
p = tf.sigmoid(x @ (v - 1.0))
logs = []
{}
loss = tf.add_n([tf.reduce_mean(term) for term in logs])
train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for step in range(4):
        size = 8 if step < 2 else 16
        feeds = {{x: random.uniform(-1, 1, (size, 4)), y: np.arange(size).reshape(-1, 1) % 2, scale: 0.9}}
        session.run([train, loss], feeds)
"""

Answer = dict[str, Any]
Ask = Callable[..., Answer]


def process(framework: str) -> Iterator[Ask]:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.ranked_runs", framework]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as started:

        def ask(script: Path, *arguments: str, lie: bool = False, **settings: Any) -> Answer:
            assert started.stdin is not None
            assert started.stdout is not None
            job = {"script": str(script), "arguments": arguments, "settings": settings, "lie": lie}
            started.stdin.write(json.dumps(job) + "\n")
            started.stdin.flush()
            return json.loads(started.stdout.readline())

        yield ask
        assert started.stdin is not None
        started.stdin.close()


@pytest.fixture(scope="module")
def torch_program() -> Iterator[Ask]:
    pytest.importorskip("torch")
    yield from process("torch")


@pytest.fixture(scope="module")
def session() -> Iterator[Ask]:
    pytest.importorskip("tensorflow")
    yield from process("tensorflow")


def written(folder: Path, template: str, body: str, indent: str) -> Path:
    script = folder / "program.py"
    script.write_text(template.format(textwrap.indent(textwrap.dedent(body).strip(), indent)))
    return script


def lines_of(names: list[str]) -> list[int]:
    return sorted({int(name.split(":")[1]) for name in names})


def marked(script: Path, *marks: str) -> list[int]:
    return [number for number, line in enumerate(script.read_text().splitlines(), 1) if line.endswith(marks)]


def check_marks(script: Path, answer: Answer) -> None:
    """What is proven is as the marks of the lines say."""
    assert answer["error"] == ""
    proven, others = answer["proven"], sorted(set(answer["suspects"]) - set(answer["proven"]))
    assert lines_of(proven) == marked(script, SAFE, HALF)
    assert not set(lines_of(others)) & set(marked(script, SAFE))
    assert not any("NUM4" in name for name in proven if lines_of([name])[0] in marked(script, HALF))


TORCH_CASES = {
    "guards": """
        logs.append(torch.log(torch.clamp(p, 1e-6, 1.0)))  # safe
        logs.append(torch.log(p + 1e-6))  # safe
        logs.append(torch.log(1 - p))
        logs.append(torch.log(p))
    """,
    "any finite weight": """
        logs.append(torch.log(w * w + 1e-3))  # safe
        logs.append(torch.log(w + 10))
        logs.append(torch.sqrt(w.abs() + 1e-3))  # safe
        logs.append(torch.sqrt(torch.relu(w + 0.5)))  # half
    """,
    "data in the range that they were seen in, labels anywhere": """
        logs.append(torch.log(x + 3) * p)  # safe
        logs.append(torch.log(y + 0.5) * p)
        logs.append(p / (y + 0.5))
    """,
    "parts of data": """
        logs.append(torch.log(x[step % 4 : step % 4 + 2] + 3) * p.mean())  # safe
        logs.append(torch.log(x[step % 4] + 3) * p.mean())  # safe
    """,
    "a number that shrinks": """
        logs.append(torch.log(p + 0.1 * 0.5**step))
        logs.append(torch.log(p + 0.1))  # safe
    """,
    "a number that changes once": """
        logs.append(torch.log(p + (0.1 if step < 4 else 0.0)))
        logs.append(torch.log(p + torch.tensor(0.1 if step < 9 else 0.0)))
        logs.append(torch.log(p + torch.tensor(0.1)))  # safe
    """,
    "draws, masks and what earlier steps left": """
        logs.append(torch.log(torch.rand(8, 1) + 0.5) * p)
        logs.append(torch.log(torch.nn.functional.dropout(p, 0.5).clamp(0.1, 2.0)))  # safe
        state = 0.9 * state + 0.1 * p.detach().mean()
        logs.append(torch.log(state))
    """,
    "writing in place": """
        a = torch.ones(8, 1)
        a.mul_(p.detach()).add_(0.1)
        logs.append(torch.log(a) * p)  # safe
        b = torch.ones(8, 1)
        b[0] = p[0].detach()
        logs.append(torch.log(b) * p)
        c = torch.ones(8, 1)
        c[1].uniform_()
        logs.append(torch.log(c) * p)
        d = torch.ones(8, 1)
        d.data.mul_(p.detach())
        logs.append(torch.log(d) * p)
        e = torch.empty(8, 1).fill_(2.0)
        logs.append(torch.log(e) * p)  # safe
    """,
    "memory that NumPy writes to": """
        a = torch.ones(8, 1)
        a.numpy()[:] = 0.5 if step < 2 else 1e-9
        logs.append(torch.log(a) * p)
    """,
    "what is not known": """
        a = torch.linalg.inv(torch.eye(8) * 2 + p @ p.T)
        logs.append(torch.log(a[:, :1] + 1))
        logs.append(torch.log(torch.fft.rfft(p.T).abs().clamp(min=0.1)))  # safe
    """,
    "sizes that differ": """
        some = p[: 4 + step // 6]
        logs.append(torch.log(4.5 - some.sum()))
        chosen = p[p > 0.499]
        logs.append(torch.log(8.5 - chosen.sum()))  # safe
    """,
    "derivatives": """
        logs.append(torch.sqrt(p))  # half
        logs.append(torch.log(p * 0.5 + 1e-44))
        logs.append(1 / (p + 1e-25))
        logs.append(1 / (p + 1e-6))  # safe
    """,
}


@pytest.mark.parametrize("name", TORCH_CASES)
def test_suspects_of_torch(name: str, torch_program: Ask, tmp_path: Path) -> None:
    script = written(tmp_path, TORCH, TORCH_CASES[name], "    ")
    answer = torch_program(script, iterations=11)
    check_marks(script, answer)


SESSION_CASES = {
    "guards": """
        logs.append(tf.log(tf.clip_by_value(p, 1e-6, 1.0)))  # safe
        logs.append(tf.log(p + 1e-6))  # safe
        logs.append(tf.log(1 - p))
        logs.append(tf.log(p))
        logs.append(tf.log(1e-10 + 1 - p))
        logs.append(tf.exp(tf.minimum(x @ v, 80.0)))  # safe
        logs.append(tf.exp(x @ v))
    """,
    "any finite variable, whatever it holds": """
        logs.append(tf.log(v))
        logs.append(tf.sqrt(tf.square(v) + 1e-6))  # safe
        fixed = tf.Variable(2.0, trainable=False)
        logs.append(tf.log(fixed * p + 0.1))
        logs.append(tf.log(tf.assign(fixed, 2.0)) * p)
    """,
    "data in the range that they were seen in, labels and numbers anywhere": """
        logs.append(tf.log(x + 3) * v[0])  # safe
        logs.append(tf.log(y + 0.5) * v[0])
        logs.append(p / scale)
        logs.append(tf.log(tf.random_uniform([4, 1]) + 0.1) * v)  # safe
    """,
    "sizes that differ": """
        logs.append(tf.log(8.5 - tf.reduce_sum(p)))
        logs.append(tf.log(16.5 - tf.reduce_sum(p)))  # safe
    """,
    "derivatives": """
        logs.append(tf.sqrt(p))  # half
        logs.append(tf.sqrt(tf.nn.relu(v)))  # half
        logs.append(1 / (p + 1e-25))
        logs.append(1 / (p + 1e-6))  # safe
    """,
    "what is not known": """
        logs.append(tf.log(tf.matrix_inverse(tf.eye(4) + v @ tf.transpose(v)) + 3))
        logs.append(tf.log(tf.py_func(lambda a: a, [p], tf.float32) + 1) * tf.reduce_mean(p))
        logs.append(tf.log(tf.cond(tf.reduce_mean(y) > 0.5, lambda: p + 0.1, lambda: p + 0.2)))  # safe
    """,
}


@pytest.mark.parametrize("name", SESSION_CASES)
def test_suspects_of_sessions(name: str, session: Ask, tmp_path: Path) -> None:
    script = written(tmp_path, SESSION, SESSION_CASES[name], "")
    answer = session(script, iterations=4)
    check_marks(script, answer)


def test_a_number_that_changes_ends_the_proof(torch_program: Ask, tmp_path: Path) -> None:
    """It was proven before, and the program was told so."""
    script = written(tmp_path, TORCH, TORCH_CASES["a number that changes once"], "    ")
    answer = torch_program(script, iterations=11)
    told = [(lines_of([event["name"]])[0], event["is_proven"]) for event in answer["events"] if event["event"] == "proven"]
    first = marked(script, SAFE)[0] - 2
    assert (first, True) in told
    assert told.index((first, True)) < told.index((first, False))


def test_the_easy_side_comes_first(torch_program: Ask, session: Ask, tmp_path: Path) -> None:
    """1 - p is 0 from a logit of 17 on, p below -104 alone; where they are now says nothing, and nor does what made them."""
    body = """
        logs.append(torch.log(p))
        logs.append(torch.log((1 - p).reshape(8)))
    """
    script = written(tmp_path, TORCH, body, "    ")
    order = lines_of(torch_program(script, iterations=1)["suspects"])
    assert lines_of(torch_program(script, iterations=1)["order"][:1]) == order[1:]
    body = """
        logs.append(tf.log(p))
        logs.append(tf.log(tf.reshape(tf.tile(1 - p, [1, 2]), [-1])))
    """
    script = written(tmp_path, SESSION, body, "")
    order = lines_of(session(script, iterations=1)["suspects"])
    assert lines_of(session(script, iterations=1)["order"][:1]) == order[1:]


@pytest.mark.parametrize("framework", ["torch", "tensorflow"])
def test_what_fails_is_found_whatever_was_proven(framework: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Nothing is driven here, because all counts as proven safe; the program fails by itself."""
    if framework == "torch":
        script = written(tmp_path, TORCH, "logs.append(torch.log(p - 0.1 * step))", "    ")
        answer = request.getfixturevalue("torch_program")(script, iterations=11, lie=True)
    else:
        script = written(tmp_path, SESSION, "logs.append(tf.log(p - tf.cast(tf.shape(x)[0] > 8, tf.float32)))", "")
        answer = request.getfixturevalue("session")(script, iterations=4, lie=True)
    assert answer["proven"]
    failures = [event for event in answer["events"] if event["event"] == "failure"]
    assert [failure["rule"] for failure in failures] == ["NUM101"]
    assert failures[0]["suspect"] in answer["proven"]


def test_an_operand_that_leaves_its_range_ends_the_proof(torch_program: Ask, tmp_path: Path) -> None:
    script = written(tmp_path, TORCH, TORCH_CASES["memory that NumPy writes to"], "    ")
    answer = torch_program(script, iterations=11)
    assert answer["proven"] == []
    assert any("left the range" in event["text"] for event in answer["events"] if event["event"] == "note")


def test_the_report_tells_what_is_proven(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = written(tmp_path, TORCH, TORCH_CASES["guards"], "    ")
    report = exposed(script, ranges={"x": (-50.0, 50.0)}, runs=3, iterations=12, stop_after=1, witnesses=None)
    safe = marked(script, SAFE)
    assert lines_of(list(report.proven_safe)) == safe
    assert report.findings
    assert not {finding.location.line for finding in report.findings if finding.location is not None} & set(safe)
    assert any("proven safe" in note and "any finite weights" in note for note in report.assumptions["notes"])
    assert not {unknown.node for unknown in report.coverage.not_analysed} & set(report.proven_safe)
    assert report.coverage.checked >= len(report.proven_safe)
    stated = {suspect["name"] for suspect in report.assumptions["suspects"] if suspect["proven_safe"]}
    assert stated == set(report.proven_safe)


def failed(tmp_path: Path, line: int) -> Failure:
    script = str(tmp_path / "program.py")
    name = f"program.py:{line}:4:log:NUM101.0"
    numbers = ("self", 0.0, 1.0, "float32", 1, "values.npz", {}, 0)
    return Failure(name, "torch", "log", "NUM101", "forward", script, line, 4, "<module>", *numbers)


def test_a_proof_that_failed_is_none(tmp_path: Path) -> None:
    """The finding stays, and the report says whose fault it is."""
    script = tmp_path / "program.py"
    script.write_text("")
    journal, outcome = Journal(), Outcome(0, tmp_path)
    for line in (3, 5):
        name = f"program.py:{line}:4:log:NUM101.0"
        about = {"operator": "log", "file": str(script), "line": line, "rule": "NUM101", "phase": "forward", "distance": 1.0}
        journal.note({"event": "suspect", "name": name, **about}, outcome)
        journal.note({"event": "proven", "name": name, "is_proven": True}, outcome)
    failure = failed(tmp_path, 5)
    finding = to_finding(failure, Kept(Recipe(failure, script, (), {}), None, False, "not replayed"), in_place(script))
    report = to_report(str(script), Settings(str(script)), journal, [finding], frameworks=["torch"])
    assert lines_of(list(report.proven_safe)) == [3]
    assert len(report.findings) == 1
    assert any("program.py:5" in remark and "was proven safe, and failed" in remark for remark in report.coverage.remarks)
    journal.note({"event": "proven", "name": "program.py:3:4:log:NUM101.0", "is_proven": False}, outcome)
    journal.note({"event": "proven", "name": "program.py:3:4:log:NUM101.0", "is_proven": True}, outcome)
    assert to_report(str(script), Settings(str(script)), journal, [], frameworks=["torch"]).proven_safe == (failure.suspect,)


class Told(Pipe):
    """Events as they are sent."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def send(self, event: str, **values: Any) -> None:
        self.events.append((event, values))


def test_a_ledger_never_proves_what_it_doubted() -> None:
    weakness = weaknesses("aten")["log.default"][0]
    board = Board()
    suspect = board.seen(Suspect("a", weakness, "log", None, 1))
    pipe = Told()
    ledger = Ledger(board, pipe)
    ledger.note({"a": Standing(True, -4.0)}, ["a"])
    assert suspect.is_settled
    assert board.choose() is None
    ledger.note({}, ["a"])
    assert not suspect.is_settled
    assert board.choose() is suspect
    ledger.note({"a": Standing(True)}, ["a"])
    assert not suspect.is_settled
    board.settle("a")
    ledger.doubt("a")
    assert suspect.is_settled
    assert [values["is_proven"] for _, values in pipe.events] == [True, False]


def test_ranges_are_rounded_outwards() -> None:
    assert outward(Legal(0.0, 0.9)) == Legal(0.0, 1.0)
    assert outward(Legal(0.3, 1.0)) == Legal(0.25, 1.0)
    assert outward(Legal(-3.0, -0.3)) == Legal(-4.0, -0.25)
    assert outward(Legal(-0.25, 5.0)) == Legal(-0.25, 8.0)
    assert not outward(Legal()).is_bounded


# -- the scripts with known defects -----------------------------------------------------------------------------------

#: Twins of which all suspects are proven safe; those without suspects, and those that are not proven.
PROVEN_TWINS = {
    *("tf_02_softmax_two_logs", "tf_03_softmax_regression", "tf_09_sigmoid_mlp", "tf_11_softmax_exp"),
    *("tf_35_vae_log", "tf_35_vae_sqrt"),
    *("torch_04_divergence_exp", "torch_05_ranking_sqrt", "torch_22_rbm", "torch_26_logistic"),
}
WITHOUT_SUSPECTS = {"torch_12_mlp", "torch_23_softmax_cost", "torch_32_softmax_regression", "torch_54_evaluated"}
NOT_PROVEN = {"tf_28_gains", "tf_31_gan", "torch_13_groups_exp"}
#: Seconds on the CPU that the scans of one script may take: three times what they do.
MOST_SECONDS = 2.0


def ask_for(program: Program, path: Path, ask: Ask) -> Answer:
    # Calls of sessions are looked at before anything is measured, steps of PyTorch when they are done.
    evaluations = 1 if program.framework == "tensorflow" else 100
    answer = ask(path, "--steps", "2", iterations=1, evaluations=evaluations, ranges=dict(program.ranges))
    assert answer["error"] == "", path.name
    assert answer["seconds"] < MOST_SECONDS, path.name
    return answer


def is_at(name: str, program: Program, defect: Defect) -> bool:
    file, line, *_ = name.split(":")
    return (
        (file, int(line)) == (program.marked.name, program.line(defect)) and f":{defect.operator}:" in name and defect.rule in name
    )


def sampled(framework: Framework, every: int, *, twins: bool) -> list[Any]:
    """The programs of a framework: some, and all the others, which take long."""
    programs = [p for p in PROGRAMS if p.framework == framework and (p.fixed or not twins)]
    some = programs[::every]
    others = [program for program in programs if program not in some]
    return [pytest.param(some, id=f"{framework}-some"), pytest.param(others, id=f"{framework}-others", marks=pytest.mark.long)]


@pytest.mark.parametrize("programs", sampled("tensorflow", 6, twins=False) + sampled("pytorch", 6, twins=False))
def test_no_defect_is_proven_safe(programs: list[Program], request: pytest.FixtureRequest) -> None:
    ask = request.getfixturevalue("session" if programs[0].framework == "tensorflow" else "torch_program")
    seen = 0
    for program in programs:
        answer = ask_for(program, program.path, ask)
        for defect in (program.defect, *program.also):
            seen += any(is_at(name, program, defect) for name in answer["suspects"])
            assert not any(is_at(name, program, defect) for name in answer["proven"]), program.file
    assert seen >= len(programs) - 1


@pytest.mark.parametrize("programs", sampled("tensorflow", 2, twins=True) + sampled("pytorch", 2, twins=True))
def test_twins_are_proven(programs: list[Program], request: pytest.FixtureRequest) -> None:
    ask = request.getfixturevalue("session" if programs[0].framework == "tensorflow" else "torch_program")
    for program in programs:
        assert program.twin is not None
        answer = ask_for(program, program.twin, ask)
        stem = program.path.stem
        assert (not answer["suspects"]) == (stem in WITHOUT_SUSPECTS), stem
        assert (answer["suspects"] == answer["proven"]) == (stem not in NOT_PROVEN), stem


def test_every_twin_is_counted() -> None:
    assert {p.path.stem for p in PROGRAMS if p.fixed} == PROVEN_TWINS | WITHOUT_SUSPECTS | NOT_PROVEN
