"""Roots and norms that are differentiated where they are zero: NUM507.

What a program differentiates is followed back from the result: `loss.backward()`, `tape.gradient(loss, ...)`, `jax.grad`, and
`minimize(loss)` of TensorFlow 1. Losses that `fit` of Keras calls, and losses that nothing calls, are not followed.

A root on the way is reported if its operand can be exactly zero (squares and sums of them, without anything added) and depends on
what the gradient is taken by. The norms of PyTorch have the derivative 0 at 0, and are not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tensorproof.rules.source.root_without_epsilon import ROOT_WITHOUT_EPSILON
from tensorproof.shapes.numeric_patterns.operations import Operation, operation_of, squared
from tensorproof.shapes.numeric_patterns.regions import managers_around, name_of
from tensorproof.shapes.numeric_patterns.reporting import warn
from tensorproof.shapes.numeric_patterns.rewriting import Written
from tensorproof.shapes.problems import Edit, Place
from tensorproof.shapes.values import DictValue, Instance, ListValue, NativeObject, Tensor, Value

if TYPE_CHECKING:
    from tensorproof.shapes.run import Run

#: Steps of a computation that are followed back.
MOST_STEPS = 2_000
#: Kinds of tensors that a training changes.
_TRAINED = frozenset({"parameter", "variable"})
#: Functions inside of which PyTorch records nothing.
_UNRECORDED = frozenset({"no_grad", "inference_mode"})


def check_backward(run: Run, call: Operation, result: Value) -> None:
    """`loss.backward()`: gradients by all parameters."""
    check_gradient(run, call.operand, ())


def check_tape(run: Run, call: Operation, result: Value) -> None:
    """`tape.gradient(loss, sources)`."""
    sources = call.operands[1] if len(call.operands) > 1 else dict(call.keywords).get("sources")
    check_gradient(run, call.operand, (sources,))


def check_gradient(run: Run, output: Value, sources: Iterable[Value]) -> None:
    """Report the roots between the sources (and all parameters) and the output."""
    given = {id(part) for source in sources for part in _parts(source)}
    for tensor in _steps(run, output):
        operation = operation_of(run, tensor)
        if operation is None or not _is_steep(run, operation):
            continue
        if any(_is_source(value, given) for value in _steps(run, operation.operand)) and not _is_unrecorded(run, operation.place):
            _report(run, operation)


def _parts(value: Value) -> Iterator[Value]:
    """All values in nested lists, tuples and dictionaries."""
    items: Iterable[Value] | None = None
    if isinstance(value, tuple):
        items = value
    elif isinstance(value, ListValue):
        items = value.items
    elif isinstance(value, DictValue):
        items = None if value.entries is None else value.entries.values()
    if items is None:
        yield value
    else:
        for item in items:
            yield from _parts(item)


def _steps(run: Run, output: Value) -> Iterator[Value]:
    """A value and all that it was computed from, each once, as far as gradients reach."""
    waiting = list(_parts(output))
    seen: set[int] = set()
    while waiting and len(seen) < MOST_STEPS:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        if not isinstance(value, Tensor) or value.recipe is None:
            continue
        operation = operation_of(run, value)
        if operation is not None and operation.kind == "constant":
            continue
        if value.recipe.receiver is not None:
            waiting.append(value.recipe.receiver)
        for argument in (*value.recipe.arguments, *(keyword for _, keyword in value.recipe.keywords)):
            waiting.extend(_parts(argument))


def _is_source(value: Value, given: set[int]) -> bool:
    """Whether gradients are taken by a value: weights, a layer that has some, or what was named."""
    if id(value) in given:
        return True
    if isinstance(value, Tensor):
        return value.kind in _TRAINED or (value.recipe is not None and ("requires_grad", True) in value.recipe.keywords)
    if isinstance(value, NativeObject | Instance):
        return any(isinstance(field, Tensor) and field.kind in _TRAINED for field in value.slots.values())
    return False


def _is_steep(run: Run, operation: Operation) -> bool:
    """Whether an operation is a root or a norm of what can be exactly zero."""
    if operation.kind == "sqrt":
        return _can_vanish(run, operation.operand)
    if operation.kind != "norm":
        return False
    difference = operation_of(run, operation.operand)
    return (
        difference is not None
        and difference.kind == "subtract"
        and difference.pair is not None
        and all(isinstance(operand, Tensor) for operand in difference.pair)
    )


def _can_vanish(run: Run, value: Value) -> bool:
    """Whether a tensor is made of squares only, such that equal points make it exactly zero."""
    operation = operation_of(run, value)
    if operation is None:
        return False
    if operation.kind == "squared difference" or squared(run, value) is not None:
        return True
    if operation.kind in ("sum", "mean", "part", "view"):
        return _can_vanish(run, operation.operand)
    if operation.pair is None:
        return False
    left, right = operation.pair
    if operation.kind == "add":
        return _can_vanish(run, left) and _can_vanish(run, right)
    if operation.kind == "multiply":
        return _can_vanish(run, left) or _can_vanish(run, right)
    return operation.kind == "divide" and _can_vanish(run, left)


# -- what is said -----------------------------------------------------------------------------------------------------


def _report(run: Run, root: Operation) -> None:
    if root.kind == "norm":
        message = (
            "the norm of a difference is differentiated: where both are equal its gradient is NaN; "
            "write sqrt(sum((a - b)**2) + eps)"
        )
    else:
        message = "a square root is differentiated whose operand can be exactly 0: its gradient is then NaN; write sqrt(x + eps)"
    warn(run, ROOT_WITHOUT_EPSILON, root, message, _with_epsilon(run, root) if root.kind == "sqrt" else ())


def _with_epsilon(run: Run, root: Operation) -> tuple[Edit, ...]:
    written = Written.at(run, root.place)
    call = None if written is None else written.call(written.node, root.is_method)
    if written is None or call is None:
        return ()
    operand = f"{written.term(call.operand)} + 1e-12"
    text = f"({operand}).sqrt()" if call.is_method else call.called("sqrt", operand)
    return written.edit("add 1e-12 under the root", text)


def _is_unrecorded(run: Run, place: Place) -> bool:
    """Whether a place is in a block or a function for which PyTorch records no gradients."""
    return any(name_of(manager) in _UNRECORDED for manager in managers_around(run, place))
