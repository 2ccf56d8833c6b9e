"""`tensorproof confirm` as users call it: reports, files, exit codes and refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.commands import tensorproof
from tests.hard_cases import HARD
from tests.models import model

pytestmark = pytest.mark.area("confirm")


@pytest.fixture
def half(tmp_path: Path) -> Path:
    path = tmp_path / "half.onnx"
    onnx.save(HARD["a product in float16"].proto, path)
    return path


def test_a_finding_becomes_a_test_that_fails_in_the_runtime(half: Path, tmp_path: Path) -> None:
    answer = tensorproof("confirm", str(half), "--range", "x=-50:50", "--out", str(tmp_path / "w"), "--format", "json")
    assert answer.code == 1, answer.err
    (finding,) = json.loads(answer.out)["findings"]
    assert finding["verdict"] == "confirmed" and finding["rule"] == "NUM203"
    replayed = subprocess.run([sys.executable, finding["replay"]], capture_output=True, check=False)
    assert replayed.returncode == 0, replayed.stdout


def test_what_is_safe_exits_with_zero(tmp_path: Path) -> None:
    path = tmp_path / "safe.onnx"
    onnx.save(
        model("(float[4] x) => (float[4] y)", "e = Abs(x)\none = Constant <value = float {1.0}> ()\na = Add(e, one)\ny = Log(a)"),
        path,
    )
    answer = tensorproof("confirm", str(path), "--range", "x=-5:5")
    assert answer.code == 0, answer.err
    assert "2 nodes safe" in answer.out


def test_a_node_without_a_finding_is_named(half: Path) -> None:
    answer = tensorproof("confirm", str(half), "--range", "x=-50:50", "--node", "elsewhere")
    assert answer.code == 0
    assert "no finding at node 'elsewhere'" in answer.err


@pytest.mark.parametrize(
    "options, message",
    [
        (("--method", "best"), "'best': write full"),
        (("--evaluations", "-1"), "--evaluations -1"),
        (("--system-test",), "--loss"),
        (("--system-test", "--loss", "nowhere"), "nowhere"),
        (("--system-test", "--loss", "y"), "single number"),
        (("--fail-on", "sometimes"), "sometimes"),
        (("--range", "x=two"), "two"),
    ],
)
def test_mistakes_are_told_in_one_line(half: Path, options: tuple[str, ...], message: str) -> None:
    answer = tensorproof("confirm", str(half), *options)
    assert answer.code == 2
    assert message in answer.err and "Traceback" not in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"\x08\x99nothing")
    answer = tensorproof("confirm", str(path))
    assert answer.code == 2 and len(answer.err.strip().splitlines()) == 1


def test_a_time_limit_leaves_findings_possible(half: Path) -> None:
    answer = tensorproof("confirm", str(half), "--range", "x=-50:50", "--budget", "0.001", "--format", "json")
    assert answer.code == 0
    report = json.loads(answer.out)
    assert [finding["verdict"] for finding in report["findings"]] == ["possible"]
    assert any("time limit" in note for note in report["assumptions"]["confirm"])
