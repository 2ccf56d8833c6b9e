"""Reshapes: the same elements under other sizes."""

from __future__ import annotations

from tensorproof.rules.shapes.reshape_count import RESHAPE_COUNT
from tensorproof.shapes.families.creation import sizes_of
from tensorproof.shapes.rule_table import Call, Mismatch, shape_property, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Polynomial, Size, bounds, divide_exactly, product, same, unknown
from tensorproof.shapes.values import UNKNOWN, Tensor, Value


def reshaped(call: Call, tensor: Tensor, target: tuple[Size, ...]) -> Tensor:
    """The tensor under new sizes, one of which may be -1: what remains."""
    source = tensor.shape
    free = [axis for axis, size in enumerate(target) if size == -1]
    doubtful = any(not isinstance(size, int) and bounds(size)[0] < 0 for size in target)
    if source.rank is None or doubtful or len(free) > 1:
        return tensor.with_shape(Shape(tuple(unknown(0) if size == -1 or _doubtful(size) else size for size in target)))
    total = product(source.dims)
    known = product(size for size in target if size != -1)
    if not free:
        if same(total, known) is False:
            raise Mismatch(RESHAPE_COUNT, _message(source, target, total, known), result=tensor.with_shape(Shape(target)), tensors=(tensor,))
        return tensor.with_shape(Shape(target))
    rest = divide_exactly(total, known)
    whole = isinstance(rest, int) or (isinstance(rest, Polynomial) and rest.is_whole)
    if isinstance(total, int) and isinstance(known, int) and (known == 0 or total % known):
        result = tensor.with_shape(Shape(tuple(unknown() if size == -1 else size for size in target)))
        raise Mismatch(RESHAPE_COUNT, _message(source, target, total, known), result=result, tensors=(tensor,))
    size_of_rest = rest if whole and isinstance(rest, int | Polynomial) else total // known
    return tensor.with_shape(Shape(tuple(size_of_rest if size == -1 else size for size in target)))


def _doubtful(size: Size) -> bool:
    return not isinstance(size, int) and bounds(size)[0] < 0


def _message(source: Shape, target: tuple[Size, ...], total: Size, known: Size) -> str:
    return f"{source} has {total} elements, which do not fit into {Shape(target)} ({known} for each -1)" if -1 in target else (
        f"{source} has {total} elements, but {Shape(target)} holds {known}"
    )


@shape_rule("torch.Tensor.view", "torch.Tensor.reshape")
def torch_view(call: Call, input: Tensor, *shape: Value) -> Value:
    """`view` and `reshape`."""
    return reshaped(call, input, sizes_of(shape).dims)


@shape_property("torch.Tensor.shape")
def torch_shape(input: Tensor) -> Value:
    return UNKNOWN if input.shape.rank is None else input.shape.dims


@shape_rule("torch.Tensor.size")
def torch_size(input: Tensor, dim: Value = None) -> Value:
    """All sizes, or one."""
    if dim is None:
        return UNKNOWN if input.shape.rank is None else input.shape.dims
    return input.shape[dim] if isinstance(dim, int) else UNKNOWN
