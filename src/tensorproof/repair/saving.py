"""Patched models written to a file: atomically, external data copied in pieces and never loaded as a whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tensorproof.errors import ConfigurationError, ModelError
from tensorproof.files import write_bytes
from tensorproof.frontends.onnx_tensor import Place, Tensors

if TYPE_CHECKING:
    import onnx

    from tensorproof.repair.program.text import SourceText

#: A model with less external data than this becomes one file.
ONE_FILE = 1 << 28
#: External data starts at multiples of this, so that it can be mapped (the alignment that the onnx package writes, too).
ALIGNMENT = 4096
#: Bytes that are copied at a time.
PIECE = 1 << 22


def check_target(source: Path | None, target: Path, *, in_place: bool = False) -> None:
    """Refuse a target that cannot be written, or that is the model itself, unless `in_place` says so.

    A model that is a folder (a SavedModel) becomes a new folder; one that holds anything is not overwritten.
    """
    if source is not None and target.exists() and target.samefile(source):
        if not in_place:
            raise ConfigurationError(f"{target}: is the model itself; --in-place overwrites it")
    elif source is None or not source.is_dir():
        if target.is_dir():
            raise ConfigurationError(f"{target}: is a folder")
    elif target.is_dir() and any(target.iterdir()):
        raise ConfigurationError(f"{target}: is a folder that holds something; name a new one")
    elif target.exists() and not target.is_dir():
        raise ConfigurationError(f"{target}: is a file; the model is a folder")
    elif target.resolve().is_relative_to(source.resolve()):
        raise ConfigurationError(f"{target}: lies in the folder of the model itself")


def save_model(proto: onnx.ModelProto, source: Path | None, target: Path, *, in_place: bool = False) -> None:
    """Write a model that was read from `source`. Its own file is not overwritten unless `in_place` says so."""
    check_target(source, target, in_place=in_place)
    external = list(_external(proto.graph))
    try:
        if external:
            if source is None:
                raise ModelError(f"{target}: the model has external data, but no path to find it")
            _bring_data(external, source, target)
        write_bytes(target, _checked_bytes(proto, target))
    except OSError as error:
        raise ConfigurationError(f"{target}: cannot be written ({error.strerror or error})") from None


def save_source(source: SourceText, target: Path) -> None:
    """Write a source file, in the encoding of the one that it was read from."""
    try:
        write_bytes(target, source.to_bytes())
    except OSError as error:
        raise ConfigurationError(f"{target}: cannot be written ({error.strerror or error})") from None


def _checked_bytes(proto: onnx.ModelProto, target: Path) -> bytes:
    try:
        return proto.SerializeToString()
    except ValueError:
        raise ModelError(f"{target}: the model is larger than a protobuf may be (2 GB)") from None


def _external(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every tensor whose data stands in a file, those of bodies and of Constant nodes included."""
    tensors = [*graph.initializer]
    for sparse in graph.sparse_initializer:
        tensors += [sparse.values, sparse.indices]
    for node in graph.node:
        for attribute in node.attribute:
            tensors += [attribute.t, *attribute.tensors]
            for body in (attribute.g, *attribute.graphs):
                yield from _external(body)
    for tensor in tensors:
        if tensor.data_location == type(tensor).EXTERNAL:
            yield tensor


def _bring_data(tensors: list[onnx.TensorProto], source: Path, target: Path) -> None:
    """Make data small enough part of the model; else copy it, tensor by tensor, to a file beside the target.

    Data in files of their own stays there, if the target is written beside them.
    """
    if target.resolve().parent == source.resolve().parent:
        tensors = [tensor for tensor in tensors if _location(tensor) == source.resolve().name]
    reader = Tensors(str(source), str(source))
    places = [reader.place(tensor) for tensor in tensors]
    if sum(place.length for place in places) <= ONE_FILE:
        for tensor in tensors:
            reader.embed(tensor)
        return
    data = target.with_name(f"{target.name}.data")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{data.name[:40]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            for tensor, place in zip(tensors, places):
                offset = -(-file.tell() // ALIGNMENT) * ALIGNMENT
                file.seek(offset)
                _copy(place, file)
                del tensor.external_data[:]
                for key, text in (("location", data.name), ("offset", str(offset)), ("length", str(place.length))):
                    tensor.external_data.add(key=key, value=text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(data)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _copy(place: Place, file: BinaryIO) -> None:
    """Copy data in pieces; those of zeros alone stay holes, as they may be in the file that they come from."""
    data = place.data()
    for start in range(0, place.length, PIECE):
        piece = data[start : start + PIECE]
        if piece.any():
            file.write(piece.tobytes())
        else:
            file.seek(piece.size, os.SEEK_CUR)
    file.truncate(file.tell())


def _location(tensor: onnx.TensorProto) -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
