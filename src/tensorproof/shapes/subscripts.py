"""Elements: `x[i]`, `x[:, None, 1:]`, and assignment to them."""

from __future__ import annotations

import ast

from tensorproof.rules.shapes.index_out_of_range import INDEX_OUT_OF_RANGE
from tensorproof.shapes import applying, calls, iteration, python_types
from tensorproof.shapes.joining import alternatives
from tensorproof.shapes.problems import Place
from tensorproof.shapes.rule_table import RULES
from tensorproof.shapes.run import Run
from tensorproof.shapes.sizes import Polynomial
from tensorproof.shapes.values import (
    UNKNOWN,
    DictValue,
    Frame,
    Instance,
    ListValue,
    NativeObject,
    Slice,
    Tensor,
    Value,
    as_size,
)


def get_item(run: Run, frame: Frame, node: ast.Subscript, owner: Value, index: Value) -> Value:
    """`owner[index]`."""
    if are_tensors(owner):
        return _of_tensors(run, run.place(frame, node), owner, "__getitem__", index)
    if isinstance(owner, tuple | str):
        return _of_sequence(run, frame, node, owner, index)
    if isinstance(owner, ListValue):
        if isinstance(index, Slice):
            return _part_of_list(run, owner, index)
        return owner.element if owner.items is None else _of_sequence(run, frame, node, owner.items, index)
    if isinstance(owner, DictValue):
        if owner.entries is None:
            return owner.element
        if python_types.is_key(index):
            return owner.entries.get(index, UNKNOWN)
        return iteration.any_of(run, tuple(owner.entries.values()))
    if isinstance(owner, Instance):
        method = calls.own_method(owner, "__getitem__")
        if method is not None:
            return calls.call(run, frame, node, method, (index,), {})
    if isinstance(owner, NativeObject | Instance):
        return calls.call_native(run, run.place(frame, node), owner, "__getitem__", (index,), {})
    return UNKNOWN


def _part_of_list(run: Run, owner: ListValue, index: Slice) -> Value:
    """A slice of a list: its items if they and the ends are known, else what any item is and how many there are."""
    from tensorproof.shapes.families.indexing import slice_length

    constant = index.constant
    if owner.items is not None and constant is not None:
        return ListValue(owner.items[constant])
    length = as_size(owner.length)
    element = owner.element if owner.items is None else iteration.any_of(run, owner.items)
    return ListValue(None, element, UNKNOWN if length is None else slice_length(index, length))


def _of_sequence(run: Run, frame: Frame, node: ast.Subscript, items: tuple[Value, ...] | str, index: Value) -> Value:
    if isinstance(index, Slice):
        stretch = index.constant
        return UNKNOWN if stretch is None or stretch.step == 0 else items[stretch]
    position = as_size(index)
    if not isinstance(position, int):
        return iteration.any_of(run, tuple(items)) if isinstance(position, Polynomial) and items else UNKNOWN
    if -len(items) <= position < len(items):
        return items[position]
    if isinstance(items, tuple) and _is_shape_of(node) and items:
        shown = ", ".join(map(str, items))
        message = f"index {position} is out of range for the shape ({shown}), which has {len(items)} sizes"
        run.report(INDEX_OUT_OF_RANGE, run.place(frame, node), message, certain=True, operation="shape")
    return UNKNOWN


def _is_shape_of(node: ast.Subscript) -> bool:
    value = node.value
    return isinstance(value, ast.Attribute) and value.attr == "shape"


def delete_item(run: Run, owner: Value, index: Value) -> None:
    """`del owner[index]`."""
    if isinstance(owner, DictValue) and owner.entries is not None and python_types.is_key(index):
        run.trail.write(owner, "entries", {key: value for key, value in owner.entries.items() if key != index})
    elif isinstance(owner, ListValue) and owner.items is not None:
        position = as_size(index)
        if isinstance(position, int) and -len(owner.items) <= position < len(owner.items):
            position %= len(owner.items)
            run.trail.write(owner, "items", owner.items[:position] + owner.items[position + 1 :])
        else:
            run.trail.write(owner, "items", None)


def set_item(run: Run, frame: Frame, node: ast.Subscript, owner: Value, index: Value, value: Value) -> None:
    """`owner[index] = value`."""
    if are_tensors(owner):
        changed = _of_tensors(run, run.place(frame, node), owner, "__setitem__", index, value)
        if isinstance(changed, Tensor) and changed.suspect and isinstance(node.value, ast.Name):
            # Which of the two shapes is wrong is not known: nothing more is said of the array.
            run.trail.write(frame, node.value.id, changed)
    elif isinstance(owner, DictValue):
        known = owner.entries is not None and python_types.is_key(index)
        if known:
            run.trail.write(owner, "entries", {**(owner.entries or {}), index: value})
        else:
            run.trail.write(owner, "entries", None)
            run.trail.write(owner, "element", UNKNOWN)
    elif isinstance(owner, ListValue):
        position = as_size(index) if not isinstance(index, Slice) else None
        items = owner.items
        if items is not None and isinstance(position, int) and -len(items) <= position < len(items):
            position %= len(items)
            run.trail.write(owner, "items", (*items[:position], value, *items[position + 1 :]))
        else:
            element = iteration.any_of(run, (*items, value)) if items is not None and position is not None else UNKNOWN
            run.trail.write(owner, "element", element)
            run.trail.write(owner, "length", len(items) if items is not None and position is not None else UNKNOWN)
            run.trail.write(owner, "items", None)
    elif isinstance(owner, NativeObject):
        calls.call_native(run, run.place(frame, node), owner, "__setitem__", (index, value), {})
    elif isinstance(owner, Instance):
        method = calls.own_method(owner, "__setitem__")
        if method is not None:
            calls.call(run, frame, node, method, (index, value), {})


# -- arrays ------------------------------------------------------------------------------------------------------------


def _of_tensors(run: Run, place: Place, owner: Value, method: str, *arguments: Value) -> Value:
    """An index of an array, or of one of several: the rule of its library."""
    first = alternatives(owner)[0]
    assert isinstance(first, Tensor)
    name = f"{first.framework}.{method}"
    return applying.apply_rule(run, place, RULES[name], name, (owner, *arguments), {})


def are_tensors(owner: Value) -> bool:
    """Whether a value is an array, whichever of its alternatives it is."""
    return all(isinstance(part, Tensor) for part in alternatives(owner))
