"""Functional models of Keras: what was computed from `keras.Input` is computed again on other data."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tensorproof.shapes import applying
from tensorproof.shapes.problems import Place
from tensorproof.shapes.run import Run
from tensorproof.shapes.sizes import Polynomial, Size, Symbol, substitute, symbols, unknown
from tensorproof.shapes.values import DictValue, FunctionValue, ListValue, Recipe, Tensor, Value


def flattened(value: Value) -> list[Value]:
    """The leaves of nested tuples, lists and dictionaries, in the order of Keras: that of sorted keys."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in flattened(part)]
    if isinstance(value, ListValue):
        return [value] if value.items is None else flattened(value.items)
    if isinstance(value, DictValue) and value.entries is not None:
        return [leaf for key in sorted(value.entries, key=str) for leaf in flattened(value.entries[key])]
    return [value]


def mapped(value: Value, function: Callable[[Value], Value]) -> Value:
    """The same structure with the function of each leaf."""
    if isinstance(value, tuple):
        return tuple(mapped(part, function) for part in value)
    if isinstance(value, ListValue) and value.items is not None:
        return ListValue(tuple(mapped(part, function) for part in value.items))
    if isinstance(value, DictValue) and value.entries is not None:
        return DictValue({key: mapped(part, function) for key, part in value.entries.items()})
    return function(value)


def input_name(tensor: Value) -> str | None:
    """The name of an input as the program gave it."""
    if isinstance(tensor, Tensor) and tensor.recipe is not None:
        name = dict(tensor.recipe.keywords).get("name")
        return name if isinstance(name, str) else None
    return None


class Replay:
    """One evaluation of a graph with other tensors in the places of its inputs."""

    def __init__(self, run: Run, place: Place, inputs: Mapping[int, Tensor], sizes: Mapping[Symbol, Size]) -> None:
        self._run = run
        self._place = place
        #: New tensors by the identity of those that they replace.
        self._known: dict[int, Value] = dict(inputs)
        self._sizes = dict(sizes)
        self._results: dict[int, tuple[Recipe, Value]] = {}
        self._kept: list[Tensor] = []

    def value(self, value: Value) -> Value:
        """What a value of the graph is now."""
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, tuple | ListValue | DictValue):
            return mapped(value, lambda leaf: self._tensor(leaf) if isinstance(leaf, Tensor) else self._size(leaf))
        return self._size(value)

    def _size(self, value: Value) -> Value:
        return substitute(value, self._sizes) if isinstance(value, Polynomial) else value

    def _tensor(self, tensor: Tensor) -> Value:
        found = self._known.get(id(tensor))
        if found is None:
            found = self._computed(tensor)
            self._known[id(tensor)] = found
            # Kept alive, so that no other tensor gets its identity.
            self._kept.append(tensor)
        return found

    def _computed(self, tensor: Tensor) -> Value:
        recipe = tensor.recipe
        depends = any(
            symbol in self._sizes for size in (*tensor.shape.head, *(tensor.shape.tail or ())) for symbol in symbols(size)
        )
        if recipe is None or recipe.name == "keras.Input":
            return tensor.with_shape(tensor.shape.map(lambda size: substitute(size, self._sizes))) if depends else tensor
        arguments = tuple(self.value(argument) for argument in recipe.arguments)
        keywords = {name: self.value(argument) for name, argument in recipe.keywords}
        if not depends and all(new is old for new, old in zip(arguments, recipe.arguments, strict=True)):
            return tensor
        place = recipe.place if inside_layer(self._run, recipe.place) else self._place
        result = applying.apply_rule(self._run, place, recipe.rule, recipe.name, arguments, keywords, recipe.receiver)  # pyright: ignore[reportArgumentType]
        if recipe.part is not None:
            parts = result.items if isinstance(result, ListValue) else result
            result = parts[recipe.part] if isinstance(parts, tuple) and recipe.part < len(parts) else None
        if isinstance(result, Tensor):
            return result
        return tensor.with_shape(tensor.shape.map(lambda size: substitute(size, self._sizes)))


def inside_layer(run: Run, place: Place) -> bool:
    """Whether a place is in a layer or model that the program defines: there Keras runs the user's own lines again."""
    for cls in run.classes:
        if any(base.startswith("keras.") for base in cls.library_bases):
            functions = [value for value in cls.slots.values() if isinstance(value, FunctionValue)]
            same_file = any(function.frame.module.file == place.file for function in functions)
            if same_file and cls.node.lineno <= place.line <= (cls.node.end_lineno or cls.node.lineno):
                return True
    return False


def sizes_given(declared: Tensor, given: Tensor) -> dict[Symbol, Size]:
    """What the symbols of an input stand for in the data given."""
    found: dict[Symbol, Size] = {}
    if declared.shape.rank is None:
        return found
    for position, size in enumerate(declared.shape.dims):
        if isinstance(size, Polynomial) and len(symbols(size)) == 1:
            (only,) = symbols(size)
            known = given.shape.rank is not None and position < given.shape.rank
            found[only] = given.shape.dims[position] if known else unknown()
    return found
