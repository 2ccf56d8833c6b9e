"""TensorFlow 2: gradients from a tape, modules, functions that are applied to tensors, and control flow."""

from __future__ import annotations

from tensorproof.shapes.families.keras_graphs import flattened, mapped
from tensorproof.shapes.families.tensorflow_training import gradient_of
from tensorproof.shapes.iteration import iterate
from tensorproof.shapes.joining import merged_shapes
from tensorproof.shapes.rule_table import Call, native_class, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    Instance,
    ListValue,
    NativeObject,
    Tensor,
    Unknown,
    Value,
)

Arguments = tuple[Value, ...]
Options = dict[str, Value]


# -- gradients --------------------------------------------------------------------------------------------------------


@native_class("tf.GradientTape")
class GradientTape:
    """Gradients have the structure and the shapes of what is varied."""

    persistent: Value = False
    watch_accessed_variables: Value = True

    def __enter__(self, call: Call) -> Value:  # noqa: PLE0302
        return call.receiver

    stop_recording = __enter__

    def watch(self, call: Call, tensor: Value) -> Value:
        return None

    def reset(self, call: Call) -> Value:
        return None

    def gradient(self, call: Call, target: Value, sources: Value, *options: Value, **keywords: Value) -> Value:
        if isinstance(sources, ListValue) and sources.items is None:
            return ListValue(None, gradient_of(sources.element), sources.length)
        return UNKNOWN if isinstance(sources, Unknown) else mapped(sources, gradient_of)

    def jacobian(self, call: Call, target: Value, sources: Value, *options: Value, **keywords: Value) -> Value:
        if isinstance(target, Tensor) and isinstance(sources, Tensor) and target.shape.rank is not None:
            return sources.with_shape(sources.shape.preceded(*target.shape.dims))
        return UNKNOWN

    def batch_jacobian(self, call: Call, target: Value, source: Value, *options: Value, **keywords: Value) -> Value:
        if isinstance(target, Tensor) and isinstance(source, Tensor) and target.shape.rank and source.shape.rank:
            return source.with_shape(Shape((*target.shape.dims, *source.shape.dims[1:])))
        return UNKNOWN


# -- modules ----------------------------------------------------------------------------------------------------------


def variables_of(owner: Instance | NativeObject, seen: frozenset[int] = frozenset()) -> list[Tensor]:
    """The variables in the attributes of a module, in the order of their names, then those of its parts."""
    if owner.serial in seen:
        return []
    seen |= {owner.serial}
    leaves = [leaf for name in sorted(owner.slots) for leaf in flattened(owner.slots[name])]
    own = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.kind in ("variable", "state")]
    parts = [leaf for leaf in leaves if isinstance(leaf, Instance | NativeObject)]
    return [*own, *(found for part in parts for found in variables_of(part, seen))]


@native_class("tf.Module")
class Module:
    """The base of modules. Its variables are found in its attributes."""

    name: Value = None

    def setup(self, call: Call) -> Value:
        return None

    @property
    def variables(self) -> Value:
        return self._variables(("variable", "state"))

    @property
    def trainable_variables(self) -> Value:
        return self._variables(("variable",))

    @property
    def name_scope(self) -> Value:
        return UNKNOWN

    @property
    def submodules(self) -> Value:
        return UNKNOWN

    def _variables(self, kinds: tuple[str, ...]) -> Value:
        owner = Fields(self.__dict__)
        if any(isinstance(leaf, NativeObject | Unknown) for name in owner.slots for leaf in flattened(owner.slots[name])):
            # A layer of Keras, or something unknown, may hold variables of its own.
            return ListValue(None, Tensor(ANY_SHAPE, framework="tf", contiguous=None, kind="variable"))
        return tuple(tensor for tensor in variables_of(owner) if tensor.kind in kinds)


class Fields(NativeObject):
    """The attributes of a module without the module."""

    __slots__ = ()

    def __init__(self, slots: dict[str, Value]) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.serial = -1
        self.slots = slots


# -- functions --------------------------------------------------------------------------------------------------------


@shape_rule("tf.function", "tf.autograph.experimental.do_not_convert", "tf.recompute_grad", "tf.make_template")
def function(func: Value = None, *arguments: Value, **options: Value) -> Value:
    """The function itself."""
    return UNKNOWN if func is None else func


@shape_rule("tf.TensorSpec", "tf.RaggedTensorSpec", "tf.SparseTensorSpec")
def specification(*arguments: Value, **options: Value) -> Value:
    """A description of tensors."""
    return UNKNOWN


@shape_rule("tf.py_function", "tf.numpy_function", "tf.py_func")
def python_function(func: Value, inp: Value = None, Tout: Value = None, *arguments: Value, **options: Value) -> Value:
    """A function whose results the graph does not know."""
    single = not isinstance(Tout, ListValue | tuple)
    return Tensor(ANY_SHAPE, framework="tf", contiguous=None) if single else UNKNOWN


@shape_rule("tf.cond")
def conditional(
    call: Call,
    pred: Value,
    true_fn: Value = None,
    false_fn: Value = None,
    *further: Value,
    fn1: Value = None,
    fn2: Value = None,
    **options: Value,
) -> Value:
    """What either of two functions returns."""
    ends = [call.run.call_at(call.place, branch, ()) for branch in (true_fn or fn1, false_fn or fn2) if branch is not None]
    return _merged(ends[0], ends[1]) if len(ends) == 2 else UNKNOWN


def _merged(left: Value, right: Value) -> Value:
    """One of two results that have the same structure: what their shapes have in common."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return left.with_shape(merged_shapes(left.shape, right.shape))
    a, b = (value.items if isinstance(value, ListValue) else value for value in (left, right))
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        parts = tuple(_merged(x, y) for x, y in zip(a, b, strict=True))
        return parts if isinstance(left, tuple) else ListValue(parts)
    return UNKNOWN


@shape_rule("tf.while_loop")
def while_loop(call: Call, cond: Value, body: Value, loop_vars: Value, *further: Value, **options: Value) -> Value:
    """The variables of the loop: those parts of their shapes that a round does not change."""
    items = loop_vars.items if isinstance(loop_vars, ListValue) else loop_vars
    if not isinstance(items, tuple):
        return UNKNOWN
    start = tuple(_without_content(value) for value in items)
    after = call.run.call_at(call.place, body, start)
    result = after if isinstance(after, tuple | ListValue) else (after,)
    merged = _merged(start, tuple(iterate(call.run, result).items or ()))
    return merged if len(start) > 1 or not isinstance(merged, tuple) else merged[0]


def _without_content(value: Value) -> Value:
    """A variable of a loop: its shape is known, its value is not."""
    if isinstance(value, Tensor):
        return value.with_shape(value.shape) if value.content is not None else value
    if isinstance(value, bool | int | float):
        return Tensor(Shape(()), "", "tf")
    return value


def _element(value: Value) -> Value:
    """What a function gets that is applied to each row."""
    return mapped(value, lambda leaf: _row(leaf) if isinstance(leaf, Tensor) else UNKNOWN)


def _row(tensor: Tensor) -> Tensor:
    shape = tensor.shape
    return tensor.with_shape(Shape(shape.head[1:], shape.tail) if shape.head else ANY_SHAPE)


def _rows(value: Value) -> Size:
    first = next((leaf for leaf in flattened(value) if isinstance(leaf, Tensor)), None)
    return first.shape.head[0] if first is not None and first.shape.head else unknown(0)


def _stacked(result: Value, rows: Size) -> Value:
    """The results of all rows as one tensor each."""
    return mapped(
        result,
        lambda leaf: (
            leaf.with_shape(leaf.shape.preceded(rows))
            if isinstance(leaf, Tensor)
            else Tensor(Shape((rows,)), "", "tf")
            if isinstance(leaf, bool | int | float)
            else Tensor(Shape((rows,), ()), "", "tf", contiguous=None)
        ),
    )


@shape_rule("tf.map_fn", "tf.vectorized_map")
def map_function(call: Call, fn: Value, elems: Value, *further: Value, **options: Value) -> Value:
    """The function of each row."""
    return _stacked(call.run.call_at(call.place, fn, (_element(elems),)), _rows(elems))


@shape_rule("tf.scan")
def scan(call: Call, fn: Value, elems: Value, initializer: Value = None, *further: Value, **options: Value) -> Value:
    """The state after each row; without an initial one the first row is the state."""
    start = _element(elems) if initializer is None else mapped(initializer, _without_content)
    return _stacked(call.run.call_at(call.place, fn, (start, _element(elems))), _rows(elems))


@shape_rule("tf.foldl", "tf.foldr")
def fold(call: Call, fn: Value, elems: Value, initializer: Value = None, *further: Value, **options: Value) -> Value:
    """The state after the last row."""
    start = _element(elems) if initializer is None else mapped(initializer, _without_content)
    return call.run.call_at(call.place, fn, (start, _element(elems)))


# -- text and files ---------------------------------------------------------------------------------------------------


@shape_rule("tf.decode_raw", "tf.io.decode_raw")
def decode_raw(input_bytes: Tensor, *options: Value, **keywords: Value) -> Tensor:
    """The numbers in each text: nobody knows how many."""
    shape = input_bytes.shape
    return Tensor(shape.extended(unknown(0)) if shape.rank is not None else ANY_SHAPE, "", "tf")


@shape_rule("tf.read_file", "tf.io.read_file", "tf.strings.join", "tf.strings.as_string", "tf.as_string")
def text(*arguments: Value, **options: Value) -> Tensor:
    """Texts."""
    return Tensor(ANY_SHAPE, "", "tf", contiguous=None)
