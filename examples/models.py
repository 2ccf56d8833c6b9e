"""Example models, built with the onnx package alone: three with real defects, one that must stay silent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Builder:
    """Collects nodes and weights of one graph."""

    def __init__(self, element_type: int = TensorProto.FLOAT) -> None:
        self.element_type = element_type
        self.dtype = helper.tensor_dtype_to_np_dtype(element_type)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, value: Any, dtype: Any = None) -> str:
        with np.errstate(all="ignore"):
            self.weights.append(numpy_helper.from_array(np.asarray(value).astype(dtype or self.dtype), name))
        return name

    def node(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [output], name=f"/{output}/{op}", **attributes))
        return output

    def model(self, name: str, inputs: dict[str, Sequence[int | str]], outputs: Sequence[str]) -> onnx.ModelProto:
        infos = [helper.make_tensor_value_info(n, self.element_type, list(s)) for n, s in inputs.items()]
        results = [helper.make_tensor_value_info(n, self.element_type, None) for n in outputs]
        graph = helper.make_graph(self.nodes, name, infos, results, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def naive_cross_entropy() -> onnx.ModelProto:
    """-sum(y * log(softmax(x W + b))): a softmax component underflows to 0 at a logit gap of 104, and log(0) is -inf."""
    rng = np.random.default_rng(0)
    b = Builder()
    b.weight("W", rng.normal(0, 0.5, (64, 10)))
    b.weight("b", np.zeros(10))
    b.weight("axes", [1], np.int64)
    b.node("MatMul", ["image", "W"], "scores")
    b.node("Add", ["scores", "b"], "logits")
    b.node("Softmax", ["logits"], "p", axis=1)
    b.node("Log", ["p"], "log_p")
    b.node("Mul", ["label", "log_p"], "terms")
    b.node("ReduceSum", ["terms", "axes"], "sum", keepdims=0)
    b.node("Neg", ["sum"], "loss")
    return b.model("naive_cross_entropy", {"image": ["N", 64], "label": ["N", 10]}, ["loss"])


def vae_loss() -> onnx.ModelProto:
    """A VAE's reconstruction loss: log(1e-10 + 1 - p) is log(1 - p) in float32, and p = sigmoid(z) rounds to 1."""
    rng = np.random.default_rng(1)
    b = Builder()
    b.weight("W", rng.normal(0, 1.0, (16, 32)))
    b.weight("eps", 1e-10)
    b.weight("one", 1.0)
    b.node("MatMul", ["z", "W"], "decoded")
    b.node("Sigmoid", ["decoded"], "p")
    b.node("Add", ["eps", "p"], "p_guarded")
    b.node("Log", ["p_guarded"], "log_p")
    b.node("Add", ["eps", "one"], "one_guarded")
    b.node("Sub", ["one_guarded", "p"], "q")
    b.node("Log", ["q"], "log_q")
    b.node("Sub", ["one", "x"], "not_x")
    b.node("Mul", ["x", "log_p"], "left")
    b.node("Mul", ["not_x", "log_q"], "right")
    b.node("Add", ["left", "right"], "terms")
    b.node("Neg", ["terms"], "loss")
    return b.model("vae_loss", {"z": [4, 16], "x": [4, 32]}, ["loss"])


def transformer_float16() -> onnx.ModelProto:
    """One transformer block as a conversion to float16 leaves it: the mask constant -1e9 is cast, and scores overflow."""
    rng = np.random.default_rng(2)
    width, heads, length = 64, 4, 16
    b = Builder(TensorProto.FLOAT16)
    b.weight("split", [0, length, heads, width // heads], np.int64)
    b.weight("merge", [0, length, width], np.int64)
    b.weight("scale", (width // heads) ** -0.5)
    b.weight("mask_constant", -1e9, np.float32)
    b.weight("one", 1.0)
    for name in ("q", "k", "v"):
        b.weight(f"W_{name}", rng.normal(0, 0.6, (width, width)))
        b.node("MatMul", ["hidden", f"W_{name}"], f"{name}_flat")
        b.node("Reshape", [f"{name}_flat", "split"], f"{name}_heads")
        b.node("Transpose", [f"{name}_heads"], name, perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3])
    b.node("MatMul", ["q", "k"], "scores")
    b.node("Mul", ["scores", "scale"], "scaled")
    b.node("Sub", ["one", "mask"], "masked_out")
    b.node("Cast", ["mask_constant"], "mask_value", to=TensorProto.FLOAT16)
    b.node("Mul", ["masked_out", "mask_value"], "penalty")
    b.node("Add", ["scaled", "penalty"], "masked_scores")
    b.node("Softmax", ["masked_scores"], "attention", axis=-1)
    b.node("MatMul", ["attention", "v"], "mixed_heads")
    b.node("Transpose", ["mixed_heads"], "mixed", perm=[0, 2, 1, 3])
    b.node("Reshape", ["mixed", "merge"], "merged")
    b.node("Add", ["hidden", "merged"], "output")
    return b.model("transformer_float16", {"hidden": [1, length, width], "mask": [1, 1, 1, length]}, ["output"])


def stable_softmax() -> onnx.ModelProto:
    """Softmax and LogSoftmax as operators, whose runtimes subtract the maximum: nothing to report."""
    b = Builder()
    b.node("LogSoftmax", ["logits"], "log_p", axis=-1)
    b.node("Softmax", ["logits"], "p", axis=-1)
    b.node("Mul", ["p", "log_p"], "terms")
    b.weight("axes", [1], np.int64)
    b.node("ReduceSum", ["terms", "axes"], "sum", keepdims=0)
    b.node("Neg", ["sum"], "entropy")
    return b.model("stable_softmax", {"logits": ["N", 10]}, ["entropy"])


#: Name, builder and the options with which each model is checked.
EXAMPLES: dict[str, tuple[Any, list[str]]] = {
    "naive_cross_entropy": (naive_cross_entropy, ["--range", "image=0:16", "--range", "label=one-hot"]),
    "vae_loss": (vae_loss, ["--range", "z=-4:4", "--range", "x=0:1"]),
    "transformer_float16": (transformer_float16, ["--range", "hidden=-16:16", "--range", "mask=mask"]),
    "stable_softmax": (stable_softmax, ["--range", "logits=-1000:1000"]),
}


def build(folder: Path) -> dict[str, Path]:
    """Write all example models into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: dict[str, Path] = {}
    for name, (make, _) in EXAMPLES.items():
        paths[name] = folder / f"{name}.onnx"
        paths[name].write_bytes(make().SerializeToString())
    return paths
