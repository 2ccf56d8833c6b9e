"""The nodes of a plan in the words of the tools that convert models.

Each function takes the nodes that stay in float32 and gives the text that a tool takes. Tools know nodes by the names in the file:
a node without one can be in no list.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tensorproof.errors import ConfigurationError
from tensorproof.low_precision.plan import Plan, Stays

#: How trtexec switches the lower precision on.
_TRTEXEC_FLAGS = {"float16": "--fp16", "bfloat16": "--bf16"}


def onnxconverter(plan: Plan) -> str:
    """`node_block_list` of `onnxconverter_common.float16.convert_float_to_float16`: a JSON list of names."""
    return json.dumps(_names(plan))


def autocast(plan: Plan) -> str:
    """`nodes_to_exclude` of `modelopt.onnx.autocast.convert_to_mixed_precision`: a JSON list of regular expressions.

    AutoCast matches them at the beginning of a name, so that each ends with its name's end.
    """
    return json.dumps([f"{re.escape(name)}$" for name in _names(plan)])


def trtexec(plan: Plan) -> str:
    """Options of `trtexec` for a network that is not strongly typed.

    `--layerPrecisions` is what a layer computes in, `--layerOutputTypes` what it hands on: a result that leaves float16 needs
    both. A specification ends at a comma, and its name at the last colon; quotes have a meaning of their own.
    """
    nodes = _named(plan)
    for node in nodes:
        if not set(node.name).isdisjoint(",'"):
            raise ConfigurationError(f"node {node.name!r}: trtexec takes no names with commas or quotes; use --apply")
    if not nodes:
        return _TRTEXEC_FLAGS[plan.precision]
    precisions = ",".join(f"{node.name}:fp32" for node in nodes)
    options = [_TRTEXEC_FLAGS[plan.precision], "--precisionConstraints=obey", f"--layerPrecisions={precisions}"]
    types = [f"{node.name}:{'+'.join(['fp32'] * node.floating_results)}" for node in nodes if node.floating_results]
    if types:
        options.append(f"--layerOutputTypes={','.join(types)}")
    return shlex.join(options)


def coreml(plan: Plan) -> str:
    """Names for `coremltools.transform.FP16ComputePrecision(op_selector=lambda op: op.name not in names)`: a JSON list.

    Core ML Tools reads PyTorch and TensorFlow programs, not ONNX files; the names fit where both exports kept them.
    """
    if plan.precision != "float16":
        raise ConfigurationError(f"Core ML has no {plan.precision}; plan with --precision float16")
    return json.dumps(_names(plan))


LISTS: Mapping[str, Callable[[Plan], str]] = MappingProxyType(
    {"trtexec": trtexec, "onnxconverter": onnxconverter, "autocast": autocast, "coreml": coreml}
)


def find_list(name: str) -> Callable[[Plan], str]:
    """The function of that tool."""
    try:
        return LISTS[name]
    except KeyError:
        raise ConfigurationError(f"unknown list {name!r}; known are {', '.join(LISTS)}") from None


def _names(plan: Plan) -> list[str]:
    return [node.name for node in _named(plan)]


def _named(plan: Plan) -> list[Stays]:
    """All nodes that stay in float32, those without a form in the precision included."""
    nodes = [*plan.kept, *plan.fixed]
    unnamed = [node.name for node in nodes if not node.is_named]
    if unnamed:
        what = f"{len(unnamed)} of the nodes to keep have no name of their own in the file, such as {unnamed[0]}"
        raise ConfigurationError(f"{what}: no list can name them; use --apply")
    return nodes
