"""GraphDef into records: operands resolved, nodes in an order in which each stands behind what it reads.

In the graph itself an operand is `node` or `node:index`; inside a function it is `argument` or `node:output:index`. What is
no graph (a name twice, an operand that does not exist, a circle that is no loop) is an error in one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tensorproof.errors import ModelError
from tensorproof.frontends.tensorflow_outputs import Output, output_table
from tensorproof.frontends.tensorflow_records import Reference, TensorflowFunction, TensorflowNode
from tensorproof.frontends.tensorflow_tensors import Attributes, data_type
from tensorproof.frontends.tensorflow_wire import MappedTensors

#: The version of graphs that TensorFlow 2.21 reads (tf.version.GRAPH_DEF_VERSION).
NEWEST_VERSION = 2474

#: Results that a node may have; a larger index is damage.
_MAX_OUTPUTS = 1 << 20

#: Operators whose result is read in the next round of a loop: the only way for a graph to go in a circle.
NEXT_ITERATION = frozenset({"NextIteration", "RefNextIteration"})


class GraphReader:
    """Reads the nodes and the functions of one GraphDef; `file` is what errors call it."""

    def __init__(self, proto: Any, file: str, operators: Iterable[Any] = (), mapped: MappedTensors | None = None) -> None:
        self.proto = proto
        self.file = file
        self.mapped = mapped
        self.outputs: dict[str, tuple[Output, ...]] = dict(output_table())
        # Operators of others and functions that are called by their name declare their results themselves.
        for declared in (*operators, *(function.signature for function in proto.library.function)):
            arguments = tuple([Output(arg.name, arg.number_attr or arg.type_list_attr) for arg in declared.output_arg])
            if len(arguments) > 1 or any(argument.length for argument in arguments):
                self.outputs.setdefault(declared.name, arguments)

    def check_version(self) -> None:
        """Refuse graphs that say that only a newer TensorFlow understands them."""
        versions = self.proto.versions
        if versions.min_consumer > NEWEST_VERSION or NEWEST_VERSION in versions.bad_consumers:
            needed = f"graph version {versions.min_consumer}; up to {NEWEST_VERSION} is read"
            raise ModelError(f"{self.file}: written for a newer TensorFlow ({needed})")

    def nodes(self) -> list[TensorflowNode]:
        """The nodes of the graph itself."""
        file, mapped = self.file, self.mapped
        records: list[TensorflowNode] = []
        for proto in self.proto.node:
            name = proto.name
            operands: list[Reference] = []
            controls: list[str] = []
            for text in proto.input:
                if text[:1] == "^":
                    controls.append(text[1:])
                elif ":" in text:
                    operands.append(self._reference(text, name))
                else:
                    operands.append(Reference(text))
            original = name if not proto.HasField("experimental_debug_info") else _original(proto, name)
            attributes = Attributes(proto.attr, name, file, mapped)
            records.append(TensorflowNode(name, proto.op, tuple(operands), attributes, tuple(controls), "", original))
        return self.ordered(records, ())

    def functions(self) -> dict[str, TensorflowFunction]:
        """The functions of the library."""
        found: dict[str, TensorflowFunction] = {}
        for proto in self.proto.library.function:
            name = proto.signature.name
            if not name or name in found:
                raise ModelError(f"{self.file}: the function {name!r} stands twice in the library")
            found[name] = self._function(proto, name)
        return found

    def _function(self, proto: Any, name: str) -> TensorflowFunction:
        inputs = tuple([argument.name for argument in proto.signature.input_arg])
        operators = {node.name: node for node in proto.node_def}
        records: list[TensorflowNode] = []
        invented: dict[str, list[str]] = {}
        for node in proto.node_def:
            operands: list[Reference] = []
            controls: list[str] = []
            for text in node.input:
                if text[:1] == "^":
                    controls.append(text[1:])
                else:
                    operands += self._inner(text, operators, invented, f"{name}/{node.name}")
            attributes = Attributes(node.attr, f"{name}/{node.name}", self.file, self.mapped)
            original = node.name if not node.HasField("experimental_debug_info") else _original(node, node.name)
            records.append(TensorflowNode(node.name, node.op, tuple(operands), attributes, tuple(controls), name, original))
        outputs: list[Reference] = []
        known = {*inputs, *operators}
        for argument in proto.signature.output_arg:
            if argument.name not in proto.ret:
                raise ModelError(f"{self.file}: function {name!r} does not say what it returns as {argument.name!r}")
            outputs += self._inner(proto.ret[argument.name], operators, invented, name)
        for output in outputs:
            if output.node not in known:
                raise ModelError(f"{self.file}: function {name!r} returns {str(output)!r}, which does not exist")
        return TensorflowFunction(
            name,
            inputs,
            tuple([data_type(argument.type) for argument in proto.signature.input_arg]),
            self.ordered(records, inputs, name),
            tuple(outputs),
            Attributes(proto.attr, name, self.file),
        )

    def _inner(self, text: str, nodes: Mapping[str, Any], invented: dict[str, list[str]], reader: str) -> list[Reference]:
        """An operand inside a function: one result, or all of a list (`node:output`)."""
        name, _, rest = text.partition(":")
        if not rest:
            return [Reference(text)]
        output, _, index = rest.partition(":")
        node = nodes.get(name)
        if node is None or (not index and output.isdecimal()):
            # An element of an argument that is a list, or the form of the graph itself.
            return [self._reference(f"{name}:{index or output}", reader)]
        declared = self.outputs.get(node.op)
        if declared is None:
            # One result; or an operator of others, whose results only have to be told apart.
            names = invented.setdefault(name, [])
            if output not in names:
                names.append(output)
            position = self._number(index or "0", text, reader)
            return [Reference(name, position if output == names[0] else position + names.index(output))]
        start = 0
        for argument in declared:
            length = self._length(node, argument)
            if argument.name == output:
                if not index:
                    return [Reference(name, start + each) for each in range(length)]
                return [Reference(name, start + self._number(index, text, reader))]
            start += length
        raise ModelError(f"{self.file}: {reader!r} reads {text!r}, but {node.op} has no such result")

    def _length(self, node: Any, argument: Output) -> int:
        """How many tensors an output argument is."""
        if not argument.length:
            return 1
        if argument.length not in node.attr:
            return 1
        value = node.attr[argument.length]
        length = value.i if value.WhichOneof("value") == "i" else len(value.list.type)
        if not 0 <= length <= _MAX_OUTPUTS:
            raise ModelError(f"{self.file}: node {node.name!r} claims {length} results")
        return length

    def _reference(self, text: str, reader: str) -> Reference:
        name, _, index = text.rpartition(":")
        return Reference(name, self._number(index, text, reader))

    def _number(self, index: str, text: str, reader: str) -> int:
        if not (index.isascii() and index.isdecimal() and len(index) < 10 and int(index) < _MAX_OUTPUTS):
            raise ModelError(f"{self.file}: node {reader!r} reads {text!r}, which names no result")
        return int(index)

    def ordered(self, nodes: list[TensorflowNode], arguments: Sequence[str], function: str = "") -> list[TensorflowNode]:
        """The nodes, each behind those that it reads; the file's own order if it is such an order."""
        where = f"{self.file}: function {function!r}" if function else self.file
        positions = dict.fromkeys(arguments, -1)
        given = len(positions)
        for index, node in enumerate(nodes):
            positions[node.name] = index
        if given != len(arguments) or len(positions) != given + len(nodes) or "" in positions:
            raise ModelError(f"{where}: {_repeated(nodes, arguments)}")
        back = {node.name for node in nodes if node.op in NEXT_ITERATION}
        needed: list[list[int]] = []
        in_order = True
        for index, node in enumerate(nodes):
            before: list[int] = []
            for name in (*[operand.node for operand in node.inputs], *node.controls):
                position = positions.get(name)
                if position is None:
                    raise ModelError(f"{where}: node {node.name!r} reads {name!r}, which does not exist")
                if name not in back:
                    before.append(position)
                    in_order = in_order and position < index
            needed.append(before)
        if in_order:
            return nodes
        try:
            return [nodes[index] for index in _topological(needed)]
        except Circle as circle:
            name = nodes[circle.position].name
            raise ModelError(f"{where}: node {name!r} depends on itself without being a loop") from None


class Circle(Exception):
    """Nodes that need each other: the position of one of them."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def sorted_nodes(nodes: Sequence[TensorflowNode]) -> list[TensorflowNode]:
    """Nodes of one scope, each behind those among them that it reads; raises `Circle` if there is no such order."""
    positions = {node.name: index for index, node in enumerate(nodes) if node.op not in NEXT_ITERATION}
    needed = [
        [positions[name] for name in (*[operand.node for operand in node.inputs], *node.controls) if name in positions]
        for node in nodes
    ]
    return [nodes[index] for index in _topological(needed)]


def _original(proto: Any, name: str) -> str:
    """The name that a node had before TensorFlow rewrote the graph."""
    names = proto.experimental_debug_info.original_node_names
    return names[0] if len(names) else name


def _repeated(nodes: Sequence[TensorflowNode], arguments: Sequence[str]) -> str:
    seen: set[str] = set()
    for name in (*arguments, *[node.name for node in nodes]):
        if not name:
            return "a node has no name"
        if name in seen:
            return f"two nodes are called {name!r}"
        seen.add(name)
    raise AssertionError("names are unique")


def _topological(needed: list[list[int]]) -> list[int]:
    """Positions in an order in which each follows those that it needs, as close to their own order as that allows.

    Negative positions are placed before all others.
    """
    order: list[int] = []
    state = bytearray(len(needed))  # 0 not seen, 1 being placed, 2 placed
    for start in range(len(needed)):
        if state[start]:
            continue
        state[start] = 1
        stack = [(start, iter(needed[start]))]
        while stack:
            index, rest = stack[-1]
            for other in rest:
                if other < 0 or state[other] == 2:
                    continue
                if state[other] == 1:
                    raise Circle(other)
                state[other] = 1
                stack.append((other, iter(needed[other])))
                break
            else:
                state[index] = 2
                order.append(index)
                stack.pop()
    return order
