"""Arrays made from sizes: `zeros`, `randn`, and from values: `tensor`, `array`."""

from __future__ import annotations

from tensorproof.shapes.rule_table import Call, NotKnown, as_sizes, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.values import DType, Tensor, Value, as_size


def sizes_of(arguments: tuple[Value, ...]) -> Shape:
    """Sizes as PyTorch takes them: one by one, or all in one tuple."""
    if len(arguments) == 1 and as_size(arguments[0]) is None:
        return Shape(as_sizes(arguments[0]))
    return Shape(tuple(size for argument in arguments for size in as_sizes(argument)))


def dtype_name(dtype: Value, default: str = "") -> str:
    return dtype.name if isinstance(dtype, DType) else default if dtype is None else ""


@shape_rule("torch.zeros", "torch.ones", "torch.empty", "torch.randn", "torch.rand")
def torch_filled(*size: Value, dtype: Value = None, **options: Value) -> Tensor:
    """Filled with constants or random numbers."""
    if not size and "size" in options:
        size = (options["size"],)
    return Tensor(sizes_of(size), dtype_name(dtype, "f32"), "torch")


@shape_rule("torch.tensor", "torch.as_tensor", "torch.from_numpy", "torch.Tensor", "torch.FloatTensor", "torch.LongTensor")
def torch_tensor(call: Call, data: Tensor, dtype: Value = None, **options: Value) -> Tensor:
    """From nested lists or another array."""
    if call.name.endswith("Tensor") and data.shape.rank == 0:
        raise NotKnown
    return Tensor(data.shape, dtype_name(dtype, data.dtype), "torch", content=data.content, history=data.history)
