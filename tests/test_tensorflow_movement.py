"""Spellings of TensorFlow's operators that move, pick, join, make, sort, count, reduce and draw elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tensorproof.formats import INT64
from tensorproof.frontends.framework_model import ReadingOptions
from tensorproof.frontends.tensorflow_program import read_function
from tensorproof.graph import NOT_ANALYSED
from tensorproof.operators.table import Call, all_spellings, evaluate, find_operator, spelling_of
from tensorproof.ranges.range import Range
from tests.tensorflow_cases import check_case

pytestmark = pytest.mark.area("tensorflow spellings")

tf: Any = pytest.importorskip("tensorflow")
raw: Any = tf.raw_ops

#: The files whose spellings are checked here.
FILES = (
    *("movement", "shapes", "indexing", "joining", "cropping", "scattering", "ordering", "reductions", "cumulative", "sequences"),
    *("regions", "running_extremes", "random", "sampling", "statistics", "vector_norms", "norms", "embedding_bags"),
    *("strided_slices", "picked_windows", "random_bits", "diagonals", "broadcasting", "segments", "reduction_calls"),
    *("space_blocks",),
)


@dataclass(frozen=True)
class Sample:
    """A function with example arrays, boxes and open sizes of some of them, and whether it draws numbers."""

    function: Callable[..., Any]
    arrays: tuple[Any, ...]
    ranges: Mapping[int, tuple[float, float]] = field(default_factory=dict[int, tuple[float, float]])
    specs: Mapping[int, Sequence[int | None]] = field(default_factory=dict[int, Sequence[int | None]])
    is_random: bool = False


def of(function: Callable[..., Any], *arrays: Any, **more: Any) -> Sample:
    # The functions have no Python control flow that TensorFlow would have to rewrite.
    return Sample(tf.autograph.experimental.do_not_convert(function), arrays, **more)


def _numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(len(shape)).uniform(-2.0, 2.0, shape).astype(dtype)


X = _numbers(2, 3, 4)
M = _numbers(3, 4)
V = _numbers(5)
IMAGE = _numbers(2, 4, 6, 4)
SQUARE = _numbers(3, 3)
HALF = _numbers(2, 3).astype(np.float16)
NARROW = _numbers(2, 3).astype(ml_dtypes.bfloat16)
EMPTY = np.zeros((0, 3), np.float32)
ROWS = np.array([2, 0, 1], np.int32)
PLACE = np.array(1, np.int32)
TRUTH = np.array([[True, False, True], [False, False, True]])
OPEN = {0: (None, 4)}
ALL_OPEN = {0: (None, None, None)}
IDS = np.array([0, 0, 1, 3, 3], np.int32)
LONG = np.array([1, 2], np.int64)

MOVED = {
    "reshape": of(lambda x: (tf.reshape(x, [6, 4]), tf.reshape(x, [-1]), tf.reshape(x, [3, -1, 2])), X),
    "reshape of an open batch": of(lambda x: (tf.reshape(x, [-1, 2]), tf.reshape(x, [tf.shape(x)[0], 2, 2])), M, specs=OPEN),
    "reshape by sizes": of(
        lambda x: (
            tf.reshape(x, tf.stack([tf.shape(x)[0], tf.shape(x)[1] * tf.shape(x)[2]])),
            tf.reshape(x, tf.reverse(tf.shape(x), [0])),
        ),
        X,
        specs=ALL_OPEN,
    ),
    "reshape of nothing": of(lambda x: (tf.reshape(x, [3, 0]), tf.reshape(x, [0, 5])), EMPTY),
    "identity": of(lambda x: (tf.identity(x), raw.Snapshot(input=x + 1), raw.DeepCopy(x=x), tf.ensure_shape(x, [3, 4])), M),
    "identities": of(lambda x: tf.identity_n([x, x + 1]), M),
    "prevented": of(
        lambda x: (
            raw.PreventGradient(input=x),
            raw.GuaranteeConst(input=x * 2),
            raw.DebugGradientIdentity(input=x + 1),
            raw.Copy(input=x - 1),
        ),
        M,
    ),
    "squeeze": of(lambda x: (tf.squeeze(x[:1]), tf.squeeze(x[:, :1], [1]), tf.squeeze(x[:1, :1], [0, -2])), X),
    "expand_dims": of(lambda x: (tf.expand_dims(x, 0), tf.expand_dims(x, -1), x[:, None]), M, specs=OPEN),
    "transpose": of(lambda x: (tf.transpose(x, [2, 0, 1]), tf.transpose(x), raw.ConjugateTranspose(x=x, perm=[0, 2, 1])), X),
    "transpose of an open batch": of(lambda x: (tf.transpose(x), tf.transpose(x, [1, 0])), M, specs=OPEN),
    "formats": of(lambda x: (tf.transpose(x), tf.concat([x, x], 0), tf.reduce_sum(x, 0), x[:, ::-1]), HALF),
    "bfloat16": of(lambda x: (tf.transpose(x), tf.concat([x, x], 0), tf.reduce_max(x, 0), x[:, ::-1]), NARROW),
    "blocks to channels": of(lambda x: (raw.SpaceToDepth(input=x, block_size=2), raw.DepthToSpace(input=x, block_size=2)), IMAGE),
    "blocks of an open batch": of(
        lambda x: (raw.SpaceToDepth(input=x, block_size=2), raw.DepthToSpace(input=x, block_size=2)),
        IMAGE,
        specs={0: (None, 4, 6, 4)},
    ),
    "space to samples": of(
        lambda x: (
            raw.SpaceToBatchND(input=x, block_shape=[2, 3], paddings=[[0, 0], [1, 2]]),
            raw.SpaceToBatch(input=x, block_size=2, paddings=[[1, 1], [0, 2]]),
            raw.BatchToSpaceND(input=x, block_shape=[2], crops=[[1, 0]]),
            raw.BatchToSpace(input=tf.concat([x, x], 0), block_size=2, crops=[[1, 0], [0, 1]]),
        ),
        IMAGE,
    ),
    "space to samples of an open batch": of(
        lambda x: raw.BatchToSpaceND(
            input=raw.SpaceToBatchND(input=x, block_shape=[2, 2], paddings=[[0, 0], [1, 1]]),
            block_shape=[2, 2],
            crops=[[0, 0], [1, 1]],
        ),
        IMAGE,
        specs={0: (None, 4, 6, 4)},
    ),
}

MADE = {
    "shape": of(lambda x: (tf.shape(x), tf.shape(x, tf.int64) + 1, tf.size(x), tf.rank(x) * 2), X),
    "shape of an open batch": of(
        lambda x: (raw.Shape(input=x), raw.Size(input=x) + 1, raw.Rank(input=x) * 3, raw.ShapeN(input=[x, x[0]])[1]),
        X,
        specs=ALL_OPEN,
    ),
    "sizes decide": of(
        lambda x: tf.ones([tf.shape(x)[0], 2]) / tf.cast(tf.shape(x)[1] - 3, tf.float32), M, specs={0: (None, None)}
    ),
    "fill": of(lambda x: (tf.fill([2, 3], 0.5) + x[0, 0], tf.fill([2], x[0, 0]), tf.zeros([0, 2]) + x[0, :2]), M),
    "fill by sizes": of(lambda x: tf.fill(tf.shape(x), 2.0) * x, M, specs=OPEN),
    "like": of(lambda x: (raw.ZerosLike(x=x) + 1, raw.OnesLike(x=x) + x, raw.OnesLike(x=x > 0)), M, specs=OPEN),
    "empty": of(
        lambda x: (raw.Empty(shape=[3], dtype=tf.float32, init=True) + x[0, 0], raw.Empty(shape=[2], dtype=tf.int32)),
        M,
        is_random=True,
    ),
    "range": of(lambda x: (tf.range(5), tf.range(1.0, 2.0, 0.25) + x[0, 0], tf.range(tf.shape(x)[0])), M, specs=OPEN),
    "linspace": of(
        lambda x: (
            tf.linspace(0.0, 1.0, 5) + x[0, 0],
            raw.LinSpace(start=x[0, 0], stop=x[0, 1], num=4),
            raw.LinSpace(start=1.0, stop=x[0, 0], num=1),
        ),
        M,
    ),
    "one hot": of(lambda i: (tf.one_hot(i, 4), tf.one_hot(i, 2, 2.5, -1.0, axis=0)), ROWS, ranges={0: (-3, 5)}),
    "one hot of open indices": of(lambda i: tf.one_hot(i, 3), ROWS, specs={0: (None,)}),
    "broadcast": of(lambda x: (tf.broadcast_to(x, [2, 3, 4]), tf.broadcast_to(x[:, :1], [3, 5])), M),
    "broadcast of an open batch": of(lambda x: tf.broadcast_to(x[:, :1], tf.shape(x)), M, specs=OPEN),
    "broadcast shapes": of(
        lambda x: (raw.BroadcastArgs(s0=tf.shape(x), s1=[2, 1, 1]), raw.BroadcastArgs(s0=tf.constant([1, 3]), s1=[3]) + 0),
        M,
        specs=OPEN,
    ),
    "axes of gradients": of(
        lambda x: (
            tf.reshape(tf.reduce_sum(x, raw.BroadcastGradientArgs(s0=tf.shape(x), s1=tf.shape(x[0]))[1]), tf.shape(x[0])),
            tf.reshape(tf.reduce_sum(x, raw.BroadcastGradientArgs(s0=[3, 4], s1=[3, 1])[1]), [3, 1]),
        ),
        M,
        specs=OPEN,
    ),
    "offsets": of(lambda x: raw.ConcatOffset(concat_dim=1, shape=[tf.shape(x), [3, 2], [3, 5]]), M, specs=OPEN),
    "diagonals": of(lambda x: (raw.MatrixDiag(diagonal=x), raw.MatrixDiagPart(input=x), raw.Diag(diagonal=x)), M),
    "diagonals of a tensor": of(lambda x: raw.DiagPart(input=x), _numbers(2, 3, 2, 3)),
    "diagonal written": of(
        lambda x, y: raw.MatrixSetDiag(input=x, diagonal=y), X, _numbers(2, 3), specs={0: (None, 3, 4), 1: (None, 3)}
    ),
    "bands": of(
        lambda x: (
            raw.MatrixDiagPartV3(input=x, k=[-1, 2], padding_value=0.5),
            raw.MatrixDiagPartV3(input=x, k=[-2, 1], padding_value=0.5, align="LEFT_RIGHT"),
            raw.MatrixDiagPartV3(input=x, k=1, padding_value=0.5),
            raw.MatrixDiagPartV2(input=x, k=[-1, 1], padding_value=0.0),
        ),
        X,
    ),
    "bands of an open batch": of(lambda x: tf.linalg.diag_part(x, k=(-1, 1), align="RIGHT_RIGHT"), X, specs={0: (None, 3, 4)}),
    "matrices of bands": of(
        lambda x: (
            tf.linalg.diag(x, k=(-1, 1), align="LEFT_RIGHT"),
            tf.linalg.diag(x[:, 0], k=1, padding_value=0.5),
            tf.linalg.diag(x[:, 0], k=-1, num_rows=5, num_cols=6),
            raw.MatrixDiagV2(diagonal=x[:, 0], k=0, num_rows=-1, num_cols=-1, padding_value=1.5),
        ),
        X,
    ),
    "bands written": of(
        lambda x, y: (
            tf.linalg.set_diag(x, y, k=(-1, 1), align="RIGHT_LEFT"),
            tf.linalg.set_diag(x, y[:, 0], k=0),
            raw.MatrixSetDiagV2(input=x, diagonal=y, k=[-1, 1]),
        ),
        X,
        _numbers(2, 3, 3),
    ),
    "band": of(lambda x: (tf.linalg.band_part(x, 1, 0), tf.linalg.band_part(x, -1, 1), tf.linalg.band_part(x, -1, -1)), X),
    "band of open matrices": of(lambda x: tf.linalg.band_part(x, -1, 0), SQUARE, specs={0: (None, None)}),
}

JOINED = {
    "pack": of(lambda x, y: (tf.stack([x, y]), tf.stack([x, y], 1), tf.stack([x], -1)), M, _numbers(3, 4) + 1, specs=OPEN),
    "unpack": of(lambda x: (tf.unstack(x), tf.unstack(x, axis=1), tf.unstack(x[:, :1], axis=-2)), X),
    "concat": of(lambda x, y: (tf.concat([x, y[0]], 0), tf.concat([x, x], -1), raw.Concat(concat_dim=1, values=[x, y[0]])), M, X),
    "concat of an open batch": of(lambda x: (tf.concat([x, x], 0), tf.concat([x, x * 2], 1)), M, specs=OPEN),
    "concat of nothing": of(lambda x, y: (tf.concat([x, y], 0), tf.concat([x, x], 0)), EMPTY, SQUARE),
    "split": of(lambda x: (tf.split(x, 2, 2), tf.split(x, [1, 3], 2), tf.split(x, [1, -1], 1), tf.split(x, [2], 0)), X),
    "split of an open batch": of(lambda x: (tf.split(x, 2, 1), tf.split(x, [1, -1], 1)), M, specs=OPEN),
    "split of an open axis": of(lambda x: (tf.split(x, [1, -1], 0)[1], tf.split(x, 3, 0)), M, specs=OPEN),
    "tile": of(lambda x: (tf.tile(x, [2, 1]), tf.repeat(x, 2, 0), tf.tile(x, [0, 2])), M),
    "tile of an open batch": of(lambda x: (tf.tile(x, [2, 1]), tf.tile(x[:1], tf.stack([tf.shape(x)[0], 1]))), M, specs=OPEN),
    "pad": of(lambda x: (tf.pad(x, [[1, 2], [0, 1]]), tf.pad(x, [[1, 0], [0, 1]], constant_values=0.5)), M, specs=OPEN),
    "pad by sizes": of(lambda x: tf.pad(x, tf.stack([[0, 5 - tf.shape(x)[0]], [0, 0]])), M, specs=OPEN),
    "mirror": of(lambda x: (tf.pad(x, [[1, 2], [0, 1]], "REFLECT"), tf.pad(x, [[3, 2], [0, 1]], "SYMMETRIC")), M),
    "mirror of an open batch": of(lambda x: tf.pad(x, [[0, 0], [1, 2]], "SYMMETRIC"), M, specs=OPEN),
    "gradient of a mirror": of(
        lambda x: (
            raw.MirrorPadGrad(input=x, paddings=[[1, 0], [0, 2]], mode="SYMMETRIC"),
            raw.MirrorPadGrad(input=x, paddings=[[0, 1], [1, 1]], mode="REFLECT"),
        ),
        _numbers(3, 6),
    ),
    "stitch": of(
        lambda x, y: (
            tf.dynamic_stitch([[0, 2], [1, 3]], [x[:2], y[:2]]),
            tf.dynamic_stitch([[2, 0], [0, 1]], [x[:2], y[:2]]),
            raw.ParallelDynamicStitch(indices=[[1], [0]], data=[x[:1], y[:1]]),
        ),
        M,
        _numbers(3, 4) + 1,
    ),
    "stitch what was taken apart": of(
        lambda x, i: tf.dynamic_stitch(tf.dynamic_partition(tf.range(3), i, 2), tf.dynamic_partition(x, i, 2)), M, ROWS % 2
    ),
    "partition": of(lambda x: tf.dynamic_partition(x, [0, 1, 0], 2), M),
    "partition by data": of(lambda x, i: [tf.reduce_sum(part) for part in tf.dynamic_partition(x, i, 2)], M, ROWS % 2),
    "partition of matrices": of(lambda x: tf.dynamic_partition(x, [[0, 1, 0], [1, 1, 0]], 2), X),
    "inverse permutation": of(lambda x: tf.math.invert_permutation(tf.argsort(x)) + tf.math.invert_permutation([1, 2, 4, 0, 3]), V),
}

SLICED = {
    "strided": of(lambda x: (x[1], x[:, 1:], x[..., ::2], x[::-1, :, -2:], x[:, -1, None, 1:3]), X),
    "strided with all masks": of(lambda x: (x[0, ..., None, 1], x[None, :, ..., 0], x[..., 1, tf.newaxis, ::-1], x[:, 2:0:-1]), X),
    "strided of an open batch": of(lambda x: (x[1:], x[-1], x[:, 0], x[::-1], x[:-1, 1:]), M, specs=OPEN),
    "strided of open axes": of(lambda x: (x[..., 0], x[0, 1:, -1], x[:, ::-1]), X, specs=ALL_OPEN),
    "strided at data": of(lambda x, i: (x[i], x[:, i], tf.reduce_sum(x[i:], 0)), M, PLACE),
    "strided to nothing": of(lambda x: (x[3:], x[2:1], x[:, 4:]), M),
    "slice": of(lambda x: (tf.slice(x, [1, 0], [2, -1]), tf.slice(x, [0, 1], [3, 2]), tf.slice(x, [0, 0], [-1, -1])), M),
    "slice at data": of(lambda x, i: (tf.slice(x, [i, 0], [2, -1]), tf.slice(x, [0, i], [-1, 2])), M, PLACE),
    "slice of an open batch": of(lambda x: tf.slice(x, [0, 1], [tf.shape(x)[0], 2]), M, specs=OPEN),
    "gradient of a strided slice": of(
        lambda x: (
            raw.StridedSliceGrad(shape=[5, 4], begin=[1, 0], end=[4, 4], strides=[1, 1], dy=x),
            raw.StridedSliceGrad(shape=[6, 4], begin=[4, 0], end=[-7, 4], strides=[-2, 1], dy=x),
            raw.StridedSliceGrad(
                shape=[3, 2, 4], begin=[0, -1], end=[3, 0], strides=[1, 1], dy=x, shrink_axis_mask=2, begin_mask=1
            ),
            raw.StridedSliceGrad(
                shape=[3, 9], begin=[0, 0, 1], end=[0, 0, 8], strides=[1, 1, 2], dy=x[:, None], ellipsis_mask=1, new_axis_mask=2
            ),
        ),
        M,
    ),
    "gradient of a slice of an open batch": of(
        lambda x: (
            raw.StridedSliceGrad(
                shape=tf.shape(x) + [2, 0], begin=[1, 0], end=[-1, 0], strides=[1, 1], dy=x, end_mask=2, begin_mask=2
            ),
            raw.StridedSliceGrad(
                shape=tf.stack([tf.shape(x)[0], 3, 4]),
                begin=[0, 1],
                end=[0, 2],
                strides=[1, 1],
                dy=x,
                shrink_axis_mask=2,
                begin_mask=1,
                end_mask=1,
            ),
        ),
        M,
        specs=OPEN,
    ),
    "slice written": of(
        lambda x, y: (
            raw.TensorStridedSliceUpdate(input=x, begin=[0, 1], end=[3, 3], strides=[1, 1], value=y[:, :2]),
            raw.TensorStridedSliceUpdate(input=x, begin=[2, 0], end=[0, 4], strides=[-1, 2], value=y[:2, :2]),
            raw.TensorStridedSliceUpdate(input=x, begin=[1], end=[0], strides=[1], value=y[0], shrink_axis_mask=1),
        ),
        M,
        _numbers(3, 4) + 1,
    ),
    "reverse": of(lambda x: (tf.reverse(x, [0, -1]), raw.Reverse(tensor=x, dims=[False, True, True]), tf.reverse(x, [])), X),
    "reverse of an open batch": of(lambda x: (tf.reverse(x, [0]), tf.reverse(x, [1])), M, specs=OPEN),
    "reversed sequences": of(
        lambda x: (
            tf.reverse_sequence(x, [1, 3], seq_axis=1, batch_axis=0),
            tf.reverse_sequence(x, [1, 2, 0], seq_axis=0, batch_axis=1),
            tf.reverse_sequence(x, [4, 2], seq_axis=2, batch_axis=0),
        ),
        X,
    ),
    "roll": of(lambda x: (tf.roll(x, 1, 0), tf.roll(x, [1, -2], [1, 2]), tf.roll(x, [1, 1], [2, 2]), tf.roll(x, 3, 1)), X),
}

PICKED = {
    "numbers that another list has not": of(
        lambda x: tf.transpose(x, tf.concat([raw.ListDiff(x=[0, 1, 2], y=[1])[0], [1]], 0)), _numbers(2, 3, 4)
    ),
    "gather": of(lambda x, i: (tf.gather(x, i), tf.gather(x, i, axis=1), raw.Gather(params=x, indices=i[:, None])), M, ROWS),
    "gather of an open batch": of(lambda x, i: (tf.gather(x, i, axis=1), tf.gather(x, [0, 1])), M, ROWS, specs=OPEN),
    "gather of nothing": of(lambda x: (tf.gather(x, [0, 2], axis=1), tf.gather(x, tf.zeros([0], tf.int32), axis=0)), EMPTY),
    "gather with a batch": of(
        lambda x, i: (
            tf.gather(x, i, batch_dims=1),
            tf.gather(x, i, axis=2, batch_dims=1),
            tf.gather(x, i, axis=-1, batch_dims=-1),
        ),
        X,
        np.array([[0, 2], [1, 1]], np.int32),
    ),
    "gather with an open batch": of(
        lambda x, i: tf.gather(x, i, batch_dims=1), X, np.array([[0, 2], [1, 1]], np.int32), specs={0: (None, 3, 4), 1: (None, 2)}
    ),
    "gather of a variable": of(
        lambda i: (tf.gather(TABLE, i), tf.gather_nd(TABLE, tf.stack([i, i], 1)), TABLE.sparse_read(i[:1])), ROWS
    ),
    "gather of a variable with a batch": of(
        lambda i: (raw.ResourceGather(resource=TABLE.handle, indices=i, dtype=tf.float32, batch_dims=1), TABLE[:, 0] + 1),
        np.array([[0, 3], [2, 2], [1, 0]], np.int32),
    ),
    "gather_nd": of(lambda x, i: (tf.gather_nd(x, i[:, None]), tf.gather_nd(x, tf.stack([i, i], 1))), M, ROWS),
    "scatter_nd": of(lambda x, i: (tf.scatter_nd(i[:, None], x, [3, 4]), tf.scatter_nd([[1], [1], [4]], x, [5, 4])), M, ROWS),
    "scatter onto": of(
        lambda x, y, i: (
            tf.tensor_scatter_nd_update(x, i[:, None], y),
            tf.tensor_scatter_nd_add(x, i[:, None], y),
            tf.tensor_scatter_nd_sub(x, i[:, None], y),
            tf.tensor_scatter_nd_max(x, i[:, None], y),
            tf.tensor_scatter_nd_min(x, i[:, None], y),
            raw.ScatterNdNonAliasingAdd(input=x, indices=i[:, None], updates=y),
        ),
        M,
        _numbers(3, 4) + 1,
        ROWS,
    ),
    "sparse to dense": of(
        lambda x: (
            raw.SparseToDense(sparse_indices=[[0, 1], [2, 0]], output_shape=[3, 3], sparse_values=x[:2], default_value=0.5),
            raw.SparseToDense(sparse_indices=[0, 3], output_shape=[4], sparse_values=x[:2], default_value=x[2]),
            raw.SparseToDense(sparse_indices=2, output_shape=[4], sparse_values=x[0], default_value=0.0),
        ),
        V,
    ),
    "sparse product": of(
        lambda x, y: (
            raw.SparseTensorDenseMatMul(
                a_indices=[[0, 1], [1, 0], [1, 2]], a_values=x[:3], a_shape=tf.constant([2, 3], tf.int64), b=y
            ),
            raw.SparseTensorDenseMatMul(
                a_indices=[[0, 1], [1, 0], [1, 2]],
                a_values=x[:3],
                a_shape=tf.constant([2, 3], tf.int64),
                b=y[:, :2],
                adjoint_a=True,
                adjoint_b=True,
            ),
        ),
        V,
        M,
    ),
}

SEGMENTS = {
    "unsorted": of(
        lambda x: (
            tf.math.unsorted_segment_sum(x, [0, 2, -1], 4),
            tf.math.unsorted_segment_prod(x, [0, 2, 2], 3),
            tf.math.unsorted_segment_max(x, [1, 1, 0], 2),
            tf.math.unsorted_segment_min(x, [1, 1, 0], 2),
        ),
        M,
    ),
    "unsorted by data": of(lambda x, i: tf.math.unsorted_segment_sum(x, i, 3), M, ROWS, ranges={1: (-1, 2)}),
    "unsorted mean": of(
        lambda x: (tf.math.unsorted_segment_mean(x, [0, 2, 2], 3), tf.math.unsorted_segment_sqrt_n(x, [0, 2, 2], 3)), M
    ),
    "unsorted of matrices": of(lambda x: tf.math.unsorted_segment_sum(x, [[0, 1, 0], [1, 1, 2]], 3), X),
    "sorted": of(
        lambda x: (
            tf.math.segment_sum(x, IDS),
            tf.math.segment_mean(x, IDS),
            tf.math.segment_max(x, IDS),
            tf.math.segment_min(x, IDS),
            tf.math.segment_prod(x, IDS),
        ),
        _numbers(5, 2),
    ),
    "sparse": of(
        lambda x: (
            tf.sparse.segment_sum(x, [0, 2, 1], [0, 0, 1]),
            tf.sparse.segment_mean(x, [0, 2, 1], [0, 0, 2]),
            tf.sparse.segment_sqrt_n(x, [0, 2, 1], [0, 0, 1]),
            tf.sparse.segment_sum(x, [0, 2, 1], [0, 0, 1], num_segments=3),
            tf.sparse.segment_mean(x, [0, 2, 1], [0, 0, 1], num_segments=3),
            tf.sparse.segment_sqrt_n(x, [0, 2, 1], [0, 0, 1], num_segments=3),
        ),
        M,
    ),
    "gradients of sparse ones": of(
        lambda x: [
            operator(grad=x, indices=[0, 2, 1, 2], segment_ids=[0, 0, 1, 2], output_dim0=4)
            for operator in (raw.SparseSegmentSumGrad, raw.SparseSegmentMeanGrad, raw.SparseSegmentSqrtNGrad)
        ],
        M,
    ),
    "counted": of(
        lambda i, x: (
            raw.Bincount(arr=i, size=3, weights=tf.zeros([0])),
            raw.Bincount(arr=i, size=2, weights=x[:3]),
            raw.DenseBincount(input=i, size=4, weights=tf.zeros([0])),
            raw.DenseBincount(input=i, size=2, weights=tf.zeros([0]), binary_output=True),
        ),
        ROWS,
        V,
    ),
}

REDUCED = {
    "sum": of(lambda x: (tf.reduce_sum(x), tf.reduce_sum(x, 1), tf.reduce_sum(x, [0, -1], keepdims=True), tf.reduce_sum(x, [])), X),
    "sum of an open batch": of(lambda x: (tf.reduce_sum(x, 0), tf.reduce_sum(x, 1), tf.reduce_sum(x)), M, specs=OPEN),
    "sum of nothing": of(lambda x: (tf.reduce_sum(x), tf.reduce_sum(x, 1), tf.reduce_prod(x, 0)), EMPTY),
    "sum of integers": of(lambda i: (tf.reduce_sum(i), tf.reduce_mean(i), tf.reduce_prod(i)), ROWS),
    "mean": of(lambda x: (tf.reduce_mean(x), tf.reduce_mean(x, 1, keepdims=True), tf.math.reduce_variance(x, 0)), X),
    "mean of an open batch": of(lambda x: tf.reduce_mean(x, [0]), M, specs=OPEN),
    "mean of halves": of(lambda x: (tf.reduce_mean(x), tf.reduce_sum(x, 1)), HALF),
    "product": of(lambda x: (tf.reduce_prod(x), tf.reduce_prod(x, 1)), M),
    "norm": of(lambda x: (tf.math.reduce_euclidean_norm(x), tf.math.reduce_euclidean_norm(x, 1, keepdims=True)), M),
    "cumsum": of(lambda x: (tf.cumsum(x, 1), tf.cumsum(x, -1, exclusive=True), tf.cumsum(x, 0, reverse=True)), X),
    "cumprod": of(lambda x: (tf.math.cumprod(x, 1), tf.math.cumprod(x, 0, exclusive=True, reverse=True)), M),
    "cumulative logsumexp": of(
        lambda x: (
            tf.math.cumulative_logsumexp(x, 1),
            tf.math.cumulative_logsumexp(x, 0, reverse=True),
            tf.math.cumulative_logsumexp(x, 1, exclusive=True),
        ),
        M,
    ),
    "unique along an axis": of(
        lambda x: (
            raw.UniqueV2(x=tf.constant([3, 1, 3]), axis=[0]),
            raw.UniqueWithCountsV2(x=tf.constant([[3, 1], [3, 1]]), axis=[0]),
            x + 1,
        ),
        V,
    ),
    "n-th": of(lambda x: (tf.sort(x, 1), raw.NthElement(input=x, n=1), raw.NthElement(input=x, n=0, reverse=True)), M),
    "in top k": of(lambda x, i: (raw.InTopK(predictions=x, targets=i, k=2), tf.math.in_top_k(i, x, 1)), M, ROWS),
    "bounds of order": of(
        lambda x, y: (raw.LowerBound(sorted_inputs=tf.sort(x, 1), values=y), raw.UpperBound(sorted_inputs=tf.sort(x, 1), values=y)),
        M,
        _numbers(3, 2),
    ),
}

SEED = np.array([3, 4], np.int64)
TABLE = tf.Variable(M)
GENERATOR = tf.random.Generator.from_seed(3, alg="philox")

DRAWN = {
    "uniform": of(lambda x: (tf.random.uniform([3]) + x[0], tf.random.uniform(tf.shape(x), -1.0, 2.0)), V, is_random=True),
    "uniform of other formats": of(
        lambda x: (
            tf.random.uniform([64], dtype=tf.float16),
            tf.random.uniform([64], dtype=tf.bfloat16),
            tf.random.uniform([3], dtype=tf.float64),
            x + 1,
        ),
        V,
        is_random=True,
    ),
    "integers": of(lambda x: (tf.random.uniform([30], 2, 5, tf.int32), x + 1), V, is_random=True),
    "classes by rank": of(
        lambda x: (*tf.random.log_uniform_candidate_sampler(tf.constant([[0], [19]], tf.int64), 1, 6, True, 20), x + 1),
        V,
        is_random=True,
    ),
    "classes by rank, more than once": of(
        lambda x: (*tf.random.log_uniform_candidate_sampler(tf.constant([[0], [19]], tf.int64), 1, 40, False, 20), x + 1),
        V,
        is_random=True,
    ),
    "classes": of(
        lambda x: (*tf.random.uniform_candidate_sampler(tf.constant([[3], [0]], tf.int64), 1, 6, True, 20), x + 1),
        V,
        is_random=True,
    ),
    "normal": of(lambda x: (tf.random.normal([64]), tf.random.normal([64], dtype=tf.float16), x + 1), V, is_random=True),
    "truncated normal": of(lambda x: (tf.random.truncated_normal([64]), x + 1), V, is_random=True),
    "multinomial": of(lambda x: tf.random.categorical(x, 5), M, is_random=True),
    "shuffle": of(lambda x: (tf.random.shuffle(x), tf.random.shuffle(x[:1]), tf.random.shuffle(x[0, 0])), M, is_random=True),
    "stateless": of(
        lambda x: (
            tf.random.stateless_uniform([5], SEED),
            tf.random.stateless_uniform([5], SEED, 1, 7, tf.int32),
            tf.random.stateless_normal([5], SEED),
            tf.random.stateless_truncated_normal([5], SEED),
            tf.random.stateless_uniform([5], SEED, None, None, tf.int32),
            tf.random.stateless_categorical(x, 3, SEED),
        ),
        M,
        is_random=True,
    ),
    "stateless of version 1": of(
        lambda x: (
            raw.StatelessRandomUniform(shape=[5], seed=SEED) + x[0, 0],
            raw.StatelessRandomUniformInt(shape=[5], seed=SEED, minval=1, maxval=7),
            raw.StatelessRandomNormal(shape=[5], seed=SEED),
            raw.StatelessTruncatedNormal(shape=[5], seed=SEED),
            raw.StatelessRandomUniformFullInt(shape=[5], seed=SEED, dtype=tf.int32),
        ),
        M,
        is_random=True,
    ),
    "generator": of(
        lambda x: (
            GENERATOR.uniform([5]),
            GENERATOR.normal([5]),
            GENERATOR.truncated_normal([5]),
            GENERATOR.uniform([5], 0, 9, tf.int32),
            x + 1,
        ),
        V,
        is_random=True,
    ),
    "generator of full integers": of(lambda x: (GENERATOR.uniform_full_int([5], tf.int32), x + 1), V, is_random=True),
    "operators on a generator's state": of(
        lambda x: (
            raw.StatefulUniform(resource=GENERATOR.state.handle, algorithm=1, shape=[5], dtype=tf.float32),
            raw.StatefulUniformInt(resource=GENERATOR.state.handle, algorithm=1, shape=[5], minval=1, maxval=4),
            raw.StatefulStandardNormalV2(resource=GENERATOR.state.handle, algorithm=1, shape=[5], dtype=tf.float32),
            raw.StatefulTruncatedNormal(resource=GENERATOR.state.handle, algorithm=1, shape=[5], dtype=tf.float32),
            raw.StatefulUniformFullInt(resource=GENERATOR.state.handle, algorithm=1, shape=[5], dtype=tf.int32),
            x + 1,
        ),
        V,
        is_random=True,
    ),
    "shuffle without state": of(lambda x: tf.random.experimental.stateless_shuffle(x, [3, 4]), M, is_random=True),
    "keys": of(
        lambda x: (
            raw.StatelessRandomGetKeyCounter(seed=SEED),
            raw.StatelessRandomGetKeyCounterAlg(seed=SEED),
            raw.StatelessRandomGetAlg(),
            x + 1,
        ),
        V,
        is_random=True,
    ),
}


def _gradient(function: Callable[..., Any], *watched: int) -> Callable[..., Any]:
    """The gradients of the sum of a function's squares by some of its arguments."""

    def compute(*tensors: Any) -> Any:
        with tf.GradientTape() as tape:
            for index in watched or (0,):
                tape.watch(tensors[index])
            results = tf.nest.flatten(function(*tensors))
            total = tf.add_n([tf.reduce_sum(result * result) for result in results])
        return [tf.convert_to_tensor(part) for part in tape.gradient(total, [tensors[index] for index in watched or (0,)])]

    return compute


GRADIENTS = {
    "reshape": of(_gradient(lambda x: (tf.reshape(x, [-1]), tf.transpose(x), tf.expand_dims(x, 0))), M, specs=OPEN),
    "slices": of(_gradient(lambda x: (x[1:], x[:, ::2], x[:, -1], tf.slice(x, [0, 1], [-1, 2]))), M, specs=OPEN),
    "joined": of(_gradient(lambda x, y: (tf.concat([x, y], 1), tf.stack([x, y])), 0, 1), M, _numbers(3, 4) + 1, specs=OPEN),
    "joined along an open axis": of(_gradient(lambda x, y: tf.concat([x, y], 0), 0, 1), M, _numbers(3, 4), specs=OPEN),
    "split": of(_gradient(lambda x: (*tf.split(x, 2, 1), *tf.unstack(x, axis=1))), M, specs=OPEN),
    "tiled": of(_gradient(lambda x: (tf.tile(x, [2, 1]), tf.broadcast_to(x[:, :1], [3, 5]))), M),
    "padded": of(_gradient(lambda x: (tf.pad(x, [[1, 0], [0, 2]]), tf.pad(x, [[1, 1], [0, 2]], "SYMMETRIC"))), M),
    "sums": of(_gradient(lambda x: (tf.reduce_sum(x, 1), tf.reduce_mean(x, 0), tf.reduce_sum(x))), M),
    "sums of an open batch": of(_gradient(lambda x: (tf.reduce_sum(x, 1), tf.reduce_mean(x, 0), tf.reduce_mean(x))), M, specs=OPEN),
    "broadcast": of(_gradient(lambda x, y: x * y + y, 0, 1), M, _numbers(4), specs=OPEN),
    "broadcast of two open batches": of(
        _gradient(lambda x, y: x * y - y, 0, 1), M, _numbers(3, 1), specs={0: (None, 4), 1: (None, 1)}
    ),
    "gathered": of(_gradient(lambda x, i: (tf.gather(x, i), tf.gather(x, i, axis=1))), M, ROWS),
    "gathered with a batch": of(_gradient(lambda x: tf.gather(x, [[0, 2], [1, 1]], batch_dims=1)), X),
    "gathered by tuples": of(_gradient(lambda x, i: tf.gather_nd(x, i[:, None])), M, ROWS),
    "scattered": of(_gradient(lambda x: tf.scatter_nd([[1], [0], [4]], x, [5, 4])), M),
    "segments": of(_gradient(lambda x: (tf.math.segment_sum(x, [0, 0, 1]), tf.math.unsorted_segment_sum(x, [2, 0, 0], 3))), M),
    "running": of(_gradient(lambda x: (tf.cumsum(x, 1), tf.cumsum(x, 0, exclusive=True))), M),
    "largest": of(_gradient(lambda x: tf.math.top_k(x, 2)[0]), M),
    "diagonals": of(_gradient(lambda x: (tf.linalg.diag_part(x), tf.linalg.diag(x), tf.linalg.band_part(x, 1, 0))), SQUARE),
    "reversed": of(_gradient(lambda x: (tf.reverse(x, [1]), tf.roll(x, 1, 1))), M),
}

CASES = {
    f"{family}: {name}": sample
    for family, samples in (
        ("moved", MOVED),
        ("made", MADE),
        ("joined", JOINED),
        ("sliced", SLICED),
        ("picked", PICKED),
        ("segments", SEGMENTS),
        ("reduced", REDUCED),
        ("drawn", DRAWN),
        ("gradients", GRADIENTS),
    )
    for name, sample in samples.items()
}


def _operators(sample: Sample) -> set[str]:
    """The operators of a traced function, those of the functions that it calls included."""
    signature = [
        tf.TensorSpec(sample.specs.get(index, array.shape), tf.as_dtype(array.dtype)) for index, array in enumerate(sample.arrays)
    ]
    definition = tf.function(sample.function, input_signature=signature).get_concrete_function().graph.as_graph_def()
    inner = {node.op for function in definition.library.function for node in function.node_def}
    return {node.op for node in definition.node} | inner


def test_every_spelling_has_a_case() -> None:
    wanted: set[str] = set()
    for name, _ in all_spellings("tensorflow"):
        spelling = spelling_of(name, "tensorflow")
        adapter = None if spelling is None else spelling.adapter
        if adapter is not None and adapter.__module__.rpartition(".")[2] in FILES:
            wanted.add(name)
    traced: set[str] = set()
    for sample in CASES.values():
        traced |= _operators(sample)
    assert wanted - traced == set()


def test_axes_of_gradients_hold_for_all_sizes() -> None:
    """Axes that the block is sure of are TensorFlow's for all sizes, but for axes of size 1 in both shapes."""
    entry = find_operator("tensorproof", "BroadcastAxes")
    assert entry is not None
    generator = np.random.default_rng(0)
    decided = 0
    for _ in range(200):
        ranks = generator.integers(0, 4, 2)
        spans = [
            [(size, size) if generator.random() < 0.6 else (1, 4) for size in generator.integers(1, 4, rank)] for rank in ranks
        ]
        operands = [Range.elements(INT64, *(np.array([span[end] for span in shape], float) for end in (0, 1))) for shape in spans]
        results = evaluate(Call(entry, {}, outputs=2), operands)
        for _ in range(4):
            shapes = [[int(generator.integers(low, high + 1)) for low, high in shape] for shape in spans]
            try:
                wanted = raw.BroadcastGradientArgs(
                    s0=tf.constant(shapes[0], tf.int32, [len(shapes[0])]), s1=tf.constant(shapes[1], tf.int32, [len(shapes[1])])
                )
            except tf.errors.InvalidArgumentError:
                continue
            joint = np.broadcast_shapes(*map(tuple, shapes))
            for found, axes in zip(results, wanted, strict=True):
                exact = found.integers() if found.has_known_shape else None
                if exact is not None:
                    decided += 1
                    own = {axis for axis in exact.tolist() if joint[axis] != 1}
                    assert own == {axis for axis in axes.numpy().tolist() if joint[axis] != 1}, (spans, shapes)
    assert decided > 200


def test_normal_numbers_are_as_the_generator_draws_them() -> None:
    """Box-Muller of numbers that are at least 1e-7: sqrt(-2 ln 1e-7) = 5.6777."""
    case = check_case(lambda x: tf.random.normal([8]) * 1.0 + 0.0 * x[0], V, is_random=True)
    bound = np.sqrt(-2.0 * np.log(1e-7))
    assert -bound - 0.02 < case.outputs[0].low <= -bound < bound <= case.outputs[0].high < bound + 0.02


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_uniform_numbers_are_below_one(dtype: str) -> None:
    case = check_case(lambda x: (tf.random.uniform([8], dtype=dtype), x + 1), V, is_random=True)
    assert (case.outputs[0].low, case.outputs[0].high) == (0.0, 1.0 - float(ml_dtypes.finfo(dtype).eps))


def test_sizes_are_exact() -> None:
    """Shape, StridedSlice, Pack and Reshape in 32-bit integers are numbers, not ranges: a size of 3 is divided by exactly."""
    case = check_case(
        lambda x: tf.reshape(x, tf.stack([tf.shape(x)[0] * 2, tf.shape(x)[1] // 2])) / tf.cast(tf.shape(x)[0], tf.float32),
        *(_numbers(3, 4),),
        specs={0: (None, None)},
        ranges={0: (-3.0, 3.0)},
    )
    assert not case.rules
    assert case.outputs[0].low == -1.0
    assert case.outputs[0].high == 1.0


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (lambda x: tf.random.gamma([3], 2.0) + x[0], (V,)),
        (lambda x, i: tf.transpose(x, i), (M, np.array([1, 0], np.int32))),
        (lambda x: raw.DenseBincount(input=x, size=3, weights=tf.zeros([0])), (np.zeros((2, 2), np.int32),)),
        (lambda x: tf.raw_ops.ListDiff(x=x, y=x[:1]), (V,)),
    ],
)
def test_what_is_not_modelled_is_shown(function: Callable[..., Any], arrays: tuple[Any, ...]) -> None:
    signature = [tf.TensorSpec(array.shape, tf.as_dtype(array.dtype)) for array in arrays]
    traced = read_function(tf.function(function, input_signature=signature), "case", None, ReadingOptions())
    assert [node for node in traced.model.graph.walk() if NOT_ANALYSED in node.attributes]


@pytest.mark.parametrize("name", CASES)
def test_spelling(name: str) -> None:
    sample = CASES[name]
    check_case(sample.function, *sample.arrays, ranges=sample.ranges, specs=sample.specs, is_random=sample.is_random)
