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
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BY_NAME, Format
from tensorproof.frontends.calls import MOST_COMPUTED, Emitter, Handle, OperatorCall
from tensorproof.graph import ABSENT
from tensorproof.operators.table import spelling_of

if TYPE_CHECKING:
    import torch


class AtenCall(OperatorCall):
    """The arguments of one call, and the means to say it in our operators."""

    def __init__(self, name: str, arguments: Mapping[str, Any], results: Sequence[Handle], emitter: Emitter) -> None:
        super().__init__(name, results, emitter)
        #: By the names of torch's schema; the operator's own name has no namespace: `softmax.int`, `exp.default`.
        self.arguments = arguments

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

    # -- results ----------------------------------------------------------------------------------------------------

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

    def inlined(self, name: str, inputs: Sequence[Any]) -> list[Any]:
        """The nodes of a graph module among the arguments, in place; gives what it returns."""
        return self.called(self.arguments[name], inputs)

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

    def plain(self, op: str, domain: str) -> Any:
        """An operator that takes torch's tensors as they come, in the format of the result."""
        names = [name for name, value in self.arguments.items() if _is_operand(name, value)]
        return self.emit(op, *self.promoted(*names), domain=domain, formats=(self.result.format,))

    def delegate(self, name: str, **arguments: Any) -> Any:
        """What another ATen operator would give for these arguments (all that its spelling asks for)."""
        spelled = spelling_of(name)
        if spelled is None:
            raise NotAnalysed(f"{name} has no spelling")
        return spelled.translate(AtenCall(name, arguments, self.results, self._emitter))


def _is_operand(name: str, value: Any) -> bool:
    return isinstance(value, Handle) or (name in ("self", "other", "input", "exponent") and isinstance(value, bool | int | float))


def _is_computed(argument: Any) -> bool:
    if isinstance(argument, list | tuple):
        return any(map(_is_computed, argument))
    return isinstance(argument, Handle)


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
