"""Objectives of suspects as operators of the program's graph: what is made small, its gradients, and how near each sample is.

Operators are added once for each suspect, in a name scope of their own, without control dependencies; nothing of the program
depends on them. They are run in calls of their own. In the program's call they would be readers of its values, and TensorFlow
rewrites a value with one reader as it does not one with two: log(softmax(z)) is computed as log_softmax(z), and (1 - p) + 1e-8 as
1 - p. What fails in the program's call is what fails without us.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorproof.confirm.objective import NOWHERE, TEMPERATURE
from tensorproof.expose.sessions.extending import derivatives, extended
from tensorproof.expose.sessions.place import NEAR, limit_of, terms
from tensorproof.expose.sessions.plan import Site
from tensorproof.expose.sessions.state import Arrays, Direct
from tensorproof.formats import BY_NAME, FLOAT32, Array
from tensorproof.rules.exponential_overflow import EXPONENTIAL_OVERFLOW

#: How many rows are moved at once where several are: one in so many, and at least these.
PART_OF_ROWS = 10
FEWEST_ROWS = 4
#: Stands for terms that are not finite; no term is as large.
_FAR = 1e30
#: What `TensorflowPlace.below` is at zero: the objective of a logarithm, a root or a divisor that has failed is not above it.
AT_ZERO = math.log(NEAR) - 1.0
#: What rounding adds to that, in single precision.
_SLACK = 1e-3
#: Operators whose results are rounded to a part of their operands, and operators that hand on what they get.
_SUMS = frozenset({"Sub", "Add", "AddV2", "BiasAdd"})
_HANDS_ON = frozenset({"Identity", "Reshape", "Squeeze", "ExpandDims", "Neg", "Abs", "Transpose"})
_DEEPEST = 6


@dataclass(frozen=True, slots=True)
class Measured:
    """The objective of a suspect at some values, its gradient by each of them, and how near each row of the operand is.

    `has_failed` says that the operator fails there, as it is written.
    """

    objective: float
    gradients: Mapping[str, Array]
    rows: npt.NDArray[np.float64] | None = None
    has_failed: bool = False


@dataclass(slots=True, eq=False)
class _Written:
    """The operators of one objective: its value, that of several rows, whether the operator fails, terms by row, and what
    rounding goes by."""

    value: Any
    several: Any
    has_failed: Any
    rows: Any
    scale: Any
    #: By the names of the tensors that gradients are taken of, and whether of several rows; None where a tensor does not matter.
    gradients: dict[tuple[str, bool], Any] = field(default_factory=dict[tuple[str, bool], Any])


class Objectives:
    """Objectives in one graph."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._written: dict[str, _Written | None] = {}

    def survey(self, direct: Direct, sites: Sequence[Site], feeds: Arrays) -> dict[str, float]:
        """How far suspects are from failing, by name; their floors are set where a sum makes the operand."""
        found = [(site, written) for site in sites if (written := self._objective(site)) is not None]
        results = direct.fetch([t for _, w in found for t in (w.value, w.scale)], feeds) if found else []
        distances: dict[str, float] = {}
        for index, (site, _) in enumerate(found):
            value, scale = results[2 * index : 2 * index + 2]
            distances[site.suspect.name] = _number(value)
            site.suspect.floor = _floor(site, float(scale))
        return distances

    def measure(self, direct: Direct, site: Site, moved: Sequence[Any], feeds: Arrays, *, several: bool = False) -> Measured:
        """The objective at what is fed, with its gradients by some tensors; of `several` rows, each by its own smallest term."""
        written = self._objective(site)
        if written is None:
            return Measured(NOWHERE, {})
        gradients = self._gradients(written, moved, several)
        rows = [] if written.rows is None else [written.rows]
        wanted = [written.value, written.has_failed, *rows, *gradients.values()]
        results = [np.asarray(result) for result in direct.fetch(wanted, feeds)]
        near = results[2].astype(np.float64) if rows else None
        slopes = dict(zip(gradients, results[2 + len(rows) :]))
        return Measured(_number(results[0]), slopes, near, bool(results[1]))

    def value(self, direct: Direct, site: Site, feeds: Arrays) -> float:
        """The objective alone."""
        written = self._objective(site)
        if written is None:
            return NOWHERE
        return _number(direct.fetch([written.value], feeds)[0])

    def _objective(self, site: Site) -> _Written | None:
        name = site.suspect.name
        if name not in self._written:
            with extended(self._graph):
                self._written[name] = _written(site)
        return self._written[name]

    def _gradients(self, written: _Written, moved: Sequence[Any], several: bool) -> dict[str, Any]:
        """The gradients by tensors that the objective depends on, by their names."""
        import tensorflow as tf

        missing = [tensor for tensor in moved if (tensor.name, several) not in written.gradients]
        if missing:
            with extended(self._graph):
                objective = written.several if several else written.value
                found = derivatives(lambda: tf.compat.v1.gradients(objective, missing), missing)
            written.gradients.update(((tensor.name, several), found.get(tensor.name)) for tensor in missing)
        slopes = {tensor.name: written.gradients[tensor.name, several] for tensor in moved}
        return {name: slope for name, slope in slopes.items() if slope is not None}


def _written(site: Site) -> _Written | None:
    """Add the operators of an objective to the default graph."""
    import tensorflow as tf

    try:
        found = terms(site.weakness, site.operator)
    except (TypeError, ValueError):
        return None
    if found is None:
        return None
    near = tf.where(tf.math.is_finite(found), found, tf.constant(_FAR, found.dtype))
    # The smallest term decides; those as small have their say, so that ties do not stand in each other's way.
    value = -TEMPERATURE * tf.reduce_logsumexp(-near / TEMPERATURE)
    rank = found.shape.rank
    if not rank:
        return _Written(value, value, _fails(site), None, _scale(site))
    inner = list(range(1, rank))
    rows = -TEMPERATURE * tf.reduce_logsumexp(-near / TEMPERATURE, axis=inner) if inner else near
    count = tf.minimum(tf.size(rows), tf.maximum(FEWEST_ROWS, tf.size(rows) // PART_OF_ROWS))
    several = -tf.reduce_sum(tf.math.top_k(-rows, count, sorted=False).values)
    return _Written(value, several, _fails(site), rows, _scale(site))


def _number(value: Any) -> float:
    return NOWHERE if float(value) >= 0.5 * _FAR else float(value)


def _fails(site: Site) -> Any:
    """Whether the operator fails, in the default graph: its value, or its derivative, which does where the operand is zero."""
    import tensorflow as tf

    if site.weakness.phase == "forward":
        return tf.reduce_any(~tf.math.is_finite(site.operator.outputs[0]))
    return tf.reduce_any(tf.equal(site.decisive, 0))


def _scale(site: Site) -> Any:
    """The largest number that is added up to the operand, in the default graph; 0 if no sum makes it."""
    import tensorflow as tf

    parts = _summands(site.decisive)
    largest = [tf.reduce_max(tf.abs(tf.cast(part, tf.float32))) for part in parts]
    return tf.reduce_max(tf.stack(largest)) if largest else tf.constant(0.0)


def _summands(tensor: Any) -> list[Any]:
    """The operands of the sums that a tensor is made by; nothing if no sum makes it."""
    while tensor.op.type in _HANDS_ON:
        tensor = tensor.op.inputs[0]
    found: list[Any] = []
    pending = [(tensor, 0)]
    while pending:
        current, depth = pending.pop()
        op = current.op
        if depth < _DEEPEST and op.type in _SUMS:
            pending.extend((operand, depth + 1) for operand in op.inputs)
        elif depth < _DEEPEST and op.type in _HANDS_ON:
            pending.append((op.inputs[0], depth + 1))
        else:
            found.append(current)
    return found if tensor.op.type in _SUMS else []


def is_reached(site: Site, objective: float) -> bool:
    """Whether an objective says that the operator fails."""
    if site.weakness.rule is EXPONENTIAL_OVERFLOW:
        return objective <= site.suspect.floor
    return objective <= AT_ZERO + _SLACK


def _floor(site: Site, scale: float) -> float:
    """The objective at the smallest distance that the operand can have from its failure, short of failing."""
    tensor = site.decisive
    if site.weakness.rule is EXPONENTIAL_OVERFLOW:
        return -math.log(limit_of(tensor))
    if not scale:
        return AT_ZERO
    unit = 2.0 ** -BY_NAME.get(tensor.dtype.base_dtype.name, FLOAT32).digits
    return math.log(max(unit * scale, NEAR))
