"""Containers of layers: `nn.Module`, `nn.Sequential`, `nn.ModuleList` and their kin."""

# Methods of described classes are rules: they receive the call.
# ruff: noqa: PLE0302

from __future__ import annotations

from tensorproof.shapes import calls
from tensorproof.shapes.iteration import Stream, any_of, iterate
from tensorproof.shapes.problems import Edit, Related
from tensorproof.shapes.rule_table import CLASSES, Call, native_class, passes_alternatives_on, shape_rule
from tensorproof.shapes.shape import ANY_SHAPE, Shape
from tensorproof.shapes.sizes import Size
from tensorproof.shapes.values import (
    UNKNOWN,
    DictValue,
    Instance,
    Iterator,
    ListValue,
    NativeObject,
    Slice,
    Tensor,
    Value,
    as_size,
)

Arguments = tuple[Value, ...]


def origin(call: Call) -> tuple[Related, ...]:
    """Where the layer that is called was made."""
    return (Related(call.receiver.place, "the layer is made here"),) if isinstance(call.receiver, NativeObject) else ()


def correction(call: Call, parameter: str, size: Size) -> tuple[Edit, ...]:
    """The edit that gives a parameter of the called layer the right number, if the program wrote it as a number."""
    place = call.receiver.literals.get(parameter) if isinstance(call.receiver, NativeObject) else None
    return () if place is None or not isinstance(size, int) else (Edit(f"{parameter} should be {size}", place, str(size)),)


def write(call: Call, **fields: Value) -> None:
    """Set fields of the object whose method is called."""
    assert isinstance(call.receiver, Instance | NativeObject)
    for name, value in fields.items():
        call.run.trail.write(call.receiver, name, value)


def parameter(*sizes: Size) -> Tensor:
    """A tensor of weights."""
    return Tensor(Shape(sizes), "f32", "torch", kind="parameter")


def apply_layer(call: Call, layer: Value, *values: Value) -> Value:
    """Apply a layer, or any function, at the place of the call that contains it."""
    if isinstance(layer, NativeObject):
        return calls.call_native(call.run, call.place, layer, "__call__", values, {})
    return call.run.call_at(call.place, layer, values)


@native_class("torch.nn.Module")
class Module:
    """The base of all models. Subclasses are called through `forward`."""

    calls = "forward"

    def to(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        return call.receiver

    cuda = cpu = eval = train = half = float = double = requires_grad_ = apply = compile = bfloat16 = type = share_memory = to

    @passes_alternatives_on
    def forward(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        assert isinstance(call.receiver, Instance | NativeObject)
        return calls.call_native(call.run, call.place, call.receiver, "__call__", arguments, keywords)

    def parameters(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        return Iterator(None, Tensor(ANY_SHAPE, "", "torch", contiguous=None, kind="parameter"))

    def named_parameters(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        return Iterator(None, UNKNOWN)

    children = modules = named_children = named_modules = buffers = named_buffers = named_parameters

    def state_dict(self, call: Call, *arguments: Value, **keywords: Value) -> Value:
        return UNKNOWN

    load_state_dict = zero_grad = register_forward_hook = register_forward_pre_hook = register_full_backward_hook = state_dict

    def register_buffer(self, call: Call, name: str, tensor: Value, persistent: Value = True) -> Value:
        write(call, **{name: tensor})
        return None

    register_parameter = add_module = register_module = register_buffer


@shape_rule(
    "torch.nn.LazyLinear",
    *(f"torch.nn.Lazy{kind}{axes}d" for kind in ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm") for axes in (1, 2, 3)),
)
def lazy_layer(call: Call, *arguments: Value, **options: Value) -> Value:
    """A layer whose first input decides on the first parameter: it is left open."""
    cls = CLASSES[call.name.replace("Lazy", "")]
    layer = NativeObject(cls, call.place)
    understood = calls.construct_native(call.run, call.place, cls, layer, (UNKNOWN, *arguments), options)
    return layer if understood else UNKNOWN


@native_class("torch.nn.Sequential")
class Sequential(Module):
    """Layers in a row; an OrderedDict of them is taken, too."""

    _modules: Arguments

    @passes_alternatives_on
    def __call__(self, call: Call, input: Value) -> Value:
        value = input
        for layer in self._entries(call):
            value = apply_layer(call, layer, value)
        return value

    def setup(self, call: Call) -> Value:
        given = self._modules
        if len(given) == 1 and isinstance(given[0], DictValue):
            entries = given[0].entries
            write(call, _modules=(UNKNOWN,) if entries is None else tuple(entries.values()))
        return None

    def _entries(self, call: Call) -> Arguments:
        """The layers; attributes of an object of a subclass are layers, too."""
        if not isinstance(call.receiver, Instance):
            return self._modules
        attributes = call.receiver.slots.values()
        return (*self._modules, *(value for value in attributes if isinstance(value, NativeObject | Instance)))

    def append(self, call: Call, module: Value) -> Value:
        write(call, _modules=(*self._modules, module))
        return call.receiver

    def add_module(self, call: Call, name: Value, module: Value) -> Value:
        return self.append(call, module)

    def extend(self, call: Call, modules: Value) -> Value:
        added = iterate(call.run, modules).items
        write(call, _modules=(*self._modules, *((UNKNOWN,) if added is None else added)))
        return call.receiver

    def insert(self, call: Call, index: int, module: Value) -> Value:
        entries = list(self._modules)
        entries.insert(index, module)
        write(call, _modules=tuple(entries))
        return call.receiver

    def __iter__(self, call: Call) -> Value:
        return Stream(self._entries(call))  # pyright: ignore[reportReturnType]

    def children(self, call: Call) -> Value:
        return Iterator(self._entries(call))

    def __len__(self, call: Call) -> int:
        return len(self._entries(call))

    def __getitem__(self, call: Call, index: Value) -> Value:
        entries = self._entries(call)
        if isinstance(index, Slice):
            chosen = _sliced(entries, index)
            assert isinstance(call.receiver, NativeObject | Instance)
            cls = calls.native_class_of(call.receiver)
            return UNKNOWN if chosen is None or cls is None else NativeObject(cls, call.place, _modules=chosen)
        position = as_size(index)
        return entries[position] if isinstance(position, int) and -len(entries) <= position < len(entries) else UNKNOWN

    def __setitem__(self, call: Call, index: int, module: Value) -> Value:
        entries = list(self._modules)
        if -len(entries) <= index < len(entries):
            entries[index] = module
        write(call, _modules=tuple(entries))
        return None


def _sliced(entries: Arguments, index: Slice) -> Arguments | None:
    """Several entries; None if it is not known which."""
    ends = [None if end is None else as_size(end) for end in (index.start, index.stop, index.step)]
    numbers = [end for end in ends if end is None or isinstance(end, int)]
    return entries[slice(*numbers)] if len(numbers) == len(ends) else None


@native_class("torch.nn.ModuleList", "torch.nn.ParameterList")
class ModuleList(Module):
    """A list of layers that is not called itself."""

    _modules: Value = None
    held = ListValue(())

    def setup(self, call: Call) -> Value:
        stream = Stream(()) if self._modules is None else iterate(call.run, self._modules)
        write(call, held=ListValue(stream.items, stream.element))
        return None

    def append(self, call: Call, module: Value) -> Value:
        if self.held.items is not None:
            call.run.trail.write(self.held, "items", (*self.held.items, module))
        return call.receiver

    def extend(self, call: Call, modules: Value) -> Value:
        added = iterate(call.run, modules).items
        known = self.held.items is not None and added is not None
        call.run.trail.write(self.held, "items", (*(self.held.items or ()), *(added or ())) if known else None)
        return call.receiver

    def insert(self, call: Call, index: int, module: Value) -> Value:
        if self.held.items is not None:
            items = list(self.held.items)
            items.insert(index, module)
            call.run.trail.write(self.held, "items", tuple(items))
        return None

    def __iter__(self, call: Call) -> Value:
        return Stream(self.held.items, self.held.element)  # pyright: ignore[reportReturnType]

    def __len__(self) -> Value:
        return self.held.length

    def __getitem__(self, call: Call, index: Value) -> Value:
        items = self.held.items
        if isinstance(index, Slice):
            chosen = None if items is None else _sliced(items, index)
            return ListValue(chosen, self.held.element)
        position = as_size(index)
        if items is None or not isinstance(position, int) or not -len(items) <= position < len(items):
            return any_of(call.run, items) if items else self.held.element
        return items[position]

    def __setitem__(self, call: Call, index: int, module: Value) -> Value:
        items = self.held.items
        if items is not None and -len(items) <= index < len(items):
            position = index % len(items)
            call.run.trail.write(self.held, "items", (*items[:position], module, *items[position + 1 :]))
        return None


@native_class("torch.nn.ModuleDict", "torch.nn.ParameterDict")
class ModuleDict(Module):
    """Layers by name."""

    _modules: Value = None
    held = DictValue({})

    def setup(self, call: Call) -> Value:
        given = self._modules
        entries = {} if given is None else given.entries if isinstance(given, DictValue) else None
        write(call, held=DictValue(None if entries is None else dict(entries)))
        return None

    def __getitem__(self, call: Call, key: Value) -> Value:
        entries = self.held.entries
        if entries is None or not entries:
            return UNKNOWN
        return entries.get(key, UNKNOWN) if isinstance(key, str) else any_of(call.run, tuple(entries.values()))

    def __setitem__(self, call: Call, key: Value, module: Value) -> Value:
        known = self.held.entries is not None and isinstance(key, str)
        call.run.trail.write(self.held, "entries", {**(self.held.entries or {}), key: module} if known else None)
        return None

    add_module = __setitem__

    def update(self, call: Call, modules: Value) -> Value:
        added = modules.entries if isinstance(modules, DictValue) else None
        known = self.held.entries is not None and added is not None
        call.run.trail.write(self.held, "entries", {**(self.held.entries or {}), **(added or {})} if known else None)
        return None

    def __iter__(self, call: Call) -> Value:
        entries = self.held.entries
        return Stream(None if entries is None else tuple(entries))  # pyright: ignore[reportReturnType]

    def __len__(self) -> Value:
        return UNKNOWN if self.held.entries is None else len(self.held.entries)

    def items(self, call: Call) -> Value:
        entries = self.held.entries
        return ListValue(None if entries is None else tuple(entries.items()))

    def values(self, call: Call) -> Value:
        entries = self.held.entries
        return ListValue(None if entries is None else tuple(entries.values()))

    def keys(self, call: Call) -> Value:
        entries = self.held.entries
        return ListValue(None if entries is None else tuple(entries))
