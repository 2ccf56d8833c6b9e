"""Models of Keras: functional ones, sequential ones, and the base of subclassed ones."""

from __future__ import annotations

from typing import ClassVar

from tensorproof.rules.shapes.convolution_channels import CONVOLUTION_CHANNELS
from tensorproof.rules.shapes.layer_features import LAYER_FEATURES
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes.calls import own_method
from tensorproof.shapes.families.keras_graphs import Replay, flattened, mapped, sizes_given
from tensorproof.shapes.families.keras_layers import BATCH, Layer, layer
from tensorproof.shapes.families.keras_training import Trained, is_broken, named
from tensorproof.shapes.families.modules import apply_layer, origin, write
from tensorproof.shapes.iteration import iterate
from tensorproof.shapes.rule_table import Call, Mismatch, as_tensor, native_class, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size, Symbol, same, symbol, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    DictValue,
    DType,
    Instance,
    ListValue,
    NativeObject,
    Tensor,
    Unknown,
    Value,
    as_size,
)


def declared_shape(shape: Value, batch_size: Value = None, batch_shape: Value = None) -> Shape:
    """The shape of an input: sizes that are None are open."""
    whole = batch_shape if batch_shape is not None else shape
    single = as_size(whole)
    items = (whole,) if single is not None else whole.items if isinstance(whole, ListValue) else whole
    if not isinstance(items, tuple):
        return ANY_SHAPE
    if batch_shape is not None:
        return Shape(tuple(_declared_size(item, axis) for axis, item in enumerate(items)))
    known = as_size(batch_size)
    batch = known if known is not None else BATCH if batch_size is None else unknown()
    return Shape((batch, *(_declared_size(item, axis + 1) for axis, item in enumerate(items))))


def _declared_size(item: Value, axis: int) -> Size:
    if item is None:
        return BATCH if axis == 0 else symbol("T" if axis == 1 else "S", "time")
    size = as_size(item)
    return unknown() if size is None else size


@shape_rule("keras.Input")
def symbolic_input(
    shape: Value = None, batch_size: Value = None, dtype: Value = None, sparse: Value = None, ragged: Value = None,
    batch_shape: Value = None, name: Value = None, tensor: Value = None, optional: Value = False,
) -> Value:  # fmt: skip
    """The placeholder that functional models begin with."""
    kind = dtype.name if isinstance(dtype, DType) else "i32" if isinstance(dtype, str) and dtype.startswith("int") else "f32"
    return Tensor(declared_shape(shape, batch_size, batch_shape), kind, "keras", contiguous=None)


@layer("InputLayer")
class InputLayer(Layer):
    """`InputLayer`."""

    shape: Value = None
    batch_size: Value = None

    def __call__(self, call: Call, inputs: Value, **options: Value) -> Value:
        return inputs


def fitted(call: Call, declared: Tensor, given: Tensor) -> Tensor:
    """Data with the rank of the declared input: Keras adds or removes a last axis of size 1."""
    a, b = declared.shape, given.shape
    if a.rank is None or b.rank is None or a.rank == b.rank:
        return given
    if b.rank == a.rank + 1 and b.dims[-1] == 1:
        return given.with_shape(b.without_last(1))
    if b.rank == a.rank - 1 and a.rank > 0 and a.dims[-1] == 1:
        return given.with_shape(b.extended(1))
    if b.rank == a.rank + 1 and not isinstance(b.dims[-1], int):
        return given.with_shape(ANY_SHAPE)
    message = f"the model takes inputs of the shape {a}, but is given {b}"
    raise Mismatch(WRONG_RANK, message, result=UNKNOWN, tensors=(given, declared), related=origin(call))


def need_specified(call: Call, declared: Tensor, given: Tensor) -> None:
    """The sizes that an input declares behind the batch; a last axis of size 1 is left out on either side."""
    a, b = declared.shape, given.shape
    if a.rank is None or b.rank is None:
        return
    wanted = a.dims[:-1] if a.rank and a.dims[-1] == 1 else a.dims
    actual = b.dims[:-1] if b.rank and b.dims[-1] == 1 else b.dims
    for axis, (size, other) in enumerate(zip(wanted, actual, strict=False)):
        if axis and same(size, other) is False:
            is_channels = axis == a.rank - 1 and a.rank >= 4
            rule = WRONG_RANK if a.rank != b.rank else CONVOLUTION_CHANNELS if is_channels else LAYER_FEATURES
            message = f"the model takes inputs of the shape {a}, but is given {b}: {other} instead of {size} at axis {axis}"
            raise Mismatch(rule, message, tensors=(given, declared), related=origin(call))


def functional_fields(inputs: Value, outputs: Value) -> dict[str, Value]:
    """What a functional model knows: its inputs and outputs in their structure, and as flat lists."""
    lists = {"inputs": ListValue(tuple(flattened(inputs))), "outputs": ListValue(tuple(flattened(outputs)))}
    return {"input": inputs, "output": outputs, **lists}


@native_class("keras.Model")
class Model(Trained):
    """A model: functional if it is made of inputs and outputs, else the base of a class of the program."""

    inputs: Value = None
    outputs: Value = None

    def setup(self, call: Call) -> Value:
        if self.inputs is not None and self.outputs is not None:
            write(call, **functional_fields(self.inputs, self.outputs))
        return None

    def __call__(self, call: Call, inputs: Value, training: Value = None, mask: Value = None, **options: Value) -> Value:
        if self.inputs is None or self.outputs is None:
            return UNKNOWN
        return replayed(call, self.__dict__["input"], self.__dict__["output"], inputs)

    def build(self, call: Call, *shapes: Value) -> Value:
        """A model of the program is run once on an input of the shape."""
        receiver = call.receiver
        if isinstance(receiver, Instance) and len(shapes) == 1 and own_method(receiver, "build") is None:
            apply_layer(call, receiver, Tensor(declared_shape(None, None, shapes[0]), "f32", "keras", contiguous=None))
        return None

    def get_layer(self, call: Call, name: Value = None, index: Value = None) -> Value:
        layers = self._layers(call)
        if layers is None:
            return UNKNOWN
        if isinstance(index, int) and -len(layers) <= index < len(layers):
            return layers[index]
        return next((one for one in layers if isinstance(one, NativeObject) and one.slots.get("name") == name), UNKNOWN)

    def _layers(self, call: Call) -> tuple[Value, ...] | None:
        """The layers that a functional graph uses, each with its output; None where they are not known."""
        if self.outputs is None:
            return None
        found: dict[int, NativeObject] = {}
        waiting = flattened(self.outputs)
        seen: set[int] = set()
        while waiting:
            value = waiting.pop()
            if not isinstance(value, Tensor) or id(value) in seen or value.recipe is None:
                continue
            seen.add(id(value))
            recipe = value.recipe
            if isinstance(recipe.receiver, NativeObject):
                found.setdefault(recipe.receiver.serial, recipe.receiver)
                call.run.trail.write(recipe.receiver, "output", value)
            waiting.extend(leaf for argument in recipe.arguments for leaf in flattened(argument))
        return tuple(found[serial] for serial in sorted(found))

    @property
    def output_shape(self) -> Value:
        return _shapes(self.__dict__.get("output"))

    @property
    def input_shape(self) -> Value:
        return _shapes(self.__dict__.get("input"))


def _shapes(value: Value) -> Value:
    if value is None:
        return UNKNOWN
    return mapped(value, lambda leaf: leaf.shape.dims if isinstance(leaf, Tensor) and leaf.shape.rank is not None else UNKNOWN)


def replayed(call: Call, declared: Value, outputs: Value, inputs: Value) -> Value:
    """The outputs of a functional model for other inputs."""
    given = _matched(declared, named(inputs, declared))
    if given is None:
        return mapped(outputs, _anything)
    replaced: dict[int, Tensor] = {}
    sizes: dict[Symbol, Size] = {}
    for old, new in given:
        need_specified(call, old, new)
        adjusted = fitted(call, old, new)
        replaced[id(old)] = adjusted
        sizes.update(sizes_given(old, adjusted))
    if is_broken(call.receiver):
        return mapped(outputs, _anything)
    with call.run.watching() as problems:
        result = Replay(call.run, call.place, replaced, sizes).value(outputs)
    certain = [problem for problem in problems if problem.certain]
    if certain:
        write(call, _broken=True)
        call.run.add(certain[0])
    return result


def _anything(leaf: Value) -> Value:
    """An output of a model whose inputs are not understood: the batch is not known."""
    if not isinstance(leaf, Tensor) or not leaf.shape.head:
        return leaf
    return leaf.with_shape(Shape(tuple(size if isinstance(size, int) else unknown() for size in leaf.shape.head), leaf.shape.tail))


def _matched(declared: Value, given: Value) -> list[tuple[Tensor, Tensor]] | None:
    """The declared inputs with what is given for them; None if the structures do not tell."""
    if isinstance(declared, DictValue) and isinstance(given, DictValue):
        entries, data = declared.entries, given.entries
        if entries is None or data is None or any(key not in data for key in entries):
            return None
        pairs = [(entries[key], data[key]) for key in entries]
    else:
        olds, news = flattened(declared), flattened(given)
        if len(olds) == 1 and len(news) != 1 and isinstance(given, ListValue | tuple):
            news = [given]
        if len(olds) != len(news):
            return None
        pairs = list(zip(olds, news, strict=True))
    found: list[tuple[Tensor, Tensor]] = []
    for old, new in pairs:
        if not isinstance(old, Tensor) or isinstance(new, Unknown) or not isinstance(new, Tensor | tuple | ListValue | int | float):
            return None
        found.append((old, as_tensor(new, "keras")))
    return found


@native_class("keras.Sequential")
class Sequential(Trained):
    """Layers in a row. With an input they are applied as they are added, else at the first call."""

    layers: Value = None
    #: None: not known.
    _stack: ClassVar[Value] = ()

    def setup(self, call: Call) -> Value:
        if self.layers is None:
            return None
        items = iterate(call.run, self.layers).items
        write(call, _stack=())
        if items is None:
            write(call, _stack=None)
            return None
        for item in items:
            self._add(call, item)
        return None

    def add(self, call: Call, layer: Value, rebuild: Value = True) -> Value:
        self._add(call, layer)
        return None

    def _add(self, call: Call, layer: Value) -> None:
        stack = self._stack
        if not isinstance(stack, tuple) or isinstance(layer, Unknown):
            # Also a choice of several stacks: what was added depends on what is not known.
            write(call, _stack=None)
            return
        if isinstance(layer, Tensor):
            if not stack:
                write(call, **functional_fields(layer, layer))
            return
        if not stack and "input" not in self.__dict__:
            self._take_input(call, layer)
        write(call, _stack=(*stack, layer), layers=ListValue((*stack, layer)))
        if isinstance(layer, NativeObject) and layer.cls.names[0] == "keras.layers.InputLayer":
            write(call, _stack=stack, layers=ListValue(stack))
            return
        output = self.__dict__.get("output")
        if isinstance(output, Tensor) and not is_broken(call.receiver):
            before = len(call.run.problems)
            result = apply_layer(call, layer, output)
            write(call, **functional_fields(self.__dict__.get("input"), result))
            if isinstance(layer, NativeObject):
                call.run.trail.write(layer, "output", result)
            _note_defects(call, before)

    def _take_input(self, call: Call, layer: Value) -> None:
        """The input that a first layer declares."""
        if not isinstance(layer, NativeObject | Instance):
            return
        slots = layer.slots
        shape = slots.get("input_shape", slots.get("shape") if isinstance(layer, NativeObject) else None)
        whole = slots.get("batch_input_shape", slots.get("batch_shape"))
        if slots.get("input_dim") is not None and not _is_embedding(layer):
            shape = (slots["input_dim"],)
        if shape is not None or whole is not None:
            tensor = Tensor(declared_shape(shape, slots.get("batch_size"), whole), "f32", "keras", contiguous=None)
            write(call, **functional_fields(tensor, tensor))
        elif isinstance(slots.get("input"), Tensor):
            write(call, **functional_fields(slots["input"], slots["input"]))

    def pop(self, call: Call, rebuild: Value = True) -> Value:
        if not isinstance(self._stack, tuple) or not self._stack:
            return UNKNOWN
        last = self._stack[-1]
        stack = self._stack[:-1]
        write(call, _stack=stack, layers=ListValue(stack))
        before = stack[-1] if stack else None
        output = before.slots.get("output") if isinstance(before, NativeObject) else self.__dict__.get("input")
        write(call, output=output if isinstance(output, Tensor) else UNKNOWN)
        return last

    def build(self, call: Call, *shapes: Value) -> Value:
        if isinstance(self._stack, tuple) and "input" not in self.__dict__ and shapes:
            tensor = Tensor(declared_shape(None, None, shapes[0]), "f32", "keras", contiguous=None)
            write(call, input=tensor)
            before = len(call.run.problems)
            write(call, output=self._applied(call, tensor))
            _note_defects(call, before)
        return None

    def __call__(self, call: Call, inputs: Value, training: Value = None, mask: Value = None, **options: Value) -> Value:
        if not isinstance(self._stack, tuple):
            return UNKNOWN
        if is_broken(call.receiver):
            output = self.__dict__.get("output")
            return _anything(output) if isinstance(output, Tensor) else UNKNOWN
        declared = self.__dict__.get("input")
        value = inputs
        if isinstance(declared, Tensor):
            value = fitted(call, declared, as_tensor(inputs, "keras"))
        elif isinstance(inputs, Tensor):
            write(call, input=inputs)
        return self._applied(call, value)

    def _applied(self, call: Call, value: Value) -> Value:
        assert isinstance(self._stack, tuple)
        for entry in self._stack:
            value = apply_layer(call, entry, value)
        return value

    def get_layer(self, call: Call, name: Value = None, index: Value = None) -> Value:
        layers = self._stack if isinstance(self._stack, tuple) else ()
        if isinstance(index, int) and -len(layers) <= index < len(layers):
            return layers[index]
        return next((one for one in layers if isinstance(one, NativeObject) and one.slots.get("name") == name), UNKNOWN)

    @property
    def output_shape(self) -> Value:
        return _shapes(self.__dict__.get("output"))


def _is_embedding(layer: NativeObject | Instance) -> bool:
    return isinstance(layer, NativeObject) and layer.cls.names[0] == "keras.layers.Embedding"


def _note_defects(call: Call, before: int) -> None:
    if any(problem.certain for problem in call.run.problems[before:]):
        write(call, _broken=True)
