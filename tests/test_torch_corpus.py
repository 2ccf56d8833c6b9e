"""PyTorch programs with known defects, and their repaired twins: what is found, on which line, and nothing else.

Two rules are not in the corpus, because no program that torch.export takes reaches them: NUM111 (the step of `torch.arange` is
a number of the program, and Python refuses 0) and NUM113 (quantised operators).
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import tensorproof
from tensorproof.rules import model_rules
from tests.torch_corpus import Expectation, Program, disagreements, observed, programs

pytestmark = pytest.mark.area("torch corpus")

PROGRAMS = programs()
OUT_OF_REACH = {"NUM111", "NUM113"}
#: A known gap: the analysis knows nothing about what these operators return.
NOT_ANALYSED = {"aten::linalg_eigh.default", "aten::linalg_eigvalsh.default"}

each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)


def test_every_defect_has_a_repaired_twin():
    defective = {program.stem for program in PROGRAMS if not program.is_safe}
    repaired = {program.twin for program in PROGRAMS if program.is_safe}
    assert defective == repaired
    assert len(PROGRAMS) >= 70 and 2 * sum(program.is_safe for program in PROGRAMS) >= len(PROGRAMS)
    assert all(bool(program.expected) != program.is_safe for program in PROGRAMS)


def test_every_rule_has_a_program():
    expected = {expectation.rule for program in PROGRAMS for expectation in program.expected}
    assert expected == set(model_rules()) - OUT_OF_REACH


@each_program
def test_expectations_are_true_in_eager_pytorch(program: Program):
    assert disagreements(program, observed(program)) == []


@each_program
def test_findings(program: Program, tmp_path: Path):
    options: dict[str, Any] = {} if program.precision is None else {"precision": program.precision}
    report = tensorproof.check(f"{program.path}:{program.name}", phase=program.phase, witnesses=tmp_path, **options)
    # A line that a loop repeats is one line to the user, and one expectation.
    found = {
        Expectation(finding.location.line or 0 if finding.location else 0, finding.rule.code, finding.phase, str(finding.verdict))
        for finding in report.findings
        if not finding.is_note
    }
    assert sorted(found) == sorted(program.expected)
    for finding in report.confirmed:
        if finding.witness is not None:
            happened, account = runpy.run_path(finding.witness.script)["replay"]()
            assert happened, account
    assert {left.op for left in report.coverage.not_analysed} <= NOT_ANALYSED and not report.coverage.remarks, report.coverage
