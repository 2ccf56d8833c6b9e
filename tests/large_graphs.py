"""Large ONNX models in modules, as exporters name their nodes: stages of blocks with normalisations, branches and residual sums."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

#: Nodes of one block.
BLOCK = 20


def large_model(nodes: int = 10_000, stages: int = 10) -> onnx.ModelProto:
    """A chain of blocks, named `/stage3/block12/branch/Mul`; the last node takes a logarithm of what is negative."""
    rng = np.random.default_rng(0)
    made: list[onnx.NodeProto] = []
    weights = [numpy_helper.from_array(rng.normal(0, 0.2, (8, 8)).astype(np.float32), "W")]
    blocks = nodes // BLOCK
    current = "x"
    for block in range(blocks):
        scope = f"/stage{block * stages // blocks}/block{block}"
        entry = current

        def add(op: str, inputs: list[str], part: str = "", scope: str = scope) -> str:
            output = f"{scope}{part}/{op}_{len(made)}"
            made.append(helper.make_node(op, inputs, [output], name=output))
            return output

        left = add("MatMul", [entry, "W"], "/left")
        right = entry
        for op in ("Tanh", "Sigmoid", "Neg", "Abs", "Tanh", "Sigmoid", "Neg", "Tanh"):
            left = add(op, [left], "/left")
            right = add(op, [right], "/right")
        current = add("Mul", [left, right])
        current = add("Add", [current, entry])
        current = add("Tanh", [current])
    made.append(helper.make_node("Neg", [current], ["negative"], name="/head/Neg"))
    made.append(helper.make_node("Log", ["negative"], ["y"], name="/head/Log"))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        made, "large", [value("x", TensorProto.FLOAT, [4, 8])], [value("y", TensorProto.FLOAT, None)], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
