"""Repairs in Python source: the expression that a finding names, written so that it does not fail.

The source is a text: nothing of it is run or imported. What is not surely the pattern of a repair is declined, with the reason.

What is assumed: the names that imports bind are those modules, a method such as `x.softmax` of a value of unknown origin is that of
a tensor (of torch, if the file imports it), a name with `mask` in it is not negative, and two names do not stand for parts of
one tensor of which one is changed by `+=`.

What is not seen: modules as functions (`nn.Softmax(dim=1)(x)`, `self.softmax(x)`), attributes assigned elsewhere (`self.p`), names
that are assigned more than once, `keras.backend`, masks built by `torch.full` or by assignment to elements, and sigmoids that are
written out. A value that was followed back stays computed where it was, even if nothing uses it any more.
"""

from __future__ import annotations

from tensorproof.repair.source.proposal import Declined, SourceRepair
from tensorproof.repair.source.proposing import proposals, propose

__all__ = ["Declined", "SourceRepair", "proposals", "propose"]
