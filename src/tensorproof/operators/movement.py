"""Data movement: the same elements under other shapes and in another order. Nothing is computed, cells move whole."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.graph import ABSENT
from tensorproof.operators.table import Call, operator
from tensorproof.ranges import relations
from tensorproof.ranges.affine import Form
from tensorproof.ranges.containers import Abstract
from tensorproof.ranges.grid import Cuts, Shape, Size, Span, largest, smallest
from tensorproof.ranges.moving import (
    anywhere,
    dimensions,
    known_axis,
    moved,
    reshape,
    shape_of,
    transpose,
)
from tensorproof.ranges.range import Range
from tensorproof.ranges.views import Reshaped, Transposed

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.jax_call import JaxCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@operator("Identity", hands_on=True, elementwise=True)
def identity(op: Call, x: Abstract) -> Abstract:
    """The operand itself."""
    return x


@operator("SampleOp", domain="com.microsoft")
def sample_op(op: Call, x: Range) -> Range:
    """The operand itself."""
    return x


@identity.meaning
@sample_op.meaning
def _(run: Run, x: Any) -> Any:
    return x


@identity.aten(
    *("alias", "alias_copy", "clone", "contiguous", "lift", "lift_fresh", "lift_fresh_copy", "pin_memory", "positive"),
    *("resolve_conj", "resolve_neg", "conj", "_conj", "real"),
)
def _(call: AtenCall) -> int:
    """The operand itself (of real numbers: others have no format here)."""
    if call.result.format is None:
        raise NotAnalysed("tensors of this dtype are not modelled")
    return call.tensor("self")


@identity.aten("broadcast_tensors")
def _(call: AtenCall) -> tuple[int, ...]:
    """All tensors in the shape that they broadcast to together."""
    numbers = call.tensors("tensors")
    shapes = [call.shape_of(number) for number in numbers]
    return tuple(
        _expanded_to(call, number, [shape for index, shape in enumerate(shapes) if index != own])
        for own, number in enumerate(numbers)
    )


@identity.tensorflow(
    *("Identity", "Snapshot", "DeepCopy", "Copy", "PreventGradient", "DebugGradientIdentity", "GuaranteeConst"),
)
def _(call: TensorflowCall) -> int:
    return call.moved("Identity", call.operand(0))


@identity.tensorflow("EnsureShape")
def _(call: TensorflowCall) -> int:
    """The operand itself; TensorFlow refuses to run where it has another shape."""
    return call.moved("Identity", call.operand(0))


@identity.tensorflow("IdentityN")
def _(call: TensorflowCall) -> tuple[int, ...]:
    return tuple(call.moved("Identity", number) for number in call.all_operands())


@identity.jax("copy")
def _(call: JaxCall) -> int:
    return call.moved("Identity", call.operand(0))


@identity.jax("optimization_barrier", "device_put")
def _(call: JaxCall) -> tuple[int, ...]:
    return tuple(call.moved("Identity", number) for number in call.all_operands())


def _expanded_to(call: AtenCall, x: int, shapes: list[int]) -> int:
    for shape in shapes:
        x = call.moved("Expand", x, shape)
    return x


#: A shape with the blocks as axes of their own, the order that these are brought into, and the shape of the result.
_Blocks = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


# -- shapes of the same elements -------------------------------------------------------------------------------------


@operator("Reshape", steered_by=(1,))
def reshape_(op: Call, x: Range, shape: Range) -> Range:
    """The same elements in row-major order under another shape."""
    wanted = dimensions(shape)
    if wanted is None:
        return anywhere(x, None)
    return reshape(x, _reshaped_sizes(x.shape, wanted, keeps_zero=bool(op.attribute("allowzero", 0))))


@reshape_.meaning
def _(run: Run, x: Tensor, shape: Tensor | None = None) -> Tensor:
    wanted = tuple(run.integers("shape", shape) or ())
    sizes = _reshaped_sizes(tuple(x.shape), wanted, keeps_zero=bool(run.attribute("allowzero", 0)))
    return x.reshape([smallest(size) for size in sizes])


def _same_elements(op: Call, result: Range, x: Range, *_: Range | None) -> Form | None:
    """The form of the same elements, in row-major order, under the result's shape."""
    return relations.viewed(op, result, x, Reshaped(result.sizes))


reshape_.affine(_same_elements)


@reshape_.aten("view", "view_copy", "_unsafe_view", "reshape", "_reshape_alias")
def _(call: AtenCall) -> int:
    sizes = call.arguments["shape" if "shape" in call.arguments else "size"]
    return call.reshaped(call.tensor("self"), call.traced(sizes))


@reshape_.aten("unflatten.int")
def _(call: AtenCall) -> int:
    x = call.handle("self")
    axis = call.axis("dim", call.rank("self"))
    sizes: list[Any] = [call.size(x, i) for i in range(call.rank("self"))]
    return call.reshaped(x.number, call.traced([*sizes[:axis], *call.arguments["sizes"], *sizes[axis + 1 :]]))


@reshape_.aten("flatten.using_ints")
def _(call: AtenCall) -> int:
    x, rank = call.handle("self"), call.rank("self")
    if rank == 0:
        return call.reshaped(x.number, [1])
    first, last = call.axis("start_dim", rank), call.axis("end_dim", rank)
    sizes: list[Any] = [call.size(x, i) for i in range(rank)]
    return call.reshaped(x.number, call.traced([*sizes[:first], -1, *sizes[last + 1 :]]))


@reshape_.aten("ravel")
def _(call: AtenCall) -> int:
    return call.reshaped(call.tensor("self"), call.traced([-1]))


@reshape_.aten("view_as", "reshape_as")
def _(call: AtenCall) -> int:
    other = call.handle("other")
    return call.reshaped(call.tensor("self"), [call.size(other, axis) for axis in range(call.rank("other"))])


@reshape_.tensorflow("Reshape")
def _(call: TensorflowCall) -> int:
    """Another shape, known or computed; a size of 0 is one, and -1 stands for what is left over."""
    keeps_zero = not call.is_known(1) or 0 in call.integers_of(1)
    return call.moved("Reshape", call.operand(0), call.as_integers(1), allowzero=1 if keeps_zero else None)


@reshape_.jax("reshape")
def _(call: JaxCall) -> int:
    """Another shape, of a tensor whose axes are brought into another order first where `dimensions` say so."""
    x = call.operand(0)
    if call["dimensions"] is not None:
        x = call.moved("Transpose", x, perm=[int(axis) for axis in call["dimensions"]])
    return call.reshaped(x, call.result_shape)


def _reshaped_sizes(shape: Shape | None, wanted: tuple[Size, ...], *, keeps_zero: bool) -> Shape:
    """The shape that Reshape's second input asks for: 0 copies a size, -1 and what is not known take what is left."""
    remaining = None if shape is None else list(shape)
    sizes: list[Size | None] = []
    for axis, size in enumerate(wanted):
        if size == 0 and not keeps_zero:
            if remaining is None or axis >= len(remaining):
                raise UnknownShape("a size that Reshape copies is not known")
            sizes.append(remaining[axis])
            # A copied size stands on both sides and cancels, even where it is not known.
            remaining[axis] = 1
        else:
            sizes.append(size if isinstance(size, int) and size >= 0 else None)
    total: Size = Span(0, None) if remaining is None else product(remaining)
    known = math.prod(size for i, size in enumerate(sizes) if isinstance(size, int) and wanted[i] != 0)
    if 0 in sizes:
        return tuple(0 if size is None else size for size in sizes)
    high = largest(total)
    left: Size = Span(smallest(total) // known, None if high is None else high // known)
    if isinstance(total, int):
        left = total // known
    open_axes = [i for i, size in enumerate(sizes) if size is None]
    if len(open_axes) > 1:
        for i in open_axes:
            sizes[i] = _bounded(wanted[i], largest(left))
    return tuple(left if size is None else size for size in sizes)


def _bounded(size: Size, high: int | None) -> Span:
    """One of several sizes that are not known, none larger than `high`."""
    # A size that may be 0 or negative may stand for another one.
    if isinstance(size, int) or size.low <= 0:
        return Span(0, high)
    highs = [h for h in (size.high, high) if h is not None]
    return Span(size.low, min(highs) if highs else None)


def product(sizes: list[Size] | Shape) -> Size:
    """The number of elements of a shape."""
    low = math.prod(map(smallest, sizes))
    if all(isinstance(size, int) for size in sizes):
        return low
    highs = [largest(size) for size in sizes]
    if 0 in highs:
        return 0
    return Span(low, None if None in highs else math.prod(h for h in highs if h is not None))


@operator("Flatten")
def flatten(op: Call, x: Range) -> Range:
    """The same elements as a matrix: the axes before and from `axis` on are merged."""
    sizes = shape_of(x)
    axis = op.attribute("axis", 1)
    axis = axis + len(sizes) if axis < 0 else axis
    return reshape(x, (product(sizes[:axis]), product(sizes[axis:])))


@flatten.meaning
def _(run: Run, x: Tensor) -> Tensor:
    axis = run.attribute("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


flatten.affine(_same_elements)


@operator("Squeeze", steered_by=(1,))
def squeeze(op: Call, x: Range, axes: Range | None = None) -> Range:
    """The same elements without axes of size 1."""
    sizes = shape_of(x)
    given = op.integers("axes", axes)
    if given is None:
        if any(isinstance(size, Span) and size.low <= 1 for size in sizes):
            return anywhere(x, None)
        dropped = tuple(axis for axis, size in enumerate(sizes) if size == 1)
    else:
        dropped = tuple(known_axis(axis, len(sizes)) for axis in given)
    kept = [axis for axis in range(len(sizes)) if axis not in dropped]
    if x.array is not None:
        return Range.constant(x.array.squeeze(dropped), x.format)
    shape, grid = tuple(sizes[axis] for axis in kept), tuple(x.grid[axis] for axis in kept)
    return moved(x, shape, grid, lambda a: a.squeeze(dropped))


@squeeze.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    given = run.integers("axes", axes)
    return x.squeeze() if given is None else x.squeeze(tuple(given))


squeeze.affine(_same_elements)


@squeeze.aten(*(f"{name}.{overload}" for name in ("squeeze", "squeeze_copy") for overload in ("default", "dim", "dims")))
def _(call: AtenCall) -> int:
    """Without the axes (of those that are named) whose size is 1; a size that is not fixed is another one."""
    shape, rank = call.handle("self").shape or (), call.rank("self")
    named = call.get("dim", range(rank))
    axes = {known_axis(axis, rank) for axis in ([named] if isinstance(named, int) else named) if rank}
    dropped = [axis for axis in sorted(axes) if shape[axis] == 1]
    return call.moved("Squeeze", call.tensor("self"), call.integers(dropped)) if dropped else call.tensor("self")


@squeeze.tensorflow("Squeeze")
def _(call: TensorflowCall) -> int:
    """Without the axes that are named, which have size 1, or else without all of size 1."""
    axes = call.attribute("squeeze_dims") or []
    return call.moved("Squeeze", call.operand(0), call.integers(axes) if axes else ABSENT)


@squeeze.jax("squeeze")
def _(call: JaxCall) -> int:
    axes = list(call["dimensions"])
    return call.moved("Squeeze", call.operand(0), call.integers(axes)) if axes else call.moved("Identity", call.operand(0))


@operator("Unsqueeze", steered_by=(1,))
def unsqueeze(op: Call, x: Range, axes: Range | None = None) -> Range:
    """The same elements with new axes of size 1."""
    return _with_new_axes(x, op.integers("axes", axes) or [])


unsqueeze.affine(_same_elements)


@unsqueeze.aten("unsqueeze", "unsqueeze_copy")
def _(call: AtenCall) -> int:
    return call.moved("Unsqueeze", call.tensor("self"), call.integers([call["dim"]]))


@unsqueeze.tensorflow("ExpandDims")
def _(call: TensorflowCall) -> int:
    return call.moved("Unsqueeze", call.operand(0), call.as_integers(1))


@operator("ExpandDims", domain="com.microsoft")
def expand_dims(op: Call, x: Range, axis: Range) -> Range:
    """The same elements with one new axis of size 1."""
    return _with_new_axes(x, op.integers("axis", axis) or [])


@unsqueeze.meaning
def _(run: Run, x: Tensor, axes: Tensor | None = None) -> Tensor:
    return _unsqueezed(x, run.integers("axes", axes) or [])


@expand_dims.meaning
def _(run: Run, x: Tensor, axis: Tensor) -> Tensor:
    return _unsqueezed(x, run.integers("axis", axis) or [])


def _unsqueezed(x: Tensor, axes: list[int]) -> Tensor:
    rank = x.ndim + len(axes)
    for axis in sorted(known_axis(axis, rank) for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _with_new_axes(x: Range, axes: list[int]) -> Range:
    sizes = shape_of(x)
    rank = len(sizes) + len(axes)
    new = tuple(sorted(known_axis(axis, rank) for axis in axes))
    if x.array is not None:
        return Range.constant(np.expand_dims(x.array, new), x.format)
    shape: list[Size] = list(sizes)
    grid: list[Cuts] = list(x.grid)
    for axis in new:
        shape.insert(axis, 1)
        grid.insert(axis, None)
    return moved(x, tuple(shape), tuple(grid), lambda a: np.expand_dims(a, new))


@operator("Transpose")
def transpose_(op: Call, x: Range) -> Range:
    """The axes in another order."""
    return transpose(x, op.attribute("perm") or range(x.rank)[::-1])


@transpose_.meaning
def _(run: Run, x: Tensor) -> Tensor:
    return x.permute(tuple(run.attribute("perm") or range(x.ndim)[::-1]))


@transpose_.affine
def _(op: Call, result: Range, x: Range) -> Form | None:
    order = tuple(op.attribute("perm") or range(x.rank)[::-1])
    return relations.viewed(op, result, x, Transposed(result.sizes, order))


def _permuted(call: AtenCall, order: list[int]) -> int:
    return call.moved("Transpose", call.tensor("self"), perm=order) if order != sorted(order) else call.tensor("self")


@transpose_.aten("permute", "permute_copy")
def _(call: AtenCall) -> int:
    return _permuted(call, call.axes("dims", call.rank("self")))


@transpose_.aten("transpose.int", "transpose_copy.int", "swapdims", "swapaxes")
def _(call: AtenCall) -> int:
    names = ("axis0", "axis1") if "axis0" in call.arguments else ("dim0", "dim1")
    order = list(range(call.rank("self")))
    if order:
        first, second = (call.axis(name, len(order)) for name in names)
        order[first], order[second] = order[second], order[first]
    return _permuted(call, order)


@transpose_.aten("t", "t_copy", "numpy_T")
def _(call: AtenCall) -> int:
    return _permuted(call, list(range(call.rank("self")))[::-1])


@transpose_.aten("mT", "mH", "adjoint", "matrix_H")
def _(call: AtenCall) -> int:
    """The last two axes exchanged (complex numbers have no format here)."""
    *batch, rows, columns = range(call.rank("self"))
    return _permuted(call, [*batch, columns, rows])


@transpose_.aten("movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist")
def _(call: AtenCall) -> int:
    rank = call.rank("self")
    ends = (call["source"], call["destination"])
    sources, targets = ([known_axis(i, rank) for i in ([end] if isinstance(end, int) else end)] for end in ends)
    order = [axis for axis in range(rank) if axis not in sources]
    for target, source in sorted(zip(targets, sources)):
        order.insert(target, source)
    return _permuted(call, order)


@transpose_.tensorflow("Transpose", "ConjugateTranspose")
def _(call: TensorflowCall) -> int:
    """The axes in another order (complex numbers, which a conjugate would change, have no ranges here)."""
    if call.format().kind == "complex":
        raise NotAnalysed("complex numbers are not modelled")
    if not call.is_known(1):
        raise NotAnalysed("the order of axes is computed by the program")
    order = call.integers_of(1)
    return call.moved("Transpose", call.operand(0), perm=[axis % len(order) for axis in order])


@transpose_.jax("transpose")
def _(call: JaxCall) -> int:
    return call.moved("Transpose", call.operand(0), perm=[int(axis) for axis in call["permutation"]])


@operator("DepthToSpace")
def depth_to_space(op: Call, x: Range) -> Range:
    """Blocks of channels moved into space."""
    split, order, result = _blocks_to_space(op, x.sizes)
    return reshape(transpose(reshape(x, split), order), result)


@depth_to_space.meaning
def _(run: Run, x: Tensor) -> Tensor:
    split, order, result = _blocks_to_space(run, tuple(x.shape))
    return x.reshape(split).permute(order).reshape(result)


def _blocks_to_space(op: Call | Run, sizes: tuple[int, ...]) -> _Blocks:
    n, c, h, w = sizes
    b = op.attribute("blocksize")
    deep = c // (b * b)
    if op.attribute("mode", "DCR") == "DCR":
        return (n, b, b, deep, h, w), (0, 3, 4, 1, 5, 2), (n, deep, h * b, w * b)
    return (n, deep, b, b, h, w), (0, 1, 4, 2, 5, 3), (n, deep, h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(op: Call, x: Range) -> Range:
    """Blocks of space moved into channels."""
    split, order, result = _space_to_blocks(op, x.sizes)
    return reshape(transpose(reshape(x, split), order), result)


@space_to_depth.meaning
def _(run: Run, x: Tensor) -> Tensor:
    split, order, result = _space_to_blocks(run, tuple(x.shape))
    return x.reshape(split).permute(order).reshape(result)


def _space_to_blocks(op: Call | Run, sizes: tuple[int, ...]) -> _Blocks:
    n, c, h, w = sizes
    b = op.attribute("blocksize")
    # ONNX SpaceToDepth-28: the place in the block is the outer part of the channel (DCR) or the inner one (CRD).
    is_outer = op.attribute("mode", "DCR") == "DCR"
    order = (0, 3, 5, 1, 2, 4) if is_outer else (0, 1, 3, 5, 2, 4)
    return (n, c, h // b, b, w // b, b), order, (n, c * b * b, h // b, w // b)
