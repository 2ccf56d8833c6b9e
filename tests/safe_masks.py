"""Softmax of masked scores: masks that keep an element in every row, and masks that do not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tests.safe_case import LAST, ZERO, Case


def _causal(size: int, value: float = -np.inf) -> npt.NDArray[np.float32]:
    return np.where(np.tri(size, dtype=bool), 0.0, value).astype(np.float32)


def _first_row_masked(size: int) -> npt.NDArray[np.float32]:
    mask = _causal(size)
    mask[0] = -np.inf
    return mask


def _scores(size: int) -> str:
    return f"(float[1,2,{size},{size}] x) => (float y)"


ADDED = "m = Add(x, mask)\n y = Softmax<axis=-1>(m)"
BY_HAND = """
    a = Add(x, mask)
    m = ReduceMax(a, last)
    d = Sub(a, m)
    e = Exp(d)
    s = ReduceSum(e, last)
    y = Div(e, s)
"""
SIZES = {"n": np.array(96, np.int64), "start": np.array(0, np.int64), "step": np.array(1, np.int64)}
COMPARED = """
    i = Range(start, n, step)
    r = Unsqueeze(i, last)
    c = LessOrEqual(i, r)
    a = Where(c, x, infinite)
    y = Softmax<axis=-1>(a)
"""
INFINITE = {"infinite": np.array(-np.inf, np.float32)}


def _masks() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for size in (16, 96, 512):
        cases[f"causal mask, added, {size}"] = Case(
            _scores(size),
            ADDED,
            ADDED,
            "NUM108",
            idiom="rows-keep-a-number" if size > 16 else None,
            constants={"mask": _causal(size)},
            near_constants={"mask": _first_row_masked(size)},
        )
    cases["causal mask of -1e9, added"] = Case(
        _scores(512),
        ADDED,
        ADDED,
        "NUM108",
        constants={"mask": _causal(512, -1e9)},
        near_constants={"mask": _first_row_masked(512)},
    )
    lowest = float(np.finfo(np.float32).min)
    cases["causal mask of the lowest number, added"] = Case(
        _scores(64),
        ADDED,
        "k = Add(mask, mask)\n" + ADDED.replace("x, mask", "x, k"),
        "NUM202",
        constants={"mask": _causal(64, lowest)},
    )
    cases["causal mask by Where"] = Case(
        _scores(512),
        "m = Where(keep, x, infinite)\n y = Softmax<axis=-1>(m)",
        "m = Where(keep, infinite, x)\n y = Softmax<axis=-1>(m)",
        "NUM108",
        idiom="rows-keep-a-number",
        constants=INFINITE | {"keep": np.tri(512, dtype=bool)},
    )
    cases["causal mask by Not and a sum"] = Case(
        _scores(256),
        "n = Not(keep)\n k = Where(n, infinite, zero)\n m = Add(k, x)\n y = LogSoftmax<axis=-1>(m)\n" + ZERO,
        "k = Where(keep, infinite, zero)\n m = Add(k, x)\n y = LogSoftmax<axis=-1>(m)\n" + ZERO,
        "NUM108",
        idiom="rows-keep-a-number",
        constants=INFINITE | {"keep": np.tri(256, dtype=bool)},
    )
    cases["causal mask by comparing positions"] = Case(
        _scores(96),
        COMPARED,
        COMPARED.replace("LessOrEqual", "Less"),
        "NUM108",
        idiom="rows-keep-a-number",
        constants=INFINITE | SIZES | LAST,
    )
    triangle = """
        full = Expand(infinite, shape)
        mask = Trilu<upper=1>(full, k)
    """
    shape = {"shape": np.array([96, 96], np.int64)}
    cases["causal mask by a triangle"] = Case(
        _scores(96),
        triangle + ADDED,
        triangle + ADDED,
        "NUM108",
        idiom="rows-keep-a-number",
        constants=INFINITE | shape | {"k": np.array(1, np.int64)},
        near_constants=INFINITE | shape | {"k": np.array(0, np.int64)},
    )
    cut = """
        cut = Slice(table, from, to, axes)
        mask = Unsqueeze(cut, axes)
    """
    ends = {"from": np.array([0, 0], np.int64), "to": np.array([96, 96], np.int64), "axes": np.array([0, 1], np.int64)}
    cases["causal mask cut from a table"] = Case(
        _scores(96),
        cut + ADDED,
        cut + ADDED,
        "NUM108",
        idiom="rows-keep-a-number",
        constants=ends | {"table": _causal(128)},
        near_constants=ends | {"table": _first_row_masked(128)},
    )
    cases["causal mask, softmax by hand"] = Case(
        _scores(96),
        BY_HAND,
        BY_HAND,
        "NUM109",
        idiom="rows-keep-a-number",
        constants=LAST | {"mask": _causal(96)},
        near_constants=LAST | {"mask": _first_row_masked(96)},
    )
    summed = "a = Add(x, mask)\n y = ReduceLogSumExp(a, last)"
    cases["causal mask, log-sum-exp"] = Case(
        _scores(96),
        summed,
        summed,
        "NUM109",
        idiom="rows-keep-a-number",
        constants=LAST | {"mask": _causal(96)},
        near_constants=LAST | {"mask": _first_row_masked(96)},
    )
    cases["causal mask along another axis"] = Case(
        _scores(96),
        ADDED,
        ADDED.replace("axis=-1", "axis=2"),
        "NUM108",
        idiom="rows-keep-a-number",
        constants={"mask": _causal(96)},
        near_constants={"mask": _first_row_masked(96).T.copy()},
    )
    return cases


MASKS = _masks()
