"""`onnx_model`: a network of the ONNX dialect as a model. How constant operands are written is said at `LayerSpec`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorproof.compare.drawing import Array, Arrays, draw_weight, dtype_of
from tensorproof.compare.spec import LayerSpec, NetworkSpec, TestSpec, owner_of

if TYPE_CHECKING:
    import onnx

#: The version of the operators, and of the file format that came with it.
OPSET = 21
IR_VERSION = 10
#: A parameter with this prefix is a constant operand, or says something about the node itself.
OPERAND = "@"
#: How many results a node has.
RESULTS = "@results"


def onnx_model(test: TestSpec, arrays: Arrays | None = None, keep: Sequence[str] | None = None) -> onnx.ModelProto:
    """The model: one node per layer, named like it; weights are initializers `LAYER/PLACE`.

    `arrays` take the place of drawn weights. Its outputs are the results of the layers in `keep`, or the outputs of the network.
    Their shapes are left open: every runtime works them out by itself.
    """
    from onnx import helper

    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    for layer in test.layers:
        operands = _operands(layer, test, arrays or {}, weights)
        node = helper.make_node(layer.kind, operands, results_of(layer), name=layer.name)
        node.attribute.extend(_attributes(layer))
        nodes.append(node)
    inputs = [
        helper.make_tensor_value_info(
            entry.name,
            helper.np_dtype_to_tensor_dtype(dtype_of(test.dtype if entry.dtype.startswith(("float", "bfloat")) else entry.dtype)),
            list(entry.shape),
        )
        for entry in test.network.inputs
    ]
    graph = helper.make_graph(nodes, "network", inputs, [], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    types = _element_types(model)
    for name in wanted_results(test.network, keep):
        if types.get(name):
            graph_output = helper.make_tensor_value_info(name, types[name], None)
        else:
            graph_output = helper.make_empty_tensor_value_info(name)
        model.graph.output.append(graph_output)
    return model


def results_of(layer: LayerSpec) -> list[str]:
    """`NAME`, `NAME:1`, ..."""
    count = int(layer.parameters.get(RESULTS, 1))
    return [f"{layer.name}:{index}" if index else layer.name for index in range(count)]


def wanted_results(network: NetworkSpec, keep: Sequence[str] | None) -> list[str]:
    """All results of the layers that are wanted; a name with a number stands for itself."""
    names: list[str] = []
    for wanted in network.outputs if keep is None else keep:
        names += results_of(network.layer(wanted)) if wanted == owner_of(wanted) else [wanted]
    return names


def constant_operand(value: Any, dtype: str) -> Array | None:
    """The array that a parameter stands for; None if it is to be drawn."""
    if isinstance(value, Mapping):
        described = cast("Mapping[str, Any]", value)
        return np.asarray(described["value"], dtype_of(described["dtype"])) if "value" in described else None
    array = np.asarray(value)
    return array.astype({"b": np.dtype(bool), "i": np.dtype(np.int64)}.get(array.dtype.kind, dtype_of(dtype)))


def _operands(layer: LayerSpec, test: TestSpec, arrays: Arrays, weights: list[onnx.TensorProto]) -> list[str]:
    from onnx import numpy_helper

    constants = {
        int(key.removeprefix(OPERAND)): value
        for key, value in layer.parameters.items()
        if key.startswith(OPERAND) and key != RESULTS
    }
    named = list(layer.inputs)
    operands: list[str] = []
    while named or any(place >= len(operands) for place in constants):
        place = len(operands)
        if place not in constants:
            operands.append(named.pop(0) if named else "")
            continue
        value = constants[place]
        if value is None:
            operands.append("")
            continue
        name = f"{layer.name}/{place}"
        array = arrays.get(name)
        if array is None:
            array = constant_operand(value, test.dtype)
        if array is None:
            array = draw_weight(test, layer.name, place, value.get("name", ""), tuple(value["shape"]))
        weights.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        operands.append(name)
    while operands and not operands[-1]:
        operands.pop()
    return operands


def _attributes(layer: LayerSpec) -> list[onnx.AttributeProto]:
    """Attributes with the types of the operator's schema. What has no such type is passed as it is, for runtimes to refuse."""
    from onnx import defs, helper, numpy_helper

    known = dict(defs.get_schema(layer.kind, OPSET).attributes) if defs.has(layer.kind, max_inclusive_version=OPSET) else {}
    made: list[onnx.AttributeProto] = []
    for key, value in layer.parameters.items():
        if key.startswith(OPERAND) or value is None:
            continue
        kinds: Any = defs.OpSchema.AttrType
        wanted: Any = known[key].type if key in known else None
        if isinstance(value, Mapping):
            array = constant_operand(value, "float32")
            made.append(helper.make_attribute(key, numpy_helper.from_array(array) if array is not None else str(value)))
        elif wanted == kinds.FLOAT and isinstance(value, int):
            made.append(helper.make_attribute(key, float(value)))
        elif wanted == kinds.FLOATS and isinstance(value, list):
            made.append(helper.make_attribute(key, [float(part) for part in cast("list[Any]", value)], attr_type=wanted.value))
        elif isinstance(value, list) and not value:
            made.append(helper.make_attribute(key, cast("list[Any]", value), attr_type=(wanted or kinds.INTS).value))
        else:
            made.append(helper.make_attribute(key, value))
    return made


def _element_types(model: onnx.ModelProto) -> dict[str, int]:
    """The element types of all results, as far as the standard's inference finds them."""
    from onnx import shape_inference

    try:
        inferred = shape_inference.infer_shapes(model)
    except Exception:  # an illegal model, which the runtimes are to judge
        return {}
    return {entry.name: entry.type.tensor_type.elem_type for entry in inferred.graph.value_info}
