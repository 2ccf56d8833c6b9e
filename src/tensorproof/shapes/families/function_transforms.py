"""Functions that take functions: compilation, derivatives, and mapping over an axis.

A transformed function is called on abstract arguments like the original; defects inside are reported at their own lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorproof.shapes.families.broadcasting import all_broadcast
from tensorproof.shapes.families.names import spelled
from tensorproof.shapes.families.trees import leaves, mapped
from tensorproof.shapes.numeric_patterns.roots import check_gradient
from tensorproof.shapes.rule_table import Call, NotKnown, as_tensor, native_class, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, same, unknown
from tensorproof.shapes.values import UNKNOWN, DictValue, ListValue, Partial, Tensor, Unknown, Value, as_size

Options = dict[str, Value]


def called(call: Call, function: Value, arguments: Sequence[Value], keywords: Options | None = None) -> Value:
    """Call any value at the place of the rule's own call."""
    return call.run.call_at(call.place, Partial(function, (), tuple((keywords or {}).items())), arguments)


# -- the function itself ----------------------------------------------------------------------------------------------


@shape_rule(
    *spelled("jax", "jit checkpoint remat named_call custom_jvp custom_vjp"),
    "jax.experimental.pjit.pjit", "jax.ad_checkpoint.checkpoint",
)  # fmt: skip
def same_function(fun: Value = UNKNOWN, *arguments: Value, **options: Value) -> Value:
    """What compiles or annotates a function leaves its shapes alone."""
    return fun


@native_class("jax.custom_gradient")
class CustomGradient:
    """A function that returns its value and the function that computes its gradient: the value is what callers see."""

    fun: Value

    def __call__(self, call: Call, *args: Value, **kwargs: Value) -> Value:
        result = called(call, self.fun, args, kwargs)
        return result[0] if isinstance(result, tuple) and len(result) == 2 else UNKNOWN


@native_class("tf.custom_gradient")
class TensorflowCustomGradient(CustomGradient):
    """The same for TensorFlow."""


@shape_rule("jax.eval_shape")
def eval_shape(call: Call, fun: Value, *args: Value, **kwargs: Value) -> Value:
    """The shapes of a result, without computing it."""
    return called(call, fun, args, kwargs)


@shape_rule("torch.utils.checkpoint.checkpoint")
def torch_checkpoint(
    call: Call, function: Value, *args: Value, use_reentrant: Value = None, preserve_rng_state: Value = True, **kwargs: Value
) -> Value:
    """The function is called; its memory is traded for time."""
    return called(call, function, args, kwargs)


@shape_rule("torch.func.functional_call", "torch.nn.utils.stateless.functional_call")
def functional_call(
    call: Call, module: Value, parameters_and_buffers: Value, args: Value = None, kwargs: Value = None, **options: Value
) -> Value:
    """A model with other weights of the same shapes."""
    given = args if isinstance(args, tuple) else () if args is None else (args,)
    named = kwargs.entries if isinstance(kwargs, DictValue) else {}
    return called(call, module, given, {str(key): value for key, value in (named or {}).items()})


# -- derivatives ------------------------------------------------------------------------------------------------------


def _chosen(arguments: Sequence[Value], argnums: Value) -> Value:
    """The arguments that a derivative is taken by: one, or a tuple of them."""
    items = argnums.items if isinstance(argnums, ListValue) else argnums
    if isinstance(items, tuple):
        return tuple(_chosen(arguments, part) for part in items)
    position = as_size(items)
    if not isinstance(position, int) or not -len(arguments) <= position < len(arguments):
        return UNKNOWN
    return arguments[position]


def _gradient(value: Value) -> Value:
    """Arrays in the structure of the argument."""
    return mapped(lambda leaf: _plain(leaf) if isinstance(leaf, Tensor) else _of_number(leaf), value)


def _plain(tensor: Tensor) -> Tensor:
    return tensor.with_shape(tensor.shape, contiguous=tensor.contiguous)


def _of_number(leaf: Value) -> Value:
    return Tensor(Shape(()), "f32", "jax") if isinstance(leaf, float | int) else UNKNOWN


def _split_aux(value: Value, has_aux: Value) -> tuple[Value, Value]:
    """The result proper and what is handed through beside it."""
    if has_aux is True:
        return (value[0], value[1]) if isinstance(value, tuple) and len(value) == 2 else (UNKNOWN, UNKNOWN)
    return (value, None) if has_aux is False else (UNKNOWN, UNKNOWN)


class _Derivative:
    """A function to differentiate, and by what."""

    fun: Value
    argnums: Value = 0
    has_aux: Value = False
    options: Options

    def _value(self, call: Call, arguments: Sequence[Value], keywords: Options) -> Value:
        """The value of the function, on whose way to the arguments nothing may have an infinite derivative."""
        result = called(call, self.fun, arguments, keywords)
        check_gradient(call.run, result, (_chosen(arguments, self.argnums),))
        return result


@native_class("jax.grad")
class Gradient(_Derivative):
    """`jax.grad`: arrays of the shapes of the arguments."""

    def __call__(self, call: Call, *args: Value, **kwargs: Value) -> Value:
        result = self._value(call, args, kwargs)
        gradient = _gradient(_chosen(args, self.argnums))
        return (gradient, _split_aux(result, True)[1]) if self.has_aux is True else gradient


@native_class("jax.value_and_grad")
class ValueAndGradient(_Derivative):
    """`jax.value_and_grad`."""

    def __call__(self, call: Call, *args: Value, **kwargs: Value) -> Value:
        return (self._value(call, args, kwargs), _gradient(_chosen(args, self.argnums)))


@native_class("torch.func.grad_and_value")
class GradientAndValue(_Derivative):
    """The same in the order of PyTorch."""

    def __call__(self, call: Call, *args: Value, **kwargs: Value) -> Value:
        return (_gradient(_chosen(args, self.argnums)), self._value(call, args, kwargs))


def _jacobian(result: Value, argument: Value, times: int) -> Value:
    """The axes of the result, then those of the argument."""

    def outer(leaf: Value) -> Value:
        if not isinstance(result, Tensor) or not isinstance(leaf, Tensor) or result.shape.rank is None or leaf.shape.rank is None:
            return UNKNOWN
        return leaf.with_shape(Shape((*result.shape.dims, *leaf.shape.dims * times)))

    return outer(argument) if isinstance(argument, Tensor) or times > 1 else mapped(outer, argument)


@native_class("jax.jacobian", "jax.jacfwd", "jax.jacrev")
class Jacobian(_Derivative):
    """First derivatives of every output by every input."""

    def __call__(self, call: Call, *args: Value, **kwargs: Value) -> Value:
        result, aux = _split_aux(called(call, self.fun, args, kwargs), self.has_aux)
        derivative = _jacobian(result, _chosen(args, self.argnums), 1)
        return (derivative, aux) if self.has_aux is True else derivative


@native_class("jax.hessian")
class Hessian(_Derivative):
    """Second derivatives."""

    def __call__(self, call: Call, *args: Value, **kwargs: Value) -> Value:
        result, _ = _split_aux(called(call, self.fun, args, kwargs), self.has_aux)
        return _jacobian(result, _chosen(args, self.argnums), 2)


@native_class("torch.func.grad")
class TorchGradient(Gradient):
    """The same for PyTorch."""


@native_class("torch.func.jacrev", "torch.func.jacfwd")
class TorchJacobian(Jacobian):
    """The same for PyTorch."""


@native_class("torch.func.hessian")
class TorchHessian(Hessian):
    """The same for PyTorch."""


@shape_rule("jax.jvp", "torch.func.jvp")
def jvp(call: Call, fun: Value, primals: Value, tangents: Value, **options: Value) -> Value:
    """The value, and its derivative in a direction."""
    arguments = primals.items if isinstance(primals, ListValue) else primals
    if not isinstance(arguments, tuple) or options:
        raise NotKnown
    result = called(call, fun, arguments)
    return (result, _gradient(result))


@native_class("tensorproof.vector_jacobian_product")
class _Pullback:
    """What `jax.vjp` returns beside the value: it gives arrays of the shapes of the arguments."""

    arguments: Value

    def __call__(self, call: Call, *cotangents: Value) -> Value:
        return _gradient(self.arguments)


@shape_rule("jax.vjp", "torch.func.vjp")
def vjp(call: Call, fun: Value, *primals: Value, **options: Value) -> Value:
    """The value, and the function that pulls a derivative back."""
    if options:
        raise NotKnown
    from tensorproof.shapes.rule_table import CLASSES
    from tensorproof.shapes.values import NativeObject

    pullback = NativeObject(CLASSES["tensorproof.vector_jacobian_product"], call.place, arguments=primals)
    return (called(call, fun, primals), pullback)


# -- one axis after the other -----------------------------------------------------------------------------------------


def without_axis(tensor: Tensor, axis: int) -> Tensor:
    """One slice of a tensor along an axis."""
    shape = tensor.shape
    if shape.rank is None:
        if axis == 0 and shape.head:
            return tensor.with_shape(Shape(shape.head[1:], shape.tail))
        return tensor.with_shape(Shape((), shape.tail) if axis >= 0 else ANY_SHAPE, contiguous=None)
    if not -shape.rank <= axis < shape.rank:
        raise NotKnown
    position = axis % shape.rank
    return tensor.with_shape(
        Shape(shape.dims[:position] + shape.dims[position + 1 :]), contiguous=tensor.contiguous if position == 0 else None
    )


def with_axis(tensor: Tensor, axis: int, size: Size) -> Tensor:
    """Slices stacked along an axis."""
    shape = tensor.shape
    if shape.rank is None:
        return tensor.with_shape(shape.preceded(size) if axis == 0 else ANY_SHAPE)
    position = axis if axis >= 0 else axis + shape.rank + 1
    return tensor.with_shape(
        Shape((*shape.dims[:position], size, *shape.dims[position:])), contiguous=True if position == 0 else None
    )


@native_class("jax.vmap", "jax.pmap")
class VectorizedMap:
    """`vmap`: the function sees one slice of each argument; its results are stacked."""

    fun: Value
    in_axes: Value = 0
    out_axes: Value = 0
    options: Options

    def __call__(self, call: Call, *args: Value, **kwargs: Value) -> Value:
        return _over_slices(call, self.fun, self.in_axes, self.out_axes, args, kwargs)


@native_class("torch.vmap", "torch.func.vmap")
class TorchVectorizedMap:
    """The same for PyTorch."""

    func: Value
    in_dims: Value = 0
    out_dims: Value = 0
    options: Options

    def __call__(self, call: Call, *args: Value, **kwargs: Value) -> Value:
        return _over_slices(call, self.func, self.in_dims, self.out_dims, args, kwargs)


def _over_slices(call: Call, function: Value, in_axes: Value, out_axes: Value, args: Sequence[Value], kwargs: Options) -> Value:
    axes = in_axes.items if isinstance(in_axes, ListValue) else in_axes
    rows = axes if isinstance(axes, tuple) else (axes,) * len(args)
    if len(rows) != len(args):
        raise NotKnown
    sizes: list[Size] = []
    slices = tuple(_sliced(argument, axis, sizes) for argument, axis in zip(args, rows, strict=True))
    named = {key: _sliced(argument, 0, sizes) for key, argument in kwargs.items()}
    if any(same(a, b) is False for a in sizes for b in sizes):
        raise NotKnown
    size = next((size for size in sizes if isinstance(size, int)), sizes[0] if sizes else unknown())
    return _stacked(called(call, function, slices, named), out_axes, size, call)


def _sliced(value: Value, axis: Value, sizes: list[Size]) -> Value:
    """One slice of all arrays of an argument; `axis` is one for all, None for none, or has the structure of the argument."""
    if axis is None:
        return value
    number = as_size(axis)
    if isinstance(number, int):

        def slice_leaf(leaf: Value) -> Value:
            if not isinstance(leaf, Tensor):
                return UNKNOWN
            rank = leaf.shape.rank
            if rank is not None and -rank <= number < rank:
                sizes.append(leaf.shape.dims[number])
            elif rank is None and number == 0 and leaf.shape.head:
                sizes.append(leaf.shape.head[0])
            return without_axis(leaf, number)

        return mapped(slice_leaf, value)
    if isinstance(axis, tuple | ListValue) and isinstance(value, tuple | ListValue):
        parts = axis if isinstance(axis, tuple) else axis.items
        items = value if isinstance(value, tuple) else value.items
        if parts is not None and items is not None and len(parts) == len(items):
            found = tuple(_sliced(item, part, sizes) for item, part in zip(items, parts, strict=True))
            return found if isinstance(value, tuple) else ListValue(found)
    if isinstance(axis, DictValue) and isinstance(value, DictValue) and axis.entries and value.entries:
        axes = axis.entries
        return DictValue({key: _sliced(item, axes.get(key, UNKNOWN), sizes) for key, item in value.entries.items()})
    return UNKNOWN


def _stacked(value: Value, axis: Value, size: Size, call: Call) -> Value:
    if isinstance(axis, tuple) and isinstance(value, tuple) and len(axis) == len(value):
        return tuple(_stacked(part, chosen, size, call) for part, chosen in zip(value, axis, strict=True))
    number = 0 if axis is None else as_size(axis)
    if not isinstance(number, int):
        return UNKNOWN

    def stack_leaf(leaf: Value) -> Value:
        if isinstance(leaf, int | float):
            leaf = as_tensor(leaf, call.framework)
        if not isinstance(leaf, Tensor):
            return UNKNOWN
        return leaf if axis is None else with_axis(leaf, number, size)

    return mapped(stack_leaf, value)


@native_class("numpy.vectorize")
class Vectorized:
    """`np.vectorize`: a function of numbers, element by element."""

    pyfunc: Value
    otypes: Value = None
    doc: Value = None
    excluded: Value = None
    cache: Value = False
    signature: Value = None

    def __call__(self, call: Call, *args: Value, **kwargs: Value) -> Value:
        if self.signature is not None or self.excluded is not None or kwargs or any(isinstance(part, Unknown) for part in args):
            raise NotKnown
        tensors = [as_tensor(argument, "numpy") for argument in args]
        return Tensor(all_broadcast(call, tensors), "", "numpy") if tensors else UNKNOWN


# -- trees ------------------------------------------------------------------------------------------------------------


@shape_rule(
    "jax.tree_util.tree_map",
    "jax.tree.map",
    "jax.tree_map",
    "jax.tree_util.tree_multimap",
    "keras.tree.map_structure",
    "tf.nest.map_structure",
)
def tree_map(call: Call, f: Value, tree: Value, *rest: Value, is_leaf: Value = None, **options: Value) -> Value:
    """The function of every leaf."""
    if is_leaf is not None:
        raise NotKnown
    return mapped(lambda *parts: called(call, f, parts), tree, *rest)


@shape_rule("jax.tree_util.tree_leaves", "jax.tree.leaves", "jax.tree_leaves", "tf.nest.flatten", "keras.tree.flatten")
def tree_leaves(tree: Value, is_leaf: Value = None) -> Value:
    """All leaves as a list."""
    found = leaves(tree) if is_leaf is None else None
    return ListValue(found)


@shape_rule("jax.tree_util.tree_flatten", "jax.tree.flatten", "jax.tree_flatten")
def tree_flatten(tree: Value, is_leaf: Value = None) -> Value:
    """The leaves, and the structure without them."""
    return (tree_leaves(tree, is_leaf), replace_leaves(tree) if is_leaf is None else UNKNOWN)


def replace_leaves(tree: Value) -> Value:
    """The structure of a tree."""
    return mapped(lambda leaf: 0, tree)


@shape_rule("jax.tree_util.tree_unflatten", "jax.tree.unflatten", "jax.tree_unflatten")
def tree_unflatten(treedef: Value, leaves: Value) -> Value:
    """Leaves put into a structure."""
    items = leaves.items if isinstance(leaves, ListValue) else leaves
    if not isinstance(items, tuple) or isinstance(treedef, Unknown):
        raise NotKnown
    waiting = list(reversed(items))
    return mapped(lambda leaf: waiting.pop() if waiting else UNKNOWN, treedef)


@shape_rule("jax.tree_util.tree_reduce", "jax.tree.reduce")
def tree_reduce(call: Call, function: Value, tree: Value, initializer: Value = UNKNOWN, is_leaf: Value = None) -> Value:
    """A function of two applied to all leaves in turn."""
    found = leaves(tree) if is_leaf is None else None
    if found is None:
        raise NotKnown
    values = found if isinstance(initializer, Unknown) else [initializer, *found]
    if not values:
        raise NotKnown
    result = values[0]
    for value in values[1:]:
        result = called(call, function, (result, value))
    return result
