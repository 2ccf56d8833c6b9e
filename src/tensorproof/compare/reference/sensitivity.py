"""`sensitivity`: how ill-conditioned a test is at each element of its results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorproof.compare.drawing import Array, Arrays, generator
from tensorproof.compare.judging import precision_of
from tensorproof.compare.reference.accuracy import accuracy_of
from tensorproof.compare.reference.layer_table import Accuracy
from tensorproof.compare.reference.running import chosen, walk
from tensorproof.compare.spec import TestSpec, owner_of


def sensitivity(
    test: TestSpec, arrays: Arrays | None = None, keep: Sequence[str] | None = None, draws: int = 3
) -> dict[str, Array]:
    """How far each element moves when floating inputs, weights and the results of inner layers move by one unit in the last place.

    The largest of some draws, each of which moves every number up or down at random. Results of inner layers move as every
    framework has to round them, and so do statistics, states and sums inside a layer; what is moved or selected only stays.
    Infinite where an element becomes NaN or infinite, or stops being so.
    """
    wanted = list(test.network.outputs if keep is None else keep)
    if test.network.dialect == "onnx":
        from tensorproof.compare.reference.onnx_operators import run_operators

        steady = run_operators(test, arrays, wanted)
        moves = [run_operators(test, arrays, wanted, _Disturbance(test, draw)) for draw in range(draws)]
    else:
        steady = chosen(walk(test, arrays, wanted).values, wanted)
        moves = [chosen(walk(test, arrays, wanted, _Disturbance(test, draw)).values, wanted) for draw in range(draws)]
    return {name: np.max([_distance(moved[name], value) for moved in moves], axis=0) for name, value in steady.items()}


def _distance(moved: Array, steady: Array) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(moved - steady)
    same = (moved == steady) | (np.isnan(moved) & np.isnan(steady))
    return np.where(same, 0.0, np.where(np.isnan(difference), np.inf, difference))


class _Disturbance:
    """Moves floating arrays by one unit in the last place of a format, up or down."""

    def __init__(self, test: TestSpec, draw: int) -> None:
        self._test = test
        self._draw = draw
        self._epsilon, self._tiny = precision_of(test.dtype)
        self._steady = {entry.name for entry in test.network.inputs if not entry.dtype.startswith(("float", "bfloat"))}
        if test.network.dialect == "keras":
            self._steady |= {layer.name for layer in test.layers if accuracy_of(layer.kind, layer.parameters) is Accuracy.EXACT}

    def __call__(self, name: str, array: Array) -> Array:
        if array.dtype != np.float64 or name in self._steady or ("/" not in name and owner_of(name) in self._steady):
            return array
        signs = generator("sensitivity", self._test.seed, self._draw, name, array.shape).choice((-1.0, 1.0), array.shape)
        # The distance to the next number of the format, which is the same from one power of two to the next.
        with np.errstate(all="ignore"):
            unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(array), self._tiny)))) * self._epsilon
        return np.where(np.isfinite(array) & (array != 0), array + signs * unit, array)
