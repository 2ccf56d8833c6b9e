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
    with _line(name) as show:
        yield None if show is None else lambda stage, done: show(f"{stage}, {done} {'runs' if stage == 'confirm' else 'nodes'}")


@contextmanager
def shown_search(name: str) -> Generator[tuple[Callable[[str, int], None] | None, Callable[[str, int, float], None] | None]]:
    """The same callback, and one of `(node, evaluations, smallest objective)` for searches."""
    with _line(name) as show:
        if show is None:
            yield None, None
            return
        yield (
            lambda stage, done: show(f"{stage}, {done} {'runs' if stage == 'confirm' else 'nodes'}"),
            lambda node, done, closest: show(f"{_printable(node)}: {done} evaluations, distance {closest:.3g}"),
        )


@contextmanager
def shown_repairs(name: str) -> Generator[Callable[[str, str], None] | None]:
    """A callback of `(node, what is tried)`."""
    with _line(name) as show:
        yield None if show is None else lambda node, what: show(f"{_printable(node)}: {_printable(what)}")


@contextmanager
def shown_plan(name: str) -> Generator[Callable[[str, int], None] | None]:
    """A callback `(what, done)` that counts evaluations: runs of samples, or scans."""
    with _line(name) as show:
        yield None if show is None else lambda what, done: show(f"{done} {what}")


@contextmanager
def shown_campaign(name: str) -> Generator[Callable[[int, int, int], None] | None]:
    """A callback of `(tests done, distinct findings, tasks under way)`."""
    started = time.monotonic()
    with _line(name) as show:
        if show is None:
            yield None
            return

        def told(done: int, found: int, busy: int) -> None:
            speed = done / max(time.monotonic() - started, 1e-3)
            show(f"{done} tests, {speed:.1f} per second, {found} distinct findings, {busy} tasks under way")

        yield told


@contextmanager
def _line(name: str) -> Generator[Callable[[str], None] | None]:
    """Writes a line over the last one; None where nobody looks."""
    if not sys.stderr.isatty():
        yield None
        return
    started = last = time.monotonic()
    shown = False

    def show(text: str) -> None:
        nonlocal last, shown
        now = time.monotonic()
        if now - started < DELAY_SECONDS or now - last < INTERVAL_SECONDS:
            return
        last, shown = now, True
        sys.stderr.write(f"\r\x1b[2K{_printable(name)}: {text}, {now - started:.0f} s")
        sys.stderr.flush()

    try:
        yield show
    finally:
        if shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def _printable(name: str) -> str:
    return "".join(c for c in name if c.isprintable())[:60]
