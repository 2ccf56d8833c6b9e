"""Records of a TensorFlow graph as the bytes of a GraphDef, so that TensorFlow can run what was analysed.

Attributes that begin with an underscore are left out: they place nodes and steer compilers, and say nothing of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.frontends.tensorflow_protos import DATA_TYPES, message_class
from tensorproof.frontends.tensorflow_records import DataType, FunctionName, TensorflowFunction, TensorflowGraph, TensorflowNode
from tensorproof.frontends.tensorflow_records import TensorShape as Shape
from tensorproof.frontends.tensorflow_tensors import DTYPES

#: The version of graphs as of which TensorFlow reads them (GraphDef.versions): the last one before version 2, so that operators
#: that were deprecated since are still there.
PRODUCER = 26

#: Says that a branch or loop is run in the form of version 1, in which TensorFlow rewrites it together with what is around it.
_KEPT = frozenset({"_lower_using_switch_merge"})

#: Types by their elements; the first that has them (a quantised type has those of a plain one).
_TYPE_OF_ELEMENTS: dict[np.dtype[Any], int] = {}
for _code in sorted(DTYPES):
    if DTYPES[_code] != np.dtype(object):
        _TYPE_OF_ELEMENTS.setdefault(DTYPES[_code], _code)

#: Fields of TensorProto that hold one element for a whole tensor.
_ONE_FOR_ALL = {"FLOAT": "float_val", "DOUBLE": "double_val", "INT32": "int_val", "INT64": "int64_val", "BOOL": "bool_val"}


def graph_def_bytes(graph: TensorflowGraph) -> bytes:
    """A serialised GraphDef of the nodes and functions.

    In functions a result is spelled `node:number`, as in the graph itself. TensorFlow wants the name of the output there:
    `tensorproof.execute.tensorflow_worker` puts it in, where operators are known.
    """
    return graph_def(graph).SerializeToString()


def graph_def(graph: TensorflowGraph) -> Any:
    """The same as a message."""
    proto = message_class("GraphDef")()
    proto.versions.producer = PRODUCER
    _add_nodes(proto.node, graph.nodes, frozenset())
    for function in graph.functions.values():
        _write_function(proto.library.function.add(), function)
    return proto


def _add_nodes(field: Any, nodes: Iterable[TensorflowNode], arguments: frozenset[str]) -> None:
    for node in nodes:
        written = field.add(name=node.name, op=node.op)
        for reference in node.inputs:
            written.input.append(reference.node if reference.node in arguments else str(reference))
        written.input.extend(f"^{name}" for name in node.controls)
        write_attributes(written.attr, node.attributes)


def _write_function(proto: Any, function: TensorflowFunction) -> None:
    proto.signature.name = function.name
    for name, type in zip(function.inputs, function.input_types):
        proto.signature.input_arg.add(name=name, type=type.code)
    arguments = frozenset(function.inputs)
    _add_nodes(proto.node_def, function.nodes, arguments)
    for index, reference in enumerate(function.outputs):
        name = f"result_{index}"
        # The type follows from the node: the worker asks TensorFlow for it.
        proto.signature.output_arg.add(name=name)
        proto.ret[name] = reference.node if reference.node in arguments else str(reference)


def write_attributes(field: Any, attributes: Mapping[str, Any]) -> None:
    """Put attributes into a map of AttrValue."""
    for name in attributes:
        if name.startswith("_") and name not in _KEPT:
            continue
        value = attributes[name]
        if isinstance(value, np.ndarray):
            declared: Any = attributes.get("dtype")
            write_tensor(field[name].tensor, value, declared.code if isinstance(declared, DataType) else None)
        else:
            write_attribute(field[name], value)


def write_attribute(proto: Any, value: Any) -> None:
    """Put a Python value into an AttrValue."""
    match value:
        case bool():
            proto.b = value
        case int():
            proto.i = value
        case float():
            proto.f = value
        case bytes():
            proto.s = value
        case str():
            proto.s = value.encode()
        case DataType():
            proto.type = value.code
        case Shape():
            _write_shape(proto.shape, value)
        case FunctionName():
            proto.func.name = value.name
        case np.ndarray():
            write_tensor(proto.tensor, value)
        case list() | tuple():
            proto.list.SetInParent()
            for item in value:
                _append(proto.list, item)
        case _:
            raise TypeError(f"an attribute of a node cannot be a {type(value).__name__}")


def _append(proto: Any, item: Any) -> None:
    match item:
        case bool():
            proto.b.append(item)
        case int():
            proto.i.append(item)
        case float():
            proto.f.append(item)
        case bytes():
            proto.s.append(item)
        case DataType():
            proto.type.append(item.code)
        case Shape():
            _write_shape(proto.shape.add(), item)
        case FunctionName():
            proto.func.add(name=item.name)
        case np.ndarray():
            write_tensor(proto.tensor.add(), item)
        case _:
            raise TypeError(f"a list among attributes cannot hold a {type(item).__name__}")


def _write_shape(proto: Any, shape: Shape) -> None:
    proto.SetInParent()
    if shape.sizes is None:
        proto.unknown_rank = True
        return
    for size in shape.sizes:
        proto.dim.add(size=size)


def write_tensor(proto: Any, array: npt.NDArray[Any], code: int | None = None) -> None:
    """Put an array into a TensorProto; `code` is the type where the elements alone do not say it."""
    if array.dtype == object:
        proto.dtype = DATA_TYPES["STRING"]
        proto.string_val.extend(item if isinstance(item, bytes) else str(item).encode() for item in array.reshape(-1))
    else:
        proto.dtype = code if code is not None and DTYPES.get(code) == array.dtype else _TYPE_OF_ELEMENTS[array.dtype]
        name = next((key for key, value in DATA_TYPES.items() if value == proto.dtype), "")
        if array.size > 1 and not any(array.strides) and name in _ONE_FOR_ALL:
            getattr(proto, _ONE_FOR_ALL[name]).append(array.flat[0].item())
        else:
            proto.tensor_content = array.tobytes()
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    proto.tensor_shape.SetInParent()
