"""`tf.layers`, `tf.contrib.layers` and slim: layers as functions, each of which is a layer of Keras that is called once."""

from __future__ import annotations

from collections.abc import Mapping

from tensorproof.rules.shapes.loss_target import LOSS_TARGET
from tensorproof.shapes import calls
from tensorproof.shapes.batches import meeting
from tensorproof.shapes.families.broadcasting import broadcast_dims
from tensorproof.shapes.families.tensorflow_network import class_entropy, sparse_entropy
from tensorproof.shapes.rule_table import CLASSES, Call, Mismatch, NotKnown, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, SCALAR, same_shape
from tensorproof.shapes.values import Library, NativeObject, Tensor, Value

#: `tf.layers.dense(inputs, ...)` is `keras.layers.Dense(...)(inputs)`.
_LAYERS = {
    "dense": "Dense",
    "conv1d": "Conv1D",
    "conv2d": "Conv2D",
    "conv3d": "Conv3D",
    "separable_conv2d": "SeparableConv2D",
    "conv2d_transpose": "Conv2DTranspose",
    "max_pooling1d": "MaxPooling1D",
    "max_pooling2d": "MaxPooling2D",
    "max_pooling3d": "MaxPooling3D",
    "average_pooling1d": "AveragePooling1D",
    "average_pooling2d": "AveragePooling2D",
    "average_pooling3d": "AveragePooling3D",
    "flatten": "Flatten",
    "dropout": "Dropout",
    "batch_normalization": "BatchNormalization",
}
#: What Keras does not know of these: names, and how they are shared and trained.
_NOT_OF_KERAS = frozenset({"reuse", "name", "trainable", "training", "scope"})


def apply_once(call: Call, name: str, inputs: Tensor, arguments: tuple[Value, ...], options: Mapping[str, Value]) -> Value:
    """A layer of Keras that is made and called at one place. Its weights are variables without a name."""
    cls = CLASSES[f"keras.layers.{name}"]
    layer = NativeObject(cls, call.place)
    call.run.graph.forget_variables()
    if not calls.construct_native(call.run, call.place, cls, layer, arguments, options):
        return inputs.with_shape(ANY_SHAPE)
    result = calls.call_native(call.run, call.place, layer, "__call__", (inputs,), {})
    return result if isinstance(result, Tensor) else inputs.with_shape(ANY_SHAPE)


@shape_rule(*(f"tf.layers.{name}" for name in _LAYERS))
def layer(call: Call, inputs: Tensor, *arguments: Value, **options: Value) -> Value:
    """A layer as a function."""
    kept = {name: value for name, value in options.items() if name not in _NOT_OF_KERAS}
    if isinstance(kept.get("padding"), str):
        kept["padding"] = str(kept["padding"]).lower()
    return apply_once(call, _LAYERS[call.name.rpartition(".")[2]], inputs, arguments, kept)


def _places(names: str) -> tuple[str, ...]:
    return tuple(f"tf.contrib.{place}.{name}" for place in ("layers", "slim") for name in names.split())


def _padding(value: Value) -> Value:
    return value.lower() if isinstance(value, str) else value


@shape_rule(*_places("fully_connected linear"))
def fully_connected(call: Call, inputs: Tensor, num_outputs: Value, *further: Value, **options: Value) -> Value:
    """A dense layer."""
    return apply_once(call, "Dense", inputs, (num_outputs,), {})


@shape_rule(*_places("conv2d convolution2d"))
def contrib_convolution(
    call: Call, inputs: Tensor, num_outputs: Value, kernel_size: Value, stride: Value = 1, padding: Value = "SAME", *further: Value,
    **options: Value,
) -> Value:  # fmt: skip
    """A convolution, padded unless it is said otherwise."""
    return apply_once(call, "Conv2D", inputs, (num_outputs, kernel_size), {"strides": stride, "padding": _padding(padding)})


@shape_rule(*_places("max_pool2d avg_pool2d"))
def contrib_pool(
    call: Call, inputs: Tensor, kernel_size: Value, stride: Value = 2, padding: Value = "VALID", *further: Value, **options: Value
) -> Value:
    """A pool with a stride of two."""
    kind = "MaxPooling2D" if "max" in call.name else "AveragePooling2D"
    return apply_once(call, kind, inputs, (kernel_size,), {"strides": stride, "padding": _padding(padding)})


@shape_rule(*_places("flatten"))
def contrib_flatten(call: Call, inputs: Tensor, *further: Value, **options: Value) -> Value:
    """All axes but the first as one."""
    return apply_once(call, "Flatten", inputs, (), {})


@shape_rule(*_places("batch_norm dropout layer_norm"))
def contrib_same(call: Call, inputs: Tensor, *further: Value, **options: Value) -> Tensor:
    """The same shape."""
    call.run.graph.forget_variables()
    return inputs.with_shape(inputs.shape)


# -- losses of version 1 ----------------------------------------------------------------------------------------------

_ELEMENTWISE = ("mean_squared_error", "absolute_difference", "huber_loss", "log_loss", "hinge_loss")


def _reduced(loss: Tensor, options: Mapping[str, Value]) -> Tensor:
    """One number, unless nothing is added up."""
    reduction = options.get("reduction")
    kept = isinstance(reduction, Library) and reduction.path.endswith("NONE")
    return loss if kept or reduction == "none" else loss.with_shape(SCALAR)


@shape_rule(*(f"tf.losses.{name}" for name in _ELEMENTWISE))
def elementwise_loss(call: Call, labels: Tensor, predictions: Tensor, *further: Value, **options: Value) -> Tensor:
    """Labels and predictions have the same shape."""
    result = predictions.with_shape(predictions.shape)
    if not meeting(call, labels, predictions) and same_shape(labels.shape, predictions.shape) is False:
        if not call.is_tf1:
            return predictions.with_shape(ANY_SHAPE)
        message = f"{call.name} of labels {labels.shape} and predictions {predictions.shape}: both need the same shape"
        raise Mismatch(LOSS_TARGET, message, result=_reduced(result, options), tensors=(labels, predictions))
    return _reduced(result, options) if call.is_tf1 else predictions.with_shape(ANY_SHAPE)


@shape_rule("tf.losses.softmax_cross_entropy", "tf.losses.sigmoid_cross_entropy")
def class_loss(call: Call, labels: Value = None, logits: Value = None, *further: Value, **options: Value) -> Tensor:
    """Labels of the shape of the logits; one number."""
    given = labels if labels is not None else options.get("onehot_labels", options.get("multi_class_labels"))
    if not isinstance(given, Tensor) or not isinstance(logits, Tensor):
        raise NotKnown
    if "softmax" in call.name:
        if broadcast_dims(given.shape, logits.shape) is not None and same_shape(given.shape, logits.shape) is False:
            message = f"{call.name} of labels {given.shape} and logits {logits.shape}: both need the same shape"
            raise Mismatch(LOSS_TARGET, message, result=logits.with_shape(SCALAR), tensors=(given, logits))
        return _reduced(class_entropy(call, given, logits), options)
    if not meeting(call, given, logits) and same_shape(given.shape, logits.shape) is False:
        message = f"{call.name} of labels {given.shape} and logits {logits.shape}: both need the same shape"
        raise Mismatch(LOSS_TARGET, message, result=logits.with_shape(SCALAR), tensors=(given, logits))
    return _reduced(logits.with_shape(logits.shape), options)


@shape_rule("tf.losses.sparse_softmax_cross_entropy")
def sparse_loss(call: Call, labels: Tensor, logits: Tensor, *further: Value, **options: Value) -> Tensor:
    """Labels are numbers of classes; a last axis of size 1 that is too much on either side is dropped."""
    surplus = None if labels.shape.rank is None or logits.shape.rank is None else logits.shape.rank - 1 - labels.shape.rank
    if surplus == -1 and labels.shape[-1] == 1:
        labels = labels.with_shape(labels.shape.without_last(1))
    elif surplus == 1 and logits.shape[-1] == 1:
        logits = logits.with_shape(logits.shape.without_last(1))
    return _reduced(sparse_entropy(call, labels, logits), options)


@shape_rule("tf.losses.get_total_loss", "tf.losses.get_regularization_loss")
def total_loss(*arguments: Value, **options: Value) -> Tensor:
    """One number."""
    return Tensor(SCALAR, "f32", "tf")


@shape_rule("tf.metrics.accuracy", "tf.metrics.mean", "tf.metrics.auc", "tf.metrics.precision", "tf.metrics.recall")
def streaming_metric(*arguments: Value, **options: Value) -> Value:
    """A value that is counted over several runs, and the operation that counts."""
    return Tensor(SCALAR, "f32", "tf"), Tensor(SCALAR, "f32", "tf")
