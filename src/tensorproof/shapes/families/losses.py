"""Losses of PyTorch: which shapes of input and target belong together."""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.rules.shapes.loss_broadcast import LOSS_BROADCAST
from tensorproof.rules.shapes.loss_target import LOSS_TARGET
from tensorproof.shapes.batches import meeting
from tensorproof.shapes.families.broadcasting import broadcast_dims
from tensorproof.shapes.families.partial_batches import warn_of_partial_batch
from tensorproof.shapes.rule_table import Call, Mismatch, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, SCALAR, Shape, same_shape
from tensorproof.shapes.sizes import Size, same
from tensorproof.shapes.values import Tensor, Unknown, Value


def reduced(input: Tensor, shape: Shape, reduction: Value, reduce: Value = None) -> Tensor:
    """One number, or without a reduction one per element. The old parameter `reduce` goes before `reduction`."""
    if isinstance(reduce, bool):
        reduction = "mean" if reduce else "none"
    if isinstance(reduction, Unknown):
        return input.with_shape(ANY_SHAPE)
    return input.with_shape(shape if reduction == "none" else SCALAR)


def refuse(call: Call, message: str, result: Tensor, *tensors: Tensor) -> Tensor:
    """Report a target that does not fit, unless a reshape that multiplied the batch is to blame."""
    if len(tensors) >= 2 and meeting(call, tensors[0], tensors[1]):
        return result
    raise Mismatch(LOSS_TARGET, message, result=result, tensors=tensors)


# -- element by element -----------------------------------------------------------------------------------------------


def _is_single(shape: Shape) -> bool:
    return shape.rank is not None and all(size == 1 for size in shape.dims)


def stretched_loss(call: Call, input: Tensor, target: Tensor, reduction: Value, reduce: Value = None) -> Tensor:
    """A loss that stretches input and target to each other, which is hardly meant."""
    name = call.name.rpartition(".")[2]
    shape = broadcast_dims(input.shape, target.shape)
    if shape is None:
        message = f"{name} compares {input.shape} with a target of {target.shape}: the shapes cannot be broadcast together"
        return refuse(call, message, reduced(input, ANY_SHAPE, reduction, reduce), input, target)
    differ = same_shape(input.shape, target.shape) is False
    if differ and not _is_single(input.shape) and not _is_single(target.shape):
        message = (
            f"{name} of {input.shape} and a target of {target.shape} is computed over {shape}: "
            f"every element is stretched; give both the same shape{_squeeze(input.shape, target.shape)}"
        )
        call.warn(LOSS_BROADCAST, message, tensors=(input, target))
    warn_of_partial_batch(call, input, target)
    return reduced(input, shape, reduction, reduce)


def _squeeze(input: Shape, target: Shape) -> str:
    """The axis that one of two shapes has too much."""
    for longer, shorter, name in ((input, target, "input"), (target, input, "target")):
        if longer.rank is not None and shorter.rank == longer.rank - 1 and longer.dims[-1] == 1:
            return f" (the {name}.squeeze({longer.rank - 1}))"
    return ""


def _stretches_into(shape: Shape, target: Shape) -> bool:
    """Whether a shape may be stretched to another one, which keeps its sizes."""
    wide = broadcast_dims(shape, target)
    return wide is not None and same_shape(wide, target) is not False


def equal_loss(call: Call, input: Tensor, target: Tensor, reduction: Value, reduce: Value, weights: Sequence[Value] = ()) -> Tensor:
    """A loss that takes a target of the same shape only; weights are stretched to it."""
    name = call.name.rpartition(".")[2]
    result = reduced(input, input.shape, reduction, reduce)
    if same_shape(input.shape, target.shape) is False:
        advice = _squeeze(input.shape, target.shape)
        message = f"{name} needs a target of the shape {input.shape} of its input, not {target.shape}{advice}"
        return refuse(call, message, result, input, target)
    for weight in weights:
        if isinstance(weight, Tensor) and not _stretches_into(weight.shape, input.shape):
            message = f"{name} cannot stretch its weights {weight.shape} to {input.shape}"
            raise Mismatch(LOSS_TARGET, message, result=result, tensors=(input, weight))
    warn_of_partial_batch(call, input, target)
    return result


# -- classes ----------------------------------------------------------------------------------------------------------


def class_loss(call: Call, input: Tensor, target: Tensor, weight: Tensor | None, reduction: Value, reduce: Value) -> Tensor:
    """Scores (N, C, ...) against labels (N, ...), or (C) against one label."""
    shape, labels = input.shape, target.shape
    if shape.rank is None:
        return reduced(input, labels, reduction, reduce)
    name = call.name.rpartition(".")[2]
    result = reduced(input, labels, reduction, reduce)
    if shape.rank == 0:
        return refuse(call, f"{name} needs scores of at least one axis", result, input, target)
    wanted = Shape(()) if shape.rank == 1 else Shape((shape.dims[0], *shape.dims[2:]))
    classes = shape.dims[0 if shape.rank == 1 else 1]
    single = shape.rank == 1 and _is_single(labels) and labels.rank == 1
    if single:
        result = reduced(input, SCALAR, reduction, reduce)
    elif same_shape(labels, wanted) is False:
        advice = _label_advice(shape, labels, wanted)
        message = f"{name} of scores {shape} needs one label per element: a target of {wanted}, not {labels}{advice}"
        return refuse(call, message, result, input, target)
    _check_class_weight(name, classes, weight, input, result)
    warn_of_partial_batch(call, Tensor(wanted, history=input.history), target)
    warn_of_single_class(call, input, classes)
    return result


def _label_advice(scores: Shape, labels: Shape, wanted: Shape) -> str:
    if wanted.rank is not None and labels.rank is not None and labels.rank == wanted.rank + 1:
        if labels.rank > 1 and labels.dims[1] == 1:
            return "; squeeze(1) removes the axis"
        if labels.rank == 2 and scores.rank == 2 and same(labels.dims[1], scores.dims[1]):
            return "; argmax(1) turns one-hot rows into labels"
    if scores.rank == 3 and labels.rank == 2 and same(scores.dims[1], labels.dims[1]) and same(scores.dims[0], labels.dims[0]):
        return "; the classes belong to axis 1: transpose(1, 2), or flatten both"
    return ""


def _check_class_weight(name: str, classes: Size, weight: Tensor | None, input: Tensor, result: Tensor) -> None:
    if weight is None or weight.shape.rank is None:
        return
    if weight.shape.rank != 1 or same(weight.shape.dims[0], classes) is False:
        message = f"{name} needs one weight for each of {classes} classes, not {weight.shape}"
        raise Mismatch(LOSS_TARGET, message, result=result, tensors=(input, weight))


def warn_of_single_class(call: Call, input: Tensor, classes: Size) -> None:
    """A softmax over one class is 1 whatever the network says."""
    if classes == 1:
        message = (
            f"the scores {input.shape} have one class: their softmax is 1 and the loss 0 whatever they are; "
            "use binary_cross_entropy_with_logits"
        )
        call.warn(LOSS_BROADCAST, message, tensors=(input,))


@shape_rule("torch.nn.functional.cross_entropy")
def cross_entropy(
    call: Call,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Value = None,
    ignore_index: Value = -100,
    reduce: Value = None,
    reduction: Value = "mean",
    label_smoothing: Value = 0.0,
) -> Tensor:
    """`F.cross_entropy`: labels, or one probability per class in a target of the same shape."""
    shape = input.shape
    equal = same_shape(shape, target.shape)
    if shape.rank is None or shape.rank == 0 or equal is False:
        return class_loss(call, input, target, weight, reduction, reduce)
    if equal is None and target.shape.rank != shape.rank:
        return class_loss(call, input, target, weight, reduction, reduce)
    axis = 0 if shape.rank == 1 else 1
    result = reduced(input, Shape((*shape.dims[:axis], *shape.dims[axis + 1 :])), reduction, reduce)
    _check_class_weight("cross_entropy", shape.dims[axis], weight, input, result)
    warn_of_single_class(call, input, shape.dims[axis])
    return result


@shape_rule("torch.nn.functional.nll_loss")
def nll_loss(
    call: Call,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Value = None,
    ignore_index: Value = -100,
    reduce: Value = None,
    reduction: Value = "mean",
) -> Tensor:
    """`F.nll_loss`."""
    return class_loss(call, input, target, weight, reduction, reduce)


@shape_rule("torch.nn.functional.multi_margin_loss")
def multi_margin_loss(
    call: Call,
    input: Tensor,
    target: Tensor,
    p: Value = 1,
    margin: Value = 1.0,
    weight: Tensor | None = None,
    size_average: Value = None,
    reduce: Value = None,
    reduction: Value = "mean",
) -> Tensor:
    """`F.multi_margin_loss`: scores (N, C) or (C)."""
    shape, labels = input.shape, target.shape
    wanted = Shape(()) if shape.rank == 1 else Shape((shape.dims[0],)) if shape.rank == 2 else ANY_SHAPE
    result = reduced(input, wanted, reduction, reduce)
    single = shape.rank is not None and _is_single(Shape(shape.dims[:-1])) and _is_single(labels) and labels.rank in (0, 1)
    if shape.rank not in (None, 1, 2) or (same_shape(labels, wanted) is False and not single):
        message = f"multi_margin_loss needs scores (N, C) with labels (N), not {shape} and {labels}"
        return refuse(call, message, result, input, target)
    if shape.rank is not None:
        _check_class_weight("multi_margin_loss", shape.dims[-1], weight, input, result)
    return reduced(input, labels, reduction, reduce) if single else result


@shape_rule("torch.nn.functional.multilabel_margin_loss")
def multilabel_margin_loss(
    call: Call, input: Tensor, target: Tensor, size_average: Value = None, reduce: Value = None, reduction: Value = "mean"
) -> Tensor:
    """`F.multilabel_margin_loss`: scores and labels (N, C) or (C)."""
    shape = input.shape
    result = reduced(input, shape.without_last(1), reduction, reduce)
    single = shape.rank in (0, 1) and _is_single(shape) and _is_single(target.shape) and target.shape.rank in (0, 1)
    if not single and (shape.rank not in (None, 0, 1, 2) or same_shape(shape, target.shape) is False):
        message = f"multilabel_margin_loss needs scores and labels of one shape, (N, C), not {shape} and {target.shape}"
        return refuse(call, message, result, input, target)
    return result


@shape_rule("torch.nn.functional.multilabel_soft_margin_loss")
def multilabel_soft_margin_loss(
    call: Call,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Value = None,
    reduce: Value = None,
    reduction: Value = "mean",
) -> Tensor:
    """`F.multilabel_soft_margin_loss`: the mean over the axis that is the last one of the input."""
    result = stretched_loss(call, input, target, "none")
    shape, rank = result.shape, input.shape.rank
    if shape.rank is None or rank is None or rank == 0:
        return reduced(result, ANY_SHAPE, reduction, reduce)
    return reduced(result, Shape((*shape.dims[: rank - 1], *shape.dims[rank:])), reduction, reduce)


# -- element by element, under their names ----------------------------------------------------------------------------


@shape_rule("torch.nn.functional.mse_loss", "torch.nn.functional.l1_loss")
def difference_loss(
    call: Call,
    input: Tensor,
    target: Tensor,
    size_average: Value = None,
    reduce: Value = None,
    reduction: Value = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """`F.mse_loss` and `F.l1_loss`."""
    return stretched_loss(call, input, target, reduction, reduce)


@shape_rule("torch.nn.functional.smooth_l1_loss")
def smooth_l1_loss(
    call: Call,
    input: Tensor,
    target: Tensor,
    size_average: Value = None,
    reduce: Value = None,
    reduction: Value = "mean",
    beta: Value = 1.0,
) -> Tensor:
    """`F.smooth_l1_loss`."""
    return stretched_loss(call, input, target, reduction, reduce)


@shape_rule("torch.nn.functional.huber_loss")
def huber_loss(
    call: Call, input: Tensor, target: Tensor, reduction: Value = "mean", delta: Value = 1.0, weight: Tensor | None = None
) -> Tensor:
    """`F.huber_loss`."""
    return stretched_loss(call, input, target, reduction)


@shape_rule("torch.nn.functional.soft_margin_loss")
def soft_margin_loss(
    call: Call, input: Tensor, target: Tensor, size_average: Value = None, reduce: Value = None, reduction: Value = "mean"
) -> Tensor:
    """`F.soft_margin_loss`: only the target is stretched."""
    if not _stretches_into(target.shape, input.shape):
        message = f"soft_margin_loss cannot stretch a target of {target.shape} to its input {input.shape}"
        return refuse(call, message, reduced(input, input.shape, reduction, reduce), input, target)
    return stretched_loss(call, input, target, reduction, reduce)


@shape_rule("torch.nn.functional.kl_div")
def kl_div(
    call: Call,
    input: Tensor,
    target: Tensor,
    size_average: Value = None,
    reduce: Value = None,
    reduction: Value = "mean",
    log_target: Value = False,
) -> Tensor:
    """`F.kl_div`."""
    return stretched_loss(call, input, target, reduction, reduce)


@shape_rule("torch.nn.functional.hinge_embedding_loss")
def hinge_embedding_loss(
    call: Call,
    input: Tensor,
    target: Tensor,
    margin: Value = 1.0,
    size_average: Value = None,
    reduce: Value = None,
    reduction: Value = "mean",
) -> Tensor:
    """`F.hinge_embedding_loss`."""
    return stretched_loss(call, input, target, reduction, reduce)


@shape_rule("torch.nn.functional.poisson_nll_loss")
def poisson_nll_loss(
    call: Call,
    input: Tensor,
    target: Tensor,
    log_input: Value = True,
    full: Value = False,
    size_average: Value = None,
    eps: Value = 1e-08,
    reduce: Value = None,
    reduction: Value = "mean",
) -> Tensor:
    """`F.poisson_nll_loss`."""
    return stretched_loss(call, input, target, reduction, reduce)


@shape_rule("torch.nn.functional.binary_cross_entropy")
def binary_cross_entropy(
    call: Call,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Value = None,
    reduce: Value = None,
    reduction: Value = "mean",
) -> Tensor:
    """`F.binary_cross_entropy`."""
    return equal_loss(call, input, target, reduction, reduce, (weight,))


@shape_rule("torch.nn.functional.binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    call: Call,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Value = None,
    reduce: Value = None,
    reduction: Value = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`F.binary_cross_entropy_with_logits`."""
    return equal_loss(call, input, target, reduction, reduce, (weight, pos_weight))


@shape_rule("torch.nn.functional.gaussian_nll_loss")
def gaussian_nll_loss(
    call: Call,
    input: Tensor,
    target: Tensor,
    var: Tensor,
    full: Value = False,
    eps: Value = 1e-06,
    reduction: Value = "mean",
) -> Tensor:
    """`F.gaussian_nll_loss`: one variance per element, per row, or one."""
    result = stretched_loss(call, input, target, reduction)
    shape, spread = input.shape, var.shape
    if shape.rank is not None and spread.rank is not None and spread.rank > 0:
        rows = Shape(shape.dims[:-1])
        forms = (shape, rows, rows.extended(1))
        one_for_all = spread.rank == shape.rank and spread.dims.count(1) == 1 and _stretches_into(spread, shape)
        if not one_for_all and all(same_shape(spread, form) is False for form in forms):
            message = f"gaussian_nll_loss needs a variance of the shape {shape} or {rows.extended(1)}, not {spread}"
            raise Mismatch(LOSS_TARGET, message, result=result, tensors=(input, var))
    return result


# -- several inputs ---------------------------------------------------------------------------------------------------


def common_shape(what: str, tensors: Sequence[Tensor]) -> Shape:
    """The shape that all operands are stretched to."""
    shape = tensors[0].shape
    for tensor in tensors[1:]:
        wide = broadcast_dims(shape, tensor.shape)
        if wide is None:
            shapes = ", ".join(str(part.shape) for part in tensors)
            raise Mismatch(LOSS_TARGET, f"{what} cannot broadcast {shapes} together", tensors=tensors)
        shape = wide
    return shape


@shape_rule("torch.nn.functional.margin_ranking_loss")
def margin_ranking_loss(
    call: Call,
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: Value = 0,
    size_average: Value = None,
    reduce: Value = None,
    reduction: Value = "mean",
) -> Tensor:
    """`F.margin_ranking_loss`: all of one rank."""
    need_one_rank("margin_ranking_loss", (input1, input2, target))
    return reduced(input1, common_shape("margin_ranking_loss", (input1, input2, target)), reduction, reduce)


def need_one_rank(what: str, tensors: Sequence[Tensor]) -> None:
    """Refuse operands of several ranks."""
    ranks = {tensor.shape.rank for tensor in tensors} - {None}
    if len(ranks) > 1:
        shapes = ", ".join(str(tensor.shape) for tensor in tensors)
        raise Mismatch(LOSS_TARGET, f"{what} needs tensors of one rank, not {shapes}", tensors=tensors)


@shape_rule("torch.nn.functional.triplet_margin_loss")
def triplet_margin_loss(
    call: Call,
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: Value = 1.0,
    p: Value = 2,
    eps: Value = 1e-06,
    swap: Value = False,
    size_average: Value = None,
    reduce: Value = None,
    reduction: Value = "mean",
) -> Tensor:
    """`F.triplet_margin_loss`: distances over the last axis."""
    tensors = (anchor, positive, negative)
    need_one_rank("triplet_margin_loss", tensors)
    distances = [
        anchor.with_shape(common_shape("triplet_margin_loss", (anchor, other)).without_last(1)) for other in (positive, negative)
    ]
    return reduced(anchor, common_shape("triplet_margin_loss", distances), reduction, reduce)


@shape_rule("torch.nn.functional.cosine_embedding_loss")
def cosine_embedding_loss(
    call: Call,
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: Value = 0,
    size_average: Value = None,
    reduce: Value = None,
    reduction: Value = "mean",
) -> Tensor:
    """`F.cosine_embedding_loss`: (N, D) and (N), or (D) and one number."""
    need_one_rank("cosine_embedding_loss", (input1, input2))
    inputs = common_shape("cosine_embedding_loss", (input1, input2))
    if inputs.rank is None or target.shape.rank is None:
        return reduced(input1, target.shape, reduction, reduce)
    if target.shape.rank > 1 or inputs.rank != target.shape.rank + 1:
        message = (
            f"cosine_embedding_loss needs inputs (N, D) with a target (N), not {input1.shape}, {input2.shape} and {target.shape}"
        )
        return refuse(call, message, reduced(input1, ANY_SHAPE, reduction, reduce), input1, target)
    shape = common_shape("cosine_embedding_loss", (input1.with_shape(inputs.without_last(1)), target))
    return reduced(input1, shape, reduction, reduce)


@shape_rule("torch.nn.functional.ctc_loss")
def ctc_loss(
    log_probs: Tensor,
    targets: Value,
    input_lengths: Value,
    target_lengths: Value,
    blank: Value = 0,
    reduction: Value = "mean",
    zero_infinity: Value = False,
) -> Tensor:
    """`F.ctc_loss`: one number per sample of (T, N, C)."""
    shape = log_probs.shape
    rows = Shape((shape.dims[1],)) if shape.rank == 3 else SCALAR if shape.rank == 2 else ANY_SHAPE
    return reduced(log_probs, rows, reduction)
