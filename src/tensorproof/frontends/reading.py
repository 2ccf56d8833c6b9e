"""Which front end reads a file: by its name, never by running it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tensorproof.errors import ModelError
from tensorproof.frontends.user_program import UserProgram, built, framework_of

if TYPE_CHECKING:
    import onnx

    from tensorproof.frontends.framework_model import FrameworkModel, ReadingOptions

#: How files of Keras end; the second is the format before version 3.
_KERAS = (".keras", ".h5", ".hdf5")

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


def read_framework_file(path: Path, options: ReadingOptions) -> FrameworkModel | None:
    """The model of a file or folder of TensorFlow or Keras; None if it is of another kind."""
    if path.suffix.lower() in _KERAS:
        from tensorproof.frontends.keras_model import read_keras

        return read_keras(path, options)
    from tensorproof.frontends.tensorflow_files import is_tensorflow_file

    if is_tensorflow_file(path):
        from tensorproof.frontends.tensorflow_program import read_tensorflow

        return read_tensorflow(path, options)
    return None


def read_framework_program(program: UserProgram, options: ReadingOptions) -> FrameworkModel | None:
    """The model of a program of Keras, TensorFlow or JAX; None if it is one of PyTorch."""
    framework = framework_of(program)
    if framework == "torch":
        return None
    options = replace(options, example=program.example if options.example is None else options.example)
    path = None if program.path is None else str(program.path)
    if framework == "jax":
        from tensorproof.frontends.jax_program import read_jax

        return read_jax(program.found, program.name, program.path, options, program.declared)
    program = built(program)
    if framework_of(program) == "keras":
        from tensorproof.frontends.keras_model import read_live

        return read_live(program, options)
    from tensorproof.frontends.tensorflow_program import read_live_graph

    return read_live_graph(program.found, program.name, path, options, program.declared)


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
