"""Nested lists, tuples and dictionaries of arrays: what JAX calls trees, and what datasets of TensorFlow consist of."""

from __future__ import annotations

from collections.abc import Callable

from tensorproof.shapes.iteration import any_of
from tensorproof.shapes.joining import choice
from tensorproof.shapes.rule_table import Call
from tensorproof.shapes.values import UNKNOWN, Choice, DictValue, Instance, ListValue, Results, Unknown, Value


def mapped(function: Callable[..., Value], tree: Value, *others: Value) -> Value:
    """The function of every leaf, in the structure of the first tree; other trees have the same structure."""
    if isinstance(tree, Choice) and not others:
        return choice([mapped(function, part) for part in tree.of])
    if tree is None:
        return None
    if isinstance(tree, Results) and not others:
        return tree.map(lambda part: mapped(function, part))
    if isinstance(tree, tuple):
        rows = [_items(other, len(tree)) for other in others]
        return tuple(mapped(function, part, *(row[position] for row in rows)) for position, part in enumerate(tree))
    if isinstance(tree, ListValue):
        if tree.items is None:
            elements = [other.element if isinstance(other, ListValue) else UNKNOWN for other in others]
            return ListValue(None, mapped(function, tree.element, *elements), tree.length)
        rows = [_items(other, len(tree.items)) for other in others]
        return ListValue([mapped(function, part, *(row[position] for row in rows)) for position, part in enumerate(tree.items)])
    if isinstance(tree, DictValue):
        if tree.entries is None:
            return DictValue(None, mapped(function, tree.element, *(UNKNOWN for _ in others)))
        tables = [other.entries if isinstance(other, DictValue) and other.entries is not None else {} for other in others]
        return DictValue(
            {key: mapped(function, part, *(table.get(key, UNKNOWN) for table in tables)) for key, part in tree.entries.items()}
        )
    if isinstance(tree, Instance | Unknown):
        return UNKNOWN
    return function(tree, *others)


def _items(value: Value, count: int) -> tuple[Value, ...]:
    items = value.items if isinstance(value, ListValue) else value
    return items if isinstance(items, tuple) and len(items) == count else (UNKNOWN,) * count


def leaves(tree: Value) -> list[Value] | None:
    """All leaves in order (dictionaries by key); None if they cannot be counted."""
    if tree is None:
        return []
    if isinstance(tree, tuple | ListValue):
        items = tree if isinstance(tree, tuple) else tree.items
        return _all_leaves(items) if items is not None else None
    if isinstance(tree, DictValue):
        if tree.entries is None or not all(isinstance(key, str) for key in tree.entries):
            return None
        return _all_leaves(tuple(tree.entries[key] for key in sorted(tree.entries, key=str)))
    return None if isinstance(tree, Choice | Instance | Unknown) else [tree]


def _all_leaves(parts: tuple[Value, ...]) -> list[Value] | None:
    found: list[Value] = []
    for part in parts:
        below = leaves(part)
        if below is None:
            return None
        found += below
    return found


def any_leaf(call: Call, tree: Value) -> Value:
    """One value that stands for any leaf."""
    found = leaves(tree)
    return any_of(call.run, tuple(found)) if found else UNKNOWN
