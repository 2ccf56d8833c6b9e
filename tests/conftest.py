"""Areas of the suite: each test counts under one, each area has a time that it may take, and the ledger is printed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

#: Seconds that each area may take, over all workers, on two cores.
BUDGETS = {
    "soundness": 500,
    "containment": 800,
    "fuzz": 200,
    "robustness": 120,
    "defects": 60,
    "checking": 60,
    "control flow": 60,
    "reading": 60,
    "reports": 60,
    "documents": 60,
    "package": 20,
    "formats": 30,
    "ranges": 30,
    "sums": 60,
    "norms": 120,
    "precision": 300,
    "idioms": 60,
    "idiom forms": 240,
}

_spent: dict[str, float] = defaultdict(float)
_grades: dict[str, list[str]] = defaultdict(list)


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


@pytest.hookimpl(hookwrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    yield
    if _grades:
        terminalreporter.section("tightness by operator")
        for grade, labels in sorted(_grades.items()):
            terminalreporter.write_line(f"{grade} ({len(labels)}): {' '.join(sorted(labels))}")
    terminalreporter.section("time by area")
    for area, seconds in sorted(_spent.items(), key=lambda pair: -pair[1]):
        budget = BUDGETS.get(area, 0)
        over = "  OVER ITS TIME" if seconds > budget else ""
        terminalreporter.write_line(f"{area:14} {seconds:7.1f} s of {budget:4d} s{over}")
