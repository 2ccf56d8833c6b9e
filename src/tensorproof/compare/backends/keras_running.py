"""Ways to run a network of Keras layers: call by call, compiled as a whole, saved and loaded, with gradients."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorproof.compare.backends.backend import Mode, Unavailable
from tensorproof.compare.drawing import Array, dtype_of
from tensorproof.compare.spec import Phase

if TYPE_CHECKING:
    from tensorproof.compare.backends.keras_networks import KerasNetwork

#: Results by name, from a network, its inputs and the names that are wanted.
Runner = Callable[["KerasNetwork", list[Array], list[str]], dict[str, Array]]
#: Results by name and gradients by input, from tensors.
_Program = Callable[[list[Any]], tuple[dict[str, Any], dict[str, Any]]]


def runner(name: str, phase: Phase, mode: Mode, compiler: str = "", xla: str = "") -> Runner:
    """How a backend runs a network in a phase and a mode, or `Unavailable`.

    `compiler` is what `torch.compile` compiles with (`on`: its default), `xla` is `on` to let TensorFlow compile with XLA.
    """
    training = phase == "training"
    if phase == "gradient" and name in ("openvino", "numpy"):
        raise Unavailable(f"Keras on {name} computes no gradients")
    if mode == "saved":
        if phase == "gradient":
            raise Unavailable("a saved network is run without gradients")
        return partial(_run_saved, openvino=name == "openvino", training=training)
    if mode == "compiled":
        if name == "torch" and not compiler:
            raise Unavailable("torch.compile takes seconds for each network: ask for it with keras:torch?compile=on")
        if name in ("openvino", "numpy"):
            raise Unavailable(f"Keras on {name} has no second way to run a network")
        return partial(
            _run_program, name=name, training=training, gradient=phase == "gradient", compiler=compiler or "on", xla=xla == "on"
        )
    if name == "openvino" and not training:
        return _run_on_openvino
    return partial(_run_program, name=name, training=training, gradient=phase == "gradient", compiler="", xla=False)


def to_numpy(value: Any) -> Array:
    """A tensor as an array of the same type; bfloat16 stays bfloat16."""
    import keras

    dtype = dtype_of(keras.backend.standardize_dtype(value.dtype))
    array = np.asarray(keras.ops.convert_to_numpy(value))
    return array if array.dtype == dtype else array.astype(dtype)


def _run_program(
    network: KerasNetwork,
    inputs: list[Array],
    wanted: list[str],
    *,
    name: str,
    training: bool,
    gradient: bool,
    compiler: str,
    xla: bool,
) -> dict[str, Array]:
    """Apply layer after layer, in a program that is compiled unless `compiler` is empty."""
    import keras

    tensors = [keras.ops.convert_to_tensor(array) for array in inputs]
    key = (tuple(wanted), training, gradient, compiler)
    program = network.compiled.get(key)
    if program is None:
        make = {"tensorflow": _tensorflow_program, "torch": _torch_program, "jax": _jax_program}.get(name, _plain_program)
        program = network.compiled[key] = make(network, wanted, training, gradient, compiler, xla)
    results, gradients = program(tensors)
    arrays = {result: to_numpy(value) for result, value in results.items()}
    return arrays | {f"gradient:{entry}": to_numpy(value) for entry, value in gradients.items()}


def _floating(network: KerasNetwork) -> list[int]:
    """The places of the inputs that can have a gradient."""
    return [place for place, entry in enumerate(network.spec.inputs) if entry.dtype.startswith(("float", "bfloat"))]


def _kept(values: dict[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    return {name: values[name] for name in wanted}


def _plain_program(network: KerasNetwork, wanted: list[str], training: bool, gradient: bool, compiler: str, xla: bool) -> _Program:
    return lambda inputs: (_kept(network.apply(inputs, wanted, training), wanted), {})


def _tensorflow_program(
    network: KerasNetwork, wanted: list[str], training: bool, gradient: bool, compiler: str, xla: bool
) -> _Program:
    import tensorflow as tf

    outputs = network.spec.outputs
    needed = [*wanted, *outputs] if gradient else wanted

    def program(inputs: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        if not gradient:
            return _kept(network.apply(inputs, needed, training), wanted), {}
        places = _floating(network)
        with tf.GradientTape() as tape:
            for place in places:
                tape.watch(inputs[place])
            values = network.apply(inputs, needed, training)
        targets = [values[output] for output in outputs if values[output].dtype.is_floating]
        found = tape.gradient(targets, [inputs[place] for place in places], unconnected_gradients=tf.UnconnectedGradients.ZERO)
        slopes = {network.spec.inputs[place].name: tf.convert_to_tensor(slope) for place, slope in zip(places, found)}
        return _kept(values, wanted), slopes

    return tf.function(program, jit_compile=xla or None, autograph=False) if compiler else program


def _torch_program(network: KerasNetwork, wanted: list[str], training: bool, gradient: bool, compiler: str, xla: bool) -> _Program:
    import torch

    outputs = network.spec.outputs
    needed = [*wanted, *outputs] if gradient else wanted

    def forward(inputs: list[Any]) -> dict[str, Any]:
        return _kept(network.apply(inputs, needed, training), needed)

    if compiler:
        network.announces = False  # A program that writes to a file would be compiled in pieces.
        torch.compiler.reset()  # Else PyTorch takes the next network for a change of the last, and soon stops compiling.
        forward = torch.compile(forward, backend="inductor" if compiler == "on" else compiler)

    def program(inputs: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        if not gradient:
            with torch.no_grad():
                return forward(inputs), {}
        places = _floating(network)
        inputs = [tensor.detach().requires_grad_(place in places) for place, tensor in enumerate(inputs)]
        values = forward(inputs)
        targets = [values[output] for output in outputs if values[output].requires_grad]
        sources = [inputs[place] for place in places]
        ones = [torch.ones_like(target) for target in targets]
        found = torch.autograd.grad(targets, sources, ones, allow_unused=True) if targets and sources else [None] * len(places)
        slopes = {
            network.spec.inputs[place].name: torch.zeros_like(inputs[place]) if slope is None else slope
            for place, slope in zip(places, found)
        }
        return _kept(values, wanted), slopes

    return program


def _jax_program(network: KerasNetwork, wanted: list[str], training: bool, gradient: bool, compiler: str, xla: bool) -> _Program:
    import jax
    import jax.numpy as jnp
    import keras

    outputs = network.spec.outputs
    needed = [*wanted, *outputs] if gradient else wanted
    places = _floating(network)

    def program(inputs: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        if not gradient:
            return _kept(network.apply(inputs, needed, training), wanted), {}

        def forward(sources: list[Any]) -> tuple[list[Any], dict[str, Any]]:
            given = dict(zip(places, sources))
            values = network.apply([given.get(place, tensor) for place, tensor in enumerate(inputs)], needed, training)
            targets = [values[output] for output in outputs if jnp.issubdtype(values[output].dtype, jnp.floating)]
            return targets, _kept(values, wanted)

        targets, backward, values = jax.vjp(forward, [inputs[place] for place in places], has_aux=True)
        (found,) = backward([jnp.ones_like(target) for target in targets])
        return values, {network.spec.inputs[place].name: slope for place, slope in zip(places, found)}

    if not compiler:
        return program

    # Weights are arguments of the program: as constants they would be compiled into it anew for every draw.
    def stateless(weights: list[Any], inputs: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        with keras.StatelessScope(state_mapping=list(zip(network.variables, weights))):
            return program(inputs)

    compiled = jax.jit(stateless)
    return lambda inputs: compiled([variable.value for variable in network.variables], inputs)


def _run_on_openvino(network: KerasNetwork, inputs: list[Array], wanted: list[str]) -> dict[str, Array]:
    """As one graph with parameters. When that fails, layer after layer, to learn which one is at fault."""
    key = (tuple(wanted), network.weights)  # Weights are constants of the graph.
    model = network.compiled.get(key)
    if model is None:
        network.compiled.clear()
        model = network.compiled[key] = _model(network, wanted)
    try:
        return _predicted(model, inputs, wanted)
    except Exception:
        _run_program(network, inputs, wanted, name="openvino", training=False, gradient=False, compiler="", xla=False)
        raise


def _model(network: KerasNetwork, wanted: Sequence[str]) -> Any:
    import keras

    return keras.Model(network.inputs, [network.symbolic[name] for name in wanted])


def _predicted(model: Any, inputs: list[Array], wanted: list[str]) -> dict[str, Array]:
    results = model.predict_on_batch(inputs if len(inputs) > 1 else inputs[0])
    parts = results if isinstance(results, list | tuple) else [results]
    arrays = {name: np.asarray(part) for name, part in zip(wanted, parts, strict=True)}
    # Keras 3.15 hands bfloat16 results of OpenVINO out as float16 of the same bits, which would hide all else.
    promised = {name: str(tensor.dtype) for name, tensor in zip(wanted, model.outputs, strict=True)}
    return {
        name: array.view(dtype_of("bfloat16")) if promised[name] == "bfloat16" and array.dtype == np.float16 else array
        for name, array in arrays.items()
    }


def _run_saved(
    network: KerasNetwork, inputs: list[Array], wanted: list[str], *, openvino: bool, training: bool
) -> dict[str, Array]:
    """Save the network to a file, read it back and run what was read."""
    import keras

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.keras"
        _model(network, wanted).save(path)
        loaded: Any = keras.models.load_model(path)
    if openvino and not training:
        return _predicted(loaded, inputs, wanted)
    results = loaded([keras.ops.convert_to_tensor(array) for array in inputs], training=training)
    parts = results if isinstance(results, list | tuple) else [results]
    return {name: to_numpy(part) for name, part in zip(wanted, parts, strict=True)}
