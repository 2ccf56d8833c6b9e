"""Mixed precision: a model in a lower precision but for some nodes, which stay as they are.

Casts stand where a value crosses the border, one for each value and direction. Constants are converted, not cast; one that is
read on both sides exists in both forms. Inputs and outputs of the model keep their types unless `keep_io` is off. Weights that
an old file lists as inputs become constants, and external data becomes part of the model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tensorproof.errors import ModelError
from tensorproof.formats import Format
from tensorproof.frontends.onnx_file import inlined
from tensorproof.frontends.onnx_precision import SOURCES, Conversion, opsets_of
from tensorproof.frontends.onnx_tensor import Tensors
from tensorproof.low_precision.parts import Part, survey

if TYPE_CHECKING:
    import onnx

    from tensorproof.graph import Model

#: The first IR version whose initialisers need not be inputs, too.
_INITIALISERS_ALONE = 4


class MixedValue(NamedTuple):
    """A floating value of a mixed model: its name there and in the original, the form, and where it comes from.

    `producer` is the name of the node that computes it; for a cast, the form differs from what that node computes.
    """

    name: str
    original: str
    is_low: bool
    is_cast: bool
    producer: str


@dataclass(frozen=True, slots=True)
class Mixed:
    """A mixed model, its floating values in the order of its nodes, and what became of constants (`overflow`, `vanished`).

    `originals` leads from nodes that cast into the format, and from converted constants, back to the value of the original model.
    """

    proto: onnx.ModelProto
    values: tuple[MixedValue, ...]
    changes: dict[str, str]
    originals: dict[str, str]


class Blueprint:
    """A model that mixtures are made of: what can be converted is found once, constants are converted once."""

    def __init__(
        self, proto: onnx.ModelProto, model: Model, format: Format, *, path: str | None = None, keep_io: bool = True
    ) -> None:
        name = path or proto.graph.name or "model"
        self.format = format
        self.keep_io = keep_io
        self.proto = inlined(proto, name)
        self.tensors = Tensors(name, path)
        self.opsets = opsets_of(self.proto)
        found = survey(self.proto, model, format)
        self.types = found.types
        self.parts = found.parts
        self.inputs = [info.name for info in self.proto.graph.input]
        self.outputs = [info.name for info in self.proto.graph.output]
        self.producers = {value: part for part in self.parts for value in part.node.output if value}
        self.constants = dict(self._constants())
        self.inputs = [name for name in self.inputs if name not in self.constants]
        self._converted: dict[str, onnx.TensorProto] = {}
        self._rounded: dict[str, onnx.TensorProto] = {}
        #: What conversion does to a constant, by its name.
        self.changes: dict[str, str] = {}
        self._conversion = Conversion(format, self.opsets, self.changes, self.tensors)

    @property
    def free(self) -> list[Part]:
        """The nodes that can be converted, in order."""
        return [part for part in self.parts if part.is_free and part.node.output[0] not in self.constants]

    @property
    def fixed(self) -> list[Part]:
        """The floating nodes that cannot be converted, in order."""
        return [part for part in self.parts if part.why_fixed]

    def exclude(self, operator: str, why: str) -> bool:
        """Leave all nodes of an operator as they are; False if none was free."""
        changed = [index for index, part in enumerate(self.parts) if part.is_free and part.node.op_type == operator]
        for index in changed:
            self.parts[index] = replace(self.parts[index], why_fixed=why)
        self.producers = {value: part for part in self.parts for value in part.node.output if value}
        return bool(changed)

    def mixed(self, kept: Collection[str]) -> Mixed:
        """The model in the format but for these nodes."""
        return _Builder(self, frozenset(kept), is_emulated=False).build()

    def emulated(self, kept: Collection[str]) -> Mixed:
        """The same arithmetic in a model of the original types: each value of the format is rounded into it and back.

        For formats in which the runtime has no kernels. Values inside sub-graphs are not rounded.
        """
        return _Builder(self, frozenset(kept), is_emulated=True).build()

    def _constants(self) -> Iterator[tuple[str, onnx.TensorProto]]:
        """Floating constants: initialisers, and Constant nodes that hold a dense tensor."""
        import onnx

        for tensor in self.proto.graph.initializer:
            if tensor.data_type in SOURCES:
                yield tensor.name, tensor
        for node in self.proto.graph.node:
            if node.op_type != "Constant" or node.domain not in ("", "ai.onnx"):
                continue
            for attribute in node.attribute:
                if attribute.name == "value" and attribute.t.data_type in SOURCES:
                    yield node.output[0], attribute.t
                elif attribute.name in ("value_float", "value_floats"):
                    numbers = attribute.f if attribute.name == "value_float" else list(attribute.floats)
                    yield node.output[0], onnx.numpy_helper.from_array(np.asarray(numbers, np.float32))

    def original_constant(self, name: str) -> onnx.TensorProto:
        """A constant as it is, its data inside."""
        tensor = _copy(self.constants[name], name)
        self.tensors.embed(tensor)
        return tensor

    def low_constant(self, name: str) -> onnx.TensorProto:
        """A constant in the format."""
        if name not in self._converted:
            tensor = _copy(self.constants[name], name)
            self._conversion.tensor(tensor, name)
            if tensor.data_type != self.format.onnx_code:
                raise ModelError(f"{self.tensors.name}: the data of constant {name!r} is not at hand")
            self._converted[name] = tensor
        return self._converted[name]

    def rounded_constant(self, name: str) -> onnx.TensorProto:
        """A constant in its own type, its numbers those of the format."""
        if name not in self._rounded:
            original = self.tensors.array(self.constants[name])
            low = self.tensors.array(self.low_constant(name))
            source = self.constants[name]
            self._rounded[name] = type(source)(
                name=name, data_type=source.data_type, dims=original.shape, raw_data=low.astype(original.dtype).tobytes()
            )
        return self._rounded[name]

    def convert(self, node: onnx.NodeProto) -> None:
        """What a node says about types in its attributes and sub-graphs, turned into the format."""
        self._conversion.node(node)


def _copy(tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
    copy = type(tensor)()
    copy.CopyFrom(tensor)
    copy.name = name
    return copy


@dataclass(slots=True)
class _Builder:
    """One mixed model on its way."""

    blueprint: Blueprint
    kept: frozenset[str]
    is_emulated: bool
    #: Values that are computed in the format, and the forms (in the format or not) in which each value is read.
    native_low: set[str] = field(default_factory=set[str])
    needed: dict[str, set[bool]] = field(default_factory=dict[str, set[bool]])
    taken: set[str] = field(default_factory=set[str])
    names: dict[tuple[str, bool], str] = field(default_factory=dict[tuple[str, bool], str])
    #: Nodes that cast into the format, with the value of the original model that each casts.
    casts: dict[str, str] = field(default_factory=dict[str, str])
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    values: list[MixedValue] = field(default_factory=list[MixedValue])

    def build(self) -> Mixed:
        import onnx

        blueprint = self.blueprint
        self.find_forms()
        result = onnx.ModelProto()
        result.CopyFrom(_without_content(blueprint.proto))
        result.ir_version = max(result.ir_version, _INITIALISERS_ALONE)
        graph, source = result.graph, blueprint.proto.graph
        self.add_constants(graph)
        for name in blueprint.inputs:
            if name in blueprint.types:
                self.add_casts(name, "")
        for part in blueprint.parts:
            self.add(part)
        graph.node.extend(self.nodes)
        graph.input.extend(info for info in source.input if info.name in set(blueprint.inputs))
        graph.output.extend(source.output)
        graph.value_info.extend(source.value_info)
        for info in (*graph.input, *graph.output, *graph.value_info):
            self.adapt(info)
        converted = [value for value in blueprint.constants if True in self.needed.get(value, ())]
        originals = {self.name(value, True): value for value in converted}
        originals.update(self.casts)
        changes = {self.name(value, True): blueprint.changes[value] for value in converted if value in blueprint.changes}
        return Mixed(result, tuple(self.values), changes, originals)

    def find_forms(self) -> None:
        """Which form each value is computed in, and which forms are read."""
        blueprint = self.blueprint
        self.taken = {value for part in blueprint.parts for value in (*part.node.input, *part.node.output)} | set(blueprint.inputs)
        self.taken.update(part.node.name for part in blueprint.parts)
        if not blueprint.keep_io:
            self.native_low.update(name for name in blueprint.inputs if name in blueprint.types)
        for part in blueprint.parts:
            if self.is_low(part):
                self.native_low.update(part.node.output[index] for index in part.low_outputs)
        for part in blueprint.parts:
            for value, low in self.reads(part):
                self.needed.setdefault(value, set()).add(low)
        for value in blueprint.outputs:
            if value in blueprint.types:
                self.needed.setdefault(value, set()).add(value in self.native_low and not blueprint.keep_io)

    def is_low(self, part: Part) -> bool:
        return part.is_free and part.name not in self.kept and part.node.output[0] not in self.blueprint.constants

    def reads(self, part: Part) -> Iterator[tuple[str, bool]]:
        """The floating values that a node reads, each with the form that it takes."""
        low = self.is_low(part)
        for index, value in enumerate(part.node.input):
            if value in self.blueprint.types:
                yield value, self.form(part, index, value, low)
        for value in part.captured:
            yield value, low

    def form(self, part: Part, index: int, value: str, low: bool) -> bool:
        return value in self.native_low if part.is_indifferent else low and index in part.low_inputs

    def name(self, value: str, low: bool) -> str:
        """The name of one form of a value: its own for the form that is computed, if the outside does not ask for another."""
        blueprint = self.blueprint
        if (value, low) not in self.names:
            own = value in self.native_low and not (blueprint.keep_io and value in blueprint.outputs)
            if value in blueprint.constants:
                own = self.needed.get(value) == {True}
            self.names[value, low] = value if low == own else self.unused(f"{value}.{blueprint.format if low else 'original'}")
        return self.names[value, low]

    def unused(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def add_constants(self, graph: onnx.GraphProto) -> None:
        blueprint = self.blueprint
        for tensor in blueprint.proto.graph.initializer:
            if tensor.name in blueprint.constants:
                graph.initializer.extend(self.forms_of_constant(tensor.name))
            else:
                graph.initializer.append(tensor)
                blueprint.tensors.embed(graph.initializer[-1])
        graph.sparse_initializer.extend(blueprint.proto.graph.sparse_initializer)

    def forms_of_constant(self, name: str) -> Iterator[onnx.TensorProto]:
        """A constant in each form that is read; as it is if none is."""
        blueprint = self.blueprint
        forms = self.needed.get(name, {False})
        if False in forms:
            yield _copy(blueprint.original_constant(name), self.name(name, False))
        if True in forms:
            low = blueprint.rounded_constant(name) if self.is_emulated else blueprint.low_constant(name)
            yield _copy(low, self.name(name, True))

    def add(self, part: Part) -> None:
        """A node in its form, with the casts of its results."""
        import onnx

        blueprint = self.blueprint
        first = part.node.output[0] if part.node.output else ""
        if first in blueprint.constants:
            for tensor in self.forms_of_constant(first):
                self.nodes.append(onnx.helper.make_node("Constant", [], [tensor.name], value=tensor))
            return
        low = self.is_low(part)
        node = onnx.NodeProto()
        node.CopyFrom(part.node)
        for index, value in enumerate(node.input):
            if value in blueprint.types:
                node.input[index] = self.name(value, self.form(part, index, value, low))
        renamed = {value: self.name(value, low) for value in part.captured}
        _rename_captured(node, {old: new for old, new in renamed.items() if old != new})
        if low and not self.is_emulated:
            blueprint.convert(node)
        self.nodes.append(node)
        for index, value in enumerate(part.node.output):
            if value in blueprint.types:
                self.add_result(node, index, value, part.name)

    def add_result(self, node: onnx.NodeProto, index: int, value: str, producer: str) -> None:
        """A floating result: rounded where the format is emulated, and cast where its other form is read."""
        is_low = value in self.native_low
        name = node.output[index] = self.name(value, is_low)
        if is_low and self.is_emulated:
            node.output[index] = self.unused(f"{name}.before_rounding")
            self.round(node.output[index], name, self.blueprint.types[value])
        self.values.append(MixedValue(name, value, is_low, False, producer))
        self.add_casts(value, producer)

    def add_casts(self, value: str, producer: str) -> None:
        """The form of a value that is read but not computed."""
        import onnx

        blueprint = self.blueprint
        is_low = value in self.native_low
        if (not is_low) not in self.needed.get(value, ()):
            return
        source, name = self.name(value, is_low), self.name(value, not is_low)
        if self.is_emulated and is_low:
            self.nodes.append(onnx.helper.make_node("Identity", [source], [name]))
        elif self.is_emulated:
            self.round(source, name, blueprint.types[value])
        elif is_low:
            self.cast(source, name, blueprint.types[value])
        else:
            self.casts[self.cast(source, name, blueprint.format.onnx_code)] = value
        self.values.append(MixedValue(name, value, not is_low, True, producer))

    def round(self, source: str, name: str, code: int) -> None:
        """A value rounded into the format, in its own type again."""
        between = self.unused(f"{name}.rounded")
        self.cast(source, between, self.blueprint.format.onnx_code)
        self.cast(between, name, code)

    def cast(self, source: str, name: str, code: int) -> str:
        """A Cast node; its name."""
        import onnx

        label = self.unused(f"{name}.cast")
        self.nodes.append(onnx.helper.make_node("Cast", [source], [name], label, to=code))
        return label

    def adapt(self, info: onnx.ValueInfoProto) -> None:
        """The declared type of a value whose name now stands for its form in the format."""
        blueprint = self.blueprint
        if info.name in blueprint.types and not self.is_emulated and self.name(info.name, True) == info.name:
            info.type.tensor_type.elem_type = blueprint.format.onnx_code


def _without_content(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the names of its graph and nothing in it: what is large is not copied only to be dropped."""
    import onnx

    shell = onnx.ModelProto()
    for descriptor, value in proto.ListFields():
        if descriptor.name == "graph":
            shell.graph.name, shell.graph.doc_string = proto.graph.name, proto.graph.doc_string
            shell.graph.metadata_props.extend(proto.graph.metadata_props)
        elif hasattr(value, "extend"):
            getattr(shell, descriptor.name).extend(value)
        else:
            setattr(shell, descriptor.name, value)
    return shell


def _rename_captured(node: onnx.NodeProto, names: dict[str, str]) -> None:
    """Other names for values of the main graph that the sub-graphs of a node read."""
    if not names:
        return
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                for index, value in enumerate(inner.input):
                    inner.input[index] = names.get(value, value)
                _rename_captured(inner, names)
            for info in graph.output:
                info.name = names.get(info.name, info.name)


def low_values(mixed: Mixed) -> set[str]:
    """The values of a mixed model that are in the format, casts into it included."""
    return {value.name for value in mixed.values if value.is_low}
