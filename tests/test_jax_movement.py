"""Spellings of JAX's primitives that move, pick, join, make, sort, reduce and draw elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src.random.prng import iota_2x32_shape_p
from jax._src.random.threefry2x32 import threefry2x32_p

from tensorproof.formats import BFLOAT16, FLOAT16, UINT16, Format
from tensorproof.frontends.jax_jaxpr import JaxArgument, translated
from tensorproof.graph import NOT_ANALYSED
from tensorproof.operators.table import all_spellings, spelling_of
from tensorproof.ranges.bit_patterns import as_numbers
from tensorproof.ranges.range import NAN, POSITIVE_INFINITY, Range
from tests.jax_cases import check_case

pytestmark = pytest.mark.area("jax spellings")

#: The files whose spellings are checked here.
FILES = (
    *("movement", "shapes", "indexing", "joining", "cropping", "scattering", "ordering", "reductions", "cumulative", "sequences"),
    *("regions", "running_extremes", "random", "sampling", "statistics", "vector_norms", "norms", "embedding_bags"),
    *("strided_slices", "picked_windows", "random_bits", "diagonals", "broadcasting", "segments", "reduction_calls"),
    *("space_blocks",),
)


@dataclass(frozen=True)
class Sample:
    """A function with example arrays, the boxes of some of them, and whether it draws numbers."""

    function: Callable[..., Any]
    arrays: tuple[Any, ...]
    ranges: Mapping[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    is_random: bool = False


def _numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(len(shape)).uniform(-2.0, 2.0, shape).astype(dtype)


X = _numbers(2, 3, 4)
M = _numbers(3, 4)
V = _numbers(5)
HALF = _numbers(2, 3).astype(np.float16)
EMPTY = np.zeros((0, 3), np.float32)
ROWS = np.array([2, 0, 1], np.int32)
PAIRS = np.array([[0, 1], [2, 3]], np.int32)
PLACE = np.array(1, np.int32)
TRUTH = np.array([[True, False, True], [False, False, True]])
KEY = np.array([7, 9], np.uint32)


def of(function: Callable[..., Any], *arrays: Any, **more: Any) -> Sample:
    return Sample(function, arrays, **more)


MOVED = {
    "reshape": of(lambda x: (x.reshape(6, 4), x.reshape(-1), lax.reshape(x, (3, 8))), X),
    "reshape of nothing": of(lambda x: x.reshape(3, 0), EMPTY),
    "reshape of one": of(lambda x: x[:1, :1, :1].reshape(()), X),
    "transpose": of(lambda x: (x.transpose(2, 0, 1), x.T, jnp.swapaxes(x, 0, 1)), X),
    "squeeze": of(lambda x: (x[:1].squeeze(0), lax.squeeze(x[:, :1, :1], (1, 2)), lax.squeeze(x, ())), X),
    "broadcast": of(
        lambda x: (jnp.broadcast_to(x, (2, 3, 4)), lax.broadcast(x, (2,)), lax.broadcast_in_dim(x, (3, 5, 4), (0, 2))), M
    ),
    "broadcast of nothing": of(lambda x: jnp.broadcast_to(x, (2, 0, 3)), EMPTY),
    "expanded": of(lambda x: (lax.expand_dims(x, (0, 2)), x[:, None, :]), M),
    "copy": of(lambda x: jnp.array(x, copy=True), M),
    "put on a device": of(lambda x: jax.device_put(x, jax.devices()[0]), M),
    "barrier": of(lambda x, y: lax.optimization_barrier((x, y)), M, V),
    "rev": of(lambda x: (lax.rev(x, (0, 2)), jnp.flip(x), lax.rev(x, ())), X),
    "half": of(lambda x: (x.T, x[::-1], jnp.concatenate([x, x], 1)), HALF),
}

JOINED = {
    "concatenate": of(lambda x, y: (jnp.concatenate([x, y[0]]), lax.concatenate([x], 0), jnp.concatenate([x, y[0]], 1)), M, X),
    "concatenate nothing": of(lambda x, y: jnp.concatenate([x, y[:, :3]]), EMPTY, M),
    "stack": of(lambda x, y: (jnp.stack([x, y], 1), lax.stack([x, y], 0)), M, _numbers(3, 4) + 1),
    "unstack": of(lambda x: (lax.unstack(x, 1), jnp.unstack(x)), X),
    "split": of(lambda x: (lax.split(x, (1, 3), 2), jnp.split(x, 3, 1), lax.split(x, (2,), 0)), X),
    "tile": of(lambda x: (lax.tile(x, (2, 1)), jnp.tile(x, (2, 1, 3)), jnp.repeat(x, 2, 0)), M),
    "pad": of(lambda x: (lax.pad(x, 0.5, ((1, 2, 0), (0, 0, 0))), lax.pad(x, 0.5, ((-1, 2, 0), (1, -2, 0)))), M),
    "pad with gaps": of(lambda x: (lax.pad(x, 0.0, ((0, 0, 2), (1, 1, 1))), lax.pad(x, 1.0, ((-1, 0, 1), (0, 0, 0)))), M),
    "pad nothing": of(lambda x: (lax.pad(x, 0.5, ((1, 2, 3), (0, 0, 0))), lax.pad(x, 0.5, ((0, 0, 0), (0, 0, 0)))), EMPTY),
    "pad by data": of(lambda x, y: lax.pad(x, y, ((0, 1, 0), (0, 0, 1))), M, np.float32(0.5)),
    "pad modes": of(lambda x: (jnp.pad(x, 1), jnp.pad(x, 2, "edge"), jnp.pad(x, 2, "reflect")), M),
    "iota": of(lambda x: (x + lax.iota(np.float32, 5), lax.broadcasted_iota(np.int32, (2, 3), 1), jnp.arange(3)), V),
    "long iota": of(lambda x: x[0] + lax.iota(np.float32, 70_000)[-1], V),
    "empty": of(lambda x: x + 0 * jnp.clip(lax.empty((5,), np.float32), 0, 1), V, is_random=True),
}

PICKED = {
    "slice": of(lambda x: (x[:, 1:, ::2], lax.slice(x, (0, 1, 0), (2, 2, 3)), lax.slice(x, (0, 0, 1), (2, 3, 4), (1, 2, 3))), X),
    "slice to nothing": of(lambda x: (lax.slice(x, (1, 0), (1, 4)), lax.slice(x, (0, 0), (3, 4))), M),
    "dynamic slice": of(lambda x, i: (lax.dynamic_slice(x, (i, 0 * i), (2, 4)), lax.dynamic_slice(x, (i, i), (1, 2))), M, PLACE),
    "dynamic slice that is moved": of(lambda x, i: lax.dynamic_slice(x, (i, -i), (2, 2)), M, PLACE, ranges={1: (-5, 9)}),
    "dynamic slice at numbers": of(lambda x: (lax.dynamic_slice(x, (7, -1), (2, 2)), lax.dynamic_slice(x, (0, 0), (3, 4))), M),
    "dynamic update": of(lambda x, y, i: lax.dynamic_update_slice(x, y, (i, 0 * i)), M, _numbers(2, 4), PLACE, ranges={2: (-3, 5)}),
    "dynamic update inside": of(lambda x, y, i: lax.dynamic_update_slice(x, y, (i, i)), M, _numbers(2, 2), PLACE),
    "dynamic update at numbers": of(
        lambda x, y: (lax.dynamic_update_slice(x, y, (1, 0)), lax.dynamic_update_slice(x, y[:, :1], (0, 9)), x.at[:2].set(y)),
        *(M, _numbers(2, 4)),
    ),
    "dynamic update of all or nothing": of(
        lambda x, y: (lax.dynamic_update_slice(x, y, (1, 0)), lax.dynamic_update_slice(x, y[:0], (1, 0))), M, _numbers(3, 4)
    ),
    "dynamic index": of(lambda x, i: (lax.dynamic_index_in_dim(x, i, 1, keepdims=False), x[i]), X, PLACE),
    "row": of(lambda x, i: (x[i], x[:, i], x[..., i]), X, PLACE),
    "rows": of(lambda x, i: (x[i], x[:, i], x[i[:, None] % 2, i]), M, ROWS),
    "rows from the end": of(lambda x: (x[-1], x[jnp.array([-1, 0])], x[:, jnp.array([-2, 1])]), M),
    "take": of(lambda x, i: (jnp.take(x, i, 1, mode="clip"), jnp.take(x, i, 0, mode="fill"), jnp.take(x, i)), M, ROWS),
    "take outside": of(lambda x, i: jnp.take(x, i, 1, mode="clip"), M, ROWS, ranges={1: (-9, 9)}),
    "take outside, filled": of(lambda x, i: jnp.take(x, i, 1, mode="fill", fill_value=0.25), M, ROWS, ranges={1: (-9, 9)}),
    "take of nothing": of(lambda x, i: (jnp.take(x, i[:0], 1, mode="clip"), jnp.take(x, i, 1, mode="clip")), EMPTY, ROWS),
    "take integers, filled": of(lambda x, i: jnp.take(x, i, mode="fill"), PAIRS, ROWS, ranges={1: (-9, 9)}),
    "take along": of(
        lambda x, i: (jnp.take_along_axis(x, i, 1), jnp.take_along_axis(x, i[:1].repeat(2, 1), 0)), _numbers(2, 4), PAIRS % 2
    ),
    "promised": of(lambda x, i: x.at[i].get(mode="promise_in_bounds"), M, ROWS),
    "windows": of(
        lambda x, i: lax.gather(
            x, i, lax.GatherDimensionNumbers((1, 2), (), (0, 1)), slice_sizes=(2, 3), mode=lax.GatherScatterMode.CLIP
        ),
        *(M, PAIRS % 2),
    ),
    "windows that are moved": of(
        lambda x, i: lax.gather(
            x, i, lax.GatherDimensionNumbers((1,), (0,), (0, 1)), slice_sizes=(1, 3), mode=lax.GatherScatterMode.CLIP
        ),
        *(M, PAIRS),
        ranges={1: (-3, 5)},
    ),
    "windows, filled": of(
        lambda x, i: lax.gather(
            *(x, i, lax.GatherDimensionNumbers((0, 2), (), (1,))),
            slice_sizes=(3, 2),
            mode=lax.GatherScatterMode.FILL_OR_DROP,
            fill_value=0.5,
        ),
        *(M, ROWS[:, None]),
        ranges={1: (-3, 5)},
    ),
    "windows of each sample": of(jax.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,))), M, ROWS),
    "rows of each sample": of(jax.vmap(lambda x, i: x[i]), X, np.array([[0, 2], [1, 0]], np.int32)),
}

WRITTEN = {
    "set": of(lambda x, y: (x.at[1].set(y), x.at[:, 0].set(0.5), x.at[jnp.array([0, 2])].set(y)), M, _numbers(4)),
    "set at data": of(lambda x, y, i: x.at[i].set(y), M, _numbers(3, 4), ROWS),
    "set at one place": of(lambda x, y, i: (x.at[i].set(y), x.at[:, i].set(0.5)), M, _numbers(4), PLACE),
    "add": of(lambda x, y, i: (x.at[i].add(y), x.at[:, i].add(0.5), x.at[i, i].add(1.0)), M, _numbers(3, 4), ROWS),
    "add to one place": of(lambda x, y: x.at[jnp.array([1, 1, 1])].add(y), M, _numbers(3, 4)),
    "subtract": of(
        lambda x, y, i: lax.scatter_sub(x, i[:, None], y, lax.ScatterDimensionNumbers((1,), (0,), (0,))), M, _numbers(3, 4), ROWS
    ),
    "multiply": of(lambda x, y, i: x.at[i].multiply(y), M, _numbers(3, 4), ROWS),
    "least and largest": of(lambda x, y, i: (x.at[i].min(y), x.at[i].max(y)), M, _numbers(3, 4), ROWS),
    "dropped": of(lambda x, y, i: x.at[i].add(y, mode="drop"), M, _numbers(3, 4), ROWS, ranges={2: (-9, 9)}),
    "dropped windows": of(
        lambda x, y, i: lax.scatter(
            *(x, i, y, lax.ScatterDimensionNumbers((1, 2), (), (0, 1))), mode=lax.GatherScatterMode.FILL_OR_DROP
        ),
        *(M, _numbers(2, 2, 3), PAIRS),
        ranges={2: (-2, 4)},
    ),
    "clipped": of(lambda x, y, i: x.at[i].set(y, mode="clip"), M, _numbers(3, 4), ROWS, ranges={2: (-9, 9)}),
    "promised": of(lambda x, y, i: x.at[i].set(y, mode="promise_in_bounds"), M, _numbers(3, 4), ROWS),
    "integers": of(lambda x, i: x.at[i[:2]].add(3), PAIRS, ROWS % 2),
    "of each sample": of(jax.vmap(lambda x, y, i: x.at[i].add(y)), M, _numbers(3), ROWS),
    "windows of each sample": of(jax.vmap(lambda x, y, i: lax.dynamic_update_slice(x, y, (i,))), M, _numbers(3, 2), ROWS),
    "nothing": of(lambda x, y, i: x.at[i[:0]].set(y[:0]), M, _numbers(3, 4), ROWS),
    "gradient of picking": of(jax.grad(lambda x, i: (x[i] ** 2).sum()), M, ROWS),
    "gradient of a slice": of(jax.grad(lambda x: (x[:, 1:3] ** 2).sum() + (x[::2] ** 3).sum()), M),
    "gradient of a window": of(jax.grad(lambda x, i: (lax.dynamic_slice(x, (i, 0 * i), (2, 4)) ** 2).sum()), M, PLACE),
}

REDUCED = {
    "sum": of(lambda x: (x.sum(), x.sum(1), x.sum((0, 2), keepdims=True), x.mean(0)), X),
    "sum of nothing": of(lambda x: (x.sum(0), x.sum(1), lax.reduce_sum_p.bind(x, axes=(), out_sharding=None)), EMPTY),
    "sum of halves": of(lambda x: (x.sum(0), jnp.cumsum(x, 1)), HALF),
    "product": of(lambda x: (x.prod(), x.prod(1)), M),
    "parity": of(lambda x: lax.reduce_xor_p.bind(x, axes=(1,)), TRUTH),
    "cumsum": of(lambda x: (jnp.cumsum(x, 1), lax.cumsum(x, 2, reverse=True)), X),
    "cumprod": of(lambda x: (jnp.cumprod(x, 1), lax.cumprod(x, 0, reverse=True)), M),
    "cummax": of(lambda x: (lax.cummax(x, 1), lax.cummax(x, 0, reverse=True)), M),
    "cummin": of(lambda x: (lax.cummin(x, 1), lax.cummin(x, 0, reverse=True)), M),
    "cumlogsumexp": of(lambda x: (lax.cumlogsumexp(x, 1), lax.cumlogsumexp(x, 0, reverse=True)), M),
    "sort": of(lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1), lax.sort(x[0])), M),
    "sort several": of(lambda x, y: lax.sort((x, y), num_keys=1), V, _numbers(5) + 1),
    "sort by several": of(lambda x, y: lax.sort((x, y, y * 2), num_keys=2), np.array([1, 0, 1, 0, 1], np.int32), V),
    "sort truth values": of(lambda x: jnp.sort(x, 1), TRUTH),
    "median": of(lambda x: (jnp.median(x, 1), jnp.quantile(x, 0.3, axis=0)), M),
    "one hot": of(lambda i: jax.nn.one_hot(i, 4), ROWS),
    "triangles": of(lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.diag(x[:, :3]), jnp.diag(x[0])), M),
}

DRAWN = {
    "uniform": of(lambda k: jax.random.uniform(k, (4,)), KEY, is_random=True),
    "uniform between": of(lambda k: jax.random.uniform(k, (4,), minval=-2.0, maxval=3.0), KEY, is_random=True),
    "uniform halves": of(lambda k: jax.random.uniform(k, (4,), jnp.float16), KEY, is_random=True),
    "uniform bfloat16": of(lambda k: jax.random.uniform(k, (4,), jnp.bfloat16), KEY, is_random=True),
    "normal": of(lambda k: jax.random.normal(k, (4,)), KEY, is_random=True),
    "truncated normal": of(lambda k: jax.random.truncated_normal(k, -1.0, 1.0, (4,)), KEY, is_random=True),
    "bernoulli": of(lambda k, x: jnp.where(jax.random.bernoulli(k, 0.5, (5,)), x, 0), KEY, V, is_random=True),
    "integers": of(lambda k: jax.random.randint(k, (4,), 0, 10), KEY, is_random=True),
    "permutation": of(lambda k, x: jax.random.permutation(k, x), KEY, V, is_random=True),
    "keys": of(
        lambda k: (
            jax.random.split(k, 3),
            jax.random.fold_in(k, 2),
            jax.random.key_data(jax.random.clone(jax.random.wrap_key_data(k))),
        ),
        *(KEY,),
        is_random=True,
    ),
    "key of a seed": of(lambda x: x * jax.random.uniform(jax.random.key(3), (5,)), V, is_random=True),
    "bits": of(lambda k: (jax.random.bits(k, (3,)), lax.rng_bit_generator(jnp.tile(k, 2), (2,))), KEY, is_random=True),
    "words": of(
        lambda k: (threefry2x32_p.bind(k[:1], k[1:], k[:1], k[1:]), iota_2x32_shape_p.bind(shape=(2, 3))), KEY, is_random=True
    ),
    "rng_uniform": of(lambda x: lax.rng_uniform(0.0, 2.0, (3,)) + x[0], V, is_random=True),
    "dropout": of(
        lambda k, x: jnp.where(jax.random.bernoulli(jax.random.split(k)[0], 0.9, x.shape), x / 0.9, 0.0), KEY, M, is_random=True
    ),
}

CASES = {
    f"{family}: {name}": sample
    for family, samples in (
        ("moved", MOVED),
        ("joined", JOINED),
        ("picked", PICKED),
        ("written", WRITTEN),
        ("reduced", REDUCED),
        ("drawn", DRAWN),
    )
    for name, sample in samples.items()
}


def _primitives(jaxpr: Any) -> Iterator[str]:
    """The names of all primitives of a jaxpr, those of inner ones included."""
    for equation in jaxpr.eqns:
        yield str(equation.primitive.name)
        for parameter in equation.params.values():
            for item in parameter if isinstance(parameter, tuple | list) else (parameter,):
                inner = getattr(item, "jaxpr", item)
                if hasattr(inner, "eqns"):
                    yield from _primitives(inner)


def test_every_spelling_has_a_case() -> None:
    wanted: set[str] = set()
    for name, _ in all_spellings("jax"):
        spelling = spelling_of(name, "jax")
        adapter = None if spelling is None else spelling.adapter
        if adapter is not None and adapter.__module__.rpartition(".")[2] in FILES:
            wanted.add(name)
    traced: set[str] = set()
    for sample in CASES.values():
        traced |= set(_primitives(jax.make_jaxpr(sample.function)(*sample.arrays).jaxpr))
    assert wanted - traced == set()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
def test_uniform_numbers_are_below_one(dtype: Any) -> None:
    case = check_case(lambda k: jax.random.uniform(k, (4,), dtype), KEY, is_random=True)
    assert case.outputs[0].low == 0.0
    assert case.outputs[0].high == 1.0 - float(jnp.finfo(dtype).eps)
    assert not case.rules


@pytest.mark.parametrize("format", [FLOAT16, BFLOAT16], ids=str)
def test_bits_are_read_as_numbers(format: Format) -> None:
    """Every pattern of an interval is inside the range, and its ends are patterns of the interval."""
    generator = np.random.default_rng(1)
    for _ in range(300):
        first, last = sorted(generator.integers(0, 2**15, 2).tolist())
        found = as_numbers(Range.uniform((3,), UINT16, float(first), float(last)), format)
        assert found is not None
        with np.errstate(invalid="ignore"):
            numbers = np.arange(first, last + 1).astype(np.uint16).view(format.dtype).astype(np.float64)
        finite = numbers[np.isfinite(numbers)]
        if finite.size:
            assert (found.low.min(), found.high.max()) == (finite.min(), finite.max())
        assert bool(found.any_special & NAN) == bool(np.isnan(numbers).any())
        assert bool(found.any_special & POSITIVE_INFINITY) == bool(np.isposinf(numbers).any())
    assert as_numbers(Range.uniform((3,), UINT16, 0.0, 2.0**15), format) is None


def test_normal_numbers_are_bounded() -> None:
    """The generator takes erf_inv of numbers that keep a unit of the last place away from both ends."""
    case = check_case(lambda k: jax.random.normal(k, (4,)), KEY, is_random=True)
    assert -6.0 < case.outputs[0].low < -5.0 < 5.0 < case.outputs[0].high < 6.0
    assert not case.rules


def test_rows_inside_are_not_filled() -> None:
    """Positions that are known to lie inside bring no NaN into what is picked."""
    case = check_case(lambda x, i: x[i], M, ROWS)
    assert not case.rules
    assert case.outputs[0].special == 0


def test_rows_outside_are_filled() -> None:
    """JAX fills rows outside with NaN: they are found where positions may lie outside."""
    case = check_case(lambda x, i: jnp.take(x, i, 0), M, ROWS, ranges={1: (0, 5)})
    assert case.rules or case.outputs[0].special


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (lambda x: lax.reduce_or_p.bind(x, axes=(0,)), (ROWS,)),
        (lambda x: lax.reduce_xor_p.bind(x, axes=(0,)), (ROWS,)),
        (lambda x, i: x.at[i].apply(jnp.sin), (V, ROWS)),
        (lambda k: jax.random.gamma(k, 2.0, (3,)), (KEY,)),
    ],
)
def test_what_is_not_modelled_is_shown(function: Callable[..., Any], arrays: tuple[Any, ...]) -> None:
    closed = jax.make_jaxpr(function)(*arrays)
    made = translated(closed, [JaxArgument(f"x{index}") for index in range(len(arrays))], name="case")
    assert [node for node in made.model.graph.walk() if NOT_ANALYSED in node.attributes]


@pytest.mark.parametrize("name", CASES)
def test_spelling(name: str) -> None:
    sample = CASES[name]
    check_case(sample.function, *sample.arrays, ranges=sample.ranges, is_random=sample.is_random)
