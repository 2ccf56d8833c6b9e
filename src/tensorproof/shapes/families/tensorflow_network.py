"""Functions of `tf.nn` besides windows: biases, normalisation, losses of classes."""

from __future__ import annotations

from tensorproof.rules.shapes.layer_features import LAYER_FEATURES
from tensorproof.rules.shapes.loss_broadcast import LOSS_BROADCAST
from tensorproof.rules.shapes.loss_target import LOSS_TARGET
from tensorproof.rules.shapes.not_broadcastable import NOT_BROADCASTABLE
from tensorproof.rules.shapes.single_class import SINGLE_CLASS
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.batches import meeting
from tensorproof.shapes.families.axis_numbers import resolved_axis
from tensorproof.shapes.families.broadcasting import broadcast, stretched
from tensorproof.shapes.families.matrix_products import product
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_tensor, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, SCALAR, Shape, same_shape
from tensorproof.shapes.sizes import Size, same, unknown
from tensorproof.shapes.sizes import product as sizes_product
from tensorproof.shapes.values import Tensor, Unknown, Value

# -- biases and normalisation -----------------------------------------------------------------------------------------


def biased(value: Tensor, bias: Tensor, axis: int = -1) -> Tensor:
    """A bias for each channel."""
    result = value.with_shape(value.shape)
    if bias.shape.rank not in (None, 1) or (value.shape.rank is not None and value.shape.rank < 2):
        message = f"a bias of one axis is added to a tensor of at least two: {bias.shape} and {value.shape}"
        raise Mismatch(WRONG_RANK, message, result=result, tensors=(value, bias))
    if bias.shape.least_rank and same(value.shape[axis], bias.shape[-1]) is False:
        message = f"the bias {bias.shape} does not fit the {value.shape[axis]} channels of {value.shape}"
        raise Mismatch(NOT_BROADCASTABLE, message, result=result, tensors=(value, bias))
    return result


@shape_rule("tf.nn.bias_add")
def bias_add(value: Tensor, bias: Tensor, data_format: Value = None, name: Value = None) -> Tensor:
    """A bias for each channel, which is the last axis or the second."""
    return biased(value, bias, 1 if isinstance(data_format, str) and data_format.startswith("NC") else -1)


@shape_rule("tf.nn.xw_plus_b", "tf.nn.relu_layer")
def affine(x: Tensor, weights: Tensor, biases: Tensor, name: Value = None) -> Tensor:
    """`x @ weights + biases`."""
    return biased(product(x, weights), biases)


@shape_rule("tf.nn.batch_normalization")
def batch_normalization(
    call: Call, x: Tensor, mean: Tensor, variance: Tensor, offset: Tensor | None, scale: Tensor | None, variance_epsilon: Value,
    name: Value = None,
) -> Tensor:  # fmt: skip
    """`(x - mean) / deviation * scale + offset`, element by element."""
    result = x
    for part in (scale, variance, mean, offset):
        if part is not None:
            result = broadcast(call, result, part)
    return x.with_shape(result.shape)


@shape_rule("tf.nn.lrn", "tf.nn.local_response_normalization")
def response_normalization(call: Call, input: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """Images normalised over their channels."""
    if input.shape.rank not in (None, 4):
        raise Mismatch(WRONG_RANK, f"{call.name} takes an input of 4 axes, not {input.shape}", tensors=(input,))
    return input.with_shape(input.shape)


@shape_rule("tf.nn.l2_loss")
def half_square(t: Tensor, name: Value = None) -> Tensor:
    """Half of the sum of squares."""
    return t.with_shape(SCALAR)


@shape_rule("tf.nn.log_poisson_loss")
def log_poisson_loss(
    call: Call, targets: Tensor, log_input: Tensor, compute_full_loss: Value = False, name: Value = None
) -> Tensor:
    """One loss for each element."""
    return _of_equal(call, targets, log_input)


# -- losses -----------------------------------------------------------------------------------------------------------


def _both(call: Call, labels: Value, logits: Value) -> tuple[Tensor, Tensor]:
    """Labels and logits, which are given by name."""
    if labels is None or logits is None or isinstance(labels, Unknown) or isinstance(logits, Unknown):
        raise NotKnown
    return as_tensor(labels, call.framework), as_tensor(logits, call.framework)


def _mismatch(call: Call, labels: Tensor, logits: Tensor, advice: str, result: Shape) -> Mismatch:
    message = f"{call.name} of labels {labels.shape} and logits {logits.shape}: {advice}"
    return Mismatch(LOSS_TARGET, message, result=logits.with_shape(result), tensors=(labels, logits))


def class_entropy(call: Call, labels: Tensor, logits: Tensor, axis: int = -1) -> Tensor:
    """One loss for each row of scores; labels are rows of probabilities."""
    if logits.shape.rank == 0:
        raise _mismatch(call, labels, logits, "scores need an axis of classes", ANY_SHAPE)
    rows = _without(call, logits, axis)
    result = logits.with_shape(rows)
    if meeting(call, labels, logits):
        return result
    fits = [_fits(*pair) for pair in zip(_flat(labels.shape, axis), _flat(logits.shape, axis), strict=True)]
    if None in fits or not _keeps_rows(labels.shape, logits.shape, axis):
        raise _mismatch(call, labels, logits, _advice(labels, logits), rows)
    if False in fits:
        message = f"{call.name} of labels {labels.shape} and logits {logits.shape}: the labels are stretched; are they one-hot?"
        call.warn(LOSS_BROADCAST, message, tensors=(labels, logits))
    elif logits.shape.least_rank and logits.shape[axis if logits.shape.rank is not None else -1] == 1:
        message = (
            f"{call.name} of logits {logits.shape} has one class: the loss is always zero; use sigmoid_cross_entropy_with_logits"
        )
        call.warn(SINGLE_CLASS, message, tensors=(logits,))
    return result


def _flat(shape: Shape, axis: int) -> tuple[Size, Size]:
    """Rows and classes: all other axes are one."""
    if shape.rank is None:
        return unknown(), shape[-1] if axis == -1 and shape.least_rank else unknown()
    if shape.rank == 0 or not -shape.rank <= axis < shape.rank:
        return 1, 1
    position = axis % shape.rank
    return sizes_product(size for place, size in enumerate(shape.dims) if place != position), shape.dims[position]


def _fits(left: Size, right: Size) -> bool | None:
    """Whether two sizes are equal, or one of them is stretched (False), or neither (None)."""
    if stretched(left, right) is None:
        return None
    return same(left, right) is not False


def _keeps_rows(labels: Shape, logits: Shape, axis: int) -> bool:
    """Whether there are as many losses as rows of scores."""
    rows = _flat(logits, axis)[0]
    both = stretched(_flat(labels, axis)[0], rows)
    return both is None or same(both, rows) is not False


def _without(call: Call, logits: Tensor, axis: int) -> Shape:
    position = resolved_axis(call, logits, axis)
    if logits.shape.rank is None:
        return logits.shape.without_last(1) if axis == -1 and logits.shape.least_rank else ANY_SHAPE
    return Shape((*logits.shape.dims[:position], *logits.shape.dims[position + 1 :]))


def _advice(labels: Tensor, logits: Tensor) -> str:
    if labels.shape.rank == 2 and logits.shape.rank == 2 and same(labels.shape[0], logits.shape[1]) is not False:
        return "both need the same shape; is one of them transposed?"
    if labels.shape.rank == 1:
        return "both need the same shape; integer labels need sparse_softmax_cross_entropy_with_logits or one_hot"
    return "both need the same shape"


@shape_rule("tf.nn.softmax_cross_entropy_with_logits", "tf.nn.softmax_cross_entropy_with_logits_v2")
def softmax_cross_entropy(call: Call, *arguments: Value, **keywords: Value) -> Tensor:
    """Labels, logits and axis; in version 1 they have to be given by name."""
    given = arguments[1:] if call.is_tf1 and arguments and arguments[0] is None else arguments
    named = dict(zip(("labels", "logits", "axis"), given, strict=False))
    options = {**named, **keywords}
    labels, logits = _both(call, options.get("labels"), options.get("logits"))
    axis = options.get("axis", options.get("dim", -1))
    if axis is None:
        axis = -1
    if not isinstance(axis, int):
        raise NotKnown
    return class_entropy(call, labels, logits, axis)


def sparse_entropy(call: Call, labels: Tensor, logits: Tensor) -> Tensor:
    """One loss for each row of scores; labels are numbers of classes."""
    if logits.shape.rank == 0:
        raise _mismatch(call, labels, logits, "scores need an axis of classes", ANY_SHAPE)
    rows = logits.shape.without_last(1) if logits.shape.rank is not None or logits.shape.least_rank else ANY_SHAPE
    result = logits.with_shape(rows)
    if meeting(call, labels, logits):
        return result
    if same_shape(labels.shape, rows) is False:
        advice = f"labels are numbers of classes, of the shape {rows}"
        if same_shape(labels.shape, logits.shape) is not False:
            advice += "; one-hot labels need softmax_cross_entropy_with_logits"
        elif labels.shape.rank == logits.shape.rank and labels.shape[-1] == 1:
            advice += "; squeeze the last axis of the labels"
        raise _mismatch(call, labels, logits, advice, rows)
    if logits.shape.least_rank and logits.shape[-1] == 1:
        call.warn(SINGLE_CLASS, f"{call.name} of logits {logits.shape} has one class: the loss is always zero", tensors=(logits,))
    return result


@shape_rule("tf.nn.sparse_softmax_cross_entropy_with_logits")
def sparse_softmax_cross_entropy(call: Call, *arguments: Value, **keywords: Value) -> Tensor:
    """Labels and logits; in version 1 they have to be given by name."""
    given = arguments[1:] if call.is_tf1 and arguments and arguments[0] is None else arguments
    options = {**dict(zip(("labels", "logits"), given, strict=False)), **keywords}
    return sparse_entropy(call, *_both(call, options.get("labels"), options.get("logits")))


def _of_equal(call: Call, labels: Tensor, logits: Tensor) -> Tensor:
    """One loss for each element; both have the same shape."""
    result = logits.with_shape(logits.shape)
    if not meeting(call, labels, logits) and same_shape(labels.shape, logits.shape) is False:
        raise _mismatch(call, labels, logits, "both need the same shape", logits.shape)
    return result


@shape_rule("tf.nn.sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy(call: Call, *arguments: Value, **keywords: Value) -> Tensor:
    """One loss for each element; both have the same shape."""
    given = arguments[1:] if call.is_tf1 and arguments and arguments[0] is None else arguments
    options = {**dict(zip(("labels", "logits"), given, strict=False)), **keywords}
    return _of_equal(call, *_both(call, options.get("labels"), options.get("logits")))


@shape_rule("tf.nn.weighted_cross_entropy_with_logits")
def weighted_cross_entropy(
    call: Call, labels: Value = None, logits: Value = None, pos_weight: Value = None, name: Value = None, targets: Value = None
) -> Tensor:
    """One loss for each element, with a weight for those of the class."""
    both = _both(call, labels if targets is None else targets, logits)
    result = _of_equal(call, *both)
    if pos_weight is not None and not isinstance(pos_weight, Unknown):
        result = broadcast(call, result, as_tensor(pos_weight, "tf"))
    return result


@shape_rule("tf.nn.nce_loss", "tf.nn.sampled_softmax_loss")
def sampled_loss(
    call: Call, weights: Value, biases: Value, labels: Tensor, inputs: Tensor, num_sampled: Value, num_classes: Value,
    *options: Value, **keywords: Value,
) -> Tensor:  # fmt: skip
    """One loss for each row; rows have as many features as the weights of a class."""
    rows = (
        Shape((inputs.shape[0],)) if inputs.shape.rank == 2 else Shape((labels.shape[0],)) if labels.shape.rank == 2 else ANY_SHAPE
    )
    result = inputs.with_shape(rows)
    if isinstance(weights, Tensor) and weights.shape.rank == 2 and inputs.shape.rank == 2:
        wanted = weights.shape[-1]
        if same(wanted, inputs.shape[-1]) is False:
            message = f"the weights {weights.shape} take {wanted} features, but the input {inputs.shape} has {inputs.shape[-1]}"
            raise Mismatch(LAYER_FEATURES, message, result=result, tensors=(weights, inputs))
    if labels.shape.rank not in (None, 2):
        raise _mismatch(call, labels, inputs, "labels are a matrix with one row for each sample", rows)
    return result
