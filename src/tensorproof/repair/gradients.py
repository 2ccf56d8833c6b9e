"""Derivatives through a repaired node: still finite, and still there, wherever the original has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from tensorproof.confirm.sampling import Point
from tensorproof.errors import NotAnalysed, TensorproofError, UnknownShape
from tensorproof.execute.meaning import NotExecutable
from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.formats import FLOAT64, Format
from tensorproof.graph import Model
from tensorproof.repair.comparison import CHANCE

if TYPE_CHECKING:
    from torch import Tensor

#: The derivatives of a function at a point, by the names of what it is differentiated by.
Derivatives: TypeAlias = "Callable[[Point], Mapping[str, Tensor]]"

#: A derivative may be farther from the exact one than the original's by this many roundings of the largest one, beyond `CHANCE`
#: times the largest error of the original's: where derivatives cancel, both are rounding and nothing else.
SLACK = 64.0


@dataclass(slots=True)
class Gradients:
    """How many points were looked at, at how many derivatives died or became wrong, and what they are at the failing input.

    `at_witness` says of the repaired model: `alive`, `zero` or `not finite`; None if there is no failing input.
    `unknown` is the reason why nothing was looked at.
    """

    points: int = 0
    dead: int = 0
    worse: int = 0
    at_witness: str | None = None
    unknown: str | None = None

    @property
    def kept(self) -> bool | None:
        return None if self.points == 0 else self.dead == 0 and self.worse == 0

    def describe(self) -> str:
        """In a few words."""
        if self.points == 0:
            return f"gradients not compared ({self.unknown or 'the original is finite at no point'})"
        if self.dead or self.worse:
            return f"gradients die at {self.dead} and change at {self.worse} of {self.points} points"
        return f"gradients kept at {self.points} points"

    def to_json(self) -> dict[str, Any]:
        return {
            "points": self.points,
            "dead": self.dead,
            "worse": self.worse,
            "at_witness": self.at_witness,
            "not_compared": self.unknown,
        }


def compare_gradients(
    before: Model, after: Model, values: Sequence[str], points: Sequence[Point], witness: Point | None
) -> Gradients:
    """Derivatives of a weighted sum of these values by what each point gives: values of both models, by name.

    The plain sum of a softmax, or of logarithms of one, has derivatives that cancel: each element has a weight of its own. The
    exact derivatives are those of the original in float64.
    """
    try:
        old, new = _Derivatives(before, values, None), _Derivatives(after, values, None)
        exact = _Derivatives(before, values, FLOAT64)
    except (ImportError, NotExecutable, NotAnalysed, UnknownShape, RuntimeError) as reason:
        return Gradients(unknown=_reason(reason))
    return compare_derivatives(old, new, exact, points, witness)


def compare_derivatives(
    old: Derivatives, new: Derivatives, exact: Derivatives, points: Sequence[Point], witness: Point | None
) -> Gradients:
    """Derivatives of the original, the repaired and the exact function at points, and of the repaired one at the failing input."""
    found = Gradients()
    try:
        for point in points:
            _compare(found, old(point), new(point), exact(point))
        if witness is not None:
            found.at_witness = _state(new(witness))
    except (ImportError, NotExecutable, NotAnalysed, UnknownShape, RuntimeError, TensorproofError) as reason:
        found.unknown = _reason(reason)
    return found


def _reason(error: Exception) -> str:
    return "needs the extra `torch`" if isinstance(error, ImportError) else " ".join(str(error).split())[:200]


def _compare(found: Gradients, old: Mapping[str, Tensor], new: Mapping[str, Tensor], exact: Mapping[str, Tensor]) -> None:
    if not old or _state(old) != "alive":
        return
    found.points += 1
    if all(_is_as_near(old[name], new.get(name), exact.get(name)) for name in old):
        return
    if _state(new) == "alive":
        found.worse += 1
    else:
        found.dead += 1


def _is_as_near(old: Tensor, new: Tensor | None, exact: Tensor | None) -> bool:
    import torch

    if new is None or exact is None or not bool(exact.isfinite().all()):
        # Nothing to measure by: a derivative that was there must still be.
        return new is not None and bool(new.isfinite().all()) and bool((new != 0).any() or (old == 0).all())
    largest = float(exact.abs().max()) if exact.numel() else 0.0
    error, allowed = (new.double() - exact).abs(), float((old.double() - exact).abs().max()) if exact.numel() else 0.0
    return bool((error <= CHANCE * allowed + SLACK * torch.finfo(new.dtype).eps * largest).all())


def _state(gradients: Mapping[str, Tensor]) -> str:
    if not all(bool(g.isfinite().all()) for g in gradients.values()):
        return "not finite"
    return "alive" if any(bool((g != 0).any()) for g in gradients.values()) else "zero"


class _Derivatives:
    """Derivatives of a weighted sum of some values of a model."""

    def __init__(self, model: Model, values: Sequence[str], precision: Format | None) -> None:
        self._graph = TorchGraph(model, precision=precision)
        self._model = model
        found = [model.find_value(name) for name in values]
        self._values = [number for number in found if number is not None]

    def __call__(self, point: Point) -> dict[str, Tensor]:
        feeds: dict[int, Any] = {}
        leaves: dict[str, Tensor] = {}
        for name, array in point.items():
            number = self._model.find_value(name)
            if number is None:
                continue
            feeds[number] = self._graph.tensor(array, self._model.values[number].format)
            if feeds[number].is_floating_point():
                leaves[name] = feeds[number].requires_grad_()
        results = self._graph.run(feeds, self._values).values()
        total = weighted_sum(result for result in results if result.is_floating_point())
        return derivatives_of(total, leaves)


def weighted_sum(results: Iterable[Tensor]) -> Tensor:
    """A sum of results in which no two elements have the same weight, so that derivatives do not cancel."""
    import torch

    return sum(((result.double() * _weights(result)).sum() for result in results), torch.zeros((), dtype=torch.float64))


def derivatives_of(total: Tensor, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The derivatives of a sum by each of the leaves that it depends on; none if it is not finite."""
    import torch

    if not total.requires_grad or not bool(total.isfinite()):
        return {}
    # With `allow_unused`, a derivative that does not exist is None; the stub does not say so.
    gradients = cast("Sequence[Tensor | None]", torch.autograd.grad(total, list(leaves.values()), allow_unused=True))
    return {name: gradient for name, gradient in zip(leaves, gradients) if gradient is not None}


def _weights(result: Tensor) -> Tensor:
    """A number between 1/2 and 3/2 for every element, the same each time."""
    import torch

    return torch.rand(result.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5
