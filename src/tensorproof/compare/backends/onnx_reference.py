"""The reference evaluator that comes with ONNX: the standard's own opinion, in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.compare.backends.backend import Unavailable
from tensorproof.compare.backends.onnx_backend import OnnxBackend, Session
from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.workers.backend_id import BackendId

if TYPE_CHECKING:
    import onnx


def open_backend(backend: BackendId) -> OnnxBackend:
    """Import ONNX and its evaluator."""
    try:
        import onnx
        from onnx.reference import ReferenceEvaluator
    except ImportError as error:
        raise Unavailable(f"{backend}: {error}") from None

    def opener(model: onnx.ModelProto, folder: Path | None) -> Session:
        if folder is not None:
            onnx.save(model, str(folder / "network.onnx"))
            model = onnx.load(str(folder / "network.onnx"))
        evaluator = ReferenceEvaluator(model)

        def run(feeds: Arrays) -> list[Array]:
            with np.errstate(all="ignore"):
                results: Any = evaluator.run(None, dict(feeds))
            return [np.asarray(result) for result in results]

        return Session(run, _promised(model))

    return OnnxBackend(backend, "onnx", opener, ("bfloat16", "float16", "float32", "float64"))


def _promised(model: onnx.ModelProto) -> list[tuple[int | None, ...] | None]:
    """The shapes that the standard's inference finds for the outputs."""
    from onnx import shape_inference

    inferred = shape_inference.infer_shapes(model, data_prop=True)
    return [
        tuple(part.dim_value if part.HasField("dim_value") else None for part in entry.type.tensor_type.shape.dim)
        if entry.type.tensor_type.HasField("shape")
        else None
        for entry in inferred.graph.output
    ]
