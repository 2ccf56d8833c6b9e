"""The last batch of a loader, which is smaller than the others."""

from __future__ import annotations

from tensorproof.rules.shapes.partial_batch import PARTIAL_BATCH
from tensorproof.shapes.rule_table import Call
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Polynomial, Size, Symbol, same, substitute, symbols
from tensorproof.shapes.values import Tensor


def full_batch(size: Size) -> Symbol | None:
    """The batch inside a size, if it is the only symbol there and has a greatest value."""
    found = [symbol for symbol in symbols(size) if symbol.role == "batch"]
    return found[0] if len(found) == 1 and len(symbols(size)) == 1 and found[0].high != float("inf") else None


def assumes_full_batch(size: Size, other: Size) -> bool:
    """Whether two sizes are equal only if the batch is a full one: `N` and 32, for N up to 32."""
    variable, fixed = (size, other) if isinstance(size, Polynomial) else (other, size)
    if not isinstance(fixed, int) or not isinstance(variable, Polynomial):
        return False
    batch = full_batch(variable)
    return batch is not None and same(substitute(variable, {batch: int(batch.high)}), fixed) is True


def partial_batch_message(left: Shape, right: Shape) -> str:
    """What is wrong with two shapes that are equal for full batches only."""
    return (
        f"{left} meets {right}, which assumes a full batch, but the last batch of the loader may hold fewer samples; "
        "take the size from the batch, or set drop_last=True"
    )


def warn_of_partial_batch(call: Call, left: Tensor, right: Tensor) -> bool:
    """Two tensors that have to be of one shape are so only for full batches: whether that was said."""
    a, b = left.shape, right.shape
    if a.rank is None or b.rank is None or a.rank != b.rank:
        return False
    for first, second in zip(a.dims, b.dims, strict=True):
        if assumes_full_batch(first, second):
            call.warn(PARTIAL_BATCH, partial_batch_message(a, b), tensors=(left, right))
            return True
    return False
