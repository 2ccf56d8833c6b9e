"""What of a model can be converted to a lower precision: every node with the operands and results that take part.

A node that touches floating values is *free* if its operator exists in the format, else it stays as it is, for a reason that
is told: its schema fixes the type, no schema is known, or a value has a type that cannot be told from the file. A node with
sub-graphs is free only if all that stands in them is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tensorproof.execute.instrument import reads
from tensorproof.formats import Format
from tensorproof.frontends.onnx_precision import SOURCES, TYPE_ATTRIBUTES, Formals, formals_of, opsets_of

if TYPE_CHECKING:
    import onnx

    from tensorproof.graph import Model

#: Operators that look at the shape of a value alone: its format is all the same to them.
_INDIFFERENT = frozenset({"Shape", "Size"})


@dataclass(frozen=True, slots=True)
class Part:
    """One node of the main graph.

    `low_inputs` and `low_outputs` are the positions that take the format when the node is converted, `captured` the floating
    values of the main graph that its sub-graphs read. `why_fixed` says why the node cannot be converted; empty if it can.
    """

    name: str
    node: onnx.NodeProto
    touches_floats: bool
    is_indifferent: bool = False
    low_inputs: frozenset[int] = frozenset()
    low_outputs: frozenset[int] = frozenset()
    captured: frozenset[str] = frozenset()
    why_fixed: str = ""

    @property
    def is_free(self) -> bool:
        """Whether the node can be converted."""
        return self.touches_floats and not self.is_indifferent and not self.why_fixed

    def low_reads(self) -> Iterator[str]:
        """The values that the node reads in the format when it is converted."""
        yield from (self.node.input[index] for index in sorted(self.low_inputs))
        yield from sorted(self.captured)


@dataclass(slots=True)
class Survey:
    """The parts of a model in the order of its nodes, and the type of each floating value of the main graph."""

    format: Format
    parts: list[Part] = field(default_factory=list[Part])
    types: dict[str, int] = field(default_factory=dict[str, int])


def survey(proto: onnx.ModelProto, model: Model, format: Format) -> Survey:
    """What of a model (without functions) can be converted; `model` is the graph that was read from it."""
    types = _value_types(proto)
    opsets = opsets_of(proto)
    names = {model.name_of(number): node.name for node in model.graph.nodes for number in node.outputs[:1] if number >= 0}
    found = Survey(format, types={name: code for name, code in types.items() if code in SOURCES})
    for node in proto.graph.node:
        name = names.get(node.output[0] if node.output else "", node.name)
        found.parts.append(_part(name, node, types, format, opsets))
    return found


def _value_types(proto: onnx.ModelProto) -> dict[str, int]:
    """The element type of each tensor of the main graph, as far as the file and the schemas tell it."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(proto).graph
    except Exception:  # inference raises many kinds for models that break a rule; what the file declares is left then
        graph = proto.graph
    types: dict[str, int] = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for info in (*graph.value_info, *graph.output, *graph.input):
        code = info.type.tensor_type.elem_type
        if info.type.HasField("tensor_type") and code:
            types[info.name] = code
    return types


def _part(name: str, node: onnx.NodeProto, types: Mapping[str, int], format: Format, opsets: Mapping[str, int]) -> Part:
    touched = [value for value in (*node.input, *node.output) if value]
    captured = frozenset(value for value in _captured(node) if types.get(value) in SOURCES)
    unknown = next((value for value in touched if value not in types), None)
    has_floating_body = _has_floating_body(node)
    if unknown is None and not captured and not has_floating_body and not any(types[value] in SOURCES for value in touched):
        return Part(name, node, touches_floats=False)
    if node.op_type in _INDIFFERENT:
        return Part(name, node, touches_floats=True, is_indifferent=True)
    formals = formals_of(node, format, opsets)
    if formals is None:
        return Part(name, node, touches_floats=True, why_fixed=f"no schema of {_label(node)} is known")
    if unknown is not None:
        return Part(name, node, touches_floats=True, why_fixed=f"the type of {unknown!r} cannot be told")
    obstacle = next((text for graph in _bodies(node) for text in _obstacles(graph, format, opsets)), None)
    if obstacle is not None:
        return Part(name, node, touches_floats=True, why_fixed=f"its sub-graph holds {obstacle}")
    low_inputs = _low_inputs(node, formals, types)
    low_outputs = _low_outputs(node, formals, types, low_inputs)
    if not low_inputs and not low_outputs and not captured and not has_floating_body:
        return Part(name, node, touches_floats=True, why_fixed=f"{_label(node)} has no {format} form in this operator set")
    return Part(
        name, node, touches_floats=True, low_inputs=frozenset(low_inputs), low_outputs=frozenset(low_outputs), captured=captured
    )


def _label(node: onnx.NodeProto) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _low_inputs(node: onnx.NodeProto, formals: Formals, types: Mapping[str, int]) -> set[int]:
    found: set[int] = set()
    for index, value in enumerate(node.input):
        formal = formals.of_input(index)
        if value and types[value] in SOURCES and formal is not None and formal.admits:
            found.add(index)
    return found


def _low_outputs(node: onnx.NodeProto, formals: Formals, types: Mapping[str, int], low_inputs: set[int]) -> set[int]:
    """Results whose type follows from operands that are converted, from an attribute that is, or from a sub-graph."""
    bound = {formal.variable for index in low_inputs if (formal := formals.of_input(index)) is not None}
    is_named = node.op_type in ("Constant", "ConstantOfShape") or any(a.name in TYPE_ATTRIBUTES for a in node.attribute)
    is_named = is_named or any(True for _ in _bodies(node))
    found: set[int] = set()
    for index, value in enumerate(node.output):
        formal = formals.of_output(index)
        if value and types[value] in SOURCES and formal is not None and formal.admits and (is_named or formal.variable in bound):
            found.add(index)
    return found


def _bodies(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _captured(node: onnx.NodeProto) -> set[str]:
    """Names that sub-graphs mention. Names are unique over all scopes (ONNX IR), so that an own value is no captured one."""
    return set(reads(node)).difference(node.input) if any(True for _ in _bodies(node)) else set()


def _has_floating_body(node: onnx.NodeProto) -> bool:
    """Whether a sub-graph declares or holds a floating value."""
    for graph in _bodies(node):
        declared = (*graph.input, *graph.output, *graph.value_info)
        if any(info.type.tensor_type.elem_type in SOURCES for info in declared):
            return True
        if any(tensor.data_type in SOURCES for tensor in graph.initializer):
            return True
    return False


def _obstacles(graph: onnx.GraphProto, format: Format, opsets: Mapping[str, int]) -> Iterator[str]:
    """Operators of a sub-graph that have no form in the format, whole."""
    for node in graph.node:
        formals = formals_of(node, format, opsets)
        if formals is None:
            yield f"{_label(node)}, of which no schema is known"
            continue
        used = [formals.of_input(index) for index, value in enumerate(node.input) if value]
        used += [formals.of_output(index) for index, value in enumerate(node.output) if value]
        if any(formal is not None and formal.is_fixed for formal in used):
            yield f"{_label(node)}, which has no {format} form in this operator set"
        for body in _bodies(node):
            yield from _obstacles(body, format, opsets)
