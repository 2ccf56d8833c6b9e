"""AUDEE's genetic algorithm: the fitter points of a population are crossed, and moved by Cauchy noise."""

from __future__ import annotations

import numpy as np

from tensorproof.compare.drawing import Arrays, generator
from tensorproof.compare.fuzzing.searching.searching import Ended, Search
from tensorproof.compare.fuzzing.searching.space import cauchy_noise, crossed, random_point

POPULATION = 12
CROSSOVER_RATE = 0.6
#: The share of elements that a mutation moves, and the noise relative to their box.
MUTATION_RATE = 0.1
NOISE = 0.05
#: The fittest pass on unchanged.
ELITE = 2


def search_genetic(search: Search, population: int = POPULATION) -> None:
    """Evolve points until one fails or the budget is spent."""
    random = generator("genetic", search.seed)
    try:
        points: list[Arrays] = [search.space.start]
        for number in range(population - 1):
            near = number % 2 == 0
            start = search.space.start
            points.append(
                cauchy_noise(search.space, start, random, 0.5, NOISE) if near else random_point(search.space, search.seed, number)
            )
        scored = [(search.score(point).fitness, number, point) for number, point in enumerate(points)]
        while True:
            scored.sort(key=lambda entry: (-entry[0], entry[1]))
            chosen = scored[:ELITE]
            for number in range(ELITE, population):
                first, second = _parent(scored, random), _parent(scored, random)
                child = crossed(first, second, random) if random.random() < CROSSOVER_RATE else first
                child = cauchy_noise(search.space, child, random, MUTATION_RATE, NOISE)
                chosen.append((search.score(child).fitness, number, child))
            scored = chosen
    except Ended:
        return


def _parent(scored: list[tuple[float, int, Arrays]], random: np.random.Generator) -> Arrays:
    """The fitter of two points that are drawn."""
    first, second = random.integers(0, len(scored), 2)
    return scored[min(int(first), int(second))][2]
