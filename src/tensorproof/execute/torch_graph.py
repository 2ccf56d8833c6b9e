"""Our graph on torch: differentiable, in any precision, sub-graphs included.

It guides a search and computes training steps; nothing is ever confirmed by it alone. Loading it never executes code of the
model: every node is run by the meaning that stands beside its operator's block.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.execute.meaning import NotExecutable, Run, torch_dtype
from tensorproof.formats import FLOAT64, Format, of_dtype
from tensorproof.graph import ABSENT, Graph, Model, Node
from tensorproof.operators.table import find_operator

if TYPE_CHECKING:
    from torch import Tensor


class TorchGraph:
    """A model that is run on torch tensors, by value numbers.

    `precision` is the format that all floating numbers are computed in (None: each in its own format). With `search`,
    dead derivatives are replaced by ones that lead somewhere.
    """

    def __init__(self, model: Model, *, precision: Format | None = FLOAT64, search: bool = False, seed: int = 0) -> None:
        import torch

        self.model = model
        self.precision = precision
        self.search = search
        self._seed = seed
        self._generator = torch.Generator()
        self._constants: dict[int, Any] = {}
        self._plans: dict[frozenset[int], list[Node]] = {}
        #: The same for every node.
        self.everywhere: Callable[[Node, Sequence[Any]], None] | None = None
        #: Called with a node, its operands and its results, each time that a node with one of these numbers was run.
        self.observers: dict[int, Callable[[Node, Sequence[Any], Sequence[Any]], None]] = {}

    def tensor(self, array: npt.NDArray[Any], format: Format | None = None) -> Tensor:
        """An array as a tensor of the format that this graph computes in."""
        import torch

        format = of_dtype(array.dtype) if format is None else format
        if format.kind not in ("float", "int", "bool", "complex"):
            raise NotExecutable(f"torch has no tensors of {format.name}")
        wanted = self.precision if self.precision is not None and format.is_float else format
        if array.dtype.kind == "V" or (format.is_float and format.bits < 16):
            # Formats of ml_dtypes: float32 holds all of their numbers.
            array = array.astype(np.float32)
        elif format.kind == "int" and format.bits < 8:
            array = array.astype(np.int8 if format.low < 0 else np.uint8)
            return torch.from_numpy(np.array(array))
        return torch.from_numpy(np.array(array)).to(torch_dtype(wanted))

    def run(self, feeds: Mapping[int, Any], wanted: Collection[int]) -> dict[int, Any]:
        """The wanted values, from tensors for the inputs (and for constants that are to be replaced).

        Only the nodes that lead to them are run. Random operators start from the same seed in every run.
        """
        self._generator.manual_seed(self._seed)
        values: dict[int, Any] = dict(feeds)
        for node in self._plan(frozenset(wanted), frozenset(feeds)):
            self._apply(node, values)
        return {number: self._read(number, values) for number in wanted}

    def _plan(self, wanted: frozenset[int], fed: frozenset[int]) -> list[Node]:
        key = wanted | frozenset(-2 - number for number in fed)
        plan = self._plans.get(key)
        if plan is None:
            needed, plan = set(wanted - fed), []
            for node in reversed(self.model.graph.nodes):
                if not needed.isdisjoint(node.outputs):
                    plan.append(node)
                    needed.update(n for n in _reads(node) if n not in fed)
            plan.reverse()
            self._plans[key] = plan
        return plan

    def _read(self, number: int, values: Mapping[int, Any]) -> Any:
        if number == ABSENT:
            return None
        if number in values:
            return values[number]
        known = self._constants.get(number)
        if known is None:
            array = self.model.constants.get(number)
            if array is None:
                raise NotExecutable(f"value {self.model.name_of(number)!r} was not computed")
            known = self._constants[number] = self.tensor(array, self.model.values[number].format)
        return known

    def _apply(self, node: Node, values: dict[int, Any]) -> None:
        entry = find_operator(node.domain, node.op)
        if entry is None or entry.concrete is None:
            raise NotExecutable(f"operator {node.label} has no meaning in torch")

        def body(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
            inner = {**values, **dict(zip(graph.inputs, inputs, strict=True))}
            for step in graph.nodes:
                self._apply(step, inner)
            return [self._read(number, inner) for number in graph.outputs]

        formats = [None if number == ABSENT else self.model.values[number].format for number in node.inputs]
        run = Run(
            entry,
            node.attributes,
            version=node.version,
            outputs=len(node.outputs),
            formats=formats,
            precision=self.precision,
            search=self.search,
            generator=self._generator,
            body=body,
            values=self.model.values,
        )
        operands = [self._read(number, values) for number in node.inputs]
        try:
            results = entry.concrete(run, *operands)
        except (NotAnalysed, UnknownShape) as reason:  # of functions that a meaning shares with its block
            raise NotExecutable(str(reason)) from None
        several: Sequence[Any] = results if isinstance(results, tuple) else (results,)
        if self.everywhere is not None:
            self.everywhere(node, several)
        observer = self.observers.get(node.number)
        if observer is not None:
            observer(node, operands, several)
        values.update((number, result) for number, result in zip(node.outputs, several) if number != ABSENT)


def _reads(node: Node) -> set[int]:
    """What a node reads, with all that its sub-graphs read of the scopes around them."""
    read = {number for number in node.inputs if number != ABSENT}
    for graph in node.subgraphs():
        inside = set(graph.inputs)
        for inner in graph.nodes:
            read |= _reads(inner) - inside
            inside.update(inner.outputs)
        read |= set(graph.outputs) - inside
    return read
