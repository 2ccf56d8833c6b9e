"""What if the model ran in another format? Every float32 and float64 tensor of an ONNX model turned into it, as `.half()` does.

Types that an operator's schema fixes (the scales of Resize, for example) stay as they are. What happens to a constant on the
way is remembered: a value that becomes infinite or zero is a finding of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import ConfigurationError
from tensorproof.formats import BY_NAME, FLOAT32, FLOAT64, Format

if TYPE_CHECKING:
    import onnx

_SOURCES = (FLOAT32.onnx_code, FLOAT64.onnx_code)
_SCHEMA_NAMES = {"float32": "float", "float64": "double"}


def find_precision(name: str) -> Format:
    """The floating format of that name; `fp16`, `half` and their like are understood."""
    aliases = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
    found = BY_NAME.get(aliases.get(name, name))
    if found is None or found.name not in ("float64", "float32", "float16", "bfloat16"):
        raise ConfigurationError(f"unknown precision {name!r}; known are float64, float32, float16, bfloat16")
    return found


def converted(proto: onnx.ModelProto, format: Format) -> tuple[onnx.ModelProto, dict[str, str]]:
    """The model in another format, and what became of constants: `overflow` or `vanished` by name."""
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(proto)
    opsets = {entry.domain: entry.version for entry in result.opset_import}
    changes: dict[str, str] = {}
    _convert_graph(result.graph, format, opsets, changes)
    return result, changes


def _convert_graph(graph: onnx.GraphProto, format: Format, opsets: dict[str, int], changes: dict[str, str]) -> None:
    fixed = _fixed_names(graph.node, format, opsets)
    for tensor in graph.initializer:
        if tensor.name not in fixed:
            _convert_tensor(tensor, format, tensor.name, changes)
    for info in (*graph.input, *graph.output, *graph.value_info):
        kind = info.type.tensor_type
        if kind.elem_type in _SOURCES and info.name not in fixed:
            kind.elem_type = format.onnx_code
    for node in graph.node:
        keep = any(name in fixed for name in node.output)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _convert_graph(attribute.g, format, opsets, changes)
            elif attribute.HasField("t") and not keep:
                _convert_tensor(attribute.t, format, node.output[0], changes)
            elif attribute.name in ("to", "dtype") and attribute.i in _SOURCES and not keep:
                attribute.i = format.onnx_code
        if node.op_type == "Constant" and not keep:
            _convert_float_attribute(node, format, changes)


def _convert_float_attribute(node: onnx.NodeProto, format: Format, changes: dict[str, str]) -> None:
    """A Constant written as value_float or value_floats has no room for another format: it becomes a tensor."""
    import onnx

    for attribute in node.attribute:
        if attribute.name in ("value_float", "value_floats"):
            values = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            tensor = onnx.numpy_helper.from_array(np.asarray(values, np.float32))
            _convert_tensor(tensor, format, node.output[0], changes)
            node.attribute.remove(attribute)
            node.attribute.append(onnx.helper.make_attribute("value", tensor))
            return


def _convert_tensor(tensor: onnx.TensorProto, format: Format, name: str, changes: dict[str, str]) -> None:
    import onnx

    if tensor.data_type not in _SOURCES or tensor.data_location == type(tensor).EXTERNAL:
        return
    array = onnx.numpy_helper.to_array(tensor)
    with np.errstate(all="ignore"):
        new: Any = array.astype(format.dtype)
    finite = np.isfinite(array)
    if bool((finite & ~np.isfinite(new.astype(np.float64))).any()):
        changes[name] = "overflow"
    elif array.size == 1 and bool((array != 0).all()) and bool((new == 0).all()):
        changes[name] = "vanished"
    converted_tensor = onnx.numpy_helper.from_array(new, tensor.name)
    if converted_tensor.data_type != format.onnx_code:
        converted_tensor = onnx.helper.make_tensor(tensor.name, format.onnx_code, list(array.shape), new.tobytes(), raw=True)
    tensor.CopyFrom(converted_tensor)


def _fixed_names(nodes: Iterable[onnx.NodeProto], format: Format, opsets: dict[str, int]) -> set[str]:
    """Inputs whose type the schema fixes to something that does not admit the format."""
    import onnx

    wanted = f"tensor({_SCHEMA_NAMES.get(format.name, format.name)})"
    fixed: set[str] = set()
    for node in nodes:
        try:
            schema = onnx.defs.get_schema(node.op_type, opsets.get(node.domain, 1), node.domain)
        except onnx.defs.SchemaError:
            continue
        allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
        for index, name in enumerate(node.input):
            formal = schema.inputs[min(index, len(schema.inputs) - 1)] if schema.inputs else None
            if formal is None or not name:
                continue
            types = allowed.get(formal.type_str, {formal.type_str})
            if wanted not in types and any(f"tensor({t})" in types for t in ("float", "double")):
                fixed.add(name)
    return fixed
