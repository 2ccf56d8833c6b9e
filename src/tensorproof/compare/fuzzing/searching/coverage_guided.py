"""Random mutation guided by coverage, as TensorFuzz does it: a mutant with activations far from all seen ones joins the corpus.

The baseline that AUDEE's table 3 compares with. Mutants are the parent with white noise, clipped to the box.
"""

from __future__ import annotations

import numpy as np

from tensorproof.compare.drawing import Array, Arrays, generator
from tensorproof.compare.fuzzing.searching.goals import Score
from tensorproof.compare.fuzzing.searching.searching import Ended, Search

#: Noise relative to the box, and the distance (relative to the activations' own size) from which on they are new.
NOISE = 0.1
NEW = 0.1


def search_by_coverage(search: Search) -> None:
    """Mutate and keep what is new until a point fails or the budget is spent. Newer members of the corpus are chosen more often."""
    random = generator("coverage", search.seed)
    try:
        corpus: list[Arrays] = [search.space.start]
        seen = [_activations(search.score(search.space.start))]
        while True:
            parent = corpus[int(len(corpus) * np.sqrt(random.random()))]
            child = {name: _noisy(array, search.space.boxes[name], random) for name, array in parent.items()}
            child = search.space.clipped(child)
            activations = _activations(search.score(child))
            if _is_new(activations, seen):
                corpus.append(child)
                seen.append(activations)
    except Ended:
        return


def _noisy(array: Array, box: tuple[float, float], random: np.random.Generator) -> Array:
    return (array + random.normal(0.0, NOISE * (box[1] - box[0]), array.shape)).astype(array.dtype)


def _activations(score: Score) -> Array:
    parts = [array.astype(np.float64).ravel() for array in score.observed.values()]
    return np.concatenate(parts) if parts else np.zeros(0)


def _is_new(activations: Array, seen: list[Array]) -> bool:
    size = float(np.linalg.norm(activations)) or 1.0
    return all(other.shape != activations.shape or float(np.linalg.norm(other - activations)) > NEW * size for other in seen)
