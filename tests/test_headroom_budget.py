"""Headroom budgets: measured by hand on models whose ranges are known, kept in a file, and told in every format."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import tensorproof as package
from tensorproof.headroom_budget import read_budget, with_lost_headroom
from tensorproof.report import FORMATS, find_format
from tests.commands import Result, saved, tensorproof

pytestmark = pytest.mark.area("integrations")


def model(scale: float, *, type: int = TensorProto.FLOAT, further: float | None = None) -> Path:
    """root(scale * x), and a product of its own with `further`."""
    constants = {"k": scale} | ({} if further is None else {"f": further})
    nodes = [helper.make_node("Mul", ["x", "k"], ["y"], name="scaled"), helper.make_node("Sqrt", ["y"], ["z"], name="root")]
    if further is not None:
        nodes.append(helper.make_node("Mul", ["y", "f"], ["w"], name="new"))
    outputs = ["z"] if further is None else ["z", "w"]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", type, [4])],
        [helper.make_tensor_value_info(name, type, [4]) for name in outputs],
        [helper.make_tensor(name, type, [1], [value]) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return saved(proto, Path())


def check(*options: object) -> Result:
    return tensorproof("check", "model.onnx", "--range", "x=0:1", *options)


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_written_is_the_distance_to_the_largest_number() -> None:
    model(1024.0, type=TensorProto.FLOAT16)
    assert check("--write-budget", "headroom.json").code == 0
    (entry,) = json.loads(Path("headroom.json").read_text())["headroom"]
    assert (entry["model"], entry["precision"]) == ("model.onnx", None)
    # 65504 / 1024 and 65504 / 32; bounds are rounded outwards by a unit or so.
    assert entry["nodes"]["scaled"] == pytest.approx(math.log2(65504 / 1024), abs=0.01)
    assert entry["nodes"]["root"] == pytest.approx(math.log2(65504 / 32), abs=0.01)


def test_the_same_model_keeps_its_budget() -> None:
    model(1024.0)
    check("--write-budget", "headroom.json")
    first = Path("headroom.json").read_bytes()
    result = check("--budget-file", "headroom.json", "--write-budget", "headroom.json")
    assert result.code == 0, result.out + result.err
    assert Path("headroom.json").read_bytes() == first


def test_bits_that_are_lost_are_told_and_fail() -> None:
    model(1.0)
    check("--write-budget", "headroom.json")
    model(8.0)
    result = check("--budget-file", "headroom.json")
    assert result.code == 1
    assert "NUM601 certain  headroom-lost" in result.out
    # Three bits of the product are gone, one and a half of its root; 128 - 0 before.
    assert "Headroom of Mul: 128 bits before, 125 bits now" in result.out.replace("\n  ", " ")
    assert result.out.count("NUM601") == 2 and "2 certain" in result.out
    assert check("--budget-file", "headroom.json", "--budget-bits", "1.75").out.count("NUM601") == 1
    assert check("--budget-file", "headroom.json", "--budget-bits", "3.5").code == 0
    # The other way round bits are won.
    check("--write-budget", "headroom.json")
    model(1.0)
    assert check("--budget-file", "headroom.json").code == 0


def test_few_bits_are_told_however_few_were_lost() -> None:
    model(20000.0, type=TensorProto.FLOAT16)
    check("--write-budget", "headroom.json")
    model(40000.0, type=TensorProto.FLOAT16)
    result = check("--budget-file", "headroom.json", "--budget-bits", "1.25")
    assert result.code == 1 and result.out.count("NUM601") == 1, result.out
    # Where there were no more before, that alone is no news.
    check("--write-budget", "headroom.json")
    assert check("--budget-file", "headroom.json", "--budget-bits", "1.25").code == 0


def test_a_new_node_has_to_keep_the_bits() -> None:
    model(10.0, type=TensorProto.FLOAT16)
    check("--write-budget", "headroom.json")
    model(10.0, type=TensorProto.FLOAT16, further=5000.0)
    result = check("--budget-file", "headroom.json")
    assert result.code == 1 and "Headroom of Mul: new, 0.3" in result.out, result.out


def test_an_operator_that_is_not_analysed_keeps_nothing() -> None:
    model(1.0)
    check("--write-budget", "headroom.json")
    proto = onnx.load("model.onnx")
    proto.graph.node[0].domain = "nowhere.example"
    proto.opset_import.add(domain="nowhere.example", version=1)
    saved(proto, Path())
    result = check("--budget-file", "headroom.json", "--no-confirm")
    assert result.code == 1 and "Mul: 128 bits before, 0 bits now" in result.out, result.out + result.err


def test_what_nothing_is_known_of_is_lost_and_told_in_every_format() -> None:
    path = model(1.0)
    check("--write-budget", "headroom.json")
    budget = read_budget("headroom.json")
    report = package.check(path, ranges={"x": (0, 1)}, model_map=True)
    assert report.analysed is not None
    blind = replace(report, analysed=replace(report.analysed, summaries=({},)))
    lost = with_lost_headroom(blind, budget)
    assert [f.message.partition(";")[0] for f in lost.findings] == [
        "Headroom of Mul: 128 bits before, unknown now",
        "Headroom of Sqrt: 128 bits before, unknown now",
    ]
    assert lost.fails("confirmed")
    for format in FORMATS:
        assert "unknown now" in find_format(format)([lost]), format


def test_a_result_that_became_an_integer_is_no_loss() -> None:
    model(1.0)
    check("--write-budget", "headroom.json")
    proto = onnx.load("model.onnx")
    proto.graph.node[1].CopyFrom(helper.make_node("Cast", ["y"], ["z"], name="root", to=TensorProto.INT32))
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    saved(proto, Path())
    result = check("--budget-file", "headroom.json")
    assert result.code == 0, result.out


def test_ignored_and_known_losses_do_not_fail() -> None:
    model(1.0)
    check("--write-budget", "headroom.json")
    model(8.0)
    assert check("--budget-file", "headroom.json", "--ignore", "NUM601").code == 0
    assert check("--budget-file", "headroom.json", "--ignore", "NUM601[root]").out.count("NUM601") == 1
    check("--budget-file", "headroom.json", "--write-baseline", "known.json")
    assert check("--budget-file", "headroom.json", "--baseline", "known.json").code == 0
    assert check("--budget-file", "headroom.json", "--fail-on", "never").code == 0


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_tells_it(format: str) -> None:
    model(1.0)
    check("--write-budget", "headroom.json")
    model(8.0)
    result = check("--budget-file", "headroom.json", "--format", format)
    assert result.code == 1
    for part in ("NUM601", "scaled", "128 bits before, 125 bits now"):
        assert part in result.out.replace("\n  ", " "), format


def test_the_precision_belongs_to_the_entry() -> None:
    model(1.0)
    check("--precision", "float16", "--write-budget", "headroom.json")
    assert check("--precision", "float16", "--budget-file", "headroom.json").code == 0
    result = check("--budget-file", "headroom.json")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "no entry for 'model.onnx' in its own precision; add it with --write-budget" in result.err


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"schema_version": 2, "headroom": []}',
        '{"schema_version": 1, "headroom": [1]}',
        '{"schema_version": 1, "headroom": [{"model": "a", "precision": null, "nodes": {"a": "many"}}]}',
        '{"schema_version": 1, "headroom": [{"model": "a", "precision": null, "nodes": {"a": "nan"}}]}',
        '{"schema_version": 1, "headroom": [{"model": "a", "precision": null, "nodes": []}]}',
    ],
)
def test_a_damaged_file_is_one_line(content: str) -> None:
    model(1.0)
    Path("headroom.json").write_text(content)
    result = check("--budget-file", "headroom.json")
    assert (result.code, result.err.count("\n")) == (2, 1) and "write it anew" in result.err


@pytest.mark.parametrize("options", [("--budget-file", "missing.json"), ("--budget-bits", "-1"), ("--budget-bits", "nan")])
def test_mistakes_are_one_line(options: tuple[str, ...]) -> None:
    model(1.0)
    result = check(*options)
    assert (result.code, result.err.count("\n")) == (2, 1)
