"""Normalisation by mean and variance: LayerNormalization, InstanceNormalization, GroupNormalization, BatchNormalization
and MeanVarianceNormalization. How the statistics are taken to be computed is said in `tensorproof.operators.statistics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, Array, Format
from tensorproof.frontends.calls import OWN
from tensorproof.graph import ABSENT
from tensorproof.operators.activations import least, rounded
from tensorproof.operators.statistics import STATISTICS, affine, normalise, spread_special, stash
from tensorproof.operators.table import CORRECT, NEWEST, RESULT, UNDEFINED, Call, operator
from tensorproof.ranges.elementwise import binary, corners, increasing, monotone, product
from tensorproof.ranges.folds import normalised_axis
from tensorproof.ranges.grid import every
from tensorproof.ranges.moving import reshape
from tensorproof.ranges.range import SPECIALS, Range, align
from tensorproof.rules.arithmetic_overflow import ARITHMETIC_OVERFLOW
from tensorproof.rules.degenerate_normalisation import DEGENERATE_NORMALISATION
from tensorproof.targets import TORCH_CPU

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall

# Defaults of attributes are float32 numbers.
EPSILON = float(np.float32(1e-5))
MOMENTUM = float(np.float32(0.9))


def per_channel(parameter: Range, rank: int) -> Range:
    """A vector with one element per channel, shaped to broadcast along axis 1."""
    return reshape(parameter, (parameter.sizes[0], *([1] * (rank - 2))))


def along_channels(parameter: Tensor, rank: int) -> Tensor:
    """A vector with one element per channel, shaped to broadcast along axis 1."""
    return parameter.reshape(-1, *([1] * (rank - 2)))


def standardised(run: Run, x: Tensor, axes: Sequence[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + epsilon) with the mean and the reciprocal of the root, in at least float32."""
    wide = x.to(run.torch.promote_types(x.dtype, run.dtype(FLOAT32)))
    mean = wide.mean(tuple(axes), keepdim=True)
    centred = wide - mean
    inverse = (centred.square().mean(tuple(axes), keepdim=True) + epsilon).rsqrt()
    return centred * inverse, mean, inverse


def _as_torch(op: Call) -> dict[str, bool]:
    """How the target takes the statistics of layers and groups, if not in two passes (`tensorproof.operators.statistics`)."""
    return {"folded": True, "updates": True} if op.target is TORCH_CPU else {}


def layer_normalised(
    op: Call, x: Range, axes: Sequence[int], epsilon: float, scale: Range, bias: Range | None
) -> tuple[Range, Range, Range]:
    """LayerNormalization-17 with its statistics: the first stage in the stash format, the second in the tensor's own."""
    mean_format, inverse_format = ([*op.output_formats, None, None, None])[1:3]
    if 0 in x.cells:
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.sizes))
        nothing = [Range.uniform(kept, f or stash(x.format), 0.0, 0.0) for f in (mean_format, inverse_format)]
        return x, nothing[0], nothing[1]
    y, rows, found = normalise(op, x, axes, epsilon, stash(x.format), **_as_torch(op))
    flags = spread_special(rows)
    if flags is not None:
        flags = flags[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(x.rank))]
    mean = rows.per_row(found.low, found.high, flags, mean_format or stash(x.format))
    # Squares that overflow make the reciprocal 0.
    slowest = np.where(found.overflow, 0.0, 1.0 / np.sqrt(found.ceiling) / (1.0 + found.relative))
    fastest = (1.0 + found.relative) / np.sqrt(found.floor)
    inverse = rows.per_row(slowest, fastest, flags, inverse_format or stash(x.format))
    return affine(op, y, scale, bias), mean, inverse


@operator("LayerNormalization", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, hazards=STATISTICS)
def layer_normalization(op: Call, x: Range, scale: Range, bias: Range | None = None) -> Range | tuple[Range, ...]:
    """Increasing in the element itself; all others are extreme at one common value. |y| <= sqrt(n) |scale| + |bias|."""
    axes = range(normalised_axis(int(op.attribute("axis", -1)), x.rank), x.rank)
    epsilon = op.attribute("epsilon", EPSILON)
    if op.outputs == 1 and 0 not in x.cells:
        y, _, _ = normalise(op, x, tuple(axes), epsilon, stash(x.format), **_as_torch(op))
        return affine(op, y, scale, bias)
    return layer_normalised(op, x, tuple(axes), epsilon, scale, bias)


@layer_normalization.meaning
def _(run: Run, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> tuple[Tensor, ...]:
    axes = range(normalised_axis(int(run.attribute("axis", -1)), x.ndim), x.ndim)
    y, mean, inverse = standardised(run, x, axes, run.attribute("epsilon", EPSILON))
    scaled = y.to(x.dtype) * scale
    return scaled if bias is None else scaled + bias, mean, inverse


@layer_normalization.aten("layer_norm")
def _(call: AtenCall) -> int:
    return call.emit("LayerNormalization", *_of_layer(call), **_attributes(call), formats=(call.result.format,))


@layer_normalization.aten("native_layer_norm")
def _(call: AtenCall) -> tuple[int, ...]:
    formats = [handle.format for handle in call.results]
    return call.emit("LayerNormalization", *_of_layer(call), **_attributes(call), outputs=3, formats=formats)


def _of_layer(call: AtenCall) -> tuple[int, int, int]:
    """The input, the scale and the bias of a normalisation over the last axes."""
    format, shape = call.result.format, call["normalized_shape"]
    scale = call.tensor("weight", format)
    scale = call.constant(np.ones(shape), format) if scale == ABSENT else scale
    return call.tensor("input", format), scale, call.tensor("bias", format)


def _attributes(call: AtenCall) -> dict[str, Any]:
    return {"axis": -len(call["normalized_shape"]), "epsilon": float(call["eps"])}


@operator("InstanceNormalization", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, hazards=STATISTICS)
def instance_normalization(op: Call, x: Range, scale: Range, bias: Range) -> Range:
    """Each channel of each sample by its own mean and variance; increasing in the element itself."""
    if 0 in x.cells:
        return x
    rank = x.rank
    y, _, found = normalise(op, x, range(2, rank), op.attribute("epsilon", EPSILON), x.format, folded=True)
    amplified = float(((1.0 + found.relative) / np.sqrt(found.floor)).max())
    return affine(op, y, per_channel(scale, rank), per_channel(bias, rank), amplified=amplified)


@instance_normalization.meaning
def _(run: Run, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    y = standardised(run, x, range(2, x.ndim), run.attribute("epsilon", EPSILON))[0].to(x.dtype)
    return y * along_channels(scale, x.ndim) + along_channels(bias, x.ndim)


@instance_normalization.aten("instance_norm")
def _(call: AtenCall) -> int:
    """By the statistics of each sample, or by running ones as in a batch."""
    if not call["use_input_stats"]:
        return call.delegate("batch_norm.default", **{**call.arguments, "training": False})
    format = call.result.format
    channels = _channels(call)
    scale, bias = (_per_channel_or(call, name, value, channels) for name, value in (("weight", 1.0), ("bias", 0.0)))
    return call.emit(
        "InstanceNormalization", call.tensor("input", format), scale, bias, epsilon=float(call["eps"]), formats=(format,)
    )


def _channels(call: AtenCall) -> int:
    channels = (call.handle("input").shape or (None, None))[1]
    if not isinstance(channels, int):
        raise NotAnalysed("the number of channels is not fixed")
    return channels


def _per_channel_or(call: AtenCall, name: str, value: float, channels: int) -> int:
    """A vector with one element per channel, or one number for all of them where it is left out."""
    given = call.tensor(name, call.result.format)
    return call.constant(np.full(channels, value), call.result.format) if given == ABSENT else given


@operator("GroupNormalization", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, hazards=STATISTICS)
def group_normalization(op: Call, x: Range, scale: Range, bias: Range) -> Range:
    """Groups of channels by mean and variance, which the function body computes as E[x^2] - E[x]^2: unsafe for large means."""
    if 0 in x.cells:
        return x
    # Version 18 computes in the tensor's own format and has scale and bias per group (ONNX GroupNormalization-18).
    format = stash(x.format) if op.version >= 21 else x.format
    return _by_groups(op, x, scale, bias, format, per_group=op.version < 21, folded=True, one_pass=True)


@operator("GroupNormalization", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, hazards=STATISTICS)
def own_group_normalization(op: Call, x: Range, scale: Range, bias: Range) -> Range:
    """Groups of channels by mean and variance, which are never taken as E[x^2] - E[x]^2: PyTorch's own."""
    if 0 in x.cells:
        return x
    return _by_groups(op, x, scale, bias, stash(x.format), per_group=False, **{"folded": True, **_as_torch(op)})


def _by_groups(op: Call, x: Range, scale: Range, bias: Range, format: Format, *, per_group: bool, **statistics: bool) -> Range:
    sizes, groups = x.sizes, int(op.attribute("num_groups"))
    grouped = reshape(x, (sizes[0], groups, sizes[1] // groups, *sizes[2:]))
    y, _, _ = normalise(op, grouped, range(2, grouped.rank), op.attribute("epsilon", EPSILON), format, **statistics)
    if per_group:
        return reshape(affine(op, y, per_channel(scale, y.rank), per_channel(bias, y.rank)), sizes)
    return affine(op, reshape(y, sizes), per_channel(scale, x.rank), per_channel(bias, x.rank))


@own_group_normalization.meaning
def _(run: Run, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return run.apply("GroupNormalization", x, scale, bias, version=NEWEST, **run.attributes)


@own_group_normalization.aten("group_norm")
def _(call: AtenCall) -> int:
    format, channels = call.result.format, _channels(call)
    scale, bias = (_per_channel_or(call, name, value, channels) for name, value in (("weight", 1.0), ("bias", 0.0)))
    attributes: dict[str, Any] = {"num_groups": int(call["num_groups"]), "epsilon": float(call["eps"])}
    return call.own("GroupNormalization", call.tensor("input", format), scale, bias, formats=(format,), **attributes)


@group_normalization.meaning
def _(run: Run, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    grouped = x.reshape(x.shape[0], run.attribute("num_groups"), -1, *x.shape[2:])
    y = standardised(run, grouped, range(2, grouped.ndim), run.attribute("epsilon", EPSILON))[0].to(x.dtype)
    y = y if run.version < 21 else y.reshape(x.shape)
    return (y * along_channels(scale, y.ndim) + along_channels(bias, y.ndim)).reshape(x.shape)


@operator("MeanVarianceNormalization", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, hazards=STATISTICS)
def mean_variance_normalization(op: Call, x: Range) -> Range:
    """(x - mean) / (sqrt(variance) + 1e-9), the variance as E[x^2] - E[x]^2: unsafe unless it is surely positive."""
    if 0 in x.cells:
        return x
    axes = tuple(sorted(normalised_axis(int(axis), x.rank) for axis in op.attribute("axes", (0, 2, 3))))
    y, rows, found = normalise(op, x, axes, 0.0, x.format, one_pass=True)
    # The guard is added to the deviation, not to the variance (ONNX MeanVarianceNormalization-13).
    guard, deviation = 1e-9, np.sqrt(found.least)
    shrink = np.where(np.isinf(found.stretch), 0.0, deviation / (deviation + guard) * (1.0 - 4 * x.format.unit_roundoff))
    reach = np.maximum(np.abs(rows.low), np.abs(rows.high)) + np.maximum(np.abs(found.low), np.abs(found.high))
    low, high = rows.flatten(y.low), rows.flatten(y.high)
    low, high = np.maximum(low, -1.01 * reach / guard), np.minimum(high, 1.01 * reach / guard)
    low, high = np.where(low > 0, low * shrink, low), np.where(high < 0, high * shrink, high)
    return y.replace(rows.restore(low), rows.restore(high), y.special)


@mean_variance_normalization.meaning
def _(run: Run, x: Tensor) -> Tensor:
    axes = tuple(run.attribute("axes", (0, 2, 3)))
    mean = x.mean(axes, keepdim=True)
    variance = x.square().mean(axes, keepdim=True) - mean.square()
    # The derivative of the root at zero, times that of the variance, would be no number.
    deviation = run.passing(variance.sqrt(), variance.clamp(min=1e-300).sqrt())
    return (x - mean) / (deviation + 1e-9)


# -- batches ---------------------------------------------------------------------------------------------------------


@operator("BatchNormalization", error=CORRECT, overflow=ARITHMETIC_OVERFLOW, hazards=STATISTICS)
def batch_normalization(op: Call, x: Range, scale: Range, bias: Range, mean: Range, variance: Range) -> Range | tuple[Range, ...]:
    """scale * (x - mean) / sqrt(variance + epsilon) + bias: extremes at corners; in training by the batch's own statistics."""
    rank = x.rank
    if _is_plain(op, x, scale, bias, mean, variance):
        return _of_constants(op, x, scale, bias, mean, variance, op.attribute("epsilon", EPSILON))
    if rank >= 2 and op.attribute("spatial", 1):
        scale, bias, mean, variance = (per_channel(part, rank) for part in (scale, bias, mean, variance))
    epsilon = op.attribute("epsilon", EPSILON)
    if not _trains(op) or 0 in x.cells:
        return _with_given_statistics(op, x, scale, bias, mean, variance, epsilon)
    y, current_mean, current_variance, _ = _by_batch(op, x, scale, bias, epsilon)
    momentum = op.attribute("momentum", MOMENTUM)
    running_mean = _running(op, mean, current_mean, momentum)
    running_variance = _running(op, variance, current_variance, momentum)
    results = [_vector(part) for part in (running_mean, running_variance, current_mean, current_variance)]
    return (y, *results) if op.version < 14 else (y, *results[:2])


def _by_batch(op: Call, x: Range, scale: Range, bias: Range, epsilon: float) -> tuple[Range, Range, Range, Range]:
    """A batch by its own statistics; these, and the reciprocal of the deviation."""
    format = stash(x.format) if x.format.bits < 32 else x.format
    axes = tuple(axis for axis in range(x.rank) if axis != 1)
    y, rows, found = normalise(op, x, axes, epsilon, format, folded=True)
    fastest = (1.0 + found.relative) / np.sqrt(found.floor)
    y = affine(op, y, scale, bias, amplified=float(fastest.max()))
    growth = 1.0 + 2.0 * rows.length * op.accumulation(format).unit_roundoff + 8.0 * format.unit_roundoff
    lost = 2.0 * least(op, format)
    mean = rows.per_row(found.low, found.high)
    variance = rows.per_row(np.maximum(found.least / growth - lost, 0.0), (found.most + found.error**2) * growth + lost)
    slowest = np.where(found.overflow, 0.0, 1.0 / np.sqrt(found.ceiling) / (1.0 + found.relative))
    return y, mean, variance, rows.per_row(slowest, fastest)


@batch_normalization.meaning
def _(run: Run, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor | tuple[Tensor, ...]:
    epsilon = run.attribute("epsilon", EPSILON)

    def shaped(parameter: Tensor) -> Tensor:
        return along_channels(parameter, x.ndim) if x.ndim >= 2 and run.attribute("spatial", 1) else parameter

    if not _trains(run):
        return (x - shaped(mean)) / run.torch.sqrt(shaped(variance) + epsilon) * shaped(scale) + shaped(bias)
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    y, current_mean, _ = standardised(run, x, axes, epsilon)
    current = current_mean.reshape(-1), x.to(y.dtype).var(axes, correction=0)
    momentum = run.attribute("momentum", MOMENTUM)
    running = [old * momentum + new * (1 - momentum) for old, new in zip((mean, variance), current)]
    return y.to(x.dtype) * shaped(scale) + shaped(bias), *running, *current


@batch_normalization.aten("batch_norm")
def _(call: AtenCall) -> int:
    """By running statistics, or in training (and where there are none) by those of the batch."""
    if call["training"] or not call.is_given("running_mean"):
        return _training(call, 1)[0]
    return call.emit("BatchNormalization", *_of_batch(call), epsilon=float(call["eps"]), formats=(call.result.format,))


@batch_normalization.aten("_native_batch_norm_legit_no_training")
def _(call: AtenCall) -> tuple[int, ...]:
    y = call.emit("BatchNormalization", *_of_batch(call), epsilon=float(call["eps"]), formats=(call.result.format,))
    return y, ABSENT, ABSENT


def _of_batch(call: AtenCall) -> tuple[int, ...]:
    """Input, scale, bias, mean and variance; without running statistics those of no training at all."""
    format, channels = call.result.format, _channels(call)
    defaults = (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0))
    return call.tensor("input", format), *(_per_channel_or(call, name, value, channels) for name, value in defaults)


@operator("TrainingBatchNormalization", domain=OWN, error=CORRECT, overflow=ARITHMETIC_OVERFLOW, hazards=STATISTICS)
def training_batch_normalization(
    op: Call, x: Range, scale: Range, bias: Range, mean: Range, variance: Range
) -> Range | tuple[Range, ...]:
    """A batch by its own statistics; with the statistics, and the running ones, whose variance is divided by n - 1."""
    if 0 in x.cells:
        raise NotAnalysed("a batch without elements")
    scale, bias, mean, variance = (per_channel(part, x.rank) for part in (scale, bias, mean, variance))
    y, current_mean, current_variance, inverse = _by_batch(op, x, scale, bias, op.attribute("epsilon", EPSILON))
    if op.outputs == 1:
        return y
    momentum, count = op.attribute("momentum", MOMENTUM), x.size // x.sizes[1]
    factor = count / max(count - 1, 1)
    unbiased = current_variance.replace(current_variance.low * factor, current_variance.high * factor, None)
    running = _running(op, mean, current_mean, momentum), _running(op, variance, unbiased, momentum)
    return (y, *(_vector(part) for part in (current_mean, inverse, *running)))[: op.outputs]


@training_batch_normalization.meaning
def _(run: Run, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
    axes = tuple(axis for axis in range(x.ndim) if axis != 1)
    y, current, inverse = standardised(run, x, axes, run.attribute("epsilon", EPSILON))
    momentum = run.attribute("momentum", MOMENTUM)
    count = x.numel() // x.shape[1]
    unbiased = x.to(y.dtype).var(axes, correction=0) * count / max(count - 1, 1)
    running = (old * momentum + new * (1 - momentum) for old, new in ((mean, current.reshape(-1)), (variance, unbiased)))
    scaled = y.to(x.dtype) * along_channels(scale, x.ndim) + along_channels(bias, x.ndim)
    return scaled, current.reshape(-1), inverse.reshape(-1), *running


@training_batch_normalization.aten("_native_batch_norm_legit", "_native_batch_norm_legit.no_stats", "native_batch_norm")
def _(call: AtenCall) -> tuple[int, ...]:
    """With the mean and the reciprocal of the deviation of the batch; running statistics are changed in place."""
    if not call["training"]:
        return call.delegate("_native_batch_norm_legit_no_training.default", **call.arguments)
    return _training(call, 3)


@training_batch_normalization.aten("_native_batch_norm_legit_functional")
def _(call: AtenCall) -> tuple[int, ...]:
    if not call["training"]:
        raise NotAnalysed("running statistics that are given back unchanged are not modelled")
    return _training(call, 5)


def _training(call: AtenCall, outputs: int) -> tuple[int, ...]:
    """The first results of a batch's normalisation by its own statistics."""
    formats = [handle.format for handle in call.results]
    # ONNX weighs the old statistics with the momentum, PyTorch the new ones.
    attributes = {"epsilon": float(call["eps"]), "momentum": 1.0 - float(call["momentum"])}
    made = call.own("TrainingBatchNormalization", *_of_batch(call), outputs=outputs, formats=formats, **attributes)
    return made if outputs > 1 else (made,)


def _trains(op: Call | Run) -> bool:
    """Before version 14 more than one output means training (ONNX BatchNormalization-9)."""
    return bool(op.attribute("training_mode", 0)) if op.version >= 14 else op.outputs > 1


def _is_plain(op: Call, x: Range, *parameters: Range) -> bool:
    """Whether a batch normalisation is that of most networks: inference, finite constants."""
    if op.attribute("training_mode", 0) or op.outputs > 1 or not op.attribute("spatial", 1) or x.has_special:
        return False
    if not x.has_known_shape or x.rank < 2 or 0 in x.cells:
        return False
    return all(part.array is not None and part.sizes == (x.sizes[1],) for part in parameters)


def _of_constants(op: Call, x: Range, scale: Range, bias: Range, mean: Range, variance: Range, epsilon: float) -> Range:
    """`_with_given_statistics` where the statistics are constants: the same bounds without aligning cells."""
    format = x.format
    u, eta = format.unit_roundoff, least(op, format)
    held = rounded(epsilon, format)
    if x.cells[1] != 1:
        x = x.refine_fully(1)
    s, b, m, v = (part.low.reshape(-1, *((1,) * (x.rank - 2))) for part in (scale, bias, mean, variance))
    op.report(DEGENERATE_NORMALISATION, 4, variance, variance.low < 0, gives=UNDEFINED)
    if held <= 0:
        op.report(DEGENERATE_NORMALISATION, 4, variance, variance.contains(0.0), gives=SPECIALS)
    root = 1.0 / np.sqrt(np.maximum(np.maximum(v, 0.0) + epsilon, format.smallest_subnormal))
    pad = root * (4 * u + (abs(held - epsilon) + eta) * root**2)
    slow, fast = np.maximum(root - pad, 0.0), root + pad
    # The factor has the sign of the scale: its end nearer to zero, and its end farther from it.
    near, far = s * slow, s * fast
    low, high = x.low - m, x.high - m
    corners_of = low * near, low * far, high * near, high * far
    first, second = np.minimum(corners_of[0], corners_of[1]), np.minimum(corners_of[2], corners_of[3])
    third, fourth = np.maximum(corners_of[0], corners_of[1]), np.maximum(corners_of[2], corners_of[3])
    factor, size = np.abs(far), np.abs(s)
    spread = np.maximum(np.abs(x.low), np.abs(x.high)) + np.abs(m)
    error = 6 * u * spread * factor + 2 * u * np.abs(b) + 2 * eta * (spread + fast + 2)
    largest = np.maximum(spread * np.maximum(np.maximum(factor, size), 1.0), factor)
    shape, grid = x.sizes, list(x.grid)
    grid[1] = every(shape[1])
    result = Range(format, shape, tuple(grid), np.minimum(first, second) - error + b, np.maximum(third, fourth) + error + b)
    outside = largest > op.accumulation(format).high
    if outside.any():
        product_alone = result.replace(result.low - b, result.high - b, None)
        op.report(ARITHMETIC_OVERFLOW, RESULT, product_alone, np.broadcast_to(outside, result.cells), gives=SPECIALS)
    return result


def _with_given_statistics(op: Call, x: Range, scale: Range, bias: Range, mean: Range, variance: Range, epsilon: float) -> Range:
    """Inference. Covers both orders of evaluation: as written, and folded into x * a + b."""
    format = x.format
    u, eta = format.unit_roundoff, least(op, format)
    held = rounded(epsilon, format)
    # Just above -epsilon the result is finite, and anything.
    op.report(DEGENERATE_NORMALISATION, 4, variance, (variance.low < 0) & (variance.low <= variance.high), gives=UNDEFINED)
    if held <= 0:
        op.report(DEGENERATE_NORMALISATION, 4, variance, variance.contains(0.0), gives=SPECIALS)

    def inverse_root(v: Array) -> Array:
        return 1.0 / np.sqrt(np.maximum(np.maximum(v, 0.0) + epsilon, format.smallest_subnormal))

    root = monotone(variance, inverse_root, format)
    pad = root.high * (4 * u + (abs(held - epsilon) + eta) * root.high**2)
    root = root.replace(np.maximum(root.low - pad, 0.0), root.high + pad, root.special)
    factor = binary(scale, root, corners(product), np.multiply, format)
    difference = binary(x, mean, _difference, np.subtract, format)
    result = binary(difference, factor, corners(product), np.multiply, format)
    # x * a, mean * a and bias - mean * a are rounded; a itself may underflow.
    aligned = align(result, x, mean, factor, scale, root, bias)
    sizes = [np.where(lo <= hi, np.maximum(np.abs(lo), np.abs(hi)), 0.0) for lo, hi in zip(aligned.lows, aligned.highs)]
    spread = sizes[1] + sizes[2]
    error = 6 * u * spread * sizes[3] + 2 * u * sizes[6] + 2 * eta * (spread + sizes[5] + 2)
    largest = np.maximum(spread * np.maximum(np.maximum(sizes[3], sizes[4]), 1.0), sizes[3])
    outside = largest > op.accumulation(format).high
    result = aligned.result(format, aligned.lows[0] - error, aligned.highs[0] + error, aligned.specials[0])
    op.report(ARITHMETIC_OVERFLOW, RESULT, result, np.broadcast_to(outside, result.cells), gives=SPECIALS)
    return binary(result, bias, increasing(np.add), np.add, format)


def _difference(la: Array, ha: Array, lb: Array, hb: Array) -> tuple[Array, Array]:
    return la - hb, ha - lb


def _running(op: Call, old: Range, new: Range, momentum: float) -> Range:
    """old * momentum + new * (1 - momentum)."""
    format = old.format
    first = binary(old, Range.constant(np.asarray(momentum)), corners(product), np.multiply, format)
    second = binary(new, Range.constant(np.asarray(1.0 - momentum)), corners(product), np.multiply, format)
    result = binary(first, second, increasing(np.add), np.add, format)
    # The factors are rounded to the format, too: 1 - momentum by up to a unit of its last place at 1.
    aligned = align(old, new)
    sizes = [np.where(lo <= hi, np.maximum(np.abs(lo), np.abs(hi)), 0.0) for lo, hi in zip(aligned.lows, aligned.highs)]
    error = 4 * format.unit_roundoff * (sizes[0] + sizes[1]) + 2 * least(op, format)
    low = result.low - error
    # No rounding makes an average of two variances negative.
    low = np.where((aligned.lows[0] >= 0) & (aligned.lows[1] >= 0) & (0.0 <= momentum <= 1.0), np.maximum(low, 0.0), low)
    return result.replace(low, result.high + error, result.special)


def _vector(x: Range) -> Range:
    """One element per channel, the axes of size 1 dropped."""
    return reshape(x, (int(np.prod(x.sizes, dtype=np.int64)),))
