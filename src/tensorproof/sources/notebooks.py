"""Jupyter notebooks as one Python text: the code cells one after the other, and the way back from its lines to the cells."""

from __future__ import annotations

import io
import json
import re
import tokenize
from typing import Any, cast

from tensorproof.errors import SourceError

#: Magics of a whole cell after which Python follows; the cell of any other holds another language.
_PYTHON_CELLS = frozenset({"time", "timeit", "capture", "prun", "python", "python3"})
#: What stands for the result of a magic that is assigned: a call that only IPython knows, so that nothing is assumed of it.
_RESULT = "get_ipython()"
_ASSIGNED_MAGIC = re.compile(r"^(?P<target>[\w\s.,\[\]()*'\"]+=)\s*[%!](?!=)")
_MAGIC = re.compile(r"^\s*[%!?]")
_HELP = re.compile(r"^\s*[\w.*\[\]]+\?{1,2}\s*$")

#: Cell and line in it, both from 1, of each line of the joined text.
CellLines = tuple[tuple[int, int], ...]


def read_notebook(path: str, content: bytes) -> tuple[str, CellLines]:
    """The Python text of a notebook, and where its lines come from. A notebook of another language has none."""
    try:
        notebook: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SourceError(path, "not a notebook: its content is not JSON", getattr(error, "lineno", None)) from None
    cells = _cells(notebook)
    if cells is None:
        raise SourceError(path, "not a notebook: it has no list of cells")
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    if _is_python(cast("dict[str, Any]", notebook)):
        for number, cell in enumerate(cells, 1):
            text = _code(cell)
            if text is not None:
                found = python_lines(text)
                lines += found
                places += [(number, line) for line in range(1, len(found) + 1)]
    return "\n".join([*lines, ""]), tuple(places)


def python_lines(cell: str) -> list[str]:
    """The lines of a cell, with what only IPython understands replaced by Python that does nothing."""
    lines = cell.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        magic = lines[first][2:].split(None, 1)
        if not magic or magic[0] not in _PYTHON_CELLS:
            return [""] * len(lines)
        lines[first] = ""
    index = 0
    while index < len(lines):
        if _is_magic(lines[index]) and not _is_open(lines[:index]):
            index = _replace_magic(lines, index)
        index += 1
    return lines


def _cells(notebook: Any) -> list[Any] | None:
    """The cells; notebooks of version 3 keep them in worksheets."""
    if not isinstance(notebook, dict):
        return None
    content = cast("dict[str, Any]", notebook)
    sheets = content.get("worksheets")
    if "cells" not in content and isinstance(sheets, list):
        return [cell for sheet in cast("list[Any]", sheets) for cell in _cells(sheet) or ()]
    cells = content.get("cells")
    return cast("list[Any]", cells) if isinstance(cells, list) else None


def _is_python(notebook: dict[str, Any]) -> bool:
    """Whether its kernel is one of Python; notebooks that do not say are."""
    metadata = notebook.get("metadata")
    if not isinstance(metadata, dict):
        return True
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        part = cast("dict[str, Any]", metadata).get(key)
        if isinstance(part, dict) and isinstance(language := cast("dict[str, Any]", part).get(name), str):
            return language.lower() in ("python", "ipython")
    return True


def _code(cell: Any) -> str | None:
    if not isinstance(cell, dict):
        return None
    content = cast("dict[str, Any]", cell)
    if content.get("cell_type") != "code":
        return None
    source = content.get("source", content.get("input", ""))
    if isinstance(source, list):
        return "".join(map(str, cast("list[Any]", source)))
    return source if isinstance(source, str) else ""


def _is_magic(line: str) -> bool:
    return bool(_MAGIC.match(line) or _HELP.match(line) or _ASSIGNED_MAGIC.match(line))


def _is_open(lines: list[str]) -> bool:
    """Whether a bracket, a string or a backslash goes on after these lines: then `% x` continues an expression."""
    if lines and lines[-1].endswith("\\"):
        return True
    try:
        for _ in tokenize.generate_tokens(io.StringIO("\n".join([*lines, ""])).readline):
            pass
    except tokenize.TokenError:
        return True
    except SyntaxError:
        return False
    return False


def _replace_magic(lines: list[str], index: int) -> int:
    """Replace a magic, and the lines that a backslash continues it on; the index of its last line."""
    line = lines[index]
    last = index
    while lines[last].endswith("\\") and last + 1 < len(lines):
        last += 1
    assigned = _ASSIGNED_MAGIC.match(line)
    indentation = line[: len(line) - len(line.lstrip())]
    lines[index] = f"{assigned['target']} {_RESULT}" if assigned else f"{indentation}pass"
    lines[index + 1 : last + 1] = [""] * (last - index)
    return last
