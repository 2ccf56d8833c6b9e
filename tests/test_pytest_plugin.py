"""The plugin of pytest, met as a user meets it: a project with tests of its own, run by pytest in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import onnx.parser
import pytest
from examples.models import build

from tensorproof.errors import ConfigurationError
from tensorproof.testing import assert_finite
from tests.commands import saved

pytestmark = pytest.mark.area("integrations")

MODULE = """
import pytest
import torch

from tensorproof.testing import assert_finite


class Naive(torch.nn.Module):
    def forward(self, x):
        return torch.log(torch.softmax(x, -1))


class Stable(torch.nn.Module):
    def forward(self, x):
        return torch.log_softmax(x, -1)


def test_naive():
    assert_finite(Naive(), torch.zeros(2, 3), ranges={"x": (-200, 200)}, precisions=["float32", "float16"])


def test_stable():
    float32, float16 = assert_finite(
        Stable(), torch.zeros(2, 3), ranges={"x": (-200, 200)}, precisions=["float32", "float16"], fail_on="possible"
    )
    assert (float32.precision, float16.precision) == ("float32", "float16")


@pytest.mark.tensorproof
def test_backward():
    x = torch.zeros(3, requires_grad=True)
    torch.sqrt(x).sum().backward()  # the line


@pytest.mark.tensorproof
def test_that_fails_anyway():
    y = torch.log(torch.zeros(3))  # the line
    assert y.isfinite().all()


@pytest.mark.tensorproof
def test_harmless():
    x = torch.linspace(-5, 5, 10, requires_grad=True)
    torch.nn.functional.softplus(x).sum().backward()
    mask = torch.tensor([0.0, float("-inf")])
    assert torch.softmax(mask, 0).isfinite().all()


@pytest.mark.tensorproof(ignore=["NUM101"])
def test_allowed():
    torch.log(torch.zeros(3))


def test_fixture(first_nan):
    with first_nan.pause():
        torch.log(torch.zeros(3))
    assert first_nan.findings == ()
    1 / torch.zeros(2)  # the line


def test_unobserved():
    torch.log(torch.zeros(3))
"""


ROOT = Path(__file__).resolve().parents[1]
#: The test of the page on integrations, and what the page says that pytest prints.
DOCUMENTED = re.findall(r"^```text\n(.*?)^```", (ROOT / "docs" / "integrations.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)


def run_pytest(folder: Path, *options: str) -> tuple[int, str, dict[str, str]]:
    """Exit code, what was printed, and by the name of each test what its report says: empty if it passed."""
    words = [sys.executable, "-m", "pytest", "--strict-markers", "-W", "error", "--junitxml", "out.xml", *options]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
    found: dict[str, str] = {}
    if (folder / "out.xml").exists():
        for case in ElementTree.parse(folder / "out.xml").iter("testcase"):
            found[str(case.get("name"))] = "".join((e.get("message") or "") + (e.text or "") for e in case)
    return done.returncode, done.stdout + done.stderr, found


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, dict[str, str]]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "test_model.py").write_text(MODULE)
    (folder / "test_training.py").write_text(DOCUMENTED[0])
    code, printed, found = run_pytest(folder)
    assert code == 1, printed
    return folder, printed, found


def line_of(test: str) -> int:
    lines = MODULE.split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith(f"def {test}("))
    return next(number for number, line in enumerate(lines) if number > start and "# the line" in line) + 1


def test_passing_tests_pass(ran: tuple[Path, str, dict[str, str]]) -> None:
    _, printed, found = ran
    passed = {name for name, text in found.items() if not text}
    assert passed == {"test_stable", "test_harmless", "test_allowed", "test_unobserved"}, printed


def test_a_model_that_fails(ran: tuple[Path, str, dict[str, str]]) -> None:
    folder, printed, found = ran
    text = found["test_naive"]
    assert "Naive can return values that are not finite" in text
    assert "NUM101 confirmed  log-of-nonpositive" in text
    assert "precision float32" in text and "precision float16" in text
    named = [line.split()[2] for line in text.replace("E  ", "").splitlines() if "failing input:" in line]
    assert len(set(named)) == 2, text
    for file in named:
        with np.load(folder / file) as arrays:
            assert arrays.files
    # The frames of tensorproof are not shown: the test is.
    assert "testing/finite.py" not in printed


@pytest.mark.parametrize(
    ("test", "rule", "operator"),
    [
        ("test_backward", "NUM401 infinite-derivative-at-zero", "SqrtBackward0"),
        ("test_fixture", "NUM103 division-by-zero", "aten.reciprocal"),
        ("test_that_fails_anyway", "NUM101 log-of-nonpositive", "aten.log"),
    ],
)
def test_the_first_nan(ran: tuple[Path, str, dict[str, str]], test: str, rule: str, operator: str) -> None:
    _, printed, found = ran
    headline = f"{rule} at test_model.py:{line_of(test)}: {operator}"
    assert "| torch.sqrt(x).sum().backward()  # the line" in found["test_backward"]
    # In a test that fails by itself the line is told beside its own error.
    assert headline in (printed if test == "test_that_fails_anyway" else found[test])
    assert ("assert y.isfinite().all()" in found[test]) == (test == "test_that_fails_anyway")


def test_what_the_page_says_is_printed(ran: tuple[Path, str, dict[str, str]]) -> None:
    _, _, found = ran
    _, headline = DOCUMENTED
    assert headline.strip() in found["test_training_step"]


def test_the_option_observes_every_test(tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text(MODULE)
    code, printed, found = run_pytest(tmp_path, "--first-nan", "-k", "unobserved or allowed")
    assert code == 1, printed
    assert "NUM101 log-of-nonpositive" in found["test_unobserved"]
    assert found["test_allowed"] == ""


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("ignored=['NUM101']", "the marker is tensorproof(ignore=[CODES])"),
        ("ignore='NOPE1'", "NOPE1"),
    ],
)
def test_a_mistake_in_a_marker_is_one_line(tmp_path: Path, marker: str, message: str) -> None:
    (tmp_path / "test_a.py").write_text(f"import pytest\n@pytest.mark.tensorproof({marker})\ndef test_a(): pass\n")
    code, printed, _ = run_pytest(tmp_path)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert message in printed and "Traceback" not in printed


def test_the_plugin_is_registered_and_costs_nothing(tmp_path: Path) -> None:
    """A run that uses none of it loads the two small modules and nothing else."""
    (tmp_path / "test_a.py").write_text(
        "import json, sys\n"
        "def test_a(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.hasplugin('tensorproof')\n"
        "    with open('ours.json', 'w') as file:\n"
        "        json.dump([name for name in sys.modules if name.startswith('tensorproof')], file)\n"
        "    assert not {'numpy', 'torch', 'onnx', 'rich', 'typer', 'libcst'} & set(sys.modules)\n"
    )
    code, printed, _ = run_pytest(tmp_path, "-p", "no:xdist", "-p", "no:hypothesispytest")
    assert code == 0, printed
    assert set(json.loads((tmp_path / "ours.json").read_text())) == {
        "tensorproof",
        "tensorproof.testing",
        "tensorproof.testing.finite",
        "tensorproof.testing.first_nan",
        "tensorproof.testing.pytest_plugin",
    }


# -- assert_finite by itself ------------------------------------------------------------------------------------------


@pytest.fixture
def cross_entropy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    build(tmp_path)
    return tmp_path / "naive_cross_entropy.onnx"


def test_a_file(cross_entropy: Path) -> None:
    with pytest.raises(AssertionError, match=r"NUM101 confirmed(.|\n)*failing input: tensorproof-witnesses/\S+\.npz"):
        assert_finite(cross_entropy, ranges={"image": (0, 16), "label": "one-hot"})
    (report,) = assert_finite(cross_entropy, ranges={"image": (0, 16), "label": "one-hot"}, ignore=["NUM"])
    assert report.suppressed
    assert_finite(cross_entropy, ranges={"image": (0, 16), "label": "one-hot"}, fail_on="never", witnesses=None)


def test_a_possible_defect_fails_on_demand(tmp_path: Path) -> None:
    """(a + b)(a + b) - a a - a b - a b is a square, which intervals do not see."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] a, float[4] b) => (float[4] y) {
        t = Add(a, b)  tt = Mul(t, t)  aa = Mul(a, a)  ab = Mul(a, b)  c = Sub(tt, aa)  d = Sub(c, ab)  bb = Sub(d, ab)
        e = Constant<value_float = 0.1>()  p = Add(bb, e)  y = Log(p)
    }"""
    path = saved(onnx.parser.parse_model(text), tmp_path)
    (report,) = assert_finite(path, ranges={"*": (-1, 1)}, effort=0, witnesses=None)
    assert [f.rule.code for f in report.findings] == ["NUM101"]
    with pytest.raises(AssertionError, match="NUM101 possible"):
        assert_finite(path, ranges={"*": (-1, 1)}, effort=0, fail_on="possible", witnesses=None)


def test_a_function_of_jax() -> None:
    import jax.numpy as jnp

    def loss(x):
        return jnp.log(x).sum()

    with pytest.raises(AssertionError, match="NUM101 confirmed"):
        assert_finite(loss, jnp.ones(3), ranges={"x": (0, 1)}, witnesses=None)
    assert_finite(loss, jnp.ones(3), ranges={"x": (0.5, 1)}, fail_on="incomplete", witnesses=None)


def test_a_model_of_keras(tmp_path: Path) -> None:
    """In a process of its own, which has one backend."""
    program = """
import keras
from tensorproof.testing import assert_finite

x = keras.Input((3,), name="x")
logits = keras.layers.Dense(2)(x) * 100
for output in (keras.ops.log_softmax(logits), keras.ops.log(keras.ops.softmax(logits))):
    try:
        assert_finite(keras.Model(x, output), ranges={"x": (-10, 10)}, witnesses="failing")
        print("finite")
    except AssertionError as error:
        print(str(error).splitlines()[-1])
"""
    environment = os.environ | {"KERAS_BACKEND": "torch"}
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    finite, failing = done.stdout.splitlines()
    assert finite == "finite"
    assert Path(tmp_path, failing.split()[2]).is_file()


@pytest.mark.parametrize("wrong", [{"precisions": "float16"}, {"precisions": []}, {"fail_on": "always"}, {"ignore": ["NOPE"]}])
def test_mistakes_are_no_failures(cross_entropy: Path, wrong: dict) -> None:
    with pytest.raises(ConfigurationError):
        assert_finite(cross_entropy, **wrong)
