"""Bad input: one clear line and exit 2, or a visible "not analysed"; never a traceback, never a wrong "safe"."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.commands import saved, tensorproof
from tests.models import model, static

pytestmark = pytest.mark.area("robustness")


def simple() -> onnx.ModelProto:
    return model("(float[2] x) => (float[2] y)", "y = Relu(x)")


def assert_refused(result, *words: str) -> None:
    assert result.code == 2
    assert result.out == ""
    line = result.err.rstrip("\n")
    assert line.startswith("tensorproof: ") and "\n" not in line and "Traceback" not in line
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", ["empty"]),
        (b"hello, I am a text file\n" * 20, ["not an ONNX file"]),
        (b"\x08\x07\xff\xff\xff\xff\xff\xff\xff", ["not an ONNX file"]),
        (bytes(range(256)) * 40, ["not an ONNX file"]),
    ],
    ids=["empty", "text", "truncated", "noise"],
)
def test_a_file_that_is_not_a_model(tmp_path: Path, content: bytes, words: list[str]) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert_refused(tensorproof("check", path), "model.onnx", *words)


def test_a_truncated_model(tmp_path: Path) -> None:
    data = model("(float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}>", "y = Mul(x, w)").SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: len(data) // 2])
    assert_refused(tensorproof("check", path), "cut.onnx")


def test_a_constant_that_is_no_tensor(tmp_path: Path) -> None:
    node = helper.make_node("Constant", [], ["y"])
    node.attribute.append(helper.make_attribute("value", 3))
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])
    assert_refused(tensorproof("check", saved(helper.make_model(graph), tmp_path)), "no tensor")


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    assert_refused(tensorproof("check", tmp_path / "none.onnx"), "no such file")
    assert_refused(tensorproof("check", tmp_path), "folder")


@pytest.mark.parametrize("suffix", [".tflite", ".gguf", ".mlpackage", ".engine", ".plan"])
def test_formats_that_are_not_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"TFL3")
    assert_refused(tensorproof("check", path), "not read; export ONNX")


def test_a_cycle(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], name="first"), helper.make_node("Relu", ["a"], ["b"])]
    graph = helper.make_graph(
        nodes,
        "cycle",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2])],
    )
    assert_refused(tensorproof("check", saved(helper.make_model(graph), tmp_path)), "cycle")


def test_a_value_that_nothing_produces(tmp_path: Path) -> None:
    proto = simple()
    proto.graph.node[0].input[0] = "ghost"
    assert_refused(tensorproof("check", saved(proto, tmp_path)), "ghost", "nothing produces")


def external(location: str, length: int | None = None) -> onnx.ModelProto:
    proto = model("(float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}>", "y = Mul(x, w)")
    tensor = proto.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    if length is not None:
        tensor.external_data.add(key="length", value=str(length))
    return proto


def test_external_data_is_read_from_beside_the_model(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.array([3.0, -4.0], np.float32).tobytes())
    path = saved(external("w.bin"), tmp_path)
    result = tensorproof("check", path, "--range", "x=0:1", "--format", "json", "--no-confirm")
    assert result.code == 0
    assert json.loads(result.out)["coverage"]["complete"]


def test_external_data_that_is_missing_or_short(tmp_path: Path) -> None:
    assert_refused(tensorproof("check", saved(external("w.bin"), tmp_path)), "w.bin", "missing")
    (tmp_path / "w.bin").write_bytes(b"\0\0\0")
    assert_refused(tensorproof("check", saved(external("w.bin"), tmp_path)), "exceeds")


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "a/../../secret.bin", ""])
def test_external_data_outside_of_the_folder(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret.bin").write_bytes(b"\0" * 64)
    folder = tmp_path / "model"
    folder.mkdir()
    assert_refused(tensorproof("check", saved(external(location), folder)), "outside")


def test_external_data_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(b"\0" * 64)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").symlink_to(tmp_path / "secret.bin")
    assert_refused(tensorproof("check", saved(external("w.bin"), folder)), "outside")


def test_an_unknown_operator_is_visible_and_nothing_behind_it_is_safe(tmp_path: Path) -> None:
    proto = model("(float[2] x) => (float[2] y)", "a = Relu(x)\ny = Exp(a)")
    proto.graph.node[0].op_type = "Frobnicate"
    proto.graph.node[0].domain = "com.example"
    proto.opset_import.add(domain="com.example", version=1)
    report = static(proto, ranges={"x": (0, 1)})
    assert [u.node for u in report.coverage.not_analysed] == ["a"]
    assert "com.example" in report.coverage.not_analysed[0].reason
    assert report.proven_safe == ()
    assert not report.coverage.complete
    result = tensorproof("check", saved(proto, tmp_path), "--no-confirm", "--strict")
    assert result.code == 1 and "not analysed" in result.out.lower()


def test_nan_weights_are_a_finding_and_nothing_behind_them_is_safe() -> None:
    proto = model("(float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}>", "a = Mul(x, w)\ny = Exp(a)")
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([1.0, np.nan], np.float32), "w"))
    report = static(proto, ranges={"x": (0, 1)})
    assert [(f.rule.code, f.node) for f in report.roots()] == [("NUM115", "w")]
    assert report.proven_safe == ()
    assert set(report.proven_safe_if) == {"a", "y"}


def test_a_zero_size_dimension() -> None:
    proto = model("(float[N,0] x) => (float y)", "e = Exp(x)\ny = ReduceMean<keepdims=0>(e)")
    report = static(proto, ranges={"x": (0, 1)}, dims={"N": (0, 2)})
    assert ("NUM114", "y") in {(f.rule.code, f.node) for f in report.findings}


@pytest.mark.parametrize(
    "option, words",
    [
        (["--range", "nobody=0:1"], ["nobody", "inputs are x"]),
        (["--range", "x=1:0"], ["low 1 is above high 0"]),
        (["--range", "x=a:b"], ["not a number"]),
        (["--range", "x=nan:1"], ["NaN"]),
        (["--range", "x"], ["name=low:high"]),
        (["--dim", "N=3"], ["no dimension is named"]),
        (["--dim", "N=x"], ["whole number"]),
        (["--weights", "maybe"], ["not a number"]),
        (["--target", "abacus"], ["unknown target"]),
        (["--precision", "float7"], ["unknown precision"]),
        (["--format", "poem"], ["unknown format"]),
        (["--fail-on", "rain"], ["--fail-on"]),
        (["--select", "NUM999"], ["NUM999"]),
    ],
    ids=lambda v: "_".join(v) if isinstance(v, list) else None,
)
def test_options_that_do_not_fit(tmp_path: Path, option: list[str], words: list[str]) -> None:
    assert_refused(tensorproof("check", saved(simple(), tmp_path), *option), *words)


def test_ranges_files_and_samples_that_do_not_fit(tmp_path: Path) -> None:
    path = saved(simple(), tmp_path)
    ranges = tmp_path / "ranges.json"
    for text in ("{", "[1, 2]", '{"x": [2, 1]}', '{"x": [1, 2, 3]}', '{"nobody": [0, 1]}', '{"x": null}'):
        ranges.write_text(text)
        assert_refused(tensorproof("check", path, "--ranges", ranges))
    samples = tmp_path / "x.npz"
    samples.write_bytes(b"PK\x03\x04 not an archive")
    assert_refused(tensorproof("check", path, "--samples", samples), "x.npz")
    np.savez(samples, x=np.array([object()], dtype=object))
    assert_refused(tensorproof("check", path, "--samples", samples), "plain arrays")
    np.savez(samples, nobody=np.zeros(2))
    assert_refused(tensorproof("check", path, "--samples", samples), "nobody")
    np.savez(samples, x=np.array([0.0, np.nan]))
    assert_refused(tensorproof("check", path, "--samples", samples), "NaN")


def test_an_old_opset_is_refused(tmp_path: Path) -> None:
    proto = simple()
    proto.opset_import[0].version = 6
    assert_refused(tensorproof("check", saved(proto, tmp_path)), "opset 6")


def test_sizes_are_bounded_before_memory_is_taken(tmp_path: Path) -> None:
    """A few bytes that claim terabytes: a shape, a sparse tensor, an external tensor."""
    big = 1 << 40
    proto = model("(float[1] x) => (float y)", f"s = Constant<value_ints=[{big}, {big}]>()\ny = ConstantOfShape(s)")
    assert tensorproof("check", saved(proto, tmp_path), "--no-confirm").code in (0, 1)
    proto = model("(float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}>", "y = Mul(x, w)")
    proto.graph.initializer[0].dims[0] = big
    assert_refused(tensorproof("check", saved(proto, tmp_path)), "w")
    proto = simple()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = big * 8
    assert_refused(tensorproof("check", saved(proto, tmp_path)), "elements")


HOSTILE = [
    "quote\" and ' apostrophe",
    "new\nline",
    "::error file=x::boom",
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m",
    "[bold]markup[/bold]",
    "../../escape",
    "percent %s {brace} \\backslash",
    "",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_data(tmp_path: Path, name: str) -> None:
    """Names of nodes and tensors reach every format, file and generated script as text, never as anything else."""
    proto = model("(float[2] x) => (float[2] y)", "y = Log(x)")
    tensor = name or "x"
    proto.graph.node[0].name = name
    proto.graph.node[0].input[0] = tensor
    proto.graph.input[0].name = tensor
    folder = tmp_path / "witnesses"
    path = saved(proto, tmp_path)
    for format in ("terminal", "json", "sarif", "github", "junit"):
        result = tensorproof("check", path, "--format", format, "--witnesses", folder)
        assert result.code == 1, result
        assert "\x1b" not in result.out
        if format == "json":
            assert json.loads(result.out)["findings"][0]["operand"] == tensor
        if format == "github":
            assert not any(line.startswith("::error file=x") for line in result.out.splitlines())
    assert {p.parent for p in tmp_path.rglob("*") if p.is_file()} <= {tmp_path, folder}
    (script,) = folder.glob("*.py")
    namespace: dict[str, object] = {"__name__": "replayed", "__file__": str(script)}
    exec(compile(script.read_text(), str(script), "exec"), namespace)
    happened, account = namespace["replay"](in_own_process=False)  # type: ignore[operator]
    assert happened, account
