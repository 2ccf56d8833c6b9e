"""NumPy's floating-point warnings, switched off once around many calls instead of once in each of them.

Bounds overflow, and infinities meet, by design: what it means is decided where results are rounded, never by a warning.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

_SILENT: ContextVar[bool] = ContextVar("silent", default=False)

#: Whether warnings are off already in this context.
is_silent = _SILENT.get


@contextmanager
def silence() -> Generator[None]:
    """No floating-point warnings inside."""
    token = _SILENT.set(True)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        _SILENT.reset(token)
