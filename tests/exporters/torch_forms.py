"""The functions in PyTorch, exported by `torch.onnx.export`: its present exporter, or the one for TorchScript."""

from __future__ import annotations

import io
import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import torch
from torch.nn import functional as F

from tests.exporters.catalogue import CASES, DEFECTIVE, MISSING

Function = Callable[..., Any]


def softmax_by_hand(x):
    e = torch.exp(x - x.max(dim=-1, keepdim=True).values)
    return e / e.sum(dim=-1, keepdim=True)


def naive_softmax(x):
    e = torch.exp(x)
    return e / e.sum(dim=-1, keepdim=True)


def stable_bce(x, z):
    return (torch.clamp(x, min=0) - x * z + torch.log(1 + torch.exp(-torch.abs(x)))).mean()


def naive_bce(x, z):
    p = torch.sigmoid(x)
    return -(z * torch.log(p) + (1 - z) * torch.log(1 - p)).mean()


def layer_norm(x):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return torch.exp((x - mean) / torch.sqrt(variance + 1e-5))


def layer_norm_of_squares(x):
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean * mean
    return torch.exp((x - mean) / torch.sqrt(variance + 1e-5))


def rms_norm(x):
    return torch.exp(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rms_norm_unguarded(x):
    return torch.exp(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)))


def group_norm(x, eps=1e-5):
    y = x.reshape(2, 4, -1)
    y = y - y.mean(-1, keepdim=True)
    y = y / torch.sqrt(y.square().mean(-1, keepdim=True) + eps)
    return torch.exp(y.reshape(2, 8, 4, 4))


def instance_norm(x, eps=1e-5):
    d = x - x.mean((2, 3), keepdim=True)
    return torch.exp(d * (d.square().mean((2, 3), keepdim=True) + eps).rsqrt())


def batch_norm(x, eps=1e-5):
    variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0, keepdim=True)
    return torch.exp((x - mean) / torch.sqrt(variance + eps))


def attention(q, k, v, mask, hidden=-1e9):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return torch.softmax(scores.masked_fill(~mask, hidden), dim=-1) @ v


def iou(p, t):
    both = (p * t).sum(-1)
    return both / (p.sum(-1) + t.sum(-1) - both + 1e-6)


def dice(p, t, smooth=1.0):
    return 1 - (2 * (p * t).sum(-1) + smooth) / (p.sum(-1) + t.sum(-1) + smooth)


def focal(x):
    logarithm = F.log_softmax(x, dim=-1)
    return (-((1 - logarithm.exp()) ** 2) * logarithm).mean()


def naive_focal(x):
    p = torch.softmax(x, dim=-1)
    return (-((1 - p) ** 2) * torch.log(p)).mean()


def info_nce(a, b):
    similar = F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T / 0.07
    return -torch.diagonal(F.log_softmax(similar, dim=-1)).mean()


def naive_info_nce(a, b):
    e = torch.exp(a @ b.T)
    return -torch.log(torch.diagonal(e) / e.sum(-1)).mean()


def kl(x, y):
    p = torch.softmax(x, dim=-1)
    return (p * (F.log_softmax(x, dim=-1) - F.log_softmax(y, dim=-1))).sum(-1)


def naive_kl(x, y):
    p, q = torch.softmax(x, dim=-1), torch.softmax(y, dim=-1)
    return (p * torch.log(p / q)).sum(-1)


LABELS = torch.tensor([0, 3, 7, 1])

#: The function, and the same with a defect.
FORMS: dict[str, tuple[Function, Function]] = {
    "log-softmax": (lambda x: F.log_softmax(x, dim=-1), lambda x: torch.log(torch.softmax(x, dim=-1))),
    "softmax by hand": (softmax_by_hand, naive_softmax),
    "logsumexp": (lambda x: torch.logsumexp(x, dim=-1), lambda x: torch.log(torch.exp(x).sum(-1))),
    "p div sum(p)": (
        lambda p: torch.log(1.01 - p / p.sum(-1, keepdim=True)),
        lambda p: torch.log(1.01 - p / p.mean(-1, keepdim=True)),
    ),
    "exp(h - relu(h))": (lambda h: torch.exp(h - torch.relu(h)), lambda h: torch.exp(h + torch.relu(h))),
    "stable BCE": (stable_bce, naive_bce),
    "softplus": (F.softplus, lambda x: torch.log(1 + torch.exp(x))),
    "logsigmoid": (F.logsigmoid, lambda x: torch.log(torch.sigmoid(x))),
    "sparse cross-entropy": (
        lambda x: F.cross_entropy(x, LABELS),
        lambda x: F.nll_loss(torch.log(torch.softmax(x, dim=-1)), LABELS),
    ),
    "x div (1 + abs(x))": (
        lambda x: torch.log(1.01 - x / (1 + torch.abs(x))),
        lambda x: torch.log(1.01 - x / (1 + x)),
    ),
    "a div (a + b)": (
        lambda a, b: torch.log(1.01 - a / (a + b + 1e-3)),
        lambda a, b: torch.log(1.01 - a / (a - b + 1e-3)),
    ),
    "standardise": (
        lambda x: torch.exp((x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)),
        lambda x: torch.exp((x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)),
    ),
    "LayerNorm": (layer_norm, layer_norm_of_squares),
    "RMSNorm": (rms_norm, rms_norm_unguarded),
    "GroupNorm": (group_norm, lambda x: group_norm(x, 0.0)),
    "InstanceNorm": (instance_norm, lambda x: instance_norm(x, 0.0)),
    "batch statistics": (batch_norm, lambda x: batch_norm(x, 0.0)),
    "LayerNorm of the library": (
        lambda x: torch.exp(F.layer_norm(x, (16,))),
        lambda x: torch.exp(20 * F.layer_norm(x, (16,), eps=1e-5) ** 3),
    ),
    "RMSNorm of the library": (
        lambda x: torch.exp(F.rms_norm(x, (16,), eps=1e-5)),
        lambda x: torch.exp(20 * F.rms_norm(x, (16,), eps=1e-5) ** 3),
    ),
    "GroupNorm of the library": (
        lambda x: torch.exp(F.group_norm(x, 4)),
        lambda x: torch.exp(20 * F.group_norm(x, 4) ** 3),
    ),
    "InstanceNorm of the library": (
        lambda x: torch.exp(F.instance_norm(x)),
        lambda x: torch.exp(20 * F.instance_norm(x) ** 3),
    ),
    "cosine similarity": (
        lambda a, b: torch.log(1.01 - F.cosine_similarity(a, b, dim=-1)),
        lambda a, b: torch.log(1.01 - (a * b).sum(-1)),
    ),
    "masked attention": (attention, lambda q, k, v, mask: attention(q, k, v, mask, -math.inf)),
    "IoU": (iou, lambda p, t: (p * t).sum(-1) / (p.sum(-1) - t.sum(-1) + 1e-6)),
    "dice": (dice, lambda p, t: dice(p, t, 0.0)),
    "focal": (focal, naive_focal),
    "InfoNCE": (info_nce, naive_info_nce),
    "KL": (kl, naive_kl),
    "softmax at V": (
        lambda x, v: torch.log(torch.softmax(x, dim=-1) @ v),
        lambda x, v: torch.log(torch.softmax(x, dim=-1) @ (v - 1.5)),
    ),
    "l2-normalise": (
        lambda x: torch.exp(10 * F.normalize(x, dim=-1)),
        lambda x: torch.exp(10 * x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)),
    ),
    "gelu": (lambda x: torch.log(0.2 + F.gelu(x)), lambda x: torch.log(0.1 + F.gelu(x))),
}


def _arguments(name: str) -> tuple[Any, ...]:
    return tuple(torch.ones(i.shape, dtype=torch.bool if i.boolean else torch.float32) for i in CASES[name].values())


class One(torch.nn.Module):
    """One function."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class All(torch.nn.Module):
    """All functions side by side, each with inputs of its own: one export takes as long as fifty."""

    def forward(self, *inputs: Any) -> Any:
        rest, results = list(inputs), []
        for name, function in _functions():
            number = len(CASES[name])
            results.append(function(*rest[:number]))
            del rest[:number]
        return tuple(results)


def _functions() -> list[tuple[str, Function]]:
    return [(name, function) for name in CASES for function in FORMS[name]]


def _export_all(folder: Path) -> None:
    names = [f"{name}{suffix}" for name in CASES for suffix in ("", DEFECTIVE)]
    inputs = [f"{full}/{i}" for full in names for i in CASES[full.removesuffix(DEFECTIVE)]]
    arguments = tuple(x for name, _ in _functions() for x in _arguments(name))
    program = torch.onnx.export(
        All().eval(), arguments, dynamo=True, input_names=inputs, output_names=[f"{full}/result" for full in names], verbose=False
    )
    assert program is not None
    for full in names:
        onnx.save(_part(program.model_proto, full), folder / f"{full}.onnx")


def _part(proto: onnx.ModelProto, full: str) -> onnx.ModelProto:
    """What the result of one function is made from."""
    part = onnx.ModelProto.FromString(proto.SerializeToString())
    graph = part.graph
    needed, nodes = {f"{full}/result"}, []
    for node in reversed(proto.graph.node):
        if not needed.isdisjoint(node.output):
            needed.update(filter(None, node.input))
            nodes.append(node)
    for entries, kept in (
        (graph.node, nodes[::-1]),
        (graph.initializer, [i for i in proto.graph.initializer if i.name in needed]),
        (graph.input, [i for i in proto.graph.input if i.name.startswith(f"{full}/")]),
        (graph.output, [o for o in proto.graph.output if o.name == f"{full}/result"]),
    ):
        del entries[:]
        entries.extend(kept)
    for node in graph.node:
        node.input[:] = [i.removeprefix(f"{full}/") for i in node.input]
    for value in graph.input:
        value.name = value.name.removeprefix(f"{full}/")
    return part


def _export_scripts(folder: Path) -> None:
    for name in CASES.keys() - MISSING["torchscript"]:
        inputs = CASES[name]
        for suffix, function in zip(("", DEFECTIVE), FORMS[name]):
            buffer = io.BytesIO()
            module = One(function).eval()
            torch.onnx.export(module, _arguments(name), buffer, dynamo=False, input_names=list(inputs), opset_version=18)
            (folder / f"{name}{suffix}.onnx").write_bytes(buffer.getvalue())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with torch.no_grad():
        (_export_all if sys.argv[2] == "torch" else _export_scripts)(Path(sys.argv[1]))
