"""Oracles on results: types, promised shapes, shapes, NaN and infinity, values; and one backend's results against its own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import cast

import numpy as np

from tensorproof.compare.backends.backend import Mode, NetworkRun
from tensorproof.compare.drawing import Array
from tensorproof.compare.fuzzing.discrepancy import Discrepancy, Oracle
from tensorproof.compare.fuzzing.referee import Referee
from tensorproof.compare.fuzzing.refusals import is_unsupported, refused
from tensorproof.compare.judging import Judgement, Opinion, judge, precision_of
from tensorproof.compare.spec import owner_of
from tensorproof.compare.workers.backend_id import BackendId

#: What is added to a symptom when no reference could be asked: a difference, and nobody knows who is wrong.
DIFFERENCE = " (no reference)"
#: What is added when all backends agree, and the reference does not.
EVERYWHERE = " everywhere"
PROMISED = "not the promised shape"
#: Oracles that compare a backend with itself, and how it is run for the second time.
MODES: dict[Oracle, Mode] = {"repeat": "eager", "compiled": "compiled", "saved": "saved"}


def results(runs: Mapping[BackendId, NetworkRun], referee: Referee) -> Iterator[Discrepancy]:
    """Compare the results of all who gave some, name by name."""
    computed = {backend: run for backend, run in runs.items() if run.failure is None}
    yield from _promises(computed)
    names = dict.fromkeys(name for run in computed.values() for name in run.arrays)
    for name in names:
        arrays = {backend: run.arrays[name] for backend, run in computed.items() if name in run.arrays}
        found = list(_types(name, arrays, referee))
        wrong = {entry.culprit for entry in found}
        yield from found
        yield from _values(name, {backend: array for backend, array in arrays.items() if backend not in wrong}, referee)


def own_results(
    oracle: Oracle, backend: BackendId, eager: NetworkRun, again: NetworkRun, referee: Referee
) -> Iterator[Discrepancy]:
    """One backend against itself: compiled, saved and loaded, or simply run again (which has to give the same bits)."""
    failure = again.failure
    if failure is not None:
        if not is_unsupported(failure):
            symptom = f"{oracle}: {refused(failure)}" if failure.stage != "process" else f"{oracle}: the process {failure.kind}"
            yield Discrepancy(oracle, backend, None, symptom, failure.layer, " ".join(failure.message.split())[:300])
        return
    for name, left in eager.arrays.items():
        right = again.arrays.get(name)
        if right is None:
            continue
        if referee.is_random:
            if left.shape != right.shape:
                yield Discrepancy(oracle, backend, None, f"{oracle}: shape", _owner(name, referee), f"{left.shape}, {right.shape}")
        elif oracle == "repeat":
            if left.dtype != right.dtype or left.shape != right.shape or left.tobytes() != right.tobytes():
                yield Discrepancy(oracle, backend, None, "two runs differ", _owner(name, referee), _largest_gap(left, right))
        else:
            found = _judged(left, right, name, referee, referee.reference.get(name), rounded=2)
            if found.is_defect and not (found.symptom == "nan" and referee.meets_subnormals):
                yield Discrepancy(oracle, backend, None, f"{oracle}: {found.symptom}", _owner(name, referee), told(found), found)


def told(found: Judgement) -> str:
    """A judgement in one line."""
    if found.symptom in ("shape", "dtype"):
        return found.detail
    units = f", {found.units:.3g} units" if math.isfinite(found.units) else ""
    right = "" if math.isnan(found.reference) else f"; the reference is {found.reference:.9g}"
    return f"{found.left:.9g} against {found.right:.9g} at {list(found.position)}{units}{right}"


# -- shapes and types -------------------------------------------------------------------------------------------------


def _promises(computed: Mapping[BackendId, NetworkRun]) -> Iterator[Discrepancy]:
    """Results whose shape is not the one that the framework inferred before it ran. Told once if all break the same promise."""
    seen: set[tuple[str, tuple[int | None, ...], tuple[int, ...]]] = set()
    for backend, run in computed.items():
        for name, array in run.arrays.items():
            promised = run.static_shapes.get(name)
            if promised is None or _keeps(promised, array.shape):
                continue
            case = (name, promised, array.shape)
            if case not in seen:
                seen.add(case)
                yield Discrepancy(
                    "shape", backend, None, PROMISED, owner_of(name), f"promised {list(promised)}, gave {list(array.shape)}"
                )


def _keeps(promised: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    return len(promised) == len(shape) and all(size in (None, actual) for size, actual in zip(promised, shape))


def _types(name: str, arrays: Mapping[BackendId, Array], referee: Referee) -> Iterator[Discrepancy]:
    """Another type than the others'. Right is the type that the test asks for, if somebody gives it; else that of most."""
    counts = Counter(array.dtype.name for array in arrays.values())
    if len(counts) < 2:
        return
    wanted = referee.test.dtype if referee.test.dtype in counts else counts.most_common(1)[0][0]
    other = next(backend for backend, array in arrays.items() if array.dtype.name == wanted)
    for backend, array in arrays.items():
        if array.dtype.name != wanted:
            told_types = f"{array.dtype.name} for {wanted}"
            yield Discrepancy("dtype", backend, other, told_types, _owner(name, referee), f"{name} is {told_types}")


# -- values -----------------------------------------------------------------------------------------------------------


def _values(name: str, arrays: Mapping[BackendId, Array], referee: Referee) -> Iterator[Discrepancy]:
    if not arrays:
        return
    expected = referee.reference.get(name)
    if expected is None or referee.is_random:
        yield from _against_most(name, arrays, referee)
        return
    opinions = {backend: _judged(array, _as_type(expected, array), name, referee, expected) for backend, array in arrays.items()}
    wrong = {backend: found for backend, found in opinions.items() if found.is_defect}
    if not wrong:
        return
    if any(found.symptom == "nan" for found in wrong.values()):
        if referee.meets_subnormals:
            return
        if not referee.fits_the_format:
            # What overflows on the way in this format does not in float64: the reference has nothing to say.
            yield from _against_most(name, arrays, referee)
            return
    right = next((backend for backend in arrays if backend not in wrong), None)
    if right is None and len(arrays) > 1 and _all_agree(name, arrays, referee):
        backend, found = next(iter(wrong.items()))
        yield _discrepancy(name, backend, None, found, referee, EVERYWHERE)
        return
    for backend, found in wrong.items():
        yield _discrepancy(name, backend, right, found, referee)


def _against_most(name: str, arrays: Mapping[BackendId, Array], referee: Referee) -> Iterator[Discrepancy]:
    """Without a reference: groups that agree, and all but the largest (the first of equal ones) are said to differ."""
    groups: list[list[BackendId]] = []
    for backend, array in arrays.items():
        for group in groups:
            if not _judged(array, arrays[group[0]], name, referee, None, rounded=2).is_defect:
                group.append(backend)
                break
        else:
            groups.append([backend])
    if len(groups) < 2:
        return
    most = max(groups, key=len)
    for group in groups:
        if group is most:
            continue
        for backend in group:
            found = _judged(arrays[backend], arrays[most[0]], name, referee, None, rounded=2)
            if not found.is_defect or (found.symptom == "nan" and referee.meets_subnormals):
                continue
            yield _discrepancy(name, backend, most[0], found, referee, DIFFERENCE)


def _all_agree(name: str, arrays: Mapping[BackendId, Array], referee: Referee) -> bool:
    first, *others = arrays.values()
    return all(not _judged(array, first, name, referee, None, rounded=2).is_defect for array in others)


def _judged(left: Array, right: Array, name: str, referee: Referee, reference: Array | None, *, rounded: int = 1) -> Judgement:
    """`judge` with this result's units; how far it moves is asked for only if it would be called wrong without.

    `rounded` is how many of the two sides are rounded results: each may be off by the units, the reference is not.
    """
    if referee.is_random:
        same = left.shape == right.shape
        return Judgement(Opinion.AGREE if same else Opinion.DEFECT, "" if same else "shape", detail=f"{left.shape}, {right.shape}")
    units, dtype = rounded * referee.units(name), _coarser(left, referee.test.dtype)
    found = judge(left, right, units=units, dtype=dtype, reference=reference)
    if found.is_defect and found.symptom == "value" and left.dtype.kind not in "biu":
        if name.startswith("gradient:"):
            return judge(left, right, units=units, dtype=dtype, reference=reference, sensitivity=referee.gradient_noise(name))
        moved = referee.moved.get(name)
        if moved is not None and moved.shape == left.shape:
            return judge(left, right, units=units, dtype=dtype, reference=reference, sensitivity=moved)
    return found


def _coarser(array: Array, dtype: str) -> str | None:
    """The format that a result was computed in: the test's, if that is coarser than the result's own."""
    if array.dtype.kind in "biu":
        return None
    own = array.dtype.name
    return dtype if precision_of(dtype)[0] > precision_of(own)[0] else own


def _as_type(expected: Array, array: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return expected.astype(array.dtype)


def _discrepancy(
    name: str, backend: BackendId, other: BackendId | None, found: Judgement, referee: Referee, addition: str = ""
) -> Discrepancy:
    oracle = cast("Oracle", found.symptom)
    symptom = {"shape": "another shape", "value": "other values"}.get(found.symptom, "")
    if found.symptom == "nan":
        symptom = f"{_class(found.left)} for {_class(found.right)}"
    # The left side is the culprit's, whatever the distances at one place say.
    return Discrepancy(oracle, backend, other, symptom + addition, _owner(name, referee), told(found), found)


def _class(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "a number" if math.isfinite(value) else "infinity"


def _owner(name: str, referee: Referee) -> str | None:
    """The layer that a result belongs to; None for gradients."""
    owner = owner_of(name)
    return owner if any(layer.name == owner for layer in referee.test.layers) else None


def _largest_gap(left: Array, right: Array) -> str:
    if left.shape != right.shape or left.dtype != right.dtype:
        return f"{left.dtype.name}{list(left.shape)}, then {right.dtype.name}{list(right.shape)}"
    with np.errstate(invalid="ignore"):
        gap = np.nan_to_num(np.abs(left.astype(np.float64) - right.astype(np.float64)), nan=np.inf)
    return f"the two runs differ by up to {float(gap.max()):.6g}"
