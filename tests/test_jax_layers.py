"""JAX's products, convolutions, pools, factorisations and transforms: traced, compared with JAX, analysed, and sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from jax import lax

from tensorproof.frontends.jax_jaxpr import JaxArgument, translated
from tensorproof.graph import NOT_ANALYSED
from tensorproof.operators.table import all_spellings, spelling_of
from tests.jax_cases import check_case

pytestmark = pytest.mark.area("jax spellings")

Array = npt.NDArray[Any]
Case = tuple[Callable[..., Any], tuple[Any, ...]]


def normal(*sizes: int, dtype: Any = np.float32) -> Array:
    """An example array, the same in every run."""
    return np.random.default_rng(sum(sizes)).normal(size=sizes).astype(dtype)


def dot(summed: Any, shared: Any = ((), ()), **more: Any) -> Callable[..., Any]:
    return lambda a, b: lax.dot_general(a, b, (summed, shared), **more)


PRODUCTS: dict[str, Case] = {
    "matrices": (dot(((1,), (0,))), (normal(2, 3), normal(3, 4))),
    "transposed matrices": (dot(((0,), (1,))), (normal(3, 2), normal(4, 3))),
    "a stack and a matrix": (dot(((2,), (0,))), (normal(2, 2, 3), normal(3, 4))),
    "attention": (dot(((3,), (3,)), ((0, 2), (0, 2))), (normal(2, 3, 2, 4), normal(2, 5, 2, 4))),
    "vectors": (dot(((0,), (0,))), (normal(3), normal(3))),
    "a matrix and a vector": (dot(((1,), (0,))), (normal(2, 3), normal(3))),
    "two summed axes": (dot(((0, 2), (1, 0))), (normal(2, 3, 4), normal(4, 2, 5))),
    "an outer product": (dot(((), ())), (normal(2), normal(3))),
    "a batch of vectors": (dot(((1,), (1,)), ((0,), (0,))), (normal(2, 3), normal(2, 3))),
    "einsum": (lambda a, b: jnp.einsum("bthd,bshd->bhts", a, b), (normal(2, 3, 2, 4), normal(2, 5, 2, 4))),
    "integers": (dot(((1,), (0,))), (np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(6, dtype=np.int32).reshape(3, 2))),
    "a wider result": (
        dot(((1,), (0,)), preferred_element_type=np.float32),
        (normal(2, 30, dtype=np.float16), normal(30, 4, dtype=np.float16)),
    ),
    "gradients": (lambda a, b, g: jax.vjp(jnp.matmul, a, b)[1](g), (normal(2, 3), normal(3, 4), normal(2, 4))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_product(name: str) -> None:
    function, arrays = PRODUCTS[name]
    check_case(function, *arrays)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sums_of_short_formats(dtype: Any) -> None:
    check_case(dot(((1,), (0,))), normal(2, 200, dtype=dtype), normal(200, 4, dtype=dtype), rtol=2e-2, atol=5e-2)
    image, kernel = normal(1, 6, 6, 8, dtype=dtype), normal(3, 3, 8, 4, dtype=dtype)
    check_case(convolution("SAME"), image, kernel, rtol=2e-2, atol=5e-2)


# -- convolutions -----------------------------------------------------------------------------------------------------

LAST = ("NHWC", "HWIO", "NHWC")


def convolution(padding: Any, strides: tuple[int, ...] = (1, 1), numbers: Any = LAST, **more: Any) -> Callable[..., Any]:
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers, **more)


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients by both operands, from the gradient of the result."""
    return lambda x, w, g: jax.vjp(function, x, w)[1](g)


IMAGE, KERNEL = normal(2, 7, 6, 4), normal(3, 2, 4, 6)
GROUPED = normal(3, 2, 2, 6)
CONVOLUTIONS: dict[str, Case] = {
    "same": (convolution("SAME"), (IMAGE, KERNEL)),
    "valid with strides": (convolution("VALID", (2, 3)), (IMAGE, KERNEL)),
    "channels first": (
        convolution([(1, 0), (2, 1)], (2, 1), ("NCHW", "OIHW", "NCHW")),
        (normal(2, 4, 5, 6), normal(3, 4, 2, 3)),
    ),
    "another layout": (convolution("SAME", (1, 1), ("CWNH", "IWOH", "HNCW")), (normal(4, 5, 2, 6), normal(4, 3, 5, 2))),
    "dilated": (convolution("SAME", rhs_dilation=(2, 1)), (IMAGE, KERNEL)),
    "groups": (convolution("SAME", (2, 2), feature_group_count=2), (IMAGE, GROUPED)),
    "depthwise": (convolution("SAME", feature_group_count=4), (IMAGE, normal(3, 3, 1, 8))),
    "spread apart": (convolution([(2, 1), (1, 1)], lhs_dilation=(2, 3)), (IMAGE, KERNEL)),
    "spread apart, dilated, with strides": (
        convolution([(2, 4), (1, 3)], (2, 1), lhs_dilation=(3, 2), rhs_dilation=(2, 2)),
        (IMAGE, KERNEL),
    ),
    "spread apart in groups": (convolution([(1, 1), (1, 0)], lhs_dilation=(2, 2), feature_group_count=2), (IMAGE, GROUPED)),
    "wide padding of what is spread apart": (convolution([(5, 4), (6, 2)], lhs_dilation=(2, 1)), (IMAGE, KERNEL)),
    "negative padding": (convolution([(-1, 2), (1, -2)]), (IMAGE, KERNEL)),
    "groups of the batch": (convolution("SAME", batch_group_count=2), (normal(4, 5, 5, 3), normal(3, 3, 3, 4))),
    "one axis": (convolution("SAME", (2,), ("NWC", "WIO", "NWC")), (normal(2, 7, 3), normal(3, 3, 4))),
    "three axes": (convolution("SAME", (1, 2, 1), ("NDHWC", "DHWIO", "NDHWC")), (normal(1, 3, 4, 5, 2), normal(2, 3, 2, 2, 3))),
    "transposed": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), (normal(1, 4, 4, 3), normal(3, 3, 3, 2))),
    "patches": (lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID"), (normal(1, 2, 4, 4),)),
    "gradients": (gradients(convolution("SAME")), (IMAGE, KERNEL, normal(2, 7, 6, 6))),
    "gradients with strides": (
        gradients(convolution("VALID", (2, 3), rhs_dilation=(1, 2))),
        (IMAGE, KERNEL, normal(2, 3, 2, 6)),
    ),
    "gradients in groups": (
        gradients(convolution("SAME", (2, 1), feature_group_count=2)),
        (IMAGE, GROUPED, normal(2, 4, 6, 6)),
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    function, arrays = CONVOLUTIONS[name]
    check_case(function, *arrays, rtol=1e-4, atol=1e-4)


def test_a_constant_kernel_is_rearranged_while_the_program_is_read() -> None:
    kernel = jnp.asarray(KERNEL)
    found = check_case(lambda x: convolution("SAME")(x, kernel.astype(x.dtype)), IMAGE)
    assert found.outputs[0].high < 3 * np.abs(KERNEL).sum((0, 1, 2)).max() * (1 + 1e-5)


# -- pools ------------------------------------------------------------------------------------------------------------


def pooled(reduce: str, window: tuple[int, ...], strides: tuple[int, ...], padding: Any, **more: Any) -> Callable[..., Any]:
    start, function = {"max": (-np.inf, lax.max), "min": (np.inf, lax.min), "sum": (0.0, lax.add)}[reduce]
    return lambda x: lax.reduce_window(x, np.float32(start), function, window, strides, padding, **more)


def gradient_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, g: jax.vjp(function, x)[1](g)[0]


POOLS: dict[str, Case] = {
    "maxima": (pooled("max", (1, 2, 3, 1), (1, 2, 2, 1), "SAME"), (normal(2, 7, 6, 3),)),
    "maxima with a dilation": (
        pooled("max", (1, 2, 2, 1), (1, 1, 1, 1), "VALID", window_dilation=(1, 2, 1, 1)),
        (normal(2, 7, 6, 3),),
    ),
    "maxima along one axis": (pooled("max", (2,), (2,), "VALID"), (normal(7),)),
    "maxima in a deep tensor": (pooled("max", (1, 2, 1, 1, 2), (1, 2, 1, 1, 1), "VALID"), (normal(2, 4, 2, 3, 4),)),
    "minima": (pooled("min", (1, 1, 2, 2), (1, 1, 2, 2), "VALID"), (normal(2, 3, 5, 4),)),
    "sums": (pooled("sum", (1, 3, 2, 1), (1, 2, 1, 1), "SAME"), (normal(2, 7, 6, 3),)),
    "sums of all": (pooled("sum", (2, 3), (1, 1), [(1, 2), (0, 1)]), (normal(4, 5),)),
    "sums of what is spread apart": (
        pooled("sum", (1, 2, 2, 1), (1, 1, 1, 1), [(0, 0), (1, 1), (1, 1), (0, 0)], base_dilation=(1, 2, 2, 1)),
        (normal(2, 3, 4, 3),),
    ),
    "the gradient of maxima": (
        gradient_of(pooled("max", (1, 3, 2, 1), (1, 2, 2, 1), "SAME")),
        (normal(2, 7, 6, 3), normal(2, 4, 3, 3)),
    ),
    "the gradient of minima": (
        gradient_of(pooled("min", (1, 2, 2, 1), (1, 2, 2, 1), "VALID")),
        (normal(2, 7, 6, 3), normal(2, 3, 3, 3)),
    ),
    "the gradient of sums": (
        gradient_of(pooled("sum", (1, 3, 3, 1), (1, 2, 2, 1), "SAME")),
        (normal(2, 7, 6, 3), normal(2, 4, 3, 3)),
    ),
}


@pytest.mark.parametrize("name", POOLS)
def test_pool(name: str) -> None:
    function, arrays = POOLS[name]
    check_case(function, *arrays)


# -- linear algebra ---------------------------------------------------------------------------------------------------

#: A matrix that stays regular, and positive definite, wherever a box of [-0.2, 0.2] moves its elements.
REGULAR = 4.0 * np.eye(4, dtype=np.float32) + 0.1 * normal(4, 4)
SMALL = {0: (-0.2, 0.2)}


def near(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, *others: function(a + REGULAR.astype(a.dtype), *others)


def triangular(**more: Any) -> Callable[..., Any]:
    return lambda a, b: lax.linalg.triangular_solve(a, b, **more)


ALGEBRA: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[int, tuple[float, float]]]] = {
    "Cholesky": (near(lax.linalg.cholesky), (0.1 * normal(2, 4, 4),), SMALL),
    "LU": (near(lambda a: lax.linalg.lu(a)[0]), (0.1 * normal(4, 4),), SMALL),
    "pivots": (near(lambda a: lax.linalg.lu(a)[1]), (0.1 * normal(4, 4),), SMALL),
    "permutation": (near(lambda a: lax.linalg.lu_pivots_to_permutation(lax.linalg.lu(a)[1], 4)), (0.1 * normal(4, 4),), SMALL),
    "QR": (lambda a: lax.linalg.qr(a, full_matrices=False), (normal(2, 4, 3),), {}),
    "singular values": (lambda a: lax.linalg.svd(a, compute_uv=False), (normal(2, 4, 3),), {}),
    "singular vectors": (lambda a: jnp.abs(lax.linalg.svd(a, full_matrices=False)[0]), (normal(4, 3),), {}),
    "eigenvalues": (lambda a: lax.linalg.eigh(a)[1], (normal(2, 4, 4),), {}),
    "triangle from the left": (triangular(left_side=True, lower=True), (normal(4, 4), normal(4, 2)), {0: (1.0, 2.0)}),
    "triangle from the right": (
        triangular(left_side=False, lower=False, transpose_a=True),
        (normal(2, 4, 4), normal(2, 3, 4)),
        {0: (1.0, 2.0)},
    ),
    "triangle of ones": (triangular(left_side=True, lower=True, unit_diagonal=True), (normal(4, 4), normal(4, 2)), {}),
    "nearly the largest": (lambda x: lax.approx_max_k(x, 3), (normal(2, 8),), {}),
    "nearly the smallest": (lambda x: lax.approx_min_k(x, 3, reduction_dimension=0), (normal(8, 2),), {}),
}


@pytest.mark.parametrize("name", ALGEBRA)
def test_algebra(name: str) -> None:
    function, arrays, ranges = ALGEBRA[name]
    check_case(function, *arrays, ranges=ranges, rtol=1e-4, atol=1e-4)


def test_compositions() -> None:
    """What JAX itself writes in other primitives: attention, and images of another size."""
    query, key = normal(2, 3, 2, 4), normal(2, 5, 2, 4)
    check_case(jax.nn.dot_product_attention, query, key, key, rtol=1e-4, atol=1e-4)
    check_case(lambda x: jax.image.resize(x, (1, 7, 4, 2), "bilinear"), normal(1, 5, 6, 2), rtol=1e-4, atol=1e-4)
    check_case(lambda x: jax.image.resize(x, (1, 3, 9, 2), "cubic"), normal(1, 5, 6, 2), rtol=1e-4, atol=1e-4)


# -- every spelling ---------------------------------------------------------------------------------------------------

MODULES = (
    "product_calls",
    "convolution_calls",
    "pooling_calls",
    "pooling_gradients",
    "factorisations",
    "linear_systems",
    "spectral_calls",
    "scored_choices",
)


def reduced_by_a_function(x: Any) -> Any:
    return lax.reduce_window(x, np.float32(0.0), lambda a, b: a + 2 * b, (2,), (1,), "VALID")


REFUSED: dict[str, Case] = {
    "ragged_dot_general": (lambda a, b: lax.ragged_dot(a, b, jnp.array([1, 2])), (normal(3, 2), normal(2, 2, 4))),
    "reduce_window": (reduced_by_a_function, (normal(5),)),
    "select_and_gather_add": (
        lambda x: jax.jvp(pooled("max", (2,), (1,), "VALID"), (x,), (x,))[1],
        (normal(5),),
    ),
    "fft": (lambda x: jnp.fft.rfft(x).real, (normal(8),)),
    "eig": (lambda a: lax.linalg.eig(a)[0].real, (normal(3, 3),)),
    "schur": (lambda a: lax.linalg.schur(a)[0], (normal(3, 3),)),
    "hessenberg": (lambda a: lax.linalg.hessenberg(a)[0], (normal(3, 3),)),
    "tridiagonal": (lambda a: lax.linalg.tridiagonal(a)[0], (normal(3, 3),)),
    "householder_product": (lax.linalg.householder_product, (normal(3, 3), normal(3))),
    "cholesky_update": (lax.linalg.cholesky_update, (normal(3, 3), normal(3))),
    "symmetric_product": (lax.linalg.symmetric_product, (normal(3, 2), normal(3, 3))),
    "tridiagonal_solve": (lax.linalg.tridiagonal_solve, (normal(3), normal(3), normal(3), normal(3, 2))),
}
#: Refused, and only inside of others that JAX writes as one primitive.
INNER = {"geqrf", "geqp3", "ormqr", "select_and_scatter"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_modelled_is_visible(name: str) -> None:
    function, arrays = REFUSED[name]
    closed = jax.make_jaxpr(function)(*arrays)
    made = translated(closed, [JaxArgument(f"x{index}") for index in range(len(arrays))], name="case")
    refused = {node.op: node.attributes.get(NOT_ANALYSED) for node in made.model.graph.walk() if node.domain == "jax"}
    assert "not modelled" in str(refused.get(name))


def primitives(jaxpr: Any) -> Iterator[str]:
    """The names of all primitives of a jaxpr, those inside of others included."""
    for equation in jaxpr.eqns:
        yield str(equation.primitive.name)
        for inner in jax.tree_util.tree_leaves(list(equation.params.values()), is_leaf=lambda item: hasattr(item, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from primitives(inner)


def test_no_spelling_lacks_a_case() -> None:
    cases = [*PRODUCTS.values(), *CONVOLUTIONS.values(), *POOLS.values(), *((f, a) for f, a, _ in ALGEBRA.values())]
    covered = {name for function, arrays in cases for name in primitives(jax.make_jaxpr(function)(*arrays).jaxpr)}
    spelled = {name for name, _ in all_spellings("jax") if module_of(name) in MODULES}
    assert spelled - covered - INNER == set(REFUSED)


def module_of(name: str) -> str:
    spelling = spelling_of(name, "jax")
    adapter = None if spelling is None else spelling.adapter
    return "" if adapter is None else adapter.__module__.rpartition(".")[2]
