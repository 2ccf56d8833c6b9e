"""Loops and branches as functions: `jax.lax.scan`, `cond`, `while_loop`, and their kin in Keras."""

from __future__ import annotations

from tensorproof.rules.shapes.recurrent_state import RECURRENT_STATE
from tensorproof.shapes.families.function_transforms import called, with_axis, without_axis
from tensorproof.shapes.families.trees import leaves, mapped
from tensorproof.shapes.iteration import any_of, iterate
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_tensor, shape_rule
from tensorproof.shapes.shape import same_shape
from tensorproof.shapes.sizes import Size, unknown
from tensorproof.shapes.values import UNKNOWN, Tensor, Unknown, Value, as_size


def _row(value: Value) -> Value:
    """The first slice of every array."""
    return mapped(lambda leaf: without_axis(leaf, 0) if isinstance(leaf, Tensor) else UNKNOWN, value)


def _rows(value: Value) -> Size | None:
    """How many slices the arrays have."""
    for leaf in leaves(value) or ():
        if isinstance(leaf, Tensor) and leaf.shape.head:
            return leaf.shape.head[0]
    return None


def _stacked(call: Call, value: Value, size: Size) -> Value:
    def stack_leaf(leaf: Value) -> Value:
        if isinstance(leaf, int | float):
            leaf = as_tensor(leaf, call.framework)
        return with_axis(leaf, 0, size) if isinstance(leaf, Tensor) else UNKNOWN

    return mapped(stack_leaf, value)


def _check_carry(call: Call, before: Value, after: Value) -> None:
    """What a loop hands from round to round has to keep its shape."""
    pairs = list(zip(leaves(before) or (), leaves(after) or (), strict=False))
    for old, new in pairs:
        if not isinstance(new, Tensor) or not isinstance(old, Tensor | int | float):
            continue
        start = as_tensor(old, call.framework)
        if same_shape(start.shape, new.shape) is False:
            message = f"the loop begins with a state of shape {start.shape}, but a round turns it into {new.shape}"
            raise Mismatch(RECURRENT_STATE, message, tensors=(start, new))


@shape_rule("jax.lax.scan", "keras.ops.scan")
def scan(
    call: Call,
    f: Value,
    init: Value,
    xs: Value = None,
    length: Value = None,
    reverse: Value = False,
    unroll: Value = 1,
    **options: Value,
) -> Value:
    """`f(carry, x) -> (carry, y)`; the carry keeps its shape, the ys are stacked."""
    size = _rows(xs) if xs is not None else as_size(length)
    result = called(call, f, (init, None if xs is None else _row(xs)))
    if not isinstance(result, tuple) or len(result) != 2:
        return (UNKNOWN, UNKNOWN)
    _check_carry(call, init, result[0])
    return (result[0], _stacked(call, result[1], unknown(0) if size is None else size))


@shape_rule("jax.lax.map", "keras.ops.map", "keras.ops.vectorized_map")
def map_rows(call: Call, f: Value, xs: Value, **options: Value) -> Value:
    """`f` of every slice, stacked."""
    size = _rows(xs)
    return _stacked(call, called(call, f, (_row(xs),)), unknown(0) if size is None else size)


@shape_rule("jax.lax.associative_scan", "keras.ops.associative_scan")
def associative_scan(fn: Value, elems: Value, **options: Value) -> Value:
    """All partial results: shapes stay."""
    return mapped(lambda leaf: leaf.with_shape(leaf.shape) if isinstance(leaf, Tensor) else leaf, elems)


@shape_rule("jax.lax.fori_loop", "keras.ops.fori_loop")
def fori_loop(call: Call, lower: Value, upper: Value, body_fun: Value, init_val: Value, **options: Value) -> Value:
    """`body(i, value)`; the value keeps its shape."""
    result = called(call, body_fun, (as_tensor(unknown(0), call.framework), init_val))
    _check_carry(call, init_val, result)
    return _kept(init_val)


@shape_rule("jax.lax.while_loop")
def while_loop(call: Call, cond_fun: Value, body_fun: Value, init_val: Value) -> Value:
    """`body(value)` while the condition holds; the value keeps its shape."""
    called(call, cond_fun, (init_val,))
    _check_carry(call, init_val, called(call, body_fun, (init_val,)))
    return _kept(init_val)


def _kept(value: Value) -> Value:
    """The same shapes, with contents that are no longer known."""
    return mapped(lambda leaf: leaf.with_shape(leaf.shape) if isinstance(leaf, Tensor) else _as_unknown(leaf), value)


def _as_unknown(leaf: Value) -> Value:
    return unknown(float("-inf")) if as_size(leaf) is not None else UNKNOWN


@shape_rule("jax.lax.cond", "keras.ops.cond")
def cond(
    call: Call, pred: Value, true_fun: Value, false_fun: Value, *operands: Value, operand: Value = UNKNOWN, linear: Value = None
) -> Value:
    """Either of two functions."""
    given = operands if isinstance(operand, Unknown) else (operand,)
    return any_of(call.run, tuple(called(call, function, given) for function in (true_fun, false_fun)))


@shape_rule("jax.lax.switch", "keras.ops.switch")
def switch(call: Call, index: Value, branches: Value, *operands: Value, **options: Value) -> Value:
    """Any of several functions."""
    functions = iterate(call.run, branches).items
    if not functions:
        raise NotKnown
    return any_of(call.run, tuple(called(call, function, operands) for function in functions))
