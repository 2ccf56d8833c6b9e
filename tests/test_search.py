"""The search for failing inputs: hard cases are found, safe forms are not, and the same seed gives the same witness."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from benchmarks.zoo import programs

from tensorproof import find_witnesses
from tensorproof.assumptions import Declarations, domain_from_json, resolve
from tensorproof.checking import analyse
from tensorproof.confirm.full import FullConfirm
from tensorproof.confirm.search import Budget
from tensorproof.errors import ConfigurationError
from tensorproof.findings import Verdict
from tensorproof.formats import FLOAT16
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.onnx_precision import converted
from tensorproof.ranges.abstraction import FIRST_PASS
from tensorproof.targets import ONNXRUNTIME_CPU
from tests.commands import interruptible
from tests.hard_cases import HARD
from tests.models import model
from tests.refinement_graphs import EXAMPLES
from tests.safe_models import SAFE

pytestmark = pytest.mark.area("confirm")


def arrays(path: str) -> dict[str, np.ndarray]:
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", HARD)
def test_hard_cases_are_found(name: str, seed: int) -> None:
    case = HARD[name]
    report = find_witnesses(case.proto, ranges=case.ranges, seed=seed, shrink=False)
    assert (case.rule, case.node) in {(f.rule.code, f.node) for f in report.confirmed}, report.findings


def test_the_gradient_finds_what_samples_do_not() -> None:
    missed = 0
    for name in ("a divisor of exactly zero", "a product in float16", "behind Floor"):
        case = HARD[name]
        reports = {m: find_witnesses(case.proto, ranges=case.ranges, method=m, shrink=False) for m in ("full", "random")}
        assert reports["full"].confirmed
        missed += not reports["random"].confirmed
    assert missed >= 2


def test_the_same_seed_gives_the_same_witness(tmp_path: Path) -> None:
    case = HARD["a divisor of exactly zero"]
    saved = []
    for turn in ("first", "second"):
        report = find_witnesses(case.proto, ranges=case.ranges, seed=3, witnesses=tmp_path / turn)
        (finding,) = report.confirmed
        assert finding.witness is not None
        saved.append(arrays(finding.witness.arrays))
    assert saved[0].keys() == saved[1].keys()
    assert all(np.array_equal(saved[0][name], saved[1][name]) for name in saved[0])


def test_a_witness_is_plain(tmp_path: Path) -> None:
    """Of the 64 numbers of the operand few are needed, and those are round."""
    case = HARD["a product in float16"]
    (finding,) = find_witnesses(case.proto, ranges=case.ranges, witnesses=tmp_path).confirmed
    assert finding.witness is not None
    numbers = arrays(finding.witness.arrays)["array_0"].astype(np.float64)
    assert numbers.size == 64
    assert (numbers != 0).sum() < 50
    assert all(float(f"{value:.2g}") == value for value in numbers.ravel())


@pytest.mark.parametrize("precision", [None, "float16"])
def test_safe_forms_are_never_confirmed(precision: str | None) -> None:
    """Without idioms and norms nearly every safe form alarms: the search tries them all, and what is proven never fails."""
    coarse = replace(FIRST_PASS, idioms=False, norms=False)
    tried = 0
    for name, case in SAFE.items():
        proto = case.safe if precision is None else converted(case.safe, FLOAT16)[0]
        graph = from_proto(proto)
        (assumptions, *_), _ = resolve(graph, Declarations({n: domain_from_json(r, n) for n, r in case.ranges.items()}))
        alarms = analyse(graph, assumptions, ONNXRUNTIME_CPU, effort=0, abstraction=coarse)
        proven = set(analyse(graph, assumptions, ONNXRUNTIME_CPU, effort=1).proven_safe)
        search = FullConfirm(proto, runs=22, budget=Budget(evaluations=30), shrink=False)
        for finding in search(graph, alarms):
            tried += 1
            # An infinity that a minimum caps is no defect: a run shows it, and that no output sees it.
            assert finding.verdict is Verdict.POSSIBLE or finding.is_note or finding.node not in proven, (name, finding)
    assert tried >= 50


def test_repaired_programs_are_never_confirmed_where_they_were_repaired() -> None:
    tried = 0
    for entry in programs():
        twin = entry.safe
        if twin is None or entry.repair is None or entry.repair.remains or len(twin.onnx().graph.node) > 60:
            continue
        nodes = [bug.node for bug in entry.bugs]
        report = find_witnesses(twin.onnx(), ranges=twin.declarations().domains, nodes=nodes, evaluations=40, shrink=False)
        assert not [f for f in report.confirmed if f.node in nodes], entry.id
        tried += 1
    assert tried >= 8


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.effort > 1], ids=lambda e: e.name)
def test_what_is_not_found_is_looked_at_again(example: object) -> None:
    """Proof of absence: the search ends without a witness, and the highest effort proves that there is none."""
    report = find_witnesses(example.safe, ranges=example.ranges, effort=1, evaluations=30, target="ieee")  # type: ignore[attr-defined]
    assert not report.findings
    assert "y" in report.proven_safe


def test_every_channel_stays_in_its_own_range(tmp_path: Path) -> None:
    """The descent wants all elements as large as the widest channel goes; only that one may."""
    proto = model("(float16[1,3,4] x) => (float16[1,3,4] y)", "s = Mul(x, x)\ny = Mul(s, x)")
    ranges = {"x": {"channels": [[-1, 1], [0, 50], [2, 3]], "axis": 1}}
    report = find_witnesses(proto, ranges=ranges, witnesses=tmp_path, shrink=False)
    (finding,) = report.confirmed
    assert finding.witness is not None
    (numbers,) = (array for name, array in arrays(finding.witness.arrays).items() if name != "names")
    assert numbers.shape == (1, 3, 4)
    for channel, (low, high) in enumerate(((-1, 1), (0, 50), (2, 3))):
        assert low <= numbers[0, channel].min() and numbers[0, channel].max() <= high


def test_only_the_chosen_nodes_are_searched() -> None:
    proto = model("(float[4] x) => (float[4] y, float[4] z)", "y = Log(x)\nz = Sqrt(x)")
    report = find_witnesses(proto, ranges={"x": (-1, 1)}, nodes=["y"], shrink=False)
    assert {f.node: f.verdict for f in report.findings} == {"y": Verdict.CONFIRMED, "z": Verdict.POSSIBLE}


def test_without_torch_samples_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    case = HARD["a divisor of exactly zero"]
    report = find_witnesses(case.proto, ranges=case.ranges, evaluations=20)
    assert not report.confirmed
    assert any("needs the extra `torch`" in note for note in report.assumptions["confirm"])


def test_a_method_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'best': write full, gradient, random, uniform"):
        find_witnesses(HARD["a masked row"].proto, method="best")


def test_an_interrupt_keeps_what_was_found(tmp_path: Path) -> None:
    """Two findings: one that samples confirm, and one that no input reaches, searched until the interrupt."""
    rng = np.random.default_rng(0)
    first, second = (rng.standard_normal(shape).astype(np.float32) for shape in ((32, 64), (64, 8)))
    margin = 0.97 * np.abs(second).sum(axis=0)
    proto = model(
        "(float[1,32] x) => (float[1,32] y, float[1,8] z)",
        """
        y = Log(x)
        h = MatMul(x, first)
        t = Tanh(h)
        o = MatMul(t, second)
        d = Add(o, margin)
        z = Log(d)
        """,
    )
    constants = {"first": first, "second": second, "margin": margin}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    command = [sys.executable, "-m", "tensorproof", "confirm", str(path), "--range", "x=-1:1", "--evaluations", "10000000"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = interruptible([*command, "--out", str(tmp_path / "w"), "--no-shrink"], stdout=subprocess.PIPE, env=environment)
    try:
        deadline = time.monotonic() + 120.0
        while not list(tmp_path.glob("w/*.npz")) and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.2)
        # The search for the other finding has begun.
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1
    assert b"1 confirmed, 1 possible" in text
    assert len(list((tmp_path / "w").glob("*.npz"))) == 1
