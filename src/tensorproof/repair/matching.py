"""What rewrites look for in a graph: values behind moves of elements, and common small patterns."""

from __future__ import annotations

import numpy as np

from tensorproof.graph import ABSENT, Node
from tensorproof.repair.proposal import Case

#: Operators that put elements elsewhere, leave some out or repeat them, and change none: a function of single elements
#: can be applied before them as well as after them.
MOVES = frozenset(
    {
        "Identity",
        "Reshape",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Transpose",
        "Expand",
        "Tile",
        "Gather",
        "GatherElements",
        "GatherND",
        "Slice",
        "Cast",
        "CastLike",
    }
)


def behind_moves(case: Case, value: int) -> tuple[int, tuple[Node, ...]]:
    """The value whose elements were moved, and the moves in their order. Casts count only between floating formats."""
    moves: list[Node] = []
    while True:
        node = case.structure.producer(value)
        if node is None or node.domain or node.op not in MOVES or not is_floating(case, node.inputs[0]):
            break
        moves.append(node)
        value = node.inputs[0]
    return value, tuple(reversed(moves))


def is_floating(case: Case, value: int) -> bool:
    """Whether a value is known to be floating."""
    format = case.format(value)
    return format is not None and format.is_float


def uniform_number(case: Case, value: int) -> float | None:
    """The number that all elements of a constant are, behind moves or not."""
    inner = behind_moves(case, value)[0]
    array = case.number(inner)
    filled = case.structure.producer(inner, "ConstantOfShape")
    if filled is not None:
        array = np.asarray(filled.attributes.get("value", 0.0), np.float64)
    if array is None or array.size == 0 or not bool((array == array.flat[0]).all()):
        return None
    return float(array.flat[0])


def users(case: Case, value: int) -> list[Node]:
    """The nodes that read a value, those in bodies included."""
    readers: dict[int, list[Node]] | None = case.structure.memory.get("readers")
    if readers is None:
        readers = case.structure.memory["readers"] = {}
        for node in case.model.graph.walk():
            for number in dict.fromkeys(node.inputs):
                readers.setdefault(number, []).append(node)
    return readers.get(value, [])


def result(node: Node) -> int:
    """The first result of a node."""
    return next(number for number in node.outputs if number != ABSENT)
