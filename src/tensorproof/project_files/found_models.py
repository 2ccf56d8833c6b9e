"""The models of a folder, and the ranges that a check takes for their inputs unless it is told better ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tensorproof.errors import TensorproofError
from tensorproof.sources.discovery import is_skipped

#: Models after this many are counted, not read.
MOST_MODELS = 20

_SAVED_MODEL = "saved_model.pb"


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model by its path below the folder: the range of each input as a check would take it, or why it cannot be read."""

    path: str
    inputs: Mapping[str, tuple[float, float]]
    shapes: Mapping[str, tuple[int, ...] | None]
    problem: str | None = None


def find_models(folder: Path) -> list[str]:
    """ONNX files and SavedModels below a folder, in the order of their names; hidden folders and environments are left out."""
    return list(_below(folder, ""))


def read_model(folder: Path, path: str) -> FoundModel:
    """The inputs of a model. Nothing is run, and no code of the model's own."""
    from tensorproof.assumptions import resolve
    from tensorproof.preparing import Prepared

    try:
        prepared = Prepared.of(folder / path, cache=False)
        assumptions = resolve(prepared.graph, prepared.declared)[0][0]
    except TensorproofError as error:
        return FoundModel(path, {}, {}, str(error))
    name = prepared.graph.name_of
    return FoundModel(
        path,
        {name(number): (domain.low, domain.high) for number, domain in assumptions.inputs.items()},
        {name(number): shape for number, shape in assumptions.shapes.items()},
    )


def _below(folder: Path, prefix: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = f"{prefix}{entry.name}"
        if not entry.is_dir(follow_symlinks=False):
            if entry.name.lower().endswith(".onnx") and entry.is_file():
                yield path
        elif Path(entry.path, _SAVED_MODEL).is_file():
            yield path
        elif not is_skipped(entry):
            yield from _below(Path(entry.path), f"{path}/")
