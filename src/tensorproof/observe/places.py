"""Places: the user's own line, and the path of the module, from which an operator was called.

The line is that of the innermost frame outside installed packages, Python's own library and tensorproof; where there is none,
the innermost one outside torch. Frames are looked at for every operator, so what is kept of them is small, and is put into words
only for an operator that failed.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Place:
    """A line of source. Columns count from 0, in bytes of UTF-8, and are None where the compiler kept none."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    end_column: int | None = None
    function: str | None = None
    #: As in `named_modules`; empty for the watched module itself, None outside of it.
    module: str | None = None


class Mark(NamedTuple):
    """A place as it is noted while a program runs: an instruction, and the innermost module that is being called."""

    code: CodeType | None
    instruction: int
    module: str | None

    def place(self) -> Place:
        if self.code is None:
            return Place(module=self.module)
        # Instructions are two bytes each (PEP 657 counts positions by instruction).
        line, _, column, end_column = next(islice(self.code.co_positions(), self.instruction // 2, None))
        return Place(self.code.co_filename, line, column, end_column, self.code.co_qualname, self.module)


class _Kind(Enum):
    OWN = auto()
    BOUNDARY = auto()
    MODULE_CALL = auto()
    RECOMPUTATION = auto()
    ENGINE = auto()
    TORCH = auto()
    LIBRARY = auto()
    USER = auto()


def mark(modules: Mapping[int, str], frame: FrameType | None, called_from: Mark | None = None) -> Mark:
    """Where the program is. `modules` gives the path of a module by its `id`; none is looked for if it is empty.

    What `run_as_called` runs was called from the place `called_from`, not from where the stack says.
    """
    module: str | None = None
    found: tuple[CodeType, int] | None = None
    is_user = False
    while frame is not None:
        code = frame.f_code
        kind = _kind(code)
        if kind is _Kind.BOUNDARY and called_from is not None:
            if not is_user and called_from.code is not None:
                found = (called_from.code, called_from.instruction)
            break
        if kind is _Kind.MODULE_CALL:
            if module is None and modules:
                module = modules.get(id(frame.f_locals.get("self")))
        elif kind is _Kind.USER and not is_user:
            found, is_user = (code, frame.f_lasti), True
        elif kind is _Kind.LIBRARY and found is None:
            found = (code, frame.f_lasti)
        if is_user and (module is not None or not modules):
            break
        frame = frame.f_back
    return Mark(None, 0, module) if found is None else Mark(*found, module)


def is_recomputation(frame: FrameType | None) -> bool:
    """Whether the program is in a forward pass that a checkpoint runs again during the backward pass."""
    while frame is not None:
        kind = _kind(frame.f_code)
        if kind in (_Kind.RECOMPUTATION, _Kind.ENGINE):
            return kind is _Kind.RECOMPUTATION
        frame = frame.f_back
    return False


def frames_to_user(frame: FrameType | None) -> int:
    """How many frames out the user's code is: the `stacklevel` of a warning that is given in `frame`."""
    level = 1
    while frame is not None and frame.f_back is not None and _kind(frame.f_code) is not _Kind.USER:
        frame = frame.f_back
        level += 1
    return level


@cache
def _kind(code: CodeType) -> _Kind:
    file = code.co_filename
    if file.startswith(_folder_of("tensorproof")):
        return _Kind.BOUNDARY if code.co_name == "run_as_called" else _Kind.OWN
    if file.startswith(_folder_of("torch")):
        if code.co_name == "_call_impl":
            return _Kind.MODULE_CALL
        if code.co_name == "_engine_run_backward":
            return _Kind.ENGINE
        is_checkpoint = file.endswith("checkpoint.py") and code.co_name in ("unpack_hook", "backward")
        return _Kind.RECOMPUTATION if is_checkpoint else _Kind.TORCH
    library = file.startswith(_LIBRARIES) or file.startswith("<frozen ") or "site-packages" in Path(file).parts
    return _Kind.LIBRARY if library else _Kind.USER


#: A virtual environment below one of these folders is recognised by `site-packages`, and so are user installations.
_LIBRARIES = tuple({str(Path(sysconfig.get_path(key))) + "/" for key in ("stdlib", "platstdlib", "purelib", "platlib")})


@cache
def _folder_of(package: str) -> str:
    file = sys.modules[package].__file__
    assert file is not None
    return str(Path(file).parent) + "/"
