"""External values of a TensorFlow program: what it feeds, takes out of datasets and queues, and draws, by the names of tensors.

The first batch that a kind of call gets is kept and fed again and again, moved; later ones give samples that replace others, and
widen the range in which values are legal. Labels, numbers without axes (learning rates, rates of dropout), and arrays that an
earlier call returned (the program keeps its weights in arrays of its own) are left as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.expose.search.moves import Batch, Legal, is_label
from tensorproof.expose.sessions.objective import Objectives
from tensorproof.expose.sessions.plan import Plan, Site
from tensorproof.expose.sessions.state import Arrays, Direct, State
from tensorproof.expose.settings import Settings

#: How many returned arrays are remembered: those of the last calls.
_REMEMBERED = 64

#: Batches of another form, in a row, after which one of them is kept.
_MISFITS = 3
#: Draws that are moved, and where their numbers lie.
DRAWS = {"RandomUniform": Legal(0.0, 1.0), "TruncatedNormal": Legal(-2.0, 2.0), "RandomStandardNormal": Legal(-4.0, 4.0)}


@dataclass(slots=True, eq=False)
class Call:
    """One call of a session: `fresh` is what the program gives it, `feeds` what it gets; data and drawn numbers are among them."""

    direct: Direct
    plan: Plan
    state: State
    objectives: Objectives
    fresh: dict[str, npt.NDArray[Any]]
    feeds: dict[str, npt.NDArray[Any]]
    #: Whether the call is a step of training: it changes variables, or what earlier calls returned goes into it.
    is_training: bool
    #: The suspect that the call is moved for, if it is.
    driven: Site | None = None

    @property
    def key(self) -> tuple[bool, frozenset[str]]:
        """Calls that share a batch."""
        return self.plan.is_training, frozenset(name for name, array in self.fresh.items() if array.ndim)

    def names(self, states: set[str]) -> dict[str, str]:
        """What fed, drawn and held values are called outside: `batch0.x:0`, `draw:random_normal:0`, `weight:W`, by our names."""
        drawn = {tensor.name for tensor in self.plan.drawn}
        data = {tensor.name for tensor in self.plan.data}
        found: dict[str, str] = {}
        for name in self.feeds:
            if name in drawn:
                found[name] = f"draw:{name}"
            elif name in states:
                found[name] = f"weight:{name}"
            else:
                found[name] = f"batch{int(name in data)}.{name}"
        return found | {v.name: f"weight:{v.name}" for v in (*self.plan.variables, *self.plan.slots)}


class Externals:
    """All external values of one run."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._observed: dict[str, Legal] = {}
        self._batches: dict[tuple[bool, frozenset[str]], Batch] = {}
        self._misfits: dict[tuple[bool, frozenset[str]], int] = {}
        self._returned: deque[npt.NDArray[Any]] = deque(maxlen=_REMEMBERED)
        #: Tensors that the program feeds with what earlier calls returned.
        self.states: set[str] = set()
        self._labels: set[str] = set()

    def observe(self, fresh: Arrays) -> None:
        """Values that the program gives."""
        for name, array in fresh.items():
            if not array.ndim or array.dtype.kind not in "fV" or not array.size:
                continue
            if name not in self.states and self._was_returned(array):
                self.states.add(name)
            known = self._observed.get(name)
            self._observed[name] = Legal.of(array) if known is None else known.widened(array)
            if known is None and is_label(array):
                self._labels.add(name)
            elif name in self._labels and not is_label(array):
                self._labels.discard(name)

    def returned(self, results: Iterable[Any]) -> None:
        """What a call gives back to the program."""
        self._returned.extend(
            array for array in results if isinstance(array, np.ndarray) and array.ndim and array.dtype.kind == "f"
        )

    def _was_returned(self, array: npt.NDArray[Any]) -> bool:
        """Whether an array is what a call returned, or a copy of it; arrays of equal numbers are no sign of that."""
        for other in self._returned:
            if other is array:
                return True
            if other.shape == array.shape and np.array_equal(other, array) and array.min() != array.max():
                return True
        return False

    def legal(self, name: str, otherwise: Legal | None = None) -> Legal:
        """Where values of a tensor or a variable may lie: as declared, by the name of the tensor or of its operator, or as seen."""
        ranges = self._settings.ranges
        declared = ranges.get(name) or ranges.get(name.partition(":")[0]) or ranges.get("*")
        if declared is not None:
            return Legal(*declared)
        return self._observed.get(name, Legal()) if otherwise is None else otherwise

    def batch(self, call: Call) -> Batch | None:
        """The batch that is kept for calls of this kind; None if the program's own has another form, or there is none.

        Where forms differ from the one that is kept several times in a row, the program has no such batches any more.
        """
        arrays = {name: array for name, array in call.fresh.items() if array.ndim and name not in self.states}
        if not arrays:
            return None
        kept = self._batches.get(call.key)
        is_fit = kept is not None and kept.arrays.keys() == arrays.keys() and kept.fits(arrays)
        self._misfits[call.key] = 0 if is_fit else self._misfits.get(call.key, 0) + 1
        if kept is None or kept.arrays.keys() != arrays.keys() or self._misfits[call.key] > _MISFITS:
            self._misfits[call.key] = 0
            kept = self._batches[call.key] = Batch({name: array.copy() for name, array in arrays.items()})
            is_fit = True
        return kept if is_fit else None

    def ranges(self) -> Iterator[tuple[str, Legal]]:
        """The tensors that are moved, and where their values may lie."""
        for name, observed in self._observed.items():
            if name not in self.states and name not in self._labels and observed.is_bounded:
                yield name, self.legal(name)

    def restart(self) -> None:
        """The next batches of the program are those that are kept."""
        self._batches.clear()

    def movable(self, call: Call, sources: Iterable[str]) -> list[str]:
        """The inputs among some sources that are moved.

        Where some have as many samples as the program likes, those of a fixed size are none of them: weights that it feeds.
        """
        found = [
            name
            for name in sorted(sources)
            if (array := call.fresh.get(name)) is not None
            and array.ndim
            and array.size
            and array.dtype.kind in "fV"
            and name not in self.states
            and name not in self._labels
        ]
        free = [name for name in found if call.direct.graph.get_tensor_by_name(name).shape[:1] == [None]]
        return free or found

    def draws(self, call: Call, sources: Iterable[str]) -> list[str]:
        """The drawn numbers among some sources that are moved."""
        kinds = {tensor.name: tensor.op.type for tensor in call.plan.drawn}
        return [name for name in sorted(sources) if kinds.get(name) in DRAWS]
