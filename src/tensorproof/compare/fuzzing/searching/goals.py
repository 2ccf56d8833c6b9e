"""`Goal`: the failure that a search looks for. `score` says how close a point comes, the larger the closer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from tensorproof.compare.backends.backend import NetworkRun
from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.spec import TestSpec
from tensorproof.compare.workers.backend_id import BackendId
from tensorproof.compare.workers.fleet import Fleet


@dataclass(frozen=True)
class Score:
    """How a point did. `found` names what was looked for, and is empty as long as it was not seen; `observed` are the outputs."""

    fitness: float
    found: str = ""
    observed: Arrays = field(default_factory=dict[str, Array])


class Goal(Protocol):
    """What a search looks for."""

    def score(self, fleet: Fleet, test: TestSpec, arrays: Arrays) -> Score: ...


@dataclass(frozen=True)
class Labels:
    """Two backends that give a sample another class. Fitness: the distance of their outputs relative to the lead of the first.

    A difference of rounding changes a class only where the two best classes are nearly tied: what brings them together counts as
    much as what drives the backends apart (AUDEE takes the distance alone, and finds ties of untrained networks). Only samples
    whose lead exceeds `least_lead` on both sides count as found.
    """

    left: BackendId
    right: BackendId
    least_lead: float = 0.0

    def score(self, fleet: Fleet, test: TestSpec, arrays: Arrays) -> Score:
        output = test.network.outputs[-1]
        one, other = (_outputs(fleet.run(backend, test, arrays=arrays), output) for backend in (self.left, self.right))
        if one is None or other is None or one.shape != other.shape:
            failed = one is None and other is None
            return Score(-math.inf if failed else math.inf, "" if failed else "one backend failed")
        rows, others = one.reshape(len(one), -1).astype(np.float64), other.reshape(len(other), -1).astype(np.float64)
        if not (np.isfinite(rows).all() and np.isfinite(others).all()):
            return Score(-math.inf)
        leads, other_leads = _leads(rows), _leads(others)
        distances = np.abs(rows - others).mean(axis=1)
        changed = (rows.argmax(axis=1) != others.argmax(axis=1)) & (np.minimum(leads, other_leads) > self.least_lead)
        fitness = float((distances / (np.minimum(leads, other_leads) + 1e-12)).max())
        return Score(fitness, "label" if changed.any() else "", {output: one})


@dataclass(frozen=True)
class NotFinite:
    """NaN or infinity in an output of any of the backends. Fitness: the span of the outputs (AUDEE's max - min)."""

    backends: Sequence[BackendId]

    def score(self, fleet: Fleet, test: TestSpec, arrays: Arrays) -> Score:
        output = test.network.outputs[-1]
        span = -math.inf
        observed: dict[str, Array] = {}
        for backend in self.backends:
            values = _outputs(fleet.run(backend, test, arrays=arrays), output)
            if values is None:
                continue
            numbers = values.astype(np.float64)
            if not np.isfinite(numbers).all():
                kind: Literal["nan", "infinity"] = "nan" if np.isnan(numbers).any() else "infinity"
                return Score(math.inf, f"{kind} on {backend}", {output: values})
            span = max(span, float(numbers.max(initial=-math.inf) - numbers.min(initial=math.inf)))
            observed = {output: values}
        return Score(span, "", observed)


def _outputs(run: NetworkRun, name: str) -> Array | None:
    return None if run.failure is not None else run.arrays.get(name)


def _leads(rows: Array) -> Array:
    """By how much the first class of each row leads the second."""
    if rows.shape[1] < 2:
        return np.zeros(len(rows))
    best = np.partition(rows, -2, axis=1)
    return best[:, -1] - best[:, -2]
