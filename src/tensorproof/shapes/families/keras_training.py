"""Training of Keras models: `fit` and its kin run the model on a batch of the data and compare it with the targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from tensorproof.rules.shapes.sample_counts import SAMPLE_COUNTS
from tensorproof.shapes import calls
from tensorproof.shapes.families.keras_graphs import flattened, input_name, mapped
from tensorproof.shapes.families.keras_layers import Layer
from tensorproof.shapes.families.keras_losses import ALIASES, NAMES, compared, function_name, same_rank
from tensorproof.shapes.families.modules import apply_layer, write
from tensorproof.shapes.iteration import iterate
from tensorproof.shapes.rule_table import Call, Mismatch
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Polynomial, Size, same, substitute, symbol, symbols, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    BoundMethod,
    DictValue,
    FunctionValue,
    Instance,
    Iterator,
    Library,
    ListValue,
    NativeObject,
    Partial,
    Tensor,
    Unknown,
    Value,
)

#: What Keras takes if no batch size is given.
DEFAULT_BATCH = 32


def samples_of(value: Value) -> Size | None:
    """How many samples data have: the first size of their first array."""
    for leaf in flattened(value):
        if isinstance(leaf, Tensor) and leaf.shape.head:
            return leaf.shape.head[0]
    return None


def with_batch(value: Value, batch: Size) -> Value:
    """Data with another number of samples."""

    def changed(leaf: Value) -> Value:
        if isinstance(leaf, Tensor) and leaf.shape.head:
            return leaf.with_shape(Shape((batch, *leaf.shape.head[1:]), leaf.shape.tail))
        return leaf

    return mapped(value, changed)


def batch_of(samples: Size | None, batch_size: Value, *, whole: bool = True) -> Size:
    """The size of a batch: known if all batches have it, else a symbol that is at most the batch size."""
    size = batch_size if isinstance(batch_size, int) and batch_size > 0 else DEFAULT_BATCH if batch_size is None else None
    if size is None:
        return symbol("B", "batch")
    if isinstance(samples, int) and whole:
        if 0 < samples <= size:
            return samples
        if samples > 0 and samples % size == 0:
            return size
    return symbol("B", "batch", 1, size)


def first_of(run_call: Call, data: Value) -> tuple[Value, Value] | None:
    """Inputs and targets of one batch of a data set that yields batches; None where they are not known."""
    if not isinstance(data, NativeObject | Instance | Iterator):
        return None
    stream = iterate(run_call.run, data)
    element = stream.items[0] if stream.items else stream.element
    if isinstance(element, tuple):
        return (element[0], element[1] if len(element) > 1 else None) if element else None
    if isinstance(element, ListValue) and element.items:
        return element.items[0], element.items[1] if len(element.items) > 1 else None
    return (element, None) if isinstance(element, Tensor) else None


class Trained(Layer):
    """The methods of every model that train and use it."""

    _loss: ClassVar[Value] = None

    def compile(
        self,
        call: Call,
        optimizer: Value = "rmsprop",
        loss: Value = None,
        loss_weights: Value = None,
        metrics: Value = None,
        **options: Value,
    ) -> Value:
        write(call, _loss=loss, optimizer=optimizer)
        return None

    def fit(
        self,
        call: Call,
        x: Value = None,
        y: Value = None,
        batch_size: Value = None,
        epochs: Value = 1,
        verbose: Value = "auto",
        callbacks: Value = None,
        validation_split: Value = 0.0,
        validation_data: Value = None,
        *options: Value,
        **keywords: Value,
    ) -> Value:
        use(call, x, y, batch_size, self._loss, "train_step", whole=validation_split in (0, 0.0))
        if isinstance(validation_data, tuple) and len(validation_data) >= 2:
            use(call, validation_data[0], validation_data[1], batch_size, self._loss, "test_step")
        return UNKNOWN

    def evaluate(
        self, call: Call, x: Value = None, y: Value = None, batch_size: Value = None, *options: Value, **keywords: Value
    ) -> Value:
        use(call, x, y, batch_size, self._loss, "test_step")
        return UNKNOWN

    def train_on_batch(self, call: Call, x: Value, y: Value = None, *options: Value, **keywords: Value) -> Value:
        samples = samples_of(x)
        use(call, x, y, samples if isinstance(samples, int) else None, self._loss, "train_step")
        return UNKNOWN

    def test_on_batch(self, call: Call, x: Value, y: Value = None, *options: Value, **keywords: Value) -> Value:
        samples = samples_of(x)
        use(call, x, y, samples if isinstance(samples, int) else None, self._loss, "test_step")
        return UNKNOWN

    def predict(self, call: Call, x: Value, batch_size: Value = None, *options: Value, **keywords: Value) -> Value:
        return predicted(call, x, batch_size)

    def predict_on_batch(self, call: Call, x: Value) -> Value:
        samples = samples_of(x)
        return predicted(call, x, samples if isinstance(samples, int) else None)

    def summary(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        return None

    save = save_weights = load_weights = export = reset_states = reset_metrics = summary

    def to_json(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        return UNKNOWN

    compute_loss = compute_metrics = get_metrics_result = fit_generator = evaluate_generator = predict_generator = to_json


def is_broken(receiver: Value) -> bool:
    """Whether a defect of the model was reported: what follows from it is not told again."""
    return isinstance(receiver, NativeObject | Instance) and bool(receiver.slots.get("_broken"))


def use(call: Call, x: Value, y: Value, batch_size: Value, loss: Value, step: str, *, whole: bool = True) -> None:
    """Run the model on a batch and compare its outputs with the targets."""
    receiver = call.receiver
    assert isinstance(receiver, NativeObject | Instance)
    pair = first_of(call, x)
    if (
        is_broken(receiver)
        or isinstance(x, Unknown)
        or x is None
        or (pair is None and isinstance(x, NativeObject | Instance | Iterator))
    ):
        return
    before = len(call.run.problems)
    if pair is None:
        _need_samples(call, x, y)
        batch = batch_of(samples_of(x), batch_size, whole=whole)
        inputs, targets = with_batch(x, batch), with_batch(y, batch)
    else:
        inputs, targets = pair
    own = calls.own_method(receiver, step)
    if own is not None:
        call.run.call_at(call.place, own, (inputs if targets is None else (inputs, targets),))
    else:
        outputs = apply_layer(call, receiver, inputs)
        if len(call.run.problems) == before and targets is not None:
            check_losses(call, loss, targets, outputs)
    if len(call.run.problems) > before and any(problem.certain for problem in call.run.problems[before:]):
        write(call, _broken=True)


def _need_samples(call: Call, x: Value, y: Value) -> None:
    """Inputs and targets have one number of samples."""
    arrays = [leaf for leaf in (*flattened(x), *flattened(y)) if isinstance(leaf, Tensor) and leaf.shape.head]
    for array in arrays[1:]:
        if same(arrays[0].shape.head[0], array.shape.head[0]) is False:
            write(call, _broken=True)
            counts = f"{arrays[0].shape.head[0]} in {arrays[0].shape}, {array.shape.head[0]} in {array.shape}"
            raise Mismatch(SAMPLE_COUNTS, f"the data have different numbers of samples: {counts}", tensors=(arrays[0], array))


def predicted(call: Call, x: Value, batch_size: Value) -> Value:
    """The outputs for all samples, as arrays of NumPy."""
    pair = first_of(call, x)
    if isinstance(x, Unknown) or is_broken(call.receiver):
        return UNKNOWN
    if pair is not None or not any(isinstance(leaf, Tensor) for leaf in flattened(x)):
        return UNKNOWN
    samples = samples_of(x)
    batch = batch_of(samples, batch_size)
    before = len(call.run.problems)
    outputs = apply_layer(call, call.receiver, with_batch(x, batch))
    if len(call.run.problems) > before:
        write(call, _broken=True)
    total = unknown() if samples is None else samples
    if not isinstance(batch, Polynomial):
        return mapped(outputs, lambda leaf: _resized(leaf, batch, total))
    (only,) = symbols(batch)
    return mapped(outputs, lambda leaf: _array(leaf, lambda size: substitute(size, {only: total})))


def _resized(leaf: Value, batch: Size, total: Size) -> Value:
    """An output for all samples, from that for one batch."""
    if isinstance(leaf, Tensor) and leaf.shape.head and same(leaf.shape.head[0], batch):
        return leaf.with_shape(Shape((total, *leaf.shape.head[1:]), leaf.shape.tail), framework="numpy")
    return leaf.with_shape(leaf.shape, framework="numpy") if isinstance(leaf, Tensor) else leaf


def _array(leaf: Value, change: Callable[[Size], Size]) -> Value:
    if not isinstance(leaf, Tensor):
        return leaf
    return leaf.with_shape(leaf.shape.map(change), framework="numpy")


# -- losses -----------------------------------------------------------------------------------------------------------


def check_losses(call: Call, loss: Value, targets: Value, outputs: Value) -> None:
    """Every output against its target."""
    if loss is None or isinstance(loss, Unknown):
        return
    for one, target, output in _pairs(loss, targets, outputs):
        if isinstance(target, Tensor) and isinstance(output, Tensor):
            check_loss(call, one, target, output)


def _pairs(loss: Value, targets: Value, outputs: Value) -> list[tuple[Value, Value, Value]]:
    if isinstance(outputs, DictValue) and outputs.entries is not None:
        if not isinstance(targets, DictValue) or targets.entries is None:
            return []
        return [
            (_entry(loss, key, None), targets.entries[key], output)
            for key, output in outputs.entries.items()
            if key in targets.entries
        ]
    many = outputs.items if isinstance(outputs, ListValue) else outputs if isinstance(outputs, tuple) else None
    if many is None:
        only = _single(loss)
        return [(only, _single(targets), outputs)]
    given = targets.items if isinstance(targets, ListValue) else targets if isinstance(targets, tuple) else None
    if given is None or len(given) != len(many):
        return []
    return [(_entry(loss, None, position), given[position], output) for position, output in enumerate(many)]


def _single(value: Value) -> Value:
    items = value.items if isinstance(value, ListValue) else value
    if isinstance(items, tuple) and len(items) == 1:
        return items[0]
    if isinstance(items, DictValue) and items.entries is not None and len(items.entries) == 1:
        return next(iter(items.entries.values()))
    return value


def _entry(loss: Value, key: Value, position: int | None) -> Value:
    if isinstance(loss, DictValue):
        entries: Mapping[Value, Value] = loss.entries or {}
        return entries.get(key) if key is not None else None
    items = loss.items if isinstance(loss, ListValue) else loss if isinstance(loss, tuple) else None
    if items is None:
        return None if isinstance(loss, ListValue) else loss
    return items[position] if position is not None and position < len(items) else None


def check_loss(call: Call, loss: Value, target: Tensor, output: Tensor) -> None:
    """One loss, by its name, as an object or as a function. `compile` brings both sides to one rank."""
    name = loss if isinstance(loss, str) else loss.path if isinstance(loss, Library) else ""
    name = ALIASES.get(name, function_name(name)) if name else ""
    if name in NAMES:
        compared(call, name, target, output, wrapped=True)
    elif isinstance(loss, FunctionValue | Partial | BoundMethod):
        call.run.call_at(call.place, loss, same_rank(target, output))
    elif isinstance(loss, NativeObject | Instance):
        apply_layer(call, loss, target, output)


def named(inputs: Value, declared: Value) -> Value:
    """Data given by the names of inputs, in the order of the inputs."""
    if not isinstance(inputs, DictValue) or isinstance(declared, DictValue) or inputs.entries is None:
        return inputs
    names = [input_name(tensor) for tensor in flattened(declared)]
    if any(name is None or name not in inputs.entries for name in names):
        return UNKNOWN
    return tuple(inputs.entries[name] for name in names)
