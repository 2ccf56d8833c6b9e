"""Fourier transforms, window functions and the mel filter bank.

A transform is linear with known coefficients: the bounds are exact interval products with the cosines and sines. Fast
algorithms round differently from a plain sum, but every intermediate value is bounded by the sum of the absolute inputs, so
the error is taken relative to that sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BY_ONNX_CODE, FLOAT32, FLOAT64, Array
from tensorproof.operators.arithmetic import mul
from tensorproof.operators.casts import converted
from tensorproof.operators.table import CORRECT, Call, operator
from tensorproof.ranges.grid import Cuts, Span, cell_sizes, concrete, every
from tensorproof.ranges.moving import moved
from tensorproof.ranges.range import CELL_BUDGET, INFINITIES, NAN, SPECIALS, Flags, Range
from tensorproof.ranges.sums import report_partial_overflow, summation_error
from tensorproof.rules.accumulation_overflow import ACCUMULATION_OVERFLOW
from tensorproof.rules.division_by_zero import DIVISION_BY_ZERO
from tensorproof.rules.undefined_cast import UNDEFINED_CAST
from tensorproof.targets import ONNXRUNTIME_CPU

if TYPE_CHECKING:
    from tensorproof.execute.meaning import Run, Tensor

#: Coefficients that one transform may compute; larger ones are bounded by the sum of absolute inputs alone.
_COEFFICIENTS = 1 << 26
#: Coefficients that are held at a time.
_CHUNK = 1 << 20
#: Windows longer than this are one cell.
_LONGEST_WINDOW = 1 << 20


# -- transforms --------------------------------------------------------------------------------------------------------


@operator("DFT", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, steered_by=(1, 2))
def dft(op: Call, x: Range, dft_length: Range | None = None, axis: Range | None = None) -> Range:
    """Linear with the coefficients cos and sin; the signal is cut or padded with zeros to its length (ONNX DFT-20)."""
    given = op.integers("axis", axis)
    number = (given[0] if given else _default_axis(op.version)) % x.rank
    inverse, onesided = bool(op.attribute("inverse", 0)), bool(op.attribute("onesided", 0))
    assert x.shape is not None
    size = concrete((x.shape[number],))[0]
    lengths = op.integers("dft_length", dft_length)
    length = lengths[0] if lengths else _default_length(size, to_real=inverse and onesided)
    if inverse and onesided and op.target is ONNXRUNTIME_CPU and length // 2 + 1 != size:
        raise NotAnalysed("ONNX Runtime cuts and pads half spectra differently from the standard")
    return _transformed(op, x, number, length, inverse=inverse, onesided=onesided)


@dft.meaning
def _(run: Run, x: Tensor, dft_length: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    given = run.integers("axis", axis)
    number = (given[0] if given else _default_axis(run.version)) % x.ndim
    inverse, onesided = bool(run.attribute("inverse", 0)), bool(run.attribute("onesided", 0))
    lengths = run.integers("dft_length", dft_length)
    length = lengths[0] if lengths else _default_length(x.shape[number], to_real=inverse and onesided)
    return _transformed_tensor(run, x, number, length, inverse=inverse, onesided=onesided)


def _default_axis(version: int) -> int:
    return 1 if version < 20 else -2


def _default_length(size: int, *, to_real: bool) -> int:
    """The length of a transform that the node does not give: that of the signal, or of the one that a half spectrum is of."""
    return 2 * (size - 1) if to_real else size


@operator("STFT", error=CORRECT, overflow=ACCUMULATION_OVERFLOW, composed_of=(mul,), steered_by=(1, 3))
def stft(op: Call, signal: Range, frame_step: Range, window: Range | None = None, frame_length: Range | None = None) -> Range:
    """The transform of each windowed frame: linear in the signal (ONNX STFT-17)."""
    if signal.rank != 3:
        raise NotAnalysed("the signal is not of rank 3")
    assert signal.shape is not None
    samples = concrete((signal.shape[1],))[0]
    steps, lengths = op.integers("frame_step", frame_step), op.integers("frame_length", frame_length)
    length = lengths[0] if lengths else samples if window is None else window.sizes[0]
    step = (steps or [0])[0]
    if step <= 0 or length <= 0:
        raise NotAnalysed("the frames have no length or step")
    frames = _frames(signal, step, length, max((samples - length) // step + 1, 0))
    if window is not None:
        weights = moved(window, (1, 1, length, 1), (None, None, window.grid[0], None), lambda a: a.reshape(1, 1, -1, 1))
        frames = op.apply(mul, frames, weights)
    return _transformed(op, frames, 2, length, inverse=False, onesided=bool(op.attribute("onesided", 1)))


@stft.meaning
def _(run: Run, signal: Tensor, frame_step: Tensor, window: Tensor | None = None, frame_length: Tensor | None = None) -> Tensor:
    step, lengths = int(run.whole(frame_step).item()), run.integers("frame_length", frame_length)
    length = lengths[0] if lengths else signal.shape[1] if window is None else window.shape[0]
    frames = signal.unfold(1, length, step).transpose(2, 3)
    if window is not None:
        frames = frames * window[:, None]
    return _transformed_tensor(run, frames, 2, length, inverse=False, onesided=bool(run.attribute("onesided", 1)))


def _transformed_tensor(run: Run, x: Tensor, axis: int, length: int, *, inverse: bool, onesided: bool) -> Tensor:
    """The transform along an axis of (..., axis, ..., parts), parts being real, or real and imaginary."""
    fft = run.torch.fft
    # Torch transforms numbers of 32 bits and more.
    wide = x.to(run.torch.promote_types(x.dtype, run.torch.float32))
    real, imaginary = wide[..., 0], wide[..., 1] if x.shape[-1] == 2 else run.torch.zeros_like(wide[..., 0])
    signal = run.torch.complex(real, imaginary)
    if inverse and onesided:
        return fft.irfft(signal, length, dim=axis).unsqueeze(-1).to(x.dtype)
    spectrum = fft.ifft(signal, length, dim=axis) if inverse else fft.fft(signal, length, dim=axis)
    spectrum = spectrum.narrow(axis, 0, length // 2 + 1) if onesided else spectrum
    return run.torch.view_as_real(spectrum).to(x.dtype)


def _frames(signal: Range, step: int, length: int, count: int) -> Range:
    """Frames of a signal (batch, samples, parts) as (batch, frame, sample, parts)."""
    assert signal.shape is not None
    shape = (signal.shape[0], count, length, signal.shape[2])
    if signal.cells[0] * count * length * signal.cells[2] > 4 * CELL_BUDGET:
        signal = signal.smash((1,))
    if signal.cells[1] <= 1:
        index = np.zeros((1 if count else 0, 1), np.int64)
        middle: tuple[Cuts, ...] = (None if count else np.zeros(1, np.int64), None)
    else:
        signal = signal.refine_fully(1)
        index = np.arange(count)[:, None] * step + np.arange(length)
        middle = (every(count), every(length))
    grid = (signal.grid[0], *middle, signal.grid[2])
    return moved(signal, shape, grid, lambda a: a[:, index])


def _transformed(op: Call, x: Range, axis: int, length: int, *, inverse: bool, onesided: bool) -> Range:
    """The transform along an axis of (..., axis, ..., parts), parts being real, or real and imaginary."""
    assert x.shape is not None
    parts = concrete((x.shape[-1],))[0]
    if parts not in (1, 2) or length <= 0:
        raise NotAnalysed("the signal is neither real nor complex, or has no length")
    to_real = inverse and onesided
    used = min(concrete((x.shape[axis],))[0], length // 2 + 1 if to_real else length)
    outputs = length // 2 + 1 if onesided and not inverse else length
    x = x.refine_fully(x.rank - 1)
    # (..., axis, ..., parts) to (rest..., parts, axis): what is summed stands last.
    starts, sizes = _used_cells(x, axis, used)
    low, high = (np.moveaxis(end, axis, -1)[..., : len(starts)] for end in (x.low, x.high))
    special = np.moveaxis(x.special, axis, -1)[..., : len(starts)]
    empty = low > high
    low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
    magnitude = (np.maximum(np.abs(low), np.abs(high)) * sizes).sum(axis=(-1, -2))
    weights = np.ones(used)
    if to_real:
        # Both halves of a spectrum that is symmetric: all but the first and the middle frequency count twice.
        weights[1 : (length + 1) // 2] = 2.0
    components = _components(parts, inverse=inverse, to_real=to_real)
    if outputs * used <= _COEFFICIENTS:
        result = _interval_transform(low, high, starts, weights, components, outputs, length)
    else:
        # One cell for all frequencies: each is a sum of inputs with coefficients of size at most 1 (2 for half spectra).
        reach = (magnitude * float(weights.max(initial=1.0)))[..., None, None]
        reach = np.broadcast_to(reach, (*magnitude.shape, 1, len(components)))
        result = -reach, reach
    factor = 1.0 / length if inverse else 1.0
    sums = magnitude * float(weights.max(initial=1.0))
    # ONNX Runtime computes its angles in float32 for signals in float64, too (measured with version 1.31).
    rough = sums * (2.0 * FLOAT32.unit_roundoff if op.target is ONNXRUNTIME_CPU else 0.0)
    error = (summation_error(op, sums, 2 * used * parts + 16, x.format) + rough)[..., None, None] * factor
    lower, upper = result[0] * factor - error, result[1] * factor + error
    flags = np.bitwise_or.reduce(special, axis=(-1, -2))[..., None, None]
    flags = np.where((flags & INFINITIES) != 0, np.uint8(SPECIALS), flags & np.uint8(NAN))
    return _spectrum(op, x, axis, outputs, len(components), lower, upper, flags, sums * _growth_on_the_way(op, length))


def _growth_on_the_way(op: Call, length: int) -> float:
    """How much larger than the sum of absolute inputs an intermediate value can be.

    ONNX Runtime transforms lengths that are no power of two by Bluestein's algorithm: three transforms of the next power of
    two M from 2 * length on, whose values grow by M in the first two, before the third divides by M.
    """
    if op.target is not ONNXRUNTIME_CPU or length & (length - 1) == 0:
        return 1.0
    return 4.0 ** int(2 * length).bit_length()


def _used_cells(x: Range, axis: int, used: int) -> tuple[npt.NDArray[np.int64], Array]:
    """Where the cells start that hold the first `used` elements of an axis, and how many of them each holds."""
    cuts, shape = x.grid[axis], x.shape
    assert shape is not None
    starts = np.zeros(1, np.int64) if cuts is None else cuts[:-1]
    starts = starts[starts < used]
    ends = np.minimum(starts + cell_sizes(x.grid, shape, axis)[: len(starts)], used)
    return starts, (ends - starts).astype(np.float64)


#: For each part of the result, the sign and function of the coefficient of each part of the input.
_Component = tuple[tuple[float, Callable[[Array], Array]], ...]


def _components(parts: int, *, inverse: bool, to_real: bool) -> tuple[_Component, ...]:
    """(re + j im)(cos t -+ j sin t), minus for the forward transform."""
    turn = -1.0 if inverse else 1.0
    real: _Component = ((1.0, np.cos), (turn, np.sin))
    imaginary: _Component = ((-turn, np.sin), (1.0, np.cos))
    return (real[:parts],) if to_real else (real[:parts], imaginary[:parts])


def _interval_transform(
    low: Array,
    high: Array,
    starts: npt.NDArray[np.int64],
    weights: Array,
    components: tuple[_Component, ...],
    outputs: int,
    length: int,
) -> tuple[Array, Array]:
    """Bounds (rest..., outputs, components) of the sums over parts and cells, some rows of coefficients at a time."""
    used = len(weights)
    shape = (*low.shape[:-2], outputs, len(components))
    result_low, result_high = np.zeros(shape), np.zeros(shape)
    if not used:
        return result_low, result_high
    rows = max(1, _CHUNK // used)
    for first in range(0, outputs, rows):
        here = slice(first, min(first + rows, outputs))
        turns = np.outer(np.arange(here.start, here.stop), np.arange(used)) % length
        angles: Array = turns.astype(np.float64) * (2.0 * np.pi / length)
        for number, component in enumerate(components):
            for part, (sign, function) in enumerate(component):
                coefficients = sign * function(angles) * weights
                positive = np.add.reduceat(np.maximum(coefficients, 0.0), starts, axis=1).T
                negative = np.add.reduceat(np.minimum(coefficients, 0.0), starts, axis=1).T
                least, most = low[..., part, :], high[..., part, :]
                result_low[..., here, number] += least @ positive + most @ negative
                result_high[..., here, number] += most @ positive + least @ negative
    return result_low, result_high


def _spectrum(
    op: Call, x: Range, axis: int, outputs: int, parts: int, low: Array, high: Array, special: Flags, sums: Array
) -> Range:
    """Results (rest..., outputs, parts) on the grid of the transformed tensor."""
    assert x.shape is not None
    one_cell = low.shape[-2] == 1
    shape = (*x.shape[:axis], outputs, *x.shape[axis + 1 : -1], parts)
    grid = (*x.grid[:axis], None if one_cell else every(outputs), *x.grid[axis + 1 : -1], every(parts))
    low, high, special, sums = (
        np.moveaxis(np.broadcast_to(a, low.shape), -2, axis) for a in (low, high, special, sums[..., None, None])
    )
    result = Range(x.format, shape, grid, low, high, special)
    report_partial_overflow(op, result, -sums, sums)
    return result


# -- windows -----------------------------------------------------------------------------------------------------------


def _window(op: Call, size: Range, function: Callable[[Array], Array], codomain: tuple[float, float]) -> Range:
    """A window function of the phase n / N, N the size or, if it is symmetric, one less.

    Angles up to 4 pi are computed in the format of the result, with three roundings, and the cosines have factors up to
    1/2: the error is absolute, 16 units of roundoff (of float32 at best: ONNX Runtime's coefficients are float32 numbers).
    """
    to = BY_ONNX_CODE[int(op.attribute("output_datatype", FLOAT32.onnx_code))]
    sizes = size.integers()
    count = None if sizes is None else int(sizes.reshape(-1)[0])
    error = 16.0 * max(to.unit_roundoff, FLOAT32.unit_roundoff)
    if count is None or count > _LONGEST_WINDOW:
        low, high = size.hull()
        shape = Span(max(int(low), 0), int(min(high, 2.0**62))) if count is None else count
        exact = Range.uniform((shape,), FLOAT64, codomain[0] - error, codomain[1] + error)
        return converted(op, exact, to)
    divisor = count if op.attribute("periodic", 1) else count - 1
    if count == 1 and divisor == 0:
        op.report(DIVISION_BY_ZERO, 0, size, True, gives=NAN)
    values = function(np.arange(max(count, 0)) / max(divisor, 1))
    low, high = np.maximum(values - error, codomain[0] - error), np.minimum(values + error, codomain[1] + error)
    return converted(op, Range.elements(FLOAT64, low, high), to)


def _window_tensor(run: Run, size: Tensor, function: Callable[[Array], Array]) -> Tensor:
    """The same as numbers; a symmetric window of one element is 0 / 0."""
    to = BY_ONNX_CODE[int(run.attribute("output_datatype", FLOAT32.onnx_code))]
    count = int(run.whole(size).item())
    with np.errstate(invalid="ignore"):
        phase = np.arange(max(count, 0)) / np.float64(count if run.attribute("periodic", 1) else count - 1)
    return run.torch.from_numpy(function(phase)).to(run.dtype(to))


@operator("HannWindow", hazards=(DIVISION_BY_ZERO, UNDEFINED_CAST), steered_by=(0,))
def hann_window(op: Call, size: Range) -> Range:
    """sin(pi n / N)^2, known exactly."""
    return _window(op, size, _hann, (0.0, 1.0)).clamp(0.0, 1.0)


@hann_window.meaning
def _(run: Run, size: Tensor) -> Tensor:
    return _window_tensor(run, size, _hann)


def _hann(phase: Array) -> Array:
    return np.sin(np.pi * phase) ** 2


@operator("HammingWindow", hazards=(DIVISION_BY_ZERO, UNDEFINED_CAST), steered_by=(0,))
def hamming_window(op: Call, size: Range) -> Range:
    """25/46 - 21/46 cos(2 pi n / N), known exactly (ONNX HammingWindow-17)."""
    return _window(op, size, _hamming, (4.0 / 46.0, 1.0))


@hamming_window.meaning
def _(run: Run, size: Tensor) -> Tensor:
    return _window_tensor(run, size, _hamming)


def _hamming(phase: Array) -> Array:
    return 25.0 / 46.0 - 21.0 / 46.0 * np.cos(2.0 * np.pi * phase)


@operator("BlackmanWindow", hazards=(DIVISION_BY_ZERO, UNDEFINED_CAST), steered_by=(0,))
def blackman_window(op: Call, size: Range) -> Range:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N), known exactly."""
    return _window(op, size, _blackman, (0.0, 1.0))


@blackman_window.meaning
def _(run: Run, size: Tensor) -> Tensor:
    return _window_tensor(run, size, _blackman)


def _blackman(phase: Array) -> Array:
    # In this order the largest value is exactly 1, as in runtimes, and stays 1 as an integer.
    return -0.5 * np.cos(2.0 * np.pi * phase) + 0.08 * np.cos(4.0 * np.pi * phase) + 0.42


# -- the mel filter bank -----------------------------------------------------------------------------------------------


@operator(
    "MelWeightMatrix",
    coarse="the three edges of a triangle move independently where the frequencies are ranges",
    steered_by=(0, 1, 2),
)
def mel_weight_matrix(op: Call, bands: Range, dft_length: Range, sample_rate: Range, lower_edge: Range, upper_edge: Range) -> Range:
    """Triangles with peak 1 over the bins of a spectrum, known exactly where the edges are (ONNX MelWeightMatrix-17)."""
    to = BY_ONNX_CODE[int(op.attribute("output_datatype", FLOAT32.onnx_code))]
    numbers = [x.integers() for x in (bands, dft_length, sample_rate)]
    known = [int(n.reshape(-1)[0]) for n in numbers if n is not None]
    if len(known) < 3:
        return Range.uniform((Span(0, None), Span(0, None)), to, 0.0, 1.0)
    columns, length, rate = known
    rows = length // 2 + 1
    (lower_low, lower_high), (upper_low, upper_high) = lower_edge.hull(), upper_edge.hull()
    roundoff = max(lower_edge.format.unit_roundoff, FLOAT32.unit_roundoff)
    first = _bins(columns, length, rate, lower_low, upper_low, -64.0 * roundoff)
    last = _bins(columns, length, rate, lower_high, upper_high, 64.0 * roundoff)
    choices = float((last - first).max(initial=0.0)) + 1.0
    if not (rate > 0 and choices**3 * rows * columns <= _CHUNK * 4):
        return converted(op, Range.uniform((rows, columns), FLOAT64, 0.0, 1.0), to)
    low, high = _hull_of_triangles(rows, first, last, int(choices))
    return converted(op, Range.elements(FLOAT64, low, high), to)


@mel_weight_matrix.meaning
def _(run: Run, bands: Tensor, dft_length: Tensor, sample_rate: Tensor, lower_edge: Tensor, upper_edge: Tensor) -> Tensor:
    # Edges fall into whole bins: nothing of the matrix has a derivative.
    to = BY_ONNX_CODE[int(run.attribute("output_datatype", FLOAT32.onnx_code))]
    columns, length, rate = (int(run.whole(x).item()) for x in (bands, dft_length, sample_rate))
    bins = _bins(columns, length, rate, float(lower_edge), float(upper_edge), 0.0)
    edges = (bins[k : columns + k] for k in range(3))
    weights = _triangles(np.arange(length // 2 + 1)[:, None], *edges)
    return run.torch.from_numpy(weights).to(run.dtype(to))


def _bins(bands: int, length: int, rate: int, lower: float, upper: float, error: float) -> Array:
    """The bin of every edge of a triangle; frequencies are increasing in both ends and moved by their relative error."""
    start, end = (2595.0 * np.log1p(edge / 700.0) / np.log(10.0) for edge in (lower, upper))
    steps = np.arange(bands + 2)
    frequencies = 700.0 * np.expm1((steps * ((end - start) / (bands + 2)) + start) / 2595.0 * np.log(10.0))
    moved = frequencies + (np.abs(frequencies) + 700.0) * error
    bins = np.floor((length + 1) * moved / rate)
    # A spectrum that starts at zero starts at bin zero, whatever the rounding.
    return np.maximum(bins, 0.0) if lower >= 0 else bins


def _hull_of_triangles(rows: int, first: Array, last: Array, choices: int) -> tuple[Array, Array]:
    """Bounds over all bins that the three edges of each triangle can fall into."""
    bins = np.arange(rows)[:, None]
    count = len(first) - 2
    low, high = np.full((rows, count), np.inf), np.full((rows, count), -np.inf)
    for offsets in np.ndindex(choices, choices, choices):
        edges = [np.minimum(first[k : count + k] + step, last[k : count + k]) for k, step in enumerate(offsets)]
        values = _triangles(bins, *edges)
        low, high = np.minimum(low, values), np.maximum(high, values)
        # Bins below zero count from the end in some implementations.
        negative = bins - rows >= edges[0]
        if negative.any():
            high = np.where(negative, np.maximum(high, _triangles(bins - rows, *edges)), high)
            low = np.where(negative, np.minimum(low, _triangles(bins - rows, *edges)), low)
    return low, high


def _triangles(bins: npt.NDArray[np.int64], left: Array, centre: Array, right: Array) -> Array:
    """Rising from left to centre, falling from centre to right; a triangle without a rising side starts at 1."""
    rising = np.where(centre > left, (bins - left) / np.maximum(centre - left, 1.0), (bins == centre) * 1.0)
    result = np.where((bins >= left) & (bins <= centre), rising, 0.0)
    falling = (right - bins) / np.maximum(right - centre, 1.0)
    return np.where((right > centre) & (bins >= centre) & (bins < right), falling, result)
