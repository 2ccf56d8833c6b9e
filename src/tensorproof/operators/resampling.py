"""Resampling of images to another size: nearest, linear and cubic interpolation along each axis.

Runtimes evaluate the coordinate formulas in float32 with integer lengths, the standard's reference in float64 with
fractional ones. Where the two read other elements, both are possible; where they read the same ones, the difference of
their coordinates is part of the rounding error. Weights are those of float32 coordinates whatever the tensor's format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed, UnknownShape
from tensorproof.execute.meaning import NotExecutable
from tensorproof.formats import UINT8, Array
from tensorproof.graph import ABSENT
from tensorproof.operators.table import CORRECT, Attributed, Call, operator
from tensorproof.ranges.axis_maps import Mixture
from tensorproof.ranges.grid import Span
from tensorproof.ranges.range import INFINITIES, NAN, SPECIALS, Range
from tensorproof.ranges.sampling import cubic_weight
from tensorproof.ranges.sums import keep_sign, summation_error
from tensorproof.ranges.windows import NOTHING, Integers, any_batch
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor
    from tensorproof.frontends.aten import AtenCall

Floats = npt.NDArray[np.floating[Any]]

#: Coordinates beyond this many outputs of one axis are not tabulated.
LONGEST_AXIS = 1 << 22


@dataclass(frozen=True, slots=True)
class Method:
    """How a value between elements is made (ONNX Resize-19)."""

    mode: str
    transformation: str
    nearest: str
    cubic: float
    antialias: bool
    exclude_outside: bool
    extrapolation: float | None


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis to be resampled: its size before and after, the scale, and the region of interest."""

    number: int
    size: int
    output: int
    scale: float
    start: float
    end: float

    @property
    def is_untouched(self) -> bool:
        return self.scale == 1.0 and self.output == self.size and self.start == 0.0 and self.end == 1.0


@dataclass(frozen=True, slots=True)
class Rows:
    """What each output reads: elements and weights per tap; `outside` marks outputs that take the extrapolation value."""

    elements: Integers
    weights: Array
    outside: npt.NDArray[np.bool_]


def coordinates(axis: Axis, transformation: str, kind: Any, *, fractional: bool) -> Array:
    """Where each output stands on the original axis (ONNX Resize-19, coordinate_transformation_mode)."""
    position = np.arange(axis.output).astype(kind)
    half, scale, size = kind(0.5), kind(axis.scale), kind(axis.size)
    resized = scale * size if fractional else kind(axis.output)
    if transformation == "half_pixel":
        result = (position + half) / scale - half
    elif transformation == "pytorch_half_pixel":
        # The text says 0 for one output, the reference evaluator -0.5.
        alone = -half if fractional else kind(0)
        result = (position + half) / scale - half if resized > 1 or (fractional and resized != 1) else position * 0 + alone
    elif transformation == "half_pixel_symmetric":
        adjustment = kind(axis.output) / (scale * size)
        result = size / 2 * (1 - adjustment) + (position + half) / scale - half
    elif transformation == "align_corners":
        result = position * 0 if resized == 1 else position * (size - 1) / (resized - 1)
    elif transformation == "asymmetric":
        result = position / scale
    elif transformation == "tf_crop_and_resize":
        start, end = kind(axis.start), kind(axis.end)
        if resized == 1:
            result = position * 0 + (start + end) * (size - 1) / 2
            if fractional:
                result = position * 0 + (end - start) * (size - 1) / 2 + start * (size - 1)
        else:
            result = start * (size - 1) + position * (end - start) * (size - 1) / (resized - 1)
    elif transformation == "tf_half_pixel_for_nn":
        result = (position + half) / scale
    else:
        raise NotAnalysed(f"coordinate_transformation_mode {transformation} is not known")
    return result.astype(np.float64)


def _nearest(x: Array, rounding: str, scale: float) -> Integers:
    if rounding == "round_prefer_floor":
        chosen = np.ceil(x - 0.5)
    elif rounding == "round_prefer_ceil":
        chosen = np.floor(x + 0.5)
    elif rounding == "floor" or (rounding == "simple" and scale >= 1):
        chosen = np.floor(x)
    else:
        chosen = np.ceil(x)
    return chosen.astype(np.int64)


def rows_of(axis: Axis, method: Method, x: Array) -> Rows:
    """Elements and weights for outputs that stand at the coordinates x."""
    outside = np.zeros(len(x), bool)
    if method.extrapolation is not None:
        outside = (x < 0) | (x > axis.size - 1)
    if method.mode == "nearest":
        elements = np.clip(_nearest(x, method.nearest, axis.scale), 0, axis.size - 1)[:, None]
        weights = np.ones(elements.shape)
    else:
        stretch = min(axis.scale, 1.0) if method.antialias else 1.0
        radius = 1 if method.mode == "linear" else 2
        reach = int(np.ceil(radius / stretch)) if len(x) else radius
        if reach * len(x) > LONGEST_AXIS:
            raise NotAnalysed("the filter of an axis is too long")
        # One tap more than the kernel reaches: at an integer it is open on which side a tap of weight zero reads.
        elements = np.floor(x).astype(np.int64)[:, None] + np.arange(-reach, reach + 1)
        distance = (elements - x[:, None]) * stretch
        if method.mode == "linear":
            weights = np.maximum(1.0 - np.abs(distance), 0.0)
        else:
            weights = cubic_weight(distance, method.cubic)
        if method.exclude_outside:
            weights = np.where((elements >= 0) & (elements < axis.size), weights, 0.0)
        if method.antialias or method.exclude_outside:
            total = weights.sum(axis=1, keepdims=True)
            weights = weights / np.where(total == 0, 1.0, total)
        elements = np.clip(elements, 0, axis.size - 1)
        # Taps beyond the ends read the same element: its weights add up before their signs matter.
        for tap in range(1, elements.shape[1]):
            again = elements[:, tap] == elements[:, tap - 1]
            weights[:, tap] += np.where(again, weights[:, tap - 1], 0.0)
            weights[:, tap - 1] = np.where(again, 0.0, weights[:, tap - 1])
    elements = np.where(outside[:, None], NOTHING, elements)
    return Rows(elements, np.where(outside[:, None], 0.0, weights), outside)


def resample(op: Call, x: Range, axes: Sequence[Axis], method: Method) -> Range:
    """All axes resampled one after the other, with the rounding errors of weights, coordinates and sums."""
    mixture = Mixture(x)
    terms, drift = 1, np.zeros(())
    for axis in axes:
        if axis.is_untouched:
            continue
        if axis.size == 0 and axis.output > 0:
            raise NotAnalysed("an axis without elements is made larger")
        if axis.output > LONGEST_AXIS:
            raise NotAnalysed("an axis is too long")
        exact = coordinates(axis, method.transformation, np.float64, fractional=True)
        rounded = coordinates(axis, method.transformation, np.float32, fractional=False)
        first, second = rows_of(axis, method, exact), rows_of(axis, method, rounded)
        apart = np.abs(exact - rounded)
        same = _agree(first, second) and bool((apart <= 2.0**-18 * (np.abs(exact) + 1)).all())
        rows = [first] if same or (method.mode == "nearest" and _agree(first, second)) else [first, second]
        if method.nearest == "simple":
            rows.append(rows_of(axis, _with_floor(method), exact))
        if method.mode != "nearest" and len(exact):
            terms *= first.elements.shape[1] - 1
            delta = (float(apart.max()) if len(rows) == 1 else 0.0) + 2.0**-22 * (float(np.abs(exact).max()) + 1)
            drift = drift + _steepness(method, first) * delta
        mixture.apply_any(axis.number, [(r.elements, r.weights, r.outside) for r in rows], method.extrapolation)
    return _rounded(op, x, mixture, terms, float(drift), method)


def _with_floor(method: Method) -> Method:
    return Method(method.mode, method.transformation, "floor", method.cubic, False, False, method.extrapolation)


def _agree(a: Rows, b: Rows) -> bool:
    return bool((a.elements == b.elements).all()) and bool((a.outside == b.outside).all())


def _steepness(method: Method, rows: Rows) -> float:
    """How fast the weighted sum changes with the coordinate, for elements up to 1 in size."""
    if method.mode == "linear":
        slope = 2.0
    else:
        # |W'| <= 3|a + 2| + 2|a + 3| for |t| <= 1 and |a| beyond, on two taps each.
        slope = 2 * (3 * abs(method.cubic + 2) + 2 * abs(method.cubic + 3)) + 2 * abs(method.cubic)
    if method.antialias or method.exclude_outside:
        # Weights are divided by their sum, which changes as fast as they do.
        slope *= 4 * max(1.0, float(np.abs(rows.weights).sum(axis=1).max(initial=0.0)))
    return slope


def _rounded(op: Call, x: Range, mixture: Mixture, terms: int, drift: float, method: Method) -> Range:
    low, high, special = mixture.low, mixture.high, mixture.flags
    if special is not None and terms > 1:
        # Weights that vanish or differ in sign turn an infinity into any special value.
        special = np.where(special & INFINITIES, np.uint8(SPECIALS), special & np.uint8(NAN))
    if terms == 1:
        return mixture.range(x, low, high, special)
    if not x.format.is_float:
        # Runtimes truncate or round; results are cut to the format.
        low, high = np.floor(low - 1e-3), np.ceil(high + 1e-3)
        return mixture.range(x, np.clip(low, x.format.low, x.format.high), np.clip(high, x.format.low, x.format.high), None)
    bounds = [abs(v) for v in x.hull() if np.isfinite(v)]
    error = summation_error(op, mixture.magnitude, 2 * terms + 8, x.format) + drift * max(bounds, default=0.0)
    low, high = low - error, high + error
    if method.mode == "linear":
        # Weights are not negative and sum to one: whatever the coordinates, results stay between the elements that are read.
        sums = summation_error(op, mixture.magnitude, 2 * terms + 8, x.format)
        low, high = np.maximum(low, mixture.least - sums), np.minimum(high, mixture.most + sums)
        low, high = keep_sign(low, high, mixture.least >= 0, mixture.most <= 0)
    return mixture.range(x, low, high, special)


@operator(
    "Resize",
    error=CORRECT,
    overflow=ACCUMULATION_OVERFLOW,
    coarse="where the standard and its reference evaluator disagree about fractional lengths, both results are kept",
    steered_by=(1, 2, 3),
)
def resize(op: Call, x: Range, *operands: Range | None) -> Range:
    """Nearest moves data, linear stays inside the hull of neighbours, cubic overshoots it by its negative weights."""
    roi, scales, sizes = (*operands, None, None, None)[:3]
    if op.version < 11:
        roi, scales, sizes = None, roi, None
    return _resized_batch(op, x, roi, scales, sizes, _method_of_resize(op, op.version))


@resize.meaning
def _(run: Run, x: Tensor, *operands: Tensor | None) -> Tensor:
    roi, scales, sizes = (*operands, None, None, None)[:3]
    if run.version < 11:
        roi, scales, sizes = None, roi, None
    return _resized_tensor(run, x, roi, scales, sizes, _method_of_resize(run, run.version))


def _overloads(*names: str) -> list[str]:
    return [f"{name}.{overload}" for name in names for overload in ("default", "vec")]


@resize.aten(*_overloads("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"))
def _(call: AtenCall) -> int:
    return _resized_by(call, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")


@resize.aten(*_overloads("_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d"))
def _(call: AtenCall) -> int:
    """The element whose area holds the centre of the new one."""
    return _resized_by(call, mode="nearest", coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil")


@resize.aten(*_overloads("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "_upsample_bilinear2d_aa"))
def _(call: AtenCall) -> int:
    return _resized_by(call, mode="linear", **_corners(call))


@resize.aten(*_overloads("upsample_bicubic2d", "_upsample_bicubic2d_aa"))
def _(call: AtenCall) -> int:
    """PyTorch's coefficient is -0.75, and -0.5 with antialiasing."""
    return _resized_by(call, mode="cubic", cubic_coeff_a=-0.5 if "_aa" in call.name else -0.75, **_corners(call))


def _corners(call: AtenCall) -> dict[str, Any]:
    aligned = "align_corners" if call["align_corners"] else "half_pixel"
    smooth = {"antialias": 1, "exclude_outside": 1} if "_aa" in call.name else {}
    return {"coordinate_transformation_mode": aligned, **smooth}


def _resized_by(call: AtenCall, **attributes: Any) -> int:
    """The last axes to a size, or by factors, which then also decide the coordinates."""
    x = call.tensor("input" if "input" in call.arguments else "self")
    named = [call[name] for name in call.arguments if name.startswith("scales")]
    factors = call.get("scale_factors") or (named if None not in named else [])
    rank = len(factors) or len(call.arguments["output_size"])
    sizes = ABSENT if factors else call.sizes("output_size")
    scales = call.constant(np.array(factors, np.float64)) if factors else ABSENT
    return call.moved("Resize", x, ABSENT, scales, sizes, axes=list(range(2, 2 + rank)), **attributes)


def _method_of_resize(op: Attributed, version: int) -> Method:
    transformation = op.attribute("coordinate_transformation_mode", "half_pixel")
    mode = op.attribute("mode", "nearest")
    if version < 11:
        transformation = "asymmetric"
    return Method(
        mode,
        transformation,
        "simple" if version < 11 else op.attribute("nearest_mode", "round_prefer_floor"),
        float(op.attribute("cubic_coeff_a", -0.75)),
        bool(op.attribute("antialias", 0)) and mode != "nearest",
        bool(op.attribute("exclude_outside", 0)) and mode != "nearest",
        float(op.attribute("extrapolation_value", 0.0)) if transformation == "tf_crop_and_resize" else None,
    )


@operator("Upsample", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, steered_by=(1,))
def upsample(op: Call, x: Range, scales: Range | None = None) -> Range:
    """Nearest moves data, linear stays inside the hull of neighbours (ONNX Upsample-9)."""
    given = op.attribute("scales")
    if scales is None and given is not None:
        scales = Range.constant(np.asarray(given, np.float32))
    return _resized_batch(op, x, None, scales, None, _method_of_upsample(op))


@upsample.meaning
def _(run: Run, x: Tensor, scales: Tensor | None = None) -> Tensor:
    given = run.attribute("scales")
    if scales is None and given is not None:
        scales = run.torch.tensor(given, dtype=run.torch.float64)
    return _resized_tensor(run, x, None, scales, None, _method_of_upsample(run))


def _method_of_upsample(op: Attributed) -> Method:
    mode = str(op.attribute("mode", "nearest")).removeprefix("bi").removeprefix("tri")
    return Method(mode, "asymmetric", "simple", -0.75, False, False, None)


def _resized_batch(op: Call, x: Range, roi: Range | None, scales: Range | None, sizes: Range | None, method: Method) -> Range:
    """The same where the size of the first axis depends on the data and stays what it is."""
    if x.shape and not isinstance(x.shape[0], int):
        numbers = op.attribute("axes")
        factors = None if scales is None else scales.values()
        keeps = factors is not None and factors.size > 0 and factors.flat[0] == 1.0
        if (numbers is None and not keeps) or (numbers is not None and any(int(a) % x.rank == 0 for a in numbers)):
            raise UnknownShape("the size of an axis that is resized depends on the data")
    return any_batch(_resized)(op, x, roi, scales, sizes, method)


def _resized(op: Call, x: Range, roi: Range | None, scales: Range | None, sizes: Range | None, method: Method) -> Range:
    if method.mode not in ("nearest", "linear", "cubic"):
        raise NotAnalysed(f"mode {method.mode} is not known")
    if x.format.kind in ("string", "complex") and method.mode != "nearest":
        raise NotAnalysed(f"{x.format} cannot be interpolated")
    axes = _resized_axes(op, x.rank)
    regions = _region(None if roi is None else roi.values(), method, len(axes))
    if sizes is not None and sizes.shape != (0,):
        wanted = sizes.integers()
        if wanted is None:
            return _unknown_size(x, axes, _spans(sizes, [1] * len(axes)), method)
        plan = _from_sizes(op, x.sizes, axes, [int(v) for v in wanted])
        return resample(op, x, _axes_of(x.sizes, axes, plan, regions), method)
    factors = None if scales is None else scales.values()
    if factors is None:
        if scales is None:
            raise NotAnalysed("neither scales nor sizes are given")
        return _unknown_size(x, axes, _spans(scales, [x.sizes[axis] for axis in axes]), method)
    # floor(size * scale) in float32 or in float64: where they differ, both sizes are possible.
    narrow, wide = (
        [(int(np.floor(kind(x.sizes[a]) * kind(f))), float(f)) for a, f in zip(axes, factors)] for kind in (np.float32, np.float64)
    )
    result = resample(op, x, _axes_of(x.sizes, axes, narrow, regions), method)
    return result if narrow == wide else result.join(resample(op, x, _axes_of(x.sizes, axes, wide, regions), method))


def _axes_of(
    sizes: Sequence[int], axes: Sequence[int], plan: Sequence[tuple[int, float]], regions: Sequence[tuple[float, float]]
) -> list[Axis]:
    return [Axis(number, sizes[number], output, scale, *region) for number, (output, scale), region in zip(axes, plan, regions)]


def _resized_axes(op: Attributed, rank: int) -> list[int]:
    numbers = op.attribute("axes")
    return [int(a) % rank for a in numbers] if numbers is not None else list(range(rank))


def _region(values: Array | None, method: Method, count: int) -> list[tuple[float, float]]:
    """The region of interest of each axis; only tf_crop_and_resize has one."""
    if method.extrapolation is None:
        return [(0.0, 1.0)] * count
    if values is None or values.size != 2 * count:
        raise NotAnalysed("the region of interest is not a constant")
    return [(float(values[i]), float(values[count + i])) for i in range(count)]


def _from_sizes(op: Attributed, shape: Sequence[int], axes: Sequence[int], wanted: Sequence[int]) -> list[tuple[int, float]]:
    """Output sizes and scales from the input `sizes` (ONNX Resize-18, keep_aspect_ratio_policy)."""
    ratios = [w / shape[a] if shape[a] else 1.0 for a, w in zip(axes, wanted)]
    policy = op.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return list(zip(wanted, ratios))
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [(int(scale * shape[a] + 0.5), scale) for a in axes]


def _spans(factors: Range, sizes: Sequence[int]) -> list[Span]:
    """Output sizes from ranges of sizes, or of scales that multiply the given ones."""
    low, high, _ = factors.expanded()
    if factors.has_special or low.shape != (len(sizes),) or not (low > 0).all():
        raise NotAnalysed("scales or sizes may not be positive")
    spans: list[Span] = []
    for first, last, size in zip(low, high, sizes):
        # One more or one less covers the rounding of size * scale.
        spans.append(Span(max(0, int(min(first * size, LONGEST_AXIS)) - 1), int(min(last * size, LONGEST_AXIS)) + 1))
        if last * size > LONGEST_AXIS:
            raise NotAnalysed("scales or sizes have no useful bound")
    return spans


def _unknown_size(x: Range, axes: Sequence[int], spans: Sequence[Span], method: Method) -> Range:
    """The hull of everything that any size can give."""
    if method.exclude_outside:
        raise NotAnalysed("exclude_outside with a size that is not known")
    hull = x.smash(axes)
    low, high, special = hull.low, hull.high, hull.special
    if method.mode == "cubic":
        # Negative weights sum to a/4 at most, halfway between two elements; once per axis.
        overshoot = abs(method.cubic) / 4
        for _ in axes:
            width = high - low
            low, high = low - overshoot * width, high + overshoot * width
    if method.extrapolation is not None:
        low, high = np.minimum(low, method.extrapolation), np.maximum(high, method.extrapolation)
    error = 2.0**-8 * np.maximum(np.abs(low), np.abs(high)) if method.mode != "nearest" else 0.0
    assert x.shape is not None
    resized = dict(zip(axes, spans))
    shape = tuple(resized.get(axis, size) for axis, size in enumerate(x.shape))
    if method.mode != "nearest":
        special = np.where(special & INFINITIES, np.uint8(SPECIALS), special)
    return Range(x.format, shape, hull.grid, low - error, high + error, special)


# -- on tensors ------------------------------------------------------------------------------------------------------


def _resized_tensor(run: Run, x: Tensor, roi: Tensor | None, scales: Tensor | None, sizes: Tensor | None, method: Method) -> Tensor:
    """A tensor resampled along its axes, at the coordinates that runtimes compute."""
    axes = _resized_axes(run, x.ndim)
    regions = _region(None if roi is None else _array(roi), method, len(axes))
    wanted = None if sizes is None else run.integers("sizes", sizes)
    if wanted:
        plan = _from_sizes(run, x.shape, axes, wanted)
    elif scales is not None:
        plan = [(int(np.floor(np.float32(x.shape[a]) * np.float32(f))), float(f)) for a, f in zip(axes, _array(scales))]
    else:
        raise NotExecutable("neither scales nor sizes are given")
    floating = x if x.dtype.is_floating_point or method.mode == "nearest" else x.to(run.torch.float64)
    for axis in _axes_of(x.shape, axes, plan, regions):
        if not axis.is_untouched:
            floating = _resampled_axis(run, floating, axis, method)
    if run.format(0, x) != "int" or method.mode == "nearest":
        return floating.to(x.dtype)
    whole, declared = run.torch.round(floating), run.formats[0] if run.formats else None
    whole = whole if declared is None else whole.clamp(declared.low, declared.high)
    return run.passing(whole.to(x.dtype), floating)


def _resampled_axis(run: Run, x: Tensor, axis: Axis, method: Method) -> Tensor:
    """One axis resampled: a weighted sum of the elements that each output reads."""
    rows = rows_of(axis, method, coordinates(axis, method.transformation, np.float32, fractional=False))
    used = rows.weights.any(axis=0) if method.mode != "nearest" else np.ones(1, bool)
    elements = np.maximum(rows.elements[:, used], 0)
    taken = x.index_select(axis.number, run.torch.from_numpy(elements.reshape(-1))).movedim(axis.number, -1)
    taken = taken.unflatten(-1, elements.shape)
    if method.mode == "nearest":
        result = taken.squeeze(-1)
    else:
        result = (taken * run.torch.from_numpy(rows.weights[:, used]).to(x.dtype)).sum(dim=-1)
    if method.extrapolation is not None:
        result = run.torch.where(run.torch.from_numpy(rows.outside), method.extrapolation, result)
    return result.movedim(-1, axis.number)


def _array(x: Tensor) -> Array:
    """The numbers of a tensor of parameters."""
    return x.detach().double().reshape(-1).numpy()


@operator("ImageDecoder")
def image_decoder(op: Call, encoded: Range) -> Range:
    """Pixels from 0 to 255; the size depends on the data."""
    channels = 1 if op.attribute("pixel_format", "RGB") == "Grayscale" else 3
    return Range.uniform((Span(0, None), Span(0, None), channels), UINT8, 0.0, 255.0)
