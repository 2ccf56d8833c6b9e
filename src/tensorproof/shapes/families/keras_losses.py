"""Losses of Keras, as functions and as objects: what they take as targets of which outputs."""

from __future__ import annotations

from typing import ClassVar

from tensorproof.rules.shapes.loss_broadcast import LOSS_BROADCAST
from tensorproof.rules.shapes.single_class import SINGLE_CLASS
from tensorproof.shapes.calls import own_method
from tensorproof.shapes.families.broadcasting import broadcast_dims
from tensorproof.shapes.families.losses import refuse
from tensorproof.shapes.rule_table import Call, native_class, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, SCALAR, Shape, same_shape
from tensorproof.shapes.values import Instance, NativeObject, Tensor, Value

Arguments = tuple[Value, ...]
Options = dict[str, Value]

#: Short names that `compile` takes, and older spellings.
ALIASES = {
    "mse": "mean_squared_error",
    "MSE": "mean_squared_error",
    "mae": "mean_absolute_error",
    "MAE": "mean_absolute_error",
    "mape": "mean_absolute_percentage_error",
    "MAPE": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error",
    "MSLE": "mean_squared_logarithmic_error",
    "bce": "binary_crossentropy",
    "BCE": "binary_crossentropy",
    "kld": "kl_divergence",
    "KLD": "kl_divergence",
    "kullback_leibler_divergence": "kl_divergence",
    "logcosh": "log_cosh",
}
#: Losses that compare element by element, those of them that first bring both sides to one rank, and those over classes.
_MATCHING = (
    "mean_squared_error mean_absolute_error mean_absolute_percentage_error mean_squared_logarithmic_error huber log_cosh "
    "cosine_similarity"
)
_PLAIN = "hinge squared_hinge kl_divergence poisson"
_EQUAL = "categorical_crossentropy binary_crossentropy"
_CLASSES = {
    "MeanSquaredError": "mean_squared_error",
    "MeanAbsoluteError": "mean_absolute_error",
    "MeanAbsolutePercentageError": "mean_absolute_percentage_error",
    "MeanSquaredLogarithmicError": "mean_squared_logarithmic_error",
    "Huber": "huber",
    "LogCosh": "log_cosh",
    "CosineSimilarity": "cosine_similarity",
    "Hinge": "hinge",
    "SquaredHinge": "squared_hinge",
    "KLDivergence": "kl_divergence",
    "Poisson": "poisson",
    "CategoricalCrossentropy": "categorical_crossentropy",
    "BinaryCrossentropy": "binary_crossentropy",
    "SparseCategoricalCrossentropy": "sparse_categorical_crossentropy",
}
NAMES = frozenset(_CLASSES.values())


def same_rank(target: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """Both with one rank, as Keras does it: a last axis of size 1 is removed, or added to a vector."""
    a, b = target.shape, output.shape
    if a.rank is None or b.rank is None or abs(a.rank - b.rank) != 1:
        return target, output
    if a.rank > b.rank:
        output, target = same_rank(output, target)
        return target, output
    if b.dims[-1] != 1:
        return target, output
    if a.rank == 1:
        return target.with_shape(a.extended(1)), output
    return target, output.with_shape(b.without_last(1))


def compared(call: Call, name: str, target: Tensor, output: Tensor, *, wrapped: bool) -> Tensor:
    """The loss of each sample. Objects and `compile` bring both sides to one rank first."""
    if wrapped or name in _MATCHING.split():
        target, output = same_rank(target, output)
    if name == "sparse_categorical_crossentropy":
        return _sparse(call, target, output)
    if name in _EQUAL.split():
        return _equal(call, name, target, output)
    shape = broadcast_dims(target.shape, output.shape)
    if shape is None:
        return _refused(call, name, target, output, f"write targets of the shape {output.shape}")
    if wrapped or name in _MATCHING.split():
        _warn_of_broadcast(call, name, target, output, shape)
    return output.with_shape(_without_last(shape))


def _without_last(shape: Shape) -> Shape:
    return ANY_SHAPE if shape.rank is None and not shape.least_rank else shape.without_last(1)


def _refused(call: Call, name: str, target: Tensor, output: Tensor, advice: str) -> Tensor:
    """Report a target that does not fit, unless a reshape that multiplied the batch is to blame."""
    message = f"{name} of targets {target.shape} and outputs {output.shape}: {advice}"
    return refuse(call, message, output.with_shape(_without_last(output.shape)), target, output)


def _warn_of_broadcast(call: Call, name: str, target: Tensor, output: Tensor, shape: Shape) -> None:
    """Targets and outputs of different shapes that are stretched to each other."""
    if same_shape(target.shape, output.shape) is False and target.shape.rank != 0 and output.shape.rank != 0:
        message = f"{name} of targets {target.shape} and outputs {output.shape} is computed on {shape}: one of them is stretched"
        call.warn(LOSS_BROADCAST, message, tensors=(target, output))


def _equal(call: Call, name: str, target: Tensor, output: Tensor) -> Tensor:
    """Cross-entropy with one target for each output."""
    if same_shape(target.shape, output.shape) is False:
        advice = "both need the same shape"
        if name == "categorical_crossentropy" and target.shape.rank in (1, 2) and target.shape[-1] != output.shape[-1]:
            advice += "; integer labels need sparse_categorical_crossentropy or to_categorical"
        return _refused(call, name, target, output, advice)
    if name == "categorical_crossentropy":
        _warn_of_single_class(call, name, output)
    return output.with_shape(_without_last(output.shape))


def _sparse(call: Call, target: Tensor, output: Tensor) -> Tensor:
    """Cross-entropy with one integer for each vector of outputs."""
    labels, scores = target.shape, output.shape
    result = output.with_shape(_without_last(scores))
    if labels.rank is not None and labels.rank == scores.rank and labels.rank > 0 and labels.dims[-1] == 1:
        labels = labels.without_last(1)
    if same_shape(labels, result.shape) is False:
        advice = f"it takes integer labels of the shape {result.shape}"
        if same_shape(target.shape, scores):
            advice += "; one-hot targets need categorical_crossentropy"
        return _refused(call, "sparse_categorical_crossentropy", target, output, advice)
    _warn_of_single_class(call, "sparse_categorical_crossentropy", output)
    return result


def _warn_of_single_class(call: Call, name: str, output: Tensor) -> None:
    receiver = output.recipe.receiver if output.recipe is not None else None
    told = isinstance(receiver, NativeObject | Instance) and receiver.slots.get("_told")
    if output.shape.least_rank and output.shape[-1] == 1 and not told:
        call.warn(SINGLE_CLASS, f"{name} of outputs {output.shape} has one class: use binary_crossentropy", tensors=(output,))


def function_name(path: str) -> str:
    """The full name of a loss function."""
    last = path.rpartition(".")[2]
    return ALIASES.get(last, last)


@shape_rule(
    *(f"keras.losses.{name}" for name in sorted(NAMES)),
    *(f"keras.metrics.{name}" for name in sorted(NAMES - {"cosine_similarity"})),
)
def loss_function(call: Call, y_true: Tensor, y_pred: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """The loss of each sample."""
    if keywords.get("axis", -1) != -1:
        return y_pred.with_shape(ANY_SHAPE)
    return compared(call, function_name(call.name), y_true, y_pred, wrapped=False)


@native_class("keras.losses.Loss")
class Loss:
    """The base of all losses: what `call` computes for each sample is averaged."""

    reduction: ClassVar[Value] = "sum_over_batch_size"
    arguments: Arguments
    options: Options

    def call(self, call: Call, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """`super().call(...)` in a subclass."""
        return self._each(call, call.name.removesuffix(".call"), y_true, y_pred)

    def _each(self, call: Call, path: str, y_true: Tensor, y_pred: Tensor) -> Tensor:
        name = _CLASSES.get(path.rpartition(".")[2])
        if name is None or self.__dict__.get("axis", -1) != -1:
            return y_pred.with_shape(ANY_SHAPE)
        return compared(call, name, y_true, y_pred, wrapped=True)

    def __call__(self, call: Call, y_true: Tensor, y_pred: Tensor, sample_weight: Value = None) -> Tensor:
        assert isinstance(call.receiver, Instance | NativeObject)
        own = own_method(call.receiver, "call")
        loss = self._each(call, call.name, y_true, y_pred) if own is None else call.run.call_at(call.place, own, (y_true, y_pred))
        if self.reduction in (None, "none"):
            return loss if isinstance(loss, Tensor) else y_pred.with_shape(ANY_SHAPE)
        return y_pred.with_shape(SCALAR if isinstance(self.reduction, str) else ANY_SHAPE)


for _name in _CLASSES:
    native_class(f"keras.losses.{_name}")(Loss)
