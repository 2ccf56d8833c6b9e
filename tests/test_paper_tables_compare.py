"""The tables of `make paper` that repeat AUDEE and Pythia: their quick form runs through, and says what it should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.paper.journal import without_seconds
from benchmarks.paper.running import table_of
from benchmarks.paper.table import Json, Section
from benchmarks.paper.tables import audee_levels, pythia

from tensorproof.compare.catalogue import kinds

pytestmark = pytest.mark.area("paper")


@pytest.fixture(scope="module", autouse=True)
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two tables have a network that is trained; tests have no cache of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORPROOF_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def results_of(name: str) -> dict[str, Json]:
    table = table_of(name)
    return {case: json.loads(json.dumps(table.measured(case, "quick"))) for case in table.cases("quick")}


def section_of(name: str, results: dict[str, Json]) -> Section:
    """The section, however the results are ordered; cells are as many as columns."""
    table = table_of(name)
    made = table.section(results, "quick")
    assert made == table.section(dict(reversed(results.items())), "quick")
    assert made.rows and {len(row) for row in made.rows} == {len(made.columns)}
    assert made.paper and made.setup
    return made


def number(made: Section, name: str) -> float:
    value = made.figures[name]
    assert isinstance(value, int | float)
    return value


# Pythia


@pytest.fixture(scope="module")
def by_sensitivity() -> dict[str, Json]:
    return results_of("pythia")


def test_more_context_finds_more_and_tells_less_wrongly(by_sensitivity: dict[str, Json]) -> None:
    totals = pythia.totals(by_sensitivity)
    plain, one_call, full = (totals[name] for name in ("insensitive", "1-call", "full"))
    assert len({total.defects for total in totals.values()}) == 1
    assert len(plain.found) < len(one_call.found) < len(full.found)
    assert set(one_call.found) <= set(full.found)
    assert full.alarms == 0 < plain.alarms
    made = section_of("pythia", by_sensitivity)
    assert number(made, "full recall") > 0.95
    assert any("tuned" in line for line in made.setup)


def test_labels_and_reports_are_counted_one_by_one(by_sensitivity: dict[str, Json]) -> None:
    """Where all labels are taken away, every report is a false alarm; where nothing is reported, every label is missed."""
    result = by_sensitivity["keras: full"]
    programs = result["programs"]
    assert programs["bug"] == programs["fixed"] == 27
    assert len(result["found"]) + len(result["missed"]) >= programs["bug"]
    assert not any(result["false"].values())
    assert set(result["frozen"]) <= {*result["found"], *result["missed"]}
    alarmed = {**result, "found": [], "missed": result["found"], "false": {"bug": [], "fixed": ["a", "b"], "clean": []}}
    total = pythia.Total([alarmed])
    assert (total.precision, total.recall, total.alarms) == (0.0, 0.0, 2)


def test_counts_are_the_same_in_every_run(by_sensitivity: dict[str, Json]) -> None:
    again = table_of("pythia").measured("tf1: full", "quick")
    assert without_seconds(again) == without_seconds(by_sensitivity["tf1: full"])
    assert again["seconds"] > 0


# AUDEE


def test_seeds() -> None:
    results = results_of("audee_seeds")
    made = section_of("audee_seeds", results)
    network = results["LeNet-5"]
    assert network["layers"] == 8 and network["parameters"] > 10_000
    assert min(network["right"].values()) >= 0.9 * network["digits"]
    assert number(made, "digits with another class") == 0
    assert number(made, "keras of AUDEE") == 25
    assert number(made, "keras kinds") == len(kinds("keras"))
    assert results["catalogue"]["dialects"]["keras"]["kinds seen"] == len(kinds("keras"))
    assert any(line.startswith("onnxruntime: ") for line in made.lines)


def test_levels() -> None:
    results = results_of("audee_levels")
    again = table_of("audee_levels").measured(case := f"network: {audee_levels.RUNTIMES}: random layers", "quick")
    assert without_seconds(again) == without_seconds(results[case])
    made = section_of("audee_levels", results)
    (searched,) = [result["searches"] for result in results.values() if "searches" in result]
    assert {run["method"] for run in searched} == {"genetic", "random"}
    assert all(0 < run["evaluations"] <= audee_levels.EVALUATIONS for run in searched)
    assert all(bool(run["found"]) or run["evaluations"] == audee_levels.EVALUATIONS for run in searched)
    assert number(made, "genetic: closest") > 2 * number(made, "random: closest") > 0, "the search comes nearer to a tie"
    assert number(made, "onnx, plan: findings") > number(made, "onnx, random layers: findings")
    assert number(made, "onnx, plan: findings") <= number(made, "onnx, plan: discrepancies")


def test_findings() -> None:
    made = section_of("audee_findings", results_of("audee_findings"))
    assert number(made, "tests") == 60
    assert number(made, "errors") == 0
    assert 0 < number(made, "findings") <= number(made, "discrepancies")
    assert sum(int(number(made, kind)) for kind in ("defect", "difference", "crash", "illegal")) == number(made, "findings")
    told = [line for line in made.lines if line.startswith("onnx-reference, ")]
    assert any("LRN" in line for line in told), "its loop over channels runs over the batch"


def test_one_finding_of_two_cases_counts_once() -> None:
    table = table_of("audee_findings")
    finding = {
        "signature": "s",
        "backend": "openvino",
        "kind": "defect",
        "layer": "Clip",
        "parameters": {},
        "symptom": "x",
        "test": 3,
    }
    facts = {
        "tests": 100,
        "runs": {"openvino": 100},
        "discrepancies": 2,
        "not reproduced": ["s", "t"],
        "errors": [],
        "seconds": 1.0,
    }
    results = {case: {**facts, "findings": [finding]} for case in table.cases("full")[-2:]}
    figures = table.section(results, "full").figures
    assert (figures["tests"], figures["findings"], figures["defect"], figures["not reproduced"]) == (200, 1, 1, 1)


def test_localisation() -> None:
    made = section_of("audee_localisation", results_of("audee_localisation"))
    faulty = number(made, "faulty")
    assert (faulty, number(made, "healthy")) == (6, 2)
    assert number(made, "tensorproof: first") > number(made, "AUDEE: first") > number(made, "random: first")
    assert number(made, "tensorproof: exact") > number(made, "AUDEE: exact")
    assert number(made, "tensorproof: both") >= number(made, "AUDEE: both") > number(made, "CRADLE: both")
    assert number(made, "tensorproof: wrong") == number(made, "tensorproof: blamed") == 0


def test_full_cases_are_small_and_cover_each_network_once() -> None:
    localised = [case.split()[1::2] for case in table_of("audee_localisation").cases("full")]
    assert [int(number) for pair in localised for number in pair] == [0, *(n for n in range(50, 300, 50) for _ in "ab"), 300]
    for dialect in ("keras", "onnx"):
        ends = [case.split()[1::2] for case in table_of("audee_findings").cases("full") if case.startswith(dialect)]
        assert [first for first, _ in ends] == ["0", *(last for _, last in ends[:-1])]


@pytest.mark.parametrize("name", [path.stem for path in sorted(Path(pythia.__file__).parent.glob("audee_*.py"))])
def test_quick_cases_are_few(name: str) -> None:
    table = table_of(name)
    assert 0 < len(table.cases("quick")) < len(table.cases("full"))
