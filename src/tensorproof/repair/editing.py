"""ONNX models edited: nodes put in front of a node, operands exchanged, results replaced; all else stays as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.execute.instrument import reads
from tensorproof.graph import ABSENT, Graph, Model, Node
from tensorproof.repair.proposal import Declined

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, slots=True)
class _Site:
    """A node of the file, with the graph (or body) that it stands in."""

    graph: onnx.GraphProto
    node: onnx.NodeProto


class Editor:
    """A copy of a model that is being edited. Nodes are named by the nodes of the graph that was read from the same file.

    Functions of the model are inlined, as the graph has them. Weights are not touched; external data stays where it is.
    """

    def __init__(self, model: Model, proto: onnx.ModelProto) -> None:
        import onnx.inliner

        self.model = model
        if proto.functions:
            self.proto = onnx.inliner.inline_local_functions(proto)
        else:
            self.proto = onnx.ModelProto()
            self.proto.CopyFrom(proto)
        self._names = set(_all_names(self.proto.graph))
        self._sites: dict[int, _Site] = {}
        self._replaced: list[_Site] = []
        self._enter(model.graph, self.proto.graph)

    def _enter(self, graph: Graph, proto: onnx.GraphProto) -> None:
        by_output = {name: node for node in proto.node for name in node.output if name}
        for node in graph.nodes:
            name = next((self.model.name_of(n) for n in node.outputs if n != ABSENT), None)
            if name not in by_output:
                continue
            found = by_output[name]
            self._sites[node.number] = _Site(proto, found)
            bodies = {attribute.name: attribute.g for attribute in found.attribute if attribute.HasField("g")}
            for key, body in node.attributes.items():
                if isinstance(body, Graph) and key in bodies:
                    self._enter(body, bodies[key])

    @property
    def opset(self) -> int:
        return self.model.opsets[""]

    def before(self, node: Node, word: str) -> Spot:
        """A place for new nodes directly before a node; `word` goes into their names."""
        return Spot(self, self._site(node), word)

    def at_start(self, word: str) -> Spot:
        """A place for new nodes before all others."""
        graph = self.proto.graph
        return Spot(self, _Site(graph, graph.node[0]), word)

    def rewire(self, node: Node, operand: int, name: str) -> None:
        """Let one operand of a node be another value. What made the old one goes, if nothing else reads it."""
        site = self._site(node)
        old = site.node.input[operand]
        site.node.input[operand] = name
        self._replaced.extend(_Site(site.graph, maker) for maker in site.graph.node if old in maker.output)

    def set_attribute(self, node: Node, name: str, value: float) -> None:
        """Let an attribute of a node have another value."""
        import onnx

        attributes = self._site(node).node.attribute
        for index, attribute in enumerate(attributes):
            if attribute.name == name:
                del attributes[index]
                break
        attributes.append(onnx.helper.make_attribute(name, value))

    def set_constant(self, name: str, array: npt.NDArray[Any]) -> None:
        """Let an initialiser, or the result of a Constant node, be another array."""
        import onnx
        from onnx import numpy_helper

        tensor = numpy_helper.from_array(array, name)
        for graph in _graphs(self.proto.graph):
            for held in graph.initializer:
                if held.name == name:
                    held.CopyFrom(tensor)
                    return
            for node in graph.node:
                if node.op_type == "Constant" and name in node.output:
                    del node.attribute[:]
                    node.attribute.append(onnx.helper.make_attribute("value", tensor))
                    return
        raise Declined(f"the constant {name} cannot be found again in the file")

    def rewire_users(self, old: str, new: str, apart_from: Sequence[str] = ()) -> None:
        """Let every reader of a value read another one, in all bodies; nodes that make one of `apart_from` keep it.

        An output of the model that shows the old value goes on showing it.
        """
        _rename_reads(self.proto.graph, old, new, frozenset(apart_from))

    def replace(self, node: Node, name: str, output: int = 0) -> None:
        """Let a value made by new nodes take the place of a node's result, for all who read it and as an output.

        The node goes, with what only it read, if nothing else reads its results.
        """
        site = self._site(node)
        old = site.node.output[output]
        (maker,) = [made for made in site.graph.node if name in made.output]
        aside = self.fresh(f"{old}.replaced")
        site.node.output[output] = aside
        maker.output[list(maker.output).index(name)] = old
        _rename_reads(site.graph, name, old, frozenset())
        self._replaced.append(site)

    def finish(self) -> onnx.ModelProto:
        """The edited model, without the nodes that nothing reads since the edit."""
        for site in self._replaced:
            self._remove_if_dead(site.graph, site.node)
        return self.proto

    def _remove_if_dead(self, graph: onnx.GraphProto, node: onnx.NodeProto) -> None:
        read = {name for other in graph.node for name in reads(other)} | {info.name for info in graph.output}
        if not read.isdisjoint(name for name in node.output if name):
            return
        makers = {name: other for other in graph.node for name in other.output if name}
        before = [makers[name] for name in reads(node) if name in makers]
        for index, other in enumerate(graph.node):
            if other is node:
                del graph.node[index]
                break
        else:
            return
        for other in before:
            self._remove_if_dead(graph, other)

    def _site(self, node: Node) -> _Site:
        site = self._sites.get(node.number)
        if site is None:
            raise Declined(f"node {node.name} cannot be found again in the file")
        return site

    def fresh(self, wanted: str) -> str:
        """A name that no value of the model has."""
        name, count = wanted, 1
        while name in self._names:
            count += 1
            name = f"{wanted}.{count}"
        self._names.add(name)
        return name


class Spot:
    """A place in a model where new nodes are put, in the order in which they are made."""

    def __init__(self, editor: Editor, site: _Site, word: str) -> None:
        self._editor = editor
        self._site = site
        self._word = word

    def name(self, value: int) -> str:
        """The name of a value that was there before."""
        return self._editor.model.name_of(value)

    def fresh(self, wanted: str) -> str:
        """A name that no value of the model has."""
        return self._editor.fresh(wanted)

    def add(self, op: str, *inputs: str, domain: str = "", result: str | None = None, **attributes: Any) -> str:
        """A new node with one result; the name of that. It inherits the source line of the node that it stands before.

        The result is named after `result`, or after that node and the operator.
        """
        import onnx

        base = self._site.node.output[0] if self._site.node.output else self._site.node.name
        output = self._editor.fresh(f"{base}.{self._word}.{op.lower()}" if result is None else result)
        made = onnx.helper.make_node(op, list(inputs), [output], name=output, domain=domain, **attributes)
        made.metadata_props.extend(self._site.node.metadata_props)
        self._insert(made)
        return output

    def moved(self, moves: Sequence[Node], name: str) -> str:
        """The same moves of elements (reshapes, transpositions, casts ...) made with another value."""
        for move in moves:
            copy = type(self._site.node).FromString(self._editor._site(move).node.SerializeToString())  # pyright: ignore[reportPrivateUsage]
            copy.input[0] = name
            name = self._editor.fresh(f"{copy.output[0]}.{self._word}")
            copy.name = name
            del copy.output[1:]
            copy.output[0] = name
            self._insert(copy)
        return name

    def constant(self, array: npt.ArrayLike, dtype: Any = None) -> str:
        """A new constant of the graph around this place."""
        import onnx
        from onnx import numpy_helper

        values = np.asarray(array, dtype)
        name = self._editor.fresh(f"{self._word}.constant")
        self._insert(onnx.helper.make_node("Constant", [], [name], name=name, value=numpy_helper.from_array(values, name)))
        return name

    def reduce(self, op: str, x: str, axes: Sequence[int] | None, *, keepdims: bool) -> str:
        """A reduction over axes (all, if there are none given) as the version of the model spells it."""
        as_input = self._editor.opset >= (13 if op == "ReduceSum" else 18)
        if axes is None:
            return self.add(op, x, keepdims=int(keepdims))
        if as_input:
            return self.add(op, x, self.constant(list(axes), np.int64), keepdims=int(keepdims))
        return self.add(op, x, axes=list(axes), keepdims=int(keepdims))

    def clip(self, x: str, low: float | None, high: float | None, dtype: Any) -> str:
        """Numbers below `low` and above `high` moved to these ends (NaN stays NaN)."""
        if self._editor.opset < 11:
            attributes: dict[str, Any] = {key: float(end) for key, end in (("min", low), ("max", high)) if end is not None}
            return self.add("Clip", x, **attributes)
        ends = ["" if end is None else self.constant(end, dtype) for end in (low, high)]
        return self.add("Clip", x, *(ends if high is not None else ends[:1]))

    def _insert(self, made: onnx.NodeProto) -> None:
        nodes = self._site.graph.node
        index = next(i for i, other in enumerate(nodes) if other is self._site.node)
        nodes.insert(index, made)
        self._editor._names.update(made.output)  # pyright: ignore[reportPrivateUsage]


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and all bodies in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g)


def _all_names(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (tensor.name for tensor in graph.initializer)
    yield from (info.name for info in (*graph.input, *graph.output))
    for node in graph.node:
        yield node.name
        yield from node.input
        yield from node.output
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _all_names(attribute.g)


def _rename_reads(graph: onnx.GraphProto, old: str, new: str, apart_from: frozenset[str]) -> None:
    for node in graph.node:
        if not apart_from.isdisjoint(node.output):
            continue
        for index, name in enumerate(node.input):
            if name == old:
                node.input[index] = new
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename_reads(attribute.g, old, new, apart_from)
                for info in attribute.g.output:
                    if info.name == old:
                        info.name = new
