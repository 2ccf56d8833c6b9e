"""Variables of a session: their values before each step of training, put back where a step is looked at again, and first values.

Values are read after every step, in a call of their own: they say whether the step left numbers that are not finite, and they are
what the next step begins with. This costs a copy of all variables that the program computes with; what optimisers keep for
themselves is not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.expose.search.moves import Legal
from tensorproof.expose.sessions.plan import RANDOM, Variable, is_floating, ordered
from tensorproof.formats import Array

Arrays = Mapping[str, npt.NDArray[Any]]

#: Where numbers of a distribution lie, before they are scaled: a normal one leaves this once in 16,000 numbers.
_DRAWN = {"RandomUniform": (0.0, 1.0), "TruncatedNormal": (-2.0, 2.0), "RandomStandardNormal": (-4.0, 4.0)}


class Direct:
    """A session as we use it: the method that runs things, without our own observation."""

    def __init__(self, session: Any, run: Callable[..., list[Any]]) -> None:
        self.session = session
        self._run = run

    @property
    def graph(self) -> Any:
        return self.session.graph

    def fetch(self, tensors: Sequence[Any], feeds: Arrays) -> list[Any]:
        """Values of tensors."""
        return self._run(self.session, None, [], list(tensors), self._fed(feeds), None, None)

    def execute(self, operators: Sequence[Any], feeds: Arrays) -> None:
        """Run operators."""
        self._run(self.session, None, list(operators), [], self._fed(feeds), None, None)

    def _fed(self, feeds: Arrays) -> dict[Any, npt.NDArray[Any]]:
        return {self.graph.get_tensor_by_name(name).ref(): array for name, array in feeds.items()}


def is_finite(array: Any) -> bool:
    """Whether all numbers are finite; texts and the like are."""
    found = np.asarray(array)
    if found.dtype.kind not in "fcV" or not found.size:
        return True
    with np.errstate(all="ignore"):
        # A sum costs less than a look at each number; it may overflow, and then each is looked at.
        return bool(np.isfinite(found.sum())) or bool(np.isfinite(found).all())


@dataclass(slots=True)
class State:
    """The variables of one session. `values` are what was read last, by name; empty where they may have changed since."""

    values: dict[str, npt.NDArray[Any]] = field(default_factory=dict[str, npt.NDArray[Any]])

    def forget(self) -> None:
        """Something changed variables."""
        self.values.clear()

    def before(self, direct: Direct, variables: Sequence[Variable]) -> dict[str, npt.NDArray[Any]]:
        """What variables hold now."""
        missing = [variable for variable in variables if variable.name not in self.values]
        if missing:
            self.values.update(_read(direct, missing))
        return {variable.name: self.values[variable.name] for variable in variables if variable.name in self.values}

    def after(self, direct: Direct, variables: Sequence[Variable]) -> dict[str, npt.NDArray[Any]]:
        """What variables hold after something changed them."""
        self.values = _read(direct, variables)
        return dict(self.values)

    def write(self, direct: Direct, variables: Sequence[Variable], values: Arrays) -> None:
        """Give variables these values; those that nothing assigns to stay."""
        chosen = [variable for variable in variables if variable.name in values and variable.assignment is not None]
        if chosen:
            feeds = {variable.initial.name: values[variable.name] for variable in chosen}
            direct.execute([variable.assignment for variable in chosen], feeds)
            self.values.update((variable.name, values[variable.name]) for variable in chosen)


def _read(direct: Direct, variables: Sequence[Variable]) -> dict[str, npt.NDArray[Any]]:
    """Values by name; nothing where a variable has no value yet: the program's own call says so better."""
    import tensorflow as tf

    try:
        arrays = direct.fetch([variable.read for variable in variables], {})
    except tf.errors.FailedPreconditionError:
        return {}
    return {variable.name: np.asarray(array) for variable, array in zip(variables, arrays)}


def first_values(direct: Direct, variable: Variable, value: Array) -> Legal | None:
    """Where the first value of a variable can lie, by the distribution that it is drawn from; None if it is not drawn.

    The numbers that are drawn go through what the program does with them, at either end of where they lie: scales and offsets of
    initialisers are monotone. Where that gives nothing, no number is excluded.
    """
    if variable.assignment is None or not is_floating(variable.initial):
        return None
    made = [op for op in ordered([], [variable.initial], frozenset()) if op.type in RANDOM]
    if not made:
        return None
    ends = [_DRAWN.get(op.type) for op in made]
    if None in ends:
        return Legal()
    found: list[Array] = []
    for end in (0, 1):
        feeds: dict[str, Any] = {}
        for op, span in zip(made, ends):
            tensor = op.outputs[0]
            if span is None or not tensor.shape.is_fully_defined():
                return Legal()
            feeds[tensor.name] = np.full(tensor.shape.as_list(), span[end], tensor.dtype.as_numpy_dtype)
        found.append(np.asarray(direct.fetch([variable.initial], feeds)[0], np.float64))
    low, high = (float(np.min(found)), float(np.max(found))) if found[0].size else (-np.inf, np.inf)
    if not (np.isfinite(low) and np.isfinite(high)) or low > value.min() or high < value.max():
        return Legal()
    return Legal(low, high)
