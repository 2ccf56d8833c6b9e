"""Attention: every attribute, masks of every kind, caches, and rows that are masked entirely."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.soundness.seeds.seed import Seed, seed

_rng = np.random.default_rng(43)


def _normal(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return _rng.standard_normal(shape).astype(dtype)


def _mask(*shape: int) -> np.ndarray[Any, Any]:
    mask = _rng.random(shape) < 0.6
    mask[..., 0] = True
    return mask


def _attention() -> list[Seed]:
    found: list[Seed] = []

    def add(name: str, inputs: list[Any], attributes: dict[str, Any], opset: int = 25, **more: Any) -> None:
        found.append(seed("Attention", inputs, attributes, name=f"attention-{name}", opset=opset, **more))

    q, k, v = _normal(1, 2, 2, 3), _normal(1, 2, 3, 3), _normal(1, 2, 3, 2)
    for vary in ([0], [1], [2]):
        add(f"vary-{vary[0]}", [q, k, v], {}, vary=vary)
        add(f"causal-vary-{vary[0]}", [q, k, v], {"is_causal": 1}, vary=vary)
    for mode in range(4):
        attributes = {"qk_matmul_output_mode": mode, "softcap": 1.5}
        # For mode 0 the reference evaluator gives the scores after the softcap, the text those before it.
        attributes = attributes if mode else {"qk_matmul_output_mode": 0}
        add(f"mode-{mode}", [q, k, v, _normal(2, 3)], attributes, outputs=4)
    finite, infinite = _normal(2, 3), np.where(_mask(2, 3), np.float32(0), np.float32(-np.inf))
    empty_row = np.array([[False, False, False], [True, False, True]])
    for name, mask in (("float", finite), ("infinite", infinite), ("bool", _mask(2, 3)), ("empty-row", empty_row)):
        for causal in (0, 1):
            add(f"mask-{name}-{causal}", [q, k, v, mask], {"is_causal": causal}, vary=[0, 1, 2])
            add(f"mask-{name}-{causal}-24", [q, k, v, mask], {"is_causal": causal}, vary=[0, 1, 2], opset=24, oracle="runtime")
    add("mask-short", [q, k, v, _mask(2, 2)], {}, vary=[0, 1, 2])
    for name, column in (("bool", np.ones((2, 1), np.bool_)), ("float", np.zeros((2, 1), np.float32))):
        add(f"mask-column-{name}", [q, k, v, column], {}, vary=[0, 1, 2])
    add("mask-open", [q, k, v, _mask(1, 2, 2, 3)], {}, vary=[0, 1, 2, 3])
    for left, right in ((1, -1), (-1, 0), (0, 1), (1, 1)):
        add(f"window-{left}-{right}", [q, k, v], {"left_window_size": left, "right_window_size": right})
    past = [_normal(1, 2, 2, 3), _normal(1, 2, 2, 2)]
    for causal in (0, 1):
        add(f"past-{causal}", [q, k, v, None, *past], {"is_causal": causal}, outputs=3)
        lengths = np.array([2], np.int64)
        add(f"length-{causal}", [q, k, v, None, None, None, lengths], {"is_causal": causal})
        add(f"length-{causal}-open", [q, k, v, None, None, None, lengths], {"is_causal": causal}, vary=[0, 6])
    flat = [_normal(1, 2, 8), _normal(1, 3, 4), _normal(1, 3, 4)]
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    add("flat", flat, heads)
    add("flat-scaled", flat, {**heads, "scale": 0.7, "softcap": 2.0})
    add("flat-23", flat, {**heads, "is_causal": 1}, opset=23, oracle="runtime")
    add("double", [q, k, v], {"softmax_precision": 11})
    half = [x.astype(np.float16) for x in (q, k, v)]
    add("half", half, {"softmax_precision": 1})
    add("half-large", [(200 * x).astype(np.float16) for x in half], {})
    add("one-key", [q, k[:, :, :1], v[:, :, :1]], {})
    return found


def _others() -> list[Seed]:
    found: list[Seed] = []
    positions = np.array([[0, 3, 1]], np.int64)
    cosines, sines = _normal(5, 2), _normal(5, 2)
    for interleaved in (0, 1):
        attributes = {"interleaved": interleaved}
        inputs = [_normal(1, 2, 3, 4), cosines, sines, positions]
        found.append(seed("RotaryEmbedding", inputs, attributes, opset=23, name=f"rotary-{interleaved}"))
        inputs = [_normal(1, 3, 12), cosines, sines, positions]
        attributes = {**attributes, "num_heads": 2, "rotary_embedding_dim": 4}
        found.append(seed("RotaryEmbedding", inputs, attributes, opset=23, vary=[0, 1, 2, 3], name=f"rotary-open-{interleaved}"))
    for name, heads, attributes in (
        ("plain", 1, {}),
        ("scaled", 1, {"scale": 0.4}),
        ("grouped", 2, {}),
        ("double", 1, {"softmax_precision": 11}),
    ):
        inputs = [_normal(1, 2 * heads, 3, 4), _normal(1, 2, 3, 4), _normal(1, 2, 3, 5)]
        for vary in ([0], [1], [2], [0, 1, 2]):
            label = f"flex-{name}-{''.join(map(str, vary))}"
            found.append(
                seed(
                    "FlexAttention",
                    inputs,
                    attributes,
                    opset=26,
                    domain="ai.onnx.preview",
                    vary=vary,
                    oracle="reference",
                    name=label,
                )
            )
    query, key, value = _normal(1, 3, 4), _normal(1, 3, 2), _normal(1, 3, 3)
    for rule in ("linear", "gated", "delta", "gated_delta"):
        decay = -np.abs(_normal(1, 3, 2)) if "gated" in rule else None
        beta = np.abs(_normal(1, 3, 1)) if "delta" in rule else None
        attributes = {"q_num_heads": 2, "kv_num_heads": 1, "update_rule": rule}
        for name, past in (("", None), ("-past", _normal(1, 1, 2, 3))):
            inputs = [query, key, value, past, decay, beta]
            found.append(seed("LinearAttention", inputs, attributes, opset=27, outputs=2, name=f"linear-attention-{rule}{name}"))
    return found


SEEDS = [*_attention(), *_others()]
