"""What if the model ran in another format? Every float32 and float64 tensor of an ONNX model turned into it, as `.half()` does.

Types that an operator's schema fixes (the scales of Resize, for example) stay as they are. What happens to a constant on the
way is remembered: a value that becomes infinite or zero is a finding of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tensorproof.errors import ConfigurationError
from tensorproof.formats import BY_NAME, FLOAT32, FLOAT64, Format
from tensorproof.frontends.conversion import change_of
from tensorproof.frontends.onnx_file import standard_domain
from tensorproof.frontends.onnx_tensor import Tensors

if TYPE_CHECKING:
    import onnx

#: The types that are converted, unless others are named.
SOURCES = (FLOAT32.onnx_code, FLOAT64.onnx_code)
#: Attributes that name the type of a result.
TYPE_ATTRIBUTES = ("to", "dtype")
_SCHEMA_NAMES = {"float32": "float", "float64": "double"}


def find_precision(name: str) -> Format:
    """The floating format of that name; `fp16`, `half` and their like are understood."""
    aliases = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
    found = BY_NAME.get(aliases.get(name, name))
    if found is None or found.name not in ("float64", "float32", "float16", "bfloat16"):
        raise ConfigurationError(f"unknown precision {name!r}; known are float64, float32, float16, bfloat16")
    return found


def converted(
    proto: onnx.ModelProto, format: Format, *, path: str | None = None, sources: tuple[int, ...] = SOURCES
) -> tuple[onnx.ModelProto, dict[str, str]]:
    """The model in another format, and what became of constants: `overflow` or `vanished` by name.

    `path` is where external data is looked for; converted, it is part of the model. `sources` are the types that are converted.
    """
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(proto)
    changes: dict[str, str] = {}
    Conversion(format, opsets_of(result), changes, Tensors(path or proto.graph.name, path), sources).graph(result.graph)
    return result, changes


def opsets_of(proto: onnx.ModelProto) -> dict[str, int]:
    """The version of each operator set that a model uses; the standard one is called ``."""
    return {standard_domain(entry.domain): entry.version for entry in proto.opset_import}


@dataclass(slots=True)
class Conversion:
    """What is converted into a format, with what becomes of constants by name."""

    format: Format
    opsets: Mapping[str, int]
    changes: dict[str, str]
    tensors: Tensors
    sources: tuple[int, ...] = SOURCES

    def graph(self, graph: onnx.GraphProto) -> None:
        code = self.format.onnx_code
        fixed = _fixed_names(graph.node, self.format, self.opsets)
        for tensor in graph.initializer:
            if tensor.name not in fixed:
                self.tensor(tensor, tensor.name)
        for info in (*graph.input, *graph.output, *graph.value_info):
            kind = info.type.tensor_type
            if kind.elem_type in self.sources and info.name not in fixed:
                kind.elem_type = code
        for node in graph.node:
            self.node(node, keep=any(name in fixed for name in node.output))

    def node(self, node: onnx.NodeProto, *, keep: bool = False) -> None:
        """What the attributes of a node say about types and constants; with `keep`, in its sub-graphs alone."""
        for attribute in node.attribute:
            if attribute.HasField("g"):
                self.graph(attribute.g)
            elif attribute.HasField("t") and not keep:
                self.tensor(attribute.t, node.output[0])
            elif attribute.name in TYPE_ATTRIBUTES and attribute.i in self.sources and not keep:
                attribute.i = self.format.onnx_code
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

        if tensor.data_type not in self.sources:
            return
        if tensor.data_location == type(tensor).EXTERNAL and self.tensors.file is None:
            return
        array = self.tensors.array(tensor)
        with np.errstate(all="ignore"):
            new: Any = array.astype(self.format.dtype)
        change = change_of(array, new)
        if change is not None:
            self.changes[name] = change
        made = onnx.TensorProto(name=tensor.name, data_type=self.format.onnx_code, dims=array.shape)
        made.raw_data = new.tobytes()
        tensor.CopyFrom(made)


class Formal(NamedTuple):
    """What a schema says about an operand or result: its type variable (or type), and what that may be."""

    variable: str
    admits: bool
    is_floating: bool

    @property
    def is_fixed(self) -> bool:
        """Whether it may be float32 or float64, but not the format."""
        return self.is_floating and not self.admits


class Formals(NamedTuple):
    """The operands and results of an operator; the last of each stands for all that follow."""

    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]

    def of_input(self, index: int) -> Formal | None:
        return self.inputs[min(index, len(self.inputs) - 1)] if self.inputs else None

    def of_output(self, index: int) -> Formal | None:
        return self.outputs[min(index, len(self.outputs) - 1)] if self.outputs else None


def formals_of(node: onnx.NodeProto, format: Format, opsets: Mapping[str, int]) -> Formals | None:
    """What the schema of a node says about a format; None if the operator has no schema."""
    domain = standard_domain(node.domain)
    return _formals(node.op_type, domain, opsets.get(domain, 1), format.name)


@lru_cache(maxsize=4096)
def _formals(operator: str, domain: str, version: int, format_name: str) -> Formals | None:
    import onnx

    try:
        schema = onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return None
    wanted = f"tensor({_SCHEMA_NAMES.get(format_name, format_name)})"
    allowed = {c.type_param_str: frozenset(c.allowed_type_strs) for c in schema.type_constraints}

    def formal(name: str) -> Formal:
        types = allowed.get(name, frozenset({name}))
        return Formal(name, wanted in types, not types.isdisjoint({"tensor(float)", "tensor(double)"}))

    return Formals(tuple(formal(i.type_str) for i in schema.inputs), tuple(formal(o.type_str) for o in schema.outputs))


def _fixed_names(nodes: Iterable[onnx.NodeProto], format: Format, opsets: Mapping[str, int]) -> set[str]:
    """Inputs whose type the schema fixes to something that does not admit the format."""
    fixed: set[str] = set()
    for node in nodes:
        formals = formals_of(node, format, opsets)
        if formals is None:
            continue
        for index, name in enumerate(node.input):
            formal = formals.of_input(index)
            if name and formal is not None and formal.is_fixed:
                fixed.add(name)
    return fixed
