"""Operands held in intervals in the messages of TensorFlow's graphs: Maximum and Minimum before the node that fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorproof.formats import Format
from tensorproof.frontends.tensorflow_program import TensorflowModel
from tensorproof.frontends.tensorflow_reassociation import EITHER_OF
from tensorproof.frontends.tensorflow_records import Reference, TensorflowNode
from tensorproof.frontends.tensorflow_tensors import DTYPES
from tensorproof.frontends.tensorflow_writing import write_tensor
from tensorproof.graph import Graph, Node
from tensorproof.repair.graph_guard import FrameworkOperator
from tensorproof.repair.operand.block import Interval
from tensorproof.repair.proposal import Declined


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file has an operand: a node of a function of the library ("" is the graph itself), and places among its inputs."""

    function: str
    node: str
    operands: tuple[int, ...]


def operator_of(model: TensorflowModel, graph: Graph, node: Node) -> FrameworkOperator:
    """The operator of TensorFlow that a node of our graph comes from; inside of branches and loops it goes by our own name."""
    origins = model.found.origins
    origin = origins.get(node.name, node.name.removesuffix(f"/{EITHER_OF}"))
    names = {node.name} | {name for name, other in origins.items() if other == origin}
    nodes = tuple(item for item in graph.walk() if item.name in names)
    return FrameworkOperator(next((item.op for item in model.graph.nodes if item.name == origin), node.op), origin, nodes)


def place_in_file(model: TensorflowModel, operator: FrameworkOperator, value: str) -> Place:
    """Where the file has an operator, and a value (by the program's name) among its operands.

    Raises `Declined` if the file does not say that one to one.
    """
    nodes = {item.name: item for item in model.graph.nodes}
    found = nodes.get(operator.label)
    if found is None:
        raise Declined("the node stands in a branch or a loop, which is not rewritten")
    wanted = model.found.fed.get(value) or _reference(nodes, value)
    translated = frozenset(model.found.origins.values())
    places = tuple(i for i, reference in enumerate(found.inputs) if _handed_on(nodes, translated, reference, wanted))
    if not places:
        raise Declined(f"{value!r} is no operand of TensorFlow's {found.op} itself")
    return Place(found.function, found.original if found.function else found.name, places)


def _reference(nodes: dict[str, TensorflowNode], value: str) -> Reference:
    name, _, index = value.rpartition(":")
    return Reference(name, int(index)) if name in nodes and index.isdecimal() else Reference(value)


def _handed_on(nodes: dict[str, TensorflowNode], translated: frozenset[str], reference: Reference, wanted: Reference) -> bool:
    """Whether a result is a value, as it is or through nodes of which our graph has nothing: they only hand it on."""
    while reference != wanted:
        node = nodes.get(reference.node)
        if node is None or node.name in translated or not node.inputs:
            return False
        reference = node.inputs[min(reference.output, len(node.inputs) - 1)]
    return True


def hold(graph: Any, place: Place, interval: Interval, format: Format) -> None:
    """Hold an operand in an interval, in the GraphDef itself. Raises `Declined`.

    The new nodes stand directly before the node, so that a file in the order of computation stays in that order.
    """
    nodes = _nodes(graph, place.function)
    index = next((index for index, item in enumerate(nodes) if item.name == place.node), None)
    if index is None:
        raise Declined("the file has no node of this name")
    written, names, code = nodes[index], {item.name for item in nodes}, _code(format)
    new_node = type(written)
    source = written.input[place.operands[0]]
    for op, limit in (("Maximum", interval.low), ("Minimum", interval.high)):
        if limit is None:
            continue
        array = np.asarray(int(limit) if format.is_integer else limit).astype(DTYPES[code])
        if float(array) != limit:
            raise Declined(f"{limit:.9g} is no number of {format}")
        name = _free(f"{place.node}/{op.lower()}_{place.operands[0]}", names)
        constant = new_node(name=f"{name}/limit", op="Const", device=written.device)
        constant.attr["dtype"].type = code
        write_tensor(constant.attr["value"].tensor, array, code)
        made = new_node(name=name, op=op, device=written.device)
        made.attr["T"].type = code
        # Inside of functions results go by the names of the operator's outputs, in the graph itself by their numbers.
        made.input.extend([source, f"{constant.name}:output:0" if place.function else constant.name])
        source = f"{name}:z:0" if place.function else name
        nodes.insert(index, constant)
        nodes.insert(index + 1, made)
        index += 2
    for operand in place.operands:
        written.input[operand] = source


def _nodes(graph: Any, function: str) -> Any:
    if not function:
        return graph.node
    found = next((item for item in graph.library.function if item.signature.name == function), None)
    if found is None:
        raise Declined(f"the function {function!r} is not in the file")
    return found.node_def


def _code(format: Format) -> int:
    """TensorFlow's number of a format; the plain one where a quantised type has the same elements."""
    for code in sorted(DTYPES):
        if DTYPES[code] == format.dtype:
            return code
    raise Declined(f"TensorFlow has no type for {format}")


def _free(name: str, taken: set[str]) -> str:
    count, made = 1, name
    while made in taken or f"{made}/limit" in taken:
        count += 1
        made = f"{name}_{count}"
    return made
