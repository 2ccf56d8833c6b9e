"""The map of a model: its ranges against real runs, headroom, scopes, edges, verdicts; and that it costs nothing unless asked for."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from examples.models import EXAMPLES, naive_cross_entropy, vae_loss

from tensorproof import Report, check
from tensorproof.formats import FLOAT16, FLOAT32, INT32
from tensorproof.graph import Node
from tensorproof.model_map import ModelMap, NodeVerdict, headroom, scope_of
from tensorproof.report.json_report import dumps
from tests.models import model, static, with_bodies

pytestmark = pytest.mark.area("model map")

#: The boxes in which the examples are checked, as numbers to draw from.
BOXES = {
    "naive_cross_entropy": {"image": (0.0, 16.0), "label": (0.0, 1.0)},
    "vae_loss": {"z": (-4.0, 4.0), "x": (0.0, 1.0)},
    "transformer_float16": {"hidden": (-16.0, 16.0), "mask": (0.0, 1.0)},
    "stable_softmax": {"logits": (-1000.0, 1000.0)},
}


def mapped(report: Report) -> ModelMap:
    found = report.model_map()
    assert found is not None
    return found


def every_value(proto: onnx.ModelProto, inputs: dict[str, Any]) -> dict[str, Any]:
    """What ONNX Runtime computes for every value of the graph, nothing optimised away."""
    shown = onnx.ModelProto()
    shown.CopyFrom(proto)
    names = [name for node in proto.graph.node for name in node.output]
    del shown.graph.output[:]
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(shown.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, inputs)))


def drawn(proto: onnx.ModelProto, box: dict[str, tuple[float, float]], rng: np.random.Generator) -> dict[str, Any]:
    points: dict[str, Any] = {}
    for value in proto.graph.input:
        sizes = [d.dim_value or 3 for d in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        points[value.name] = rng.uniform(*box[value.name], sizes).astype(dtype)
    return points


@pytest.mark.parametrize("name", EXAMPLES)
def test_ranges_hold_what_onnx_runtime_computes(name: str) -> None:
    proto, box = EXAMPLES[name][0](), BOXES[name]
    sizes = {"N": 3} if name in ("naive_cross_entropy", "stable_softmax") else {}
    nodes = mapped(static(proto, ranges=box, dims=sizes, model_map=True)).nodes
    assert [node.name for node in nodes] == [node.name for node in proto.graph.node]
    values = {value.name: value for node in nodes for value in node.outputs}
    rng = np.random.default_rng(7)
    compared: set[str] = set()
    for _ in range(20):
        for key, array in every_value(proto, drawn(proto, box, rng)).items():
            value, numbers = values[key], array.astype(np.float64)
            assert value.low is not None and value.high is not None
            assert value.format == array.dtype.name
            assert value.shape is not None and len(value.shape) == array.ndim
            assert all(size == stated for size, stated in zip(array.shape, value.shape) if isinstance(stated, int))
            # A range says what a value is as long as nothing failed: what is not finite came from a defect.
            numbers = numbers[np.isfinite(numbers)]
            assert numbers.size == 0 or (value.low <= numbers.min() and numbers.max() <= value.high), key
            largest = math.inf if value.headroom is None else float(np.finfo(array.dtype).max) * 2.0**-value.headroom
            assert numbers.size == 0 or np.abs(numbers).max() <= largest * (1 + 1e-9), key
            compared |= {key} if numbers.size else set()
    # Three of the models fail, and then all that follows is NaN.
    assert len(compared) >= 0.75 * len(values)


def test_verdicts_are_those_of_the_report() -> None:
    report = check(vae_loss(), ranges={"z": (-4, 4), "x": (0, 1)}, model_map=True)
    verdicts = {node.name: node.verdict for node in mapped(report).nodes}
    assert verdicts["/log_q/Log"] is NodeVerdict.CONFIRMED
    assert verdicts["/log_p/Log"] is NodeVerdict.SAFE
    assert verdicts["/terms/Add"] is NodeVerdict.SAFE_IF
    for name, verdict in verdicts.items():
        assert (verdict is NodeVerdict.SAFE) == (name in report.proven_safe), name
        assert (verdict is NodeVerdict.SAFE_IF) == (name in report.proven_safe_if), name


def test_what_is_not_known_is_told_apart_from_what_cannot_fail() -> None:
    body = "s = Abs(x)\nz = custom.Strange(x)\ny = Log(s)"
    proto = model("(float[4] x) => (float[4] y, float z)", body)
    proto.opset_import.append(onnx.helper.make_opsetid("custom", 1))
    verdicts = {node.name: node.verdict for node in mapped(static(proto, ranges={"x": (-1, 1)}, model_map=True)).nodes}
    assert verdicts == {"s": NodeVerdict.NOT_CHECKABLE, "z": NodeVerdict.NOT_ANALYSED, "y": NodeVerdict.POSSIBLE}


def test_a_baseline_proves_nothing() -> None:
    report = static(vae_loss(), ranges={"z": (-4, 4), "x": (0, 1)}, model_map=True)
    (node,) = [n for n in mapped(report.with_findings(())).nodes if n.name == "/log_q/Log"]
    assert node.verdict is NodeVerdict.POSSIBLE


@pytest.mark.parametrize(
    ("low", "high", "bits"),
    [(-1.0, 1.0, 15.999), (-65504.0, 0.0, 0.0), (0.0, 131008.0, -1.0), (0.0, 0.0, math.inf), (-math.inf, 1.0, -math.inf)],
)
def test_headroom_counts_bits_to_the_largest_number(low: float, high: float, bits: float) -> None:
    assert headroom(FLOAT16, low, high) == pytest.approx(bits, abs=1e-3)


def test_only_floating_numbers_have_headroom() -> None:
    assert headroom(INT32, 0, 5) is None
    assert headroom(FLOAT32, -1.0, 1.0) == pytest.approx(128, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "module", "scope"),
    [
        ("/encoder/layers.0/Add", "", "encoder/layers.0"),
        ("Add_12", "", ""),
        ("/Add", "", ""),
        ("add", "encoder.layers.0", "encoder/layers/0"),
        ("a//b/c", "", "a/b"),
    ],
)
def test_scopes_are_modules_or_come_from_names(name: str, module: str, scope: str) -> None:
    assert scope_of(Node(0, "Add", "", 18, name, (), (), module=module)) == scope


def test_edges_lead_from_makers_to_readers() -> None:
    proto = model("(float[4] x) => (float[4] y)", "a = Exp(x)\nb = Neg(x)\ny = Add(a, b)")
    found = mapped(static(proto, ranges={"x": (0, 1)}, model_map=True))
    assert [(node.name, node.reads, node.sources) for node in found.nodes] == [
        ("a", ("x",), ()),
        ("b", ("x",), ()),
        ("y", ("a", "b"), (0, 1)),
    ]
    (x,) = found.inputs
    assert (x.name, x.format, x.shape, x.low, x.high) == ("x", "float32", (4,), 0.0, 1.0)
    assert found.outputs == ("y",)


def test_bodies_are_mapped_inside_their_nodes() -> None:
    for proto in with_bodies():
        nodes = mapped(static(proto, ranges={"*": (1, 2)}, model_map=True)).nodes
        inner = [node for node in nodes if node.inside is not None]
        assert inner
        for node in inner:
            assert node.inside is not None and nodes[node.inside].op in ("Loop", "If", "Scan")
        assert all(any(nodes[source].inside == node.inside for source in nodes[node.inside].sources) for node in inner)
        for index, node in enumerate(nodes):
            assert all(source < index for source in node.sources if nodes[source].inside == node.inside)


def test_sizes_that_vary_are_named_and_ranges_joined() -> None:
    proto = model("(float[N,3] x) => (float[N] y)", "axes = Constant<value_ints=[1]>()\ny = ReduceSum<keepdims=0>(x, axes)")
    report = static(proto, ranges={"x": (0, 1)}, dims={"N": (1, 3)}, model_map=True)
    (x,) = mapped(report).inputs
    assert x.shape == ("N", 3)
    total = mapped(report).nodes[-1].outputs[0]
    assert total.high == pytest.approx(3, rel=1e-5)


def test_a_report_keeps_no_model_if_told_so() -> None:
    """The graph is let go; the JSON is the same, and has the map only if it is asked for."""
    proto, ranges = naive_cross_entropy(), {"image": (0, 16), "label": "one-hot"}
    plain = static(proto, ranges=ranges, model_map=False)
    assert plain.analysed is None and plain.model_map() is None
    kept = static(proto, ranges=ranges, model_map=True)
    assert replace(kept, times={}) == replace(plain, times={})
    assert kept.to_json().keys() == plain.to_json().keys()
    text = dumps(kept.to_json(model_map=True))
    nodes = json.loads(text)["model_map"]["nodes"]
    assert [node["name"] for node in nodes] == [node.name for node in proto.graph.node]
    assert plain.to_json(model_map=True)["model_map"] is None


def test_asking_for_the_map_costs_the_check_nothing() -> None:
    """With `model_map` the check itself makes no object per node: it keeps what there is."""
    body = "\n".join(f"v{i + 1} = Tanh(v{i})" for i in range(400))
    proto = model("(float[4] v0) => (float[4] v400)", body)
    made = 0

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal made
        made += event == "call" and frame.f_code.co_filename.endswith("model_map.py")

    sys.setprofile(count)
    try:
        report = static(proto, model_map=True)
    finally:
        sys.setprofile(None)
    assert made < 20
    assert len(mapped(report).nodes) == 400
