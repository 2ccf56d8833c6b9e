"""Normalisation as TensorFlow calls it: fused batch normalisation with its gradients, and division by the neighbours' norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import Format
from tensorproof.operators.batch_norm_gradients import batch_normalization_gradient
from tensorproof.operators.normalisation import training_batch_normalization
from tensorproof.operators.norms import lrn
from tensorproof.operators.tensorflow_windows import Layout, layout_of, operand_of

if TYPE_CHECKING:
    from tensorproof.frontends.tensorflow_call import TensorflowCall


def _statistics_format(call: TensorflowCall) -> Format:
    """What statistics are held in: float32 beside 16-bit tensors (`U`)."""
    return call.format("U" if "U" in call.attributes else "T")


def _batch_layout(call: TensorflowCall) -> Layout:
    return layout_of(call, 5 if "D" in str(call.attribute("data_format", "NHWC")) else 4)


@training_batch_normalization.tensorflow("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """The normalised batch, the statistics to keep, those for the gradient, and (V3) a number that a GPU uses.

    The variance to keep is divided by n - 1, that for the gradient by n. `exponential_avg_factor` is the weight of the new
    statistics; where it is 1, there need be no old ones. 16-bit tensors are normalised in float32.
    """
    layout, kept = _batch_layout(call), _statistics_format(call)
    x = call.cast(layout.enter(operand_of(call, 0)).number, kept)
    epsilon = float(call.attribute("epsilon", 1e-4))
    scale, offset = call.operand(1), call.operand(2)
    padding = (call.constant(np.zeros((), kept.dtype)),) if call.name.endswith("V3") else ()
    if not call.attribute("is_training", True):
        mean, variance = call.operand(3), call.operand(4)
        y = call.emit("BatchNormalization", x, scale, offset, mean, variance, epsilon=epsilon, formats=(kept,))
        return _left(call, layout, y), mean, variance, mean, variance, *padding
    weight = float(call.attribute("exponential_avg_factor", 1.0))
    old = (call.operand(3), call.operand(4)) if weight != 1.0 else _no_statistics(call, layout, kept)
    axes = [0, *range(2, layout.rank)]
    made = call.own(
        "TrainingBatchNormalization", x, scale, offset, *old, epsilon=epsilon, momentum=1.0 - weight, outputs=5, formats=[kept] * 5
    )
    biased = call.own("Variance", x, axes=axes, correction=0.0, keepdims=0, formats=(kept,))
    return _left(call, layout, made[0]), made[3], made[4], made[1], biased, *padding


def _left(call: TensorflowCall, layout: Layout, y: int) -> int:
    """A normalised batch in the layout and format of the tensor."""
    return layout.leave(call, call.cast(y, call.format("T")))


def _no_statistics(call: TensorflowCall, layout: Layout, format: Format) -> tuple[int, int]:
    """Statistics that weigh nothing."""
    known = [(call.shape(index) or (None,))[-1] for index in (1, 2) if call.rank(index) == 1]
    known.append((call.shape(0) or (None,) * layout.rank)[layout.channel])
    channels = next((size for size in known if isinstance(size, int)), None)
    if not isinstance(channels, int):
        raise NotAnalysed(f"the number of channels of {call.name} is not known")
    return call.constant(np.zeros(channels), format), call.constant(np.ones(channels), format)


@batch_normalization_gradient.tensorflow("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def _(call: TensorflowCall) -> tuple[int, ...]:
    """Gradients by the batch, the scale and the offset.

    In training the statistics among the operands are those of the batch itself, as the normalisation gave them.
    """
    layout, kept = _batch_layout(call), _statistics_format(call)
    gradient, x = (call.cast(layout.enter(operand_of(call, index)).number, kept) for index in (0, 1))
    scale, epsilon = call.operand(2), float(call.attribute("epsilon", 1e-4))
    axes = call.integers([0, *range(2, layout.rank)])
    by_offset = call.emit("ReduceSum", gradient, axes, keepdims=0, formats=(kept,))
    nothing = (call.constant(np.zeros(0), kept),) * 2
    if call.attribute("is_training", True):
        by_x, by_scale = call.own("BatchNormalizationGradient", gradient, x, scale, epsilon=epsilon, outputs=2, formats=[kept] * 2)
        return _left(call, layout, by_x), by_scale, by_offset, *nothing
    mean, variance = call.operand(3), call.operand(4)
    zeros, ones = _no_statistics(call, layout, kept)
    by_x = call.emit("BatchNormalization", gradient, scale, zeros, zeros, variance, epsilon=epsilon, formats=(kept,))
    centred = call.emit("BatchNormalization", x, ones, zeros, mean, variance, epsilon=epsilon, formats=(kept,))
    product = call.emit("Mul", gradient, centred, formats=(kept,))
    by_scale = call.emit("ReduceSum", product, axes, keepdims=0, formats=(kept,))
    return _left(call, layout, by_x), by_scale, by_offset, *nothing


@lrn.tensorflow("LRN")
def _(call: TensorflowCall) -> int:
    """x / (bias + alpha * sum of squares)^beta over the channels up to `depth_radius` away; ONNX divides alpha by their number."""
    radius = int(call.attribute("depth_radius", 5))
    layout, size = Layout(4, is_last=True), 2 * radius + 1
    y = call.emit(
        "LRN",
        layout.enter(operand_of(call, 0)).number,
        size=size,
        alpha=float(call.attribute("alpha", 1.0)) * size,
        beta=float(call.attribute("beta", 0.5)),
        bias=float(call.attribute("bias", 1.0)),
        formats=(call.format(),),
    )
    return layout.leave(call, y)


@lrn.tensorflow("LRNGrad")
def _(call: TensorflowCall) -> int:
    """g / d^beta - 2 alpha beta x sum(g y / d) over the neighbours, d = bias + alpha * sum of squares of the neighbours."""
    format = call.format()
    radius = int(call.attribute("depth_radius", 5))
    alpha, beta, bias = (float(call.attribute(name, value)) for name, value in (("alpha", 1.0), ("beta", 0.5), ("bias", 1.0)))
    gradient, x, y = (call.operand(index) for index in range(3))

    def computed(op: str, *operands: int) -> int:
        return call.emit(op, *operands, formats=(format,))

    def neighbours(number: int) -> int:
        """Sums along the channels, which stand last."""
        apart = call.moved("Unsqueeze", number, call.integers([1]))
        ones = call.constant(np.ones((1, 1, 1, 1, 2 * radius + 1)), format)
        sums = call.emit("Conv", apart, ones, pads=[0, 0, radius, 0, 0, radius], formats=(format,))
        return call.moved("Squeeze", sums, call.integers([1]))

    squares = neighbours(computed("Mul", x, x))
    base = computed("Add", computed("Mul", squares, call.value(alpha, format)), call.value(bias, format))
    direct = computed("Mul", gradient, computed("Pow", base, call.value(-beta, format)))
    shares = neighbours(computed("Div", computed("Mul", gradient, y), base))
    around = computed("Mul", computed("Mul", x, call.value(2.0 * alpha * beta, format)), shares)
    return computed("Sub", direct, around)
