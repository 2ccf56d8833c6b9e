"""Training examples at which clips are active: inputs that carry operands of Clip just beyond a bound.

Beyond a bound the derivative is 0. Terms that cancel in a gradient everywhere else do not cancel there: logits that a step
could only part from each other all fall, and a gain that no step could move is moved. Descent does not find such
examples, for on this side of the bound nothing changes as it comes near.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.confirm.observing import Domains
from tensorproof.confirm.sampling import Point, into_format, sample
from tensorproof.confirm.search import box_of
from tensorproof.confirm.vertices import labels_of, vertex
from tensorproof.execute.meaning import NotExecutable
from tensorproof.execute.torch_graph import TorchGraph
from tensorproof.formats import FLOAT64, Array
from tensorproof.graph import ABSENT, Model, Node

if TYPE_CHECKING:
    from torch import Tensor

Rows = npt.NDArray[np.bool_]
Units = npt.NDArray[np.int64]
#: The operand of a clip and one of its bounds, by number; and the sign of what is beyond.
Place = tuple[int, int, float]

#: Steps of the gradient's sign towards the bound, the first one in widths of the box, and how each is to the one before it.
STEPS, STEP, DECAY = 60, 0.2, 0.95
#: Steps that lead back, and the size of the first.
FEW_STEPS, SMALL_STEP = 6, 0.01
#: How near to the bound the second of two units comes, relative to the bound: nearer, a small step would carry it beyond.
MARGIN = 0.01
#: Rows that stay farther from it are no use.
FAR = 0.05
#: Bisections that end beside the bound.
BISECTIONS = 8


class Saturation:
    """Examples of a box, each for one bound of one clip that leads to the loss. Every row goes to units of its own.

    `domains` are those of the training example; its rows are along the first axis of its inputs.
    """

    def __init__(self, model: Model, loss: int, domains: Domains, seed: int) -> None:
        self._loss = loss
        self._domains = domains
        self._seed = seed
        self._graph = TorchGraph(model, precision=FLOAT64)
        self._numbers = {model.name_of(n): n for n in model.graph.inputs}
        self._boxes = {name: box for name, where in domains.items() if (box := box_of(*where)) is not None and where[1]}
        sizes = {domains[name][1][0] for name in self._boxes}
        self._rows = sizes.pop() if len(sizes) == 1 else 0
        self._bounds = [place for node in _clips(model, loss) for place in _places(node)] if self._rows else []

    def examples(self, draw: int = 0) -> Iterator[tuple[Point, Callable[[Point], Point]]]:
        """Examples for each bound that a row reaches: by one unit just beyond it; and by two, the second just before or near.

        Their labels are those with the least loss. With each comes what leads it back to the bound when it was moved. Each
        draw gives others.
        """
        for number, place in enumerate(self._bounds):
            for kind, choose in enumerate((_Climb.alone, _Climb.in_pairs, _Climb.with_companions)):
                rng = np.random.default_rng([self._seed, draw, number, kind])
                start = {name: sample(rng, *where, "uniform") for name, where in self._domains.items()}
                try:
                    climb = _Climb(self, place, start)
                    units = choose(climb, rng)
                    if units is not None and climb.run(units, STEPS, STEP) and climb.restart_rows(start):
                        yield self._labelled(climb.point), partial(self._led_back, place, units.shape[1])
                except (NotExecutable, RuntimeError, IndexError, ValueError):
                    # A meaning that does not hold for this use: such examples are no help.
                    return

    def _led_back(self, place: Place, units: int, example: Point) -> Point:
        """The example with the most advanced units of its rows beside the bound again."""
        climb = _Climb(self, place, example)
        advanced = climb.most_advanced(units)
        climb.go_back(advanced, FEW_STEPS, SMALL_STEP)
        climb.run(advanced, FEW_STEPS, SMALL_STEP)
        climb.restart_rows(example)
        return climb.point

    # -- what climbs ask ------------------------------------------------------------------------------------------------

    @property
    def boxes(self) -> Mapping[str, tuple[Array, Array]]:
        return self._boxes

    @property
    def rows(self) -> int:
        return self._rows

    def beyond(self, place: Place, point: Point) -> tuple[Tensor, list[Tensor]]:
        """How far each element of the operand is beyond the bound, relative to it, in rows; and the boxes that it depends on."""
        import torch

        value, bound, sign = place
        tensors = self._tensors(point)
        leaves = [tensors[name].requires_grad_() for name in self._boxes]
        with torch.enable_grad():
            values = self._graph.run(self._fed(tensors), [value, bound])
            scale = values[bound].detach().abs().clamp(min=1e-30)
            return (sign * (values[value] - values[bound]) / scale).reshape(self._rows, -1), leaves

    def within(self, moved: Mapping[str, Array], point: Point) -> Point:
        """A point whose boxes are moved, inside them."""
        return {
            name: into_format(moved[name], self._domains[name][0], self._domains[name][2]) if name in moved else array
            for name, array in point.items()
        }

    def _labelled(self, point: Point) -> Point:
        import torch

        labels = labels_of(self._domains)
        if not labels:
            return point
        tensors = self._tensors(point)
        leaves = [tensors[name].requires_grad_() for name in labels]
        with torch.enable_grad():
            loss = self._graph.run(self._fed(tensors), [self._loss])[self._loss]
            slopes = torch.autograd.grad(loss.reshape(()), leaves, materialize_grads=True)
        best = {
            name: vertex(point[name], np.nan_to_num(slope.numpy()), self._domains[name][0], self._domains[name][2])
            for name, slope in zip(labels, slopes)
        }
        return point | best

    def _tensors(self, point: Point) -> dict[str, Tensor]:
        return {name: self._graph.tensor(array, self._domains[name][2]) for name, array in point.items()}

    def _fed(self, tensors: Mapping[str, Tensor]) -> dict[int, Tensor]:
        return {self._numbers[name]: tensor for name, tensor in tensors.items()}


class _Climb:
    """The way of all rows of one example to a bound: the first unit of a row goes beyond it, the last one beside it.

    Where a row has two units, the last one is to end before the bound, by a margin.
    """

    def __init__(self, saturation: Saturation, place: Place, start: Point) -> None:
        self._saturation = saturation
        self._place = place
        self._units = np.zeros((saturation.rows, 1), np.int64)
        self.point = start
        self._width = self._elements().shape[1]

    def alone(self, rng: np.random.Generator) -> Units | None:
        """One unit for each row."""
        return rng.integers(self._width, size=(self._saturation.rows, 1))

    def in_pairs(self, rng: np.random.Generator) -> Units | None:
        """Two units for each row."""
        return np.argsort(rng.random((self._saturation.rows, self._width)), axis=1)[:, :2] if self._width > 1 else None

    def with_companions(self, rng: np.random.Generator) -> Units | None:
        """One unit for each row, after the one that comes nearest to the bound when that unit goes beyond it."""
        if self._width < 2:
            return None
        units = rng.integers(self._width, size=(self._saturation.rows, 1))
        self.run(units, STEPS, STEP)
        elements = self._elements()
        np.put_along_axis(elements, units, -np.inf, 1)
        return np.concatenate([elements.argmax(axis=1, keepdims=True), units], axis=1)

    def most_advanced(self, units: int) -> Units:
        return np.argsort(-self._elements(), axis=1, kind="stable")[:, :units]

    def restart_rows(self, start: Point) -> bool:
        """Rows whose last unit stayed far from the bound are what they were at first; whether any row is beyond it then."""
        self.point = self._rows_of(self.point, start, self._measured(self.point)[1] < -FAR)
        return bool((self._measured(self.point)[0] > 0.0).any())

    def _elements(self) -> Array:
        return self._saturation.beyond(self._place, self.point)[0].detach().numpy().copy()

    def run(self, units: Units, steps: int, size: float) -> bool:
        """Whether any row got beyond the bound."""
        self._units = units
        before = best = self.point
        first, last, slopes = self._measured(self.point)
        nearest = np.full(self._saturation.rows, -np.inf)
        for _ in range(steps):
            crossed = (first > 0.0) & (last > 0.0)
            better = (first > 0.0) & ~crossed & (last > nearest)
            best, nearest = self._rows_of(best, self.point, better), np.where(better, last, nearest)
            if crossed.all():
                break
            before = self._rows_of(before, self.point, ~crossed)
            self.point = self._stepped({name: size * np.sign(slope) for name, slope in slopes.items()}, ~crossed)
            first, last, slopes = self._measured(self.point)
            size *= DECAY
        crossed = (first > 0.0) & (last > 0.0)
        self.point = self._rows_of(best, self._beside(before), crossed)
        return bool((self._measured(self.point)[0] > 0.0).any())

    def go_back(self, units: Units, steps: int, size: float) -> None:
        """Rows that are beyond the bound with all units are moved back, until they are not."""
        self._units = units
        for _ in range(steps):
            first, last, slopes = self._measured(self.point)
            crossed = (first > 0.0) & (last > 0.0)
            if not crossed.any():
                break
            self.point = self._stepped({name: -size * np.sign(slope) for name, slope in slopes.items()}, crossed)

    def _beside(self, before: Point) -> Point:
        """Rows that crossed the bound, moved back towards where they were until they only just do."""
        low, high = np.zeros(self._saturation.rows), np.ones(self._saturation.rows)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            is_beyond = self._measured(self._between(before, middle))[1] > 0.0
            low, high = np.where(is_beyond, low, middle), np.where(is_beyond, middle, high)
        return self._between(before, high)

    def _measured(self, point: Point) -> tuple[Array, Array, dict[str, Array]]:
        """How far the first and the last unit of each row are beyond the bound; and the slope of the first one that is not."""
        import torch

        elements, leaves = self._saturation.beyond(self._place, point)
        chosen = elements.gather(1, torch.from_numpy(self._units))
        first, last = chosen[:, 0], chosen[:, -1]
        slopes = torch.autograd.grad(torch.where(first > 0.0, last, first).sum(), leaves, materialize_grads=True)
        named = {name: slope.numpy() for name, slope in zip(self._saturation.boxes, slopes)}
        margin = MARGIN if self._units.shape[1] > 1 else 0.0
        return first.detach().numpy(), last.detach().numpy() + margin, named

    def _stepped(self, steps: Mapping[str, Array], rows: Rows) -> Point:
        """The point with some rows moved, in widths of the box."""
        moved: dict[str, Array] = {}
        for name, step in steps.items():
            low, high = self._saturation.boxes[name]
            moved[name] = self.point[name] + (high - low) * np.where(_along(rows, step), step, 0.0)
        return self._saturation.within(moved, self.point)

    def _between(self, before: Point, share: Array) -> Point:
        moved = {
            name: before[name] + _along(share, self.point[name]) * (self.point[name].astype(np.float64) - before[name])
            for name in self._saturation.boxes
        }
        return self._saturation.within(moved, self.point)

    def _rows_of(self, one: Point, other: Point, which: Rows) -> Point:
        """The chosen rows of `other`, all others of `one`."""
        moved = {name: np.where(_along(which, one[name]), other[name], one[name]) for name in self._saturation.boxes}
        return one | moved


def _along(rows: npt.NDArray[Any], array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One number per row, in a shape that goes with an array."""
    return rows.reshape(-1, *[1] * (array.ndim - 1))


def _clips(model: Model, loss: int) -> list[Node]:
    """The clips that lead to the loss, the last one first."""
    needed, found = {loss}, list[Node]()
    for node in reversed(model.graph.nodes):
        if needed.isdisjoint(node.outputs):
            continue
        needed.update(n for n in node.inputs if n != ABSENT)
        if node.op == "Clip":
            found.append(node)
    return found


def _places(node: Node) -> Iterator[Place]:
    """The operand of a clip with each bound that is a value of the graph (ONNX Clip-11), and the side that is beyond."""
    for position, sign in ((2, 1.0), (1, -1.0)):
        if len(node.inputs) > position and node.inputs[position] != ABSENT:
            yield node.inputs[0], node.inputs[position], sign
