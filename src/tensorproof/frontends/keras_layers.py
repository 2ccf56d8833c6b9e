"""The layers that operators of a Keras model come from: the path of the call, `functional/encoder/dense_1`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram

#: Entered around the call of each layer, with its path.
Around = Callable[[str], AbstractContextManager[Any]]

#: What operators of PyTorch are marked with.
_MARK = "keras layer"


@contextmanager
def following_layers(around: Around) -> Generator[None]:
    """Enter a context around every call of a layer or a loss, models included, with the names of what leads to it.

    A loss that no layer calls is that of a compiled model.
    """
    import keras

    bases: tuple[Any, ...] = (keras.Layer, keras.Loss)
    originals = [base.__call__ for base in bases]
    names: list[str] = []

    def followed(original: Any) -> Any:
        @functools.wraps(original)
        def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
            is_loss = isinstance(layer, keras.Loss) and not names
            names.append(f"compile_loss/{layer.name}" if is_loss else str(layer.name))
            try:
                with around("/".join(names)):
                    return original(layer, *args, **kwargs)
            finally:
                names.pop()

        return call

    for base, original in zip(bases, originals):
        base.__call__ = followed(original)
    try:
        yield
    finally:
        for base, original in zip(bases, originals):
            base.__call__ = original


class TensorflowLayers:
    """The layer of each operator of TensorFlow that was made while layers were called."""

    def __init__(self) -> None:
        # Graphs are kept: what is looked up by their identity has to live.
        self._graphs: list[Any] = []
        self._paths: dict[tuple[int, str], str] = {}

    @contextmanager
    def __call__(self, path: str) -> Generator[None]:
        """Operators that the graph of the moment gets belong to this layer, unless to one that it called."""
        import tensorflow as tf

        graph: Any = tf.compat.v1.get_default_graph()
        self._graphs.append(graph)
        before = len(graph.get_operations())
        yield
        for operation in graph.get_operations()[before:]:
            self._paths.setdefault((id(graph), operation.name), path)

    def of(self, graph: Any) -> Mapping[str, str]:
        """The layers of the operators of one graph, by name."""
        return {name: path for (number, name), path in self._paths.items() if number == id(graph)}

    def scopes(self, graph: Any) -> Mapping[str, str]:
        """The same, with the name scopes that operators stand in."""
        found = dict(self.of(graph))
        for name, path in list(found.items()):
            found.setdefault(name.rpartition("/")[0], path)
        return found


def differentiated_layer(name: str, places: Mapping[str, str]) -> str | None:
    """The layer whose operator a node of the gradients differentiates: `gradient_tape/model/dense/MatMul/MatMul_1`."""
    _, found, inner = name.rpartition("gradient_tape/")
    while found and inner:
        if inner in places:
            return places[inner]
        inner = inner.rpartition("/")[0]
    return None


@contextmanager
def marked_for_torch(path: str) -> Generator[None]:
    """Operators that torch traces here are marked with their layer."""
    import torch.fx.traceback as traces

    with traces.annotate({_MARK: path}):
        yield


def torch_layers(program: ExportedProgram) -> dict[str, str]:
    """The layers of the operators of an exported program, by name."""
    marks = ((node.name, node.meta.get("custom")) for node in program.graph.nodes)
    return {name: mark[_MARK] for name, mark in marks if isinstance(mark, dict) and _MARK in mark}


@contextmanager
def keeping_marks() -> Generator[None]:
    """Let torch keep marks with what it traces."""
    import torch.fx.traceback as traces

    with traces.preserve_node_meta():
        yield
