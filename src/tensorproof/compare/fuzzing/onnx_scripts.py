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
    """Results by name, and the shapes that the runtime promised for them."""
    kind, _, toggles = name.partition(" ")[0].partition("?")
    load = {{"onnxruntime": load_onnx_runtime, "openvino": load_openvino, "onnx-reference": load_reference}}[kind]
    proto = model()
    names = [entry.name for entry in proto.graph.output]
    with tempfile.TemporaryDirectory() as folder:
        run, shapes = load(proto, toggles, folder if mode == "saved" else None)
        results = dict(zip(names, run()))
        if mode == "repeat":
            for _ in range(4):
                again = dict(zip(names, run()))
                if any(again[key].tobytes() != results[key].tobytes() for key in again):
                    break
            results |= {{f"{{key}} again": array for key, array in again.items()}}
    return results, {{key: shape for key, shape in zip(names, shapes) if shape is not None}}


def load_onnx_runtime(proto, toggles, folder):
    """Saving writes the optimised model, which is read back without being optimised again."""
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    level = levels.ORT_ENABLE_ALL
    if "optimisation=off" in toggles:
        level = levels.ORT_DISABLE_ALL
    elif "optimisation=basic" in toggles:
        level = levels.ORT_ENABLE_BASIC
    source = proto.SerializeToString()
    for last in (False, True) if folder else (True,):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.graph_optimization_level = levels.ORT_DISABLE_ALL if folder and last else level
        if not last:
            options.optimized_model_filepath = os.path.join(folder, "optimised.onnx")
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        if not last:
            source = options.optimized_model_filepath
    shapes = [[p if isinstance(p, int) else None for p in entry.shape] or None for entry in session.get_outputs()]
    return lambda: [np.asarray(result) for result in session.run(None, INPUTS)], shapes


def load_openvino(proto, toggles, folder):
    import io

    import openvino

    core = openvino.Core()
    read = core.read_model(io.BytesIO(proto.SerializeToString()))
    if folder:
        openvino.save_model(read, os.path.join(folder, "network.xml"), compress_to_fp16=False)
        read = core.read_model(os.path.join(folder, "network.xml"))
    shapes = []
    for output in read.outputs:
        parts = output.partial_shape
        known = not parts.rank.is_dynamic
        shapes.append([None if part.is_dynamic else part.get_length() for part in parts] if known else None)
    # The default is bfloat16 arithmetic where the processor has it.
    compiled = core.compile_model(read, "CPU", {{"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}})
    used = {{name for entry in compiled.inputs for name in entry.names}}
    feeds = {{name: array for name, array in INPUTS.items() if name in used}}

    def run():
        results = compiled(feeds)
        return [np.array(results[place]) for place in range(len(shapes))]

    return run, shapes


def load_reference(proto, toggles, folder):
    from onnx import shape_inference
    from onnx.reference import ReferenceEvaluator

    shapes = []
    for entry in shape_inference.infer_shapes(proto, data_prop=True).graph.output:
        tensor = entry.type.tensor_type
        sizes = [part.dim_value if part.HasField("dim_value") else None for part in tensor.shape.dim]
        shapes.append(sizes if tensor.HasField("shape") else None)
    evaluator = ReferenceEvaluator(proto)
    return lambda: [np.asarray(result) for result in evaluator.run(None, INPUTS)], shapes
'''
