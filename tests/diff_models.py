"""Pairs of models that `diff` compares: networks built node by node, and their copies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tensorproof.frontends.onnx_precision import converted, find_precision

LOGSIGMOID = """\
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.last = nn.Linear(16, 4)

    # tensorproof: x = float32[4,8] in [-1,1]
    def forward(self, x):
        y = self.norm(F.relu(self.first(x)))
        return F.logsigmoid(self.last(y) * 200) * 0.5
"""
#: Run with a backend of Keras that computes it: torch can build and save it, but not call it.
KERAS_NORM = """\
import sys
import keras

keras.utils.set_random_seed(0)
x = keras.Input((4, 6), name="x")
y = keras.layers.Dense(5, name="dense")(x)
y = keras.layers.LayerNormalization(axis=1, name="norm")(y)
y = keras.layers.Dense(3, activation="tanh", name="out")(y)
keras.Model(x, y).save(sys.argv[1])
"""


class Builder:
    """Nodes one after another; values have the names that they are given."""

    def __init__(self, shape: tuple[int | str, ...], seed: int = 0) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shape = shape
        self.random = np.random.default_rng(seed)

    def weight(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def node(self, operator: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], name=f"node/{output}", **attributes))
        return output

    def save(self, path: Path, *outputs: str, kinds: dict[str, int] | None = None) -> onnx.ModelProto:
        infos = [helper.make_tensor_value_info(name, (kinds or {}).get(name, 1), None) for name in outputs]
        graph = helper.make_graph(
            self.nodes, "pair", [helper.make_tensor_value_info("x", 1, list(self.shape))], infos, self.weights
        )
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(proto, path)
        return proto


def classifier(path: Path, *, seed: int = 0, change: int | None = None, width: int = 24) -> Path:
    """Three layers and a softmax; `change` multiplies one column of a layer's kernel by 1.05."""
    net = Builder(("N", 16), seed)
    value = "x"
    for index, (rows, columns) in enumerate([(16, width), (width, width), (width, 10)]):
        kernel = net.random.normal(0, 1 / np.sqrt(rows), (rows, columns))
        bias = net.random.normal(0, 0.1, columns)
        if change == index:
            kernel[:, 3] *= 1.05
        value = net.node("MatMul", [value, net.weight(f"w{index}", kernel)], f"mm{index}")
        value = net.node("Add", [value, net.weight(f"b{index}", bias)], f"add{index}")
        if index < 2:
            value = net.node("Relu", [value], f"act{index}")
    net.save(path, net.node("Softmax", [value], "y"))
    return path


def overflowing(path: Path) -> onnx.ModelProto:
    """The products of the second kernel are beyond float16 for inputs of size 1; after it they are scaled down again."""
    net = Builder(("N", 16))
    net.node("MatMul", ["x", net.weight("w0", net.random.normal(0, 0.3, (16, 32)))], "h0")
    net.node("Relu", ["h0"], "h1")
    net.node("MatMul", ["h1", net.weight("w1", np.abs(net.random.normal(0, 1, (32, 32))) * 8000)], "h2")
    net.node("Mul", ["h2", net.weight("c", np.array([1e-4]))], "h3")
    return net.save(path, net.node("MatMul", ["h3", net.weight("w2", net.random.normal(0, 0.2, (32, 10)))], "y"))


def low(proto: onnx.ModelProto, path: Path, precision: str = "float16") -> Path:
    onnx.save(converted(proto, find_precision(precision))[0], path)
    return path


def deep(path: Path, *, blocks: int = 250, width: int = 160, change: int | None = None) -> Path:
    """Four nodes per block: a product, a sum, an activation and a residual sum."""
    net = Builder((2, width))
    value = "x"
    for index in range(blocks):
        kernel = net.random.normal(0, 0.02 / np.sqrt(width), (width, width))
        if change == index:
            kernel[:, 3] *= 1.05
        net.node("MatMul", [value, net.weight(f"w{index}", kernel)], f"m{index}")
        net.node("Add", [f"m{index}", net.weight(f"b{index}", net.random.normal(0, 0.01, width))], f"a{index}")
        net.node("Relu", [f"a{index}"], f"r{index}")
        value = net.node("Add", [value, f"r{index}"], f"s{index}")
    net.save(path, value)
    return path


def clipped(path: Path, high: float) -> Path:
    """Differs from another one only where an element is beyond both ends."""
    net = Builder((1, 6))
    net.node("Clip", ["x", net.weight("low", np.array(-1.0)), net.weight("high", np.array(high))], "cut")
    net.save(path, net.node("Mul", ["cut", net.weight("two", np.array([2.0]))], "y"))
    return path


def branches(path: Path, *, change: bool) -> Path:
    """Two branches that do not depend on each other; the first one is computed first and may be changed."""
    net = Builder((2, 8))
    kernels = [net.random.normal(0, 0.3, (8, 8)) for _ in range(3)]
    net.node("MatMul", ["x", net.weight("w0", kernels[0] * (1.02 if change else 1.0))], "one")
    net.node("Tanh", ["one"], "one_tanh")
    net.node("MatMul", ["x", net.weight("w1", kernels[1])], "two")
    net.node("Tanh", ["two"], "two_tanh")
    net.node("MatMul", ["two_tanh", net.weight("w2", kernels[2])], "two_more")
    net.save(path, net.node("Add", ["one_tanh", "two_more"], "y"))
    return path


def cancelling(path: Path) -> onnx.ModelProto:
    """A difference of large numbers that are nearly equal: rounding of them is what is left."""
    net = Builder((2, 8))
    net.node("Mul", ["x", net.weight("big", np.array([300.0]))], "large")
    net.node("Sin", ["large"], "wave")
    net.node("Mul", ["wave", net.weight("more", np.array([50.0]))], "steep")
    return net.save(path, net.node("Sin", ["steep"], "y"))
