"""Progress on standard error for work that takes longer than two seconds; nothing where nobody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

DELAY_SECONDS = 2.0
INTERVAL_SECONDS = 0.2


@contextmanager
def shown_progress(name: str) -> Generator[Callable[[str, int], None] | None]:
    """A callback `(stage, done)`; it writes one line that is overwritten, and clears it at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    started = last = time.monotonic()
    shown = False

    def advance(stage: str, done: int) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if now - started < DELAY_SECONDS or now - last < INTERVAL_SECONDS:
            return
        last, shown = now, True
        unit = "runs" if stage == "confirm" else "nodes"
        label = "".join(c for c in name if c.isprintable())[:60]
        sys.stderr.write(f"\r\x1b[2K{label}: {stage}, {done} {unit}, {now - started:.0f} s")
        sys.stderr.flush()

    try:
        yield advance
    finally:
        if shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
