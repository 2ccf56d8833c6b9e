"""Ctrl-C waits until it is taken; a second one does not wait; outside, it is what it was."""

from __future__ import annotations

import signal
import threading

import pytest

from tensorproof.interrupts import held

pytestmark = pytest.mark.area("compare campaign")


def test_an_interrupt_waits_until_it_is_taken() -> None:
    with held() as interrupts:
        interrupts.take()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.take()
        interrupts.take()


def test_a_second_interrupt_does_not_wait() -> None:
    with held():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_the_handler_of_before_is_back_even_after_an_error() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(RuntimeError), held():
        assert signal.getsignal(signal.SIGINT) is not before
        raise RuntimeError
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_change_nothing() -> None:
    before, seen = signal.getsignal(signal.SIGINT), list[object]()

    def look() -> None:
        with held() as interrupts:
            interrupts.take()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [before]
