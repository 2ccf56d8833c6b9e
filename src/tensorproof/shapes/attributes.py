"""Attributes of values."""

from __future__ import annotations

import ast

from tensorproof.shapes import applying, calls, imports, python_types
from tensorproof.shapes.problems import Place
from tensorproof.shapes.rule_table import CLASSES, CONSTANTS, PROPERTIES, RULES
from tensorproof.shapes.run import Run
from tensorproof.shapes.values import (
    UNKNOWN,
    BoundMethod,
    Choice,
    ClassValue,
    DictValue,
    Frame,
    FunctionValue,
    Instance,
    Library,
    LocalModule,
    NativeObject,
    Results,
    Super,
    Tensor,
    TensorMethod,
    Value,
)

#: How the class of an array is called in the names of rules.
ARRAY_CLASSES = {
    "torch": "torch.Tensor",
    "numpy": "numpy.ndarray",
    "tf": "tf.Tensor",
    "keras": "keras.KerasTensor",
    "jax": "jax.Array",
}


def get_attribute(run: Run, frame: Frame, node: ast.expr, owner: Value, name: str) -> Value:
    """`owner.name`."""
    if isinstance(owner, Library):
        if owner.path.endswith("flags.FLAGS"):
            return run.graph.options.get(name, UNKNOWN)
        return library_member(owner.path, name)
    if isinstance(owner, Tensor):
        return _of_tensor(run, frame, node, owner, name)
    if isinstance(owner, Instance):
        return _of_instance(run, frame, node, owner, name)
    if isinstance(owner, NativeObject):
        return _of_native(run, owner, name)
    if isinstance(owner, Super):
        return _of_super(owner, name)
    if isinstance(owner, ClassValue):
        return _of_class(owner, name)
    if isinstance(owner, LocalModule):
        return imports.member(run, owner, name)
    if isinstance(owner, Results) and name in owner.names:
        return owner[owner.names.index(name)]
    return python_types.method(owner, name)


def library_member(path: str, name: str) -> Value:
    """Something inside a library: a constant, or a dotted name that a call may know."""
    full = imports.canonical(f"{path}.{name}")
    return CONSTANTS[full] if full in CONSTANTS else Library(full)


def _of_tensor(run: Run, frame: Frame, node: ast.expr, tensor: Tensor, name: str) -> Value:
    key = f"{ARRAY_CLASSES[tensor.framework]}.{name}"
    found = PROPERTIES.get(key)
    if found is not None:
        return applying.apply_rule(run, run.place(frame, node), found, key, (tensor,), {})
    if name in ("shape",):
        return UNKNOWN if tensor.shape.tail is not None else tensor.shape.dims
    return TensorMethod(tensor, name, _place_of_name(run, frame, node, name))


def _place_of_name(run: Run, frame: Frame, node: ast.expr, name: str) -> Place | None:
    """Where the last name of `owner.name` is written."""
    whole = run.place(frame, node)
    width = len(name.encode())
    if not isinstance(node, ast.Attribute):
        return None
    return Place(whole.file, whole.end_line, whole.end_column - width, whole.end_line, whole.end_column)


def _of_instance(run: Run, frame: Frame, node: ast.expr, instance: Instance, name: str) -> Value:
    if name in instance.slots:
        return instance.slots[name]
    if name == "__class__":
        return instance.cls
    if name == "__dict__":
        return DictValue(None)
    for entry in instance.cls.ancestors():
        if isinstance(entry, ClassValue):
            if name in entry.slots:
                return bound(run, frame, node, instance, entry.slots[name])
        elif entry.path in CLASSES:
            method = CLASSES[entry.path].method(name)
            if method is not None:
                return BoundMethod(instance, method)  # pyright: ignore[reportArgumentType]
            computed = CLASSES[entry.path].property(name)
            if computed is not None:
                return computed(CLASSES[entry.path].view(instance))
    return UNKNOWN


def bound(run: Run, frame: Frame, node: ast.expr, receiver: Value, value: Value) -> Value:
    """What a class attribute becomes when it is read from an instance."""
    if isinstance(value, FunctionValue):
        if value.binding == "property":
            return calls.call(run, frame, node, value, (receiver,), {})
        if value.binding == "static":
            return value
        if value.binding == "class":
            return BoundMethod(receiver.cls if isinstance(receiver, Instance) else receiver, value)
        return BoundMethod(receiver, value)
    return value


def _of_native(run: Run, owner: NativeObject, name: str) -> Value:
    if name in owner.slots:
        return owner.slots[name]
    computed = owner.cls.property(name)
    if computed is not None:
        return computed(owner.cls.view(owner))
    method = owner.cls.method(name)
    if method is not None:
        return BoundMethod(owner, method)  # pyright: ignore[reportArgumentType]
    return UNKNOWN


def _of_super(owner: Super, name: str) -> Value:
    instance = owner.instance
    cls = instance.cls if isinstance(instance, Instance) else owner.owner
    order = cls.ancestors()
    following = order[order.index(owner.owner) + 1 :] if owner.owner in order else order
    for entry in following:
        if isinstance(entry, ClassValue):
            if name in entry.slots:
                return BoundMethod(instance, entry.slots[name])
        elif entry.path in CLASSES:
            if name == "__init__":
                return BoundMethod(instance, entry)
            method = CLASSES[entry.path].method(name)
            if method is not None:
                return BoundMethod(instance, method)  # pyright: ignore[reportArgumentType]
    return UNKNOWN


def _of_class(cls: ClassValue, name: str) -> Value:
    if name == "__name__":
        return cls.name
    for entry in cls.ancestors():
        if isinstance(entry, ClassValue):
            if name in entry.slots:
                value = entry.slots[name]
                return BoundMethod(cls, value) if isinstance(value, FunctionValue) and value.binding == "class" else value
        elif f"{entry.path}.{name}" in RULES:
            return Library(f"{entry.path}.{name}")
        elif entry.path in CLASSES and name == "__init__":
            return entry
    return UNKNOWN


def set_attribute(run: Run, frame: Frame, node: ast.Attribute, owner: Value, name: str, value: Value) -> None:
    """`owner.name = value`."""
    if isinstance(owner, Instance | NativeObject | ClassValue):
        run.trail.write(owner, name, value)
    elif isinstance(owner, Choice):
        for part in owner.of:
            if isinstance(part, Instance | NativeObject):
                known = part.slots.get(name)
                run.trail.write(part, name, value if known is None else run.join(known, value))
    elif isinstance(owner, LocalModule):
        run.trail.write(owner.frame, name, value)
