"""Layers of Keras: their base, and those whose weights are matrices (dense, embedding) or that have none (dropout, activation).

A layer builds its weights at its first call; a later call with other features fails.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorproof.rules.shapes.layer_features import LAYER_FEATURES
from tensorproof.rules.shapes.single_class import SINGLE_CLASS
from tensorproof.rules.shapes.wrong_rank import WRONG_RANK
from tensorproof.shapes import calls
from tensorproof.shapes.families.modules import origin, write
from tensorproof.shapes.problems import Place, Related
from tensorproof.shapes.rule_table import AnyClass, Call, Extent, Mismatch, NotKnown, as_sizes, native_class
from tensorproof.shapes.shape import ANY_SHAPE, Shape, meet, of_rank
from tensorproof.shapes.sizes import Polynomial, Size, is_unknown, same, symbol, symbols, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    BoundMethod,
    DictValue,
    FunctionValue,
    Instance,
    Library,
    ListValue,
    NativeObject,
    Partial,
    Tensor,
    Value,
    as_size,
)

#: Further keywords of a constructor: `name`, `dtype`, initialisers, `input_shape` and the like.
Options = dict[str, Value]
Arguments = tuple[Value, ...]


#: The batch of every `keras.Input`: all inputs of one model have the same.
BATCH = symbol("N", "batch")


def is_symbolic(tensor: Tensor) -> bool:
    """Whether a tensor comes from `keras.Input`: it stands for data that are not there yet."""
    return bool(tensor.shape.head) and symbols(BATCH) <= symbols(tensor.shape.head[0])


def need_rank(call: Call, input: Tensor, rank: int, result: Shape = ANY_SHAPE) -> Tensor:
    """The input with as many axes as the layer takes; refuses one that certainly has another number."""
    shape = meet(input.shape, of_rank(rank))
    if shape is None:
        known = input.shape.rank
        message = f"{layer_name(call)} takes an input of {rank} axes, but {input.shape} has {'more' if known is None else known}"
        raise _wrong_rank(call, input, message, result)
    return input.with_shape(shape)


def need_least_rank(call: Call, input: Tensor, least: int, result: Shape = ANY_SHAPE) -> None:
    """Refuse an input with too few axes."""
    rank = input.shape.rank
    if rank is not None and rank < least:
        message = f"{layer_name(call)} takes an input of at least {least} axes, but {input.shape} has {rank}"
        raise _wrong_rank(call, input, message, result)


def _wrong_rank(call: Call, input: Tensor, message: str, result: Shape) -> Mismatch:
    return Mismatch(WRONG_RANK, message, result=input.with_shape(result), tensors=(input,), related=origin(call))


def layer_name(call: Call) -> str:
    """The class of the layer, as the user writes it."""
    return call.name.rpartition(".")[2]


def built_size(call: Call, slot: str, size: Size) -> Size:
    """The size that a weight has since the first call of the layer; the first call decides."""
    assert isinstance(call.receiver, NativeObject | Instance)
    known = call.receiver.slots.get(slot)
    if known is None:
        write(call, **{slot: size, f"{slot}_place": (call.place,)})  # pyright: ignore[reportArgumentType]
        return size
    return known if isinstance(known, int | Polynomial) and not isinstance(known, bool) else unknown()


def built_here(call: Call, slot: str) -> tuple[Related, ...]:
    """Where the layer was made, and where its first call was."""
    assert isinstance(call.receiver, NativeObject | Instance)
    first = call.receiver.slots.get(f"{slot}_place")
    place = first[0] if isinstance(first, tuple) and first else None
    told = "the weights are built for the input of the first call, here"
    return (*origin(call), Related(place, told)) if isinstance(place, Place) else origin(call)


def need_features(call: Call, input: Tensor, result: Tensor) -> None:
    """Refuse an input whose last axis is another than that of the first call."""
    features = input.shape[-1]
    known = built_size(call, "_features", features)
    if same(features, known) is False:
        message = (
            f"{layer_name(call)} has weights for {known} features since its first call, but its input {input.shape} has {features}"
        )
        raise Mismatch(LAYER_FEATURES, message, result=result, tensors=(input,), related=built_here(call, "_features"))


def activated(call: Call, activation: Value, value: Tensor) -> Tensor:
    """The result of an activation function, given by name or as a function."""
    name = (
        activation if isinstance(activation, str) else activation.path.rpartition(".")[2] if isinstance(activation, Library) else ""
    )
    if name in ("softmax", "log_softmax"):
        warn_of_single_class(call, value)
    elif name == "glu" and value.shape.least_rank:
        return value.with_shape(value.shape.without_last(1).extended(value.shape[-1] // 2))
    elif isinstance(activation, FunctionValue | Partial | BoundMethod):
        result = call.run.call_at(call.place, activation, (value,))
        return result if isinstance(result, Tensor) else value.with_shape(ANY_SHAPE)
    elif isinstance(activation, NativeObject):
        result = calls.call_native(call.run, call.place, activation, "__call__", (value,), {})
        return result if isinstance(result, Tensor) else value
    return value


def warn_of_single_class(call: Call, value: Tensor, axis: int = -1) -> None:
    """A softmax over one element is always 1. It is told once per layer."""
    shape = value.shape
    if not isinstance(call.receiver, NativeObject) or call.receiver.slots.get("_told") or shape.least_rank == 0:
        return
    if shape.rank is not None and not -shape.rank <= axis < shape.rank:
        return
    if shape[axis] == 1:
        write(call, _told=True)
        advice = "for two classes with one unit write activation='sigmoid'"
        call.warn(SINGLE_CLASS, f"softmax over axis {axis} of {shape} has one class: it is always 1; {advice}", tensors=(value,))


def weight_sizes(value: Value) -> Shape:
    """The shape of a weight as `add_weight` takes it."""
    if value is None:
        return Shape(())
    try:
        return Shape(tuple(size if not is_unknown(size) else unknown() for size in as_sizes(value)))
    except NotKnown:
        return ANY_SHAPE


def shape_of(value: Value) -> Value:
    """The shape of an argument, in the structure of the argument, as `build` receives it."""
    if isinstance(value, Tensor):
        return UNKNOWN if value.shape.rank is None else value.shape.dims
    if isinstance(value, tuple):
        return tuple(shape_of(part) for part in value)
    if isinstance(value, ListValue) and value.items is not None:
        return ListValue(tuple(shape_of(part) for part in value.items))
    if isinstance(value, DictValue) and value.entries is not None:
        return DictValue({key: shape_of(part) for key, part in value.entries.items()})
    return UNKNOWN


@native_class("keras.layers.Layer")
class Layer:
    """The base of all layers. Subclasses are called through `call`, after `build`."""

    calls = "call"
    options: Options

    def prepare(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        """Build the weights of a layer of the program before its first call."""
        receiver = call.receiver
        assert isinstance(receiver, NativeObject | Instance)
        build = calls.own_method(receiver, "build")
        if build is None or receiver.slots.get("_built"):
            return None
        write(call, _built=True)
        assert isinstance(build, BoundMethod)
        assert isinstance(build.function, FunctionValue)
        count = len(build.function.node.args.args) - 1
        given = (*arguments, *keywords.values())
        shapes = tuple(shape_of(value) for value in given[:count])
        call.run.call_at(call.place, build, shapes)
        return None

    def call(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        """`super().call(...)` in a subclass."""
        assert isinstance(call.receiver, Instance | NativeObject)
        return calls.call_native(call.run, call.place, call.receiver, "__call__", arguments, keywords)

    def build(self, call: Call, *shapes: Value) -> Value:
        write(call, _built=True)
        return None

    def add_weight(
        self,
        call: Call,
        shape: Value = None,
        initializer: Value = None,
        dtype: Value = None,
        trainable: Value = True,
        **options: Value,
    ) -> Tensor:
        return Tensor(weight_sizes(shape), "f32", "keras", kind="variable")

    add_variable = add_weight

    def set_weights(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        return None

    add_loss = add_metric = load_own_variables = set_weights

    def get_weights(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        return UNKNOWN

    count_params = get_config = compute_output_shape = compute_mask = compute_output_spec = get_weights


def layer(*names: str) -> Callable[[AnyClass], AnyClass]:
    """Declare a layer. One of several names is a class of its own, so that messages name what the user wrote."""

    def declare(cls: AnyClass) -> AnyClass:
        for name in names:
            native_class(f"keras.layers.{name}")(cls)
        return cls

    return declare


@layer("Dense")
class Dense(Layer):
    """`Dense`."""

    units: Extent
    activation: Value = None
    use_bias: Value = True

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        shape = inputs.shape
        result = inputs.with_shape(shape.without_last(1).extended(self.units), dtype="f32")
        need_least_rank(call, inputs, 2, Shape((unknown(), self.units)))
        need_features(call, inputs, result)
        return activated(call, self.activation, result)


@layer("EinsumDense")
class EinsumDense(Layer):
    """A product with weights along the axes that an equation names: `ab,bc->ac`."""

    equation: str
    output_shape: Value
    activation: Value = None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        source, _, target = self.equation.replace(" ", "").partition("->")
        letters = source.partition(",")[0].replace("...", "")
        shape = inputs.shape
        names = target.replace("...", "")
        if shape.rank is None or shape.rank < len(letters) or ("..." not in source and shape.rank != len(letters)):
            return inputs.with_shape(ANY_SHAPE)
        elided = shape.rank - len(letters)
        leads = source.startswith("...")
        free = shape.dims[:elided] if leads else shape.dims[len(letters) :]
        known = dict(zip(letters, shape.dims[elided:] if leads else shape.dims, strict=False))
        given = self._given(len(names))
        sizes = tuple(known.get(name, size) for name, size in zip(names, given, strict=True))
        result = inputs.with_shape(Shape((*free, *sizes) if leads else (*sizes, *free)), dtype="f32")
        return activated(call, self.activation, result)

    def _given(self, count: int) -> tuple[Size, ...]:
        """The sizes of the last axes, as far as the program gives them; the batch is not among them."""
        items = self.output_shape.items if isinstance(self.output_shape, ListValue) else self.output_shape
        values = items if isinstance(items, tuple) else (items,)
        sizes = [unknown() if (size := as_size(value)) is None else size for value in values]
        return tuple([unknown()] * (count - len(sizes)) + sizes)[-count:] if count else ()


@layer("Embedding")
class Embedding(Layer):
    """`Embedding`."""

    input_dim: Extent
    output_dim: Extent

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        return inputs.with_shape(inputs.shape.extended(self.output_dim), dtype="f32")


_SAME_SHAPE = (
    "ActivityRegularization AlphaDropout Dropout ELU GaussianDropout GaussianNoise Identity LeakyReLU ReLU "
    "Rescaling Masking AutoContrast RandomBrightness RandomContrast RandomFlip RandomRotation RandomTranslation RandomZoom "
    "RandomShear RandomSharpness RandomHue RandomSaturation RandomColorJitter RandomColorDegeneration RandomGrayscale RandomInvert "
    "RandomPosterization RandomPerspective RandomErasing RandomGaussianBlur RandomElasticTransform Solarization Equalization "
    "AugMix RandAugment Discretization Hashing IntegerLookup StringLookup"
)


@layer("CategoryEncoding")
class CategoryEncoding(Layer):
    """Categories as vectors: one for each (`one_hot`), or one for each sample."""

    num_tokens: Extent
    output_mode: Value = "multi_hot"

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        shape = inputs.shape
        if self.output_mode not in ("multi_hot", "count") or shape.rank != 2:
            return inputs.with_shape(ANY_SHAPE)
        return inputs.with_shape(Shape((shape.dims[0], self.num_tokens)), dtype="f32")


@layer("TextVectorization")
class TextVectorization(Layer):
    """Texts as rows of numbers."""

    max_tokens: Value = None
    standardize: Value = None
    split: Value = None
    ngrams: Value = None
    output_mode: Value = "int"
    output_sequence_length: Value = None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        batch = inputs.shape.head[0] if inputs.shape.head else unknown()
        length = as_size(self.output_sequence_length) if self.output_mode == "int" else None
        return inputs.with_shape(Shape((batch, unknown() if length is None else length)))

    def adapt(self, call: Call, *arguments: Value, **options: Value) -> Value:
        return None

    set_vocabulary = adapt


@layer(*_SAME_SHAPE.split())
class SameShape(Layer):
    """Layers whose output has the shape of their input, whatever it is."""

    arguments: Arguments = ()

    def __call__(self, call: Call, inputs: Tensor, *arguments: Value, **options: Value) -> Tensor:
        if self._mode() not in (None, "int"):
            return inputs.with_shape(ANY_SHAPE)
        return inputs.with_shape(inputs.shape, new_axes=inputs.new_axes)

    def _mode(self) -> Value:
        return self.__dict__.get("output_mode")

    def adapt(self, call: Call, *arguments: Value, **options: Value) -> Value:
        return None


@layer("SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D")
class SpatialDropout(Layer):
    """`SpatialDropout`."""

    rate: Value

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        return need_rank(call, inputs, int(call.name[-2]) + 2)


@layer("Activation")
class Activation(Layer):
    """`Activation`."""

    activation: Value

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        return activated(call, self.activation, inputs.with_shape(inputs.shape))


@layer("Softmax")
class Softmax(Layer):
    """`Softmax`."""

    axis: Value = -1

    def __call__(self, call: Call, inputs: Tensor, mask: Value = None, **options: Value) -> Tensor:
        if isinstance(self.axis, int):
            warn_of_single_class(call, inputs, self.axis)
        return inputs.with_shape(inputs.shape)


@layer("PReLU")
class PReLU(Layer):
    """A slope for every element but the batch, or shared along axes."""

    alpha_initializer: Value = None
    alpha_regularizer: Value = None
    alpha_constraint: Value = None
    shared_axes: Value = None

    def __call__(self, call: Call, inputs: Tensor, **options: Value) -> Tensor:
        return inputs.with_shape(inputs.shape)


@layer("Lambda")
class Lambda(Layer):
    """A function as a layer: it is called."""

    function: Value
    output_shape: Value = None
    mask: Value = None
    arguments: Value = None

    def __call__(self, call: Call, inputs: Value, **options: Value) -> Value:
        keywords = self.arguments.entries if isinstance(self.arguments, DictValue) else None
        function: Value = self.function
        if keywords:
            function = Partial(function, (), tuple((key, value) for key, value in keywords.items() if isinstance(key, str)))
        return call.run.call_at(call.place, function, (inputs,))
