"""Variables of TensorFlow: made from a first value or from a shape, found again by name, and assigned to."""

from __future__ import annotations

from tensorproof.rules.shapes.set_shape_conflict import SET_SHAPE_CONFLICT
from tensorproof.rules.shapes.store_mismatch import STORE_MISMATCH
from tensorproof.rules.shapes.unspecified_variable import UNSPECIFIED_VARIABLE
from tensorproof.shapes.families.broadcasting import FLOAT_OF
from tensorproof.shapes.families.creation import dtype_name
from tensorproof.shapes.families.keras_graphs import flattened
from tensorproof.shapes.families.modules import write
from tensorproof.shapes.families.tensorflow_sessions import declared_shape, operation
from tensorproof.shapes.rule_table import (
    Call,
    Mismatch,
    NotKnown,
    as_tensor,
    declare_constants,
    native_class,
    shape_property,
    shape_rule,
)
from tensorproof.shapes.shape import ANY_SHAPE, Shape, meet, same_shape
from tensorproof.shapes.sizes import Polynomial, bounds, is_unknown, symbols, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    BoundMethod,
    Builtin,
    FunctionValue,
    ListValue,
    NativeObject,
    Partial,
    Tensor,
    Value,
)

Arguments = tuple[Value, ...]
Options = dict[str, Value]

declare_constants(
    {
        "tf.AUTO_REUSE": "AUTO_REUSE",
        "tf.GraphKeys.TRAINABLE_VARIABLES": "trainable_variables",
        "tf.GraphKeys.GLOBAL_VARIABLES": "variables",
    }
)


def _variable(tensor: Tensor, dtype: str, *, trainable: bool) -> Tensor:
    return Tensor(tensor.shape, dtype, "tf", kind="variable" if trainable else "state", history=tensor.history)


# -- from a first value -----------------------------------------------------------------------------------------------


@shape_rule("tf.Variable")
def variable(
    call: Call,
    initial_value: Value = None,
    trainable: Value = True,
    collections: Value = None,
    validate_shape: Value = True,
    caching_device: Value = None,
    name: Value = None,
    variable_def: Value = None,
    dtype: Value = None,
    *further: Value,
    shape: Value = None,
    **options: Value,
) -> Tensor:
    """A variable with the shape of its first value, which TensorFlow 1 has to know when the graph is built."""
    initial = _initial_value(call, initial_value)
    if shape is not None:
        initial = initial.with_shape(_declared(call, initial, shape))
    made = _variable(initial, dtype_name(dtype, initial.dtype), trainable=trainable is not False)
    graph = call.run.graph
    path = graph.path
    graph.add_variable(None if path is None else f"{path}{_unique(call, name)}", made, trainable=trainable is not False)
    old = call.runs_on_tf1 or graph.slots.get("old_variables") is True
    if old and validate_shape is True and options.get("use_resource") in (None, False):
        _check_specified(initial, made)
    return made


def _unique(call: Call, name: Value) -> str:
    """The name of a variable; those without one are told apart by their place, since nobody asks for them by name."""
    return name if isinstance(name, str) else f"Variable at {call.place.line}:{call.place.column}"


def _initial_value(call: Call, value: Value) -> Tensor:
    """The first value itself, or what a function without arguments returns."""
    if isinstance(value, FunctionValue | BoundMethod | Partial | Builtin):
        value = call.run.call_at(call.place, value, ())
    return as_tensor(value, "tf")


def _declared(call: Call, initial: Tensor, shape: Value) -> Shape:
    declared = declared_shape(call, shape).map(lambda size: size if isinstance(size, int) else unknown(0))
    if meet(initial.shape, declared) is None:
        message = f"the first value {initial.shape} contradicts the declared shape {declared}"
        raise Mismatch(SET_SHAPE_CONFLICT, message, tensors=(initial,))
    return declared


def _check_specified(initial: Tensor, made: Tensor) -> None:
    """A size that only a feed tells is no size for a variable."""
    fed = {found for tensor in _placeholders(initial) for size in tensor.shape.head for found in symbols(size)}
    open_sizes = [size for size in initial.shape.head if isinstance(size, Polynomial) and symbols(size) & fed]
    if open_sizes or (initial.shape.rank is None and initial.kind == "placeholder"):
        named = ", ".join(str(size) for size in open_sizes) or "its rank"
        message = (
            f"the first value of the variable has the shape {initial.shape}, of which {named} is known only when a placeholder is "
            "fed; give it a fixed shape, or validate_shape=False"
        )
        raise Mismatch(UNSPECIFIED_VARIABLE, message, result=made, tensors=(initial,))


def _placeholders(tensor: Tensor, most: int = 500) -> list[Tensor]:
    """The placeholders that a tensor is computed from."""
    found: list[Tensor] = []
    waiting: list[Value] = [tensor]
    seen: set[int] = set()
    while waiting and len(seen) < most:
        value = waiting.pop()
        if not isinstance(value, Tensor) or id(value) in seen:
            continue
        seen.add(id(value))
        if value.kind == "placeholder":
            found.append(value)
        elif value.recipe is not None:
            for argument in (*value.recipe.arguments, *(part for _, part in value.recipe.keywords)):
                waiting.extend(flattened(argument))
    return found


# -- by name ----------------------------------------------------------------------------------------------------------


@native_class("tf.variable_scope", "tf.variable_op_scope")
class VariableScope:
    """Names of variables, and whether they are found again instead of being made."""

    name_or_scope: Value = None
    default_name: Value = None
    values: Value = None
    initializer: Value = None
    options: Options

    def setup(self, call: Call) -> Value:
        graph = call.run.graph
        given = self.name_or_scope
        if isinstance(given, NativeObject):
            path = given.slots.get("path")
            outer_reuse = given.slots.get("reuse")
        else:
            chosen = given if given is not None else self.default_name
            path = f"{graph.path}{chosen}/" if isinstance(chosen, str) and graph.path is not None else None
            outer_reuse = graph.scopes[-1].slots.get("reuse") if graph.scopes else None
        reuse = self.__dict__.get("reuse")
        write(call, path=path, reuse=outer_reuse if reuse is None else reuse, name=path.partition(":")[2][:-1] if path else UNKNOWN)
        return None

    def __enter__(self, call: Call) -> Value:  # noqa: PLE0302
        assert isinstance(call.receiver, NativeObject)
        call.run.graph.scopes.append(call.receiver)
        return call.receiver

    def reuse_variables(self, call: Call) -> Value:
        write(call, reuse=True)
        return None


@native_class("tf.name_scope", "tf.device", "tf.control_dependencies", "tf.init_scope", "tf.op_scope", "tf.colocate_with")
class NameScope:
    """Scopes that `get_variable` does not see. Names of other variables get longer."""

    arguments: Arguments
    options: Options


@shape_rule("tf.get_variable_scope")
def get_variable_scope(call: Call) -> Value:
    """The scope of the moment."""
    from tensorproof.shapes.rule_table import CLASSES

    graph = call.run.graph
    if not graph.scopes:
        root = graph.slots.get("root") or NativeObject(
            CLASSES["tf.variable_scope"], call.place, path=graph.root, reuse=None, name=""
        )
        call.run.trail.write(graph, "root", root)
        return root
    return graph.scopes[-1]


@shape_rule("tf.get_variable")
def get_variable(
    call: Call,
    name: Value,
    shape: Value = None,
    dtype: Value = None,
    initializer: Value = None,
    regularizer: Value = None,
    trainable: Value = True,
    *further: Value,
    **options: Value,
) -> Tensor:
    """A variable by its name: made, or found again where the scope says so. A second shape has to be the first one."""
    graph = call.run.graph
    full = f"{graph.path}{name}" if isinstance(name, str) and graph.path is not None else None
    wanted = _wanted(call, shape, initializer)
    reuse = graph.scopes[-1].slots.get("reuse") if graph.scopes else _root_reuse(call)
    known = graph.variable(full) if full is not None else None
    if isinstance(known, Tensor) and reuse not in (None, False):
        if shape is not None and same_shape(known.shape, wanted) is False:
            message = f"the variable {name} has the shape {known.shape} already, and is asked for with {wanted}"
            raise Mismatch(SET_SHAPE_CONFLICT, message, result=known, tensors=(known,))
        return known
    if reuse is True and known is not None:
        return Tensor(ANY_SHAPE, framework="tf", contiguous=None, kind="variable")
    made = _variable(Tensor(wanted), dtype_name(dtype, FLOAT_OF["tf"]), trainable=trainable is not False)
    graph.add_variable(full, made, trainable=trainable is not False)
    return made


def _root_reuse(call: Call) -> Value:
    root = call.run.graph.slots.get("root")
    return root.slots.get("reuse") if isinstance(root, NativeObject) else None


def _wanted(call: Call, shape: Value, initializer: Value) -> Shape:
    """The shape of a variable: the given one, or that of its first value."""
    if shape is not None:
        return declared_shape(call, shape)
    try:
        return as_tensor(initializer, "tf").shape if initializer is not None else ANY_SHAPE
    except NotKnown:
        return ANY_SHAPE


@native_class(
    *(f"tf.{name}_initializer" for name in ("zeros", "ones", "constant", "random_normal", "random_uniform", "truncated_normal",
                                            "orthogonal", "glorot_uniform", "glorot_normal", "variance_scaling",
                                            "uniform_unit_scaling")),
    *(f"tf.initializers.{name}" for name in ("GlorotUniform", "GlorotNormal", "HeNormal", "HeUniform", "RandomNormal",
                                             "RandomUniform",
                                             "TruncatedNormal", "Zeros", "Ones", "Orthogonal", "VarianceScaling", "Constant",
                                             "glorot_uniform", "he_normal", "random_normal", "random_uniform", "truncated_normal",
                                             "variance_scaling", "zeros", "ones", "constant", "orthogonal")),
    *(f"tf.contrib.layers.{name}" for name in ("xavier_initializer", "xavier_initializer_conv2d", "variance_scaling_initializer",
                                               "l2_regularizer", "l1_regularizer")),
)  # fmt: skip
class Initializer:
    """Makes the first value of a variable; called by programs it makes a tensor of the given shape."""

    arguments: Arguments
    options: Options

    def __call__(self, call: Call, shape: Value, dtype: Value = None, **options: Value) -> Tensor:
        return Tensor(declared_shape(call, shape), dtype_name(dtype, "f32"), "tf")


# -- all of them ------------------------------------------------------------------------------------------------------


def all_variables(call: Call, scope: Value, *, trainable: bool | None) -> Value:
    """A list of variables; any number of any shapes where they are not all known."""
    prefix = "" if scope is None else scope
    found = call.run.graph.variables(prefix, trainable=trainable) if isinstance(prefix, str) else None
    if found is None or not call.is_tf1:
        return ListValue(None, Tensor(ANY_SHAPE, framework="tf", contiguous=None, kind="variable"))
    return ListValue(found)


@shape_rule("tf.trainable_variables")
def trainable_variables(call: Call, scope: Value = None) -> Value:
    """Variables that training changes."""
    return all_variables(call, scope, trainable=True)


@shape_rule("tf.global_variables", "tf.all_variables", "tf.model_variables")
def global_variables(call: Call, scope: Value = None) -> Value:
    """All variables."""
    return all_variables(call, scope, trainable=None)


@shape_rule("tf.get_collection")
def get_collection(call: Call, key: Value, scope: Value = None) -> Value:
    """Variables by the name of a collection; other collections are not known."""
    if key == "trainable_variables":
        return all_variables(call, scope, trainable=True)
    return all_variables(call, scope, trainable=None) if key == "variables" else UNKNOWN


# -- methods ----------------------------------------------------------------------------------------------------------


def assigned(call: Call, target: Tensor, value: Tensor) -> Tensor:
    """The variable after an assignment, which cannot change its shape."""
    if same_shape(target.shape, value.shape) is False and not _may_be_open(target):
        message = f"a value of shape {value.shape} is assigned to a variable of shape {target.shape}"
        raise Mismatch(STORE_MISMATCH, message, result=target, tensors=(value, target))
    return target.with_shape(target.shape)


def _may_be_open(target: Tensor) -> bool:
    """Whether a variable was declared with sizes that may change."""
    return target.shape.rank is None or any(is_unknown(size) and bounds(size)[0] == 0 for size in target.shape.head)


@shape_rule(*(f"tf.Tensor.{name}" for name in ("assign", "assign_add", "assign_sub")))
def assign(call: Call, input: Tensor, value: Tensor, *further: Value, **options: Value) -> Tensor:
    """`variable.assign(value)`."""
    return assigned(call, input, value)


@shape_rule("tf.assign", "tf.assign_add", "tf.assign_sub")
def assign_function(
    call: Call, ref: Tensor, value: Tensor, validate_shape: Value = None, *further: Value, **options: Value
) -> Tensor:
    """`tf.assign(variable, value)`."""
    return value.with_shape(value.shape) if validate_shape is False else assigned(call, ref, value)


@shape_rule(*(f"tf.Tensor.{name}" for name in ("value", "read_value", "initialized_value")))
def value_of(input: Tensor) -> Tensor:
    """The value of a variable."""
    return input.with_shape(input.shape)


@shape_rule("tf.Tensor.load")
def load(call: Call, input: Tensor, value: Tensor, session: Value = None) -> Value:
    """A value from outside of the graph."""
    assigned(call, input, value)
    return None


@shape_property("tf.Tensor.initializer")
def initializer_of(call: Call, input: Tensor) -> Value:
    """The operation that gives a variable its first value."""
    return operation(call)
