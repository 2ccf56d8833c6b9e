"""The bugs of the zoo as cases of tables, and the programs that the quick form takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchmarks.paper.table import Size
from benchmarks.zoo import Bug, Entry, programs
from benchmarks.zoo.entry import initial_weights
from tensorproof.assumptions import Domain, weight_formula

#: What weights may be: what a whole training may lead to (`benchmarks/zoo`), and the formulas of the tools from initial values.
BOXES = ("ranum", "debar", "init")

#: Small programs, one of each way to fail.
QUICK = frozenset({"2a", "3", "4-exp", "5", "9b", "11a", "13", "26", "28c", "35b", "38", "51"})

#: Fewer of them, where each takes seconds.
FEW = frozenset({"3", "5", "26", "38", "51"})


def few_bugs(size: Size) -> dict[str, tuple[Entry, Bug]]:
    """All bugs by letter, or the few."""
    return {letter: case for letter, case in all_bugs(size).items() if size == "full" or letter in FEW}


def all_bugs(size: Size) -> dict[str, tuple[Entry, Bug]]:
    """The bugs by letter, with their programs."""
    found = {bug.letter: (entry, bug) for entry in programs() for bug in entry.bugs}
    return found if size == "full" else {letter: case for letter, case in found.items() if letter in QUICK}


def seeds(size: Size) -> Sequence[int]:
    """The seeds of every search."""
    return range(10 if size == "full" else 2)


def is_of_grist(letter: str) -> bool:
    """Whether GRIST runs this form of the program: `4-exp` is one that it does not run."""
    return "-" not in letter


def numbers(entry: Entry) -> int:
    """How many numbers a point of the program is: its weights and its inputs."""
    weights = sum(math.prod(weight.shape) for weight in entry.weights.values())
    return weights + sum(math.prod(given.shape) for given in entry.inputs.values())


def box_options(entry: Entry, box: str | None) -> dict[str, Any]:
    """What a scan or a search is told: the entry's own ranges, or those of its inputs, and a formula for its weights.

    The formula goes by the initial values of each weight, and leaves numbers alone. Constants of a program are no weights, although
    the ONNX file has both as initialisers.
    """
    domains = entry.declarations().domains
    formula = None if box is None else weight_formula(box)
    if formula is None:
        return {"ranges": domains}
    ranges = {name: domain for name, domain in domains.items() if name in entry.inputs}
    for name, array in initial_weights(entry.recording(), 0).items():
        if array.size > 1:
            low, high = formula(float(array.min()), float(array.max()))
            ranges[name] = Domain("box", low, high, source=f"weights {box}")
    return {"ranges": ranges}
