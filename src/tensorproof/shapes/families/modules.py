"""Containers of layers: `nn.Module`, `nn.Sequential`, `nn.ModuleList` and their kin."""

from __future__ import annotations

from tensorproof.shapes import calls
from tensorproof.shapes.iteration import Stream
from tensorproof.shapes.rule_table import Call, native_class
from tensorproof.shapes.values import (
    UNKNOWN,
    DictValue,
    Instance,
    Iterator,
    ListValue,
    NativeObject,
    Slice,
    Value,
    as_size,
)

Arguments = tuple[Value, ...]


@native_class("torch.nn.Module")
class Module:
    """The base of all models. Subclasses are called through `forward`."""

    calls = "forward"

    def to(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        return call.receiver

    cuda = cpu = eval = train = half = float = double = requires_grad_ = apply = compile = bfloat16 = type = share_memory = to

    def parameters(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        return Iterator(None, UNKNOWN)

    named_parameters = children = modules = named_children = named_modules = buffers = parameters

    def register_buffer(self, call: Call, name: str, tensor: Value, persistent: Value = True) -> Value:
        assert isinstance(call.receiver, Instance | NativeObject)
        call.run.trail.write(call.receiver, name, tensor)
        return None

    register_parameter = add_module = register_module = register_buffer


@native_class("torch.nn.Sequential")
class Sequential(Module):
    """Layers in a row; an OrderedDict of them is taken, too."""

    layers: Arguments

    def __call__(self, call: Call, input: Value) -> Value:
        value = input
        for layer in _entries(self.layers):
            value = _applied(call, layer, value)
        return value

    def append(self, call: Call, module: Value) -> Value:
        assert isinstance(call.receiver, Instance | NativeObject)
        call.run.trail.write(call.receiver, "layers", (*_entries(self.layers), module))
        return call.receiver

    def add_module(self, call: Call, name: Value, module: Value) -> Value:
        return self.append(call, module)

    def __iter__(self, call: Call) -> Value:
        return Stream(_entries(self.layers))  # pyright: ignore[reportReturnType]

    def __len__(self) -> int:
        return len(_entries(self.layers))

    def __getitem__(self, call: Call, index: Value) -> Value:
        entries = _entries(self.layers)
        if isinstance(index, Slice):
            ends = [None if end is None else as_size(end) for end in (index.start, index.stop, index.step)]
            if not all(end is None or isinstance(end, int) for end in ends):
                return UNKNOWN
            assert isinstance(call.receiver, NativeObject)
            return NativeObject(call.receiver.cls, call.place, layers=entries[slice(*ends)])
        position = as_size(index)
        return entries[position] if isinstance(position, int) and -len(entries) <= position < len(entries) else UNKNOWN


def _entries(layers: Arguments) -> Arguments:
    if len(layers) == 1 and isinstance(layers[0], DictValue):
        return tuple((layers[0].entries or {}).values())
    return layers


def _applied(call: Call, layer: Value, value: Value) -> Value:
    """Apply one layer at the place of the whole call."""
    if isinstance(layer, NativeObject):
        return calls.call_native(call.run, call.place, layer, "__call__", (value,), {})
    return call.run.call_at(call.place, layer, (value,))


@native_class("torch.nn.ModuleList", "torch.nn.ParameterList")
class ModuleList(Module):
    """A list of layers that is not called itself."""

    modules: Value = None

    def setup(self, call: Call) -> Value:
        assert isinstance(call.receiver, Instance | NativeObject)
        values = self.modules
        held = values if isinstance(values, ListValue) else ListValue(None) if values is not None else ListValue(())
        if isinstance(values, Iterator | tuple):
            items = values if isinstance(values, tuple) else values.slots["items"]
            held = ListValue(items, UNKNOWN if isinstance(values, tuple) else values.slots["element"])
        call.run.trail.write(call.receiver, "held", held)
        return None

    held = ListValue(())

    def append(self, call: Call, module: Value) -> Value:
        if self.held.items is not None:
            call.run.trail.write(self.held, "items", (*self.held.items, module))
        return call.receiver

    def extend(self, call: Call, modules: Value) -> Value:
        from tensorproof.shapes.iteration import iterate

        added = iterate(call.run, modules).items
        known = self.held.items is not None and added is not None
        call.run.trail.write(self.held, "items", (*(self.held.items or ()), *(added or ())) if known else None)
        return call.receiver

    def __iter__(self, call: Call) -> Value:
        return Stream(self.held.items, self.held.element)  # pyright: ignore[reportReturnType]

    def __len__(self) -> Value:
        return self.held.length

    def __getitem__(self, call: Call, index: Value) -> Value:
        items = self.held.items
        position = None if isinstance(index, Slice) else as_size(index)
        if items is None or not isinstance(position, int) or not -len(items) <= position < len(items):
            if isinstance(index, Slice) and items is not None:
                ends = [None if end is None else as_size(end) for end in (index.start, index.stop, index.step)]
                if all(end is None or isinstance(end, int) for end in ends):
                    return ListValue(items[slice(*ends)])
            from tensorproof.shapes.iteration import any_of

            return any_of(call.run, items) if items else self.held.element
        return items[position]


@native_class("torch.nn.ModuleDict", "torch.nn.ParameterDict")
class ModuleDict(Module):
    """Layers by name."""

    modules: Value = None

    def __getitem__(self, call: Call, key: Value) -> Value:
        entries = self.modules.entries if isinstance(self.modules, DictValue) else None
        return entries.get(key, UNKNOWN) if entries is not None and isinstance(key, str) else UNKNOWN

    def items(self, call: Call) -> Value:
        entries = self.modules.entries if isinstance(self.modules, DictValue) else None
        return ListValue(None if entries is None else tuple(entries.items()))

    def values(self, call: Call) -> Value:
        entries = self.modules.entries if isinstance(self.modules, DictValue) else None
        return ListValue(None if entries is None else tuple(entries.values()))

    def keys(self, call: Call) -> Value:
        entries = self.modules.entries if isinstance(self.modules, DictValue) else None
        return ListValue(None if entries is None else tuple(entries))
