"""The user's own line: in the traces that torch keeps of a program, and in the exceptions that it raises."""

from __future__ import annotations

import os
import re
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tensorproof.graph import SourceLine

if TYPE_CHECKING:
    from torch import fx

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')


@cache
def _torch_folder() -> str:
    import torch

    return str(Path(torch.__file__).parent) + os.sep


@cache
def is_installed(file: str) -> bool:
    """Whether a source file belongs to an installed package, or to Python itself."""
    return "site-packages" in Path(file).parts or file.startswith((sys.base_prefix + os.sep, "<"))


def chosen_frame(frames: list[SourceLine]) -> SourceLine | None:
    """The innermost frame of the user's own code; where there is none, the innermost outside of torch.

    Frames are given from the outermost to the innermost.
    """
    own = [frame for frame in frames if not is_installed(frame.file)]
    if own:
        return own[-1]
    others = [frame for frame in frames if not frame.file.startswith((_torch_folder(), "<"))]
    return others[-1] if others else None


def user_line(node: fx.Node) -> SourceLine | None:
    """Where in the user's program a node of an exported program was written."""
    trace = node.meta.get("stack_trace")
    return None if not trace else line_in(str(trace))


@cache
def line_in(trace: str) -> SourceLine | None:
    """The user's line in the text of a trace."""
    frames = [SourceLine(m["file"], int(m["line"]), m["function"] or "") for m in _FRAME.finditer(trace)]
    return chosen_frame(frames)


def failing_line(error: BaseException) -> SourceLine | None:
    """The user's line that an exception came from."""
    frames = [
        SourceLine(frame.filename, frame.lineno or 0, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
        if "tensorproof" not in Path(frame.filename).parts
    ]
    return chosen_frame(frames)


def described_failure(name: str, what: str, error: BaseException) -> str:
    """One line about an exception of the user's program or of torch, with the user's line."""
    line = failing_line(error)
    where = "" if line is None else f"{line.file}:{line.line}: "
    return f"{where}{name}: {what} ({type(error).__name__}: {first_sentence(error)})"


def first_sentence(error: BaseException) -> str:
    """What an exception says, in one line of moderate length."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return text if len(text) <= 200 else text[:197] + "..."
