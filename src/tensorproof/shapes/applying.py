"""Application of rules: arguments bound, alternatives tried, failures reported once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations, islice, product
from typing import TYPE_CHECKING, Any

from tensorproof.shapes import numeric_patterns
from tensorproof.shapes.batches import meeting
from tensorproof.shapes.joining import alternatives, choice
from tensorproof.shapes.problems import Place, Problem
from tensorproof.shapes.rule_table import FRAMEWORKS, PASSING_ON, Call, Mismatch, NotKnown, ShapeRule, framework_of
from tensorproof.shapes.run import Exhausted, Raised
from tensorproof.shapes.shape import ANY_SHAPE
from tensorproof.shapes.strides import keeps_memory_order
from tensorproof.shapes.trail import Changes
from tensorproof.shapes.values import (
    UNKNOWN,
    Choice,
    Framework,
    History,
    Instance,
    ListValue,
    NativeObject,
    Recipe,
    Results,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from tensorproof.shapes.run import Run

#: Combinations of alternatives that are tried; with more of them the result is unknown.
MOST_COMBINATIONS = 16


def apply_rule(
    run: Run,
    place: Place,
    rule: ShapeRule,
    name: str,
    arguments: Sequence[Value],
    keywords: Mapping[str, Value],
    receiver: NativeObject | Instance | None = None,
    *,
    name_place: Place | None = None,
) -> Value:
    """The result of a rule. It is a defect only if every combination of alternatives fails."""
    run.step()
    if run.graph.has_declarations:
        arguments = tuple(run.graph.current(value) for value in arguments)
        keywords = {key: run.graph.current(value) for key, value in keywords.items()}
    passes_on = rule.function in PASSING_ON
    rows = [(tuple(arguments), dict(keywords))] if passes_on else alternative_arguments(arguments, keywords)
    if rows is None:
        return _fallback(rule, name)
    results: list[Value] = []
    failures: list[Mismatch] = []
    # What one alternative does to its receiver (a layer builds its weights) must not be seen by the next one.
    forked = receiver is not None and len(rows) > 1
    mark = run.trail.mark()
    ends: list[Changes] = []
    troubles: list[list[Problem]] = []
    for row, named in rows:
        # What a rule finds inside (a model that applies its layers) counts like its own failure.
        with run.watching() if len(rows) > 1 else nullcontext(list[Problem]()) as problems:
            try:
                results.append(_apply_one(run, place, rule, name, row, named, receiver, name_place))
            except Mismatch as mismatch:
                failures.append(mismatch)
        troubles.append(problems)
        if forked:
            ends.append(run.trail.undo(mark))
    if len(rows) > 1 and not failures and all(troubles):
        for problem in troubles[0]:
            run.add(problem)
    if forked:
        run.trail.apply(ends[0])
        run.trail.join(mark, ends[1:], run.join_slots)
    if failures and not results:
        first = failures[0]
        failed = _suspected(_described(place, name, _fallback(rule, name) if isinstance(first.result, Unknown) else first.result))
        if any(_is_suspect(value) for value in (*arguments, *keywords.values())):
            return failed
        if _is_blamed_on_reshape(Call(run, name, place), first.tensors):
            return failed
        operands = [value for value in (*arguments, *keywords.values()) if isinstance(value, Tensor)]
        if run.failed_before(first.rule.code, first.message, operands, place):
            return failed
        run.report(
            first.rule,
            place,
            first.message,
            certain=first.rule.severity == "error",
            tensors=first.tensors,
            related=first.related,
            edits=first.edits,
            operation=name,
        )
        return failed
    return choice(results)


def _apply_one(
    run: Run,
    place: Place,
    rule: ShapeRule,
    name: str,
    arguments: tuple[Value, ...],
    keywords: dict[str, Value],
    receiver: NativeObject | Instance | None,
    name_place: Place | None,
) -> Value:
    binding = rule.binding
    framework = framework_of(name)
    run.statistics.arguments += len(arguments) + len(keywords)
    run.statistics.imprecise_arguments += sum(isinstance(a, Unknown) for a in (*arguments, *keywords.values()))
    try:
        given, named = binding.bind(arguments, keywords, framework)
    except NotKnown:
        return _described(place, name, _fallback(rule, name))
    except TypeError:
        return _fallback(rule, name)
    try:
        if binding.wants_call:
            given.insert(0, Call(run, name, place, receiver, name_place))  # pyright: ignore[reportArgumentType]
        if binding.wants_self:
            assert receiver is not None
            given.insert(0, _view(receiver))
        result = rule.function(*given, **named)
    except NotKnown:
        return _described(place, name, _fallback(rule, name))
    except (Mismatch, Raised, Exhausted, RecursionError):
        raise
    except Exception as error:
        # One rule must not take the whole analysis down; `--stats` shows it, and no test lets it pass.
        run.statistics.rule_errors[f"{name}: {error!r}"] += 1
        return _fallback(rule, name)
    _count(run, result)
    recipe = Recipe(rule, name, arguments, tuple(keywords.items()), place, receiver)
    suspect = any(_is_suspect(value) for value in given)
    finished = _finished(result, recipe, framework, [value for value in given if isinstance(value, Tensor)], suspect)
    numeric_patterns.inspect(run, recipe, finished)
    return finished


def _view(receiver: NativeObject | Instance) -> Any:
    from tensorproof.shapes.calls import native_class_of

    cls = native_class_of(receiver)
    assert cls is not None
    if not cls.is_constructed(receiver):
        raise NotKnown
    fields = {parameter.name for parameter in cls.constructor.parameters}
    if any(name in fields and isinstance(value, Choice) for name, value in receiver.slots.items()):
        # Branches made the object differently.
        raise NotKnown
    return cls.view(receiver)


def _finished(result: Value, recipe: Recipe, framework: Framework, operands: Sequence[Tensor], suspect: bool) -> Value:
    """The result of a rule as the program sees it: of which library, with its history, and how it was made."""
    if isinstance(result, Tensor):
        changes: dict[str, Any] = {}
        # An array belongs to the library whose function made it; functions of Keras return arrays of their backend.
        # What Python's own functions return keeps its library.
        owned = recipe.name.partition(".")[0] in FRAMEWORKS
        if owned and result.framework != framework and (framework != "keras" or result.framework == "numpy"):
            changes["framework"] = framework
        if not any(result is operand for operand in operands):
            before = result.history
            # Of several steps at one place (the layers of a Sequential) the last one is told.
            if before is not None and before.place == recipe.place:
                before = before.before
            changes["history"] = History.of(recipe.place, recipe.name, result, before)
        if result.recipe is None:
            changes["recipe"] = recipe
        if suspect and not result.suspect:
            changes["suspect"] = True
        if result.contiguous and framework == "torch" and not keeps_memory_order(recipe.rule):
            changes["contiguous"] = None
        return result.evolved(**changes) if changes else result
    if isinstance(result, Results):
        return result.map(lambda part: _finished(part, recipe, framework, operands, suspect))
    if type(result) is tuple:
        return tuple(
            _finished(part, replace(recipe, part=position), framework, operands, suspect) for position, part in enumerate(result)
        )
    if type(result) is ListValue and result.items is not None and framework in ("tf", "keras"):
        # Graphs of these are computed again: also the parts of a list need their recipes.
        pairs = enumerate(result.items)
        return ListValue([_finished(part, replace(recipe, part=place), framework, operands, suspect) for place, part in pairs])
    return result


def _count(run: Run, result: Value) -> None:
    if isinstance(result, Tensor):
        run.statistics.tensors += 1
        run.statistics.imprecise_tensors += not result.shape.is_precise


def _described(place: Place, name: str, result: Value, operands: Sequence[Tensor] = ()) -> Value:
    """The result with its history: this step, behind that of the operand with the longest one."""
    if isinstance(result, Tensor):
        if any(result is operand for operand in operands):
            return result
        before = result.history
        if before is not None and before.place == place:
            return result
        return result.evolved(history=History.of(place, name, result, before))
    if isinstance(result, Results):
        return result.map(lambda part: _described(place, name, part, operands))
    if isinstance(result, tuple):
        return tuple(_described(place, name, part, operands) for part in result)
    return result


def _is_blamed_on_reshape(call: Call, tensors: Sequence[Tensor]) -> bool:
    """Whether operands disagree because a reshape before multiplied the rows of one of them, which is reported instead."""
    return any(meeting(call, left, right) for left, right in combinations(tensors, 2))


def _is_suspect(value: Value) -> bool:
    """Whether a value, or a part of it, comes from an operation that was reported."""
    if isinstance(value, Tensor):
        return value.suspect
    if isinstance(value, Choice):
        return any(_is_suspect(part) for part in value.of)
    items = value.items if isinstance(value, ListValue) else value
    return isinstance(items, tuple) and any(isinstance(part, Tensor) and part.suspect for part in items)


def _suspected(result: Value) -> Value:
    if isinstance(result, Tensor):
        return result.evolved(suspect=True)
    return tuple(_suspected(part) for part in result) if isinstance(result, tuple) else result


def _fallback(rule: ShapeRule, name: str) -> Value:
    return Tensor(ANY_SHAPE, framework=framework_of(name), contiguous=None) if rule.binding.returns_tensor else UNKNOWN


def alternative_arguments(
    arguments: Sequence[Value], keywords: Mapping[str, Value]
) -> list[tuple[tuple[Value, ...], dict[str, Value]]] | None:
    """All combinations of alternatives, also those inside tuples and lists; None if there are too many."""
    rows = [_spread(value) for value in (*arguments, *keywords.values())]
    total = 1
    for row in rows:
        total *= len(row)
        if total > MOST_COMBINATIONS:
            return None
    count = len(arguments)
    return [(row[:count], dict(zip(keywords, row[count:], strict=True))) for row in product(*rows)]


def _spread(value: Value) -> list[Value]:
    if isinstance(value, Choice):
        return [part for option in alternatives(value) for part in _spread(option)]
    if isinstance(value, tuple) and any(isinstance(part, Choice) for part in value):
        return list[Value](_some_products(value))
    if isinstance(value, ListValue) and value.items is not None and any(isinstance(part, Choice) for part in value.items):
        return [ListValue(row) for row in _some_products(value.items)]
    return [value]


def _some_products(values: Sequence[Value]) -> Iterator[tuple[Value, ...]]:
    """Rows with one alternative for each value, up to one more than are tried: there may be very many."""
    return islice(product(*(alternatives(part) for part in values)), MOST_COMBINATIONS + 1)
