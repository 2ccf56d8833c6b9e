"""Guards as nodes, in the spelling that the version of the model and the kernels of ONNX Runtime allow."""

from __future__ import annotations

from tensorproof.formats import FLOAT64, Format
from tensorproof.repair.editing import Editor, Spot
from tensorproof.repair.operand.block import Interval
from tensorproof.repair.proposal import Declined


def clamp(editor: Editor, spot: Spot, x: str, interval: Interval, format: Format) -> str:
    """Values moved into an interval; NaN stays NaN.

    Clip has its ends as inputs from version 11 on, and integers from version 12 on. ONNX Runtime's Clip of float64 begins with
    version 12 as well; Max and Min of float64 begin with version 8, where they broadcast.
    """
    if format.is_integer:
        if editor.opset < 12:
            raise Declined("before version 12 the operator set has no clamp of integers")
        return spot.clip(x, interval.low, interval.high, format.dtype)
    if format is not FLOAT64 or editor.opset >= 12:
        return spot.clip(x, interval.low, interval.high, format.dtype)
    if editor.opset < 8:
        raise Declined("before version 8 the operator set has no clamp of float64 values that runs")
    if interval.low is not None:
        x = spot.add("Max", x, spot.constant(interval.low, format.dtype))
    return x if interval.high is None else spot.add("Min", x, spot.constant(interval.high, format.dtype))


def sign(editor: Editor, spot: Spot, x: str, format: Format) -> str:
    """-1 where a value is negative, else 1."""
    negative = spot.add("Less", x, spot.constant(0, format.dtype))
    if editor.opset >= 9:
        return spot.add("Where", negative, spot.constant(-1, format.dtype), spot.constant(1, format.dtype))
    doubled = spot.add("Mul", spot.add("Cast", negative, to=format.onnx_code), spot.constant(2, format.dtype))
    return spot.add("Sub", spot.constant(1, format.dtype), doubled)
