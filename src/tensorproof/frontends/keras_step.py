"""What is computed with a Keras model: its outputs on its inputs, and in training its loss.

The inputs are those of the model, under Keras' names. In training there are targets beside them (`y`) if the model is compiled
with a loss; without one, the loss is the sum of its outputs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorproof.assumptions import Domain
from tensorproof.errors import AssumptionError, ModelError
from tensorproof.formats import BY_NAME, INT32, Format, of_dtype
from tensorproof.frontends.framework_model import ReadingOptions
from tensorproof.frontends.input_declarations import InputDeclaration, about
from tensorproof.frontends.user_frames import described_failure
from tensorproof.frontends.user_program import speaking_aside

#: The name of the leading dimension of inputs.
BATCH = "batch"

#: Parameters of a model's `call` that are no inputs.
_NO_INPUTS = frozenset({"training", "mask"})


@dataclass(frozen=True, slots=True)
class KerasStep:
    """A model with the inputs that it is called with, and the targets of its loss behind them."""

    model: Any
    name: str
    inputs: tuple[InputDeclaration, ...]
    targets: tuple[InputDeclaration, ...]
    training: bool
    #: How the inputs are put together: as the model was built, or by the parameters of its call.
    parameters: tuple[str, ...] = ()

    @property
    def declarations(self) -> tuple[InputDeclaration, ...]:
        """All inputs of the computation."""
        return (*self.inputs, *self.targets)

    def outputs(self, tensors: Sequence[Any]) -> Any:
        """The outputs of the model on tensors of its backend."""
        if self.parameters:
            first, *rest = tensors
            return self.model(first, **dict(zip(self.parameters[1:], rest)), training=self.training)
        return self.model(packed(self.model, tensors), training=self.training)

    @staticmethod
    def packed_targets(outputs: Any, targets: Sequence[Any]) -> Any:
        """Targets put together as the outputs are."""
        import keras

        return targets[0] if len(targets) == 1 else keras.tree.pack_sequence_as(outputs, list(targets))

    def loss(self, tensors: Sequence[Any]) -> tuple[Any, Any]:
        """The outputs and the loss, one number."""
        import keras

        count = len(self.inputs)
        outputs = self.outputs(tensors[:count])
        if self.targets:
            inputs, given = list(tensors[:count]), self.packed_targets(outputs, tensors[count:])
            return outputs, self.model.compute_loss(x=inputs, y=given, y_pred=outputs, training=True)
        leaves: list[Any] = keras.tree.flatten(outputs)
        floating = [item for item in leaves if keras.backend.is_float_dtype(keras.backend.standardize_dtype(item.dtype))]
        if not floating:
            raise ModelError(f"{self.name}: nothing to differentiate: no output is floating")
        total: Any = keras.ops.sum(floating[0])
        for item in floating[1:]:
            total = total + keras.ops.sum(item)
        return outputs, total


def variables_by_name(model: Any) -> dict[str, Any]:
    """The variables of a model by their paths, which Keras gives twice where models in a model have layers of one name."""
    found: dict[str, Any] = {}
    for variable in model.variables:
        name, count = str(variable.path), 1
        while name in found:
            count += 1
            name = f"{variable.path}_{count}"
        found[name] = variable
    return found


def packed(model: Any, tensors: Sequence[Any]) -> Any:
    """Tensors in the order of a model's inputs, put together as it takes them."""
    import keras

    if isinstance(model, keras.Sequential):
        # It takes one, and does not say how before it was called.
        return tensors[0]
    return keras.tree.pack_sequence_as(model.input, list(tensors))


def identifier(name: str) -> str:
    """The name of an input as a name of Python, which inputs have in the graph."""
    text = re.sub(r"\W", "_", name)
    return text if text[:1].isalpha() or text[:1] == "_" else f"x_{text}"


def step_of(model: Any, name: str, options: ReadingOptions, declared: Sequence[InputDeclaration]) -> KerasStep:
    """The computation of a model; one without weights yet is built on an example of its inputs."""
    by_input = about(name, [*declared, *options.inputs])
    inputs, parameters = _inputs(model, name, by_input, options)
    unknown = [item.name for item in options.inputs if item.name not in {known.name for known in inputs} and item.name[:1] != "y"]
    if unknown:
        raise AssumptionError(f"{name}: no input is named {unknown[0]!r}; inputs are {', '.join(item.name for item in inputs)}")
    step = KerasStep(model, name, inputs, (), options.training, parameters)
    if not model.built:
        _build(step, options)
    if not options.training:
        return step
    step = replace(step, targets=_targets(step, by_input))
    _build_loss(step, options)
    return step


def _inputs(
    model: Any, name: str, declared: Mapping[str, InputDeclaration], options: ReadingOptions
) -> tuple[tuple[InputDeclaration, ...], tuple[str, ...]]:
    """The inputs of a model; for one that does not say them, also the parameters that they are."""
    known: Any = getattr(model, "inputs", None)
    if known:
        return tuple(_described(tensor.name, tensor.shape, tensor.dtype, declared) for tensor in known), ()
    parameters = [
        item
        for item in inspect.signature(model.call).parameters.values()
        if item.name not in _NO_INPUTS and item.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    ]
    examples = _examples(options.example, [item.name for item in parameters])
    found: list[InputDeclaration] = []
    for parameter in parameters:
        declaration = declared.get(parameter.name)
        if declaration is None and len(parameters) == 1 and len(declared) == 1:
            declaration = replace(next(iter(declared.values())), name=parameter.name)
        if parameter.name in examples:
            array = np.asarray(examples[parameter.name])
            shape: Any = (None, *array.shape[1:]) if array.ndim else ()
            found.append(_described(parameter.name, shape, array.dtype.name, declared))
        elif declaration is not None and declaration.shape is not None and declaration.format is not None:
            found.append(declaration)
        elif parameter.default is inspect.Parameter.empty:
            raise AssumptionError(
                f"{name}: nothing is known about its input {parameter.name!r}; declare it in the file"
                f" (# tensorproof: {parameter.name} = float32[N,4] in [0,1]), or give an example"
            )
    if not found:
        raise ModelError(f"{name}: takes no inputs")
    return tuple(found), tuple(item.name for item in found)


def _examples(example: Any, names: Sequence[str]) -> dict[str, Any]:
    if example is None:
        return {}
    if isinstance(example, Mapping):
        return {str(key): value for key, value in example.items()}
    several = example if isinstance(example, tuple | list) else (example,)
    return dict(zip(names, several))


def _described(name: str, shape: Any, dtype: str, declared: Mapping[str, InputDeclaration]) -> InputDeclaration:
    """An input as Keras knows it, with what is declared of it beside that."""
    given = declared.get(name)
    format = BY_NAME.get(str(dtype))
    if format is None:
        raise ModelError(f"input {name!r} is of the type {dtype}, which is not modelled")
    sizes = tuple(_size(name, axis, size) for axis, size in enumerate(shape))
    if given is not None and given.shape is not None and len(given.shape) == len(sizes):
        sizes = tuple(own if isinstance(size, str) else size for own, size in zip(given.shape, sizes))
    return InputDeclaration(name, None, format, sizes, None if given is None else given.domain)


def _size(name: str, axis: int, size: int | None) -> int | str:
    if size is not None:
        return int(size)
    return BATCH if axis == 0 else f"{re.sub(r'[^0-9A-Za-z_]', '_', name)}_{axis}"


def _build(step: KerasStep, options: ReadingOptions) -> None:
    """Let a model make its weights, by calling it once."""
    import keras

    try:
        with speaking_aside():
            step.outputs([keras.ops.convert_to_tensor(item.array(options.dims)) for item in step.inputs])
    except AssumptionError:
        raise
    except Exception as error:
        raise ModelError(described_failure(step.name, "cannot be called on its inputs", error)) from None


# -- targets ----------------------------------------------------------------------------------------------------------


def _targets(step: KerasStep, declared: Mapping[str, InputDeclaration]) -> tuple[InputDeclaration, ...]:
    """What the loss of a compiled model compares the outputs with, one for each."""
    import keras

    model = step.model
    loss = getattr(model, "loss", None)
    if not getattr(model, "compiled", False) or loss is None:
        return ()
    try:
        with speaking_aside():
            specs = [keras.KerasTensor(_symbolic(item), _dtype(item)) for item in step.inputs]
            outputs: list[Any] = keras.tree.flatten(_output_spec(step, specs))
    except Exception as error:
        raise ModelError(described_failure(step.name, "the shape of its outputs is not known", error)) from None
    found: list[InputDeclaration] = []
    for index, output in enumerate(outputs):
        name = "y" if len(outputs) == 1 else f"y_{index}"
        kind = _loss_name(loss, index)
        shape = [BATCH if size is None else int(size) for size in output.shape]
        format: Format = of_dtype(np.dtype(output.dtype)) if output.dtype != "bfloat16" else BY_NAME["bfloat16"]
        domain = None
        if "sparse" in kind:
            domain = Domain("box", 0.0, float(output.shape[-1] - 1), source="classes")
            shape, format = shape[:-1], INT32
        elif "crossentropy" in kind:
            domain = Domain("box", 0.0, 1.0, source="probabilities")
        given = declared.get(name)
        domain = given.domain if given is not None and given.domain is not None else domain
        found.append(InputDeclaration(name, None, format, tuple(shape), domain))
    return tuple(found)


def _build_loss(step: KerasStep, options: ReadingOptions) -> None:
    """Let the loss of a model make what it keeps (means of several losses) outside of any tracing: on numbers alone."""
    import keras

    if not step.targets or getattr(getattr(step.model, "_compile_loss", None), "built", False):
        return
    try:
        with speaking_aside():
            specs = [keras.KerasTensor(item.sizes(options.dims), _dtype(item)) for item in step.inputs]
            outputs = keras.tree.map_structure(lambda spec: keras.ops.ones(spec.shape, spec.dtype), _output_spec(step, specs))
            targets = [keras.ops.convert_to_tensor(item.array(options.dims)) for item in step.targets]
            step.model.compute_loss(y=step.packed_targets(outputs, targets), y_pred=outputs, training=True)
    except AssumptionError:
        raise
    except Exception as error:
        raise ModelError(described_failure(step.name, "its loss cannot be computed", error)) from None


def _dtype(item: InputDeclaration) -> str:
    return "float32" if item.format is None else item.format.name


def _symbolic(item: InputDeclaration) -> tuple[int | None, ...]:
    assert item.shape is not None
    return tuple(size if isinstance(size, int) else None for size in item.shape)


def _output_spec(step: KerasStep, specs: Sequence[Any]) -> Any:
    return replace(step, training=False).outputs(specs)


def _loss_name(loss: Any, index: int) -> str:
    if isinstance(loss, list | tuple):
        loss = loss[index] if index < len(loss) else None
    elif isinstance(loss, Mapping):
        loss = list(loss.values())[index] if index < len(loss) else None
    text = loss if isinstance(loss, str) else getattr(loss, "name", None) or getattr(loss, "__name__", "")
    return str(text).lower()
