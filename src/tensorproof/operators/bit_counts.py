"""How many bits of an integer are set, or lead it unset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.formats import UINT8
from tensorproof.frontends.calls import OWN
from tensorproof.operators.casts import format_of
from tensorproof.operators.comparison import folded
from tensorproof.operators.table import Call, operator
from tensorproof.ranges.range import Range

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.tensorflow_call import TensorflowCall

_COARSE = "any number of bits, unless the operand is a constant"


def _bits_of(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bits of each integer along a new last axis, the lowest first."""
    width = array.dtype.itemsize * 8
    patterns = array.astype(array.dtype.newbyteorder("=")).view(f"u{array.dtype.itemsize}").astype(np.uint64)
    return ((patterns[..., None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)).astype(np.uint8)


@operator("PopulationCount", domain=OWN, coarse=_COARSE, elementwise=True)
def population_count(op: Call, x: Range) -> Range:
    """The number of bits that are set, in the format of the operand."""
    exact = folded(lambda a: _bits_of(a).sum(-1).astype(a.dtype), x)
    return Range.uniform(x.shape, x.format, 0.0, float(x.format.bits)) if exact is None else exact


@population_count.tensorflow("PopulationCount")
def _(call: TensorflowCall) -> int:
    counted = call.own("PopulationCount", call.operand(0), formats=(call.arithmetic_format(),))
    return call.cast(counted, UINT8)


population_count.jax("population_count")


@population_count.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return _bit_tensor(run, x).sum(-1).to(x.dtype)


def _bit_tensor(run: Run, x: Tensor) -> Tensor:
    torch = run.torch
    places = torch.arange(format_of(run, 0, x).bits, dtype=torch.int64)
    return (run.whole(x).to(torch.int64).unsqueeze(-1) >> places) & 1


@operator("LeadingZeros", domain=OWN, coarse=_COARSE, elementwise=True)
def leading_zeros(op: Call, x: Range) -> Range:
    """The number of bits above the highest one that is set; all of them for zero."""
    exact = folded(lambda a: _leading(_bits_of(a)).astype(a.dtype), x)
    return Range.uniform(x.shape, x.format, 0.0, float(x.format.bits)) if exact is None else exact


def _leading(bits: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    found = np.argmax(bits[..., ::-1], axis=-1)
    return np.where(bits.any(-1), found, bits.shape[-1])


leading_zeros.jax("clz")


@leading_zeros.meaning
def _(run: Run, x: Tensor) -> Tensor:
    bits = _bit_tensor(run, x).flip(-1)
    first = run.torch.argmax(bits, -1)
    return run.torch.where(bits.any(-1), first, bits.shape[-1]).to(x.dtype)
