"""A witness of a Keras model: a standalone script that loads the model on the same backend and calls it on the failing arrays.

The script needs Keras, its backend and NumPy alone. It loads the file, or imports the user's program as the check did; a live model
that has neither is saved beside it. It looks at every operator of the backend, and at the results as users get them, compiled.
"""

from __future__ import annotations

import inspect
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorproof.confirm.witness import SEEN_AT
from tensorproof.files import write_bytes
from tensorproof.frontends.keras_step import identifier, variables_by_name
from tensorproof.frontends.user_frames import first_sentence

if TYPE_CHECKING:
    from tensorproof.findings import Finding
    from tensorproof.frontends.input_declarations import InputDeclaration
    from tensorproof.frontends.keras_model import KerasModel

_SCRIPT = '''\
"""{title}

{summary}.

    model     {model_name}
    backend   {backend}
    layer     {layer}
    node      {node_name}
    operator  {op}
    operand   {operand}

The arrays are in {arrays}. This file needs keras, {backend} and numpy, and the model itself{missing}.
Run it either way:

    python {script} [MODEL]
        exit code 1: the failure is there; 0: it is gone; 2: the model cannot be run. MODEL is another file of the same model
    python -m pytest {script}
        fails while the failure is there
"""

import contextlib
import importlib.util
import inspect
import json
import os
import sys
import zipfile
from pathlib import Path

BACKEND = {backend!a}
os.environ["KERAS_BACKEND"] = BACKEND
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

HERE = Path(__file__).resolve().parent
#: A file of Keras, or the user's program and the name of the model in it.
MODEL = {model!a}
NAME = {name!a}
#: Whether the file may hold no code of its own.
SAFE = {safe!a}
#: Programs with the classes of the layers that are not Keras' own.
CLASSES = {classes!a}
ARRAYS = {arrays!a}
#: The variables of the model as the arrays call them, in its order.
WEIGHTS = {weights!a}
#: Inputs and targets with their formats.
INPUTS = {inputs!a}
TARGETS = {targets!a}
#: The parameters of the model's call, where the model does not say its inputs.
PARAMETERS = {parameters!a}
TRAINING = {training!a}
#: "forward": an operator fails. "backward": one of the gradients does.
PHASE = {phase!a}
#: "result": a result is not finite. "stop": the backend refuses to go on. "operand": no integer holds the operand.
SEEN_AT = {seen_at!a}
RULE = {rule!a}


def test_results_are_finite():
    there, account = replay(HERE / MODEL)
    assert not there, account


def replay(path):
    """Whether the failure is there, and what was seen."""
    if keras.backend.backend() != BACKEND:
        raise RuntimeError("Keras runs on %s here, not on %s" % (keras.backend.backend(), BACKEND))
    model, arrays = load(path), read()
    tensors = [keras.ops.convert_to_tensor(array(arrays[name], dtype), dtype) for name, dtype in INPUTS + TARGETS]
    if not model.built:
        outputs_of(model, tensors)
    give_weights(model, arrays)
    if TARGETS:
        # What the loss keeps is made before anything is traced.
        loss_of(model, tensors)
    try:
        failure, results = observed_by_jax(model, tensors) if BACKEND == "jax" else observed(model, tensors)
    except Exception as error:
        if SEEN_AT == "stop" and "zero" in str(error).lower():
            return True, "the model stops: %s" % error
        raise
    if failure is not None:
        return True, failure
    bad = sum(not np.isfinite(found).all() for found in map(numbers, results) if found is not None)
    what = "gradients" if PHASE == "backward" else "results"
    if bad and SEEN_AT == "result":
        return True, "%d of %d %s are not finite" % (bad, len(results), what)
    return False, "every operator and all %s are finite" % what


# -- the model and the arrays


def load(path):
    if NAME is None:
        known = {{}}
        for file, name in CLASSES:
            known[name.rpartition(".")[2]] = named(imported(HERE / file), name)
        model = keras.saving.load_model(path.resolve(), custom_objects=known, compile=False, safe_mode=SAFE)
        if TARGETS:
            with zipfile.ZipFile(path) as archive:
                training = json.loads(archive.read("config.json"))["compile_config"]
            given = {{key: training[key] for key in ("loss", "loss_weights") if training.get(key) is not None}}
            model.compile(optimizer=None, **{{key: keras.saving.deserialize_keras_object(x, known) for key, x in given.items()}})
        return model
    found = named(imported(path), NAME)
    return found() if inspect.isclass(found) or inspect.isfunction(found) else found


def imported(path):
    path = path.resolve()
    name = "program_" + path.stem
    if name not in sys.modules:
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def named(found, name):
    for part in name.split("."):
        found = getattr(found, part)
    return found


def read():
    with np.load(HERE / ARRAYS, allow_pickle=False) as archive:
        names = json.loads(bytes(archive["names"]))
        return {{name: archive["array_%d" % index] for index, name in enumerate(names)}}


def array(stored, dtype):
    """Numbers as they were; of bfloat16, which numpy does not have, the bits are stored."""
    if dtype == "bfloat16" and stored.dtype == np.uint16:
        return np.left_shift(stored, 16, dtype=np.uint32).view(np.float32)
    return stored


def give_weights(model, arrays):
    """The weights that are stored, by their order: Keras may name them otherwise here."""
    if not any(name in arrays for name in WEIGHTS):
        return
    if len(model.variables) != len(WEIGHTS):
        raise RuntimeError("the model has %d variables, not %d" % (len(model.variables), len(WEIGHTS)))
    for name, variable in zip(WEIGHTS, model.variables):
        if name in arrays:
            variable.assign(array(arrays[name], variable.dtype))


# -- what is computed


def outputs_of(model, tensors):
    given = tensors[: len(INPUTS)]
    if PARAMETERS:
        return model(given[0], **dict(zip(PARAMETERS[1:], given[1:])), training=TRAINING)
    if isinstance(model, keras.Sequential):
        return model(given[0], training=TRAINING)
    return model(keras.tree.pack_sequence_as(model.input, given), training=TRAINING)


def loss_of(model, tensors):
    outputs = outputs_of(model, tensors)
    if TARGETS:
        y = tensors[len(INPUTS) :]
        y = y[0] if len(y) == 1 else keras.tree.pack_sequence_as(outputs, y)
        return model.compute_loss(x=tensors[: len(INPUTS)], y=y, y_pred=outputs, training=True)
    leaves = [x for x in keras.tree.flatten(outputs) if "float" in keras.backend.standardize_dtype(x.dtype)]
    return sum(keras.ops.sum(x) for x in leaves)


def results_of(model, tensors):
    return keras.tree.flatten((loss_of if TRAINING else outputs_of)(model, tensors))


# -- what is seen


def fails(operands, results):
    """Whether one operator fails: it makes NaN of numbers, or infinities of finite ones."""
    results = [x for x in map(numbers, results) if x is not None]
    operands = [x for x in map(numbers, operands) if x is not None]
    if SEEN_AT != "result":
        return SEEN_AT == "operand" and not results and any((np.abs(x) >= 2.0**63).any() for x in operands)
    if any(np.isnan(x).any() for x in results):
        return not any(np.isnan(x).any() for x in operands)
    return any(np.isinf(x).any() for x in results) and all(np.isfinite(x).all() for x in operands)


def numbers(x):
    """A floating tensor or number in float64; None for anything else."""
    if isinstance(x, float):
        return np.float64(x)
    dtype = str(getattr(x, "dtype", ""))
    if "float" not in dtype or "float0" in dtype:
        return None
    return np.asarray(keras.ops.convert_to_numpy(x)).astype(np.float64)


def observed(model, tensors):
    """The first operator that fails, and the results: those that users get, too."""
    watch = tensorflow_watch() if BACKEND == "tensorflow" else torch_watch()
    if PHASE == "forward":
        with watch as failures:
            results = results_of(model, tensors)
    elif BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = loss_of(model, tensors)
        with watch as failures:
            results = tape.gradient(loss, [v.value for v in model.trainable_variables])
        results = [tf.convert_to_tensor(x) for x in results if x is not None]
    else:
        model.zero_grad()
        loss = loss_of(model, tensors)
        with watch as failures:
            loss.backward()
        results = [v.value.grad for v in model.trainable_variables if v.value.grad is not None]
    if BACKEND == "tensorflow" and not failures:
        results = results + list(in_a_graph(model, tensors))
    return next(iter(failures), None), results


def in_a_graph(model, tensors):
    """The same as TensorFlow computes it in a graph, which it rewrites."""
    import tensorflow as tf

    @tf.function(autograph=False)
    def step(*given):
        if PHASE == "forward":
            return results_of(model, given)
        with tf.GradientTape() as tape:
            loss = loss_of(model, given)
        found = tape.gradient(loss, [v.value for v in model.trainable_variables])
        return [tf.convert_to_tensor(x) for x in found if x is not None]

    return step(*tensors)


@contextlib.contextmanager
def tensorflow_watch():
    from tensorflow.python.framework import op_callbacks

    failures = []

    def seen(op, operands, attributes, results, op_name=None, graph=None):
        if graph is None and not failures and fails(operands, results):
            failures.append("%s fails" % (op.decode() if isinstance(op, bytes) else op))

    op_callbacks.add_op_callback(seen)
    try:
        yield failures
    finally:
        op_callbacks.remove_op_callback(seen)


@contextlib.contextmanager
def torch_watch():
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    failures = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            leaves = torch.utils._pytree.tree_leaves((args, kwargs))
            # Operators may write into their operands.
            operands = [x.clone() if isinstance(x, torch.Tensor) else x for x in leaves] if not failures else []
            result = function(*args, **(kwargs or {{}}))
            is_made = "empty" not in str(function)
            if is_made and not failures and fails(operands, torch.utils._pytree.tree_leaves(result)):
                failures.append("%s fails" % function)
            return result

    with Watch():
        yield failures


def observed_by_jax(model, tensors):
    """The same, equation by equation."""
    import jax

    variables = model.trainable_variables
    values = [v.value for v in variables]

    def step(values, function):
        with keras.StatelessScope(state_mapping=list(zip(variables, values))):
            return function(model, tensors)

    if PHASE == "forward":
        closed = jax.make_jaxpr(lambda values: step(values, results_of))(values)
        failures = equations(closed.jaxpr, closed.consts, values)[1]
        return next(iter(failures), None), jax.jit(lambda values: step(values, results_of))(values)
    loss, pull = jax.vjp(lambda values: step(values, loss_of), values)
    closed = jax.make_jaxpr(pull)(jax.numpy.ones_like(loss))
    failures = equations(closed.jaxpr, closed.consts, [jax.numpy.ones_like(loss)])[1]
    return next(iter(failures), None), jax.jit(jax.grad(lambda values: step(values, loss_of)))(values)


def equations(jaxpr, constants, arguments):
    """The results of a jaxpr, and its equations that fail."""
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments)))
    failures = []
    for equation in jaxpr.eqns:
        operands = [x.val if hasattr(x, "val") else values[x] for x in equation.invars]
        name = equation.primitive.name
        inner = [x for x in equation.params.values() if hasattr(x, "jaxpr") and hasattr(x, "consts")]
        if name in ("jit", "pjit", "closed_call", "custom_jvp_call") and len(inner) == 1:
            results, below = equations(inner[0].jaxpr, inner[0].consts, operands)
            failures += below
        else:
            bound = equation.primitive.get_bind_params(equation.params)
            functions, parameters = bound if isinstance(bound, tuple) else ((), bound)
            results = equation.primitive.bind(*functions, *operands, **parameters)
            results = results if equation.primitive.multiple_results else [results]
            if fails(operands, results):
                failures.append("%s fails" % name)
        values.update(zip(equation.outvars, results))
    return [x.val if hasattr(x, "val") else values[x] for x in jaxpr.outvars], failures


def main(arguments):
    try:
        there, account = replay(Path(arguments[0]) if arguments else HERE / MODEL)
    except Exception as error:
        print("cannot be run: %s: %s" % (type(error).__name__, error), file=sys.stderr)
        return 2
    print(("the failure is there: " if there else "the failure is NOT there: ") + RULE + ": " + account)
    return 1 if there else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
'''


def script(model: KerasModel, finding: Finding, arrays: Path) -> str:
    """The text of the script; a model without a file is saved beside the arrays."""
    step, source, reason = model.step, model.source, ""
    if source.path is None:
        stored = arrays.with_suffix(".keras")
        reason = _save(step.model, stored)
        path, name = stored.name, None
    else:
        path = os.path.relpath(source.path.resolve(), arrays.parent.resolve())
        name = source.name if source.path.suffix == ".py" else None
    where = finding.location
    return _SCRIPT.format(
        title=f"{finding.rule.code} {finding.rule.name}: an input that makes a Keras model fail.",
        summary=_plain(finding.rule.summary),
        model_name=_plain(source.label),
        backend=model.backend,
        layer="unknown" if where is None or not where.module else _plain(where.module),
        node_name=_plain(finding.node),
        op=_plain(finding.op),
        operand=f"{_plain(finding.operand)}, within [{finding.low:g}, {finding.high:g}] by the analysis",
        arrays=arrays.name,
        missing=f", which Keras could not save here ({_plain(reason)}): give its file as MODEL" if reason else "",
        script=f"test_{arrays.stem}.py",
        model=path,
        name=name,
        # What is saved here is the user's own.
        safe=source.path is not None and not model.trusted,
        classes=_classes(step.model, arrays.parent) if source.path is None else [],
        weights=list(variables_by_name(step.model)),
        inputs=[(identifier(item.name), _dtype(item)) for item in step.inputs],
        targets=[(identifier(item.name), _dtype(item)) for item in step.targets],
        parameters=list(step.parameters),
        training=step.training,
        phase="backward" if _is_in_gradients(model, finding) else "forward",
        seen_at=SEEN_AT.get(finding.rule.code, "result"),
        rule=f"{finding.rule.code} {finding.rule.name}",
    )


def _is_in_gradients(model: KerasModel, finding: Finding) -> bool:
    """Whether a finding is about gradients: by its rule, or at a node of their formulas."""
    return finding.phase == "backward" or any(
        node.name == finding.node and node.phase == "backward" for node in model.model.graph.walk()
    )


def _save(model: Any, path: Path) -> str:
    """Write a model beside its witness; the reason if Keras cannot."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder) / path.name
            model.save(written)
            write_bytes(path, written.read_bytes())
    except Exception as error:  # Keras raises what its layers raise
        return f"{type(error).__name__}: {first_sentence(error)}"
    return ""


def _classes(model: Any, folder: Path) -> list[tuple[str, str]]:
    """The files and names of the classes of layers that are not Keras' own; those that stand in no file are left out."""
    found: dict[type, tuple[str, str]] = {}
    layers: list[Any] = list(model._flatten_layers())
    for kind in map(type, layers):
        if kind in found or kind.__module__.partition(".")[0] == "keras" or "<" in kind.__qualname__:
            continue
        try:
            file = inspect.getsourcefile(kind)
        except (OSError, TypeError):
            continue
        if file is not None and Path(file).is_file():
            found[kind] = os.path.relpath(Path(file).resolve(), folder.resolve()), kind.__qualname__
    return list(found.values())


def _dtype(item: InputDeclaration) -> str:
    return "float32" if item.format is None else item.format.name


def _plain(text: str) -> str:
    """Text that cannot leave the docstring that it stands in."""
    return " ".join(text.replace("\\", "/").replace('"', "'").rstrip(".").split())
