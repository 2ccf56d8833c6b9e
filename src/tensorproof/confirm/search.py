"""Search for a point of the declared box that makes one node fail.

Starts are samples of the box, best first. From each of them a descent on the rule's objective goes to the corner that the
gradient points at, then in steps of Adam and of the gradient's sign; where the gradient says nothing, in random steps. What
looks better is replayed at once: ONNX Runtime alone says whether the node failed. Budgets count evaluations, so that the
same seed gives the same result; a time limit only cuts the same sequence short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from tensorproof.assumptions import Domain
from tensorproof.confirm.exact_zero import exact_zeros
from tensorproof.confirm.objective import NOWHERE, Measured, Objective
from tensorproof.confirm.observer import Observing
from tensorproof.confirm.observing import Domains
from tensorproof.confirm.sampling import TACTICS, Point, into_format, points
from tensorproof.errors import ConfigurationError
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import Array, Format

Method = Literal["full", "gradient", "random", "uniform"]

#: Samples that are looked at before the first descent.
SCOUTS = 2 * len(TACTICS)
#: Descents that start from the best samples; later ones start from new samples.
BEST_STARTS = 3
CORNERS, ADAM_STEPS, SIGN_STEPS, RANDOM_STEPS = 4, 40, 12, 12
#: Steps of Adam and of the sign of the gradient, in widths of the box (the latter: Yan et al., FSE 2021).
ADAM_RATE, SIGN_STEP = 0.05, 0.15


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a search may do: evaluations of the objective, each with at most a few replays.

    `full` is everything; `gradient` one descent from one random start (GRIST); `random` samples alone; `uniform` samples of
    a uniform distribution alone (what RANUM compares itself with).
    """

    seed: int = 0
    evaluations: int = 600
    method: Method = "full"


def checked_method(name: str) -> Method:
    """The method of that name."""
    for method in get_args(Method):
        if method == name:
            return method
    raise ConfigurationError(f"method {name!r}: write {', '.join(get_args(Method))}")


class Search:
    """The search for one finding."""

    def __init__(
        self,
        observer: Observing,
        domains: Domains,
        make_objective: Callable[[list[str]], Objective],
        budget: Budget,
        report: Callable[[int, float], None] | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._observer = observer
        self._domains = domains
        self._budget = budget
        self._report = report
        self._is_over = is_over
        self._boxes = {name: box for name, where in domains.items() if (box := box_of(*where)) is not None}
        self._make_objective = make_objective
        self._objective: Objective | None = None
        self._replayed: set[bytes] = set()
        self._rate = ADAM_RATE
        #: The smallest objective so far.
        self.closest = NOWHERE

    def run(self) -> Point | None:
        """A point that fails in the runtime, or None. NotExecutable if the gradient has no meaning on this model."""
        if self._budget.method in ("random", "uniform"):
            return self.run_samples()
        self._objective = self._make_objective(list(self._boxes))
        for start in self._starts():
            found = self._descend(start)
            if found is not None or self._is_spent():
                return found
        return None

    def run_samples(self) -> Point | None:
        """The same by samples alone."""
        tactics = ("uniform",) if self._budget.method == "uniform" else TACTICS
        candidates = points(self._budget.seed, self._domains, self._budget.evaluations, tactics=tactics)
        return next((point for point in candidates if self._fails(point) or self._is_over()), None)

    @property
    def evaluations(self) -> int:
        """Evaluations of the objective so far."""
        return 0 if self._objective is None else self._objective.evaluations

    # -- evaluations ----------------------------------------------------------------------------------------------

    def _is_spent(self) -> bool:
        return self.evaluations >= self._budget.evaluations or self._is_over()

    def _measure(self, point: Point) -> Measured:
        assert self._objective is not None
        try:
            measured = self._objective.measure(point)
        except (RuntimeError, IndexError, ValueError) as error:
            # A meaning that does not hold for this use: the same as none at all.
            raise NotExecutable(str(error).splitlines()[0][:200] if str(error) else type(error).__name__) from None
        self.closest = min(self.closest, measured.value)
        if self._report is not None:
            self._report(self._objective.evaluations, self.closest)
        return measured

    def _fails(self, point: Point) -> bool:
        key = b"".join(array.tobytes() for array in point.values())
        if key in self._replayed:
            return False
        self._replayed.add(key)
        return self._observer.note(point)

    def _starts(self) -> Iterator[Point]:
        """Samples, best first; then one new sample after the other."""
        if self._budget.method == "gradient":
            rng = np.random.default_rng(self._budget.seed)
            yield next(iter(points(int(rng.integers(2**31)), self._domains, 5, first=4)))
            return
        scouted: list[tuple[float, int, Point]] = []
        for number, point in enumerate(points(self._budget.seed, self._domains, SCOUTS)):
            scouted.append((self._measure(point).value, number, point))
        scouted.sort(key=lambda entry: entry[:2])
        for _, _, point in scouted[:BEST_STARTS]:
            yield point
        number = SCOUTS
        while True:
            yield from points(self._budget.seed, self._domains, number + 1, first=number)
            number += 1

    # -- descent --------------------------------------------------------------------------------------------------

    def _descend(self, start: Point) -> Point | None:
        best, best_value = start, self._measure(start)
        if self._fails(start):
            return start
        for phase in (self._to_corners, self._by_adam, self._by_signs):
            if best_value.is_flat:
                phase = self._by_chance
            for point, measured in phase(best, best_value):
                if measured.value < best_value.value:
                    best, best_value = point, measured
                    if self._fails(point):
                        return point
                if self._is_spent():
                    break
            if self._is_spent():
                break
        assert self._objective is not None
        if self._objective.seeks_zero and best_value.gradients:
            for point in exact_zeros(self._observer, best, best_value.gradients, self._boxes, self._within, self._budget.seed):
                if self._observer.note(point):
                    return point
        return None

    def _within(self, moved: Mapping[str, Array], point: Point) -> Point:
        """A point whose box variables are moved, rounded into their formats inside the box."""
        return {
            name: into_format(moved[name], self._domains[name][0], self._domains[name][2]) if name in moved else array
            for name, array in point.items()
        }

    def _to_corners(self, start: Point, measured: Measured) -> Iterator[tuple[Point, Measured]]:
        point = start
        for _ in range(CORNERS):
            moved: dict[str, Array] = {}
            for name, (low, high) in self._boxes.items():
                slope = measured.gradients.get(name)
                if slope is not None:
                    moved[name] = np.where(slope < 0, high, np.where(slope > 0, low, point[name].astype(np.float64)))
            corner = self._within(moved, point)
            found = self._measure(corner)
            yield corner, found
            if not found.value < measured.value:
                return
            point, measured = corner, found

    def _by_adam(self, start: Point, measured: Measured) -> Iterator[tuple[Point, Measured]]:
        """Kingma and Ba, ICLR 2015, in widths of the box, projected onto it."""
        point = start
        first: dict[str, Array] = {}
        second: dict[str, Array] = {}
        for step in range(1, ADAM_STEPS + 1):
            moved: dict[str, Array] = {}
            for name, slope in measured.gradients.items():
                low, high = self._boxes[name]
                scaled = np.clip(slope * (high - low), -1e150, 1e150)
                first[name] = 0.9 * first.get(name, np.zeros(())) + 0.1 * scaled
                second[name] = 0.99 * second.get(name, np.zeros(())) + 0.01 * scaled**2
                rate = first[name] / (1 - 0.9**step) / (np.sqrt(second[name] / (1 - 0.99**step)) + 1e-300)
                moved[name] = point[name].astype(np.float64) - self._rate * (high - low) * rate
            point = self._within(moved, point)
            measured = self._measure(point)
            yield point, measured
            if measured.is_flat:
                return

    def _by_signs(self, start: Point, measured: Measured) -> Iterator[tuple[Point, Measured]]:
        """Steps of the gradient's sign, halved whenever they lead nowhere."""
        point, size = start, SIGN_STEP
        for _ in range(SIGN_STEPS):
            moved = {
                name: point[name].astype(np.float64) - size * (self._boxes[name][1] - self._boxes[name][0]) * np.sign(slope)
                for name, slope in measured.gradients.items()
            }
            tried = self._within(moved, point)
            found = self._measure(tried)
            yield tried, found
            if found.value < measured.value:
                point, measured = tried, found
            else:
                size /= 2

    def _by_chance(self, start: Point, measured: Measured) -> Iterator[tuple[Point, Measured]]:
        """Random steps of many sizes: where no gradient leads on."""
        assert self._objective is not None
        point, value = start, measured.value
        for _ in range(RANDOM_STEPS):
            rng = np.random.default_rng([self._budget.seed, self._objective.evaluations])
            moved: dict[str, Array] = {}
            for name, (low, high) in self._boxes.items():
                chosen = rng.random(point[name].shape) < 10.0 ** rng.uniform(-2, 0)
                step = rng.standard_normal(point[name].shape) * (high - low) * 10.0 ** rng.uniform(-3, 0)
                moved[name] = point[name].astype(np.float64) + np.where(chosen, step, 0.0)
            tried = self._within(moved, point)
            found = self._measure(tried)
            yield tried, found
            if found.value < value:
                point, value = tried, found.value
            if not found.is_flat:
                return


def box_of(domain: Domain, shape: tuple[int, ...], format: Format) -> tuple[Array, Array] | None:
    """The ends of a variable that can be moved freely: floating, each element within its own interval."""
    return domain.ends(shape, format) if format.is_float and domain.kind in ("box", "channels") else None
