"""Which frameworks a program uses, read off its source and that of the modules beside it; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

#: Frameworks whose operators are observed, by the package that is imported.
OBSERVED = {"torch": "PyTorch", "tensorflow": "TensorFlow"}
#: Packages whose only business is a framework, where their metadata leave it to the user which one.
_BACKENDS = {"keras": "tensorflow"}


def frameworks_of(script: Path) -> set[str]:
    """The frameworks that a program computes with: those it imports, or those that packages which it imports are made for."""
    names = imported(script)
    found = {_BACKENDS.get(name, name) for name in names} & OBSERVED.keys()
    return found or {framework for name in names for framework in _required(name)}


def imported(script: Path) -> set[str]:
    """The packages that a program imports, it or modules and packages of its own folder. Raises `SyntaxError` for the program.

    A module beside it that is no Python is left alone: the program says so itself when it imports it.
    """
    folder = script.parent
    found: set[str] = set()
    pending, seen = [script], {script}
    while pending:
        file = pending.pop()
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, ValueError, SyntaxError):
            if file is script:
                raise
            continue
        for name in _imports(tree, file, folder):
            found.add(name.partition(".")[0])
            for beside in _files(folder, name):
                if beside not in seen:
                    seen.add(beside)
                    pending.append(beside)
    return found


def _imports(tree: ast.AST, file: Path, folder: Path) -> Iterator[str]:
    """Names of modules, in full; those of relative imports as seen from the folder of the program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = file.parents[node.level - 1] if 0 < node.level <= len(file.parents) else None
            if start is not None and not start.is_relative_to(folder):
                continue
            before = () if start is None else start.relative_to(folder).parts
            parts = (*before, *((node.module,) if node.module else ()))
            if parts:
                yield ".".join(parts)
            # What is imported out of a package may be a module of it.
            yield from (".".join((*parts, alias.name)) for alias in node.names if alias.name != "*" and parts)


def _files(folder: Path, name: str) -> Iterator[Path]:
    """The files of the folder that importing a module runs."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        place = folder.joinpath(*parts[:length])
        for file in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if file.is_file():
                yield file


def _required(name: str) -> set[str]:
    """The frameworks that an installed package needs."""
    try:
        needed = metadata.requires(name) or ()
    except (metadata.PackageNotFoundError, ValueError):
        return set()
    return {framework for framework in OBSERVED for entry in needed if entry.replace(" ", "").startswith(framework)}
