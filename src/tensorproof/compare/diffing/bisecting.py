"""`localise`: the first operator at which two models part, and whether it parts by itself or only carries on what came before.

Values are fetched one pair at a time and given up again. Bisection finds a pair that differs just after one that agrees; the walk
from there back over what it is computed from ends at a pair that differs while all that it is computed from agrees. Then the
operator alone is judged: both sides compute it from the same recorded operands. If it agrees so, the difference is rounding that
grew until here: the right model is given the left model's value at this place, and what is left is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tensorproof.compare.diffing.aligning import Alignment, Pair
from tensorproof.compare.diffing.rounding import DRAWS, Sensitivity, Tolerance, is_moving, moved, spread
from tensorproof.compare.diffing.side import RunFailed, Side
from tensorproof.compare.drawing import Array, generator
from tensorproof.compare.judging import Judgement, Opinion

#: Said of a quantised value that is at the end of its range, where the other model goes further.
CUT_OFF = "cut off: the range that the quantiser was calibrated for ends there"
#: Places at which rounding may be taken out before the search for a defect ends.
ROUNDS = 8


@dataclass(frozen=True)
class Divergence:
    """The first pair at which two models part.

    `judgement` compares the whole models there, `alone` the operator on equal operands (None where it could not be run alone).
    `left_failure` and `right_failure` are what a side says that cannot compute the value.
    """

    pair: Pair
    judgement: Judgement | None
    alone: Judgement | None = None
    operands: tuple[Pair, ...] = ()
    left_failure: str = ""
    right_failure: str = ""

    @property
    def is_own_doing(self) -> bool:
        """Whether the operator differs on equal operands, as far as that could be tried."""
        if self.left_failure or self.right_failure:
            return True
        return self.alone is None or self.alone.opinion is Opinion.DEFECT


@dataclass
class Probe:
    """Two models on one point: pairs of values, judged. No more than one pair and its operands is held at a time."""

    left: Side
    right: Side
    left_feeds: dict[str, Array]
    right_feeds: dict[str, Array]
    tolerance: Tolerance
    seed: int = 0
    #: Whether a pair of values of different shapes was matched wrongly, not computed wrongly.
    doubts_shapes: bool = False
    #: The most bytes of values that were held at once.
    held: int = 0
    judged: dict[Pair, Judgement | None] = field(default_factory=dict[Pair, "Judgement | None"])
    failures: dict[Pair, tuple[str, str]] = field(default_factory=dict[Pair, tuple[str, str]])

    def judge(self, pair: Pair) -> Judgement | None:
        """How the models compare at a pair; None where one of them, or both, cannot compute it."""
        if pair not in self.judged:
            self.judged[pair] = self._judge(pair)
        return self.judged[pair]

    def _judge(self, pair: Pair) -> Judgement | None:
        left, left_failure = _tried(self.left, self.left_feeds, [pair.left])
        right, right_failure = _tried(self.right, self.right_feeds, [pair.right])
        if left_failure or right_failure:
            self.failures[pair] = left_failure, right_failure
            return None
        a, b = left[pair.left], right[pair.right]
        self._note((a, b))
        if a.dtype.kind in "iu" and b.dtype.kind in "iu":
            # Inside, indices may be of any width.
            a, b = a.astype(np.int64), b.astype(np.int64)
        return self.tolerance.judge(a, b, sensitivity=self.sensitivity(self.left_feeds, pair.left, a))

    def sensitivity(self, feeds: dict[str, Array], name: str, base: Array) -> Sensitivity:
        """How far a value of the left model moves when what it is computed from moves by one unit of a format."""

        def measured(format: str) -> Array | None:
            others: list[Array] = []
            for draw in range(DRAWS):
                random = generator("moved", self.seed, draw, format)
                found, failure = _tried(self.left, {key: moved(array, format, random) for key, array in feeds.items()}, [name])
                if failure:
                    return None
                others.append(found[name])
            self._note([base, *others])
            return spread(base, others)

        return measured

    def differs(self, pair: Pair, least: Opinion) -> bool:
        """Whether the models part at a pair: by more than `least` allows, or because one of them fails."""
        judgement = self.judge(pair)
        if judgement is None:
            left, right = self.failures[pair]
            return bool(left) != bool(right)
        if judgement.symptom in ("shape", "dtype") and self.doubts_shapes:
            return False
        if least is Opinion.PRECISION:
            return judgement.opinion is not Opinion.AGREE
        return judgement.opinion is Opinion.DEFECT

    def alone(self, pair: Pair, operands: Sequence[Pair], operator: str) -> Judgement | None:
        """The operator on equal operands: those that the left model has."""
        wanted = list(dict.fromkeys([*(entry.left for entry in operands), pair.left]))
        values, failure = _tried(self.left, self.left_feeds, wanted)
        if failure:
            return None
        recorded = {entry.left: values[entry.left] for entry in operands}
        given = {entry.right: values[entry.left] for entry in operands}
        right, failure = _tried(self.right, given, [pair.right])
        if failure:
            return None
        a, b = values[pair.left], right[pair.right]
        self._note([*values.values(), b])
        found = self.tolerance.judge(a, b, sensitivity=self.sensitivity(recorded, pair.left, a), is_exact=is_moving(operator))
        return replace(found, detail=CUT_OFF) if self.tolerance.coarse == "int8" and _is_cut_off(found, b) else found

    def take_over(self, pair: Pair) -> bool:
        """Give the right model the left one's value at a pair from now on."""
        values, failure = _tried(self.left, self.left_feeds, [pair.left])
        if failure:
            return False
        self.right_feeds = {**self.right_feeds, pair.right: values[pair.left]}
        self.judged.clear()
        self.failures.clear()
        return True

    def _note(self, arrays: Iterable[Array]) -> None:
        feeds = sum(array.nbytes for array in (*self.left_feeds.values(), *self.right_feeds.values()))
        self.held = max(self.held, feeds + sum(array.nbytes for array in arrays))


def localise(probe: Probe, alignment: Alignment, output: Pair, least: Opinion) -> Divergence:
    """The first pair before an output at which the models part by more than `least`; the output itself if none is aligned."""
    pair = _walked_back(probe, alignment, _bisected(probe, alignment.before(output), least), least)
    operands = alignment.frontier(pair)
    judgement = probe.judge(pair)
    if judgement is None:
        left, right = probe.failures[pair]
        return Divergence(pair, None, None, operands, left, right)
    operator = probe.right.facts.operators.get(pair.right, "")
    ours = probe.left.facts.operators.get(pair.left, "")
    alone = probe.alone(pair, operands, operator if is_moving(ours) else "") if operands else None
    return Divergence(pair, judgement, alone, operands)


def localise_defect(probe: Probe, alignment: Alignment, output: Pair) -> tuple[Divergence, bool]:
    """The operator at fault, and whether there is one: False if all that differs is rounding that grew.

    Rounding is taken out where it first shows, up to `ROUNDS` times. Where no operator is at fault, the first divergence stands.
    NaN or infinity in one model only is a defect even where rounding decides about it.
    """
    first: Divergence | None = None
    whole = probe.judge(output)
    is_special = whole is not None and whole.symptom != "value"
    for _ in range(ROUNDS):
        found = localise(probe, alignment, output, Opinion.DEFECT)
        if found.is_own_doing:
            return found, True
        if is_special and found.judgement is not None and found.judgement.symptom != "value":
            return found, True
        first = first or found
        if found.pair == output or not probe.take_over(found.pair):
            return first, False
        if not probe.differs(output, Opinion.DEFECT):
            return first, False
    assert first is not None
    return replace(first, alone=None), True


def _bisected(probe: Probe, pairs: list[Pair], least: Opinion) -> Pair:
    """A pair that differs, just after one that does not. The last pair differs."""
    good, bad = -1, len(pairs) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if probe.differs(pairs[middle], least):
            bad = middle
        else:
            good = middle
    return pairs[bad]


def _walked_back(probe: Probe, alignment: Alignment, pair: Pair, least: Opinion) -> Pair:
    """From a pair that differs, back to one that differs while all that it is computed from agrees."""
    inputs = set(alignment.inputs)
    while True:
        earlier = next((e for e in alignment.frontier(pair) if e not in inputs and probe.differs(e, least)), None)
        if earlier is None:
            return pair
        pair = earlier


def _is_cut_off(judgement: Judgement, right: Array) -> bool:
    if judgement.opinion is Opinion.AGREE or judgement.symptom != "value":
        return False
    if judgement.right >= float(right.max()):
        return judgement.left > judgement.right
    return judgement.right <= float(right.min()) and judgement.left < judgement.right


def _tried(side: Side, feeds: dict[str, Array], names: Sequence[str]) -> tuple[dict[str, Array], str]:
    try:
        return {name: np.asarray(array) for name, array in side.run(feeds, names).items()}, ""
    except RunFailed as error:
        return {}, str(error)
