"""What if the model ran in another format? Every float32 and float64 tensor of an ONNX model turned into it, as `.half()` does.

Types that an operator's schema fixes (the scales of Resize, for example) stay as they are. What happens to a constant on the
way is remembered: a value that becomes infinite or zero is a finding of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import ConfigurationError
from tensorproof.formats import BY_NAME, FLOAT32, FLOAT64, Format
from tensorproof.frontends.onnx_tensor import Tensors

if TYPE_CHECKING:
    import onnx

_SOURCES = (FLOAT32.onnx_code, FLOAT64.onnx_code)
#: Elements that are compared at a time.
_PIECE = 1 << 18
_SCHEMA_NAMES = {"float32": "float", "float64": "double"}


def find_precision(name: str) -> Format:
    """The floating format of that name; `fp16`, `half` and their like are understood."""
    aliases = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
    found = BY_NAME.get(aliases.get(name, name))
    if found is None or found.name not in ("float64", "float32", "float16", "bfloat16"):
        raise ConfigurationError(f"unknown precision {name!r}; known are float64, float32, float16, bfloat16")
    return found


def converted(proto: onnx.ModelProto, format: Format, *, path: str | None = None) -> tuple[onnx.ModelProto, dict[str, str]]:
    """The model in another format, and what became of constants: `overflow` or `vanished` by name.

    `path` is where external data is looked for; converted, it is part of the model.
    """
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(proto)
    opsets = {entry.domain: entry.version for entry in result.opset_import}
    changes: dict[str, str] = {}
    _Conversion(format, opsets, changes, Tensors(path or proto.graph.name, path)).graph(result.graph)
    return result, changes


@dataclass(slots=True)
class _Conversion:
    """What is converted into a format, with what becomes of constants by name."""

    format: Format
    opsets: dict[str, int]
    changes: dict[str, str]
    tensors: Tensors

    def graph(self, graph: onnx.GraphProto) -> None:
        code = self.format.onnx_code
        fixed = _fixed_names(graph.node, self.format, self.opsets)
        for tensor in graph.initializer:
            if tensor.name not in fixed:
                self.tensor(tensor, tensor.name)
        for info in (*graph.input, *graph.output, *graph.value_info):
            kind = info.type.tensor_type
            if kind.elem_type in _SOURCES and info.name not in fixed:
                kind.elem_type = code
        for node in graph.node:
            keep = any(name in fixed for name in node.output)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    self.graph(attribute.g)
                elif attribute.HasField("t") and not keep:
                    self.tensor(attribute.t, node.output[0])
                elif attribute.name in ("to", "dtype") and attribute.i in _SOURCES and not keep:
                    attribute.i = code
            if node.op_type == "Constant" and not keep:
                self.float_attribute(node)
            elif node.op_type == "ConstantOfShape" and not node.attribute and not keep:
                self.default_value(node)

    def float_attribute(self, node: onnx.NodeProto) -> None:
        """A Constant written as value_float or value_floats has no room for another format: it becomes a tensor."""
        import onnx

        for attribute in node.attribute:
            if attribute.name in ("value_float", "value_floats"):
                values = attribute.f if attribute.name == "value_float" else list(attribute.floats)
                tensor = onnx.numpy_helper.from_array(np.asarray(values, np.float32))
                self.tensor(tensor, node.output[0])
                node.attribute.remove(attribute)
                node.attribute.append(onnx.helper.make_attribute("value", tensor))
                return

    def default_value(self, node: onnx.NodeProto) -> None:
        """A ConstantOfShape without a value is zero in float32 (ONNX ConstantOfShape-9)."""
        import onnx

        zero = onnx.TensorProto(data_type=self.format.onnx_code, dims=[1], raw_data=np.zeros(1, self.format.dtype).tobytes())
        node.attribute.append(onnx.helper.make_attribute("value", zero))

    def tensor(self, tensor: onnx.TensorProto, name: str) -> None:
        import onnx

        if tensor.data_type not in _SOURCES:
            return
        if tensor.data_location == type(tensor).EXTERNAL and self.tensors.file is None:
            return
        array = self.tensors.array(tensor)
        with np.errstate(all="ignore"):
            new: Any = array.astype(self.format.dtype)
        if _overflows(array, new):
            self.changes[name] = "overflow"
        elif array.size == 1 and bool((array != 0).all()) and bool((new == 0).all()):
            self.changes[name] = "vanished"
        made = onnx.TensorProto(name=tensor.name, data_type=self.format.onnx_code, dims=array.shape)
        made.raw_data = new.tobytes()
        tensor.CopyFrom(made)


def _overflows(before: Any, after: Any) -> bool:
    """Whether a finite element became one that is not; large arrays are looked at in pieces."""
    before, after = before.reshape(-1), after.reshape(-1)
    for start in range(0, before.size, _PIECE):
        old, new = before[start : start + _PIECE], after[start : start + _PIECE]
        if bool((np.isfinite(old) & ~np.isfinite(new.astype(np.float64))).any()):
            return True
    return False


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
