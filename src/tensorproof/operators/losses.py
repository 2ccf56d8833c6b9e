"""Training losses over class indices, and dropout."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, INT64, Array, Format
from tensorproof.operators.arithmetic import mul, quotient_away_from
from tensorproof.operators.indexing import from_front
from tensorproof.operators.reductions import reduce_mean, reduce_sum
from tensorproof.operators.softmax import log_softmax
from tensorproof.operators.table import CORRECT, RESULT, UNDEFINED, Call, Mask, operator
from tensorproof.ranges.range import CELL_BUDGET, NAN, SPECIALS, Range
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.division_by_zero import DIVISION_BY_ZERO
from tensorproof.rules.zero_total_weight import ZERO_TOTAL_WEIGHT

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@operator(
    "NegativeLogLikelihoodLoss",
    error=CORRECT,
    overflow=ARITHMETIC_OVERFLOW,
    composed_of=(mul, reduce_sum, reduce_mean),
    hazards=(ZERO_TOTAL_WEIGHT,),
    coarse="a mean with weights that vary is bounded by the hull of the losses and by the quotient of both sums",
)
def negative_log_likelihood(op: Call, x: Range, target: Range, weight: Range | None = None) -> Range:
    """Minus the log-probability of the target's class, weighted, as it is or summed or averaged."""
    return _reduced(op, x, target, weight)


@negative_log_likelihood.meaning
def _(run: Run, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    return _loss(run, x, target, weight)


def _loss(run: Run, x: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """The loss of each target, reduced as the attribute says (ONNX NegativeLogLikelihoodLoss-13)."""
    target, ignored = run.whole(target), run.attribute("ignore_index")
    skipped = run.torch.zeros_like(target, dtype=run.torch.bool) if ignored is None else target == ignored
    # An index that is ignored may lie outside of the classes.
    index = from_front(run, target.masked_fill(skipped, 0), x.shape[1])
    loss = -x.gather(1, index.unsqueeze(1)).squeeze(1).masked_fill(skipped, 0)
    factor = (run.torch.ones_like(loss) if weight is None else weight[index]).masked_fill(skipped, 0)
    reduction = run.attribute("reduction", "mean")
    if reduction == "none":
        return loss * factor
    total = (loss * factor).sum()
    return total if reduction == "sum" else total / factor.sum()


@operator(
    "SoftmaxCrossEntropyLoss",
    error=CORRECT,
    overflow=ARITHMETIC_OVERFLOW,
    composed_of=(log_softmax, mul, reduce_sum, reduce_mean),
    hazards=(ZERO_TOTAL_WEIGHT,),
)
def softmax_cross_entropy(op: Call, scores: Range, labels: Range, weights: Range | None = None) -> tuple[Range, Range]:
    """Negative log-likelihood of a stable log-softmax along axis 1: finite wherever the scores are."""
    log_probability: Range = op.apply(log_softmax, scores, axis=1)
    return _reduced(op, log_probability, labels, weights), log_probability


@softmax_cross_entropy.meaning
def _(run: Run, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    log_probability = scores.log_softmax(1)
    return _loss(run, log_probability, labels, weights), log_probability


def _reduced(op: Call, x: Range, target: Range, weight: Range | None) -> Range:
    """The loss of each target, reduced as the attribute says (ONNX NegativeLogLikelihoodLoss-13)."""
    ignored = op.attribute("ignore_index")
    loss, factor = _picked(x, target, weight, ignored)
    reduction = op.attribute("reduction", "mean")
    terms: Range = loss if factor is None else op.apply(mul, loss, factor)
    if reduction == "none":
        return terms
    if reduction == "sum":
        return op.apply(reduce_sum, terms, keepdims=0)
    if factor is None:
        return op.apply(reduce_mean, loss, keepdims=0)
    return _weighted_mean(op, loss, factor, terms)


def _picked(x: Range, target: Range, weight: Range | None, ignored: int | None) -> tuple[Range, Range | None]:
    """Minus the element of the target's class, and its weight (None for a weight of one), in the target's shape."""
    if x.rank < 2:
        raise NotAnalysed("the scores have no axis of classes")
    sizes = x.shape
    assert sizes is not None, "a tensor of known rank has a shape"
    exact = target.integers() if target.has_known_shape and target.size <= CELL_BUDGET else None
    if exact is not None and x.has_known_shape and x.size <= CELL_BUDGET:
        return _picked_exactly(x, exact, weight, ignored)
    low, high = target.hull()
    may_ignore = ignored is not None and low <= ignored <= high
    merged = x.smash((1,))
    grid = (*x.grid[:1], *x.grid[2:])
    shape = (*sizes[:1], *sizes[2:])
    special = merged.special[:, 0] if merged.has_special else None
    bottom, top = -merged.high[:, 0], -merged.low[:, 0]
    if may_ignore:
        bottom, top = np.minimum(bottom, 0.0), np.maximum(top, 0.0)
    loss = Range(x.format, shape, grid, bottom, top, special)
    if weight is None and ignored is None:
        return loss, None
    least, most = (1.0, 1.0) if weight is None else _reachable(weight, low, high)
    return loss, Range.uniform(shape, x.format, min(least, 0.0) if may_ignore else least, most)


def _picked_exactly(
    x: Range, target: npt.NDArray[np.int64], weight: Range | None, ignored: int | None
) -> tuple[Range, Range | None]:
    low, high, special = x.expanded()
    classes = x.sizes[1]
    skipped = np.zeros(target.shape, bool) if ignored is None else target == ignored
    # An index that is ignored may lie outside of the classes (ONNX NegativeLogLikelihoodLoss-13).
    index = np.clip(np.where(skipped, 0, np.where(target < 0, target + classes, target)), 0, max(classes - 1, 0))

    def pick(array: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.take_along_axis(array, index[:, None], axis=1)[:, 0]

    bottom, top = np.where(skipped, 0.0, -pick(high)), np.where(skipped, 0.0, -pick(low))
    flags = np.take_along_axis(special, index[:, None], axis=1)[:, 0] if x.has_special else None
    loss = Range.elements(x.format, bottom, top, flags)
    if weight is None:
        if ignored is None:
            return loss, None
        ones = np.where(skipped, 0.0, 1.0)
        return loss, Range.elements(x.format, ones, ones)
    weight_low, weight_high, _ = weight.expanded()
    least, most = np.where(skipped, 0.0, weight_low[index]), np.where(skipped, 0.0, weight_high[index])
    return loss, Range.elements(x.format, least, most)


def _reachable(weight: Range, low: float, high: float) -> tuple[float, float]:
    """The hull of the weights of the classes between two indices."""
    lows, highs, _ = weight.expanded()
    first, last = int(max(low, 0.0)), int(min(high, len(lows) - 1.0)) + 1
    if first >= last:
        first, last = 0, len(lows)
    return float(lows[first:last].min()), float(highs[first:last].max())


def _weighted_mean(op: Call, loss: Range, factor: Range, terms: Range) -> Range:
    """sum(w l) / sum(w): the quotient of both sums, and inside the hull of the losses where no weight is negative."""
    numerator: Range = op.apply(reduce_sum, terms, keepdims=0)
    denominator: Range = op.apply(reduce_sum, factor, keepdims=0)
    op.report(ZERO_TOTAL_WEIGHT, RESULT, denominator, denominator.contains(0.0), gives=SPECIALS)
    tiny = denominator.format.smallest_subnormal
    # Ends that overflow was cut off at say nothing about a quotient that is evaluated in a wider accumulator.
    least = np.where(numerator.low <= numerator.format.low, -np.inf, numerator.low)
    most = np.where(numerator.high >= numerator.format.high, np.inf, numerator.high)
    low, high = quotient_away_from(tiny)(least, most, denominator.low, denominator.high)
    weights_low, _ = factor.hull()
    if weights_low >= 0 and loss.size:
        bottom, top = loss.hull()
        error = _mean_error(op, loss, max(float(denominator.low), 0.0))
        low, high = np.maximum(low, bottom - error), np.minimum(high, top + error)
    return numerator.replace(low, high, numerator.special if numerator.has_special else None)


def _mean_error(op: Call, loss: Range, total: float) -> float:
    """A bound on the rounding error of a weighted mean with weights that are not negative and sum to at least `total`.

    Both sums and the products carry a relative error of at most n u each. A product that underflows loses at most the
    smallest subnormal, which no weight that is not zero is below: relative to the total that is at most one.
    """
    accumulator = op.accumulation(loss.format)
    magnitude = float(loss.magnitude().max()) if loss.low.size else 0.0
    growth = 3.0 * np.expm1((loss.size + 2) * np.log1p(max(accumulator.unit_roundoff, loss.format.unit_roundoff)))
    lost = loss.size * loss.format.smallest_subnormal
    return growth * magnitude + (1.0 if total == 0.0 else min(1.0, lost / total))


@operator("Dropout", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, coarse="which elements are dropped is random")
def dropout(op: Call, x: Range, ratio: Range | None = None, training: Range | None = None) -> tuple[Range, Range]:
    """The identity at inference; in training each element is 0 or x / (1 - ratio) (ONNX Dropout-12)."""
    # Until version 11 the mask is not filled at inference: any value (ONNX Dropout-10).
    keeps = Range.uniform(x.shape, BOOL if op.version >= 10 else x.format, 1.0 if op.version >= 12 else 0.0, 1.0)
    if not trains(training):
        return x, keeps
    low, high = (0.5, 0.5) if ratio is None else ratio.hull()
    if high <= 0.0:
        return x, keeps
    # The runtime multiplies with 1 / (1 - ratio), itself rounded: two more roundings than one division.
    tiny = x.format.smallest_subnormal
    scale_low, scale_high = 1.0 / max(1.0 - low, tiny), 1.0 / max(1.0 - high, tiny)
    slack = 1.0 + 8.0 * x.format.unit_roundoff
    corners = (x.low * scale_low / slack, x.low * scale_high * slack, x.high * scale_low / slack, x.high * scale_high * slack)
    bottom, top = _with_zero(np.minimum.reduce(corners), np.maximum.reduce(corners))
    empty = x.low > x.high
    bottom, top = np.where(empty, 0.0, bottom), np.where(empty, 0.0, top)
    special = x.special | np.where(x.special != 0, np.uint8(NAN), np.uint8(0)) if x.has_special else None
    result = x.replace(bottom, top, special)
    never = training is not None and training.hull() == (1.0, 1.0)
    return (result if never else result.join(x)), Range.uniform(x.shape, BOOL, 0.0, 1.0)


@dropout.meaning
def _(run: Run, x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None) -> tuple[Tensor, Tensor]:
    torch = run.torch
    if training is None or not run.whole(training).any():
        return x, torch.ones_like(x, dtype=torch.bool if run.version >= 10 else x.dtype)
    rate = 0.5 if ratio is None else ratio.to(x.dtype)
    keeps = torch.rand(x.shape, generator=run.generator, dtype=torch.float64) >= rate
    return x * keeps / (1 - rate), keeps


def _with_zero(low: Array, high: Array) -> tuple[Array, Array]:
    return np.minimum(low, 0.0), np.maximum(high, 0.0)


def trains(training: Range | None) -> bool:
    """Whether Dropout may run in training mode."""
    return training is not None and training.hull()[1] > 0.0


@dropout.hazard(DIVISION_BY_ZERO, gives=SPECIALS | UNDEFINED, operand=1)
def _(op: Call, x: Range, ratio: Range | None = None, training: Range | None = None) -> Mask:
    return ratio is not None and trains(training) and bool(ratio.hull()[1] >= 1.0)


# -- as torch spells them --------------------------------------------------------------------------------------------

#: The numbers that ATen has for how a loss is reduced (`torch.nn._reduction`).
_REDUCTIONS = ("none", "mean", "sum")


def _reduction_of(call: AtenCall) -> str:
    return _REDUCTIONS[int(call["reduction"])]


def reduced_elements(call: AtenCall, loss: int) -> int:
    """The losses of all elements, weighted if the call has weights, as they are or summed or averaged."""
    format = call.result.format
    if call.is_given("weight"):
        loss = call.emit("Mul", loss, call.tensor("weight", format), formats=(format,))
    reduction = _reduction_of(call)
    if reduction == "none":
        return loss
    return call.emit("ReduceMean" if reduction == "mean" else "ReduceSum", loss, keepdims=0, formats=(format,))


def _with_batch(call: AtenCall, x: int, rank: int, target: int) -> tuple[int, int]:
    """Scores and class indices with an axis for the batch, which a single example lacks."""
    if rank > 1:
        return x, target
    return call.reshaped(x, [1, -1]), call.reshaped(target, [1])


@negative_log_likelihood.aten("nll_loss", "nll_loss2d", "nll_loss_nd")
def _(call: AtenCall) -> int:
    return _spelled_likelihood(call, call.tensor("self", call.result.format))


def _spelled_likelihood(call: AtenCall, log_probability: int) -> int:
    format, rank = call.result.format, call.rank("self")
    x, target = _with_batch(call, log_probability, rank, call.tensor("target", INT64))
    return _without_batch(call, "NegativeLogLikelihoodLoss", x, target, format, rank)


def _without_batch(call: AtenCall, op: str, x: int, target: int, format: Format | None, rank: int) -> int:
    """The loss over class indices; that of a single example is a number."""
    reduction = _reduction_of(call)
    operands = x, target, call.tensor("weight", format)
    made = call.emit(op, *operands, reduction=reduction, ignore_index=int(call["ignore_index"]), formats=(format,))
    return call.reshaped(made, []) if rank == 1 and reduction == "none" else made


@softmax_cross_entropy.aten("cross_entropy_loss")
def _(call: AtenCall) -> int:
    format, rank, smoothing = call.result.format, call.rank("self"), float(call["label_smoothing"])
    scores = call.tensor("self", format)
    wanted = call.handle("target").format
    if wanted is not None and wanted.is_float:
        return _probable_cross_entropy(call, call.emit("LogSoftmax", scores, axis=_class_axis(rank), formats=(format,)))
    if smoothing == 0.0:
        x, target = _with_batch(call, scores, rank, call.tensor("target", INT64))
        return _without_batch(call, "SoftmaxCrossEntropyLoss", x, target, format, rank)
    log_probability = call.emit("LogSoftmax", scores, axis=_class_axis(rank), formats=(format,))
    picked = _spelled_likelihood(call, log_probability)
    every = _loss_of_all_classes(call, log_probability)
    classes = call.size(call.handle("self"), _class_axis(rank))
    if not isinstance(classes, int):
        raise NotAnalysed("label smoothing over a number of classes that is not fixed")
    weights = call.value(1.0 - smoothing, format), call.value(smoothing / classes, format)
    parts = [call.emit("Mul", part, weight, formats=(format,)) for part, weight in zip((picked, every), weights)]
    return call.emit("Add", *parts, formats=(format,))


def _class_axis(rank: int) -> int:
    return 0 if rank == 1 else 1


def _weighted_classes(call: AtenCall, log_probability: int) -> int:
    """Log-probabilities times the weights of their classes."""
    format, rank = call.result.format, call.rank("self")
    if not call.is_given("weight"):
        return log_probability
    weight = call.reshaped(call.tensor("weight", format), [-1, *(1,) * max(rank - 2, 0)])
    return call.emit("Mul", log_probability, weight, formats=(format,))


def _loss_of_all_classes(call: AtenCall, log_probability: int) -> int:
    """Minus the sum over all classes: what label smoothing adds, reduced like the loss itself."""
    format, rank, reduction = call.result.format, call.rank("self"), _reduction_of(call)
    axes = call.integers([_class_axis(rank)])
    total = call.emit("ReduceSum", _weighted_classes(call, log_probability), axes, keepdims=0, formats=(format,))
    loss = call.emit("Neg", total, formats=(format,))
    target = call.tensor("target", INT64)
    ignored = call.emit("Equal", target, call.value(int(call["ignore_index"]), INT64), formats=(BOOL,))
    loss = call.emit("Where", ignored, call.value(0.0, format), loss, formats=(format,))
    if reduction == "none":
        return loss
    total = call.emit("ReduceSum", loss, keepdims=0, formats=(format,))
    if reduction == "sum":
        return total
    if call.is_given("weight"):
        index = call.emit("Where", ignored, call.value(0, INT64), target, formats=(INT64,))
        counted = call.emit("Gather", call.tensor("weight", format), index, axis=0, formats=(format,))
    else:
        counted = call.value(1.0, format)
    counted = call.emit("Where", ignored, call.value(0.0, format), counted, formats=(format,))
    return call.emit("Div", total, call.emit("ReduceSum", counted, keepdims=0, formats=(format,)), formats=(format,))


def _probable_cross_entropy(call: AtenCall, log_probability: int) -> int:
    """Targets are probabilities of classes: minus their products with the log-probabilities, averaged over the batch."""
    format, rank, smoothing = call.result.format, call.rank("self"), float(call["label_smoothing"])
    axis, target = _class_axis(rank), call.tensor("target", format)
    if smoothing:
        classes = call.size(call.handle("self"), axis)
        if not isinstance(classes, int):
            raise NotAnalysed("label smoothing over a number of classes that is not fixed")
        target = call.emit("Mul", target, call.value(1.0 - smoothing, format), formats=(format,))
        target = call.emit("Add", target, call.value(smoothing / classes, format), formats=(format,))
    products = call.emit("Mul", _weighted_classes(call, log_probability), target, formats=(format,))
    total = call.emit("ReduceSum", products, call.integers([axis]), keepdims=0, formats=(format,))
    loss = call.emit("Neg", total, formats=(format,))
    reduction = _reduction_of(call)
    if reduction == "none" or rank == 1:
        return loss
    return call.emit("ReduceMean" if reduction == "mean" else "ReduceSum", loss, keepdims=0, formats=(format,))


@mul.aten("poisson_nll_loss")
def _(call: AtenCall) -> int:
    """exp(x) - t x, or x - t log(x + eps) for rates; `full` adds Stirling's formula where the target is beyond 1."""
    format = call.result.format
    x, target = call.tensor("input", format), call.tensor("target", format)

    def pair(op: str, a: int, b: int) -> int:
        return call.emit(op, a, b, formats=(format,))

    if call["log_input"]:
        loss = pair("Sub", call.emit("Exp", x, formats=(format,)), pair("Mul", target, x))
    else:
        logarithm = call.emit("Log", pair("Add", x, call.value(float(call["eps"]), format)), formats=(format,))
        loss = pair("Sub", x, pair("Mul", target, logarithm))
    if call["full"]:
        # Torch computes it for all targets and drops it for those up to 1: the logarithm of zero is never seen.
        one = call.value(1.0, format)
        counted = call.emit("Max", target, one, formats=(format,))
        product = pair("Mul", counted, call.emit("Log", counted, formats=(format,)))
        circle = call.emit("Log", pair("Mul", counted, call.value(2.0 * math.pi, format)), formats=(format,))
        formula = pair("Add", pair("Sub", product, counted), pair("Mul", circle, call.value(0.5, format)))
        small = call.emit("LessOrEqual", target, one, formats=(BOOL,))
        loss = pair("Add", loss, call.emit("Where", small, call.value(0.0, format), formula, formats=(format,)))
    return reduced_elements(call, loss)


@dropout.aten("dropout", "feature_dropout", "native_dropout")
def _(call: AtenCall) -> int | tuple[int, int]:
    """Identity at inference; whole channels are dropped like elements."""
    format, x = call.result.format, call.tensor("input", call.result.format)
    rate = float(call["p"])
    training = call.value(bool(call["train"]) and rate > 0.0, BOOL)
    if rate >= 1.0 and call["train"]:
        # Torch gives zeros, where the quotient by 1 - p would be none.
        made = call.emit("Mul", x, call.value(0.0, format), formats=(format,))
        return made if len(call.results) == 1 else (made, call.cast(made, BOOL))
    if len(call.results) == 1:
        return call.emit("Dropout", x, call.value(rate, format), training, formats=(format,))
    return call.emit("Dropout", x, call.value(rate, format), training, outputs=2, formats=(format, BOOL))


# -- as TensorFlow spells them ---------------------------------------------------------------------------------------


@softmax_cross_entropy.tensorflow("SoftmaxCrossEntropyWithLogits")
def _(call: TensorflowCall) -> tuple[int, int]:
    """The loss of each row against probabilities, and its derivative by the logits: softmax minus probabilities."""
    format, axes = call.arithmetic_format(), call.integers([-1])
    scores, labels = call.all_operands()
    log_probability = call.emit("LogSoftmax", scores, axis=-1, formats=(format,))
    products = call.emit("Mul", labels, log_probability, formats=(format,))
    loss = call.emit("Neg", call.emit("ReduceSum", products, axes, keepdims=0, formats=(format,)), formats=(format,))
    probability = call.emit("Softmax", scores, axis=-1, formats=(format,))
    return loss, call.emit("Sub", probability, labels, formats=(format,))


@softmax_cross_entropy.tensorflow("SparseSoftmaxCrossEntropyWithLogits")
def _(call: TensorflowCall) -> tuple[int, int]:
    """The same against the index of a class; TensorFlow refuses an index that is no class."""
    format = call.arithmetic_format()
    scores, labels = call.operand(0), call.operand(1, INT64)
    loss = call.emit("SoftmaxCrossEntropyLoss", scores, labels, reduction="none", formats=(format,))
    classes = call.value(call.size(call.handle(0), 1), INT64)
    ends = call.constant(np.array([0.0, 1.0]), format)
    chosen = call.emit("OneHot", labels, classes, ends, axis=-1, formats=(format,))
    probability = call.emit("Softmax", scores, axis=-1, formats=(format,))
    return loss, call.emit("Sub", probability, chosen, formats=(format,))


@reduce_sum.tensorflow("L2Loss")
def _(call: TensorflowCall) -> int:
    """Half the sum of all squares."""
    format, x = call.arithmetic_format(), call.operand(0)
    square = call.emit("Mul", x, x, formats=(format,))
    half = call.emit("Mul", square, call.value(0.5, format), formats=(format,))
    return call.emit("ReduceSum", half, keepdims=0, formats=(format,))
