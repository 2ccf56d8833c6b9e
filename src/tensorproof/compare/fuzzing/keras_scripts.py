"""The middle of a script about Keras layers: `compute`, which builds the network and runs it on the backend of its process.

It does what the backend process did (`backends.keras_networks`), written out for one network.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

from tensorproof.compare.drawing import draw_inputs
from tensorproof.compare.fuzzing.finding import Explanation
from tensorproof.compare.fuzzing.literals import argument_source, array_source, layer_source
from tensorproof.compare.spec import LayerSpec, TestSpec
from tensorproof.compare.workers.backend_id import BackendId

#: Layers whose call takes query, value and key one by one, and the mask as `attention_mask`.
_ATTENTION = ("MultiHeadAttention", "GroupQueryAttention", "GroupedQueryAttention")
_CELLS = ("SimpleRNNCell", "GRUCell", "LSTMCell", "StackedRNNCells")
_RECURRENT = ("RNN", "SimpleRNN", "GRU", "LSTM", "Bidirectional", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")


def keras_body(found: Explanation, sides: Sequence[tuple[BackendId, str]]) -> str:
    """Source of `compute(name, mode)`, with the ways to run that the sides need."""
    test = found.test
    backends = {backend.name.removeprefix("keras:") for backend, _ in sides}
    modes = {mode for _, mode in sides}
    parts = [_arrays(found), _network(test), _weights(test)]
    if "openvino" in backends:
        parts.append(_OPENVINO)
    if test.phase == "gradient":
        parts.append(_GRADIENTS)
    if "saved" in modes:
        parts.append(_SAVED.replace("TRAINING", str(test.phase == "training")))
    if "compiled" in modes:
        parts.append(_COMPILED)
    parts.append(_compute(test, modes, "openvino" in backends))
    return "\n\n".join(part.strip("\n") + "\n" for part in parts)


def _arrays(found: Explanation) -> str:
    test = found.test
    given = {name: array for name, array in found.arrays.items() if "/" in name}
    drawn = {**draw_inputs(test), **{name: array for name, array in found.arrays.items() if "/" not in name}}
    inputs = "".join(f"    {entry.name!r}: {array_source(drawn[entry.name])},\n" for entry in test.network.inputs)
    weights = "".join(f"    {name!r}: {array_source(array)},\n" for name, array in given.items())
    comment = "#: By layer and place; the others are drawn below.\n"
    return f"INPUTS = {{\n{inputs}}}\n{comment}WEIGHTS = {{{chr(10) if weights else ''}{weights}}}\n"


def _network(test: TestSpec) -> str:
    fixed = any(layer.parameters.get("stateful") for layer in test.layers)
    lines = ["def make_layers():", "    from keras import layers", "", "    return {"]
    lines += [
        f"        {layer.name!r}: {layer_source(layer.kind, layer.parameters, test.dtype, layer.name)}," for layer in test.layers
    ]
    lines += ["    }", "", "", "def apply(made, inputs):"]
    lines += ['    """All results by name, of symbolic or of real tensors."""', "    import keras", ""]
    lines += ["    values = dict(zip(INPUTS, inputs))"]
    masks = {entry.name for entry in test.network.inputs if entry.dtype == "bool"}
    for layer in test.layers:
        call = _call(layer, masks, test.phase == "training")
        lines.append(f"    for index, result in enumerate(flat(keras, {call})):")
        lines.append(f'        values[f"{layer.name}:{{index}}" if index else {layer.name!r}] = result')
    lines += ["    return values", "", "", "def flat(keras, results):"]
    lines += ["    return [part for part in keras.tree.flatten(results) if part is not None]", "", ""]
    lines += ["def symbolic_inputs():", "    import keras", "", "    return ["]
    for entry in test.network.inputs:
        dtype = test.dtype if entry.dtype.startswith(("float", "bfloat")) else entry.dtype
        shape = entry.shape if fixed else (None, *entry.shape[1:])
        lines.append(f"        keras.Input(batch_shape={shape!r}, dtype={dtype!r}, name={entry.name!r}),")
    return "\n".join([*lines, "    ]", "", ""])


def _call(layer: LayerSpec, masks: set[str], training: bool) -> str:
    """The call of one layer, with operands and masks as the spec says they are passed."""
    masking = [] if len(layer.inputs) == 1 else [f"values[{name!r}]" for name in layer.inputs if name in masks]
    operands = [f"values[{name!r}]" for name in layer.inputs if not masking or name not in masks]
    named = {
        key.removeprefix("call:"): argument_source(value, "") for key, value in layer.parameters.items() if key.startswith("call:")
    }
    attention = layer.kind in _ATTENTION
    if masking:
        named["attention_mask" if attention else "mask"] = masking[0] if len(masking) == 1 else f"[{', '.join(masking)}]"
    if attention:
        positional = operands
    elif len(operands) > 1 and layer.kind in (*_CELLS, *_RECURRENT):
        positional = operands[:1]
        named["states" if layer.kind in _CELLS else "initial_state"] = f"[{', '.join(operands[1:])}]"
    else:
        positional = operands if len(operands) == 1 else [f"[{', '.join(operands)}]"]
    arguments = [*positional, f"training={training}", *(f"{key}={value}" for key, value in named.items())]
    return f"made[{layer.name!r}]({', '.join(arguments)})"


def _weights(test: TestSpec) -> str:
    return _WEIGHTS.replace("SEED", str(test.seed)).replace("DTYPE", repr(test.dtype))


#: As in `drawing.draw_weight`.
_WEIGHTS = """
def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def drawn_weight(layer, index, name, shape):
    digest = hashlib.sha256(repr(("weight", SEED, layer, index, shape)).encode()).digest()
    random = np.random.default_rng(int.from_bytes(digest[:8], "little"))
    words = name.lower()
    if "variance" in words:
        numbers = random.uniform(0.5, 1.5, shape)
    elif "gamma" in words or "scale" in words:
        numbers = random.normal(1.0, 0.1, shape)
    elif len(shape) < 2:
        numbers = random.normal(0.0, 0.1, shape)
    else:
        numbers = random.normal(0.0, 1.0 / math.sqrt(max(1, math.prod(shape[:-1]))), shape)
    return numbers.astype(np.float32).astype(dtype_of(DTYPE))


def set_weights(layer, name):
    for index, weight in enumerate(layer.weights):
        given = WEIGHTS.get(f"{name}/{index}")
        dtype = dtype_of(str(weight.dtype))
        if given is None and (dtype.kind in "iub" or "seed_generator" in weight.path):
            continue
        value = drawn_weight(name, index, weight.name, tuple(weight.shape)) if given is None else given
        weight.assign(value.astype(dtype))
"""

_OPENVINO = '''
def compute_in_float32():
    """OpenVINO computes in bfloat16 by default where the processor has it."""
    import openvino

    original = openvino.compile_model

    def compile_model(model, device_name="AUTO", config=None, **rest):
        settings = {**(config or {}), "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
        return original(model, device_name, settings, **rest)

    openvino.compile_model = compile_model


def run_on_openvino(keras, inputs, symbolic):
    model = keras.Model(inputs, [symbolic[name] for name in WANTED(symbolic)])
    arrays = list(INPUTS.values())
    results = model.predict_on_batch(arrays if len(arrays) > 1 else arrays[0])
    parts = results if isinstance(results, list | tuple) else [results]
    return dict(zip(WANTED(symbolic), map(np.asarray, parts)))
'''.replace("WANTED(symbolic)", "wanted(symbolic)")

_SAVED = """
def run_saved(keras, inputs, symbolic, tensors):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "network.keras")
        keras.Model(inputs, [symbolic[name] for name in wanted(symbolic)]).save(path)
        loaded = keras.models.load_model(path)
    if keras.config.backend() == "openvino":
        results = loaded.predict_on_batch(list(INPUTS.values()) if len(INPUTS) > 1 else next(iter(INPUTS.values())))
    else:
        results = loaded(tensors, training=TRAINING)
    parts = results if isinstance(results, list | tuple) else [results]
    return dict(zip(wanted(symbolic), parts))
"""

_COMPILED = """
def compiled(function, made, name):
    import keras

    toggles = dict(part.split("=", 1) for part in name.partition(" ")[0].partition("?")[2].split("&") if part)

    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=toggles.get("xla") == "on" or None, autograph=False)
    if keras.config.backend() == "torch":
        import torch

        compiler = toggles.get("compile", "on")
        return torch.compile(function, backend="inductor" if compiler == "on" else compiler)
    import jax

    variables = [variable for layer in made.values() for variable in layer.variables]

    def stateless(weights, tensors):
        with keras.StatelessScope(state_mapping=list(zip(variables, weights))):
            return function(tensors)

    program = jax.jit(stateless)
    return lambda tensors: program([variable.value for variable in variables], tensors)
"""

_GRADIENTS = '''
def with_gradients(made, tensors):
    """Results, and the gradient of the sum of all floating outputs at the floating inputs."""
    import keras

    names = list(INPUTS)
    places = [place for place, array in enumerate(INPUTS.values()) if array.dtype.kind not in "biu"]
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            for place in places:
                tape.watch(tensors[place])
            values = apply(made, tensors)
        targets = [values[name] for name in OUTPUTS if values[name].dtype.is_floating]
        zero = tf.UnconnectedGradients.ZERO
        slopes = tape.gradient(targets, [tensors[place] for place in places], unconnected_gradients=zero)
        slopes = [tf.convert_to_tensor(slope) for slope in slopes]
    elif keras.config.backend() == "torch":
        import torch

        tensors = [tensor.detach().requires_grad_(place in places) for place, tensor in enumerate(tensors)]
        values = apply(made, tensors)
        targets = [values[name] for name in OUTPUTS if values[name].requires_grad]
        sources = [tensors[place] for place in places]
        ones = [torch.ones_like(target) for target in targets]
        slopes = torch.autograd.grad(targets, sources, ones, allow_unused=True) if targets else [None] * len(places)
        slopes = [torch.zeros_like(s) if slope is None else slope for s, slope in zip(sources, slopes)]
    else:
        import jax
        import jax.numpy as jnp

        def forward(sources):
            given = dict(zip(places, sources))
            values = apply(made, [given.get(place, tensor) for place, tensor in enumerate(tensors)])
            return [values[name] for name in OUTPUTS if jnp.issubdtype(values[name].dtype, jnp.floating)], values

        targets, backward, values = jax.vjp(forward, [tensors[place] for place in places], has_aux=True)
        (slopes,) = backward([jnp.ones_like(target) for target in targets])
    return {**values, **{f"gradient:{names[place]}": slope for place, slope in zip(places, slopes)}}
'''


def _compute(test: TestSpec, modes: set[str], openvino: bool) -> str:
    gradient = test.phase == "gradient"
    run = "with_gradients(made, tensors)" if gradient else "apply(made, tensors)"
    steps = [
        "made = make_layers()",
        "inputs = symbolic_inputs()",
        "symbolic = apply(made, inputs)",
        "for layer_name, layer in made.items():",
        "    set_weights(layer, layer_name)",
        "promised = {key: list(symbolic[key].shape) for key in wanted(symbolic)}",
        "tensors = [keras.ops.convert_to_tensor(array) for array in INPUTS.values()]",
    ]
    if "saved" in modes:
        steps += ['if mode == "saved":', "    return arrays(run_saved(keras, inputs, symbolic, tensors)), promised"]
    if openvino and test.phase == "inference":
        steps += ['if keras.config.backend() == "openvino":', "    return run_on_openvino(keras, inputs, symbolic), promised"]
    steps += [f"run = lambda tensors: {run}  # noqa: E731"]
    if "compiled" in modes:
        steps += ['if mode == "compiled":', "    run = compiled(run, made, name)"]
    steps += ["results = arrays(pick(run(tensors)))"]
    if "repeat" in modes:
        steps += [
            "for _ in range(4):",
            "    again = arrays(pick(run(tensors)))",
            "    if any(again[key].tobytes() != results[key].tobytes() for key in again):",
            "        break",
            'results |= {f"{key} again": array for key, array in again.items()}',
        ]
    steps += ["return results, promised"]
    head = ["import random", ""] if test.phase == "training" else []
    if openvino:
        head += ['if os.environ["KERAS_BACKEND"] == "openvino":', "    compute_in_float32()"]
    head += ["import keras", "", 'assert keras.config.backend() == os.environ["KERAS_BACKEND"]']
    if test.phase == "training":
        head += [f"random.seed({test.seed})  # what Keras draws the seeds of its layers from"]
    told = '"""Results by name, and the shapes that Keras promised for them."""'
    body = indent("\n".join([told, *head, *steps]), "    ")
    return f"OUTPUTS = {list(test.network.outputs)!r}\n{_PICKING}\n\ndef compute(name, mode):\n{body}\n"


_PICKING = '''

def wanted(values):
    """All results of the network's outputs; `lstm:1` is the second result of `lstm`."""
    return [name for output in OUTPUTS for name in values if output in (name, name.partition(":")[0])]


def pick(values):
    return {name: values[name] for name in [*wanted(values), *(name for name in values if name.startswith("gradient:"))]}


def arrays(values):
    import keras

    found = {}
    for name, value in values.items():
        dtype = dtype_of(keras.backend.standardize_dtype(value.dtype))
        found[name] = np.asarray(keras.ops.convert_to_numpy(value)).astype(dtype)
    return found
'''
