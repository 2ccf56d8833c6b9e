"""`.pt2` files (torch.export.save), read without executing anything from them.

Torch's own loader would unpickle objects that are not tensors, and hands expressions over sizes to a parser that evaluates
them. Here tensors are all that is unpickled, and an archive with other objects, or with an expression that is more than
arithmetic on sizes, is refused.
"""

from __future__ import annotations

import contextlib
import json
import re
import zipfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from tensorproof.errors import ModelError
from tensorproof.frontends.torch_export import decomposed, exporting, translated
from tensorproof.frontends.user_frames import described_failure

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from tensorproof.frontends.torch_program import ProgramOptions, TorchProgram

#: The description of a program in an archive is text of at most this many bytes.
LARGEST_DESCRIPTION = 1 << 28
#: Arithmetic on sizes: names of symbols and of sympy's own functions, numbers, operators. No attribute, no text, no index.
_EXPRESSION = re.compile(r"(?:[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*|\d+(?:\.\d+)?|[-+*/%(),<>=!&|~\s])*")
#: Names that are neither a symbol of torch (s0, u1, ...) nor a function of arithmetic would be looked up by the parser.
_NAMES = re.compile(r"[A-Za-z]\w*")
_KNOWN_NAMES = re.compile(
    r"[suzf]+\d+|True|False|oo|int_oo|nan|zoo|pi|E|Symbol|integer|positive|nonnegative|negative|nonzero|real|finite|precision"
    r"|(?:Eq|Ne|Le|Lt|Ge|Gt|Max|Min|Mod|Pow|And|Or|Not|Abs|Piecewise|Add|Mul|Integer|Float|Rational|floor|ceiling|sqrt|log"
    r"|[A-Z][A-Za-z]*(?:Div|Mod|Where|Truncation|Float|Int|Pow|Max|Min|Size|Shift|And|Or|Xor|Symbolic\w*))"
)


class _Refused(Exception):
    """An archive asks for more than tensors."""


def read_archive(path: Path, options: ProgramOptions) -> TorchProgram:
    """The program of an archive. Weights are those of the file; options that only a module has are refused."""
    from tensorproof.frontends.torch_program import TorchProgram

    for name, given in (("state", options.state), ("precision", options.precision), ("example inputs", options.example)):
        if given is not None:
            raise ModelError(f"{path}: {name} cannot be given for an exported program; name the module that it was exported from")
    program = _load(path)
    with exporting():
        program = decomposed(program, str(path))
    # The module of an archive is generated code: its lines are not the user's.
    traced = translated(program, program.module(check_guards=False), name=str(path), path=str(path), has_lines=False)
    return TorchProgram(traced, {}, str(path), path.stem)


def _load(path: Path) -> ExportedProgram:
    import torch

    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    try:
        with zipfile.ZipFile(path) as archive:
            for text in _descriptions(archive):
                for expression in _expressions(text):
                    _check(expression)
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise ModelError(f"{path}: not a .pt2 file ({type(error).__name__})") from None
    except _Refused as reason:
        raise ModelError(f"{path}: is not read, because {reason}") from None
    try:
        with exporting(), _tensors_alone():
            return torch.export.load(str(path))
    except _Refused as reason:
        raise ModelError(f"{path}: is not read, because {reason}") from None
    except Exception as error:
        raise ModelError(described_failure(str(path), "is not a program that this version of torch reads", error)) from None


def _descriptions(archive: zipfile.ZipFile) -> Iterator[Any]:
    for info in archive.infolist():
        if info.filename.endswith(".json"):
            if info.file_size > LARGEST_DESCRIPTION:
                raise _Refused(f"{info.filename} in it has {info.file_size} bytes")
            yield json.loads(archive.read(info))


def _expressions(tree: Any) -> Iterator[str]:
    """All texts that torch hands to the parser of expressions."""
    pending = [tree]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if isinstance(item.get("expr_str"), str):
                yield item["expr_str"]
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def _check(expression: str) -> None:
    # Symbols and numbers are written as sympy shows them: Symbol('s0', positive=True), Float('0.5', precision=53).
    expression = re.sub(r"\b(Symbol|Float)\('[A-Za-z0-9.+-]*'", r"\1(0", expression)
    names = _NAMES.findall(expression)
    if not _EXPRESSION.fullmatch(expression) or not all(map(_KNOWN_NAMES.fullmatch, names)):
        raise _Refused(f"it has an expression that is no arithmetic on sizes: {expression[:80]!r}")


@contextlib.contextmanager
def _tensors_alone() -> Generator[None]:
    """Torch's loader with everything taken from it that would execute code."""
    import pickle

    import torch
    from torch.export.pt2_archive import _package as package  # pyright: ignore[reportPrivateUsage]

    load = torch.load

    def load_tensors(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("weights_only") is False:
            kwargs["weights_only"] = True
        try:
            return load(*args, **kwargs)
        except pickle.UnpicklingError:
            raise _Refused("it holds pickled objects that are not tensors") from None

    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise _Refused("it holds pickled objects that are not tensors")

    with (
        mock.patch.object(torch, "load", load_tensors),
        mock.patch("torch._C._pickle_load_obj", refuse),
        mock.patch.object(package, "pickle", mock.Mock(loads=refuse, load=refuse)),
    ):
        yield
