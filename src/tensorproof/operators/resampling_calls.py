"""Images to another size as TensorFlow computes it, and the gradients of that.

Bilinear and nearest are ONNX's Resize under other names. Bicubic takes its weights from a table of 1024 steps, area weighs by
overlap, and gradients are transposes: these are products with matrices of weights, one for each axis, which are known while the
graph is read. JAX writes resizing as products of that kind itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorproof.errors import NotAnalysed
from tensorproof.formats import FLOAT32, Format
from tensorproof.graph import ABSENT
from tensorproof.operators.arranging import sizes_of
from tensorproof.operators.linear import matmul
from tensorproof.operators.regions import crop_and_resize
from tensorproof.operators.resampling import resize
from tensorproof.operators.tensorflow_windows import Layout, operand_of

if TYPE_CHECKING:
    from tensorproof.frontends.tensorflow_call import TensorflowCall

Weights = npt.NDArray[np.float64]
#: Images are always (batch, height, width, channels).
_IMAGES = Layout(4, is_last=True)
#: Steps of the table that bicubic weights are taken from (tensorflow/core/kernels/image/resize_bicubic_op.cc).
_STEPS = 1 << 10


def _resized(call: TensorflowCall, format: Format, **attributes: Any) -> int:
    x = call.cast(_IMAGES.enter(operand_of(call, 0)).number, format)
    y = call.emit("Resize", x, ABSENT, ABSENT, call.as_integers(1), axes=[2, 3], formats=(format,), **attributes)
    return _IMAGES.leave(call, y)


@resize.tensorflow("ResizeBilinear")
def _(call: TensorflowCall) -> int:
    """Of images of any format, in float32."""
    return _resized(call, FLOAT32, mode="linear", coordinate_transformation_mode=_transformation(call))


@resize.tensorflow("ResizeNearestNeighbor")
def _(call: TensorflowCall) -> int:
    """The element that a position falls into; with aligned corners the nearest one, halves away from zero."""
    transformation = _transformation(call)
    rounding = "floor" if transformation == "asymmetric" else "round_prefer_ceil"
    attributes = {"coordinate_transformation_mode": transformation, "nearest_mode": rounding}
    return _resized(call, call.format(), mode="nearest", **attributes)


def _transformation(call: TensorflowCall) -> str:
    """How positions of results are placed on the image, in ONNX's words."""
    if call.attribute("align_corners", False):
        return "align_corners"
    return "half_pixel" if call.attribute("half_pixel_centers", False) else "asymmetric"


# -- products with matrices of weights --------------------------------------------------------------------------------


def _positions(call: TensorflowCall, size: int, wanted: int) -> npt.NDArray[np.float32]:
    """Where each result stands on an axis, in float32 as TensorFlow computes it."""
    is_aligned = bool(call.attribute("align_corners", False)) and wanted > 1
    scale = np.float32((size - 1) / np.float32(wanted - 1) if is_aligned else size / np.float32(wanted))
    index = np.arange(wanted, dtype=np.float32)
    if call.attribute("half_pixel_centers", False):
        return (index + np.float32(0.5)) * scale - np.float32(0.5)
    return index * scale


def _linear_weights(call: TensorflowCall, size: int, wanted: int) -> Weights:
    position = _positions(call, size, wanted)
    floor = np.floor(position)
    lower = np.maximum(floor.astype(np.int64), 0)
    upper = np.minimum(np.ceil(position).astype(np.int64), size - 1)
    share = (position - floor).astype(np.float64)
    return _placed(size, np.stack((lower, upper), 1), np.stack((1.0 - share, share), 1))


def _nearest_weights(call: TensorflowCall, size: int, wanted: int) -> Weights:
    position = _positions(call, size, wanted)
    nearest = np.floor(position if _transformation(call) == "asymmetric" else position + np.float32(0.5))
    chosen = np.clip(nearest.astype(np.int64), 0, size - 1)
    return _placed(size, chosen[:, None], np.ones((wanted, 1)))


def _cubic_weights(call: TensorflowCall, size: int, wanted: int) -> Weights:
    """Keys' cubic of the nearest step of the table; with half pixels, neighbours beyond the image weigh nothing."""
    is_half = bool(call.attribute("half_pixel_centers", False))
    a = -0.5 if is_half else -0.75
    position = _positions(call, size, wanted)
    floor = np.floor(position)
    step = np.rint((position - floor) * np.float32(_STEPS))
    near, far = step / _STEPS, step / _STEPS + 1.0
    back, last = 1.0 - step / _STEPS, 2.0 - step / _STEPS

    def inner(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0

    def outer(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a

    weights = np.stack((outer(far), inner(near), inner(back), outer(last)), 1).astype(np.float64)
    places = floor.astype(np.int64)[:, None] + np.arange(-1, 3)
    held = np.clip(places, 0, size - 1)
    if is_half:
        weights = np.where(held == places, weights, 0.0)
        total = weights.sum(1, keepdims=True)
        weights = np.where(np.abs(total) >= 1000.0 * np.finfo(np.float32).tiny, weights / total, weights)
    return _placed(size, held, weights)


def _area_weights(call: TensorflowCall, size: int, wanted: int) -> Weights:
    """How much of each element lies under a result, whose ends are `scale` apart."""
    is_aligned = bool(call.attribute("align_corners", False)) and wanted > 1
    scale = float(np.float32((size - 1) / np.float32(wanted - 1) if is_aligned else size / np.float32(wanted)))
    weights = np.zeros((wanted, size))
    for index in range(wanted):
        begin, end = index * scale, (index + 1) * scale
        for element in range(int(np.floor(begin)), int(np.ceil(end))):
            overlap = min(element + 1.0, end) - max(float(element), begin)
            weights[index, min(max(element, 0), size - 1)] += overlap / scale
    return weights


def _placed(size: int, places: npt.NDArray[np.int64], weights: npt.NDArray[Any]) -> Weights:
    """A matrix (results, elements) of what each result takes of each element."""
    matrix = np.zeros((len(places), size))
    np.add.at(matrix, (np.arange(len(places))[:, None], places), weights)
    return matrix


def _weighted(
    call: TensorflowCall, x: int, spaces: tuple[tuple[int, int], ...], weights: Callable[..., Weights], *, back: bool = False
) -> int:
    """An image (batch, height, width, channels) times a matrix along each axis, or (`back`) times its transpose."""
    rows, columns = (weights(call, size, wanted) for size, wanted in spaces)
    rows, columns = (matrix.T if back else matrix for matrix in (rows, columns))
    turned = call.moved("Transpose", x, perm=[0, 3, 1, 2])
    along = call.emit("MatMul", turned, call.constant(columns.T, FLOAT32), formats=(FLOAT32,))
    both = call.emit("MatMul", call.constant(rows, FLOAT32), along, formats=(FLOAT32,))
    return call.moved("Transpose", both, perm=[0, 2, 3, 1])


@matmul.tensorflow("ResizeBicubic", "ResizeArea")
def _(call: TensorflowCall) -> int:
    shape = call.shape(0)
    sizes = sizes_of(None if shape is None else shape[1:3], "an image that is resized")
    wanted = sizes_of(call.sizes_of(1), "a resized image")
    weights = _area_weights if call.name == "ResizeArea" else _cubic_weights
    return _weighted(call, call.operand(0, FLOAT32), tuple(zip(sizes, wanted, strict=True)), weights)


@matmul.tensorflow("ResizeBilinearGrad", "ResizeBicubicGrad")
def _(call: TensorflowCall) -> int:
    """The gradient (float32) by an image, whose size is that of the second operand."""
    of_gradient, of_image = call.shape(0), call.shape(1)
    wanted = sizes_of(None if of_gradient is None else of_gradient[1:3], "the gradient of a resized image")
    sizes = sizes_of(None if of_image is None else of_image[1:3], "an image that is resized")
    weights = _cubic_weights if "Bicubic" in call.name else _linear_weights
    made = _weighted(call, call.operand(0), tuple(zip(sizes, wanted, strict=True)), weights, back=True)
    return call.cast(made, call.format())


@matmul.tensorflow("ResizeNearestNeighborGrad")
def _(call: TensorflowCall) -> int:
    """The gradient by an image of a given height and width."""
    of_gradient = call.shape(0)
    wanted = sizes_of(None if of_gradient is None else of_gradient[1:3], "the gradient of a resized image")
    sizes = sizes_of(call.sizes_of(1), "an image that is resized")
    made = _weighted(call, call.operand(0, FLOAT32), tuple(zip(sizes, wanted, strict=True)), _nearest_weights, back=True)
    return call.cast(made, call.format())


# -- regions ----------------------------------------------------------------------------------------------------------


@crop_and_resize.tensorflow("CropAndResize")
def _(call: TensorflowCall) -> int:
    """Boxes of images at one size, in float32."""
    x = call.cast(_IMAGES.enter(operand_of(call, 0)).number, FLOAT32)
    y = call.emit(
        "CropAndResize",
        x,
        call.operand(1),
        call.operand(2),
        call.operand(3),
        domain="com.microsoft",
        mode=str(call.attribute("method", "bilinear")),
        extrapolation_value=float(call.attribute("extrapolation_value", 0.0)),
        formats=(FLOAT32,),
    )
    return _IMAGES.leave(call, y)


@crop_and_resize.tensorflow("CropAndResizeGradImage", "CropAndResizeGradBoxes")
def _(call: TensorflowCall) -> int:
    raise NotAnalysed(f"{call.name} is not modelled")
