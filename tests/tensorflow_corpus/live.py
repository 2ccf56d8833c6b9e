"""Checks of what has to run to be checked: programs and `.keras` files, on one backend of Keras per process.

    KERAS_BACKEND=jax python -m tests.tensorflow_corpus.live FOLDER

prints one JSON object: the findings of each model by its name.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tensorflow_corpus.catalogue import PAIRS
from tests.tensorflow_corpus.pairs import MARKER

PROGRAMS = Path(__file__).parent / "programs"
BACKENDS = ("tensorflow", "jax", "torch")


@dataclass(frozen=True)
class Program:
    """A program with a defective model and its safe twin, and what a check of the defective one has to find on the marked line."""

    file: str
    name: str
    rule: str
    phase: str = "inference"
    finding_phase: str = "forward"
    backends: tuple[str, ...] = BACKENDS

    def models(self) -> Iterator[tuple[str, bool]]:
        safe = f"{self.name}Safe" if self.name[0].isupper() else f"{self.name}_safe"
        yield f"{PROGRAMS / self.file}:{self.name}", False
        yield f"{PROGRAMS / self.file}:{safe}", True

    def line(self) -> int:
        lines = (PROGRAMS / self.file).read_text("utf-8").splitlines()
        return 1 + next(index for index, line in enumerate(lines) if line.endswith(MARKER))


LIVE = (
    Program("subclassed.py", "Surprise", "NUM101"),
    Program("functional.py", "model", "NUM103"),
    Program("sequential.py", "model", "NUM201"),
    Program("trained.py", "model", "NUM401", "training", "backward"),
    Program("functions.py", "normalised", "NUM103", backends=("tensorflow",)),
    Program("branches.py", "summed", "NUM101", backends=("tensorflow",)),
)


def outcome(model: str | Path, **options: Any) -> dict[str, Any]:
    """The findings of one check, or what went wrong."""
    import tensorproof

    try:
        report = tensorproof.check(model, confirm=False, **options)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-1500:]}
    findings = [
        {
            "rule": finding.rule.code,
            "op": finding.op,
            "node": finding.node,
            "phase": finding.phase,
            "file": finding.location.file if finding.location else None,
            "line": finding.location.line if finding.location else None,
            "module": finding.location.module if finding.location else None,
        }
        for finding in report.findings
        if not finding.is_note and finding.rule.severity == "error"
    ]
    left = [f"{unknown.node} {unknown.op}: {unknown.reason}" for unknown in report.coverage.not_analysed]
    return {"findings": findings, "left": left + list(report.coverage.remarks)}


def main(folder: Path) -> None:
    backend = os.environ["KERAS_BACKEND"]
    found: dict[str, dict[str, Any]] = {}
    for pair in PAIRS.values():
        if pair.kind == "keras":
            for safe in (False, True):
                found[pair.stem(safe)] = outcome(folder / pair.path(safe), ranges=dict(pair.ranges), phase=pair.phase)
    for program in LIVE:
        if backend in program.backends:
            for model, _ in program.models():
                found[Path(model).name] = outcome(model, phase=program.phase)
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
