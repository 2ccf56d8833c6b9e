"""What the soundness tests and `make soundness` share: node cases as points and widened."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tensorproof.formats import of_dtype
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.ranges.containers import Abstract
from tests.soundness.seeds.seed import Seed
from tests.soundness.trials import abstract_point, analyse, check_outputs, random_range, reference_oracle, unanalysed


def stable_seed(text: str) -> int:
    """A number from a name that is the same in every process."""
    return zlib.crc32(text.encode())


#: Seeds with more input elements than this are left to the node cases: the reference evaluator takes seconds for one point.
SMALL = 3000


def small(seeds: Sequence[Seed]) -> list[Seed]:
    """The seeds that are small enough for many trials; all of them if none is."""
    return [s for s in seeds if sum(np.size(x) for x in s.inputs if isinstance(x, np.ndarray)) <= SMALL] or list(seeds)


def seeds_of(seeds: Iterable[Seed]) -> dict[str, list[Seed]]:
    """Seeds by the label of their operator."""
    grouped: dict[str, list[Seed]] = {}
    for seed in seeds:
        grouped.setdefault(seed.label, []).append(seed)
    return grouped


def run_node_case(case: Seed) -> tuple[str, str]:
    """`passed`, `unsound` or `unsupported`, with the detail: point ranges, then ranges that hold the points."""
    try:
        model = from_proto(case.model)
    except Exception as error:  # reported as unsupported: the reader's own tests cover it
        return "unsupported", f"reader: {error}"
    formats = [model.values[number].format for number in model.graph.inputs]
    points: list[Abstract] = [abstract_point(x, f) for x, f in zip(case.inputs, formats)]
    result = analyse(model, points)
    reasons = unanalysed(result)
    if reasons:
        return "unsupported", reasons[0]
    outputs = case.outputs or ()
    bad = check_outputs(result, outputs)
    if bad:
        outputs = _recomputed(case)
        bad = bad if outputs is None else check_outputs(result, outputs)
    if bad or outputs is None:
        return "unsound", f"point: {bad[0]}"
    rng = np.random.default_rng(stable_seed(case.name))
    widened: list[Abstract] = [
        random_range(rng, x, of_dtype(x.dtype), "around")
        if isinstance(x, np.ndarray) and of_dtype(x.dtype).is_float and np.isfinite(x.astype(np.float64)).all()
        else p
        for x, p in zip(case.inputs, points)
    ]
    result = analyse(model, widened)
    if not unanalysed(result):
        bad = check_outputs(result, outputs)
        if bad:
            return "unsound", f"widened: {bad[0]}"
    return "passed", ""


def _recomputed(case: Seed) -> Sequence[Any] | None:
    """The outputs as the reference evaluator computes them, if they are the case's own up to a few digits.

    Some cases hold results typed in with four digits, or, for a function written out as a graph, the results of another
    formula than the graph's: those are no values that the graph ever computes.
    """
    try:
        outputs = reference_oracle(case.model)(case.inputs)
    except Exception:  # the evaluator does not know the operator
        return None
    for computed, expected in zip(outputs, case.outputs or ()):
        if not isinstance(expected, np.ndarray) or not np.allclose(
            np.asarray(computed, np.float64), expected.astype(np.float64), rtol=1e-3, atol=1e-5, equal_nan=True
        ):
            return None
    return outputs
