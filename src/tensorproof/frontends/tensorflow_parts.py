"""The parts of a TensorFlow graph: what computes values, what computes gradients, and what keeps the books.

A graph file holds everything that a program ever built: the network and its loss, gradients, the steps of the optimiser,
initialisers, savers and summaries. Only the first is analysed for inference, the first three for training.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from tensorproof.frontends.tensorflow_records import DataType, Reference, TensorflowGraph, TensorflowNode

#: The name scopes that TensorFlow gives to gradients: tf.gradients, optimisers of version 1, GradientTape in functions.
_GRADIENTS = re.compile(r"(?:^|/)(?:gradients|gradient_tape)(?:_\d+)?/")

#: TensorFlow's number of the type of texts.
_TEXT = DataType(7)

#: What names the operator that a node of `gradients` differentiates.
_PARTNER = re.compile(
    r"(?P<scope>^|^.*?/)(?:gradients(?:_\d+)?/(?P<name>.*)_grad(?:_\d+)?/|gradient_tape(?:_\d+)?/(?P<taped>.*)/)[^/]*$"
)

#: Steps of optimisers: they change variables, and some can fail themselves.
_STEPS = re.compile(r"^(Resource)?(Sparse)?Apply[A-Z]")

#: What keeps the books: variables, files, summaries, checks. No value of the network depends on it.
_BOOKS = re.compile(
    r"^(NoOp|Assert|Print|PrintV2|Assign|AssignAdd|AssignSub|AssignVariableOp|AssignAddVariableOp|AssignSubVariableOp"
    r"|Save|SaveV2|SaveSlices|Restore|RestoreV2|RestoreSlice|MergeV2Checkpoints|ShardedFilename|IsVariableInitialized|VarIsInitializedOp"
    r"|DestroyResourceOp|DisableCopyOnRead|\w*Summary\w*|Scatter(Update|Add|Sub)|ResourceScatter\w+|Queue(Enqueue|Close)\w*|WriteFile|Timestamp)$"
)

#: What brings data into a graph.
_DATA = re.compile(
    r"^(Placeholder\w*|Variable\w*|VarHandleOp|ReadVariableOp|Iterator\w*|OneShotIterator|\w*IteratorGetNext\w*|\w*Dequeue\w*|Reader\w*"
    r"|Parse\w*Example\w*|DecodeJpeg|DecodePng|DecodeRaw|RecvTPU\w*|InfeedDequeue\w*|_Arg|_Retval)$"
)


#: What holds data that other nodes take out of it: no tensor.
_HOLDERS = re.compile(r"^\w*(Queue|Iterator|Reader)(V2)?$")

#: What computes nothing by itself: a variable that is only read is no result of the network.
_NO_RESULTS = frozenset({"VarHandleOp", "VariableV2", "Variable", "ReadVariableOp", "Const", "Placeholder", "NoOp"})
_READS = frozenset({"ReadVariableOp", "Identity"})


def is_backward(name: str) -> bool:
    """Whether a node computes gradients, by its name scope."""
    return "gradient" in name and _GRADIENTS.search(name) is not None


def partner_of(name: str) -> str | None:
    """The node whose derivative a node of the gradients belongs to (`gradients/loss/Log_grad/Reciprocal`: `loss/Log`)."""
    found = _PARTNER.match(name)
    return None if found is None else f"{found['scope']}{found['name'] or found['taped']}"


@cache
def is_step(op: str) -> bool:
    """Whether an operator is a step of an optimiser."""
    return _STEPS.match(op) is not None


@cache
def holds_data(op: str) -> bool:
    """Whether an operator is a queue or another store that nodes take data from."""
    return _HOLDERS.match(op) is not None


def is_bookkeeping(op: str) -> bool:
    """Whether an operator computes nothing of the network."""
    return _BOOKS.match(op) is not None or is_step(op)


@cache
def brings_data(op: str) -> bool:
    """Whether an operator brings data into a graph."""
    return _DATA.match(op) is not None


def roots_of(graph: TensorflowGraph, *, training: bool) -> list[Reference]:
    """The results that nothing of the network reads: what a bare graph computes.

    What depends on no data (initialisers, names of files) is no root, unless there is nothing else. In training, gradients and
    the steps of optimisers count, too.
    """
    nodes = {node.name: node for node in graph.nodes}
    slots: set[str] = set() if training else _slots(graph)
    kept = [node for node in graph.nodes if _counts(node, training) and node.name not in slots]
    names = {node.name for node in kept}
    read = {reference.node for node in kept for reference in node.inputs if reference.node in names}
    last = [node for node in kept if node.name not in read and not _is_read(nodes, node)]
    fed = _fed(kept)
    chosen = [node for node in last if node.name in fed]
    return [Reference(node.name) for node in chosen or last if node.op not in _NO_RESULTS]


def _slots(graph: TensorflowGraph) -> set[str]:
    """What belongs to optimisers alone: the variables that their steps keep beside the weight, and what reads those."""
    nodes = {node.name: node for node in graph.nodes}
    steps = [node for node in graph.nodes if is_step(node.op)]
    weights = {_read(nodes, node.inputs[0].node) for node in steps if node.inputs}
    found = {_read(nodes, reference.node) for node in steps for reference in node.inputs[1:]} - weights
    found = {name for name in found if name in nodes and nodes[name].op in _NO_RESULTS}
    if found:
        # Variables of the network are never made from those of the optimiser: one pass over the readers is enough.
        for node in graph.nodes:
            if node.inputs and not is_backward(node.name) and all(_is_of_slots(nodes, r.node, found) for r in node.inputs):
                found.add(node.name)
    return found


def _read(nodes: Mapping[str, TensorflowNode], name: str) -> str:
    """The variable behind what reads it."""
    while name in nodes and nodes[name].op in _READS and nodes[name].inputs:
        name = nodes[name].inputs[0].node
    return name


def _is_read(nodes: Mapping[str, TensorflowNode], node: TensorflowNode) -> bool:
    """Whether a node only reads a variable."""
    source = nodes.get(_read(nodes, node.name))
    return node.op in _READS and source is not None and source.op in _NO_RESULTS


def _is_of_slots(nodes: Mapping[str, TensorflowNode], name: str, slots: set[str]) -> bool:
    return name in slots or (name in nodes and nodes[name].op == "Const")


def _counts(node: TensorflowNode, training: bool) -> bool:
    if training and (is_step(node.op) or is_backward(node.name)):
        return True
    return not is_bookkeeping(node.op) and not is_backward(node.name)


def _fed(nodes: Sequence[TensorflowNode]) -> set[str]:
    """The nodes that depend on data: those that bring it, and all that is computed from them."""
    readers: dict[str, list[str]] = {}
    for node in nodes:
        for reference in node.inputs:
            readers.setdefault(reference.node, []).append(node.name)
    found = {node.name for node in nodes if brings_data(node.op) and not _is_text(node)}
    pending = list(found)
    while pending:
        for reader in readers.get(pending.pop(), ()):
            if reader not in found:
                found.add(reader)
                pending.append(reader)
    return found


def _is_text(node: TensorflowNode) -> bool:
    """Whether a node brings the name of a file or another text: nothing that is computed with."""
    return node.attributes.get("dtype") == _TEXT


def ordered(nodes: Mapping[str, TensorflowNode], roots: Iterable[Reference], known: Iterable[str] = ()) -> list[TensorflowNode]:
    """The nodes that the roots need, operands first. `known` are names that are there already.

    A node that needs itself comes after what it reaches: the caller meets a value that is not there, and says so.
    """
    done = set(known)
    order: list[TensorflowNode] = []
    for root in roots:
        pending: list[tuple[str, bool]] = [(root.node, False)]
        while pending:
            name, is_ready = pending.pop()
            if is_ready:
                order.append(nodes[name])
                continue
            if name in done or name not in nodes:
                continue
            done.add(name)
            pending.append((name, True))
            pending.extend((reference.node, False) for reference in reversed(nodes[name].inputs) if reference.node not in done)
    return order
