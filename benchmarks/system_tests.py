"""System tests for the zoo: how often a search finds a training example and an input that make the known node fail.

One step of gradient descent with learning rate 1 from the initial weights, then inference, as RANUM (ICSE 2023) has it. Where one
step is not enough, up to forty of them, all on the same example, with an inference after each. A failure counts if a real
runtime shows it: ONNX Runtime, which takes subnormal numbers for zero if the program's framework does; for a derivative,
TensorFlow in the step that follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.derivative_tests import next_step_fails
from benchmarks.paper.bugs import numbers
from benchmarks.timing import cpu_seconds
from benchmarks.zoo import Bug, Entry
from tensorproof.confirm.search import Budget
from tensorproof.confirm.system_test import SystemConfirm, SystemTest
from tensorproof.preparing import Prepared

#: The whole search; gradient matching to the weights of a unit test alone (RANUM); samples alone.
METHODS = ("full", "matching", "random")
LOSS = "loss"
#: Most steps of training where one is not enough, and the points that are tried: derivatives through so many steps cost much.
STEPS, SAMPLES = 40, 120
#: What a last search through one step may spend, four times as much as the first; and one for what cannot be reached.
MORE_EVALUATIONS, FEW_EVALUATIONS = 2400, 120
#: Points of samples alone: ten times as many as the first search may look at, as far as `NUMBERS` numbers in all allow it, which
#: comes to 5 to 60 CPU seconds for programs that are never found.
RANDOM_SAMPLES, NUMBERS = 10 * Budget().evaluations, 2_000_000_000
#: Programs of which a training step takes half a second: fewer points and fewer steps, by samples alone.
FEW_STEPS, FEW_SAMPLES, FEW_RANDOM_SAMPLES = 18, 15, 80
SLOW = ("17",)
#: Bugs that one step with learning rate 1 does not reach, or is not known to reach, and the argument.
NOT_REACHED = {
    "2a": "the mean over 10 by 10 terms bounds one step: logits part by at most 785 * 1.111 / 10 = 87.22, and 87.34 are needed",
    "15": "weights start near zero and gradients are products of several of them: one step hardly moves any",
    "17": "the dice loss is a mean over 283,024 pixels: one step carries logits from 0.2 to 1, and 88.7 are needed",
    "28a": "with weights of 0 the gain moves by 1e-9 a step, for biases fill the range of the clips; it would have to meet -1e-7",
    "28b": "all 784 weights of a column would have to be exactly 0 at once",
    "28c": "gains below 2, as some seeds draw them, leave every clip idle, and then the loss does not depend on them; others have"
    " to be met exactly",
    "28d": "all 784 weights of a column would have to be exactly 0 at once",
}
#: Those of them that no training reaches, searched with fewer seeds; the others count as failing.
OUT_OF_REACH = ("28a", "28b", "28d")
#: What no number of steps makes easier.
ONE_STEP = ("28c",)


@dataclass(frozen=True, slots=True)
class Try:
    """One search: how it succeeded (or did not), after how many training steps, and its CPU seconds."""

    how: str | None
    steps: int
    seconds: float


def run(entry: Entry, bug: Bug, method: str, seeds: Sequence[int]) -> list[Try]:
    """Search the node of a bug; the search knows the model, the ranges and the name of the loss, nothing else of the entry."""
    return [_tried(entry, bug, method, seed) for seed in seeds]


def _tried(entry: Entry, bug: Bug, method: str, seed: int) -> Try:
    started = cpu_seconds()
    if not bug.is_forward:
        how = "samples" if next_step_fails(entry, bug, method, seed, LOSS) else None
        return Try(how, 1, cpu_seconds() - started)
    for steps, budget in _searches(entry, bug, method, seed):
        test = _searched(entry, bug, budget, steps, direct=method != "matching")
        if test is not None:
            return Try(test.how, test.steps, cpu_seconds() - started)
    return Try(None, 1, cpu_seconds() - started)


def _searches(entry: Entry, bug: Bug, method: str, seed: int) -> Iterator[tuple[int, Budget]]:
    """Steps of training, and what may be spent on them: one first, and more where that is not enough."""
    is_slow = entry.id in SLOW
    if method == "random":
        most = max(Budget().evaluations, min(RANDOM_SAMPLES, NUMBERS // numbers(entry)))
        yield 1, Budget(seed, FEW_RANDOM_SAMPLES if is_slow else most, "random")
    elif method != "full":
        yield 1, Budget(seed, FEW_SAMPLES) if is_slow else Budget(seed)
    elif is_slow:
        yield FEW_STEPS, Budget(seed, FEW_SAMPLES, "random")
    elif bug.letter in OUT_OF_REACH:
        yield 1, Budget(seed, FEW_EVALUATIONS)
    else:
        yield 1, Budget(seed)
        if bug.letter not in ONE_STEP:
            yield STEPS, Budget(seed, SAMPLES, "random")
            yield 1, Budget(seed, MORE_EVALUATIONS)


def _searched(entry: Entry, bug: Bug, budget: Budget, steps: int, *, direct: bool) -> SystemTest | None:
    target = entry.target if entry.flushes_subnormals else None
    prepared = Prepared.of(entry.onnx(budget.seed), ranges=entry.declarations().domains, target=target, cache=False)
    confirming = SystemConfirm(
        prepared.proto,
        nodes=(bug.node,),
        declared=prepared.declared,
        loss=LOSS,
        steps=steps,
        budget=budget,
        direct=direct,
        shrink=False,
    )
    report = prepared.checked(confirming)
    return next((confirming.tests[f.identity] for f in report.confirmed if f.node == bug.node), None)
