"""The HTML report as a file: what stands in it, that nothing of a model can leave its place, pictures, comparison, packaging."""

from __future__ import annotations

import json
import math
import re
import shlex
import struct
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from examples.models import transformer_float16, vae_loss

from tensorproof import Report, check, check_shapes
from tensorproof.findings import Location, SourceEdit, Verdict, Witness
from tensorproof.report import FORMATS, SHOW_MODEL, html
from tensorproof.report.html.comparison import compared
from tensorproof.report.html.graph_data import CROWD, PART, graph_data
from tensorproof.report.html.witness_arrays import pictures, png, witness_arrays
from tests.commands import saved, tensorproof
from tests.models import model, static

pytestmark = pytest.mark.area("html report")

VAE = {"z": (-4, 4), "x": (0, 1)}
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "<!-- <script> --><script>alert(1)</script>",
    "\u2028\u2029 ]]> &lt;b&gt; \\u003c",
    "'\"`${alert(1)}",
]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands leave failing inputs in the folder where they are run."""
    monkeypatch.chdir(tmp_path)


class Parsed(HTMLParser):
    """The elements of a page, and the text of its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._in_data = False
        self._pieces: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_data = tag == "script" and dict(attrs).get("id") == "data"

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self._pieces.append(data)

    @property
    def data(self) -> dict[str, Any]:
        return json.loads("".join(self._pieces))


def page(*reports: Report, source_root: Path | None = None) -> Parsed:
    return Parsed(html.render(reports, source_root=source_root))


def elements(parsed: Parsed) -> list[str]:
    return [tag for tag, _ in parsed.tags]


def hostile(name: str) -> onnx.ModelProto:
    """A model in which everything has the same bad name."""
    proto = model("(float[4] x) => (float[4] y)", "a = Log(x)\ny = Exp(a)")
    graph = proto.graph
    graph.node[0].name = graph.node[1].name = f"{name}/{name}"
    graph.input[0].name = graph.node[0].input[0] = name
    graph.node[0].output[0] = graph.node[1].input[0] = name + name
    return proto


def test_the_page_has_all_that_it_needs_and_asks_for_nothing() -> None:
    parsed = page(check(vae_loss(), ranges=VAE, model_map=True))
    assert elements(parsed) == [
        "html",
        "head",
        "meta",
        "meta",
        "meta",
        "title",
        "style",
        "body",
        "noscript",
        "p",
        "div",
        "script",
        "script",
    ]
    assert not [attributes for _, attributes in parsed.tags if {"src", "href"} & attributes.keys()]
    text = html.render((check(vae_loss(), ranges=VAE, confirm=False),))
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "default-src 'none'" in text
    assert {"html"} <= FORMATS.keys() and FORMATS.keys() >= SHOW_MODEL


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_becomes_markup(name: str) -> None:
    plain = page(static(hostile("x"), model_map=True))
    parsed = page(static(hostile(name), model_map=True))
    assert elements(parsed) == elements(plain)
    (report,) = parsed.data["reports"]
    assert [row[1] for row in report["graph"]["nodes"]] == [row[1] for row in plain.data["reports"][0]["graph"]["nodes"]]
    shown = json.dumps(report["graph"]["nodes"], ensure_ascii=False)
    assert name.isprintable() is (name[:8] in json.loads(shown)[0][0])


def test_findings_say_what_the_report_says() -> None:
    report = check(vae_loss(), ranges=VAE, model_map=True)
    (shown,) = page(report).data["reports"]
    root = shown["families"][0]["root"]
    finding = report.confirmed[0]
    assert (root["rule"], root["node"], root["verdict"]) == ("NUM101", finding.node, "confirmed")
    assert root["range"] == list(finding.bounds)
    assert [step["value"] for step in root["trail"]] == [step.value for step in finding.trail]
    at = shown["families"][0]["at"]
    assert shown["graph"]["nodes"][at][0] == finding.node
    commands = dict(root["commands"])
    assert commands["read about the rule"] == "tensorproof explain NUM101"
    assert ["confirmed", 1, "findings"] in shown["verdicts"]
    assert shown["coverage"]["text"] == "10 of 10 checkable nodes checked, 12 nodes in all"


def test_only_commands_that_check_the_same_are_offered() -> None:
    """A report of the library does not know the options of a command, and one of a search is about no model at all."""
    for report in (
        check(vae_loss(), ranges=VAE),
        replace(check(vae_loss(), ranges=VAE), assumptions={"inputs": {}}, proven_safe=()),
    ):
        (shown,) = page(report).data["reports"]
        assert not [
            what
            for family in shown["families"]
            for what, _ in family["root"]["commands"]
            if what in ("show a repair", "search a failing input")
        ]
    assert "proven safe" not in [verdict for verdict, _, _ in shown["verdicts"]]


def test_the_commands_that_are_offered_run(tmp_path: Path) -> None:
    path = saved(vae_loss(), tmp_path)
    options = ("--range", "z=-4:4", "--range", "x=0:1", "--effort", "2")
    result = tensorproof("check", str(path), *options, "--format", "html")
    root = Parsed(result.out).data["reports"][0]["families"][0]["root"]
    repair = next(command for what, command in root["commands"] if what == "show a repair")
    words = shlex.split(repair)
    assert words[:3] == ["tensorproof", "fix", str(path)] and " ".join(options) in repair
    shown = tensorproof(*words[1:])
    assert "Softplus" in shown.out, shown.err


def test_source_is_quoted_only_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("".join(f"line {number}\n" for number in range(1, 20)))
    report = static(vae_loss(), ranges=VAE)
    placed = report.with_findings(tuple(replace(f, location=Location("net.py", 9)) for f in report.findings))
    root = page(placed, source_root=tmp_path).data["reports"][0]["families"][0]["root"]
    assert [line for line in root["excerpt"] if line[2]] == [[9, "line 9", True]]
    assert len(root["excerpt"]) == 7
    assert page(placed).data["reports"][0]["families"][0]["root"]["excerpt"] == []


# -- witnesses --------------------------------------------------------------------------------------------------------


def test_a_witness_is_shown_as_numbers(tmp_path: Path) -> None:
    report = check(vae_loss(), ranges=VAE, witnesses=tmp_path)
    (array,) = page(report).data["reports"][0]["families"][0]["root"]["arrays"]
    assert (array["name"], array["shape"], array["dtype"]) == ("z", "4 x 16", "float32")
    assert len(array["first"]) == 8 and float(array["low"]) >= -4


def unpacked(picture: bytes) -> tuple[int, int, int, np.ndarray]:
    """Width, height, colour type and pixels of a PNG, read by the specification."""
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(picture):
        (size,) = struct.unpack(">I", picture[at : at + 4])
        kind, data = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + size]
        assert struct.unpack(">I", picture[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + data)
        chunks[kind] = data
        at += 12 + size
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert depth == 8
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    return width, height, colour, rows[:, 1:].reshape(height, width, -1)


@pytest.mark.parametrize("colours", [1, 3])
def test_pictures_are_png_files(colours: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 13, colours), np.uint8)
    width, height, kind, found = unpacked(png(pixels))
    assert (width, height, kind) == (13, 9, 0 if colours == 1 else 2)
    assert (found == pixels).all()


@pytest.mark.parametrize(
    ("shape", "amount"),
    [
        ((2, 3, 8, 9), 2),
        ((2, 8, 9, 3), 2),
        ((1, 1, 28, 28), 1),
        ((16, 16), 1),
        ((4, 7), 0),
        ((2, 2, 8, 8), 0),
        ((64,), 0),
        ((1, 3, 4, 40), 0),
    ],
)
def test_what_looks_like_a_picture(shape: tuple[int, ...], amount: int) -> None:
    found = pictures(np.zeros(shape))
    assert len(found) == amount
    assert all(picture.shape[2] in (1, 3) for picture in found)


def test_arrays_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    odd = tmp_path / "odd.npz"
    np.savez(odd, data=np.array([{}], dtype=object))
    assert witness_arrays(str(odd)) == []
    odd.write_bytes(b"no archive")
    assert witness_arrays(str(odd)) == []
    assert witness_arrays(str(tmp_path / "missing.npz")) == []
    np.savez(odd, image=np.array([[math.nan, math.inf], [1e308, -1e308]]).repeat(8, 0).repeat(8, 1))
    (array,) = witness_arrays(str(odd))
    assert len(array["pictures"]) == 1


# -- graph ------------------------------------------------------------------------------------------------------------


def test_a_graph_without_modules_is_gathered_into_parts() -> None:
    amount = 3 * CROWD
    body = "\n".join(f"v{i + 1} = Tanh(v{i})" for i in range(amount))
    mapped = static(model(f"(float[4] v0) => (float[4] v{amount})", body), model_map=True).model_map()
    assert mapped is not None
    data = graph_data(mapped)
    used = [data["scopes"][row[2]] for row in data["nodes"] if data["ops"][row[1]] == "Tanh"]
    assert len(set(used)) == amount // PART and used[0] == f"part 1 of {amount // PART}"
    assert max(used.count(scope) for scope in set(used)) == PART


def test_edges_of_the_graph_join_inputs_nodes_and_outputs() -> None:
    mapped = static(vae_loss(), ranges=VAE, model_map=True).model_map()
    assert mapped is not None
    data = graph_data(mapped)
    names, ops = [row[0] for row in data["nodes"]], [data["ops"][row[1]] for row in data["nodes"]]
    assert ops[:2] == ["input", "input"] and ops[-1] == "output"
    edges = {(names[source], row[0]) for row in data["nodes"] for source in row[5]}
    assert {("z", "/decoded/MatMul"), ("/q/Sub", "/log_q/Log"), ("/loss/Neg", "loss")} <= edges


# -- several reports --------------------------------------------------------------------------------------------------


def test_a_comparison_shows_what_a_repair_changed(tmp_path: Path) -> None:
    path, mended = saved(vae_loss(), tmp_path), tmp_path / "mended.onnx"
    options = ("--range", "z=-4:4", "--range", "x=0:1")
    assert tensorproof("fix", str(path), *options, "--apply", str(mended)).code == 0
    result = tensorproof("check", str(path), str(mended), *options, "--format", "html")
    assert result.code == 1, result.err
    comparison = Parsed(result.out).data["comparison"]
    assert {row["rule"] for row in comparison["gone"]} == {"NUM101", "NUM302"}
    assert comparison["new"] == [] and comparison["has_maps"]


def test_a_comparison_of_formats_is_sorted_by_loss() -> None:
    wide, half = (static(vae_loss(), ranges=VAE, precision=precision, model_map=True) for precision in (None, "float16"))
    found = compared(wide, half)
    lost = [row[4] for row in found["headroom"] if row[4] is not None]
    assert lost == sorted(lost, reverse=True) and lost[0] > 100
    assert found["headroom"][0][5] == "float32 to float16"
    assert compared(wide, wide)["changed"] == [] and compared(wide, wide)["same"] == len(wide.findings)


def test_reports_on_source_have_the_same_page(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("import torch\nx = torch.zeros(2, 3)\ny = x @ torch.zeros(4, 5)\n")
    report = check_shapes(file)
    assert report.findings
    (shown,) = page(report, source_root=tmp_path).data["reports"]
    root = shown["families"][0]["root"]
    assert shown["source"] and shown["graph"] is None and root["range"] is None
    assert next(line for line in root["excerpt"] if line[2])[1] == "y = x @ torch.zeros(4, 5)"
    edit = SourceEdit("write 3", Location("net.py", 3, column=21, end_column=22, text="y = x @ torch.zeros(4, 5)"), "3")
    edited = report.with_findings(tuple(replace(f, edits=(edit,)) for f in report.findings))
    (mended,) = page(edited).data["reports"][0]["families"][0]["root"]["edits"]
    assert mended["diff"] == ["-y = x @ torch.zeros(4, 5)", "+y = x @ torch.zeros(3, 5)"]


def test_fix_shows_its_change(tmp_path: Path) -> None:
    path = saved(vae_loss(), tmp_path)
    out = tmp_path / "page.html"
    result = tensorproof("fix", str(path), "--range", "z=-4:4", "--range", "x=0:1", "--format", "html", "--output", str(out))
    assert result.code == 0, result.err
    (shown,) = Parsed(out.read_text()).data["reports"]
    assert any(line.startswith("+") and "Softplus" in line for line in shown["change"])
    root = shown["families"][0]["root"]
    assert root["fix"]["found"] and root["fix"]["safe"]
    assert any(what == "apply the repair" and "--apply" in command for what, command in root["commands"])


def test_a_model_in_float16_loses_its_headroom() -> None:
    shown = page(static(transformer_float16(), ranges={"hidden": (-16, 16), "mask": "mask"}, model_map=True)).data["reports"][0]
    bits = {row[0]: row[5] for row in shown["graph"]["values"] if len(row) > 1}
    assert 0 < bits["q_flat"] < 8
    assert bits["scores"] <= 0


def test_a_confirmed_finding_without_a_file_is_no_error() -> None:
    report = static(vae_loss(), ranges=VAE)
    lost = Witness("no/such/file.npz", "no/such/test.py")
    changed = tuple(replace(f, verdict=Verdict.CONFIRMED, witness=lost) for f in report.findings)
    root = page(report.with_findings(changed)).data["reports"][0]["families"][0]["root"]
    assert root["arrays"] == [] and root["witness"] == "no/such/file.npz"
