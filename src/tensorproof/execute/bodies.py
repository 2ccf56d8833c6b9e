"""Nodes inside the bodies of If, Loop and Scan made observable: each gets a flag that says whether it failed in a run.

A node fails when its operands are finite and its result is not. x - x is zero for a finite x and NaN for any other, so the
flag of a tensor is IsNaN(ReduceSum(x - x)); it leaves a Loop or Scan as one more scan output, and an If as one more output
that the other branch answers with false.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

_BODIES = {"Loop": ("body",), "Scan": ("body",), "If": ("then_branch", "else_branch")}


def watch_in_bodies(proto: onnx.ModelProto, output: str, floating: frozenset[str], label: str) -> onnx.ModelProto | None:
    """A copy in which the node that produces `output` inside some body has a flag, a top-level value named `label`.

    `floating` are the names of the node's floating operands and results. None if no node, or more than one, fits.
    """
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(proto)
    paths = list(_paths(result.graph, output))
    if len(paths) != 1 or len(paths[0]) < 2:
        return None
    *outer, (graph, node) = paths[0]
    flag = _flag_of(graph, node, floating, label)
    for depth, (parent, control) in reversed(list(enumerate(outer))):
        body = paths[0][depth + 1][0]
        flag = _hoist(parent, control, body, flag, f"{label}.{depth}")
    graph = result.graph
    graph.node.append(onnx.helper.make_node("Identity", [flag], [label]))
    return result


def _paths(graph: onnx.GraphProto, output: str) -> Iterator[list[tuple[onnx.GraphProto, onnx.NodeProto]]]:
    """Every way from a graph down to a node that produces `output`, as pairs of a graph and its node."""
    for node in graph.node:
        if output in node.output:
            yield [(graph, node)]
        for attribute in node.attribute:
            if attribute.HasField("g") and attribute.name in _BODIES.get(node.op_type, ()):
                for path in _paths(attribute.g, output):
                    yield [(graph, node), *path]


def _flag_of(graph: onnx.GraphProto, node: onnx.NodeProto, floating: frozenset[str], label: str) -> str:
    """Nodes after `node` that say whether it failed; returns the name of their result."""
    import onnx

    make = onnx.helper.make_node
    added: list[onnx.NodeProto] = []

    def any_bad(names: list[str], kind: str) -> str | None:
        flags: list[str] = []
        for index, name in enumerate(names):
            stem = f"{label}.{kind}{index}"
            added.append(make("Sub", [name, name], [f"{stem}.zero"]))
            added.append(make("ReduceSum", [f"{stem}.zero"], [f"{stem}.sum"], keepdims=0))
            added.append(make("IsNaN", [f"{stem}.sum"], [f"{stem}.bad"]))
            flags.append(f"{stem}.bad")
        while len(flags) > 1:
            joined = f"{label}.{kind}.any{len(flags)}"
            added.append(make("Or", flags[:2], [joined]))
            flags = [joined, *flags[2:]]
        return flags[0] if flags else None

    bad_result = any_bad([n for n in node.output if n in floating], "result") or ""
    bad_operand = any_bad(list(dict.fromkeys(n for n in node.input if n in floating)), "operand")
    flag = f"{label}.failed"
    if bad_operand is None:
        added.append(make("Identity", [bad_result], [flag]))
    else:
        added.append(make("Not", [bad_operand], [f"{label}.fine"]))
        added.append(make("And", [bad_result, f"{label}.fine"], [flag]))
    graph.node.extend(added)
    return flag


def _hoist(parent: onnx.GraphProto, control: onnx.NodeProto, body: onnx.GraphProto, flag: str, label: str) -> str:
    """Lead a flag out of a body; returns its name in the parent graph."""
    import onnx

    make = onnx.helper.make_node
    scalar = onnx.helper.make_tensor_value_info(flag, onnx.TensorProto.BOOL, [])
    body.output.append(scalar)
    outside = f"{label}.out"
    control.output.append(outside)
    if control.op_type == "If":
        for attribute in control.attribute:
            if attribute.name in _BODIES["If"] and attribute.g.output[-1].name != flag:
                no = onnx.helper.make_tensor("", onnx.TensorProto.BOOL, [], [False])
                attribute.g.node.append(make("Constant", [], [f"{label}.no"], value=no))
                attribute.g.output.append(onnx.helper.make_tensor_value_info(f"{label}.no", onnx.TensorProto.BOOL, []))
        return outside
    parent.node.append(make("Cast", [outside], [f"{label}.number"], to=onnx.TensorProto.INT64))
    parent.node.append(make("ReduceSum", [f"{label}.number"], [f"{label}.count"], keepdims=0))
    parent.node.append(make("Cast", [f"{label}.count"], [f"{label}.any"], to=onnx.TensorProto.BOOL))
    return f"{label}.any"
