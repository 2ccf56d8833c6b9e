"""The facts of architectures, judged by runs in TensorFlow:

    python -m benchmarks.architectures.judging RUNS [NAME ...]

prints, for each architecture and form, what its facts leave out and what runs say against them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.architectures import Architecture, Fact, Form, architectures
from benchmarks.architectures.running import BOXES, Box, Running, is_true


def judged(entry: Architecture, form: Form, runs: int) -> dict[str, list[str]]:
    """What is wrong with the facts about one form: nothing, if all lists are empty but that of its operations.

    A fact may be about nothing in one form of two.
    """
    with Running(entry, form) as running:
        about_nothing = [fact.node for fact in running.facts if not any(fact.is_about(name) for name in running.operations)]
        forgotten = [name for name in running.operations if not any(fact.is_about(name) for fact in running.facts)]
        for name in forgotten:
            del running.operations[name]
        prepared = running.prepared()
        boxes = {weights: running.box(prepared, weights) for weights in BOXES}
        return {
            "operations": sorted(running.operations),
            "without a fact": forgotten,
            "about nothing": about_nothing,
            "not shown": [name for fact in running.facts if fact.points for name in _not_shown(running, fact, boxes.values())],
            "refuted": [text for weights, box in boxes.items() for text in running.refuted(box, weights, runs)],
        }


def _not_shown(running: Running, fact: Fact, boxes: Any) -> Iterator[str]:
    """The operations that fail at none of the points of a fact, or whose points lie in no box."""
    legal: list[Box] = [box for box in boxes if is_true(fact, running, box)]
    shown = {name for box in legal[:1] for point in fact.points for name in running.failing(running.at(point, box))}
    yield from (name for name in running.operations if fact.is_about(name) and name not in shown)


def main(runs: int, names: Sequence[str]) -> None:
    for entry in architectures():
        for form in entry.forms if not names or entry.name in names else ():
            found = judged(entry, form, runs)
            wrong = {what: said for what, said in found.items() if said and what != "operations"}
            print(f"{entry.name} ({form}): {len(found['operations'])} operations", wrong or "")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
