"""The search in a PyTorch program: the objective of a suspect by its external values, and the moves that follow from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensorproof.expose.pytorch.external import External, Externals
from tensorproof.expose.pytorch.recording import Recording, Slice
from tensorproof.expose.pytorch.suspects import Execution, scores, softmin
from tensorproof.expose.search.board import Suspect
from tensorproof.expose.search.leading import Leading, Measured
from tensorproof.expose.search.rows import Rows
from tensorproof.expose.settings import Settings
from tensorproof.formats import Array

if TYPE_CHECKING:
    import torch

#: Kinds of external values in the order in which they are moved: those of the first kind that a suspect depends on.
_ORDER = (("batch", "data"), ("draw",), ("weight",))
#: Objectives below which numbers are measured in float64: logarithms of small numbers.
_FINE = -60.0
#: How far a value that is computed again may be off, as a part of its size.
_AGREEMENT = 1e-3


class Search:
    """Moves external values so that suspects come closer to failing."""

    def __init__(self, settings: Settings, externals: Externals, generator: np.random.Generator) -> None:
        self._externals = externals
        self._leading = Leading(settings, generator)
        # A thread of its own has none of the program's modes: it records derivatives even where the program does not.
        self._thread = ThreadPoolExecutor(1)
        #: Which rows of data the step takes.
        self.rows = Rows()
        #: Evaluations of objectives so far.
        self.evaluations = 0

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def movable(self, recording: Recording, execution: Execution) -> tuple[Slice, list[External]]:
        """What a suspect is made of, and the external values that are moved for it."""
        slice = recording.slice(*execution.tensors())
        found = [value for tensor in slice.given if (value := self._externals.find(tensor)) is not None and value.is_moved]
        for kinds in _ORDER:
            chosen = [value for value in found if value.kind in kinds]
            if chosen:
                return slice, [self._taken(slice, value) for value in chosen]
        return slice, []

    def _taken(self, slice: Slice, value: External) -> External:
        """Of a data set that batches are taken from, the batch."""
        taken = slice.taken(value.tensor) if value.kind == "data" else None
        if taken is None:
            self.rows.taken.pop(value.name, None)
            return value
        self.rows.note(value.name, taken.rows)
        return replace(value, tensor=taken.result)

    def weights(self, slice: Slice) -> list[External]:
        """The weights that something is made of."""
        found = [value for tensor in slice.given if (value := self._externals.find(tensor)) is not None]
        return [value for value in found if value.kind == "weight"]

    def measure(
        self,
        slice: Slice,
        execution: Execution,
        values: Mapping[str, Array],
        moved: Sequence[External],
        *,
        gradients: bool = True,
    ) -> Measured:
        """The objective at some values, with gradients by those that are moved."""
        self.evaluations += 1
        return self._thread.submit(self._measure, slice, execution, values, moved, gradients).result()

    def agrees(self, slice: Slice, execution: Execution) -> bool:
        """Whether what the program computed is computed again from the same values."""

        def compare() -> bool:
            import torch

            for before, after in zip(execution.tensors(), slice.rerun({})):
                if before.shape != after.shape:
                    return False
                if not torch.allclose(before.detach(), after.detach(), rtol=_AGREEMENT, atol=1e-6, equal_nan=True):
                    return False
            return True

        return _tried(self._thread.submit(compare).result, False)

    def _measure(
        self, slice: Slice, execution: Execution, values: Mapping[str, Array], moved: Sequence[External], gradients: bool
    ) -> Measured:
        """Near to zero, numbers of the program's format are too coarse: there, float64 is measured in, if the program can be."""
        import torch

        measured = self._measure_in(None, slice, execution, values, moved, gradients)
        if measured.objective > _FINE or execution.result.dtype == torch.float64 or measured.has_failed:
            return measured
        return _tried(lambda: self._measure_in(torch.float64, slice, execution, values, moved, gradients), measured)

    @staticmethod
    def _measure_in(
        format: torch.dtype | None,
        slice: Slice,
        execution: Execution,
        values: Mapping[str, Array],
        moved: Sequence[External],
        with_gradients: bool,
    ) -> Measured:
        import torch

        leaves: dict[str, torch.Tensor] = {}
        replaced: dict[int, torch.Tensor] = {}
        with torch.set_grad_enabled(with_gradients):
            for value in moved:
                leaves[value.name] = _leaf(value, values[value.name], format)
                # What the program writes in place may not be a leaf.
                replaced[id(value.tensor)] = leaves[value.name].clone()
            results = slice.rerun(replaced, format)
            terms = execution.on(results)
            has_failed = not bool(torch.isfinite(results[-1]).all())
            smallest = softmin(terms)
            if smallest is None:
                return Measured(-math.inf if has_failed else math.inf, {}, None, has_failed)
            if not smallest.requires_grad:
                return Measured(float(smallest), {}, None, has_failed)
            found = torch.autograd.grad(smallest, list(leaves.values()), allow_unused=True)
        gradients = {name: _array(gradient, leaf) for (name, leaf), gradient in zip(leaves.items(), found)}
        samples = next((len(values[value.name]) for value in moved if value.kind in ("batch", "data") and value.tensor.dim()), 0)
        return Measured(float(smallest.detach()), gradients, scores(terms, samples), has_failed)

    def moved(
        self, suspect: Suspect, slice: Slice, execution: Execution, chosen: Sequence[External], values: Mapping[str, Array]
    ) -> tuple[Measured, dict[str, Array]]:
        """The objective now, and where the values go from here."""
        return self._leading.moved(suspect, chosen, values, partial(self._measured_at, slice, execution, chosen))

    def next(
        self,
        suspect: Suspect,
        slice: Slice,
        execution: Execution,
        chosen: Sequence[External],
        values: Mapping[str, Array],
        now: Measured,
    ) -> dict[str, Array]:
        """Where values go from a measurement."""
        return self._leading.next(suspect, chosen, values, now, partial(self._measured_at, slice, execution, chosen))

    def _measured_at(
        self,
        slice: Slice,
        execution: Execution,
        chosen: Sequence[External],
        values: Mapping[str, Array],
        *,
        gradients: bool = True,
    ) -> Measured:
        return self.measure(slice, execution, values, chosen, gradients=gradients)

    def lesson(
        self, loss: Slice, slopes: Mapping[str, Array], teaching: Sequence[External], values: Mapping[str, Array]
    ) -> dict[str, Array]:
        """How values matter for what a step of training does to an objective f: along these it makes f smaller.

        A step takes weights w against the gradient g of the loss, so f falls in proportion to <df/dw, g>. `slopes` are df/dw, by
        the names of weights. Nothing is given where the program cannot be differentiated twice.
        """
        self.evaluations += 1

        def derive() -> dict[str, Array]:
            import torch

            weights = [value for value in self.weights(loss) if value.name in slopes]
            with torch.enable_grad():
                leaves = {v.name: _leaf(v, values[v.name]) for v in teaching}
                held = {v.name: _leaf(v, v.array()) for v in weights}
                replaced = {id(v.tensor): leaves[v.name].clone() for v in teaching}
                replaced |= {id(v.tensor): held[v.name].clone() for v in weights}
                (result,) = loss.rerun(replaced)
                steps: Sequence[Any] = torch.autograd.grad(result.sum(), list(held.values()), create_graph=True, allow_unused=True)
                wanted = (torch.from_numpy(np.nan_to_num(slopes[name], posinf=0.0, neginf=0.0)) for name in held)
                # What the loss does not depend on has no gradient, whatever the types say.
                known: list[Any] = [(slope, step) for slope, step in zip(wanted, steps) if cast("Any", step) is not None]
                terms = [slope.reshape(step.shape) * step for slope, step in known]
                total = torch.stack([term.sum() for term in terms]).sum()
                found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
            return {name: _array(slope, leaf) for (name, leaf), slope in zip(leaves.items(), found)}

        return _tried(self._thread.submit(derive).result, {})


def _leaf(value: External, array: Array, format: torch.dtype | None = None) -> torch.Tensor:
    """Numbers in the form of an external value, to differentiate by."""
    import torch

    return torch.from_numpy(array).to(format or value.tensor.dtype, copy=True).reshape(value.tensor.shape).requires_grad_()


def _array(gradient: torch.Tensor | None, leaf: torch.Tensor) -> Array:
    """A gradient, or zeros where the value does not matter."""
    return np.zeros(tuple(leaf.shape)) if gradient is None else gradient.detach().double().numpy()


def _tried(call: Callable[[], Any], default: Any) -> Any:
    """What a call gives; operators that cannot be run again, whatever they raise, give nothing."""
    try:
        return call()
    except Exception:
        return default
