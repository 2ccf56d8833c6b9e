"""Oracles and campaigns on real backend processes: what misbehaves is found, what does not is left alone, and a kill loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensorproof.cli.fuzz import parse_duration
from tensorproof.compare.backends.backend import Failure
from tensorproof.compare.fuzzing.campaign import CampaignOptions, CampaignResult, run_campaign
from tensorproof.compare.fuzzing.campaign_page import to_html
from tensorproof.compare.fuzzing.discrepancy import Discrepancy, backend_of
from tensorproof.compare.fuzzing.finding import CampaignFinding, Explanation, array_from_json, array_to_json
from tensorproof.compare.fuzzing.journal import Journal
from tensorproof.compare.fuzzing.known_issues import mark_known, read_known_issues
from tensorproof.compare.fuzzing.oracles import examination, examine, recheck
from tensorproof.compare.fuzzing.referee import Referee
from tensorproof.compare.fuzzing.refusals import is_internal, is_unsupported
from tensorproof.compare.fuzzing.reporting import to_json, to_report, to_text
from tensorproof.compare.fuzzing.tasks import explain
from tensorproof.compare.spec import InputSpec, LayerSpec, NetworkSpec, TestSpec
from tensorproof.compare.workers.fleet import Fleet
from tensorproof.errors import ConfigurationError
from tensorproof.files import write_text
from tensorproof.report import find_format
from tests.browser import INSTALL, chromium, is_installed
from tests.commands import interruptible, tensorproof

pytestmark = pytest.mark.area("compare campaign")

ROOT = Path(__file__).resolve().parents[1]
NUMPY = backend_of("keras:numpy")
TORCH = backend_of("keras:torch")
MISBEHAVING = backend_of("keras:numpy?with=tests.misbehaving_layers")


def single(kind: str, shape: tuple[int, ...] = (2, 6), phase: str = "inference", **parameters: object) -> TestSpec:
    layers = (LayerSpec("layer", kind, parameters, ("x",)),)
    return TestSpec(NetworkSpec("keras", (InputSpec("x", shape),), layers, ("layer",)), seed=1, phase=phase)  # type: ignore[arg-type]


class Listed:
    """A plan that goes round a list of tests, each time with another seed."""

    def __init__(self, *tests: TestSpec) -> None:
        self.tests = tests

    def __getitem__(self, number: int) -> TestSpec:
        return replace(self.tests[number % len(self.tests)], seed=number)


#: What a campaign is tried on: two faults, two layers without one.
PLAN = Listed(
    single("Activation", activation="tanh"),
    single("ReLU", max_value=1.5, threshold=0.5),
    single("LeakyReLU", negative_slope=0.01),
    single("Dense", units=3),
)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet() as fleet:
        yield fleet


def found_by(fleet: Fleet, test: TestSpec) -> list[tuple[str, str]]:
    found = examination(fleet, test, [NUMPY, MISBEHAVING], effort="full").discrepancies
    assert all(entry.culprit == MISBEHAVING for entry in found)
    return [(entry.oracle, entry.symptom) for entry in found]


# -- oracles ----------------------------------------------------------------------------------------------------------


def test_a_hanging_process_is_killed_and_found() -> None:
    """The limit of a first request includes the import of the framework: hanging is tried on a process that has started."""
    with Fleet(time_limit=3.0) as impatient:
        assert impatient.run(MISBEHAVING, single("Activation", activation="tanh")).failure is None
        found = examination(impatient, single("Softmax"), [MISBEHAVING])
        assert [(entry.oracle, entry.symptom, entry.culprit) for entry in found.discrepancies] == [("death", "hangs", MISBEHAVING)]
        assert found.deaths == impatient.deaths == 1


def test_a_dying_process_is_survived_and_found(fleet: Fleet) -> None:
    before = fleet.deaths
    found = examination(fleet, single("ELU"), [NUMPY, MISBEHAVING])
    assert [(entry.oracle, entry.symptom) for entry in found.discrepancies] == [
        ("death", "dies: the process was stopped by SIGKILL")
    ]
    assert found.deaths == 1 and fleet.deaths == before + 1
    assert not found_by(fleet, single("Activation", activation="tanh"))


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        (single("LeakyReLU"), ("nan", "NaN for a number")),
        (single("Flatten", (2, 3, 2)), ("dtype", "float64 for float32")),
        (single("Permute", (2, 3, 4), dims=[2, 1]), ("shape", "not the promised shape")),
        (single("ReLU", max_value=1.5), ("value", "other values")),
        (single("UnitNormalization"), ("repeat", "two runs differ")),
    ],
    ids=lambda value: value.layers[0].kind if isinstance(value, TestSpec) else value[0],
)
def test_a_misbehaving_layer_is_found(fleet: Fleet, test: TestSpec, expected: tuple[str, str]) -> None:
    found = found_by(fleet, test)
    assert expected in found
    # A shape other than promised is also another one than the reference's; nothing else is noticed twice.
    assert {oracle for oracle, _ in found} == {expected[0]}


def test_noise_of_two_units_is_no_finding(fleet: Fleet) -> None:
    for seed in range(12):
        assert not found_by(fleet, replace(single("Dense", (4, 9), units=5), seed=seed))


def test_what_behaves_is_left_alone_in_every_mode(fleet: Fleet) -> None:
    for test in (single("Dense", units=3), single("LSTM", (2, 3, 4), units=3, return_state=True), single("LayerNormalization")):
        found = examination(fleet, test, [NUMPY], effort="full")
        assert not found.discrepancies
        # Eager, saved and run twice; Keras on NumPy has nothing to compile with.
        assert found.runs == {"keras:numpy": 3} and found.unavailable == {"keras:numpy": 1}


def test_random_layers_in_training_are_compared_by_shape_and_type_alone(fleet: Fleet) -> None:
    other = backend_of("keras:numpy?threads=2")
    test = single("Dropout", phase="training", rate=0.5)
    runs = [fleet.run(backend, replace(test, seed=seed)).arrays["layer"] for backend, seed in ((NUMPY, 1), (NUMPY, 2))]
    assert not np.array_equal(*runs)
    assert not examination(fleet, test, [NUMPY, other], effort="full").discrepancies


def test_internal_errors_are_found_even_if_all_fail(fleet: Fleet) -> None:
    test = single("RepeatVector", n=2)
    found = examine(fleet, test, [MISBEHAVING])
    assert [(entry.oracle, entry.symptom) for entry in found] == [
        ("exception", "fails inside: NameError: name '...' is not defined")
    ]
    assert found[0].other is None and found[0].layer == "layer"
    assert examine(fleet, test, [NUMPY, MISBEHAVING])[0].other == NUMPY


def test_refusing_illegal_values_is_agreement_and_accepting_them_alone_is_not(fleet: Fleet) -> None:
    assert Referee(single("PReLU", shared_axes="all")).illegal == ("layer.shared_axes",)
    for kind, parameters in (("ReLU", {"max_value": -1.0}), ("Dense", {"units": -1})):
        assert not found_by(fleet, single(kind, **parameters))
    found = examine(fleet, single("PReLU", shared_axes="all"), [NUMPY, MISBEHAVING])
    assert [(entry.culprit, entry.symptom) for entry in found] == [(MISBEHAVING, "accepts an illegal value that others refuse")]


def test_errors_are_told_apart_by_what_they_say() -> None:
    assert is_internal(Failure("call", "UnboundLocalError", "")) and is_internal(Failure("call", "RuntimeError", "INTERNAL ASSERT"))
    assert not is_internal(Failure("build", "ValueError", "`units` must be positive"))
    assert is_unsupported(Failure("call", "RuntimeError", "'conv' not implemented for 'Half'"))
    assert not is_unsupported(Failure("process", "death", "not supported"))


def test_a_test_is_always_examined_in_the_same_way(fleet: Fleet) -> None:
    shares = []
    for seed in range(40):
        test = replace(single("Activation", activation="tanh"), seed=seed)
        first, second = (examination(fleet, test, [NUMPY]).runs for _ in range(2))
        assert first == second
        shares.append(first["keras:numpy"])
    assert set(shares) >= {1, 2} and sum(shares) < 2 * len(shares)


# -- explanations -----------------------------------------------------------------------------------------------------


def test_an_explanation_has_the_parameter_at_fault_and_survives_json(fleet: Fleet) -> None:
    test = single("ReLU", max_value=1.5, threshold=0.5)
    (entry,) = examine(fleet, test, [NUMPY, MISBEHAVING])
    found = explain(fleet, test, entry, [NUMPY, MISBEHAVING])
    assert (found.kind, found.parameters) == ("ReLU", ("max_value",))
    assert recheck(fleet, found.test, entry, [NUMPY, MISBEHAVING], found.arrays) is not None
    assert recheck(fleet, single("ReLU", threshold=0.5), entry, [NUMPY, MISBEHAVING]) is None
    again = Explanation.from_json(json.loads(json.dumps(found.to_json())))
    assert again.signature == found.signature and again.test == found.test
    given = np.array([1.5, np.nan, -np.inf], np.float32)
    assert array_from_json(array_to_json(given)).tobytes() == given.tobytes()


# -- campaigns --------------------------------------------------------------------------------------------------------


def options(folder: Path, **changes: object) -> CampaignOptions:
    given = CampaignOptions((NUMPY, MISBEHAVING), tests=8, folder=folder, jobs=1, time_limit=20.0)
    return replace(given, **changes)  # type: ignore[arg-type]


def summary(result: CampaignResult) -> list[tuple[int, str]]:
    return [(finding.number, finding.signature) for finding in result.findings]


def lines(folder: Path, kind: str) -> list[dict[str, object]]:
    entries = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    return [entry for entry in entries if entry["type"] == kind]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CampaignResult]:
    folder = tmp_path_factory.mktemp("campaign")
    return folder, run_campaign(options(folder), PLAN)


def test_a_campaign_finds_each_fault_once_with_a_script(finished: tuple[Path, CampaignResult]) -> None:
    folder, result = finished
    assert not result.errors and not result.not_reproduced
    assert result.tests == 8 and result.deaths == 0
    expected = [
        (1, "value | keras:numpy | ReLU(max_value) | inference | other values"),
        (2, "nan | keras:numpy | LeakyReLU() | inference | NaN for a number"),
    ]
    assert summary(result) == expected
    for finding in result.findings:
        text = Path(finding.script).read_text()
        assert "tensorproof" not in text.replace("tests.misbehaving_layers", "") and finding.similar == 2
        assert f"keras {result.versions['keras']}" in text and "the defect shows" in finding.output
        assert (folder / "findings") in Path(finding.script).parents
    assert len(lines(folder, "test")) == 8 and len(lines(folder, "script")) == 2


def test_a_campaign_survives_dying_processes(tmp_path: Path) -> None:
    plan = Listed(single("ELU"), single("Dense", units=2))
    result = run_campaign(options(tmp_path, tests=4), plan)
    assert result.tests == 4 and not result.errors
    assert summary(result) == [(0, "death | keras:numpy | ELU() | inference | dies: the process was stopped by SIGKILL")]
    (test,) = (entry for entry in lines(tmp_path, "test") if entry["number"] == 2)
    assert test["deaths"] == 1 and result.deaths > 2


def test_scripts_reproduce_by_themselves_and_only_where_the_defect_is(
    finished: tuple[Path, CampaignResult], tmp_path: Path
) -> None:
    script = next(Path(f.script) for f in finished[1].findings if f.discrepancy.oracle == "value")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr
    assert "the defect shows" in ran.stdout and ran.stdout.count("float32") == 2
    healthy = tmp_path / "healthy.py"
    healthy.write_text(script.read_text().replace("?with=tests.misbehaving_layers", ""))
    assert subprocess.run([sys.executable, healthy], env=environment, capture_output=True).returncode == 0


def test_reports_of_a_campaign(finished: tuple[Path, CampaignResult]) -> None:
    result = finished[1]
    text = to_text(result, ["all of it"])
    assert "CMP211 defect  values-differ" in text and "ReLU(max_value=1.5)" in text
    assert "2 defects (from 4 discrepancies)" in text and "0 process deaths" in text and "all of it" in text
    data = json.loads(to_json(result))
    assert [entry["rule"] for entry in data["findings"]] == ["CMP211", "CMP205"]
    assert data["findings"][0]["parameters"] == {"max_value": 1.5} and data["deaths"] == result.deaths
    for name in ("sarif", "github", "junit", "gitlab", "markdown"):
        rendered = find_format(name)([to_report(result)], source_root=Path.cwd())
        assert all(code in rendered for code in ("CMP205", "CMP211"))


def test_the_page_of_a_campaign(finished: tuple[Path, CampaignResult], tmp_path: Path) -> None:
    """Both sides stand beside each other, the script can be copied as it is, and nothing that a framework says is markup."""
    if not is_installed():
        pytest.fail(INSTALL, pytrace=False)
    hostile = "</script><img src=x onerror=document.title='hacked'>"
    result = finished[1]
    first = replace(result.findings[0], versions={hostile: hostile}, output=f"{result.findings[0].output}\n  {hostile}")
    page = tmp_path / "campaign.html"
    write_text(page, to_html(replace(result, findings=(first, *result.findings[1:]), errors=(hostile,)), ["all of it", hostile]))
    with chromium() as browser:
        browser.open(page)
        browser.frame()
        assert browser.text(".tile").split("\n") == ["2", "defects", "8", "tests"]
        assert "ReLU(max_value=1.5)" in browser.text(".message") and "CMP205" in browser.text(".cards summary")
        assert browser.js("document.querySelectorAll('.sides > div').length") == 2
        wrong, right = browser.js(
            "[...document.querySelectorAll('.sides > div')].map((side) => side.querySelectorAll('mark').length)"
        )
        assert wrong == right > 0, "numbers that differ are marked on both sides"
        shown = browser.js("[...document.querySelectorAll('.script .line')].map((line) => line.textContent.trimEnd()).join('\\n')")
        assert shown.split() == Path(first.script).read_text().split()
        browser.command("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        browser.click(".script .copy")
        assert browser.text(".script .copy") == "Copied"
        assert hostile in browser.text("main") and "hacked" not in browser.driver.title
        assert browser.js("document.querySelectorAll('img').length") == 0
        errors, requests = browser.log()
        assert errors == [] and requests == [page.as_uri()]


def test_known_issues_hide_findings_until_their_version(finished: tuple[Path, CampaignResult], tmp_path: Path) -> None:
    findings = finished[1].findings
    path = tmp_path / "known.toml"

    def marked(text: str) -> list[tuple[str | None, str | None]]:
        path.write_text(text)
        return [(finding.known, finding.returned) for finding in mark_known(findings, read_known_issues(path))]

    issue = '[[issue]]\nlayer = "ReLU"\nsymptom = "other*"\nparameters = ["max_value"]\nnote = "limits"\n'
    none = (None, None)
    assert marked(issue) == [("limits", None), none]
    assert marked(issue + 'until = { keras = "99.1" }\n') == [("limits", None), none]
    assert marked(issue + 'until = { keras = "3.4" }\n') == [(None, "limits (to be mended in keras 3.4)"), none]
    assert marked(issue.replace("max_value", "threshold")) == [none, none]
    hidden = replace(finished[1], findings=mark_known(findings, read_known_issues(_written(path, issue))))
    assert len(hidden.shown) == 1 and "1 defect; 1 known" in to_text(hidden)
    # An issue for which there is no finding adds none.
    assert marked('[[issue]]\nlayer = "Dense"\n') == [none, none]
    for wrong in ("issue = 3", "[[issue]]\n", '[[issue]]\ncolour = "red"\n', '[[issue]]\nlayer = "a"\nuntil = "3"\n', "["):
        with pytest.raises(ConfigurationError, match=r"known\.toml"):
            read_known_issues(_written(path, wrong))


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def wait_for_tests(journal: Path, count: int) -> None:
    deadline = time.monotonic() + 200
    while not (journal.exists() and journal.read_bytes().count(b'"type":"test"') >= count):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_campaign_that_is_killed_is_resumed_without_loss_or_repetition(
    finished: tuple[Path, CampaignResult], tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    code = f"""
from pathlib import Path
from typing import Any
from tensorproof.compare.fuzzing.campaign import run_campaign
from tests.test_compare_campaign import PLAN, options
run_campaign(options(Path({str(folder)!r})), PLAN)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment)
    journal = folder / "journal.jsonl"
    wait_for_tests(journal, 4)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = lines(folder, "test")
    assert 4 <= len(before) < 8
    with journal.open("ab") as file:
        file.write(b'{"type":"test","number":7,"key":"ha')
    resumed = run_campaign(options(folder, resume=True), PLAN)
    assert summary(resumed) == summary(finished[1])
    after = lines(folder, "test")
    assert after[: len(before)] == before
    assert sorted(entry["number"] for entry in after) == list(range(8))  # type: ignore[type-var]
    places = [(entry["number"], entry["place"]) for entry in lines(folder, "explained")]
    assert len(set(places)) == len(places)
    with pytest.raises(ConfigurationError, match="add --resume"):
        run_campaign(options(folder), PLAN)
    with pytest.raises(ConfigurationError, match="seed 0, now 5"):
        run_campaign(options(folder, resume=True, seed=5), PLAN)


def test_a_time_limit_cuts_the_same_sequence_short(finished: tuple[Path, CampaignResult], tmp_path: Path) -> None:
    """The budget is gone when the backends have started: those that were begun then are a beginning of the whole."""
    result = run_campaign(options(tmp_path, tests=None, budget=6.0), PLAN)
    assert result.numbers == tuple(range(result.tests))
    whole = {entry["number"]: entry["discrepancies"] for entry in lines(finished[0], "test")}
    for entry in lines(tmp_path, "test"):
        assert whole.get(entry["number"], entry["discrepancies"]) == entry["discrepancies"]


def test_findings_that_do_not_show_again_are_dropped_and_counted(tmp_path: Path) -> None:
    """What is imported first plants its fault in tensorproof's own processes alone, so that the script cannot show it."""
    (tmp_path / "only_here.py").write_text("import sys\nif 'tensorproof' in sys.modules:\n    import tests.misbehaving_layers\n")
    away = backend_of(f"keras:numpy?with={tmp_path / 'only_here.py'}")
    plan = Listed(single("ReLU", max_value=1.5))
    result = run_campaign(options(tmp_path / "out", backends=(NUMPY, away), tests=2), plan)
    assert not result.findings and not result.errors
    assert result.not_reproduced == ("value | keras:numpy | ReLU(max_value) | inference | other values",)
    assert "1 not reproduced" in to_text(result)


def test_ray_and_a_pool_come_to_the_same(finished: tuple[Path, CampaignResult], tmp_path: Path) -> None:
    result = run_campaign(options(tmp_path, engine="ray", jobs=2), PLAN)
    assert not result.errors
    assert summary(result) == summary(finished[1])

    def tests(folder: Path) -> dict[object, object]:
        return {entry["number"]: (entry["key"], entry["discrepancies"]) for entry in lines(folder, "test")}

    assert tests(tmp_path) == tests(finished[0])


def test_a_half_written_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path, resume=False) as journal:
        journal.write({"type": "test", "number": 0})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"te')
    with Journal(path, resume=True) as journal:
        assert journal.entries == [{"type": "test", "number": 0}]
        journal.write({"type": "test", "number": 1})
    assert path.read_bytes() == whole + b'{"type":"test","number":1}\n'
    path.write_bytes(b"not JSON\n" + whole)
    with pytest.raises(ConfigurationError, match=r"jsonl:1"):
        Journal(path, resume=True)
    with pytest.raises(ConfigurationError, match="no campaign"):
        Journal(tmp_path / "none.jsonl", resume=True)


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_runs_resumes_and_refuses_what_makes_no_sense(tmp_path: Path) -> None:
    out = tmp_path / "out"
    chosen = ("fuzz", "--backend", "onnxruntime,onnx-reference", "--layer", "Relu", "--jobs", 1, "--out", out)
    result = tensorproof(*chosen, "--tests", 3, "--format", "json")
    assert result.code == 0, result.err
    data = json.loads(result.out)
    assert data["tests"] == 3 and data["findings"] == [] and data["runs"]["onnxruntime"] >= 3
    assert data["coverage"]["dialects"]["onnx"]["layers"]["Relu"]["tests"] == 3
    again = tensorproof(*chosen, "--tests", 5, "--resume")
    assert again.code == 0 and "findings  none" in again.out and "coverage  5 tests" in again.out
    assert [entry["number"] for entry in lines(out, "test")] == list(range(5))
    for wrong in (["--budget", "soon"], ["--layer", "Nothing"], ["--engine", "moon"], ["--backend", "abacus"], ["--tests", 3]):
        assert tensorproof(*chosen, *wrong).code == 2


def test_an_interrupt_ends_a_campaign_with_its_journal_complete(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tensorproof", "fuzz", "--tests", "5000", "--jobs", "1", "--layer", "Relu", "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = interruptible([*command, "--backend", "onnxruntime"], cwd=ROOT, env=environment, **pipes)
    wait_for_tests(out / "journal.jsonl", 3)
    process.send_signal(signal.SIGINT)
    printed, complaint = process.communicate(timeout=60)
    assert process.returncode == 2 and "interrupted; --resume goes on with it" in complaint
    done = [entry["number"] for entry in lines(out, "test")]
    assert done == list(range(len(done))) and f"{len(done)} in" in printed
    assert (out / "journal.jsonl").read_bytes().endswith(b"}\n")


def test_durations() -> None:
    assert [parse_duration(text) for text in ("90", "90s", "10m", "1h30m", "1.5m")] == [90, 90, 600, 5400, 90]
    for wrong in ("", "soon", "10 m", "m", "0", "-3s"):
        with pytest.raises(ConfigurationError, match="--budget"):
            parse_duration(wrong)


# -- real findings ----------------------------------------------------------------------------------------------------


def test_a_real_refusal_is_found_and_its_script_reproduces(tmp_path: Path) -> None:
    """Keras on torch normalises over the last axes only; TensorFlow over any. The second test has nothing to find."""
    plan = Listed(single("LayerNormalization", (2, 4, 5), axis=1, epsilon=0.01), single("Dense", units=2))
    backends = (TORCH, backend_of("keras:tensorflow"))
    result = run_campaign(options(tmp_path, backends=backends, tests=2, time_limit=60.0), plan)
    assert not result.errors and result.runs.keys() == {"keras:torch", "keras:tensorflow"}
    (finding,) = result.findings
    assert (finding.discrepancy.oracle, finding.discrepancy.culprit, finding.kind) == ("exception", TORCH, "defect")
    assert finding.arguments == {"axis": 1} and finding.versions.keys() == {"keras", "torch", "tensorflow"}


def test_a_signature_does_not_depend_on_the_numbers() -> None:
    entry = Discrepancy("value", TORCH, None, "other values", "layer", "1 against 2")
    first = Explanation(entry, "Dense", ("units", "activation"), single("Dense", units=3))
    second = Explanation(replace(entry, detail="3 against 4"), "Dense", ("activation", "units"), single("Dense", units=4))
    assert first.signature == second.signature
    finding = CampaignFinding(0, first, "", "", {})
    assert str(finding) == "keras:torch: Dense(units=3): other values" and finding.kind == "defect"
