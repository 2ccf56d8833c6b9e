"""What the soundness tests and `make soundness` share: node cases as points and widened."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np

from tensorproof.formats import of_dtype
from tensorproof.frontends.onnx_file import from_proto
from tensorproof.ranges.containers import Abstract
from tests.soundness.seeds.seed import Seed
from tests.soundness.trials import abstract_point, analyse, check_outputs, random_range, unanalysed


def stable_seed(text: str) -> int:
    """A number from a name that is the same in every process."""
    return zlib.crc32(text.encode())


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
    bad = check_outputs(result, case.outputs or ())
    if bad:
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
        bad = check_outputs(result, case.outputs or ())
        if bad:
            return "unsound", f"widened: {bad[0]}"
    return "passed", ""
