"""TensorFlow's files into records: graphs (.pb, .pbtxt), meta graphs (.meta) and SavedModels, with protobuf alone.

Nothing of a file is executed. Sizes that it claims are checked before memory is taken, and nothing outside of the model's
folder is opened. What is no such file is one line of ModelError; what merely is missing beside it (a checkpoint, debug
information) is a note of the graph.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from tensorproof.collector import patient_collector
from tensorproof.errors import ModelError
from tensorproof.frontends.onnx_wire import NotWalkable
from tensorproof.frontends.tensorflow_checkpoint import Checkpoint
from tensorproof.frontends.tensorflow_lines import lines_of
from tensorproof.frontends.tensorflow_nodes import GraphReader
from tensorproof.frontends.tensorflow_protos import message_class, pool
from tensorproof.frontends.tensorflow_records import Reference, Signature, TensorflowGraph
from tensorproof.frontends.tensorflow_tensors import read_varint
from tensorproof.frontends.tensorflow_variables import read_values
from tensorproof.frontends.tensorflow_wire import MappedTensors

#: Messages that a file of TensorFlow may hold.
Kind = Literal["GraphDef", "MetaGraphDef", "SavedModel"]

#: Protobuf reads no message of this many bytes or more.
_LARGEST_FILE = (1 << 31) - 1

#: From this size on, the large tensors of a file are not read with it but used where they are.
MAPPED_FILE = 1 << 26

_SAVED_MODEL = "saved_model"
_DEBUG_INFO = ("debug", "saved_model_debug_info.pb")
_SERVING = "serve"

#: Fields of a file that are looked at to tell its kind.
_LOOKED_AT = 64

#: Fields that the texts of TensorFlow's files start with; those of other formats start with others.
_TEXT_FIELDS = frozenset({"node", "library", "versions", "meta_info_def", "graph_def", "saved_model_schema_version", "meta_graphs"})
_FIRST_FIELD = re.compile(rb"\s*(?:#[^\n]*\n\s*)*(\w+)\s*[:{<]")


def is_tensorflow_file(path: Path) -> bool:
    """Whether a path is a file or folder that `read_graph` is for: by its name and its first bytes."""
    if path.is_dir():
        return any((path / f"{_SAVED_MODEL}{suffix}").is_file() for suffix in (".pb", ".pbtxt"))
    suffix = path.suffix.lower()
    if suffix not in (".pb", ".pbtxt", ".meta") or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            start = file.read(4096)
            if suffix == ".pbtxt":
                field = _FIRST_FIELD.match(start)
                return field is not None and field[1].decode() in _TEXT_FIELDS
            if _is_saved_model(start):
                return suffix == ".pb" and _has_fields(file, {1, 2})
            return start[:1] in (b"\x0a", b"\x12", b"\x22")
    except OSError:
        return False


def _is_saved_model(start: bytes) -> bool:
    """Whether a file starts as a SavedModel does: the version of its schema, which is 1, and a graph."""
    return start[:3] == b"\x08\x01\x12"


def _has_fields(file: BinaryIO, numbers: set[int]) -> bool:
    """Whether a message has these fields alone. An ONNX file may start as a SavedModel does, but has others as well."""
    file.seek(0)
    for _ in range(_LOOKED_AT):
        head = file.read(20)
        if not head:
            return True
        try:
            tag, position = read_varint(head, 0, "")
            length, behind = read_varint(head, position, "")
        except ModelError:
            return False
        if tag >> 3 not in numbers or tag & 7 not in (0, 2):
            return False
        file.seek(behind - len(head) + (length if tag & 7 else 0), os.SEEK_CUR)
    return True


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """The message of a model's file. Of a SavedModel `path` is the folder (if that was named) and `file` the file in it.

    `mapped` has the large tensors that are not in the message but in the file.
    """

    path: Path
    file: Path
    kind: Kind
    message: Any
    mapped: MappedTensors | None = None

    @property
    def folder(self) -> Path:
        """Where everything else of the model is."""
        return self.file.parent

    def graph_def(self, signature: str | None = None) -> Any:
        """The message of the graph that is read."""
        if self.kind == "GraphDef":
            return self.message
        return self.meta_graph(signature).graph_def

    def meta_graph(self, signature: str | None = None) -> Any:
        """Of a SavedModel with several graphs, the one that is read."""
        if self.kind == "MetaGraphDef":
            return self.message
        return _chosen(list(self.message.meta_graphs), signature, self.file)


def parsed_file(path: Path, *, whole: bool = False) -> ParsedFile:
    """The message of a file, or of the folder of a SavedModel; `whole` asks for large tensors in it, too."""
    file = path
    if path.is_dir():
        file = next((path / f"{_SAVED_MODEL}{s}" for s in (".pb", ".pbtxt") if (path / f"{_SAVED_MODEL}{s}").is_file()), path)
        if file is path:
            raise ModelError(f"{path}: a folder without {_SAVED_MODEL}.pb is no SavedModel")
        _inside(file, path)
    return ParsedFile(path, file, *_parsed(file, whole=whole))


def read_graph(path: Path, *, signature: str | None = None) -> TensorflowGraph:
    """The graph of a file, or of the folder of a SavedModel.

    Of a SavedModel with several graphs the one for serving is read, or the one that offers `signature`; then that signature
    alone is kept.
    """
    return graph_of(parsed_file(path), signature=signature)


def graph_of(parsed: ParsedFile, *, signature: str | None = None) -> TensorflowGraph:
    """The graph of a message, with what is beside its file: values of variables, and lines."""
    file, folder = parsed.file, parsed.folder
    with patient_collector():
        if parsed.kind == "GraphDef":
            if signature is not None:
                raise ModelError(f"{file}: a bare graph has no signatures; {signature!r} was asked for")
            return graph_from_proto(parsed.message, name=str(file), mapped=parsed.mapped)
        graph = _from_meta(parsed.meta_graph(signature), file, signature, parsed.mapped)
    if parsed.kind == "SavedModel":
        _add_lines(graph, folder)
        prefix = folder / "variables" / "variables"
    else:
        prefix = file.with_suffix("")
    _add_values(graph, prefix, folder)
    return graph


def graph_from_proto(message: Any, *, name: str = "graph", mapped: MappedTensors | None = None) -> TensorflowGraph:
    """The records of a GraphDef: one of `tensorflow_protos`, or of TensorFlow itself, or its bytes.

    `name` is what errors call it; `mapped` has the tensors that are not in the message but in its file.
    """
    graph_class = message_class("GraphDef")
    if not isinstance(message, graph_class):
        data = message if isinstance(message, bytes) else message.SerializeToString()
        message = _decoded("GraphDef", data)
        if message is None:
            raise ModelError(f"{name}: not a TensorFlow graph (the protobuf does not parse)")
    reader = GraphReader(message, name, mapped=mapped)
    reader.check_version()
    with patient_collector():
        graph = TensorflowGraph(reader.nodes(), reader.functions())
    if not graph.nodes and not graph.functions:
        raise ModelError(f"{name}: not a TensorFlow graph (it holds no nodes)")
    graph.producer = f"TensorFlow graph version {message.versions.producer}"
    if message.HasField("debug_info"):
        graph.lines = lines_of(message.debug_info)
    return graph


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ModelError(f"{path}: larger than 2 GB, which protobuf does not read; keep the weights in a checkpoint")
        data = path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror or error})") from None
    if not data:
        raise ModelError(f"{path}: the file is empty")
    return data


def _parsed(path: Path, *, whole: bool) -> tuple[Kind, Any, MappedTensors | None]:
    """The message of a file and its kind, by its name where that says it and by its content where not."""
    if path.suffix.lower() == ".pbtxt":
        return *_parsed_text(_content(path), path), None
    large = not whole and _is_large(path)
    data = b"" if large else _content(path)
    start = data[:3]
    if large:
        with path.open("rb") as file:
            start = file.read(3)
    kinds: list[Kind]
    if path.suffix.lower() == ".meta":
        kinds = ["MetaGraphDef"]
    elif _is_saved_model(start):
        kinds = ["SavedModel"]
    else:
        kinds = ["GraphDef", "MetaGraphDef"]
    for kind in kinds:
        mapped = MappedTensors(path) if large else None
        try:
            message = _decoded(kind, data if mapped is None else mapped.without_tensors(kind))
        except NotWalkable:
            continue
        if message is not None and _holds_graph(kind, message):
            return kind, message, mapped
    raise ModelError(f"{path}: not a TensorFlow graph, or damaged (no {' or '.join(kinds)} with nodes)")


def _is_large(path: Path) -> bool:
    """Whether the tensors of a file are used where they are."""
    try:
        return MAPPED_FILE <= path.stat().st_size <= _LARGEST_FILE
    except OSError:
        return False


def _parsed_text(data: bytes, path: Path) -> tuple[Kind, Any]:
    from google.protobuf import text_format

    field = _FIRST_FIELD.match(data)
    first = field[1].decode() if field is not None else ""
    kind: Kind = "GraphDef"
    if path.stem == _SAVED_MODEL or first in ("saved_model_schema_version", "meta_graphs"):
        kind = "SavedModel"
    elif first in ("meta_info_def", "graph_def"):
        kind = "MetaGraphDef"
    message = message_class(kind)()
    try:
        text_format.Parse(data.decode(), message, allow_unknown_field=True, descriptor_pool=pool())
    except UnicodeDecodeError:
        raise ModelError(f"{path}: not text in UTF-8") from None
    except Exception as error:  # beside ParseError: RecursionError, OverflowError and others of its many conversions
        what = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise ModelError(f"{path}: not the text of a TensorFlow graph ({what})") from None
    if not _holds_graph(kind, message):
        raise ModelError(f"{path}: not a TensorFlow graph (it holds no nodes)")
    return kind, message


def _decoded(kind: str, data: bytes) -> Any | None:
    from google.protobuf.message import DecodeError

    try:
        return message_class(kind).FromString(data)
    except DecodeError:
        return None


def _holds_graph(kind: str, message: Any) -> bool:
    if kind == "SavedModel":
        return len(message.meta_graphs) > 0
    graph = message if kind == "GraphDef" else message.graph_def
    if not graph.node:
        return len(graph.library.function) > 0
    # A message of another kind may parse by chance; its nodes then have no operators.
    return bool(graph.node[0].name and graph.node[0].op)


def _chosen(metas: list[Any], signature: str | None, path: Path) -> Any:
    """The graph for serving, or the first; with a signature, the first that offers it."""
    if signature is not None:
        for meta in metas:
            if signature in meta.signature_def:
                return meta
        names = sorted({name for meta in metas for name in meta.signature_def})
        raise ModelError(f"{path}: no signature {signature!r}; it offers {', '.join(names) or 'none'}")
    return next((meta for meta in metas if _SERVING in meta.meta_info_def.tags), metas[0])


def _from_meta(meta: Any, path: Path, signature: str | None, mapped: MappedTensors | None) -> TensorflowGraph:
    reader = GraphReader(meta.graph_def, str(path), meta.meta_info_def.stripped_op_list.op, mapped)
    reader.check_version()
    graph = TensorflowGraph(reader.nodes(), reader.functions())
    if not graph.nodes and not graph.functions:
        raise ModelError(f"{path}: its graph holds no nodes")
    version = meta.meta_info_def.tensorflow_version
    graph.producer = f"TensorFlow {version}" if version else f"TensorFlow graph version {meta.graph_def.versions.producer}"
    names = {node.name for node in graph.nodes}
    for name, definition in meta.signature_def.items():
        if signature in (None, name):
            graph.signatures[name] = Signature(
                name, _tensors(definition.inputs, names, path, name), _tensors(definition.outputs, names, path, name)
            )
    for name, collection in meta.collection_def.items():
        kind = collection.WhichOneof("kind")
        if kind == "node_list":
            texts = list(collection.node_list.value)
        elif kind == "bytes_list":
            variables = [_decoded("VariableDef", data) for data in collection.bytes_list.value]
            texts = [variable.variable_name for variable in variables if variable is not None]
        else:
            continue
        members = [member for text in texts if (member := text.partition(":")[0]) in names]
        if members:
            graph.collections[name] = members
    if meta.graph_def.HasField("debug_info"):
        graph.lines = lines_of(meta.graph_def.debug_info)
    return graph


def _tensors(infos: Any, names: set[str], path: Path, signature: str) -> dict[str, Reference]:
    """The tensors of a signature; those that stand for several (sparse ones) under `name/part`."""
    found: dict[str, Reference] = {}

    def add(name: str, info: Any, depth: int) -> None:
        kind = info.WhichOneof("encoding")
        if kind == "coo_sparse":
            for part in ("values", "indices", "dense_shape"):
                add_text(f"{name}/{part}", getattr(info.coo_sparse, f"{part}_tensor_name"))
        elif kind == "composite_tensor" and depth < 8:
            for index, component in enumerate(info.composite_tensor.components):
                add(f"{name}/{index}", component, depth + 1)
        elif kind == "name":
            add_text(name, info.name)

    def add_text(name: str, text: str) -> None:
        node, _, index = text.partition(":")
        if node not in names or (index and not (index.isascii() and index.isdecimal() and len(index) < 7)):
            raise ModelError(f"{path}: signature {signature!r} names {text!r} as {name!r}, which does not exist")
        found[name] = Reference(node, int(index or "0"))

    for name in infos:
        add(name, infos[name], 0)
    return found


def _inside(path: Path, folder: Path) -> None:
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ModelError(f"{path}: points outside the model's folder")


def _add_lines(graph: TensorflowGraph, folder: Path) -> None:
    path = folder.joinpath(*_DEBUG_INFO)
    if not path.is_file():
        return
    _inside(path, folder)
    debug = _decoded("GraphDebugInfo", _content(path))
    if debug is None:
        graph.notes.append(f"{path}: damaged; nodes have no lines")
    else:
        graph.lines.update(lines_of(debug))


def _add_values(graph: TensorflowGraph, prefix: Path, folder: Path) -> None:
    if prefix.with_name(f"{prefix.name}.index").is_file():
        read_values(graph, Checkpoint(prefix, folder))
    elif any(node.op in ("VarHandleOp", "VariableV2") for node in graph.nodes):
        graph.notes.append(f"{prefix}.index: no checkpoint; variables have no values")
