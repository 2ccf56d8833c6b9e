"""`GraphFile`: a file of TensorFlow that repairs are written into, with all else of it, and of its folder, as it was.

Fields of messages that are not known are kept as they are read (`tensorflow_protos`); a text that has such fields is not written.
"""

from __future__ import annotations

import difflib
import filecmp
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tensorproof.errors import ConfigurationError, ModelError, TensorproofError
from tensorproof.files import write_bytes
from tensorproof.formats import Format
from tensorproof.frontends.tensorflow_files import ParsedFile, graph_of, parsed_file
from tensorproof.frontends.tensorflow_program import TensorflowModel, from_records
from tensorproof.frontends.tensorflow_protos import pool
from tensorproof.frontends.tensorflow_tensors import tensor_array
from tensorproof.repair.operand.block import Interval
from tensorproof.repair.proposal import Declined
from tensorproof.repair.saving import check_target
from tensorproof.repair.tensorflow_graph import Place, hold
from tensorproof.report.plain_text import one_line

_TEXT = ".pbtxt"
#: What a SavedModel says of the bytes of its graph: not true of a changed one, and not needed.
_FINGERPRINT = "fingerprint.pb"
#: Constants of at most this many elements are written out in a diff.
_SHORT = 4


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A model's file as it was, and its message with the repairs in it."""

    original: ParsedFile
    signature: str | None = None
    message: Any = field(default=None, repr=False)

    @classmethod
    def read(cls, path: Path, signature: str | None = None) -> GraphFile:
        """The file of a model. Raises `Declined` for one that is not written."""
        try:
            parsed = parsed_file(path, whole=True)
        except TensorproofError as error:
            raise Declined(str(error)) from None
        if parsed.kind == "SavedModel" and not path.is_dir():
            raise Declined("one file of a SavedModel is not written; name its folder")
        if parsed.file.suffix == _TEXT:
            _check_text(parsed)
        return cls(parsed, signature)

    @property
    def is_changed(self) -> bool:
        """Whether there are repairs in it."""
        return self.message is not None

    def held(self, place: Place, interval: Interval, format: Format) -> GraphFile:
        """The file with an operand held in an interval. Raises `Declined`."""
        now = self._now()
        message = type(now.message)()
        message.CopyFrom(now.message)
        hold(replace(now, message=message).graph_def(self.signature), place, interval, format)
        return replace(self, message=message)

    def model(self, like: TensorflowModel) -> TensorflowModel:
        """What the file holds now, read as another model was."""
        return from_records(graph_of(self._now(), signature=self.signature), self.original.path, like.options)

    def _now(self) -> ParsedFile:
        return self.original if self.message is None else replace(self.original, message=self.message)

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, target: Path, *, in_place: bool = False) -> None:
        """Write the model: a file, with the checkpoint beside it, or the folder of a SavedModel with everything in it.

        The model itself is not overwritten unless `in_place` says so, and no folder that holds anything else is.
        """
        source = self.original
        check_target(source.path, target, in_place=in_place)
        is_itself = target.exists() and target.samefile(source.path)
        if is_itself and not self.is_changed:
            return
        data = self._data()
        try:
            if not source.path.is_dir():
                self._check_name(target)
                self._bring_checkpoint(target)
                write_bytes(target, data)
            elif is_itself:
                write_bytes(source.file, data)
                (source.folder / _FINGERPRINT).unlink(missing_ok=True)
            else:
                self._write_folder(target, data)
        except OSError as error:
            raise ConfigurationError(f"{target}: cannot be written ({_reason(error)})") from None

    def _data(self) -> bytes:
        from google.protobuf import text_format
        from google.protobuf.message import EncodeError

        if not self.is_changed:
            return self.original.file.read_bytes()
        if self.original.file.suffix == _TEXT:
            return text_format.MessageToString(self.message, descriptor_pool=pool()).encode()
        try:
            return self.message.SerializeToString(deterministic=True)
        except (EncodeError, ValueError):
            raise ModelError(f"{self.original.file}: repaired, it is larger than a protobuf may be (2 GB)") from None

    def _check_name(self, target: Path) -> None:
        is_text = self.original.file.suffix == _TEXT
        if is_text != (target.suffix == _TEXT):
            raise ConfigurationError(f"{target}: end the name with {self.original.file.suffix}, as the model's does")

    def _bring_checkpoint(self, target: Path) -> None:
        """Copy the values of variables that stand beside a meta graph: they go by its name."""
        if self.original.kind != "MetaGraphDef":
            return
        old, new = self.original.file.with_suffix(""), target.with_suffix("")
        if old.resolve() == new.resolve():
            return
        for part in sorted(old.parent.glob(f"{_literal(old.name)}.*")):
            ending = part.name.removeprefix(old.name)
            if ending != ".index" and not ending.startswith(".data-"):
                continue
            copy = new.with_name(f"{new.name}{ending}")
            if not copy.exists():
                _copied(part, copy)
            elif not filecmp.cmp(part, copy, shallow=False):
                raise ConfigurationError(f"{copy}: belongs to another model; choose another name")

    def _write_folder(self, target: Path, data: bytes) -> None:
        top, own = str(self.original.path), self.original.file.name
        left_out = {own, _FINGERPRINT} if self.is_changed else {own}
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name[:40]}.") as folder:
            made = Path(folder) / "model"
            shutil.copytree(top, made, ignore=lambda place, names: left_out.intersection(names) if place == top else set[str]())
            write_bytes(made / own, data)
            made.replace(target)

    # -- showing ----------------------------------------------------------------------------------------------------

    def diff(self) -> str:
        """The nodes that came and changed, with the nodes around them; empty if none did."""
        if not self.is_changed:
            return ""
        before, after = (list(_lines(parsed.graph_def(self.signature))) for parsed in (self.original, self._now()))
        name = self.original.path.name
        lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=1, lineterm="")
        return "".join(f"{line}\n" for line in lines)


def _check_text(parsed: ParsedFile) -> None:
    """Refuse a text with fields that are not known: they would be lost."""
    from google.protobuf import text_format

    try:
        text_format.Parse(parsed.file.read_text(), type(parsed.message)(), descriptor_pool=pool())
    except text_format.ParseError:
        raise Declined(f"{parsed.file.name} has fields that are not known here, and would be lost if it were written") from None


def _copied(source: Path, target: Path) -> None:
    """Copy a file; it is there as a whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name[:40]}.") as folder:
        shutil.copyfile(source, Path(folder) / "copy").replace(target)


def _literal(name: str) -> str:
    """A name in which no letter stands for others in a pattern of `glob`."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _reason(error: OSError) -> str:
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list) and error.args[0]:
        return one_line(str(error.args[0][0][-1]), 200)
    return error.strerror or str(error)


def _lines(graph: Any) -> Iterator[str]:
    yield from (_line(node) for node in graph.node)
    for function in graph.library.function:
        yield f"function {one_line(function.signature.name)}:"
        yield from (f"  {_line(node)}" for node in function.node_def)


def _line(node: Any) -> str:
    operands = [one_line(text) for text in node.input]
    if node.op == "Const":
        operands.append(_constant(node.attr["value"].tensor, node.name))
    return f"{one_line(node.name)} = {one_line(node.op)}({', '.join(operands)})"


def _constant(tensor: Any, name: str) -> str:
    sizes = [dimension.size for dimension in tensor.tensor_shape.dim]
    if int(np.prod(sizes, dtype=np.int64)) > _SHORT:
        return f"tensor of {' x '.join(map(str, sizes))}"
    try:
        return one_line(str(tensor_array(tensor, name).tolist()), 80)
    except TensorproofError:
        return "?"
