"""TensorFlow's branches and loops, said in ours. What a loop hands on unchanged, and variables, are read where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.errors import NotAnalysed
from tensorproof.formats import BOOL, INT64
from tensorproof.frontends.calls import Handle
from tensorproof.graph import ABSENT
from tensorproof.operators.control_flow import if_, loop

if TYPE_CHECKING:
    from tensorproof.frontends.tensorflow_call import TensorflowCall


@if_.tensorflow("If", "StatelessIf")
def _(call: TensorflowCall) -> Any:
    """Either function; both read the operands where they stand."""
    names = [call.attributes["then_branch"], call.attributes["else_branch"]]
    return _either(call, _truth(call, call.handle(0)), names, call.operands[1:])


@if_.tensorflow("Case", "StatelessCase")
def _(call: TensorflowCall) -> Any:
    """One of several functions by an index; the last one for an index that is none of theirs."""
    names, operands = list(call.attributes["branches"]), call.operands[1:]

    def chosen(first: int) -> Any:
        if first == len(names) - 1:
            return call.called(names[first], operands)
        position = call.constant(np.asarray(first), call.handle(0).format or INT64)
        is_first = call.emit("Equal", call.operand(0), position, formats=(BOOL,))
        here = call.body(f"branch_{first}", (), lambda _: _tensors(call, call.called(names[first], operands)))
        later = call.body(f"after_{first}", (), lambda _: _tensors(call, chosen(first + 1)))
        made = call.emit("If", is_first, outputs=len(here.outputs), then_branch=here, else_branch=later)
        return [Handle(number, None, None) for number in (made if isinstance(made, tuple) else (made,))]

    return tuple(handle.number for handle in _tensors(call, chosen(0)))


@loop.tensorflow("While", "StatelessWhile")
def _(call: TensorflowCall) -> Any:
    """The condition is asked before the first iteration, and at the end of each."""
    condition, repeated = call.attributes["cond"], call.attributes["body"]
    unchanged = {index for index, source in enumerate(call.handed_on(repeated)) if source == index}
    carried = [index for index in range(len(call)) if index not in unchanged]
    for index in carried:
        if not isinstance(call.operands[index], Handle):
            raise NotAnalysed(f"operand {index} of a loop is a variable that changes")

    def merged(states: Sequence[Handle]) -> list[Any]:
        given = list(call.operands)
        for index, state in zip(carried, states, strict=True):
            given[index] = state
        return given

    def iteration(inputs: Sequence[Handle]) -> list[Any]:
        after = call.called(repeated, merged(inputs[2:]))
        states = [after[index] for index in carried]
        (goes_on,) = call.called(condition, merged(states))
        return [Handle(_truth(call, goes_on), BOOL, ()), *states]

    starts: list[Handle] = [call.operands[index] for index in carried]
    (first,) = call.called(condition, list(call.operands))
    count, goes_on = Handle(ABSENT, INT64, ()), Handle(ABSENT, BOOL, ())
    # A state keeps its format, but not its shape: TensorFlow lets loops change that, within what the loop states.
    stated = call.attribute("output_shapes") or ()
    shapes = [_shape(stated[index]) if index < len(stated) else None for index in carried]
    states = [Handle(ABSENT, call.format_at(start), shape) for start, shape in zip(starts, shapes)]
    body = call.body("body", [count, goes_on, *states], iteration)
    made = call.emit(
        "Loop",
        ABSENT,
        _truth(call, first),
        *(start.number for start in starts),
        outputs=len(carried),
        formats=[state.format for state in states],
        body=body,
    )
    numbers = iter(made if isinstance(made, tuple) else (made,))
    return tuple(item if index in unchanged else next(numbers) for index, item in enumerate(call.operands))


def _shape(stated: Any) -> tuple[int | None, ...] | None:
    """A shape as TensorFlow states it, -1 for sizes that change."""
    return None if stated is None else tuple(size if size >= 0 else None for size in stated)


def _either(call: TensorflowCall, condition: int, names: Sequence[Any], operands: Sequence[Any]) -> tuple[int, ...]:
    bodies = [
        call.body(label, (), lambda _, name=name: _tensors(call, call.called(name, operands)))
        for label, name in zip(("then_branch", "else_branch"), names)
    ]
    made = call.emit("If", condition, outputs=len(bodies[0].outputs), then_branch=bodies[0], else_branch=bodies[1])
    return made if isinstance(made, tuple) else (made,)


def _tensors(call: TensorflowCall, results: Sequence[Any]) -> list[Handle]:
    """The results of a function, which have to be tensors (or lists of them)."""
    for item in results:
        if not isinstance(item, Handle):
            raise NotAnalysed(f"a branch of {call.name} gives no tensor")
    return list(results)


def _truth(call: TensorflowCall, condition: Any) -> int:
    """A condition as a truth value: a number is true unless it is zero."""
    if not isinstance(condition, Handle):
        raise NotAnalysed(f"the condition of {call.name} is no tensor")
    return call.cast(condition.number, BOOL)
