"""What a variable of a training graph can be before the first step: the range of its initialiser."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorproof.errors import TensorproofError
from tensorproof.frontends.tensorflow_parts import ordered
from tensorproof.frontends.tensorflow_records import Reference, TensorflowGraph, TensorflowNode

#: Operators that give a variable its value: the variable and the value are their first two operands.
_ASSIGNMENTS = frozenset({"Assign", "AssignVariableOp"})

#: What reads a value from a file: no initialiser.
_RESTORING = frozenset({"Restore", "RestoreV2", "RestoreSlice"})


class Initialisers:
    """The initialisers of a graph, by the variable that they are of."""

    def __init__(self, graph: TensorflowGraph) -> None:
        self._functions = graph.functions
        self._nodes = {node.name: node for node in graph.nodes}
        self._values: dict[str, Reference] = {}
        #: What initialisers give, by what they are made of: those of the layers of a network are mostly alike.
        self._known: dict[tuple[Any, ...], tuple[float, float] | None] = {}
        for node in graph.nodes:
            if node.op not in _ASSIGNMENTS or len(node.inputs) < 2:
                continue
            variable, value = node.inputs[0].node, node.inputs[1]
            # Several nodes may assign to a variable; TensorFlow names the initialiser after it.
            if node.name.startswith(f"{variable}/") or (variable not in self._values and not self._is_restored(value)):
                self._values[variable] = value

    def _is_restored(self, value: Reference) -> bool:
        return any(item.op in _RESTORING for item in ordered(self._nodes, [value]))

    def ends(self, variable: str) -> tuple[float, float] | None:
        """The smallest and the largest number that an initialiser gives; None if there is none, or it cannot be told."""
        value = self._values.get(variable)
        if value is None:
            return None
        nodes = ordered(self._nodes, [value])
        key = _made_of(nodes, value)
        if key not in self._known:
            self._known[key] = self._analysed(variable, nodes, value)
        return self._known[key]

    def _analysed(self, variable: str, nodes: list[TensorflowNode], value: Reference) -> tuple[float, float] | None:
        from tensorproof.assumptions import Declarations, resolve
        from tensorproof.checking import analyse
        from tensorproof.frontends.tensorflow_graph import translated
        from tensorproof.targets import IEEE

        try:
            model = translated(TensorflowGraph(nodes, self._functions), name=variable, roots=[value]).model
            if model.graph.inputs or model.weights:
                return None
            analysis = analyse(model, resolve(model, Declarations())[0][0], IEEE, effort=0)
        except TensorproofError:
            return None
        number = model.graph.outputs[0]
        if number in model.constants:
            array = model.constants[number]
            return (float(array.min()), float(array.max())) if array.size and array.dtype.kind in "fiu" else None
        summary = analysis.summaries.get(number)
        if summary is None or analysis.coverage.not_analysed or not summary.low <= summary.high:
            return None
        return summary.low, summary.high


def _made_of(nodes: list[TensorflowNode], value: Reference) -> tuple[Any, ...]:
    """What an initialiser is made of, names aside: operators, operands by position, and constants."""
    positions = {node.name: index for index, node in enumerate(nodes)}
    parts: list[Any] = [positions.get(value.node), value.output]
    for node in nodes:
        parts.append((node.op, *((positions.get(reference.node), reference.output) for reference in node.inputs)))
        array: Any = node.attributes.get("value")
        if isinstance(array, np.ndarray):
            parts.append((array.shape, array.dtype.str, array.tobytes() if array.dtype != object else repr(array)))
    return tuple(parts)
