"""Normalisation layers of PyTorch: which axis holds the features, and how many there have to be."""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.normalisation_features import NORMALISATION_FEATURES
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.modules import Module, correction, origin, parameter, write
from tensorproof.shapes.families.windows import flag, need_rank
from tensorproof.shapes.problems import Edit, Related
from tensorproof.shapes.rule_table import Call, Extent, Mismatch, NotKnown, as_sizes, native_class, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, is_unknown, product, same
from tensorproof.shapes.values import Tensor, Value


def unchanged(input: Tensor) -> Tensor:
    """A new tensor of the same shape."""
    return input.with_shape(input.shape, new_axes=input.new_axes)


def check_features(
    input: Tensor,
    axis: int,
    features: Size,
    parameter: str = "the number of features",
    related: tuple[Related, ...] = (),
    edits: tuple[Edit, ...] = (),
) -> None:
    """One axis of the input has to have as many elements as the layer has features."""
    found = input.shape[axis]
    if same(found, features) is False:
        advice = "" if is_unknown(found) else f"; {parameter} should be {found}"
        if input.shape.rank == 3 and features == input.shape[-1] and axis == 1:
            advice += ", or transpose(1, 2) brings the features to axis 1"
        message = f"the normalisation has {features} features, but its input {input.shape} has {found} at axis {axis}{advice}"
        raise Mismatch(NORMALISATION_FEATURES, message, result=unchanged(input), tensors=(input,), related=related, edits=edits)


def need_several_values(input: Tensor, sizes: Sequence[Size], related: tuple[Related, ...] = ()) -> None:
    """Statistics need more than one value."""
    if product(sizes) == 1:
        message = f"the input {input.shape} has one value for each of its statistics: there is nothing to normalise by"
        raise Mismatch(NORMALISATION_FEATURES, message, result=unchanged(input), tensors=(input,), related=related)


def need_least_rank(input: Tensor, least: int, what: str, related: tuple[Related, ...] = ()) -> None:
    """Refuse an input that has fewer axes for certain."""
    if input.shape.rank is not None and input.shape.rank < least:
        message = f"{what} takes an input of at least {least} axes, not {input.shape}"
        raise Mismatch(WRONG_RANK, message, result=unchanged(input), tensors=(input,), related=related)


def check_elements(input: Tensor, axis: int, *vectors: Value) -> None:
    """Scale, shift and statistics have one element per feature."""
    for vector in vectors:
        if isinstance(vector, Tensor) and vector.shape.elements is not None:
            check_features(input, axis, vector.shape.elements)


# -- over the batch ---------------------------------------------------------------------------------------------------


class BatchNorm(Module):
    """What `nn.BatchNorm1d`, `2d` and `3d` share."""

    dimensions = 0

    num_features: Extent
    eps: Value = 1e-05
    momentum: Value = 0.1
    affine: Value = True
    track_running_stats: Value = True
    device: Value = None
    dtype: Value = None
    bias: Value = True

    def setup(self, call: Call) -> Value:
        _make_statistics(call, self.num_features, self.affine)
        return None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        axes, related = self.dimensions, origin(call)
        ranks = (2, 3) if axes == 1 else (axes + 2,)
        need_rank(input, ranks, f"BatchNorm{axes}d", related, unchanged(input))
        return batch_normalised(call, input, self.num_features, self.affine, self.track_running_stats)


def _make_statistics(call: Call, features: Size, affine: Value) -> None:
    vector = parameter(features)
    learnt = None if flag(affine) is False else vector
    write(call, weight=learnt, bias=learnt, running_mean=vector, running_var=vector)


def batch_normalised(call: Call, input: Tensor, features: Size, affine: Value, tracked: Value) -> Tensor:
    """The features are at axis 1; only statistics or a scale know their number."""
    related = origin(call)
    if (flag(affine) or flag(tracked)) and input.shape.rank != 1:
        check_features(input, 1, features, "num_features", related, correction(call, "num_features", input.shape[1]))
    if flag(tracked) is False and input.shape.rank is not None:
        need_several_values(input, (input.shape[0], *input.shape.dims[2:]), related)
    return unchanged(input)


@native_class("torch.nn.BatchNorm1d")
class BatchNorm1d(BatchNorm):
    """`nn.BatchNorm1d`."""

    dimensions = 1


@native_class("torch.nn.BatchNorm2d")
class BatchNorm2d(BatchNorm):
    """`nn.BatchNorm2d`."""

    dimensions = 2


@native_class("torch.nn.BatchNorm3d")
class BatchNorm3d(BatchNorm):
    """`nn.BatchNorm3d`."""

    dimensions = 3


@native_class("torch.nn.SyncBatchNorm")
class SyncBatchNorm(Module):
    """`nn.SyncBatchNorm`, over any number of axes."""

    num_features: Extent
    eps: Value = 1e-05
    momentum: Value = 0.1
    affine: Value = True
    track_running_stats: Value = True
    process_group: Value = None
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        _make_statistics(call, self.num_features, self.affine)
        return None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        need_least_rank(input, 2, "SyncBatchNorm", origin(call))
        return batch_normalised(call, input, self.num_features, self.affine, self.track_running_stats)


@shape_rule("torch.nn.functional.batch_norm")
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: Value = False,
    momentum: Value = 0.1,
    eps: Value = 1e-05,
) -> Tensor:
    """`F.batch_norm`."""
    need_least_rank(input, 2, "batch_norm")
    if flag(training) and input.shape.rank is not None:
        need_several_values(input, (input.shape[0], *input.shape.dims[2:]))
    check_elements(input, 1, running_mean, running_var, weight, bias)
    return unchanged(input)


# -- over each sample -------------------------------------------------------------------------------------------------


class InstanceNorm(Module):
    """What `nn.InstanceNorm1d`, `2d` and `3d` share."""

    dimensions = 0

    num_features: Extent
    eps: Value = 1e-05
    momentum: Value = 0.1
    affine: Value = False
    track_running_stats: Value = False
    device: Value = None
    dtype: Value = None
    bias: Value = True

    def setup(self, call: Call) -> Value:
        vector = parameter(self.num_features) if flag(self.affine) else None
        write(call, weight=vector, bias=vector)
        return None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        axes, related = self.dimensions, origin(call)
        need_rank(input, (axes + 1, axes + 2), f"InstanceNorm{axes}d", related, unchanged(input))
        position = -axes - 1
        if flag(self.affine) or flag(self.track_running_stats):
            edits = correction(call, "num_features", input.shape[position])
            check_features(input, position, self.num_features, "num_features", related, edits)
        if flag(self.track_running_stats) is False and input.shape.rank is not None:
            need_several_values(input, input.shape.last(axes), related)
        return unchanged(input)


@native_class("torch.nn.InstanceNorm1d")
class InstanceNorm1d(InstanceNorm):
    """`nn.InstanceNorm1d`."""

    dimensions = 1


@native_class("torch.nn.InstanceNorm2d")
class InstanceNorm2d(InstanceNorm):
    """`nn.InstanceNorm2d`."""

    dimensions = 2


@native_class("torch.nn.InstanceNorm3d")
class InstanceNorm3d(InstanceNorm):
    """`nn.InstanceNorm3d`."""

    dimensions = 3


@shape_rule("torch.nn.functional.instance_norm")
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: Value = True,
    momentum: Value = 0.1,
    eps: Value = 1e-05,
) -> Tensor:
    """`F.instance_norm`."""
    if flag(use_input_stats) and input.shape.rank is not None:
        need_several_values(input, input.shape.dims[2:])
    need_least_rank(input, 2, "instance_norm")
    check_elements(input, 1, running_mean, running_var, weight, bias)
    return unchanged(input)


@native_class("torch.nn.GroupNorm")
class GroupNorm(Module):
    """`nn.GroupNorm`."""

    num_groups: Extent
    num_channels: Extent
    eps: Value = 1e-05
    affine: Value = True
    device: Value = None
    dtype: Value = None
    bias: Value = True

    def setup(self, call: Call) -> Value:
        groups, channels = self.num_groups, self.num_channels
        if isinstance(groups, int) and isinstance(channels, int) and (groups <= 0 or channels % groups):
            raise Mismatch(NORMALISATION_FEATURES, f"num_channels {channels} cannot be divided into {groups} groups")
        vector = None if flag(self.affine) is False else parameter(channels)
        write(call, weight=vector, bias=vector)
        return None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        need_least_rank(input, 2, "GroupNorm", origin(call))
        if flag(self.affine):
            edits = correction(call, "num_channels", input.shape[1])
            check_features(input, 1, self.num_channels, "num_channels", origin(call), edits)
        return group_normalised(input, self.num_groups, origin(call))


def group_normalised(input: Tensor, groups: Size, related: tuple[Related, ...] = ()) -> Tensor:
    """The channels at axis 1 are divided among the groups."""
    channels = input.shape[1]
    if isinstance(channels, int) and isinstance(groups, int) and (groups <= 0 or channels % groups):
        message = f"the {channels} channels of {input.shape} cannot be divided into {groups} groups"
        raise Mismatch(NORMALISATION_FEATURES, message, result=unchanged(input), tensors=(input,), related=related)
    if input.shape.rank is not None:
        need_several_values(input, (input.shape[0] * channels // groups, *input.shape.dims[2:]), related)
    return unchanged(input)


@shape_rule("torch.nn.functional.group_norm", "torch.group_norm")
def group_norm(
    input: Tensor, num_groups: Extent, weight: Tensor | None = None, bias: Tensor | None = None, eps: Value = 1e-05
) -> Tensor:
    """`F.group_norm`."""
    need_least_rank(input, 2, "group_norm")
    check_elements(input, 1, weight, bias)
    return group_normalised(input, num_groups)


# -- over the last axes -----------------------------------------------------------------------------------------------


def layer_normalised(
    input: Tensor, sizes: tuple[Size, ...], related: tuple[Related, ...] = (), edits: tuple[Edit, ...] = ()
) -> Tensor:
    """The last axes of the input have to be those that the layer normalises."""
    need_least_rank(input, len(sizes), "a normalisation over " + str(Shape(sizes)), related)
    last = input.shape.last(len(sizes))
    if any(same(found, wanted) is False for found, wanted in zip(last, sizes, strict=True)):
        message = f"the layer normalises over {Shape(sizes)}, but its input {input.shape} ends with {Shape(last)}"
        raise Mismatch(NORMALISATION_FEATURES, message, result=unchanged(input), tensors=(input,), related=related, edits=edits)
    return unchanged(input)


@native_class("torch.nn.LayerNorm")
class LayerNorm(Module):
    """`nn.LayerNorm`."""

    normalized_shape: Value
    eps: Value = 1e-05
    elementwise_affine: Value = True
    bias: Value = True
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        sizes = as_sizes(self.normalized_shape)
        learnt = None if flag(self.elementwise_affine) is False else parameter(*sizes)
        write(call, normalized_shape=sizes, weight=learnt, bias=learnt if flag(self.bias) else None)
        return None

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        if not isinstance(self.normalized_shape, tuple):
            raise NotKnown
        edits = correction(call, "normalized_shape", input.shape[-1]) if input.shape.rank != 0 else ()
        return layer_normalised(input, as_sizes(self.normalized_shape), origin(call), edits)


@native_class("torch.nn.RMSNorm")
class RMSNorm(Module):
    """`nn.RMSNorm`."""

    normalized_shape: Value
    eps: Value = None
    elementwise_affine: Value = True
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        sizes = as_sizes(self.normalized_shape)
        write(call, normalized_shape=sizes, weight=None if flag(self.elementwise_affine) is False else parameter(*sizes))
        return None

    def __call__(self, call: Call, x: Tensor) -> Tensor:
        if not isinstance(self.normalized_shape, tuple):
            raise NotKnown
        edits = correction(call, "normalized_shape", x.shape[-1]) if x.shape.rank != 0 else ()
        return layer_normalised(x, as_sizes(self.normalized_shape), origin(call), edits)


@shape_rule("torch.nn.functional.layer_norm", "torch.layer_norm")
def layer_norm(
    input: Tensor,
    normalized_shape: Value,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: Value = 1e-05,
    cudnn_enable: Value = True,
) -> Tensor:
    """`F.layer_norm`."""
    return _functional(input, normalized_shape, weight, bias)


@shape_rule("torch.nn.functional.rms_norm", "torch.rms_norm")
def rms_norm(input: Tensor, normalized_shape: Value, weight: Tensor | None = None, eps: Value = None) -> Tensor:
    """`F.rms_norm`."""
    return _functional(input, normalized_shape, weight)


def _functional(input: Tensor, normalized_shape: Value, *vectors: Tensor | None) -> Tensor:
    sizes = as_sizes(normalized_shape)
    for vector in vectors:
        if vector is not None and vector.shape.rank is not None:
            wrong = vector.shape.rank != len(sizes) or any(
                same(a, b) is False for a, b in zip(vector.shape.dims, sizes, strict=True)
            )
            if wrong:
                message = f"the scale or shift {vector.shape} is not of the shape {Shape(sizes)} that is normalised"
                raise Mismatch(NORMALISATION_FEATURES, message, result=unchanged(input), tensors=(input, vector))
    return layer_normalised(input, sizes)


# -- over neighbours --------------------------------------------------------------------------------------------------


@native_class("torch.nn.LocalResponseNorm")
class LocalResponseNorm(Module):
    """`nn.LocalResponseNorm`."""

    size: Value
    alpha: Value = 0.0001
    beta: Value = 0.75
    k: Value = 1.0

    def __call__(self, call: Call, input: Tensor) -> Tensor:
        need_least_rank(input, 3, "LocalResponseNorm", origin(call))
        return unchanged(input)


@shape_rule("torch.nn.functional.local_response_norm")
def local_response_norm(input: Tensor, size: Value, alpha: Value = 0.0001, beta: Value = 0.75, k: Value = 1.0) -> Tensor:
    """`F.local_response_norm`."""
    need_least_rank(input, 3, "local_response_norm")
    return unchanged(input)
