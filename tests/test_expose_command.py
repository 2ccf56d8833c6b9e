"""`tensorproof expose`: programs are run, driven into their failures, replayed, and reported; whatever a program does, it is said."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import tensorproof
from tensorproof.errors import AssumptionError, ConfigurationError, SourceError
from tensorproof.expose import workplace
from tensorproof.expose.events import Failure
from tensorproof.expose.host import Host, OutOfTime
from tensorproof.expose.imports import frameworks_of
from tensorproof.expose.outcome import Journal, Outcome
from tensorproof.expose.replays.recipe import Recipe, compact
from tensorproof.expose.replays.shrinking import made_smaller
from tensorproof.expose.replays.witness import replayed
from tensorproof.expose.running import INTERRUPTED, Progress, exposed
from tensorproof.expose.settings import Settings
from tensorproof.files import write_text
from tensorproof.findings import Finding, Report, Verdict, Witness
from tensorproof.report import find_format
from tests import exposed_programs as programs
from tests.browser import INSTALL, chromium, is_installed
from tests.commands import interruptible
from tests.commands import tensorproof as command
from tests.exposed_programs import failing_line, written

pytestmark = pytest.mark.area("expose")


def found(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


def replay(finding: Finding, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The replay of a finding in a fresh process."""
    assert finding.witness is not None
    words = [sys.executable, finding.witness.script, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


# -- programs that fail --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A program that trains on tensors of its own."""
    folder = tmp_path_factory.mktemp("tensors")
    return exposed(written(folder, programs.TENSORS), runs=1, witnesses=folder / "witnesses", log=folder / "log.txt")


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A program that is fed by a DataLoader."""
    folder = tmp_path_factory.mktemp("loader")
    options = {"runs": 1, "seed": 1, "iterations": 30, "witnesses": folder / "witnesses"}
    return exposed(written(folder, programs.LOADER), ["0"], **options)


def test_plain_tensors(tensors: Report) -> None:
    finding = found(tensors)
    assert (finding.rule.code, finding.op, finding.verdict, finding.phase) == ("NUM101", "aten.log", Verdict.CONFIRMED, "forward")
    assert finding.location is not None and finding.location.line == failing_line(programs.TENSORS)
    assert finding.location.column == 11
    assert finding.reached == (0.0, 0.0)
    assert finding.reaches == "loss"
    assert "in step 4 of a run with seed 0" in finding.message
    assert "w (weight0) in [" in finding.message


def test_the_report_says_what_was_searched_and_proves_nothing(tensors: Report) -> None:
    assert tensors.assumptions["inputs"]["data:train.py:9:0 (x)"] == {"range": [1.0, 6.0], "source": "observed"}
    names = [suspect["name"] for suspect in tensors.assumptions["suspects"]]
    assert names == ["train.py:10:11:log:NUM101.0", "train.py:11:10:log:NUM101.0"]
    assert (tensors.coverage.nodes, tensors.coverage.checked) == (2, 2)
    assert not tensors.coverage.complete
    assert tensors.proven_safe == ()
    assert tensors.fails("confirmed")


def test_every_format_shows_it(tensors: Report) -> None:
    line = failing_line(programs.TENSORS)
    root = Path(tensors.model).parent
    assert f"train.py:{line}" in find_format("terminal")([tensors], source_root=root)
    assert f"file=train.py,line={line},col=11" in find_format("github")([tensors], source_root=root)
    (result,) = json.loads(find_format("sarif")([tensors], source_root=root))["runs"][0]["results"]
    assert result["ruleId"] == "NUM101" and result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": line, "startColumn": 11}
    suite = ElementTree.fromstring(find_format("junit")([tensors], source_root=root))
    assert suite.get("failures") == "1"
    (entry,) = json.loads(find_format("json")([tensors]))["findings"]
    assert entry["replay"].endswith(".py") and entry["location"]["line"] == line


def test_the_page_says_what_was_seen_and_claims_no_bound(tensors: Report, tmp_path: Path) -> None:
    """A search has neither bounds nor proofs: the page shows the line, what runs reached, the input, and how to replay it."""
    if not is_installed():
        pytest.fail(INSTALL, pytrace=False)
    finding, page = found(tensors), tmp_path / "exposed.html"
    assert finding.location is not None and finding.location.file is not None
    write_text(page, find_format("html")([tensors], source_root=Path(finding.location.file).parent))
    with chromium() as browser:
        browser.open(page)
        browser.frame()
        told = browser.text(".card-body")
        assert "reached by runs" in told and "bound" not in told.split("The input that fails")[0].split("\n")
        assert browser.js("document.querySelectorAll('svg.chart').length") == 0
        assert "observed in runs" in browser.text(".sheets") and "proven safe" not in browser.text(".tiles")
        assert browser.text(".tile:first-child").split("\n")[-1].endswith("finding"), "one finding is no findings"
        assert browser.js("document.querySelector('.meter').classList.contains('seen')")
        assert "log" in browser.text(".source .meant") and "replay the failure" in told
        errors, requests = browser.log()
        assert errors == [] and requests == [page.as_uri()]


def test_the_replay_fails_at_the_line_and_passes_when_it_is_repaired(tensors: Report, tmp_path: Path) -> None:
    finding = found(tensors)
    ended = replay(finding)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert f"the failure is there, at train.py:{failing_line(programs.TENSORS)}: aten.log" in ended.stdout
    # The line has moved, and nothing else has changed.
    moved = written(tmp_path, "# A comment.\n\n" + programs.TENSORS, "train.py")
    assert replay(finding, "--program", moved).returncode == 1
    guarded = programs.TENSORS.replace("torch.log(1 - p)", "torch.log((1 - p).clamp(min=1e-7))")
    ended = replay(finding, "--program", written(tmp_path, guarded, "train.py"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "did not fail" in ended.stdout


def test_a_replay_of_another_program_says_so(tensors: Report, tmp_path: Path) -> None:
    other = written(tmp_path, "import torch\ntorch.ones(3).sum()\n", "train.py")
    ended = replay(found(tensors), "--program", other)
    assert ended.returncode == 2
    assert "it did not ask for weight0, weight1" in ended.stdout


def test_the_same_seed_gives_the_same_result(tensors: Report, tmp_path: Path) -> None:
    again = exposed(written(tmp_path, programs.TENSORS), runs=1, witnesses=tmp_path / "witnesses")

    def told(report: Report) -> str:
        text = json.dumps({**report.to_json(), "time": {}, "model": ""})
        return text.replace(str(Path(report.model).parent), "")

    assert told(again) == told(tensors)
    first, second = (np.load(found(report).witness.arrays) for report in (tensors, again))
    assert first.files == second.files
    assert all(np.array_equal(first[name], second[name]) for name in first.files)


def test_a_loader_and_the_one_sample_that_fails(loader: Report) -> None:
    finding = found(loader)
    assert (finding.rule.code, finding.verdict) == ("NUM201", Verdict.CONFIRMED)
    assert finding.location is not None and finding.location.line == failing_line(programs.LOADER)
    assert finding.node == "main/exp"
    assert "batch0.0 in [" in finding.message and "shape 1 x 6" in finding.message
    assert loader.assumptions["inputs"]["batch0.0"]["source"] == "observed"


def test_workers_of_a_loader(loader: Report, tmp_path: Path) -> None:
    with_workers = exposed(written(tmp_path, programs.LOADER), ["2"], runs=1, seed=1, iterations=30, witnesses=tmp_path)
    assert found(with_workers).location == replace(found(loader).location, file=found(with_workers).location.file)
    assert found(with_workers).verdict is Verdict.CONFIRMED


def test_a_worker_that_outlives_its_program_holds_no_replay_up(tmp_path: Path) -> None:
    script = written(tmp_path, "import os, time\nif not os.fork():\n    time.sleep(600)\nprint('told', flush=True)\nos._exit(1)\n")
    assert replayed(Witness("", str(script)), workplace.in_place(script), limit=60) == (1, "told")


def test_numbers_that_are_drawn_once(tmp_path: Path) -> None:
    script = written(tmp_path, programs.DRAWN)
    assert exposed(script, runs=1).findings == (), "no numbers from 0 to 1 make a probability zero"
    finding = found(exposed(script, runs=1, ranges={"scores": (-200.0, 200.0)}))
    assert (finding.rule.code, finding.verdict, finding.reaches) == ("NUM101", Verdict.CONFIRMED, "output")
    assert finding.location is not None and finding.location.line == failing_line(programs.DRAWN)
    assert "random numbers, moved to where the program draws them rarely, if ever" in finding.message
    assert finding.witness is None, "no folder was named"


def test_a_derivative(tmp_path: Path) -> None:
    finding = found(exposed(written(tmp_path, programs.ROOT), runs=1, iterations=30, witnesses=tmp_path / "witnesses"))
    assert (finding.rule.code, finding.phase, finding.reaches) == ("NUM401", "backward", "gradient")
    assert finding.verdict is Verdict.CONFIRMED
    assert finding.location is not None and finding.location.line == failing_line(programs.ROOT)
    repaired = programs.ROOT.replace("keepdim=True))", "keepdim=True) + 1e-12)")
    assert replay(finding, "--program", written(tmp_path, repaired)).returncode == 0


def test_two_optimisers_and_what_comes_after_a_failure(tmp_path: Path) -> None:
    report = exposed(written(tmp_path, programs.RIVALS), runs=2, iterations=30, ranges={"z": (-400.0, 400.0)})
    lines = [finding.location.line for finding in report.findings if finding.location is not None]
    assert lines == [failing_line(programs.RIVALS), failing_line(programs.RIVALS) + 4]
    assert all(finding.verdict is Verdict.CONFIRMED for finding in report.findings)


def test_half_precision(tmp_path: Path) -> None:
    finding = found(exposed(written(tmp_path, programs.HALF), runs=1, iterations=30))
    assert finding.format == "float16" and finding.verdict is Verdict.CONFIRMED
    assert finding.location is not None and finding.location.line == failing_line(programs.HALF)


def test_a_repaired_program_has_no_finding_in_the_same_budget(tmp_path: Path) -> None:
    report = exposed(written(tmp_path, programs.TENSORS_REPAIRED), runs=1)
    assert report.findings == () and report.errors == ()
    assert report.assumptions["iterations"] == 60
    assert not report.fails("possible") and report.fails("incomplete")


# -- the command line ----------------------------------------------------------------------------------------------------


def test_a_sandbox_leaves_the_folder_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = written(tmp_path, programs.WRITER)
    (tmp_path / "count.txt").write_text("8")
    output = tmp_path / "report.json"
    arguments = ("--sandbox", "--runs", 2, "--iterations", 30, "--format", "json", "--output", output, "--", "0.1")
    result = command("expose", script.name, *arguments)
    assert (result.code, result.err) == (1, "")
    assert {path.name for path in tmp_path.iterdir()} == {"train.py", "count.txt", "report.json", "tensorproof-witnesses"}
    assert (tmp_path / "count.txt").read_text() == "8"
    (finding, *_) = json.loads(output.read_text())["findings"]
    # The program stops itself when its loss is not finite: the operator that made it so is found all the same.
    assert (finding["rule"], finding["verdict"]) == ("NUM201", "confirmed")
    assert (finding["location"]["file"], finding["location"]["line"]) == ("train.py", failing_line(programs.WRITER))
    assert finding["witness"].startswith("tensorproof-witnesses/")


def test_an_interrupt_keeps_what_was_found(tmp_path: Path) -> None:
    script = written(tmp_path, programs.ENDLESS)
    log = tmp_path / "log.txt"
    words = [sys.executable, "-m", "tensorproof", "expose", script.name, "--format", "json", "--iterations", "0", "--log", str(log)]
    process = interruptible(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        # The second run has begun: what the first one showed is replayed.
        while (not log.exists() or log.read_text().count("begun") < 2) and time.monotonic() < deadline:
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        printed, complaints = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1, complaints
    report = json.loads(printed)
    (finding,) = report["findings"]
    assert finding["location"]["line"] == failing_line(programs.ENDLESS)
    assert INTERRUPTED in report["coverage"]["remarks"]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("gone.py", None, "gone.py: there is no such file"),
        ("broken.py", "import torch\nx = (\n", "broken.py:2: not Python ('(' was never closed)"),
        ("plain.py", "import numpy\n", "plain.py: imports neither PyTorch nor TensorFlow: there is nothing to observe"),
        ("null.py", "import torch\0\n", "null.py: not Python"),
    ],
)
def test_programs_that_cannot_be_run(
    name: str, text: str | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        written(tmp_path, text, name)
    result = command("expose", name)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"tensorproof: {told}") and result.err.count("\n") == 1


def test_a_program_that_fails_by_itself_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "import torch\n\nx = torch.ones(3)\nraise ValueError('no\\nluck')\n")
    result = command("expose", "train.py", "--runs", 3)
    assert result.code == 2
    assert result.err == "tensorproof: train.py: ValueError at train.py:4: no\n"
    assert "remark: not run to its end: train.py: ValueError" in result.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--method", "magic"), "method 'magic': write search, no-replacement, plain"),
        (("--epsilon", "0"), "epsilon 0.0: write above 0, at most 1"),
        (("--switch-rate", "2"), "switch rate 2.0: write from 0 to 1"),
        (("--runs", "0"), "runs 0: write 1 or more"),
        (("--budget", "-1"), "budget -1.0: write a number of seconds above 0"),
        (("--seed", "-1"), "seed -1: write 0 or more"),
        (("--range", "x"), "--range 'x': write name=low:high"),
        (("--range", "x=one-hot"), "--range x: values of a program are moved in a range"),
        (("--range", "x=0:inf"), "range of x: 0:inf is none that values can be moved in"),
        (("--format", "yaml"), "unknown format 'yaml'"),
        (("--select", "XYZ"), "select: no rule has a code that begins with 'XYZ'"),
        (("--fail-on", "often"), "--fail-on 'often'"),
        (("--baseline", "gone.json"), "gone.json: the baseline cannot be read"),
    ],
)
def test_options_that_are_wrong(arguments: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, programs.TENSORS)
    result = command("expose", "train.py", *arguments)
    assert result.code == 2
    assert told in result.err and result.err.count("\n") == 1


def test_a_folder_that_is_too_large_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workplace, "LARGEST_COPY", 1000)
    written(tmp_path, programs.TENSORS)
    (tmp_path / "data.bin").write_bytes(bytes(2000))
    with pytest.raises(ConfigurationError, match=r"--sandbox: .* is too large to copy"):
        exposed("train.py", sandbox=True)


def test_the_function_can_be_called_again_after_its_package_was_imported() -> None:
    for _ in range(2):
        with pytest.raises(SourceError, match=r"gone.py: there is no such file"):
            tensorproof.expose("gone.py")
    with pytest.raises(AssumptionError, match="range of x"):
        tensorproof.expose(__file__, ranges={"x": (2, 1)})


# -- what programs do, in one process ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with Host(tmp_path_factory.mktemp("host")) as host:
        yield host


def run(host: Host, folder: Path, text: str, **options: object) -> tuple[Outcome, Journal]:
    """One run of a program."""
    folder.mkdir(exist_ok=True)
    settings = Settings(str(written(folder, text)), iterations=30, **options)
    outcome, journal = Outcome(settings.seed, folder), Journal()
    for event in host.ask({"run": settings.to_json(), "folder": str(folder)}, time.monotonic() + 120):
        journal.note(event, outcome)
    return outcome, journal


@pytest.mark.parametrize(
    ("text", "how", "told"),
    [
        ("import torch\nimport sys\nsys.exit(3)\n", "failed", "the program ended with exit code 3"),
        ("import torch\nimport sys\nsys.exit('no data')\n", "failed", "the program ended with exit code 1"),
        ("import torch\nimport sys\nsys.exit(0)\n", "finished", ""),
        ("import torch\n1 / 0\n", "failed", "ZeroDivisionError at train.py:2: division by zero"),
        ("import torch\nimport os\nos.kill(os.getpid(), 11)\n", "failed", "ended by signal 11"),
        ("import torch\nimport os\nos._exit(7)\n", "failed", "the process of the program ended with 7"),
        ("import torch\ninput()\n", "failed", "EOFError at train.py:2"),
        ("import torch\nimport gone\n", "failed", "ModuleNotFoundError at train.py:2: No module named 'gone'"),
        ("import torch\nraise KeyboardInterrupt\n", "stopped", "interrupted"),
    ],
)
def test_how_programs_end(host: Host, tmp_path: Path, text: str, how: str, told: str) -> None:
    outcome, journal = run(host, tmp_path, text)
    assert outcome.how == how
    assert told in outcome.text
    assert outcome.failure is None and not journal.suspects


def test_programs_that_do_not_train(host: Host, tmp_path: Path) -> None:
    nothing, _ = run(host, tmp_path, "import torch\nprint('hello')\n")
    assert (nothing.how, nothing.operators, nothing.iterations) == ("finished", 0, 0)
    harmless, journal = run(host, tmp_path, "import torch\nprint(torch.nn.Linear(3, 2)(torch.ones(1, 3)))\n")
    assert harmless.how == "finished" and harmless.operators and not journal.suspects
    assert "grad_fn" in host.printed


def test_a_program_that_catches_all_its_own_errors_cannot_hold_the_end_back(host: Host, tmp_path: Path) -> None:
    swallowing = programs.TENSORS.replace(
        "    loss.backward()", "    try:\n        loss.backward()\n    except Exception:\n        pass"
    )
    outcome, _ = run(host, tmp_path, swallowing)
    assert outcome.how == "stopped" and outcome.failure is not None


def test_plain_runs_move_nothing(host: Host, tmp_path: Path) -> None:
    outcome, journal = run(host, tmp_path, programs.TENSORS, method="plain")
    assert (outcome.how, outcome.evaluations, outcome.failure) == ("stopped", 0, None)
    assert outcome.iterations == 30 and len(journal.suspects) == 2
    by_itself, _ = run(host, tmp_path, programs.BY_HAND, method="plain")
    assert by_itself.failure is not None and by_itself.failure.moved == []
    assert by_itself.failure.line == failing_line(programs.BY_HAND)


def test_declared_ranges_are_kept_to(host: Host, tmp_path: Path) -> None:
    narrow, journal = run(host, tmp_path, programs.TENSORS, ranges={"x": (1.0, 1.5)})
    assert narrow.failure is None and narrow.evaluations
    (value,) = [value for value in journal.values.values() if value.label == "x"]
    assert (value.low, value.high, value.is_declared) == (1.0, 1.5, True)


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[Progress] = []
    report = exposed(written(tmp_path, "import torch\nprint(torch.log(torch.ones(3)).sum())\n"), runs=1, progress=told.append)
    assert report.findings == ()
    assert {progress.stage for progress in told} == {"search"}
    assert told[-1].run == 1 and told[-1].suspects[0].operator == "log"


def test_a_program_that_never_ends_is_ended_with_all_that_it_started(host: Host, tmp_path: Path) -> None:
    starts = "import subprocess, torch\nstarted = subprocess.Popen(['sleep', '600'])\n"
    tells = f"open({str(tmp_path / 'number')!r}, 'w').write(str(started.pid))\n"
    settings = Settings(str(written(tmp_path, starts + tells + "while True:\n    pass\n")))
    run(host, tmp_path / "before", "import torch\n")
    with pytest.raises(OutOfTime):
        list(host.ask({"run": settings.to_json(), "folder": str(tmp_path)}, time.monotonic() + 5))
    number = int((tmp_path / "number").read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{number}").exists() and "Z" not in Path(f"/proc/{number}/stat").read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{number}").exists() or "Z" in Path(f"/proc/{number}/stat").read_text().split()[2]


def test_time_that_is_used_up_is_said(tmp_path: Path) -> None:
    report = exposed(written(tmp_path, "import torch\nwhile True:\n    pass\n"), budget=1.0)
    assert "the time was used up: more of it may show more" in report.coverage.remarks
    assert report.times["search"] < 5.0


# -- parts ---------------------------------------------------------------------------------------------------------------


def failure(**changes: object) -> Failure:
    given = {
        "suspect": "", "framework": "torch", "operator": "log", "rule": "NUM101", "phase": "forward", "file": "train.py", "line": 3,
        "column": 4, "function": "<module>", "operand": "self", "low": 0.0, "high": 1.0, "format": "float32", "iteration": 2,
        "arrays": "values.npz", "values": {"batch0.0": "batch"}, "seed": 0,
    }  # fmt: skip
    return Failure(**{**given, **changes})


class Tried:
    """Replays that fail as a function says."""

    def __init__(self, fails, left: int = 8) -> None:
        self._fails = fails
        self.left = left
        self.tried = 0

    def fails(self, recipe: Recipe) -> dict[str, object] | None:
        if not self.left:
            return None
        self.left -= 1
        self.tried += 1
        return {"rows": [], "size": 0, "given": list(recipe.values)} if self._fails(recipe) else None


def recipe_of(**values: np.ndarray) -> Recipe:
    named = {name.replace("_", "."): array for name, array in values.items()}
    return Recipe(failure(), workplace.Workplace(Path("/p/train.py"), Path("/p")), (), named)


def test_the_failing_row_is_found_by_halving() -> None:
    batch = np.arange(16.0)[:, None]
    smaller = made_smaller(recipe_of(batch0_0=batch, weight0=np.ones(2)), Tried(lambda r: (r.values["batch0.0"] == 11.0).any()))
    assert smaller is not None
    assert smaller.values["batch0.0"].tolist() == [[11.0]] or len(smaller.values["batch0.0"]) <= 4
    assert 11.0 in smaller.values["batch0.0"]


def test_a_program_that_needs_its_batch_size_gets_rows_of_its_own() -> None:
    def fails(recipe: Recipe) -> bool:
        batch = recipe.values.get("batch0.0")
        return batch is not None and 3.0 in batch and (len(batch) == 4 or "batch0.0" in recipe.rows)

    smaller = made_smaller(recipe_of(batch0_0=np.arange(4.0)[:, None]), Tried(fails))
    assert smaller is not None
    assert smaller.rows == {"batch0.0": [3]} and smaller.values["batch0.0"].tolist() == [[3.0]]


def test_values_that_do_not_matter_are_the_programs_own() -> None:
    whole = recipe_of(weight0=np.ones(2), weight1=np.ones(3), data=np.ones(()), other=np.ones(()))
    smaller = made_smaller(whole, Tried(lambda r: "other" in r.values))
    assert smaller is not None and set(smaller.values) == {"other"}


def test_what_fails_only_late_is_replayed_late_and_what_never_fails_is_nothing() -> None:
    late = made_smaller(recipe_of(weight0=np.ones(2)), Tried(lambda r: r.first == 2 and "weight0" in r.values))
    assert late is not None and late.first == 2
    nowhere = Tried(lambda r: False)
    assert made_smaller(recipe_of(weight0=np.ones(2)), nowhere) is None
    assert nowhere.tried == 2


def test_names_of_witnesses_are_harmless() -> None:
    wild = replace(recipe_of(), failure=failure(file="/tmp/../we ird;\n$(x).py"))
    assert wild.name.startswith("NUM101_we_ird_x_3_")
    assert replace(recipe_of(), failure=failure(column=9)).name != recipe_of().name


def test_arrays_are_kept_exactly() -> None:
    assert compact(np.array([0.5, 2.0])).dtype == np.float32
    assert compact(np.array([0.1])).dtype == np.float64
    assert compact(np.array([1, 2])).dtype == np.int64


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"train.py": "import torch"}, {"torch"}),
        ({"train.py": "import keras"}, {"tensorflow"}),
        ({"train.py": "from part import net", "part.py": "from torch import nn"}, {"torch"}),
        ({"train.py": "from pack.deep import run", "pack/__init__.py": "", "pack/deep.py": "from . import core", "pack/core.py": "import torch"}, {"torch"}),
        ({"train.py": "import part", "part.py": "this is no Python"}, set()),
        ({"train.py": "def f():\n    import tensorflow as tf"}, {"tensorflow"}),
        ({"train.py": "import json"}, set()),
    ],
)  # fmt: skip
def test_frameworks_are_read_off_the_source(files: dict[str, str], expected: set[str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert frameworks_of(tmp_path / "train.py") == expected
