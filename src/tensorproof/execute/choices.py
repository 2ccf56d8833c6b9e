"""Derivatives of choices for a search: an index, and what stands there.

No slope leads from one entry of a table to a far one. So the derivative of an index is taken to say where it should go: it is
the index minus the place that is wanted. Whoever picks from a table by the index knows, on the way back, which entry would
lower the objective most, to first order; whoever chose the index, as the place of the largest score, then raises the score of
the wanted place and lowers the one of the chosen place. On the way forward both are zero: they are added to true values.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

#: Tables are compared entry by entry while that takes no more products than this.
MOST_PRODUCTS = 1 << 24


def wanted_entry(index: Tensor, table: Tensor) -> Tensor:
    """Zeros of the shape (outer, index, inner) whose derivative says which entry of a table (outer, entries, inner) is wanted."""
    return _functions()[0].apply(index, table.detach())


def wanted_place(scores: Tensor, place: Tensor, axis: int, direction: float) -> Tensor:
    """Zeros of the shape of `place` (axis kept) that hand the wanted place on to the scores it was chosen by.

    `direction` is 1 where the largest score is chosen, -1 where the smallest is.
    """
    return _functions()[1].apply(scores, place, axis, direction)


@cache
def _functions() -> tuple[Any, Any]:
    import torch

    class Entry(torch.autograd.Function):
        """From the slope of what was picked to the index."""

        @staticmethod
        def forward(ctx: Any, index: Tensor, table: Tensor) -> Tensor:
            ctx.save_for_backward(index, table)
            return table.new_zeros((table.shape[0], index.numel(), table.shape[2]))

        @staticmethod
        def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
            index, table = ctx.saved_tensors
            finite = table.nan_to_num(0.0, 1e300, -1e300)
            change = torch.einsum("oir,okr->ik", slopes[0].nan_to_num(0.0), finite)
            matters = slopes[0].abs().sum((0, 2)) > 0
            best = change.argmin(dim=1).to(index.dtype)
            return torch.where(matters, index.reshape(-1) - best, 0.0).reshape(index.shape), None

    class Place(torch.autograd.Function):
        """From the wanted place to the scores."""

        @staticmethod
        def forward(ctx: Any, scores: Tensor, place: Tensor, axis: int, direction: float) -> Tensor:
            ctx.save_for_backward(scores, place)
            ctx.axis, ctx.direction = axis, direction
            return scores.new_zeros(place.shape)

        @staticmethod
        def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None, None]:
            scores, place = ctx.saved_tensors
            wanted = (place - slopes[0]).round().clamp(0, scores.shape[ctx.axis] - 1).to(torch.int64)
            weight = ctx.direction * (wanted != place).to(scores.dtype)
            raised = torch.zeros_like(scores).scatter_add(ctx.axis, wanted, -weight)
            return raised.scatter_add(ctx.axis, place, weight), None, None, None

    return Entry, Place
