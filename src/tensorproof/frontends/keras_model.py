"""Models of Keras 3, as files and live, traced by the backend that Keras runs on in this process.

TensorFlow gives a graph of operators, JAX a jaxpr, PyTorch an exported program: each is read by that framework's own front end.
What Keras knows better is put in its place: the path of the layer that an operator comes from, the names of weights and inputs.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorproof.assumptions import Domain
from tensorproof.errors import ConfigurationError, ModelError
from tensorproof.frontends.framework_model import Arrays, FrameworkModel, FrameworkRunner, ReadingOptions
from tensorproof.frontends.input_declarations import InputDeclaration
from tensorproof.frontends.keras_archive import checked_file
from tensorproof.frontends.keras_backend import chosen_backend
from tensorproof.frontends.keras_layers import (
    TensorflowLayers,
    differentiated_layer,
    following_layers,
    keeping_marks,
    marked_for_torch,
    torch_layers,
)
from tensorproof.frontends.keras_step import KerasStep, identifier, step_of, variables_by_name
from tensorproof.frontends.keras_weights import weights_within
from tensorproof.frontends.user_frames import described_failure, first_sentence
from tensorproof.frontends.user_program import UserProgram, called, speaking_aside
from tensorproof.graph import ABSENT, Model, Node

if TYPE_CHECKING:
    from tensorproof.confirm.framework_confirm import FrameworkConfirm
    from tensorproof.findings import Finding
    from tensorproof.frontends.torch_program import TorchProgram


class KerasModel(FrameworkModel):
    """A model of Keras, read and run by the front end of its backend (`inner`)."""

    framework = "Keras"

    def __init__(
        self, inner: FrameworkModel, step: KerasStep, backend: str, source: UserProgram, notes: Sequence[str], trusted: bool = False
    ) -> None:
        self.inner = inner
        self.step = step
        self.backend = backend
        self.source = source
        #: Whether a file was allowed to run code of its own.
        self.trusted = trusted
        self.model: Model = inner.model
        self.domains = inner.domains
        self.target = inner.target
        self.trainable = inner.trainable
        self.partners = inner.partners
        self.reassociates = inner.reassociates
        self.path = None if source.path is None else str(source.path)
        self.notes = (f"Keras runs on {_BACKENDS[backend]}", *notes, *inner.notes)

    def runner(self, *, time_limit: float | None = None) -> AbstractContextManager[FrameworkRunner]:
        """What runs the model in its backend."""
        return self.inner.runner(time_limit=time_limit)

    def confirmation(self) -> type[FrameworkConfirm]:
        """On PyTorch the graph has no nodes of gradients: derivatives are seen in runs alone."""
        from tensorproof.confirm.keras_confirm import KerasTorchConfirm

        return KerasTorchConfirm if self.backend == "torch" else super().confirmation()

    def kept(self) -> Arrays:
        """The weights of a model that a program builds: it may build other ones the next time."""
        if self.path is None or not self.path.endswith(".py"):
            return {}
        return {self.model.name_of(number): self.model.constants[number] for number in self.model.weights}

    def script(self, finding: Finding, names: Sequence[str], arrays: Path) -> str:
        """A program that loads the model in Keras and watches every operator of the backend."""
        from tensorproof.confirm.keras_witness import script

        return script(self, finding, arrays)


#: Backends as their users call them.
_BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


def read_keras(model: Any, options: ReadingOptions) -> KerasModel:
    """A file of Keras, or a live model."""
    if isinstance(model, str | Path):
        path = Path(model)
        notes = chosen_backend()
        found, objection = _loaded(path, options)
        if options.training and objection is not None:
            notes += (f"the loss of the model is not loaded ({objection}): the sum of its outputs is differentiated",)
        return _read(found, UserProgram(found, path.name, path), options, notes)
    return read_live(UserProgram(model, getattr(model, "name", None) or type(model).__name__), options)


def read_live(program: UserProgram, options: ReadingOptions) -> KerasModel:
    """A model of a running program, or a class of models that is built without arguments."""
    found = program.found
    if isinstance(found, type):
        found = called(found, program.name)
    return _read(found, program, options, ())


def _loaded(path: Path, options: ReadingOptions) -> tuple[Any, str | None]:
    """The model of a file that was looked at first, in training with its loss; or why that is not loaded."""
    import keras

    checked = checked_file(path, trust=options.trust)
    try:
        with speaking_aside(), _quiet(), weights_within(path, checked.weights):
            found: Any = keras.saving.load_model(path, compile=False, safe_mode=not options.trust)
            if options.training and checked.loss is not None:
                # The loss alone: an optimiser has a state of its own, and takes no part in gradients.
                described = {key: keras.saving.deserialize_keras_object(value) for key, value in checked.loss.items()}
                found.compile(optimizer=None, **described)
            return found, checked.objection
    except ModelError:
        raise
    except Exception as error:  # Keras raises what its layers raise
        raise ModelError(f"{path}: Keras cannot load it ({type(error).__name__}: {_cause(error)})") from None


#: What Keras wraps around the reason: a long text about objects in general, and the first of those that lack their weights.
_WRAPPED = re.compile(r"Exception encountered: (?P<said>.+)|Example error message for object (?P<object>.+):\s+(?P<lacks>.+)")


def _cause(error: Exception) -> str:
    """Why Keras gave up, in the words of the layer that did."""
    for found in reversed(list(_WRAPPED.finditer(str(error)))):
        return first_sentence(Exception(found["said"] or f"{found['object']}: {found['lacks']}"))
    return first_sentence(error)


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _read(model: Any, source: UserProgram, options: ReadingOptions, notes: Sequence[str]) -> KerasModel:
    import keras

    if not isinstance(model, keras.Model):
        raise ModelError(f"{source.name}: is {type(model).__name__}, not a model of Keras")
    if options.state is not None:
        raise ConfigurationError(f"{source.name}: a model of Keras has its weights; load them before it is checked")
    if options.precision is not None:
        raise ConfigurationError(f"{source.name}: a model of Keras is checked in its own formats (keras.config.set_dtype_policy)")
    backend = str(keras.backend.backend())
    if backend not in _BACKENDS:
        raise ConfigurationError(f"{source.name}: Keras runs on {backend}, which is not analysed; set KERAS_BACKEND")
    step = step_of(model, source.name, options, source.declared)
    reading = {"tensorflow": _by_tensorflow, "jax": _by_jax, "torch": _by_torch}[backend]
    with _quiet():
        inner = reading(step, source, options)
    return KerasModel(inner, step, backend, source, notes, options.trust)


def _domains(step: KerasStep) -> dict[str, Domain]:
    return {item.name: item.domain for item in step.declarations if item.domain is not None}


def _trained(step: KerasStep, model: Model) -> frozenset[int]:
    """The weights that training changes."""
    names = _trainable(step.model)
    return frozenset(number for number in model.weights if model.name_of(number) in names)


def _trainable(model: Any) -> set[str]:
    """The names of the variables that training changes."""
    chosen = {id(variable) for variable in model.trainable_variables}
    return {name for name, variable in variables_by_name(model).items() if id(variable) in chosen}


# -- TensorFlow -------------------------------------------------------------------------------------------------------


def _by_tensorflow(step: KerasStep, source: UserProgram, options: ReadingOptions) -> FrameworkModel:
    import tensorflow as tf

    from tensorproof.frontends.tensorflow_program import from_concrete

    def computed(*tensors: Any) -> Any:
        if not step.training:
            return step.outputs(tensors)
        with tf.GradientTape() as tape:
            outputs, loss = step.loss(tensors)
        variables = [variable.value for variable in step.model.trainable_variables]
        gradients: list[Any] = tape.gradient(loss, variables)
        return outputs, loss, [item for item in gradients if item is not None]

    specs: list[Any] = []
    for item in step.declarations:
        assert item.shape is not None and item.format is not None
        sizes = [size if isinstance(size, int) else _one_size(size, options) for size in item.shape]
        specs.append(tf.TensorSpec(sizes, tf.as_dtype(item.format.name), name=identifier(item.name)))
    layers = TensorflowLayers()
    function: Any = tf.function(computed, autograph=False)
    with _traced_by(source.label, "TensorFlow"), following_layers(layers):
        concrete = function.get_concrete_function(*specs)
    names = {id(variable.value): name for name, variable in variables_by_name(step.model).items()}
    inner = from_concrete(concrete, source.name, _text(source.path), options, _domains(step), layers.of, names)
    inner.trainable = _trained(step, inner.model)
    places = layers.scopes(concrete.graph)
    for node in inner.model.graph.walk():
        if node.phase == "backward":
            node.module = differentiated_layer(inner.found.origins.get(node.name, node.name), places) or node.module
    return inner


def _one_size(name: str, options: ReadingOptions) -> int | None:
    """The size of a symbolic dimension that was declared as a number."""
    low, high = options.dims.get(name, (0, 1))
    return low if low == high else None


@contextlib.contextmanager
def _traced_by(label: str, framework: str) -> Generator[None]:
    try:
        with speaking_aside():
            yield
    except (ModelError, ConfigurationError):
        raise
    except Exception as error:
        raise ModelError(described_failure(label, f"{framework} cannot trace it", error)) from None


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


# -- JAX and PyTorch, whose functions have no state -------------------------------------------------------------------


def _named(step: KerasStep) -> list[InputDeclaration]:
    return [replace(item, name=identifier(item.name)) for item in step.declarations]


def _computed(step: KerasStep, variables: Mapping[str, Any], tensors: Sequence[Any]) -> Any:
    """The outputs of a model, or in training its loss, with the given numbers in place of its variables."""
    import keras

    own = variables_by_name(step.model)
    with keras.StatelessScope(state_mapping=[(own[name], value) for name, value in variables.items()]):
        return step.loss(tensors)[1] if step.training else step.outputs(tensors)


def _signature(names: Sequence[str]) -> inspect.Signature:
    return inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names])


def _by_jax(step: KerasStep, source: UserProgram, options: ReadingOptions) -> FrameworkModel:
    import jax

    from tensorproof.frontends.jax_program import read_jax

    declared = _named(step)
    values = {name: variable.value for name, variable in variables_by_name(step.model).items()}

    trained = _trainable(step.model)

    def computed(weights: Mapping[str, Any], *tensors: Any) -> Any:
        if step.training:
            # Gradients are those of what training changes.
            weights = {name: value if name in trained else jax.lax.stop_gradient(value) for name, value in weights.items()}
        return _computed(step, weights, tensors)

    computed.__signature__ = _signature(["weights", *(item.name for item in declared)])  # type: ignore[attr-defined]
    example = (values, *(item.array(options.dims) for item in declared))
    found = read_jax(computed, source.name, _text(source.path), replace(options, example=example, inputs=()), declared)
    # Weights are arguments of the function; the names that users know are Keras'.
    names = {f"weights[{name!r}]": name for name in values}
    for value in found.model.values:
        value.name = names.get(value.name, value.name)
    leaves = tuple(replace(leaf, name=names.get(leaf.name, leaf.name)) for leaf in found.arguments.leaves)
    found.arguments = replace(found.arguments, leaves=leaves)
    found.trainable = _trained(step, found.model)
    found.partners = _partners(found.model)
    sizes: dict[str, int] = {}
    for item, array in zip(declared, example[1:]):
        sizes |= {name: array.shape[axis] for axis, name in item.symbolic().items()}
    if sizes:
        found.notes += (f"JAX fixes all sizes: {', '.join(f'{name} is {size}' for name, size in sizes.items())} (--dim)",)
    return found


#: Operators whose derivative JAX computes from their result.
_BY_RESULT = frozenset({"Sqrt", "Exp", "Tanh", "Sigmoid", "Reciprocal"})


def _partners(model: Model) -> dict[str, str]:
    """The nodes that those of the gradients differentiate, where no line tells: in the same layer, with a value in common.

    That value is the result of the node, where its derivative is computed from that; else an operand.
    """
    forward = [node for node in model.graph.walk() if node.phase == "forward"]
    makers = {number: node for node in forward for number in node.outputs}
    readers: dict[int, list[Node]] = {}
    for node in forward:
        for number in node.inputs:
            readers.setdefault(number, []).append(node)
    found: dict[str, str] = {}
    for node in model.graph.walk():
        if node.phase == "forward" or node.source is not None:
            continue
        own = [number for number in node.inputs if number != ABSENT]
        made = [makers[number] for number in own if number in makers]
        candidates = [
            *(other for other in made if other.op in _BY_RESULT),
            *(reader for number in own for reader in readers.get(number, ()) if reader.op not in _BY_RESULT),
            *made,
        ]
        near = [other for other in candidates if other.module == node.module]
        if near:
            found[node.name] = near[0].name
    return found


def _by_torch(step: KerasStep, source: UserProgram, options: ReadingOptions) -> FrameworkModel:
    from tensorproof.frontends.keras_torch import TorchModelOfKeras, network
    from tensorproof.frontends.torch_program import ProgramOptions, read_program

    declared = _named(step)
    own = variables_by_name(step.model)
    module = network(own, _trainable(step.model), lambda weights, tensors: _computed(step, weights, tensors))
    type(module).forward.__signature__ = _signature(["self", *(item.name for item in declared)])  # type: ignore[attr-defined]
    reading = ProgramOptions(dims=options.dims, training=options.training)
    with following_layers(marked_for_torch), keeping_marks():
        program: TorchProgram = read_program(UserProgram(module, source.name, None, declared), reading)
    layers = torch_layers(program.traced.program)
    for node in program.traced.model.graph.walk():
        node.module = layers.get(program.traced.origins.get(node.name, node.name), "")
        if node.source is not None and "/keras/src/" in node.source.file.replace("\\", "/"):
            # No line of the user's: the layer says where.
            node.source = None
    program.traced.model.name = source.label
    found = TorchModelOfKeras(program)
    if step.training:
        found.notes = ("the backward pass itself was not analysed: its rules were asked at the operators alone",)
    return found
