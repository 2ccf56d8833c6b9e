"""The vocabulary that programs are described in: a description is a function over a `Builder`, which records it as steps.

A recorded program is read by interpreters: `onnx_form` writes it as an ONNX model, `torch_form` evaluates it on PyTorch,
`tensorflow_form` builds its graph with TensorFlow.
Operators bear the names that ONNX gives them. Images are [batch, channel, row, column] and kernels [out, in, row, column].
Numbers are float32, indices int64; there is no control flow: loops of a description are unrolled.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from benchmarks.zoo.initial import Initial
from tensorproof.assumptions import Domain, domain_from_json

Shape = tuple[int, ...]
Padding = Literal["same", "valid"]
#: data and label: drawn from the training set; random: drawn anew at each step; setting: chosen by whoever runs the program.
Role = Literal["data", "label", "random", "setting"]


@dataclass(frozen=True, slots=True)
class Input:
    """An input: its legal values, where they come from, and the values that the program itself starts with, if it has any."""

    name: str
    shape: Shape
    domain: Domain
    role: Role
    integer: bool = False
    start: npt.NDArray[Any] | None = None

    @property
    def is_training_data(self) -> bool:
        return self.role in ("data", "label")


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight: how it starts, and the range that training may carry it through."""

    name: str
    shape: Shape
    initial: Initial
    range: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Step:
    """One operator applied: its name is also the name of its result."""

    name: str
    operator: str
    operands: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recording:
    """A program as its description built it. Outputs map their names to the values they show."""

    inputs: dict[str, Input] = field(default_factory=dict[str, Input])
    weights: dict[str, Weight] = field(default_factory=dict[str, Weight])
    constants: dict[str, npt.NDArray[Any]] = field(default_factory=dict[str, npt.NDArray[Any]])
    steps: list[Step] = field(default_factory=list[Step])
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    shapes: dict[str, Shape] = field(default_factory=dict[str, Shape])

    def step(self, name: str) -> Step:
        (found,) = [step for step in self.steps if step.name == name]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A value of a description. Arithmetic with numbers and other tensors is recorded, too."""

    builder: Builder
    name: str
    shape: Shape

    def __add__(self, other: Operand) -> Tensor:
        return self.builder.add(self, other)

    def __radd__(self, other: float) -> Tensor:
        return self.builder.add(other, self)

    def __sub__(self, other: Operand) -> Tensor:
        return self.builder.subtract(self, other)

    def __rsub__(self, other: float) -> Tensor:
        return self.builder.subtract(other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return self.builder.multiply(self, other)

    def __rmul__(self, other: float) -> Tensor:
        return self.builder.multiply(other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        return self.builder.divide(self, other)

    def __neg__(self) -> Tensor:
        return self.builder.negative(self)

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.builder.matmul(self, other)


Operand = Tensor | float


class Builder:
    """Records what a description calls. Each operator takes a `name`; without one, it is named after itself and its scope."""

    def __init__(self) -> None:
        self.recording = Recording()
        self._scopes: list[str] = []

    @contextmanager
    def scope(self, name: str) -> Generator[None]:
        """Steps recorded inside are named `name/...`."""
        self._scopes.append(name)
        yield
        self._scopes.pop()

    # -- what a program is given and gives ---------------------------------------------------------------------------

    def input(
        self, name: str, shape: Sequence[int], domain: Any, role: Role = "data", *, integer: bool = False, start: Any = None
    ) -> Tensor:
        """An input of the whole program. `domain` is what tensorproof takes for one: a text, a pair, channels."""
        dtype = np.int64 if integer else np.float32
        values = None if start is None else np.array(start, dtype).reshape(tuple(shape))
        self.recording.inputs[name] = Input(name, tuple(shape), domain_from_json(domain, name), role, integer, values)
        return self._value(name, tuple(shape))

    def weight(self, name: str, shape: Sequence[int], initial: Initial, *, range: tuple[float, float] | None = None) -> Tensor:
        self.recording.weights[name] = Weight(name, tuple(shape), initial, initial.range() if range is None else range)
        return self._value(name, tuple(shape))

    def constant(self, values: npt.ArrayLike, *, integer: bool = False) -> Tensor:
        array = np.array(values, np.int64 if integer else np.float32)
        name = self._fresh("constant")
        self.recording.constants[name] = array
        return self._value(name, array.shape)

    def output(self, name: str, tensor: Tensor) -> None:
        self.recording.outputs[name] = tensor.name

    # -- one operand ---------------------------------------------------------------------------------------------------

    def negative(self, x: Tensor, name: str | None = None) -> Tensor:
        return self._same("Neg", x, name)

    def absolute(self, x: Tensor, name: str | None = None) -> Tensor:
        return self._same("Abs", x, name)

    def exp(self, x: Tensor, name: str | None = None) -> Tensor:
        return self._same("Exp", x, name)

    def log(self, x: Tensor, name: str | None = None) -> Tensor:
        return self._same("Log", x, name)

    def sqrt(self, x: Tensor, name: str | None = None) -> Tensor:
        return self._same("Sqrt", x, name)

    def sign(self, x: Tensor, name: str | None = None) -> Tensor:
        return self._same("Sign", x, name)

    def floor(self, x: Tensor, name: str | None = None) -> Tensor:
        return self._same("Floor", x, name)

    def relu(self, x: Tensor, name: str | None = None) -> Tensor:
        return self._same("Relu", x, name)

    def sigmoid(self, x: Tensor, name: str | None = None) -> Tensor:
        return self._same("Sigmoid", x, name)

    def tanh(self, x: Tensor, name: str | None = None) -> Tensor:
        return self._same("Tanh", x, name)

    def softplus(self, x: Tensor, name: str | None = None) -> Tensor:
        return self._same("Softplus", x, name)

    def softmax(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        return self._record("Softmax", (x,), x.shape, name, axis=axis)

    def log_softmax(self, x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
        return self._record("LogSoftmax", (x,), x.shape, name, axis=axis)

    def clip(self, x: Tensor, low: Operand | None, high: Operand | None, name: str | None = None) -> Tensor:
        """Bounds are numbers or scalars computed by the program; None leaves a side open."""
        bounds = {side: self._tensor(bound) for side, bound in (("low", low), ("high", high)) if bound is not None}
        return self._record("Clip", (x, *bounds.values()), x.shape, name, bounds=tuple(bounds))

    # -- two operands --------------------------------------------------------------------------------------------------

    def add(self, x: Operand, y: Operand, name: str | None = None) -> Tensor:
        return self._elementwise("Add", x, y, name)

    def subtract(self, x: Operand, y: Operand, name: str | None = None) -> Tensor:
        return self._elementwise("Sub", x, y, name)

    def multiply(self, x: Operand, y: Operand, name: str | None = None) -> Tensor:
        return self._elementwise("Mul", x, y, name)

    def divide(self, x: Operand, y: Operand, name: str | None = None) -> Tensor:
        return self._elementwise("Div", x, y, name)

    def matmul(self, x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
        stack = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        return self._record("MatMul", (x, y), (*stack, x.shape[-2], y.shape[-1]), name)

    # -- images --------------------------------------------------------------------------------------------------------

    def conv2d(self, x: Tensor, kernel: Tensor, stride: int = 1, padding: Padding = "same", name: str | None = None) -> Tensor:
        out, _, *window = kernel.shape
        pads, sizes = _windows(x.shape[2:], window, stride, padding)
        return self._record("Conv", (x, kernel), (x.shape[0], out, *sizes), name, stride=stride, padding=padding, pads=pads)

    def conv2d_transpose(self, x: Tensor, kernel: Tensor, stride: int, name: str | None = None) -> Tensor:
        """Each pixel spreads over a window of its own: kernels [in, out, row, column] as large as the stride."""
        sizes = [size * stride for size in x.shape[2:]]
        return self._record("ConvTranspose", (x, kernel), (x.shape[0], kernel.shape[1], *sizes), name, stride=stride)

    def max_pool(self, x: Tensor, size: int = 2, name: str | None = None) -> Tensor:
        """Windows of `size` that neither overlap nor leave the image."""
        _, sizes = _windows(x.shape[2:], (size, size), size, "valid")
        return self._record("MaxPool", (x,), (*x.shape[:2], *sizes), name, size=size)

    # -- reductions ----------------------------------------------------------------------------------------------------

    def sum(self, x: Tensor, axes: Sequence[int] | None = None, *, keep: bool = False, name: str | None = None) -> Tensor:
        return self._reduce("ReduceSum", x, axes, keep, name)

    def mean(self, x: Tensor, axes: Sequence[int] | None = None, *, keep: bool = False, name: str | None = None) -> Tensor:
        return self._reduce("ReduceMean", x, axes, keep, name)

    def maximum(self, x: Tensor, axes: Sequence[int] | None = None, *, keep: bool = False, name: str | None = None) -> Tensor:
        return self._reduce("ReduceMax", x, axes, keep, name)

    def minimum(self, x: Tensor, axes: Sequence[int] | None = None, *, keep: bool = False, name: str | None = None) -> Tensor:
        return self._reduce("ReduceMin", x, axes, keep, name)

    # -- moving elements -----------------------------------------------------------------------------------------------

    def reshape(self, x: Tensor, shape: Sequence[int], name: str | None = None) -> Tensor:
        return self._record("Reshape", (x,), tuple(shape), name, shape=tuple(shape))

    def flatten(self, x: Tensor, name: str | None = None) -> Tensor:
        """Rows of all that a sample holds."""
        return self.reshape(x, (x.shape[0], int(np.prod(x.shape[1:]))), name)

    def transpose(self, x: Tensor, order: Sequence[int] = (1, 0), name: str | None = None) -> Tensor:
        return self._record("Transpose", (x,), tuple(x.shape[axis] for axis in order), name, order=tuple(order))

    def concat(self, parts: Sequence[Tensor], axis: int, name: str | None = None) -> Tensor:
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self._record("Concat", tuple(parts), tuple(shape), name, axis=axis)

    def tile(self, x: Tensor, repeats: Sequence[int], name: str | None = None) -> Tensor:
        shape = tuple(size * count for size, count in zip(x.shape, repeats))
        return self._record("Tile", (x,), shape, name, repeats=tuple(repeats))

    def slice(self, x: Tensor, axis: int, first: int, last: int, step: int = 1, name: str | None = None) -> Tensor:
        """Elements of one axis; ends and step mean what they mean in Python."""
        shape = list(x.shape)
        shape[axis] = len(range(*slice(first, last, step).indices(x.shape[axis])))
        return self._record("Slice", (x,), tuple(shape), name, axis=axis, first=first, last=last, step=step)

    def reverse(self, x: Tensor, axis: int, name: str | None = None) -> Tensor:
        return self.slice(x, axis, -1, -x.shape[axis] - 1, -1, name)

    def to_index(self, x: Tensor, name: str | None = None) -> Tensor:
        """Whole numbers as integers."""
        return self._same("Cast", x, name)

    def gather(self, x: Tensor, indices: Tensor, axis: int, name: str | None = None) -> Tensor:
        """Whole slices of `x` at the indices of one axis."""
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        return self._record("Gather", (x, indices), shape, name, axis=axis)

    def pick(self, x: Tensor, indices: Tensor, axis: int, name: str | None = None) -> Tensor:
        """One element of `x` per index, at the index's own place on all other axes."""
        return self._record("GatherElements", (x, indices), indices.shape, name, axis=axis)

    def scatter_add(self, x: Tensor, indices: Tensor, size: int, name: str | None = None) -> Tensor:
        """A vector of `size` sums: each element of the vector `x` is added to the one at its index."""
        zeros = self.constant(np.zeros(size))
        return self._record("ScatterElements", (zeros, indices, x), (size,), name)

    def one_hot(self, indices: Tensor, classes: int, name: str | None = None) -> Tensor:
        return self._record("OneHot", (indices,), (*indices.shape, classes), name, classes=classes)

    # -- recording -----------------------------------------------------------------------------------------------------

    def _same(self, operator: str, x: Tensor, name: str | None) -> Tensor:
        return self._record(operator, (x,), x.shape, name)

    def _elementwise(self, operator: str, x: Operand, y: Operand, name: str | None) -> Tensor:
        left, right = self._tensor(x), self._tensor(y)
        return self._record(operator, (left, right), np.broadcast_shapes(left.shape, right.shape), name)

    def _reduce(self, operator: str, x: Tensor, axes: Sequence[int] | None, keep: bool, name: str | None) -> Tensor:
        rank = len(x.shape)
        over = tuple(range(rank)) if axes is None else tuple(axis % rank for axis in axes)
        shape = tuple(1 if axis in over else size for axis, size in enumerate(x.shape) if keep or axis not in over)
        return self._record(operator, (x,), shape, name, axes=over, keep=keep)

    def _record(self, operator: str, operands: tuple[Tensor, ...], shape: Shape, name: str | None, /, **attributes: Any) -> Tensor:
        chosen = self._fresh(operator.lower()) if name is None else "/".join([*self._scopes, name])
        self.recording.steps.append(Step(chosen, operator, tuple(operand.name for operand in operands), attributes))
        return self._value(chosen, shape)

    def _tensor(self, operand: Operand) -> Tensor:
        return operand if isinstance(operand, Tensor) else self.constant(operand)

    def _value(self, name: str, shape: Shape) -> Tensor:
        if name in self.recording.shapes:
            raise ValueError(f"two values of the program are named {name!r}")
        self.recording.shapes[name] = shape
        return Tensor(self, name, shape)

    def _fresh(self, stem: str) -> str:
        first = "/".join([*self._scopes, stem])
        name, count = first, 0
        while name in self.recording.shapes:
            count += 1
            name = f"{first}_{count}"
        return name


def _windows(sizes: Sequence[int], window: Sequence[int], stride: int, padding: Padding) -> tuple[tuple[int, ...], list[int]]:
    """Padding (top, left, bottom, right) and the number of windows. `same` is TensorFlow's: what is odd goes to the far side."""
    if padding == "valid":
        return (0,) * (2 * len(sizes)), [(size - width) // stride + 1 for size, width in zip(sizes, window)]
    counts = [-(-size // stride) for size in sizes]
    totals = [max((count - 1) * stride + width - size, 0) for count, width, size in zip(counts, window, sizes)]
    return (*(total // 2 for total in totals), *(total - total // 2 for total in totals)), counts
