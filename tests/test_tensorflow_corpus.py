"""Models of TensorFlow and Keras with known defects, and their repaired twins: what is found, where, and nothing else."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tensorproof
from tensorproof.confirm.search import Budget
from tensorproof.findings import Finding, Report, Verdict
from tensorproof.preparing import Prepared
from tests.tensorflow_corpus.catalogue import PAIRS
from tests.tensorflow_corpus.live import BACKENDS, LIVE
from tests.tensorflow_corpus.pairs import Pair

pytestmark = pytest.mark.area("tensorflow corpus")

ROOT = Path(__file__).parents[1]
FILES = [pair for pair in PAIRS.values() if pair.kind != "keras"]
CONFIRMED = [pair for pair in FILES if pair.confirmed]

each_pair = pytest.mark.parametrize("pair", FILES, ids=lambda pair: pair.name)
both_twins = pytest.mark.parametrize("safe", [False, True], ids=["defective", "safe"])

ledger: Counter[str] = Counter()


def run_module(module: str, *arguments: str, **environment: str) -> str:
    """What a module of the corpus prints, run in a process of its own."""
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
        **environment,
    }
    done = subprocess.run([sys.executable, "-m", module, *arguments], env=variables, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The models, built once for all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "tensorflow_corpus"
    shared.mkdir(exist_ok=True)
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "observed.json").exists():
            run_module("tests.tensorflow_corpus.build", str(shared))
    yield shared
    if ledger:
        print(f"\ntensorflow corpus: {dict(ledger)}")


def described(finding: Finding) -> str:
    return f"{finding.rule.code} {finding.op} {finding.node} {finding.phase}"


def defects(report: Report) -> list[Finding]:
    """The findings that are defects of their own."""
    return [finding for finding in report.findings if not finding.is_note and finding.rule.severity == "error"]


def disagreements(pair: Pair, safe: bool, report: Report) -> list[str]:
    """What the report says and the pair does not, and the other way round."""
    open_findings = list(defects(report))
    wrong: list[str] = []
    for expected in () if safe else pair.expected:
        for finding in open_findings:
            if expected.describes(finding.rule.code, finding.op, finding.node, finding.phase):
                open_findings.remove(finding)
                break
        else:
            wrong.append(f"missed: {expected}")
    also = () if safe else pair.also
    for finding in open_findings:
        if not any(known.describes(finding.rule.code, finding.op, finding.node, finding.phase) for known in also):
            wrong.append(f"not expected: {described(finding)}")
    return wrong


def checked(pair: Pair, safe: bool, folder: Path, **options: Any) -> Report:
    return tensorproof.check(folder / pair.path(safe), ranges=dict(pair.ranges), phase=pair.phase, **options)


def test_every_defect_has_a_repaired_twin():
    assert len(PAIRS) * 2 >= 44
    assert all(pair.expected for pair in PAIRS.values())
    assert {pair.kind for pair in PAIRS.values()} == {
        "pb",
        "pbtxt",
        "meta",
        "checkpoint",
        "frozen",
        "saved_v1",
        "saved_v2",
        "keras",
    }
    assert {pair.phase for pair in PAIRS.values()} == {"inference", "training"}


def test_expectations_are_true_in_tensorflow(folder: Path):
    """At the point that a pair names, the defective model fails in TensorFlow, and the safe one does not."""
    observed = json.loads((folder / "observed.json").read_text())
    assert observed == {pair.stem(safe): safe for pair in PAIRS.values() for safe in (False, True)}


@each_pair
@both_twins
def test_findings(pair: Pair, safe: bool, folder: Path):
    report = checked(pair, safe, folder, confirm=False)
    assert disagreements(pair, safe, report) == []
    assert report.coverage.complete != pair.has_gradient_of_loop, report.coverage
    assert all("gradients" in item.node for item in report.coverage.not_analysed)
    line = pair.line()
    if pair.kind == "saved_v2" and line is not None:
        found = [finding.location for finding in defects(report) if pair.expects(finding) and finding.location]
        places = {(Path(str(location.file)).name, location.line) for location in found}
        assert places == (set() if safe else {(Path(pair.build.__code__.co_filename).name, line)})
    ledger["safe silent" if safe else "defective found"] += 1


@pytest.mark.parametrize("pair", CONFIRMED, ids=lambda pair: pair.name)
def test_findings_are_confirmed_in_tensorflow(pair: Pair, folder: Path, tmp_path: Path):
    """By the samples of `check` or, where these do not get there, by the search of `confirm`."""
    report = checked(pair, False, folder, confirm=True, witnesses=tmp_path)
    assert disagreements(pair, False, report) == []
    if any(finding.verdict is not Verdict.CONFIRMED for finding in defects(report) if pair.expects(finding)):
        prepared = Prepared.of(folder / pair.path(False), ranges=dict(pair.ranges), phase=pair.phase)
        report = prepared.checked(prepared.full_confirm(budget=Budget(evaluations=200), shrink=False))
    assert {finding.verdict for finding in defects(report) if pair.expects(finding)} == {Verdict.CONFIRMED}


@pytest.mark.parametrize("backend", BACKENDS)
def test_keras_models_and_programs(backend: str, folder: Path):
    """Files of Keras and live models, in a process with one backend: found on their lines, and nothing else."""
    printed = run_module("tests.tensorflow_corpus.live", str(folder), KERAS_BACKEND=backend)
    outcomes = json.loads(printed.splitlines()[-1])
    wrong: dict[str, Any] = {name: outcome for name, outcome in outcomes.items() if "error" in outcome or outcome["left"]}
    for pair in PAIRS.values():
        if pair.kind == "keras":
            for safe in (False, True):
                stem = pair.stem(safe)
                found = [] if stem in wrong else outcomes[stem]["findings"]
                also = () if safe else {expected.rule for expected in pair.also}
                rules = sorted(finding["rule"] for finding in found if finding["rule"] not in also)
                if stem not in wrong and rules != ([] if safe else sorted(expected.rule for expected in pair.expected)):
                    wrong[stem] = found
    for program in LIVE:
        if backend in program.backends:
            for model, safe in program.models():
                name = Path(model).name
                expected = set() if safe else {(program.rule, program.finding_phase, program.file, program.line())}
                found = [] if name in wrong else outcomes[name]["findings"]
                places = {(one["rule"], one["phase"], Path(str(one["file"])).name, one["line"]) for one in found}
                if name not in wrong and places != expected:
                    wrong[name] = found
    assert wrong == {}
    ledger[f"models of Keras on {backend}"] += len(outcomes)
