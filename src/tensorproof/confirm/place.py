"""`Place`: a node in one run on torch, as the objectives of rules see it, and the measures that they are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor

#: Numbers nearer to zero than this, which float32 does not have, are measured in a straight line, larger ones by their logarithm.
NEAR = 1e-46


class Place:
    """Operands and results of a node, and which of them a finding is about.

    The measures are made for gradients: by its logarithm, a probability of 1e-20 is as easily made smaller as one of 0.1.
    """

    __slots__ = ("attributes", "index", "limit", "op", "operands", "results", "seeks_zero", "torch")

    def __init__(
        self,
        torch: ModuleType,
        op: str,
        attributes: Mapping[str, Any],
        operands: Sequence[Any],
        results: Sequence[Any],
        index: int,
        limit: float,
    ) -> None:
        self.torch = torch
        self.op = op
        self.attributes = attributes
        self.operands = operands
        self.results = results
        #: The number of the operand that the finding names; -1 for the result.
        self.index = index
        #: The largest number of the format in which the result is held.
        self.limit = limit
        #: Whether an objective asked for numbers that are exactly zero.
        self.seeks_zero = False

    @property
    def operand(self) -> Tensor:
        return self._floating(self.results[0] if self.index < 0 else self.operands[self.index])

    @property
    def result(self) -> Tensor:
        return self._floating(self.results[0])

    def _floating(self, x: Tensor) -> Tensor:
        return x if x.dtype.is_floating_point else x.to(self.torch.float64)

    def below(self, x: Tensor) -> Tensor:
        """Falls as x falls through zero: log(x) above a tiny number, a straight line below it."""
        return self.torch.where(x > NEAR, x.clamp(min=NEAR).log(), x / NEAR - 1.0 + math.log(NEAR))

    def zero(self, x: Tensor) -> Tensor:
        """Falls as x goes to zero from either side."""
        self.seeks_zero = True
        return self.below(x.abs())

    def beyond(self, x: Tensor, limit: float) -> Tensor:
        """Falls as |x| grows; negative beyond the limit."""
        return math.log(limit) - x.abs().clamp(min=NEAR).log()

    def far(self, x: Tensor) -> Tensor:
        """Nothing leads from here."""
        return self.torch.full_like(x, math.inf)
