"""Spectra of signals."""

from __future__ import annotations

from tensorproof.rules.shapes.window_too_large import WINDOW_TOO_LARGE
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.windows import flag
from tensorproof.shapes.rule_table import Extent, Mismatch, NotKnown, shape_rule
from tensorproof.shapes.sizes import less, same
from tensorproof.shapes.values import Tensor, Value, as_size


@shape_rule("torch.stft", "torch.Tensor.stft")
def stft(
    input: Tensor,
    n_fft: Extent,
    hop_length: Value = None,
    win_length: Value = None,
    window: Tensor | None = None,
    center: Value = True,
    pad_mode: Value = "reflect",
    normalized: Value = False,
    onesided: Value = None,
    return_complex: Value = None,
) -> Tensor:
    """`torch.stft` of real signals (L) or (N, L): frequencies, then frames."""
    shape = input.shape
    if shape.rank not in (None, 1, 2):
        raise Mismatch(WRONG_RANK, f"stft takes signals of 1 or 2 axes, not {shape}", tensors=(input,))
    centred, one_side, as_complex = flag(center), flag(onesided), flag(return_complex)
    hop = n_fft // 4 if hop_length is None else as_size(hop_length)
    if shape.rank is None or centred is None or as_complex is None or hop is None or input.dtype.startswith("c"):
        raise NotKnown
    samples = shape.dims[-1]
    padding = n_fft // 2 if centred else 0
    width = n_fft if win_length is None else as_size(win_length)
    if window is not None and width is not None and (window.shape.rank not in (None, 1) or same(window.shape[-1], width) is False):
        raise Mismatch(WINDOW_TOO_LARGE, f"the window {window.shape} has to have {width} elements", tensors=(window,))
    total = samples + 2 * padding
    if less(total, n_fft) or (centred and pad_mode == "reflect" and less(padding, samples) is False):
        message = f"a window of {n_fft} elements does not fit into the {samples} samples of {shape}"
        raise Mismatch(WINDOW_TOO_LARGE, message, tensors=(input,))
    frames = (total - n_fft) // hop + 1
    bins = n_fft if onesided is not None and one_side is False else n_fft // 2 + 1
    parts = (bins, frames) if as_complex else (bins, frames, 2)
    return input.with_shape(shape.without_last(1).extended(*parts), dtype="c64" if as_complex else input.dtype)
