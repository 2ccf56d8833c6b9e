"""Repairs in Python source: the expression that a finding names, written so that it does not fail.

The source is a text: nothing of it is run or imported. What is not surely the pattern of a repair is declined, with the reason.
"""

from __future__ import annotations

from tensorproof.repair.source.proposal import Declined, SourceRepair
from tensorproof.repair.source.proposing import propose

__all__ = ["Declined", "SourceRepair", "propose"]
