"""Reshapes of ranges under the name that some operators import; defined beside the other moves of cells."""

from __future__ import annotations

from tensorproof.ranges.moving import reshape

__all__ = ["reshape"]
