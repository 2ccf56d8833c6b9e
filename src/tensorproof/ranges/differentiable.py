"""Differentiable paths: the nodes through which gradients flow from the outputs of a model back to what is trained.

A hazard of the backward pass matters at a node only if a trainable value reaches it, and it reaches an output, both through
operators and operands that have a derivative. Operators that are constant almost everywhere (Floor, Round, Sign) count as
differentiable: eager PyTorch sends zeros back through them, and 0 times an infinite derivative is NaN.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tensorproof.formats import BY_ONNX_CODE
from tensorproof.graph import ABSENT, Graph, Model, Node
from tensorproof.operators.table import find_operator
from tensorproof.ranges.guards import Fact, Guards


@dataclass(frozen=True, slots=True)
class Flowing:
    """How gradients flow back through a node: by which operands, and which of these are zero only where no gradient gets on.

    Relu is such a stop: eager PyTorch replaces the gradient by 0 where the result is 0, however large it is, while a factor of
    0 would turn an infinite one into NaN. So sqrt(relu(x)) has a finite gradient everywhere, and sqrt(clamp(x, min=0)) has not.
    Where(x > 0, x, 0) is another.
    """

    operands: frozenset[int]
    stopped_at_zero: frozenset[int] = frozenset()


#: How gradients flow through each node that they flow through, by the node's number.
Paths = Mapping[int, Flowing]

NO_PATHS: Paths = {}

#: Operators through which no gradient flows: truth values, positions, sizes, random and quantised numbers, and what is made
#: from shapes alone. Where a model declares the formats of its values, results that are not floating need not stand here.
NO_DERIVATIVE = frozenset(
    {"And", "Or", "Not", "Xor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsInf", "IsNaN"}
    | {"ArgMax", "ArgMin", "Hardmax", "NonZero", "NonMaxSuppression", "OneHot", "Shape", "Size", "Range", "FloorDivide"}
    | {"BitCast", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"}
    | {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
    | {"ConstantOfShape", "EyeLike", "BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"}
    | {"QuantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"}
    | {"OptionalHasElement", "SequenceLength", "StopGradient", "TfIdfVectorizer"}
)
#: Operators of which only the first result has a derivative: the others are positions, masks or running statistics.
FIRST_RESULT = frozenset({"BatchNormalization", "Dropout", "MaxPool", "TopK", "Unique"})
#: Operands that decide what is selected, without a derivative, beside those that steer shapes and indices.
SELECTING = {"Where": frozenset({0}), "Dropout": frozenset({1, 2})}
#: Operators whose result is zero only where all elements are that it is made of, if none of these is negative.
_KEEPING_ZEROS = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Slice", "ReduceSum"})


def trainable_values(model: Model) -> frozenset[int]:
    """What is trained unless somebody says otherwise: the floating weights of a model, or its floating inputs if it has none."""
    weights = frozenset(number for number in model.weights if _may_be_floating(model, number))
    return weights or frozenset(number for number in model.graph.inputs if _may_be_floating(model, number))


def differentiable_paths(model: Model, trainable: Collection[int] | None = None) -> Paths:
    """The nodes between trainable values and outputs of a model, with the operands by which gradients flow.

    Bodies of control flow are taken as a whole: if gradients flow through the node, they flow from each of its body's results
    to each of the body's inputs.
    """
    search = _Search(model, trainable_values(model) if trainable is None else trainable)
    search.forward(model.graph)
    search.backward(model.graph, model.graph.outputs)
    return search.paths


class _Search:
    def __init__(self, model: Model, trainable: Collection[int]) -> None:
        self.model = model
        #: Values that depend on trainable ones, and values that outputs depend on.
        self.varying: set[int] = set(trainable)
        self.needed: set[int] = set()
        self.paths: dict[int, Flowing] = {}
        self._producers = {number: node for node in model.graph.walk() for number in node.outputs if number != ABSENT}

    def forward(self, graph: Graph) -> None:
        for node in graph.nodes:
            bodies = list(node.subgraphs())
            if bodies and not self.varying.isdisjoint(_read_by(node)):
                for body in bodies:
                    self.varying.update(number for number in body.inputs if _may_be_floating(self.model, number))
                    self.forward(body)
            elif bodies or not self._operands(node):
                continue
            self.varying.update(self._results(node))

    def backward(self, graph: Graph, outputs: Sequence[int]) -> None:
        self.needed.update(outputs)
        for node in reversed(graph.nodes):
            if self.needed.isdisjoint(self._results(node)):
                continue
            bodies = list(node.subgraphs())
            operands = frozenset(range(len(node.inputs))) if bodies else self._operands(node)
            self.needed.update(node.inputs[index] for index in operands)
            if operands and not bodies:
                stopped = frozenset(index for index in operands if self._is_stopped_at_zero(node.inputs[index]))
                self.paths[node.number] = Flowing(operands, stopped)
            for body in bodies:
                self.backward(body, body.outputs)

    def _operands(self, node: Node) -> frozenset[int]:
        """The operands that depend on trainable values and that the node's results have a derivative by."""
        if node.phase == "backward":
            # Gradients that stand in the graph are not differentiated again.
            return frozenset()
        if node.op in NO_DERIVATIVE or (node.op == "Cast" and not _casts_to_floating(node)):
            return frozenset()
        entry = find_operator(node.domain, node.op)
        steering = SELECTING.get(node.op, frozenset[int]()) | frozenset(() if entry is None else entry.steered_by)
        return frozenset(index for index, number in enumerate(node.inputs) if number in self.varying and index not in steering)

    def _is_stopped_at_zero(self, value: int) -> bool:
        node = self._producers.get(value)
        while node is not None and not node.domain and node.op in _KEEPING_ZEROS:
            node = self._producers.get(node.inputs[0])
        if node is None or node.domain:
            return False
        return node.op == "Relu" or (node.op == "Where" and self._selects_no_zero(node))

    def _selects_no_zero(self, where: Node) -> bool:
        """Whether every branch that gradients flow to is compared with a number so that it is not zero where it is selected."""
        condition, *branches = where.inputs
        if not self._guards.is_elementwise(condition):
            return False
        for index, branch in enumerate(branches):
            facts = self._guards.facts(condition, index == 0) if branch in self.varying else ()
            if branch in self.varying and not any(fact.left == branch and self._excludes_zero(fact) for fact in facts):
                return False
        return True

    def _excludes_zero(self, fact: Fact) -> bool:
        numbers = self.model.constants.get(fact.right)
        if numbers is None or fact.right in self.varying:
            return False
        return bool((fact.relation == ">" and (numbers >= 0).all()) or (fact.relation == "<" and (numbers <= 0).all()))

    @cached_property
    def _guards(self) -> Guards:
        return Guards(self.model)

    def _results(self, node: Node) -> list[int]:
        results = node.outputs[:1] if node.op in FIRST_RESULT else node.outputs
        return [number for number in results if number != ABSENT and _may_be_floating(self.model, number)]


def _may_be_floating(model: Model, number: int) -> bool:
    format = model.values[number].format
    return format is None or format.is_float


def _casts_to_floating(node: Node) -> bool:
    format = BY_ONNX_CODE.get(node.attributes.get("to", 0))
    return format is not None and format.is_float


def _read_by(node: Node) -> set[int]:
    """The values that a node with bodies reads, what its bodies take from outside included."""
    found = set(node.inputs)
    for body in node.subgraphs():
        found.update(body.outputs)
        for inner in body.walk():
            found.update(inner.inputs)
            found.update(number for sub in inner.subgraphs() for number in sub.outputs)
    return found
