"""The form of a program of the zoo in which its bug can be run, and a witness of it in that form.

Values are run in ONNX Runtime, derivatives in the program's own framework: those of TensorFlow by the node of its gradients.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tensorproof
from benchmarks.zoo import Bug, Entry
from tensorproof.findings import Finding


def failing_form(entry: Entry, bug: Bug, folder: Path) -> tuple[Any, dict[str, Any]]:
    """The model, and the options of a search for the bug; `folder` takes the files that are needed."""
    if bug.is_forward:
        return entry.onnx(), {"nodes": [bug.node]}
    if entry.framework == "tensorflow":
        return entry.tensorflow_file(folder, training=True), {"nodes": [f"gradients/{bug.node}_grad/*"], "phase": "training"}
    import torch

    example = {name: torch.tensor(array) for name, array in entry.plain_inputs().items()}
    return entry.torch(), {"example_inputs": example, "phase": "training"}


def is_shown_by(bug: Bug, finding: Finding) -> bool:
    """Whether a confirmed finding of that search is the bug. A derivative has the name that its framework gives it."""
    return finding.node == bug.node if bug.is_forward else finding.phase == "backward"


def failing_point(entry: Entry, bug: Bug, folder: Path, seed: int = 0) -> dict[str, npt.NDArray[Any]] | None:
    """Weights and inputs by name at which the bug shows, if the search finds any."""
    model, options = failing_form(entry, bug, folder)
    ranges = entry.declarations().domains
    report = tensorproof.find_witnesses(model, ranges=ranges, seed=seed, shrink=False, witnesses=folder, **options)
    for finding in report.confirmed:
        if finding.witness is not None and is_shown_by(bug, finding):
            with np.load(finding.witness.arrays) as archive:
                names = json.loads(bytes(archive["names"]))
                values = {name: archive[f"array_{index}"] for index, name in enumerate(names)}
            return {name: values[_named(name, names)] for name in (*entry.inputs, *entry.weights)}
    return None


def _named(name: str, names: list[str]) -> str:
    """The name that a framework gives to a value of the program."""
    return next(known for known in names if name in (known, known.split(":")[0], known.split()[-1]))
