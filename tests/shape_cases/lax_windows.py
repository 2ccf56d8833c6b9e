"""Convolutions and windows of `jax.lax`."""

from __future__ import annotations

from tensorproof.shapes.families.names import spelled
from tests.shape_cases import Draw, cases


def _padding(draw: Draw, axes: int) -> str:
    return draw.pick(['"SAME"', '"VALID"', str([(draw.integer(0, 2), draw.integer(0, 2)) for _ in range(axes)])])


@cases("jax.lax.conv_general_dilated", "jax.lax.conv")
def _(draw: Draw) -> str:
    axes = draw.integer(1, 2)
    channels, filters = draw.integer(1, 3), draw.integer(1, 3)
    sizes, kernel = tuple(draw.integer(4, 7) for _ in range(axes)), tuple(draw.integer(1, 3) for _ in range(axes))
    taken = draw.pick([channels, channels, channels + 1])
    strides = tuple(draw.integer(1, 2) for _ in range(axes))
    last = draw.chance(0.5) and draw.short != "conv"
    image = (2, *sizes, channels) if last else (2, channels, *sizes)
    weights = (*kernel, taken, filters) if last else (filters, taken, *kernel)
    if draw.chance(0.1):
        weights = weights[1:]
    letters = "HW"[:axes]
    options = f', dimension_numbers=("N{letters}C", "{letters}IO", "N{letters}C")' if last else ""
    if draw.chance(0.3) and draw.short != "conv":
        options += f", rhs_dilation={tuple(draw.integer(1, 2) for _ in range(axes))}"
    padding = _padding(draw, axes) if draw.short != "conv" else draw.pick(['"SAME"', '"VALID"'])
    return f"{draw.name}({draw.array(image)}, {draw.array(weights)}, {strides}, {padding}{options})"


@cases("jax.lax.reduce_window")
def _(draw: Draw) -> str:
    shape = tuple(draw.integer(3, 6) for _ in range(draw.integer(1, 4)))
    window = draw.varied(tuple(draw.integer(1, 3) for _ in shape), 0.2)
    strides = tuple(draw.integer(1, 2) for _ in window)
    return f"jax.lax.reduce_window({draw.array(shape)}, 0.0, jax.lax.add, {window}, {strides}, {_padding(draw, len(shape))})"


@cases(*spelled("jax.ops", "segment_sum segment_max segment_min segment_prod"))
def _(draw: Draw) -> str:
    shape = draw.shape(1, 3)
    return f"{draw.name}({draw.array(shape)}, jnp.zeros(({shape[0]},), int), num_segments={draw.integer(1, 5)})"


@cases(
    *spelled("jax.nn.initializers", "glorot_normal glorot_uniform he_normal he_uniform lecun_normal lecun_uniform normal uniform "
             "orthogonal truncated_normal xavier_normal xavier_uniform kaiming_normal kaiming_uniform"),
)  # fmt: skip
def _(draw: Draw) -> str:
    return f"{draw.name}()(jax.random.PRNGKey(0), {draw.shape(2, 4)})"


@cases("jax.nn.initializers.constant")
def _(draw: Draw) -> str:
    return f"jax.nn.initializers.constant(0.5)(jax.random.PRNGKey(0), {draw.shape(0, 4)})"


@cases("jax.nn.initializers.variance_scaling")
def _(draw: Draw) -> str:
    return f'jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal")(jax.random.PRNGKey(0), {draw.shape(2, 4)})'


@cases("jax.nn.initializers.zeros", "jax.nn.initializers.ones")
def _(draw: Draw) -> str:
    return f"{draw.name}(jax.random.PRNGKey(0), {draw.shape(0, 4)})"
