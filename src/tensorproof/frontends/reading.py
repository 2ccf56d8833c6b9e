"""Which front end reads a file: by its name, never by running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tensorproof.errors import ModelError

if TYPE_CHECKING:
    import onnx

#: Formats that hold a network but are not read, with what to do instead.
_NOT_READ = {
    ".tflite": "TensorFlow Lite",
    ".gguf": "GGUF",
    ".mlpackage": "Core ML",
    ".mlmodel": "Core ML",
    ".engine": "a TensorRT engine",
    ".plan": "a TensorRT engine",
    ".trt": "a TensorRT engine",
}


def read_onnx(path: str | Path) -> onnx.ModelProto:
    """The protobuf of an ONNX file; other kinds of file are refused in one line."""
    from tensorproof.frontends.onnx_file import read_proto

    path = Path(path)
    kind = _NOT_READ.get(path.suffix.lower())
    if kind is not None:
        raise ModelError(f"{path}: {kind} is not read; export ONNX")
    if path.is_dir():
        raise ModelError(f"{path}: is a folder, not an ONNX file")
    return read_proto(path)
