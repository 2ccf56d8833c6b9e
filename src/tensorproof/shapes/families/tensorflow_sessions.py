"""Graphs of TensorFlow 1: placeholders, and sessions that compute what was recorded from what is fed.

A run computes every fetched tensor again from its recipe, with each placeholder as the value that is fed to it. What fails then is
reported at the operation that fails, as TensorFlow does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tensorproof.rules.shapes.feed_mismatch import FEED_MISMATCH
from tensorproof.rules.shapes.set_shape_conflict import SET_SHAPE_CONFLICT
from tensorproof.shapes import applying
from tensorproof.shapes.families.creation import dtype_name
from tensorproof.shapes.families.keras_graphs import Replay, flattened, mapped, sizes_given
from tensorproof.shapes.families.modules import write
from tensorproof.shapes.joining import alternatives, merged_shapes
from tensorproof.shapes.problems import Place, Problem, Related
from tensorproof.shapes.rule_table import Call, Mismatch, NotKnown, as_tensor, native_class, shape_property, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape, meet
from tensorproof.shapes.sizes import Size, Symbol, substitute, symbol, symbols, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    DictValue,
    ListValue,
    NativeObject,
    Slice,
    Tensor,
    Unknown,
    Value,
    as_size,
)

#: Warnings that a run may add: those about two tensors whose sizes only a feed tells.
_OF_FEEDS = frozenset({"SHP201", "SHP202", "SHP203"})
#: Tensors that hold values of their own: a run takes them as they are.
HELD = frozenset({"placeholder", "variable", "state"})
#: How sizes are shown that a placeholder leaves open, by their axis.
_LETTERS = "NMKLPQ"


# -- declared shapes --------------------------------------------------------------------------------------------------


def declared_shape(call: Call, shape: Value, name: Value = None) -> Shape:
    """A shape in which None stands for any size; None itself for any shape."""
    if shape is None or isinstance(shape, Unknown):
        return ANY_SHAPE
    if isinstance(shape, Tensor):
        shape = shape.content
    items = shape.items if isinstance(shape, ListValue) else shape
    if not isinstance(items, tuple):
        size = as_size(items)
        if size is None:
            return ANY_SHAPE
        items = (size,)
    return Shape(tuple(_declared_size(call, item, axis, name) for axis, item in enumerate(items)))


def _declared_size(call: Call, item: Value, axis: int, name: Value) -> Size:
    if item is None:
        letter = _LETTERS[axis] if axis < len(_LETTERS) else f"S{axis}"
        label = f"{letter}_{name}" if isinstance(name, str) else letter
        return symbol(label, "batch" if axis == 0 else "size", 1, origin=call.place)
    size = as_size(item)
    return unknown(0) if size is None or size == -1 else size


@shape_rule("tf.placeholder")
def placeholder(call: Call, dtype: Value, shape: Value = None, name: Value = None) -> Tensor:
    """A tensor that is fed later."""
    # Every call makes another tensor: a function that contains one must be run each time.
    call.run.trail.write(call.run.graph, "placeholder", None)
    return Tensor(declared_shape(call, shape, name), dtype_name(dtype), "tf", kind="placeholder")


@shape_rule("tf.placeholder_with_default")
def placeholder_with_default(call: Call, input: Tensor, shape: Value, name: Value = None) -> Tensor:
    """The same, with a value for runs that feed nothing."""
    call.run.trail.write(call.run.graph, "placeholder", None)
    declared = declared_shape(call, shape, name)
    if meet(declared, input.shape) is None:
        message = f"the default {input.shape} contradicts the declared shape {declared}"
        raise Mismatch(SET_SHAPE_CONFLICT, message, tensors=(input,))
    return Tensor(declared, input.dtype, "tf", kind="placeholder")


@shape_rule("tf.Tensor.set_shape")
def set_shape(call: Call, input: Tensor, shape: Value) -> Value:
    """From here on the tensor is known to have that shape."""
    declared = _known(declared_shape(call, shape))
    met = meet(input.shape, declared)
    if met is None:
        message = f"the tensor has the shape {input.shape} already, and cannot be declared to have {declared}"
        call.run.graph.declare(input, replace(input, shape=declared, suspect=True))
        raise Mismatch(SET_SHAPE_CONFLICT, message, result=None, tensors=(input,))
    call.run.graph.declare(input, replace(input, shape=met))
    return None


@shape_rule("tf.ensure_shape")
def ensure_shape(call: Call, x: Tensor, shape: Value, name: Value = None) -> Tensor:
    """The tensor, if it has that shape."""
    declared = _known(declared_shape(call, shape))
    met = meet(x.shape, declared)
    if met is None:
        message = f"the tensor has the shape {x.shape}, not {declared}"
        raise Mismatch(SET_SHAPE_CONFLICT, message, result=x.with_shape(declared), tensors=(x,))
    return x.with_shape(met)


def _known(shape: Shape) -> Shape:
    """A declared shape in which None says nothing, not even the name of a size."""
    return shape.map(lambda size: size if isinstance(size, int) else unknown(0))


@shape_rule("tf.TensorShape")
def tensor_shape(dims: Value) -> Value:
    """Sizes, of which None is any."""
    return dims.items if isinstance(dims, ListValue) and dims.items is not None else dims


# -- operations -------------------------------------------------------------------------------------------------------


@native_class("tf.Operation")
class Operation:
    """What can be run and gives nothing: a step of training, an assignment, several of them. `needs` are tensors and operations."""

    needs: Value = ()

    def run(self, call: Call, feed_dict: Value = None, session: Value = None) -> Value:
        executed(call, call.receiver, feed_dict)
        return None


def operation(call: Call, *needs: Value) -> NativeObject:
    """An operation that computes tensors when it is run."""
    from tensorproof.shapes.rule_table import CLASSES

    return NativeObject(CLASSES["tf.Operation"], call.place, needs=needs)


@shape_rule("tf.group", "tf.no_op", "tf.global_variables_initializer", "tf.initialize_all_variables",
            "tf.local_variables_initializer",
            "tf.tables_initializer", "tf.variables_initializer", "tf.initialize_variables")  # fmt: skip
def group(call: Call, *inputs: Value, name: Value = None) -> Value:
    """Several operations as one; making the first values of variables needs none."""
    return operation(call, *inputs)


@shape_rule("tf.tuple")
def tuple_of(tensors: Value, name: Value = None, control_inputs: Value = None) -> Value:
    """The tensors, when all of them are computed."""
    return tensors


# -- runs -------------------------------------------------------------------------------------------------------------


class Execution(Replay):
    """One run of a graph: tensors are computed at the places of their operations."""

    def value(self, value: Value) -> Value:
        if isinstance(value, Slice):
            return Slice(self.value(value.start), self.value(value.stop), self.value(value.step))
        if isinstance(value, tuple) and any(isinstance(part, Slice) for part in value):
            return tuple(self.value(part) for part in value)
        return super().value(value)

    def _computed(self, tensor: Tensor) -> Value:
        recipe = tensor.recipe
        if recipe is None or tensor.kind in HELD:
            return self._substituted(tensor)
        arguments = tuple(self.value(argument) for argument in recipe.arguments)
        keywords = {name: self.value(argument) for name, argument in recipe.keywords}
        before = (*recipe.arguments, *(argument for _, argument in recipe.keywords))
        if all(map(_unchanged, (*arguments, *keywords.values()), before)):
            return tensor
        result = applying.apply_rule(self._run, recipe.place, recipe.rule, recipe.name, arguments, keywords, recipe.receiver)  # pyright: ignore[reportArgumentType]
        if recipe.part is not None:
            items = result.items if isinstance(result, ListValue) else result
            result = items[recipe.part] if isinstance(items, tuple) and recipe.part < len(items) else UNKNOWN
        # A part of a part has no recipe of its own: what is known of it is its shape before the run.
        return result if isinstance(result, Tensor) else self._substituted(tensor)

    def _substituted(self, tensor: Tensor) -> Tensor:
        shape = tensor.shape
        sizes = (*shape.head, *(shape.tail or ()))
        if not any(found in self._sizes for size in sizes for found in symbols(size)):
            return tensor
        return replace(tensor, shape=shape.map(lambda size: substitute(size, self._sizes)))


def _unchanged(new: Value, old: Value) -> bool:
    """Whether a run leaves an argument what it is."""
    before, after = flattened(old), flattened(new)
    return len(before) == len(after) and all(
        a is b or (not isinstance(a, Tensor) and a == b) for a, b in zip(after, before, strict=True)
    )


def executed(call: Call, fetches: Value, feed_dict: Value) -> Value:
    """What a run gives: arrays in the structure of what is fetched. Operations give None."""
    graph = call.run.graph
    inputs, sizes = _fed(call, feed_dict)
    wanted = {id(tensor): tensor for leaf in flattened(fetches) for tensor in _tensors(leaf)}
    key = (tuple(wanted), tuple((identity, tensor.shape, _hashable(tensor.content)) for identity, tensor in inputs.items()))
    if key not in graph.executions:
        with call.run.watching() as problems:
            execution = Execution(call.run, call.place, inputs, sizes)
            found = {identity: execution.value(tensor) for identity, tensor in wanted.items()}
        kept = tuple(_with_feed(problem, call.place) for problem in problems if problem.certain or problem.rule.code in _OF_FEEDS)
        graph.executions[key] = (found, kept, (wanted, inputs))
    results, problems, _ = graph.executions[key]
    for problem in problems:
        if problem.certain:
            # What may fail for some batches does fail for this one.
            call.run.withdraw("SHP203", problem.place)
        call.run.add(problem)
    return mapped(fetches, lambda leaf: _fetched(graph.current(leaf), results))


def _hashable(content: Value) -> object:
    return content if isinstance(content, int | tuple) else str(content)


def _with_feed(problem: Problem, place: Place) -> Problem:
    return replace(problem, related=(*problem.related, Related(place, "it is run with these values here")))


def _tensors(value: Value) -> list[Tensor]:
    """The tensors that have to be computed for what is fetched."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, NativeObject) and "needs" in value.slots:
        return [tensor for need in flattened(value.slots["needs"]) for tensor in _tensors(need)]
    return []


def _fetched(leaf: Value, results: Mapping[int, Value]) -> Value:
    if isinstance(leaf, NativeObject):
        return None if "needs" in leaf.slots else UNKNOWN
    result = results.get(id(leaf)) if isinstance(leaf, Tensor) else None
    if not isinstance(result, Tensor):
        return UNKNOWN
    return Tensor(result.shape, result.dtype, "numpy", content=result.content, history=result.history, suspect=result.suspect)


def _fed(call: Call, feed_dict: Value) -> tuple[dict[int, Tensor], dict[Symbol, Size]]:
    """What replaces the placeholders, and what their symbols stand for. A value of another shape is reported."""
    inputs: dict[int, Tensor] = {}
    sizes: dict[Symbol, Size] = {}
    entries = feed_dict.entries if isinstance(feed_dict, DictValue) else None
    for key, value in (entries or {}).items():
        if not isinstance(key, Tensor):
            continue
        versions = call.run.graph.versions(key)
        declared = versions[-1]
        fed = _met(call, declared, value)
        inputs.update((id(version), fed) for version in versions)
        for version in versions:
            sizes.update(sizes_given(version, fed))
    return inputs, sizes


def _met(call: Call, declared: Tensor, value: Value) -> Tensor:
    """A placeholder as it is during a run: with the shape of the value that is fed."""
    shapes: list[Shape] = []
    options = [_fed_tensor(option) for option in alternatives(value)]
    for option in options:
        shape = meet(option.shape, declared.shape)
        if shape is not None:
            shapes.append(shape)
    if not shapes:
        given = options[0]
        suspect = declared.suspect or any(option.suspect for option in options)
        if not suspect:
            message = f"a value of shape {given.shape} is fed to a placeholder of shape {_shown(declared.shape)}"
            call.run.report(FEED_MISMATCH, call.place, message, certain=True, tensors=(given, declared), operation=call.name)
        return replace(declared, suspect=True, recipe=None)
    common = shapes[0]
    for shape in shapes[1:]:
        common = merged_shapes(common, shape)
    content = options[0].content if len(options) == 1 else None
    return replace(declared, shape=common, content=content, recipe=None, kind="", suspect=any(option.suspect for option in options))


def _fed_tensor(value: Value) -> Tensor:
    try:
        return as_tensor(value, "numpy")
    except NotKnown:
        return Tensor(ANY_SHAPE, framework="numpy", contiguous=None)


def _shown(shape: Shape) -> str:
    """A declared shape as the program writes it."""
    return str(shape.map(lambda size: size if isinstance(size, int) else symbol("None")))


@native_class("tf.Session", "tf.InteractiveSession", "tf.train.MonitoredTrainingSession", "tf.train.SingularMonitoredSession",
              "tf.train.MonitoredSession")  # fmt: skip
class Session:
    """Runs the graph."""

    arguments: Arguments
    options: Options

    def run(self, call: Call, fetches: Value, feed_dict: Value = None, options: Value = None, run_metadata: Value = None) -> Value:
        return executed(call, fetches, feed_dict)

    def close(self, call: Call) -> Value:
        return None

    def as_default(self, call: Call) -> Value:
        return call.receiver

    def __enter__(self, call: Call) -> Value:  # noqa: PLE0302
        graph = self.__dict__.get("graph")
        if isinstance(graph, NativeObject) and graph.slots.get("is_graph"):
            call.run.graph.scopes.append(graph)
        return call.receiver

    def should_stop(self, call: Call) -> Value:
        return UNKNOWN


Arguments = tuple[Value, ...]
Options = dict[str, Value]


@shape_rule("tf.Tensor.eval")
def evaluate(call: Call, input: Tensor, feed_dict: Value = None, session: Value = None) -> Value:
    """The value of one tensor."""
    return executed(call, input, feed_dict)


@native_class("tf.Graph")
class GraphObject:
    """A graph with variables of its own."""

    def setup(self, call: Call) -> Value:
        assert isinstance(call.receiver, NativeObject)
        write(call, path=f"graph {call.receiver.serial}:", is_graph=True)
        return None

    def as_default(self, call: Call) -> Value:
        return call.receiver

    def __enter__(self, call: Call) -> Value:  # noqa: PLE0302
        assert isinstance(call.receiver, NativeObject)
        call.run.graph.scopes.append(call.receiver)
        return call.receiver

    def get_tensor_by_name(self, call: Call, name: Value) -> Value:
        return UNKNOWN

    get_operation_by_name = get_collection = get_tensor_by_name

    def finalize(self, call: Call) -> Value:
        return None


@shape_rule("tf.get_default_graph", "tf.get_default_session")
def default_graph(call: Call) -> Value:
    """The graph, or the session, of the moment."""
    from tensorproof.shapes.rule_table import CLASSES

    graph = call.run.graph
    if call.name.endswith("session"):
        return NativeObject(CLASSES["tf.Session"], call.place)
    return NativeObject(CLASSES["tf.Graph"], call.place, path=graph.root, is_graph=True)


@shape_rule("tf.reset_default_graph")
def reset_default_graph(call: Call) -> Value:
    """What was built so far is left behind."""
    call.run.graph.reset()
    return None


@shape_rule("tf.disable_v2_behavior", "tf.disable_resource_variables")
def old_variables(call: Call) -> Value:
    """From here on variables are those of TensorFlow 1, whose shapes have to be known."""
    call.run.trail.write(call.run.graph, "old_variables", True)
    return None


@shape_rule("tf.set_random_seed", "tf.random.set_seed", "tf.random.set_random_seed", "tf.disable_eager_execution",
            "tf.enable_eager_execution", "tf.enable_v2_behavior", "tf.logging.set_verbosity",
            "tf.add_to_collection", "tf.config.run_functions_eagerly", "tf.print",
            "tf.get_logger", "tf.logging.info", "tf.logging.warn", "tf.debugging.assert_equal", "tf.assert_equal",
            "tf.debugging.assert_shapes")  # fmt: skip
def harmless(*arguments: Value, **options: Value) -> Value:
    """Nothing that concerns shapes."""
    return UNKNOWN


@shape_property("tf.Tensor.name", "tf.Tensor.op", "tf.Tensor.graph", "tf.Tensor.device")
def attribute(input: Tensor) -> Value:
    """What a tensor is called, and where it lives."""
    return UNKNOWN
