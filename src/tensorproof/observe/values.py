"""Tensors as an observation sees them: whether they are finite, at the cost of one reduction, and their ranges in words."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from tensorproof.observe.internals import is_plain

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Operand:
    """A floating tensor at an operator: its finite range (NaN, NaN if nothing in it is finite), and what is not finite."""

    name: str
    format: str
    shape: tuple[int, ...]
    low: float
    high: float
    nans: int
    infinities: int

    @property
    def is_finite(self) -> bool:
        return not self.nans and not self.infinities


@cache
def finite_check() -> Callable[[Any], bool]:
    """A function that says whether all floating tensors in a result are finite; what it cannot look into counts as finite.

    It is made once, because it is called for every operator: a sum costs a fraction of `isfinite`, and only where the sum is not
    finite, which a sum of finite numbers can be, too, are the elements looked at.
    """
    import torch

    plain = (torch.float32, torch.float64, torch.bfloat16)

    def all_finite(made: Any) -> bool:
        if isinstance(made, torch.Tensor):
            if made.dtype in plain and made.layout is torch.strided and made.numel() > 1:
                try:
                    total = made.sum().item()
                except (RuntimeError, NotImplementedError):
                    return not is_observable(made) or is_finite(made)
                return math.isfinite(total) or not is_observable(made) or is_finite(made)
            return not is_observable(made) or is_finite(made)
        if isinstance(made, (tuple, list)):
            return all(map(all_finite, cast("tuple[Any, ...]", made)))
        return True

    return all_finite


def is_observable(tensor: torch.Tensor) -> bool:
    """Whether a tensor has floating elements that can be looked at: it is no stand-in for one, and not on the meta device."""
    import torch

    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.is_meta:
        return False
    if tensor.layout not in (torch.strided, torch.sparse_coo):
        return False
    return is_plain(tensor)


def is_finite(tensor: torch.Tensor) -> bool:
    """Whether all elements are finite numbers, exactly."""
    import torch

    elements = _elements(tensor)
    if elements.numel() == 0:
        return True
    if elements.numel() == 1:
        return cmath.isfinite(elements.item())
    return math.isfinite(elements.sum(dtype=torch.float32).item()) or bool(torch.isfinite(elements).all())


@cache
def totalling() -> Callable[[torch.Tensor], torch.Tensor | None]:
    """A function that gives the sum of a tensor, not looked at yet; None if the tensor has no floating elements to look at.

    The sum is not finite if an element is not; it may overflow for finite elements, too.
    """
    import torch

    plain = (torch.float32, torch.float64, torch.bfloat16)

    def total(tensor: torch.Tensor) -> torch.Tensor | None:
        if type(tensor) is torch.Tensor and tensor.dtype in plain and tensor.layout is torch.strided and not tensor.is_meta:
            return (tensor.detach() if tensor.requires_grad else tensor).sum()
        return _elements(tensor).sum(dtype=torch.float32) if is_observable(tensor) else None

    return total


def describe(name: str, tensor: torch.Tensor) -> Operand:
    """The range of a tensor, and how much of it is not finite; the parts of complex numbers count as numbers."""
    import torch

    elements = _elements(tensor)
    low, high, nans, infinities = math.nan, math.nan, 0, 0
    if elements.numel():
        low, high = (end.item() for end in torch.aminmax(elements))
    if elements.numel() and not math.isfinite(high - low):
        finite = elements[torch.isfinite(elements)]
        low, high = (end.item() for end in torch.aminmax(finite)) if finite.numel() else (math.nan, math.nan)
        nans = int(torch.isnan(elements).sum())
        infinities = int(torch.isinf(elements).sum())
    return Operand(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), low, high, nans, infinities)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of nested tuples, lists and dictionaries."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in cast("tuple[Any, ...]", value):
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in cast("dict[Any, Any]", value).values():
            yield from tensors_in(item)


def _elements(tensor: torch.Tensor) -> torch.Tensor:
    """The stored numbers as a format that can be added up."""
    import torch

    tensor = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        tensor = tensor._values()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    # Eight-bit formats have no arithmetic.
    return tensor.to(torch.float32) if tensor.dtype.itemsize == 1 else tensor
