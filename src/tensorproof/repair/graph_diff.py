"""The change of a graph, for people: a unified diff of its nodes, one line each."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.report.plain_text import one_line

if TYPE_CHECKING:
    import onnx

#: Constants of at most this many elements are written out.
_SHORT = 4


def graph_diff(before: onnx.ModelProto, after: onnx.ModelProto, name: str) -> str:
    """The nodes that went and came, with the nodes around them; empty if none did."""
    lines = difflib.unified_diff(list(_lines(before.graph)), list(_lines(after.graph)), f"a/{name}", f"b/{name}", n=1, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _lines(graph: onnx.GraphProto, indent: str = "") -> Iterator[str]:
    for node in graph.node:
        operator = f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        attributes = [f"{a.name}={_attribute(a)}" for a in node.attribute if not a.HasField("g")]
        operands = ", ".join([*(one_line(name) or "_" for name in node.input), *attributes])
        yield f"{indent}{', '.join(one_line(name) for name in node.output)} = {operator}({operands})"
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield f"{indent}  {attribute.name}:"
                yield from _lines(attribute.g, f"{indent}    ")


def _attribute(attribute: onnx.AttributeProto) -> str:
    from onnx import helper, numpy_helper

    if attribute.type == type(attribute).TENSOR:
        tensor = attribute.t
        external = tensor.data_location == type(tensor).EXTERNAL
        if external or int(np.prod(tensor.dims, dtype=np.int64)) > _SHORT:
            return f"tensor of {' x '.join(map(str, tensor.dims))}"
        return str(numpy_helper.to_array(tensor).tolist())
    value: Any = helper.get_attribute_value(attribute)
    return one_line(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value), 80)
