"""Recurrent cells of TensorFlow 1 (`tf.nn.rnn_cell`, `tf.contrib.rnn`), and what runs them over time."""

from __future__ import annotations

from tensorproof.rules.shapes.recurrent_state import RECURRENT_STATE
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes import calls
from tensorproof.shapes.families.keras_graphs import flattened, mapped
from tensorproof.shapes.families.modules import origin, write
from tensorproof.shapes.rule_table import Call, Extent, Mismatch, native_class, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape, meet, of_rank, same_shape
from tensorproof.shapes.sizes import Size, same, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    Instance,
    ListValue,
    NativeObject,
    Results,
    Tensor,
    Value,
    as_size,
)

Arguments = tuple[Value, ...]
Options = dict[str, Value]


def _names(cells: str) -> tuple[str, ...]:
    return tuple(f"tf.{place}.{cell}" for place in ("nn.rnn_cell", "contrib.rnn") for cell in cells.split())


def _zeros(batch: Size, size: Size) -> Tensor:
    return Tensor(Shape((batch, size)), "f32", "tf")


class Cell:
    """What all cells share: a state of the size of their output."""

    def state(self, batch: Size) -> Value:
        """The state of a batch."""
        return _zeros(batch, self.output())

    def output(self) -> Size:
        """How many features a step gives."""
        return unknown()

    @property
    def state_size(self) -> Value:
        return mapped(self.state(1), lambda leaf: leaf.shape[-1] if isinstance(leaf, Tensor) else UNKNOWN)

    @property
    def output_size(self) -> Value:
        return self.output()

    def zero_state(self, call: Call, batch_size: Value, dtype: Value) -> Value:
        size = as_size(batch_size)
        return self.state(unknown() if size is None else size)

    def __call__(self, call: Call, inputs: Tensor, state: Value, scope: Value = None) -> Value:
        call.run.graph.forget_variables()
        shape = meet(inputs.shape, of_rank(2))
        if shape is None:
            message = f"a cell takes an input of 2 axes (batch and features), not {inputs.shape}"
            raise Mismatch(WRONG_RANK, message, tensors=(inputs,), related=origin(call))
        after = self.state(shape.dims[0])
        result = (inputs.with_shape(Shape((shape.dims[0], self.output()))), after)
        _need_state(call, state, after, result)
        _need_features(call, inputs, shape.dims[1], result)
        return result


def _need_state(call: Call, state: Value, wanted: Value, result: Value) -> None:
    """The state that is given has the sizes of the cell."""
    given, needed = flattened(state), flattened(wanted)
    if len(given) != len(needed):
        return
    for one, other in zip(given, needed, strict=True):
        if isinstance(one, Tensor) and isinstance(other, Tensor) and same_shape(one.shape, other.shape) is False:
            message = f"the state {one.shape} has to be {other.shape}: batch and units of the cell"
            raise Mismatch(RECURRENT_STATE, message, result=result, tensors=(one,), related=origin(call))


def _need_features(call: Call, inputs: Tensor, features: Size, result: Value) -> None:
    """The weights of a cell are those of its first input."""
    assert isinstance(call.receiver, NativeObject | Instance)
    known = call.receiver.slots.get("_features")
    if known is None:
        write(call, _features=features)
    elif as_size(known) is not None and same(features, as_size(known) or 0) is False:
        message = f"the cell has weights for {known} features since its first call, but its input {inputs.shape} has {features}"
        raise Mismatch(RECURRENT_STATE, message, result=result, tensors=(inputs,), related=origin(call))


@native_class(*_names("BasicRNNCell RNNCell GRUCell GRUBlockCell"))
class PlainCell(Cell):
    """One state."""

    num_units: Extent
    arguments: Arguments
    options: Options

    def output(self) -> Size:
        return self.num_units


@native_class(*_names("BasicLSTMCell LSTMCell LSTMBlockCell LayerNormBasicLSTMCell"))
class LongCell(Cell):
    """Two states: that of the cell, and the output."""

    num_units: Extent
    arguments: Arguments
    options: Options

    def output(self) -> Size:
        projected = as_size(self.__dict__.get("num_proj"))
        return self.num_units if projected is None else projected

    def state(self, batch: Size) -> Value:
        if self.__dict__.get("state_is_tuple", True) is not True:
            return _zeros(batch, self.num_units + self.output())
        return Results.of(c=_zeros(batch, self.num_units), h=_zeros(batch, self.output()))


@shape_rule(*_names("LSTMStateTuple"))
def state_tuple(c: Value, h: Value) -> Value:
    """Both states of a cell."""
    return Results.of(c=c, h=h)


@shape_rule(*_names("DropoutWrapper DeviceWrapper"))
def wrapped(cell: Value, *arguments: Value, **options: Value) -> Value:
    """The cell: a wrapper changes no sizes."""
    return cell


@native_class(*_names("MultiRNNCell"))
class Stack(Cell):
    """Cells upon each other."""

    cells: Value
    state_is_tuple: Value = True

    def _cells(self) -> tuple[Value, ...]:
        items = self.cells.items if isinstance(self.cells, ListValue) else self.cells
        return items if isinstance(items, tuple) else ()

    def output(self) -> Size:
        cells = self._cells()
        view = _view(cells[-1]) if cells else None
        return unknown() if view is None else view.output()

    def state(self, batch: Size) -> Value:
        views = [_view(cell) for cell in self._cells()]
        if not views or None in views:
            return UNKNOWN
        return tuple(view.state(batch) for view in views if view is not None)


def _view(cell: Value) -> Cell | None:
    """A cell of the library, by its fields."""
    if isinstance(cell, NativeObject) and issubclass(cell.cls.python_class, Cell):
        return cell.cls.view(cell)
    return None


# -- over time --------------------------------------------------------------------------------------------------------


def _run(call: Call, cell: Value, inputs: Tensor, state: Value, *, time_major: bool) -> tuple[Tensor, Value]:
    """Outputs of all steps, and the last state."""
    shape = meet(inputs.shape, of_rank(3))
    if shape is None:
        order = "time, batch, features" if time_major else "batch, time, features"
        message = f"{call.name} takes an input of 3 axes ({order}), not {inputs.shape}"
        raise Mismatch(WRONG_RANK, message, tensors=(inputs,))
    call.run.graph.forget_variables()
    view = _view(cell)
    first, second, features = shape.dims
    batch = second if time_major else first
    if view is None or not isinstance(cell, NativeObject):
        return inputs.with_shape(Shape((first, second, unknown()))), UNKNOWN
    start = view.state(batch) if state is None else state
    step = calls.call_native(call.run, call.place, cell, "__call__", (inputs.with_shape(Shape((batch, features))), start), {})
    last = step[1] if isinstance(step, tuple) and len(step) == 2 else view.state(batch)
    return inputs.with_shape(Shape((first, second, view.output()))), last


@shape_rule("tf.nn.dynamic_rnn")
def dynamic_rnn(
    call: Call,
    cell: Value,
    inputs: Tensor,
    sequence_length: Value = None,
    initial_state: Value = None,
    dtype: Value = None,
    parallel_iterations: Value = None,
    swap_memory: Value = False,
    time_major: bool = False,
    scope: Value = None,
) -> Value:
    """A cell over all steps."""
    return _run(call, cell, inputs, initial_state, time_major=time_major)


@shape_rule("tf.nn.bidirectional_dynamic_rnn")
def bidirectional_rnn(
    call: Call,
    cell_fw: Value,
    cell_bw: Value,
    inputs: Tensor,
    sequence_length: Value = None,
    initial_state_fw: Value = None,
    initial_state_bw: Value = None,
    dtype: Value = None,
    parallel_iterations: Value = None,
    swap_memory: Value = False,
    time_major: bool = False,
    scope: Value = None,
) -> Value:
    """One cell forwards and one backwards."""
    forwards = _run(call, cell_fw, inputs, initial_state_fw, time_major=time_major)
    backwards = _run(call, cell_bw, inputs, initial_state_bw, time_major=time_major)
    return (forwards[0], backwards[0]), (forwards[1], backwards[1])


@shape_rule("tf.nn.static_rnn", "tf.contrib.rnn.static_rnn", "tf.nn.rnn")
def static_rnn(
    call: Call,
    cell: Value,
    inputs: Value,
    initial_state: Value = None,
    dtype: Value = None,
    sequence_length: Value = None,
    scope: Value = None,
) -> Value:
    """A cell over a list of steps."""
    items = inputs.items if isinstance(inputs, ListValue) else inputs
    if not isinstance(items, tuple) or not items or not all(isinstance(item, Tensor) for item in items):
        return ListValue(None, Tensor(ANY_SHAPE, framework="tf", contiguous=None)), UNKNOWN
    view = _view(cell)
    first = items[0]
    assert isinstance(first, Tensor)
    if view is None or not isinstance(cell, NativeObject) or first.shape.rank not in (None, 2):
        return ListValue(None, Tensor(ANY_SHAPE, framework="tf", contiguous=None)), UNKNOWN
    state = view.state(first.shape[0]) if initial_state is None else initial_state
    outputs: list[Value] = []
    for item in items:
        step = calls.call_native(call.run, call.place, cell, "__call__", (item, state), {})
        if not isinstance(step, tuple) or len(step) != 2:
            return ListValue(None, Tensor(ANY_SHAPE, framework="tf", contiguous=None)), UNKNOWN
        outputs.append(step[0])
        state = step[1]
    return ListValue(outputs), state
