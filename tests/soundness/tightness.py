"""How tight are the ranges? Their width against the hull of the results that a coordinate search reaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorproof.formats import FLOAT32, FLOAT64, of_dtype
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.range import Range
from tests.soundness.oracles import SINGLE_PRECISION, is_distrusted
from tests.soundness.seeds.seed import Seed
from tests.soundness.suite import stable_seed
from tests.soundness.trials import Workbench, abstract_point, admits, analyse, unanalysed

#: At most this many elements vary in one measurement, so that the search reaches the extremes.
VARIED_ELEMENTS = 10


@dataclass
class Measurement:
    """Ratios of computed width to reached width, over several output elements and trials."""

    label: str
    ratios: list[float] = field(default_factory=list)
    skipped: str = ""
    worst: str = ""

    @property
    def grade(self) -> str:
        """exact, tight (1.05), coarse (2) or loose, by the ratio that nine of ten measurements keep."""
        if not self.ratios:
            return "unmeasured"
        ratio = float(np.quantile(self.ratios, 0.9))
        return "exact" if ratio <= 1.0001 else "tight" if ratio <= 1.05 else "coarse" if ratio <= 2.0 else "loose"

    def __str__(self) -> str:
        if not self.ratios:
            return f"{self.label}: unmeasured {self.skipped}"
        q = np.quantile(self.ratios, [0.5, 0.9, 1.0])
        tail = f" worst: {self.worst}" if q[2] > 1.05 else ""
        return f"{self.label}: {self.grade} p50={q[0]:.4g} p90={q[1]:.4g} max={q[2]:.4g} n={len(self.ratios)}{tail}"


def _sparse_ranges(rng: np.random.Generator, bench: Workbench) -> tuple[list[Abstract], list[tuple[int, Any]]]:
    """Points with a few elements replaced by intervals; and the places of those elements."""
    ranges: list[Abstract] = [abstract_point(x, None) for x in bench.inputs]
    candidates = [i for i, v in enumerate(bench.varied) if v and bench.inputs[i].size]
    places: list[tuple[int, Any]] = []
    if not candidates:
        return ranges, places
    for i in candidates:
        array = bench.inputs[i]
        format = of_dtype(array.dtype)
        low = np.where(np.isfinite(array.astype(np.float64)), array.astype(np.float64), 0.0)
        high = low.copy()
        share = max(1, VARIED_ELEMENTS // len(candidates))
        chosen = rng.choice(array.size, size=min(share, array.size), replace=False)
        for flat in chosen:
            where = np.unravel_index(flat, array.shape)
            width = rng.choice([0.1, 1.0, 2.0])
            low[where], high[where] = low[where] - width * rng.random(), high[where] + width * rng.random()
            places.append((i, where))
        ranges[i] = Range.elements(format, low.astype(format.dtype).astype(float), high.astype(format.dtype).astype(float))
    return ranges, places


def _search(bench: Workbench, ranges: Sequence[Abstract], places: list[tuple[int, Any]], rng: np.random.Generator):
    """The hull of results over points that a coordinate search visits, for all output elements."""
    bounds = [(i, w, float(ranges[i].low[w]), float(ranges[i].high[w])) for i, w in places]  # type: ignore[union-attr]
    hull: list[Any] = []

    def run(point: Sequence[Any]) -> Any:
        outputs = [np.asarray(y) for y in bench.oracle(point)]
        for n, y in enumerate(outputs):
            if y.dtype.kind not in "fV" and of_dtype(y.dtype).kind != "float":
                continue
            numbers = y.astype(np.float64)
            if len(hull) <= n:
                hull.extend([None] * (n + 1 - len(hull)))
            if hull[n] is None:
                hull[n] = [numbers.copy(), numbers.copy()]
            elif hull[n][0].shape == numbers.shape:
                hull[n][0] = np.fmin(hull[n][0], numbers)
                hull[n][1] = np.fmax(hull[n][1], numbers)
        return outputs

    def fresh() -> list[Any]:
        point = [x.copy() if isinstance(x, np.ndarray) else x for x in bench.inputs]
        for i, w, low, high in bounds:
            point[i][w] = rng.uniform(low, high)
        return point

    first = run(fresh())
    targets: list[tuple[int, Any]] = []
    for n, y in enumerate(first):
        if n < len(hull) and hull[n] is not None and y.size:
            picks = rng.choice(y.size, size=min(2, y.size), replace=False)
            targets.extend((n, np.unravel_index(int(p), y.shape)) for p in picks)
    for n, where in targets[:4]:
        for sign in (1.0, -1.0):
            point = fresh()
            best = -np.inf
            for _ in range(2):
                for i, w, low, high in bounds:
                    keep = point[i][w]
                    crossing = [c for c in (0.0, 1.0, -1.0) if low < c < high]
                    for value in (low, high, (low + high) / 2, *crossing):
                        point[i][w] = value
                        outputs = run(point)
                        score = sign * float(outputs[n][where]) if outputs[n].shape == first[n].shape else -np.inf
                        if score > best:
                            best, keep = score, value
                    point[i][w] = keep
    return hull, targets[:4]


def _is_narrow(array: np.ndarray[Any, Any]) -> bool:
    format = of_dtype(array.dtype)
    return format.is_float and format.bits < 32


def measure(label: str, seeds: Sequence[Seed], *, count: int = 10, seed: int = 0) -> Measurement:
    """Measure an operator over some of its seeds, in float64 where the operator admits it."""
    result = Measurement(label)
    # In 16 bits the rounding error that a block states is wider than many hulls: nothing is learnt from those seeds.
    seeds = [s for s in seeds if not any(isinstance(x, np.ndarray) and _is_narrow(x) for x in s.inputs)] or seeds
    picked = [seeds[i % len(seeds)] for i in range(max(count, min(len(seeds), count)))]
    for number, s in enumerate(picked):
        wide = admits(s, FLOAT64) and s.label not in SINGLE_PRECISION and not is_distrusted(s, "float64")
        format = FLOAT64 if wide else FLOAT32
        rng = np.random.default_rng([seed, number, stable_seed(s.name)])
        try:
            bench = Workbench(s, format)
            ranges, places = _sparse_ranges(rng, bench)
            if not places:
                result.skipped = "nothing varies"
                continue
            analysis = analyse(bench.model, ranges, bench.target)
            if unanalysed(analysis):
                result.skipped = unanalysed(analysis)[0]
                continue
            if any(h.gives for record in analysis.records.values() for h in record.hazards):
                # Behind a hazard the range is that of an operand repaired: there is nothing to reach.
                result.skipped = "a hazard fires"
                continue
            hull, targets = _search(bench, ranges, places, rng)
        except Exception as error:  # an oracle that refuses: nothing to measure
            result.skipped = f"{type(error).__name__} {str(error)[:80]}"
            continue
        _compare(result, s, bench, analysis, hull, targets, format)
    return result


def _compare(result: Measurement, s: Seed, bench: Workbench, analysis: Any, hull: Any, targets: Any, format: Any) -> None:
    for n, where in targets:
        computed = analysis.outputs[bench.model.graph.outputs[n]].clean
        if not isinstance(computed, Range) or not computed.has_known_shape:
            continue
        low, high, _ = computed.expanded()
        if low.shape != hull[n][0].shape:
            continue
        with np.errstate(invalid="ignore"):
            reached = float(hull[n][1][where] - hull[n][0][where])
        scale = max(
            1.0,
            float(np.nanmax(np.abs(hull[n][1]))),
            *(
                float(np.nanmax(np.abs(x.astype(float)), initial=0.0))
                for x in bench.inputs
                if isinstance(x, np.ndarray) and x.dtype.kind == "f" and np.isfinite(x.astype(float)).all()
            ),
        )
        slack = scale * (1e-9 if format is FLOAT64 else 1e-4)
        width = float(high[where] - low[where])
        if not np.isfinite(reached):
            continue
        if reached <= 10 * slack:
            ratio = 1.0 if width <= 20 * slack else max(1.0, width / (10 * slack))
        else:
            ratio = max(1.0, (width - slack) / reached)
        if not result.ratios or ratio > max(result.ratios):
            result.worst = f"{s.name} y{n}{tuple(int(i) for i in where)}: [{low[where]:.6g}, {high[where]:.6g}] reached [{hull[n][0][where]:.6g}, {hull[n][1][where]:.6g}]"
        result.ratios.append(ratio)
