"""The training scripts of `benchmarks/exposed`: what the catalogue says of them is so, they run, and their twins differ in the repair."""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.exposed.catalogue import FOLDER, GRIST_BUGS, PROGRAMS, Framework, Program, marked_lines, plain_name, program_of

from tensorproof.expose.search.vulnerable import weaknesses

pytestmark = pytest.mark.area("exposed programs")

STEPS = 3
SIBLINGS = {"digits", "estimator"}
ALLOWED = {"argparse", "itertools", "pathlib", "tempfile", "numpy", *SIBLINGS}
LIBRARIES = {"tensorflow": "tensorflow.compat.v1", "pytorch": "torch"}
PAIRS = [program for program in PROGRAMS if program.fixed]
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*(?:e[+-]?\d+)?|nan|inf)(?![\w.])")

#: Ways in which programs are written, each of which at least one script has, with a word of its source.
WAYS = {
    "evaluation without gradients": r"no_grad\(\)[\s\S]*# (also|defect)",
    "losses read as numbers": r"\.item\(\)",
    "loader with workers": r"num_workers=2",
    "loader without workers": r"DataLoader\(TensorDataset",
    "slices of plain tensors": r"x\[start : start",
    "finished graph": r"\.finalize\(\)",
    "monitored session": r"MonitoredTrainingSession",
    "batches in feed_dict": r"feed_dict=",
    "class with next_batch": r"class[\s\S]*def next_batch",
    "random initial values of variables": r"tf\.Variable\(tf\.truncated_normal",
    "weights without a module": r"W = torch\.zeros\(.*requires_grad=True\)",
    "forward hooks": r"register_forward_hook",
    "optimiser written by hand": r"def step\(self\)",
    "updates written by hand": r"assign_sub",
    "batches of tf.data": r"tf\.data\.Dataset",
    "variables of the first version": r"disable_v2_behavior",
    "noise inside the graph": r"tf\.random_normal\(\(in_units",
}


def scripts() -> list[Path]:
    return sorted(path for path in FOLDER.glob("*.py") if path.name.startswith(("tf_", "torch_")))


def of(framework: Framework) -> list[Program]:
    return [program for program in PROGRAMS if program.framework == framework]


def test_every_script_is_in_the_catalogue() -> None:
    known = [program.path for program in PROGRAMS] + [program.twin for program in PAIRS]
    assert sorted(known) == scripts()


def test_enough_programs() -> None:
    for framework in LIBRARIES:
        programs = frozenset().union(*(program.grist_programs for program in of(framework)))
        assert len(programs) >= 16
        assert sum(program.fixed is not None for program in of(framework)) >= 5
    assert len(frozenset().union(*(program.grist_programs for program in PROGRAMS))) >= 30


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.file)
def test_facts(program: Program) -> None:
    text = program.path.read_text()
    number = re.match(r"(?:tf|torch)_(\d+)_", program.file)
    assert number is not None
    assert program.grist_programs == {int(number[1])}
    documentation = str(ast.get_docstring(ast.parse(text)))
    assert f"GRIST {int(number[1])}" in documentation
    assert "Defect" in documentation
    for bug in program.bugs:
        assert bug in GRIST_BUGS or (re.fullmatch(r"\d+-\w+", bug) and str(program_of(bug)) in GRIST_BUGS)
    lines = marked_lines(program.marked)
    assert program.marked.read_text().count("# defect") == 1
    assert {0, *(defect.mark for defect in program.also)} == set(range(len(lines)))
    for variable in program.ranges:
        assert re.search(rf"\b{variable}(, \w+)? (=|in) ", text)


@pytest.mark.parametrize("framework", list(LIBRARIES))
def test_defects_are_ways_of_failing_that_are_known(framework: Framework) -> None:
    known = {
        (plain_name(name), weakness.rule.code, weakness.phase)
        for name, found in weaknesses("aten" if framework == "pytorch" else framework).items()
        for weakness in found
    }
    expected = {
        (plain_name(defect.operator), defect.rule, defect.phase)
        for program in of(framework)
        for defect in (program.defect, *program.also)
        if defect.rule != "NUM203"
    }
    assert expected <= known


@pytest.mark.parametrize("path", scripts(), ids=lambda path: path.name)
def test_needs_its_framework_alone(path: Path) -> None:
    library = LIBRARIES["tensorflow" if path.name.startswith("tf_") else "pytorch"]
    tree = ast.parse(path.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert any(name == library or name.startswith(f"{library}.") for name in imported)
    assert {name for name in imported if name != library and not name.startswith(f"{library}.")} <= ALLOWED


@pytest.mark.parametrize("way", list(WAYS))
def test_ways_of_writing(way: str) -> None:
    assert any(re.search(WAYS[way], path.read_text()) for path in (*scripts(), *(FOLDER / f"{name}.py" for name in SIBLINGS)))


@pytest.mark.parametrize("program", PAIRS, ids=lambda program: program.file)
def test_twin_differs_in_its_repair(program: Program) -> None:
    assert program.twin is not None
    assert program.path.name in str(ast.get_docstring(ast.parse(program.twin.read_text())))
    assert not marked_lines(program.twin)
    changes = [
        line for line in difflib.ndiff(code(program.path), code(program.twin)) if line.startswith(("+ ", "- ")) and line[2:].strip()
    ]
    assert 2 <= len(changes) <= 8, changes


def code(path: Path) -> list[str]:
    """The lines of a script without its docstring and without marks."""
    text = path.read_text()
    (documentation, *_) = ast.parse(text).body
    return [line.split("  # ")[0] for line in text.splitlines()[documentation.end_lineno :]]


def test_failures_that_are_defects() -> None:
    root = next(program for program in PROGRAMS if program.file == "tf_35_vae_sqrt.py")
    line = root.line(root.defect)
    assert root.is_met_by(str(root.path), line, "SqrtGrad", "backward")
    assert not root.is_met_by(str(root.path), line, "Sqrt", "forward")
    wrapped = next(program for program in PROGRAMS if program.place)
    line = wrapped.line(wrapped.defect)
    assert wrapped.is_met_by(str(wrapped.marked), line, "aten.log.default", "forward")
    assert not wrapped.is_met_by(str(wrapped.path), line, "aten.log.default", "forward")
    assert not wrapped.is_met_by(str(wrapped.marked), line, "aten.exp.default", "forward")
    assert not wrapped.is_met_by(str(wrapped.marked), line + 1, "aten.log.default", "forward")


@pytest.mark.parametrize("framework", list(LIBRARIES))
def test_scripts_run(framework: Framework) -> None:
    """A few steps of every script and twin: no error, finite numbers, the operators at the marked lines, twins that agree."""
    pytest.importorskip("torch" if framework == "pytorch" else "tensorflow")
    programs = of(framework)
    runs = results(framework, [file for program in programs for file in (program.file, program.fixed) if file])
    assert {file: run["error"] for file, run in runs.items() if run["error"]} == {}
    for program in programs:
        run = runs[program.file]
        assert numbers(run["printed"]), program.file
        assert all(number == number and abs(number) < 1e30 for number in numbers(run["printed"])) or program.at_start, run[
            "printed"
        ]
        executed = {(*place.split(":")[:2], plain_name(place.split(":", 2)[2])) for place in run["places"]}
        for defect in (program.defect, *program.also):
            assert (program.marked.name, str(program.line(defect)), plain_name(defect.operator)) in executed, (program.file, defect)
        if program.fixed:
            first, second = (runs[file]["printed"].splitlines()[0] for file in (program.file, program.fixed))
            assert numbers(second) == pytest.approx(numbers(first), rel=0.1), program.fixed


def numbers(printed: str) -> list[float]:
    return [float(text) for text in NUMBER.findall(printed)]


def results(framework: Framework, files: list[str]) -> dict[str, Any]:
    """What `tests.exposed_runs` tells of scripts. Those that switch TensorFlow back to its first version come last: it stays so."""
    files = sorted(files, key=lambda file: "disable_v2_behavior" in (FOLDER / file).read_text())
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [sys.executable, "-m", "tests.exposed_runs", framework, str(STEPS), *files]
    done = subprocess.run(command, cwd=FOLDER.parents[1], env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return {run["file"]: run for run in map(json.loads, done.stdout.splitlines())}
