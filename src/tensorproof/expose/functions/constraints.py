"""What the distributions of PyTorch say of their parameters and values, as legal numbers of arguments.

An open end is the next number: of a range that the user declares down to zero the smallest number there is, and of one that
nobody declares the smallest that is normal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tensorproof.expose.functions.argument import REACH, Argument, argument_of
from tensorproof.expose.functions.arrangement import Knowledge
from tensorproof.expose.functions.declaration import Declared, FunctionSettings
from tensorproof.expose.functions.target import Target
from tensorproof.formats import FLOAT32

#: Shapes by the kind of constraint, where nobody declares one.
_SHAPES = {"Simplex": (2, 3), "LowerCholesky": (3, 3), "PositiveDefinite": (3, 3)}
_KINDS = {"Simplex": "simplex", "LowerCholesky": "cholesky", "PositiveDefinite": "definite", "OneHot": "one-hot"}
#: Methods that take probabilities, and those that take values of the support.
_PROBABILITIES, _VALUES = ("icdf",), ("log_prob", "cdf")


def knowledge_of(target: Target, settings: FunctionSettings) -> Knowledge:
    """What is known of the arguments of a distribution; of other functions nothing is."""
    declared_by_class = getattr(target.owner, "arg_constraints", None)
    constraints = {**_unsaid(target), **declared_by_class} if isinstance(declared_by_class, Mapping) else None

    def known(name: str, declared: Declared | None, shape: tuple[int, ...]) -> Argument | None:
        if constraints is None:
            return None
        if name in constraints:
            return _under(name, declared, constraints[name], (3,))
        if name == "value" and target.method in (*_PROBABILITIES, *_VALUES):
            return _value(target, settings, declared, constraints)
        return None

    return known


def _unsaid(target: Target) -> dict[str, Any]:
    """Relaxed distributions do not say that a temperature is positive."""
    from torch.distributions import constraints

    return {"temperature": constraints.positive} if "temperature" in target.known else {}


def _under(name: str, declared: Declared | None, constraint: Any, shape: tuple[int, ...]) -> Argument:
    plain = getattr(constraint, "base_constraint", constraint)
    named = type(plain).__name__.strip("_")
    default = Argument(name, FLOAT32, _SHAPES.get(named, shape), -REACH, REACH)
    return constrained(argument_of(name, declared or Declared(), default), constraint)


def constrained(argument: Argument, constraint: Any) -> Argument:
    """The argument, its numbers within a constraint of `torch.distributions`; one that depends on other arguments says nothing."""
    plain = getattr(constraint, "base_constraint", constraint)
    named = type(plain).__name__.strip("_")
    if not argument.format.is_float or argument.kind != "box":
        return argument
    if named in _KINDS:
        low = -argument.high if named == "LowerCholesky" else 0.0
        return replace(argument, kind=_KINDS[named], low=low, source="constraint of the function")
    low, high = (_bound(getattr(plain, name, None)) for name in ("lower_bound", "upper_bound"))
    if getattr(plain, "is_discrete", False):
        first = 0.0 if low is None else low
        last = min(argument.high, first + REACH if high is None else high) if named != "Boolean" else 1.0
        values = tuple(float(value) for value in range(int(first), int(max(last, first)) + 1))
        return replace(argument, kind="values", low=first, high=values[-1], values=values, source="constraint of the function")
    is_declared = argument.source == "declared"
    least = argument.format.smallest_subnormal if is_declared else argument.format.smallest_normal
    found = argument
    if low is not None and (low > found.low or (low == found.low and named == "GreaterThan")):
        found = replace(found, low=_above(low, least, argument) if named == "GreaterThan" else low)
    if high is not None and (high < found.high or (high == found.high and named in ("LessThan", "HalfOpenInterval"))):
        is_open = named in ("LessThan", "HalfOpenInterval")
        found = replace(found, high=-_above(-high, least, argument) if is_open else high)
    if found.low > found.high:
        return argument
    return found if found == argument or is_declared else replace(found, source="constraint of the function")


def _bound(value: Any) -> float | None:
    """An end that is one number."""
    if value is None:
        return None
    if hasattr(value, "numel"):
        return float(value.min()) if value.numel() == 1 else None
    return float(value)


def _above(end: float, least: float, argument: Argument) -> float:
    """The smallest number of the format beyond an end that does not belong to the range."""
    return least if end == 0.0 else end + float(argument.format.quantum(np.array(end)))


def _value(
    target: Target, settings: FunctionSettings, declared: Declared | None, constraints: Mapping[str, Any]
) -> Argument | None:
    """A value of a distribution: what an object of moderate parameters says of its support and of its shape."""
    from torch.distributions import constraints as known

    given = dict(settings.literals)
    for parameter in target.constructor:
        if parameter.name in constraints and (parameter.name in settings.tensors or parameter.is_required):
            given[parameter.name] = _moderate(parameter.name, settings, constraints)
    # Some classes need one of those that may be left out.
    for besides in (None, *(p.name for p in target.constructor if p.name in constraints and p.name not in given)):
        try:
            made = target.made(given if besides is None else {**given, besides: _moderate(besides, settings, constraints)})
            shape = tuple(made.batch_shape + made.event_shape)
            support = known.unit_interval if target.method in _PROBABILITIES else made.support
        except (ValueError, NotImplementedError, TypeError, RuntimeError, AssertionError):
            continue
        return constrained(argument_of("value", declared or Declared(), Argument("value", FLOAT32, shape, -REACH, REACH)), support)
    return None


def _moderate(name: str, settings: FunctionSettings, constraints: Mapping[str, Any]) -> Any:
    """A parameter in the middle of what is legal."""
    import torch

    argument = _under(name, settings.tensors.get(name), constraints[name], (3,))
    return torch.from_numpy(argument.even(np.random.default_rng(settings.seed))).to(getattr(torch, argument.format.name))
