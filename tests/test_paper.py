"""`make paper`: results are kept, runs go on where they ended, and the quick form of every table holds what the full one claims."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks.paper import __main__ as command
from benchmarks.paper import plots, running, writing
from benchmarks.paper.journal import Entry, Journal, differences, fingerprint, without_seconds
from benchmarks.paper.page import page
from benchmarks.paper.running import long_first, run, table_of
from benchmarks.paper.table import Section
from benchmarks.paper.tables import TABLES
from rich.console import Console

from tests.browser import INSTALL, chromium, is_installed

pytestmark = pytest.mark.area("paper")

FOLDER = Path(running.__file__).parent / "tables"
SECTION = Section("title", ("a", "b"), (("1", "<2|"),), ("line",), {"figure": 1}, ("paper",), ("set-up",))


def quick(name: str) -> Section:
    """A table in its quick form, measured in this process."""
    table = table_of(name)
    return table.section({case: json.loads(json.dumps(table.measured(case, "quick"))) for case in table.cases("quick")}, "quick")


# -- the tables, in their quick form ----------------------------------------------------------------------------------------


def test_every_module_of_the_folder_is_a_table() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - {"__init__"} == set(TABLES)
    for name in TABLES:
        table = table_of(name)
        full = table.cases("full")
        assert len(set(full)) == len(full) > 0
        assert 0 < len(table.cases("quick")) < len(full)
        assert (table.__doc__ or "").strip()


def test_detection() -> None:
    figures = quick("detection").figures
    assert figures["found"] == figures["bugs"] == 11
    assert figures["found in graphs"] == figures["graphs"] > 0
    assert figures["twins flagged"] == 0 < figures["twins"]
    assert figures["absent with subnormals"] == 1, "35b needs subnormals to be flushed; 5 fails on every target"


def test_unit_tests() -> None:
    figures = quick("unit_tests").figures
    assert figures["ours found"] == figures["runs"] == 10
    assert figures["random found"] < figures["runs"], "uniform samples miss some"
    assert (figures["boxed"], figures["found ranum"]) == (4, 4), "5 has no weights"


def test_system_tests() -> None:
    figures = quick("system_tests").figures
    assert figures["ours found"] == figures["runs"] == 10


def test_preconditions() -> None:
    figures = quick("preconditions").figures
    assert figures["both fixed"] == figures["both hold"] == figures["bugs"] == 5
    assert (figures["weights fixed"], figures["weights impossible"]) == (4, 1), "5 has no weights"
    assert figures["inputs fixed"] + figures["inputs impossible"] == figures["bugs"]
    assert figures["both fixed ranum"] == figures["both reached ranum"] == 4


def test_repairs() -> None:
    figures = quick("repairs").figures
    assert figures["rewrite"] == figures["repaired"] == figures["bugs"] == 5
    assert figures["operand"] == 5


def test_developers() -> None:
    assert quick("developers").figures["class D"] == 0


def test_scripts_of_grist() -> None:
    figures = quick("grist").figures
    assert figures["found"] == figures["runs"]
    assert quick("grist_twins").figures["findings"] == 0


def test_counts_are_the_same_in_every_run() -> None:
    table = table_of("unit_tests")
    first, second = (table.measured("26", "quick") for _ in range(2))
    assert without_seconds(first) == without_seconds(second)
    assert first["full"][0]["seconds"] > 0


def test_what_is_written_is_what_the_journal_comes_to() -> None:
    """Whoever changes a table writes it again: python -m benchmarks.paper --kept --take docs/paper/journal.jsonl --write."""
    journal = Journal(writing.DOCS / "journal.jsonl")
    sections = command.sections_of(journal, TABLES, "full")
    assert {"detection", "grist"} <= sections.keys()
    plots = dict(writing._plots(sections, journal))
    conditions = json.loads((writing.DOCS / "results.json").read_text("utf-8"))
    assert (writing.DOCS / "README.md").read_text("utf-8") == "\n".join(writing._page(sections, conditions, "full", plots))
    assert writing._headline(sections, conditions) in writing.README.read_text("utf-8")
    assert {path.stem for path in writing.DOCS.glob("*.svg")} == plots.keys()


# -- the runner -------------------------------------------------------------------------------------------------------------


def test_what_is_measured_is_not_measured_again(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    journal = Journal(tmp_path / "quick.jsonl")
    assert run(["detection"], "quick", journal, 1, console, ("26", "38")) == []
    assert journal.results("detection").keys() == {"26", "38"}
    # The last line was cut short by an interruption.
    lines = journal.path.read_text().splitlines()
    journal.path.write_text("\n".join([*lines[:-1], lines[-1][:40]]))
    again = Journal(journal.path)
    assert len(again.results("detection")) == 1
    assert run(["detection"], "quick", again, 1, console, ("26", "38")) == []
    assert differences(again, journal) == [] and len(again.results("detection")) == 2
    assert again.sources() == {fingerprint()}


def test_what_took_long_comes_first() -> None:
    pending = [("a", "short"), ("a", "long"), ("b", "new"), ("b", "longer")]
    clocks = {("a", "short"): 2.0, ("a", "long"): 70.0, ("b", "longer"): 900.0}
    assert long_first(pending, clocks) == [("b", "longer"), ("a", "long"), ("a", "short"), ("b", "new")]


def test_journals_that_differ() -> None:
    one, other = (Journal(Path("nowhere")) for _ in range(2))
    one._entries = {("t", "a"): Entry("t", "a", {"found": 1, "seconds": 1.0}, ""), ("t", "b"): Entry("t", "b", {"found": 2}, "")}
    other._entries = {("t", "a"): Entry("t", "a", {"found": 1, "seconds": 9.0}, ""), ("t", "b"): Entry("t", "b", {"found": 3}, "")}
    assert differences(one, other) == [("t", "b")]


def test_a_case_that_goes_wrong_is_told_and_the_others_are_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    (wrong,) = run(["tests.broken_table"], "quick", journal, 1, Console(file=io.StringIO(), width=200))
    assert wrong.startswith("tests.broken_table broken: ZeroDivisionError")
    assert Journal(journal.path).results("tests.broken_table") == {"whole": {"quotient": 1}}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["nothing"])
    assert ended.value.code == 2 and "no table nothing" in capsys.readouterr().err
    written: list[Any] = []
    monkeypatch.setattr(writing, "write", lambda *arguments: written.append(arguments))
    assert command.main(["detection", "--quick", "--only", "38", "--jobs", "1", "--folder", str(tmp_path), "--write"]) == 0
    assert "1 of 1 bugs flagged at their node" in capsys.readouterr().out
    assert written[0][0]["detection"].figures["found"] == 1
    taken = ["--kept", "--take", str(tmp_path / "quick.jsonl"), str(tmp_path / "none")]
    assert command.main(["detection", "--quick", "--folder", str(tmp_path / "other"), "--write", *taken]) == 0
    cases = len(table_of("detection").cases("quick"))
    assert written[1][0]["detection"].lines[0].startswith(f"not complete, 1 of {cases} cases: 1 of 1 bugs flagged")


def test_an_interruption_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", interrupted)
    assert command.main(["--quick", "--folder", str(tmp_path)]) == 2
    assert "the same command goes on" in capsys.readouterr().out


# -- what is written --------------------------------------------------------------------------------------------------------


def test_the_page_the_results_and_the_headline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{writing._BEGIN}\nold\n{writing._END}\nafter\n")
    monkeypatch.setattr(writing, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(writing, "README", readme)
    journal = Journal(tmp_path / "journal")
    journal.add(Entry("repairs", "3", {"found": True}, "state"))
    writing.write({"repairs": SECTION}, journal, "quick")
    results = json.loads((tmp_path / "docs" / "results.json").read_text())
    assert results["tables"]["repairs"]["figures"] == {"figure": 1}
    assert results["tables"]["repairs"]["rows"] == [["1", "<2|"]]
    assert results["versions"]["torch"].startswith("2.13.0") and results["sources"] == ["state"]
    other = Journal(tmp_path / "other")
    other.take(Journal(tmp_path / "docs" / "journal.jsonl"))
    assert Journal(other.path).results("repairs") == {"3": {"found": True}}, "a run elsewhere goes on from what was written"
    assert "| 1 | &lt;2\\| |" in (tmp_path / "docs" / "README.md").read_text()
    assert '[["1","\\u003c2|"]]' in (tmp_path / "docs" / "tables.html").read_text()
    text = readme.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| title | line | paper |" in text
    assert "Not measured yet: debar, detection, " in text and "repairs" not in text[text.index("Not measured") :]
    assert re.search(r"on \d{4}-\d\d-\d\d, \d+ cores of ", text)
    assert "Not one run" not in text
    journal.add(Entry("repairs", "5", {"found": True}, "another state"))
    writing.write({"repairs": SECTION}, journal, "quick")
    for written in (readme, tmp_path / "docs" / "README.md", tmp_path / "docs" / "tables.html"):
        assert "Not one run: the results of 2 states of the sources" in written.read_text(), "a mixed journal is said to be one"


def test_the_page_is_sorted_by_its_columns(tmp_path: Path) -> None:
    """In a browser: plots are drawn, a click sorts by number, another one turns it round, and nothing of a table is markup."""
    if not is_installed():
        pytest.fail(INSTALL, pytrace=False)
    rows = (("10 s", "<img src=x>"), ("9 s", "b"), ("-", "c"), ("1,000 s", "a"))
    section = Section("title <b>", ("time", "name"), rows, ("line",), {}, ("paper",), ("set-up",))
    drawn = plots.bars("bars", {"one": {"x": 3.0}}, most=4)
    file = tmp_path / "tables.html"
    file.write_text(page({"repairs": section}, "made", {"some_bars": drawn}))
    with chromium() as browser:
        browser.open(file)
        browser.frame()
        cells = "[...document.querySelectorAll('tbody tr')].map((row) => row.cells[0].textContent)"
        assert browser.js(cells) == [row[0] for row in rows]
        browser.click("th:nth-child(1) .sort")
        assert browser.js(cells) == ["9 s", "10 s", "1,000 s", "-"]
        browser.click("th:nth-child(1) .sort")
        assert browser.js(cells) == ["-", "1,000 s", "10 s", "9 s"]
        assert browser.js("document.querySelector('th').getAttribute('aria-sort')") == "descending"
        browser.click("th:nth-child(2) .sort")
        assert browser.js(cells) == ["10 s", "1,000 s", "9 s", "-"]
        assert browser.js("[...document.images].map((image) => image.naturalWidth > 0 && image.clientWidth > 300)") == [True]
        assert "title <b>" in browser.text("h3") and "python -m benchmarks.paper repairs" in browser.text("code")
        errors, requests = browser.log()
        assert errors == [] and {request.partition(":")[0] for request in requests} == {"file", "data"}


@pytest.mark.parametrize(
    "drawn",
    [
        plots.bars("a < b", {"one": {"x": 3.0, "y": 1.0}, "two & three": {"x": 0.0, "y": 4.0}}, most=4),
        plots.spread("times", {"fast": [0.01, 0.1, 1.0], "slow": [5.0, 50.0]}, axis="seconds"),
    ],
)
def test_plots_are_drawn_inside_their_frame(drawn: str) -> None:
    root = ElementTree.fromstring(drawn)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    places = [element.attrib for element in root.iter() if {"x", "cx"} & element.attrib.keys()]
    assert len(places) > 8
    for at in places:
        assert 0 <= float(at.get("x", at.get("cx", "0"))) + float(at.get("width", "0")) <= width
        assert 0 <= float(at.get("y", at.get("cy", "0"))) <= height
