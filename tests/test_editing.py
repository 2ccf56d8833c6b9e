"""Models edited and written: what is not repaired stays byte for byte, in bodies, functions and external data, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensorproof.errors import ConfigurationError, ModelError
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.frontends.reading import read_onnx
from tensorproof.graph import Node
from tensorproof.repair import saving
from tensorproof.repair.editing import Editor
from tensorproof.repair.graph_diff import graph_diff
from tensorproof.repair.saving import save_model
from tests.models import model, with_bodies

pytestmark = pytest.mark.area("repair")


def edited(proto: onnx.ModelProto) -> tuple[Editor, dict[str, Node]]:
    graph = from_proto(proto)
    return Editor(graph, proto), {node.name: node for node in graph.graph.walk()}


def run(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(proto.SerializeToString(), options).run(None, feeds)


def test_a_replaced_node_goes_and_its_operand_stays_for_others() -> None:
    proto = model("(float[3] x) => (float[3] y, float[3] z)", "p = Softmax(x)\ny = Log(p)\nz = Mul(p, p)")
    editor, nodes = edited(proto)
    spot = editor.before(nodes["y"], "stable")
    editor.replace(nodes["y"], spot.add("LogSoftmax", "x", axis=-1))
    result = editor.finish()
    assert [node.op_type for node in result.graph.node] == ["Softmax", "LogSoftmax", "Mul"]
    x = np.array([0.0, 1.0, 300.0], np.float32)
    y, _ = run(result, {"x": x})
    assert np.isfinite(y).all() and np.allclose(y, [-300, -299, 0])
    assert [node.op_type for node in proto.graph.node] == ["Softmax", "Log", "Mul"], "the original is not changed"


def test_what_only_a_replaced_node_read_goes_with_it() -> None:
    proto = model("(float[3] x) => (float[3] y)", "n = Neg(x)\np = Softmax(n)\nr = Identity(p)\ny = Log(r)")
    editor, nodes = edited(proto)
    spot = editor.before(nodes["y"], "stable")
    editor.replace(nodes["y"], spot.add("LogSoftmax", "n", axis=-1))
    assert [node.op_type for node in editor.finish().graph.node] == ["Neg", "LogSoftmax"]


def test_an_operand_of_one_node_is_exchanged_for_that_node_alone() -> None:
    proto = model("(float[3] x) => (float[3] y, float[3] z)", "y = Sqrt(x)\nz = Abs(x)")
    editor, nodes = edited(proto)
    spot = editor.before(nodes["y"], "guard")
    editor.rewire(nodes["y"], 0, spot.clip("x", 0.0, None, np.float32))
    y, z = run(editor.finish(), {"x": np.array([-4.0, 0.0, 4.0], np.float32)})
    assert y.tolist() == [0.0, 0.0, 2.0] and z.tolist() == [4.0, 0.0, 4.0]


@pytest.mark.parametrize("opset", [7, 10, 11, 13, 18, 21])
def test_clips_and_reductions_are_spelled_for_the_version_of_the_model(opset: int) -> None:
    proto = model(
        "(float[2,3] x) => (float[2] y)",
        "y = ReduceMax<axes=[1], keepdims=0>(x)"
        if opset < 18
        else "axes = Constant<value = int64[1] {1}>()\ny = ReduceMax<keepdims=0>(x, axes)",
        opset=opset,
    )
    editor, nodes = edited(proto)
    spot = editor.before(nodes["y"], "new")
    clipped = spot.clip("x", -1.0, 1.0, np.float32)
    largest = spot.reduce("ReduceMax", clipped, [1], keepdims=False)
    editor.replace(nodes["y"], spot.add("Add", largest, spot.reduce("ReduceSum", clipped, [1], keepdims=False)))
    (y,) = run(editor.finish(), {"x": np.array([[0.5, 3.0, -3.0], [0.25, 0.5, 0.0]], np.float32)})
    assert y.tolist() == [1.5, 1.25]


def test_nodes_in_bodies_are_edited_where_they_stand() -> None:
    for proto, op in zip(with_bodies(), ("Mul", "Log", "Sqrt")):
        editor, nodes = edited(proto)
        (node,) = [node for node in nodes.values() if node.op == op]
        spot = editor.before(node, "guard")
        editor.rewire(node, 0, spot.clip(spot.name(node.inputs[0]), 0.5, 2.0, np.float32))
        result = editor.finish()
        feeds: dict[str, Any] = {"x": np.array([-9.0, 1.0], np.float32)}
        if op == "Log":
            feeds["c"] = np.array(True)
        assert all(np.isfinite(array).all() for array in run(result, feeds))
        assert len(result.graph.node) == len(proto.graph.node), "the graph around the body is as it was"


def test_functions_are_inlined_as_the_graph_has_them() -> None:
    text = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
    main (float[3] x) => (float[3] y) { a = own.naive(x)\n y = own.naive(a) }
    <opset_import: ["" : 18], domain: "own">
    naive (t) => (r) { p = Softmax(t)\n r = Log(p) }"""
    proto = onnx.parser.parse_model(text)
    editor, nodes = edited(proto)
    logarithms = [node for node in nodes.values() if node.op == "Log"]
    assert len(logarithms) == 2
    for node in logarithms:
        spot = editor.before(node, "guard")
        editor.rewire(node, 0, spot.clip(spot.name(node.inputs[0]), 1e-30, None, np.float32))
    (y,) = run(editor.finish(), {"x": np.array([0.0, 300.0, 10.0], np.float32)})
    assert np.isfinite(y).all()


def test_the_change_of_a_graph_is_a_diff() -> None:
    proto = model("(float[3] x) => (float[3] y)", "p = Softmax<axis=-1>(x)\ny = Log(p)")
    editor, nodes = edited(proto)
    editor.replace(nodes["y"], editor.before(nodes["y"], "stable").add("LogSoftmax", "x", axis=-1))
    lines = graph_diff(proto, editor.finish(), "model.onnx").splitlines()
    assert lines[:2] == ["--- a/model.onnx", "+++ b/model.onnx"]
    assert "-p = Softmax(x, axis=-1)" in lines and "-y = Log(p)" in lines and "+y = LogSoftmax(x, axis=-1)" in lines
    assert graph_diff(proto, proto, "model.onnx") == ""


def external_model(folder: Path, size: int, *, location: str = "weights.bin") -> Path:
    """y = x + W, with W in a file of its own."""
    weights = np.arange(size, dtype=np.float32)
    (folder / location).write_bytes(b"\0" * 64 + weights.tobytes())
    tensor = TensorProto(name="W", data_type=TensorProto.FLOAT, dims=[size], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "64"), ("length", str(4 * size))):
        tensor.external_data.add(key=key, value=value)
    node = helper.make_node("Add", ["x", "W"], ["y"], name="y")
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in ("x", "y")]
    graph = helper.make_graph([node], "external", info[:1], info[1:], [tensor])
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString())
    return path


def result_of(path: Path, size: int) -> Any:
    return ort.InferenceSession(str(path)).run(None, {"x": np.zeros(size, np.float32)})[0]


@pytest.mark.parametrize("largest", [saving.ONE_FILE, 16])
def test_external_data_is_brought_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    monkeypatch.setattr(saving, "ONE_FILE", largest)
    monkeypatch.setattr(saving, "PIECE", 1000)
    (tmp_path / "a").mkdir()
    source = external_model(tmp_path / "a", 5000)
    target = tmp_path / "b" / "patched.onnx"
    save_model(read_onnx(source), source, target)
    assert (result_of(target, 5000) == np.arange(5000)).all()
    assert {path.name for path in target.parent.iterdir()} == {"patched.onnx"} | ({"patched.onnx.data"} if largest == 16 else set())


def test_data_beside_the_target_stays_where_it_is(tmp_path: Path) -> None:
    source = external_model(tmp_path, 5000)
    save_model(read_onnx(source), source, tmp_path / "patched.onnx")
    assert (tmp_path / "patched.onnx").stat().st_size < 1000
    assert (result_of(tmp_path / "patched.onnx", 5000) == np.arange(5000)).all()


def test_weights_that_stayed_in_a_large_model_file_are_brought_along(tmp_path: Path) -> None:
    """Large files are read without their weights, which then stand in the model file itself."""
    size = 5 << 20
    weights = numpy_helper.from_array(np.arange(size, dtype=np.float32), "W")
    node = helper.make_node("Add", ["x", "W"], ["y"], name="y")
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in ("x", "y")]
    proto = helper.make_model(
        helper.make_graph([node], "large", info[:1], info[1:], [weights]), ir_version=8, opset_imports=[helper.make_opsetid("", 18)]
    )
    source = tmp_path / "large.onnx"
    source.write_bytes(proto.SerializeToString())
    read = read_onnx(source)
    assert read.graph.initializer[0].data_location == TensorProto.EXTERNAL
    save_model(read, source, source, in_place=True)
    assert (result_of(source, size) == np.arange(size)).all()


def test_the_original_is_not_overwritten_by_accident(tmp_path: Path) -> None:
    source = external_model(tmp_path, 4)
    proto = read_onnx(source)
    before = source.read_bytes()
    (tmp_path / "link.onnx").symlink_to(source)
    for target in (source, tmp_path / "." / "model.onnx", tmp_path / "link.onnx"):
        with pytest.raises(ConfigurationError, match="--in-place"):
            save_model(proto, source, target)
    with pytest.raises(ConfigurationError, match="is a folder"):
        save_model(proto, source, tmp_path)
    assert source.read_bytes() == before


def test_external_data_outside_the_folder_is_not_read(tmp_path: Path) -> None:
    source = external_model(tmp_path, 4)
    proto = read_onnx(source)
    proto.graph.initializer[0].external_data[0].value = "../secret.bin"
    with pytest.raises(ModelError, match="outside"):
        save_model(proto, source, tmp_path / "elsewhere" / "out.onnx")
    assert not (tmp_path / "elsewhere" / "out.onnx").exists()
