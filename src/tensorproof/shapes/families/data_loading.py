"""Data of PyTorch: sets of samples, and loaders that collate them into batches.

The rows of a batch are a symbol of role "batch" with the batch size as its greatest value, or exactly that many where the last
batch is full (or dropped).
"""

# Methods of described classes are rules: they receive the call.
# ruff: noqa: PLE0302

from __future__ import annotations

from collections.abc import Mapping

from tensorproof.rules.shapes.sample_counts import SAMPLE_COUNTS
from tensorproof.shapes import calls
from tensorproof.shapes.families.modules import write
from tensorproof.shapes.iteration import Stream, any_of, iterate
from tensorproof.shapes.joining import over_alternatives
from tensorproof.shapes.problems import Place
from tensorproof.shapes.rule_table import Call, Mismatch, native_class, shape_rule
from tensorproof.shapes.shape import Shape
from tensorproof.shapes.sizes import Polynomial, Size, bounds, same, symbol, unknown
from tensorproof.shapes.values import (
    UNKNOWN,
    DictValue,
    Instance,
    Library,
    ListValue,
    NativeObject,
    Slice,
    Tensor,
    Value,
    as_size,
)

Arguments = tuple[Value, ...]
Options = Mapping[str, Value]

#: First batches of no more samples than this are collated as they are.
MOST_FIRST_SAMPLES = 8


# -- samples and batches ----------------------------------------------------------------------------------------------


def sample_of(call: Call, data: Value) -> Value:
    """What any position of a set of samples holds."""
    if isinstance(data, Tensor):
        shape = data.shape
        return data.with_shape(Shape(shape.head[1:], shape.tail)) if shape.head else UNKNOWN
    if isinstance(data, tuple | ListValue):
        stream = iterate(call.run, data)
        return stream.element if stream.items is None else any_of(call.run, stream.items)
    if isinstance(data, Instance):
        method = calls.own_method(data, "__getitem__")
        if method is not None:
            return call.run.call_at(call.place, method, (unknown(0),))
        if calls.own_method(data, "__iter__") is not None:
            stream = iterate(call.run, data)
            return stream.element if stream.items is None else any_of(call.run, stream.items)
    if isinstance(data, Instance | NativeObject):
        return calls.call_native(call.run, call.place, data, "__getitem__", (unknown(0),), {})
    return UNKNOWN


def length_of(call: Call, data: Value) -> Size | None:
    """How many samples there are."""
    if isinstance(data, Tensor):
        return data.shape.head[0] if data.shape.head else None
    if isinstance(data, tuple):
        return len(data)
    if isinstance(data, ListValue):
        return as_size(data.length)
    if isinstance(data, Instance):
        method = calls.own_method(data, "__len__")
        if method is not None:
            return as_size(call.run.call_at(call.place, method, ()))
    if isinstance(data, Instance | NativeObject):
        return as_size(calls.call_native(call.run, call.place, data, "__len__", (), {}))
    return None


def batch_rows(length: Size | None, batch_size: Size | None, *, drops_last: bool, place: Place) -> Size:
    """How many samples a batch has."""
    if batch_size is None:
        return symbol("N", "batch", origin=place)
    if drops_last:
        return batch_size
    if isinstance(length, int) and isinstance(batch_size, int) and batch_size > 0:
        if length % batch_size == 0 and length > 0:
            return batch_size
        if 0 < length < batch_size:
            return length
    return symbol("N", "batch", 1, max(bounds(batch_size)[1], 1), origin=place)


def collated(value: Value, rows: Size) -> Value:
    """A batch of equal samples, as PyTorch's `default_collate` makes it."""
    if isinstance(value, Tensor):
        return Tensor(value.shape.preceded(rows), value.dtype, "torch", history=value.history)
    if isinstance(value, bool):
        return Tensor(Shape((rows,)), "bool", "torch")
    if isinstance(value, int | Polynomial):
        return Tensor(Shape((rows,)), "i64", "torch")
    if isinstance(value, float):
        return Tensor(Shape((rows,)), "f64", "torch")
    if isinstance(value, str):
        return ListValue(None, UNKNOWN, rows)
    if isinstance(value, tuple):
        return ListValue(tuple(_collated_any(part, rows) for part in value))
    if isinstance(value, ListValue) and value.items is not None:
        return ListValue(tuple(_collated_any(part, rows) for part in value.items))
    if isinstance(value, DictValue) and value.entries is not None:
        return DictValue({key: _collated_any(part, rows) for key, part in value.entries.items()})
    return UNKNOWN


def _collated_any(value: Value, rows: Size) -> Value:
    return over_alternatives(lambda part: collated(part, rows), value)


# -- sets of samples --------------------------------------------------------------------------------------------------


@native_class("torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "torch.utils.data.dataset.Dataset")
class Dataset:
    """The base of the program's own sets of samples."""


@native_class("torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset")
class TensorDataset:
    """Rows of several tensors side by side."""

    tensors: Arguments

    def setup(self, call: Call) -> Value:
        given = [tensor for tensor in self.tensors if isinstance(tensor, Tensor) and tensor.shape.head]
        for tensor in given[1:]:
            if same(tensor.shape.head[0], given[0].shape.head[0]) is False:
                message = (
                    f"the tensors of a TensorDataset need equally many rows, but {given[0].shape} has {given[0].shape.head[0]} "
                    f"and {tensor.shape} has {tensor.shape.head[0]}"
                )
                raise Mismatch(SAMPLE_COUNTS, message, tensors=(given[0], tensor))
        return None

    def __getitem__(self, call: Call, index: Value) -> Value:
        if isinstance(index, Slice):
            return UNKNOWN
        return tuple(sample_of(call, tensor) for tensor in self.tensors)

    def __len__(self, call: Call) -> Value:
        length = length_of(call, self.tensors[0]) if self.tensors else 0
        return UNKNOWN if length is None else length


@native_class("torch.utils.data.Subset", "torch.utils.data.dataset.Subset")
class Subset:
    """Some of the samples of another set."""

    dataset: Value
    indices: Value

    def __getitem__(self, call: Call, index: Value) -> Value:
        return sample_of(call, self.dataset)

    def __len__(self, call: Call) -> Value:
        length = length_of(call, self.indices)
        return UNKNOWN if length is None else length


@native_class("torch.utils.data.ConcatDataset", "torch.utils.data.ChainDataset")
class ConcatDataset:
    """Sets of samples one behind the other."""

    datasets: Value

    def _parts(self, call: Call) -> Arguments | None:
        return iterate(call.run, self.datasets).items

    def __getitem__(self, call: Call, index: Value) -> Value:
        parts = self._parts(call)
        return UNKNOWN if not parts else any_of(call.run, tuple(sample_of(call, part) for part in parts))

    def __len__(self, call: Call) -> Value:
        lengths = [length_of(call, part) for part in self._parts(call) or (UNKNOWN,)]
        known = [length for length in lengths if length is not None]
        return sum(known) if len(known) == len(lengths) else UNKNOWN


@shape_rule("torch.utils.data.random_split")
def random_split(call: Call, dataset: Value, lengths: Value, generator: Value = None) -> Value:
    """Parts of given lengths, or of given fractions (the first parts get what rounding leaves over)."""
    parts = iterate(call.run, lengths).items
    if parts is None:
        return ListValue(None, _part(call, dataset, UNKNOWN))
    total = length_of(call, dataset)
    if parts and all(isinstance(part, float | int) for part in parts) and any(isinstance(part, float) for part in parts):
        parts = _of_fractions([float(part) for part in parts if isinstance(part, float | int)], total)
    return ListValue(tuple(_part(call, dataset, part) for part in parts))


def _of_fractions(fractions: list[float], total: Size | None) -> Arguments:
    if not isinstance(total, int):
        return (UNKNOWN,) * len(fractions)
    counts = [int(total * fraction) for fraction in fractions]
    for position in range(total - sum(counts)):
        counts[position % len(counts)] += 1
    return tuple(counts)


def _part(call: Call, dataset: Value, length: Value) -> Value:
    indices = ListValue(None, unknown(0), UNKNOWN if as_size(length) is None else length)
    return call.run.call_at(call.place, Library("torch.utils.data.Subset"), (dataset, indices))


# -- loaders ----------------------------------------------------------------------------------------------------------


@native_class("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
class DataLoader:
    """Batches of a set of samples."""

    dataset: Value
    batch_size: Value = 1
    shuffle: Value = None
    sampler: Value = None
    batch_sampler: Value = None
    num_workers: Value = 0
    collate_fn: Value = None
    pin_memory: Value = False
    drop_last: Value = False
    options: Options
    #: Samples in a batch, once the loader is set up; unknown where samples come one by one.
    rows = UNKNOWN

    def setup(self, call: Call) -> Value:
        if self.batch_size is None and self.batch_sampler is None:
            return None
        size = as_size(self.batch_size) if self.batch_sampler is None else None
        all_samples = self.sampler is None and self.batch_sampler is None
        length = length_of(call, self.dataset) if all_samples else None
        write(call, rows=batch_rows(length, size, drops_last=self.drop_last is True, place=call.place))
        return None

    def __iter__(self, call: Call) -> Value:
        return Stream(None, self._batch(call), at_least_once=True)  # pyright: ignore[reportReturnType]

    def _batch(self, call: Call) -> Value:
        sample = sample_of(call, self.dataset)
        rows = as_size(self.rows)
        if rows is None:
            return sample
        if self.collate_fn is None:
            return _collated_any(sample, rows)
        first = self._first_samples(call, rows)
        if first is not None:
            call.run.call_at(call.place, self.collate_fn, (ListValue(first),))
        return call.run.call_at(call.place, self.collate_fn, (ListValue(None, sample, rows),))

    def _first_samples(self, call: Call, rows: Size) -> Arguments | None:
        """The samples of the first batch, where they are a few of the program's own in a fixed order: they may differ in size."""
        method = calls.own_method(self.dataset, "__getitem__")
        fixed = self.shuffle in (None, False) and self.sampler is None and self.batch_sampler is None
        if method is None or not fixed or not isinstance(rows, int) or rows > MOST_FIRST_SAMPLES:
            return None
        return tuple(call.run.call_at(call.place, method, (position,)) for position in range(rows))

    def __len__(self, call: Call) -> Value:
        length, size = length_of(call, self.dataset), as_size(self.batch_size)
        if self.sampler is not None or self.batch_sampler is not None or length is None or not isinstance(size, int) or size < 1:
            return unknown(0)
        return length // size if self.drop_last is True else (length + (size - 1)) // size


@shape_rule("torch.utils.data.default_collate", "torch.utils.data.dataloader.default_collate")
def default_collate(call: Call, batch: Value) -> Value:
    """A list of samples as one batch."""
    stream = iterate(call.run, batch)
    if stream.items is not None:
        return _collated_any(any_of(call.run, stream.items), len(stream.items)) if stream.items else UNKNOWN
    length = as_size(batch.length) if isinstance(batch, ListValue) else None
    return _collated_any(stream.element, unknown(0) if length is None else length)
