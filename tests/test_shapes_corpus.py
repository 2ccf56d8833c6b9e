"""The corpus of programs with known shape defects: found at the right line, and nothing else said.

Programs are found by glob: `NAME.py` beside `NAME.expected`, one `LINE CODE` per finding. Every label was checked by a run
(`python -m tests.shape_labels`). Programs that `FROZEN` lists were written before the rules that they exercise.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import pytest

from tensorproof.shapes.analysis import analyse_source
from tests.shape_labels import FIXTURES, read_findings, run_labels

pytestmark = pytest.mark.area("shape corpus")

SHAPES = FIXTURES / "shapes"
PROGRAMS = sorted(SHAPES.glob("*/*.py"))
FROZEN = SHAPES / "FROZEN"
RECALL = 0.95


def _name(program: Path) -> str:
    return program.relative_to(SHAPES).with_suffix("").as_posix()


@cache
def _found(program: Path) -> frozenset[tuple[int, str]]:
    analysis = analyse_source(program.read_text(encoding="utf-8"), str(program))
    assert not analysis.statistics.rule_errors
    return frozenset((problem.place.line, problem.rule.code) for problem in analysis.problems)


@cache
def _wanted(program: Path) -> frozenset[tuple[int, str]]:
    return frozenset((finding.line, finding.code) for finding in read_findings(program))


@pytest.mark.parametrize("program", PROGRAMS, ids=_name)
def test_nothing_is_reported_that_is_not_a_defect(program: Path) -> None:
    assert _found(program) <= _wanted(program)


def test_defects_are_found_at_their_lines() -> None:
    wanted = [(program, finding) for program in PROGRAMS for finding in _wanted(program)]
    missed = [f"{_name(program)}:{line} {code}" for program, (line, code) in wanted if (line, code) not in _found(program)]
    print(f"found {len(wanted) - len(missed)} of {len(wanted)} defects in {len(PROGRAMS)} programs; missed: {', '.join(missed)}")
    assert len(missed) <= (1 - RECALL) * len(wanted), missed


def test_the_corpus_is_as_large_as_it_claims() -> None:
    buggy = [program for program in PROGRAMS if program.stem.endswith("_bug")]
    unpaired = [p.stem for p in buggy if not p.with_name(p.name.replace("_bug.py", "_fixed.py")).exists()]
    clean = [program for program in PROGRAMS if program.stem.startswith("clean_")]
    lengths = [len(program.read_text(encoding="utf-8").splitlines()) for program in clean]
    assert not unpaired
    assert len(buggy) >= 80
    assert len(clean) >= 30
    assert min(lengths) >= 50
    assert {program.parent.name for program in buggy} == {"torch", "keras", "tf1", "tf2", "numpy", "jax"}


def test_frozen_programs_are_as_they_were_before_the_rules() -> None:
    frozen = dict(reversed(line.split("  ", 1)) for line in FROZEN.read_text(encoding="utf-8").splitlines())
    changed = [name for name, digest in frozen.items() if hashlib.sha256((SHAPES / name).read_bytes()).hexdigest() != digest]
    assert not changed
    buggy = {_name(program) for program in PROGRAMS if program.stem.endswith("_bug")}
    assert 2 * sum(f"{name}.py" in frozen for name in buggy) >= len(buggy)


@pytest.mark.parametrize("framework", ["torch", "numpy", "jax", "keras", "tf1", "tf2"])
@pytest.mark.long
def test_labels_are_what_a_run_shows(framework: str) -> None:
    """Minutes: every program is run in its framework."""
    wrong = [f"{outcome}" for outcome in run_labels(framework) if outcome.mismatch is not None]
    assert not wrong
