"""OpenVINO, which reads ONNX models itself."""

from __future__ import annotations

import io
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


def open_backend(backend: BackendId) -> OnnxBackend:
    """Import OpenVINO."""
    try:
        import_module("onnx")
        import openvino
    except ImportError as error:
        raise Unavailable(f"{backend}: {error}") from None
    core: Any = openvino.Core()
    # The default is bfloat16 arithmetic where the processor has it: rounding that nobody asked for.
    settings = {
        "INFERENCE_PRECISION_HINT": backend.toggle("precision", "f32"),
        "INFERENCE_NUM_THREADS": int(backend.toggle("threads", "1")),
    }

    def opener(model: onnx.ModelProto, folder: Path | None) -> Session:
        """Saving writes OpenVINO's own format, in full precision."""
        read = core.read_model(io.BytesIO(model.SerializeToString()))
        if folder is not None:
            openvino.save_model(read, folder / "network.xml", compress_to_fp16=False)
            read = core.read_model(folder / "network.xml")
        shapes = [_shape(output.partial_shape) for output in read.outputs]
        compiled = core.compile_model(read, "CPU", settings)
        names = [entry.name for entry in model.graph.input]
        used = {name for entry in compiled.inputs for name in entry.names}

        def run(feeds: Arrays) -> list[Array]:
            results = compiled({name: feeds[name] for name in names if name in used})
            return [np.array(results[place]) for place in range(len(shapes))]

        return Session(run, shapes)

    # Its processor plug-in computes float64 in float32.
    return OnnxBackend(backend, "openvino", opener, ("float16", "float32"))


def _shape(shape: Any) -> tuple[int | None, ...] | None:
    if shape.rank.is_dynamic:
        return None
    return tuple(None if part.is_dynamic else part.get_length() for part in shape)
