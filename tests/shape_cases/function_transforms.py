"""Functions of functions: derivatives, maps over an axis, loops."""

from __future__ import annotations

from tensorproof.shapes.families.names import spelled
from tests.shape_cases import Draw, cases

_SETUP = "import jax.ad_checkpoint\nimport jax.experimental.pjit\nimport jax.scipy\nimport jax.tree_util\n"
_TORCH_SETUP = "import torch.func\nimport torch.utils.checkpoint\nimport torch.nn.utils.stateless\n"


def _matrices(draw: Draw, *front: int) -> tuple[str, str]:
    rows, inner, columns = (draw.integer(1, 4) for _ in range(3))
    left, right = (rows, inner), (draw.pick([inner, inner, inner + 1]), columns)
    return draw.array((*front, *left)), draw.array((*front, *right))


@cases(
    *spelled("jax", "jit checkpoint remat named_call"), "jax.experimental.pjit.pjit",
    setup=_SETUP,
)  # fmt: skip
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    return f"{draw.name}(lambda x: x @ {right})({left})"


@cases("jax.custom_gradient")
@cases("tf.custom_gradient")
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    return f"{draw.name}(lambda x: (x @ {right}, lambda g: g))({left})"


_CUSTOM = "@jax.{name}\ndef product(x, y):\n    return x @ y\n\n\n"


@cases(
    "jax.custom_jvp",
    setup=_CUSTOM.format(name="custom_jvp") + "product.defjvp(lambda primals, tangents: (primals[0], tangents[0]))\n",
)
@cases(
    "jax.custom_vjp",
    setup=_CUSTOM.format(name="custom_vjp") + "product.defvjp(lambda x, y: (x @ y, None), lambda rest, g: (g, g))\n",
)
def _(draw: Draw) -> str:
    # What does not fit fails inside the function, which is another line.
    rows, inner, columns = (draw.integer(1, 4) for _ in range(3))
    return f"product({draw.array((rows, inner))}, {draw.array((inner, columns))})"


@cases("jax.eval_shape", setup=_SETUP)
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    return f"jnp.zeros(jax.eval_shape(lambda x, y: x @ y, {left}, {right}).shape)"


@cases("torch.utils.checkpoint.checkpoint", setup=_TORCH_SETUP)
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    return f"torch.utils.checkpoint.checkpoint(lambda x, y: x @ y, {left}, {right}, use_reentrant=False)"


@cases("torch.func.functional_call", setup=_TORCH_SETUP)
def _(draw: Draw) -> str:
    features = draw.integer(1, 4)
    layer = f"nn.Linear({features}, {draw.integer(1, 4)})"
    return f"torch.func.functional_call({layer}, {{}}, ({draw.array((2, draw.pick([features, features, 5])))},))"


@cases(*spelled("jax", "grad value_and_grad"), *spelled("torch.func", "grad grad_and_value"), setup="")
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    return f"{draw.name}(lambda x, y: (x @ y).sum(){draw.pick(['', ', 1', ', (0, 1)'])})({left}, {right})"


@cases(*spelled("jax", "jacobian jacfwd jacrev"), *spelled("torch.func", "jacrev jacfwd"))
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    return f"{draw.name}(lambda x: x @ {right})({left})"


@cases("jax.hessian", "torch.func.hessian")
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    return f"{draw.name}(lambda x: (x @ {right}).sum())({left})"


@cases("jax.jvp", "torch.func.jvp")
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    return f"{draw.name}(lambda x: x @ {right}, ({left},), ({left},))"


@cases("jax.vjp", "torch.func.vjp")
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    return f"{draw.name}(lambda x: x @ {right}, {left})[0]"


@cases("jax.vmap", "torch.vmap", "torch.func.vmap")
def _(draw: Draw) -> str:
    count = draw.integer(1, 4)
    if draw.chance(0.5):
        left, right = _matrices(draw, count)
        return f"{draw.name}(lambda x, y: x @ y)({left}, {right})"
    left, right = _matrices(draw, count)
    axes = ("in_dims", "out_dims") if draw.name.startswith("torch") else ("in_axes", "out_axes")
    whole = draw.array((draw.integer(1, 4), draw.integer(1, 4)))
    return f"{draw.name}(lambda x, y: x @ y, {axes[0]}=(0, None), {axes[1]}={draw.integer(0, 2)})({left}, {whole})"


@cases("numpy.vectorize")
def _(draw: Draw) -> str:
    left = draw.shape(0, 3)
    return f"np.vectorize(lambda a, b: a + b)({draw.array(left)}, {draw.array(draw.varied(left, 0.4))})"


@cases("jax.tree_util.tree_map", "jax.tree.map", "keras.tree.map_structure", "tf.nest.map_structure", setup="")
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    return f"{draw.name}(lambda x: x @ {right}, {{'a': {left}, 'b': ({left}, {left})}})['b']"


@cases("jax.tree_util.tree_leaves", "jax.tree.leaves", "tf.nest.flatten", "keras.tree.flatten")
def _(draw: Draw) -> str:
    return f"tuple({draw.name}({{'b': {draw.array(draw.shape())}, 'a': [{draw.array(draw.shape())}]}}))"


@cases("jax.tree_util.tree_flatten", "jax.tree.flatten")
def _(draw: Draw) -> str:
    return f"tuple({draw.name}({{'b': {draw.array(draw.shape())}, 'a': [{draw.array(draw.shape())}]}})[0])"


@cases("jax.tree_util.tree_unflatten", "jax.tree.unflatten")
def _(draw: Draw) -> str:
    first, second = draw.array(draw.shape()), draw.array(draw.shape())
    return f"{draw.name}({draw.name.replace('un', '')}(({first}, [{first}]))[1], [{second}, {first}])[0]"


@cases("jax.tree_util.tree_reduce", "jax.tree.reduce")
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    return f"{draw.name}(lambda x, y: x @ y, [{left}, {right}])"


@cases("jax.tree_util.Partial")
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    return f"jax.tree_util.Partial(jnp.matmul, {left})({right})"


@cases("jax.lax.scan", "keras.ops.scan")
def _(draw: Draw) -> str:
    width, steps = draw.integer(1, 4), draw.integer(1, 4)
    weights = draw.array((width, draw.pick([width, width, width + 1])))
    carry = draw.array((2, width))
    add = draw.array((steps, 2, 1))
    return f"{draw.name}(lambda h, x: (h @ {weights} + x, h), {carry}, {add})"


@cases("jax.lax.map", "keras.ops.map", "keras.ops.vectorized_map")
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    rows = draw.array((draw.integer(1, 4), 2, draw.integer(1, 4)))
    return f"{draw.name}(lambda x: x @ {right}, {draw.pick([rows, left.replace('((', '((2, ')])})"


@cases("jax.lax.associative_scan", "keras.ops.associative_scan")
def _(draw: Draw) -> str:
    return f"{draw.name}(lambda a, b: a + b, {draw.array(draw.shape(1, 3))})"


@cases("jax.lax.fori_loop", "keras.ops.fori_loop")
def _(draw: Draw) -> str:
    width = draw.integer(2, 4)
    weights = draw.array((width, draw.pick([width, width, width + 1])))
    return f"{draw.name}(0, 3, lambda i, h: h @ {weights}, {draw.array((2, width))})"


@cases("jax.lax.while_loop")
def _(draw: Draw) -> str:
    width = draw.integer(2, 4)
    weights = draw.array((width, draw.pick([width, width, width + 1])))
    return f"jax.lax.while_loop(lambda h: h.sum() > 0, lambda h: h @ {weights}, {draw.array((2, width))})"


@cases("jax.lax.cond", "keras.ops.cond")
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    test = "jnp.ones(()) > 0" if draw.name.startswith("jax") else "True"
    if draw.name.startswith("jax"):
        return f"jax.lax.cond({test}, lambda x, y: x @ y, lambda x, y: x @ y, {left}, {right})"
    return f"keras.ops.cond({test}, lambda: {left} @ {right}, lambda: {left} @ {right})"


@cases("jax.lax.switch", "keras.ops.switch")
def _(draw: Draw) -> str:
    left, right = _matrices(draw)
    index = "jnp.zeros((), int)" if draw.name.startswith("jax") else "0"
    return f"{draw.name}({index}, [lambda x, y: x @ y, lambda x, y: x @ y], {left}, {right})"
