"""A recorded program as an ONNX model: one named node per step, initialisers for weights and constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.zoo.builder import Recording, Step

OPSET = 18
_PRODUCER = "tensorproof zoo"

#: Parameters that are attributes in ONNX as they stand, and their names there; the others depend on the operator.
_ATTRIBUTES = {"axis": "axis", "order": "perm"}


def write(recording: Recording, weights: Mapping[str, npt.NDArray[Any]], name: str) -> onnx.ModelProto:
    """The model, with these values of the weights."""
    shown = {value: output for output, value in recording.outputs.items()}
    initialisers = [numpy_helper.from_array(array, key) for key, array in (*weights.items(), *recording.constants.items())]
    nodes: list[onnx.NodeProto] = []
    for step in recording.steps:
        parameters, attributes = _parameters(step)
        extra = {f"{step.name}/{key}": array for key, array in parameters.items()}
        initialisers += [numpy_helper.from_array(array, key) for key, array in extra.items()]
        operands = [shown.get(operand, operand) for operand in _placed(step)]
        result = shown.get(step.name, step.name)
        nodes.append(helper.make_node(step.operator, [*operands, *extra], [result], name=step.name, **attributes))
    inputs = [
        helper.make_tensor_value_info(given.name, TensorProto.INT64 if given.integer else TensorProto.FLOAT, given.shape)
        for given in recording.inputs.values()
    ]
    outputs = [
        helper.make_tensor_value_info(output, TensorProto.FLOAT, recording.shapes[value])
        for output, value in recording.outputs.items()
    ]
    graph = helper.make_graph(nodes, name, inputs, outputs, initialisers)
    opset = helper.make_opsetid("", OPSET)
    # The oldest format that holds this opset: runtimes older than the onnx package read the model, too.
    return helper.make_model(graph, opset_imports=[opset], ir_version=8, producer_name=_PRODUCER)


def _placed(step: Step) -> tuple[str, ...]:
    """The operands in ONNX's order; only Clip can leave one out in the middle."""
    if step.operator == "Clip" and step.attributes["bounds"] == ("high",):
        return (step.operands[0], "", step.operands[1])
    return step.operands


def _parameters(step: Step) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """What a step's attributes become: further inputs by name, in order, and attributes of the node."""
    given = step.attributes
    match step.operator:
        case "Clip":
            return {}, {}
        case "Conv":
            return {}, {"strides": [given["stride"]] * 2, "pads": list(given["pads"])}
        case "ConvTranspose":
            return {}, {"strides": [given["stride"]] * 2}
        case "Cast":
            return {}, {"to": TensorProto.INT64}
        case "MaxPool":
            return {}, {"kernel_shape": [given["size"]] * 2, "strides": [given["size"]] * 2}
        case "ReduceSum" | "ReduceMean" | "ReduceMax" | "ReduceMin":
            return {"axes": _whole(*given["axes"])}, {"keepdims": int(given["keep"])}
        case "Reshape":
            return {"shape": _whole(*given["shape"])}, {}
        case "Tile":
            return {"repeats": _whole(*given["repeats"])}, {}
        case "Slice":
            ends = {"starts": given["first"], "ends": given["last"], "axes": given["axis"], "steps": given["step"]}
            return {key: _whole(value) for key, value in ends.items()}, {}
        case "OneHot":
            return {"depth": np.array(given["classes"], np.int64), "values": np.array([0.0, 1.0], np.float32)}, {"axis": -1}
        case "ScatterElements":
            return {}, {"axis": 0, "reduction": "add"}
        case _:
            return {}, {_ATTRIBUTES[key]: value for key, value in given.items()}


def _whole(*values: int) -> npt.NDArray[np.int64]:
    return np.array(values, np.int64)
