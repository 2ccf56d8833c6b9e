"""Matrix products as TensorFlow and JAX call them: transposed operands, any axes that are summed over or shared, and biases."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, Format
from tensorproof.operators.arithmetic import add
from tensorproof.operators.convolution_calls import arranged_operand
from tensorproof.operators.einsum import einsum
from tensorproof.operators.linear import matmul
from tensorproof.operators.reductions import reduce_sum
from tensorproof.operators.tensorflow_windows import layout_of, operand_of

if TYPE_CHECKING:
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


# -- in TensorFlow ----------------------------------------------------------------------------------------------------


@matmul.tensorflow("MatMul", "SparseMatMul")
def _(call: TensorflowCall) -> int:
    """Of two matrices, either of which may be transposed; those of SparseMatMul are dense and only expected to hold zeros."""
    format = FLOAT32 if call.name == "SparseMatMul" else call.format()
    if format.kind == "complex":
        raise NotAnalysed(f"{call.name} of complex numbers")
    turned = [bool(call.attribute(name, False)) for name in ("transpose_a", "transpose_b")]
    a, b = call.operand(0, format), call.operand(1, format)
    if not any(turned):
        return call.emit("MatMul", a, b, formats=(format,))
    return call.emit("Gemm", a, b, transA=int(turned[0]), transB=int(turned[1]), formats=(format,))


@matmul.tensorflow("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _(call: TensorflowCall) -> int:
    """Of stacks of matrices; adjoint ones are transposed, since numbers are real."""
    format = call.format("Tout" if "Tout" in call.attributes else "T")
    if format.kind == "complex":
        raise NotAnalysed(f"{call.name} of complex numbers")
    a, b = (
        _adjoint(call, index, format) if call.attribute(name, False) else call.operand(index, format)
        for index, name in enumerate(("adj_x", "adj_y"))
    )
    return call.emit("MatMul", a, b, formats=(format,))


def _adjoint(call: TensorflowCall, index: int, format: Format) -> int:
    rank = call.rank(index)
    x = operand_of(call, index).transposed([*range(rank - 2), rank - 1, rank - 2])
    return call.cast(x.number, format)


@einsum.tensorflow("Einsum")
def _(call: TensorflowCall) -> int:
    format = call.format()
    if format.kind == "complex":
        raise NotAnalysed(f"{call.name} of complex numbers")
    equation = str(call.attribute("equation")).replace(" ", "")
    return call.emit("Einsum", *call.all_operands(), equation=equation, formats=(format,))


@add.tensorflow("BiasAdd", "BiasAddV1")
def _(call: TensorflowCall) -> int:
    """One number for each channel, added to all of them."""
    if str(call.attribute("data_format", "NHWC")).startswith("NC"):
        rank = call.rank(0)
        bias = operand_of(call, 1).reshaped([-1, *(1,) * (rank - 2)]).number
        return call.emit("Add", call.operand(0), bias, formats=(call.format(),))
    return call.emit("Add", call.operand(0), call.operand(1), formats=(call.format(),))


@reduce_sum.tensorflow("BiasAddGrad")
def _(call: TensorflowCall) -> int:
    """The sum over everything but channels."""
    layout = layout_of(call, call.rank(0))
    axes = [axis for axis in range(layout.rank) if axis != layout.channel]
    return call.emit("ReduceSum", call.operand(0), call.integers(axes), keepdims=0, formats=(call.format(),))


# -- in JAX -----------------------------------------------------------------------------------------------------------


@matmul.jax("dot_general")
def _(call: JaxCall) -> int:
    """Sums over pairs of axes; pairs of others are shared. The result has shared axes first, then those left of each operand.

    The products are exact in the result's format where that is wider (`preferred_element_type`), and summed in it.
    """
    (summed_a, summed_b), (shared_a, shared_b) = call["dimension_numbers"]
    format = call.result.format
    ranks = len(call.shape(0)), len(call.shape(1))
    left_a, left_b = (
        [axis for axis in range(rank) if axis not in (*summed, *shared)]
        for rank, summed, shared in zip(ranks, (summed_a, summed_b), (shared_a, shared_b), strict=True)
    )
    # A matrix may multiply a stack of others, if all axes but one of the stack are left over.
    is_product = len(summed_a) == 1 and len(left_b) == 1 and len(left_a) >= 1 and (len(left_a) == 1 or not shared_a)
    if is_product:
        a = arranged_operand(call, 0, format).transposed([*shared_a, *left_a, *summed_a])
        b = arranged_operand(call, 1, format).transposed([*shared_b, *summed_b, *left_b])
        return call.emit("MatMul", a.number, b.number, formats=(format,))
    equation = _equation(ranks, summed_a, summed_b, shared_a, shared_b, left_a, left_b)
    return call.emit("Einsum", call.operand(0, format), call.operand(1, format), equation=equation, formats=(format,))


def _equation(
    ranks: tuple[int, int],
    summed_a: Sequence[int],
    summed_b: Sequence[int],
    shared_a: Sequence[int],
    shared_b: Sequence[int],
    left_a: Sequence[int],
    left_b: Sequence[int],
) -> str:
    if sum(ranks) > len(string.ascii_letters):
        raise NotAnalysed("tensors of so many axes are not modelled")
    of_a, of_b = string.ascii_letters[: ranks[0]], list(string.ascii_letters[ranks[0] : sum(ranks)])
    for first, second in zip((*summed_a, *shared_a), (*summed_b, *shared_b), strict=True):
        of_b[second] = of_a[first]
    kept = "".join((*(of_a[axis] for axis in (*shared_a, *left_a)), *(of_b[axis] for axis in left_b)))
    return f"{of_a},{''.join(of_b)}->{kept}"


@matmul.jax("ragged_dot_general")
def _(call: JaxCall) -> int:
    raise NotAnalysed(f"{call.name}: which rows belong to which matrix depends on the data, which is not modelled")
