"""One step of Adam in the format of the weights, as `torch.optim.Adam` makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

#: The default epsilon of `torch.optim.Adam`.
EPSILON = 1e-8


def adam_step(weights: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, int]:
    """How many elements of each weight are not finite after a first step on its gradient; weights that stay finite are left out.

    The weights themselves are not changed.
    """
    import torch

    copies = {name: torch.nn.Parameter(weight.detach().clone()) for name, (weight, _) in weights.items()}
    for name, parameter in copies.items():
        parameter.grad = weights[name][1].detach().clone()
    if not copies:
        return {}
    torch.optim.Adam(copies.values(), eps=EPSILON).step()
    failed = {name: int((~torch.isfinite(parameter)).sum()) for name, parameter in copies.items()}
    return {name: count for name, count in failed.items() if count}
