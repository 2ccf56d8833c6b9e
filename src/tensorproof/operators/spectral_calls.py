"""Transforms of TensorFlow and JAX that are refused: their spectra are complex, which no element-wise block has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorproof.errors import NotAnalysed
from tensorproof.operators.spectral import dft

if TYPE_CHECKING:
    from tensorproof.frontends.calls import OperatorCall

_FAMILY = (*(f"{kind}FFT{rank}" for kind in ("", "I", "R", "IR") for rank in ("", "2D", "3D", "ND")), "BatchFFT", "BatchIFFT")


@dft.tensorflow(*_FAMILY, "AudioSpectrogram", "Mfcc")
def _(call: OperatorCall) -> int:
    raise NotAnalysed(f"{call.name}: spectra of complex numbers are not modelled")


@dft.jax("fft")
def _(call: OperatorCall) -> int:
    raise NotAnalysed("fft: spectra of complex numbers are not modelled")
