"""How a function is called when its arguments are not all declared: what is guessed, and what has to be said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tensorproof.errors import AssumptionError
from tensorproof.expose.functions.argument import Argument, argument_of
from tensorproof.expose.functions.declaration import Declared, FunctionSettings
from tensorproof.expose.functions.target import Parameter, Target

#: Shapes of tensors that nobody declared, in the order in which they are tried.
SHAPES = ((2, 3), (3,), (3, 3), ())
#: What a range is declared for that all tensors have.
EVERY = "*"
#: Numbers that say along which axis: the last one is there whatever the shape.
_AXES = ("dim", "axis")
#: What is known of parameters that only a framework knows about: the argument as it may be, from what is declared of it.
Knowledge = Callable[[str, Declared | None, tuple[int, ...]], Argument | None]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The tensors that are searched, and all else that the function is given."""

    arguments: tuple[Argument, ...]
    literals: Mapping[str, Any]
    #: What was guessed, in words.
    guesses: tuple[str, ...] = ()


def arrangements(target: Target, settings: FunctionSettings, knowledge: Knowledge) -> Iterator[Arrangement]:
    """Ways to call a function, the likeliest first: with shapes that are not declared, and one of what may be left out.

    What has no derivative is called without gradients: these ways come last.
    """
    _refuse_unknown(target, settings)
    seen: set[tuple[Any, ...]] = set()
    found: list[Arrangement] = []
    for besides in (None, *_alternatives(target, settings, knowledge)):
        for shape in SHAPES:
            try:
                way = _arranged(target, settings, knowledge, shape, besides)
            except _NoTensor:
                continue
            form = tuple((argument.name, argument.shape) for argument in way.arguments)
            if form not in seen:
                seen.add(form)
                found.append(way)
    if not found:
        raise AssumptionError(f"{target.name}: it takes no tensor; declare one, as in --args x='float32[4,3] in -10:10'")
    yield from found
    yield from (_undifferentiated(way) for way in found)


class _NoTensor(Exception):
    """Nothing would be searched."""


def _undifferentiated(way: Arrangement) -> Arrangement:
    arguments = tuple(replace(argument, is_differentiated=False) for argument in way.arguments)
    return replace(way, arguments=arguments, guesses=(*way.guesses, "nograd: it is not differentiated"))


def _refuse_unknown(target: Target, settings: FunctionSettings) -> None:
    if target.is_open:
        return
    for name in (*settings.tensors, *settings.literals):
        if name not in target.known and name != EVERY:
            has = ", ".join(target.known) or "none"
            raise AssumptionError(f"{target.name} has no argument {name!r}; it has {has}")


def _arranged(
    target: Target, settings: FunctionSettings, knowledge: Knowledge, shape: tuple[int, ...], besides: str | None
) -> Arrangement:
    arguments: list[Argument] = []
    literals = dict(settings.literals)
    guesses: list[str] = []
    parameters = {parameter.name: parameter for parameter in (*target.constructor, *target.parameters)}
    open_names = [Parameter(name, True, True) for name in settings.tensors if name not in parameters and name != EVERY]
    wanted = [*target.constructor, *target.parameters, *open_names]
    for parameter in wanted:
        name, declared = parameter.name, settings.tensors.get(parameter.name)
        is_shaped = declared is not None and declared.shape is not None
        if name in literals:
            continue
        if declared is None and not parameter.is_required and name != besides:
            continue
        if declared is None and parameter.is_tensor is False:
            if name not in _AXES:
                raise AssumptionError(f"{target.name}: the argument {name!r} is not given; write --args {name}=VALUE")
            literals[name] = -1
            guesses.append(f"{name}=-1")
            continue
        declared = _ranged(declared, settings.tensors.get(EVERY))
        known = knowledge(name, declared, shape)
        argument = known if known is not None else _guessed(name, declared, shape)
        arguments.append(argument)
        if not is_shaped:
            guesses.append(f"{name}={argument.words()}")
    if not arguments:
        raise _NoTensor
    return Arrangement(tuple(arguments), literals, tuple(guesses))


def _ranged(declared: Declared | None, every: Declared | None) -> Declared | None:
    """What is declared of a tensor; its range is that of all of them where it has none."""
    if every is None or (declared is not None and declared.low is not None):
        return declared
    return replace(declared or Declared(), low=every.low, high=every.high)


def _alternatives(target: Target, settings: FunctionSettings, knowledge: Knowledge) -> list[str]:
    """The parameters of a class that may be left out, of which some classes need exactly one."""
    given = {*settings.tensors, *settings.literals}
    optional = [p.name for p in target.constructor if not p.is_required and knowledge(p.name, None, (3,)) is not None]
    return [] if given & set(optional) else optional


def _guessed(name: str, declared: Declared | None, shape: tuple[int, ...]) -> Argument:
    if declared is None:
        return argument_of(name, Declared(shape=shape))
    return argument_of(name, declared if declared.shape is not None else replace(declared, shape=shape))
