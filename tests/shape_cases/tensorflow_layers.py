"""Initialisers, losses of version 1 and structures of TensorFlow."""

from __future__ import annotations

from tests.shape_cases import Draw, cases

#: Makes the analysis take the program for one of version 1.
_VERSION_1 = "tf.compat.v1.Session.run"
_OLD = (
    "zeros",
    "ones",
    "constant",
    "random_normal",
    "random_uniform",
    "truncated_normal",
    "orthogonal",
    "glorot_uniform",
    "glorot_normal",
    "variance_scaling",
    "uniform_unit_scaling",
)


@cases(*(f"tf.{name}_initializer" for name in _OLD))
def _(draw: Draw) -> str:
    return f"tf.compat.v1.{draw.short}()({list(draw.shape(2, 3))})"


@cases(
    *(f"tf.losses.{name}" for name in ("mean_squared_error", "absolute_difference", "huber_loss", "log_loss", "hinge_loss")),
    setup=_VERSION_1,
)
def _(draw: Draw) -> str:
    shape = draw.shape(0, 3)
    return f"tf.compat.v1.losses.{draw.short}({draw.array(draw.varied(shape))}, {draw.array(shape)})"


@cases("tf.losses.sigmoid_cross_entropy", "tf.losses.softmax_cross_entropy", setup=_VERSION_1)
def _(draw: Draw) -> str:
    shape = draw.shape(2, 2)
    return f"tf.compat.v1.losses.{draw.short}({draw.array(draw.varied(shape))}, {draw.array(shape)})"


@cases("tf.losses.sparse_softmax_cross_entropy", setup=_VERSION_1)
def _(draw: Draw) -> str:
    shape = draw.shape(2, 2)
    return f"tf.compat.v1.losses.{draw.short}(tf.zeros({draw.varied(shape[:-1])}, tf.int32), {draw.array(shape)})"


@cases("tf.space_to_depth", "tf.depth_to_space")
def _(draw: Draw) -> str:
    if draw.short == "space_to_depth":
        shape = (1, draw.pick([2, 4, 3]), draw.pick([2, 4]), draw.integer(1, 3))
    else:
        shape = (1, draw.integer(1, 3), draw.integer(1, 3), draw.pick([4, 8, 6]))
    return f"tf.compat.v1.{draw.short}({draw.array(draw.varied(shape, 0.1))}, 2)"


@cases("tf.nn.depthwise_conv2d_native")
def _(draw: Draw) -> str:
    channels = draw.integer(1, 4)
    image = draw.array((1, draw.integer(1, 5), draw.integer(1, 5), channels))
    weights = draw.array((draw.integer(1, 3), draw.integer(1, 3), channels if draw.chance(0.75) else 5, draw.integer(1, 2)))
    return f"tf.compat.v1.nn.{draw.short}({image}, {weights}, [1, 1, 1, 1], {draw.pick(['SAME', 'VALID'])!r})"
