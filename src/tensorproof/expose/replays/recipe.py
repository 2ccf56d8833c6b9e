"""`Recipe`: what a replay of a failure is made of, whatever the framework."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.expose.events import Failure
from tensorproof.expose.workplace import Workplace

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The failure, the program as the user has it, and the values that the program is given, by name.

    `rows` are the rows of values that are not replaced as a whole. The values are given from the step `first` on.
    """

    failure: Failure
    program: Workplace
    arguments: tuple[str, ...]
    values: Arrays
    rows: Mapping[str, list[int]] = field(default_factory=dict[str, list[int]])
    first: int = 0

    @property
    def name(self) -> str:
        """A file name that is readable, unique to the place of the failure, and harmless."""
        failure = self.failure
        place = [failure.rule, failure.operator, failure.phase, Path(failure.file or "").name, failure.line, failure.column]
        digest = hashlib.sha256(json.dumps([self.program.script.name, *place]).encode()).hexdigest()[:8]
        stem = re.sub(r"[^A-Za-z0-9]+", "_", Path(failure.file or "program").stem).strip("_")[-40:] or "program"
        return f"{failure.rule}_{stem}_{failure.line or 0}_{digest}"

    def only(self, names: Iterable[str]) -> Recipe:
        """The same with these values alone; the program has its own in place of the others."""
        kept = set(names)
        return replace(
            self,
            values={name: array for name, array in self.values.items() if name in kept},
            rows={name: rows for name, rows in self.rows.items() if name in kept},
        )

    def path_from(self, folder: Path, path: Path) -> str:
        """A path as a script in that folder writes it."""
        return os.path.relpath(path, folder.resolve())

    def lines(self) -> dict[str, dict[int, str]]:
        """The lines of the program that names of values and the failure refer to, by the names of files."""
        files = {path.name: path for path in (self.program.script, Path(self.program.original.script))}
        if self.failure.file is not None:
            files[Path(self.failure.file).name] = Path(self.failure.file)
        wanted = [(Path(self.failure.file or "").name, self.failure.line)]
        for name in self.values:
            parts = name.rsplit(":", 3)
            if len(parts) == 4 and parts[2].isdigit():
                wanted.append((parts[1], int(parts[2])))
        found: dict[str, dict[int, str]] = {}
        for file, line in wanted:
            text = _line(files.get(file), line)
            if text and line is not None:
                found.setdefault(file, {})[line] = text
        return found

    def described(self) -> list[str]:
        """The values in words, those with a name of the program's first."""
        told: list[str] = []
        for name, array in self.values.items():
            label = self.failure.values.get(name, "")
            if array.dtype.kind not in "fiub":
                continue
            numbers = np.asarray(array, np.float64)
            ends = f"[{numbers.min():.6g}, {numbers.max():.6g}]" if numbers.size else "empty"
            rows = "" if name not in self.rows else f", rows {', '.join(map(str, self.rows[name]))} alone"
            called = f"{label} ({name})" if label and label not in ("batch", "data", "draw", "weight") else name
            told.append(f"{called} in {ends}, shape {' x '.join(map(str, array.shape)) or 'a number'}{rows}")
        return told


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an archive of `tensorproof.confirm.witness.npz_bytes`."""
    with np.load(path, allow_pickle=False) as archive:
        names = json.loads(bytes(archive["names"]))
        return {name: archive[f"array_{index}"] for index, name in enumerate(names)}


def compact(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers of float64 in float32, where that holds them."""
    if array.dtype != np.float64:
        return array
    with np.errstate(over="ignore"):
        smaller = array.astype(np.float32)
    return smaller if np.array_equal(smaller, array, equal_nan=True) else array


def _line(file: Path | None, line: int | None) -> str:
    if file is None or line is None:
        return ""
    try:
        lines = file.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""
