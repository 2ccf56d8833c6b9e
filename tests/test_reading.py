"""ONNX files into the graph: source lines, functions, scopes, external data, sparse tensors, size."""

from __future__ import annotations

import io
import itertools
import time
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensorproof import check
from tensorproof.frontends.onnx_file import from_proto, load
from tests.models import found, model, static, with_bodies

pytestmark = pytest.mark.area("reading")


def test_findings_stand_at_the_user_s_line(tmp_path: Path) -> None:
    """PyTorch's exporter leaves the stack trace and the module path in the file."""
    import torch
    from torch import nn

    class Head(nn.Module):
        def forward(self, x):
            return torch.log(torch.softmax(x, -1))  # the defect

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = Head()

        def forward(self, x):
            return self.head(x * 2.0)

    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Net().eval(), (torch.zeros(2, 4),), dynamo=True, verbose=False).save(buffer)
    path = tmp_path / "net.onnx"
    path.write_bytes(buffer.getvalue())
    report = check(path, ranges={"*": (-80, 80)}, confirm=False)
    (finding,) = [f for f in report.roots() if f.rule.code == "NUM101"]
    assert finding.location is not None and finding.location.file is not None and finding.location.line is not None
    assert Path(finding.location.file).name == "test_reading.py"
    line = Path(__file__).read_text().splitlines()[finding.location.line - 1]
    assert "the defect" in line
    assert finding.location.module == "head"


def test_functions_are_inlined() -> None:
    proto = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        main (float[2] x) => (float[2] y) { y = local.risky(x) }
        <domain: "local", opset_import: ["" : 17]>
        risky (a) => (b) { c = Relu(a) b = Log(c) }
        """
    )
    report = static(proto, ranges={"x": (-1, 1)})
    assert {f.rule.code for f in report.roots()} == {"NUM101"}
    assert report.coverage.complete


def test_nodes_out_of_order_are_sorted() -> None:
    proto = model("(float[2] x) => (float[2] y)", "a = Relu(x)\ny = Log(a)")
    nodes = list(proto.graph.node)[::-1]
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del proto.graph.node[:]
    proto.graph.node.extend(copies)
    assert found(static(proto, ranges={"x": (-1, 1)})) == {("NUM101", "y")}


def test_repeated_node_names_stay_apart() -> None:
    proto = model("(float[2] x) => (float[2] y)", "a = Exp(x)\ny = Log(x)")
    for node in proto.graph.node:
        node.name = "same"
    report = static(proto, ranges={"x": (-1, 1)})
    assert found(report) == {("NUM101", "same#2")}
    assert report.proven_safe == ("same",)


def test_initialisers_that_are_also_inputs_are_weights() -> None:
    proto = model("(float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}>", "y = Div(x, w)", ir_version=3)
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]))
    assert not static(proto, ranges={"x": (0, 1)}).findings


def test_sparse_initialisers_are_made_dense() -> None:
    proto = model("(float[4] x) => (float[4] y)", "y = Mul(x, w)")
    values = numpy_helper.from_array(np.array([3.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array([2], np.int64), "w_indices")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    graph = from_proto(proto)
    number = graph.find_value("w")
    assert number is not None and graph.constants[number].tolist() == [0.0, 0.0, 3.0, 0.0]


def test_external_data_is_mapped_not_read(tmp_path: Path) -> None:
    """A sparse file of 8 GB: reading it would take memory and minutes."""
    proto = model("(float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}>", "y = Mul(x, w)")
    with (tmp_path / "huge.bin").open("wb") as file:
        file.truncate(8 << 30)
    tensor = proto.graph.initializer.add()
    tensor.name, tensor.data_type, tensor.data_location = "huge", TensorProto.FLOAT, TensorProto.EXTERNAL
    tensor.dims.extend([1 << 21, 1 << 10])
    tensor.external_data.add(key="location", value="huge.bin")
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    loaded = load(path)
    number = loaded.find_value("huge")
    assert number is not None and isinstance(loaded.constants[number], np.memmap)
    assert not check(path, ranges={"x": (0, 1)}, confirm=False).findings


def test_sub_graphs_read_outer_scopes() -> None:
    for proto in with_bodies():
        graph = from_proto(proto)
        assert len(list(graph.graph.walk())) > len(graph.graph.nodes)


@pytest.mark.parametrize("opset", [7, 9, 11, 12, 13, 15, 17, 18, 20, 22])
def test_opsets(opset: int) -> None:
    """Softmax coerces to two dimensions until opset 12; Clip, Squeeze and ReduceSum turned attributes into inputs."""
    report = static(
        model("(float[2,3,4] x) => (float[2,3,4] y)", "p = Softmax<axis=1>(x)\ny = Log(p)", opset=opset), ranges={"x": (-1, 1)}
    )
    assert not report.findings and report.coverage.complete


def test_two_hundred_thousand_nodes_load_and_scale() -> None:
    """The cost is linear: four times the nodes take about four times the CPU time (measured against each other)."""

    def chain(count: int) -> onnx.ModelProto:
        names = ["x", *(f"v{i}" for i in range(count))]
        nodes = [helper.make_node("Relu", [a], [b], name=b) for a, b in itertools.pairwise(names)]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])]
        outputs = [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, [2])]
        return helper.make_model(helper.make_graph(nodes, "chain", inputs, outputs))

    def seconds(proto: onnx.ModelProto) -> float:
        started = time.process_time()
        assert len(from_proto(proto).graph.nodes) == len(proto.graph.node)
        return time.process_time() - started

    small, large = chain(50_000), chain(200_000)
    assert seconds(large) < 10 * max(seconds(small), 0.05)
