"""Lessons: how a batch has to change so that the program's own step of training brings its weights nearer to a failure.

GRIST moves a batch towards the failure at the weights of the moment, trains on it, and waits for training to change the weights.
But a network that has learnt its batch hardly changes any more, and learns not to fail on it. Here the batch that comes near to the
failure is kept aside, and the program trains on another one, which is moved so that the step changes weights w as the objective f
of the failure wants it: with the gradients g that the step takes, f falls in proportion to <df/dw, g>, and the derivative of that
product by the batch is one more pass through the gradients of the program. Labels stay as they are, values stay legal: these are
data that the program could have been trained on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorproof.expose.sessions.extending import derivatives, extended
from tensorproof.expose.sessions.plan import Plan, is_floating
from tensorproof.expose.sessions.state import Arrays, Direct
from tensorproof.formats import Array
from tensorproof.frontends.tensorflow_parts import is_step

#: What steps of optimisers call the gradient that they take.
_GRADIENT = frozenset({"grad", "delta"})
#: What they call the mean square of gradients, or the sum of squares; and what is added to the root of it here.
_SQUARES = ("v", "ms", "accum")
_SMALLEST = 1e-6


@dataclass(frozen=True, slots=True)
class Lesson:
    """The derivatives of one call of training by its inputs; `slopes` are the tensors that df/dw is fed to, by variable."""

    slopes: Mapping[str, Any]
    derivatives: Mapping[str, Any]

    def taken(self, direct: Direct, slopes: Mapping[str, Array], feeds: Arrays) -> dict[str, Array]:
        """How inputs matter for what the step does to the objective: it falls against these, by the names of tensors."""
        fed: dict[str, Any] = {**feeds}
        for name, tensor in self.slopes.items():
            zeros = np.zeros(tensor.shape.as_list(), tensor.dtype.as_numpy_dtype)
            fed[tensor.name] = np.nan_to_num(slopes.get(name, zeros), posinf=0.0, neginf=0.0)
        return dict(zip(self.derivatives, map(np.asarray, direct.fetch(list(self.derivatives.values()), fed))))


def changed(plan: Plan) -> list[Any]:
    """The variables that a call of training changes, as tensors that gradients can be taken of."""
    return list(dict.fromkeys(op.inputs[0] for op in plan.updates if _shape(op) is not None))


def lesson(plan: Plan, inputs: Sequence[Any]) -> Lesson | None:
    """Write the derivatives into the graph of a plan; None where they cannot be taken."""
    import tensorflow as tf

    with extended(plan.graph):
        slopes: dict[str, Any] = {}
        terms: list[Any] = []
        for variable, change, shape in _changes(plan):
            slope = slopes.get(variable.name)
            if slope is None:
                slope = slopes[variable.name] = tf.compat.v1.placeholder(change.dtype, shape)
            terms.append(tf.reduce_sum(slope * change))
        if not terms:
            return None
        found = derivatives(lambda: tf.compat.v1.gradients(-tf.add_n(terms), list(inputs)), inputs)
    return Lesson(slopes, found) if found else None


def _shape(op: Any) -> list[int] | None:
    """The sizes of the variable that an operator changes, if they are known, and it is of floating numbers."""
    variable = op.inputs[0].op
    dtype, shape = variable.get_attr("dtype"), variable.get_attr("shape")
    sizes = [size.size for size in shape.dim]
    return None if shape.unknown_rank or -1 in sizes or not dtype.base_dtype.is_floating else sizes


def _changes(plan: Plan) -> Iterator[tuple[Any, Any, list[int]]]:
    """Variables that a call of training changes, what it takes away from them, up to a positive factor, and their sizes."""
    for op in plan.updates:
        shape = _shape(op)
        if shape is None:
            continue
        variable, operands = op.inputs[0], list(op.inputs)
        if is_step(op.type):
            named = dict(zip((argument.name for argument in op.op_def.input_arg), operands))
            taken = [_scaled(x, named) for name, x in named.items() if name in _GRADIENT and "indices" not in named]
        elif op.type.startswith("AssignSub"):
            taken = operands[1:2]
        elif op.type.startswith("Assign"):
            taken = [-operand for operand in operands[1:2] if is_floating(operand)]
        else:
            taken = []
        for change in taken:
            if is_floating(change):
                yield variable, change, shape


def _scaled(gradient: Any, named: Mapping[str, Any]) -> Any:
    """A gradient as a step takes it: optimisers that keep its mean square divide by the root of that."""
    import tensorflow as tf

    kept = next((named[name] for name in _SQUARES if name in named), None)
    if kept is None:
        return gradient
    if kept.dtype.name == "resource":
        kept = tf.raw_ops.ReadVariableOp(resource=kept, dtype=gradient.dtype)
    return gradient / (tf.sqrt(tf.stop_gradient(tf.identity(kept))) + tf.constant(_SMALLEST, gradient.dtype))
