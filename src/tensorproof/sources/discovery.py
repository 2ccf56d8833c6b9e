"""Which files a user means by a list of files and folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tensorproof.errors import SourceError

#: What standard input is called on the command line, and in reports.
STANDARD_INPUT = "-"

_SUFFIXES = (".py", ".ipynb")
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages"})
#: What the folder of an environment has in it: one of venv, and one of conda.
_MARKS_OF_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")


def find_sources(paths: Iterable[str | Path]) -> Iterator[str | SourceError]:
    """The files by the names that reports use, each once; in place of one that cannot be had, the reason.

    A file that is named is taken whatever it is called. Folders are searched for Python files and notebooks, in the order of
    their names; hidden folders, environments and caches are left out, and links to folders are not followed.
    """
    seen: set[str] = set()
    for path in paths:
        for found in _expanded(str(path)):
            if isinstance(found, SourceError):
                yield found
            elif (key := os.path.realpath(found) if found != STANDARD_INPUT else found) not in seen:
                seen.add(key)
                yield found


def _expanded(path: str) -> Iterator[str | SourceError]:
    if path == STANDARD_INPUT:
        yield path
        return
    name = shown_path(path)
    if Path(path).is_dir():
        yield from _below(name)
    elif not os.path.lexists(path):
        yield SourceError(name, "no such file or folder")
    elif not Path(path).is_file():
        yield SourceError(name, "not an ordinary file")
    else:
        yield name


def shown_path(path: str) -> str:
    """The path as reports name it: relative to the current folder where it lies below it, as a baseline wants it."""
    relative = os.path.relpath(path)
    return path if relative == os.pardir or relative.startswith(os.pardir + os.sep) else relative


def _below(folder: str) -> Iterator[str | SourceError]:
    try:
        with os.scandir(folder) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
    except OSError as error:
        yield SourceError(folder, f"the folder cannot be read ({error.strerror})")
        return
    for entry in entries:
        path = entry.name if folder == os.curdir else os.path.join(folder, entry.name)
        if entry.is_dir(follow_symlinks=False):
            if not is_skipped(entry):
                yield from _below(path)
        elif entry.name.endswith(_SUFFIXES) and entry.is_file():
            yield path


def is_skipped(folder: os.DirEntry[str]) -> bool:
    """Whether a folder holds nothing of the user's own: it is hidden, a cache or an environment."""
    if folder.name.startswith(".") or folder.name in _SKIPPED_FOLDERS:
        return True
    return any(Path(folder.path, mark).exists() for mark in _MARKS_OF_ENVIRONMENTS)
