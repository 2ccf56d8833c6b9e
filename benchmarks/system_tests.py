"""System tests for the zoo: how often a search finds a training example and an input that make the known node fail.

One step of gradient descent with learning rate 1 from the initial weights, then inference, as RANUM (ICSE 2023) has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.timing import cpu_seconds
from benchmarks.zoo import Bug, Entry
from tensorproof.confirm.search import Budget
from tensorproof.confirm.system_test import SystemConfirm
from tensorproof.preparing import Prepared

#: The whole search; gradient matching to the weights of a unit test alone (RANUM); samples alone.
METHODS = ("full", "matching", "random")
LOSS = "loss"
#: Entries that are left out: a single training step takes minutes.
SLOW = {"17": "a training step on images of 572 by 572 pixels through 26 layers, with second derivatives, takes minutes"}
#: Bugs that one step with learning rate 1 does not reach, or is not known to reach, and the argument.
NOT_REACHED = {
    "2a": "the mean over 10 by 10 terms bounds one step: logits part by at most 784 * 1.11 / 10 + 0.11 = 87.2, and 104 are needed",
    "15": "weights start near zero and gradients are products of several of them: a step hardly moves any",
    "16c": "open: every logit of a row would have to fall below -104 at once, as 11c, which has one more clip that helps",
    "28a": "the clips around the gain have no slope, so that a step hardly moves it; it would have to meet one number exactly",
    "28b": "all 784 weights of a column would have to be exactly 0 at once",
    "28c": "the clips around the gain have no slope, so that a step hardly moves it; it would have to vanish",
    "28d": "all 784 weights of a column would have to be exactly 0 at once",
}


@dataclass(frozen=True, slots=True)
class Row:
    """The runs of one bug with one method: how each seed succeeded (or did not), and CPU seconds of each run."""

    how: tuple[str | None, ...]
    seconds: tuple[float, ...]
    notes: tuple[str, ...]

    @property
    def found(self) -> int:
        return sum(way is not None for way in self.how)


def run(entry: Entry, bug: Bug, method: str, seeds: Sequence[int]) -> Row:
    """Search the node of a bug; the search knows the model, the ranges and the name of the loss, nothing else of the entry."""
    how: list[str | None] = []
    seconds: list[float] = []
    notes: list[str] = []
    for seed in seeds:
        started = cpu_seconds()
        prepared = Prepared.of(entry.onnx(seed), ranges=entry.declarations().domains, cache=False)
        confirming = SystemConfirm(
            prepared.proto,
            nodes=(bug.node,),
            declared=prepared.declared,
            loss=LOSS,
            budget=Budget(seed, method="random" if method == "random" else "full"),
            direct=method != "matching",
            shrink=False,
        )
        report = prepared.checked(confirming)
        seconds.append(cpu_seconds() - started)
        how.append(next((confirming.tests[f.identity].how for f in report.confirmed if f.node == bug.node), None))
        notes += confirming.notes
    return Row(tuple(how), tuple(seconds), tuple(dict.fromkeys(notes)))
