"""Repairs of PyTorch programs: the user's own source, changed at the line of a finding, and verified as a whole program.

A change is proposed from the text (`tensorproof.repair.source`) and from the numbers that the analysis gives. Then the patched
file is loaded with the weights of the original, traced and scanned as a whole; the failing input is replayed; outputs and
derivatives are compared with those of the original in eager PyTorch. What does not pass is declined, with the reason.

What is not done: lines of other files than the one that is named, and findings without a line.
"""

from __future__ import annotations

from tensorproof.repair.program.fixing import fixed_program

__all__ = ["fixed_program"]
