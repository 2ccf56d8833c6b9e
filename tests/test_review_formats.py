"""The formats that code reviews show: GitLab's Code Quality list and Markdown, read by a schema and by a parser of Markdown."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from examples.models import build
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tensorproof.findings import Location, Report, Verdict
from tensorproof.report import gitlab, markdown
from tensorproof.report.plain_text import name, one_line
from tests import test_shapes_reports as source
from tests.commands import tensorproof
from tests.test_reports import HOSTILE, finding, hostile, sample

pytestmark = pytest.mark.area("reports")

#: The fields that GitLab documents under "Code Quality report format".
GITLAB_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "additionalProperties": False,
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "additionalProperties": False,
                "properties": {
                    # Relative to the root of the repository.
                    "path": {"type": "string", "minLength": 1, "pattern": r"^(?!/|\./|\.\./)"},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "additionalProperties": False,
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}


def entries(*reports: Report, root: Path | None = None) -> list[dict[str, Any]]:
    found = json.loads(gitlab.render(reports, source_root=root))
    jsonschema.validate(found, GITLAB_SCHEMA)
    assert len({entry["fingerprint"] for entry in found}) == len(found), "GitLab would show one of them alone"
    return found


# -- GitLab -----------------------------------------------------------------------------------------------------------


def test_gitlab_entries_of_a_model(tmp_path: Path) -> None:
    found = {(e["check_name"], e["severity"]): e for e in entries(sample(), root=tmp_path)}
    confirmed = found["NUM101 log-of-nonpositive", "critical"]
    assert confirmed["location"] == {"path": "model.py", "lines": {"begin": 2}}
    assert confirmed["description"].startswith(
        "confirmed: Logarithm of zero or of a negative number: p of Log lies in [0, 1]; node"
    )
    assert "replay with python out dir/test_w.py" in confirmed["description"]
    possible = found["NUM203 accumulation-overflow", "major"]
    assert possible["location"] == {"path": "models/net.onnx", "lines": {"begin": 1}}
    assert ("NUM201 exponential-overflow", "info") in found
    assert "a consequence of /loss/Log" in found["NUM103 division-by-zero", "info"]["description"]


def test_gitlab_tells_gaps_of_the_analysis() -> None:
    clean = replace(sample(), findings=())
    assert [e["description"] for e in entries(clean)] == [
        "models/net.onnx: 2 nodes not analysed (Foo: unknown): a, b",
        "models/net.onnx: sizes",
    ]


def test_gitlab_entries_of_source() -> None:
    error, warning, in_a_cell, unread = entries(replace(source.sample(), errors=("gone.py: no such file",)))
    assert (error["severity"], error["location"]) == ("critical", {"path": "model.py", "lines": {"begin": 14}})
    assert error["description"].endswith("help: write 1568 = 32*7*7")
    assert warning["severity"] == "minor"
    # A notebook is one line of JSON to GitLab: the cell is told in words.
    assert in_a_cell["location"] == {"path": "walk.ipynb", "lines": {"begin": 1}}
    assert "walk.ipynb:cell 3, line 4" in in_a_cell["description"]
    assert (unread["check_name"], unread["description"]) == ("not-analysed", "gone.py: no such file")


def test_gitlab_fingerprints_outlive_ranges_and_lines() -> None:
    def fingerprint(**changes: Any) -> str:
        (entry,) = entries(
            replace(sample(), findings=(finding(**changes),), coverage=replace(sample().coverage, not_analysed=(), remarks=()))
        )
        return entry["fingerprint"]

    first = fingerprint(location=Location("a.py", 1))
    assert fingerprint(location=Location("a.py", 7), low=-3.0, verdict=Verdict.CONFIRMED, message="other") == first
    assert len({first, fingerprint(node="other"), fingerprint(rule="NUM102"), fingerprint(operand="q")}) == 4


def test_gitlab_paths_are_below_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inside, outside = str(tmp_path / "nets" / "a.onnx"), str(tmp_path.parent / "b.onnx")
    found = entries(replace(sample(), model=inside), replace(sample(), model=outside))
    assert {e["location"]["path"] for e in found} == {"model.py", "nets/a.onnx", "b.onnx"}


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_gitlab_schema_holds_for_any_name(name: str, tmp_path: Path) -> None:
    entries(hostile(name), hostile(name), source.hostile(name), root=tmp_path)


def test_the_schema_can_fail() -> None:
    (entry, *_) = entries(sample())
    for wrong in ({"severity": "fatal"}, {"location": {"path": "/a", "lines": {"begin": 1}}}, {"fingerprint": ""}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate([entry | wrong], GITLAB_SCHEMA)


# -- Markdown ---------------------------------------------------------------------------------------------------------

#: The HTML that the format writes itself.
OWN_HTML = {
    "<code>",
    "</code>",
    "<br>",
    "<details><summary>assumptions</summary>\n",
    "<details><summary>not analysed</summary>\n",
    "</details>\n",
}
OWN_TOKENS = {"heading", "paragraph", "table", "thead", "tbody", "tr", "th", "td", "bullet_list", "list_item"}


def tokens(text: str) -> list[Token]:
    """Blocks and inlines, one after the other."""
    blocks = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [token for block in blocks for token in (block, *(block.children or ()))]


def cells(text: str) -> list[list[str]]:
    """The rows of all tables, as a reader sees them."""
    rows: list[list[str]] = []
    blocks = MarkdownIt("commonmark").enable("table").parse(text)
    for before, token in pairwise(blocks):
        if before.type == "tr_open":
            rows.append([])
        if before.type in ("td_open", "th_open"):
            rows[-1].append(
                "".join(
                    " " if c.content == "<br>" else c.content if c.type in ("text", "text_special") else ""
                    for c in token.children or ()
                )
            )
    return rows


def test_markdown_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("\n\n")
    head, *rows = cells(markdown.render([sample()], source_root=tmp_path))
    assert head == ["rule", "verdict", "node", "range", "what"]
    assert rows[0] == [
        "NUM101",
        "confirmed",
        "Log /loss/Log model.py:2",
        "[0, 1], reached [0, 0.75]",
        "Logarithm of zero or of a negative number: p of Log lies in [0, 1] replay: python 'out dir/test_w.py'",
    ]
    assert [row[1] for row in rows] == ["confirmed", "possible", "possible", "confirmed (note)", "possible (note)"]
    text = markdown.render([sample()])
    assert "**1 confirmed, 2 possible, 2 notes**; checked 8 of 10 checkable nodes; 3 proven safe" in text
    # Assumptions and gaps are there, folded.
    assert "- input x &#91;-100, 100&#93; &#40;default&#41;, shape 1 x 16" in text
    assert "- 2 nodes, Foo&#58; unknown: a, b" in text


def test_markdown_of_source() -> None:
    _, error, warning, in_a_cell = cells(markdown.render([source.sample()]))
    assert error[:3] == ["SHP105", "error", "model.py:14:13"]
    assert error[3].endswith("help: write 1568 = 32*7*7")
    assert warning[1] == "warning" and in_a_cell[2] == "walk.ipynb:cell 3, line 4"
    assert "**2 errors, 1 warning in 3 files**" in markdown.render([source.sample()])


def test_markdown_counts_what_it_does_not_show() -> None:
    many = tuple(finding(node=f"/n{i}") for i in range(markdown.SHOWN + 7))
    text = markdown.render([replace(sample(), findings=many)])
    assert len(cells(text)) == 1 + markdown.SHOWN
    assert "and 7 more findings" in text


def test_markdown_without_findings_says_so() -> None:
    text = markdown.render([replace(sample(), findings=())])
    assert "**no findings**" in text and cells(text) == []
    assert "Nothing was checked." in markdown.render([])


@pytest.mark.parametrize(
    "text",
    [
        *HOSTILE,
        "- item",
        "1. item",
        "> quote",
        "---",
        "| a | b |",
        "~~~",
        "a | b",
        "<!-- x",
        "www.evil.example",
        "@maintainer #1 $x$",
    ],
)
def test_no_name_is_read_as_markdown(text: str, tmp_path: Path) -> None:
    """A parser finds what the format writes itself, and names as text alone, where they belong."""
    for report in (hostile(text), source.hostile(text)):
        rendered = markdown.render([report, report], source_root=tmp_path)
        found = tokens(rendered)
        kinds = {token.type.removesuffix("_open").removesuffix("_close") for token in found}
        assert kinds <= OWN_TOKENS | {"inline", "text", "text_special", "html_inline", "html_block", "strong"}
        assert {t.content for t in found if t.type in ("html_inline", "html_block")} <= OWN_HTML
        assert len([t for t in found if t.type == "heading_open"]) == 3
        for row in cells(rendered):
            assert len(row) in (4, 5)
        assert not re.search(r"[@$]|www\.", rendered)
    assert name(text) in cells(markdown.render([hostile(text)]))[1][2] or not one_line(text).strip()


def test_markdown_numbers_are_whole() -> None:
    wide = finding(low=-math.inf, high=math.inf, reached=(math.nan, 1.0))
    assert cells(markdown.render([replace(sample(), findings=(wide,))]))[1][3] == "[-inf, inf], reached [nan, 1]"


# -- several reports of one run ---------------------------------------------------------------------------------------


def test_one_run_writes_several_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    build(tmp_path)
    words = (
        "check",
        "naive_cross_entropy.onnx",
        "--report",
        "sarif=out/a.sarif",
        "--report",
        "markdown=a.md",
        "--format",
        "gitlab",
    )
    result = tensorproof(*words)
    assert result.code == 1
    jsonschema.validate(json.loads(result.out), GITLAB_SCHEMA)
    assert json.loads(Path("out/a.sarif").read_text())["version"] == "2.1.0"
    assert Path("a.md").read_text().startswith("## tensorproof")


@pytest.mark.parametrize("option", ["sarif", "sarif=", "=a.sarif", "yaml=a.yaml"])
def test_a_wrong_report_is_one_line(option: str, tmp_path: Path) -> None:
    result = tensorproof("check", tmp_path / "a.onnx", "--report", option)
    assert (result.code, result.err.count("\n")) == (2, 1) and "format" in result.err.lower()
