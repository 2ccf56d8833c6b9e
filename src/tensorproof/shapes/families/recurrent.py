"""Recurrent layers of PyTorch: the size of their input, and their state."""

from __future__ import annotations

from dataclasses import dataclass

from tensorproof.rules.shapes.recurrent_state import RECURRENT_STATE
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.families.modules import Module, correction, origin, parameter, write
from tensorproof.shapes.families.partial_batches import warn_of_partial_batch
from tensorproof.shapes.families.windows import flag
from tensorproof.shapes.problems import Edit, Related
from tensorproof.shapes.rule_table import CLASSES, Call, Extent, Mismatch, NotKnown, as_tensor, native_class, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape, same_shape
from tensorproof.shapes.sizes import Size, is_unknown, same, unknown
from tensorproof.shapes.values import ListValue, NativeObject, Tensor, Unknown, Value


@dataclass(frozen=True, slots=True)
class Cell:
    """The sizes of a recurrent layer; flags that are not known are None."""

    input_size: Size
    hidden_size: Size
    layers: Size
    directions: int | None
    batch_first: bool | None
    #: The size of the output and of the hidden state: that of the projection, if there is one.
    output_size: Size
    related: tuple[Related, ...]

    @property
    def states(self) -> Size:
        return unknown() if self.directions is None else self.layers * self.directions

    @property
    def width(self) -> Size:
        return unknown() if self.directions is None else self.output_size * self.directions


def check_input_size(input: Tensor, size: Size, result: Value, related: tuple[Related, ...], edits: tuple[Edit, ...]) -> None:
    """The last axis of the input holds the features of one step."""
    found = input.shape[-1]
    if same(found, size) is False:
        advice = "" if is_unknown(found) else f"; input_size should be {found}"
        message = f"the layer takes {size} features in each step, but its input {input.shape} has {found} at the last axis{advice}"
        raise Mismatch(RECURRENT_STATE, message, result=result, tensors=(input,), related=related, edits=edits)


def check_state(call: Call, name: str, state: Value, wanted: Shape, result: Value, related: tuple[Related, ...]) -> None:
    """A state that is passed in has one row per layer and direction, and per sample."""
    if not isinstance(state, Tensor):
        return
    if same_shape(state.shape, wanted) is False:
        message = f"the {name} {state.shape} has to be {wanted}{_why(wanted)}"
        raise Mismatch(RECURRENT_STATE, message, result=result, tensors=(state,), related=related)
    warn_of_partial_batch(call, state, Tensor(wanted))


def _why(wanted: Shape) -> str:
    return ": layers times directions, batch, features; also with batch_first" if wanted.rank == 3 else ""


def run_layer(
    call: Call, cell: Cell, input: Tensor, states: tuple[Value, ...], state_sizes: tuple[Size, ...], edits: tuple[Edit, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Outputs of all steps, and the last states."""
    shape = input.shape
    if shape.rank not in (None, 2, 3):
        message = f"a recurrent layer takes an input of 2 or 3 axes, not {shape}"
        raise Mismatch(WRONG_RANK, message, tensors=(input,), related=cell.related)
    outputs = input.with_shape(shape.without_last(1).extended(cell.width))
    batch = _batch(shape, cell.batch_first)
    wanted = [Shape((cell.states, *batch, size)) if batch is not None else ANY_SHAPE for size in state_sizes]
    last = tuple(input.with_shape(shape) for shape in wanted)
    result = (outputs, last[0] if len(last) == 1 else last)
    check_input_size(input, cell.input_size, result, cell.related, edits)
    for name, state, sizes in zip(("hidden state", "cell state"), states, wanted, strict=False):
        check_state(call, name, state, sizes, result, cell.related)
    return outputs, last


def _batch(shape: Shape, batch_first: bool | None) -> tuple[Size, ...] | None:
    """The size of the batch: none of an input of two axes; None if not even that is known."""
    if shape.rank is None:
        return None
    if shape.rank == 2:
        return ()
    return (unknown(),) if batch_first is None else (shape.dims[0 if batch_first else 1],)


def _directions(bidirectional: Value) -> int | None:
    both = flag(bidirectional)
    return None if both is None else 2 if both else 1


class Recurrent(Module):
    """What the recurrent layers share: one hidden state."""

    def _run(self, call: Call, cell: Cell, input: Value, hx: Value) -> Value:
        packed = input if isinstance(input, NativeObject) and "padded" in input.slots else None
        tensor = as_tensor(input if packed is None else packed.slots["padded"], "torch")
        if packed is not None:
            cell = Cell(
                cell.input_size,
                cell.hidden_size,
                cell.layers,
                cell.directions,
                packed.slots["batch_first"],
                cell.output_size,
                cell.related,
            )
        edits = correction(call, "input_size", tensor.shape[-1]) if tensor.shape.rank != 0 else ()
        outputs, states = run_layer(call, cell, tensor, *self._states(cell, hx), edits)
        result = outputs if packed is None else packed_like(call, packed, outputs)
        return result, states[0] if len(states) == 1 else states

    def _states(self, cell: Cell, hx: Value) -> tuple[tuple[Value, ...], tuple[Size, ...]]:
        return (hx,), (cell.output_size,)


@native_class("torch.nn.RNN")
class RNN(Recurrent):
    """`nn.RNN`."""

    input_size: Extent
    hidden_size: Extent
    num_layers: Extent = 1
    nonlinearity: Value = "tanh"
    bias: Value = True
    batch_first: Value = False
    dropout: Value = 0.0
    bidirectional: Value = False
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        write(call, weight_ih_l0=parameter(self.hidden_size, self.input_size))
        write(call, weight_hh_l0=parameter(self.hidden_size, self.hidden_size))
        return None

    def __call__(self, call: Call, input: Value, hx: Value = None) -> Value:
        cell = Cell(
            self.input_size,
            self.hidden_size,
            self.num_layers,
            _directions(self.bidirectional),
            flag(self.batch_first),
            self.hidden_size,
            origin(call),
        )
        return self._run(call, cell, input, hx)

    def flatten_parameters(self, call: Call) -> Value:
        return None


@native_class("torch.nn.GRU")
class GRU(Recurrent):
    """`nn.GRU`."""

    input_size: Extent
    hidden_size: Extent
    num_layers: Extent = 1
    bias: Value = True
    batch_first: Value = False
    dropout: Value = 0.0
    bidirectional: Value = False
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        write(call, weight_ih_l0=parameter(3 * self.hidden_size, self.input_size))
        write(call, weight_hh_l0=parameter(3 * self.hidden_size, self.hidden_size))
        return None

    def __call__(self, call: Call, input: Value, hx: Value = None) -> Value:
        cell = Cell(
            self.input_size,
            self.hidden_size,
            self.num_layers,
            _directions(self.bidirectional),
            flag(self.batch_first),
            self.hidden_size,
            origin(call),
        )
        return self._run(call, cell, input, hx)

    def flatten_parameters(self, call: Call) -> Value:
        return None


@native_class("torch.nn.LSTM")
class LSTM(Recurrent):
    """`nn.LSTM`: a hidden state and a cell state; a projection makes the hidden state smaller."""

    input_size: Extent
    hidden_size: Extent
    num_layers: Extent = 1
    bias: Value = True
    batch_first: Value = False
    dropout: Value = 0.0
    bidirectional: Value = False
    proj_size: Extent = 0
    device: Value = None
    dtype: Value = None

    def setup(self, call: Call) -> Value:
        if isinstance(self.proj_size, int) and isinstance(self.hidden_size, int) and self.proj_size >= self.hidden_size > 0:
            message = f"proj_size {self.proj_size} has to be smaller than hidden_size {self.hidden_size}"
            raise Mismatch(RECURRENT_STATE, message)
        write(call, weight_ih_l0=parameter(4 * self.hidden_size, self.input_size))
        write(call, weight_hh_l0=parameter(4 * self.hidden_size, self.hidden_size))
        return None

    def __call__(self, call: Call, input: Value, hx: Value = None) -> Value:
        cell = Cell(
            self.input_size,
            self.hidden_size,
            self.num_layers,
            _directions(self.bidirectional),
            flag(self.batch_first),
            self.hidden_size if self.proj_size == 0 else self.proj_size,
            origin(call),
        )
        return self._run(call, cell, input, hx)

    def _states(self, cell: Cell, hx: Value) -> tuple[tuple[Value, ...], tuple[Size, ...]]:
        items = hx.items if isinstance(hx, ListValue) else hx
        states = items if isinstance(items, tuple) and len(items) == 2 else (None, None)
        return states, (cell.output_size, cell.hidden_size)

    def flatten_parameters(self, call: Call) -> Value:
        return None


# -- one step ---------------------------------------------------------------------------------------------------------


def run_cell(
    call: Call, input: Tensor, input_size: Size, hidden_size: Size, states: tuple[Value, ...], related: tuple[Related, ...]
) -> Tensor:
    """The next state."""
    shape = input.shape
    if shape.rank not in (None, 1, 2):
        raise Mismatch(
            WRONG_RANK, f"a recurrent cell takes an input of 1 or 2 axes, not {shape}", tensors=(input,), related=related
        )
    result = input.with_shape(shape.without_last(1).extended(hidden_size))
    check_input_size(input, input_size, result, related, correction(call, "input_size", shape[-1]))
    for name, state in zip(("hidden state", "cell state"), states, strict=False):
        check_state(call, name, state, result.shape, result, related)
    return result


@native_class("torch.nn.RNNCell")
class RNNCell(Module):
    """`nn.RNNCell`."""

    input_size: Extent
    hidden_size: Extent
    bias: Value = True
    nonlinearity: Value = "tanh"
    device: Value = None
    dtype: Value = None

    def __call__(self, call: Call, input: Tensor, hx: Value = None) -> Tensor:
        return run_cell(call, input, self.input_size, self.hidden_size, (hx,), origin(call))


@native_class("torch.nn.GRUCell")
class GRUCell(Module):
    """`nn.GRUCell`."""

    input_size: Extent
    hidden_size: Extent
    bias: Value = True
    device: Value = None
    dtype: Value = None

    def __call__(self, call: Call, input: Tensor, hx: Value = None) -> Tensor:
        return run_cell(call, input, self.input_size, self.hidden_size, (hx,), origin(call))


@native_class("torch.nn.LSTMCell")
class LSTMCell(Module):
    """`nn.LSTMCell`."""

    input_size: Extent
    hidden_size: Extent
    bias: Value = True
    device: Value = None
    dtype: Value = None

    def __call__(self, call: Call, input: Tensor, hx: Value = None) -> Value:
        items = hx.items if isinstance(hx, ListValue) else hx
        states = items if isinstance(items, tuple) else ()
        state = run_cell(call, input, self.input_size, self.hidden_size, states, origin(call))
        return state, state


# -- sequences of several lengths -------------------------------------------------------------------------------------


@native_class("torch.nn.utils.rnn.PackedSequence")
class PackedSequence:
    """Sequences without their padding; `padded` is the tensor that they came from, or would be padded to."""

    data: Value
    batch_sizes: Value = None
    sorted_indices: Value = None
    unsorted_indices: Value = None


def packed_like(call: Call, packed: NativeObject, outputs: Tensor) -> NativeObject:
    """The same sequences with other features."""
    return _packed(call, outputs, packed.slots["batch_first"])


def _packed(call: Call, padded: Tensor, batch_first: bool | None) -> NativeObject:
    features = padded.shape.rank
    data = Shape((unknown(), *padded.shape.dims[2:])) if features is not None else ANY_SHAPE
    cls = CLASSES["torch.nn.utils.rnn.PackedSequence"]
    return NativeObject(cls, call.place, data=padded.with_shape(data), padded=padded, batch_first=batch_first)


@shape_rule("torch.nn.utils.rnn.pack_padded_sequence")
def pack_padded_sequence(
    call: Call, input: Tensor, lengths: Value, batch_first: Value = False, enforce_sorted: Value = True
) -> Value:
    """Padding is left out: how long the longest sequence is, is known to the lengths alone."""
    first, shape = flag(batch_first), input.shape
    if first is None or shape.rank is None or shape.rank < 2:
        raise NotKnown
    batch = shape[0] if first else shape[1]
    counted = as_tensor(lengths, "torch").shape if not isinstance(lengths, Unknown) else ANY_SHAPE
    if counted.rank == 1 and same(counted[0], batch) is False:
        message = f"{counted[0]} lengths for a batch of {batch} sequences in {shape}"
        raise Mismatch(RECURRENT_STATE, message, tensors=(input,))
    steps = unknown()
    dims = (batch, steps, *shape.dims[2:]) if first else (steps, batch, *shape.dims[2:])
    return _packed(call, input.with_shape(Shape(dims)), first)


@shape_rule("torch.nn.utils.rnn.pad_packed_sequence")
def pad_packed_sequence(
    sequence: Value, batch_first: Value = False, padding_value: Value = 0.0, total_length: Value = None
) -> Value:
    """The padded tensor, and the lengths."""
    first = flag(batch_first)
    if not isinstance(sequence, NativeObject) or "padded" not in sequence.slots or first is None:
        raise NotKnown
    padded: Tensor = sequence.slots["padded"]
    was_first: bool = sequence.slots["batch_first"]
    dims = padded.shape.dims
    batch, steps = (dims[0], dims[1]) if was_first else (dims[1], dims[0])
    if isinstance(total_length, int):
        steps = total_length
    front = (batch, steps) if first else (steps, batch)
    return padded.with_shape(Shape((*front, *dims[2:]))), padded.with_shape(Shape((batch,)), dtype="i64")


@shape_rule("torch.nn.utils.rnn.pad_sequence")
def pad_sequence(sequences: Value, batch_first: Value = False, padding_value: Value = 0.0, padding_side: Value = "right") -> Tensor:
    """Sequences of several lengths in one tensor, as long as the longest."""
    first = flag(batch_first)
    items = sequences.items if isinstance(sequences, ListValue) else sequences
    element = items[0] if isinstance(items, tuple) and items else sequences.element if isinstance(sequences, ListValue) else None
    if first is None or not isinstance(element, Tensor) or not element.shape.head:
        raise NotKnown
    known = isinstance(items, tuple) and all(isinstance(item, Tensor) and item.shape.rank is not None for item in items)
    count = len(items) if isinstance(items, tuple) else unknown(0)
    steps = (
        _longest([item.shape for item in items if isinstance(item, Tensor)]) if known and isinstance(items, tuple) else unknown()
    )
    rest = Shape(element.shape.head[1:], element.shape.tail)
    return element.with_shape(rest.preceded(*((count, steps) if first else (steps, count))))


def _longest(shapes: list[Shape]) -> Size:
    from tensorproof.shapes.sizes import largest

    return largest(shape[0] for shape in shapes)
