"""How a pattern says that it is not sure."""

from __future__ import annotations


class NotSure(Exception):
    """What is there looks like a pattern that has a repair, but is not surely it; the message is the reason."""


class NoPattern(NotSure):
    """Nothing there looks like a pattern that has a repair."""
