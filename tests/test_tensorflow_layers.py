"""TensorFlow's products, convolutions, pools, normalisations, factorisations: translated, compared, analysed, and sampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from tensorproof.frontends.framework_model import ReadingOptions
from tensorproof.frontends.tensorflow_program import read_function
from tensorproof.graph import NOT_ANALYSED
from tensorproof.operators.table import all_spellings, spelling_of
from tests.tensorflow_cases import check_case

pytestmark = pytest.mark.area("tensorflow spellings")

Array = npt.NDArray[Any]
Function = Callable[..., Any]
#: A function with its examples, and what `check_case` is told beside them.
Case = tuple[Function, tuple[Array, ...], dict[str, Any]]
ops: Any = tf.raw_ops


def normal(*sizes: int, dtype: Any = np.float32) -> Array:
    """An example array, the same in every run."""
    return np.random.default_rng(sum(sizes)).normal(size=sizes).astype(dtype)


def case(function: Function, *arrays: Array, **more: Any) -> Case:
    return function, arrays, more


def raw(name: str, *names: str, **attributes: Any) -> Function:
    """An operator by its name, on operands that are called so; operators of several results give a list of them."""

    def call(*operands: Any) -> Any:
        found = getattr(ops, name)(**dict(zip(names, operands, strict=True)), **attributes)
        return list(found) if isinstance(found, tuple) else found

    return call


# -- products ---------------------------------------------------------------------------------------------------------

PRODUCTS = {
    "matrices": case(raw("MatMul", "a", "b"), normal(2, 3), normal(3, 4)),
    "transposed": case(raw("MatMul", "a", "b", transpose_a=True, transpose_b=True), normal(3, 2), normal(4, 3)),
    "one transposed": case(raw("MatMul", "a", "b", transpose_b=True), normal(2, 3), normal(4, 3)),
    "short": case(
        raw("MatMul", "a", "b"), normal(2, 200, dtype=np.float16), normal(200, 4, dtype=np.float16), rtol=2e-2, atol=5e-2
    ),
    "batch": case(raw("BatchMatMul", "x", "y"), normal(2, 2, 3), normal(2, 3, 4)),
    "batch, adjoint": case(raw("BatchMatMulV2", "x", "y", adj_x=True), normal(2, 3, 2), normal(3, 4)),
    "batch, both": case(raw("BatchMatMulV3", "x", "y", Tout=tf.float32, adj_x=True, adj_y=True), normal(2, 3, 2), normal(2, 4, 3)),
    "sparse": case(raw("SparseMatMul", "a", "b", transpose_b=True), normal(2, 3), normal(4, 3)),
    "einsum": case(lambda a, b: ops.Einsum(inputs=[a, b], equation="bij,kj->bki"), normal(2, 2, 3), normal(4, 3)),
    "tensordot": case(lambda a, b: tf.tensordot(a, b, [[1, 2], [1, 0]]), normal(2, 3, 4), normal(4, 3, 5)),
    "bias": case(raw("BiasAdd", "value", "bias"), normal(2, 4, 3), normal(3)),
    "bias, channels first": case(raw("BiasAdd", "value", "bias", data_format="NCHW"), normal(2, 3, 4, 4), normal(3)),
    "bias, old": case(raw("BiasAddV1", "value", "bias"), normal(2, 3), normal(3)),
    "gradient of a bias": case(raw("BiasAddGrad", "out_backprop"), normal(2, 4, 3)),
    "gradient of a bias, channels first": case(raw("BiasAddGrad", "out_backprop", data_format="NCHW"), normal(2, 3, 4)),
}

# -- convolutions -----------------------------------------------------------------------------------------------------

IMAGE, KERNEL = normal(2, 7, 6, 4), normal(3, 2, 4, 6)


def steps(stride: int, padding: str = "SAME", space: int = 2, **more: Any) -> dict[str, Any]:
    return {"strides": [1, *[stride] * space, 1], "padding": padding, **more}


def conv2d(stride: int, padding: str = "SAME", **more: Any) -> Function:
    return raw("Conv2D", "input", "filter", **steps(stride, padding, **more))


def outputs(sizes: tuple[int, ...], kernel: tuple[int, ...], stride: int, padding: str) -> list[int]:
    """How large results are, by TensorFlow's definition."""
    return [-(-s // stride) if padding == "SAME" else (s - k) // stride + 1 for s, k in zip(sizes, kernel, strict=True)]


def convolution_gradients() -> Mapping[str, Case]:
    found: dict[str, Case] = {}
    for stride, padding in ((1, "SAME"), (2, "SAME"), (3, "VALID")):
        space = outputs((7, 6), (3, 2), stride, padding)
        gradient, deep = normal(2, *space, 6), normal(2, *space, 8)
        attributes, label = steps(stride, padding), f"{stride} {padding}"
        found |= {
            f"by the operand {label}": case(
                raw("Conv2DBackpropInput", "filter", "out_backprop", input_sizes=[2, 7, 6, 4], **attributes), KERNEL, gradient
            ),
            f"by the kernel {label}": case(
                raw("Conv2DBackpropFilter", "input", "out_backprop", filter_sizes=[3, 2, 4, 6], **attributes), IMAGE, gradient
            ),
            f"depthwise by the operand {label}": case(
                raw("DepthwiseConv2dNativeBackpropInput", "filter", "out_backprop", input_sizes=[2, 7, 6, 4], **attributes),
                normal(3, 2, 4, 2),
                deep,
            ),
            f"depthwise by the kernel {label}": case(
                raw("DepthwiseConv2dNativeBackpropFilter", "input", "out_backprop", filter_sizes=[3, 2, 4, 2], **attributes),
                IMAGE,
                deep,
            ),
        }
    volume, cube, result = normal(2, 5, 4, 4, 2), normal(2, 3, 2, 2, 3), normal(2, 3, 2, 2, 3)
    attributes = steps(2, "SAME", 3)
    found |= {
        "three axes by the operand": case(
            raw("Conv3DBackpropInputV2", "filter", "out_backprop", input_sizes=[2, 5, 4, 4, 2], **attributes), cube, result
        ),
        "three axes by the kernel": case(
            raw("Conv3DBackpropFilterV2", "input", "out_backprop", filter_sizes=[2, 3, 2, 2, 3], **attributes), volume, result
        ),
        "by the kernel in groups": case(
            raw("Conv2DBackpropFilter", "input", "out_backprop", filter_sizes=[3, 2, 2, 6], **steps(1)), IMAGE, normal(2, 7, 6, 6)
        ),
        "by the kernel of an unknown batch": case(
            raw("Conv2DBackpropFilter", "input", "out_backprop", filter_sizes=[3, 2, 4, 6], **steps(1)),
            IMAGE,
            normal(2, 7, 6, 6),
            specs={0: (None, 7, 6, 4), 1: (None, 7, 6, 6)},
        ),
        "depthwise by the kernel of an unknown batch": case(
            raw("DepthwiseConv2dNativeBackpropFilter", "input", "out_backprop", filter_sizes=[3, 2, 4, 1], **steps(1)),
            IMAGE,
            normal(2, 7, 6, 4),
            specs={0: (None, 7, 6, 4), 1: (None, 7, 6, 4)},
        ),
        "by the operand of an unknown batch": case(
            lambda x, w, g: ops.Conv2DBackpropInput(input_sizes=tf.shape(x), filter=w, out_backprop=g, **steps(2)),
            IMAGE,
            KERNEL,
            normal(2, 4, 3, 6),
            specs={0: (None, 7, 6, 4), 2: (None, 4, 3, 6)},
        ),
    }
    return found


CONVOLUTIONS = {
    "same": case(conv2d(1), IMAGE, KERNEL),
    "same with strides": case(conv2d(2), IMAGE, KERNEL),
    "valid": case(conv2d(2, "VALID"), IMAGE, KERNEL),
    "explicit": case(conv2d(1, "EXPLICIT", explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0], dilations=[1, 2, 2, 1]), IMAGE, KERNEL),
    "a constant kernel": case(lambda x: conv2d(1)(x, KERNEL), IMAGE),
    "groups": case(conv2d(1), IMAGE, normal(3, 2, 2, 6)),
    "an unknown batch": case(conv2d(2), IMAGE, KERNEL, specs={0: (None, 7, 6, 4)}),
    "unknown sizes": case(conv2d(2), IMAGE, KERNEL, specs={0: (None, None, None, 4)}),
    "short": case(conv2d(1), normal(1, 6, 6, 8, dtype=np.float16), normal(3, 3, 8, 4, dtype=np.float16), rtol=2e-2, atol=5e-2),
    "three axes": case(raw("Conv3D", "input", "filter", **steps(2, "SAME", 3)), normal(1, 4, 5, 4, 2), normal(2, 3, 2, 2, 3)),
    "any axes": case(raw("Conv", "input", "filter", strides=[1, 1, 1, 1], padding="SAME"), IMAGE, KERNEL),
    "depthwise": case(raw("DepthwiseConv2dNative", "input", "filter", **steps(2)), IMAGE, normal(3, 3, 4, 2)),
    "depthwise, constant": case(lambda x: ops.DepthwiseConv2dNative(input=x, filter=normal(3, 3, 4, 2), **steps(1)), IMAGE),
    **convolution_gradients(),
}


def test_channels_first_is_what_channels_last_is_elsewhere() -> None:
    """TensorFlow's CPU has convolutions with the channels last alone: the translation of the other layout is run instead."""
    import torch

    from tensorproof.execute.torch_graph import TorchGraph

    first = read_function(
        tf.function(
            lambda x: ops.Conv2D(input=x, filter=KERNEL, strides=[1, 1, 2, 1], padding="SAME", data_format="NCHW"),
            input_signature=[tf.TensorSpec((2, 4, 7, 6), name="x")],
        ),
        "case",
        None,
        ReadingOptions(),
    ).model
    feeds = {number: torch.from_numpy(IMAGE.transpose(0, 3, 1, 2)).double() for number in first.graph.inputs}
    (found,) = TorchGraph(first).run(feeds, first.graph.outputs).values()
    expected = ops.Conv2D(input=IMAGE, filter=KERNEL, strides=[1, 2, 1, 1], padding="SAME").numpy()
    np.testing.assert_allclose(found.numpy().transpose(0, 2, 3, 1), expected, rtol=1e-4, atol=1e-4)


# -- pools ------------------------------------------------------------------------------------------------------------


def windows(kernel: int, stride: int, padding: str, space: int = 2) -> dict[str, Any]:
    return {"ksize": [1, *[kernel] * space, 1], "strides": [1, *[stride] * space, 1], "padding": padding}


def gradient_of_maxima(name: str, pool: str, **attributes: Any) -> Function:
    def call(x: Any, g: Any) -> Any:
        return getattr(ops, name)(orig_input=x, orig_output=getattr(ops, pool)(input=x, **attributes), grad=g, **attributes)

    return call


def pools() -> Mapping[str, Case]:
    found: dict[str, Case] = {}
    for kernel, stride, padding in ((2, 2, "SAME"), (3, 2, "SAME"), (2, 3, "SAME"), (3, 2, "VALID"), (2, 3, "VALID")):
        attributes, label = windows(kernel, stride, padding), f"{kernel} {stride} {padding}"
        gradient = normal(2, *outputs((7, 6), (kernel, kernel), stride, padding), 4)
        found |= {
            f"maxima {label}": case(raw("MaxPool", "input", **attributes), IMAGE),
            f"means {label}": case(raw("AvgPool", "value", **attributes), IMAGE),
            f"gradient of maxima {label}": case(gradient_of_maxima("MaxPoolGrad", "MaxPool", **attributes), IMAGE, gradient),
            f"gradient of means {label}": case(raw("AvgPoolGrad", "grad", orig_input_shape=[2, 7, 6, 4], **attributes), gradient),
        }
    volume, result, deep = normal(1, 4, 5, 4, 2), normal(1, 2, 3, 2, 2), windows(2, 2, "SAME", 3)
    found |= {
        "maxima, windows as operands": case(raw("MaxPoolV2", "input", **windows(2, 2, "SAME")), IMAGE, specs={0: (None, 7, 6, 4)}),
        "maxima of unknown sizes": case(raw("MaxPool", "input", **windows(2, 2, "SAME")), IMAGE, specs={0: (None, None, None, 4)}),
        "places": case(raw("MaxPoolWithArgmax", "input", **windows(2, 2, "SAME")), IMAGE),
        "places in the batch": case(
            raw("MaxPoolWithArgmax", "input", include_batch_in_index=True, **windows(3, 2, "VALID")), IMAGE
        ),
        "gradient, windows as operands": case(
            gradient_of_maxima("MaxPoolGradV2", "MaxPoolV2", **windows(2, 2, "SAME")), IMAGE, normal(2, 4, 3, 4)
        ),
        "gradient by places": case(
            lambda x, g: ops.MaxPoolGradWithArgmax(
                input=x, grad=g, argmax=ops.MaxPoolWithArgmax(input=x, **windows(2, 2, "SAME"))[1], **windows(2, 2, "SAME")
            ),
            IMAGE,
            normal(2, 4, 3, 4),
        ),
        "maxima of volumes": case(raw("MaxPool3D", "input", **deep), volume),
        "means of volumes": case(raw("AvgPool3D", "input", **deep), volume),
        "gradient of maxima of volumes": case(gradient_of_maxima("MaxPool3DGrad", "MaxPool3D", **deep), volume, result),
        "gradient of means of volumes": case(raw("AvgPool3DGrad", "grad", orig_input_shape=[1, 4, 5, 4, 2], **deep), result),
    }
    return found


# -- normalisation ----------------------------------------------------------------------------------------------------

NOTHING = np.zeros(0, np.float32)
PARAMETERS = normal(4), normal(3, 1).reshape(-1)[:1].repeat(4)
VARIANCE = np.full(4, 0.5, np.float32)


def by_batch(name: str, **attributes: Any) -> Function:
    """The results that are numbers; the last one of the newest is what a GPU keeps."""
    return lambda x, s, o: list(
        getattr(ops, name)(x=x, scale=s, offset=o, mean=NOTHING, variance=NOTHING, is_training=True, **attributes)
    )[:5]


def by_given(name: str, **attributes: Any) -> Function:
    return lambda x, s, o, m, v: getattr(ops, name)(x=x, scale=s, offset=o, mean=m, variance=v, **attributes)[0]


def gradient_of_batch(name: str, g: Any, x: Any, s: Any) -> Any:
    forward = ops.FusedBatchNormV3(x=x, scale=s, offset=s, mean=NOTHING, variance=NOTHING, is_training=True, epsilon=1e-3)
    more = {"reserve_space_3": forward[5]} if name.endswith("V3") else {}
    return list(
        getattr(ops, name)(y_backprop=g, x=x, scale=s, reserve_space_1=forward[3], reserve_space_2=forward[4], epsilon=1e-3, **more)
    )[:3]


POSITIVE = {4: (0.1, 3.0)}
NORMALISATIONS = {
    **{
        f"training {name}": case(by_batch(name, epsilon=1e-3), IMAGE, normal(4), VARIANCE)
        for name in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
    },
    "training of a volume": case(by_batch("FusedBatchNormV3", data_format="NDHWC"), normal(2, 2, 2, 2, 4), normal(4), VARIANCE),
    "training of 16 bits": case(by_batch("FusedBatchNormV3"), IMAGE.astype(np.float16), normal(4), VARIANCE, rtol=2e-2, atol=2e-2),
    "training with running statistics": case(
        lambda x, s, o, m, v: ops.FusedBatchNormV3(x=x, scale=s, offset=o, mean=m, variance=v, exponential_avg_factor=0.25)[:3],
        IMAGE,
        normal(4),
        VARIANCE,
        normal(4),
        VARIANCE,
        ranges=POSITIVE,
    ),
    "inference": case(
        by_given("FusedBatchNormV3", is_training=False), IMAGE, normal(4), VARIANCE, normal(4), VARIANCE, ranges=POSITIVE
    ),
    "inference of 16 bits and an unknown batch": case(
        by_given("FusedBatchNormV3", is_training=False),
        IMAGE.astype(np.float16),
        normal(4),
        VARIANCE,
        normal(4),
        VARIANCE,
        ranges=POSITIVE,
        specs={0: (None, 7, 6, 4)},
        rtol=2e-2,
        atol=2e-2,
    ),
    **{
        f"gradient {name}": case(lambda g, x, s, name=name: gradient_of_batch(name, g, x, s), normal(2, 7, 6, 4), IMAGE, normal(4))
        for name in ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
    },
    "gradient in inference": case(
        lambda g, x, s, m, v: ops.FusedBatchNormGradV3(
            y_backprop=g, x=x, scale=s, reserve_space_1=m, reserve_space_2=v, reserve_space_3=0.0, is_training=False
        )[:3],
        normal(2, 7, 6, 4),
        IMAGE,
        normal(4),
        normal(4),
        VARIANCE,
        ranges=POSITIVE,
    ),
    "neighbours": case(raw("LRN", "input", depth_radius=2, bias=1.0, alpha=0.3, beta=0.75), normal(2, 3, 3, 7)),
    "gradient of neighbours": case(
        lambda x, g: ops.LRNGrad(
            input_grads=g, input_image=x, output_image=ops.LRN(input=x, depth_radius=2, alpha=0.3), depth_radius=2, alpha=0.3
        ),
        normal(2, 3, 3, 7),
        normal(3, 2, 3, 7).reshape(2, 3, 3, 7),
    ),
}

# -- images -----------------------------------------------------------------------------------------------------------


def images() -> Mapping[str, Case]:
    found: dict[str, Case] = {}
    x = normal(2, 5, 6, 3)
    for size in ([7, 4], [3, 9]):
        g = normal(2, *size, 3)
        for more in ({}, {"align_corners": True}, {"half_pixel_centers": True}):
            label = f"{size} {''.join(more)}"
            found |= {
                f"{name} {label}": case(raw(name, "images", size=size, **more), x)
                for name in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic")
            }
            found |= {
                f"{name} {label}": case(raw(name, "grads", original_image=np.zeros_like(x), **more), g)
                for name in ("ResizeBilinearGrad", "ResizeBicubicGrad")
            }
            found[f"gradient of nearest {label}"] = case(raw("ResizeNearestNeighborGrad", "grads", size=[5, 6], **more), g)
            if "half_pixel_centers" not in more:
                found[f"area {label}"] = case(raw("ResizeArea", "images", size=size, **more), x)
    boxes = np.array([[0.0, 0.0, 1.0, 1.0], [0.1, 0.2, 0.7, 1.3]], np.float32)
    for method in ("bilinear", "nearest"):
        more = {"boxes": boxes, "box_ind": [0, 1], "crop_size": [4, 5], "method": method, "extrapolation_value": 7.0}
        found[f"regions, {method}"] = case(raw("CropAndResize", "image", **more), x)
    found["an unknown batch"] = case(raw("ResizeBilinear", "images", size=[7, 7]), x, specs={0: (None, 5, 6, 3)})
    return found


# -- linear algebra ---------------------------------------------------------------------------------------------------

#: Matrices that stay regular, and positive definite, wherever a box of [-0.2, 0.2] moves their elements.
REGULAR = 4.0 * np.eye(4, dtype=np.float32) + 0.1 * normal(4, 4)
SMALL = {0: (-0.2, 0.2)}


def near(function: Function) -> Function:
    return lambda a, *others: function(a + REGULAR, *others)


LINEAR_ALGEBRA = {
    "inverse": case(near(raw("MatrixInverse", "input")), 0.1 * normal(2, 4, 4), ranges=SMALL),
    "adjoint inverse": case(near(raw("MatrixInverse", "input", adjoint=True)), 0.1 * normal(4, 4), ranges=SMALL),
    "system": case(near(raw("MatrixSolve", "matrix", "rhs")), 0.1 * normal(4, 4), normal(4, 2), ranges=SMALL),
    "adjoint system": case(near(raw("MatrixSolve", "matrix", "rhs", adjoint=True)), 0.1 * normal(4, 4), normal(4, 2), ranges=SMALL),
    "triangle": case(raw("MatrixTriangularSolve", "matrix", "rhs"), normal(4, 4) + 3, normal(4, 2), ranges={0: (1.0, 2.0)}),
    "other triangles": case(
        raw("MatrixTriangularSolve", "matrix", "rhs", lower=False, adjoint=True),
        normal(2, 4, 4) + 3,
        normal(2, 4, 2),
        ranges={0: (1.0, 2.0)},
    ),
    "determinant": case(raw("MatrixDeterminant", "input"), normal(2, 3, 3)),
    "its logarithm": case(near(raw("LogMatrixDeterminant", "input")), 0.1 * normal(4, 4), ranges=SMALL),
    "Cholesky": case(near(raw("Cholesky", "input")), 0.1 * normal(4, 4), ranges=SMALL),
    "LU": case(near(raw("Lu", "input")), 0.1 * normal(2, 4, 4), ranges=SMALL),
    "QR": case(raw("Qr", "input"), normal(2, 4, 3)),
    "full QR": case(raw("Qr", "input", full_matrices=True), normal(4, 3)),
    "singular values": case(lambda a: ops.Svd(input=a)[0], normal(2, 4, 3)),
    "singular values alone": case(lambda a: ops.Svd(input=a, compute_uv=False)[0], normal(2, 3, 4)),
    "singular vectors": case(lambda a: tf.abs(ops.Svd(input=a)[1]), normal(3, 4)),
    "eigenvalues": case(lambda a: ops.SelfAdjointEigV2(input=a)[0], normal(2, 4, 4)),
    "eigenvalues alone": case(lambda a: ops.SelfAdjointEigV2(input=a, compute_v=False)[0], normal(2, 4, 4)),
}


def test_a_matrix_that_may_be_singular_is_reported() -> None:
    found = check_case(lambda a: ops.LogMatrixDeterminant(input=a)[1], normal(3, 3))
    assert "NUM101" in found.rules
    solved = check_case(raw("MatrixTriangularSolve", "matrix", "rhs"), normal(3, 3) + 2, normal(3, 2), is_random=True)
    assert "NUM103" in solved.rules


# -- cells and choices ------------------------------------------------------------------------------------------------


def lstm_cell(**attributes: Any) -> Function:
    names = ("x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")
    return raw("LSTMBlockCell", *names, **attributes)


STATES = normal(2, 4), normal(4, 2).T.copy()
WEIGHTS = normal(7, 16), normal(4), normal(4), normal(4), normal(16)
CELLS = {
    "LSTM": case(lstm_cell(), normal(2, 3), *STATES, *WEIGHTS),
    "LSTM with peepholes": case(lstm_cell(use_peephole=True, cell_clip=0.0, forget_bias=0.5), normal(2, 3), *STATES, *WEIGHTS),
    **{
        name: case(
            lambda x, c, h, *w, name=name: list(
                getattr(ops, name)(
                    seq_len_max=tf.constant(3, tf.int64),
                    **dict(zip(("x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b"), (x, c, h, *w), strict=True)),
                )
            ),
            normal(3, 2, 3),
            *STATES,
            *WEIGHTS,
        )
        for name in ("BlockLSTM", "BlockLSTMV2")
    },
    "GRU": case(
        raw("GRUBlockCell", "x", "h_prev", "w_ru", "w_c", "b_ru", "b_c"),
        normal(2, 3),
        normal(2, 4),
        normal(7, 8),
        normal(7, 4),
        normal(8),
        normal(4),
    ),
}

BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11], [0, 10.1, 1, 11.1]], np.float32)
SCORES = np.array([0.9, 0.75, 0.6, 0.95], np.float32)
CHOICES = {
    "boxes": case(lambda b, s: ops.NonMaxSuppression(boxes=b, scores=s, max_output_size=3), BOXES, SCORES),
    "boxes by a threshold": case(
        lambda b, s: ops.NonMaxSuppressionV2(boxes=b, scores=s, max_output_size=3, iou_threshold=0.5), BOXES, SCORES
    ),
    "boxes by two thresholds": case(
        lambda b, s: ops.NonMaxSuppressionV3(boxes=b, scores=s, max_output_size=3, iou_threshold=0.5, score_threshold=0.7),
        BOXES,
        SCORES,
    ),
    "boxes and their number": case(
        lambda b, s: list(ops.NonMaxSuppressionV4(boxes=b, scores=s, max_output_size=3, iou_threshold=0.5, score_threshold=0.7)),
        BOXES,
        SCORES,
    ),
}

CASES: dict[str, Case] = {
    f"{family}: {name}": found
    for family, cases in (
        ("product", PRODUCTS),
        ("convolution", CONVOLUTIONS),
        ("pool", pools()),
        ("normalisation", NORMALISATIONS),
        ("image", images()),
        ("algebra", LINEAR_ALGEBRA),
        ("cell", CELLS),
        ("choice", CHOICES),
    )
    for name, found in cases.items()
}


@pytest.mark.parametrize("name", CASES)
def test_spelling(name: str) -> None:
    function, arrays, more = CASES[name]
    check_case(function, *arrays, **more)


# -- every spelling ---------------------------------------------------------------------------------------------------

MODULES = (
    "product_calls",
    "convolution_calls",
    "pooling_calls",
    "pooling_gradients",
    "normalisation_calls",
    "resampling_calls",
    "factorisations",
    "linear_systems",
    "recurrent_calls",
    "spectral_calls",
    "scored_choices",
)

#: Operators that are refused, with what makes one of them where TensorFlow lets one.
REFUSED: dict[str, Case] = {
    "FractionalMaxPool": case(lambda x: ops.FractionalMaxPool(value=x, pooling_ratio=[1.0, 1.5, 1.5, 1.0])[0], IMAGE),
    "FractionalAvgPool": case(lambda x: ops.FractionalAvgPool(value=x, pooling_ratio=[1.0, 1.5, 1.5, 1.0])[0], IMAGE),
    "Dilation2D": case(
        lambda x: ops.Dilation2D(input=x, filter=normal(2, 2, 4), strides=[1] * 4, rates=[1] * 4, padding="SAME"), IMAGE
    ),
    "MaxPoolGradGrad": case(
        lambda x, g: ops.MaxPoolGradGrad(orig_input=x, orig_output=g, grad=x, **windows(2, 2, "SAME")), IMAGE, normal(2, 4, 3, 4)
    ),
    "MaxPoolGradGradV2": case(
        lambda x, g: ops.MaxPoolGradGradV2(orig_input=x, orig_output=g, grad=x, **windows(2, 2, "SAME")), IMAGE, normal(2, 4, 3, 4)
    ),
    "CropAndResizeGradImage": case(
        lambda g: ops.CropAndResizeGradImage(grads=g, boxes=BOXES[:2], box_ind=[0, 1], image_size=[2, 5, 6, 3], T=tf.float32),
        normal(2, 4, 5, 3),
    ),
    "CropAndResizeGradBoxes": case(
        lambda g: ops.CropAndResizeGradBoxes(grads=g, image=normal(2, 5, 6, 3), boxes=BOXES[:2], box_ind=[0, 1]), normal(2, 4, 5, 3)
    ),
    "Eig": case(lambda a: ops.Eig(input=a, Tout=tf.complex64)[0], normal(3, 3)),
    "CholeskyGrad": case(raw("CholeskyGrad", "l", "grad"), normal(3, 3), normal(3, 3)),
    "MatrixSquareRoot": case(raw("MatrixSquareRoot", "input"), normal(3, 3)),
    "MatrixLogarithm": case(lambda a: ops.MatrixLogarithm(input=tf.cast(a, tf.complex64)), normal(3, 3)),
    "MatrixSolveLs": case(
        lambda a, b: ops.MatrixSolveLs(matrix=a, rhs=b, l2_regularizer=tf.constant(0.1, tf.float64)), normal(3, 3), normal(3, 2)
    ),
    "BandedTriangularSolve": case(raw("BandedTriangularSolve", "matrix", "rhs"), normal(2, 3), normal(3, 2)),
    "TridiagonalSolve": case(raw("TridiagonalSolve", "diagonals", "rhs"), normal(3, 4), normal(4, 2)),
    "TridiagonalMatMul": case(
        raw("TridiagonalMatMul", "superdiag", "maindiag", "subdiag", "rhs"), normal(1, 4), normal(1, 4), normal(1, 4), normal(4, 2)
    ),
    "FFT": case(lambda x: ops.FFT(input=tf.cast(x, tf.complex64)), normal(8)),
    "FFT2D": case(lambda x: ops.FFT2D(input=tf.cast(x, tf.complex64)), normal(4, 4)),
    "FFT3D": case(lambda x: ops.FFT3D(input=tf.cast(x, tf.complex64)), normal(4, 4, 4)),
    "IFFT": case(lambda x: ops.IFFT(input=tf.cast(x, tf.complex64)), normal(8)),
    "IFFT2D": case(lambda x: ops.IFFT2D(input=tf.cast(x, tf.complex64)), normal(4, 4)),
    "IFFT3D": case(lambda x: ops.IFFT3D(input=tf.cast(x, tf.complex64)), normal(4, 4, 4)),
    "RFFT": case(lambda x: ops.RFFT(input=x, fft_length=[8]), normal(8)),
    "RFFT2D": case(lambda x: ops.RFFT2D(input=x, fft_length=[4, 4]), normal(4, 4)),
    "RFFT3D": case(lambda x: ops.RFFT3D(input=x, fft_length=[4, 4, 4]), normal(4, 4, 4)),
    "IRFFT": case(lambda x: ops.IRFFT(input=tf.cast(x, tf.complex64), fft_length=[8]), normal(5)),
    "IRFFT2D": case(lambda x: ops.IRFFT2D(input=tf.cast(x, tf.complex64), fft_length=[4, 4]), normal(4, 3)),
    "IRFFT3D": case(lambda x: ops.IRFFT3D(input=tf.cast(x, tf.complex64), fft_length=[4, 4, 4]), normal(4, 4, 3)),
    "FFTND": case(lambda x: ops.FFTND(input=tf.cast(x, tf.complex64), fft_length=[4, 4], axes=[0, 1]), normal(4, 4)),
    "IFFTND": case(lambda x: ops.IFFTND(input=tf.cast(x, tf.complex64), fft_length=[4, 4], axes=[0, 1]), normal(4, 4)),
    "RFFTND": case(lambda x: ops.RFFTND(input=x, fft_length=[4, 4], axes=[0, 1]), normal(4, 4)),
    "IRFFTND": case(lambda x: ops.IRFFTND(input=tf.cast(x, tf.complex64), fft_length=[4, 4], axes=[0, 1]), normal(4, 3)),
    "AudioSpectrogram": case(lambda x: ops.AudioSpectrogram(input=x, window_size=8, stride=4), normal(32, 1)),
    "Mfcc": case(lambda x: ops.Mfcc(spectrogram=x, sample_rate=16000), normal(1, 4, 65)),
    "NonMaxSuppressionV5": case(
        lambda b, s: ops.NonMaxSuppressionV5(
            boxes=b, scores=s, max_output_size=3, iou_threshold=0.5, score_threshold=0.1, soft_nms_sigma=0.5
        )[0],
        BOXES,
        SCORES,
    ),
    "NonMaxSuppressionWithOverlaps": case(
        lambda o, s: ops.NonMaxSuppressionWithOverlaps(
            overlaps=o, scores=s, max_output_size=3, overlap_threshold=0.5, score_threshold=0.1
        ),
        normal(4, 4),
        SCORES,
    ),
    "CombinedNonMaxSuppression": case(
        lambda b, s: ops.CombinedNonMaxSuppression(
            boxes=b, scores=s, max_output_size_per_class=2, max_total_size=3, iou_threshold=0.5, score_threshold=0.1
        )[0],
        BOXES.reshape(1, 4, 1, 4),
        SCORES.reshape(1, 4, 1),
    ),
    "CTCLoss": case(
        lambda x: ops.CTCLoss(inputs=x, labels_indices=[[0, 0]], labels_values=[1], sequence_length=[5])[0], normal(5, 1, 4)
    ),
    "CTCLossV2": case(
        lambda x: ops.CTCLossV2(inputs=x, labels_indices=[[0, 0]], labels_values=[1], sequence_length=[5])[0], normal(5, 1, 4)
    ),
    "CTCGreedyDecoder": case(lambda x: ops.CTCGreedyDecoder(inputs=x, sequence_length=[5])[3], normal(5, 1, 4)),
    "CTCBeamSearchDecoder": case(
        lambda x: ops.CTCBeamSearchDecoder(inputs=x, sequence_length=[5], beam_width=2, top_paths=1)[3], normal(5, 1, 4)
    ),
}
#: Refused, and no longer made: TensorFlow refuses to build them, or only a GPU has them.
GONE = {"BatchFFT", "BatchIFFT", "MatrixExponential"}
GONE |= {f"CudnnRNN{kind}{version}" for kind in ("", "Backprop") for version in ("", "V2", "V3")}
GONE |= {"LSTMBlockCellGrad", "BlockLSTMGrad", "BlockLSTMGradV2", "GRUBlockCellGrad"}


def traced(found: Case) -> Any:
    function, arrays, more = found
    specs = more.get("specs", {})
    signature = [tf.TensorSpec(specs.get(index, x.shape), x.dtype, name=f"x{index}") for index, x in enumerate(arrays)]
    return tf.function(function, input_signature=signature)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_modelled_is_visible(name: str) -> None:
    model = read_function(traced(REFUSED[name]), "case", None, ReadingOptions()).model
    refused = {node.op: node.attributes.get(NOT_ANALYSED) for node in model.graph.walk() if node.domain == "tensorflow"}
    assert "not modelled" in str(refused.get(name)) or "complex" in str(refused.get(name))


def test_no_spelling_lacks_a_case() -> None:
    spelled = {name for name, _ in all_spellings("tensorflow") if module_of(name) in MODULES}
    covered = {op.type for found in CASES.values() for op in traced(found).get_concrete_function().graph.get_operations()}
    assert spelled - covered - GONE == set(REFUSED)


def module_of(name: str) -> str:
    spelling = spelling_of(name, "tensorflow")
    adapter = None if spelling is None else spelling.adapter
    return "" if adapter is None else adapter.__module__.rpartition(".")[2]
