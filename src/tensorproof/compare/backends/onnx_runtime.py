"""ONNX Runtime, with a chosen level of optimisation."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.compare.backends.backend import Unavailable
from tensorproof.compare.backends.onnx_backend import OnnxBackend, Session
from tensorproof.compare.drawing import Array, Arrays
from tensorproof.compare.workers.backend_id import BackendId

if TYPE_CHECKING:
    import onnx

#: The toggle `optimisation`, in the words of ONNX Runtime.
LEVELS: Mapping[str, str] = {"off": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "all": "ORT_ENABLE_ALL"}


def open_backend(backend: BackendId) -> OnnxBackend:
    """Import ONNX Runtime."""
    try:
        import_module("onnx")
        import onnxruntime
    except ImportError as error:
        raise Unavailable(f"{backend}: {error}") from None
    level = backend.toggle("optimisation", "all")
    if level not in LEVELS:
        raise Unavailable(f"{backend}: optimisation is one of {', '.join(LEVELS)}")

    def settings() -> Any:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[level])
        options.intra_op_num_threads = int(backend.toggle("threads", "1"))
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        return options

    def opener(model: onnx.ModelProto, folder: Path | None) -> Session:
        """Saving writes the optimised model, which is read back without being optimised again."""
        options = settings()
        source: Any = model.SerializeToString()
        if folder is not None:
            options.optimized_model_filepath = str(folder / "optimised.onnx")
            onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
            source = options.optimized_model_filepath
            options = settings()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

        def run(feeds: Arrays) -> list[Array]:
            return [np.asarray(result) for result in session.run(None, dict(feeds))]

        # An empty list stands for scalars and for unknown ranks alike.
        shapes = [
            tuple(part if isinstance(part, int) else None for part in entry.shape) if entry.shape else None
            for entry in session.get_outputs()
        ]
        return Session(run, shapes)

    return OnnxBackend(backend, "onnxruntime", opener, ("float16", "float32", "float64"))
