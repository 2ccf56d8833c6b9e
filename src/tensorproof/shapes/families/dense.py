"""Dense layers: the last axis of the input is multiplied by a matrix of weights."""

from __future__ import annotations

from tensorproof.rules.shapes.layer_features import LAYER_FEATURES
from tensorproof.shapes.families.modules import Module
from tensorproof.shapes.problems import Edit, Related
from tensorproof.shapes.rule_table import Call, Mismatch, native_class, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, is_unknown, same
from tensorproof.shapes.values import NativeObject, Tensor, Value


def dense(input: Tensor, features: Size, units: Size, related: tuple[Related, ...] = (), edits: tuple[Edit, ...] = ()) -> Tensor:
    """The input with its last axis replaced; it has to have `features` elements."""
    shape = input.shape
    result = input.with_shape(shape.without_last(1).extended(units))
    if shape.rank == 0 or same(shape[-1], features) is False:
        wanted = "" if shape.rank == 0 or is_unknown(shape[-1]) else f"; in_features should be {shape[-1]}"
        message = f"the layer takes {features} features, but its input {shape} has {shape[-1] if shape.rank else 'none'}{wanted}"
        raise Mismatch(LAYER_FEATURES, message, result=result, tensors=(input,), related=related, edits=edits)
    return result


@native_class("torch.nn.Linear")
class Linear(Module):
    """`nn.Linear`."""

    in_features: Size
    out_features: Size
    bias: Value = True
    device: Value = None
    dtype: Value = None

    @property
    def weight(self) -> Tensor:
        return Tensor(Shape((self.out_features, self.in_features)), "f32", "torch", kind="parameter")

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        place = call.receiver.place if isinstance(call.receiver, NativeObject) else call.place
        return dense(input, self.in_features, self.out_features, (Related(place, "the layer is made here"),))


@shape_rule("torch.nn.functional.linear")
def linear(input: Tensor, weight: Tensor, bias: Value = None) -> Tensor:
    """`F.linear`: the weight is stored as (out, in)."""
    return dense(input, weight.shape[-1], weight.shape[0])
