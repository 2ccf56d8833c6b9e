"""Ctrl-C at a place of one's own choice, so that no result is lost between two statements."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """What came of Ctrl-C since `held` was entered. The second one, before the first is taken, does not wait."""

    def __init__(self) -> None:
        self._waits = False

    def note(self, _number: int, _frame: FrameType | None) -> None:
        """The handler of the signal."""
        if self._waits:
            raise KeyboardInterrupt
        self._waits = True

    def take(self) -> None:
        """Raise `KeyboardInterrupt` here if one is waiting."""
        if self._waits:
            self._waits = False
            raise KeyboardInterrupt


@contextmanager
def held() -> Generator[Interrupts]:
    """Ctrl-C waits for `take`. Python delivers signals to its main thread: in any other, nothing is changed."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = signal.signal(signal.SIGINT, interrupts.note)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
