"""`Run`: one application of an operator to torch tensors. What an operator computes stands beside its block:

    @sqrt.meaning
    def _(run: Run, x: Tensor) -> Tensor:
        return run.torch.sqrt(x)

A meaning gets tensors (None for an operand that is left out, a list for a sequence) and gives one tensor, or a tuple where
the node has several outputs. It must be differentiable wherever the operator is. Where the true derivative is dead, a
search gets a substitute: `run.passing(value, through)` is `value` on the way forward and has the derivative of `through` on
the way back, if the run is a search; else it is `value` and nothing else.

In a search numbers that depend on the inputs stay floating, integers included: an index may come as a float64 tensor that
holds whole numbers. `run.whole(x)` makes it an integer tensor where torch wants one, and `run.formats` says what each operand
is by the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tensorproof.errors import TensorproofError
from tensorproof.formats import Format
from tensorproof.operators.table import Operator, find_operator

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from tensorproof.graph import Graph, Value


class NotExecutable(TensorproofError):
    """A node whose operator, or a use of it, has no meaning in torch."""


class Run:
    """What a meaning knows of its call: attributes, version, formats, and the state of the execution around it."""

    __slots__ = (
        "attributes",
        "body",
        "formats",
        "generator",
        "operator",
        "outputs",
        "precision",
        "search",
        "torch",
        "values",
        "version",
    )

    def __init__(
        self,
        operator: Operator,
        attributes: dict[str, Any],
        *,
        version: int,
        outputs: int,
        formats: Sequence[Format | None],
        precision: Format | None,
        search: bool,
        generator: torch.Generator,
        body: Callable[[Graph, Sequence[Any]], list[Any]],
        values: Sequence[Value],
    ) -> None:
        import torch

        self.torch = torch
        self.operator = operator
        self.attributes = attributes
        self.version = version
        #: The number of outputs that the node has.
        self.outputs = outputs
        #: The formats of the operands by the model (None where it does not say).
        self.formats = formats
        #: The format that floating numbers are computed in, whatever the model says; None: each in its own.
        self.precision = precision
        self.search = search
        self.generator = generator
        #: Runs a sub-graph on its inputs and gives its outputs.
        self.body = body
        #: The values of the model by their numbers, as it declares them.
        self.values = values

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, or the default."""
        return self.attributes.get(name, default)

    def dtype(self, format: Format) -> torch.dtype:
        """The torch dtype in which this run computes values of a format."""
        if self.precision is not None and format.is_float:
            format = self.precision
        return torch_dtype(format)

    def format(self, index: int, operand: Tensor) -> str:
        """The kind of an operand by the model: "float", "int", "bool", ...; as its dtype says where the model does not."""
        declared = self.formats[index] if index < len(self.formats) else None
        if declared is not None:
            return declared.kind
        if operand.dtype.is_floating_point:
            return "float"
        return "bool" if operand.dtype == self.torch.bool else "int"

    def passing(self, value: Tensor, through: Tensor) -> Tensor:
        """`value`, with the derivative of `through` in a search."""
        if not self.search or not through.requires_grad:
            return value
        # Zero with a derivative: the value stays exact, however large `through` is, and where it is not finite.
        return value.detach().to(through.dtype) + (through - through.detach()).nan_to_num(0.0)

    def whole(self, x: Tensor) -> Tensor:
        """A tensor of whole numbers with an integer dtype, as torch wants indices."""
        return x.detach().round().to(self.torch.int64) if x.dtype.is_floating_point else x.to(self.torch.int64)

    def integers(self, name: str, operand: Tensor | None = None) -> list[int] | None:
        """A list of integers that newer versions pass as an input and older ones as an attribute; None if left out."""
        if operand is not None:
            return [int(v) for v in self.whole(operand).reshape(-1).tolist()]
        attribute = self.attributes.get(name)
        if attribute is None:
            return None
        return [int(attribute)] if isinstance(attribute, int) else [int(v) for v in attribute]

    def apply(self, name: str, *operands: Any, domain: str = "", version: int | None = None, **attributes: Any) -> Any:
        """The meaning of another operator as a step of this one."""
        entry = find_operator(domain, name)
        assert entry is not None and entry.concrete is not None, name
        step = Run(
            entry,
            attributes,
            version=self.version if version is None else version,
            outputs=1,
            formats=(),
            precision=self.precision,
            search=self.search,
            generator=self.generator,
            body=self.body,
            values=self.values,
        )
        return entry.concrete(step, *operands)


def torch_dtype(format: Format) -> torch.dtype:
    """The torch dtype that holds a format's numbers; NotExecutable if torch has none."""
    import torch

    # Torch has hardly any arithmetic for wide integers without sign, and none for formats of less than a byte or float8.
    if format.name in ("uint16", "uint32", "uint64"):
        return torch.int64
    if format.is_float and format.bits < 16:
        return torch.float32
    if format.is_integer and format.bits < 8:
        return torch.int8 if format.low < 0 else torch.uint8
    found = getattr(torch, format.name, None)
    if not isinstance(found, torch.dtype):
        raise NotExecutable(f"torch has no format {format.name}")
    return found
