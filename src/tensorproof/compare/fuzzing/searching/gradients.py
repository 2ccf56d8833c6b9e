"""Sign steps along the gradient of the sum of the outputs, up and down in turn, from points all over the box.

What is wanted is a span without bound (NaN and infinity come of that), and the gradient says for every element at once where that
lies. Only inputs have gradients here; of the weights, each restart draws others by Cauchy noise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tensorproof.compare.drawing import Array, generator
from tensorproof.compare.fuzzing.searching.searching import Ended, Search
from tensorproof.compare.fuzzing.searching.space import cauchy_noise, random_point
from tensorproof.compare.workers.backend_id import BackendId

#: Relative to the box.
STEP = 0.05
STEPS = 20


def search_by_gradients(search: Search, backend: BackendId) -> None:
    """Follow gradients of one backend until a point fails or the budget is spent; gradients count as evaluations."""
    random = generator("gradient", search.seed)
    try:
        restart = 0
        while True:
            point = dict(search.space.start if restart == 0 else random_point(search.space, search.seed, restart))
            weights = {name: array for name, array in search.space.start.items() if "/" in name}
            if weights and restart:
                moved = cauchy_noise(search.space, search.space.start, random, 0.5, STEP)
                point.update({name: moved[name] for name in weights})
            direction = 1.0 if restart % 2 == 0 else -1.0
            for _ in range(STEPS):
                search.score(point)
                gradients = _gradients(search, backend, point)
                if not gradients:
                    break
                for name, gradient in gradients.items():
                    low, high = search.space.boxes[name]
                    step = direction * STEP * (high - low) * np.sign(np.nan_to_num(gradient.astype(np.float64)))
                    point[name] = (point[name] + step).astype(point[name].dtype)
                point = search.space.clipped(point)
            restart += 1
    except Ended:
        return


def _gradients(search: Search, backend: BackendId, point: dict[str, Array]) -> dict[str, Array]:
    if search.spent >= search.evaluations:
        raise Ended
    search.spent += 1
    run = search.fleet.run(backend, replace(search.test, phase="gradient"), arrays=search.space.point(point))
    if run.failure is not None:
        return {}
    return {
        name: run.arrays[f"gradient:{name}"]
        for name in point
        if f"gradient:{name}" in run.arrays and run.arrays[f"gradient:{name}"].any()
    }
