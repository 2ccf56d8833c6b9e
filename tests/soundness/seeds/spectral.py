"""Transforms with every attribute of both versions, windows in every output type, mel filter banks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorproof.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT16, INT32, Format
from tests.soundness.seeds.seed import Seed, seed

_RNG = np.random.default_rng(3)
_REAL = _RNG.standard_normal((2, 5, 3, 1)).astype(np.float32)
_COMPLEX = _RNG.standard_normal((2, 6, 3, 2)).astype(np.float32)
_SPECTRUM = _RNG.standard_normal((2, 4, 2)).astype(np.float32)
_SIGNAL = _RNG.standard_normal((2, 12, 1)).astype(np.float32)


# ONNX Runtime's transforms of float64 signals have float32 angles: the reference evaluator is the oracle throughout.


def _dft(name: str, x: np.ndarray, attributes: dict[str, Any], *more: Any, opset: int = 20) -> Seed:
    return seed("DFT", [x, *more], attributes, opset=opset, vary=[0], name=f"dft-{name}-{opset}")


def _stft(name: str, attributes: dict[str, Any], *inputs: Any) -> Seed:
    return seed("STFT", list(inputs), attributes, opset=17, name=f"stft-{name}")


def _window(operator: str, size: int, to: Format, periodic: int, oracle: str) -> Seed:
    return seed(
        operator,
        [np.array(size, np.int32)],
        {"output_datatype": to.onnx_code, "periodic": periodic},
        opset=17,
        output_types=[to.onnx_code],
        oracle=oracle,
        name=f"{operator}-{size}-{to}-{periodic}-{oracle}",
    )


def _mel(bands: int, length: int, rate: int, lower: float, upper: float, to: Format, oracle: str) -> Seed:
    return seed(
        "MelWeightMatrix",
        [np.array(bands), np.array(length), np.array(rate), np.float32(lower), np.float32(upper)],
        {"output_datatype": to.onnx_code},
        opset=17,
        output_types=[to.onnx_code],
        oracle=oracle,
        name=f"mel-{bands}-{length}-{to}-{oracle}",
    )


_LENGTH, _SHORT, _LONG = np.array(7, np.int64), np.array(3, np.int32), np.array(8, np.int64)

SEEDS = [
    *(_dft("real", _REAL, {"onesided": o, "axis": 1}, opset=17) for o in (0, 1)),
    *(_dft("axis2", _COMPLEX, {"axis": 2, "inverse": i}, opset=17) for i in (0, 1)),
    *(_dft(f"input-axis{a}", _COMPLEX, {"inverse": i}, None, np.array(a, np.int64)) for a in (0, 1, -3) for i in (0, 1)),
    *(_dft(f"length{n}", _COMPLEX, {"inverse": i}, n, np.array(1, np.int64)) for n in (_LENGTH, _SHORT, _LONG) for i in (0, 1)),
    *(_dft(f"onesided{n}", _REAL, {"onesided": 1}, n, np.array(1, np.int64)) for n in (_SHORT, _LONG)),
    *(_dft(f"real-signal{n}", _SPECTRUM, {"inverse": 1, "onesided": 1}, *n) for n in ([], [_LENGTH], [_SHORT], [_LONG])),
    _dft("real-signal", _SPECTRUM, {"inverse": 1, "onesided": 1}, opset=17),
    *(
        _stft(f"{name}-onesided{o}", {"onesided": o}, _SIGNAL, np.array(3, np.int64), *more)
        for o in (0, 1)
        for name, more in (
            ("plain", []),
            ("window", [_RNG.random(5).astype(np.float32)]),
            ("length", [None, np.array(4, np.int64)]),
            ("both", [_RNG.random(6).astype(np.float32), np.array(6, np.int64)]),
        )
    ),
    _stft("complex", {"onesided": 0}, _COMPLEX[:, :, 0], np.array(2, np.int64), np.hanning(4).astype(np.float32)),
    *(
        _window(operator, size, to, periodic, oracle)
        for operator in ("HannWindow", "HammingWindow", "BlackmanWindow")
        for size, to, periodic, oracle in (
            (10, FLOAT32, 0, "reference"),
            (9, FLOAT32, 1, "runtime"),
            (300, FLOAT16, 1, "reference"),
            (40, BFLOAT16, 0, "reference"),
            (33, FLOAT64, 1, "runtime"),
            (8, INT32, 1, "runtime"),
            (8, INT16, 1, "reference"),
            (1, FLOAT32, 0, "runtime"),
            (1, FLOAT32, 1, "reference"),
            (0, FLOAT32, 1, "reference"),
        )
    ),
    _mel(8, 16, 8192, 0.0, 4096.0, FLOAT32, "runtime"),
    _mel(5, 64, 16000, 100.0, 8000.0, FLOAT64, "reference"),
    _mel(20, 512, 16000, 20.0, 7600.0, FLOAT32, "reference"),
    _mel(6, 64, 16000, 0.0, 8000.0, INT32, "reference"),
]
