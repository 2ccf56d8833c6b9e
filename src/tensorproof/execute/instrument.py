"""ONNX models made observable: intermediate values as outputs, weights as inputs, or only what leads to some values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx


def instrumented(proto: onnx.ModelProto, observed: Sequence[str], free_weights: Collection[str] = ()) -> onnx.ModelProto:
    """A copy whose outputs are the observed values (and no others) and where free weights are inputs."""
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(proto)
    graph = result.graph
    known = {info.name: info for info in (*graph.output, *graph.value_info, *graph.input)}
    outputs = [known.get(name) or onnx.helper.make_empty_tensor_value_info(name) for name in observed]
    outputs = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in outputs]
    del graph.output[:]
    graph.output.extend(outputs)
    if free_weights:
        _free(result, free_weights)
    return result


def _free(proto: onnx.ModelProto, names: Collection[str]) -> None:
    import onnx

    graph = proto.graph
    fed = {info.name for info in graph.input}
    kept = [tensor for tensor in graph.initializer if tensor.name not in names]
    for tensor in graph.initializer:
        if tensor.name in names and tensor.name not in fed:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    del graph.initializer[:]
    graph.initializer.extend(kept)


def prefix(proto: onnx.ModelProto, values: Sequence[str], free_weights: Collection[str] = ()) -> onnx.ModelProto:
    """A copy with the nodes that lead to these values and no others: nothing that comes after them is run."""
    result = instrumented(proto, values, free_weights)
    producer = {name: node for node in result.graph.node for name in node.output if name}
    needed: set[str] = set()
    stack = list(values)
    kept: set[int] = set()
    while stack:
        name = stack.pop()
        if name in needed:
            continue
        needed.add(name)
        node = producer.get(name)
        if node is not None and id(node) not in kept:
            kept.add(id(node))
            stack.extend(reads(node))
    nodes = [node for node in result.graph.node if id(node) in kept]
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del result.graph.node[:]
    result.graph.node.extend(copies)
    weights = [type(t).FromString(t.SerializeToString()) for t in result.graph.initializer if t.name in needed]
    del result.graph.initializer[:]
    result.graph.initializer.extend(weights)
    inputs = [type(i).FromString(i.SerializeToString()) for i in result.graph.input if i.name in needed]
    del result.graph.input[:]
    result.graph.input.extend(inputs)
    del result.graph.value_info[:]
    return result


def between(proto: onnx.ModelProto, given: Mapping[str, int], values: Sequence[str]) -> onnx.ModelProto:
    """The part of a model that computes some values from others, which become its inputs; `given` has their element types."""
    import onnx

    cut = onnx.ModelProto()
    cut.CopyFrom(proto)
    nodes = [node for node in cut.graph.node if given.keys().isdisjoint(node.output)]
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del cut.graph.node[:]
    cut.graph.node.extend(copies)
    del cut.graph.input[:]
    cut.graph.input.extend(onnx.helper.make_tensor_value_info(name, kind, None) for name, kind in given.items())
    kept = [type(t).FromString(t.SerializeToString()) for t in cut.graph.initializer if t.name not in given]
    del cut.graph.initializer[:]
    cut.graph.initializer.extend(kept)
    return prefix(cut, values)


def reads(node: onnx.NodeProto) -> list[str]:
    """Names that a node reads, with every name that its sub-graphs mention."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                names.extend(reads(inner))
            names.extend(info.name for info in graph.output)
    return names


def rounded(proto: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    """A copy in which each of these values passes through two Identity nodes on its way.

    ONNX Runtime's CPU provider casts 16-bit operands to float32, and drops the casts between two such operators: a chain
    then never rounds, and never overflows, where the model says that it does. An Identity has a 16-bit kernel, so that
    every value is rounded into its own format; but one between two operators without such a kernel is made a float32 one
    (ONNX Runtime 1.31, `IsIsolatedFp16NodeOnCpu`), so that it takes two. The meaning of the model is unchanged.
    """
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(proto)
    nodes: list[onnx.NodeProto] = []
    for node in result.graph.node:
        nodes.append(node)
        for index, name in enumerate(node.output):
            if name and name in names:
                first, second = f"{name}.before_rounding", f"{name}.rounding"
                node.output[index] = first
                nodes.append(onnx.helper.make_node("Identity", [first], [second]))
                nodes.append(onnx.helper.make_node("Identity", [second], [name]))
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del result.graph.node[:]
    result.graph.node.extend(copies)
    return result
