"""Graphs of TensorFlow 1, as far as TensorFlow 2 still builds and runs them."""

from __future__ import annotations

from tests.shape_cases import Draw, cases

_SETUP = """
import numpy as np

def in_graph(build):
    with tf.Graph().as_default():
        return build()

def in_scope(build):
    with tf.Graph().as_default(), tf.compat.v1.variable_scope("scope", reuse=tf.compat.v1.AUTO_REUSE):
        return build()

def gradient(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * x)
    return tape.gradient(y, x)
"""


def _with_gaps(draw: Draw, shape: tuple[int, ...]) -> list[int | None]:
    return [None if draw.chance(0.3) else size for size in shape]


def _placeholder(shape: object) -> str:
    return f"tf.compat.v1.placeholder(tf.float32, {shape})"


@cases("tf.placeholder", "tf.Session", "tf.Graph", setup=_SETUP)
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    declared = _with_gaps(draw, draw.varied(shape))
    run = f"tf.compat.v1.Session().run(x * 2.0, {{x: np.zeros({shape})}})"
    return f"in_graph(lambda: (lambda x: {run})({_placeholder(declared)}))"


@cases("tf.Tensor.eval", setup=_SETUP)
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    declared = _with_gaps(draw, draw.varied(shape))
    run = f"tf.reduce_sum(x, axis=0).eval({{x: np.zeros({shape})}}, session=tf.compat.v1.Session())"
    return f"in_graph(lambda: (lambda x: {run})({_placeholder(declared)}))"


@cases("tf.placeholder_with_default", setup=_SETUP)
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    return f"in_graph(lambda: tf.compat.v1.placeholder_with_default(tf.zeros({list(draw.varied(shape))}), {list(shape)}) + 0)"


@cases("tf.Tensor.set_shape", setup=_SETUP)
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    declared = _with_gaps(draw, draw.varied(shape))
    return f"in_graph(lambda: (lambda x: (x.set_shape({list(shape)}), x + 0)[1])({_placeholder(declared)}))"


@cases("tf.get_variable", "tf.variable_scope", setup=_SETUP)
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    first, second = (f"tf.compat.v1.get_variable('w', {list(part)})" for part in (shape, draw.varied(shape)))
    return f"in_scope(lambda: [{first}, {second}][1] + 0) # Session()"


@cases("tf.gradients", setup=_SETUP)
def _(draw: Draw) -> str:
    shapes = [draw.shape(0, 3) for _ in range(2)]
    product = draw.pick(["a * a", "tf.reduce_sum(b) + a", "tf.matmul(a, b)"])
    build = f"lambda a, b: tf.gradients({product}, [a, b], unconnected_gradients='zero')"
    return f"in_graph(lambda: ({build})({_placeholder(list(shapes[0]))}, {_placeholder(list(shapes[1]))}))"


@cases("tf.GradientTape", setup=_SETUP)
def _(draw: Draw) -> str:
    return f"gradient({draw.array(draw.shape(0, 3))})"


@cases("tf.tuple", "tf.function", setup=_SETUP)
def _(draw: Draw) -> str:
    array = draw.array(draw.shape(0, 3))
    return f"tf.function(lambda x: x + 0)({array})" if draw.short == "function" else f"tf.tuple([{array}, {array}])"


@cases("tf.TensorShape")
def _(draw: Draw) -> str:
    return f"tf.zeros(tf.TensorShape({list(draw.shape(0, 3))}))"


@cases("tf.decode_raw", "tf.io.decode_raw", imprecise=True)
def _(draw: Draw) -> str:
    return f"tf.io.decode_raw(b'{'a' * draw.integer(1, 5)}', tf.uint8)"


@cases(
    *(
        f"tf.initializers.{name}"
        for name in (
            "Constant",
            "GlorotNormal",
            "GlorotUniform",
            "HeNormal",
            "HeUniform",
            "Ones",
            "Orthogonal",
            "RandomNormal",
            "RandomUniform",
            "TruncatedNormal",
            "VarianceScaling",
            "Zeros",
        )
    )
)
def _(draw: Draw) -> str:
    return f"{draw.name}()({list(draw.shape(2, 3))})"


@cases(
    *(
        f"tf.initializers.{name}"
        for name in (
            "constant",
            "glorot_uniform",
            "he_normal",
            "ones",
            "orthogonal",
            "random_normal",
            "random_uniform",
            "truncated_normal",
            "variance_scaling",
            "zeros",
        )
    )
)
def _(draw: Draw) -> str:
    return f"tf.compat.v1.{draw.name[3:]}()({list(draw.shape(2, 3))})"
