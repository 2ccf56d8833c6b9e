"""Meanings of operators on torch: the node cases of the standard and the seeds of the suite, and what a search relies on."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tensorproof.execute.meaning import NotExecutable
from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.formats import FLOAT64
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.operators.table import all_operators
from tests.soundness.meanings import run_meaning
from tests.soundness.node_cases import node_cases
from tests.soundness.seeds import all_seeds

pytestmark = pytest.mark.area("meanings")

CASES = [*node_cases(), *all_seeds()]
PARTS = 8

#: Operators that torch cannot hold: text, and pictures that are files; and bounds of gradients that stand for several operators.
WITHOUT_MEANING = {
    "ScatteredSum",
    "SumOfProducts",
    "ImageDecoder",
    "RegexFullMatch",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
    "TfIdfVectorizer",
}


@pytest.mark.parametrize("part", range(PARTS))
def test_meanings_compute_what_the_standard_says(part: int) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for case in CASES[part::PARTS]:
        verdict, detail = run_meaning(case)
        counts[verdict] += 1
        if verdict == "wrong":
            wrong.append(f"{case.name}: {detail}")
    assert not wrong, "\n".join(wrong)
    assert counts["passed"] >= 20 * counts["missing"]


def test_every_floating_operator_has_a_meaning() -> None:
    without = {entry.name for entry in all_operators() if entry.concrete is None}
    assert without == WITHOUT_MEANING


def one_node(op: str, shape: list[int], **attributes: object) -> onnx.ModelProto:
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize("op", ["Relu", "Floor", "Ceil", "Round", "Sign", "HardSigmoid", "ThresholdedRelu", "HardSwish"])
def test_a_search_has_a_derivative_where_the_true_one_is_dead(op: str) -> None:
    """The value is the operator's own; only the way back differs."""
    import torch

    model = from_proto(one_node(op, [4]))
    numbers = np.array([-7.3, -5.2, -4.4, -3.6])
    for search in (False, True):
        graph = TorchGraph(model, precision=FLOAT64, search=search)
        x = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
        (y,) = graph.run({model.graph.inputs[0]: x}, model.graph.outputs).values()
        exact = graph.run({model.graph.inputs[0]: x.detach()}, model.graph.outputs)[model.graph.outputs[0]]
        assert torch.equal(y.detach(), exact)
        slopes = torch.autograd.grad(y.sum(), x, allow_unused=True)[0] if y.requires_grad else None
        alive = slopes is not None and bool((slopes != 0).all())
        assert alive is search


def test_an_index_computed_from_inputs_keeps_a_derivative() -> None:
    """ArgMax, then a row of a table: the derivative leads from the row's entry back to the scores."""
    import torch

    table = np.array([3.0, 5.0, 0.0, 7.0], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("ArgMax", ["x"], ["i"], axis=-1, keepdims=0),
            helper.make_node("Gather", ["table", "i"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        [numpy_helper.from_array(table, "table")],
    )
    model = from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    x = torch.tensor([[0.1, 0.4, 0.3, 0.2]], dtype=torch.float64, requires_grad=True)
    (y,) = TorchGraph(model, search=True).run({model.graph.inputs[0]: x}, model.graph.outputs).values()
    assert y.detach().tolist() == [5.0]
    assert bool((torch.autograd.grad(y.sum(), x)[0] != 0).any())


def test_an_operator_without_meaning_is_named() -> None:
    model = from_proto(one_node("Relu", [2]))
    model.graph.nodes[0].op = "StringSplit"
    with pytest.raises(NotExecutable, match="StringSplit"):
        TorchGraph(model).run({}, model.graph.outputs)
