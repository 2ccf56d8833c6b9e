"""The user's lines of a SavedModel, from the traces that TensorFlow keeps beside it (`saved_model_debug_info.pb`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from tensorproof.graph import SourceLine

_PACKAGES = re.compile(r"(?:^|[/\\])(?:site|dist)-packages[/\\]")
#: Frameworks whose own lines are of no use to their users, as installed and as their own builds name them.
_FRAMEWORK = re.compile(
    r"(?:^|[/\\])(?:(?:site|dist)-packages|runfiles[/\\]\w+)[/\\](?:tensorflow|keras|tf_keras|tensorflow_estimator|tf2onnx)[/\\]"
    r"|(?:^|[/\\])tensorflow[/\\]python[/\\]|(?:^|[/\\])tensorflow_core[/\\]"
)
_PYTHON = re.compile(
    r"(?:^|[/\\])lib(?:64)?[/\\]python\d[\d.]*[/\\](?!(?:site|dist)-packages[/\\])|^<frozen |[/\\]Lib[/\\](?!site-packages)"
)
#: Files that TensorFlow's AutoGraph writes its own form of a user's function to.
_GENERATED = "__autograph_generated_file"


def lines_of(debug: Any) -> dict[tuple[str, str], SourceLine]:
    """The user's line by function and node, of a GraphDebugInfo."""
    files = list(debug.files)

    def frame(proto: Any) -> SourceLine | None:
        if not 0 <= proto.file_index < len(files) or proto.line <= 0:
            return None
        return SourceLine(files[proto.file_index], proto.line, proto.func)

    def chosen(trace: Any) -> SourceLine | None:
        given = list(trace.file_line_cols)
        given += [debug.frames_by_id[number] for number in trace.frame_id if number in debug.frames_by_id]
        return user_frame([line for line in map(frame, given) if line is not None])

    by_trace = {number: chosen(trace) for number, trace in debug.traces_by_id.items()}
    found = {key: by_trace.get(number) for key, number in debug.name_to_trace_id.items()}
    found.update((key, chosen(trace)) for key, trace in debug.traces.items())
    lines: dict[tuple[str, str], SourceLine] = {}
    for key, line in found.items():
        if line is not None:
            node, _, function = key.rpartition("@") if "@" in key else (key, "", "")
            lines[function, node] = line
    return lines


def user_frame(frames: Iterable[SourceLine]) -> SourceLine | None:
    """The innermost frame of the user's own code; where there is none, the innermost of a package that is not a framework.

    Frames are given from the outermost to the innermost. They may come from another machine: only their paths are looked at.
    """
    outside = [frame for frame in frames if not _is_foreign(frame.file)]
    own = [frame for frame in outside if not _PACKAGES.search(frame.file)]
    return own[-1] if own else outside[-1] if outside else None


@cache
def _is_foreign(file: str) -> bool:
    return bool(_FRAMEWORK.search(file) or _PYTHON.search(file)) or _GENERATED in file
