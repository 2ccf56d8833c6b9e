"""A recorded program as a graph of TensorFlow 1, built by TensorFlow itself: placeholders, variables, operators as it spells them.

Steps keep their names, images have their channels last (`channels_last`), indices are int32. Variables have initialisers that
TensorFlow draws, so a graph is small however many weights it has. The outputs are identities of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.zoo.builder import Recording, Step, Weight
from benchmarks.zoo.channels_last import Arrangement, arrangement

if TYPE_CHECKING:
    from benchmarks.zoo.entry import Optimiser


def graph(recording: Recording, *, seed: int, optimiser: Optimiser | None = None) -> Any:
    """The `tf.Graph`; with an optimiser, TensorFlow adds the gradients of the loss and the steps of the weights."""
    import tensorflow

    tf: Any = tensorflow.compat.v1
    with tf.Graph().as_default() as built:
        tf.set_random_seed(seed)
        _Interpreter(tf, recording).run(optimiser)
    return built


class _Interpreter:
    """The state of building one graph: the tensors of the values that are there already."""

    def __init__(self, tf: Any, recording: Recording) -> None:
        self.tf = tf
        self.recording = recording
        self.places = arrangement(recording)
        self.meanings = _meanings(tf, recording, self.places)
        self.known: dict[str, Any] = {}

    def run(self, optimiser: Optimiser | None) -> None:
        tf, recording = self.tf, self.recording
        for given in recording.inputs.values():
            self._keep(given.name, tf.placeholder(tf.int32 if given.integer else tf.float32, given.shape, name=given.name))
        variables = {name: self._variable(weight) for name, weight in recording.weights.items()}
        for name, array in recording.constants.items():
            self._keep(name, tf.constant(array.astype(np.int32) if array.dtype == np.int64 else array, name=name))
        for step in recording.steps:
            operands = [self.known[operand] for operand in step.operands]
            self._keep(step.name, self.meanings[step.operator](step, *operands), operands)
        for output, value in recording.outputs.items():
            self._keep(output, tf.identity(self.known[value], name=output))
        if optimiser is not None:
            _train(tf, optimiser, variables, self.known)

    def _keep(self, name: str, tensor: Any, operands: list[Any] | None = None) -> None:
        """Remember a value. What moves no numbers in TensorFlow's order is its operand, under the operand's name."""
        handed_on = any(tensor is operand for operand in operands or ())
        if not handed_on and tensor.op.name != name:
            raise ValueError(f"TensorFlow calls the value {name!r} {tensor.op.name!r}")
        self.known[name] = tensor

    def _variable(self, weight: Weight) -> Any:
        tf = self.tf
        shape = self.places.shape(weight.name, weight.shape)
        variable = tf.Variable(lambda: _initial(tf, weight, shape), name=weight.name, use_resource=False)
        self._keep(weight.name, variable)
        return variable


def _initial(tf: Any, weight: Weight, shape: tuple[int, ...]) -> Any:
    initial = weight.initial
    match initial.law:
        case "constant":
            return tf.fill(shape, initial.numbers[0]) if len(initial.numbers) == 1 else tf.constant(initial.numbers, shape=shape)
        case "uniform":
            return tf.random.uniform(shape, *initial.numbers)
        case "normal":
            return tf.random.normal(shape, stddev=initial.numbers[0])
        case "truncated normal":
            return tf.random.truncated_normal(shape, stddev=initial.numbers[0])


# -- operators -----------------------------------------------------------------------------------------------------------


def _meanings(tf: Any, recording: Recording, places: Arrangement) -> dict[str, Callable[..., Any]]:
    """What each operator does, given its step and its operands."""

    def plain(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda step, *operands: function(*operands, name=step.name)

    def reduction(function: Callable[..., Any]) -> Callable[..., Any]:
        def reduced(step: Step, x: Any) -> Any:
            axes = sorted(places.axis(step.operands[0], axis) for axis in step.attributes["axes"])
            return function(x, axis=axes, keepdims=step.attributes["keep"], name=step.name)

        return reduced

    def along(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda step, x: function(x, axis=places.axis(step.operands[0], step.attributes["axis"]), name=step.name)

    def clip(step: Step, x: Any, *bounds: Any) -> Any:
        match step.attributes["bounds"]:
            case ("low",):
                return tf.maximum(x, *bounds, name=step.name)
            case ("high",):
                return tf.minimum(x, *bounds, name=step.name)
            case _:
                return tf.clip_by_value(x, *bounds, name=step.name)

    def conv(step: Step, x: Any, kernel: Any) -> Any:
        padding = step.attributes["padding"].upper()
        return tf.nn.conv2d(x, kernel, strides=step.attributes["stride"], padding=padding, name=step.name)

    def conv_transpose(step: Step, x: Any, kernel: Any) -> Any:
        size = places.shape(step.name, recording.shapes[step.name])
        return tf.nn.conv2d_transpose(x, kernel, size, step.attributes["stride"], padding="VALID", name=step.name)

    def max_pool(step: Step, x: Any) -> Any:
        size = step.attributes["size"]
        return tf.nn.max_pool2d(x, size, size, padding="VALID", name=step.name)

    def reshape(step: Step, x: Any) -> Any:
        return tf.reshape(x, places.shape(step.name, step.attributes["shape"]), name=step.name)

    def transpose(step: Step, x: Any) -> Any:
        return x if len(step.attributes["order"]) == 4 else tf.transpose(x, step.attributes["order"], name=step.name)

    def concat(step: Step, *parts: Any) -> Any:
        return tf.concat(parts, places.axis(step.name, step.attributes["axis"]), name=step.name)

    def tile(step: Step, x: Any) -> Any:
        repeats = [step.attributes["repeats"][axis] for axis in places.orders[step.name]]
        return tf.tile(x, repeats, name=step.name)

    def part(step: Step, x: Any) -> Any:
        given, axis = step.attributes, places.axis(step.name, step.attributes["axis"])
        first, last, stride = [0] * len(x.shape), list(map(int, x.shape)), [1] * len(x.shape)
        first[axis], last[axis], stride[axis] = given["first"], given["last"], given["step"]
        return tf.strided_slice(x, first, last, stride, name=step.name)

    def pick(step: Step, x: Any, indices: Any) -> Any:
        """One element of each row, as programs of this time wrote it: GatherNd at (row, index)."""
        rows = tf.constant(np.arange(int(x.shape[0]), dtype=np.int32)[:, None], name=f"{step.name}/rows")
        places_of_rows = tf.concat([rows, indices], 1, name=f"{step.name}/places")
        picked = tf.gather_nd(x, places_of_rows, name=f"{step.name}/picked")
        return tf.reshape(picked, indices.shape, name=step.name)

    return {
        "Neg": plain(tf.negative),
        "Abs": plain(tf.abs),
        "Exp": plain(tf.exp),
        "Log": plain(tf.log),
        "Sqrt": plain(tf.sqrt),
        "Floor": plain(tf.floor),
        "Cast": lambda step, x: tf.cast(x, tf.int32, name=step.name),
        "Relu": plain(tf.nn.relu),
        "Sigmoid": plain(tf.sigmoid),
        "Tanh": plain(tf.tanh),
        "Softplus": plain(tf.nn.softplus),
        "Add": plain(tf.add),
        "Sub": plain(tf.subtract),
        "Mul": plain(tf.multiply),
        "Div": plain(tf.realdiv),
        "MatMul": plain(tf.matmul),
        "Softmax": along(tf.nn.softmax),
        "LogSoftmax": along(tf.nn.log_softmax),
        "Clip": clip,
        "Conv": conv,
        "ConvTranspose": conv_transpose,
        "MaxPool": max_pool,
        "ReduceSum": reduction(tf.reduce_sum),
        "ReduceMean": reduction(tf.reduce_mean),
        "ReduceMax": reduction(tf.reduce_max),
        "ReduceMin": reduction(tf.reduce_min),
        "Reshape": reshape,
        "Transpose": transpose,
        "Concat": concat,
        "Tile": tile,
        "Slice": part,
        "Gather": lambda step, x, indices: tf.gather(x, indices, axis=step.attributes["axis"], name=step.name),
        "GatherElements": pick,
    }


# -- training ------------------------------------------------------------------------------------------------------------


def _train(tf: Any, optimiser: Optimiser, variables: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    if optimiser.method == "by hand":
        _step_by_hand(tf, optimiser.rate, variables, known)
        return
    for output, prefix in optimiser.trains.items():
        trained = [variable for name, variable in variables.items() if name.startswith(prefix)]
        _chosen(tf, optimiser).minimize(known[output], var_list=trained)


def _chosen(tf: Any, optimiser: Optimiser) -> Any:
    rate, options = optimiser.rate, optimiser.options
    match optimiser.method:
        case "SGD":
            return tf.train.GradientDescentOptimizer(rate)
        case "Adam":
            return tf.train.AdamOptimizer(rate)
        case "Adagrad":
            return tf.train.AdagradOptimizer(rate)
        case "RMSProp":
            return tf.train.RMSPropOptimizer(rate, epsilon=options["epsilon"], centered=True)
        case "momentum":
            steps = tf.train.get_or_create_global_step()
            falling = tf.train.exponential_decay(rate, steps, options["decay_steps"], options["decay"], staircase=True)
            return tf.train.MomentumOptimizer(falling, options["momentum"])
        case method:
            raise ValueError(f"no optimiser is called {method!r}")


def _step_by_hand(tf: Any, rate: float, variables: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """What the one program that trains by hand does: W moves by x^T (y - p), and b by the mean over its rows."""
    error = tf.matmul(tf.transpose(known["x"]), known["y"] - known["loss/softmax"], name="error")
    tf.assign_add(variables["W_out"], rate * error, name="move_W")
    tf.assign_add(variables["b_out"], rate * tf.reduce_mean(error, axis=0), name="move_b")
