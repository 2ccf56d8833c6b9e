"""`Seed`: one operator call with concrete inputs, from which random ranges are grown."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tensorproof.formats import of_dtype


@dataclass(frozen=True)
class Seed:
    """A model (usually of one node), inputs for it, and the expected outputs where they are known.

    `vary` names the inputs that random trials replace by ranges; None means every input of a floating format.
    `oracle` is "reference" (onnx.reference) or "runtime" (ONNX Runtime).
    """

    name: str
    operator: str
    domain: str
    model: onnx.ModelProto
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...] | None = None
    vary: tuple[str, ...] | None = None
    oracle: str = "reference"
    tags: frozenset[str] = field(default_factory=frozenset)

    @property
    def label(self) -> str:
        return f"{self.domain}::{self.operator}" if self.domain else self.operator


def seed(
    operator: str,
    inputs: Sequence[Any],
    attributes: dict[str, Any] | None = None,
    *,
    opset: int = 24,
    domain: str = "",
    outputs: int = 1,
    output_types: Sequence[int] | None = None,
    constants: dict[int, Any] | None = None,
    vary: Sequence[int] | None = None,
    oracle: str | None = None,
    name: str = "",
) -> Seed:
    """A one-node seed. `inputs` are arrays, or None for an optional one left out; `constants` marks inputs by their number
    that become initialisers; `vary` lists the numbers of the inputs to vary (all floating ones by default)."""
    constants = constants or {}
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    arrays = {f"x{i}": np.asarray(x) for i, x in enumerate(inputs) if x is not None}
    output_names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, names, output_names, domain=domain, name="node", **(attributes or {}))
    fixed = [numpy_helper.from_array(arrays[f"x{i}"], f"x{i}") for i in constants]
    fed = [n for n in arrays if int(n[1:]) not in constants]
    infos = [helper.make_tensor_value_info(n, of_dtype(arrays[n].dtype).onnx_code, list(arrays[n].shape)) for n in fed]
    first = next(iter(arrays.values()), np.zeros(0, np.float32))
    types = output_types or [of_dtype(first.dtype).onnx_code] * outputs
    results = [helper.make_tensor_value_info(n, t, None) for n, t in zip(output_names, types)]
    graph = helper.make_graph([node], "seed", infos, results, fixed)
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return Seed(
        name=name or f"{operator}-{opset}-{zlib.crc32(repr((attributes, [a.shape for a in arrays.values()])).encode()):08x}",
        operator=operator,
        domain=domain,
        model=model,
        inputs=tuple(arrays[n] for n in fed),
        vary=None if vary is None else tuple(f"x{i}" for i in vary),
        oracle=oracle or ("runtime" if domain else "reference"),
    )
