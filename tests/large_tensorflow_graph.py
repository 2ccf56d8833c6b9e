"""GraphDefs of any size: python -m tests.large_tensorflow_graph NODES FILE writes one, without TensorFlow.

The graph is a deep network as an unfrozen training script leaves it: towers of layers with variables, their initialisers,
constants, arithmetic, identities and a saver; one node in eight is an operator that can fail.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tensorproof.frontends.tensorflow_protos import message_class

FLOAT = 1
INT32 = 3


def large_graph(nodes: int, *, seed: int = 0, width: int = 8) -> Any:
    """A GraphDef with about that many nodes, all in use."""
    graph = message_class("GraphDef")()
    graph.versions.producer = 2474
    random_source = random.Random(seed)
    add(graph, "x", "Placeholder", shape=(4, width))
    towers = ["x"] * 4
    layer = 0
    while len(graph.node) < nodes:
        tower = layer % len(towers)
        towers[tower] = add_layer(graph, f"tower_{tower}/layer_{layer}", towers[tower], width, random_source)
        layer += 1
    add(graph, "loss", "AddN", *towers, N=len(towers))
    return graph


def add_layer(graph: Any, scope: str, value: str, width: int, random_source: random.Random) -> str:
    """A dense layer with a variable, a normalisation and an activation; the name of its result."""
    add(graph, f"{scope}/kernel/shape", "Const", value=np.array([width, width], np.int32))
    add(graph, f"{scope}/kernel/init", "TruncatedNormal", f"{scope}/kernel/shape", T=INT32)
    add(graph, f"{scope}/kernel", "VariableV2", shape=(width, width))
    add(graph, f"{scope}/kernel/Assign", "Assign", f"{scope}/kernel", f"{scope}/kernel/init")
    add(graph, f"{scope}/kernel/read", "Identity", f"{scope}/kernel")
    add(graph, f"{scope}/MatMul", "MatMul", value, f"{scope}/kernel/read")
    add(graph, f"{scope}/axis", "Const", value=np.array(1, np.int32))
    add(graph, f"{scope}/Mean", "Mean", f"{scope}/MatMul", f"{scope}/axis", keep_dims=True)
    add(graph, f"{scope}/SquaredDifference", "SquaredDifference", f"{scope}/MatMul", f"{scope}/Mean")
    add(graph, f"{scope}/variance", "Mean", f"{scope}/SquaredDifference", f"{scope}/axis", keep_dims=True)
    add(graph, f"{scope}/epsilon", "Const", value=np.array(1e-3, np.float32))
    add(graph, f"{scope}/add", "AddV2", f"{scope}/variance", f"{scope}/epsilon")
    add(graph, f"{scope}/Rsqrt", "Rsqrt", f"{scope}/add")
    add(graph, f"{scope}/mul", "Mul", f"{scope}/MatMul", f"{scope}/Rsqrt")
    activation = random_source.choice(["Relu", "Tanh", "Sigmoid"])
    add(graph, f"{scope}/{activation}", activation, f"{scope}/mul", controls=(f"{scope}/kernel/read",))
    if activation == "Tanh":
        return f"{scope}/{activation}"
    add(graph, f"{scope}/Log1p", "Log1p", f"{scope}/{activation}")
    return f"{scope}/Log1p"


def large_control_flow(count: int) -> Any:
    """Conditions on one flag and loops by turns, each reading what the one before it made."""
    graph = message_class("GraphDef")()
    add(graph, "x", "Placeholder", shape=(4,))
    add(graph, "flag", "Placeholder", shape=())
    value = "x"
    for index in range(count):
        scope = f"cond_{index}"
        add(graph, f"{scope}/pred_id", "Identity", "flag")
        add(graph, f"{scope}/Switch", "Switch", value, f"{scope}/pred_id")
        add(graph, f"{scope}/Exp", "Exp", f"{scope}/Switch:1")
        add(graph, f"{scope}/Log", "Log", f"{scope}/Switch")
        add(graph, f"{scope}/Merge", "Merge", f"{scope}/Log", f"{scope}/Exp", N=2)
        add(graph, f"{scope}/Merge_1", "Merge", f"{scope}/Switch", f"{scope}/Exp", N=2)
        add(graph, f"{scope}/add", "AddV2", f"{scope}/Merge", f"{scope}/Merge_1")
        scope, value = f"while_{index}", f"{scope}/add"
        add(graph, f"{scope}/Enter", "Enter", value, frame_name=scope.encode())
        add(graph, f"{scope}/Merge", "Merge", f"{scope}/Enter", f"{scope}/NextIteration", N=2)
        add(graph, f"{scope}/Less", "Less", f"{scope}/Merge", f"{scope}/Merge")
        add(graph, f"{scope}/LoopCond", "LoopCond", f"{scope}/Less")
        add(graph, f"{scope}/Switch", "Switch", f"{scope}/Merge", f"{scope}/LoopCond")
        add(graph, f"{scope}/Sqrt", "Sqrt", f"{scope}/Switch:1")
        add(graph, f"{scope}/NextIteration", "NextIteration", f"{scope}/Sqrt")
        add(graph, f"{scope}/Exit", "Exit", f"{scope}/Switch")
        value = f"{scope}/Exit"
    return graph


def add(graph: Any, name: str, op: str, *inputs: str, controls: tuple[str, ...] = (), **attributes: Any) -> None:
    """A node, with attributes from Python values; its type is float32 unless it is given."""
    node = graph.node.add(name=name, op=op)
    node.input.extend([*inputs, *(f"^{control}" for control in controls)])
    value = attributes.pop("value", None)
    typed = "dtype" if op in ("Const", "Placeholder", "VariableV2", "TruncatedNormal") else "T"
    node.attr[typed].type = FLOAT if value is None or value.dtype == np.float32 else INT32
    if value is not None:
        tensor = node.attr["value"].tensor
        tensor.dtype = node.attr[typed].type
        for size in value.shape:
            tensor.tensor_shape.dim.add(size=size)
        tensor.tensor_content = value.tobytes()
    for key, given in attributes.items():
        if isinstance(given, bool):
            node.attr[key].b = given
        elif isinstance(given, bytes):
            node.attr[key].s = given
        elif isinstance(given, tuple):
            for size in given:
                node.attr[key].shape.dim.add(size=size)
        elif key == "T":
            node.attr[key].type = given
        else:
            node.attr[key].i = given


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(large_graph(int(sys.argv[1])).SerializeToString())
