"""Searches for inputs and weights on which networks return NaN or infinity, or change the class between frameworks."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tensorproof.compare.drawing import draw_inputs
from tensorproof.compare.fuzzing.searching.coverage_guided import search_by_coverage
from tensorproof.compare.fuzzing.searching.genetic import search_genetic
from tensorproof.compare.fuzzing.searching.goals import Goal, Labels, NotFinite
from tensorproof.compare.fuzzing.searching.gradients import search_by_gradients
from tensorproof.compare.fuzzing.searching.searching import Search
from tensorproof.compare.fuzzing.searching.space import Level, Space, cauchy_noise, crossed
from tensorproof.compare.spec import InputSpec, LayerSpec, NetworkSpec, TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet

pytestmark = pytest.mark.area("compare search")

NUMPY = BackendId("keras:numpy")
TORCH = BackendId("keras:torch")


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet() as fleet:
        yield fleet


def network(*layers: LayerSpec, features: int = 6) -> TestSpec:
    return TestSpec(NetworkSpec("keras", (InputSpec("x", (2, features)),), layers, (layers[-1].name,)))


#: The exponential of a sum overflows near 88: in a corner of the box that plain samples do not reach.
OVERFLOWING = network(
    LayerSpec("sum", "Dense", {"units": 3}, ("x",)),
    LayerSpec("power", "Activation", {"activation": "exponential"}, ("sum",)),
)


def search(fleet: Fleet, test: TestSpec, goal: Goal, level: Level = "input", *, evaluations: int = 400, seed: int = 0) -> Search:
    random = np.random.default_rng(3)
    weights = {"sum/0": random.normal(0, 0.5, (6, 3)).astype(np.float32), "sum/1": np.zeros(3, np.float32)}
    return Search(fleet, test, Space.of(level, draw_inputs(test), weights, (-40.0, 40.0)), goal, evaluations, seed)


def test_a_genetic_search_finds_an_overflow_and_the_point_replays(fleet: Fleet) -> None:
    found = search(fleet, OVERFLOWING, NotFinite([NUMPY]))
    search_genetic(found)
    assert found.found == "infinity on keras:numpy"
    assert found.spent < found.evaluations
    again = fleet.run(NUMPY, OVERFLOWING, arrays=found.space.point(found.best_point))
    assert np.isinf(again.arrays["power"]).any()
    assert all(np.abs(array).max() <= 40 for array in found.best_point.values())


def test_the_same_seed_tries_the_same_points(fleet: Fleet) -> None:
    first, second, other = (search(fleet, OVERFLOWING, NotFinite([NUMPY]), seed=seed) for seed in (1, 1, 2))
    for each in (first, second, other):
        search_genetic(each)
    assert first.spent == second.spent
    assert np.array_equal(first.best_point["x"], second.best_point["x"])
    assert not np.array_equal(first.best_point["x"], other.best_point["x"])


def test_a_smaller_budget_ends_the_same_search_earlier(fleet: Fleet) -> None:
    harmless = network(LayerSpec("sum", "Dense", {"units": 3}, ("x",)))
    short, long = (search(fleet, harmless, NotFinite([NUMPY]), evaluations=count) for count in (20, 40))
    search_genetic(short)
    search_genetic(long)
    assert (short.spent, long.spent) == (20, 40)
    assert not short.found and not long.found
    assert short.best.fitness <= long.best.fitness


def test_weights_are_searched_too(fleet: Fleet) -> None:
    test = TestSpec(OVERFLOWING.network, scale=4.0)
    found = search(fleet, test, NotFinite([NUMPY]), "weight", evaluations=600)
    search_genetic(found)
    assert set(found.best_point) == {"sum/0", "sum/1"}
    assert found.found


def test_coverage_guides_random_mutation(fleet: Fleet) -> None:
    found = search(fleet, OVERFLOWING, NotFinite([NUMPY]), evaluations=600)
    search_by_coverage(found)
    assert found.found == "infinity on keras:numpy"


def test_gradients_need_the_fewest_evaluations(fleet: Fleet) -> None:
    by_gradients, genetic = (search(fleet, OVERFLOWING, NotFinite([TORCH])) for _ in range(2))
    search_by_gradients(by_gradients, TORCH)
    search_genetic(genetic)
    assert by_gradients.found == "infinity on keras:torch"
    assert by_gradients.spent < genetic.spent


def test_classes_that_two_backends_do_not_share(fleet: Fleet) -> None:
    """Softmax over the class axis in one half of the sum, rounding in the other: near ties the two implementations part."""
    test = network(LayerSpec("sum", "Dense", {"units": 3}, ("x",)), LayerSpec("classes", "Softmax", {}, ("sum",)))
    goal = Labels(NUMPY, TORCH)
    start = search(fleet, test, goal)
    before = goal.score(fleet, test, start.space.point(start.space.start)).fitness
    search_genetic(start)
    assert start.best.fitness > 4 * before


def test_noise_stays_in_the_box_and_children_are_their_parents() -> None:
    space = Space.of("input", {"x": np.zeros((2, 50), np.float32)}, {}, (-1.0, 1.0))
    random = np.random.default_rng(0)
    moved = cauchy_noise(space, space.start, random, 0.5, 0.1)["x"]
    assert 0.3 < (moved != 0).mean() < 0.7
    assert np.abs(moved).max() <= 1.0
    child = crossed({"x": np.zeros(100)}, {"x": np.ones(100)}, random)["x"]
    assert set(np.unique(child)) == {0.0, 1.0}
