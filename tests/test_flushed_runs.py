"""Targets without subnormal numbers: what fails for them alone is replayed in ONNX Runtime with its own flag, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import tensorproof
from tensorproof.execute.runtime import Runtime
from tensorproof.findings import Report, Verdict

pytestmark = pytest.mark.area("confirm")

#: exp(-100) is 3.8e-44: a number with subnormals, zero without.
RANGE = (-100.0, 0.0)


def logarithm_of_exponential() -> onnx.ModelProto:
    nodes = [helper.make_node("Exp", ["x"], ["e"], "exp"), helper.make_node("Log", ["e"], ["y"], "log")]
    given, result = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in ("x", "y"))
    graph = helper.make_graph(nodes, "logarithm_of_exponential", [given], [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def checked(folder: Path, target: str) -> Report:
    return tensorproof.check(logarithm_of_exponential(), ranges={"x": RANGE}, target=target, witnesses=folder)


def test_a_failure_of_flushed_numbers_is_confirmed_for_the_target_that_flushes(tmp_path: Path) -> None:
    (finding,) = checked(tmp_path, "tensorflow-cpu").findings
    assert (finding.rule.code, finding.node, finding.verdict) == ("NUM101", "log", Verdict.CONFIRMED)
    assert finding.witness is not None
    for command in ([finding.witness.script], ["-m", "pytest", "-q", "-p", "no:cacheprovider", finding.witness.script]):
        ended = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=tmp_path)
        assert ended.returncode == 0, ended.stdout


def test_it_is_proven_absent_where_subnormal_numbers_are_kept(tmp_path: Path) -> None:
    report = checked(tmp_path, "ieee")
    assert report.findings == ()
    assert "log" in report.proven_safe


@pytest.mark.parametrize("flushes", [False, True])
def test_the_flag_reaches_every_session_of_a_process(flushes: bool) -> None:
    with Runtime(flushes=flushes) as runtime:
        for _ in range(2):
            (value,) = runtime.session(logarithm_of_exponential()).run({"x": np.full(4, -100.0, np.float32)})
            assert bool(np.isneginf(value).all()) is flushes
