"""Records back into a GraphDef that TensorFlow runs: the test of what the records say."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorproof.frontends.tensorflow_protos import message_class
from tensorproof.frontends.tensorflow_records import DataType, FunctionName, Reference, TensorflowGraph, TensorflowNode, TensorShape
from tensorproof.frontends.tensorflow_tensors import DTYPES

CODES = {dtype: code for code, dtype in reversed(DTYPES.items()) if dtype.kind != "O"}


def rebuilt(graph: TensorflowGraph) -> bytes:
    """A serialised GraphDef with the nodes and the functions of the records."""
    proto = message_class("GraphDef")()
    proto.versions.producer = 2474
    for node in graph.nodes:
        fill(proto.node.add(), node, [str(operand) for operand in node.inputs])
    types = function_types(graph)
    for function in graph.functions.values():
        made = proto.library.function.add()
        made.signature.name = function.name
        made.signature.is_stateful = True
        for name, kind in zip(function.inputs, function.input_types):
            made.signature.input_arg.add(name=argument(name), type=kind.code)
        nodes = {node.name: node for node in function.nodes}
        for node in function.nodes:
            fill(made.node_def.add(), node, [inner(operand, nodes) for operand in node.inputs])
        for index, (output, kind) in enumerate(zip(function.outputs, types.get(function.name, []))):
            made.signature.output_arg.add(name=f"result_{index}", type=kind.code)
            made.ret[f"result_{index}"] = inner(output, nodes)
        for node in function.nodes:
            if node.op in ("Assert", "StackPushV2", "AssignAddVariableOp", "AssignVariableOp", "If", "While"):
                made.signature.control_output.append(node.name)
                made.control_ret[node.name] = node.name
    return proto.SerializeToString()


def argument(name: str) -> str:
    """A name that TensorFlow takes for an argument; those of nodes may hold more signs."""
    return "argument_" + "".join(sign if sign.isalnum() else "_" + format(ord(sign), "x") for sign in name)


def function_types(graph: TensorflowGraph) -> dict[str, list[DataType]]:
    """What the functions that control flow calls return."""
    types: dict[str, list[DataType]] = {}
    for node in [*graph.nodes, *(node for function in graph.functions.values() for node in function.nodes)]:
        if node.op == "While":
            types[node.attributes["cond"].name] = [DataType(10)]
            types[node.attributes["body"].name] = node.attributes["T"]
        elif node.op == "If":
            for branch in ("then_branch", "else_branch"):
                types[node.attributes[branch].name] = node.attributes["Tout"]
    return types


def inner(operand: Reference, nodes: dict[str, TensorflowNode]) -> str:
    """A reference as functions spell it, with names from TensorFlow's own registry."""
    from tensorflow.python.framework import op_def_registry

    node = nodes.get(operand.node)
    if node is None:
        return argument(operand.node)
    start = 0
    for declared in op_def_registry.get(node.op).output_arg:
        attribute = declared.number_attr or declared.type_list_attr
        length = node.attributes[attribute] if attribute else 1
        length = length if isinstance(length, int) else len(length)
        if operand.output < start + length:
            return f"{operand.node}:{declared.name}:{operand.output - start}"
        start += length
    raise AssertionError(f"{node.op} has no result {operand.output}")


def fill(proto: Any, node: TensorflowNode, inputs: list[str]) -> None:
    proto.name, proto.op = node.name, node.op
    proto.input.extend([*inputs, *(f"^{control}" for control in node.controls)])
    for name, value in node.attributes.items():
        if name != "_class":  # where a node is placed; the nodes that it names may be in another function now
            fill_value(proto.attr[name], value)


def fill_value(proto: Any, value: Any) -> None:
    if isinstance(value, list):
        proto.list.SetInParent()
        for each in value:
            add_to_list(proto.list, each)
    elif isinstance(value, bool):
        proto.b = value
    elif isinstance(value, int):
        proto.i = value
    elif isinstance(value, float):
        proto.f = value
    elif isinstance(value, bytes):
        proto.s = value
    elif isinstance(value, DataType):
        proto.type = value.code
    elif isinstance(value, TensorShape):
        fill_shape(proto.shape, value)
    elif isinstance(value, FunctionName):
        proto.func.name = value.name
    else:
        fill_tensor(proto.tensor, value)


def add_to_list(proto: Any, value: Any) -> None:
    if isinstance(value, bool):
        proto.b.append(value)
    elif isinstance(value, int):
        proto.i.append(value)
    elif isinstance(value, float):
        proto.f.append(value)
    elif isinstance(value, bytes):
        proto.s.append(value)
    elif isinstance(value, DataType):
        proto.type.append(value.code)
    elif isinstance(value, TensorShape):
        fill_shape(proto.shape.add(), value)
    elif isinstance(value, FunctionName):
        proto.func.add(name=value.name)
    else:
        fill_tensor(proto.tensor.add(), value)


def fill_shape(proto: Any, shape: TensorShape) -> None:
    proto.unknown_rank = shape.sizes is None
    for size in shape.sizes or ():
        proto.dim.add(size=size)


def fill_tensor(proto: Any, array: np.ndarray) -> None:
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if array.dtype == object:
        proto.dtype = 7
        proto.string_val.extend(array.ravel().tolist())
    else:
        proto.dtype = CODES[array.dtype]
        proto.tensor_content = array.tobytes()
        proto.tensor_shape.SetInParent()
