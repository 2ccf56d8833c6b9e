"""Arrays and arguments as Python source."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from textwrap import wrap
from typing import Any, cast

import numpy as np

from tensorproof.compare.drawing import Array

#: Arrays up to this size are written as numbers.
_READABLE = 64


def array_source(array: Array) -> str:
    """An expression for an array: its numbers if they are few, else its bytes. `np`, `ml_dtypes`, `base64` are imported there."""
    name = array.dtype.name
    dtype = repr(name) if array.dtype.kind in "biufc" and name[:1] in "biufc" and name != "bfloat16" else f"ml_dtypes.{name}"
    if array.size <= _READABLE:
        numbers = array if array.dtype.kind in "biu" else array.astype(np.float64)
        return f"np.array({numbers.tolist()!r}, {dtype}).reshape({tuple(array.shape)!r})"
    text = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    lines = "\n".join(f'        "{part}"' for part in wrap(text, 100))
    return f"np.frombuffer(base64.b64decode(\n{lines}\n    ), {dtype}).reshape({tuple(array.shape)!r})"


def layer_source(kind: str, parameters: Mapping[str, Any], dtype: str, name: str | None = None) -> str:
    """The constructor call of a Keras layer; nested layers are written in place, lists are tuples as in Keras' documentation."""
    arguments = {key: argument_source(value, dtype) for key, value in parameters.items() if not key.startswith("call:")}
    arguments.setdefault("dtype", repr(dtype))
    if name is not None:
        arguments["name"] = repr(name)
    listed = ", ".join(f"{key}={value}" for key, value in arguments.items())
    return f"layers.{kind}({listed})"


def argument_source(value: Any, dtype: str) -> str:
    """One argument of a layer."""
    if isinstance(value, Mapping) and "kind" in value:
        inner = cast("Mapping[str, Any]", value)
        return layer_source(inner["kind"], inner.get("parameters", {}), dtype)
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        sources = [argument_source(part, dtype) for part in parts]
        if any(isinstance(part, Mapping) for part in parts):
            return f"[{', '.join(sources)}]"
        return f"({', '.join(sources)}{',' if len(sources) == 1 else ''})"
    return repr(value)
