"""The node cases of the onnx package, generated once per version and kept in a cache folder."""

from __future__ import annotations

import os
import pickle
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.numpy_helper import to_array

from tests.soundness.seeds.seed import Seed

CACHE = Path(__file__).resolve().parents[2] / ".cache"


def _generate() -> list[tuple[str, bytes, tuple[Any, ...], tuple[Any, ...]]]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    result: list[tuple[str, bytes, tuple[Any, ...], tuple[Any, ...]]] = []
    for case in cases:
        for inputs, outputs in case.data_sets:
            result.append((case.name, case.model.SerializeToString(), tuple(inputs), tuple(outputs)))
    return result


def _as_array(value: Any) -> Any:
    """Tensors and NumPy scalars as arrays; sequences and optionals as they are."""
    if isinstance(value, onnx.TensorProto):
        return to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


@cache
def node_cases() -> tuple[Seed, ...]:
    """All generated node cases; the operator of a case is its most specific node type."""
    path = CACHE / f"node_cases-{onnx.__version__}.pickle"
    if path.exists():
        raw = pickle.loads(path.read_bytes())
    else:
        raw = _generate()
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(pickle.dumps(raw))
        temporary.replace(path)
    seeds: list[Seed] = []
    for name, data, inputs, outputs in raw:
        model = onnx.ModelProto.FromString(data)
        node = model.graph.node[-1]
        domain = "" if node.domain == "ai.onnx" else node.domain
        # Cases of several nodes are functions written out: they test whole graphs, not one operator.
        operator = node.op_type if len(model.graph.node) == 1 else "expanded"
        arrays = tuple(_as_array(x) for x in inputs)
        results = tuple(_as_array(x) for x in outputs)
        seeds.append(Seed(name, operator, domain, model, arrays, results))
    return tuple(seeds)
