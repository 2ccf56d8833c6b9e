"""What happens to a constant that is converted to a narrower format."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

Change = Literal["overflow", "vanished"]

#: Elements that are compared at a time.
_PIECE = 1 << 18


def change_of(before: Any, after: Any) -> Change | None:
    """Whether a finite element of an array became infinite, or a single number that is not zero became zero."""
    if _overflows(before, after):
        return "overflow"
    if before.size == 1 and bool((before != 0).all()) and bool((after == 0).all()):
        return "vanished"
    return None


def _overflows(before: Any, after: Any) -> bool:
    """Whether a finite element became one that is not; large arrays are looked at in pieces."""
    before, after = before.reshape(-1), after.reshape(-1)
    for start in range(0, before.size, _PIECE):
        old, new = before[start : start + _PIECE], after[start : start + _PIECE]
        if bool((np.isfinite(old) & ~np.isfinite(new.astype(np.float64))).any()):
            return True
    return False
