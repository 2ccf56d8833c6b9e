"""Matrix products and contractions."""

from __future__ import annotations

import itertools

from tests.shape_cases import Draw, cases


def _operands(draw: Draw) -> tuple[str, str]:
    left = draw.shape(1, 4)
    inner = left[-1]
    right = (inner,) if draw.chance(0.2) else (*left[:-2][: draw.integer(0, 2)], inner, draw.integer(1, 5))
    return draw.array(left), draw.array(draw.varied(right))


def _called(draw: Draw, first: str, second: str) -> str:
    name = draw.name.replace("jax.numpy", "jnp").replace("numpy.", "np.")
    return f"{first}.{draw.short}({second})" if draw.is_method else f"{name}({first}, {second})"


@cases(
    "torch.matmul", "torch.Tensor.matmul", "torch.linalg.matmul", "torch.__matmul__", "numpy.__matmul__", "jax.__matmul__",
    "numpy.matmul", "jax.numpy.matmul", "jax.numpy.linalg.matmul", "keras.ops.matmul", "numpy.dot", "numpy.ndarray.dot", "jax.numpy.dot",
    "jax.Array.dot", "keras.ops.dot", "jax.lax.dot", "jax.lax.batch_matmul", "tf.matmul", "tf.linalg.matmul", "tf.__matmul__",
    "keras.__matmul__", "numpy.linalg.matmul",
)  # fmt: skip
def _(draw: Draw) -> str:
    left, right = _operands(draw)
    if draw.name == "keras.__matmul__":
        # A vector is refused by some backends.
        rows, inner, columns = (draw.integer(1, 4) for _ in range(3))
        left, right = draw.array((rows, inner)), draw.array((draw.pick([inner, inner, inner + 1]), columns))
    if draw.short == "__matmul__":
        return f"{left} @ {right}"
    return _called(draw, left, right)


@cases(*(f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("mm", "bmm", "mv", "dot", "vdot", "outer", "ger")))
def _(draw: Draw) -> str:
    a, b, c, d = (draw.integer(1, 4) for _ in range(4))
    left, right = {
        "mm": ((a, b), (b, c)), "bmm": ((d, a, b), (d, b, c)), "mv": ((a, b), (b,)), "dot": ((a,), (a,)), "vdot": ((a,), (a,)),
        "outer": ((a,), (b,)), "ger": ((a,), (b,)),
    }[draw.short]  # fmt: skip
    return _called(draw, draw.array(draw.varied(left, 0.15)), draw.array(draw.varied(right, 0.25)))


@cases(*(f"torch.{prefix}{name}" for prefix in ("", "Tensor.") for name in ("addmm", "baddbmm", "addbmm", "addmv", "addr")))
def _(draw: Draw) -> str:
    a, b, c, d = (draw.integer(1, 4) for _ in range(4))
    first, left, right = {
        "addmm": ((a, c), (a, b), (b, c)), "baddbmm": ((d, a, c), (d, a, b), (d, b, c)), "addbmm": ((a, c), (d, a, b), (d, b, c)),
        "addmv": ((a,), (a, b), (b,)), "addr": ((a, b), (a,), (b,)),
    }[draw.short]  # fmt: skip
    start = first if draw.chance(0.5) else first[1:]
    arrays = [draw.array(draw.varied(shape, 0.15)) for shape in (start, left, right)]
    return f"{arrays[0]}.{draw.short}({arrays[1]}, {arrays[2]})" if draw.is_method else f"{draw.name}({', '.join(arrays)})"


@cases("torch.linalg.multi_dot", "numpy.linalg.multi_dot", "jax.numpy.linalg.multi_dot", "torch.chain_matmul")
def _(draw: Draw) -> str:
    sizes = [draw.integer(1, 4) for _ in range(draw.integer(3, 5))]
    matrices = [draw.array(draw.varied(pair, 0.1)) for pair in itertools.pairwise(sizes)]
    name = draw.name.replace("jax.numpy", "jnp").replace("numpy.", "np.")
    return f"{name}({', '.join(matrices)})" if draw.short == "chain_matmul" else f"{name}([{', '.join(matrices)}])"


@cases("tf.linalg.matvec")
def _(draw: Draw) -> str:
    front, rows, columns = draw.shape(0, 2, 3), draw.integer(1, 4), draw.integer(1, 4)
    matrix, vector = draw.varied((*front, rows, columns), 0.1), draw.varied((*front[draw.integer(0, 2) :], columns), 0.2)
    return f"tf.linalg.matvec({draw.array(matrix)}, {draw.array(vector)}, transpose_a={draw.chance(0.2)})"


@cases("numpy.inner", "jax.numpy.inner", "torch.inner", "torch.Tensor.inner", "keras.ops.inner")
def _(draw: Draw) -> str:
    left = draw.shape(0, 3)
    right = (*draw.shape(0, 2), *left[-1:])
    return _called(draw, draw.array(left), draw.array(draw.varied(right, 0.25)))


@cases("numpy.outer", "jax.numpy.outer", "keras.ops.outer")
@cases("numpy.kron", "jax.numpy.kron", "torch.kron", "torch.Tensor.kron", "keras.ops.kron")
def _(draw: Draw) -> str:
    most = 2 if draw.name == "keras.ops.kron" else 3
    return _called(draw, draw.array(draw.shape(0, most)), draw.array(draw.shape(0, most)))


@cases("numpy.vdot", "jax.numpy.vdot", "keras.ops.vdot")
def _(draw: Draw) -> str:
    left = draw.shape(0, 3)
    right = draw.pick([left, left[::-1], draw.shape(0, 3)])
    return _called(draw, draw.array(left), draw.array(right))


@cases(
    "torch.tensordot", "numpy.tensordot", "jax.numpy.tensordot", "keras.ops.tensordot", "tf.tensordot", "tf.linalg.tensordot",
    "numpy.linalg.tensordot", "jax.numpy.linalg.tensordot",
)  # fmt: skip
def _(draw: Draw) -> str:
    count = draw.integer(0, 2)
    shared = tuple(draw.integer(1, 4) for _ in range(count))
    left, right = (*draw.shape(0, 2), *shared), (*shared, *draw.shape(0, 2))
    axes = str(count)
    if draw.chance(0.4) and count:
        axes = str(([axis - count for axis in range(count)], list(range(count))))
    keyword = {"torch": "dims"}.get(draw.name.partition(".")[0], "axes")
    name = draw.name.replace("jax.numpy", "jnp").replace("numpy.", "np.")
    return f"{name}({draw.array(left)}, {draw.array(draw.varied(right, 0.3))}, {keyword}={axes})"


@cases("jax.lax.dot_general")
def _(draw: Draw) -> str:
    batch, inner, rows, columns = (draw.integer(1, 4) for _ in range(4))
    left, right = (batch, rows, inner), draw.varied((batch, inner, columns), 0.3)
    return f"jax.lax.dot_general({draw.array(left)}, {draw.array(right)}, (((2,), (1,)), ((0,), (0,))))"
