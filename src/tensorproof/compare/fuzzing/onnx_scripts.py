"""The middle of a script about ONNX operators: `compute`, which builds the model with `onnx.helper` and runs it in one runtime."""

from __future__ import annotations

import json
from typing import Any, cast

from tensorproof.compare.drawing import draw_inputs
from tensorproof.compare.fuzzing.finding import Explanation
from tensorproof.compare.fuzzing.literals import array_source


def onnx_body(found: Explanation) -> str:
    """Source of `compute(name, mode)`."""
    from onnx import numpy_helper

    from tensorproof.compare.backends.onnx_networks import onnx_model

    model = onnx_model(found.test, found.arrays)
    graph = model.graph
    drawn = {**draw_inputs(found.test), **found.arrays}
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    inputs = "".join(f"    {entry.name!r}: {array_source(drawn[entry.name])},\n" for entry in graph.input)
    weights = "".join(f"    {name!r}: {array_source(array)},\n" for name, array in constants.items())
    nodes = "".join(f"            {_node(node)},\n" for node in graph.node)
    opsets = ", ".join(f"helper.make_opsetid({entry.domain!r}, {entry.version})" for entry in model.opset_import)
    return _BODY.format(
        inputs=inputs,
        weights=f"\n{weights}" if weights else "",
        nodes=nodes,
        declared=", ".join(_value(entry) for entry in graph.input),
        outputs=", ".join(_value(entry) for entry in graph.output),
        opsets=opsets,
        ir=model.ir_version,
    )


def _node(node: Any) -> str:
    from onnx import helper

    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    named = "".join(f", {name}={_attribute(value)}" for name, value in attributes.items())
    return f"helper.make_node({node.op_type!r}, {list(node.input)!r}, {list(node.output)!r}{named})"


def _attribute(value: Any) -> str:
    from onnx import TensorProto, numpy_helper

    if isinstance(value, bytes):
        return repr(value.decode())
    if isinstance(value, TensorProto):
        return f"numpy_helper.from_array({array_source(numpy_helper.to_array(value))})"
    if isinstance(value, list | tuple) or type(value).__name__.startswith("Repeated"):
        return f"[{', '.join(_attribute(part) for part in cast('list[Any]', value))}]"
    return repr(value)


def _value(entry: Any) -> str:
    if not entry.type.HasField("tensor_type"):
        return f"helper.make_empty_tensor_value_info({entry.name!r})"
    tensor = entry.type.tensor_type
    shape = [part.dim_value if part.HasField("dim_value") else part.dim_param or None for part in tensor.shape.dim]
    known = json.dumps(shape).replace("null", "None") if tensor.HasField("shape") else "None"
    return f"helper.make_tensor_value_info({entry.name!r}, {tensor.elem_type}, {known})"


_BODY = '''
INPUTS = {{
{inputs}}}
WEIGHTS = {{{weights}}}


def model():
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        [
{nodes}        ],
        "finding",
        [{declared}],
        [{outputs}],
        [numpy_helper.from_array(array, name) for name, array in WEIGHTS.items()],
    )
    return helper.make_model(graph, opset_imports=[{opsets}], ir_version={ir})


def compute(name, mode):
    """Results by name."""
    kind, _, toggles = name.partition(" ")[0].partition("?")
    run = {{"onnxruntime": run_onnx_runtime, "openvino": run_openvino, "onnx-reference": run_reference}}[kind]
    proto = model()
    results = run(proto, toggles)
    if mode == "repeat":
        for _ in range(4):
            again = run(proto, toggles)
            if any(again[key].tobytes() != results[key].tobytes() for key in again):
                break
        results |= {{f"{{key}} again": array for key, array in again.items()}}
    return results, {{}}


def run_onnx_runtime(proto, toggles):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    levels = onnxruntime.GraphOptimizationLevel
    if "optimisation=off" in toggles:
        options.graph_optimization_level = levels.ORT_DISABLE_ALL
    elif "optimisation=basic" in toggles:
        options.graph_optimization_level = levels.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(names, INPUTS))))


def run_openvino(proto, toggles):
    import openvino

    core = openvino.Core()
    read = core.read_model(proto.SerializeToString())
    compiled = core.compile_model(read, "CPU", {{"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}})
    results = compiled([INPUTS[entry.name] for entry in proto.graph.input])
    return {{entry.name: np.asarray(results[place]) for place, entry in enumerate(proto.graph.output)}}


def run_reference(proto, toggles):
    from onnx.reference import ReferenceEvaluator

    names = [entry.name for entry in proto.graph.output]
    return dict(zip(names, map(np.asarray, ReferenceEvaluator(proto).run(names, INPUTS))))
'''
