"""How precise an analysis is: what is kept of tensors and of values, and which domains take part.

The defaults are the most precise that one pass can be. `check` starts far coarser (`FIRST_PASS`) and comes back with more
precision for what still alarms (`tensorproof.refine`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from tensorproof.errors import ConfigurationError

Tensors = Literal["smash", "partition", "expand"]
Values = Literal["interval", "affine"]
Weights = Literal["exact", "channel"]


@dataclass(frozen=True, slots=True)
class Abstraction:
    """The domains of one pass.

    `tensors`: one cell per tensor, cells by need (at most `cells` of them), or one cell per element. `values`: intervals
    alone, or affine forms beside them. `weights`: large constants as they are, or one summary per output channel.
    `norms`: bounds on Euclidean norms beside intervals; `spectral`: with sound bounds of the largest singular value instead
    of the Frobenius norm. `idioms`: what the structure of the graph proves about single nodes.
    """

    tensors: Tensors = "partition"
    values: Values = "interval"
    weights: Weights = "exact"
    norms: bool = True
    spectral: bool = False
    idioms: bool = True
    cells: int = 1 << 16

    @property
    def is_plain(self) -> bool:
        """Whether a pass keeps intervals and nothing beside them."""
        return not self.norms and self.values == "interval"


#: One pass with the whole precision of its domains.
PRECISE = Abstraction()
#: Where `check` begins: about the cost of one forward pass.
FIRST_PASS = Abstraction(weights="channel", cells=1 << 6)

#: With one cell per element, larger tensors are coarser; the report counts them.
EXPANDED_CELLS = 1 << 16


def chosen(tensors: str | None = None, values: str | None = None) -> Abstraction:
    """The abstraction that the first pass has where the user chooses how tensors and values are described."""
    abstraction = FIRST_PASS
    match tensors:
        case None | "partition":
            pass
        case "smash":
            abstraction = replace(abstraction, tensors="smash", cells=1)
        case "expand":
            abstraction = replace(abstraction, tensors="expand", weights="exact", cells=EXPANDED_CELLS)
        case _:
            raise ConfigurationError(f"tensors {tensors!r}: write {', '.join(get_args(Tensors))}")
    match values:
        case None | "interval":
            pass
        case "affine":
            abstraction = replace(abstraction, values="affine")
        case _:
            raise ConfigurationError(f"values {values!r}: write {' or '.join(get_args(Values))}")
    return abstraction
