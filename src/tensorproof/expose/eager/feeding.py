"""What an eager TensorFlow program gets in place of its own batches and arrays: samples that are kept and moved.

Datasets are known by the line that asks them for a batch and by the form of it. Arrays are known by the line that hands them to
TensorFlow. They are kept from the moment on at which one of them is moved, and with it all of as many samples: labels stay with
what they belong to. Until then a program may hand over anything, weights for example.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.expose.eager.external import Externals, overwrite
from tensorproof.expose.eager.health import is_finite
from tensorproof.expose.eager.recording import is_floating
from tensorproof.expose.search.feeding import Feeding
from tensorproof.expose.search.moves import Legal
from tensorproof.expose.settings import Settings
from tensorproof.formats import Array

#: What the first dataset is called, and what names of arrays begin with.
_BATCH, _DATA = "batch", "data:"


class Feeds:
    """Stands between the data of a program and the program."""

    def __init__(
        self, settings: Settings, externals: Externals, overrides: Mapping[str, Array], generator: np.random.Generator
    ) -> None:
        self._externals = externals
        self._overrides = overrides
        self._feeding = Feeding(settings, generator)
        self._datasets: dict[tuple[str, str], int] = {}
        self._counts: dict[str, int] = {}
        #: Arrays of the step that is going on, and those that are kept, by name; with the source that they are kept under.
        self._step: dict[str, npt.NDArray[Any]] = {}
        self._kept: dict[str, str] = {}
        #: The ranges that fresh batches and arrays lay in so far, by name.
        self.observed: dict[str, Legal] = {}

    def batch(self, line: str, form: str, fresh: Any) -> Any:
        """What the program gets in place of a fresh batch of a dataset."""
        import tensorflow as tf

        number = self._datasets.setdefault((line, form), len(self._datasets))
        leaves: list[Any] = list(tf.nest.flatten(fresh))
        if not all(is_finite(leaf) for leaf in leaves if _is_batch(leaf)):
            return fresh
        for index, leaf in enumerate(leaves):
            if not _is_batch(leaf):
                continue
            name = f"{_BATCH}{number}.{index}"
            array = np.asarray(leaf.numpy())
            is_new = name not in self.observed
            given = self._feeding.given(f"{_BATCH}{number}", name, array)
            self.observed[name] = self._feeding.legal(name)
            override = self._overrides.get(name)
            if is_new and override is not None and override.shape == array.shape:
                self._feeding.move({name: override}, None)
                given = override
            # A dataset may give the same memory again, and so may we.
            leaves[index] = tf.constant(array if given is None else given.astype(array.dtype))
            self._externals.fed(name, "batch", leaves[index], self.observed[name])
        return tf.nest.pack_sequence_as(fresh, leaves)

    def converted(self, line: str, tensor: Any, is_from_user: bool) -> None:
        """A tensor that TensorFlow has just made of an array: it gets the numbers that are kept for it.

        What libraries make tensors of, and the user does not hand to them, is counted, and left alone.
        """
        name = self._name(line)
        if not is_from_user or not is_finite(tensor):
            return
        fresh = np.asarray(tensor._numpy())
        given = self._given(name, fresh.astype(np.float32) if fresh.dtype.kind == "V" else fresh)
        if given is not None:
            overwrite(tensor, given)
        self._externals.fed(name, "data", tensor, self.observed.get(name, Legal()))

    def handed(self, line: str, array: npt.NDArray[Any], is_from_user: bool) -> tuple[str, npt.NDArray[Any]]:
        """An array that an operator is called with: its name, empty if it is left alone, and what the operator gets."""
        name = self._name(line)
        if not is_from_user or not np.isfinite(array).all():
            return "", array
        given = self._given(name, array)
        return name, array.copy() if given is None else given.astype(array.dtype)

    def became(self, name: str, tensor: Any) -> None:
        """The tensor that TensorFlow made of an array that was handed to an operator."""
        self._externals.fed(name, "data", tensor, self.observed.get(name, Legal()))

    def move(self, moved: Mapping[str, Array], scores: npt.NDArray[np.float64] | None) -> None:
        """From the next step on batches and arrays have these numbers."""
        lengths = {len(self._step[name]) for name in moved if name in self._step}
        for name, array in self._step.items():
            if name not in self._kept and len(array) in lengths:
                self._kept[name] = f"{_DATA}{len(array)}"
                self._feeding.given(self._kept[name], name, array)
        self._feeding.move(moved, scores)

    def step_done(self, is_counted: bool) -> None:
        """The next step begins; `is_counted` says that samples were used in the one that is done."""
        self._counts.clear()
        self._step.clear()
        if is_counted:
            self._feeding.step_done()

    def _name(self, line: str) -> str:
        count = self._counts[line] = self._counts.get(line, -1) + 1
        return f"{_DATA}{line}:{count}"

    def _given(self, name: str, fresh: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        self._step[name] = fresh
        if fresh.dtype.kind == "f":
            known = self.observed.get(name)
            self.observed[name] = Legal.of(fresh) if known is None else known.widened(fresh)
        source = self._kept.get(name)
        if source is not None:
            return self._feeding.given(source, name, fresh)
        override = self._overrides.get(name)
        return override if override is not None and override.shape == fresh.shape else None


def _is_batch(leaf: Any) -> bool:
    """Whether a part of a batch is a tensor of numbers with axes, and no composite, text or the like."""
    import tensorflow as tf

    if not isinstance(leaf, tf.Tensor) or not leaf.shape.rank:
        return False
    return is_floating(leaf) or leaf.dtype.is_integer or leaf.dtype.is_bool
