"""`tf.data`: streams of elements, and how batches are made of them."""

# Methods of described classes are rules: they receive the call.
# ruff: noqa: PLE0302

from __future__ import annotations

import math

from tensorproof.rules.shapes.sample_counts import SAMPLE_COUNTS
from tensorproof.shapes.families.data_loading import batch_rows
from tensorproof.shapes.families.function_transforms import called
from tensorproof.shapes.families.trees import leaves, mapped
from tensorproof.shapes.iteration import Stream, any_of, iterate
from tensorproof.shapes.rule_table import CLASSES, Call, Mismatch, NotKnown, as_tensor, native_class, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Size, same, unknown
from tensorproof.shapes.values import UNKNOWN, Instance, Iterator, ListValue, NativeObject, Tensor, Unknown, Value, as_size

Options = dict[str, Value]


def dataset(call: Call, element: Value, length: Value = UNKNOWN) -> NativeObject:
    """A stream of equal elements; its length may be infinite (`math.inf`)."""
    return NativeObject(CLASSES["tf.data.Dataset"], call.place, element=element, length=length)


def element_of(value: Value) -> Value:
    """What a `tf.data.Dataset` yields; None if the value is none."""
    return value.slots["element"] if isinstance(value, NativeObject) and value.cls is CLASSES["tf.data.Dataset"] else None


def _as_tensors(value: Value) -> Value:
    """Lists become tensors; tuples and dictionaries stay."""

    def convert(leaf: Value) -> Value:
        try:
            return as_tensor(leaf, "tf")
        except NotKnown:
            return UNKNOWN

    if isinstance(value, ListValue):
        return convert(value)
    if isinstance(value, tuple):
        return tuple(_as_tensors(part) for part in value)
    return mapped(lambda leaf: _of_tensorflow(leaf) if isinstance(leaf, Tensor) else convert(leaf), value)


def _of_tensorflow(tensor: Tensor) -> Tensor:
    return Tensor(tensor.shape, tensor.dtype, "tf", history=tensor.history)


def _row(leaf: Value) -> Value:
    if not isinstance(leaf, Tensor) or not leaf.shape.head:
        return UNKNOWN
    return leaf.with_shape(Shape(leaf.shape.head[1:], leaf.shape.tail))


@native_class("tf.data.Dataset")
class Dataset:
    """A stream of elements."""

    element: Value
    length: Value

    def _count(self) -> Size | None:
        return None if self.length == math.inf else as_size(self.length)

    def batch(self, call: Call, batch_size: Value, drop_remainder: Value = False, *arguments: Value, **options: Value) -> Value:
        size, length = as_size(batch_size), self._count()
        endless = self.length == math.inf
        rows = batch_rows(length, size, drops_last=drop_remainder is True or endless, place=call.place)
        element = mapped(
            lambda leaf: leaf.with_shape(leaf.shape.preceded(rows)) if isinstance(leaf, Tensor) else UNKNOWN, self.element
        )
        return dataset(call, element, math.inf if endless else _batches(length, size, drops_last=drop_remainder is True))

    def padded_batch(self, call: Call, batch_size: Value, *arguments: Value, **options: Value) -> Value:
        size = as_size(batch_size)
        rows = batch_rows(self._count(), size, drops_last=options.get("drop_remainder") is True, place=call.place)

        def padded(leaf: Value) -> Value:
            if not isinstance(leaf, Tensor) or leaf.shape.rank is None:
                return UNKNOWN
            return leaf.with_shape(Shape((rows, *(unknown(0) for _ in leaf.shape.dims))))

        return dataset(call, mapped(padded, self.element))

    def map(self, call: Call, map_func: Value, *arguments: Value, **options: Value) -> Value:
        parts = self.element if type(self.element) is tuple else (self.element,)
        return dataset(call, _as_tensors(called(call, map_func, parts)), self.length)

    def shuffle(self, call: Call, *arguments: Value, **options: Value) -> Value:
        return call.receiver

    prefetch = cache = with_options = shuffle

    def repeat(self, call: Call, count: Value = None, name: Value = None) -> Value:
        times = -1 if count is None else as_size(count)
        length = self._count()
        if times == -1:
            return dataset(call, self.element, math.inf)
        return dataset(call, self.element, UNKNOWN if times is None or length is None else times * length)

    def take(self, call: Call, count: Value, name: Value = None) -> Value:
        number, length = as_size(count), self._count()
        if not isinstance(number, int) or number < 0:
            return dataset(call, self.element)
        known = number if self.length == math.inf else min(number, length) if isinstance(length, int) else UNKNOWN
        return dataset(call, self.element, known)

    def skip(self, call: Call, count: Value, name: Value = None) -> Value:
        number, length = as_size(count), self._count()
        if not isinstance(number, int) or not isinstance(length, int) or number < 0:
            return dataset(call, self.element)
        return dataset(call, self.element, max(length - number, 0))

    def filter(self, call: Call, predicate: Value, name: Value = None) -> Value:
        parts = self.element if type(self.element) is tuple else (self.element,)
        called(call, predicate, parts)
        return dataset(call, self.element)

    def shard(self, call: Call, *arguments: Value, **options: Value) -> Value:
        return dataset(call, self.element)

    def unbatch(self, call: Call, name: Value = None) -> Value:
        return dataset(call, mapped(_row, self.element))

    def concatenate(self, call: Call, dataset: Value, name: Value = None) -> Value:
        return _joined(call, self.element, element_of(dataset))

    def enumerate(self, call: Call, start: Value = 0, name: Value = None) -> Value:
        return dataset(call, (Tensor(Shape(()), "i64", "tf"), self.element), self.length)

    def apply(self, call: Call, transformation_func: Value) -> Value:
        return called(call, transformation_func, (call.receiver,))

    def flat_map(self, call: Call, map_func: Value, *arguments: Value, **options: Value) -> Value:
        parts = self.element if type(self.element) is tuple else (self.element,)
        inner = element_of(called(call, map_func, parts))
        return dataset(call, UNKNOWN if inner is None else inner)

    interleave = flat_map

    def window(self, call: Call, *arguments: Value, **options: Value) -> Value:
        return dataset(call, UNKNOWN)

    def as_numpy_iterator(self, call: Call) -> Value:
        convert = mapped(
            lambda leaf: Tensor(leaf.shape, leaf.dtype, "numpy") if isinstance(leaf, Tensor) else UNKNOWN, self.element
        )
        return Iterator(None, convert)

    def make_one_shot_iterator(self, call: Call) -> Value:
        return NativeObject(CLASSES["tf.data.Iterator"], call.place, element=self.element)

    make_initializable_iterator = make_one_shot_iterator

    def cardinality(self, call: Call) -> Value:
        return Tensor(Shape(()), "i64", "tf", content=self._count())

    def __iter__(self, call: Call) -> Value:
        count = self._count()
        return Stream(None, self.element, at_least_once=count != 0)  # pyright: ignore[reportReturnType]

    def __len__(self, call: Call) -> Value:
        count = self._count()
        return unknown(0) if count is None else count

    @property
    def element_spec(self) -> Value:
        return self.element


def _batches(length: Size | None, size: Size | None, *, drops_last: bool) -> Value:
    if length is None or not isinstance(size, int) or size < 1:
        return UNKNOWN
    return length // size if drops_last else (length + (size - 1)) // size


def _joined(call: Call, left: Value, right: Value) -> Value:
    return dataset(call, UNKNOWN if right is None else any_of(call.run, (left, right)))


@native_class("tf.data.Iterator")
class GraphIterator:
    """An iterator of TensorFlow 1: `get_next` is an operation of the graph."""

    element: Value
    initializer = UNKNOWN

    def get_next(self, call: Call, name: Value = None) -> Value:
        return self.element


@shape_rule("tf.data.make_one_shot_iterator", "tf.data.make_initializable_iterator")
def make_iterator(call: Call, dataset: Value, shared_name: Value = None) -> Value:
    """The same as a function."""
    element = element_of(dataset)
    return UNKNOWN if element is None else NativeObject(CLASSES["tf.data.Iterator"], call.place, element=element)


@shape_rule("tf.data.Dataset.from_tensor_slices")
def from_tensor_slices(call: Call, tensors: Value, name: Value = None) -> Value:
    """Rows of all tensors side by side."""
    parts = _as_tensors(tensors)
    found = [leaf for leaf in leaves(parts) or () if isinstance(leaf, Tensor)]
    rows = [leaf.shape.head[0] for leaf in found if leaf.shape.head]
    for leaf, count in zip((leaf for leaf in found if leaf.shape.head), rows, strict=True):
        if same(count, rows[0]) is False:
            message = f"slices of {found[0].shape} and {leaf.shape}: {rows[0]} rows meet {count}"
            raise Mismatch(SAMPLE_COUNTS, message, tensors=(found[0], leaf))
    return dataset(call, mapped(_row, parts), rows[0] if rows else UNKNOWN)


@shape_rule("tf.data.Dataset.from_tensors")
def from_tensors(call: Call, tensors: Value, name: Value = None) -> Value:
    """One element."""
    return dataset(call, _as_tensors(tensors), 1)


@shape_rule("tf.data.Dataset.range")
def from_range(call: Call, *ends: Value, **options: Value) -> Value:
    """Numbers."""
    numbers = [as_size(end) for end in ends]
    known = [number for number in numbers if isinstance(number, int)]
    length: Value = len(range(*known)) if len(known) == len(numbers) and known else UNKNOWN
    return dataset(call, Tensor(Shape(()), "i64", "tf"), length)


@shape_rule("tf.data.Dataset.zip")
def zipped(call: Call, *datasets: Value, **options: Value) -> Value:
    """Elements of several streams side by side."""
    given = datasets[0] if len(datasets) == 1 and isinstance(datasets[0], tuple) else datasets
    elements = tuple(element_of(part) for part in given)
    if any(element is None for element in elements):
        return UNKNOWN
    lengths = {part.slots["length"] for part in given if isinstance(part, NativeObject) and isinstance(part.slots["length"], int)}
    return dataset(call, elements, lengths.pop() if len(lengths) == 1 else UNKNOWN)


@shape_rule("tf.data.Dataset.from_generator")
def from_generator(
    call: Call,
    generator: Value,
    output_types: Value = None,
    output_shapes: Value = None,
    args: Value = None,
    output_signature: Value = None,
    **options: Value,
) -> Value:
    """Elements as they are declared."""
    if output_signature is None:
        return dataset(call, UNKNOWN)
    return dataset(call, mapped(_of_spec, output_signature))


def _of_spec(spec: Value) -> Value:
    held = spec.slots.get("tensor") if isinstance(spec, NativeObject | Instance) else None
    if isinstance(held, Tensor):
        return held
    return spec if isinstance(spec, Tensor) else UNKNOWN


@shape_rule("tf.data.TFRecordDataset", "tf.data.TextLineDataset", "tf.data.Dataset.list_files")
def from_files(call: Call, *arguments: Value, **options: Value) -> Value:
    """Texts."""
    return dataset(call, Tensor(Shape(()), "", "tf"))


@shape_rule("keras.utils.image_dataset_from_directory", "keras.preprocessing.image_dataset_from_directory")
def images_from_directory(
    call: Call,
    directory: Value,
    *arguments: Value,
    label_mode: Value = "int",
    color_mode: Value = "rgb",
    batch_size: Value = 32,
    image_size: Value = (256, 256),
    **options: Value,
) -> Value:
    """Pictures of one size and their labels, in batches."""
    sizes = [as_size(size) for size in iterate(call.run, image_size).items or ()]
    channels = {"rgb": 3, "grayscale": 1, "rgba": 4}.get(color_mode) if isinstance(color_mode, str) else None
    if arguments or len(sizes) != 2 or None in sizes or channels is None or isinstance(batch_size, Unknown) or batch_size is None:
        return UNKNOWN
    rows = batch_rows(None, as_size(batch_size), drops_last=False, place=call.place)
    pictures = Tensor(Shape((rows, *(size for size in sizes if size is not None), channels)), "f32", "tf")
    if label_mode is None:
        return dataset(call, pictures)
    label = {"int": Shape((rows,)), "binary": Shape((rows, 1)), "categorical": Shape((rows, unknown()))}.get(str(label_mode))
    return dataset(call, (pictures, UNKNOWN if label is None else Tensor(label, "f32", "tf")))
