"""Numerical habits in source code, NUM5xx: patterns in how tensors are computed, seen where an operation completes one.

Tensors of all libraries carry the expressions that made them (`values.Recipe`), across assignments, functions and modules. What is
not seen: numbers of plain Python (`math.log(1 + x)`), and arguments of functions that the program itself never calls, unless the
function makes tensors of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tensorproof.shapes.families.names import is_in_place, spelled
from tensorproof.shapes.numeric_patterns import differences, limits, logarithms, masks, roots
from tensorproof.shapes.numeric_patterns.operations import KINDS, Operation
from tensorproof.shapes.values import Recipe, Tensor, Value

if TYPE_CHECKING:
    from tensorproof.shapes.run import Run

_CHECKS: Mapping[str, Callable[[Run, Operation, Value], None]] = {
    "log": logarithms.check_log,
    "subtract": differences.check_difference,
    "clip": limits.check_clip,
    "minimum": limits.check_minimum,
    "fill": masks.check_fill,
    "where": masks.check_where,
    "multiply": masks.check_product,
    "backward": roots.check_backward,
    "gradient": roots.check_tape,
}
#: By name, so that operations of no interest cost one lookup.
_CHECKED = {name: _CHECKS[kind] for name, kind in KINDS.items() if kind in _CHECKS}
_STORES = frozenset(spelled("torch numpy tf keras jax", "__setitem__"))
#: Methods that are named as if they changed the numbers of their tensor.
_BOOKKEEPING = frozenset(spelled("torch.Tensor", "requires_grad_ share_memory_ detach_"))


def inspect(run: Run, recipe: Recipe, result: Value) -> None:
    """Look at an operation that was applied: whether it completes a pattern, and whether it changes an array in place."""
    check = _CHECKED.get(recipe.name)
    if check is not None:
        operation = Operation.of_recipe(recipe)
        if operation is not None:
            check(run, operation, result)
    if recipe.name.endswith("_") and (recipe.name in _STORES or (is_in_place(recipe.name) and recipe.name not in _BOOKKEEPING)):
        _note_change(run, recipe.arguments[0])
    for name, value in recipe.keywords:
        if name == "out":
            _note_change(run, value)


def _note_change(run: Run, value: Value) -> None:
    if isinstance(value, Tensor):
        run.note_change(value)
