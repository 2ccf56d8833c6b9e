"""Modules of version 2 as SavedModels with variables and debug information: functions that call functions, loops, branches, maps."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.tensorflow_corpus.pairs import Deferred, Expected, pair

tf: Any = Deferred("tensorflow")


def module(call: Any, *inputs: tuple[str, list[int | None]], **variables: Any) -> Any:
    """A module with variables whose signature is `call(module, *inputs)`."""
    made = tf.Module()
    for name, value in variables.items():
        setattr(made, name, tf.Variable(value, name=name))
    signature = [tf.TensorSpec(shape, tf.float32, name) for name, shape in inputs]
    made.call = tf.function(partial(call, made), input_signature=signature)
    return made


@pair(
    "saved_v2",
    Expected("NUM101", "Log", "(.*/)?Log"),
    ranges={"x": (-10, 10)},
    point={"x": [[10.0, -10.0, 10.0, -10.0]]},
    phase="inference",
    confirmed=True,
)
def surprise(safe: bool) -> Any:
    def call(self: Any, x: Any) -> Any:
        p = tf.nn.softmax(x @ self.w)
        if safe:
            return {"p": p, "surprise": -tf.reduce_sum(p * tf.nn.log_softmax(x @ self.w), axis=-1)}
        logarithm = tf.math.log(p)  # BUG
        return {"p": p, "surprise": -tf.reduce_sum(p * logarithm, axis=-1)}

    return module(call, ("x", [None, 4]), w=[[3.0, -3.0, 0.0], [-3.0, 3.0, 0.0]] * 2)


@pair(
    "saved_v2",
    Expected("NUM103", "Div", "(.*/)?truediv"),
    ranges={"v": (-1, 1)},
    point={"v": 0.0},
    also=(Expected("NUM202", "Mul", "(.*/)?Square"), Expected("NUM203", "ReduceSum", "(.*/)?Sum")),
    phase="inference",
)
def loop_that_rescales(safe: bool) -> Any:
    def call(self: Any, v: Any) -> Any:
        def step(count: Any, state: Any) -> Any:
            state = state @ self.matrix
            length = tf.sqrt(tf.reduce_sum(tf.square(state), axis=-1, keepdims=True))
            if safe:
                return count + 1, state / tf.maximum(length, 1e-6)
            return count + 1, state / length  # BUG

        return tf.while_loop(lambda count, state: count < 6, step, [tf.constant(0), v])[1]

    return module(
        call, ("v", [2, 4]), matrix=[[0.5, 0.1, 0.0, 0.0], [0.1, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.1], [0.0, 0.0, 0.1, 0.5]]
    )


@pair(
    "saved_v2",
    Expected("NUM102", "Sqrt", "(.*/)?Sqrt"),
    ranges={"x": (-4, 4), "mode": (0, 1)},
    point={"x": -4.0, "mode": 1.0},
    phase="inference",
)
def root_in_a_branch(safe: bool) -> Any:
    def call(self: Any, x: Any, mode: Any) -> Any:
        def root() -> Any:
            if safe:
                return tf.sqrt(tf.nn.relu(x)) * self.scale
            return tf.sqrt(x) * self.scale  # BUG

        return tf.cond(mode > 0.5, root, lambda: x * self.scale)

    return module(call, ("x", [None, 3]), ("mode", []), scale=2.0)


@pair(
    "saved_v2",
    Expected("NUM101", "Log", "(.*/)?Log"),
    ranges={"x": (0, 1)},
    point={"x": 0.0},
    phase="inference",
)
def list_of_logarithms(safe: bool) -> Any:
    """A loop that collects its results in a TensorArray, as AutoGraph writes it: a list of tensors."""

    def call(self: Any, x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, size=4, element_shape=[3])
        for index in tf.range(4):
            row = x[index] * self.gain
            if safe:
                rows = rows.write(index, tf.math.log(row + 1e-4))
            else:
                rows = rows.write(index, tf.math.log(row))  # BUG
        return rows.stack()

    return module(call, ("x", [4, 3]), gain=[1.0, 2.0, 0.5])


@pair(
    "saved_v2",
    Expected("NUM103", "Div", "(.*/)?truediv"),
    ranges={"x": (0, 5)},
    point={"x": 0.0},
    phase="inference",
)
def mapped_rows(safe: bool) -> Any:
    def call(self: Any, x: Any) -> Any:
        def share(row: Any) -> Any:
            if safe:
                return row / (tf.reduce_sum(row) + self.epsilon)
            return row / tf.reduce_sum(row)  # BUG

        return tf.map_fn(share, x)

    return module(call, ("x", [4, 3]), epsilon=0.01)


@pair(
    "saved_v2",
    Expected("NUM201", "Exp", "(.*/)?Exp"),
    ranges={"x": (-50, 50)},
    point={"x": 50.0},
    phase="inference",
)
def scanned_sums(safe: bool) -> Any:
    def call(self: Any, x: Any) -> Any:
        def add(total: Any, row: Any) -> Any:
            return tf.clip_by_value(total + row * self.weight, -40.0, 40.0) if safe else total + row * self.weight

        totals = tf.scan(add, x, initializer=tf.zeros([3]))
        return tf.exp(totals)  # BUG

    return module(call, ("x", [4, 3]), weight=1.0)


@pair(
    "saved_v2",
    Expected("NUM101", "Log", "(.*/)?Log"),
    ranges={"x": (-1, 1), "y": (-1, 1)},
    point={"x": -1.0, "y": 1.0},
    phase="inference",
    confirmed=True,
)
def functions_in_functions(safe: bool) -> Any:
    """Two levels of calls; the inner function is called twice and fails in one of the calls alone."""

    @tf.function
    def logarithm(x: Any) -> Any:
        return tf.math.log(x)  # BUG

    @tf.function
    def shifted(x: Any, by: Any) -> Any:
        return logarithm(x + by)

    def call(self: Any, x: Any, y: Any) -> Any:
        return shifted(y, self.far) + shifted(x, self.far if safe else self.near)

    return module(call, ("x", [None, 3]), ("y", [None, 3]), far=2.0, near=1.0)


@pair(
    "saved_v2",
    Expected("NUM401", "Sqrt", "(.*/)?Sqrt(Grad)?", "backward"),
    ranges={"x": (-1, 1)},
    point={"x": 0.0},
    phase="training",
)
def recorded_gradient(safe: bool) -> Any:
    """A step of training as a signature: the tape's nodes stand beside those of the loss."""

    def call(self: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            size = tf.reduce_sum(tf.square(x @ self.w), axis=-1)
            if safe:
                size = size + 1e-6
            loss = tf.reduce_mean(tf.sqrt(size))  # BUG
        return {"loss": loss, "gradient": tape.gradient(loss, self.w)}

    return module(call, ("x", [None, 3]), w=[[0.5, -0.5], [0.25, 0.75], [-0.5, 0.1]])


@pair(
    "saved_v2",
    Expected("NUM103", "Reciprocal", "(.*/)?Rsqrt"),
    ranges={"x": (-3, 3)},
    point={"x": 1.5},
    also=(Expected("NUM202", "Mul", "(.*/)?mul.*"),),
    phase="inference",
)
def layer_normalisation_by_hand(safe: bool) -> Any:
    def call(self: Any, x: Any) -> Any:
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        if safe:
            variance = variance + 1e-5
        return (x - mean) * tf.math.rsqrt(variance) * self.gain + self.offset  # BUG

    return module(call, ("x", [None, 6]), gain=[1.0] * 6, offset=[0.0] * 6)


@pair(
    "saved_v2",
    Expected("NUM106", "Mod", "(.*/)?FloorMod"),
    ranges={"angle": (-10, 10), "period": (0, 6)},
    point={"angle": 3.0, "period": 0.0},
    phase="inference",
)
def wrapped_angle(safe: bool) -> Any:
    def call(self: Any, angle: Any, period: Any) -> Any:
        if safe:
            period = tf.maximum(period, 0.5)
        return tf.math.floormod(angle * self.speed, period)  # BUG

    return module(call, ("angle", [None]), ("period", [None]), speed=2.0)
