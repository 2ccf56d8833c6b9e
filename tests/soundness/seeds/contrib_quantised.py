"""ONNX Runtime's quantised operators (domain com.microsoft), with ONNX Runtime as the oracle."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tensorproof.formats import of_dtype
from tests.soundness.seeds.seed import Seed, seed

_RNG = np.random.default_rng(13)


def _codes(shape: tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
    info = ml_dtypes.iinfo(dtype)
    return _RNG.integers(int(info.min), int(info.max) + 1, shape).astype(dtype)


def _contrib(
    operator: str,
    name: str,
    inputs: list[Any],
    attributes: dict[str, Any] | None = None,
    *,
    outputs: int = 1,
    output: Any = None,
    vary: list[int] | None = None,
    constants: list[int] | None = None,
) -> Seed:
    first = next(x for x in inputs if x is not None)
    code = of_dtype(np.dtype(output or np.asarray(first).dtype)).onnx_code
    return seed(
        operator,
        inputs,
        attributes,
        opset=21,
        domain="com.microsoft",
        outputs=outputs,
        output_types=[code] * outputs,
        vary=[0] if vary is None else vary,
        constants=dict.fromkeys(constants or [], True),
        name=f"{operator}-{name}",
    )


_S = np.float32
_U, _I = np.uint8, np.int8
_X = _RNG.standard_normal((3, 4)).astype(np.float32) * 4
_IMAGE = _codes((1, 3, 6, 5))
_LAST = _codes((1, 6, 5, 3))

_ELEMENTWISE = [
    _contrib("QuantizeLinear", "tensor", [_X, _S(0.07), _U(128)], output=_U, vary=[0, 1]),
    _contrib("QuantizeLinear", "axis", [_X, _S([0.1, 0.2, 0.3, 0.4]), np.array([0, 1, 2, -3], _I)], {"axis": 1}, output=_I),
    _contrib("QuantizeLinear", "16-bit", [_X, _S(0.001), np.uint16(3000)], output=np.uint16),
    _contrib("DequantizeLinear", "tensor", [_codes((3, 4)), _S(0.07), _U(128)], output=np.float32, vary=[0, 1]),
    _contrib(
        "DequantizeLinear",
        "axis",
        [_codes((3, 4), _I), _S([0.1, 0.2, 0.3, 0.4]), np.zeros(4, _I)],
        {"axis": 1},
        output=np.float32,
    ),
    _contrib("DequantizeLinear", "16-bit", [_codes((3, 4), np.int16), _S(0.07), np.int16(-9)], output=np.float32),
    *(
        _contrib(op, name, [_codes((2, 3), t), _S(0.02), t(7), _codes(shape, t), _S(0.03), t(9), _S(scale), t(20)], vary=[0, 3])
        for op, scale in (("QLinearAdd", 0.05), ("QLinearMul", 0.04))
        for name, t, shape in (("uint8", _U, (2, 3)), ("int8", _I, (3,)), ("one", _U, (1,)))
    ),
    *(
        _contrib(op, name, [_codes((3, 4), t), _S(0.05), t(11), _S(scale), t(3)], attributes)
        for op, scale, attributes in (("QLinearSigmoid", 1 / 256, {}), ("QLinearLeakyRelu", 0.03, {"alpha": 0.2}))
        for name, t in (("uint8", _U), ("int8", _I))
    ),
    _contrib("QLinearLeakyRelu", "default", [_codes((3, 4)), _S(0.05), _U(11), _S(0.05), _U(3)]),
    *(
        _contrib(
            "QLinearAveragePool",
            name,
            [x, _S(0.05), x.dtype.type(11), _S(0.04), x.dtype.type(5)],
            {"kernel_shape": [3, 2], **attributes},
        )
        for name, x, attributes in (
            ("plain", _IMAGE, {}),
            ("padded", _IMAGE, {"pads": [1, 1, 1, 0], "strides": [2, 1], "count_include_pad": 1}),
            ("excluded", _IMAGE, {"pads": [1, 1, 1, 0], "ceil_mode": 1, "strides": [2, 2]}),
            ("last", _LAST, {"channels_last": 1}),
            ("int8", _codes((1, 2, 5, 5), _I), {"auto_pad": "SAME_UPPER"}),
        )
    ),
    *(
        _contrib("QLinearGlobalAveragePool", name, [x, _S(0.05), x.dtype.type(11), _S(0.04), x.dtype.type(5)], attributes)
        for name, x, attributes in (
            ("first", _IMAGE, {}),
            ("last", _LAST, {"channels_last": 1}),
            ("int8", _codes((2, 3, 4, 4), _I), {}),
        )
    ),
    *(
        _contrib("QLinearSoftmax", name, [_codes((3, 5), t), _S(0.05), t(7), _S(scale), t(zero)], {"axis": -1, "opset": opset})
        for name, t, scale, zero, opset in (
            ("uint8", _U, 1 / 256, 0, 13),
            ("int8", _I, 1 / 256, -128, 13),
            ("scale", _U, 0.0073, 3, 11),
        )
    ),
    _contrib(
        "QLinearConcat",
        "two",
        [_S(0.05), _U(3), _codes((2, 3)), _S(0.05), _U(3), _codes((2, 2)), _S(0.021), _U(90)],
        {"axis": 1},
        output=_U,
        vary=[2, 5],
        constants=[0, 1, 3, 4, 6, 7],
    ),
    _contrib(
        "QLinearWhere",
        "broadcast",
        [_RNG.random((2, 3)) < 0.5, _codes((2, 3)), _S(0.05), _U(3), _codes((3,)), _S(0.02), _U(9), _S(0.04), _U(100)],
        output=_U,
        vary=[1, 4],
        constants=[2, 3, 5, 6, 7, 8],
    ),
    *(
        _contrib(
            "QLinearConv",
            name,
            [x, _S(0.03), _U(20), _codes((2, 3, 3, 3), _I), _S(0.2), _I(0), _S(1.3), _U(100)],
            {"kernel_shape": [3, 3], "channels_last": last},
            vary=[0],
            constants=[3],
        )
        for name, x, last in (("first", _IMAGE, 0), ("last", _LAST, 1))
    ),
]

_A, _B, _W = _codes((3, 4)), _codes((4, 2), _I), _RNG.standard_normal((3, 64)).astype(np.float32)
_BIAS = _RNG.standard_normal(2).astype(np.float32)


def _nbits(name: str, a: np.ndarray, bits: int, block: int, zero: str, bias: bool = False, **attributes: Any) -> Seed:
    rows, columns = 5, a.shape[-1]
    blocks = -(-columns // block)
    weights = _codes((rows, blocks, block * bits // 8))
    scales = (_RNG.random((rows, blocks)) * 0.1 + 0.01).astype(a.dtype)
    zeros: Any = None
    if zero == "packed":
        zeros = _codes((rows, -(-blocks * bits // 8)))
    elif zero == "float":
        zeros = (_RNG.random((rows, blocks)) * 2**bits).astype(a.dtype)
    more = [zeros, None, _RNG.standard_normal(rows).astype(a.dtype)] if bias else [zeros] if zeros is not None else []
    return _contrib(
        "MatMulNBits",
        name,
        [a, weights, scales, *more],
        {"K": columns, "N": rows, "bits": bits, "block_size": block, **attributes},
        vary=[0],
        constants=[1, 2, *([3] if zeros is not None else []), *([5] if bias else [])],
    )


_PRODUCTS = [
    *(
        _contrib("MatMulIntegerToFloat", name, [_A, b, _S(0.02), scale, _U(9), zero, *bias], output=np.float32, vary=[0, 1])
        for name, b, scale, zero, bias in (
            ("tensor", _B, _S(0.1), _I(3), []),
            ("column", _B, _S([0.1, 0.3]), np.array([1, -4], _I), [_BIAS]),
            ("uint8", _codes((4, 2)), _S(0.1), _U(3), [_BIAS]),
        )
    ),
    *(
        _contrib(
            "QGemm",
            name,
            [a, _S(0.02), _U(9), b, scale, zero, c, *more],
            attributes,
            output=np.float32 if not more else _U,
            vary=[0, 3],
        )
        for name, a, b, scale, zero, c, more, attributes in (
            ("float", _A, _B, _S(0.1), _I(0), None, [], {}),
            ("bias", _A, _B, _S([0.1, 0.2]), np.zeros(2, _I), np.array([100, -300], np.int32), [_S(0.7), _U(100)], {}),
            (
                "transposed",
                _A.T.copy(),
                _B.T.copy(),
                _S(0.1),
                _I(0),
                None,
                [_S(0.7), _U(100)],
                {"transA": 1, "transB": 1, "alpha": 1.5},
            ),
        )
    ),
    *(
        _contrib("DynamicQuantizeMatMul", name, [_X, b, scale, *more], vary=[0])
        for name, b, scale, more in (
            ("tensor", _B, _S(0.1), [_I(3)]),
            ("column", _B, _S([0.1, 0.3]), [np.zeros(2, _I), _BIAS]),
            ("uint8", _codes((4, 2)), _S(0.1), [_U(120), _BIAS]),
        )
    ),
    _nbits("4", _W, 4, 16, ""),
    _nbits("4-zero", _W, 4, 32, "packed"),
    _nbits("4-float-zero", _W, 4, 32, "float"),
    _nbits("4-bias", _W[:, :40], 4, 16, "", bias=True),
    _nbits("4-int8", _W, 4, 32, "packed", accuracy_level=4),
    _nbits("8", _W, 8, 32, "packed"),
    _nbits("8-int8", _W, 8, 32, "", accuracy_level=4),
    _nbits("2", _W, 2, 32, "packed"),
    _nbits("batch", _W.reshape(3, 2, 32)[:, :1], 4, 16, ""),
    *(
        _contrib(
            "GatherBlockQuantized",
            name,
            [data, np.array([[0, 2], [1, -1]], np.int64), scales, *zeros],
            {"block_size": 16, "gather_axis": 0, "quantize_axis": 1, **attributes},
            output=np.float32,
            vary=[2],
            constants=[0, 3] if zeros else [0],
        )
        for name, data, scales, zeros, attributes in (
            (
                "uint4",
                _codes((4, 32), ml_dtypes.uint4),
                _RNG.random((4, 2)).astype(np.float32),
                [_codes((4, 2), ml_dtypes.uint4)],
                {},
            ),
            ("int4", _codes((4, 32), ml_dtypes.int4), _RNG.random((4, 2)).astype(np.float32), [], {}),
            ("bytes", _codes((4, 16)), _RNG.random((4, 2)).astype(np.float32), [], {"bits": 4}),
            ("bytes8", _codes((4, 32)), _RNG.random((4, 2)).astype(np.float32), [_codes((4, 2))], {"bits": 8}),
        )
    ),
]

SEEDS = [*_ELEMENTWISE, *_PRODUCTS]


def _attention(name: str, weight_type: Any, *, past: bool = False, column: bool = False, **attributes: Any) -> Seed:
    batch, length, hidden, heads = 2, 3, 8, 2
    inputs: list[Any] = [
        _codes((batch, length, hidden)),
        _codes((hidden, 3 * hidden), weight_type),
        _RNG.standard_normal(3 * hidden).astype(np.float32) * _S(0.1),
        _S(0.002),
        (_RNG.random(3 * hidden) * 0.002 + 0.001).astype(np.float32) if column else _S(0.002),
        None,
        _U(120),
        np.zeros(3 * hidden, weight_type) if column else weight_type(3),
    ]
    if past:
        inputs.append(_RNG.standard_normal((2, batch, heads, 2, hidden // heads)).astype(np.float32))
    return _contrib(
        "QAttention",
        name,
        inputs,
        {"num_heads": heads, **attributes},
        outputs=2 if past else 1,
        output=np.float32,
        vary=[0, 8] if past else [0],
        constants=[1, 2],
    )


def _experts(
    name: str,
    activation: str,
    bits: int,
    *,
    block: int = 0,
    zeros: bool = False,
    sequences: bool = False,
    experts: int = 3,
    vary: tuple[int, ...] = (1,),
    **attributes: Any,
) -> Seed:
    tokens, hidden, inner = 4, 32, 32
    fusion = 2 if activation == "swiglu" else 1

    def layer(rows: int, columns: int) -> tuple[Any, Any, Any, Any]:
        blocks = columns // block if block else 1
        shape = (experts, rows, blocks) if block else (experts, rows)
        points = _codes((experts, rows, -(-blocks * bits // 8))) if block else _codes((experts, -(-rows * bits // 8)))
        return (
            _codes((experts, rows, columns * bits // 8)),
            (_RNG.random(shape) * 0.02 + 0.001).astype(np.float32),
            _RNG.standard_normal((experts, rows)).astype(np.float32),
            points if zeros else None,
        )

    first, second = layer(fusion * inner, hidden), layer(hidden, inner)
    x = _RNG.standard_normal((2, tokens // 2, hidden) if sequences else (tokens, hidden)).astype(np.float32)
    router = _RNG.standard_normal((tokens, experts)).astype(np.float32)
    inputs = [x, router, *first[:3], *second[:3], None, None, None, first[3], second[3]]
    if not zeros:
        inputs = inputs[:8]
    more: dict[str, Any] = {"block_size": block} if block else {}
    return _contrib(
        "QMoE",
        name,
        inputs,
        {"k": 2, "activation_type": activation, "expert_weight_bits": bits, **more, **attributes},
        vary=list(vary),
        constants=[number for number, value in enumerate(inputs) if number > 1 and value is not None],
    )


SEEDS += [
    _attention("int8", _I),
    _attention("uint8-causal", _U, unidirectional=1),
    _attention("column", _I, column=True),
    _attention("past", _I, past=True, unidirectional=1),
    # Ranges of the routing first: through two layers the hidden units of an expert depend on one another, which no
    # interval sees.
    *(
        _experts(f"{activation}-{bits}-{k}", activation, bits, k=k, normalize_routing_weights=1, **more)
        for activation, bits, more in (
            ("relu", 4, {}),
            ("silu", 8, {}),
            ("identity", 4, {"block": 16, "zeros": True}),
            ("swiglu", 4, {"swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 7.0}),
            ("gelu", 4, {"sequences": True}),
        )
        for k in (1, 2)
    ),
    _experts("inputs", "relu", 4, vary=(0, 1), normalize_routing_weights=1),
    _experts("inputs-sequences", "silu", 4, vary=(0, 1), sequences=True),
    _experts("not-normalised", "gelu", 4, vary=(0, 1)),
    _experts("block-8", "silu", 8, block=32, vary=(0, 1), normalize_routing_weights=1),
    _experts("zeros", "relu", 4, zeros=True, normalize_routing_weights=1),
    _experts("as-many-as-rows", "relu", 4, experts=32, normalize_routing_weights=1),
]
