"""TensorFlow graphs into ours: each operator by the block that spells it, variables as weights.

Nothing of TensorFlow is needed. Placeholders are inputs, and so is what queues, iterators and readers bring; variables are
weights, with the values of a checkpoint where there is one, else with the range of their initialisers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorproof.assumptions import Domain
from tensorproof.collector import patient_collector
from tensorproof.errors import ModelError, NotAnalysed
from tensorproof.formats import STRING, Format, of_dtype
from tensorproof.frontends.calls import OPSET, Handle
from tensorproof.frontends.graph_builder import GraphBuilder
from tensorproof.frontends.tensorflow_call import TensorflowCall, format_of
from tensorproof.frontends.tensorflow_initialisers import Initialisers
from tensorproof.frontends.tensorflow_parts import holds_data, is_backward, is_bookkeeping, is_step, ordered, partner_of, roots_of
from tensorproof.frontends.tensorflow_records import (
    DataType,
    FunctionName,
    Reference,
    TensorflowGraph,
    TensorflowNode,
    TensorShape,
)
from tensorproof.graph import ABSENT, Dimension, Graph, Model, SourceLine

#: What brings data into a graph, with its attributes that name the types and shapes of the results.
_SOURCES: Mapping[str, tuple[str, str]] = {
    "Placeholder": ("dtype", "shape"),
    "PlaceholderV2": ("dtype", "shape"),
    "PlaceholderWithDefault": ("dtype", "shape"),
    "IteratorGetNext": ("output_types", "output_shapes"),
    "IteratorGetNextSync": ("output_types", "output_shapes"),
    "OptionalGetValue": ("output_types", "output_shapes"),
    "QueueDequeue": ("component_types", ""),
    "QueueDequeueV2": ("component_types", ""),
    "QueueDequeueMany": ("component_types", ""),
    "QueueDequeueManyV2": ("component_types", ""),
    "QueueDequeueUpTo": ("component_types", ""),
    "QueueDequeueUpToV2": ("component_types", ""),
    "Unstage": ("dtypes", ""),
    "InfeedDequeue": ("dtype", "shape"),
    "InfeedDequeueTuple": ("dtypes", "shapes"),
}

#: Attributes that name the type of a node's results, for nodes that no block spells.
_RESULT_TYPES = ("dtype", "Tout", "out_type", "output_type", "DstT", "output_types", "component_types")

#: One result, about which a node says nothing.
_NOTHING_SAID = [Handle(ABSENT, None, None)]

#: Operators that hand a variable on.
_HANDS_ON = frozenset({"Identity", "IdentityN", "Enter", "Exit"})

#: A dimension of unknown size in TensorFlow's shapes.
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that an operand refers to; what it holds is a weight."""

    name: str
    weight: Handle

    def value(self, call: TensorflowCall) -> Handle:
        """What the variable holds when a node reads it."""
        return self.weight


@dataclass(slots=True)
class TranslatedGraph:
    """Our graph of a TensorFlow graph.

    `domains` are ranges that the graph itself says (defaults of placeholders). `trainable` are weights that training changes.
    `partners` maps nodes of the gradients to those that they differentiate; `origins` nodes of our graph to those of TensorFlow's.
    `fed` maps inputs, by name, to the result that is fed, and weights to the node that is or holds the variable.
    """

    model: Model
    domains: dict[str, Domain]
    trainable: frozenset[int]
    partners: dict[str, str]
    origins: dict[str, str]
    fed: dict[str, Reference]
    notes: list[str] = field(default_factory=list[str])


def translated(
    graph: TensorflowGraph,
    *,
    name: str,
    path: str | None = None,
    training: bool = False,
    signature: str | None = None,
    roots: Sequence[Reference] = (),
) -> TranslatedGraph:
    """Our graph of a graph without calls and without control flow of version 1.

    `roots` or a `signature` say what is computed; without them, and without `serving_default`, it is all that nothing else reads.
    """
    with patient_collector():
        return _Translator(graph).run(name, path, training, signature, roots)


class _Translator(GraphBuilder):
    """The state of translating one graph. A scope maps nodes to their results: handles, variables, or nothing."""

    separator = ":"

    def __init__(self, graph: TensorflowGraph) -> None:
        super().__init__()
        self.graph = graph
        self.inputs: list[int] = []
        self.domains: dict[str, Domain] = {}
        self.fed: dict[str, Reference] = {}
        self.origins: dict[str, str] = {}
        self.unvalued: set[int] = set()
        self.initial: dict[int, tuple[float, float]] = {}
        self.trainable: set[int] = set()
        self.variables: dict[str, Variable] = {}
        self.notes: list[str] = list(graph.notes)
        self._backward: set[str] = set()
        self._calls: list[str] = []
        self._around = ""
        self._results: dict[str, int] = {}
        self._initialisers: Initialisers | None = None

    # -- the whole --------------------------------------------------------------------------------------------------

    def run(
        self, name: str, path: str | None, training: bool, signature: str | None, given: Sequence[Reference]
    ) -> TranslatedGraph:
        roots, named = (list(given), {}) if given else self._wanted(training, signature)
        nodes = {node.name: node for node in self.graph.nodes}
        scope: dict[str, list[Any]] = {}
        order = ordered(nodes, roots)
        self._count_results(order, roots)
        self._translate(order, scope)
        outputs: list[int] = []
        for reference in roots:
            handle = _result(scope, reference)
            if isinstance(handle, Handle):
                outputs.append(handle.number)
        self._rename_inputs(named, scope)
        graph = Graph(name, self.nodes, tuple(self.inputs), tuple(dict.fromkeys(outputs)))
        if not graph.nodes and not graph.outputs:
            raise ModelError(f"{path or name}: computes nothing")
        model = Model(
            name=name,
            graph=graph,
            values=self.values,
            constants=self.constants,
            weights=frozenset(self.weights),
            opsets={"": OPSET, "tensorproof": 1},
            producer=self.graph.producer or "TensorFlow",
            path=path,
            conversions=self.conversions,
            initial_ranges=self.initial,
            unvalued=frozenset(self.unvalued),
        )
        partners = self._marked(graph)
        return TranslatedGraph(model, self.domains, frozenset(self.trainable), partners, self.origins, self.fed, self.notes)

    def _wanted(self, training: bool, signature: str | None) -> tuple[list[Reference], dict[str, Reference]]:
        """The results that are computed, and the inputs that users know by another name."""
        signatures = self.graph.signatures
        chosen = signature or ("serving_default" if "serving_default" in signatures else next(iter(signatures), None))
        if signature is not None and signature not in signatures:
            raise ModelError(f"no signature is named {signature!r}; there are {', '.join(signatures) or 'none'}")
        if chosen is None:
            return roots_of(self.graph, training=training), {}
        found = signatures[chosen]
        if training and signature is None:
            return roots_of(self.graph, training=True), found.inputs
        return list(found.outputs.values()), found.inputs

    def _rename_inputs(self, named: Mapping[str, Reference], scope: Mapping[str, Sequence[Any]]) -> None:
        """Inputs under the names of the signature."""
        for name, reference in named.items():
            handle = _result(scope, reference)
            if isinstance(handle, Handle) and handle.number in self.inputs:
                old = self.values[handle.number].name
                if old in self.domains:
                    self.domains[name] = self.domains.pop(old)
                self.fed[name] = self.fed.pop(old, reference)
                self.values[handle.number].name = name

    def _marked(self, graph: Graph) -> dict[str, str]:
        """Give nodes of gradients and of optimisers their phase; the nodes that they differentiate."""
        partners: dict[str, str] = {}
        for node in graph.walk():
            origin = self.origins.get(node.name, node.name)
            if origin not in self._backward:
                continue
            node.phase = "backward"
            partner = partner_of(origin)
            if partner is not None:
                partners[node.name] = partner
        return partners

    def _count_results(self, nodes: Iterable[TensorflowNode], roots: Sequence[Reference]) -> None:
        """How many results of each node are read."""
        for node in nodes:
            for reference in node.inputs:
                if reference.output:
                    self._results[reference.node] = max(self._results.get(reference.node, 1), reference.output + 1)
        for reference in roots:
            self._results[reference.node] = max(self._results.get(reference.node, 1), reference.output + 1)

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _translate(self, order: Iterable[TensorflowNode], scope: dict[str, list[Any]]) -> None:
        for node in order:
            scope[node.name] = self._node(node, scope)

    def _node(self, node: TensorflowNode, scope: Mapping[str, Sequence[Any]]) -> list[Any]:
        """The results of one node."""
        self.current = f"{self.prefix}{node.name}"
        self.source = self._line(node)
        self.module = self._layer(node)
        if node.is_gradient or is_backward(node.name) or is_step(node.op) or self._adds_gradients(node):
            self._backward.add(self.current)
        if node.op == "Const":
            return [self._constant(node)]
        if node.op in _SOURCES:
            return self._source_of_data(node)
        if node.op in ("VarHandleOp", "VariableV2", "Variable", "AutoReloadVariable", "_VarHandlesOp"):
            variable = self._variable(node)
            return [variable if node.op == "VarHandleOp" else variable.weight]
        if holds_data(node.op):
            return [None]
        operands = [_result(scope, reference) for reference in node.inputs]
        if node.op == "ReadVariableOp" and isinstance(operands[0], Variable):
            return [operands[0].value(self._call(node, operands))]
        if node.op in _HANDS_ON and not all(isinstance(operand, Handle) for operand in operands):
            return operands
        if is_bookkeeping(node.op) and not is_step(node.op):
            return [None] * self._results.get(node.name, 1)
        return self._spelled(node, operands)

    def _adds_gradients(self, node: TensorflowNode) -> bool:
        """Whether a node sums gradients up: in files their names alone tell, and a tape gives these sums no name scope."""
        return node.op == "AddN" and all(f"{self.prefix}{reference.node}" in self._backward for reference in node.inputs)

    def _call(self, node: TensorflowNode, operands: Sequence[Any]) -> TensorflowCall:
        return TensorflowCall(node.op, operands, node.attributes, self._described(node), self)

    def _spelled(self, node: TensorflowNode, operands: Sequence[Any]) -> list[Any]:
        start = len(self.nodes)
        call = self._call(node, operands)
        numbers = [operand.number for operand in operands if isinstance(operand, Handle)]
        reason = f"no block spells TensorFlow's {node.op}"
        if len(numbers) < sum(operand is not None for operand in operands) and node.op in self.graph.functions:
            reason = f"function {node.op} is called with other inputs than it has"
        made = self.translate("tensorflow", node.op, call, numbers, reason)
        several: list[Any] = list(made) if isinstance(made, tuple | list) else [made]
        # What a loop hands on (a variable, an operand as it was) is no new value.
        handles: list[Any] = [item if not isinstance(item, int) else None for item in several]
        named = self.named([item if isinstance(item, int) else None for item in several], call.results, start)
        for item in self.nodes[start:]:
            self.origins[item.name] = self.current
        return [old if old is not None else new for old, new in zip(handles, named)]

    def _described(self, node: TensorflowNode) -> list[Handle]:
        """What a node says about its results."""
        shapes: Any = node.attributes.get("_output_shapes")
        count = self._results.get(node.name, 1)
        formats = _result_formats(node, count)
        if not shapes and count == 1 and formats[0] is None:
            return _NOTHING_SAID
        sizes = [_sizes(shapes[index]) if shapes and index < len(shapes) else None for index in range(count)]
        return [Handle(ABSENT, format, shape) for format, shape in zip(formats, sizes)]

    def _line(self, node: TensorflowNode) -> SourceLine | None:
        lines = self.graph.lines
        return lines.get((node.function, node.original or node.name)) if lines else None

    def _layer(self, node: TensorflowNode) -> str:
        """The layer of a node, in a body that of the loop where the node has none; without layers the name scope."""
        known = self.graph.modules.get((node.function, node.original or node.name)) if self.graph.modules else None
        if known is None and self.graph.modules and self._calls:
            return self._around
        return known or node.name.rpartition("/")[0]

    # -- what has no operands ---------------------------------------------------------------------------------------

    def _constant(self, node: TensorflowNode) -> Handle:
        array: Any = node.attributes.get("value")
        if not isinstance(array, np.ndarray):
            raise ModelError(f"constant {node.name!r} holds no tensor that can be read")
        number = self.constant(array)
        if self.values[number].name.startswith("constant_"):
            self.values[number].name = self.current
        return Handle(number, STRING if array.dtype == object else of_dtype(array.dtype), array.shape)

    def _source_of_data(self, node: TensorflowNode) -> list[Any]:
        """Inputs for what a node brings into the graph, under its own name."""
        types_name, shapes_name = _SOURCES[node.op]
        types: Any = node.attributes.get(types_name, [])
        types = types if isinstance(types, list | tuple) else [types]
        shapes: Any = node.attributes.get(shapes_name) or node.attributes.get("_output_shapes") or []
        shapes = shapes if isinstance(shapes, list | tuple) else [shapes]
        found: list[Any] = []
        for index, type in enumerate(types):
            format = format_of(type) if isinstance(type, DataType) else None
            if format is None:
                found.append(None)
                continue
            shape = _sizes(shapes[index]) if index < len(shapes) else None
            name = self.current if index == 0 else f"{self.current}:{index}"
            number = self.new_value(name, format, shape)
            self.inputs.append(number)
            self.fed[name] = Reference(node.name, index)
            found.append(Handle(number, format, shape))
        if node.op == "PlaceholderWithDefault":
            self._note_default(node)
        return found

    def _note_default(self, node: TensorflowNode) -> None:
        """The range of a placeholder with a default is that, unless the user declares another one."""
        default = next((item for item in self.graph.nodes if node.inputs and item.name == node.inputs[0].node), None)
        array: Any = None if default is None else default.attributes.get("value")
        if isinstance(array, np.ndarray) and array.size and array.dtype.kind in "fiub":
            self.domains[self.current] = Domain("box", float(array.min()), float(array.max()), source="default of the graph")

    def _variable(self, node: TensorflowNode) -> Variable:
        """The variable of a node; those of the same shared name are one."""
        shared: Any = node.attributes.get("shared_name")
        key = (shared.decode("utf-8", "replace") if isinstance(shared, bytes) else "") or node.name
        found = self.variables.get(key)
        if found is None:
            found = self.variables[key] = Variable(key, self._weight(node, key))
        return found

    def _weight(self, node: TensorflowNode, name: str) -> Handle:
        type: Any = node.attributes.get("dtype")
        format = format_of(type) if isinstance(type, DataType) else None
        shape = _sizes(node.attributes.get("shape"))
        array = self.graph.values.get(node.name)
        if array is not None:
            format, shape = of_dtype(array.dtype), array.shape
        if format is None or format.kind not in ("float", "int", "bool"):
            raise ModelError(f"variable {node.name!r} is of a type that is not modelled")
        number = self.new_value(name, format, shape)
        if array is not None:
            self.constants[number] = array
        else:
            self._without_value(node, number, format, shape)
        if format.is_float or array is None:
            self.weights.add(number)
        if format.is_float:
            self.trainable.add(number)
        self.fed[name] = Reference(node.name)
        return Handle(number, format, shape)

    def _without_value(self, node: TensorflowNode, number: int, format: Format, shape: tuple[Dimension, ...] | None) -> None:
        """A variable that no checkpoint gives a value: a range, as its initialiser says."""
        if shape is None or not all(isinstance(size, int) for size in shape):
            raise ModelError(f"variable {node.name!r} has neither a value nor a fixed shape")
        sizes = tuple(int(size) for size in shape if isinstance(size, int))
        self.constants[number] = np.broadcast_to(np.zeros((), format.dtype), sizes)
        self.unvalued.add(number)
        if self._initialisers is None:
            self._initialisers = Initialisers(self.graph)
        ends = self._initialisers.ends(node.name)
        if ends is not None:
            self.initial[number] = ends

    def counts_up(self, number: int) -> bool:
        """Whether a value is made by a Range that counts up from 0 by 1, whatever its end."""
        node = self.producer(number)
        while node is not None and node.op == "Cast":
            number = node.inputs[0]
            node = self.producer(number)
        if node is None or node.op != "Range" or len(node.inputs) != 3:
            return False
        start, step = self.array_of(node.inputs[0]), self.array_of(node.inputs[2])
        return start is not None and step is not None and float(start) == 0.0 and float(step) == 1.0

    # -- functions --------------------------------------------------------------------------------------------------

    def handed_on(self, function: FunctionName) -> list[int | None]:
        """For each result of a function of the library, the input that it hands on unchanged."""
        found = self.graph.functions.get(function.name)
        if found is None:
            raise NotAnalysed(f"function {function.name!r} is not in the file")
        nodes = {node.name: node for node in found.nodes}
        positions = {name: index for index, name in enumerate(found.inputs)}
        sources: list[int | None] = []
        for reference in found.outputs:
            name = reference.node
            while name in nodes and nodes[name].op == "Identity" and nodes[name].inputs:
                name = nodes[name].inputs[0].node
            sources.append(positions.get(name))
        return sources

    def inlined(self, module: Any, inputs: Sequence[Any]) -> list[Any]:
        """The nodes of a function of the library (of a branch or a loop) in place, on the given values."""
        name = module.name if isinstance(module, FunctionName) else str(module)
        function = self.graph.functions.get(name)
        if function is None:
            raise NotAnalysed(f"function {name!r} is not in the file")
        if name in self._calls:
            raise NotAnalysed(f"function {name!r} calls itself")
        if len(inputs) != len(function.inputs):
            raise NotAnalysed(f"function {name!r} takes {len(function.inputs)} inputs, not {len(inputs)}")
        state = self.source, self.module, self.current, self.prefix, self._results, self._around
        self._calls.append(name)
        self._around = self.module
        if not self.prefix.startswith(f"{self.current}."):
            self.prefix = f"{self.current}."
        self._results = {}
        try:
            scope: dict[str, list[Any]] = {input: [value] for input, value in zip(function.inputs, inputs)}
            order = ordered({node.name: node for node in function.nodes}, function.outputs, scope)
            self._count_results(order, function.outputs)
            self._translate(order, scope)
            return [_result(scope, reference) for reference in function.outputs]
        finally:
            self._calls.pop()
            self.source, self.module, self.current, self.prefix, self._results, self._around = state


def _result(scope: Mapping[str, Sequence[Any]], reference: Reference) -> Any:
    """A result of a node; None where it is nothing that is computed."""
    found = scope.get(reference.node)
    if found is None or reference.output >= len(found):
        return None
    return found[reference.output]


def _sizes(shape: Any) -> tuple[Dimension, ...] | None:
    """One of TensorFlow's shapes as ours."""
    if not isinstance(shape, TensorShape) or shape.sizes is None:
        return None
    return tuple(None if size == _UNKNOWN else size for size in shape.sizes)


def _result_formats(node: TensorflowNode, count: int) -> list[Format | None]:
    """The formats that a node's attributes name for its results; None where they do not."""
    # Few attributes are there, and many names are asked for.
    names = [name for name in node.attributes if name in _RESULT_TYPES]
    for name in sorted(names, key=_RESULT_TYPES.index) if len(names) > 1 else names:
        type: Any = node.attributes[name]
        if isinstance(type, DataType):
            return [format_of(type)] * count
        if isinstance(type, list | tuple) and type and isinstance(type[0], DataType):
            return [format_of(type[index]) if index < len(type) else None for index in range(count)]
    return [None] * count
