"""Functions that programs write in several ways, recognised in a graph: shifted values, sigmoids, quotients of exponentials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tensorproof.graph import ABSENT, Dimension, Graph, Node
from tensorproof.idioms.terms import axes_of, factors
from tensorproof.repair.matching import MOVES, behind_moves, is_floating, uniform_number, users
from tensorproof.repair.proposal import Case, Declined


@dataclass(frozen=True, slots=True)
class Shifted:
    """sign * value + terms, with elements moved by `moves` (in this order); `nodes` compute it, the last one first.

    The terms are kept apart, since their sum may lose one of them: 1e-10 + 1 is 1 in float32.
    """

    value: int
    sign: int
    terms: tuple[float, ...]
    moves: tuple[Node, ...]
    nodes: tuple[Node, ...]

    @property
    def offset(self) -> float:
        return math.fsum(self.terms)


def shifted(case: Case, value: int) -> Shifted:
    """A value without the constants around it, its sign and moves of its elements; itself, if there is none of them.

    Magnitudes and positive parts of what is never negative are left out, too.
    """
    sign, terms, moves, nodes = 1, list[float](), list[Node](), list[Node]()
    while (node := case.structure.producer(value)) is not None and not node.domain:
        if node.op in MOVES and is_floating(case, node.inputs[0]):
            moves.append(node)
            value = node.inputs[0]
        elif node.op == "Neg" or (node.op in ("Abs", "Relu") and _is_never_negative(case, node.inputs[0])):
            sign = -sign if node.op == "Neg" else sign
            value = node.inputs[0]
        elif (parts := _constant_and_rest(case, node)) is not None:
            constants, rest, factor = parts
            terms += [sign * constant for constant in constants]
            value, sign = rest, sign * factor
        else:
            break
        nodes.append(node)
    return Shifted(value, sign, tuple(terms), tuple(reversed(moves)), tuple(nodes))


def _is_never_negative(case: Case, value: int) -> bool:
    summary = case.summary(value)
    return summary is not None and not summary.special and summary.low >= 0.0


def stays_positive(case: Case, value: int) -> bool:
    """Whether a value is proven to be a number above 0."""
    summary = case.summary(value)
    return summary is not None and not summary.special and summary.low > 0.0


def _constant_and_rest(case: Case, node: Node) -> tuple[list[float], int, int] | None:
    """A sum or difference as its constants, the other operand, and the sign of that."""
    if node.op not in ("Add", "Sub", "Sum") or len(node.inputs) != 2:
        return None
    second = -1 if node.op == "Sub" else 1
    for constant, rest, constant_sign, sign in (
        (node.inputs[0], node.inputs[1], 1, second),
        (node.inputs[1], node.inputs[0], second, 1),
    ):
        terms = _constant_terms(case, constant)
        if terms is not None and keeps_shape(case, node, constant, rest):
            return [constant_sign * term for term in terms], rest, sign
    return None


def _constant_terms(case: Case, value: int) -> list[float] | None:
    """The numbers whose sum a uniform constant is, as the program writes them."""
    number = uniform_number(case, value)
    if number is not None:
        return [number]
    node = case.structure.producer(behind_moves(case, value)[0], "Add", "Sub")
    if node is None:
        return None
    first, second = (uniform_number(case, operand) for operand in node.inputs)
    if first is None or second is None:
        return None
    return [first, -second if node.op == "Sub" else second]


def keeps_shape(case: Case, node: Node, constant: int, operand: int) -> bool:
    """Whether a node's result has the shape of its operand, whatever the constant next to it is repeated along."""
    array, seen = case.model.constants.get(constant), case.shape(operand)
    if array is not None and array.size == 1 and array.ndim <= (0 if seen is None else len(seen)):
        return True
    shape = fixed_shape(case, operand)
    return shape is not None and shape == fixed_shape(case, node.outputs[0])


def fixed_shape(case: Case, value: int) -> tuple[int, ...] | None:
    """The sizes of a value if they are the same in every run: the analysis of a symbolic dimension is of one size only."""
    if not case.analysis.assumptions.sizes:
        return case.shape(value)
    declared = case.model.values[value].shape
    sizes = () if declared is None else tuple(size for size in declared if isinstance(size, int))
    return sizes if declared is not None and len(sizes) == len(declared) else None


def size_along(case: Case, value: int, axes: tuple[int, ...]) -> int | None:
    """How many elements there are along axes (all, if there are none), if that is the same in every run."""
    declared: Sequence[Dimension] | None = fixed_shape(case, value) or case.model.values[value].shape
    sizes = None if declared is None else [declared[axis] for axis in axes or range(len(declared))]
    if sizes is None or not all(isinstance(size, int) for size in sizes):
        return None
    return math.prod(size for size in sizes if isinstance(size, int))


@dataclass(frozen=True, slots=True)
class Recognised:
    """A function of sign * argument, and the nodes that compute it, the last one first."""

    argument: int
    sign: int
    nodes: tuple[Node, ...]


def sigmoid_of(case: Case, value: int) -> Recognised | None:
    """Sigmoid(x), or its formulas 1 / (1 + exp(-x)) and exp(x) / (1 + exp(x))."""
    node = case.structure.producer(value, "Sigmoid", "Div", "Mul", "Reciprocal")
    if node is None or node.op == "Sigmoid":
        return None if node is None else Recognised(node.inputs[0], 1, (node,))
    top, bottom = _quotient(case, node)
    if bottom is None:
        return None
    whole = shifted(case, bottom)
    exponential = case.structure.producer(whole.value, "Exp")
    if exponential is None or whole.offset != 1.0 or whole.sign < 0 or whole.moves:
        return None
    nodes = (*_own(case, node), *whole.nodes, exponential)
    if top is None or (uniform_number(case, top) == 1.0 and keeps_shape(case, node, top, bottom)):
        return _with_sign(case, exponential.inputs[0], -1, nodes)
    if case.structure.same(top, whole.value):
        return _with_sign(case, exponential.inputs[0], 1, nodes)
    return None


def _with_sign(case: Case, value: int, sign: int, nodes: tuple[Node, ...]) -> Recognised:
    negated = case.structure.producer(value, "Neg")
    return Recognised(value, sign, nodes) if negated is None else Recognised(negated.inputs[0], -sign, (*nodes, negated))


def _quotient(case: Case, node: Node) -> tuple[int | None, int | None]:
    """Dividend (None for the 1 of a reciprocal) and divisor."""
    if node.op == "Reciprocal":
        return None, node.inputs[0]
    parts = factors(case.structure, node)
    return (None, None) if parts is None else parts[:2]


def _own(case: Case, node: Node) -> tuple[Node, ...]:
    """A quotient with the reciprocal that it may be a product with."""
    inverses = (case.structure.producer(value, "Reciprocal") for value in node.inputs) if node.op == "Mul" else ()
    return (node, *(inverse for inverse in inverses if inverse is not None))


@dataclass(frozen=True, slots=True)
class Summed:
    """A reduction of exponentials: exp(argument) over `axes`, all if there are none."""

    argument: int
    axes: tuple[int, ...]
    keepdims: bool
    reduction: Node
    nodes: tuple[Node, ...]


def sum_of_exponentials(case: Case, value: int, *reductions: str) -> Summed | None:
    """ReduceSum(Exp(x), axes), or another reduction of exponentials."""
    node = case.structure.producer(value, *(reductions or ("ReduceSum",)))
    if node is None:
        return None
    exponential = case.structure.producer(node.inputs[0], "Exp")
    axes = axes_of(case.structure, node)
    if exponential is None or axes is None:
        return None
    return Summed(exponential.inputs[0], axes, bool(node.attributes.get("keepdims", 1)), node, (node, exponential))


@dataclass(frozen=True, slots=True)
class Quotient:
    """exp(top) / sum(exp(bottom)) over `axes`, where each sum meets the row that it was made of."""

    top: int
    bottom: int
    axes: tuple[int, ...]
    nodes: tuple[Node, ...]


def quotient_of_exponentials(case: Case, value: int) -> Quotient | None:
    """Exp(a) / ReduceSum(Exp(b), axes), or the product with a reciprocal."""
    node = case.structure.producer(value, "Div", "Mul")
    parts = None if node is None else factors(case.structure, node)
    if node is None or parts is None:
        return None
    top = case.structure.producer(parts[0], "Exp")
    spread = _behind(case, parts[1], ("Expand", "Tile"))
    total = sum_of_exponentials(case, case.structure.origin(spread))
    if top is None or total is None or not _meets_its_row(case, total, spread):
        return None
    between = _path(case, parts[1], total.reduction)
    return Quotient(top.inputs[0], total.argument, total.axes, (*_own(case, node), top, *between, *total.nodes))


def _behind(case: Case, value: int, operators: Iterable[str]) -> int:
    while (node := case.structure.producer(value, *operators)) is not None:
        value = node.inputs[0]
    return value


def _path(case: Case, value: int, end: Node) -> tuple[Node, ...]:
    """The nodes from a value back to a node, along first operands."""
    found: list[Node] = []
    while (node := case.structure.producer(value)) is not None and node is not end:
        found.append(node)
        value = node.inputs[0]
    return tuple(found)


def _meets_its_row(case: Case, total: Summed, spread: int) -> bool:
    """Whether the sum, behind reshapes, has size 1 along the axes that it was summed over, and all others in their places."""
    if spread == total.reduction.outputs[0] and (total.keepdims or not total.axes):
        return True
    unsqueezed = case.structure.producer(spread, "Unsqueeze")
    if unsqueezed is not None and unsqueezed.inputs[0] == total.reduction.outputs[0]:
        return not total.keepdims and sorted(case.structure.axes(unsqueezed) or ()) == sorted(total.axes)
    shape, reduced = fixed_shape(case, total.argument), fixed_shape(case, spread)
    if shape is None or reduced is None or len(reduced) > len(shape):
        return False
    over = {axis % len(shape) for axis in total.axes} if total.axes else set(range(len(shape)))
    expected = tuple(1 if axis in over else size for axis, size in enumerate(shape))
    return (1,) * (len(shape) - len(reduced)) + reduced == expected


def clip_ends(case: Case, node: Node) -> tuple[float | None, float | None] | None:
    """The constant ends of a Clip, None for one that is left out; None if an end is not constant."""
    if len(node.inputs) == 1:
        return node.attributes.get("min"), node.attributes.get("max")
    ends = (*node.inputs[1:], ABSENT, ABSENT)[:2]
    numbers = [None if end == ABSENT else uniform_number(case, end) for end in ends]
    if any(number is None and end != ABSENT for number, end in zip(numbers, ends)):
        return None
    return numbers[0], numbers[1]


@dataclass(frozen=True, slots=True)
class SoftmaxFound:
    """Softmax of a value: by the operator (`node`), or as a quotient of exponentials over `axes`."""

    argument: int
    axes: tuple[int, ...]
    node: Node | None
    nodes: tuple[Node, ...]


def softmax_of(case: Case, value: int) -> SoftmaxFound | None:
    """Softmax(x), or exp(x) / sum(exp(x))."""
    node = case.structure.producer(value, "Softmax")
    if node is not None:
        return SoftmaxFound(node.inputs[0], (), node, (node,))
    quotient = quotient_of_exponentials(case, value)
    if quotient is None or not case.structure.same(quotient.top, quotient.bottom):
        return None
    return SoftmaxFound(quotient.top, quotient.axes, None, quotient.nodes)


def softmax_axes(case: Case, found: SoftmaxFound) -> tuple[int, ...]:
    """The axes that a softmax sums over; none for all of them."""
    if found.node is None:
        return found.axes
    if found.node.version >= 13:
        return (int(found.node.attributes.get("axis", -1)),)
    shape = case.shape(found.argument)
    if shape is None:
        raise Declined("the rank of the softmax is not known")
    axis = int(found.node.attributes.get("axis", 1))
    return tuple(range(axis % len(shape) if axis < 0 else axis, len(shape)))


def lost_epsilon(case: Case, operand: Shifted, value: int) -> float:
    """The epsilon of 1 + epsilon - y, if a 1 of the value's format swallows it."""
    epsilon, format = math.fsum((*operand.terms, -1.0)), case.format(value)
    if format is None:
        raise Declined("the format of the operand is not known")
    if epsilon < 0.0:
        raise Declined("the constant is less than 1")
    if epsilon > format.unit_roundoff:
        raise Declined(f"an epsilon of {epsilon:.3g} is not lost next to 1")
    return epsilon


def vanishing(case: Case, anchor: Node, inner: Iterable[Node]) -> tuple[str, ...]:
    """The names of the anchor and of those inner nodes that nothing reads once the anchor is gone."""
    gone = {anchor.number: anchor}
    shown = _shown(case)
    left = {node.number: node for node in inner}
    while found := [node for node in left.values() if _is_read_by(case, node, gone, shown)]:
        for node in found:
            gone[node.number] = left.pop(node.number)
    return tuple(node.name for node in gone.values())


def _is_read_by(case: Case, node: Node, readers: dict[int, Node], shown: frozenset[int]) -> bool:
    results = [value for value in node.outputs if value != ABSENT]
    return shown.isdisjoint(results) and all(user.number in readers for value in results for user in users(case, value))


def _shown(case: Case) -> frozenset[int]:
    """The outputs of the model and of all bodies."""

    def of(graph: Graph) -> Iterable[int]:
        yield from graph.outputs
        for node in graph.nodes:
            for body in node.subgraphs():
                yield from of(body)

    return frozenset(of(case.model.graph))
