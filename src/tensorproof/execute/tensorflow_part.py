"""`RunnableGraph`: the part of a TensorFlow graph that wanted values need, ready to be run with values for all that enters it.

What enters is fed: inputs, and the values of variables, whose initialisers are never run. Operators that read or write files, open
connections or run Python are refused, unless the model is trusted; savers, summaries and steps of optimisers are not even part of
what is run, since no value needs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tensorproof.frontends.framework_model import RunFailed
from tensorproof.frontends.tensorflow_parts import is_step
from tensorproof.frontends.tensorflow_records import (
    DataType,
    FunctionName,
    Reference,
    TensorflowFunction,
    TensorflowGraph,
    TensorflowNode,
    TensorShape,
)
from tensorproof.frontends.tensorflow_variables import VARIABLES
from tensorproof.frontends.tensorflow_writing import graph_def_bytes
from tensorproof.operators.table import all_spellings

#: Operators that compute nothing that a block would have to spell, and have no effect beyond their results.
_STRUCTURE = """
    Const Placeholder PlaceholderV2 PlaceholderWithDefault Identity IdentityN NoOp Assert Print StopGradient PreventGradient
    CheckNumerics CheckNumericsV2 EnsureShape Snapshot ControlTrigger Switch RefSwitch Merge RefMerge Enter RefEnter Exit RefExit
    NextIteration RefNextIteration LoopCond If StatelessIf While StatelessWhile Case StatelessCase PartitionedCall
    StatefulPartitionedCall VarHandleOp ReadVariableOp VariableV2 Variable StackV2 StackPushV2 StackPopV2 StackCloseV2
    TensorArrayV3 TensorArrayReadV3 TensorArrayWriteV3 TensorArrayGatherV3 TensorArrayScatterV3 TensorArraySizeV3
    TensorArrayConcatV3 TensorArraySplitV3 TensorArrayCloseV3 TensorArrayGradV3 TensorListReserve EmptyTensorList
    TensorListGetItem TensorListSetItem TensorListStack TensorListFromTensor TensorListLength TensorListPushBack TensorListPopBack
    TensorListElementShape TensorListResize TensorListConcat TensorListConcatV2 TensorListGather TensorListScatter
    TensorListScatterV2 TensorListSplit Shape ShapeN Size Rank BroadcastArgs BroadcastGradientArgs ConcatOffset InvertPermutation
    DynamicStitch DynamicPartition Unique StringJoin StringFormat AsString
    RandomUniform RandomUniformInt RandomStandardNormal TruncatedNormal RandomShuffle Multinomial StatelessRandomUniform
    StatelessRandomUniformV2 StatelessRandomNormal StatelessRandomNormalV2 StatelessTruncatedNormalV2 Less LessEqual Greater
    GreaterEqual Equal NotEqual LogicalAnd LogicalOr LogicalNot All Any"""


#: What is never run without trust, whatever spells it: files, connections, Python, libraries, state outside the graph.
_REACHES_OUT = re.compile(
    r"PyFunc|File|Dataset|Iterator|Queue|Enqueue|Dequeue|Summary|Reader|Save|Restore|Checkpoint|Rpc|Remote|Table|Lookup|Debug"
    r"|^Print.+|Sql|Bigtable|^_|Infeed|Outfeed|Collective|TPU|Load|Library|Service|Barrier|Mutex|Accumulator"
)

#: Operators that take a variable without reading its value alone.
_READS = frozenset({"ReadVariableOp"})
#: What hands a variable on.
_SAME = frozenset({"Identity"})
_RANDOM = re.compile(r"Random|Multinomial|TruncatedNormal|ParameterizedTruncated")


@cache
def _pure() -> frozenset[str]:
    spelled = {name for name, _ in all_spellings("tensorflow")}
    return frozenset(name for name in spelled.union(_STRUCTURE.split()) if not _REACHES_OUT.search(name) and not is_step(name))


def is_pure(op: str) -> bool:
    """Whether running an operator does nothing but compute its results."""
    return op in _pure()


@dataclass(frozen=True, slots=True)
class Part:
    """What is sent to TensorFlow.

    `feeds` maps each tensor that is fed to the input or the variable that its value is; `first` are nodes that give variables
    their values, to be run before; `is_random` says that operators draw numbers. In the graph itself, `sources` are the tensors
    that are fed, and `variables` the nodes of variables that have to hold a value.
    """

    graph_def: bytes
    feeds: Mapping[str, str]
    first: tuple[str, ...]
    is_random: bool
    sources: Mapping[str, str]
    variables: Mapping[str, str]


class RunnableGraph:
    """A graph whose calls are in place (`tensorflow_inlining.inlined`), in TensorFlow's own control flow.

    `fed` maps what is fed, by the name of our graph, to results (of placeholders, iterators, queues) and to nodes that are or
    hold a variable.
    """

    def __init__(self, graph: TensorflowGraph, fed: Mapping[str, Reference], *, trust: bool = False) -> None:
        self._graph = graph
        self._trust = trust
        self._nodes = {node.name: node for node in graph.nodes}
        self._fed = {reference: name for name, reference in fed.items()}
        self._names = dict(fed)
        shared = {self._shared_name(reference.node): name for name, reference in fed.items()}
        self._variables = {
            node.name: shared.get(self._shared_name(node.name), node.name) for node in graph.nodes if node.op in VARIABLES
        }
        self._inside = _inside(graph.nodes)
        self._tainted: frozenset[str] | None = None

    def _shared_name(self, name: str) -> str:
        node = self._nodes.get(name)
        shared: Any = None if node is None else node.attributes.get("shared_name")
        return (shared.decode("utf-8", "replace") if isinstance(shared, bytes) else "") or name

    def reference(self, name: str) -> Reference | None:
        """The result of TensorFlow's graph that a value of ours is, by name; None if there is none that can be fetched.

        Steps of optimisers change variables, which are fed: they are not run.
        """
        if name in self._names:
            return self._names[name]
        node, _, index = name.rpartition(":")
        found = Reference(node, int(index)) if node in self._nodes and index.isdecimal() else Reference(name)
        known = self._nodes.get(found.node)
        return None if known is None or found.node in self._inside or is_step(known.op) else found

    def part(self, wanted: Iterable[Reference]) -> Part:
        """The part of the graph that some results need. Raises `RunFailed` if an operator in it is refused."""
        nodes: dict[str, TensorflowNode] = {}
        feeds: dict[str, str] = {}
        first: list[str] = []
        sources: dict[str, str] = {}
        variables: dict[str, str] = {}
        functions: dict[str, TensorflowFunction] = {}
        # A loop of version 1 comes back to itself, so that nodes are marked before their operands are looked at.
        pending = [reference.node for reference in wanted]
        while pending:
            name = pending.pop()
            if name in nodes:
                continue
            node = self._nodes[name]
            held = self._held(node)
            if held is not None:
                nodes[name] = _placeholder(name, held)
                feeds[f"{name}:0"] = sources[f"{name}:0"] = self._variables[held.name]
                continue
            fed = self._results_fed(node)
            if fed:
                for index in fed:
                    made = self._source(node, index)
                    nodes[made.name] = made
                    feeds[f"{made.name}:0"] = sources[f"{name}:{index}"] = self._fed[Reference(name, index)]
                nodes.setdefault(name, TensorflowNode(name, "NoOp", (), {}))
                continue
            self._check(node, name)
            inputs = tuple([self._moved(reference) for reference in node.inputs])
            controls = tuple([control for control in node.controls if self._is_kept(control)])
            nodes[name] = replace(node, inputs=inputs, controls=controls, attributes=_seeded(node))
            pending.extend(reference.node for reference in node.inputs)
            pending.extend(controls)
            self._take_functions(node, functions)
            if node.op == "VarHandleOp":
                first.append(self._assign(node, nodes, feeds))
                variables[name] = self._variables[name]
        graph = TensorflowGraph(list(nodes.values()), functions)
        operators = [*nodes.values(), *(inner for function in functions.values() for inner in function.nodes)]
        is_random = any(_RANDOM.search(node.op) for node in operators)
        return Part(graph_def_bytes(graph), feeds, tuple(first), is_random, sources, variables)

    # -- what enters ------------------------------------------------------------------------------------------------

    def _held(self, node: TensorflowNode) -> TensorflowNode | None:
        """The variable whose value a node is, if it is nothing else."""
        if node.op in VARIABLES and node.op != "VarHandleOp":
            return node
        if node.op not in _READS or node.name in self._inside:
            # Inside a loop, a value of the outside would have to be let in.
            return None
        reference = node.inputs[0]
        for _ in range(len(self._nodes)):
            holder = self._nodes[reference.node]
            if holder.op not in _SAME:
                return holder if holder.op == "VarHandleOp" else None
            reference = holder.inputs[0]
        return None

    def _results_fed(self, node: TensorflowNode) -> list[int]:
        """The results of a node that are fed, by number."""
        if node.op in VARIABLES:
            return []
        return [index for index in range(len(_types_of(node))) if Reference(node.name, index) in self._fed]

    @staticmethod
    def _source(node: TensorflowNode, index: int) -> TensorflowNode:
        name = _fed_name(node.name, index)
        return TensorflowNode(name, "Placeholder", (), {"dtype": _types_of(node)[index], "shape": TensorShape(None)})

    def _moved(self, reference: Reference) -> Reference:
        """A result, or the placeholder that stands for one that is fed."""
        if reference.output and reference in self._fed:
            return Reference(_fed_name(reference.node, reference.output))
        return reference

    def tensor(self, reference: Reference) -> str:
        """How TensorFlow spells a result in a part of the graph."""
        return str(self._moved(reference))

    def _assign(self, node: TensorflowNode, nodes: dict[str, TensorflowNode], feeds: dict[str, str]) -> str:
        """What gives a variable its value, where more than its value is needed (the body of a loop reads it)."""
        value = _placeholder(f"{node.name}/tensorproof_value", node)
        assign = TensorflowNode(
            f"{node.name}/tensorproof_assign",
            "AssignVariableOp",
            (Reference(node.name), Reference(value.name)),
            {"dtype": node.attributes["dtype"]},
        )
        nodes[value.name], nodes[assign.name] = value, assign
        feeds[f"{value.name}:0"] = self._variables[node.name]
        return assign.name

    # -- what is refused --------------------------------------------------------------------------------------------

    def _check(self, node: TensorflowNode, name: str) -> None:
        if self._trust or is_pure(node.op) or node.op in self._graph.functions:
            return
        raise RunFailed(f"not run: operator {node.op} (node {name!r}) may do more than compute; trust the model to run it")

    def _take_functions(self, node: TensorflowNode, functions: dict[str, TensorflowFunction]) -> None:
        """Add the functions that a node names, and those that they name, each checked."""
        pending = list(_named(node, self._graph.functions))
        while pending:
            name = pending.pop()
            if name in functions:
                continue
            found = self._graph.functions.get(name)
            if found is None:
                raise RunFailed(f"not run: function {name!r} is not in the file")
            functions[name] = replace(found, nodes=[_in_function(inner) for inner in found.nodes])
            for inner in found.nodes:
                self._check(inner, f"{name}/{inner.name}")
                pending.extend(_named(inner, self._graph.functions))

    def _is_kept(self, control: str) -> bool:
        """Whether a node is waited for: assertions and the frames of loops count, changes and reads of variables are left out.

        Nobody need know the value of a variable that is read for the order of things alone.
        """
        if self._tainted is None:
            tainted: set[str] = set()
            for node in self._graph.nodes:
                if self._results_fed(node) or self._held(node) is not None:
                    continue
                is_impure = not is_pure(node.op) and node.op not in self._graph.functions
                if is_impure or any(reference.node in tainted for reference in node.inputs):
                    tainted.add(node.name)
            self._tainted = frozenset(tainted)
        if control not in self._nodes or control in self._tainted:
            return False
        return self._held(self._nodes[control]) is None


def _fed_name(node: str, index: int) -> str:
    return node if index == 0 else f"{node}/tensorproof_{index}"


def _placeholder(name: str, variable: TensorflowNode) -> TensorflowNode:
    shape = variable.attributes.get("shape")
    fixed = shape if isinstance(shape, TensorShape) else TensorShape(None)
    return TensorflowNode(name, "Placeholder", (), {"dtype": variable.attributes["dtype"], "shape": fixed})


def _types_of(node: TensorflowNode) -> Sequence[DataType]:
    """The types of what a node brings into the graph, by the attributes of sources of data."""
    for name in ("dtype", "output_types", "component_types", "dtypes"):
        found: Any = node.attributes.get(name)
        if isinstance(found, DataType):
            return (found,)
        if isinstance(found, list | tuple):
            return [item for item in found if isinstance(item, DataType)]
    return ()


def _seeded(node: TensorflowNode) -> Mapping[str, Any]:
    """The attributes of a node; a random operator without a seed gets one, so that runs can be repeated."""
    if "seed2" not in node.attributes or node.attributes.get("seed") or node.attributes.get("seed2"):
        return node.attributes
    return {**{name: node.attributes[name] for name in node.attributes}, "seed": 1, "seed2": 1}


def _in_function(node: TensorflowNode) -> TensorflowNode:
    return replace(node, attributes=_seeded(node))


def _named(node: TensorflowNode, functions: Mapping[str, TensorflowFunction]) -> Iterable[str]:
    """The functions that a node names."""
    if node.op in functions:
        yield node.op
    for name in node.attributes:
        if name.startswith("_"):
            continue
        value: Any = node.attributes[name]
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, FunctionName):
                yield item.name


def _inside(nodes: Iterable[TensorflowNode]) -> frozenset[str]:
    """Nodes inside the branches and loops of version 1: TensorFlow does not show what they compute.

    A branch begins at Switch and ends at Merge, a loop begins at Enter and ends at Exit; nodes come behind their operands, except
    for what a loop brings back.
    """
    depths: dict[str, int] = {}
    conditions = {node.name for node in nodes if node.op == "LoopCond"}
    for node in nodes:
        depth = max((depths.get(reference.node, 0) for reference in node.inputs), default=0)
        depth = max([depth, *(depths.get(name, 0) for name in node.controls)])
        is_branch = node.op in ("Switch", "RefSwitch") and not any(reference.node in conditions for reference in node.inputs)
        if is_branch or node.op in ("Enter", "RefEnter"):
            depth += 1
        elif node.op in ("Exit", "RefExit"):
            depth -= 1
        elif node.op in ("Merge", "RefMerge"):
            entering = [depths[reference.node] for reference in node.inputs if reference.node in depths]
            # What a loop brings back is not known yet: such a Merge begins a round, it does not end a branch.
            is_loop = len(entering) < len(node.inputs)
            depth = max(entering, default=0) - (0 if is_loop else 1)
        depths[node.name] = max(depth, 0)
    return frozenset(name for name, depth in depths.items() if depth)
