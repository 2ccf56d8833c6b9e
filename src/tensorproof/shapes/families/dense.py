"""Dense layers of PyTorch: the last axis of the input is multiplied by a matrix of weights."""

from __future__ import annotations

from tensorproof.rules.shapes.layer_features import LAYER_FEATURES
from tensorproof.rules.shapes.matmul_mismatch import MATMUL_MISMATCH
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.modules import Module, correction, origin, parameter, write
from tensorproof.shapes.problems import Edit, Related
from tensorproof.shapes.rule_table import Call, Extent, Mismatch, NotKnown, native_class, shape_rule
from tensorproof.shapes.shape import Shape, same_shape
from tensorproof.shapes.sizes import Size, is_unknown, same
from tensorproof.shapes.values import Tensor, Value


def dense(
    input: Tensor,
    features: Size,
    units: Size,
    related: tuple[Related, ...] = (),
    edits: tuple[Edit, ...] = (),
    parameter: str = "in_features",
) -> Tensor:
    """The input with its last axis replaced; it has to have `features` elements."""
    shape = input.shape
    result = input.with_shape(shape.without_last(1).extended(units))
    if shape.rank == 0 or same(shape[-1], features) is False:
        wanted = "" if shape.rank == 0 or is_unknown(shape[-1]) else f"; {parameter} should be {shape[-1]}{_factors(shape)}"
        message = (
            f"the layer takes {features} features, but its input {shape} has {shape[-1] if shape.rank != 0 else 'none'}{wanted}"
        )
        raise Mismatch(LAYER_FEATURES, message, result=result, tensors=(input,), related=related, edits=edits)
    return result


def _factors(shape: Shape) -> str:
    """A word on images that nobody flattened."""
    return " (or is flatten(1) missing?)" if shape.rank is not None and shape.rank >= 3 else ""


@native_class("torch.nn.Linear")
class Linear(Module):
    """`nn.Linear`."""

    in_features: Extent
    out_features: Extent
    bias: Value = True
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        write(call, weight=parameter(self.out_features, self.in_features))
        write(call, bias=None if self.bias is False else parameter(self.out_features))
        return None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        found: tuple[Edit, ...] = () if input.shape.rank == 0 else correction(call, "in_features", input.shape[-1])
        return dense(input, self.in_features, self.out_features, origin(call), found)


@shape_rule("torch.nn.functional.linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.linear`: the weight is stored as (out, in); one of a single axis gives one number per row."""
    if weight.shape.rank not in (None, 1, 2):
        raise Mismatch(WRONG_RANK, f"linear takes weights of 1 or 2 axes, not {weight.shape}", tensors=(weight,))
    if weight.shape.rank is None:
        raise NotKnown
    if weight.shape.rank == 1:
        shape = dense(input, weight.shape[0], 1, parameter="the length of the weights").shape.without_last(1)
        return input.with_shape(shape)
    result = dense(input, weight.shape[1], weight.shape[0], parameter="the last axis of the weights")
    if bias is not None and bias.shape.rank == 1 and bias.shape[0] != 1 and same(bias.shape[0], weight.shape[0]) is False:
        message = f"the bias {bias.shape} does not fit {weight.shape[0]} outputs of the weights {weight.shape}"
        raise Mismatch(LAYER_FEATURES, message, result=result, tensors=(weight, bias))
    return result


def bilinear_form(first: Tensor, second: Tensor, sizes: tuple[Size, Size, Size], related: tuple[Related, ...] = ()) -> Tensor:
    """One number per output from two inputs, whose other axes have to be the same."""
    for input, size in ((first, sizes[1]), (second, sizes[2])):
        dense(input, size, sizes[0], related, parameter="the number of features")
    front = same_shape(first.shape.without_last(1), second.shape.without_last(1))
    if front is False:
        message = f"inputs {first.shape} and {second.shape} differ before their last axis"
        raise Mismatch(MATMUL_MISMATCH, message, tensors=(first, second), related=related)
    return first.with_shape(first.shape.without_last(1).extended(sizes[0]))


@native_class("torch.nn.Bilinear")
class Bilinear(Module):
    """`nn.Bilinear`."""

    in1_features: Extent
    in2_features: Extent
    out_features: Extent
    bias: Value = True
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        write(call, weight=parameter(self.out_features, self.in1_features, self.in2_features))
        write(call, bias=None if self.bias is False else parameter(self.out_features))
        return None

    def __call__(self, call: Call, input1: Tensor, input2: Tensor) -> Tensor:
        return bilinear_form(input1, input2, (self.out_features, self.in1_features, self.in2_features), origin(call))


@shape_rule("torch.nn.functional.bilinear", "torch.bilinear")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`F.bilinear`: the weights are stored as (out, in1, in2)."""
    if weight.shape.rank is None:
        raise NotKnown
    if weight.shape.rank != 3:
        raise Mismatch(WRONG_RANK, f"bilinear takes weights of 3 axes, not {weight.shape}", tensors=(weight,))
    out, first, second = weight.shape.dims
    if bias is not None and bias.shape.rank == 1 and same(bias.shape[0], out) is False:
        message = f"the bias {bias.shape} does not fit {out} outputs of the weights {weight.shape}"
        raise Mismatch(LAYER_FEATURES, message, tensors=(weight, bias))
    return bilinear_form(input1, input2, (out, first, second))


@shape_rule("torch.nn.Parameter", "torch.nn.parameter.Parameter", "torch.nn.Buffer", "torch.nn.parameter.Buffer")
def make_parameter(data: Tensor, requires_grad: Value = True, **options: Value) -> Tensor:
    """`nn.Parameter` and `nn.Buffer`: the tensor itself, as a part of a model."""
    return data.with_shape(data.shape, contiguous=data.contiguous, kind="parameter", new_axes=data.new_axes)
