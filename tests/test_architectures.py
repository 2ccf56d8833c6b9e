"""The architectures of DEBAR's kinds: what is said of each operation is true in TensorFlow, and what the table makes of it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.architectures import Architecture, architectures
from benchmarks.paper.tables import debar

pytestmark = pytest.mark.area("architectures")

ROOT = Path(__file__).parents[1]
#: Runs in each box that try to refute the facts about a graph; the table makes a thousand.
RUNS = 12

Judged = dict[str, dict[str, dict[str, list[str]]]]


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """What runs in TensorFlow say of the facts, by architecture and form; once for all workers."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "judged_architectures.json"
    with shared.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shared.exists():
            paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
            variables = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
            command = [sys.executable, "-m", "tests.judged_architectures", str(RUNS)]
            done = subprocess.run(command, env=variables, cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[-4000:]
            shared.write_text(done.stdout.splitlines()[-1])
    return json.loads(shared.read_text())


def test_there_are_as_many_as_debar_was_tried_on():
    entries = architectures()
    assert len(entries) >= 9 + 48
    assert len({entry.name for entry in entries}) == len(entries)
    assert all(entry.title and entry.ranges for entry in entries)
    assert sum(entry.has_twin for entry in entries) >= 40
    assert {entry.resources for entry in entries} == {False, True}
    assert all(fact.why for entry in entries for fact in entry.all_facts)


@pytest.mark.parametrize("entry", architectures(), ids=lambda entry: entry.name)
def test_facts_hold_in_tensorflow(entry: Architecture, judged: Judged):
    """Every operation of DEBAR's kinds has one fact; it fails where it is said to, and nowhere else that was tried."""
    found = judged[entry.name]
    for form in entry.forms:
        assert found[form]["without a fact"] == []
        assert found[form]["not shown"] == []
        assert found[form]["refuted"] == []
    assert found[entry.forms[0]]["operations"]
    # A fact about no operation of any form is a mistake in its pattern.
    assert set.intersection(*(set(found[form]["about nothing"]) for form in entry.forms)) == set()


def test_wrong_facts_are_noticed(judged: Judged):
    """A safe operation that is said to fail is not shown to; one that fails and is said to be safe is refuted."""
    wrong = judged["wrong_on_purpose"]["defective"]
    assert wrong["not shown"] == ["claimed/Exp"]
    assert wrong["refuted"][0] == "wrong_on_purpose (defective, debar): denied/Log fails"
    assert wrong["without a fact"] == ["forgotten/Sqrt"]
    assert wrong["about nothing"] == ["nowhere/Log"]


def test_counts():
    count = debar.Count()
    warned = ["a", "c", "of no kind that counts"]
    count.add({"a": True, "b": True, "c": False, "d": False}, {"warned": warned, "out": False, "seconds": 0.5})
    assert (count.operations, count.warnings, count.true, count.false, count.missed) == (4, 2, 1, 1, 1)
    assert count.accuracy == 50.0
    count.add({"a": True}, {"warned": [], "out": True, "seconds": 9.0})
    assert (count.operations, count.out, count.seconds) == (4, 1, 0.5)


def test_a_program_of_grist_is_measured():
    """The bug is found and its repair is silent, in all configurations; what has no label is counted apart."""
    result: Any = debar.measured("grist 32", "quick")
    forms = result["forms"]
    assert any(forms["defective"]["truth"]["debar"].values())
    table = debar.section({"grist 32": result}, "quick")
    assert table.figures["programs of GRIST, default: missed"] == 0
    assert table.figures["programs of GRIST, default: false"] == 0
    assert {row[1] for row in table.rows} == {scan.name for scan in debar.CONFIGURATIONS if scan.weights == "debar"}
    assert table.lines == ()


def test_cases():
    full = debar.cases("full")
    assert set(debar.cases("quick")) < set(full)
    assert len(full) == len(set(full))
