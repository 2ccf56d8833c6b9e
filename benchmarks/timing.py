"""CPU time, by which everything here is measured."""

from __future__ import annotations

import resource
import time


def cpu_seconds() -> float:
    """CPU time of this process and of those that it started and that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
