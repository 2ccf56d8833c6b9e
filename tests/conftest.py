"""Areas of the suite: each test counts under one, each area has a time that it may take, and the ledger is printed."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

import pytest

#: Seconds that each area may take, over all workers, on two cores.
BUDGETS = {
    "soundness": 500,
    "own operators": 60,
    "torch functions": 120,
    "containment": 800,
    "fuzz": 200,
    "robustness": 120,
    "defects": 60,
    "checking": 60,
    "confirm": 300,
    "meanings": 90,
    "aten movement": 90,
    "torch models": 120,
    "control flow": 120,
    "recurrent": 90,
    "refinement": 300,
    "reading": 60,
    "reports": 60,
    "model map": 60,
    "html report": 120,
    "html pages": 120,
    "notebook": 120,
    "documents": 300,
    "tutorial": 180,
    "report schema": 240,
    "package": 20,
    "formats": 30,
    "ranges": 30,
    "engine": 60,
    "affine": 90,
    "sums": 60,
    "norms": 240,
    "precision": 300,
    "weights": 60,
    "torch programs": 90,
    "idioms": 200,
    "idiom forms": 240,
    "zoo": 180,
    "system tests": 240,
    "low precision": 120,
    "repair": 400,
    "watch": 60,
    "backward rules": 60,
    "aten layers": 150,
    "torch corpus": 240,
    "training phase": 60,
    "fix programs": 90,
    "shape oracles": 700,
    "shape corpus": 120,
    "language server": 90,
    "shapes": 300,
    "compare workers": 120,
    "compare reference": 90,
    "compare catalogue": 60,
    "compare campaign": 250,
    "compare localising": 220,
    "compare search": 90,
    "compare models": 150,
    "tensorflow control flow": 60,
    "framework confirm": 150,
    "fix frameworks": 150,
    "expose": 350,
    "expose search": 150,
    "expose frameworks": 150,
    "expose ranking": 90,
    "expose function": 140,
    "exposed programs": 120,
    "tensorflow corpus": 240,
    "jax programs": 200,
    "keras models": 200,
    "tensorflow files": 120,
    "tensorflow spellings": 150,
    "jax spellings": 150,
    "framework models": 200,
    "architectures": 90,
    "paper": 240,
    "operator cases": 60,
    "integrations": 300,
}

# Tests leave nothing behind in the user's cache.
os.environ["TENSORPROOF_CACHE"] = ""

_spent: dict[str, float] = defaultdict(float)
_grades: dict[str, list[str]] = defaultdict(list)
_forms: dict[str, dict[str, str]] = defaultdict(dict)
_shape_rules: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marker = item.get_closest_marker("area")
        area = str(marker.args[0]) if marker is not None else "unnamed"
        assert area in BUDGETS, f"{item.nodeid}: mark its area, one of {', '.join(BUDGETS)}"
        item.user_properties.append(("area", area))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    area = dict(report.user_properties).get("area", "unnamed")
    _spent[str(area)] += report.duration
    if report.when == "call":
        for key, value in report.user_properties:
            if key == "grade":
                grade, _, label = str(value).partition(" ")
                _grades[grade].append(label)
            if key == "shape rules":
                _shape_rules.append(str(value))
            if key == "form":
                name, exporter, proof = str(value).split("|")
                _forms[name][exporter] = proof


@pytest.hookimpl(hookwrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    yield
    for line in _shape_rules:
        terminalreporter.section("rules of the shape analysis")
        terminalreporter.write_line(line)
    if _grades:
        terminalreporter.section("tightness by operator")
        for grade, labels in sorted(_grades.items()):
            terminalreporter.write_line(f"{grade} ({len(labels)}): {' '.join(sorted(labels))}")
    if _forms:
        terminalreporter.section("idioms by exporter: what proves each form")
        for line in _table(_forms):
            terminalreporter.write_line(line)
    terminalreporter.section("time by area")
    for area, seconds in sorted(_spent.items(), key=lambda pair: -pair[1]):
        budget = BUDGETS.get(area, 0)
        over = "  OVER ITS TIME" if seconds > budget else ""
        terminalreporter.write_line(f"{area:14} {seconds:7.1f} s of {budget:4d} s{over}")


#: What proves a form that is no idiom; and forms that are not proven.
_PLAIN = {"ranges", "unsafe: NUM101"}


def _table(forms: dict[str, dict[str, str]]) -> Iterator[str]:
    """One row per function, one column per exporter; idioms are letters, said below the table."""
    exporters = sorted({exporter for row in forms.values() for exporter in row})
    idioms = sorted({idiom for row in forms.values() for proof in row.values() for idiom in proof.split(", ")} - _PLAIN)
    letters = {idiom: chr(ord("A") + index) for index, idiom in enumerate(idioms)}
    first = max(map(len, forms)) + 2
    yield "".join([" " * first, *(f"{exporter:18}" for exporter in exporters)]).rstrip()
    for name, row in sorted(forms.items()):
        cells = ["".join(letters.get(part, part) for part in row.get(exporter, "-").split(", ")) for exporter in exporters]
        yield "".join([f"{name:{first}}", *(f"{cell:18}" for cell in cells)]).rstrip()
    for idiom, letter in letters.items():
        yield f"{letter} {idiom}"
