"""Quantisation with a scale that can be 0: of a constant tensor, of a dead channel, or in a format that rounds it away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.operator_cases.pairs import Family, Program, onnx_file

if TYPE_CHECKING:
    import onnx

QUANTISATION = Family("quantisation")

INTEGERS = "the result is an integer: ONNX Runtime saturates what has no value, and no output is NaN"


@QUANTISATION.file("NUM103", "Div", "steps", x=(-4, 4))
def dynamic_range(fixed: bool) -> onnx.ModelProto:
    """Dynamic quantisation by hand: the range of a constant tensor is 0."""
    floor = "least = Constant<value_float=1e-6>()\nscale = Max(raw, least)" if fixed else "scale = Identity(raw)"
    return onnx_file(
        "(float[2,8] x) => (float[2,8] y)",
        f"""
        axes = Constant<value_ints=[1]>()
        levels = Constant<value_float=255.0>()
        high = ReduceMax(x, axes)
        low = ReduceMin(x, axes)
        width = Sub(high, low)
        raw = Div(width, levels)
        {floor}
        shifted = Sub(x, low)
        steps = Div(shifted, scale)
        whole = Round(steps)
        y = Mul(whole, scale)
        """,
    )


@QUANTISATION.file("NUM113", "QuantizeLinear", "q", not_replayed=INTEGERS, x=(-4, 4))
def computed_scale(fixed: bool) -> onnx.ModelProto:
    """QuantizeLinear with the largest magnitude of the batch over 127 as its scale: 0 for a batch of zeros."""
    floor = "least = Constant<value_float=1e-6>()\nscale = Max(raw, least)" if fixed else "scale = Identity(raw)"
    return onnx_file(
        "(float[8] x) => (float[8] y)",
        f"""
        levels = Constant<value_float=127.0>()
        zero = Constant<value = int8 {{0}}>()
        size = Abs(x)
        largest = ReduceMax<keepdims=0>(size)
        raw = Div(largest, levels)
        {floor}
        q = QuantizeLinear(x, scale, zero)
        y = DequantizeLinear(q, scale, zero)
        """,
    )


@QUANTISATION.file("NUM113", "QuantizeLinear", "q", not_replayed=INTEGERS, x=(-4, 4))
def scale_of_dead_channel(fixed: bool) -> onnx.ModelProto:
    """Scales per channel in a file: a calibration that saw a dead channel wrote 0."""
    scale = 0.03 if fixed else 0.0
    return onnx_file(
        f"(float[2,3] x) => (float[2,3] y) <float[3] scale = {{0.03,{scale},0.02}}, int8[3] zero = {{0,0,0}}>",
        "q = QuantizeLinear<axis=1>(x, scale, zero)\ny = DequantizeLinear<axis=1>(q, scale, zero)",
    )


@QUANTISATION.program("NUM103", "Div", x=(-4, 4))
def straight_through(fixed: bool) -> Program:
    """Quantisation-aware training: activations are divided by their largest magnitude over 127."""
    import torch

    def quantised(x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().amax(dim=-1, keepdim=True) / 127
        if fixed:
            scale = scale.clamp(min=1e-6)
        steps = torch.round(x / scale)  # defect
        return x + (steps * scale - x).detach()

    return Program(quantised, {"x": torch.rand(2, 8)})


@QUANTISATION.program("NUM103", "Div", precision="float16", x=(-4, 4))
def vanished_scale_guard(fixed: bool) -> Program:
    """The same in float16, with a guard of 1e-8 that is 0 there."""
    import torch

    def quantised(x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().amax(dim=-1, keepdim=True) / 127 + (1e-3 if fixed else 1e-8)
        return torch.round(x / scale) * scale  # defect

    return Program(quantised, {"x": torch.rand(2, 8)})


@QUANTISATION.program("NUM101", "tensorproof::Log2", x=(-4, 4))
def power_of_two_scale(fixed: bool) -> Program:
    """A scale that is a power of two, 2 ** ceil(log2(largest)): minus infinity for a tensor of zeros."""
    import torch

    def quantised(x: torch.Tensor) -> torch.Tensor:
        largest = x.abs().amax(dim=-1, keepdim=True)
        if fixed:
            largest = largest.clamp(min=2**-20)
        exponent = torch.ceil(torch.log2(largest))  # defect
        scale = torch.exp2(exponent - 7)
        return torch.round(x / scale) * scale

    return Program(quantised, {"x": torch.rand(2, 8)})
