"""`AtenCall`: one ATen operator of an exported PyTorch program, as the block that stands for it sees it.

How torch spells an operator stands in the operator's own block:

    exp.aten("exp")

says that `aten.exp.default` is `Exp` on its tensors, which are first brought to the format of the result. Where arguments
differ, an adapter says what they mean:

    @softmax.aten("softmax.int", "_softmax")
    def _(call: AtenCall) -> int:
        return call.emit("Softmax", call.tensor("self"), axis=call["dim"])

Arguments go by the names of torch's own schema, defaults filled in. An adapter gives the number of the value that is the
result, or a tuple of them, and may emit as many nodes as it needs: the one that makes the result carries the program's name
for it, and all of them its source line. What an adapter does not model it refuses with `NotAnalysed`: the node is then in the
graph under its ATen name, and the report shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BY_NAME, INT64, Format
from tensorproof.frontends.conversion import Change, change_of
from tensorproof.graph import ABSENT, Dimension, Graph
from tensorproof.operators.table import spelling_of

if TYPE_CHECKING:
    import torch

#: The version of the ONNX operators that programs are translated into.
OPSET = 23

#: The most elements of a tensor that is computed while a program is read.
MOST_COMPUTED = 1 << 16

#: The domain of operators that ONNX does not have.
OWN = "tensorproof"


@dataclass(frozen=True, slots=True)
class Handle:
    """An argument that the graph computes: a tensor, or (`is_number`) a number of the program such as a size of an input.

    `format` and `shape` are those of the program's own trace; a dimension that is not fixed is None. `is_row_major` says that
    its elements fill its memory in row-major order.
    """

    number: int
    format: Format | None
    shape: tuple[Dimension, ...] | None
    is_number: bool = False
    is_row_major: bool = False


#: What makes the nodes of a sub-graph, from its inputs to its outputs.
Build = Callable[[Sequence[Handle]], Sequence[Any]]


class Emitter(Protocol):
    """Where nodes go (`tensorproof.frontends.torch_export`)."""

    def node(
        self,
        op: str,
        domain: str,
        inputs: Sequence[int],
        outputs: int,
        attributes: dict[str, Any],
        formats: Sequence[Format | None],
    ) -> tuple[int, ...]:
        """Append a node; gives the numbers of its outputs."""
        ...

    def constant(self, array: npt.NDArray[Any], change: Change | None = None) -> int:
        """A constant of the program; `change` says what its conversion to the format of the array did to it."""
        ...

    def format_of(self, number: int) -> Format | None:
        """The format of a value, where it is known."""
        ...

    def body(self, name: str, inputs: Sequence[Handle], build: Build) -> Graph:
        """A sub-graph with inputs of its own, which are as the given ones are; `build` makes its nodes and gives its outputs."""
        ...

    def inlined(self, module: Any, inputs: Sequence[Any]) -> list[Any]:
        """The nodes of a graph module in place, on the given values; gives what it returns."""
        ...


class AtenCall:
    """The arguments of one call, and the means to say it in our operators."""

    def __init__(self, name: str, arguments: Mapping[str, Any], results: Sequence[Handle], emitter: Emitter) -> None:
        #: The name of the overload without its namespace: `softmax.int`, `exp.default`.
        self.name = name
        self.arguments = arguments
        #: What the trace says about the results; their numbers are ABSENT.
        self.results = results
        self._emitter = emitter

    # -- arguments --------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        """An argument that is known while the program is read: a number, text, a list of them; None if it is left out."""
        found = self.arguments[name]
        if _is_computed(found):
            raise NotAnalysed(f"{name} of {self.name} is computed by the program")
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """The same for an argument that not all spellings have; the default also stands for None."""
        found = self[name] if name in self.arguments else None
        return default if found is None else found

    def is_given(self, name: str) -> bool:
        """Whether an argument is there and not None."""
        return self.arguments.get(name) is not None

    def handle(self, name: str) -> Handle:
        """A tensor argument with what the trace says about it."""
        found = self.arguments[name]
        if not isinstance(found, Handle):
            raise NotAnalysed(f"{name} of {self.name} is no tensor")
        return found

    def tensor(self, name: str, format: Format | None = None) -> int:
        """A tensor argument (ABSENT if it is None), brought to a format if one is given. A number becomes a constant of it."""
        found = self.arguments.get(name)
        return ABSENT if found is None else self.value(found, format)

    def rank(self, name: str) -> int:
        """The number of axes of a tensor argument."""
        shape = self.handle(name).shape
        if shape is None:
            raise NotAnalysed(f"the shape of {name} of {self.name} is not known")
        return len(shape)

    def axis(self, name: str, rank: int) -> int:
        """An argument that numbers one of so many axes, from the front."""
        number = int(self[name])
        return number + rank if number < 0 else number

    def axes(self, name: str, rank: int) -> list[int]:
        """The same for a list of them."""
        return [int(number) + rank if number < 0 else int(number) for number in self[name]]

    def tensors(self, name: str, format: Format | None = None) -> list[int]:
        """A list of tensors."""
        return [ABSENT if item is None else self.value(item, format) for item in self.arguments[name]]

    def value(self, argument: Any, format: Format | None = None) -> int:
        """A tensor or number as a value of the graph, in a format if one is given."""
        if isinstance(argument, Handle):
            return self.cast(argument.number, format) if format is not None and argument.format is not format else argument.number
        if isinstance(argument, bool | int | float):
            chosen = format or self.result.format or BY_NAME["float32"]
            number = np.asarray(argument)
            rounded = into(number, chosen)
            return self._emitter.constant(rounded, change_of(number, rounded) if chosen.is_float else None)
        raise NotAnalysed(f"an argument of {self.name} is {type(argument).__name__}")

    def promoted(self, *names: str) -> list[int]:
        """Operands in the format that torch computes in: the result's for arithmetic, the common one for comparisons."""
        arguments = [self.arguments[name] for name in names]
        format = self.result.format
        if format is None or format.kind == "bool":
            format = common_format(*arguments)
        return [self.value(argument, format) for argument in arguments]

    def sizes(self, name: str) -> int:
        """A list of sizes as a one-dimensional tensor of integers; those that the program computes included."""
        return self.integers(self.arguments[name])

    def integers(self, items: Sequence[Any]) -> int:
        """A list of whole numbers, known or computed, as a one-dimensional tensor."""
        if not any(isinstance(item, Handle) for item in items):
            return self.constant(np.array([_whole(item) for item in items], np.int64))
        parts: list[int] = []
        for item in items:
            if isinstance(item, Handle):
                one = self.constant(np.array([1], np.int64))
                parts.append(self.emit("Reshape", self.value(item, INT64), one, formats=(INT64,)))
            else:
                parts.append(self.constant(np.array([_whole(item)], np.int64)))
        return parts[0] if len(parts) == 1 else self.emit("Concat", *parts, axis=0, formats=(INT64,))

    # -- results ----------------------------------------------------------------------------------------------------

    @property
    def result(self) -> Handle:
        """What the trace says about the (first) result."""
        return self.results[0]

    def constant(self, array: npt.NDArray[Any], format: Format | None = None) -> int:
        """A constant of the program."""
        return self._emitter.constant(array if format is None else into(array, format))

    def emit(
        self,
        op: str,
        *operands: int,
        domain: str = "",
        outputs: int = 1,
        formats: Sequence[Format | None] = (),
        **attributes: Any,
    ) -> Any:
        """A node; gives the number of its output, or a tuple of numbers where it has several.

        Attributes that are None are left out, and so are operands at the end that are ABSENT.
        """
        inputs = list(operands)
        while inputs and inputs[-1] == ABSENT:
            inputs.pop()
        given = {name: value for name, value in attributes.items() if value is not None}
        made = self._emitter.node(op, domain, inputs, outputs, given, formats)
        return made[0] if outputs == 1 else made

    def own(self, op: str, *operands: int, outputs: int = 1, formats: Sequence[Format | None] = (), **attributes: Any) -> Any:
        """A node of an operator that ONNX does not have."""
        return self.emit(op, *operands, domain=OWN, outputs=outputs, formats=formats, **attributes)

    def cast(self, number: int, format: Format) -> int:
        """A value in another format."""
        if number == ABSENT or self._emitter.format_of(number) is format:
            return number
        return self.emit("Cast", number, to=format.onnx_code, formats=(format,))

    def moved(self, op: str, x: int, *operands: int, **attributes: Any) -> int:
        """A node that arranges or picks elements of its first operand, whose format it keeps."""
        return self.emit(op, x, *operands, formats=(self._emitter.format_of(x),), **attributes)

    def shape_of(self, x: int) -> int:
        """The sizes of a value as a one-dimensional tensor."""
        return self.emit("Shape", x, formats=(INT64,))

    def size(self, x: Handle, axis: int) -> int | Handle:
        """The size of an axis: a number, or what computes it where it is not fixed."""
        known = None if x.shape is None else x.shape[axis]
        if isinstance(known, int):
            return known
        position = self.constant(np.array(axis, np.int64))
        return Handle(self.emit("Gather", self.shape_of(x.number), position, axis=0, formats=(INT64,)), INT64, (), True)

    def reshaped(self, x: int, sizes: Sequence[Any]) -> int:
        """The elements of a value under another shape; a size is a number, -1 for what is left over, or computed."""
        wanted = list(sizes)
        computed = [axis for axis, size in enumerate(wanted) if isinstance(size, Handle)]
        if len(computed) == 1 and -1 not in wanted and 0 not in wanted:
            wanted[computed[0]] = -1
        return self.moved("Reshape", x, self.integers(wanted), allowzero=1 if 0 in wanted else None)

    def traced(self, sizes: Sequence[Any]) -> list[Any]:
        """Sizes that a call asks for the result, by those that the trace found where they are fixed."""
        shape = self.result.shape or (None,) * len(sizes)
        return [asked if known is None else known for asked, known in zip(sizes, shape, strict=True)]

    def result_sizes(self) -> int:
        """The shape of a new tensor: the sizes that are given, or those of the tensor that it is like."""
        if all(isinstance(size, int) for size in self.result.shape or ()):
            return self.integers(self.result.shape or ())
        return self.sizes("size") if "size" in self.arguments else self.shape_of(self.tensor("self"))

    def zeros(self) -> int:
        """Zeros in the shape of the result."""
        zero = np.zeros(1, BY_NAME["float32"].dtype)
        return self.emit("ConstantOfShape", self.result_sizes(), value=zero, formats=(BY_NAME["float32"],))

    def body(self, name: str, inputs: Sequence[Handle], build: Build) -> Graph:
        """A sub-graph; values around it can be read inside it."""
        return self._emitter.body(name, inputs, build)

    def inlined(self, name: str, inputs: Sequence[Any]) -> list[Any]:
        """The nodes of a graph module among the arguments, in place; gives what it returns."""
        return self._emitter.inlined(self.arguments[name], inputs)

    def computed(self) -> int:
        """What torch itself makes of the arguments, as a constant; for small results of arguments that are all known."""
        import torch

        shape = self.result.shape
        if shape is None or not all(isinstance(size, int) for size in shape) or self.result.format is None:
            raise NotAnalysed(f"the shape of what {self.name} makes is not fixed")
        if math.prod(int(size or 0) for size in shape) > MOST_COMPUTED:
            raise NotAnalysed(f"{self.name} makes more than {MOST_COMPUTED} elements")
        known = {name: self[name] for name in self.arguments if name not in ("device", "layout", "pin_memory")}
        name, _, overload = self.name.partition(".")
        made: torch.Tensor = getattr(getattr(torch.ops.aten, name), overload)(**known)
        return self._emitter.constant(array_of(made))

    def delegate(self, name: str, **arguments: Any) -> Any:
        """What another ATen operator would give for these arguments (all that its spelling asks for)."""
        spelled = spelling_of(name)
        if spelled is None:
            raise NotAnalysed(f"{name} has no spelling")
        return spelled.translate(AtenCall(name, arguments, self.results, self._emitter))


Adapter = Callable[[AtenCall], Any]


def plain(op: str, domain: str) -> Adapter:
    """The adapter of an operator that takes torch's tensors as they come, in the format of the result."""

    def translate(call: AtenCall) -> Any:
        names = [name for name, value in call.arguments.items() if _is_operand(name, value)]
        return call.emit(op, *call.promoted(*names), domain=domain, formats=(call.result.format,))

    return translate


def _is_operand(name: str, value: Any) -> bool:
    return isinstance(value, Handle) or (name in ("self", "other", "input", "exponent") and isinstance(value, bool | int | float))


def _is_computed(argument: Any) -> bool:
    if isinstance(argument, list | tuple):
        return any(map(_is_computed, argument))
    return isinstance(argument, Handle)


def _whole(item: Any) -> int:
    if not isinstance(item, int):
        raise NotAnalysed(f"a size is {type(item).__name__}")
    return int(item)


def common_format(*arguments: Any) -> Format:
    """The format that torch promotes operands to (`torch.result_type`)."""
    import torch

    tensors = [item for item in arguments if isinstance(item, Handle)]
    numbers = [item for item in arguments if not isinstance(item, Handle)]
    found: torch.dtype | None = None
    # Tensors of no dimension and numbers only decide if they are of a higher kind (torch's type promotion).
    ranked = [
        [dtype_of(t.format) for t in tensors if t.format is not None and t.shape != () and not t.is_number],
        [dtype_of(t.format) for t in tensors if t.format is not None and (t.shape == () or t.is_number)],
        [torch.bool if isinstance(n, bool) else torch.int64 if isinstance(n, int) else torch.get_default_dtype() for n in numbers],
    ]
    for dtypes in ranked:
        for dtype in dtypes:
            if found is None:
                found = dtype
            elif dtypes is ranked[0] or _kind(dtype) > _kind(found):
                found = torch.promote_types(found, dtype)
    return BY_NAME["float32"] if found is None else format_of(found)


def _kind(dtype: torch.dtype) -> int:
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if str(dtype) == "torch.bool" else 1


def dtype_of(format: Format) -> torch.dtype:
    """The dtype of torch with that name."""
    import torch

    return getattr(torch, format.name)


def format_of(dtype: torch.dtype) -> Format:
    """The format of a dtype of torch."""
    found = BY_NAME.get(str(dtype).removeprefix("torch."))
    if found is None:
        raise NotAnalysed(f"tensors of {dtype} are not modelled")
    return found


def array_of(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """The numbers of a tensor, in its own format and, where numpy has that, its own memory."""
    import ml_dtypes
    import torch

    tensor = tensor.detach().cpu()
    if tensor.is_sparse or tensor.is_quantized:
        tensor = tensor.dequantize() if tensor.is_quantized else tensor.to_dense()
    name = str(tensor.dtype).removeprefix("torch.")
    if name == "bfloat16":
        return tensor.contiguous().view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    if name.startswith("float8"):
        return tensor.contiguous().view(torch.uint8).numpy().view(getattr(ml_dtypes, name))
    return tensor.numpy()


def into(array: npt.NDArray[Any], format: Format) -> npt.NDArray[Any]:
    """A constant of the program as torch holds it: converted as a number, infinite where it is beyond the format."""
    if format.is_integer and array.dtype.kind == "f":
        array = np.trunc(array) if math.isfinite(float(np.max(np.abs(array), initial=0.0))) else np.zeros_like(array)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(format.dtype)
