"""`TensorflowModel`: a graph file, a SavedModel or a live function of TensorFlow, with our graph of it and what runs it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorproof.assumptions import Domain
from tensorproof.errors import AssumptionError, ModelError
from tensorproof.frontends.framework_model import Arrays, FrameworkModel, FrameworkRunner, ReadingOptions
from tensorproof.frontends.input_declarations import InputDeclaration, about
from tensorproof.frontends.tensorflow_files import read_graph
from tensorproof.frontends.tensorflow_graph import TranslatedGraph, translated
from tensorproof.frontends.tensorflow_inlining import inlined
from tensorproof.frontends.tensorflow_live import live_graph
from tensorproof.frontends.tensorflow_raising import raised
from tensorproof.frontends.tensorflow_records import Reference, Signature, TensorflowGraph
from tensorproof.frontends.user_frames import described_failure

if TYPE_CHECKING:
    from tensorproof.findings import Finding


#: Operators of control flow of version 1.
_OLD_CONTROL_FLOW = frozenset({"Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter"})

#: The name of what a live function computes, among the signatures of its graph.
_FUNCTION = "function"


class TensorflowModel(FrameworkModel):
    """A model of TensorFlow. `graph` are the records that are both analysed and run: without calls."""

    framework = "TensorFlow"
    target = "tensorflow-cpu"
    reassociates = True

    def __init__(
        self,
        graph: TensorflowGraph,
        found: TranslatedGraph,
        path: str | None,
        options: ReadingOptions,
        domains: Mapping[str, Domain] | None = None,
    ) -> None:
        self.graph = graph
        self.found = found
        self.model = found.model
        self.domains = {**found.domains, **(domains or {})}
        self.trainable = found.trainable
        self.partners = found.partners
        self.path = path
        self.options = options
        self.notes = tuple(dict.fromkeys((*found.notes, *_about_weights(found))))

    def runner(self, *, time_limit: float | None = None) -> AbstractContextManager[FrameworkRunner]:
        """A process with TensorFlow in it."""
        from tensorproof.execute.tensorflow_graph import TensorflowRunner

        return TensorflowRunner(self, time_limit=time_limit)

    def operators(self) -> Mapping[str, str]:
        """TensorFlow's operators by the names of our nodes, those of functions aside."""
        found = {node.name: node.op for node in self.graph.nodes}
        return {name: found[origin] for name, origin in self.found.origins.items() if origin in found}

    def kept(self) -> Arrays:
        """The values of variables."""
        values = self.graph.values
        return {name: values[reference.node] for name, reference in self.found.fed.items() if reference.node in values}

    def script(self, finding: Finding, names: Sequence[str], arrays: Path) -> str:
        """A program that loads the graph in TensorFlow and feeds the arrays."""
        from tensorproof.execute.tensorflow_graph import replay_script

        return replay_script(self, finding, names, arrays)


def _about_weights(found: TranslatedGraph) -> list[str]:
    count = len(found.model.unvalued)
    if not count:
        return []
    return [f"{count} variables have no values in the file: they have the ranges of their initialisers (zeros: -1 to 1)"]


def read_tensorflow(path: Path, options: ReadingOptions) -> TensorflowModel:
    """A file or folder of TensorFlow; TensorFlow itself is not needed."""
    return from_records(read_graph(path, signature=options.signature), path, options)


def from_records(records: TensorflowGraph, path: Path, options: ReadingOptions) -> TensorflowModel:
    """The model of the records of a file."""
    graph = prepared(records)
    name = path.name or str(path)
    found = translated(graph, name=name, path=str(path), training=options.training, signature=options.signature)
    return TensorflowModel(graph, found, str(path), options, _declared(options.inputs))


def prepared(graph: TensorflowGraph) -> TensorflowGraph:
    """A graph as it is translated: branches and loops have functions, calls are in place."""
    is_old = any(node.op in _OLD_CONTROL_FLOW for node in graph.nodes)
    return inlined(raised(graph) if is_old else graph)


def read_live_graph(
    found: Any, name: str, path: str | None, options: ReadingOptions, declared: Sequence[InputDeclaration] = ()
) -> TensorflowModel:
    """A function that computes with TensorFlow, a module with one, or a graph of version 1 that a program built."""
    import tensorflow as tf

    if isinstance(found, tf.Graph):
        graph = prepared(live_graph(found, name))
        label = name if path is None else f"{path}:{name}"
        return TensorflowModel(graph, translated(graph, name=label, path=path, training=options.training), path, options)
    if isinstance(found, type) or not callable(found):
        raise ModelError(f"{name}: is no function of TensorFlow, and no module or graph of it; name an instance")
    function = found
    if isinstance(found, tf.Module) and not hasattr(found, "get_concrete_function"):
        function = function.__call__
    return read_function(function, name, path, options, declared)


def read_function(
    function: Callable[..., Any], name: str, path: str | None, options: ReadingOptions, declared: Sequence[InputDeclaration] = ()
) -> TensorflowModel:
    """A function of Python that computes with TensorFlow, or one that `tf.function` made, traced on its example inputs."""
    by_input = about(name, [*declared, *options.inputs])
    concrete = _traced(function, name, by_input, options)
    return from_concrete(concrete, name, path, options, _declared(by_input.values()))


def from_concrete(
    concrete: Any,
    name: str,
    path: str | None,
    options: ReadingOptions,
    domains: Mapping[str, Domain] | None = None,
    layers: Callable[[Any], Mapping[str, str]] | None = None,
    names: Mapping[int, str] | None = None,
) -> TensorflowModel:
    """The model of a traced function of TensorFlow, with the user's lines; `names` are those of variables, by their identity."""
    live = live_graph(concrete.graph, name, layers, names)
    results = {tensor.name: _reference(tensor.name) for tensor in concrete.outputs if hasattr(tensor, "dtype")}
    live.signatures[_FUNCTION] = Signature(_FUNCTION, {}, results)
    graph = prepared(live)
    label = name if path is None else f"{path}:{name}"
    found = translated(graph, name=label, path=path, training=options.training, signature=_FUNCTION)
    return TensorflowModel(graph, found, path, options, domains)


def _reference(name: str) -> Reference:
    """The result that TensorFlow calls `node:output`."""
    node, _, output = name.rpartition(":")
    return Reference(node, int(output))


def _traced(function: Callable[..., Any], name: str, declared: Mapping[str, InputDeclaration], options: ReadingOptions) -> Any:
    import tensorflow as tf

    traced: Any = function if hasattr(function, "get_concrete_function") else tf.function(function)
    python: Any = getattr(traced, "python_function", function)
    signature = getattr(traced, "input_signature", None)
    try:
        if options.example is not None:
            example = options.example
            if isinstance(example, Mapping):
                return traced.get_concrete_function(**{key: _spec(value, key) for key, value in example.items()})
            items = example if isinstance(example, tuple | list) else (example,)
            names = list(inspect.signature(python).parameters)
            specs = [_spec(item, names[index] if index < len(names) else f"args_{index}") for index, item in enumerate(items)]
            return traced.get_concrete_function(*specs)
        if signature:
            return traced.get_concrete_function()
        return traced.get_concrete_function(**_declared_specs(python, name, declared))
    except AssumptionError:
        raise
    except Exception as error:
        raise ModelError(described_failure(name, "TensorFlow cannot trace it", error)) from None


def _spec(value: Any, name: str) -> Any:
    """An example as the specification of an input under its own name; what is no tensor stays as it is."""
    import numpy as np
    import tensorflow as tf

    if isinstance(value, tf.TensorSpec):
        return value
    if isinstance(value, tf.Tensor | tf.Variable | np.ndarray | np.generic):
        tensor: Any = tf.convert_to_tensor(np.asarray(value))
        return tf.TensorSpec(tensor.shape, tensor.dtype, name=name)
    return value


def _declared_specs(function: Any, name: str, declared: Mapping[str, InputDeclaration]) -> dict[str, Any]:
    import tensorflow as tf

    specs: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        found = declared.get(parameter.name)
        if found is not None and found.shape is not None and found.format is not None:
            shape: Any = [size if isinstance(size, int) else None for size in found.shape]
            specs[parameter.name] = tf.TensorSpec(shape, tf.as_dtype(found.format.name), name=parameter.name)
        elif parameter.default is inspect.Parameter.empty:
            raise AssumptionError(
                f"{name}: nothing is known about its input {parameter.name!r}; declare it in the file"
                f" (# tensorproof: {parameter.name} = float32[N,3] in [0,1]), or give tf.function an input_signature"
            )
    return specs


def _declared(declarations: Any) -> dict[str, Domain]:
    return {item.name: item.domain for item in declarations if item.domain is not None}
