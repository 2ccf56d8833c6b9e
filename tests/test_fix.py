"""`tensorproof fix`: found, repaired, proven; what is not repaired passes through unharmed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from examples.models import EXAMPLES, build
from onnx import TensorProto, helper, numpy_helper

import tensorproof as package
from tests.commands import saved, tensorproof
from tests.models import model, with_bodies
from tests.torch_models import export

pytestmark = pytest.mark.area("repair")

QUICK = ("--runs", "60")


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["naive_cross_entropy", "vae_loss", "transformer_float16"])
def test_the_demonstration_is_repaired_and_stays_so(name: str, tmp_path: Path) -> None:
    path, ranges = build(tmp_path)[name], EXAMPLES[name][1]
    before = path.read_bytes()
    unsafe = ["--unsafe"] if name == "transformer_float16" else []
    result = tensorproof("fix", path, *ranges, *QUICK, *unsafe, "--apply", "fixed.onnx")
    assert result.code == 0 and "applied" in result.err, result.err
    assert path.read_bytes() == before
    again = tensorproof("check", "fixed.onnx", *ranges)
    assert again.code == 0 and "findings  none" in again.out
    assert tensorproof("fix", "fixed.onnx", *ranges, *QUICK, "--apply", "twice.onnx").code == 0
    assert Path("twice.onnx").read_bytes() == Path("fixed.onnx").read_bytes()


def test_the_report_says_what_is_changed_what_it_costs_and_how_to_apply_it(tmp_path: Path) -> None:
    path = build(tmp_path)["naive_cross_entropy"]
    result = tensorproof("fix", path, *EXAMPLES["naive_cross_entropy"][1], *QUICK, "--format", "json")
    (finding,) = [f for f in json.loads(result.out)["findings"] if f["rule"] == "NUM101"]
    fix = finding["fix"]
    assert (fix["kind"], fix["name"], fix["safe"], fix["applied"]) == ("rewrite", "log-softmax", True, True)
    seen = fix["verification"]
    assert seen["proven"] and seen["witness_replayed"] and seen["runs"] == 60 and seen["values"]["elements"] > 0
    assert seen["gradients"]["dead"] == 0
    words = fix["apply"].split()
    assert words[:2] == ["tensorproof", "fix"] and words[-2:] == ["--apply", "OUT.onnx"]
    assert tensorproof(*words[1:]).code == 0 and Path("OUT.onnx").exists()


def test_unsafe_repairs_are_shown_and_applied_only_when_asked_for() -> None:
    """A product of two inputs overflows; a clamp of them changes finite values."""
    path = saved(model("(float[4] x, float[4] z) => (float[4] y)", "y = Mul(x, z)"), Path())
    ranges = ("--range", "x=-1e30:1e30", "--range", "z=-1e30:1e30")
    shown = tensorproof("fix", path, *ranges, *QUICK, "--apply", "out.onnx")
    assert shown.code == 1 and "unsafe: it changes values" in shown.out and "1 more with --unsafe" in shown.err
    assert Path("out.onnx").read_bytes() == path.read_bytes()
    assert tensorproof("fix", path, *ranges, *QUICK, "--unsafe", "--apply", "out.onnx").code == 0
    assert tensorproof("check", "out.onnx", *ranges).code == 0


def test_only_the_chosen_findings_are_repaired() -> None:
    path = saved(model("(float[4] x) => (float[4] y, float[4] z)", "y = Log(x)\nz = Sqrt(x)"), Path())
    result = tensorproof("fix", path, "--range", "x=-1:1", *QUICK, "--node", "z", "--apply", "out.onnx")
    assert result.code == 1
    assert {f.node for f in package.check(onnx.load("out.onnx"), ranges={"x": (-1, 1)}).roots()} == {"y"}
    result = tensorproof("fix", path, "--range", "x=-1:1", *QUICK, "--select", "NUM101", "--apply", "out.onnx")
    assert {f.node for f in package.check(onnx.load("out.onnx"), ranges={"x": (-1, 1)}).roots()} == {"z"}


def test_warnings_that_go_with_a_repair_say_so(tmp_path: Path) -> None:
    fixed = package.fix(build(tmp_path)["vae_loss"], ranges={"z": (-4, 4), "x": (0, 1)}, runs=60)
    along = {outcome.key: outcome.along_with for outcome in fixed.outcomes}
    assert along == {("NUM101", "/log_q/Log"): None, ("NUM302", "/one_guarded/Add"): "/log_q/Log"}
    assert len(fixed.applied) == 1 and not fixed.left().findings


def test_a_derivative_is_repaired_for_itself_and_not_along_with_a_value() -> None:
    """The logarithm of x fails forward, the root of exp(y) backward: where subnormals are flushed, exp(-100) is 0."""
    proto = model("(float[4] x, float[4] y) => (float[4] z)", "l = Log(x)\ne = Exp(y)\nr = Sqrt(e)\nz = Add(l, r)")
    ranges = {"x": (0, 1), "y": (-100, 1)}
    fixed = package.fix(proto, ranges=ranges, phase="training", target="tensorflow-cpu", unsafe=True, runs=20)
    repairs = {outcome.finding.rule.code: outcome for outcome in fixed.outcomes}
    assert repairs.keys() == {"NUM101", "NUM401"}
    repair = repairs["NUM401"].repair
    assert repair is not None and repair.proposal.name == "sqrt-of-exp" and repairs["NUM401"].along_with is None


def test_a_converted_model_is_repaired_in_its_format() -> None:
    path = saved(model("(float[2,8] x) => (float[2,8] y)", "p = Softmax<axis=-1>(x)\ny = Log(p)"), Path())
    scan = ("--range", "x=-20:20", "--precision", "float16", *QUICK)
    assert tensorproof("check", path, "--range", "x=-20:20").code == 0, "float32 is sound"
    assert tensorproof("fix", path, *scan, "--apply", "half.onnx").code == 0
    repaired = onnx.load("half.onnx")
    assert repaired.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT16
    assert tensorproof("check", "half.onnx", "--range", "x=-20:20").code == 0


def unharmed_models() -> dict[str, onnx.ModelProto]:
    """One logarithm to repair in each, beside what must not be touched."""
    shared = model("(float[2,2] x) => (float[2,2] y, float[2,2] z)", "a = MatMul(x, w)\nz = Add(a, w)\np = Softmax(a)\ny = Log(p)")
    shared.graph.initializer.append(numpy_helper.from_array(np.full((2, 2), 0.5, np.float32), "w"))
    contrib = model("(float[2,4] x) => (float[2,4] y)", "g = Relu(x)\np = Softmax(g)\ny = Log(p)")
    contrib.graph.node[0].op_type, contrib.graph.node[0].domain = "Gelu", "com.microsoft"
    contrib.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    quantised = model(
        "(float[2,4] x) => (float[2,4] y)",
        "q = QuantizeLinear(x, s, o)\nd = DequantizeLinear(q, s, o)\np = Softmax(d)\ny = Log(p)",
    )
    quantised.graph.initializer.extend(
        [numpy_helper.from_array(np.array(2.0, np.float32), "s"), numpy_helper.from_array(np.array(128, np.uint8), "o")]
    )
    branch = with_bodies()[1]
    branch.graph.node.extend(
        [helper.make_node("Softmax", ["y"], ["p"], name="p", axis=-1), helper.make_node("Log", ["p"], ["l"], name="l")]
    )
    branch.graph.output.append(helper.make_tensor_value_info("l", TensorProto.FLOAT, [2]))
    return {"shared weights": shared, "contrib domain": contrib, "quantised part": quantised, "body": branch}


@pytest.mark.parametrize("name", unharmed_models())
def test_all_that_is_not_repaired_stays_byte_for_byte(name: str) -> None:
    proto = unharmed_models()[name]
    proto.metadata_props.add(key="note", value="keep me")
    path = saved(proto, Path())
    log = proto.graph.node[-1].name
    result = tensorproof("fix", path, "--range", "*=0:200", "--node", log, *QUICK, "--apply", "out.onnx")
    assert "1 repair applied" in result.err, result.out
    after = onnx.load("out.onnx")
    replaced = {"p", "l", "y"} if name != "body" else {"p", "l"}
    kept = [node.SerializeToString() for node in proto.graph.node if node.output[0] not in replaced]
    assert kept and kept == [n.SerializeToString() for n in after.graph.node if n.output[0] not in replaced]
    assert [t.SerializeToString() for t in after.graph.initializer] == [t.SerializeToString() for t in proto.graph.initializer]
    assert after.metadata_props[0].value == "keep me" and after.opset_import == proto.opset_import
    assert log not in {f.node for f in package.check("out.onnx", ranges={"*": (0, 200)}, confirm=False).findings}


def test_a_finding_inside_a_body_is_repaired_there() -> None:
    path = saved(with_bodies()[1], Path())
    ranges = ("--range", "x=-1:1", "--range", "c={0,1}")
    result = tensorproof("fix", path, *ranges, *QUICK, "--apply", "out.onnx")
    assert result.code == 0 and "1 repair applied" in result.err, result.out
    assert tensorproof("check", "out.onnx", *ranges, "--fail-on", "possible").code == 0


def test_a_model_that_no_runtime_runs_gets_no_repair_and_stays_as_it_is() -> None:
    proto = model("(float[4] x) => (float[4] y)", "u = Relu(x)\np = Softmax(u)\ny = Log(p)")
    proto.graph.node[0].op_type, proto.graph.node[0].domain = "Unknown", "own.domain"
    proto.opset_import.append(helper.make_opsetid("own.domain", 1))
    path = saved(proto, Path())
    assert "none found" in tensorproof("fix", path, *QUICK).out
    result = tensorproof("fix", path, *QUICK, "--apply", "out.onnx", "--fail-on", "possible", "--format", "json")
    (fix,) = [f["fix"] for f in json.loads(result.out)["findings"] if f["rule"] == "NUM101"]
    assert result.code == 1 and fix["kind"] is None
    assert any("does not run the patched model" in declined["reason"] for declined in fix["declined"])
    assert Path("out.onnx").read_bytes() == path.read_bytes()


def test_an_integer_division_is_repaired() -> None:
    path = saved(model("(int64[4] x, int64[4] d) => (int64[4] y)", "y = Div(x, d)"), Path())
    ranges = ("--range", "x=-9:9", "--range", "d=0:3")
    assert tensorproof("check", path, *ranges).code == 1
    assert tensorproof("fix", path, *ranges, *QUICK, "--unsafe", "--apply", "out.onnx").code == 0
    assert tensorproof("check", "out.onnx", *ranges).code == 0


def test_mistakes_are_one_line() -> None:
    path = saved(model("(float[4] x) => (float[4] y)", "y = Log(x)"), Path())
    for arguments, words in (
        (("--runs", "0"), "--runs"),
        (("--apply", str(path)), "--in-place"),
        (("--apply", "."), "is a folder"),
        (("--format", "poem"), "poem"),
        (("--select", "XYZ"), "XYZ"),
        (("--at", "no_such_node"), "no_such_node"),
    ):
        result = tensorproof("fix", path, "--range", "x=-1:1", *arguments)
        assert result.code == 2 and words in result.err and result.err.count("\n") == 1, (arguments, result)


def test_data_of_more_than_two_gigabytes_is_brought_along(tmp_path: Path) -> None:
    """A sparse file: its holes stay holes, and nothing of it is read but what the model uses."""
    rows, width = 1 << 20, 640
    (tmp_path / "a").mkdir()
    with (tmp_path / "a" / "table.bin").open("wb") as file:
        file.truncate(4 * rows * width)
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[rows, width], data_location=TensorProto.EXTERNAL)
    table.external_data.add(key="location", value="table.bin")
    proto = model(
        "(int64[1] i, float[1,640] x) => (float[1,640] y)", "r = Gather(table, i)\ns = Add(r, x)\np = Softmax(s)\ny = Log(p)"
    )
    proto.graph.initializer.append(table)
    path = saved(proto, tmp_path / "a")
    ranges = ("--range", "i={0,7}", "--range", "x=0:200")
    result = tensorproof("fix", path, *ranges, "--runs", "5", "--apply", tmp_path / "b" / "out.onnx")
    assert result.code == 0 and "1 repair applied" in result.err, result.out + result.err
    data = tmp_path / "b" / "out.onnx.data"
    assert data.stat().st_size == 4 * rows * width > 2 << 30 and data.stat().st_blocks * 512 < 1 << 20
    assert tensorproof("check", tmp_path / "b" / "out.onnx", *ranges, "--no-confirm").code == 0


def test_in_place_overwrites_the_model() -> None:
    path = saved(model("(float[4] x) => (float[4] y)", "y = Sqrt(x)"), Path())
    assert tensorproof("fix", path, "--range", "x=-1:1", *QUICK, "--in-place").code == 0
    assert tensorproof("check", path, "--range", "x=-1:1").code == 0


def test_the_source_of_an_exported_model_is_mended(tmp_path: Path) -> None:
    import importlib.util

    import torch

    source = "import torch\n\n\nclass Loss(torch.nn.Module):\n    def forward(self, z, y):\n        p = torch.softmax(z, dim=1)\n        return -(y * torch.log(p)).sum()\n"
    file = tmp_path / "loss.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location("loss", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    example = (torch.zeros(2, 5), torch.zeros(2, 5))
    path = saved(export(module.Loss(), example, ["z", "y"]), tmp_path)
    result = tensorproof("fix", path, "--range", "*=0:200", *QUICK, "--diff", "--source-root", tmp_path)
    assert "+++ b/loss.py" in result.out and "-        return -(y * torch.log(p)).sum()" in result.out
    assert "+        return -(y * torch.log_softmax(z, dim=1)).sum()" in result.out
    assert file.read_text() == source, "source files are never written"
