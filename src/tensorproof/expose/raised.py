"""What an exception of a program says, in one line, with the line of the program.

Libraries put headings, places and colours around the reason; exceptions of workers, and of functions that TensorFlow traces, are
quoted inside of others.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path

#: Lines that stand before the reason in what TensorFlow and Keras say.
_HEADINGS = re.compile(
    r"in user code:|Graph execution error:|Detected at node |File \"|Node: |\[\[\{\{node |\d+ root error\(s\) found"
    r"|Exception encountered when calling "
)
#: What is no part of the reason in its line: colours, names of functions that TensorFlow made, the operator and its name.
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|\{\{function_node [^}]*\}\} ?| \[Op:\w+\]( name:.*)?$")


def described(error: BaseException, script: Path) -> str:
    """An exception in one line."""
    if isinstance(error, SystemExit):
        return f"the program ended with exit code {error.code if isinstance(error.code, int) else 1}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name == script.name]
    where = f" at {script.name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}: {_reason(error)}"


def _reason(error: BaseException) -> str:
    lines = [line for text in str(error).splitlines() if (line := _DECORATION.sub("", text).strip())]
    quoted = f"{type(error).__name__}: "
    for line in reversed(lines):
        if line.startswith(quoted):
            return line.removeprefix(quoted)
    return next((line for line in lines if not _HEADINGS.match(line)), lines[0] if lines else "no message")
