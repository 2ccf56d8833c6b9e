"""Linear algebra."""

from __future__ import annotations

from tensorproof.shapes.families.names import spelled
from tests.shape_cases import Draw, cases


def _name(draw: Draw) -> str:
    return draw.name.replace("jax.numpy", "jnp").replace("numpy.", "np.")


def _identity(draw: Draw, size: int, front: tuple[int, ...] = ()) -> str:
    """Matrices that can be inverted, over leading axes."""
    library = draw.name.partition(".")[0]
    maker = {"torch": "torch.eye", "numpy": "np.eye", "tf": "tf.eye", "jax": "jnp.eye", "keras": "keras.ops.eye"}[library]
    return f"({maker}({size}) + {draw.array((*front, size, size))})"


def _square(draw: Draw) -> str:
    if draw.chance(0.3):
        return draw.array(draw.pick([(2, 3), (3,), (), (2, 4, 3)]))
    return _identity(draw, draw.integer(1, 4), draw.shape(0, 2, 3))


def _any(draw: Draw) -> str:
    # Of a vector NumPy gives the rank as a plain number.
    small = draw.chance(0.25) and draw.name != "numpy.linalg.matrix_rank"
    return draw.array(draw.shape(0, 1) if small else (*draw.shape(0, 1, 3), draw.integer(1, 4), draw.integer(1, 4)))


def _call(draw: Draw, array: str, *rest: str) -> str:
    further = "".join(f", {part}" for part in rest)
    return f"{array}.{draw.short}({further.removeprefix(', ')})" if draw.is_method else f"{_name(draw)}({array}{further})"


@cases(
    *spelled("numpy.linalg jax.numpy.linalg torch.linalg tf.linalg keras.ops", "inv cholesky det"),
    *spelled("keras.ops.linalg", "inv cholesky det"),
    *spelled("torch torch.Tensor", "inverse cholesky det logdet matrix_exp"), "torch.linalg.matrix_exp",
    *spelled("tf.linalg", "expm sqrtm logdet"), *spelled("jax.scipy.linalg", "inv cholesky det expm"), "jax.lax.linalg.cholesky",
    *spelled("numpy.linalg jax.numpy.linalg torch.linalg tf.linalg torch torch.Tensor keras.ops", "slogdet"),
    *spelled("numpy.linalg jax.numpy.linalg torch.linalg tf.linalg", "eigvals eigvalsh eig eigh"),
    *spelled("keras.ops keras.ops.linalg", "eig eigh"),
)  # fmt: skip
def _(draw: Draw) -> str:
    return _call(draw, _square(draw))


@cases(*spelled("numpy.linalg jax.numpy.linalg torch.linalg torch torch.Tensor", "matrix_power"))
def _(draw: Draw) -> str:
    return _call(draw, _square(draw), str(draw.integer(0, 3)))


@cases(
    *spelled("numpy.linalg jax.numpy.linalg torch.linalg tf.linalg keras.ops keras.ops.linalg", "svd qr"), "torch.svd", "torch.Tensor.svd",
    "torch.qr", "torch.Tensor.qr", *spelled("torch.linalg numpy.linalg jax.numpy.linalg", "svdvals"),
    *spelled("numpy.linalg jax.numpy.linalg torch.linalg tf.linalg", "pinv matrix_rank"), "torch.pinverse", "torch.Tensor.pinverse",
    "numpy.linalg.cond", "jax.numpy.linalg.cond", "torch.linalg.cond", "jax.scipy.linalg.svd",
)  # fmt: skip
def _(draw: Draw) -> str:
    options: list[str] = []
    if draw.short == "svd" and "linalg" in draw.name and draw.chance(0.5):
        options = [f"full_matrices={draw.chance(0.5)}"]
    elif draw.short == "qr" and draw.name.startswith(("numpy", "jax", "keras")) and draw.chance(0.5):
        options = [f'mode="{draw.pick(["reduced", "complete"])}"']
    elif draw.name in ("torch.svd", "torch.qr") and draw.chance(0.5):
        options = [f"some={draw.chance(0.5)}"]
    return _call(draw, _any(draw), *options)


@cases(
    "numpy.linalg.solve",
    "jax.numpy.linalg.solve",
    "torch.linalg.solve",
    "tf.linalg.solve",
    "keras.ops.solve",
    "keras.ops.linalg.solve",
)
def _(draw: Draw) -> str:
    size, front = draw.integer(1, 4), draw.shape(0, 1, 3)
    right = (*front, size) if draw.chance(0.4) else (*front, size, draw.integer(1, 4))
    return f"{_name(draw)}({_identity(draw, size, front)}, {draw.array(draw.varied(right, 0.3))})"


@cases("torch.linalg.solve_triangular", "torch.cholesky_solve", "torch.Tensor.cholesky_solve", "tf.linalg.triangular_solve")
def _(draw: Draw) -> str:
    size, front = draw.integer(1, 4), draw.shape(0, 1, 3)
    matrix, right = _identity(draw, size, front), draw.array(draw.varied((*front, size, draw.integer(1, 4)), 0.3))
    if draw.short == "cholesky_solve":
        return _call(draw, right, matrix)
    return _call(draw, matrix, right, *(["upper=True"] if draw.name.startswith("torch") else []))


@cases("jax.scipy.linalg.solve", "jax.scipy.linalg.solve_triangular", "jax.scipy.linalg.cho_solve")
def _(draw: Draw) -> str:
    size = draw.integer(2, 4)
    right = draw.array((draw.pick([size, size, size + 1]), *draw.shape(0, 1)))
    matrix = _identity(draw, size)
    return f"{_name(draw)}({f'({matrix}, True)' if draw.short == 'cho_solve' else matrix}, {right})"


@cases("jax.scipy.linalg.cho_factor")
def _(draw: Draw) -> str:
    return f"jax.scipy.linalg.cho_factor({_square(draw)})[0]"


@cases("numpy.linalg.lstsq", "jax.numpy.linalg.lstsq", "torch.linalg.lstsq")
def _(draw: Draw) -> str:
    rows, columns = draw.integer(1, 4), draw.integer(1, 4)
    is_torch = draw.name.startswith("torch")
    right = (draw.pick([rows, rows, rows + 1]), *(draw.shape(1, 1) if is_torch else draw.shape(0, 1)))
    return f"{_name(draw)}({draw.array((rows, columns))}, {draw.array(right)})[0]"


@cases("torch.cdist")
def _(draw: Draw) -> str:
    left = (*draw.shape(0, 2, 3), draw.integer(1, 4), draw.integer(1, 4))
    right = (*left[:-2], draw.integer(1, 4), left[-1])
    return f"torch.cdist({draw.array(left)}, {draw.array(draw.varied(right, 0.3))})"


@cases("torch.cov", "torch.corrcoef", "torch.Tensor.cov", "torch.Tensor.corrcoef", *spelled("numpy jax.numpy", "cov corrcoef"))
def _(draw: Draw) -> str:
    return _call(draw, draw.array(tuple(draw.integer(2, 4) for _ in range(draw.integer(1, 3)))))


@cases(*spelled("numpy jax.numpy", "convolve correlate"))
def _(draw: Draw) -> str:
    shapes = [draw.shape(1, 1) if draw.chance(0.85) else draw.shape(2, 2) for _ in range(2)]
    mode = draw.pick(["", ', mode="same"', ', mode="valid"', ', mode="full"'])
    return f"{_name(draw)}({draw.array(shapes[0])}, {draw.array(shapes[1])}{mode})"


@cases("numpy.polyfit", "jax.numpy.polyfit")
def _(draw: Draw) -> str:
    count = draw.integer(3, 5)
    x = draw.array((count, 2)) if draw.chance(0.15) else f"{'jnp' if draw.name.startswith('jax') else 'np'}.arange({count}.0)"
    y = draw.array((draw.pick([count, count, count + 1]), *draw.shape(0, 1)))
    return f"{_name(draw)}({x}, {y}, {draw.integer(0, 2)})"


@cases("numpy.polyval", "jax.numpy.polyval")
def _(draw: Draw) -> str:
    return f"{_name(draw)}({draw.array(draw.shape(1, 1))}, {draw.array(draw.shape(0, 3))})"


_SCIPY = "import numpy as np\nimport scipy.linalg\nimport scipy.spatial.distance\n"


@cases(*spelled("scipy.linalg", "solve solve_triangular cho_solve"), setup=_SCIPY)
def _(draw: Draw) -> str:
    size = draw.integer(2, 4)
    right = f"np.zeros({(draw.pick([size, size, size + 1]), *draw.shape(0, 1))})"
    return f"{draw.name}({f'(np.eye({size}), True)' if draw.short == 'cho_solve' else f'np.eye({size})'}, {right})"


@cases("scipy.linalg.cho_factor", setup=_SCIPY)
def _(draw: Draw) -> str:
    size = draw.integer(1, 4)
    return f"scipy.linalg.cho_factor(np.eye({size}, {draw.pick([size, size, size + 1])}))[0]"


@cases("scipy.spatial.distance.cdist", setup=_SCIPY)
def _(draw: Draw) -> str:
    width = draw.integer(1, 4)
    left, right = draw.varied((draw.integer(1, 4), width), 0.15), draw.varied((draw.integer(1, 4), width), 0.15)
    return f"scipy.spatial.distance.cdist(np.zeros({left}), np.zeros({right}))"
