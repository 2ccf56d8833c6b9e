"""ONNX Runtime's fused transformer operators: normalisations of sums, attention with every kind of mask and state."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.soundness.seeds.seed import Seed, seed

_rng = np.random.default_rng(77)
_DOMAIN = "com.microsoft"
_FLOAT, _INT32, _HALF = 1, 6, 10


def _normal(*shape: int, mean: float = 0.0) -> np.ndarray[Any, Any]:
    return (_rng.standard_normal(shape) + mean).astype(np.float32)


def _int32(values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


def _skip() -> list[Seed]:
    found: list[Seed] = []
    x, skip, gamma, beta, bias = _normal(2, 3, 6), _normal(2, 3, 6), _normal(6), _normal(6), _normal(6)
    for name, inputs, attributes, outputs in (
        ("plain", [x, skip, gamma], {}, 1),
        ("beta", [x, skip, gamma, beta], {"epsilon": 1e-5}, 4),
        ("bias", [x, skip, gamma, beta, bias], {"epsilon": 1e-3}, 4),
        ("no-beta", [x, skip, gamma, None, bias], {"epsilon": 0.0}, 1),
        ("one-batch", [x, skip[:1], gamma, beta], {}, 4),
        ("no-batch", [x, skip[0], gamma, beta], {"epsilon": 0.1}, 4),
        ("far", [x + np.float32(1e4), skip, gamma, beta], {"epsilon": 1e-5}, 4),
        ("matrix", [x[0], skip[0], gamma, beta, bias], {"epsilon": 1e-5}, 1),
    ):
        found.append(seed("SkipLayerNormalization", inputs, attributes, domain=_DOMAIN, outputs=outputs, name=f"skip-{name}"))
    for name, inputs, attributes, outputs in (
        ("plain", [x, skip, gamma], {}, 1),
        ("bias", [x, skip, gamma, bias], {"epsilon": 1e-5}, 1),
        ("zero-epsilon", [x, skip, gamma, bias], {"epsilon": 0.0}, 1),
        ("all", [x, skip, gamma], {"epsilon": 1e-3}, 4),
        ("matrix", [x[0], skip[0], gamma, bias], {"epsilon": 1e-5}, 4),
    ):
        operator = "SkipSimplifiedLayerNormalization"
        found.append(seed(operator, inputs, attributes, domain=_DOMAIN, outputs=outputs, name=f"skip-simplified-{name}"))
    half = [part.astype(np.float16) for part in (x, skip, gamma, beta, bias)]
    types = [_HALF, _FLOAT, _FLOAT, _HALF]
    for operator, inputs in (("SkipLayerNormalization", half), ("SkipSimplifiedLayerNormalization", [*half[:3], half[4]])):
        for scale in (1.0, 300.0):
            inputs = [inputs[0] * np.float16(scale), *inputs[1:]]
            name = f"{operator}-half-{scale:g}"
            found.append(seed(operator, inputs, {"epsilon": 1e-5}, domain=_DOMAIN, outputs=4, output_types=types, name=name))
    for axis, tail in ((-1, (6,)), (1, (3, 6)), (2, (6,))):
        for epsilon, outputs in ((1e-5, 1), (0.1, 2)):
            name = f"simplified-{axis}-{epsilon}"
            attributes = {"axis": axis, "epsilon": epsilon, "stash_type": 1}
            inputs = [x, _normal(*tail)]
            found.append(
                seed("SimplifiedLayerNormalization", inputs, attributes, opset=20, outputs=outputs, oracle="runtime", name=name)
            )
    found.append(seed("SimplifiedLayerNormalization", [x, gamma], opset=11, oracle="runtime", name="simplified-default"))
    return found


def _embed() -> list[Seed]:
    words, segments = _int32([[0, 3, 2], [4, 4, 1]]), _int32([[0, 0, 1], [1, 1, 1]])
    tables = [_normal(5, 4), _normal(6, 4), _normal(2, 4)]
    gamma, beta = _normal(4), _normal(4)
    mask, positions = _int32([[1, 1, 0], [1, 1, 1]]), _int32([[2, 0, 5], [1, 1, 4]])
    types = [_FLOAT, _INT32, _FLOAT]
    found: list[Seed] = []
    for name, inputs, attributes, outputs in (
        ("plain", [words, segments, *tables, gamma, beta], {}, 3),
        ("mask", [words, segments, *tables, gamma, beta, mask], {"epsilon": 1e-3, "mask_index_type": 1}, 3),
        ("positions", [words, segments, *tables, gamma, beta, mask, positions], {"epsilon": 1e-5}, 3),
        ("one-row", [words, segments, *tables, gamma, beta, None, positions[:1]], {"epsilon": 1e-5}, 2),
        ("no-segment", [words, None, *tables[:2], None, gamma, beta, mask], {"epsilon": 1e-5}, 2),
    ):
        found.append(
            seed(
                "EmbedLayerNormalization",
                inputs,
                attributes,
                domain=_DOMAIN,
                outputs=outputs,
                output_types=types[:outputs],
                name=f"embed-{name}",
            )
        )
    found.append(
        seed(
            "EmbedLayerNormalization",
            [words, segments, *tables, gamma, beta, mask],
            {"epsilon": 1e-5},
            domain=_DOMAIN,
            outputs=3,
            output_types=types,
            vary=[0, 1, 2, 7],
            name="embed-any-word",
        )
    )
    return found


# -- attention ---------------------------------------------------------------------------------------------------------


def _attention() -> list[Seed]:
    x, weights, bias = _normal(2, 3, 4), _normal(4, 12), _normal(12)
    past = _normal(2, 2, 2, 2, 2)
    lengths, ends = _int32([1, 3]), _int32([2, 3, 0, 1])
    plane, cube = _int32([[1, 0, 1], [0, 0, 0]]), _int32([[[1, 0, 1], [1, 1, 0], [0, 0, 1]]] * 2)
    found: list[Seed] = []
    cases: list[tuple[str, list[Any], dict[str, Any], int]] = [
        ("plain", [x, weights, bias], {}, 1),
        ("present", [x, weights, bias], {"scale": 0.3}, 2),
        ("causal", [x, weights, bias], {"unidirectional": 1}, 1),
        ("lengths", [x, weights, bias, lengths], {}, 1),
        ("ends", [x, weights, bias, ends], {"unidirectional": 1}, 1),
        ("offsets", [x, weights, bias, _int32([1, 2, 0, 3, 6, 0, 1, 3])], {}, 1),
        ("plane", [x, weights, bias, plane], {"mask_filter_value": -3.0}, 1),
        ("plane-causal", [x, weights, bias, plane], {"unidirectional": 1}, 1),
        ("cube", [x, weights, bias, cube], {}, 1),
        ("past", [x, weights, bias, None, past], {"unidirectional": 1}, 2),
        ("past-mask", [x, weights, bias, _int32([[1, 1, 0, 1, 1], [0, 1, 1, 1, 0]]), past], {}, 2),
        ("bias", [x, weights, bias, None, None, _normal(1, 2, 3, 3)], {}, 1),
        ("bias-mask", [x, weights, bias, plane, None, _normal(2, 1, 3, 3)], {"unidirectional": 1}, 1),
        ("sizes", [x, _normal(4, 14), _normal(14)], {"qkv_hidden_sizes": [4, 4, 6]}, 1),
    ]
    for name, inputs, attributes, outputs in cases:
        attributes = {"num_heads": 2, **attributes}
        found.append(seed("Attention", inputs, attributes, domain=_DOMAIN, outputs=outputs, name=f"attention-{name}"))
    for name, mask in (("lengths", lengths), ("ends", ends), ("plane", plane), ("cube", cube)):
        inputs = [x, weights, bias, mask]
        found.append(seed("Attention", inputs, {"num_heads": 2}, domain=_DOMAIN, vary=[3], name=f"attention-any-{name}"))
    return found


def _multi_head() -> list[Seed]:
    q, k, v = _normal(2, 3, 4), _normal(2, 5, 4), _normal(2, 5, 4)
    own, wide = [_normal(2, 3, 4) for _ in range(3)], _normal(2, 5, 6)
    past = [_normal(2, 2, 2, 2), _normal(2, 2, 2, 2)]
    plane, cube = _int32([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0]]), _int32(np.arange(30).reshape(2, 3, 5) % 3)
    masked = np.where(_normal(1, 1, 3, 5) > 0.5, np.float32(-3.4028235e38), np.float32(0.0)).astype(np.float32)
    infinite = np.array([[[[0.0, -np.inf, 0.0, 0.0, -np.inf]] * 3]], np.float32)
    cases: list[tuple[str, list[Any], dict[str, Any], int]] = [
        ("plain", [q, k, v], {}, 1),
        ("scaled", [q, k, v], {"scale": 2.0}, 4),
        ("wide", [q, k, wide, _normal(14)], {}, 3),
        ("bias", [q, k, v, _normal(12)], {}, 1),
        ("self", own, {"unidirectional": 1}, 4),
        ("lengths", [q, k, v, None, _int32([4, 1])], {}, 1),
        ("offsets", [q, k, v, None, _int32([1, 2, 0, 5, 10, 0, 3, 6])], {}, 4),
        ("plane", [q, k, v, None, plane], {}, 4),
        ("cube", [q, k, v, None, cube], {"mask_filter_value": -2.0}, 4),
        ("attention-bias", [q, k, v, None, None, _normal(1, 2, 3, 5)], {}, 1),
        ("attention-bias-one", [q, k, v, _normal(12), plane, _normal(2, 1, 3, 5)], {}, 4),
        ("past", [*own, None, None, None, *past], {"unidirectional": 1}, 4),
        ("past-mask", [*own, None, plane, None, *past], {"unidirectional": 1}, 4),
        ("cross", [q, _normal(2, 2, 5, 2), _normal(2, 2, 5, 2)], {}, 3),
        ("one-query", [q[:, :1], k, v], {"unidirectional": 1}, 1),
    ]
    found: list[Seed] = []
    for name, inputs, attributes, outputs in cases:
        attributes = {"num_heads": 2, **attributes}
        found.append(seed("MultiHeadAttention", inputs, attributes, domain=_DOMAIN, outputs=outputs, name=f"multi-head-{name}"))
    for name, bias in (("lowest", masked), ("infinite", infinite)):
        inputs = [q, k, v, None, None, bias]
        found.append(
            seed("MultiHeadAttention", inputs, {"num_heads": 2}, domain=_DOMAIN, vary=[0, 1, 2], name=f"multi-head-{name}")
        )
    inputs = [q, k, v, None, plane]
    found.append(
        seed("MultiHeadAttention", inputs, {"num_heads": 2}, domain=_DOMAIN, vary=[0, 1, 2, 4], name="multi-head-any-mask")
    )
    return found


def _grouped() -> list[Seed]:
    q, k, v = _normal(2, 3, 32), _normal(2, 3, 16), _normal(2, 3, 16)
    narrow = [_normal(2, 3, 16), _normal(2, 3, 8), _normal(2, 3, 8)]
    cosines, sines = _normal(8, 8), _normal(8, 8)
    past = [_normal(2, 1, 4, 8), _normal(2, 1, 4, 8)]
    long_past = [_normal(2, 1, 4, 16), _normal(2, 1, 4, 16)]
    first = [_int32([2, 2]), _int32([3])]
    prompt = [*narrow, None, None, *first]
    one = [x[:, :1] for x in narrow]
    rotary = [q, k, v, None, None, *first, cosines, sines]
    places = np.array([[3, 4, 5], [3, 4, 5]], np.int64)
    cases: list[tuple[str, list[Any], dict[str, Any], int]] = [
        ("prompt", prompt, {}, 3),
        ("one-output", prompt, {"scale": 0.7}, 1),
        ("ragged", [*narrow, None, None, _int32([1, 2]), _int32([3])], {}, 3),
        ("ragged-window", [*narrow, None, None, _int32([0, 2]), _int32([3])], {"local_window_size": 2}, 3),
        ("ragged-capped", [*narrow, None, None, _int32([2, 0]), _int32([3])], {"local_window_size": 2, "softcap": 1.5}, 3),
        ("packed", [np.concatenate(narrow, axis=2), *[None] * 4, *first], {}, 3),
        ("window", prompt, {"local_window_size": 2}, 3),
        ("window-one", prompt, {"local_window_size": 1}, 3),
        ("all", prompt, {"causal": 0}, 3),
        ("capped", prompt, {"softcap": 2.0}, 3),
        ("smooth", prompt, {"smooth_softmax": 1}, 3),
        ("sink", [*prompt, None, None, None, None, _normal(2)], {}, 3),
        ("bias", [*prompt, None, None, None, _normal(1, 2, 3, 3)], {}, 3),
        ("bias-capped", [*prompt, None, None, None, _normal(2, 1, 3, 3)], {"softcap": 5.0, "local_window_size": 2}, 3),
        ("scores", prompt, {"qk_output": 1}, 4),
        ("weights", prompt, {"qk_output": 2, "local_window_size": 2}, 4),
        ("step", [*one, *past, _int32([4, 4]), _int32([5])], {}, 3),
        ("step-ragged", [*one, *past, _int32([2, 4]), _int32([5])], {}, 3),
        ("step-inside", [*one, *past, _int32([2, 2]), _int32([3])], {"local_window_size": 2}, 3),
        ("step-bias", [*one, *past, _int32([3, 3]), _int32([4]), *[None] * 3, _normal(1, 1, 1, 4)], {}, 3),
        ("chunk", [*(x[:1] for x in narrow), *(x[:1] for x in past), _int32([6]), _int32([7])], {}, 3),
        ("prompt-buffer", [*narrow, *past, *first], {}, 3),
        ("rotary", rotary, {"do_rotary": 1}, 3),
        ("rotary-pairs", rotary, {"do_rotary": 1, "rotary_interleaved": 1}, 3),
        ("rotary-places", [*rotary, places], {"do_rotary": 1}, 3),
        (
            "rotary-step",
            [q[:, :1], k[:, :1], v[:, :1], *long_past, _int32([4, 2]), _int32([5]), cosines, sines],
            {"do_rotary": 1},
            3,
        ),
        (
            "rotary-step-places",
            [q[:, :1], k[:, :1], v[:, :1], *long_past, _int32([4, 4]), _int32([5]), cosines, sines, places[:, 2:]],
            {"do_rotary": 1},
            3,
        ),
    ]
    found: list[Seed] = []
    for name, inputs, attributes, outputs in cases:
        attributes = {"num_heads": 2, "kv_num_heads": 1, **attributes}
        found.append(seed("GroupQueryAttention", inputs, attributes, domain=_DOMAIN, outputs=outputs, name=f"grouped-{name}"))
    four = [_normal(1, 3, 32), _normal(1, 3, 16), _normal(1, 3, 16), None, None, _int32([2]), _int32([3])]
    found.append(
        seed(
            "GroupQueryAttention",
            four,
            {"num_heads": 4, "kv_num_heads": 2},
            domain=_DOMAIN,
            outputs=3,
            name="grouped-four",
        )
    )
    return found


def _rotary() -> list[Seed]:
    flat, split = _normal(2, 3, 8), _normal(2, 2, 3, 4)
    cosines, sines = _normal(8, 2), _normal(8, 2)
    each, start = np.array([[0, 3, 2], [7, 7, 1]], np.int64), np.array([4], np.int64)
    cases: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("flat", [flat, each, cosines, sines], {}),
        ("start", [flat, start, cosines, sines], {}),
        ("pairs", [flat, each, cosines, sines], {"interleaved": 1}),
        ("split", [split, each, cosines, sines], {}),
        ("split-pairs", [split, start, cosines, sines], {"interleaved": 1, "scale": 1.0}),
        ("part", [flat, each, cosines[:, :1], sines[:, :1]], {"num_heads": 2, "rotary_embedding_dim": 2}),
        ("part-split", [split, each, cosines[:, :1], sines[:, :1]], {"num_heads": 2, "rotary_embedding_dim": 2}),
    ]
    return [
        seed("RotaryEmbedding", inputs, attributes, domain=_DOMAIN, name=f"rotary-{name}") for name, inputs, attributes in cases
    ]


SEEDS = [*_skip(), *_embed(), *_attention(), *_multi_head(), *_grouped(), *_rotary()]
