"""The files of a witness: a test that needs the runtime alone, and says what happened."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tensorproof import Finding, check
from tests.models import model, with_bodies

pytestmark = pytest.mark.area("confirm")

HOSTILE = [
    'quote """ + __import__("os").abort() + """',
    "'''\\",
    "line\nimport os; os.abort()\n#",
    "{file_name} %s \\N{DASH} \\x",
    "# -*- coding: utf-7 -*- \u202e\x00\x1b[31m",
    "x" * 5000,
]

#: What fails, by where that is seen: a result, the whole run, an operand, a result of inputs that numpy has no type for, a
#: result beside others that are true or false.
FAILURES = {
    "result": ("(float[2,4] x) => (float[2,4] y)", "p = Softmax<axis=-1>(x)\ny = Log(p)", {"x": (-80, 80)}),
    "stop": ("(int64[4] a, int64[4] bb) => (int64[4] y)", "y = Div(a, bb)", {"a": (1, 9), "bb": (0, 3)}),
    "operand": ("(float[4] a) => (int64[4] y)", "s = Mul(a, a)\ny = Cast<to=7>(s)", {"a": (0, 1e15)}),
    "bfloat16": ("(bfloat16[3] x, float[3] long) => (float[3] y)", "c = Cast<to=1>(x)\ns = Mul(c, long)\ny = Log(s)", {}),
    "true": (
        "(float[8] x) => (float[8] y, bool[8] kept)",
        "r = Constant<value_float=0.5>()\nt = Constant<value = bool {1}>()\ny, kept = Dropout<seed=1>(x, r, t)",
        {"x": (-3e38, 3e38)},
    ),
}


def confirmed(proto: onnx.ModelProto, folder: Path, **ranges: tuple[float, float]) -> tuple[Finding, Path]:
    """The confirmed finding of a model, and its test file."""
    (finding,) = check(proto, ranges=ranges, witnesses=folder).confirmed
    assert finding.witness is not None
    return finding, Path(finding.witness.script)


def failure(name: str, folder: Path) -> tuple[Finding, Path]:
    signature, body, ranges = FAILURES[name]
    proto = model(signature, body)
    proto.graph.name = name
    return confirmed(proto, folder, **ranges)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True)


def pytest_on(path: Path) -> subprocess.CompletedProcess[str]:
    return run("-m", "pytest", "-p", "no:cacheprovider", path)


def with_ones(finding: Finding) -> None:
    """Replace the arrays of a witness by ones."""
    assert finding.witness is not None
    with np.load(finding.witness.arrays) as archive:
        arrays = {name: archive[name] for name in archive.files}
    bfloat16_one = {np.dtype(np.uint16): 0x3F80}
    ones = {name: np.full_like(array, bfloat16_one.get(array.dtype, 1)) for name, array in arrays.items()}
    np.savez(finding.witness.arrays, **{**ones, "names": arrays["names"]})


def test_failures_happen_again_under_pytest(tmp_path: Path) -> None:
    for name in FAILURES:
        failure(name, tmp_path)
    _, branch, _ = with_bodies()
    _, script = confirmed(branch, tmp_path)
    assert "SEEN_AT = 'flag'" in script.read_text()
    result = pytest_on(tmp_path)
    assert result.returncode == 0 and "6 passed" in result.stdout, result.stdout + result.stderr


@pytest.mark.parametrize("name", FAILURES)
def test_the_exit_code_says_whether_it_happened_again(tmp_path: Path, name: str) -> None:
    finding, script = failure(name, tmp_path)
    result = run(script)
    assert result.returncode == 0, result.stdout + result.stderr
    title = f"{finding.rule.code} {finding.rule.name} at node 'y', operator {finding.op!r}"
    assert result.stdout.startswith(f"{title}, happened again\n")
    with_ones(finding)
    result = run(script)
    assert result.returncode == 1, result.stdout + result.stderr
    assert result.stdout.startswith(f"{title}, did NOT happen again\n")
    assert "\noperand " in result.stdout and "\nresult 'y', shape" in result.stdout


def test_the_assertion_says_what_was_seen(tmp_path: Path) -> None:
    finding, script = failure("result", tmp_path)
    with_ones(finding)
    result = pytest_on(script)
    assert result.returncode == 1
    assert "AssertionError: NUM101 log-of-nonpositive at node 'y', operator 'Log', did NOT happen again" in result.stdout
    assert "operand 'p', shape (2, 4), float32: [0.25, 0.25], NaN: 0, infinite: 0" in result.stdout


def test_it_needs_the_runtime_alone(tmp_path: Path) -> None:
    _, script = failure("bfloat16", tmp_path)
    blocker = "import runpy, sys\nfor name in ('tensorproof', 'onnx', 'torch', 'ml_dtypes', 'pytest'): sys.modules[name] = None\n"
    result = run("-c", blocker + "runpy.run_path(sys.argv[1], run_name='__main__')", script)
    assert result.returncode == 0 and "happened again" in result.stdout, result.stderr


def test_a_runtime_that_ends_the_process_has_stopped(tmp_path: Path) -> None:
    _, script = failure("stop", tmp_path)
    start = "def replay_here():\n"
    assert start in script.read_text()
    script.write_text(script.read_text().replace(start, f"{start}    import os\n    os.abort()\n"))
    result = run(script)
    assert result.returncode == 0 and "the process of the runtime was ended" in result.stdout, result.stdout + result.stderr


def test_inputs_that_the_runtime_does_not_take_are_no_failure(tmp_path: Path) -> None:
    """A run that ends for another reason than the finding's own is not taken for it."""
    finding, script = failure("stop", tmp_path)
    assert finding.witness is not None
    with np.load(finding.witness.arrays) as archive:
        names = archive["names"]
    np.savez(finding.witness.arrays, names=names, array_0=np.zeros(7), array_1=np.zeros(7))
    result = run(script)
    assert result.returncode == 1 and "the runtime stopped" in result.stdout, result.stdout + result.stderr


def test_the_words_on_top_say_what_it_shows(tmp_path: Path) -> None:
    path = tmp_path / "odd 'name'.onnx"
    onnx.save(model("(float[2] x) => (float[2] y)", "y = Log(x)"), path)
    (finding,) = check(path, ranges={"x": (0, 1)}, witnesses=tmp_path).confirmed
    assert finding.witness is not None
    script = Path(finding.witness.script)
    words = ast.get_docstring(ast.parse(script.read_text()))
    assert words is not None
    for part in (finding.rule.summary, "NUM101 log-of-nonpositive", "'Log'", "'y'", "'x', within [0, 1]", "odd 'name'.onnx"):
        assert part in words
    assert f"python {script.name}" in words and f"python -m pytest {script.name}" in words
    assert script.name.startswith("test_NUM101_y_")


def named(name: str) -> onnx.ModelProto:
    """A model that fails, all of whose names begin with a text."""
    proto = model("(float[2] x) => (float[2] y)", "y = Log(x)")
    proto.graph.name = proto.graph.node[0].name = name
    proto.graph.input[0].name = proto.graph.node[0].input[0] = f"{name} in"
    proto.graph.output[0].name = proto.graph.node[0].output[0] = f"{name} out"
    return proto


def test_hostile_names_are_literals(tmp_path: Path) -> None:
    _, harmless = confirmed(named("harmless"), tmp_path)
    for name in HOSTILE:
        _, script = confirmed(named(name), tmp_path)
        text = script.read_text()
        assert text.isascii() and "\x1b" not in text
        assert text.count("\n") == harmless.read_text().count("\n")
        body = ast.parse(text).body
        assert [type(statement) for statement in body] == [type(s) for s in ast.parse(harmless.read_text()).body]
        literals = {n.targets[0].id: n.value for n in body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)}
        assert ast.literal_eval(literals["NODE"]) == name
        assert ast.literal_eval(literals["OPERANDS"]) == [f"{name} in"]
        assert ast.literal_eval(literals["RESULTS"]) == [f"{name} out"]
    result = pytest_on(tmp_path)
    assert result.returncode == 0 and f"{len(HOSTILE) + 1} passed" in result.stdout, result.stdout + result.stderr


def test_two_models_with_the_same_node_have_their_own_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        proto = model("(float[2] x) => (float[2] y)", "y = Log(x)")
        proto.graph.name = name
        confirmed(proto, tmp_path)
    assert [len(list(tmp_path.glob(files))) for files in ("test_*.py", "*.npz", "*.onnx")] == [2, 2, 2]
