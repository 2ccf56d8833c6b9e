"""The user's own line: in the traces that torch keeps of a program, and in the exceptions that it raises."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import linecache
import os
import re
import sys
import traceback
from collections.abc import Generator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorproof.graph import SourceLine

if TYPE_CHECKING:
    from torch import fx

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>\S+))?')


#: What Keras says around an exception of a layer, which it prints in bold.
_IN_A_LAYER = re.compile(r"Exception encountered when calling (?P<call>[^\n]+?)\.?\n\s*\x1b\[1m(?P<said>.*?)\x1b\[0m", re.DOTALL)


@cache
def _folder_of(framework: str) -> str | None:
    found = importlib.util.find_spec(framework)
    return None if found is None or found.origin is None else str(Path(found.origin).parent) + os.sep


@cache
def _framework_folders() -> tuple[str, ...]:
    """Where frameworks stand, whose own lines are of no use to their users."""
    return tuple(folder for name in ("torch", "keras", "tensorflow", "jax") if (folder := _folder_of(name)) is not None)


@cache
def is_installed(file: str) -> bool:
    """Whether a source file belongs to an installed package, or to Python itself."""
    return _is_package(file) or _is_python(file)


def _is_package(file: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _is_python(file: str) -> bool:
    return file.startswith((sys.base_prefix + os.sep, "<")) and not _is_package(file)


def chosen_frame(frames: list[SourceLine]) -> SourceLine | None:
    """The innermost frame of the user's own code; where there is none, the innermost of a package that is no framework.

    Frames are given from the outermost to the innermost.
    """
    own = [frame for frame in frames if not is_installed(frame.file)]
    if own:
        return own[-1]
    others = [frame for frame in frames if not frame.file.startswith(_framework_folders()) and not _is_python(frame.file)]
    return others[-1] if others else None


@contextlib.contextmanager
def keeping_user_frames() -> Generator[None]:
    """Let torch keep every frame of the user's code in the traces that it records.

    Left to itself it keeps the frames of functions that are called `forward` alone, and loses the lines of all others.
    """
    from torch.fx.proxy import TracerBase

    tracer: Any = TracerBase
    original = getattr(tracer, "_filter_traceback_frames", None)
    if original is None:
        yield
        return
    tracer._filter_traceback_frames = _outside_of_torch
    try:
        yield
    finally:
        tracer._filter_traceback_frames = original


def _outside_of_torch(tracer: object, frames: traceback.StackSummary) -> traceback.StackSummary:
    """The frames inside of the first `forward` that are neither torch's nor tensorproof's."""
    start = next((index for index, frame in enumerate(frames) if frame.name == "forward"), len(frames))
    foreign = (_folder_of("torch") or "<", str(Path(__file__).parents[1]) + os.sep, "<")
    found = [*frames[start:], *_frames_of_generated_code()]
    return traceback.StackSummary.from_list([frame for frame in found if not frame.filename.startswith(foreign)])


def _frames_of_generated_code() -> list[traceback.FrameSummary]:
    """The user's frames of the line of generated code that is being executed.

    The branches of `torch.cond` are traced in two steps. In the second one torch executes what it generated in the first; the
    nodes of that graph, which generated lines assign to variables of the same name, still know where they come from.
    """
    frame = inspect.currentframe()
    while frame is not None and not frame.f_code.co_filename.startswith("<eval_with_key>"):
        frame = frame.f_back
    if frame is None:
        return []
    assigned = linecache.getline(frame.f_code.co_filename, frame.f_lineno).partition("=")[0].strip()
    graph: Any = getattr(frame.f_locals.get("self"), "graph", None)
    traces = [str(node.meta.get("stack_trace", "")) for node in getattr(graph, "nodes", ()) if node.name == assigned]
    return [
        traceback.FrameSummary(match["file"], int(match["line"]), match["function"] or "")
        for trace in traces
        for match in _FRAME.finditer(trace)
    ]


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
    where, name = ("", name) if line is None else (f"{line.file}:{line.line}: ", name.rpartition(":")[2])
    if type(error).__name__ == "GuardOnDataDependentSymNode":
        return (
            f"{where}{name}: {what}: what Python does here depends on the values of a tensor;"
            " write it with torch.where or torch.cond, or take the decision out of the module"
        )
    return f"{where}{name}: {what} ({type(error).__name__}: {first_sentence(error)})"


def first_sentence(error: BaseException) -> str:
    """What an exception says, in one line of moderate length."""
    said = str(error)
    if (found := _IN_A_LAYER.search(said)) is not None:
        said = f"{found['call']}: {found['said'].strip()}"
    text = next((line.strip() for line in said.splitlines() if line.strip()), "")
    return text if len(text) <= 200 else text[:197] + "..."


#: Operators of torch that Python writes as signs.
_SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "pow": "**",
    "matmul": "@",
    "remainder": "%",
    "floor_divide": "//",
    "lt": "<",
    "gt": ">",
    "le": "<=",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}


@cache
def with_column(line: SourceLine, name: str) -> SourceLine:
    """The line with the column (from 1) at which an operator of torch is written, if it is written there once, in plain sight."""
    text = linecache.getline(line.file, line.line)
    code = text.partition("#")[0]
    sign = _SIGNS.get(name)
    found = [match.start() for match in re.finditer(rf"\b{re.escape(name)}\b", code)]
    if sign is not None and not found:
        # A sign that is part of a longer one is another operator.
        found = [match.start() for match in re.finditer(rf"(?<![*/<>=!+-]){re.escape(sign)}(?![*/<>=])", code)]
    return replace(line, column=found[0] + 1) if len(found) == 1 else line
