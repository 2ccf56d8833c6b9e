"""The arrays that a test stands for. They depend on the spec alone: every backend, in any version, is given the same numbers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tensorproof.compare.spec import InputSpec, TestSpec

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]

#: What `edges` draws, besides ordinary numbers; values that the format cannot hold become infinite there on purpose.
_EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-3, -1e-3, 20.0, -20.0, 88.0, -88.0, 100.0, -100.0, 1e4, -1e4)


def dtype_of(name: str) -> np.dtype[Any]:
    """A number type by name; `bfloat16` and the float8 types too."""
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def generator(*parts: object) -> np.random.Generator:
    """Random numbers that depend on the parts alone."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def draw_inputs(test: TestSpec) -> dict[str, Array]:
    """All inputs of a test."""
    return {entry.name: _drawn(entry, test) for entry in test.network.inputs}


def _drawn(entry: InputSpec, test: TestSpec) -> Array:
    random = generator("input", test.seed, entry.name, entry.shape)
    if entry.values == "integers":
        return random.integers(0, entry.high, entry.shape).astype(dtype_of(entry.dtype))
    if entry.values == "mask":
        return random.random(entry.shape) < 0.7
    if entry.values == "uniform":
        numbers = random.random(entry.shape)
    elif entry.values == "signs":
        numbers = random.integers(-1, 2, entry.shape).astype(float)
    elif entry.values == "edges":
        ordinary = random.normal(size=entry.shape)
        numbers = np.where(random.random(entry.shape) < 0.5, random.choice(_EDGES, entry.shape), ordinary)
    else:
        numbers = random.normal(size=entry.shape)
    wanted = entry.dtype if not entry.dtype.startswith(("float", "bfloat")) else test.dtype
    with np.errstate(over="ignore"):
        return (numbers * test.scale).astype(np.float32).astype(dtype_of(wanted))


def draw_weight(test: TestSpec, layer: str, index: int, name: str, shape: tuple[int, ...]) -> Array:
    """A weight of a layer, by its place in the layer's list of weights and its name there.

    Kernels keep the size of what passes through them; variances are positive.
    """
    random = generator("weight", test.seed, layer, index, shape)
    words = name.lower()
    if "variance" in words:
        numbers = random.uniform(0.5, 1.5, shape)
    elif "gamma" in words or "scale" in words:
        numbers = random.normal(1.0, 0.1, shape)
    elif len(shape) < 2:
        numbers = random.normal(0.0, 0.1, shape)
    else:
        fan_in = max(1, math.prod(shape[:-1]))
        numbers = random.normal(0.0, 1.0 / math.sqrt(fan_in), shape)
    return numbers.astype(np.float32).astype(dtype_of(test.dtype))
